"""The page's first section, written in other ways in order to be measured beside it."""
