"""A file as columns: Parquet, CSV, TSV, JSON lines and JSON; polars parses, and an error names the line at fault."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from gdpo_core._errors import InputError, expect, reason
from gdpo_core._words import clip
from gdpo_core.runs.files import LogFile, format_of

ROWS = 250_000  # per frame, about
FILES = 400  # per scan; more would have many files open at once
HEAD = 100  # lines of text from which the types of columns are inferred
SPREAD = 16  # files over a log that are looked at first
COLUMNS = 5_000  # of a table
MISSING = ["", "NA", "N/A", "null", "None", "none", "NaN", "nan", "NAN", "<NA>"]  # in CSV
UNREAD = ("completion", "completions")  # long texts, of which no reader needs more than that there are some
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}  # as trackers spell them
Schema: TypeAlias = Mapping[str, pl.DataType]
Responses: TypeAlias = Callable[[dict], Iterable[Mapping[str, object]]]  # of an object of JSON
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
_BOM = b"\xef\xbb\xbf"
_NUMPY = r"^\s*np\.(?:\w+\(([^()]*)\)|(True|False)_)\s*$"  # a scalar as numpy 2 writes it
SEPARATORS = (",", ";", "\t", "|")
_ONE_COMMA = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"  # a number, if the comma is a decimal one
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"  # a number in any case


@dataclass(frozen=True)
class BadLines:
    """Whether to leave out lines that are no JSON objects, and how many of each file were left out."""

    skip: bool = False
    by_file: dict[str, int] = field(default_factory=dict)  # reading a file again does not count them again

    @property
    def count(self) -> int:
        return sum(self.by_file.values())


def is_number_type(kind: pl.DataType) -> bool:
    """Whether a column of this type can be a reward."""
    return kind.is_numeric() or kind == pl.Boolean


def schema(file: LogFile, bad_lines: BadLines) -> Schema:
    """The columns of a file and their types; numbers in text are Float64 or Boolean, empty columns Null."""
    kind = format_of(file)
    if kind == "parquet":
        return parquet_schema(file)
    if kind == "jsonl":
        return _json_lines_schema(file, bad_lines)
    return _json_table(file).schema if kind == "json" else _csv_schema(file, kind)


def first_values(file: LogFile, columns: Sequence[str], rows: int, bad_lines: BadLines) -> dict[str, list]:
    """The first values of these text columns."""
    kind = format_of(file)
    if kind == "jsonl":
        items = first_objects(file, bad_lines, rows)
        return {name: [item[name] for item in items if item.get(name) is not None] for name in columns}
    if kind == "json":
        table = _json_table(file, columns).head(rows)
    elif kind == "parquet":
        try:
            table = _scan(file).select(columns).head(rows).collect()
        except _BROKEN as error:
            raise _unreadable_parquet([file], error) from None
    else:
        table = _csv_values(file, kind, pl.col(columns).head(rows))
    return {name: table[name].drop_nulls().to_list() for name in columns}


def first_numbers(files: Sequence[LogFile], columns: Sequence[str], rows: int, bad_lines: BadLines) -> pl.DataFrame:
    """The first values of these columns in some files spread over a log, as Float64: null where there is no number."""
    some = files[:: -(-len(files) // SPREAD)]
    kinds = dict.fromkeys(columns, pl.Float64)
    parts = [pl.DataFrame(schema=kinds)]
    for file in some:
        kind, most = format_of(file), -(-rows // len(some))
        if kind == "parquet":
            known = [name for name, kind in parquet_schema(file).items() if name in columns and is_number_type(kind)]
            try:
                part = _scan(file).select(known).head(most).collect()
            except _BROKEN as error:
                raise _unreadable_parquet([file], error) from None
        elif kind == "jsonl":
            items = first_objects(file, bad_lines, most)
            part = pl.DataFrame({name: [_number(item.get(name)) for item in items] for name in columns}, schema=kinds)
        elif kind == "json":
            part = _json_table(file).head(most)
        else:
            header = _header(file, kind)
            part = _csv_values(file, kind, pl.col([name for name in columns if name in header]).head(most))
            part = part.with_columns(_as_numbers(part[name]) for name in part.columns)
        part = part.select(_column(name, part.columns).cast(pl.Float64, strict=False) for name in columns)
        parts.append(part)
    return pl.concat(parts)


def _number(value: object) -> float | None:
    return as_float(value, "", "") if is_number(value) else None


def read_file(file: LogFile, numbers: Sequence[str], texts: Sequence[str], bad_lines: BadLines) -> pl.DataFrame:
    """These columns of a file other than Parquet, `numbers` as numbers where they are; an absent value is null."""
    kind = format_of(file)
    if kind == "jsonl":
        return read_json_lines(file, numbers, texts, bad_lines)
    if kind == "json":
        return _json_table(file, [*numbers, *texts])
    return _read_csv(file, kind, numbers, texts)


def records_at(
    file: LogFile,
    rows: Sequence[int],
    columns: Collection[str],
    bad_lines: BadLines,
    responses: Responses | None = None,
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Some rows of a file, ascending, with their numbers from 0: of a table those columns of it that are there.

    columns: small letters. responses: those of a line of JSON, where it holds several.
    """
    kind = format_of(file)
    if kind == "jsonl":
        yield from _objects_at(file, rows, bad_lines, responses)
        return
    if kind == "parquet":
        scan = _scan(file) if file.texts is None else file.texts()
        names = [
            name for name, kind in scan.collect_schema().items() if name.lower() in columns and not is_number_type(kind)
        ]
        for first, some in _in_a_row(rows):
            yield from enumerate(scan.select(names).slice(first, some).collect().to_dicts(), start=first)
        return
    if kind == "json":
        lists = _lists(file, json.loads(file.content().decode("utf-8-sig")))
        yield from ((row, {name: values[row] for name, values in lists.items()}) for row in rows)
        return
    names = [name for name in _header(file, kind) if name.lower() in columns]
    if names:
        yield from zip(rows, _read_csv(file, kind, (), names)[rows].to_dicts(), strict=True)


