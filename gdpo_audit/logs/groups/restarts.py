"""Restarts: a log is put in the order of its steps, and rows that a restarted run wrote again are told apart."""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from gdpo_audit.logs.numbers.sizes import WHOLE
from gdpo_audit.logs.refusals import refuse
from gdpo_audit.records import LogIssue

CHANCES = 10  # by chance all of so many counts are even once in a thousand times
_ROUNDED = 1e-3  # how far rounding may keep a group's sum of advantages from 0, as a share of the sum of their sizes


def in_order(rows: pl.DataFrame, files: Sequence[str], parts: bool = False) -> pl.DataFrame:
    """Return all rows sorted by step, and within a step by `_pass`: rows that a restarted run wrote again come later.

    `_pass` is a new column: how often the step has fallen in the file up to the row. It is 0 everywhere if these falls
    show no restart. Where the run was started again in other files, their rows come in later passes than those of the
    files before. Rows of one step and one pass keep their order.
    rows: the rows of all files, with the columns `step` and `_file`, the number of the file in `files`. Where the log
        has them, there are also `_key`, which tells the groups of a step apart, and `advantage`.
    files: the names of the files.
    parts: whether the files are those of several folders, which are no log of one run unless they continue each other.

    Raises InputError if the files look like separate runs.
    """
    falls = (pl.col("step") < pl.col("step").shift(1)).fill_null(False).cast(pl.Int64)
    rows = rows.with_columns(falls.cum_sum().over("_file").alias("_pass"))
    starts = _starts(rows, files)
    if starts is None and parts:
        refuse(files[-1], "the log of one run", "steps that do not continue those of another folder")
    if starts is None and "_key" in rows.columns and len(files) > 1:
        _expect_one_run(rows, files)
    if rows["_pass"].max() and not _restarted(rows):
        rows = rows.with_columns(pl.lit(0, pl.Int64).alias("_pass"))
    if starts is not None:
        later = pl.col("_file").replace_strict(starts, return_dtype=pl.Int64) * (rows["_pass"].max() + 1)  # type: ignore
        rows = rows.with_columns(pl.col("_pass") + later)
    return rows if rows["step"].is_sorted() else rows.sort("step", "_pass", maintain_order=True)


def _starts(rows: pl.DataFrame, files: Sequence[str]) -> dict[int, int] | None:
    """Return, by the number of a file, how often the run had been started again before it; None if it never was.

    The files of a start lie in one folder, or, if all files lie in one folder, have the same first and last step. Each
    start begins later than the one before and goes on further. If some of their steps overlap, whole groups have to
    stand in both there, as the run drew the same prompts again.
    rows: the rows of all files, with the columns `step`, `_file` and, where a column tells groups apart, `_key`.
    files: the names of the files.
    """
    spans = rows.group_by("_file").agg(pl.col("step").min().alias("first"), pl.col("step").max().alias("last"))
    folders = [name.replace("\\", "/").rpartition("/")[0] for name in files]
    by_folder = len({*folders}) > 1
    starts: dict[object, list[int]] = {}
    for file, first, last in spans.sort("_file").iter_rows():
        starts.setdefault(folders[file] if by_folder else (first, last), []).append(file)
    of_files = {file: number for number, members in enumerate(starts.values()) for file in members}
    rows = rows.with_columns(pl.col("_file").replace_strict(of_files, return_dtype=pl.Int64).alias("_start"))
    spans = rows.group_by("_start").agg(pl.col("step").min().alias("first"), pl.col("step").max().alias("last"))
    spans = spans.sort("first", "last")
    continues = (spans["first"].diff().drop_nulls() > 0).all() and (spans["last"].diff().drop_nulls() > 0).all()
    if len(spans) < 2 or not continues:
        return None
    overlap = (spans["first"].shift(-1) <= spans["last"]).any()
    if overlap and ("_key" not in rows.columns or not len(_groups_again(rows, "_start"))):
        return None
    order = {start: number for number, start in enumerate(spans["_start"].to_list())}
    return {file: order[start] for file, start in of_files.items()}


