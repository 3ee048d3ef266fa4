"""Values of JSON as columns of polars, and the check of the names that columns may have."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal

import numpy as np
import polars as pl

from gdpo_audit.logs.files.files import LogFile
from gdpo_audit.logs.names import MADE
from gdpo_audit.logs.refusals import refuse
from gdpo_core.shared.words import clip, count, listing

_COLUMNS = 5_000  # the most columns of a table
BOM = b"\xef\xbb\xbf"  # the bytes that may stand before a text in UTF-8
_NAME = 10_000  # the most characters of a name, which a report may repeat a hundred times


def json_content(file: LogFile, wanted: str) -> object:
    """Return what a file of JSON holds.

    wanted: what the file should hold, in words, for the error.

    Raises InputError if the file is not JSON.
    """
    try:
        return json.loads(file.content().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        refuse(file.name, wanted, f"broken JSON: {clip(str(error), 100)}")


def expect_names(names: Collection[str], where: str) -> None:
    """Raise InputError for names of columns that are too many, too long, repeated or reserved.

    Two kinds of names are reserved: names that polars reads as a pattern, and names that begin with `MADE`. Columns
    that reading a log adds begin so.
    names: the names of the columns of a table.
    where: the name of the table, for the error.
    """
    if len(names) > _COLUMNS:
        refuse(where, f"at most {_COLUMNS} columns", len(names))
    repeated = [repr(clip(name)) for name, times in Counter([*names]).items() if times > 1]
    if repeated:
        refuse(where, "columns of different names", f"{listing(repeated, most=5)} more than once")
    longest = max(map(len, names), default=0)
    if longest > _NAME:
        refuse(where, f"names of columns of at most {count(_NAME, 'character')}", count(longest))
    reserved = next((name for name in names if _is_pattern(name) or name.startswith(MADE)), None)
    if reserved is not None:
        refuse(where, "columns of other names", f"one called {reserved!r}")


def _is_pattern(name: str) -> bool:
    """Return whether polars takes the name of a column for a pattern that other names may match: "*", or "^…$"."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def records(items: Sequence[Mapping], odd: set[str] | None = None) -> pl.DataFrame:
    """Return objects as a table with a row for each; a member that an object lacks is null in its row.

    items: the objects.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.

    Raises InputError if there are too many columns.
    """
    names = dict.fromkeys(name for item in items for name in item)
    if len(names) > _COLUMNS:
        refuse("table", f"at most {_COLUMNS} columns", len(names))
    return table_of(column_of_values(name, [item.get(name) for item in items], odd) for name in names)


def table_of(columns: Iterable[pl.Series]) -> pl.DataFrame:
    """Return the table of these columns, each under its own name, which may be the empty text.

    The names have to differ: of two columns with one name, the later replaces the earlier.
    """
    # From a list polars would give a column without a name another name.
    return pl.DataFrame({series.name: series for series in columns})


def column_of_values(name: str, values: Sequence, odd: set[str] | None = None) -> pl.Series:
    """Return JSON values as a column of numbers, booleans, texts, lists or objects; nulls alone have the type Null.

    Booleans among numbers become 0 and 1. Texts among numbers become numbers if each of them spells one, because
    trackers write NaN in quotes. Any other mix of kinds becomes text.
    name: the name of the column.
    values: the values, one per row.
    odd: a set to which the column is added if it becomes text although most of its values are numbers.
    """
    name = _utf8(name)
    values = [value.item() if getattr(value, "shape", None) == () else value for value in values]  # of numpy or torch
    kinds = {type(value) for value in values} - {type(None)}
    if str in kinds and {int, float} & kinds and kinds <= {str, int, float}:
        with suppress(ValueError):  # trackers write NaN in quotes among other numbers
            values, kinds = [None if value is None else float(value) for value in values], {float}
    if not kinds:
        return pl.Series(name, values, pl.Null)
    if kinds == {bool}:
        return pl.Series(name, values, pl.Boolean)
    if kinds == {int} and all(value is None or abs(value) < 2**63 for value in values):
        return pl.Series(name, values, pl.Int64)
    if kinds <= {int, float, bool, Decimal}:
        return pl.Series(name, [_float(value) for value in values], pl.Float64)
    if kinds == {dict} and any(values):
        return records([value or {} for value in values]).to_struct(name)
    if kinds == {list}:
        return _lists(name, values, odd)
    if kinds <= {str, int, float, bool, list, dict}:
        numbers = sum(map(is_number, values))
        if odd is not None and 2 * numbers > len(values) - values.count(None):
            odd.add(name)
        return pl.Series(name, [_text(value) for value in values], pl.String)
    return pl.Series(name, [None if value is None else str(value) for value in values], pl.String)


def _lists(name: str, values: Sequence[list | None], odd: set[str] | None) -> pl.Series:
    """Return lists of JSON values as a column, in which an empty list is null.

    name: the name of the column.
    values: the lists, one per row; None for a row without one.
    odd: a set to which the column is added if its items become text although most of them are numbers.
    """
    inner = column_of_values(name, [item for value in values for item in value or ()], odd)
    rows = np.arange(len(values))
    lists = pl.DataFrame({"row": rows.repeat([len(value or ()) for value in values]), "list": inner})
    lists = lists.group_by("row", maintain_order=True).agg("list")
    return pl.DataFrame({"row": rows}).join(lists, "row", how="left", maintain_order="left")["list"].rename(name)


def is_number(value: object) -> bool:
    """Return whether a JSON value can be a reward: whether it is a number or a boolean."""
    return isinstance(value, int | float)


def _float(value: float | Decimal | None) -> float | None:
    """Return a number as a float; infinity with its sign for a whole number that is too large; None for None."""
    if value is None:
        return None
    try:
        return float(value)
    except OverflowError:
        return float("-inf") if value < 0 else float("inf")


def _text(value: object) -> str | None:
    """Return a JSON value as text: a text itself, anything else as JSON writes it; None for None.

    Half characters (lone surrogates), which polars cannot hold, become the replacement character.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # replaces half characters
    return None if value is None else json.dumps(value)


def _utf8(text: str) -> str:
    """Return a text in which half characters (lone surrogates) are escapes; return anything but a text unchanged."""
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text
