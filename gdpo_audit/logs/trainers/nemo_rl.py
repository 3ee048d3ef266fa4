"""The reading of NeMo-RL's data, whose columns hold lists with a value per response, or whose lines are responses."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import polars as pl

from gdpo_audit.logs.forms.form import Form, advantage_in, exploded, numbered, same_length
from gdpo_audit.logs.forms.options import ReadOptions, expect_columns
from gdpo_audit.logs.names import FILE, MADE_PROMPT, MADE_STEP, ROW
from gdpo_audit.logs.refusals import refuse_unless
from gdpo_audit.logs.tables.formats import Schema, Table

# The names of columns beside the rewards in the data of NeMo-RL; TOKENS are those of its tokens.
TOKENS = {"content", "token_loss_mask", "sample_loss_mask", "generation_logprobs", "prev_logprobs", "input_lengths"}
_NOT_REWARDS = TOKENS | {"prompt_ids", "token_ids", "step", "idx", "reference_logprobs", "reference_policy_logprobs"}


def nemo_rl(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return how to read NeMo-RL's data. Its columns hold lists with a value per response, or a line is one response.

    In the second case the values may stand in lists of one. In both cases a response has an advantage per token.
    tables: the tables of the log.
    names: all columns with their types.
    options: the caller's options.
    args: the arguments of the run in an args.json beside the log, which are not used.

    Raises InputError if a column of rewards is missing. Raises it, too, if in a line of several responses a list that
    needs a value per response, such as the advantages, is not as long as the list of rewards.
    """
    rewards = options.rewards or ("rewards",)
    fits = "rewards" in names or bool(options.rewards)
    refuse_unless(fits, tables[0].name, "NeMo-RL's column rewards", ", ".join(names))
    expect_columns(rewards, list(names), tables[0].name)
    lists = []
    if isinstance(names[rewards[0]], pl.List):
        every = [name for name, kind in names.items() if isinstance(kind, pl.List)]
        lists = [n for n in every if all(same_length(table, n, rewards) for table in tables if n in table.schema)]
    to_responses = partial(_responses, lists=lists, by=rewards[0], steps=_steps_in_names(tables))
    kinds = to_responses(pl.LazyFrame(schema={ROW: pl.Int64(), FILE: pl.Int64(), **names})).collect_schema()
    prompt = None if options.key or options.group_size else _prompt_of(kinds, tables, to_responses)
    return Form(
        tables=tables,
        to_responses=partial(to_responses, prompt=prompt),
        several=bool(lists),
        step=options.named("step") or MADE_STEP,
        advantage=advantage_in(names, options),
        length=options.named("length") or ("token_loss_mask" if "token_loss_mask" in names else None),
        key=options.key or (None if prompt is None else MADE_PROMPT),
        keyed_by="" if prompt is None else "the prompt part of content",
        rewards=("rewards",),
        total="rewards",
        not_rewards=frozenset(_NOT_REWARDS | {MADE_STEP, MADE_PROMPT}),
    )


def _steps_in_names(tables: Sequence[Table]) -> pl.Series:
    """Return the step of each table: the last number in the name of its file.

    If the name holds no number, the step is the number of the table, from 1.
    """
    digits = [re.findall(r"\d+", table.name.rpartition("/")[2]) for table in tables]
    steps = [int(numbers[-1]) if numbers else place for place, numbers in enumerate(digits, start=1)]
    return pl.Series(steps, dtype=pl.Int64)


def _responses(
    table: pl.LazyFrame, lists: Sequence[str], by: str, steps: pl.Series, prompt: pl.Expr | None = None
) -> pl.LazyFrame:
    """Return a row per response with its step, its last advantage that is not 0, and its number of unmasked tokens.

    table: the rows of a table, with the number of the table in FILE.
    lists: the columns of lists with a value per response; empty if a row is a response already.
    by: one of these columns.
    steps: the step of each table, for rows without one.
    prompt: an expression that makes the column of prompts; None if no such column is wanted.
    """
    table = exploded(table, lists, by) if lists else table
    kinds = table.collect_schema()
    step = pl.lit(steps).gather(pl.col(FILE))
    made = {MADE_STEP: pl.coalesce("step", step) if kinds.get("step", pl.Null()).is_integer() else step}
    if isinstance(kinds.get("advantages"), pl.List):
        value, kind = pl.col("advantages"), kinds["advantages"]
        while isinstance(kind, pl.List) and isinstance(kind.inner, pl.List):
            value, kind = value.list.first(), kind.inner
        made["advantages"] = value.list.eval(pl.element().filter(pl.element() != 0)).list.last().fill_null(0.0)
    if isinstance(kinds.get("token_loss_mask"), pl.List):
        made["token_loss_mask"] = pl.col("token_loss_mask").list.eval(pl.element() != 0).list.sum()
    table = table.with_columns(**made)
    return table if prompt is None else table.with_columns(prompt.alias(MADE_PROMPT))


def _prompt_of(
    kinds: Schema, tables: Sequence[Table], to_responses: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> pl.Expr | None:
    """Return an expression for the prompt of a response; None if the log has neither token ids of prompts nor lists of
    messages.

    The prompt is the token ids of the prompt, if they are logged. Otherwise it is the messages before the first one of
    the assistant. If the messages are texts without roles, it is the first text. If all responses have the same first
    text, it is as many of the first texts as are needed to make responses differ. If each response has several texts,
    the last one is never part of the prompt.
    kinds: the types of the columns of responses.
    tables: the tables of the log.
    to_responses: turns the rows of a table into responses.
    """
    content = kinds.get("content")
    if "prompt_ids" in kinds:
        return pl.struct("prompt_ids").struct.json_encode()
    if not isinstance(content, pl.List):
        return None
    messages = pl.col("content")
    if isinstance(content.inner, pl.Struct):
        assistant = (pl.element().struct.field("role") == "assistant").fill_null(False)
        messages = messages.list.eval(pl.element().filter(assistant.cast(pl.Int64).cum_sum() == 0))
        return pl.struct(messages.alias("content")).struct.json_encode()
    texts = pl.concat([to_responses(numbered(table, n)).select("content") for n, table in enumerate(tables)]).collect()
    first, shortest = 1, texts["content"].list.len().min() or 0
    while first + 1 < shortest and texts["content"].list.head(first).n_unique() == 1:  # type: ignore[operator]
        first += 1
    return messages.list.head(first).list.join("\n")
