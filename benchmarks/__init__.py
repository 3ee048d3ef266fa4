"""Costs of the page and the library in time, against other ways to write the same: `make bench`."""
