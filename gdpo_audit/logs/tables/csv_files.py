"""Files of CSV and TSV as tables, whose columns are numbers, booleans or texts."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter

import polars as pl

from gdpo_audit.logs.files.files import LogFile
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_audit.logs.tables.json_values import BOM, expect_names, table_of
from gdpo_audit.logs.tables.repairs import Repairs
from gdpo_core.shared.words import count

_RECORDS = 10_000  # the records of a CSV that Python holds at a time
MOST_TITLES = 5  # the most lines before the header of a CSV that are skipped
_MISSING = ["", "NA", "N/A", "null", "None", "none", "NaN", "nan", "NAN", "<NA>"]  # values that are missing, in CSV
_SEPARATORS = (",", ";", "\t", "|")
# A number with a decimal comma, also with dots between thousands, and one that a comma between thousands cannot have.
_COMMA = r"^\s*[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][-+]?\d+)?\s*$"
_DECIMAL_COMMA = r",(\d{1,2}|\d{4,})(\D|$)|^\s*[-+]?0\d*,\d"
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
_NUMPY = r"^\s*np\.(?:\w+\(([^()]*)\)|(True|False)_)\s*$"  # a scalar as numpy 2 prints it


def csv_table(file: LogFile, kind: str, odd: set[str], broken: dict[str, int] | None, repairs: Repairs) -> pl.DataFrame:
    """Return a CSV or TSV as a table; a column is numbers or booleans if all of its values are, and texts otherwise.

    A column without any value has the type Null. Rows without any value are left out. If the header stands again in
    the middle of the file, as where a run that began anew wrote on, the columns that it adds are null in the rows
    before it, and the columns that it lacks are null in the rows behind it.
    file: the file to read.
    kind: csv or tsv.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.
    broken: a dict to which the number of records with too many or too few values is added, by the name of the file;
        these records are left out. If it is None, they raise InputError.
    repairs: takes note of what was read otherwise than it stands in the file.

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
    titles, separator = _titles(text)
    if titles:  # their lines stay, so that an error names the line that an editor shows
        above = (line.strip(f" \t{separator}") for line in text.splitlines()[:titles])
        repairs.titles += [line for line in above if line]
        content = b"\n" * titles + content.split(b"\n", titles)[titles]
    else:
        separator = _separator(text, kind)
    del text
    frames = list[pl.DataFrame]()
    for names, records in groupby(_records(file, kind, content, separator, broken, repairs), itemgetter(0)):
        frames.append(pl.DataFrame(schema=dict.fromkeys(names, pl.String)))
        while some := list(islice((values for _, values in records if values), _RECORDS)):
            columns = zip(names, zip(*some, strict=True), strict=True)
            frames.append(table_of(pl.Series(name, values) for name, values in columns))
    if not frames:
        return pl.DataFrame()
    frame = pl.concat(frames, how="diagonal")
    if b"np." in content:
        frame = frame.with_columns(pl.all().str.replace(_NUMPY, "${1}${2}"))
    frame = _without_empty_rows(table_of(texts.replace(_MISSING, None) for texts in frame.iter_columns()), repairs)
    return table_of(_typed(texts, odd) for texts in _with_points(frame, separator, repairs))


def _without_empty_rows(frame: pl.DataFrame, repairs: Repairs) -> pl.DataFrame:
    """Return the rows that have a value in some column; in a table of a single column all rows stay.

    frame: the rows.
    repairs: takes note of how many rows were left out.
    """
    if frame.width < 2:
        return frame
    filled = frame.filter(pl.any_horizontal(pl.all().is_not_null()))
    repairs.empty_rows += len(frame) - len(filled)
    return filled


def _with_points(frame: pl.DataFrame, separator: str, repairs: Repairs) -> Iterator[pl.Series]:
    """Yield the columns of texts, with a decimal point in place of the decimal comma if the file has decimal commas.

    A file has them if all values of some column are numbers with or without a comma, and the comma cannot stand between
    thousands in one of them, as in 0,5. All columns of such numbers are then changed. Where a comma also separates the
    values of a record, the column needs two digits behind some comma: "1,0" may be a list of two rewards.
    frame: the columns of texts.
    separator: the character between two values of a record.
    repairs: takes note of the changed columns.
    """
    with_commas = [x.name for x in frame.iter_columns() if _are_with_commas(x)]
    sure = r",(\d\d|\d{4,})(\D|$)" if separator == "," else _DECIMAL_COMMA
    if not any(frame[name].str.contains(sure).any() for name in with_commas):
        with_commas = []
    repairs.decimal_commas += [name for name in with_commas if name not in repairs.decimal_commas]
    for texts in frame.iter_columns():
        point = texts.name in with_commas
        yield texts.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True) if point else texts


