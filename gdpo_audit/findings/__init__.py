"""The sums of a run, what they say, and what was tried on its log."""
