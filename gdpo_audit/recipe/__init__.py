"""Recipes of logged advantages: the method, convention and weights that made them, or that these are unknown."""
