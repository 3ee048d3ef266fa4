"""Fuzzers of the doors by which a stranger's bytes come in; `make fuzz` runs them."""
