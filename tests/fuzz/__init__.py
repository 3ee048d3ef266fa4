"""Fuzzers of all the ways by which a stranger's bytes come in; `make fuzz` runs them."""
