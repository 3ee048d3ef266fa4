"""Values far below or above all others of a reward, such as −1 for a judge that failed, which few responses have, but
which make most of the reward's spread inside groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gdpo_audit import thresholds as t
from gdpo_audit.logs.names import reward_column


@dataclass(frozen=True)
class Sentinel:
    """A value of a reward that stands far from all others, with what it does.

    value: the value.
    low: the smallest of the other values.
    high: the largest of the other values.
    rows: the share of the responses that have it.
    variance: the share of the reward's variance inside groups that these responses make.
    far: whether it is farther from the others than they are from each other.
    """

    value: float
    low: float
    high: float
    rows: float
    variance: float
    far: bool


def sentinels_of(tables: Sequence[pl.DataFrame], rewards: Sequence[str]) -> dict[str, Sentinel]:
    """Return the value that stands far from all others and makes most of a reward's spread inside groups, by
    reward. Rewards without such a value are left out.

    tables: whole batches of the run.
    rewards: the names of the rewards.
    """
    by_reward = dict[str, Sentinel]()
    for name in rewards:
        column = reward_column(name)
        rows = pl.concat([table.select("group", pl.col(column).alias("value")) for table in tables])
        rows = rows.filter(pl.col("value").is_finite())
        values = rows.group_by("value").len().sort("value")
        for end in (0, -1) if len(values) > t.SENTINEL_VALUES else ():
            if (sentinel := _at_end(rows, values, end)) is not None:
                by_reward[name] = sentinel
                break
    return by_reward


def _at_end(rows: pl.DataFrame, values: pl.DataFrame, end: int) -> Sentinel | None:
    """Return the smallest or the largest value of a reward if it is a sentinel; otherwise None.

    rows: the responses, with the columns `group` and `value`.
    values: the different values in order, and how many responses have each (`len`).
    end: 0 for the smallest value, -1 for the largest.
    """
    value, times = values["value"][end], values["len"][end]
    usual = values[1:] if end == 0 else values[:-1]
    low, high, beside = usual["value"][0], usual["value"][-1], usual["len"][end]
    gap = low - value if end == 0 else value - high
    far = gap > high - low
    few = t.SENTINEL_LEAST <= times <= t.SENTINEL_ROWS * len(rows)
    # Other values lie between natural extremes and the rest; a sentinel is more common than its neighbour.
    apart = far if end else far or (times >= t.SENTINEL_SPIKE * beside and gap >= np.median(np.diff(usual["value"])))
    if not few or not apart:
        return None
    of_value = (rows["value"] == value).to_numpy()
    rest, squares = _squares(rows.filter(pl.col("value") != value)), _squares(rows)
    spread = np.sqrt(rest.mean())
    mixed = rows.filter((pl.col("value") == value).any().over("group") & (pl.col("value") != value))["value"].to_numpy()
    distance = abs(mixed.mean() - value) if len(mixed) else 0.0
    if not spread or distance < t.SENTINEL_STDS * spread:
        return None
    variance = float(squares[of_value].sum() / squares.sum())
    return Sentinel(value, low, high, times / len(rows), variance, far) if variance >= t.SENTINEL_VARIANCE else None


def _squares(rows: pl.DataFrame) -> np.ndarray:
    """Return the squared distance of each value from the mean of its group.

    rows: the responses, with the columns `group` and `value`.
    """
    centred = pl.col("value") - pl.col("value").mean().over("group")
    return rows.select(centred**2).to_series().to_numpy()
