"""The columns of a log by what they hold, the options that name some of them, and the checks of their values."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

from gdpo_audit.logs.forms.window import StepRange, validate_left_out, validate_window
from gdpo_audit.logs.names import reward_options
from gdpo_audit.logs.refusals import Lacking, location, refuse, refuse_unless
from gdpo_audit.logs.tables import formats as of_files
from gdpo_audit.logs.tables.formats import Table, is_number_type
from gdpo_audit.records import Mask
from gdpo_core.shared.errors import expect_count
from gdpo_core.shared.words import listing

MOST_REWARDS = 100  # the most rewards: the work grows with their pairs, and no run has as many
TYPED_ROWS = 100  # the rows that decide whether a column of text holds numbers
# A number as a program prints it with its type, such as tensor(0.5, device='cpu').
_MADE = re.compile(
    r"(?:\w+\.)*(?:tensor|[aA]rray|Decimal|(?:b?float|u?int)\d*)\(\[?['\"]?([^'\",()\[\]]+)['\"]?\]?(?:,.*)?\)"
)
# The ends of names that columns of numbers have.
_NUMBERS = re.compile(r"(^|[^a-z])(rewards?|scores?|penalt(y|ies)|bonus)$", re.IGNORECASE)
_NAMED = ("step", "advantage", "length")  # the keys that the argument `columns` may have
# Usual names of the texts beside rewards.
USUAL_TEXTS = {
    *("prompt", "prompts", "completion", "completions", "response", "responses", "output", "outputs"),
    *("input", "inputs", "question", "questions", "query", "problem", "text", "texts", "message", "messages"),
    *("content", "answer", "answers", "target", "label", "labels", "ground_truth", "gts", "gold", "solution"),
    *("reference", "expected", "generation", "reasoning", "extracted_answer", "predicted", "prediction"),
}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The arguments of `read_run` besides the log, and four more: `unkeyed`, `places`, `once` and `mask`.

    With these four a log is read again in other groups, or without some rows. Creating the options raises InputError
    for a value that cannot be used.
    """

    group_size: int | None = None
    rewards: tuple[str, ...] | None = None
    group: str | tuple[str, ...] | None = None  # a column that names a group, or several that together do
    columns: Mapping[str, str] | None = None  # names of columns by what they hold: step, advantage, length
    skip_bad: bool = False
    by: str | None = None  # a column whose values an audit looks at one by one
    steps: Sequence[StepRange] | None = None  # the stretches of steps that are read
    last: int | None = None  # the number of steps at the end of the log that are read
    not_steps: Sequence[StepRange] = ()  # the stretches of steps that are left out
    parts: Mapping[str, float] | None = None  # the pay of each part of a total, which `with_parts` validates
    unkeyed: bool = False  # whether no column names the groups, whatever the log holds
    places: int | None = None  # how far apart the rows of a group stand in their batch
    once: str | None = None  # a column; of the rows of a batch that share its value, only the last one counts
    mask: Mask | None = None  # which rows a mask leaves out

    def __post_init__(self) -> None:
        steps, last = validate_window(self.steps, self.last)
        named = {} if self.columns is None else self.columns
        refuse_unless(
            isinstance(named, Mapping), "columns", "names of columns by step, advantage or length", repr(named)
        )
        odd = next((what for what in named if what not in _NAMED), None)
        if odd is not None:
            refuse("columns", "step, advantage or length", repr(odd))
        for argument, name in {**named, "by": self.by}.items():
            right = isinstance(name, str) and (name != "" or argument == "by")  # by="" asks for no column
            refuse_unless(
                right or (name is None and argument not in named), argument, "the name of a column", repr(name)
            )
        groups = (self.group,) if isinstance(self.group, str) else self.group
        right = groups is None or (
            isinstance(groups, list | tuple) and len(groups) > 0 and all(isinstance(x, str) and x for x in groups)
        )
        refuse_unless(right, "group", "the name of a column", repr(self.group))
        groups = None if groups is None else tuple(dict.fromkeys(groups))
        refuse_unless(isinstance(self.skip_bad, bool), "skip_bad", "True or False", repr(self.skip_bad))
        in_use = [*(reward_names(self.rewards) or ()), *named.values()]  # the length may be a reward too
        twice = next((name for what, name in named.items() if what != "length" and in_use.count(name) > 1), None)
        if twice is not None:
            refuse("columns", "a column of its own for each", f"{twice!r} twice")
        size = self.group_size
        if size is not None:
            expect_count(size, "group_size")
        plain = {
            "rewards": reward_names(self.rewards),
            "group": groups if groups is None or len(groups) > 1 else groups[0],
            "group_size": None if size is None else int(size),
            "columns": dict(named),
            "steps": steps,
            "last": last,
            "not_steps": validate_left_out(self.not_steps or None),
        }
        for argument, value in plain.items():
            object.__setattr__(self, argument, value)

    def named(self, what: str) -> str | None:
        """Return the column that the caller named in `columns` as step, advantage or length (`what`), or None."""
        return (self.columns or {}).get(what)

    @property
    def names(self) -> list[str]:
        """The columns that the caller named: as rewards, to tell groups apart, in `columns`, or as the column `by`."""
        beside = (*self.groups, *(self.columns or {}).values(), self.by)
        return [*(self.rewards or ()), *(name for name in beside if name)]

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that together name a group; () if the caller named none."""
        return (self.group,) if isinstance(self.group, str) else self.group or ()

    @property
    def key(self) -> str | None:
        """The column that names a group, or the name of the column that joins several; None if nobody named one."""
        return " + ".join(self.groups) or None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a log by what they hold, each under its name in the log; None for what no column holds."""

    rewards: tuple[str, ...] = ()
    step: str | None = None
    advantage: str | None = None
    length: str | None = None
    key: str | None = None  # the column that identifies the groups of a batch
    by: str | None = None  # a column with one value in each group
    identity: str | None = None  # the column that says which prompt a response answers; a table may lack it
    once: str | None = None  # a column that marks copies: of a batch's rows with one value there, only the last counts
    mask: Mask | None = None  # which rows a mask leaves out

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold numbers: the rewards, the advantage and the length."""
        beside = (name for name in (self.advantage, self.length) if name)
        return tuple(dict.fromkeys((*self.rewards, *beside)))

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that may hold text: `step`, `key` and `by`. A column in `numbers` is left out, as it must hold
        numbers.
        """
        names = (self.step, self.key, self.by)
        return tuple(dict.fromkeys(name for name in names if name and name not in self.numbers))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that every table must have."""
        return (*self.numbers, *self.texts)

    @property
    def read(self) -> list[str]:
        """The columns of the log that are read, among them columns that a table may lack."""
        beside = (self.identity, self.once, None if self.mask is None else self.mask.column)
        return [*dict.fromkeys([*self.names, *(name for name in beside if name)])]


OfColumns = TypeVar("OfColumns", bound=Columns)


# --- choosing columns ------------------------------------------------------------------------------------------------


def reward_names(rewards: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Return the rewards that the caller names, as a tuple; None for None.

    rewards: one name, or several in a sequence.

    Raises InputError for an empty sequence, for a name that comes twice, and for anything but a name or a sequence of
    names: a set has no order, and the values of a dict, such as weights, would not be read.
    """
    if rewards is None:
        return None
    listed = isinstance(rewards, Iterable) and not isinstance(rewards, str) and getattr(rewards, "ndim", 1) == 1
    names = tuple(rewards) if listed else (rewards,)
    in_order = not isinstance(rewards, set | frozenset | Mapping)
    fits = in_order and len(names) > 0 and all(isinstance(name, str) for name in names)
    refuse_unless(fits, "rewards", "names of columns", repr(rewards))
    refuse_unless(len(set(names)) == len(names), "rewards", "each column once", repr(names))
    return tuple(map(str, names))


