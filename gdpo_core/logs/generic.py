"""Reads logs of no known framework: Parquet, CSV, TSV, JSON lines or JSON, with named columns or usual names."""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import delimited, json_table, jsonl, parquet
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.formats import format_of
from gdpo_core.logs.parquet import ROWS
from gdpo_core.logs.unused import SAMPLE, expect_words, left_out, number_kind, suspects, together

STEPS = ("step", "global_step", "gen_step", "training_step", "iteration", "iter")
ADVANTAGES = ("advantage", "advantages", "adv")
GROUPS = (
    "group",
    "group_id",
    "uid",
    "prompt_id",
    "group_index",
    "prompt_idx",
    "prompt_index",
    "prompt",
    "input",
    "question",
)
LENGTHS = (
    "length",
    "completion_length",
    "response_length",
    "num_tokens",
    "tokens",
    "completion_tokens",
    "response_tokens",
)
# Numbers that are logged beside rewards.
NOT_REWARDS = {
    "epoch",
    "index",
    "idx",
    "id",
    "row",
    "seed",
    "rank",
    "timestamp",
    "time",
    "sample_id",
    "request_id",
    "rollout",
}
NOT_REWARDS |= {"rollout_id", "completion_id", "response_id", "sample", "batch", "unnamed: 0", "", "task_id", "worker"}
NOT_REWARDS |= {
    "answer",
    "target",
    "label",
    "labels",
    "ground_truth",
    "gts",
    "gold",
    "solution",
    "reference",
    "expected",
}
KNOWN = {*STEPS, *GROUPS, *NOT_REWARDS}
WHOLE = 0.8  # files are separate runs if this share of the groups that they have in common has the usual size


def read(found: Found, asked: Asked) -> Draft:
    """A log of any form: rewards are the columns named, else every number column not known to hold something else."""
    files, skipped = found.files, jsonl.Skipped()
    kinds = [format_of(file) for file in files]
    odd = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), 0)
    expect(odd == 0, files[odd].name, f"{kinds[0]}, as {files[0].name}", kinds[odd])
    schemas = [_schema(file, kind, asked) for file, kind in zip(files, kinds, strict=True)]
    schema = together(schemas)
    rows_there = kinds[0] not in ("csv", "tsv") or any(kind != pl.Null for kind in schema.values())
    expect(rows_there, files[0].name, "at least one response", "0 rows")
    columns = _columns(files[0], schema, asked)
    for file, there in zip(files, schemas, strict=True):
        missing = [name for name in columns.names if name not in there]
        if missing:
            other = next(f.name for f, names in zip(files, schemas, strict=True) if missing[0] in names)
            raise InputError(f"{file.name}: expected the columns of {other}, got none named {', '.join(missing)!r}")
    _expect_words(files, kinds, schemas, schema, columns, asked)
    skip = skipped if asked.skip_bad_lines else None

    def frames(wanted: Columns) -> Iterator[pl.DataFrame]:
        for frame in _raw(files, kinds, schemas, wanted, skip):
            yield normalised(frame, wanted, files)

    in_parquet = kinds[0] == "parquet"
    # Only Parquet can read the steps alone; text is parsed whole in any case, so its numbers are kept.
    ordered = columns.step is None or (in_parquet and _ordered(frames(Columns(rewards=(), step=columns.step))))

    def rows() -> Iterator[pl.DataFrame]:
        by = ["step"] if columns.step else ["_file"]
        if ordered:
            return batches(frames(columns), by)
        every = pl.concat(list(frames(columns)))
        if columns.key and len(files) > 1:
            _expect_one_run(every, files)
        every = every if every["step"].is_sorted() else every.sort("step", maintain_order=True)
        return batches((every.slice(i, ROWS) for i in range(0, len(every), ROWS)), by)

    return Draft(
        rewards=columns.rewards,
        rows=rows if in_parquet else remembered(rows),
        keyed=columns.key and f"the column {columns.key}",
        has_advantage=columns.advantage is not None,
        has_length=columns.length is not None,
        skipped=skipped,
        left_out=left_out(schema, columns.names),
    )


def _expect_words(
    files: Sequence[LogFile],
    kinds: Sequence[str],
    schemas: Sequence[parquet.Schema],
    schema: parquet.Schema,
    columns: Columns,
    asked: Asked,
) -> None:
    """Raise InputError if an unused column holds numbers written as text."""
    maybe = suspects(schema, [*columns.names, *(name for name in schema if name.lower() in KNOWN)])
    maybe = [name for name in maybe if not asked.rewards or name.lower() in (*ADVANTAGES, *LENGTHS)]
    for file, kind, there in zip(files, kinds, schemas, strict=True):
        names = [name for name in maybe if name in there and there[name] == pl.String]
        maybe = [name for name in maybe if name not in names]
        if names:
            for name, values in _sample(file, kind, names, asked).items():
                expect_words(file.name, name, values)


