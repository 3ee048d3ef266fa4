"""Reads logs of no known framework: Parquet, CSV, TSV, JSON lines or JSON, with named columns or usual names."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core.runs import tables
from gdpo_core.runs.columns import (
    SAMPLE,
    Columns,
    ReadOptions,
    batches,
    expect_columns,
    holds_lists,
    is_ordered,
    left_out,
    refuse_numeric_texts,
    standard_rows,
    union_schema,
    validate_columns,
)
from gdpo_core.runs.files import LogFile, LogFiles, format_of
from gdpo_core.runs.nested import refuse_nested_rewards
from gdpo_core.runs.roles import ADVANTAGES, RewardChoice, choose, lost
from gdpo_core.runs.run import LogIssue, Rows, Run, run_of
from gdpo_core.runs.tables import Schema, is_number_type, parquet_frames, read_file
from gdpo_core.runs.texts import texts_of

STEPS = ("step", "global_step", "gen_step", "training_step", "iteration", "iter")
GROUPS = (
    *("group", "group_id", "uid", "prompt_id", "group_index", "prompt_idx", "prompt_index"),
    *("prompt", "input", "question"),
)
LENGTHS = (
    *("length", "completion_length", "response_length", "num_tokens", "tokens"),
    *("completion_tokens", "response_tokens"),
)
# Numbers that are logged beside rewards.
NOT_REWARDS = {
    *("epoch", "index", "idx", "id", "row", "seed", "rank", "timestamp", "time", "sample_id", "request_id", "rollout"),
    *("rollout_id", "completion_id", "response_id", "sample", "batch", "unnamed: 0", "", "task_id", "worker"),
    *("answer", "target", "label", "labels", "ground_truth", "gts", "gold", "solution", "reference", "expected"),
}
KNOWN = {*STEPS, *GROUPS, *NOT_REWARDS}
SAMPLE_ROWS = 5_000  # rows that tell rewards from totals and metrics
WHOLE = 0.8  # files are separate runs if this share of the groups that they have in common has the usual size
ROUNDED = 1e-3  # of the sizes of a group's advantages, which their sum may be off by where they were rounded


def matches(columns: Collection[str]) -> bool:
    """Every table is a log of this kind where no framework knows its columns."""
    return True


def read(log: LogFiles, options: ReadOptions) -> Run:
    """A log of any form: rewards are the columns named, else the number columns that look like rewards."""
    files = log.files
    kind = _one_format(files)
    schemas = [tables.schema(file, options.bad_lines) for file in files]
    schema = union_schema(schemas)
    if options.rewards is None:
        refuse_nested_rewards(files[0], options.bad_lines)
    no_rows = kind in ("csv", "tsv") and all(one == pl.Null for one in schema.values())
    expect(not no_rows, files[0].name, "at least one response", "0 rows")
    columns, chosen = _columns(files, schema, options)
    _expect_in_every_file(columns, files, schemas)
    known = KNOWN if options.rewards is None else {*schema} - {*ADVANTAGES, *LENGTHS}
    used = [*columns.names, *(name for name in schema if name.lower() in known or name in known)]
    used += [chosen.total] if chosen.total else []
    refuse_numeric_texts(files, schemas, used, options.bad_lines)

    def frames(wanted: Columns) -> Iterator[pl.DataFrame]:
        raw = parquet_frames(files, schemas, wanted.names) if kind == "parquet" else _texts(files, wanted, options)
        return (standard_rows(frame, wanted, files) for frame in raw)

    # Only Parquet can read the steps alone; text is parsed whole in any case.
    ordered = columns.step is None or (kind == "parquet" and is_ordered(frames(Columns(rewards=(), step=columns.step))))

    def rows() -> Iterator[pl.DataFrame]:
        by = ["step"] if columns.step else ["_file"]
        if ordered:
            return batches(frames(columns), by)
        return batches(_in_order(frames(columns), files), [*by, "_pass"])

    beside = left_out(schema, [*columns.names, *([chosen.total] if chosen.total else [])])
    return run_of(
        log,
        "generic",
        Rows(
            columns=columns,
            read=rows,
            keyed_by=columns.key and f"the column {columns.key}",
            texts=texts_of(files, options.bad_lines),
        ),
        total_only=chosen.total_only,
        issues=(*chosen.issues, *_one_reward(chosen)),
        left_out=beside,
        lost=lost(schema, [name for name in beside if name.lower() not in KNOWN], options.rewards),
        weights=chosen.weights,
        weights_by="score" if chosen.weights else None,
    )


def _one_reward(chosen: RewardChoice) -> list[LogIssue]:
    """An issue for the only reward of a log, which may be a total."""
    alone = len(chosen.rewards) == 1 and chosen.total is None
    return [LogIssue("no-components", {"framework": "generic", "has": list(chosen.rewards)})] if alone else []


def _one_format(files: Sequence[LogFile]) -> str:
    first, *rest = files
    kind = format_of(first)
    for file in rest:
        other = format_of(file)
        expect(other == kind, file.name, f"{kind}, as {first.name}", other)
    return kind


def _columns(files: Sequence[LogFile], schema: Schema, options: ReadOptions) -> tuple[Columns, RewardChoice]:
    """Which column holds what: the ones named, else those with usual names; and which are rewards."""
    file = files[0]
    expect_columns(options.names, list(schema), file.name)
    by_lower = {name.lower(): name for name in reversed(list(schema))}
    numeric = [name for name, kind in schema.items() if is_number_type(kind)]

    def usual(names: tuple[str, ...], among: Collection[str]) -> str | None:
        named = (by_lower[name] for name in names if name in by_lower)
        return next((name for name in named if name in among and name not in (options.rewards or ())), None)

    step = options.step or usual(STEPS, numeric) or usual(STEPS, schema)
    advantage = options.advantage or usual(ADVANTAGES, numeric) or usual(ADVANTAGES, schema)
    per_token = advantage not in (None, *numeric) and _per_token(files, f"{advantage}", schema, options)
    length = options.length or usual(LENGTHS, numeric)
    key = options.group or (None if options.group_size else usual(GROUPS, schema))
    _expect_responses(files, [step] if step else [n for n in numeric if _plain(n) in STEPS], options)
    known = KNOWN | {*ADVANTAGES, *LENGTHS}
    numbers = [
        name
        for name in numeric
        if name.lower() not in known
        and name not in (step, advantage, length, key, options.by)
        and not name.startswith("__")
    ]
    chosen = choose(
        numbers,
        lambda names: tables.first_numbers(files, names, SAMPLE_ROWS, options.bad_lines),
        where=file.name,
        named=options.rewards,
        flags=[name for name in numbers if schema[name] == pl.Boolean],
        asks=True,
    )
    columns = Columns(
        rewards=chosen.rewards,
        step=step,
        advantage=advantage,
        length=length,
        key=key,
        by=options.by,
        per_token=per_token,
    )
    return validate_columns(columns, schema, file.name), chosen


def _per_token(files: Sequence[LogFile], name: str, schema: Schema, options: ReadOptions) -> bool:
    """Whether advantages are lists, one number per token; False where all are missing. InputError for other values."""
    kind, texts = schema[name], list[str]()
    if kind == pl.String:
        first = next(file for file in files if name in tables.schema(file, options.bad_lines))
        texts = tables.first_values(first, [name], SAMPLE, options.bad_lines)[name]
    fits = holds_lists(kind, texts)
    got = f"text {str(texts[0])[:60]!r}" if texts else f"{kind}"
    expect(fits or kind == pl.Null, f"{files[0].name}, column {name!r}", "numbers", got)
    return fits


def _plain(name: str) -> str:
    """The name of a column without the part of a tracker that it belongs to, as train/global_step."""
    return name.rpartition("/")[2].strip("_").lower()


def _expect_responses(files: Sequence[LogFile], steps: Sequence[str], options: ReadOptions) -> None:
    """Raise InputError if each row has a step of its own, in one of these columns of steps."""
    table = tables.first_numbers(files, steps, SAMPLE_ROWS, options.bad_lines)
    own = next((name for name in steps if len(table) > 1 and table[name].is_unique().all()), None)
    if own is not None:
        raise InputError(
            f"{files[0].name}: expected a row per response, got one per step ({own!r}), as of a tracker: these are "
            "means per step, not responses; log the completions, each with its rewards"
        )


def _expect_in_every_file(columns: Columns, files: Sequence[LogFile], schemas: Sequence[Schema]) -> None:
    for file, schema in zip(files, schemas, strict=True):
        missing = [name for name in columns.names if name not in schema]
        if missing:
            other = next(f.name for f, names in zip(files, schemas, strict=True) if missing[0] in names)
            raise InputError(f"{file.name}: expected the columns of {other}, got none named {', '.join(missing)!r}")


def _texts(files: Sequence[LogFile], columns: Columns, options: ReadOptions) -> Iterator[pl.DataFrame]:
    """The columns of each file of text, and its number."""
    for number, file in enumerate(files):
        frame = read_file(file, columns.numbers, columns.texts, options.bad_lines)
        yield frame.with_columns(pl.lit(number, pl.Int64).alias("_file"))


def _in_order(frames: Iterator[pl.DataFrame], files: Sequence[LogFile]) -> Iterator[pl.DataFrame]:
    """All rows in the order of their steps, those of a step that a restarted run wrote again after the others.

    `_pass` tells these apart: how often the step has fallen in the file before, 0 where that shows no restart.
    """
    falls = (pl.col("step") < pl.col("step").shift(1)).fill_null(False).cast(pl.Int64)
    rows = pl.concat(frames).with_columns(falls.cum_sum().over("_file").alias("_pass"))
    if "_key" in rows.columns and len(files) > 1:
        _expect_one_run(rows, files)
    if rows["_pass"].max() and not _restarted(rows):
        rows = rows.with_columns(pl.lit(0, pl.Int64).alias("_pass"))
    rows = rows if rows["step"].is_sorted() else rows.sort("step", "_pass", maintain_order=True)
    return (rows.slice(i, tables.ROWS) for i in range(0, len(rows), tables.ROWS))


def _restarted(rows: pl.DataFrame) -> bool:
    """Whether steps fall because the run went back to an earlier one, and not because the rows are in another order.

    Then a pass goes back to a step in between, or further on than the pass before; it holds each step up to its last,
    with as many rows as the steps that come once. A pass over the very same steps shows that only by its groups.
    """
    passes = rows.group_by("_file", "_pass", "step", maintain_order=True).agg(pl.len().alias("rows"))
    if passes["_pass"].max() >= passes["step"].n_unique():  # type: ignore[operator]
        return False
    once, again = list[int](), list[int]()
    for of_file in passes.partition_by("_file"):
        sizes: dict[int, list[int]] = {}
        for one in of_file.partition_by("_pass"):
            held = dict(one.select("step", "rows").iter_rows())
            first, last = one["step"][0], one["step"][-1]
            if sizes and first == min(sizes) and last <= max(sizes):
                return sizes.keys() == held.keys() and "_key" in rows.columns and len(_groups_again(rows, "_pass")) > 0
            if any(first <= step <= last and step not in held for step in sizes):
                return False
            for step, size in held.items():
                sizes.setdefault(step, []).append(size)
        once += [of[-1] for of in sizes.values() if len(of) == 1]
        again += [of[-1] for of in sizes.values() if len(of) > 1]
    return bool(once and again) and float(np.median(again)) >= WHOLE * float(np.median(once))


def _groups_again(rows: pl.DataFrame, part: str) -> pl.DataFrame:
    """The groups that stand in several files, or passes of a file, if most are whole in each, not parts of one."""
    parts = [pl.len().alias("rows")]
    if "advantage" in rows.columns:  # those of a whole group add up to 0
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
    """Whether the advantages of most groups add up to 0."""
    live = groups.filter(pl.col("size") > 0)
    return bool((live["sum"].abs() <= ROUNDED * live["size"]).sum() >= WHOLE * max(len(live), 1))


def _expect_one_run(rows: pl.DataFrame, files: Sequence[LogFile]) -> None:
    """Raise InputError if the files look like separate runs: each has the same steps and groups, complete."""
    again = _groups_again(rows, "_file")
    if len(again):
        a, b = (files[i].name for i in again.filter(pl.struct("step", "_key").rank("dense") == 1)["_file"][:2])
        raise InputError(
            f"{b}: expected the log of one run, got step {again['step'][0]} with the same groups of "
            f"{min(again['rows'].mode())} rows as in {a}: give one run's files, or join files that hold parts of one "
            "group, in the order of their steps"
        )
