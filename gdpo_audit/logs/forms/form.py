"""The form of a framework's log: which column holds what, and how a table becomes one row per response."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from gdpo_audit.logs.forms.options import Columns, ReadOptions, union_schema
from gdpo_audit.logs.forms.roles import ADVANTAGES
from gdpo_audit.logs.names import FILE, ROW
from gdpo_audit.logs.refusals import location, refuse
from gdpo_audit.logs.tables.formats import Schema, Table
from gdpo_audit.records import LogIssue


def as_it_is(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return the table unchanged, for forms whose rows are responses already."""
    return table


@dataclass(frozen=True, kw_only=True)
class Form(Columns):
    """The form of a framework's log: which column holds what, and how a table becomes one row per response.

    rewards: the rewards that the log itself names; once the rewards are chosen, the chosen ones.
    tables: the tables of the log.
    to_responses: turns the rows of a table into a row per response.
    """

    tables: Sequence[Table]
    to_responses: Callable[[pl.LazyFrame], pl.LazyFrame] = as_it_is
    several: bool = False  # whether a row of a table may hold several responses
    keyed_by: str = ""  # what identifies a group, in words; empty: the column `key`
    keyed_by_text: bool = False  # whether that is the text of a prompt, which the caller did not name
    prompt: str | None = None  # the column whose changes show where a group ends
    batch: tuple[str, ...] = ("_file", "step")  # the standard columns at whose changes a batch ends
    sorts: bool = False  # whether the rows of a batch may stand apart, so that they have to be sorted
    equal_groups: bool = False  # whether groups have one size, so that a smaller one has lost rows
    not_rewards: frozenset[str] = frozenset()  # columns that such logs hold beside the rewards, in small letters
    asks: bool = False  # whether to ask which columns are rewards, because no framework says it
    examines: bool = False  # whether to look for numbers in columns of text, which may be rewards
    total: str | None = None  # a total that is the only reward where no other is logged
    score: str | None = None  # a total that is logged beside the rewards
    logged: tuple[str, ...] | None = None  # all columns by their names in the log, if `tables` has others
    left_out: tuple[str, ...] = ()  # in words, what is left out of the log besides columns
    weights: Mapping[str, float] | None = None  # the weights that the log holds
    parts: bool = (
        False  # whether the tables are those of several folders, so that their steps have to continue each other
    )
    group_size: int | None = None  # the group size of the configuration
    arguments: Mapping = field(default_factory=dict)  # those of the run in its args.json, by name
    method: str | None = None  # the method that the trainer always has, if the log names none
    issues: tuple[LogIssue, ...] = ()

    def responses(self, number: int, start: int = 0, rows: int | None = None) -> pl.LazyFrame:
        """Return a lazy frame of the responses in one table, or of the responses in some of its rows.

        number: which table it is, from 0.
        start: the first row to read, from 0.
        rows: how many rows to read; if it is None, all rows of the table are read.
        """
        return self.to_responses(numbered(self.tables[number], number, start, rows))


# --- what forms share ------------------------------------------------------------------------------------------------


def advantage_in(names: Schema, options: ReadOptions) -> str | None:
    """Return the column of advantages; None if there is none.

    It is the one that the caller names, or, if the caller names none, the first with a usual name.
    names: the columns of the log with their types.
    """
    return options.named("advantage") or next((name for name in ADVANTAGES if name in others_in(names, options)), None)


def others_in(names: Schema, options: ReadOptions) -> Schema:
    """Return the columns of a log, with their types, that the caller does not name as rewards.

    Only the names of these columns tell what they hold. What the caller names as a reward is a reward, whatever its
    name.
    """
    return {name: kind for name, kind in names.items() if name not in (options.rewards or ())}


def numbered(table: Table, number: int, start: int = 0, rows: int | None = None) -> pl.LazyFrame:
    """Return the rows of a table, or some of them, with the numbers of the table and of each row in it.

    start: the first row that is wanted, from 0. If `rows` is None, all rows come, and `start` is the number that the
        first of them gets.
    rows: how many rows are wanted.
    """
    frame = table.fresh if rows is None else table.fresh.slice(start, rows)
    return with_numbers(frame, number, start)


def with_numbers(frame: pl.LazyFrame, number: int, start: int = 0) -> pl.LazyFrame:
    """Return the rows with two more columns: FILE, the number of their table, and ROW, the numbers of the rows.

    start: the number of the first row.
    """
    with_rows = frame.with_row_index(ROW, start)
    return with_rows.with_columns(pl.col(ROW).cast(pl.Int64), pl.lit(number, pl.Int64).alias(FILE))


def renumbered(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return a table of responses with new numbers in ROW, from 0 in each file.

    Before this, all responses that were made of one row have the number of that row.
    """
    return table.with_columns(pl.int_range(pl.len()).over(FILE).alias(ROW))


def exploded(table: pl.LazyFrame, lists: Sequence[str], by: str) -> pl.LazyFrame:
    """Return a table with a row per item of the lists in some of its columns.

    The other values of a row stand in each of its new rows. The new rows are numbered anew in `ROW`, from 0 in each
    file.
    lists: the columns of lists, which have the same length within a row; a column that the table lacks is skipped.
    by: one of these columns; rows in which it is empty or null are left out.
    """
    there = [name for name in lists if name in table.collect_schema()]
    return renumbered(table.filter(pl.col(by).list.len() > 0).explode(there))


def sizes_of(table: Table, lists: Sequence[str]) -> pl.DataFrame:
    """Return the lengths of these lists in each row of a table, a column per list; a null has length 0."""
    return table.frame.select(pl.col(name).list.len().fill_null(0) for name in lists).collect()


def expect_one_length(table: Table, lists: Sequence[str], by: str) -> None:
    """Raise InputError if one of these lists is not as long as the list `by` in some row of a table.

    The error names the first list for which this is so, and the first row.
    lists: the columns of lists to compare.
    by: the column of the lists with which they are compared.
    """
    sizes = sizes_of(table, lists)
    for name in lists:
        if (sizes[name] != sizes[by]).any():
            row = (sizes[name] != sizes[by]).arg_max() or 0
            got = f"{sizes[by][row]} in {by!r}, {sizes[name][row]} in {name!r}"
            refuse(location(table.name, row=row), "lists of one length", got)


def same_length(table: Table, name: str, rewards: Sequence[str]) -> bool:
    """Return whether, in each row of a table, the list `name` has as many items as the list of the first reward.

    Some columns need a value per response, such as another reward or the advantages. If the column `name` is one of
    them, InputError is raised where the two lengths differ in a row of several responses.
    name: the column of lists.
    rewards: the columns of the rewards.
    """
    sizes = sizes_of(table, [*dict.fromkeys((name, rewards[0]))])
    same = sizes[name] == sizes[rewards[0]]
    needed = name in (*rewards, "content", "prompt_ids", "advantages", "token_loss_mask")
    if needed and (~same & (sizes[rewards[0]] > 1)).any():
        expect_one_length(table, [rewards[0], name], rewards[0])
    return bool(same.all())


def kinds_of(form: Form) -> Mapping[str, pl.DataType]:
    """Return the types of the columns that a log has with one row per response, by the columns' names.

    The columns FILE and ROW are among them.
    form: says how the tables of the log become rows of this kind.
    """
    names = union_schema(form.tables)
    return form.to_responses(pl.LazyFrame(schema={ROW: pl.Int64(), FILE: pl.Int64(), **names})).collect_schema()
