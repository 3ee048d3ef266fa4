"""Reads JSON lines: with polars if it accepts all of them, else line by line, to name the first bad one."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from gdpo_core._words import clip
from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile
from gdpo_core.logs.parquet import BROKEN
from gdpo_core.logs.unused import number_kind

HEAD = 100  # lines from which columns are inferred
_BOM = b"\xef\xbb\xbf"


@dataclass
class Skipped:
    """How many lines of each file were left out; reading a file again does not count them again."""

    lines: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.lines.values())


def objects(file: LogFile, skipped: Skipped | None = None) -> Iterator[tuple[int, dict]]:
    """The number of each line, from 1, and its object; NaN and Infinity are numbers, blank lines are ignored.

    Raises InputError for the first line that is not a JSON object, or counts such lines in `skipped` if given.
    """
    bad = 0
    for number, line in enumerate(file.lines(), start=1):
        line = line.removeprefix(_BOM) if number == 1 else line
        if not line.strip():
            continue
        try:
            found = json.loads(line.decode("utf-8"))
            got = "" if isinstance(found, dict) else _shown(line)
        except UnicodeDecodeError:
            got = "bytes that are not UTF-8"
        except (ValueError, RecursionError):
            got = _shown(line)
        if not got:
            yield number, found
            continue
        bad += 1
        if skipped is None:
            raise InputError(f"{file.name}, line {number}: expected a JSON object, got {got}")
    if skipped is not None:
        skipped.lines[file.name] = bad


def head(file: LogFile, skip_bad_lines: bool, lines: int = HEAD) -> list[dict]:
    """The first objects of a file."""
    found = []
    for _, item in objects(file, Skipped() if skip_bad_lines else None):
        found.append(item)
        if len(found) == lines:
            break
    return found


def is_number(value: object) -> bool:
    """Whether a JSON value can be a reward: a number or a boolean."""
    return isinstance(value, int | float)


def number_columns(items: Sequence[dict]) -> list[str]:
    """The keys whose values are mostly numbers or booleans; an odd value among them raises once all lines are read."""
    keys = dict.fromkeys(key for item in items for key in item)
    values = {key: [item[key] for item in items if item.get(key) is not None] for key in keys}
    return [key for key in keys if 2 * sum(map(is_number, values[key])) > len(values[key])]


def schema(file: LogFile, skip_bad_lines: bool) -> dict[str, pl.DataType]:
    """The type of each key: Float64 for numbers and booleans, Null if all values are null, else String.

    A key with numbers and other values is Float64 if most are numbers, in the first lines or else in all of them.
    """
    items = head(file, skip_bad_lines)
    expect(bool(items), file.name, "at least one response", "0 rows")
    known = None if skip_bad_lines else _fast_schema(file)
    if known is None:
        known = _slow_schema(file, skip_bad_lines)
    mostly = set(number_columns([item for item in items if item]))
    there = {key for item in items for key, value in item.items() if value is not None}
    return {name: pl.Float64() if name in mostly & there else kind for name, kind in known.items()}


def _fast_schema(file: LogFile) -> dict[str, pl.DataType] | None:
    try:
        known = pl.scan_ndjson(file.content(), infer_schema_length=None).collect_schema()
    except BROKEN:
        return None
    return {name: _kind(number_kind(kind), kind != pl.Null) for name, kind in known.items()}


def _slow_schema(file: LogFile, skip_bad_lines: bool) -> dict[str, pl.DataType]:
    numbers: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for _, item in objects(file, Skipped() if skip_bad_lines else None):
        numbers.update(key for key, value in item.items() if is_number(value))
        others.update({key: value is not None and not is_number(value) for key, value in item.items()})
    return {key: _kind(numbers[key] > others[key], others[key] > 0) for key in others}


def _kind(number: bool, there: bool) -> pl.DataType:
    return pl.Float64() if number else pl.String() if there else pl.Null()


def read(file: LogFile, numbers: Sequence[str], others: Sequence[str], skipped: Skipped | None) -> pl.DataFrame:
    """These columns of every line: `numbers` as Float64, `others` as text; an absent value is null.

    Raises InputError that names the line and the column where a value of `numbers` is not a number.
    """
    fast = None if skipped is not None else _fast(file, numbers, others)
    return _slow(file, numbers, others, skipped) if fast is None else fast


def _fast(file: LogFile, numbers: Sequence[str], others: Sequence[str]) -> pl.DataFrame | None:
    """The columns as polars reads them; None if it refuses the file or reads numbers as text."""
    content = file.content()  # a path would be read as a pattern
    if numbers or others:
        kinds = {name: pl.Float64() for name in numbers} | {name: pl.String() for name in others}
        try:
            return pl.scan_ndjson(content, schema=kinds).collect()
        except BROKEN:
            pass  # booleans, which count as numbers, do not fit this schema
    try:
        scan = pl.scan_ndjson(content, infer_schema_length=None)
        known = scan.collect_schema()
        if any(name in known and not _numeric(known[name]) for name in numbers):
            return None
        floats = [_column(name, known).cast(pl.Float64) for name in numbers]
        return scan.select(*floats, *(_column(name, known) for name in others)).collect()
    except BROKEN:
        return None


def _numeric(kind: pl.DataType) -> bool:
    return number_kind(kind) or kind == pl.Null


def _column(name: str, known: Collection[str]) -> pl.Expr:
    return pl.col(name) if name in known else pl.lit(None).alias(name)


def _slow(file: LogFile, numbers: Sequence[str], others: Sequence[str], skipped: Skipped | None) -> pl.DataFrame:
    columns: dict[str, list] = {name: [] for name in (*numbers, *others)}
    for line, item in objects(file, skipped):
        for name in numbers:
            value = item.get(name)
            fits = value is None or is_number(value)
            expect(fits, f"{file.name}, line {line}", f"a number in {name!r}", f"{str(value)[:60]!r}")
            columns[name].append(None if value is None else as_float(value))
        for name in others:
            value = item.get(name)
            columns[name].append(value if value is None or isinstance(value, str) else json.dumps(value))
    kinds = {name: pl.Float64 for name in numbers} | {name: pl.String for name in others}
    return pl.DataFrame(columns, schema=kinds)


def as_float(value: int | float) -> float:
    """The number as a float, infinite if it is larger than any."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _shown(line: bytes) -> str:
    return repr(clip(line.decode("utf-8", "replace").strip()))
