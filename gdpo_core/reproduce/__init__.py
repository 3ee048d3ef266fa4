"""Moved to gdpo_core.runs."""  # shim: the lead removes it

from collections.abc import Sequence

import polars as pl
from torch import Tensor

from gdpo_core.runs import recipe as _recipe
from gdpo_core.runs.recipe import TOLERANCE, Recipe, hidden_inputs
from gdpo_core.runs.solve import solve

__all__ = ["TOLERANCE", "Recipe", "compare", "hidden_inputs", "same_direction", "solve"]


def compare(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Errors and what is allowed; new code: recipe.compare(log, recipe).error and .allowed."""
    comparison = _recipe.compare(_recipe.read_log(table, rewards), recipe)
    return comparison.error, comparison.allowed


def same_direction(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> Tensor:
    """New code: recipe.same_direction(log, comparison)."""
    log = _recipe.read_log(table, rewards)
    return _recipe.same_direction(log, _recipe.compare(log, recipe))
