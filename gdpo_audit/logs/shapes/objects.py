"""Columns made of the objects of rewards in the rows of a log: `rewards: {"correct": 1}`, also spelled as text."""

import ast
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from gdpo_audit.logs.forms.options import TYPED_ROWS, first_values
from gdpo_audit.logs.forms.roles import is_called_reward, is_numbers
from gdpo_audit.logs.refusals import location, refuse
from gdpo_audit.logs.tables.formats import Schema, Table, fields_of, is_number_type
from gdpo_audit.logs.tables.json_values import column_of_values
from gdpo_core.shared.words import clip

# Words in the names of objects of numbers that judge nothing.
_NO_JUDGEMENTS = re.compile(r"usage|tim(e|ing)|config|param|setting|meta|kwargs|prompt|spec|args|stat", re.IGNORECASE)
_LONGEST = 20_000  # the most characters of a text that spells an object


@dataclass(frozen=True)
class Member:
    """A member of an object in a row.

    column: the name of the column that the member becomes.
    object: the column that holds the object.
    name: the member's name in the object.
    """

    column: str
    object: str
    name: str

    @property
    def value(self) -> pl.Expr:
        """The polars expression for this member of the objects in a table, named like the column that it becomes."""
        return pl.col(self.object).struct.field(self.name).alias(self.column)


