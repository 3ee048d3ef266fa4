"""Small apps that the benchmarks measure beside the page. Two show the first section of the page, the board: one is
written in idiomatic marimo, and one in Dash. A third is a marimo app with nothing but a sentence.
"""
