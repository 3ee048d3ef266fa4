"""Restarts: a log in the order of its steps, where a run that was restarted is told from rows in any order."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from gdpo_audit.logs.refusals import refuse
from gdpo_audit.logs.sizes import WHOLE

ROUNDED = 1e-3  # The part of the sizes of a group's advantages by which rounding may keep their sum from 0.


def in_order(rows: pl.DataFrame, files: Sequence[str]) -> pl.DataFrame:
    """Return all rows in the order of their steps; rows that a restarted run wrote again come after the others.

    `_pass` tells these apart: how often the step has fallen in the file before; it is 0 where that shows no restart.
    """
    falls = (pl.col("step") < pl.col("step").shift(1)).fill_null(False).cast(pl.Int64)
    rows = rows.with_columns(falls.cum_sum().over("_file").alias("_pass"))
    if "_key" in rows.columns and len(files) > 1:
        _expect_one_run(rows, files)
    if rows["_pass"].max() and not _restarted(rows):
        rows = rows.with_columns(pl.lit(0, pl.Int64).alias("_pass"))
    return rows if rows["step"].is_sorted() else rows.sort("step", "_pass", maintain_order=True)


def _restarted(rows: pl.DataFrame) -> bool:
    """Return whether steps fall because the run went back to an earlier step, not because rows are in disorder.

    After a restart a pass goes back to a step in between, or further on than the pass before. Such a pass holds each
    step up to its last one, with as many rows as the steps that come once. A pass over the very same steps shows a
    restart only by its groups.
    """
    passes = rows.group_by("_file", "_pass", "step", maintain_order=True).agg(pl.len().alias("rows"))
    if passes["_pass"].max() >= passes["step"].n_unique():  # type: ignore[operator]
        return False
    once, again = list[int](), list[int]()
    for of_file in passes.partition_by("_file"):
        sizes: dict[int, list[int]] = {}
        for rows_of_pass in of_file.partition_by("_pass"):
            held = dict(rows_of_pass.select("step", "rows").iter_rows())
            first, last = rows_of_pass["step"][0], rows_of_pass["step"][-1]
            if sizes and first == min(sizes) and last <= max(sizes):
                return sizes.keys() == held.keys() and "_key" in rows.columns and len(_groups_again(rows, "_pass")) > 0
            if any(first <= step <= last and step not in held for step in sizes):
                return False
            for step, size in held.items():
                sizes.setdefault(step, []).append(size)
        once += [counts[-1] for counts in sizes.values() if len(counts) == 1]
        again += [counts[-1] for counts in sizes.values() if len(counts) > 1]
    return bool(once and again) and float(np.median(again)) >= WHOLE * float(np.median(once))


def _groups_again(rows: pl.DataFrame, part: str) -> pl.DataFrame:
    """Return the groups that stand in several files, or passes of a file, if most are whole in each of them, else none;
    part: the column that numbers the files or the passes.
    """
    parts = [pl.len().alias("rows")]
    if "advantage" in rows.columns:  # the advantages of a whole group add up to 0
        parts += [pl.col("advantage").sum().alias("sum"), pl.col("advantage").abs().sum().alias("size")]
    groups = rows.group_by(part, "step", "_key", maintain_order=True).agg(parts)
    shared = groups.filter(pl.len().over("step", "_key") > 1)
    usual = min(shared["rows"].mode(), default=0)
    whole = usual > 1 and shared["rows"].to_list().count(usual) / len(shared) >= WHOLE
    if whole and "sum" in shared.columns:
        joined = shared.group_by("step", "_key").agg(pl.col("sum", "size").sum())
        whole = not _add_up(joined) or _add_up(shared)
    return shared if whole else shared.clear()


def _add_up(groups: pl.DataFrame) -> bool:
    """Return whether the advantages of most groups add up to 0."""
    live = groups.filter(pl.col("size") > 0)
    return bool((live["sum"].abs() <= ROUNDED * live["size"]).sum() >= WHOLE * max(len(live), 1))


def _expect_one_run(rows: pl.DataFrame, files: Sequence[str]) -> None:
    """Raise InputError if the files look like separate runs: each has the same steps and groups, complete."""
    again = _groups_again(rows, "_file")
    if len(again):
        a, b = (files[i] for i in again.filter(pl.struct("step", "_key").rank("dense") == 1)["_file"][:2])
        got = f"step {again['step'][0]} with the same groups of {min(again['rows'].mode())} rows as in {a}"
        hint = "give one run's files, or join files that hold parts of one group, in the order of their steps"
        refuse(b, "the log of one run", f"{got}: {hint}")
