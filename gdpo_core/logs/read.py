"""`read_run`: reads a log of any framework and finds its groups."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import numpy as np
import polars as pl

from gdpo_core.errors import InputError, expect, is_whole
from gdpo_core.logs import generic, groups, ms_swift, nemo_rl, trl, verl
from gdpo_core.logs.detect import detect, framework_named
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, Source, find
from gdpo_core.logs.flat import named
from gdpo_core.logs.run import Run, Trap

Tables: TypeAlias = Callable[[], Iterator[pl.DataFrame]]

MANY = 0.5  # share of groups of an unusual size; where it is larger, groups have not lost rows but differ in size
READERS = {
    "trl": trl.read,
    "verl": verl.read,
    "ms_swift": ms_swift.read,
    "nemo_rl": nemo_rl.read,
    "generic": generic.read,
}


def read_run(
    path: Source,
    framework: str | None = None,
    group_size: int | None = None,
    rewards: Sequence[str] | str | None = None,
    group: str | None = None,
    *,
    advantage: str | None = None,
    length: str | None = None,
    step: str | None = None,
    skip_bad_lines: bool = False,
) -> Run:
    """The log of a run, as a training framework wrote it.

    path: a file, directory, glob or zip, several of them, or {name: bytes}.
    framework: trl (axolotl writes the same), verl, ms_swift, nemo_rl or generic; inferred from the content by default.
    group_size: responses per group, if groups are blocks of rows; inferred from advantages and prompts by default.
    rewards, group, advantage, length, step: names of columns.
    skip_bad_lines: leave out and count broken lines of JSON.
    Raises InputError, naming the file, and the column and row or line, if the log cannot be read.
    """
    found = find(path)
    _expect_names(group=group, advantage=advantage, length=length, step=step)
    fits = group_size is None or (is_whole(group_size) and group_size > 0)
    expect(fits, "group_size", "a positive whole number", repr(group_size))
    asked = Asked(
        rewards=named(rewards),
        group=group,
        advantage=advantage,
        length=length,
        step=step,
        group_size=None if group_size is None else int(group_size),
        skip_bad_lines=bool(skip_bad_lines),
    )
    framework = framework_named(framework) if framework is not None else None
    with _one_error(found.name):
        framework = framework or detect(found, asked)
        draft = READERS[framework](found, asked)
        size, tables, traps, grouped_by, other_sizes = _grouped(found, asked, draft)
    columns = ["batch", "step", "group", *draft.rewards]
    columns += ["advantage"] * draft.has_advantage + ["length"] * draft.has_length
    run = Run(
        path=found.name,
        framework=framework,
        files=tuple(file.name for file in found.files),
        rewards=draft.rewards,
        group_size=size,
        grouped_by=grouped_by,
        grouped_by_column=bool(draft.keyed),
        total_only=draft.total_only,
        has_advantage=draft.has_advantage,
        has_length=draft.has_length,
        traps=(*draft.traps, *traps),
        skipped_lines=draft.skipped.count,
        left_out=draft.left_out,
        asked=draft.asked,
        weights=draft.weights,
        weights_by=draft.weights_by,
        other_sizes=other_sizes,
        _regrouped=lambda other: read_run(
            path,
            framework,
            other,
            asked.rewards,
            advantage=advantage,
            length=length,
            step=step,
            skip_bad_lines=skip_bad_lines,
        ),
        _tables=partial(_tables, tables, columns, draft.rewards, found.name),
    )
    next(run.tables())  # a fault in the first rows is reported now
    return run


def _expect_names(**columns: str | None) -> None:
    for name, value in columns.items():
        expect(value is None or (isinstance(value, str) and value != ""), name, "the name of a column", repr(value))


@contextmanager
def _one_error(where: str) -> Iterator[None]:
    """Turn an error of polars that no check foresaw into an InputError."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{where}: expected a log that can be read as a table, got {why}") from None


def _tables(tables: Tables, columns: list[str], rewards: tuple[str, ...], where: str) -> Iterator[pl.DataFrame]:
    """Tables with the columns in order; InputError if there is no row, or no value of any reward."""
    rows = there = 0
    frames = tables()
    while True:
        with _one_error(where):
            table = next(frames, None)
        if table is None:
            break
        rows += len(table)
        there += sum(int(table[name].is_not_nan().sum()) for name in rewards) if there == 0 else 0
        yield table.select(columns)
    expect(rows > 0, where, "at least one response", "0 rows")
    expect(there > 0, where, f"a value in {', '.join(rewards)}", "every one missing")


