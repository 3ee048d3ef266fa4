"""Finds the method, convention and weights that made the logged advantages, and proves them by computing."""

from gdpo_core.reproduce.check import allowed, compare, errors, hidden_inputs, same_direction
from gdpo_core.reproduce.recipe import TOLERANCE, Recipe
from gdpo_core.reproduce.search import solve

__all__ = ["TOLERANCE", "Recipe", "allowed", "compare", "errors", "hidden_inputs", "same_direction", "solve"]
