"""The responses of a log in frames of a given size: large tables in parts, small Parquet files many at once."""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.names import EVENT, FILE, MADE, ROW
from gdpo_audit.logs.tables import formats as of_files
from gdpo_audit.logs.tables.formats import BROKEN, Table

AT_ONCE = 100  # the most files in one query plan, which holds all of them open
_PATH = f"{MADE}path"  # the column that holds the path of a row's file


def frames_of(form: Form, names: Sequence[str], size: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield these columns of all responses, in the order of the log, in frames of about `size` rows.

    The columns FILE and ROW, and EVENT in a log of events, come first and say where a response stands. A column that a
    table does not have is null there.
    form: holds the tables of the log, and reads their responses.
    names: the columns to read.
    size: how many rows a frame has; by default `tables.ROWS`.
    """
    names = [FILE, ROW, *[EVENT] * ("_event" in form.batch), *names]
    size, waiting = size or of_files.ROWS_AT_ONCE, list[pl.DataFrame]()
    for frame in _frames_of_tables(form, names, size):
        waiting.append(frame)
        if sum(map(len, waiting)) >= size:
            yield pl.concat(waiting, how="vertical_relaxed")
            waiting = []
    if waiting:
        yield pl.concat(waiting, how="vertical_relaxed")


def value_of(name: str, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """Return an expression for the values of a column, which are null in a table that does not have it."""
    return pl.col(name) if name in schema else pl.lit(None).alias(name)


def rows_in(tables: Sequence[Table]) -> int:
    """Return the number of rows of all tables. Raises InputError if one cannot be read."""
    files = [str(table.scanned) for table in tables if table.scanned is not None]
    rows = sum(table.height for table in tables if table.scanned is None)
    try:
        for start in range(0, len(files), AT_ONCE):
            rows += _scan(files[start : start + AT_ONCE]).select(pl.len()).collect().item()
    except BROKEN:
        return sum(table.height for table in tables)
    return rows


def _frames_of_tables(form: Form, names: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
    """Yield the responses of one table after another, or of several at once, in frames of at most `size` rows.

    A table whose rows hold several responses comes as one frame, however long.
    Small tables are read several at once, by one query plan, since planning takes longer than reading one. At most
    `AT_ONCE` tables are read so. Their number also depends on how many responses the tables that were read just before
    held on average. If each of the next ones held twice as many, they would still fit into `size`.
    form: holds the tables of the log, and reads their responses.
    names: the columns to read.
    size: how many rows a frame may have.
    """
    number, usual = 0, size
    while number < len(form.tables):
        alike = _alike(form, number, min(AT_ONCE, size // (2 * max(usual, 1))))
        together = _at_once(form, alike, names, size) if len(alike) > 1 else None
        rows = 0
        for frame in _one_by_one(form, alike, names, size) if together is None else [together]:
            rows += len(frame)
            yield frame
        number, usual = alike.stop, rows // len(alike)


def _alike(form: Form, first: int, most: int) -> range:
    """Return the numbers of the tables that one query plan can read together, from the table of number `first` on.

    Each of these tables is one whole, unchanged Parquet file, and all have the same columns. The range holds the first
    table alone if that table is no such file (`Table.scanned` is None), or if a row of the log may hold several
    responses.
    form: holds the tables of the log.
    first: the number of the first table, from 0.
    most: the most tables in the range. The range has the first table even if this number is 0.
    """
    tables, stop = form.tables, first + 1
    if tables[first].scanned is None or form.several:
        return range(first, stop)
    schema = tables[first].schema
    while stop < min(first + most, len(tables)) and tables[stop].scanned is not None and tables[stop].schema is schema:
        stop += 1
    return range(first, stop)


def _at_once(form: Form, numbers: range, names: Sequence[str], size: int) -> pl.DataFrame | None:
    """Return the responses of several tables, each a Parquet file, read by one query plan of polars.

    None if the files hold more than `size` responses together, or if one of them cannot be read. The caller then reads
    them one by one, so that an error can name the file.
    form: holds the tables of the log, and makes responses of their rows.
    numbers: which of its tables to read, from 0.
    names: the columns to read.
    size: the most responses that the result may have.
    """
    files = [str(form.tables[number].scanned) for number in numbers]
    row = pl.col(ROW).cast(pl.Int64)
    try:
        rows = _scan(files, include_file_paths=_PATH, row_index_name=ROW).head(size + 1)
        rows = rows.with_columns(pl.col(_PATH).replace_strict(files, [*numbers], return_dtype=pl.Int64).alias(FILE))
        rows = form.to_responses(rows.drop(_PATH).with_columns(row - row.first().over(FILE)))
        schema = rows.collect_schema()
        frame = rows.select(value_of(name, schema) for name in names).collect()
    except BROKEN:
        return None
    return frame if len(frame) <= size else None


def _scan(files: Sequence[str], **options: str) -> pl.LazyFrame:
    """Return a lazy frame of the rows of Parquet files with the same columns, one file after another.

    files: the paths of the files.
    options: further arguments of `polars.scan_parquet`.
    """
    return pl.scan_parquet(files, glob=False, hive_partitioning=False, **options)  # type: ignore[arg-type]


def _one_by_one(form: Form, numbers: range, names: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
    """Yield the responses of some tables of a log, one table at a time, in frames of at most `size` rows.

    A table whose rows hold several responses comes whole, because its responses are numbered from the first row on.
    form: holds the tables of the log, and reads their responses.
    numbers: which of its tables to read, from 0.
    names: the columns to read.
    size: how many rows a frame may have.
    """
    for number in numbers:
        table, start, whole = form.tables[number], 0, False
        while not whole:
            responses = form.responses(number) if form.several else form.responses(number, start, size)
            schema = responses.collect_schema()
            rows = table.collected(responses.select(value_of(name, schema) for name in names))
            if len(rows) or start == 0:
                yield rows
            start, whole = start + size, form.several or len(rows) < size