def expect_columns(names: Iterable[str], columns: Sequence[str], where: str) -> None:
    """Raise InputError for the first of these names that is not among `columns`.

    names: the columns that have to be there.
    columns: the columns that are there.
    where: a file, for the error.
    """
    for name in names:
        if name not in columns:
            refuse(where, f"a column {name!r}", _listing(columns))


def validate_columns(columns: OfColumns, logged: Iterable[str], where: str) -> OfColumns:
    """Return the columns unchanged, except that `length` becomes None if the column of lengths is one of the rewards.

    columns: the columns of a log by what they hold.
    logged: all columns of the log, for errors.
    where: a file, for errors.

    Raises InputError if no column is a reward, or more than `MOST_REWARDS` are.
    """
    if not columns.rewards:
        refuse(where, "at least one column of numbers that is a reward", _listing(logged), Lacking)
    got = f"{len(columns.rewards)} columns of numbers: {_listing(columns.rewards[:3])}, …"
    wanted = f"at most {MOST_REWARDS} rewards; name those that are, as {reward_options(columns.rewards[:1])}"
    refuse_unless(len(columns.rewards) <= MOST_REWARDS, where, wanted, got)
    return replace(columns, length=None) if columns.length in columns.rewards else columns


def union_schema(tables: Sequence[Table]) -> dict[str, pl.DataType]:
    """Return the columns of several tables with their types.

    Where the types of a column differ, the first type of numbers counts. If there is none, the first type that is not
    Null counts.
    """
    union: dict[str, pl.DataType] = {}
    for table in of_files.one_of_each(tables):
        for name, kind in table.schema.items():
            before = union.get(name, pl.Null())
            if before == pl.Null or (is_number_type(kind) and not is_number_type(before)):
                union[name] = kind
    return union


