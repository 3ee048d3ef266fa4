"""Wide tables, whose rows hold the responses of a group side by side: `correct_0`, `format_0`, `correct_1`, …

Such a table becomes a row per response. Names alone do not show it, as two rewards may also have two versions each:
`judge_1`, `judge_2`. So a row has to be a group in some other way, too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from gdpo_audit.logs.forms.options import union_schema
from gdpo_audit.logs.forms.roles import ADVANTAGES, GROUPS, STEPS, is_called_reward
from gdpo_audit.logs.names import ROWS_OF_A_FILE
from gdpo_audit.logs.shapes.lists import LINE
from gdpo_audit.logs.shapes.shape import Reading, Shape, changed
from gdpo_audit.logs.tables.formats import Schema, Table, is_number_type, is_unread
from gdpo_audit.records import ROUNDED_SUM, LogIssue

# The usual names of what a policy answered.
_ANSWERS = {"completion", "completions", "response", "responses", "output", "outputs", "generation"}
_MOSTLY = 0.9  # the share of rows in which a prompt has to be one of its own in its step
# The number of a response at the end of a name (correct_0, correct.0, correct[0]), and at its start (r1_correct).
_AT_THE_END = re.compile(r"(?P<name>.*[^\d\W_])[ _.\-/]*\[?(?P<number>\d{1,4})\]?")
_AT_THE_START = re.compile(
    r"(?:(?:r|s|a|g|c|resp|response|answer|sample|gen|generation|completion|rollout|candidate)[ _.\-]?)?"
    r"\[?(?P<number>\d{1,4})\]?[ _.\-/:]+(?P<name>[^\d\W].*)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Wide:
    """The columns of a wide table.

    columns: the columns of each part of a response, such as its text or a reward, by the name of the part. They stand
        in the order of the responses.
    size: how many responses stand in a row.
    """

    columns: Mapping[str, Sequence[str]]
    size: int


def with_a_row_per_response(shape: Shape) -> Shape:
    """Return the shape with a row per response, where a row holds the responses of a group side by side."""
    wide = wide_columns(shape.tables, union_schema(shape.tables), shape.options.rewards or ())
    if wide is None:
        return shape
    rows = sum(table.height for table in shape.tables)
    details = {"names": [*wide.columns], "size": wide.size, "rows": rows}
    tables = changed(shape.tables, lambda reading: melted(reading, wide))
    issues = (*shape.issues, LogIssue("wide", details))
    return replace(shape, tables=tables, several=True, lines=True, issues=issues)


def wide_columns(tables: Sequence[Table], schema: Schema, named: Sequence[str]) -> Wide | None:
    """Return the columns of a wide table; None if the rows of the log are no groups of responses.

    Two parts or more have to have as many columns as there are responses, numbered from 0 or from 1; one part does if
    it is called a reward. Besides, a row has to be a group: it has no single advantage or answer, and one of these is
    true. The prompt of a row is its own in its step. Or, if no column is named like a prompt, each response has an
    answer, some part adds up to 0 in every row, as advantages do, or some column has a text of its own in every row.
    tables: the tables of the log.
    schema: the columns of all tables.
    named: the rewards that the caller names; one that is a column of the log as it is shows that it is not wide.
    """
    if any(name in schema for name in named):
        return None
    for pattern in (_AT_THE_END, _AT_THE_START):
        parts = _parts(schema, pattern)
        for size in sorted({len(columns) for columns in parts.values()}, reverse=True):
            same = {name: columns for name, columns in parts.items() if len(columns) == size}
            rewards = [name for name, columns in same.items() if _are_numbers(schema, columns)]
            enough = len(same) > 1 or any(map(is_called_reward, rewards))
            if rewards and enough and _rows_are_groups(tables, schema, same):
                return Wide(_with_free_names(same, schema), size)
    return None


def melted(reading: Reading, wide: Wide) -> pl.LazyFrame:
    """Return the rows of a wide table with a row per response; `LINE` numbers the rows from which they came.

    A response without any value is left out.
    reading: the rows. If it is one without long texts, each of them is replaced by its number of characters, as text.
    wide: the columns of the wide table.
    """
    frame, schema = reading.frame, reading.frame.collect_schema()
    there = {name: [x for x in columns if x in schema] for name, columns in wide.columns.items()}
    there = {name: columns for name, columns in there.items() if len(columns) == wide.size}
    gone = [column for columns in there.values() for column in columns]
    frame = (
        frame.drop(LINE, strict=False)
        .with_row_index(LINE)
        .with_columns(pl.col(LINE).cast(pl.Int64) + reading.number * ROWS_OF_A_FILE)
    )
    lists = [pl.concat_list(columns).alias(name) for name, columns in there.items()]
    frame = frame.with_columns(lists).drop([name for name in gone if name not in there]).explode(*there)
    frame = frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in there))
    # What stands beside the parts comes behind them: a trainer's columns of rewards stand before its advantages.
    frame = frame.select(*there, pl.all().exclude(list(there)))
    kinds = frame.collect_schema() if not reading.texts else {}
    unread = [name for name in there if name in kinds and is_unread(name, kinds[name], reading.table.kind)]
    return frame.with_columns(pl.col(name).str.len_chars().cast(pl.String) for name in unread)


def _parts(schema: Schema, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the columns of each part of a response, in the order of the responses, by the name of the part.

    Only parts of two columns or more count, whose numbers begin with 0 or 1 and lack none.
    schema: the columns of the log.
    pattern: matches the names of such columns.
    """
    parts: dict[str, dict[int, str]] = {}
    for column in schema:
        match = pattern.fullmatch(column)
        if match:
            parts.setdefault(match["name"], {}).setdefault(int(match["number"]), column)
    return {
        name: [numbers[k] for k in sorted(numbers)]
        for name, numbers in parts.items()
        if len(numbers) > 1 and min(numbers) <= 1 and max(numbers) - min(numbers) == len(numbers) - 1
    }