def _grouped(found: Found, asked: Asked, draft: Draft) -> tuple[int | None, Tables, list[Trap], str, tuple[int, ...]]:
    """The group size, a function that reads tables with groups, traps, how groups were found, and other sizes."""
    if draft.keyed:
        size, traps = _sizes_by_key(found, asked, draft)
        return size, lambda: groups.by_key(draft.rows()), traps, draft.keyed, ()
    sizes, advantages = _batches(draft, found)
    given = asked.group_size or draft.group_size
    others: tuple[int, ...] = ()
    prompts = draft.prompts()
    if given is None or (asked.group_size is None and any(n % given for n in sizes.rows)):
        inferred = groups.infer(sizes.rows, advantages, _ids(prompts))
        if inferred is None:
            raise InputError(
                f"{found.name}: expected groups that can be told from prompts or advantages, got none; "
                f"give group_size, the responses per prompt, or the group column (rewards: {', '.join(draft.rewards)})"
            )
        given, others = inferred.size, inferred.others
    size = given
    ragged = [i for i, n in enumerate(sizes.rows) if n % size]
    if ragged and asked.group_size:
        rows, step = sizes.rows[ragged[0]], sizes.steps[ragged[0]]
        file = found.files[sizes.files[ragged[0]]].name
        raise InputError(f"{file}: expected rows that groups of {size} divide, got {rows} in step {step}")
    traps = []
    if ragged:
        first = ragged[0]
        evidence = {"group_size": size, "batches": len(ragged), "of": len(sizes.rows)}
        traps.append(Trap("ragged-batches", evidence | {"step": sizes.steps[first], "rows": sizes.rows[first]}))
    merged = None if prompts is None else groups.merged_prompts(prompts, size)
    if merged:
        traps.append(Trap("prompts-merged", merged))

    def tables() -> Iterator[pl.DataFrame]:
        return groups.in_blocks(draft.rows(), size)

    return None if ragged else size, tables, traps, f"blocks of {size} rows", others


class _Sizes:
    """Rows, step and file of each batch."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.steps: list[int] = []
        self.files: list[int] = []

    def add(self, counted: pl.DataFrame) -> None:
        self.rows += counted["rows"].to_list()
        self.steps += counted["step"].to_list()
        self.files += counted["_file"].to_list()


def _batches(draft: Draft, found: Found) -> tuple[_Sizes, list[np.ndarray]]:
    sizes = _Sizes()
    advantages: list[np.ndarray] = []
    for rows in (draft.outline or draft.rows)():
        counted = rows.group_by("batch", maintain_order=True).agg(
            pl.len().alias("rows"), pl.col("step").first(), pl.col("_file").first()
        )
        sizes.add(counted)
        if draft.has_advantage and len(advantages) < groups.BATCHES:
            start = 0
            values = rows["advantage"].to_numpy()
            for n in counted["rows"].to_list():
                advantages.append(values[start : start + n])
                start += n
    expect(bool(sizes.rows), found.name, "at least one response", "0 rows")
    return sizes, advantages[: groups.BATCHES]


def _ids(prompts: pl.DataFrame | None) -> list[np.ndarray]:
    """The prompts of each batch, without the last one, which the sample may have cut off."""
    if prompts is None or not len(prompts):
        return []
    parts = [part["_key"].to_numpy() for part in prompts.partition_by("batch", maintain_order=True)]
    return parts[:-1] if len(parts) > 1 else parts


def _sizes_by_key(found: Found, asked: Asked, draft: Draft) -> tuple[int | None, list[Trap]]:
    counts = [
        rows.group_by("batch", "_key", maintain_order=True).agg(
            pl.len().alias("rows"), pl.col("step").first(), pl.col("_file").first()
        )
        for rows in (draft.outline or draft.rows)()
    ]
    expect(bool(counts), found.name, "at least one response", "0 rows")
    sizes = pl.concat(counts)
    usual = asked.group_size or min(sizes["rows"].mode())
    if asked.group_size:
        odd = sizes.filter(pl.col("rows") % usual != 0)
        if len(odd):
            file, rows, step = found.files[odd["_file"][0]].name, odd["rows"][0], odd["step"][0]
            raise InputError(f"{file}: expected groups of {usual} rows by {draft.keyed}, got {rows} in step {step}")
    merged = sizes.filter((pl.col("rows") > usual) & (pl.col("rows") % usual == 0)) if usual > 1 else sizes.head(0)
    traps = []
    if len(merged):
        evidence = {"step": merged["step"][0], "steps": merged["step"].n_unique(), "groups": len(merged)}
        evidence |= {"group_size": usual, "rows": merged["rows"][0], "looked_at_groups": len(sizes)}
        traps.append(Trap("prompts-merged", evidence))
    cut = sizes.filter(pl.col("rows") % usual != 0)
    if draft.one_size and 0 < len(cut) < MANY * len(sizes):
        evidence = {"group_size": usual, "batches": cut["batch"].n_unique(), "of": sizes["batch"].n_unique()}
        evidence |= {"step": cut["step"][0], "rows": cut["rows"][0], "groups": len(cut)}
        traps.append(Trap("ragged-batches", evidence))
    return (usual if sizes["rows"].n_unique() == 1 else None), traps