def expect_in_every_table(tables: Sequence[Table], columns: Columns) -> None:
    """Raise InputError for a column that only some tables have, or that has to hold numbers and does so in some only.

    The columns to look at are `columns.names`. The columns that have to hold numbers are `columns.numbers`. A table
    without numbers in one of these still passes if the column has no value there, or if all but a few of its values are
    numbers.
    tables: the tables of the log.
    columns: the columns of the log by what they hold.
    """
    tables = of_files.one_of_each(tables)
    for name in columns.names:
        has = [table for table in tables if name in table.schema]
        lacks = next((table for table in tables if name not in table.schema), None)
        if lacks is not None and has:
            common = [reward for reward in columns.rewards if all(reward in table.schema for table in tables)]
            # Naming rewards does not help if the column that some tables lack is not a reward.
            hint = f"; name those of all: {reward_options(common)}" if name in columns.rewards and common else ""
            got = f"others: {name} only in {has[0].name}{hint}"
            refuse(lacks.name, f"the columns of {has[0].name}", got)
    for name in columns.numbers:
        first = next((table for table in tables if is_number_type(table.schema.get(name))), None)
        for table in tables if first else ():
            kind = table.schema.get(name, pl.Null())
            fits = is_number_type(kind) or kind == pl.Null or name in table.odd
            refuse_unless(fits, table.name, f"numbers in {name!r}, as in {first and first.name}", f"{kind}")


def unused_columns(schema: Mapping[str, pl.DataType], used: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are not used, without the usual texts beside rewards.

    The usual texts are columns with a name of `USUAL_TEXTS`, such as prompt. A column of numbers is returned even if it
    has one of these names.
    schema: all columns with their types.
    used: the names of the columns that are used.

    >>> unused_columns({"acc": pl.Float64(), "prompt": pl.String(), "grade": pl.String()}, ["acc"])
    ('grade',)
    """
    used = set(used)
    return tuple(
        name
        for name, kind in schema.items()
        if name not in used and (name.lower() not in USUAL_TEXTS or is_number_type(kind))
    )


def refuse_numeric_texts(
    tables: Sequence[Table], used: Iterable[str], rewards: Sequence[str] = (), needed: Collection[str] = ()
) -> None:
    """Raise InputError for a column of text that may be a reward written as text.

    It may be one if its first texts all spell numbers, or if its name ends like the name of a reward, as total_score
    does. Columns that are named like prompts, answers or ids, or that hold no text, are no error.
    tables: the tables of the log.
    used: the columns that are not looked at, as they are in use or may hold texts that spell numbers.
    rewards: the rewards that a caller can name to have the column left alone. If there are any, the error says so.
    needed: columns, in small letters, that are read whatever the caller names. For these the error does not say it.
    """
    examined = {*used}
    for table in tables:
        names = [
            name
            for name, kind in table.schema.items()
            if kind == pl.String
            and name not in examined
            and name.lower() not in USUAL_TEXTS
            and name[-2:].lower() != "id"
        ]
        examined |= {*names}
        for name, values in first_values(table, names, TYPED_ROWS).items():
            texts = [value for value in values if value.strip()]
            if texts and (_NUMBERS.search(name) or all(map(is_numeric_text, texts))):
                helps = bool(rewards) and name.lower() not in needed
                hint = f", or name the rewards: {reward_options(rewards)}" * helps
                got = f"text {texts[0][:60]!r}; write it as numbers{hint}"
                refuse(location(table.name, column=name), "numbers", got)


def first_values(table: Table, names: Sequence[str], rows: int) -> dict[str, list]:
    """Return by column the first values of each of these columns; missing values are skipped.

    names: the columns.
    rows: the most values of a column.
    """
    if not names:
        return {}
    lists = table.collected(table.frame.select(pl.col(name).drop_nulls().head(rows).implode() for name in names))
    return {name: lists[name][0].to_list() for name in names}


def is_numeric_text(text: str) -> bool:
    """Return whether a text spells a number (also with commas or %, or as in int(5)) or a truth value (True, false)."""
    made = _MADE.fullmatch(text.strip())
    text = (made[1] if made else text).strip().lower().removesuffix("%").replace(",", "")
    try:
        float(text)
    except ValueError:
        return text in ("true", "false", "np.true_", "np.false_")
    return True


def _listing(columns: Iterable[str]) -> str:
    """Return the names of columns with commas between them, only the first ones of many; "no columns" for none."""
    names = list(columns)
    return listing(names, link="", most=30) if names else "no columns"
