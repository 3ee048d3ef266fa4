"""The page's first section written in other ways, to be measured beside it."""
