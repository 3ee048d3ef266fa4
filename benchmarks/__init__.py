"""Benchmarks of the page and the library, beside other ways to do the same: `make bench` runs them."""
