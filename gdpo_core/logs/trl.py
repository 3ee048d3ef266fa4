"""Reads TRL's completions, one Parquet file per logged step; axolotl's synchronous trainer writes the same."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import parquet
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present
from gdpo_core.logs.unused import SAMPLE as SAMPLE_OF_TEXT
from gdpo_core.logs.unused import expect_words, left_out, number_kind, suspects, together

SAMPLE = 10_000  # rows whose prompts are examined
# Numbers that are logged beside the rewards.
NOT_REWARDS = {"step", "advantage", "advantages", "epoch", "global_step", "index", "idx", "id", "seed"}
LENGTHS = ("completion_length", "response_length", "num_tokens", "length", "tokens")


def read(found: Found, asked: Asked) -> Draft:
    """The rewards of a TRL log: every number column but the step, the advantage and others known to hold no reward."""
    files = found.files
    schemas = [parquet.schema(file) for file in files]
    schema = together(schemas)
    step = asked.step or "step"
    columns = _columns(files[0], {name: schema[name] for name in schemas[0]}, asked, step)
    same_columns(files, schemas, columns, named=asked.rewards is not None)
    if asked.rewards is None:
        used = [*columns.names, *(name for name in schema if name.lower() in NOT_REWARDS)]
        for name in suspects(schema, used):
            file = next(f for f, there in zip(files, schemas, strict=True) if there.get(name) == pl.String)
            expect_words(file.name, name, parquet.sample(file, [name], SAMPLE_OF_TEXT)[name])

    def rows(columns: Columns = columns) -> Iterator[pl.DataFrame]:
        frames = (normalised(frame, columns, files) for frame in parquet.frames(files, schemas, columns.names))
        return batches(frames, ["_file", "step"])

    return Draft(
        rewards=columns.rewards,
        rows=rows,
        outline=partial(rows, replace(columns, rewards=(), length=None)),
        keyed=asked.group and f"the column {asked.group}",
        has_advantage=columns.advantage is not None,
        has_length=columns.length is not None,
        left_out=left_out(schema, columns.names),
        prompts=partial(_prompts, files, schemas, step) if "prompt" in schemas[0] else lambda: None,
    )


def _columns(file: LogFile, schema: parquet.Schema, asked: Asked, step: str) -> Columns:
    present([*(asked.rewards or ()), asked.group, asked.advantage, asked.length], list(schema), file.name)
    fits = step in schema and bool({"advantage", "completion", "prompt"} & set(schema))
    expect(fits, file.name, f"TRL's columns {step}, prompt, completion, rewards, advantage", ", ".join(schema))
    length = asked.length or next((name for name in LENGTHS if name in schema and schema[name].is_integer()), None)
    advantage = asked.advantage or ("advantage" if "advantage" in schema else None)
    rewards = asked.rewards or tuple(
        name
        for name, kind in schema.items()
        if number_kind(kind)
        and name.lower() not in NOT_REWARDS
        and not name.startswith("__")
        and name not in (length, step, advantage, asked.group)
    )
    columns = Columns(rewards=rewards, step=step, advantage=advantage, length=length, key=asked.group)
    return check_rewards(columns, schema, file.name)


def same_columns(files: Sequence[LogFile], schemas: Sequence[parquet.Schema], columns: Columns, named: bool) -> None:
    """Raise InputError unless every file has the columns of the first, and no other one that could be a reward."""
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        missing = [name for name in columns.names if name not in schema]
        more = [
            name
            for name, kind in schema.items()
            if number_kind(kind)
            and not named
            and name not in schemas[0]
            and not name.startswith("__")
            and name.lower() not in (*NOT_REWARDS, *LENGTHS)
        ]
        if missing or more:
            which = [f"{', '.join(missing)} only in {files[0].name}"] * bool(missing)
            which += [f"{', '.join(more)} only in {file.name}"] * bool(more)
            raise InputError(f"{file.name}: expected the columns of {files[0].name}, got others: {'; '.join(which)}")


def _prompts(files: Sequence[LogFile], schemas: Sequence[parquet.Schema], step: str) -> pl.DataFrame:
    """batch, step, `_key` and `text` of the first prompts, which show where a group ends."""
    frames = [
        frame.select("_file", pl.col(step).cast(pl.Int64).alias("step"), _hash(frame).alias("_key"), _text(frame))
        for frame in parquet.frames(files, schemas, [step, "prompt"], head=SAMPLE)
    ]
    return pl.concat(frames).with_columns(pl.struct("_file", "step").rle_id().cast(pl.Int64).alias("batch"))


def _hash(frame: pl.DataFrame) -> pl.Expr:
    return pl.col("prompt").hash() if "prompt" in frame.columns else pl.lit(0, pl.UInt64)


def _has_content(message: object) -> bool:
    """Whether a chat's messages have their text in `content`."""
    return isinstance(message, pl.Struct) and message.to_schema().get("content", pl.Null()) == pl.String


def _text(frame: pl.DataFrame) -> pl.Expr:
    """The first characters of each prompt; of a chat those of its last message, or else its JSON."""
    kind = frame.schema.get("prompt", pl.Null())
    if kind == pl.String:
        text = pl.col("prompt")
    elif isinstance(kind, pl.List) and _has_content(kind.inner):
        text = pl.col("prompt").list.last().struct.field("content")
    elif "prompt" in frame.columns:
        text = pl.struct("prompt").struct.json_encode()
    else:
        text = pl.lit("")
    return text.str.slice(0, 60).alias("text")
