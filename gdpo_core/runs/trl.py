"""Reads TRL's completions, one Parquet file per logged step; axolotl's synchronous trainer writes the same."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core.runs.columns import (
    Columns,
    ReadOptions,
    batches,
    expect_columns,
    hash_column,
    holds_lists,
    is_ordered,
    left_out,
    refuse_numeric_texts,
    standard_rows,
    union_schema,
    validate_columns,
)
from gdpo_core.runs.files import LogFile, LogFiles
from gdpo_core.runs.roles import ADVANTAGES, RewardChoice, choose, lost, role
from gdpo_core.runs.run import PROMPTS, LogIssue, Rows, Run, run_of
from gdpo_core.runs.tables import Schema, first_numbers, height, is_number_type, parquet_frames, parquet_schema
from gdpo_core.runs.texts import texts_of

SAMPLE_ROWS = 20_000  # rows that tell rewards from totals
WANDB_ROWS = 10_000  # wandb.Table.MAX_ROWS; an artifact takes more
# Numbers that are logged beside the rewards.
NOT_REWARDS = {"step", "advantage", "advantages", "epoch", "global_step", "index", "idx", "id", "seed"}
LENGTHS = ("completion_length", "response_length", "num_tokens", "length", "tokens")


def matches(columns: Collection[str]) -> bool:
    """Whether these are the columns of TRL's completions."""
    return "step" in columns and ("completion" in columns or {"prompt", "advantage"} <= set(columns))


def read(log: LogFiles, options: ReadOptions) -> Run:
    """The rewards of a TRL log: every number column but the step, the advantage and others known to hold no reward."""
    log, evaluations = _of_training(log, options.step or "step")
    files = log.files
    schemas = [parquet_schema(file) for file in files]
    schema = union_schema(schemas)
    columns, chosen = _columns(files, {name: schema[name] for name in schemas[0]}, options)
    _expect_same_columns(files, schemas, columns, options)
    if options.rewards is None:
        used = [*columns.names, *(name for name in schema if name.lower() in NOT_REWARDS or role(name) == "metric")]
        refuse_numeric_texts(files, schemas, used, options.bad_lines)

    def frames(columns: Columns) -> Iterator[pl.DataFrame]:
        return (standard_rows(frame, columns, files) for frame in parquet_frames(files, schemas, columns.names))

    # Where a column tells groups apart, the rows of several steps may be shuffled too.
    shuffled = options.group is not None and not is_ordered(frames(Columns(rewards=(), step=columns.step)))

    def rows() -> Iterator[pl.DataFrame]:
        whole = frames(columns)
        if shuffled:
            whole = iter([pl.concat(whole).sort("_file", "step", maintain_order=True)])
        return batches(whole, ["_file", "step"])

    beside = left_out(schema, [*columns.names, *([chosen.total] if chosen.total else [])])
    return run_of(
        log,
        "trl",
        Rows(
            columns=columns,
            read=rows,
            keyed_by=options.group and f"the column {options.group}",
            prompts=partial(_prompts, files, schemas, columns) if "prompt" in schemas[0] else lambda: None,
            texts=texts_of(files, options.bad_lines),
        ),
        issues=(*chosen.issues, *_cut_tables(files), *evaluations),
        # As the first versions logged to W&B; beside advantages it is the name of a function.
        total_only=chosen.total_only and columns.advantage is None,
        left_out=beside,
        lost=lost(schema, [name for name in beside if name.lower() not in NOT_REWARDS], options.rewards),
        weights=chosen.weights,
        weights_by="score" if chosen.weights else None,
    )


def _columns(files: Sequence[LogFile], schema: Schema, options: ReadOptions) -> tuple[Columns, RewardChoice]:
    """Which column of the first file holds what, and which are rewards."""
    file = files[0]
    step = options.step or "step"
    expect_columns([name for name in options.names if name != options.step], list(schema), file.name)
    fits = step in schema and bool({"advantage", "completion", "prompt"} & set(schema))
    expect(fits, file.name, f"TRL's columns {step}, prompt, completion, rewards, advantage", ", ".join(schema))
    length = options.length or next((name for name in LENGTHS if name in schema and schema[name].is_integer()), None)
    advantage = options.advantage or next((name for name in ADVANTAGES if name in schema), None)
    others = (length, step, advantage, options.group, options.by)
    numbers = [
        name for name, kind in schema.items() if is_number_type(kind) and not _known(name) and name not in others
    ]
    chosen = choose(
        numbers,
        lambda names: first_numbers(files, names, SAMPLE_ROWS, options.bad_lines),
        where=file.name,
        named=options.rewards,
        flags=[name for name in numbers if schema[name] == pl.Boolean],
    )
    columns = Columns(
        rewards=chosen.rewards,
        step=step,
        advantage=advantage,
        length=length,
        key=options.group,
        by=options.by,
        per_token=advantage is not None and holds_lists(schema[advantage]),
    )
    return validate_columns(columns, schema, file.name), chosen


