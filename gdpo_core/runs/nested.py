"""Rewards and metrics that a log nests in objects, as columns: {"rewards": {"a": 1}} is the column a.

A member of `metrics` is called metrics.NAME, so that it is known for one; one of rewards by its own name, or
rewards.NAME where another column has that.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from gdpo_core._errors import InputError
from gdpo_core._words import listing
from gdpo_core.runs.files import LogFile, LogFiles, format_of
from gdpo_core.runs.tables import (
    BadLines,
    Schema,
    expect_width,
    first_objects,
    is_number,
    is_number_type,
    parquet_schema,
)

METRICS = "metrics"
_REWARDS = re.compile(r"(^|_)(rewards?|scores?)($|_)|^components$", re.IGNORECASE)
_OTHERS = re.compile(r"model|config|kwargs|prompt|spec", re.IGNORECASE)  # as verl's reward_model
Names = Mapping[tuple[str, str], str]  # the column of each member of each object


def as_columns(log: LogFiles, bad_lines: BadLines) -> LogFiles:
    """The log with the members of nested rewards and metrics as columns; the same log where none are nested."""
    kind = format_of(log.files[0])
    if kind == "parquet":
        if not any(_is_nested(name, kind) for name, kind in _schema(log.files[0]).items()):
            return log
        return replace(log, files=tuple(map(_unnest, log.files)))
    if kind not in ("jsonl", "json") or not _any(first_objects_of(log.files[0], bad_lines)):
        return log
    if any(format_of(file) != kind for file in log.files):
        return log  # which the reader refuses
    rows = (row for file in log.files for row in _parse_rows(file, kind) if isinstance(row, dict))
    names = names_of(rows, log.name)
    return replace(log, files=tuple(_flat_file(file, kind, names) for file in log.files))


def names_of(rows: Iterable[Mapping], where: str) -> Names:
    """The column of each member of each nested object. Raises InputError for more than a table has."""
    members: dict[tuple[str, str], None] = {}
    taken: set[str] = set()
    for row in rows:
        for name, value in row.items():
            if _holds_members(name, value):
                members |= dict.fromkeys((name, str(member)) for member in value)
                expect_width([member for _, member in members], where)
            else:
                taken.add(name)
    return _names(list(members), taken)


def _names(members: Sequence[tuple[str, str]], taken: set[str]) -> Names:
    of_rewards = [member for name, member in members if name != METRICS]
    clash = taken | {member for member in of_rewards if of_rewards.count(member) > 1}
    return {
        (name, member): f"{name}.{member}" if name == METRICS or member in clash else member for name, member in members
    }


def flat_row(row: Mapping, names: Names) -> dict:
    """A row with the members of its nested objects beside its other values."""
    flat = {name: value for name, value in row.items() if not _holds_members(name, value)}
    for name, value in row.items():
        if _holds_members(name, value):
            flat |= {names[name, str(member)]: inner for member, inner in value.items()}
    return flat


def _holds_members(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, Mapping) or not _is_container(name):
        return False
    return any(is_number(inner) or isinstance(inner, list) for inner in value.values())


def _is_container(name: str) -> bool:
    return name == METRICS or bool(_REWARDS.search(name) and not _OTHERS.search(name))


def _any(rows: Iterable[Mapping]) -> bool:
    return any(_holds_members(name, value) for row in rows for name, value in row.items())


def refuse_nested_rewards(file: LogFile, bad_lines: BadLines) -> None:
    """Raise InputError for a column of rewards that holds several of them in one value, in another form."""
    if format_of(file) == "parquet":
        for name, kind in _schema(file).items():
            inner = kind.inner if isinstance(kind, pl.List | pl.Array) else kind
            several = inner is not kind and isinstance(inner, pl.DataType) and is_number_type(inner)
            if _is_container(name) and (several or isinstance(inner, pl.Struct)):
                raise _too_deep(file.name, name, list(kind.to_schema()) if isinstance(kind, pl.Struct) else [])
        return
    rows = first_objects_of(file, bad_lines)
    of_lists = format_of(file) == "json" and len(rows) == 1  # an object of columns
    for name, value in next(iter(rows), {}).items():
        if _is_container(name) and isinstance(value, Mapping if of_lists else Mapping | list):
            raise _too_deep(file.name, name, list(value) if isinstance(value, Mapping) else [])


def _too_deep(where: str, name: str, members: Sequence[str]) -> InputError:
    of = f" of {listing(map(str, members), most=5)}" if members else ""
    wanted = "one column of numbers per reward"
    return InputError(
        f"{where}, column {name!r}: expected {wanted}, got nested values{of}; unnest it, or name the rewards"
    )


# --- files ------------------------------------------------------------------------------------------------------------


def first_objects_of(file: LogFile, bad_lines: BadLines) -> list[dict]:
    """The first rows of a file of JSON; none of one that is broken, which the reader says."""
    try:
        if format_of(file) == "jsonl":
            return first_objects(file, bad_lines)
        return [item for item in _parse_rows(file, "json") if isinstance(item, dict)]
    except InputError:
        return []


def _parse_rows(file: LogFile, kind: str) -> Iterator[object]:
    """The rows of a file of JSON; a line that is no object as its bytes, and nothing of a document that is broken."""
    if kind == "jsonl":
        yield from map(_object, file.lines())
        return
    try:
        content = json.loads(file.content().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return
    yield from content if isinstance(content, list) else [content]


def _object(line: bytes) -> object:
    try:
        item = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return line
    return item if isinstance(item, dict) else line


def _flat_file(file: LogFile, kind: str, names: Names) -> LogFile:
    """The file with the members of its objects as columns; each line stays where it was, so that errors name it."""
    flat = (flat_row(row, names) if isinstance(row, dict) else row for row in _parse_rows(file, kind))
    if kind == "jsonl":
        content = b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in flat)
    else:
        rows = list(flat)
        content = json.dumps(rows if len(rows) != 1 else rows[0]).encode()
    return LogFile(file.name, load=partial(bytes, content), kind=kind)


def _is_nested(name: str, kind: pl.DataType) -> bool:
    numbers = isinstance(kind, pl.Struct) and any(
        is_number_type(inner) for inner in kind.to_schema().values() if isinstance(inner, pl.DataType)
    )
    return numbers and _is_container(name)


def _schema(file: LogFile) -> Schema:
    return parquet_schema(file) if file.frame is None else file.frame.collect_schema()


def _unnest(file: LogFile) -> LogFile:
    """A table with the fields of its structs of numbers as columns."""
    schema = _schema(file)
    fields = [
        (name, field.name)
        for name, kind in schema.items()
        if isinstance(kind, pl.Struct) and _is_nested(name, kind)
        for field in kind.fields
    ]
    names = _names(fields, {name for name, kind in schema.items() if not _is_nested(name, kind)})
    for name, kind in schema.items():
        deeper = [f.name for f in kind.fields if f.dtype.is_nested()] if isinstance(kind, pl.Struct) else []
        if deeper and _is_nested(name, kind):
            raise _too_deep(file.name, name, deeper)
    table = file.frame if file.frame is not None else pl.scan_parquet(file.path or file.content(), glob=False)
    columns = [pl.col(name) for name, kind in schema.items() if not _is_nested(name, kind)]
    columns += [pl.col(name).struct.field(member).alias(column) for (name, member), column in names.items()]
    return replace(file, path=None, load=None, frame=table.select(columns))
