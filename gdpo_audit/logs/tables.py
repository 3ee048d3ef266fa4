"""Any file as lazy tables of polars: Parquet, CSV, TSV, JSON lines, JSON, W&B's tables, trackio's databases.

Behind this module nothing knows of formats: a table has columns with types, nested ones among them.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import polars as pl

from gdpo_audit.logs import torch_files
from gdpo_audit.logs.files import LogFile, format_of
from gdpo_audit.logs.json_values import document, expect_names, is_number, records, table_of
from gdpo_audit.logs.trackers import trackio, wandb
from gdpo_core._errors import InputError, expect, reason
from gdpo_core._words import clip

Schema: TypeAlias = Mapping[str, pl.DataType]  # the columns of a table, or the fields of an object

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
# What polars raises where a file is damaged, or gone. Its other errors are of an operation on columns, which is ours.
DAMAGED = (pl.exceptions.ComputeError, pl.exceptions.NoDataError, pl.exceptions.PanicException, OSError)
ROWS = 250_000  # per frame, about
RECORDS = 10_000  # of a CSV at a time as Python has them
HEAD = 100  # lines of JSON that are parsed twice
MISSING = ["", "NA", "N/A", "null", "None", "none", "NaN", "nan", "NAN", "<NA>"]  # in CSV
# Long texts, of which a reader needs no more than how long they are.
UNREAD = ("completion", "completions", "response", "output", "messages")
SEPARATORS = (",", ";", "\t", "|")
_NUMPY = r"^\s*np\.(?:\w+\(([^()]*)\)|(True|False)_)\s*$"  # a scalar as numpy 2 writes it
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # which JSON can hold and polars cannot
_EPISODE = {"episode_id", "trajectories"}  # an object that is a whole file of rLLM
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Table:
    """A table of a log: its name in messages, its columns, and what reads it again with its long texts.

    odd: columns of text that are numbers but for a few values, which are errors where the column is read.
    scanned: the Parquet file that holds just these rows; None for any other table.
    """

    name: str
    frame: pl.LazyFrame
    kind: str
    again: Callable[[], pl.LazyFrame]
    path: Path | None = None
    odd: frozenset[str] = frozenset()
    scanned: Path | None = None

    @property
    def fresh(self) -> pl.LazyFrame:
        """The rows, of a Parquet file in a frame of their own: polars keeps with each what it knew of the file."""
        return self.again() if self.kind == "parquet" else self.frame

    @cached_property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The columns and their types. InputError for a file that is damaged, or a name that no column can have."""
        try:
            columns = self.fresh.collect_schema()
        except BROKEN as error:
            raise self.unreadable(error) from None
        expect_names(columns, self.name)
        return _shared(tuple(columns.items()))

    @cached_property
    def height(self) -> int:
        """The number of rows."""
        return self.collected(self.fresh.select(pl.len())).item()

    def collected(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Rows made of this table. Raises InputError where it is damaged."""
        try:
            return rows.collect()
        except BROKEN as error:
            if isinstance(error, DAMAGED) or not self.is_whole:
                raise self.unreadable(error) from None
            raise

    @property
    def is_whole(self) -> bool:
        """Whether each of its columns can be read, with nothing made of them."""
        try:
            for name in self.schema:
                self.fresh.select(name).collect()
        except BROKEN:
            return False
        return True

    def unreadable(self, error: BaseException) -> InputError:
        """The error of a table whose rows cannot be read."""
        why = reason(error)[:200]
        if self.kind != "parquet":
            return InputError(f"{self.name}: expected a table that can be read, got {why}")
        return InputError(f"{self.name}: expected a whole Parquet file, got one that is cut or damaged: {why}")


def tables_of(file: LogFile, broken: dict[str, int] | None = None, texts: bool = False) -> list[Table]:
    """The tables in a file; of a database those of one run. Raises InputError.

    broken: filled with the number of lines that were left out as they are no JSON objects; None: these are errors.
    texts: with the long texts too.
    """
    kind, odd = format_of(file), {*file.odd}
    if file.run is not None:
        expect(kind == "trackio", f"{file.name}::{file.run}", "a trackio database before ::", "another file")
    if kind == "parquet":
        of = "table" if file.frame is not None else kind
        scanned = file.plain_path if file.frame is None else None
        return [_checked(Table(file.name, _scan(file), of, partial(_scan, file), file.path, file.odd, scanned))]
    if kind == "trackio":
        named = trackio(file, odd)
    elif kind == "wandb":
        named = [(file.name, wandb(file, odd))]
    elif kind == "torch":
        named = [(file.name, torch_files.table(file.name, file.path, odd))]
    elif kind == "jsonl":
        named = [(file.name, _json_lines(file, broken, odd, texts))]
    else:
        named = [(file.name, _json(file, odd) if kind == "json" else _csv(file, kind, odd))]

    def again(number: int) -> pl.LazyFrame:
        return tables_of(file, broken, texts=True)[number].frame

    frames = [frame if kind == "jsonl" else _read(frame.lazy(), texts) for _, frame in named]
    return [
        _checked(Table(name, frame.lazy(), kind, partial(again, number), file.path, frozenset(odd)))
        for number, ((name, _), frame) in enumerate(zip(named, frames, strict=True))
    ]


@lru_cache(maxsize=1_000)
def _shared(columns: tuple[tuple[str, pl.DataType], ...]) -> Mapping[str, pl.DataType]:
    """Return columns and their types as the same object wherever they are the same: most files of a log have one."""
    return pl.Schema(columns)


def one_of_each(tables: Sequence[Table]) -> list[Table]:
    """Return the first table of each kind: what its columns, their types and its format say holds for the others."""
    kinds: dict[tuple, Table] = {}
    for table in tables:
        kinds.setdefault((id(table.schema), table.kind, table.odd), table)
    return [*kinds.values()]


def _checked(table: Table) -> Table:
    """The table, if it has columns that can be read. Raises InputError."""
    expect(bool(table.schema) or table.kind != "jsonl", table.name, "at least one response", "0 rows")
    return table


def _read(table: pl.LazyFrame, texts: bool) -> pl.DataFrame:
    """The table, with the number of their characters in columns of long texts if these are not wanted."""
    long = (name for name, kind in table.collect_schema().items() if is_unread(name, kind))
    sizes = [pl.col(name).str.len_chars().cast(pl.String) for name in long]
    return (table if texts else table.with_columns(sizes)).collect()


def is_unread(name: str, kind: object, of: str = "") -> bool:
    """Whether a table that is no Parquet holds the number of characters in the place of these texts."""
    return name.lower() in UNREAD and kind == pl.String and of not in ("parquet", "table")


def fields_of(kind: object) -> Schema:
    """Return the fields of a type of objects; none of any other type."""
    return kind.to_schema() if isinstance(kind, pl.Struct) else {}  # type: ignore[return-value]


def is_number_type(kind: object) -> bool:
    """Whether a column of this type can be a reward."""
    return isinstance(kind, pl.DataType) and (kind.is_numeric() or kind == pl.Boolean)


def _scan(file: LogFile) -> pl.LazyFrame:
    """Return the rows of a Parquet file, or those that need no file."""
    if file.frame is not None:
        return file.frame
    return pl.scan_parquet(file.plain_path or io.BytesIO(file.content()), glob=False)


# --- CSV and TSV -----------------------------------------------------------------------------------------------------


def _csv(file: LogFile, kind: str, odd: set[str]) -> pl.DataFrame:
    """All records; numbers or booleans where all values of a column are, anything else as text."""
    content = file.content().removeprefix(_BOM)
    first = f"{file.name}, line 1"
    expect(b"\0" not in content[: 1 << 16], first, kind.upper(), "bytes that are no text")
    expect(b"\n" in content or b"\r" not in content, first, r"lines that end in \n or \r\n", r"\r alone")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file.name}, line {line}: expected UTF-8 text, got other bytes") from None
    separator = _separator(text, kind)
    del text
    records = _records(file, kind, content, separator)
    names = next(records, [])
    parts = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))]
    while some := list(islice(records, RECORDS)):
        parts.append(table_of(pl.Series(*one) for one in zip(names, zip(*some, strict=True), strict=True)))
    frame = pl.concat(parts)
    if b"np." in content:
        frame = frame.with_columns(pl.all().str.replace(_NUMPY, "${1}${2}"))
    return table_of(_typed(texts.replace(MISSING, None), odd) for texts in frame.iter_columns())


def _separator(text: str, kind: str) -> str:
    """The character that makes the first line more than one column; by default the one that the ending promises."""
    start = text[: 1 << 16].lstrip("\r\n")
    usual = "\t" if kind == "tsv" else ","
    for separator in (usual, *(other for other in SEPARATORS if other != usual)):
        with suppress(csv.Error):
            if len(next(csv.reader(io.StringIO(start, newline=""), delimiter=separator), [])) > 1:
                return separator
    return usual


def _records(file: LogFile, kind: str, content: bytes, separator: str) -> Iterator[list[str]]:
    """The names of the columns, and then the values of each record; empty lines are none.

    Raises InputError for a record with more or fewer values than columns.
    """
    names, line, empty = list[str](), 1, False
    # as it is read: the whole text in a StringIO has four bytes for each of the file's
    lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    csv.field_size_limit(2**31 - 1)  # of the process; polars has none
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for record in reader:
            if record:
                names = names or _names(file, record)
                wanted = f"{len(names)} values, one per column"
                expect(len(record) == len(names), f"{file.name}, line {line}", wanted, len(record))
                unclear = empty and len(names) == 1
                expect(not unclear, file.name, "a value in every line", "an empty line, which may be a missing one")
                yield record
            empty, line = bool(names) and not record, reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{file.name}, line {line}: expected {kind.upper()}, got {error}") from None


def _names(file: LogFile, names: list[str]) -> list[str]:
    expect_names(names, file.name)
    numbers = (name for name in names if re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", name, re.I))
    number = next(numbers, None)
    expect(number is None, f"{file.name}, line 1", "names of columns", f"the number {number}")
    return names


def _typed(texts: pl.Series, odd: set[str]) -> pl.Series:
    """A column of text as numbers or booleans, if all its values are."""
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


# --- JSON ------------------------------------------------------------------------------------------------------------


def _json_lines(file: LogFile, broken: dict[str, int] | None, odd: set[str], texts: bool) -> pl.DataFrame:
    """The lines as polars reads them; Python, several times as slow, reads NaN, kinds that mix and broken lines."""
    content = file.content().removeprefix(_BOM)
    if broken is None and not _HALF_CHARACTER.search(content):
        with suppress(*BROKEN):
            schema = pl.scan_ndjson(content, infer_schema_length=None).collect_schema()
            if not _mixed(schema, [*islice(_objects(file.name, content, None), HEAD)]):
                return _read(pl.scan_ndjson(content, schema=schema), texts)
    return _read(records([*_objects(file.name, content, broken)], odd).lazy(), texts)


def _mixed(schema: Mapping[str, pl.DataType], items: Sequence[dict]) -> bool:
    """Whether polars made text of numbers, as some values are text."""
    texts = [name for name, kind in schema.items() if pl.String in (kind, getattr(kind, "inner", None))]
    values = (item.get(name) for item in items for name in texts)
    return any(is_number(x) for value in values for x in (value if isinstance(value, list) else [value]))


def _objects(name: str, content: bytes, broken: dict[str, int] | None) -> Iterator[dict]:
    """The object of each line; NaN and Infinity are numbers, blank lines are ignored.

    Raises InputError for the first line that is not a JSON object, or skips and counts such lines.
    """
    bad = 0
    for number, line in enumerate(io.BytesIO(content), start=1):
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
            yield item
            continue
        bad += 1
        got = got or repr(clip(line.decode("utf-8", "replace").strip()))
        expect(broken is not None, f"{name}, line {number}", "a JSON object", got)
    if broken is not None:
        broken[name] = bad


def _json(file: LogFile, odd: set[str]) -> pl.DataFrame:
    """A document: an array of objects."""
    wanted = "an array of objects, one per response"
    content = document(file, wanted)
    if isinstance(content, dict) and content.keys() >= _EPISODE:
        content = [content]
    if isinstance(content, dict) and isinstance(content.get("log_history"), list):  # trainer_state.json
        content = content["log_history"]
    if not isinstance(content, list):
        got = "one object" if isinstance(content, dict) else type(content).__name__
        raise InputError(f"{file.name}: expected {wanted}, got {got}")
    for number, item in enumerate(content, start=1):
        if not isinstance(item, dict):
            raise InputError(f"{file.name}, item {number}: expected an object, got {type(item).__name__}")
    expect(len(content) > 0, file.name, "at least one response", "0 rows")
    return records(content, odd)