def _restarted(rows: pl.DataFrame) -> bool:
    """Return whether the steps fall because the run went back to an earlier step, not because rows are in disorder.

    A pass is the rows of a file between two falls of the step. No file may have as many falls as the log has different
    steps. The passes are then looked at in order, file by file:
    - A later pass that begins at the smallest step of the earlier ones, and goes on no further, decides alone: it is a
      restart if the run began anew (`_begins_anew`).
    - A pass that lacks a step of an earlier pass, between its own first and last step, is none.

    If no pass decides, some steps have to stand in one pass and some in several. By the medians, a step that stands in
    several has about as many rows in its last pass as a step that stands in one, or more.
    rows: all rows, with the columns `step`, `_file` and `_pass`.
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
                return _begins_anew(rows, sizes, held)
            if any(first <= step <= last and step not in held for step in sizes):
                return False
            for step, size in held.items():
                sizes.setdefault(step, []).append(size)
        once += [counts[-1] for counts in sizes.values() if len(counts) == 1]
        again += [counts[-1] for counts in sizes.values() if len(counts) > 1]
    return bool(once and again) and float(np.median(again)) >= WHOLE * float(np.median(once))


def _begins_anew(rows: pl.DataFrame, earlier: Collection[int], steps: Collection[int]) -> bool:
    """Return whether a pass repeats the whole run so far: it has exactly the steps of the earlier passes, and some
    groups stand in several passes.

    rows: all rows, with the columns `step` and `_pass` and, where a column tells groups apart, `_key`.
    earlier: the steps of the earlier passes.
    steps: the steps of the pass.
    """
    if "_key" not in rows.columns or set(earlier) != set(steps):
        return False
    return len(_groups_again(rows, "_pass")) > 0


def _groups_again(rows: pl.DataFrame, numbered_by: str) -> pl.DataFrame:
    """Return a table of the groups whose rows stand in several files (or passes), with a row per group and file (or
    pass).

    Its column `rows` says how many rows the group has in that file. If advantages are logged, two columns are about the
    group's advantages there: `sum` is their sum, and `size` the sum of their absolute values.
    The table is empty if the groups do not seem to be whole in each file. They seem to be whole if at least the share
    `WHOLE` of the table's rows have the same number in `rows`, above 1. Advantages that add up to 0 in each group over
    all files together also have to do so in each file.
    rows: the rows of all files.
    numbered_by: the column with the number of the file or the pass.
    """
    figures = [pl.len().alias("rows")]
    if "advantage" in rows.columns:  # the advantages of a whole group add up to 0
        figures += [pl.col("advantage").sum().alias("sum"), pl.col("advantage").abs().sum().alias("size")]
    groups = rows.group_by(numbered_by, "step", "_key", maintain_order=True).agg(figures)
    shared = groups.filter(pl.len().over("step", "_key") > 1)
    usual = min(shared["rows"].mode(), default=0)
    whole = usual > 1 and shared["rows"].to_list().count(usual) / len(shared) >= WHOLE
    if whole and "sum" in shared.columns:
        joined = shared.group_by("step", "_key").agg(pl.col("sum", "size").sum())
        whole = not _add_up(joined) or _add_up(shared)
    return shared if whole else shared.clear()


def _add_up(groups: pl.DataFrame) -> bool:
    """Return whether in at least the share `WHOLE` of groups the advantages add up to 0.

    Groups in which all advantages are 0 do not count. If no group counts, the result is False.
    groups: for each group the sum of its advantages (`sum`), and the sum of their absolute values (`size`).
    """
    live = groups.filter(pl.col("size") > 0)
    return bool((live["sum"].abs() <= _ROUNDED * live["size"]).sum() >= WHOLE * max(len(live), 1))


def _expect_one_run(rows: pl.DataFrame, files: Sequence[str]) -> None:
    """Raise InputError if the files look like separate runs, because they share steps and whole groups.

    rows: the rows of all files.
    files: the names of the files.
    """
    again = _groups_again(rows, "_file")
    if len(again):
        a, b = (files[i] for i in again.filter(pl.struct("step", "_key").rank("dense") == 1)["_file"][:2])
        got = f"step {again['step'][0]} with the same groups of {min(again['rows'].mode())} rows as in {a}"
        hint = "give one run's files, or join files that hold parts of one group, in the order of their steps"
        refuse(b, "the log of one run", f"{got}: {hint}")


def rows_twice(sample: Sequence[pl.DataFrame], larger: pl.DataFrame, groups: int) -> list[LogIssue]:
    """Return an issue if each row of the groups or batches that are too large stands there an even number of times:
    then they were logged again, as by a run that was started again. A sample of the rows decides.

    Few different rows do so by chance, each about every second time. So there have to be `CHANCES` more different rows
    than groups, or batches, that were looked at.

    sample: tables with some rows of the log.
    larger: a row for each group, or batch, that holds a multiple of the usual rows, with `batch` and `step`, and with
        `_key` where it is a group.
    groups: how many groups these are.
    """
    by = [name for name in ("batch", "_key") if name in larger.columns]
    tables = [table.join(larger.select(by), on=by) for table in sample] if len(larger) else []
    rows = pl.concat(tables) if tables else pl.DataFrame()
    if not len(rows):
        return []
    times = rows.group_by([name for name in rows.columns if name not in ("_place", "_file")]).len()["len"]
    if (times % 2 != 0).any() or len(times) - rows.select(pl.struct(by).n_unique()).item() < CHANCES:
        return []
    return [LogIssue("rows-twice", {"groups": groups, "steps": larger["step"].unique().sort().to_list()})]
