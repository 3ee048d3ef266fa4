"""Logs with a row per group or per step, whose lists hold a value per answer: they are turned into a row per answer.

Lists may also hold a value per token, which mainly their lengths show. Lists with a value per answer have the length of
the lists of rewards in nearly every row, and there are few different lengths over the rows.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from gdpo_audit.logs.forms.roles import ADVANTAGES, is_called_reward, role
from gdpo_audit.logs.names import ROWS_OF_A_FILE
from gdpo_audit.logs.refusals import location, refuse
from gdpo_audit.logs.tables.formats import Schema, Table, is_number_type, is_unread

LINE = "__line"  # the column that numbers the lines of a log whose lines hold several answers
KEYED_BY = "the lines of the log"
_SIZES, SIZES_SHARE = 8, 0.25  # groups have at most so many different sizes, or so many as a share of the rows
_MOSTLY = 0.9  # the share of rows in which a list must be as long as the rewards if it is meant to be so in all of them
# The names of lists with a value per token, and of lists with a value per turn, step or token.
_OF_TOKENS = re.compile(
    r"^(?!(n|num|nr|number|count|total)_)(.*_)?(tokens?|token_ids?|input_ids|ids|logprobs?|log_probs?|logps?|masks?)$",
    re.IGNORECASE,
)
_OF_TURNS = re.compile(r"(^|_)(turn|step|token)s?(_|$)", re.IGNORECASE)
_OF_FUNCTIONS = re.compile(r"name|func|key", re.IGNORECASE)  # names of lists that name the reward functions
_ANSWERS = ("completion", "completions", "response", "responses", "output", "outputs", "generation", "prediction")
_CHATS = (*_ANSWERS, "messages")


@dataclass(frozen=True)
class Lists:
    """The columns whose lists hold a value per answer.

    several: whether a row holds several answers.
    """

    names: tuple[str, ...]
    several: bool


def lists_of_answers(
    tables: Sequence[Table], schema: Schema, named: Collection[str], alone: bool, told: bool, prompts: Sequence[str]
) -> Lists | None:
    """Return the columns whose lists hold a value per answer; None if there are none, or if rows are answers already.

    tables: the tables of the log.
    schema: the columns of all tables.
    named: the rewards that the caller names.
    alone: whether no column of single numbers may be a reward; lists of numbers then need no name of a reward.
    told: whether the lists were lists of rollouts; where a row has several, nothing else has to say what they hold.
    prompts: the columns that tell, together, which prompt a row belongs to.

    Raises InputError for lists of different lengths in a row, if only some tables have the lists, and if all are empty.
    """
    lists = [name for name, kind in schema.items() if isinstance(kind, pl.List)]
    rewards = [name for name in lists if _holds_rewards(name, schema[name], named)]
    if not rewards and (alone or told):
        rewards = [name for name in lists if _may_be_reward(name, schema[name])]
    if not rewards or rows_are_answers(schema):
        return None
    lacks = next((table for table in tables if not isinstance(table.schema.get(rewards[0]), pl.List)), None)
    if lacks is not None:
        has = next(table for table in tables if isinstance(table.schema.get(rewards[0]), pl.List))
        got = f"others: lists in {rewards[0]!r} only in {has.name}; name one of them"
        refuse(lacks.name, f"the columns of {has.name}", got)
    sizes = pl.concat([_sizes(table, lists) for table in tables])
    filled = sizes.filter(pl.col(rewards[0]) > 0)
    if not len(filled):
        refuse(tables[0].name, f"a value in the lists of {rewards[0]!r}", "empty ones alone")
    shares = {name: _share(filled, name, rewards[0]) for name in lists}
    chosen = [name for name in lists if shares[name] >= _MOSTLY and not is_chat(schema[name])]
    several = bool((filled[rewards[0]] > 1).any())
    if not several and not alone and len(filled) < len(sizes):
        return None  # each answer has rewards beside the list, so that a row with an empty list is an answer too
    of_tokens = _look_like_tokens(filled[rewards[0]], chosen, schema)
    if several and (of_tokens or not _per_answer(chosen, rewards, schema, tables, prompts, alone or told)):
        return None
    for name in chosen:
        _expect_one_length(tables, sizes, name, rewards[0])
    return Lists(tuple(chosen), several)


def rows_of_lists(table: Table, frame: pl.LazyFrame, lists: Lists, number: int, texts: bool) -> pl.LazyFrame:
    """Return the rows of a table with a row per answer, made of the lists in the columns that `lists` names.

    If a row of the log holds several answers, a column `LINE` holds the number of the row from which an answer came.
    Rows whose lists are empty are left out. A table without any of these columns is returned as it is.
    table: the table.
    frame: the rows of the table.
    lists: the columns whose lists hold a value per answer.
    number: which of the log's tables it is, from 0.
    texts: whether long texts in the lists of columns named in UNREAD are kept. If not, each is replaced by its number
        of characters, as text. The kinds of table that keep all texts, such as Parquet, keep these too.
    """
    schema = frame.collect_schema()
    there = [name for name in lists.names if isinstance(schema.get(name), pl.List)]
    if not there:
        return frame
    first = next((name for name in there if is_number_type(schema[name].inner)), there[0])  # type: ignore[attr-defined]
    size = pl.col(first).list.len()
    if lists.several:
        frame = (
            frame.drop(LINE, strict=False)
            .with_row_index(LINE)
            .with_columns(pl.col(LINE).cast(pl.Int64) + number * ROWS_OF_A_FILE)
        )
    missing = pl.lit(None).repeat_by(size)
    whole = [pl.when(pl.col(name).list.len() > 0).then(pl.col(name)).otherwise(missing).alias(name) for name in there]
    frame = frame.filter(size > 0).with_columns(whole)
    if not texts:
        length = pl.element().str.len_chars().cast(pl.String)
        unread = [name for name in there if is_unread(name, schema[name].inner, table.kind)]  # type: ignore[attr-defined]
        frame = frame.with_columns(pl.col(name).list.eval(length) for name in unread)
    return frame.explode(there)


def lines_are_groups(
    tables: Sequence[Table], lists: Lists, step: str | None, ids: Sequence[str], prompts: Sequence[str]
) -> bool:
    """Return whether each line of the log is surely one group.

    There are three cases in which it is not:
    - no line holds several answers, or some line holds several ids or several prompts;
    - a column with one id per line tells the groups;
    - no column has one prompt per line, and the column of steps holds lists, or a different step in each line. A line
      may then be a batch of several groups.

    tables: the tables of the log.
    lists: the columns of lists with a value per answer.
    step: the column of steps, if there is one.
    ids: the columns of ids that may tell groups apart.
    prompts: the columns of prompts that may tell groups apart.
    """
    several = [name for name in (*ids, *prompts) if name in lists.names and _differs_in_rows(tables, name)]
    if not lists.several or several or any(name not in lists.names for name in ids):
        return False
    if step is None or any(name not in lists.names for name in prompts):
        return True
    if step in lists.names:
        return False
    there = [table for table in tables if step in table.schema]
    steps = pl.concat(table.collected(table.fresh.select(pl.col(step).cast(pl.String))) for table in there)
    return steps[step].n_unique() < len(steps)


def _differs_in_rows(tables: Sequence[Table], name: str) -> bool:
    """Return whether some row has different values in its list of this column.

    tables: the tables of the log.
    name: the column.
    """
    for table in tables:
        kind = table.schema.get(name)
        if isinstance(kind, pl.List) and not kind.inner.is_nested():
            differs = (pl.col(name).list.n_unique() > 1).any()
            if table.collected(table.fresh.select(differs)).item():
                return True
    return False


# --- which lists -----------------------------------------------------------------------------------------------------


def _holds_rewards(name: str, kind: pl.DataType, named: Collection[str]) -> bool:
    """Return whether the lists of a column hold rewards: numbers or objects, but not the messages of a chat.

    The name of the column has to be one that rewards have, and not one of rewards per turn, step or token. Any name
    counts that the caller names as a reward.
    name: the name of the column.
    kind: its type.
    named: the rewards that the caller names.
    """
    inner = kind.inner if isinstance(kind, pl.List) else None
    fits = is_number_type(inner) or isinstance(inner, pl.Struct)
    called = is_called_reward(name) and not _OF_TURNS.search(name)
    return fits and (name in named or called) and not is_chat(kind)


def _may_be_reward(name: str, kind: pl.DataType) -> bool:
    """Return whether a column of lists of numbers may be a reward though its name does not say so.

    It may not if it is named like advantages, tokens or a metric.
    kind: its type.
    """
    inner = kind.inner if isinstance(kind, pl.List) else None
    named_otherwise = name.lower() in ADVANTAGES or bool(_OF_TOKENS.search(name)) or role(name) == "metric"
    return is_number_type(inner) and not named_otherwise


def is_chat(kind: pl.DataType) -> bool:
    """Return whether a column of this type holds lists of messages, each with a role and a content."""
    inner = kind.inner if isinstance(kind, pl.List) else None
    return isinstance(inner, pl.Struct) and {"role", "content"} <= {*inner.to_schema()}


def rows_are_answers(schema: Schema) -> bool:
    """Return whether each row is one answer: a column holds single advantages, single texts of answers, or chats."""
    by_lower = {name.lower(): kind for name, kind in schema.items()}
    one_advantage = any(is_number_type(by_lower.get(name)) for name in ADVANTAGES)
    text = any(by_lower.get(name) == pl.String for name in _ANSWERS)
    return one_advantage or text or any(name in by_lower and is_chat(by_lower[name]) for name in _CHATS)


def _per_answer(
    chosen: Sequence[str],
    rewards: Sequence[str],
    schema: Schema,
    tables: Sequence[Table],
    prompts: Sequence[str],
    alone: bool,
) -> bool:
    """Return whether lists of one length hold a value per answer, not a value per token or per reward function.

    chosen: the columns of these lists.
    rewards: the columns among them that may be rewards.
    schema: the columns of all tables.
    tables: the tables of the log.
    prompts: the columns that tell, together, which prompt a row belongs to.
    alone: whether no column of single numbers may be a reward.
    """
    inner = {name: schema[name].inner for name in chosen}  # type: ignore[attr-defined]
    of_answers = [name for name in chosen if inner[name] == pl.String or isinstance(inner[name], pl.List)]
    if any(inner[name] == pl.String and _OF_FUNCTIONS.search(name) for name in chosen):
        return False
    of_tokens = any(is_number_type(inner[name]) and _OF_TOKENS.search(name) for name in chosen)
    if (of_tokens or not alone) and not of_answers:
        return False
    if len(chosen) > 1 or isinstance(inner[rewards[0]], pl.Struct):
        return True
    # A single list may also hold a value per reward function, if several rows have the same prompt.
    names = [name for name in prompts if name in schema and not schema[name].is_nested()]
    rows = [table.collected(table.fresh.select(names)) for table in tables if {*names} <= {*table.schema}]
    return bool(names) and not any(table_rows.is_duplicated().any() for table_rows in rows)


def _look_like_tokens(lengths: pl.Series, chosen: Sequence[str], schema: Schema) -> bool:
    """Return whether these lists have too many different lengths for groups, as lists with a value per token do.

    Lists do not look like that if one of the columns holds anything but numbers.
    lengths: the length of the lists in each row.
    schema: the columns of all tables.
    """
    texts = any(not is_number_type(schema[name].inner) for name in chosen)  # type: ignore[attr-defined]
    return not texts and lengths.n_unique() > max(_SIZES, SIZES_SHARE * len(lengths))


# --- lengths ---------------------------------------------------------------------------------------------------------


def _sizes(table: Table, lists: Sequence[str]) -> pl.DataFrame:
    """Return the lengths of lists in a table, with a line for each row of the table and a column for each list.

    A length is null where a row has no list, and everywhere if the table has no lists of this name.
    lists: the columns of the lists.
    """
    there = {name for name in lists if isinstance(table.schema.get(name), pl.List)}
    length = [
        pl.col(name).list.len().cast(pl.Int64) if name in there else pl.lit(None, pl.Int64).alias(name)
        for name in lists
    ]
    return table.collected(table.fresh.select(pl.len().alias("_rows"), *length)).drop("_rows")


def _share(sizes: pl.DataFrame, name: str, reference: str) -> float:
    """Return the share of rows in which two lists have the same length, among the rows in which both hold values.

    name: the column of the first list.
    reference: the column of the second list, which is never empty.
    """
    both = sizes.filter(pl.col(name).fill_null(0) > 0) if name != reference else sizes
    return float((both[name] == both[reference]).mean() or 0.0) if len(both) else 0.0  # type: ignore[arg-type]


def _expect_one_length(tables: Sequence[Table], sizes: pl.DataFrame, name: str, by: str) -> None:
    """Raise InputError for the first row whose lists in the columns `name` and `by` differ in length.

    A row in which the list in `name` is empty or null does not count.
    tables: the tables of the log.
    sizes: the lengths of the lists in the rows of all tables, one after the other.
    name: the column of the lists to check.
    by: the column of the lists with which they are compared.
    """
    wrong = (sizes[name] != sizes[by].fill_null(0)) & (sizes[name].fill_null(0) > 0)
    if not wrong.any():
        return
    at = wrong.arg_max() or 0
    got = f"{sizes[by][at] or 0} in {by!r}, {sizes[name][at]} in {name!r}"
    for table in tables:
        if at < table.height:
            refuse(location(table.name, row=at), "lists of one length", got)
        at -= table.height
