"""A run from its first to its last step: rewards and methods per step, and batches that are repeated."""

from itertools import combinations

import polars as pl

from gdpo_core.summary import Summary, binned

_ROWS = 200

# Small batches can be equal by chance. A batch counts as repeated if it holds at least so many pairs of responses that
# differ, or if at least this share of the run's batches equals the batch before.
_PAIRS = 24
_SHARE = 0.4


def over_time(summary: Summary) -> pl.DataFrame:
    """The run in at most 200 rows: one row per step, or per few steps where there are more. The columns:

    step, step_last, responses, groups. By reward: mean:reward, std:reward, missing:reward (responses), dead:reward (the
    share, of the groups that hold the reward, in which it is constant). By method: share:method:reward (of the update),
    silent:method (share of the groups). By pair in the order of the rewards: correlation:reward:reward (inside groups).
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
    """One boolean per batch: whether it repeats the rows of the batch before it."""
    same = (batches["fingerprint"] == batches["fingerprint"].shift(1)).fill_null(False)
    # Batches in which nothing differs are equal without being repeated.
    differs = batches["different_pairs"] > 0
    same &= differs
    often = int(same.sum()) >= _SHARE * max(int(differs.sum()) - 1, 1)
    return same & (batches["different_pairs"] >= _PAIRS) if not often or len(batches) < 4 else same


def _ratio(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.when(b > 0).then(a / b)
