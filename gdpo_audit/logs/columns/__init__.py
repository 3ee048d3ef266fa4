"""Columns: which columns of a log are rewards, weights, steps, advantages, prompts and texts."""
