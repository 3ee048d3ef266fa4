"""Benchmarks of the page and the library, most of them beside other programmes that do the same work. `make bench` runs
all of them but `recipes`, which takes minutes and is only run by its name.
"""
