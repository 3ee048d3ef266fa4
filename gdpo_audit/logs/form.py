"""The form of a log: which column holds what, and how a table of the log becomes one row per response."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from gdpo_audit.logs.columns import Columns, ReadOptions
from gdpo_audit.logs.names import FILE, ROW
from gdpo_audit.logs.refusals import location, refuse
from gdpo_audit.logs.roles import ADVANTAGES
from gdpo_audit.logs.run import LogIssue
from gdpo_audit.logs.tables import Schema, Table


def as_it_is(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return the table unchanged, for forms whose rows are responses already."""
    return table


@dataclass(frozen=True, kw_only=True)
class Form(Columns):
    """The form of a framework's log: how a table becomes one row per response, and which column holds what.

    rewards: the ones that the log itself names, until they are chosen.
    """

    tables: Sequence[Table]
    to_responses: Callable[[pl.LazyFrame], pl.LazyFrame] = as_it_is
    several: bool = False  # whether a row of a table may hold several responses
    keyed_by: str = ""  # what identifies a group, in words
    keyed_by_text: bool = False  # whether that is a prompt's text, which the caller did not name
    prompt: str | None = None  # the column whose changes show where a group ends
    batch: tuple[str, ...] = ("_file", "step")  # a batch ends where one of these columns of the run changes
    sorts: bool = False  # whether the rows of a batch may stand apart
    equal_groups: bool = False  # whether a keyed group that is smaller than the others has lost rows
    not_rewards: frozenset[str] = frozenset()  # columns that such logs hold beside the rewards, in small letters
    asks: bool = False  # whether to ask which columns are rewards, because no framework says it
    examines: bool = False  # whether to look for numbers in columns of text, which may be rewards
    total: str | None = None  # a total that is the only reward where no other is logged
    score: str | None = None  # a total that is logged beside the rewards
    logged: tuple[str, ...] | None = None  # all columns under the log's names, where the form has others
    left_out: tuple[str, ...] = ()  # what else of the log is left out, in words
    weights: Mapping[str, float] | None = None  # the weights that the log holds
    group_size: int | None = None  # the group size of the configuration
    settings: Mapping = field(default_factory=dict)  # the configuration of the run
    method: str | None = None  # the trainer's method, where the log says none
    issues: tuple[LogIssue, ...] = ()

    def responses(self, number: int, start: int = 0, rows: int | None = None) -> pl.LazyFrame:
        """Return the responses in the table of this number, or in some of its rows."""
        return self.to_responses(numbered(self.tables[number], number, start, rows))


# --- what forms share ------------------------------------------------------------------------------------------------


def advantage_in(names: Schema, options: ReadOptions) -> str | None:
    """Return the column of advantages: the one that the caller names, or else one that has a usual name; else None."""
    return options.named("advantage") or next((name for name in ADVANTAGES if name in others_in(names, options)), None)


def others_in(names: Schema, options: ReadOptions) -> Schema:
    """Return the columns that the caller does not name as rewards; what these hold, their names say."""
    return {name: kind for name, kind in names.items() if name not in (options.rewards or ())}


def numbered(table: Table, number: int, start: int = 0, rows: int | None = None) -> pl.LazyFrame:
    """Return the rows of a table, or some of them, with the number of the table and of each row in it."""
    frame = table.fresh if rows is None else table.fresh.slice(start, rows)
    return with_numbers(frame, number, start)


def with_numbers(frame: pl.LazyFrame, number: int, start: int = 0) -> pl.LazyFrame:
    """Return the rows with two more columns: the number of their table, and their own numbers from `start` on."""
    with_rows = frame.with_row_index(ROW, start)
    return with_rows.with_columns(pl.col(ROW).cast(pl.Int64), pl.lit(number, pl.Int64).alias(FILE))


def renumbered(table: pl.LazyFrame) -> pl.LazyFrame:
    """Number responses anew that stood several to a row, each in its file from 0 on."""
    return table.with_columns(pl.int_range(pl.len()).over(FILE).alias(ROW))


def exploded(table: pl.LazyFrame, lists: Sequence[str], by: str) -> pl.LazyFrame:
    """Return a row per item of these lists, of one length in each row, without rows in which the list `by` is empty."""
    there = [name for name in lists if name in table.collect_schema()]
    return renumbered(table.filter(pl.col(by).list.len() > 0).explode(there))


def sizes_of(table: Table, lists: Sequence[str]) -> pl.DataFrame:
    """Return the lengths of these lists in each row of a table; a missing list has length 0."""
    return table.frame.select(pl.col(name).list.len().fill_null(0) for name in lists).collect()


def expect_one_length(table: Table, lists: Sequence[str], by: str) -> None:
    """Raise InputError for the first row of a table whose lists are not all as long as `by`."""
    sizes = sizes_of(table, lists)
    for name in lists:
        if (sizes[name] != sizes[by]).any():
            row = (sizes[name] != sizes[by]).arg_max() or 0
            got = f"{sizes[by][row]} in {by!r}, {sizes[name][row]} in {name!r}"
            refuse(location(table.name, row=row), "lists of one length", got)


def same_length(table: Table, name: str, rewards: Sequence[str]) -> bool:
    """Return whether a list has as many items as the first of these rewards in each row.

    Raises InputError where a list that has to fit does not, and rows hold several rewards.
    """
    sizes = sizes_of(table, [*dict.fromkeys((name, rewards[0]))])
    same = sizes[name] == sizes[rewards[0]]
    needed = name in (*rewards, "content", "prompt_ids", "advantages", "token_loss_mask")
    if needed and (~same & (sizes[rewards[0]] > 1)).any():
        expect_one_length(table, [rewards[0], name], rewards[0])
    return bool(same.all())
