"""Files of any format as tables of polars: Parquet, CSV, JSON lines, JSON, torch, tables of W&B, databases of trackio.

Whatever the format of its file was, a table has columns with types, nested types among them.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import polars as pl

from gdpo_audit.logs.files.files import LogFile, format_of
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_audit.logs.tables import csv_files, torch_files
from gdpo_audit.logs.tables.json_values import BOM, expect_names, is_number, json_content, records
from gdpo_audit.logs.tables.repairs import Repairs
from gdpo_audit.logs.tables.trackers import trackio, wandb
from gdpo_core.shared.errors import reason
from gdpo_core.shared.words import clip

Schema: TypeAlias = Mapping[str, pl.DataType]  # the columns of a table, or the fields of an object

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
# The errors that polars raises where a file is damaged or gone. Its other errors come from operations that do not fit
# the columns, which is our fault.
DAMAGED = (pl.exceptions.ComputeError, pl.exceptions.NoDataError, pl.exceptions.PanicException, OSError)
ROWS_AT_ONCE = 250_000  # the rows that are read at a time, about
_HEAD = 100  # the lines of JSON that Python reads too, to see whether polars took numbers for text
# The names of long texts, of which a reader needs no more than their length.
UNREAD = ("completion", "completions", "response", "output", "messages")
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # JSON can hold half a character, and polars cannot
_EPISODE = {"episode_id", "trajectories"}  # the members of an object that is a whole file of rLLM


@dataclass(frozen=True)
class Table:
    """A table of a log, whose rows are read when they are wanted.

    name: the name of the table in messages.
    frame: its rows; the number of characters may stand in the place of a long text.
    kind: the format of its file, as `format_of` names it, or "table" for rows that came from no file, or from a URL.
    again: reads the rows anew, with their long texts.
    path: the file on disk, if there is one.
    odd: the columns that are read as text although most of their values are numbers; the other values are errors.
    scanned: the path of the Parquet file whose rows these are, all of them and unchanged; None for any other table.
    repairs: what was read otherwise than it stands in the file: details by the id of the issue that tells of it.
    memory: what was found in the rows of this table and those beside it, by what it depends on.
    """

    name: str
    frame: pl.LazyFrame
    kind: str
    again: Callable[[], pl.LazyFrame]
    path: Path | None = None
    odd: frozenset[str] = frozenset()
    scanned: Path | None = None
    repairs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def fresh(self) -> pl.LazyFrame:
        """The rows as a lazy frame, which for a Parquet file is a new one each time.

        polars keeps in a frame what it learnt of its file.
        """
        return self.again() if self.kind == "parquet" else self.frame

    @cached_property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The columns with their types. Raises InputError for a damaged file, or a name that no column may have."""
        try:
            columns = self.fresh.collect_schema()
        except BROKEN as error:
            self._refuse(error)
        expect_names(columns, self.name)
        return _shared(tuple(columns.items()))

    @cached_property
    def height(self) -> int:
        """The number of rows."""
        return self.collected(self.fresh.select(pl.len())).item()

    def collected(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Return the rows of a lazy frame that was made of this table. Raises InputError if the table is damaged."""
        try:
            return rows.collect()
        except BROKEN as error:
            if isinstance(error, DAMAGED) or not self.is_whole:
                self._refuse(error)
            raise

    @property
    def is_whole(self) -> bool:
        """Whether every column of the table can be read."""
        try:
            for name in self.schema:
                self.fresh.select(name).collect()
        except BROKEN:
            return False
        return True

    def _refuse(self, error: BaseException) -> NoReturn:
        """Raise InputError for this table, whose rows cannot be read.

        error: the error that says why.
        """
        why = reason(error)[:200]
        if self.kind != "parquet":
            refuse(self.name, "a table that can be read", why)
        refuse(self.name, "a whole Parquet file", f"one that is cut or damaged: {why}")


def tables_of(file: LogFile, broken: dict[str, int] | None = None, texts: bool = False) -> list[Table]:
    """Return the tables in a file; only a database of trackio may have several.

    file: the file.
    broken: a dict to which the number of lines that are not JSON objects, or of records of a CSV with too many or too
        few values, is added, by the name of the file. These lines are left out. If it is None, they raise InputError.
    texts: whether the texts of columns named in UNREAD are kept. If not, each is replaced by its number of characters,
        written as a text such as "1234". A Parquet file keeps its texts in either case.

    Raises InputError if the file cannot be read.
    """
    kind, odd, repairs = format_of(file), {*file.odd}, Repairs()
    if file.run is not None and kind != "trackio":
        refuse(f"{file.name}::{file.run}", "a trackio database before ::", "another file")
    if kind == "parquet":
        table_kind = "table" if file.frame is not None else kind
        scanned = file.plain_path if file.frame is None else None
        return [_checked(Table(file.name, _scan(file), table_kind, partial(_scan, file), file.path, file.odd, scanned))]
    if kind == "trackio":
        named = trackio(file, odd)
    elif kind == "wandb":
        named = [(file.name, wandb(file, odd))]
    elif kind == "torch":
        named = [(file.name, torch_files.torch_table(file.name, file.path, odd, repairs))]
    elif kind == "jsonl":
        named = [(file.name, _json_lines(file, broken, odd, texts))]
    elif kind == "json":
        named = [(file.name, _json(file, odd))]
    else:
        named = [(file.name, csv_files.csv_table(file, kind, odd, broken, repairs))]

    def again(number: int) -> pl.LazyFrame:
        """Return the rows of a table, read anew with their long texts.

        number: which table of `file` of the outer function it is, from 0.
        """
        return tables_of(file, broken, texts=True)[number].frame

    frames = [frame if kind == "jsonl" else _read(frame.lazy(), texts) for _, frame in named]
    told = repairs.issues(file.name)
    return [
        _checked(Table(name, frame.lazy(), kind, partial(again, number), file.path, frozenset(odd), repairs=told))
        for number, ((name, _), frame) in enumerate(zip(named, frames, strict=True))
    ]


@lru_cache(maxsize=1_000)
def _shared(columns: tuple[tuple[str, pl.DataType], ...]) -> Mapping[str, pl.DataType]:
    """Return columns with their types as a schema, which is the same object for all tables with equal columns."""
    return pl.Schema(columns)


def one_of_each(tables: Sequence[Table]) -> list[Table]:
    """Return the first table of each kind; tables of one kind share their columns, types, format and `Table.odd`."""
    kinds: dict[tuple, Table] = {}
    for table in tables:
        kinds.setdefault((id(table.schema), table.kind, table.odd), table)
    return [*kinds.values()]


def _checked(table: Table) -> Table:
    """Return the table unchanged. Raises InputError if it cannot be read, or is a file of JSON lines that is empty."""
    refuse_unless(bool(table.schema) or table.kind != "jsonl", table.name, "at least one response", "0 rows")
    return table


def _read(table: pl.LazyFrame, texts: bool) -> pl.DataFrame:
    """Collect a lazy table and return its rows.

    texts: whether the texts of columns named in UNREAD are kept. If not, the number of their characters, as text, takes
        their place.
    """
    long = (name for name, kind in table.collect_schema().items() if is_unread(name, kind))
    sizes = [pl.col(name).str.len_chars().cast(pl.String) for name in long]
    return (table if texts else table.with_columns(sizes)).collect()


def is_unread(name: str, kind: object, table_kind: str = "") -> bool:
    """Return whether a column holds long texts (it is named in UNREAD), in whose place their lengths may be read.

    kind: its type.
    table_kind: the `kind` of its table, of which "parquet" and "table" keep all texts.
    """
    return name.lower() in UNREAD and kind == pl.String and table_kind not in ("parquet", "table")


def fields_of(kind: object) -> Schema:
    """Return the fields of a type of objects, as types by name; an empty mapping for any other type."""
    return kind.to_schema() if isinstance(kind, pl.Struct) else {}  # type: ignore[return-value]


def is_number_type(kind: object) -> bool:
    """Return whether this is a type of numbers or booleans, so that a column of it can be a reward."""
    return isinstance(kind, pl.DataType) and (kind.is_numeric() or kind == pl.Boolean)


def _scan(file: LogFile) -> pl.LazyFrame:
    """Return a lazy frame of the rows in a Parquet file; for a log that is no file, the frame of its rows."""
    if file.frame is not None:
        return file.frame
    return pl.scan_parquet(file.plain_path or io.BytesIO(file.content()), glob=False)


# --- JSON ------------------------------------------------------------------------------------------------------------


def _json_lines(file: LogFile, broken: dict[str, int] | None, odd: set[str], texts: bool) -> pl.DataFrame:
    """Return a file of JSON lines as a table with a row per line.

    polars reads the file if it can and `broken` is None. Otherwise Python does, which takes several times as long. This
    is so for files with NaN, or with values of different kinds in a column.
    broken: a dict to which the number of broken lines is added, by the name of the file. These lines are left out. If
        it is None, a broken line raises InputError.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.
    texts: whether the texts of columns named in UNREAD are kept. If not, the number of their characters, as text, takes
        their place.
    """
    content = file.content().removeprefix(BOM)
    if broken is None and not _HALF_CHARACTER.search(content):
        with suppress(*BROKEN):
            schema = pl.scan_ndjson(content, infer_schema_length=None).collect_schema()
            if not _mixed(schema, [*islice(_objects(file.name, content, None), _HEAD)]):
                return _read(pl.scan_ndjson(content, schema=schema), texts)
    return _read(records([*_objects(file.name, content, broken)], odd).lazy(), texts)


def _mixed(schema: Mapping[str, pl.DataType], items: Sequence[dict]) -> bool:
    """Return whether one of these objects has a number where polars reads the column as text.

    polars does so where other values of the column are texts.
    schema: the types that polars finds in the file.
    items: some objects of the file, as Python reads them.
    """
    texts = [name for name, kind in schema.items() if pl.String in (kind, getattr(kind, "inner", None))]
    values = (item.get(name) for item in items for name in texts)
    return any(is_number(x) for value in values for x in (value if isinstance(value, list) else [value]))


def _objects(name: str, content: bytes, broken: dict[str, int] | None) -> Iterator[dict]:
    """Yield the JSON object in each line, in which NaN and Infinity are numbers; blank lines are ignored.

    name: the name of the file.
    content: the bytes of the file.
    broken: a dict to which the number of lines that are not JSON objects is added at the end, by the name of the file.
        If it is None, the first such line raises InputError.
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
        if broken is None:
            refuse(location(name, line=number), "a JSON object", got)
    if broken is not None:
        broken[name] = bad


def _json(file: LogFile, odd: set[str]) -> pl.DataFrame:
    """Return a file of JSON, which is an array of objects, as a table with a row per object.

    Two other documents are read as well: a single episode of rLLM, and a trainer_state.json, which has the array as its
    log_history.
    file: the file.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.

    Raises InputError for anything else.
    """
    wanted = "an array of objects, one per response"
    content = json_content(file, wanted)
    if isinstance(content, dict) and content.keys() >= _EPISODE:
        content = [content]
    if isinstance(content, dict) and isinstance(content.get("log_history"), list):  # trainer_state.json
        content = content["log_history"]
    if not isinstance(content, list):
        got = "one object" if isinstance(content, dict) else type(content).__name__
        refuse(file.name, wanted, got)
    for number, item in enumerate(content):
        if not isinstance(item, dict):
            refuse(location(file.name, item=number), "an object", type(item).__name__)
    refuse_unless(len(content) > 0, file.name, "at least one response", "0 rows")
    return records(content, odd)