def _are_with_commas(texts: pl.Series) -> bool:
    """Return whether all values of a column are numbers with or without a comma, and some have one."""
    values = texts.drop_nulls()
    if not len(values) or not values.head(1_000).str.contains(_COMMA).all():
        return False
    return bool(values.str.contains(",", literal=True).any() and values.str.contains(_COMMA).all())


def _titles(text: str) -> tuple[int, str]:
    """Return how many lines stand before the header of a CSV, such as a title, and its separator; 0 and "" for none.

    A title fills at most one cell. The header behind it has three names or more, none of them a number, and the record
    behind the header has as many values.
    text: the content of the file.
    """
    start = text[: 1 << 16].splitlines()[: 2 * MOST_TITLES]
    if any(_begins_with_a_header(start, separator) for separator in _SEPARATORS):
        return 0, ""
    for separator in _SEPARATORS:
        with suppress(csv.Error):
            rows = [*csv.reader(start, delimiter=separator)]
            cells = [[cell for cell in row if cell.strip()] for row in rows]
            first = next((k for k, row in enumerate(cells) if len(row) > 1), 0)
            names = cells[first] if cells else []
            wide = len({*names}) == len(names) > 2 and not any(map(_NUMBER.fullmatch, names))
            titled = any(cells[:first]) and first <= MOST_TITLES and len(rows) == len(start) > first + 1
            if wide and titled and len(rows[first + 1]) == len(rows[first]) == len(names):
                return first, separator
    return 0, ""


def _begins_with_a_header(lines: Sequence[str], separator: str) -> bool:
    """Return whether the first line is a header: several different names, none a number, and all records as wide.

    lines: the first lines of the file.
    separator: the character between two values.
    """
    with suppress(csv.Error):
        header, *records = csv.reader([line for line in lines if line.strip()], delimiter=separator)
        names = [cell.strip() for cell in header]
        several = len({*names}) == len(names) > 1 and not any(map(_NUMBER.fullmatch, names)) and all(names)
        return several and all(len(record) == len(names) for record in records[:-1] or records)
    return False


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


def _records(
    file: LogFile, kind: str, content: bytes, separator: str, broken: dict[str, int] | None, repairs: Repairs
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the records of a CSV or TSV, each as the names of its columns and its values; empty lines are left out.

    The first record names the columns; it comes with no values, and so does each later record that names columns.
    file: the file, for errors.
    kind: csv or tsv, for errors.
    content: the bytes of the file.
    separator: the character between two values.
    broken: as for `csv_table`.
    repairs: takes note of the lines in which columns are named once more.

    Raises InputError for broken text, for names that `_names` refuses, and for a record with more or fewer values than
    there are columns. In a file of one column an empty line before a record raises it, too, as it may be a missing
    value.
    """
    names, line, empty, rows, bad = tuple[str, ...](), 1, False, 0, 0
    # The text is decoded while it is read, because the whole in a StringIO takes four bytes for each of the file's.
    lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    csv.field_size_limit(2**31 - 1)  # the limit is the process's; polars has none
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for record in reader:
            if record and not names:
                names = tuple(_names(file, record))
                yield names, []
            elif record and names[0] in record and _names_again(record, names):
                added, gone = [x for x in record if x not in names], [x for x in names if x not in record]
                repairs.headers.append((line, rows, added, gone))
                names = tuple(_names(file, record))
                yield names, []
            elif record and len(record) != len(names) and broken is not None:
                bad += 1
            elif record:
                if len(record) != len(names):
                    alike = 1 + sum(len(later) == len(record) for later in reader)
                    got = f"{len(record)}"
                    if alike > 1 and len(record) > len(names):
                        got += f", as in {count(alike, 'line')}; write the names of all columns into the first line"
                    refuse(location(file.name, line=line), f"{len(names)} values, one per column", got)
                if empty and len(names) == 1:
                    refuse(file.name, "a value in every line", "an empty line, which may be a missing one")
                rows += 1
                yield names, record
            empty, line = bool(names) and not record, reader.line_num + 1
    except csv.Error as error:
        refuse(location(file.name, line=line), kind.upper(), error)
    if broken is not None:
        broken[file.name] = bad


def _names_again(record: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a record in the middle of a CSV names its columns once more.

    Either it repeats all names, or it has most of them and no number among its values. Names of a single column may be
    values.
    record: the values of the record.
    names: the names of the columns so far.
    """
    if len(names) < 2:
        return False
    common = len({*record} & {*names})
    return 2 * common > len(names) and len({*record}) == len(record) and not any(map(_NUMBER.fullmatch, record))


def _names(file: LogFile, names: list[str]) -> list[str]:
    """Return the first record of a CSV, which names its columns, unchanged.

    file: the file, for errors.
    names: the first record.

    Raises InputError for a name that no column may have, and for a number, which shows that the names are missing.
    """
    expect_names(names, file.name)
    number = next((name for name in names if _NUMBER.fullmatch(name)), None)
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
