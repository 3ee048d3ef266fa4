"""Files of CSV and TSV as tables, whose columns are numbers, booleans or texts."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import polars as pl

from gdpo_audit.logs.files.files import LogFile
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_audit.logs.tables.json_values import BOM, expect_names, table_of

_RECORDS = 10_000  # the records of a CSV that Python holds at a time
_MISSING = ["", "NA", "N/A", "null", "None", "none", "NaN", "nan", "NAN", "<NA>"]  # values that are missing, in CSV
_SEPARATORS = (",", ";", "\t", "|")
_NUMPY = r"^\s*np\.(?:\w+\(([^()]*)\)|(True|False)_)\s*$"  # a scalar as numpy 2 prints it


def table(file: LogFile, kind: str, odd: set[str]) -> pl.DataFrame:
    """Return a CSV or TSV as a table; a column is numbers or booleans if all of its values are, and texts otherwise.

    A column without any value has the type Null.
    file: the file to read.
    kind: csv or tsv.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.

    Raises InputError for broken text or records.
    """
    content = file.content().removeprefix(BOM)
    first = location(file.name, line=1)
    if b"\0" in content[: 1 << 16]:
        refuse(first, kind.upper(), "bytes that are no text")
    refuse_unless(b"\n" in content or b"\r" not in content, first, r"lines that end in \n or \r\n", r"\r alone")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        refuse(location(file.name, line=line), "UTF-8 text", "other bytes")
    separator = _separator(text, kind)
    del text
    records = _records(file, kind, content, separator)
    names = next(records, [])
    frames = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))]
    while some := list(islice(records, _RECORDS)):
        frames.append(
            table_of(pl.Series(name, values) for name, values in zip(names, zip(*some, strict=True), strict=True))
        )
    frame = pl.concat(frames)
    if b"np." in content:
        frame = frame.with_columns(pl.all().str.replace(_NUMPY, "${1}${2}"))
    return table_of(_typed(texts.replace(_MISSING, None), odd) for texts in frame.iter_columns())


def _separator(text: str, kind: str) -> str:
    """Return the separator of a CSV or TSV: the first of the usual ones that makes the first line several columns.

    text: the content of the file.
    kind: csv or tsv; the separator of this format is tried first, and returned if none makes several columns.
    """
    start = text[: 1 << 16].lstrip("\r\n")
    usual = "\t" if kind == "tsv" else ","
    for separator in (usual, *(candidate for candidate in _SEPARATORS if candidate != usual)):
        with suppress(csv.Error):
            if len(next(csv.reader(io.StringIO(start, newline=""), delimiter=separator), [])) > 1:
                return separator
    return usual


def _records(file: LogFile, kind: str, content: bytes, separator: str) -> Iterator[list[str]]:
    """Yield the records of a CSV or TSV as lists of texts, the names of the columns first; empty lines are left out.

    file: the file, for errors.
    kind: csv or tsv, for errors.
    content: the bytes of the file.
    separator: the character between two values.

    Raises InputError for broken text, for names that `_names` refuses, and for a record with more or fewer values than
    there are columns. In a file of one column an empty line before a record raises it, too, as it may be a missing
    value.
    """
    names, line, empty = list[str](), 1, False
    # The text is decoded while it is read, because the whole in a StringIO takes four bytes for each of the file's.
    lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    csv.field_size_limit(2**31 - 1)  # the limit is the process's; polars has none
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for record in reader:
            if record:
                names = names or _names(file, record)
                if len(record) != len(names):
                    refuse(location(file.name, line=line), f"{len(names)} values, one per column", len(record))
                if empty and len(names) == 1:
                    refuse(file.name, "a value in every line", "an empty line, which may be a missing one")
                yield record
            empty, line = bool(names) and not record, reader.line_num + 1
    except csv.Error as error:
        refuse(location(file.name, line=line), kind.upper(), error)


def _names(file: LogFile, names: list[str]) -> list[str]:
    """Return the first record of a CSV, which names its columns, unchanged.

    file: the file, for errors.
    names: the first record.

    Raises InputError for a name that no column may have, and for a number, which shows that the names are missing.
    """
    expect_names(names, file.name)
    numbers = (name for name in names if re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", name, re.I))
    number = next(numbers, None)
    if number is not None:
        refuse(location(file.name, line=1), "names of columns", f"the number {number}")
    return names


def _typed(texts: pl.Series, odd: set[str]) -> pl.Series:
    """Return a column of texts as numbers, or as booleans, if all of its values are; otherwise return it unchanged.

    A column without any value gets the type Null.
    texts: the column.
    odd: a set to which the column is added if it stays text although most of its values are numbers.
    """
    filled = len(texts) - texts.null_count()
    if not filled:
        return pl.Series(texts.name, [None] * len(texts), pl.Null)
    if texts.str.to_lowercase().is_in(["true", "false"]).all():
        return texts.str.to_lowercase() == "true"
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.count() == filled:
        return numbers
    if 2 * numbers.count() > filled:
        odd.add(texts.name)
    return texts