def _sample(file: LogFile, kind: str, names: list[str], asked: Asked) -> dict[str, list]:
    if kind == "parquet":
        return parquet.sample(file, names, SAMPLE)
    if kind == "json":
        return json_table.sample(file, names, SAMPLE)
    if kind != "jsonl":
        return delimited.sample(file, kind, names)
    items = jsonl.head(file, asked.skip_bad_lines)
    return {name: [item[name] for item in items if item.get(name) is not None] for name in names}


def _expect_one_run(rows: pl.DataFrame, files: Sequence[LogFile]) -> None:
    """Raise InputError if the files look like separate runs: each has the same steps and groups, complete."""
    groups = rows.group_by("_file", "step", "_key", maintain_order=True).agg(pl.len().alias("rows"))
    shared = groups.filter(pl.len().over("step", "_key") > 1)
    usual = min(shared["rows"].mode(), default=0)
    if usual > 1 and shared["rows"].to_list().count(usual) / len(shared) >= WHOLE:
        again = shared.filter(pl.struct("step", "_key") == shared.select(pl.struct("step", "_key")).to_series()[0])
        a, b = (files[i].name for i in again["_file"][:2])
        raise InputError(
            f"{b}: expected the log of one run, got step {shared['step'][0]} with the same groups of {usual} rows "
            f"as in {a}: give one run's files, or join files that hold parts of one group"
        )


def _schema(file: LogFile, kind: str, asked: Asked) -> dict[str, pl.DataType]:
    """The columns of a file and their types."""
    if kind == "parquet":
        return dict(parquet.schema(file))
    if kind == "json":
        return dict(json_table.frame(file).schema)
    if kind != "jsonl":
        return dict(delimited.schema(file, kind))
    return jsonl.schema(file, asked.skip_bad_lines)


def _columns(file: LogFile, schema: Mapping[str, pl.DataType], asked: Asked) -> Columns:
    present([*(asked.rewards or ()), asked.group, asked.advantage, asked.length, asked.step], list(schema), file.name)
    lower = {name.lower(): name for name in reversed(list(schema))}
    numeric = [name for name, kind in schema.items() if number_kind(kind)]
    free = [name for name in schema if name not in (asked.rewards or ())]

    def usual(names: tuple[str, ...], among: list[str]) -> str | None:
        return next((lower[name] for name in names if lower.get(name) in among and lower.get(name) in free), None)

    step = asked.step or usual(STEPS, numeric) or usual(STEPS, list(schema))
    advantage = asked.advantage or usual(ADVANTAGES, numeric)
    length = asked.length or usual(LENGTHS, numeric)
    key = asked.group or (None if asked.group_size else usual(GROUPS, list(schema)))
    known = KNOWN | {*ADVANTAGES, *LENGTHS}
    rewards = asked.rewards or tuple(
        name
        for name in numeric
        if name.lower() not in known and name not in (step, advantage, length, key) and not name.startswith("__")
    )
    columns = Columns(rewards=rewards, step=step, advantage=advantage, length=length, key=key)
    return check_rewards(columns, schema, file.name)


def _raw(
    files: Sequence[LogFile],
    kinds: Sequence[str],
    schemas: Sequence[parquet.Schema],
    columns: Columns,
    skip: jsonl.Skipped | None,
) -> Iterator[pl.DataFrame]:
    if kinds[0] == "parquet":
        yield from parquet.frames(files, schemas, columns.names)
        return
    for number, (file, kind) in enumerate(zip(files, kinds, strict=True)):
        if kind == "jsonl":
            others = [name for name in (columns.step, columns.key) if name and name not in columns.numbers]
            frame = jsonl.read(file, columns.numbers, others, skip)
        elif kind == "json":
            frame = json_table.frame(file, columns.names)
        else:
            frame = delimited.frame(file, kind, columns.names)
        yield frame.with_columns(pl.lit(number, pl.Int64).alias("_file"))


def _ordered(frames: Iterator[pl.DataFrame]) -> bool:
    """Whether steps never decrease, and each stands in one file."""
    last = file = None
    for frame in frames:
        for (number,), rows in frame.group_by("_file", maintain_order=True):
            steps = rows["step"]
            falls = last is not None and (steps[0] < last or (steps[0] == last and number != file))
            if falls or not steps.is_sorted():
                return False
            last, file = steps[-1], number
    return True
