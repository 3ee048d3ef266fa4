"""CSV and TSV as tables of the columns asked for."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile
from gdpo_core.logs.parquet import BROKEN, Schema

MISSING = ["", "NA", "N/A", "null", "None", "none", "NaN", "nan", "NAN", "<NA>"]
INFER = 10_000  # rows from which types are learnt; where a later one differs, from all
HEAD = 100  # rows by which a text column is taken for numbers with something else among them
_BOM = "\ufeff"


def schema(file: LogFile, kind: str) -> Schema:
    """The columns and their types: boolean where the first rows say True and False, Float64 where most are numbers."""
    _expect_header(file, kind)
    try:
        known = dict(_scan(file, kind).collect_schema())
        texts = [name for name, found in known.items() if found == pl.String]
        head = _scan(file, kind).select(texts).head(HEAD).collect()
    except BROKEN as error:
        raise _unreadable(file, kind, error) from None
    for name in texts:
        values = head[name].drop_nulls()
        if len(values) and values.str.to_lowercase().is_in(["true", "false"]).all():
            known[name] = pl.Boolean()
        elif 2 * values.cast(pl.Float64, strict=False).count() > len(values):
            known[name] = pl.Float64()
    return known


def frame(file: LogFile, kind: str, columns: Sequence[str]) -> pl.DataFrame:
    """The columns of all rows; text that says True and False throughout, or infinity among numbers, as what it says."""
    try:
        rows = _scan(file, kind).select(columns).collect()
    except BROKEN:
        try:
            rows = _scan(file, kind, None).select(columns).collect()
        except BROKEN as error:
            raise _unreadable(file, kind, error) from None
    return rows.with_columns(_meant(rows[name]) for name, found in rows.schema.items() if found == pl.String)


def _meant(texts: pl.Series) -> pl.Series:
    if texts.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return texts.str.to_lowercase() == "true"
    numbers = texts.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == texts.null_count() else texts


def _separator(kind: str) -> str:
    return "\t" if kind == "tsv" else ","


def _scan(file: LogFile, kind: str, infer: int | None = INFER) -> pl.LazyFrame:
    source = file.path if file.path is not None else io.BytesIO(file.content())
    options = {"separator": _separator(kind), "null_values": MISSING, "infer_schema_length": infer}
    return pl.scan_csv(source, glob=False, **options)


def _records(file: LogFile, kind: str) -> Iterator[list[str]]:
    lines = (line.decode("utf-8", "replace") for line in file.lines())
    return csv.reader(lines, delimiter=_separator(kind))


def _expect_header(file: LogFile, kind: str) -> None:
    try:
        header = next(_records(file, kind), [])
    except csv.Error as error:
        raise InputError(f"{file.name}, line 1: expected names of columns, got {error}") from None
    repeated = [name.removeprefix(_BOM) for name, count in Counter(header).items() if count > 1]
    expect(not repeated, file.name, "columns of different names", f"{', '.join(map(repr, repeated))} more than once")


def _unreadable(file: LogFile, kind: str, error: BaseException) -> InputError:
    """The first line that is no UTF-8 or has more values than there are columns, if it is that."""
    for number, line in enumerate(file.lines(), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return InputError(f"{file.name}, line {number}: expected UTF-8 text, got other bytes")
    reader = _records(file, kind)
    try:
        columns = len(next(reader, []))
        for record in reader:
            if len(record) > columns:
                where = f"{file.name}, line {reader.line_num}"
                return InputError(f"{where}: expected {columns} values, one a column, got {len(record)}")
    except csv.Error as wrong:
        return InputError(f"{file.name}, line {reader.line_num}: expected {kind.upper()}, got {wrong}")
    return InputError(f"{file.name}: expected {kind.upper()}, got {' '.join(str(error).split())[:160]}")
