"""Reads a JSON file, an array of objects or an object of lists, as a table."""

import json
from collections.abc import Sequence

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import jsonl
from gdpo_core.logs.files import LogFile

_WANTED = "an array of objects or an object of lists"


def frame(file: LogFile, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The columns, all by default: numbers as Float64, anything else as text, nested values as JSON text."""
    try:
        found = json.loads(file.content().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name}: expected JSON, got {str(error)[:100]}") from None
    lists = _lists(file, found)
    return pl.DataFrame([_series(file, name, lists[name]) for name in (lists if columns is None else columns)])


def sample(file: LogFile, columns: Sequence[str], rows: int) -> dict[str, list]:
    """The first values of these text columns."""
    found = frame(file, columns)
    return {name: found[name].drop_nulls().head(rows).to_list() for name in columns}


def _lists(file: LogFile, found: object) -> dict[str, list]:
    if isinstance(found, dict):
        lists = {name: value for name, value in found.items() if isinstance(value, list)}
        expect(bool(lists), file.name, _WANTED, "an object without lists")
        sizes = {name: len(value) for name, value in lists.items()}
        same = len(set(sizes.values())) == 1
        expect(same, file.name, "lists of one length", ", ".join(f"{n} in {name!r}" for name, n in sizes.items()))
        return lists
    if not isinstance(found, list):
        raise InputError(f"{file.name}: expected {_WANTED}, got {type(found).__name__}")
    expect(len(found) > 0, file.name, "at least one response", "0 rows")
    odd = next((i for i, item in enumerate(found, start=1) if not isinstance(item, dict)), None)
    expect(odd is None, f"{file.name}, item {odd}", "an object", type(found[odd - 1]).__name__ if odd else "")
    return {name: [item.get(name) for item in found] for name in dict.fromkeys(key for item in found for key in item)}


def _series(file: LogFile, name: str, values: list) -> pl.Series:
    there = [value for value in values if value is not None]
    odd = [value for value in there if not jsonl.is_number(value)]
    if there and not odd:
        return pl.Series(name, [None if value is None else jsonl.as_float(value) for value in values], pl.Float64)
    if there and 2 * len(odd) < len(there):
        row = values.index(odd[0]) + 1
        raise InputError(f"{file.name}, item {row}: expected a number in {name!r}, got {str(odd[0])[:60]!r}")
    return pl.Series(name, [v if isinstance(v, str | None) else json.dumps(v) for v in values], pl.String)
