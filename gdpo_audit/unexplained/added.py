"""A search for a column that was added to the advantages after a method had made them, such as a KL penalty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gdpo_audit.logs.names import reward_columns
from gdpo_audit.recipe.recipe import Recipe

_LEAST = 8  # the fewest groups that each show how much of the column was added
_ALIKE = 1e-3  # how far apart these amounts may be, relatively
_FITS = 1e-5  # the part of the advantages that a linear function of the columns may miss in a group


@dataclass(frozen=True)
class Added:
    """A column of which a multiple was added to the advantages that a recipe makes.

    times: the factor of the column.
    over: "batch" or "group" if the mean of the column over each batch or group was subtracted from it first, else
        empty.
    recipe: the recipe that made the advantages before the column was added.
    """

    column: str
    times: float
    over: str
    recipe: Recipe


_Solve = Callable[[list[pl.DataFrame]], Recipe | None]  # returns the recipe that makes every advantage of some tables


def added_column(tables: Sequence[pl.DataFrame], rewards: Sequence[str], column: str, solve: _Solve) -> Added | None:
    """Return how a column was added to the advantages of some tables, with the recipe that made the advantages before
    that. None if adding the column does not explain the advantages.

    A multiple of the column can only have been added if, inside each group, the advantages are a linear function of the
    rewards and the column. The factor of the column in that function has to be the same for all groups.

    tables: the log's tables, in which the column is one more reward, behind `rewards`.
    rewards: the names of the rewards without the column.
    column: the name of the column.
    solve: returns the recipe that makes every advantage of the tables that it is given, or None. Here it is given the
        tables with the column, times its factor, subtracted from the advantages.
    """
    table = pl.concat(tables)
    times = _common_slope(table, [*rewards, column])
    if times is None:
        return None
    for over in ("batch", "group", ""):
        recipe = solve([_without(table, column, times, over) for table in tables])
        if recipe is not None:
            return Added(column, times, over, recipe)
    return None


def _common_slope(table: pl.DataFrame, names: Sequence[str]) -> float | None:
    """Return the factor by which the last of the named columns was multiplied and added to the advantages.

    A group shows a factor if its advantages are a linear function of the columns, and if it has so many different rows
    that this is no chance. Other groups do not count. The result is the median over the groups that show one, rounded
    to four digits.

    None if fewer than `_LEAST` groups show a factor, if at most half of these have about the median, or if the median
    is 0.
    """
    x, a = table.select(reward_columns(names)).to_numpy(), table["advantage"].to_numpy()
    group, slopes = table["group"].to_numpy(), list[float]()
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    for rows in np.split(np.arange(len(group)), starts[1:]):
        inside = x[rows] - x[rows].mean(0)
        varies = np.ptp(inside, 0) > 0
        enough = len(rows) > varies.sum() + 2 and varies[-1] and np.isfinite(a[rows]).all()
        if not enough or np.linalg.matrix_rank(inside[:, varies]) < varies.sum():
            continue
        target = a[rows] - a[rows].mean()
        w = np.linalg.lstsq(inside[:, varies], target, rcond=None)[0]
        if np.abs(inside[:, varies] @ w - target).max() <= _FITS * max(np.abs(target).max(), 1e-9):
            slopes.append(float(w[-1]))
    if len(slopes) < _LEAST:
        return None
    middle = float(np.median(slopes))
    near = np.abs(np.array(slopes) - middle) <= _ALIKE * abs(middle)
    return float(f"{middle:.4g}") if middle and near.mean() > 0.5 else None


def _without(table: pl.DataFrame, column: str, times: float, over: str) -> pl.DataFrame:
    """Return the table with `times` times the column subtracted from its advantages.

    times: the factor of the column.
    over: "batch" or "group" if the column counts minus its mean in each batch or group, as it did when it was added; ""
        if it counts as it is.
    """
    [name] = reward_columns([column])
    value = pl.col(name)
    mean = value.mean().over(over) if over else pl.lit(0.0)
    return table.with_columns(advantage=pl.col("advantage") - times * (value - mean))