def objects_in(
    schema: Schema, named: Collection[str], alone: bool, holders: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return, for each object that holds rewards, the names of its members that become columns of their own.

    The keys are the names of the objects' columns. The members that become columns are numbers, lists of numbers,
    texts, and members without any value.
    An object holds rewards only if it has a member of numbers. Its column also has to be named like rewards
    (`is_called_reward`), or the caller has to name the column or one of the members of numbers. If no object holds
    rewards so, an object of numbers alone (`may_judge`) does, but only if `alone` is true and the caller names no
    rewards.
    schema: the columns of the log with their types.
    named: the rewards that the caller names.
    alone: whether no other column of the log may be a reward.
    holders: columns that hold rewards though they are not called so.
    """
    numbers = {
        name: [member for member, member_kind in fields_of(kind).items() if is_numbers(member_kind)]
        for name, kind in schema.items()
    }
    surely = {*named, *holders}
    chosen = [name for name in schema if numbers[name] and (is_called_reward(name) or name in surely)]
    known = {name for object_name in chosen for name in names_of_members(object_name, numbers[object_name])}
    wanted = {name for name in named if name not in schema and name not in known}
    chosen += [name for name in schema if name not in chosen and wanted & names_of_members(name, numbers[name])]
    if not chosen and alone and not named:
        chosen = [name for name in schema if numbers[name] and may_judge(name, schema[name])]
    return {
        name: [member for member, kind in fields_of(schema[name]).items() if _may_stand_alone(kind)] for name in chosen
    }


def names_of_members(object_: str, members: Sequence[str]) -> set[str]:
    """Return all names by which a caller may name the members of an object: MEMBER and OBJECT.MEMBER.

    object_: the name of the object's column.
    """
    return {name for member in members for name in (member, f"{object_}.{member}")}


def _may_stand_alone(kind: pl.DataType) -> bool:
    """Return whether a member of an object of rewards can become a column of its own, by the type `kind` of its values.

    It can if they are numbers, lists of numbers, or texts, or if all of them are null.
    """
    return is_numbers(kind) or kind in (pl.Null, pl.String)


def may_judge(name: str, kind: pl.DataType) -> bool:
    """Return whether an object may hold rewards although its name does not say so.

    All of its members must be numbers, lists of numbers, or null in all rows. Objects that are called usage, times,
    settings or the like are excluded.
    name: the name of the object's column.
    kind: the type of that column.
    """
    only = all(is_numbers(member) or member == pl.Null for member in fields_of(kind).values())
    return only and not _NO_JUDGEMENTS.search(name)


def member_columns(objects: Mapping[str, Sequence[str]], schema: Schema, reserved: Collection[str]) -> list[Member]:
    """Return the members of these objects with the columns that they become.

    A column has the name of its member. It is OBJECT.MEMBER if that name is empty, reserved, begins with __, or belongs
    to another column or member. If a column with the new name exists already, _ is added to the new name until it is
    free.
    objects: the names of members by the column of their object.
    schema: the columns of the log.
    reserved: names, in small letters, that would give a column another meaning.
    """
    names = [member for members in objects.values() for member in members]
    ambiguous = {name for name in names if names.count(name) > 1 or (name in schema and name not in objects)}
    ambiguous |= {name for name in names if name.lower() in reserved or name.startswith("__")}
    made = list[Member]()
    used = {*schema}
    for object_name, members in objects.items():
        for name in members:
            column = f"{object_name}.{name}" if name in ambiguous or not name else name
            while column in used - {*objects}:
                column += "_"
            used.add(column)
            made.append(Member(column, object_name, name))
    return made


def unnested(frame: pl.LazyFrame, members: Sequence[Member]) -> pl.LazyFrame:
    """Return the rows with each of these members of objects as a column, in place of the columns of their objects.

    frame: the rows.
    members: the members. One that the rows lack is skipped.
    """
    schema = frame.collect_schema()
    there = [m for m in members if m.name in fields_of(schema.get(m.object))]
    gone = {m.object for m in there}
    return frame.with_columns(m.value for m in there).drop(gone - {m.column for m in there})


def without_copies(tables: Sequence[Table], members: Sequence[Member]) -> list[Member]:
    """Return the members of objects except those that repeat a column of numbers of the same name.

    NeMo-Gym may write copies of this kind. A member repeats the column if some table has both, and if the values are
    equal in every table that has both.
    tables: the tables of the log.
    members: members of objects in the rows, each of which may become a column.
    """
    kept = list[Member]()
    for member in members:
        beside = [
            t for t in tables if member.name in t.schema and member.name in fields_of(t.schema.get(member.object))
        ]
        copy = member.column != member.name and len(beside) > 0
        for table in beside if copy else ():
            copy = copy and is_number_type(table.schema[member.name])
            if copy:
                value, same = member.value.cast(pl.Float64), pl.col(member.name).cast(pl.Float64)
                copy = table.collected(table.fresh.select(value.eq_missing(same).all())).item()
        kept += [] if copy else [member]
    return kept


# --- objects that are text -------------------------------------------------------------------------------------------


def texts_of_objects(table: Table, holders: Collection[str] = ()) -> list[str]:
    """Return the columns of text that hold rewards and spell an object in each text, in JSON or Python.

    They hold rewards if they are called so. The first texts of a column decide; a column without texts is left out.
    holders: columns that hold rewards though they are not called so.
    """
    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    names = [name for name in texts if is_called_reward(name) or name in holders]
    return [
        name
        for name, texts in first_values(table, names, TYPED_ROWS).items()
        if texts and all(object_in(text) is not None for text in texts)
    ]


def read_texts(table: Table, names: Sequence[str]) -> list[pl.Series]:
    """Return these columns of text as columns of the objects that they spell. A missing text is null.

    names: the columns.

    Raises InputError for a text that spells no object.
    """
    columns = list[pl.Series]()
    for name in names:
        values = list[dict | None]()
        for row, text in enumerate(table.collected(table.fresh.select(name))[name].to_list()):
            value = None if text is None else object_in(text)
            if value is None and text is not None:
                refuse(location(table.name, row=row), f"an object in {name!r}", repr(clip(text)))
            values.append(value)
        columns.append(column_of_values(name, values))
    return columns


def object_in(text: str) -> dict | None:
    """Return the object that a text spells in JSON, or as a dict in Python whose names are all texts.

    None for any other text, and for one of more than `_LONGEST` characters. White space around the text does not count.
    """
    text = text.strip()
    if not text.startswith("{") or len(text) > _LONGEST:
        return None
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            value = read(text)
            return value if isinstance(value, dict) and all(isinstance(name, str) for name in value) else None
    return None
