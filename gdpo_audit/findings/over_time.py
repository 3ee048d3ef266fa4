"""The table of a run, a row per step, and the names of its columns."""

from collections.abc import Collection
from itertools import combinations
from math import nan

import numpy as np
import polars as pl

from gdpo_audit.findings.sums import Array, Plan, Sums, bin_batches

MEAN, STD = "mean", "std"  # of a reward
MISSING = "missing"  # responses without a reward
DEAD = "dead"  # the share, of the groups that hold a reward, in which it is constant
SHARE = "share"  # under a method, of a reward in the update
TIES = "ties"  # under a method, the share of the groups whose rewards differ that hold a tie
SILENT = "silent"  # under a method, the share of the groups without any advantage
CORRELATION = "correlation"  # of two rewards inside groups


def column(what: str, *of: str) -> str:
    """The name of a column: what it holds, and the method, the reward or the two rewards that it is of.

    >>> column(SHARE, "gdpo", "style")
    'share:gdpo:style'
    """
    return ":".join([what, *of])


def over_time(plan: Plan, batches: Sums[Array], untold: Collection[str] = ()) -> pl.DataFrame:
    """The run in at most 200 rows: one row per step, or per few steps where there are more.

    The columns: step, step_last, responses, groups; by reward its `MEAN`, `STD`, `MISSING` and `DEAD`; by method its
    `SHARE` of each reward, `TIES` and `SILENT`; by pair, in the order of the rewards, their `CORRELATION`.
    untold: rewards whose share the log does not tell.
    """
    b = bin_batches(batches)
    sums, numbered = b.rewards, list(enumerate(plan.rewards))
    columns = {"step": b.step, "step_last": b.step_last, "responses": b.responses, "groups": b.groups}
    for k, name in numbered:
        n, total = sums.present[k], sums.total[k]
        variance = _ratio(sums.scatter[k], n - 1)
        missing_groups = b.groups - sums.holding_groups[k]
        columns[column(MEAN, name)] = _ratio(total, n)
        columns[column(STD, name)] = np.sqrt(variance)
        columns[column(MISSING, name)] = b.responses - n
        columns[column(DEAD, name)] = _ratio(sums.dead_groups[k] - missing_groups, sums.holding_groups[k])
    for m, method in b.methods.items():
        shares = _ratio(method.update, method.squares)
        columns |= {column(SHARE, m, name): shares[k] * (nan if name in untold else 1) for k, name in numbered}
        columns[column(TIES, m)] = _ratio(method.tie_groups, method.mixed_groups)
        columns[column(SILENT, m)] = _ratio(method.silent_groups, b.groups)
    for (i, first), (j, second) in combinations(numbered, 2):
        size = np.sqrt(sums.squared[i, j] * sums.squared[j, i])
        columns[column(CORRELATION, first, second)] = _ratio(sums.products[i, j], size)
    return pl.DataFrame(columns).fill_nan(None)


def _ratio(part: Array, whole: Array) -> Array:
    """One divided by the other, NaN where the other is not above 0."""
    return np.divide(part, whole, out=np.full(part.shape, nan), where=whole > 0)
