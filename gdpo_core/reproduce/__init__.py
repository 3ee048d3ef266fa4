"""Which method, convention and weights made the logged advantages: solved for, then proven by computing them."""

from gdpo_core.reproduce.check import allowed, compare, errors, hidden_inputs, same_direction
from gdpo_core.reproduce.recipe import TOLERANCE, Recipe
from gdpo_core.reproduce.search import solve

__all__ = ["TOLERANCE", "Recipe", "allowed", "compare", "errors", "hidden_inputs", "same_direction", "solve"]
