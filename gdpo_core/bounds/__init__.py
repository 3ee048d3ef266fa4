"""Bounds on shares of an update that the means and stds of a step prove without its answers."""
