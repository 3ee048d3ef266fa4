"""Reads chosen columns of CSV and TSV files."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from gdpo_core._words import clip
from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile
from gdpo_core.logs.parquet import BROKEN, Schema

MISSING = ["", "NA", "N/A", "null", "None", "none", "NaN", "nan", "NAN", "<NA>"]
INFER = 10_000  # rows from which types are inferred; all rows where a later one differs
HEAD = 100  # rows that decide whether a text column holds mostly numbers
_BOM = "\ufeff"


def schema(file: LogFile, kind: str) -> Schema:
    """The type of each column: Boolean if its first values are True and False, Float64 if most of them are numbers."""
    try:
        scan = _scan(file, kind)
        known = dict(scan.collect_schema())
        texts = [name for name, found in known.items() if found == pl.String]
        head = scan.select(texts).head(INFER).collect()
        late = [name for name in texts if head[name].null_count() == len(head)]
        # The first values of a column that begins empty may stand far down.
        first = pl.col(late).drop_nulls().head(HEAD).implode()
        rest = _scan(file, kind, None).select(first).collect() if late else pl.DataFrame()
    except BROKEN as error:
        raise _unreadable(file, kind, error) from None
    if texts and not len(head):
        return dict.fromkeys(known, pl.Null())
    for name in texts:
        values = rest[name].explode().drop_nulls() if name in late else head[name].head(HEAD).drop_nulls()
        values = values.cast(pl.String)
        said = values.str.to_lowercase().is_in(["true", "false"])
        if len(values) and said.all():
            known[name] = pl.Boolean()
        elif 2 * values.cast(pl.Float64, strict=False).count() > len(values):
            known[name] = pl.Float64()
    return known


def sample(file: LogFile, kind: str, columns: Sequence[str]) -> dict[str, list]:
    """The first values of these text columns."""
    try:
        rows = _scan(file, kind, 0).select(columns).head(HEAD).collect()
    except BROKEN as error:
        raise _unreadable(file, kind, error) from None
    return {name: rows[name].drop_nulls().to_list() for name in columns}


def frame(file: LogFile, kind: str, columns: Sequence[str]) -> pl.DataFrame:
    """All rows of the columns; text that is all True and False becomes Boolean, all numbers or infinity Float64.

    Raises InputError, naming the line, for a record with more or fewer values than there are columns.
    """
    try:
        rows = _scan(file, kind).select(columns).collect()
    except BROKEN:
        try:
            rows = _scan(file, kind, None).select(columns).collect()
        except BROKEN as error:
            raise _unreadable(file, kind, error) from None
    rows = rows.filter(_filled(file, kind, len(rows)))
    return rows.with_columns(_meant(rows[name]) for name, found in rows.schema.items() if found == pl.String)


def _meant(texts: pl.Series) -> pl.Series:
    if texts.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return texts.str.to_lowercase() == "true"
    numbers = texts.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == texts.null_count() else texts


def _separator(kind: str) -> str:
    return "\t" if kind == "tsv" else ","


def _scan(file: LogFile, kind: str, infer: int | None = INFER) -> pl.LazyFrame:
    return pl.scan_csv(
        file.content(),
        separator=_separator(kind),
        null_values=MISSING,
        infer_schema_length=infer,
        new_columns=_header(file, kind),
    )


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
        raise InputError(f"{where}: expected names of columns, got {_said(error)}") from None
    names = [name.removeprefix(_BOM) if i == 0 else name for i, name in enumerate(names)]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    expect(not repeated, file.name, "columns of different names", f"{', '.join(map(_short, repeated))} more than once")
    number = next(filter(_is_number, names), None)
    expect(number is None, where, "names of columns", f"the number {number}")
    return names


def _is_number(name: str) -> bool:
    try:
        return name.strip().lower() not in ("nan", "inf", "infinity") and float(name) == float(name)
    except ValueError:
        return False


def _records(file: LogFile, kind: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each record begins, and its values."""
    reader = csv.reader((line.decode("utf-8") for line in file.lines()), delimiter=_separator(kind), strict=True)
    line = 1
    for record in reader:
        yield line, record
        line = reader.line_num + 1


def _filled(file: LogFile, kind: str, rows: int) -> pl.Series:
    """Whether each row is more than an empty line; InputError for the first with more or fewer values than columns."""
    columns = len(_header(file, kind))
    cells = _cells(file.content(), _separator(kind))
    at = int(np.argmax(cells > 0)) if len(cells) else 0  # the header; the empty lines before it are no rows
    cells = cells[at + 1 :]
    if len(cells) != rows or (cells[cells > 0] != columns).any():
        cells = _cells_slowly(file, kind, columns)
        expect(len(cells) == rows, file.name, f"{kind.upper()} of {len(cells)} records", f"{rows}: quotes are unclear")
    if columns == 1 and rows and (cells[: int(np.flatnonzero(cells)[-1]) + 1 if cells.any() else 0] == 0).any():
        raise InputError(f"{file.name}: expected a value in every line, got an empty line, which may be a missing one")
    return pl.Series(cells > 0)


def _cells(content: bytes, separator: str) -> np.ndarray:
    """How many values each record has, 0 for an empty line: counts separators and line ends outside quotes."""
    text = np.frombuffer(content if content.endswith(b"\n") else content + b"\n", np.uint8)
    at = np.flatnonzero((text == ord(separator)) | (text == ord("\n")) | (text == ord('"')))
    found = text[at]
    outside = np.cumsum(found == ord('"')) % 2 == 0
    ends = np.flatnonzero((found == ord("\n")) & outside)
    separators = np.cumsum((found == ord(separator)) & outside)[ends]
    begins = np.concatenate([[0], at[ends][:-1] + 1]) if len(ends) else at[ends]
    size = at[ends] - begins
    empty = (size == 0) | ((size == 1) & (text[begins] == ord("\r")))
    return np.where(empty, 0, np.diff(separators, prepend=0) + 1)


def _cells_slowly(file: LogFile, kind: str, columns: int) -> np.ndarray:
    """The counts of `_cells`, record by record, so that an error can name the first wrong one."""
    counts, line = [], 1
    try:
        for line, record in _records(file, kind):
            fits = len(record) in (0, columns)
            expect(fits, f"{file.name}, line {line}", f"{columns} values, one per column", f"{len(record)}")
            counts.append(len(record))
            line += 1
    except csv.Error as error:
        raise InputError(f"{file.name}, line {line}: expected {kind.upper()}, got {_said(error)}") from None
    found = np.array(counts)
    return found[int(np.argmax(found > 0)) + 1 :]


def _said(error: csv.Error) -> str:
    """The parser's complaint in words that fit a log."""
    text = str(error)
    if "unexpected end" in text:
        return "a quote that is not closed"
    if "new-line" in text:
        return r"\r alone inside a line"
    return text


def _short(name: str) -> str:
    return repr(clip(name))


def _unreadable(file: LogFile, kind: str, error: BaseException) -> InputError:
    """The error that names the first line of other bytes than UTF-8, or of too many values; else polars' own reason."""
    for number, line in enumerate(file.lines(), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return InputError(f"{file.name}, line {number}: expected UTF-8 text, got other bytes")
    try:
        _cells_slowly(file, kind, len(_header(file, kind)))
    except InputError as wrong:
        return wrong
    return InputError(f"{file.name}: expected {kind.upper()}, got {' '.join(str(error).split())[:160]}")
