"""Arithmetic on the numbers of a log, which says what they may be: sums, groups, sizes, copies."""
