"""The shape of a log: its tables with changed rows, and what the form that reads them has to know of the change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.options import ReadOptions, union_schema
from gdpo_audit.logs.forms.roles import ADVANTAGES, GROUPS, LENGTHS, NOT_REWARDS, STEPS
from gdpo_audit.logs.shapes import lists
from gdpo_audit.logs.tables.formats import Table
from gdpo_audit.records import LogIssue

RESERVED = {*STEPS, *GROUPS, *LENGTHS, *ADVANTAGES, *NOT_REWARDS}  # names that mean something else than a reward


@dataclass(frozen=True)
class Reading:
    """One reading of the rows of a table, which a change of rows gets.

    frame: the rows.
    table: the table.
    number: which of the log's tables it is, from 0.
    texts: whether the rows hold their long texts.
    """

    frame: pl.LazyFrame
    table: Table
    number: int
    texts: bool


@dataclass(frozen=True)
class Shape:
    """The tables of a log in their new shape, and what the form that reads them has to know of the change.

    tables: the tables with changed rows.
    options: the caller's options. If they name a reward that became other columns, these are named in its place.
    framework: the framework whose form reads the tables.
    several: whether a row of the files holds several answers.
    lines: whether the lines of the files are the groups.
    texts: columns of numbers that were written as text in lists beside the rewards, so that they are not rewards.
    left_out: in words, the rows that were left out.
    method: the trainer's method, where it is known and none is logged.
    issues: what of the change a reader of the report is told.
    """

    tables: Sequence[Table]
    options: ReadOptions
    framework: str
    several: bool = False
    lines: bool = False
    texts: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    method: str | None = None
    issues: tuple[LogIssue, ...] = ()

    def applied_to(self, form: Form) -> Form:
        """Return a form of these tables, completed by what the shape tells.

        It gets the method, if the form names none. If rows hold several answers, it also gets to know that, which
        columns are no rewards, and whether a line of the file is a group.
        """
        form = replace(form, method=form.method or self.method)
        if not self.several:
            return form
        logged = form.logged or tuple(n for n in union_schema(form.tables) if n != lists.LINE)
        form = replace(form, several=True, logged=logged, not_rewards=form.not_rewards | {lists.LINE, *self.texts})
        if not self.lines or self.options.group or self.options.group_size:
            return form
        return replace(form, key=lists.LINE, keyed_by=lists.KEYED_BY, keyed_by_text=False)


def changed(tables: Sequence[Table], change: Callable[[Reading], pl.LazyFrame]) -> list[Table]:
    """Return the tables with their rows changed by the function `change`.

    A table is first read without its long texts, and its function `again` reads its rows a second time, with them. The
    rows of both readings are changed.
    tables: the tables.
    change: takes a reading of a table, and returns the changed rows.
    """

    def again(table: Table, number: int) -> pl.LazyFrame:
        """Return the rows of a table, read anew with their long texts and changed by `change` of the outer function.

        number: which of the tables it is, from 0.
        """
        return change(Reading(table.again(), table, number, texts=True))

    return [
        replace(
            table,
            frame=change(Reading(table.frame, table, number, texts=False)),
            again=partial(again, table, number),
            scanned=None,
        )
        for number, table in enumerate(tables)
    ]