def _of_training(log: LogFiles, step: str) -> tuple[LogFiles, list[LogIssue]]:
    """The tables of a tracker without those of evaluations, and an issue that says so.

    TRL logs an evaluation under the step of the batch before: its responses, after some of that batch where there is
    room. So a table that directly follows another of its step is an evaluation's if it holds other prompts.
    """
    kept: list[LogFile] = []
    first: pl.DataFrame | None = None  # the first table of the step
    before: pl.DataFrame | None = None  # the evaluation's, if it was the last
    steps: list[int] = []
    for file in log.files:
        table = None if file.frame is None else _one_step(file.frame, step)
        if table is None or first is None or table[step][0] != first[step][0]:
            first, before = table, None
        elif _other_prompts(table, first):
            if before is None or not table.equals(before):  # at the end of training the last table is logged again
                steps.append(int(float(table[step][0])))
            before = table
            continue
        kept.append(file)
    issues = [LogIssue("eval-logged", {"eval_steps": steps})] if steps else []
    return (log if len(kept) == len(log.files) else replace(log, files=tuple(kept))), issues


def _other_prompts(table: pl.DataFrame, first: pl.DataFrame) -> bool:
    both = "prompt" in table.columns and "prompt" in first.columns and table["prompt"].dtype == first["prompt"].dtype
    return both and not table["prompt"].is_in(first["prompt"].implode()).all()


def _one_step(frame: pl.LazyFrame, step: str) -> pl.DataFrame | None:
    """The table of one step of a tracker; None if it holds several."""
    table = frame.collect()
    whole = step in table.columns and len(table) > 0 and table[step].n_unique() == 1 and table[step].null_count() == 0
    number = whole and table[step].cast(pl.Float64, strict=False).is_finite().all()
    return table.with_columns(pl.col(n).hash() for n in table.columns if table[n].dtype.is_nested()) if number else None


def _cut_tables(files: Sequence[LogFile]) -> tuple[LogIssue, ...]:
    """An issue if tables of W&B have just as many rows as it logs at most: the rest is gone."""
    tables = [file for file in files if file.frame is not None and file.name.endswith(".table.json")]
    cut = sum(height(file) == WANDB_ROWS for file in tables)
    return (LogIssue("groups-sampled", {"tables": cut, "of": len(tables), "threshold": WANDB_ROWS}),) if cut else ()


def _may_be_reward(name: str, kind: pl.DataType) -> bool:
    return is_number_type(kind) and not _known(name) and role(name) != "metric"


def _known(name: str) -> bool:
    return name.lower() in NOT_REWARDS or name.startswith("__")


def _expect_same_columns(
    files: Sequence[LogFile], schemas: Sequence[Schema], columns: Columns, options: ReadOptions
) -> None:
    """Raise InputError unless every file has the columns of the first, and no other one that could be a reward."""
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        missing = [name for name in columns.names if name not in schema]
        new = [n for n, kind in schema.items() if n not in schemas[0] and _may_be_reward(n, kind)]
        new = [] if options.rewards else [name for name in new if name.lower() not in LENGTHS]
        if missing or new:
            which = [f"{', '.join(missing)} only in {files[0].name}"] * bool(missing)
            which += [f"{', '.join(new)} only in {file.name}"] * bool(new)
            raise InputError(f"{file.name}: expected the columns of {files[0].name}, got others: {'; '.join(which)}")


def _prompts(files: Sequence[LogFile], schemas: Sequence[Schema], columns: Columns) -> pl.DataFrame:
    """batch, step, `_key` and `text` of the first prompts, which show where a group ends."""
    frames = [
        frame.select(
            "_file",
            pl.col(f"{columns.step}").cast(pl.Float64, strict=False).cast(pl.Int64, strict=False).alias("step"),
            (hash_column(frame, "prompt") if "prompt" in frame.columns else pl.lit(0, pl.UInt64)).alias("_key"),
            _text(frame).str.slice(0, 60).alias("text"),
        )
        for frame in parquet_frames(files, schemas, [f"{columns.step}", "prompt"], head=PROMPTS)
    ]
    return pl.concat(frames).with_columns(pl.struct("_file", "step").rle_id().cast(pl.Int64).alias("batch"))


def _text(frame: pl.DataFrame) -> pl.Expr:
    """Each prompt; of a chat its last message, or else its JSON."""
    kind = frame.schema.get("prompt", pl.Null())
    if kind == pl.String:
        return pl.col("prompt")
    message = kind.inner if isinstance(kind, pl.List) else None
    if isinstance(message, pl.Struct) and message.to_schema().get("content", pl.Null()) == pl.String:
        return pl.col("prompt").list.last().struct.field("content")
    return pl.struct("prompt").struct.json_encode() if "prompt" in frame.columns else pl.lit("")
