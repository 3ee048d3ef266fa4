"""Small apps that the benchmarks measure beside the page: its first section, the board, written in idiomatic marimo and
in Dash; and a marimo app with nothing but a sentence.
"""
