"""Objects that hold rewards although their names do not say so: their members make a logged total, or the caller names
one of them. The objects may be spelled as text.
"""

from collections.abc import Collection, Sequence

import polars as pl

from gdpo_audit.logs.forms.options import TYPED_ROWS, first_values
from gdpo_audit.logs.forms.roles import is_called_reward, total_rank
from gdpo_audit.logs.numbers.weighted_sums import FEWEST_ROWS, weights_of
from gdpo_audit.logs.shapes.objects import may_judge, names_of_members, object_in
from gdpo_audit.logs.shapes.shape import RESERVED
from gdpo_audit.logs.tables.formats import Schema, Table, fields_of, is_number_type
from gdpo_audit.logs.tables.json_values import column_of_values

_TABLES, _ROWS = 16, 4_000  # the tables, spread over a log, and the rows of them all, that are looked at
_TOTALS = 12  # the most columns that are tried as totals


def holders(tables: Sequence[Table], schema: Schema, named: Collection[str], alone: bool) -> list[str]:
    """Return the columns of objects, or of texts that spell objects, that hold rewards though they are not called so.

    These are the columns with a member that the caller names. If the caller names no rewards, they are the columns of
    whose numbers a column of the log is exactly a weighted sum of two or more. Where no other column may be a reward,
    texts that spell objects of numbers alone count as well.
    tables: the tables of the log.
    schema: the columns of all tables.
    named: the rewards that the caller names.
    alone: whether no column of single numbers may be a reward.
    """
    texts = _texts(tables)
    objects = [name for name, kind in schema.items() if fields_of(kind) and not is_called_reward(name)]
    if not texts and (named or not objects):
        return []
    rows = _some_rows(tables, [*texts, *objects], [] if named or alone else _totals(schema))
    members = {name: _numbers(rows, name) for name in (*texts, *objects) if name in rows.columns}
    if named:
        wanted = {name for name in named if name not in schema}
        return [name for name in texts if wanted & {name, *names_of_members(name, members[name])}]
    if alone:
        return [name for name in texts if members[name] and may_judge(name, rows[name].dtype)]
    return [name for name, parts in members.items() if _make_a_total(rows, name, parts, schema)]


def _texts(tables: Sequence[Table]) -> list[str]:
    """Return the columns of text whose first texts all spell objects, and that are not called rewards."""
    names = dict[str, None]()
    for table in _spread(tables):
        there = [n for n, kind in table.schema.items() if kind == pl.String and not is_called_reward(n)]
        for name, values in first_values(table, [n for n in there if n.lower() not in RESERVED], TYPED_ROWS).items():
            if values and all(object_in(text) is not None for text in values[:5]):
                names[name] = None
    return [*names]


def _spread(tables: Sequence[Table]) -> Sequence[Table]:
    """Return at most `_TABLES` of the tables, evenly over the log."""
    return tables[:: max(1, -(-len(tables) // _TABLES))]


def _totals(schema: Schema) -> list[str]:
    """Return the columns of numbers that may be a total, those that are called so first."""
    names = [n for n, kind in schema.items() if is_number_type(kind) and n.lower() not in RESERVED]
    return sorted(names, key=lambda name: (total_rank(name) is None, total_rank(name) or 0))[:_TOTALS]


def _some_rows(tables: Sequence[Table], objects: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
    """Return some rows of the log with these columns. Texts that spell objects become objects.

    tables: the tables of the log.
    objects: columns of objects, or of texts that spell them.
    numbers: columns of numbers.
    """
    some, frames = _spread(tables), list[pl.DataFrame]()
    for table in some:
        there = [name for name in (*objects, *numbers) if name in table.schema]
        rows = table.collected(table.fresh.select(there).head(-(-_ROWS // len(some))))
        texts = [name for name in there if rows[name].dtype == pl.String]
        read = [column_of_values(name, [text and object_in(text) for text in rows[name].to_list()]) for name in texts]
        frames.append(rows.with_columns(read))
    return pl.concat(frames, how="diagonal_relaxed")


def _numbers(rows: pl.DataFrame, name: str) -> list[str]:
    """Return the members of the objects in the column `name` that hold numbers."""
    return [member for member, kind in fields_of(rows[name].dtype).items() if is_number_type(kind)]


def _make_a_total(rows: pl.DataFrame, name: str, members: Sequence[str], schema: Schema) -> bool:
    """Return whether a column of the log is exactly a weighted sum of two or more members of an object.

    rows: some rows of the log, with the objects and the columns that may be totals.
    name: the column of the objects.
    members: the members that hold numbers.
    schema: the columns of the log.
    """
    parts = [f"{name}.{member}" for member in members]
    values = [pl.col(name).struct.field(m).cast(pl.Float64).alias(p) for m, p in zip(members, parts, strict=True)]
    totals = [total for total in rows.columns if is_number_type(schema.get(total))] if len(members) > 1 else []
    table = rows.select(*totals, *values) if totals else rows
    for total in totals:
        score = weights_of(table, parts, score=total)
        if len(table) >= FEWEST_ROWS and score is not None and score.exact and score.counted > 1 and score.spare > 0:
            return True
    return False