def _are_numbers(schema: Schema, columns: Sequence[str]) -> bool:
    """Return whether these columns hold numbers or nothing, and at least one of them holds numbers."""
    kinds = [schema[name] for name in columns]
    return any(map(is_number_type, kinds)) and all(is_number_type(kind) or kind == pl.Null for kind in kinds)


def _rows_are_groups(tables: Sequence[Table], schema: Schema, parts: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a row of the tables is a group, as `wide_columns` says.

    tables: the tables of the log.
    schema: the columns of all tables.
    parts: the columns of each part of a response.
    """
    used = {column for columns in parts.values() for column in columns}
    beside = {name.lower(): name for name in schema if name not in used}
    if beside.keys() & {*ADVANTAGES, *_ANSWERS}:  # a row with one advantage or one answer is a response
        return False
    prompts = [beside[name] for name in GROUPS if name in beside and not schema[beside[name]].is_nested()]
    if prompts:
        return _are_distinct(tables, [beside[name] for name in STEPS if name in beside][:1], prompts)
    texts = [n for n, columns in parts.items() if all(schema[x] == pl.String for x in columns)]
    if any(name.lower() in {*_ANSWERS, "answer"} for name in texts):
        return True
    numbers = [columns for columns in parts.values() if _are_numbers(schema, columns)]
    if any(_add_up(tables, columns) for columns in numbers):
        return True
    names = [name for name in beside.values() if schema[name] == pl.String]
    return len(parts) > 1 and any(_are_distinct(tables, (), [name]) for name in names)


def _are_distinct(tables: Sequence[Table], steps: Sequence[str], prompts: Sequence[str]) -> bool:
    """Return whether the prompts of nearly all rows are their own in their step.

    tables: the tables of the log.
    steps: the column of steps, if there is one.
    prompts: the columns that together tell the prompt.
    """
    rows = 0
    for table in tables:
        key = [name for name in (*steps, *prompts) if name in table.schema]
        rows += table.collected(table.fresh.select(pl.struct(key).n_unique())).item() if key else 0
    return rows >= _MOSTLY * sum(table.height for table in tables)


def _add_up(tables: Sequence[Table], columns: Sequence[str]) -> bool:
    """Return whether the numbers in these columns add up to 0 in every row, as advantages do, and are not all 0."""
    total, size = pl.sum_horizontal(columns).abs(), pl.sum_horizontal(pl.col(x).abs() for x in columns)
    sums = [t.collected(t.fresh.select(fit=(total <= ROUNDED_SUM * size).all(), any=(size > 0).any())) for t in tables]
    return all(row["fit"].item() for row in sums) and any(row["any"].item() for row in sums)


def _with_free_names(parts: Mapping[str, Sequence[str]], schema: Schema) -> dict[str, Sequence[str]]:
    """Return the parts of a response under names that no column beside them has; `_` is added where one has it."""
    used = {*schema} - {column for columns in parts.values() for column in columns}
    free = dict[str, Sequence[str]]()
    for name, columns in parts.items():
        while name in used:
            name += "_"
        free[name] = columns
    return free
