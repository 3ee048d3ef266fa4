"""A run from its first to its last step: what drifts, and which batches are there twice."""

from itertools import combinations

import polars as pl

from gdpo_core.summary import Summary, binned

_ROWS = 200

# Small batches may well be equal by chance. A batch that is the one before again holds at least so many pairs of
# responses that differ, or so large a share of the run's batches does the same.
_PAIRS = 24
_SHARE = 0.4


def over_time(summary: Summary) -> pl.DataFrame:
    """A row a step, or a few steps where there are many: at most 200. By reward and method, with their names:

    step, step_last, responses, groups; mean:reward, std:reward, missing:reward (responses), dead:reward (of the groups
    that hold it, the share in which it is constant); share:method:reward (of the update), silent:method (share of the
    groups); correlation:reward:reward (inside groups, in the order of the rewards).
    """
    names = summary.plan.rewards
    b = binned(summary, _ROWS).batches
    methods = [name.removesuffix("_silent_groups") for name in b.columns if name.endswith("_silent_groups")]
    found = {}
    for k, name in enumerate(names):
        n, total, squares = (pl.col(f"{what}_{k}") for what in ("there", "total", "squares"))
        found[f"mean:{name}"] = _ratio(total, n)
        found[f"std:{name}"] = _ratio((squares - total**2 / n).clip(0), n - 1).sqrt()
        found[f"missing:{name}"] = pl.col("responses") - n
        held = pl.col(f"there_groups_{k}").cast(pl.Int64)
        found[f"dead:{name}"] = _ratio(pl.col(f"dead_groups_{k}") - pl.col("groups") + held, held)
    for m in methods:
        parts = [pl.col(f"{m}_part_{k}") for k in range(len(names))]
        for name, part in zip(names, parts, strict=True):
            found[f"share:{m}:{name}"] = _ratio(part, pl.sum_horizontal(parts))
        found[f"silent:{m}"] = _ratio(pl.col(f"{m}_silent_groups"), pl.col("groups"))
    for i, j in combinations(range(len(names)), 2):
        size = (pl.col(f"cross_squares_{i}_{j}") * pl.col(f"cross_squares_{j}_{i}")).sqrt()
        found[f"correlation:{names[i]}:{names[j]}"] = _ratio(pl.col(f"cross_{i}_{j}"), size)
    columns = [pl.col("step", "step_last", "responses", "groups")]
    return b.select(columns + [expression.alias(name) for name, expression in found.items()])


def repeated_batches(batches: pl.DataFrame) -> pl.Series:
    """Which batches hold the same rows as the one before them; a boolean each."""
    same = (batches["fingerprint"] == batches["fingerprint"].shift(1)).fill_null(False)
    # Batches in which nothing differs are alike without being the same.
    same &= batches["different_pairs"] > 0
    often = same.sum() >= _SHARE * max((batches["different_pairs"] > 0).sum() - 1, 1)
    return same & (batches["different_pairs"] >= _PAIRS) if not often or len(batches) < 4 else same


def _ratio(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.when(b > 0).then(a / b)
