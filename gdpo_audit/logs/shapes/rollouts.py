"""Lists of rollouts, which are objects with a reward or an advantage, also inside the groups of a step.

Some loops log a line per group, or per step, that holds its rollouts as objects: step, then groups, then samples. The
outer lists become lines of groups, and each list of rollouts becomes one list for each member of a rollout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from gdpo_audit.logs.forms.options import union_schema
from gdpo_audit.logs.forms.roles import ADVANTAGES, is_called_reward
from gdpo_audit.logs.shapes.lists import is_chat
from gdpo_audit.logs.shapes.shape import Reading, Shape, changed
from gdpo_audit.logs.tables.formats import Table

Members = Mapping[str, Sequence[str]]  # {column of lists: the members of its objects}


def members_in(tables: Sequence[Table]) -> Members:
    """Return {column of lists of rollouts: the members of a rollout that become columns}.

    A member that has the name of a column does not, unless it is a reward or an advantage: those of a rollout are its
    own, whatever stands beside the list.
    """
    schema = union_schema(tables)
    members = {name: _members(kind) for name, kind in schema.items() if _are_rollouts(kind)}
    beside = {*schema} - {*members}
    return {
        name: [member for member in names if member not in beside or _is_result(member)]
        for name, names in members.items()
    }


def with_lists(shape: Shape, members: Members) -> Shape:
    """Return the shape with lists in place of each list of rollouts: one for each member, with a value per rollout.

    members: as `members_in` returns them.
    """
    return shape if not members else replace(shape, tables=changed(shape.tables, _Apart(members)))


def with_lines_of_groups(shape: Shape) -> Shape:
    """Return the shape with a line per group in place of each line whose list holds groups, as that of a step does.

    Such a list holds lists of rollouts, or objects of which a member is one, or again lists of either. The members of
    objects become columns beside those of the line; one that has the name of such a column is left out.
    """
    while True:
        schema = union_schema(shape.tables)
        outer = next((name for name, kind in schema.items() if _holds_rollouts(kind)), None)
        if outer is None:
            return shape
        inner = [member for member in _members(schema[outer]) if member == outer or member not in schema]
        shape = replace(shape, tables=changed(shape.tables, _Lines(outer, inner)))


class _Apart:
    """Change the rows of a table: several lists take the place of each list of rollouts."""

    def __init__(self, members: Members) -> None:
        """Keep the members of the rollouts, by column."""
        self.members = members

    def __call__(self, reading: Reading) -> pl.LazyFrame:
        """Return the changed rows; a table without such lists stays as it is."""
        frame, schema = reading.frame, reading.frame.collect_schema()
        there = [name for name in self.members if isinstance(schema.get(name), pl.List)]
        each = [
            pl.col(name).list.eval(pl.element().struct.field(member)).alias(member)
            for name in there
            for member in self.members[name]
            if member in _members(schema[name])
        ]
        gone = {*there} - {member for name in there for member in self.members[name]}
        return frame.with_columns(each).drop(gone)


class _Lines:
    """Change the rows of a table: a line per object, or per inner list, of one list takes the place of each line."""

    def __init__(self, outer: str, inner: Sequence[str]) -> None:
        """Keep the column of the list, and the members of its objects that become columns, if it holds objects."""
        self.outer, self.inner = outer, inner

    def __call__(self, reading: Reading) -> pl.LazyFrame:
        """Return the changed rows; a table without the list stays as it is."""
        frame, schema = reading.frame, reading.frame.collect_schema()
        if not isinstance(schema.get(self.outer), pl.List):
            return frame
        members = _members(schema[self.outer])
        lines = frame.filter(pl.col(self.outer).list.len() > 0).explode(self.outer)
        if not members:
            return lines
        fields = (pl.col(self.outer).struct.field(name) for name in self.inner if name in members)
        return lines.select(pl.exclude(self.outer), *fields)


def _members(kind: pl.DataType) -> list[str]:
    """Return the names of the members of the objects in lists of this type; [] for any other type."""
    inner = kind.inner if isinstance(kind, pl.List) else None
    return [*inner.to_schema()] if isinstance(inner, pl.Struct) else []


def _are_rollouts(kind: pl.DataType) -> bool:
    """Return whether lists of this type hold rollouts: objects with a reward or an advantage, not messages.

    A member that is a list of objects is no reward, though it may be called so: it holds rollouts itself.
    """
    inner = kind.inner if isinstance(kind, pl.List) and not is_chat(kind) else None
    members = inner.to_schema().items() if isinstance(inner, pl.Struct) else ()
    return any(_is_result(name) and not _members(held) for name, held in members)  # type: ignore[arg-type]


def _is_result(name: str) -> bool:
    """Return whether a member of this name is a reward or an advantage."""
    return is_called_reward(name) or name.lower() in ADVANTAGES


def _holds_rollouts(kind: pl.DataType) -> bool:
    """Return whether lists of this type hold lists of rollouts, or objects that do, or lists of such objects again."""
    if _are_rollouts(kind) or not isinstance(kind, pl.List):
        return False
    inner = kind.inner
    held = inner.to_schema().values() if isinstance(inner, pl.Struct) else [inner]
    return any(_are_rollouts(member) or _holds_rollouts(member) for member in held)  # type: ignore[arg-type]
