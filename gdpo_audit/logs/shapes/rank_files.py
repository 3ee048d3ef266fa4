"""Files of several ranks, of which some repeat the rows of another one.

Every rank of a trainer may write what it holds. Ranks that share the work on one part of a model hold the same rows,
and the ranks of some stages lack the columns that only the last stage computes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from gdpo_audit.logs.shapes.shape import Shape
from gdpo_audit.logs.tables.formats import Table
from gdpo_audit.records import LogIssue

_LEAST = 2  # the fewest rows of a table that counts as the copy of another one
_KINDS = ("torch", "csv", "tsv", "jsonl", "json")  # the formats whose tables are in memory, so that looking is cheap
_SCALARS = (pl.String, pl.Boolean)


def without_rank_copies(shape: Shape) -> Shape:
    """Return the shape without tables that repeat the rows of another one, as files of several ranks do."""
    again = rank_copies(shape.tables)
    if not again:
        return shape
    copy, first = next(iter(sorted(again.items())))
    details: dict[str, object] = {"files": len(again), "of": len(shape.tables)}
    details |= {"file": shape.tables[copy].name, "first": shape.tables[first].name}
    tables = [table for number, table in enumerate(shape.tables) if number not in again]
    return replace(shape, tables=tables, issues=(*shape.issues, LogIssue("copies", details)))


def rank_copies(tables: Sequence[Table]) -> dict[int, int]:
    """Return, by the number of each table that repeats another one's rows, the number of that table.

    A table repeats another one if it has as many rows and no further column, and if all values of its columns that hold
    single values are equal. Equal rewards may be chance, so a column has to show who the rows are: in every table its
    values differ from row to row, and not all tables hold the same values there, as they do of the places in a file.
    tables: the tables of the log.
    """
    if len(tables) < 2 or any(table.kind not in _KINDS for table in tables):
        return {}
    common = [name for name in _ids(tables[0].schema) if all(name in table.schema for table in tables)]
    by_start: dict[tuple, list[int]] = {}
    for number, table in enumerate(tables):
        if common and table.height >= _LEAST:
            start = table.collected(table.fresh.select(pl.col(common).cast(pl.String)).head(1)).row(0)
            by_start.setdefault((table.height, *start), []).append(number)
    alike = [numbers for numbers in by_start.values() if len(numbers) > 1]
    if not alike or not (ids := _telling(tables, common)):
        return {}
    again: dict[int, int] = {}
    for numbers in alike:
        # The table with the most columns is kept; of equally wide ones, the first.
        ordered = sorted(numbers, key=lambda k: -len(tables[k].schema))
        rows = {k: _plain(tables[k]) for k in ordered}
        kept = list[int]()
        for k in ordered:
            same = next((x for x in kept if _repeats(rows[k], rows[x], ids)), None)
            if same is None:
                kept.append(k)
            else:
                again[k] = same
    return again


def _ids(schema: Mapping[str, pl.DataType]) -> list[str]:
    """Return the columns whose values may tell rows apart: whole numbers and texts."""
    return [name for name, kind in schema.items() if kind.is_integer() or kind == pl.String]


def _telling(tables: Sequence[Table], names: Sequence[str]) -> list[str]:
    """Return those of these columns, which all tables have, that show who the rows are, as `rank_copies` says."""
    telling = list[str]()
    for name in names:
        values = [t.collected(t.fresh.select(pl.col(name).cast(pl.String)))[name] for t in tables]
        once = all(column.n_unique() == len(column) for column in values)
        if once and len({column.sort().hash().sum() for column in values}) > 1:
            telling.append(name)
    return telling


def _plain(table: Table) -> pl.DataFrame:
    """Return the columns of a table that hold single values."""
    kinds = table.schema.items()
    return table.collected(table.fresh.select(name for name, kind in kinds if kind.is_numeric() or kind in _SCALARS))


def _repeats(rows: pl.DataFrame, before: pl.DataFrame, ids: Sequence[str]) -> bool:
    """Return whether the first rows are those of `before`, but for columns that only these have.

    rows: the columns of a table that hold single values.
    before: those of another table.
    ids: the columns that show who the rows are.
    """
    names = [name for name in rows.columns if name in before.columns]
    return len(names) == rows.width and {*ids} <= {*names} and rows.equals(before.select(names))