def _in_a_row(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first of each run of rows that follow one another, and how many these are.

    >>> list(_in_a_row([3, 4, 7]))
    [(3, 2), (7, 1)]
    """
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    return zip(np.array(rows)[starts].tolist(), np.diff(starts, append=len(rows)).tolist(), strict=True)


def _objects_at(
    file: LogFile, rows: Sequence[int], bad_lines: BadLines, responses: Responses | None
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The same of JSON lines; other lines are parsed only where they may be no rows, or several."""
    wanted, last = set(rows), max(rows)
    items: Iterable[Any]
    if responses is not None:
        items = (response for _, item in objects(file, bad_lines) for response in responses(item))
    elif bad_lines.skip:
        items = (item for _, item in objects(file, bad_lines))
    else:
        items = (line for line in file.lines() if line.strip())
    for row, item in enumerate(islice(items, last + 1)):
        if row in wanted:
            yield row, json.loads(item.decode("utf-8-sig")) if isinstance(item, bytes) else item


def read_through(file: LogFile, bad_lines: BadLines) -> None:
    """Read all that a reader may want of a file, for the InputError where it is damaged."""
    if format_of(file) == "parquet":
        wanted = [name for name in parquet_schema(file) if name.lower() not in UNREAD]
        for start in range(0, height(file), ROWS):
            try:
                _scan(file).select(wanted).slice(start, ROWS).collect()
            except _BROKEN as error:
                raise _unreadable_parquet([file], error) from None
    else:
        columns = schema(file, bad_lines)
        numbers = [name for name, kind in columns.items() if is_number_type(kind)]
        read_file(file, numbers, list(columns)[: not numbers], bad_lines)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def parquet_schema(file: LogFile) -> Schema:
    """The columns of a Parquet file and their types."""
    try:
        return _scan(file).collect_schema()
    except _BROKEN as error:
        raise _unreadable_parquet([file], error) from None


def parquet_frames(
    files: Sequence[LogFile], schemas: Sequence[Schema], columns: Sequence[str], head: int | None = None
) -> Iterator[pl.DataFrame]:
    """All rows of the columns, in order, and the number of their file in `_file`; only the first `head` rows if given.

    Many small files come as one frame. A frame of one file has `_row`, the number of its first row in that file.
    """
    types = [tuple(schema.get(column) for column in columns) for schema in schemas]
    for same_types, numbers in groupby(range(len(files)), key=types.__getitem__):
        wanted = {column: kind for column, kind in zip(columns, same_types, strict=True) if kind is not None}
        waiting = list(numbers)
        while waiting:
            together = _files_of_a_frame(files, waiting)
            waiting = waiting[len(together) :]
            for start, rows in _parts(files[together[0]], len(together)):
                rows = rows if head is None else min(rows or head, head)
                frame = _scan_parquet([files[i] for i in together], together, wanted, start, rows)
                yield frame
                if head is not None:
                    head -= len(frame)
                    if head <= 0:
                        return


def _files_of_a_frame(files: Sequence[LogFile], numbers: Sequence[int]) -> Sequence[int]:
    """The files of the next frame, if all are as long as the first; the bytes of a file in memory stand alone."""
    first = files[numbers[0]]
    count = max(1, min(FILES, ROWS // max(height(first), 1)))
    same = [
        files[i].frame is not None if first.frame is not None else files[i].plain_path is not None
        for i in numbers[:count]
    ]
    return numbers[: max(1, [*same, False].index(False))]


def _parts(first: LogFile, files: int) -> Iterator[tuple[int, int | None]]:
    """The first row and the number of rows of each frame: a large file comes in several, and many files in one."""
    if files > 1:
        return iter([(0, None)])
    return ((start, ROWS) for start in range(0, height(first), ROWS))


def _scan_parquet(
    files: Sequence[LogFile], numbers: Sequence[int], wanted: Schema, start: int, rows: int | None
) -> pl.DataFrame:
    paths = [
        file.plain_path for file in files if file.plain_path is not None
    ]  # several files are all on disk, or all frames
    tables = [file.frame for file in files if file.frame is not None]
    try:
        if tables:
            with_path = (table.with_columns(pl.lit(f"{k}").alias("_path")) for k, table in enumerate(tables))
            scan = pl.concat(table.select(*wanted, "_path") for table in with_path)
        else:
            # polars reads no rows with an empty schema; without one it counts them.
            scan = pl.scan_parquet(
                paths or _source(files[0]),
                schema=dict(wanted) or None,
                extra_columns="ignore",
                glob=False,
                include_file_paths="_path",
            ).select(*wanted, "_path")
        frame = scan.slice(start, rows).collect()
    except _BROKEN as error:
        if len(files) == 1:
            raise _unreadable_parquet(files, error) from None
        one_by_one = zip(files, numbers, strict=True)
        return pl.concat(_scan_parquet([file], [i], wanted, 0, rows).drop("_row") for file, i in one_by_one)
    if len(files) == 1:
        number, first = pl.lit(numbers[0], pl.Int64).alias("_file"), pl.lit(start, pl.Int64).alias("_row")
        return frame.with_columns(number, first).drop("_path")
    position = frame["_path"].cast(pl.Enum(list(map(str, paths or range(len(tables)))))).to_physical()
    return frame.select(pl.Series(numbers, dtype=pl.Int64).gather(position).alias("_file"), *wanted)


def height(file: LogFile) -> int:
    """The rows of a Parquet file, or of a table in memory."""
    try:
        return _scan(file).select(pl.len()).collect().item()
    except _BROKEN as error:
        raise _unreadable_parquet([file], error) from None


def _scan(file: LogFile) -> pl.LazyFrame:
    return file.frame if file.frame is not None else pl.scan_parquet(_source(file), glob=False)


def _source(file: LogFile) -> Path | io.BytesIO:
    return file.plain_path or io.BytesIO(file.content())


def _unreadable_parquet(files: Sequence[LogFile], error: BaseException) -> InputError:
    if files[0].frame is not None:
        return InputError(f"{files[0].name}: expected a table that can be read, got {reason(error)[:200]}")
    start = files[0].start(4)
    if start != b"PAR1":
        got = "a file that does not begin as one" if start else "an empty file"
        return InputError(f"{files[0].name}: expected a Parquet file, got {got}")
    why = reason(error)[:200]
    return InputError(
        f"{files[0].name}: expected a whole Parquet file, got one that cannot be read, cut or damaged: {why}"
    )


# --- CSV and TSV -----------------------------------------------------------------------------------------------------


def _csv_schema(file: LogFile, kind: str) -> Schema:
    """The type of each column: Boolean if its first values are True and False, Float64 if most of them are numbers."""
    lists = _csv_values(file, kind, pl.all().drop_nulls().head(HEAD).implode())
    first = {name: lists[name].explode().drop_nulls() for name in lists.columns}
    if _separator(file, kind) != ",":
        first = {name: _with_points(texts) for name, texts in first.items()}
    if not any(map(len, first.values())) and not _csv_values(file, kind, pl.len()).item():
        return dict.fromkeys(first, pl.Null())
    return {name: _type_of(texts) for name, texts in first.items()}


def _type_of(texts: pl.Series) -> pl.DataType:
    if not len(texts):
        return pl.Null()
    if _all_booleans(texts):
        return pl.Boolean()
    return pl.Float64() if 2 * texts.cast(pl.Float64, strict=False).count() > len(texts) else pl.String()


def _read_csv(file: LogFile, kind: str, numbers: Sequence[str], texts: Sequence[str]) -> pl.DataFrame:
    """All rows of the columns; InputError, naming the line, for a record with more or fewer values than columns."""
    rows = _csv_values(file, kind, pl.col(*numbers, *texts))
    rows = rows.filter(_nonempty_rows(file, kind, len(rows)))
    if _separator(file, kind) != ",":
        rows = rows.with_columns(_decimal_commas(rows[name], file) for name in numbers)
    return rows.with_columns(_as_numbers(rows[name]) for name in numbers)


def _as_numbers(texts: pl.Series) -> pl.Series:
    """The column as numbers or booleans if all its values are, else as it is."""
    if _all_booleans(texts.drop_nulls().head(HEAD)) and _all_booleans(texts.drop_nulls()):
        return texts.str.to_lowercase() == "true"
    numbers = texts.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == texts.null_count() else texts


def _all_booleans(texts: pl.Series) -> bool:
    return texts.str.to_lowercase().is_in(["true", "false"]).all()


def _with_points(texts: pl.Series) -> pl.Series:
    """The texts, with a point for the comma of those that are a number with one comma in it."""
    point = texts.str.replace(",", ".", literal=True)
    return point.zip_with(texts.str.contains(_ONE_COMMA).fill_null(False), texts)


def _decimal_commas(texts: pl.Series, file: LogFile) -> pl.Series:
    """The column with points for its decimal commas; as it is where its numbers have none.

    Raises InputError where a comma may just as well stand for thousands, as in 1,000.
    """
    comma = texts.str.contains(_ONE_COMMA).fill_null(False)
    if not comma.any():
        return texts
    thousands = texts.str.contains(_THOUSANDS).fill_null(False)
    value = texts.filter(comma)[0]
    clear = (comma & ~thousands).any() and not texts.str.contains(".", literal=True).any()
    where, wanted = f"{file.name}, column {texts.name!r}", "numbers with a decimal point"
    expect(clear, where, wanted, f"{value!r}, whose comma may be a decimal one or one of thousands")
    return _with_points(texts)


def _csv_values(file: LogFile, kind: str, values: pl.Expr) -> pl.DataFrame:
    """An expression of the columns, which are all text."""
    separator, names = _separator(file, kind), _header(file, kind)
    try:
        content = file.content()
        scan = pl.scan_csv(content, separator=separator, null_values=MISSING, infer_schema=False, new_columns=names)
        if b"np." in content:
            scan = scan.with_columns(pl.all().str.replace(_NUMPY, "${1}${2}"))
        return scan.select(values).collect()
    except _BROKEN as error:
        raise _unreadable_csv(file, kind, error) from None


def _separator(file: LogFile, kind: str) -> str:
    """The character that makes the first line more than one column; by default the one that the ending promises."""
    start = file.start(1 << 16).removeprefix(_BOM).decode("utf-8", "replace").lstrip("\r\n")
    usual = "\t" if kind == "tsv" else ","
    for separator in (usual, *(other for other in SEPARATORS if other != usual)):
        with suppress(csv.Error):
            if len(next(csv.reader(io.StringIO(start, newline=""), delimiter=separator), [])) > 1:
                return separator
    return usual


def _header(file: LogFile, kind: str) -> list[str]:
    """The names of the columns."""
    where, start = f"{file.name}, line 1", file.start(1 << 16)
    expect(b"\0" not in start, where, f"{kind.upper()}", "bytes that are no text")
    expect(b"\n" in start or b"\r" not in start, where, r"lines that end in \n or \r\n", r"\r alone")
    try:
        names = next((record for _, record in _records(file, kind) if record), [])
    except UnicodeDecodeError:
        raise InputError(f"{where}: expected UTF-8 text, got other bytes") from None
    except csv.Error as error:
        raise InputError(f"{where}: expected names of columns, got {_csv_fault(error)}") from None
    names = [name.removeprefix(_BOM.decode()) if i == 0 else name for i, name in enumerate(names)]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    got = f"{', '.join(repr(clip(name)) for name in repeated)} more than once"
    expect(not repeated, file.name, "columns of different names", got)
    number = next(filter(_is_finite_number, names), None)
    expect(number is None, where, "names of columns", f"the number {number}")
    return names


def _is_finite_number(name: str) -> bool:
    try:
        return name.strip().lower() not in ("nan", "inf", "infinity") and float(name) == float(name)
    except ValueError:
        return False


def _records(file: LogFile, kind: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each record begins, and its values."""
    lines = (line.decode("utf-8") for line in file.lines())
    reader = csv.reader(lines, delimiter=_separator(file, kind), strict=True)
    line = 1
    for record in reader:
        yield line, record
        line = reader.line_num + 1


def _nonempty_rows(file: LogFile, kind: str, rows: int) -> pl.Series:
    """Whether each row is more than an empty line, which polars reads as missing values, like cells that are not there.

    Raises InputError for the first record with more or fewer values than there are columns.
    """
    columns = len(_header(file, kind))
    sizes = _record_sizes(file, kind, columns)
    expect(len(sizes) == rows, file.name, f"{kind.upper()} of {len(sizes)} records", f"{rows}: quotes are unclear")
    filled = sizes > 0
    last = int(np.flatnonzero(filled)[-1]) if filled.any() else -1
    if columns == 1 and not filled[: last + 1].all():
        raise InputError(f"{file.name}: expected a value in every line, got an empty line, which may be a missing one")
    return pl.Series(filled)


def _record_sizes(file: LogFile, kind: str, columns: int) -> np.ndarray:
    """How many values each record after the header has, 0 for an empty line; the empty lines before it are no rows."""
    sizes, line = [], 1
    try:
        for line, record in _records(file, kind):
            if len(record) not in (0, columns):
                if columns == 1:
                    [name] = _header(file, kind)
                    got = f"the one text {clip(name)!r} above lines of {len(record)} values: leave it out"
                    raise InputError(f"{file.name}, line 1: expected names of columns, got {got}")
                wanted = f"{columns} values, one per column"
                raise InputError(f"{file.name}, line {line}: expected {wanted}, got {len(record)}")
            sizes.append(len(record))
            line += 1
    except UnicodeDecodeError as error:  # in a column that is not read
        raise _unreadable_csv(file, kind, error) from None
    except csv.Error as error:
        raise InputError(f"{file.name}, line {line}: expected {kind.upper()}, got {_csv_fault(error)}") from None
    counts = np.array(sizes)
    return counts[int(np.argmax(counts > 0)) + 1 :]


def _csv_fault(error: csv.Error) -> str:
    """The parser's complaint in words that fit a log."""
    text = str(error)
    if "unexpected end" in text:
        return "a quote that is not closed"
    return r"\r alone inside a line" if "new-line" in text else text


def _unreadable_csv(file: LogFile, kind: str, error: BaseException) -> InputError:
    """The error that names the first line of other bytes than UTF-8, or of too many values; else polars' own reason."""
    for number, line in enumerate(file.lines(), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return InputError(f"{file.name}, line {number}: expected UTF-8 text, got other bytes")
    try:
        _record_sizes(file, kind, len(_header(file, kind)))
    except InputError as wrong:
        return wrong
    return InputError(f"{file.name}: expected {kind.upper()}, got {reason(error)[:160]}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def objects(file: LogFile, bad_lines: BadLines) -> Iterator[tuple[int, dict]]:
    """The number of each line, from 1, and its object; NaN and Infinity are numbers, blank lines are ignored.

    Raises InputError for the first line that is not a JSON object, or skips and counts such lines.
    """
    bad = 0
    for number, line in enumerate(file.lines(), start=1):
        line = line.removeprefix(_BOM) if number == 1 else line
        if not line.strip():
            continue
        item, got = None, ""
        try:
            item = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            got = "bytes that are not UTF-8"
        except (ValueError, RecursionError):
            pass
        if isinstance(item, dict):
            yield number, {_utf8(name): value for name, value in item.items()} if b"\\u" in line else item
            continue
        bad += 1
        got = got or repr(clip(line.decode("utf-8", "replace").strip()))
        expect(bad_lines.skip, f"{file.name}, line {number}", "a JSON object", got)
    bad_lines.by_file[file.name] = bad


def first_objects(file: LogFile, bad_lines: BadLines, count: int = HEAD) -> list[dict]:
    """The first objects of a file of JSON lines."""
    return [item for _, item in islice(objects(file, bad_lines), count)]


def is_number(value: object) -> bool:
    """Whether a JSON value can be a reward: a number or a boolean."""
    return isinstance(value, int | float)


def as_float(value: object, name: str, where: str) -> float | None:
    """A number or boolean of JSON as a float, infinite if it is larger than any; None for null. Else InputError."""
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise InputError(f"{where}: expected a number in {name!r}, got {str(value)[:60]!r}")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def as_text(value: object) -> str | None:
    """A value of JSON as text: nested values and numbers as JSON writes them."""
    if isinstance(value, str):
        return _utf8(value)
    return None if value is None else json.dumps(value)


def _utf8(text: str) -> str:
    """A text whose half characters, which JSON can hold and polars cannot, are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def number_columns(items: Sequence[dict]) -> list[str]:
    """The keys whose values are mostly numbers or booleans; an odd value among them raises once all lines are read."""
    keys = dict.fromkeys(key for item in items for key in item)
    values = {key: [item[key] for item in items if item.get(key) is not None] for key in keys}
    return [key for key in keys if 2 * sum(map(is_number, values[key])) > len(values[key])]


def kinds_of(items: Sequence[dict]) -> dict[str, pl.DataType]:
    """The type of each key in some rows of JSON: Float64 for mostly numbers, Null for nothing, else String."""
    numbers, filled = number_columns(items), {key for item in items for key, value in item.items() if value is not None}
    keys = dict.fromkeys(key for item in items for key in item)
    return {key: pl.Float64() if key in numbers else _kind(False, key in filled) for key in keys}


def read_json_lines(file: LogFile, numbers: Sequence[str], texts: Sequence[str], bad_lines: BadLines) -> pl.DataFrame:
    """These columns of every line: `numbers` as Float64, `texts` as text; an absent value is null.

    Raises InputError that names the line and the column where a value of `numbers` is not a number.
    """
    kinds = dict.fromkeys(numbers, pl.Float64) | dict.fromkeys(texts, pl.String)
    if not bad_lines.skip and kinds:
        try:
            return pl.scan_ndjson(file.content(), schema=kinds).collect()
        except _BROKEN:  # booleans, which count as numbers, do not fit
            pass
    scanned = None if bad_lines.skip else _scan_json_lines(file)
    if scanned is not None:
        scan, known = scanned
        if all(name not in known or is_number_type(known[name]) or known[name] == pl.Null for name in numbers):
            floats = [_column(name, known).cast(pl.Float64) for name in numbers]
            try:
                return scan.select(*floats, *(_column(name, known) for name in texts)).collect()
            except _BROKEN:
                pass
    rows: dict[str, list] = {name: [] for name in (*numbers, *texts)}
    for line, item in objects(file, bad_lines):
        where = f"{file.name}, line {line}"
        for name in numbers:
            rows[name].append(as_float(item.get(name), name, where))
        for name in texts:
            rows[name].append(as_text(item.get(name)))
    return pl.DataFrame(rows, schema=kinds)


def _scan_json_lines(file: LogFile) -> tuple[pl.LazyFrame, Schema] | None:
    """The file as polars reads it, several times as fast as Python; None if it has broken lines, NaN or mixed kinds."""
    try:
        scan = pl.scan_ndjson(file.content(), infer_schema_length=None)  # a path would be read as a pattern
        return scan, scan.collect_schema()
    except _BROKEN:
        return None


def _column(name: str, known: Collection[str]) -> pl.Expr:
    return pl.col(name) if name in known else pl.lit(None).alias(name)


def _json_lines_schema(file: LogFile, bad_lines: BadLines) -> Schema:
    """The type of each key: Float64 for numbers and booleans, Null if all values are null, else String.

    A key with numbers and other values is Float64 if most are numbers, in the first lines or else in all of them.
    """
    items = first_objects(file, bad_lines)
    expect(bool(items), file.name, "at least one response", "0 rows")
    filled = {key for item in items for key, value in item.items() if value is not None}
    mostly = set(number_columns([item for item in items if item])) & filled
    scanned = None if bad_lines.skip else _scan_json_lines(file)
    if scanned is not None:
        known = {name: _kind(is_number_type(kind), kind != pl.Null) for name, kind in scanned[1].items()}
    else:
        numbers: Counter[str] = Counter()
        others: Counter[str] = Counter()
        for _, item in objects(file, bad_lines):
            numbers.update(key for key, value in item.items() if is_number(value))
            others.update({key: value is not None and not is_number(value) for key, value in item.items()})
        known = {key: _kind(numbers[key] > others[key], others[key] > 0) for key in others}
    return {name: pl.Float64() if name in mostly else kind for name, kind in known.items()}


def _kind(number: bool, filled: bool) -> pl.DataType:
    return pl.Float64() if number else pl.String() if filled else pl.Null()


def _json_table(file: LogFile, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A JSON file of objects or of lists: numbers as Float64, anything else as text; all columns by default."""
    try:
        content = json.loads(file.content().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name}: expected JSON, got {str(error)[:100]}") from None
    lists = _lists(file, content)
    return table_of(_json_series(file, name, lists[name]) for name in (lists if columns is None else columns))


def _lists(file: LogFile, content: object) -> dict[str, list]:
    wanted = "an array of objects or an object of lists"
    if isinstance(content, dict):
        lists = {_utf8(name): value for name, value in content.items() if isinstance(value, list)}
        expect(bool(lists), file.name, wanted, "an object without lists")
        expect_width(lists, file.name)
        expect_one_length({name: len(value) for name, value in lists.items()}, file.name)
        return lists
    if not isinstance(content, list):
        raise InputError(f"{file.name}: expected {wanted}, got {type(content).__name__}")
    expect(len(content) > 0, file.name, "at least one response", "0 rows")
    for number, item in enumerate(content, start=1):
        if not isinstance(item, dict):
            raise InputError(f"{file.name}, item {number}: expected an object, got {type(item).__name__}")
    keys = dict.fromkeys(key for item in content for key in item)
    expect_width(keys, file.name)
    return {_utf8(name): [item.get(name) for item in content] for name in keys}


def expect_width(names: Collection[str], where: str) -> None:
    """Raise InputError for a table of more columns than any log has."""
    expect(len(names) <= COLUMNS, where, f"at most {COLUMNS} columns", len(names))


def expect_one_length(sizes: Mapping[str, int], where: str) -> None:
    """Raise InputError unless lists, whose sizes these are, have one length."""
    same = len(set(sizes.values())) == 1
    expect(same, where, "lists of one length", ", ".join(f"{size} in {name!r}" for name, size in sizes.items()))


def _json_series(file: LogFile, name: str, values: list) -> pl.Series:
    filled = [value for value in values if value is not None]
    other = [value for value in filled if not is_number(value)]
    if 2 * len(other) < len(filled):  # mostly numbers
        floats = [as_float(v, name, f"{file.name}, item {i}") for i, v in enumerate(values, start=1)]
        return pl.Series(name, floats, pl.Float64)
    return pl.Series(name, [as_text(value) for value in values], pl.String)


def table_of(columns: Iterable[pl.Series]) -> pl.DataFrame:
    """The table of these columns; a list of them would give one without a name another."""
    return pl.DataFrame({column.name: column for column in columns})


def json_column(name: str, values: Sequence[object], where: str, texts: bool = True) -> pl.Series:
    """A column of JSON values: numbers as numbers, the names of NaN and infinity among them too; else text.

    texts: with the long ones too, in the place of which others are empty.
    """
    name = _utf8(name)
    if not texts and name.lower() in UNREAD and all(value is None or isinstance(value, str) for value in values):
        return pl.repeat("", len(values), eager=True).alias(name)
    kinds = {type(value) for value in values} - {type(None)}
    if str in kinds and {value for value in values if isinstance(value, str)} <= _NOT_FINITE.keys():
        values = [_NOT_FINITE[value] if isinstance(value, str) else value for value in values]
        kinds = kinds - {str} | {float}
    if kinds - {str, int, float, bool}:
        return _nested_column(name, values)
    if not kinds or kinds == {bool}:
        return pl.Series(name, values, pl.Boolean if kinds else pl.Null)
    if kinds == {int} and all(value is None or abs(value) < 2**63 for value in values):  # type: ignore[arg-type]
        return pl.Series(name, values, pl.Int64)
    numbers = sum(isinstance(value, int | float) for value in values)
    if 2 * numbers > len(values) - values.count(None):  # an odd value among them is an error
        floats = [as_float(value, name, f"{where}, row {row}") for row, value in enumerate(values, start=1)]
        return pl.Series(name, floats, pl.Float64)
    return pl.Series(name, [as_text(value) for value in values], pl.String)


def _nested_column(name: str, values: Sequence[object]) -> pl.Series:
    """A column of lists, objects or values of other kinds; as text where polars knows no type for all of them."""
    try:
        column = pl.Series(name, values, strict=False)
    except (*_BROKEN, TypeError, OverflowError):
        column = pl.Series(name, dtype=pl.Object)
    return column if column.dtype != pl.Object else pl.Series(name, [None if v is None else str(v) for v in values])
