"""The report in a terminal."""
