"""Logs of no known framework: Parquet, CSV, TSV, JSON lines or JSON, with columns named or of usual names."""

from collections.abc import Iterator

import polars as pl

from gdpo_core.errors import expect
from gdpo_core.logs import delimited, json_table, jsonl, parquet
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.formats import format_of
from gdpo_core.logs.parquet import ROWS

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


def read(found: Found, asked: Asked) -> Draft:
    """A log of any form: its rewards are the columns named, else all columns of numbers not known as something else."""
    files, skipped = found.files, jsonl.Skipped()
    kinds = [format_of(file) for file in files]
    odd = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), 0)
    expect(odd == 0, files[odd].name, f"{kinds[0]}, as {files[0].name}", kinds[odd])
    schemas = [_schema(file, kind, asked) for file, kind in zip(files, kinds, strict=True)]
    columns = _columns(files[0], schemas[0], asked)
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        missing = [name for name in columns.names if name not in schema]
        expect(not missing, file.name, f"the columns of {files[0].name}", f"none named {', '.join(map(repr, missing))}")
    skip = skipped if asked.skip_bad_lines else None

    def frames(wanted: Columns) -> Iterator[pl.DataFrame]:
        for frame in _raw(files, kinds, schemas, wanted, skip):
            yield normalised(frame, wanted, files)

    in_parquet = kinds[0] == "parquet"
    # Parquet hands out its steps alone; of text everything is parsed anyway, so that its numbers are kept.
    ordered = columns.step is None or (in_parquet and _ordered(frames(Columns(rewards=(), step=columns.step))))

    def rows() -> Iterator[pl.DataFrame]:
        by = ["step"] if columns.step else ["_file"]
        if ordered:
            return batches(frames(columns), by)
        every = pl.concat(list(frames(columns)))
        every = every if every["step"].is_sorted() else every.sort("step", maintain_order=True)
        return batches((every.slice(i, ROWS) for i in range(0, len(every), ROWS)), by)

    return Draft(
        rewards=columns.rewards,
        rows=rows if in_parquet else remembered(rows),
        keyed=columns.key and f"the column {columns.key}",
        has_advantage=columns.advantage is not None,
        has_length=columns.length is not None,
        skipped=skipped,
    )


def _schema(file: LogFile, kind: str, asked: Asked) -> dict[str, pl.DataType]:
    """The columns of a file and their types; of JSON lines from the first ones."""
    if kind == "parquet":
        return dict(parquet.schema(file))
    if kind == "json":
        return dict(json_table.frame(file).schema)
    if kind != "jsonl":
        return dict(delimited.schema(file, kind))
    items = jsonl.head(file, asked.skip_bad_lines)
    expect(bool(items), file.name, "at least one response", "0 rows")
    numbers = set(jsonl.number_columns(items))
    return {key: pl.Float64() if key in numbers else pl.String() for item in items for key in item}


def _columns(file: LogFile, schema: dict[str, pl.DataType], asked: Asked) -> Columns:
    present([*(asked.rewards or ()), asked.group, asked.advantage, asked.length, asked.step], list(schema), file.name)
    lower = {name.lower(): name for name in reversed(schema)}
    numeric = [name for name, kind in schema.items() if kind.is_numeric() or kind == pl.Boolean]
    free = [name for name in schema if name not in (asked.rewards or ())]

    def usual(names: tuple[str, ...], among: list[str]) -> str | None:
        return next((lower[name] for name in names if lower.get(name) in among and lower.get(name) in free), None)

    step = asked.step or usual(STEPS, numeric)
    advantage = asked.advantage or usual(ADVANTAGES, numeric)
    length = asked.length or usual(LENGTHS, numeric)
    key = asked.group or (None if asked.group_size else usual(GROUPS, list(schema)))
    known = {*STEPS, *ADVANTAGES, *GROUPS, *LENGTHS, *NOT_REWARDS}
    rewards = asked.rewards or tuple(
        name
        for name in numeric
        if name.lower() not in known and name not in (step, advantage, length, key) and not name.startswith("__")
    )
    columns = Columns(rewards=rewards, step=step, advantage=advantage, length=length, key=key)
    return check_rewards(columns, schema, file.name)


def _raw(files, kinds, schemas, columns: Columns, skip: jsonl.Skipped | None) -> Iterator[pl.DataFrame]:
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
    last = None
    for frame in frames:
        if not frame["step"].is_sorted() or (last is not None and len(frame) and frame["step"][0] < last):
            return False
        last = frame["step"][-1] if len(frame) else last
    return True
