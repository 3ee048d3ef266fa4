"""The page's first section, the board, written in other ways: benchmarks measure them beside the page."""
