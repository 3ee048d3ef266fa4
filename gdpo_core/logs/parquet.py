"""Reads chosen columns of Parquet files, many files at a time."""

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile

ROWS = 250_000  # per frame, about
FILES = 400  # per scan; more would have many files open at once
BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
Schema = Mapping[str, pl.DataType]


def schema(file: LogFile) -> Schema:
    """The columns of a file and their types."""
    try:
        return pl.scan_parquet(_source(file), glob=False).collect_schema()
    except BROKEN as error:
        raise _unreadable([file], error) from None


def sample(file: LogFile, columns: Sequence[str], rows: int) -> dict[str, list]:
    """The first values of these text columns."""
    try:
        frame = pl.scan_parquet(_source(file), glob=False).select(columns).head(rows).collect()
    except BROKEN as error:
        raise _unreadable([file], error) from None
    return frame.to_dict(as_series=False)


def frames(
    files: Sequence[LogFile], schemas: Sequence[Schema], columns: Sequence[str], head: int | None = None
) -> Iterator[pl.DataFrame]:
    """All rows of the columns, in order, and the number of their file in `_file`; only the first `head` rows if given.

    A frame of one file has `_row`, the number of the frame's first row in that file, from 0.
    """
    types = [tuple(known.get(column) for column in columns) for known in schemas]
    for alike, numbers in groupby(range(len(files)), key=types.__getitem__):
        wanted = {column: kind for column, kind in zip(columns, alike, strict=True) if kind is not None}
        left = list(numbers)
        while left and (head is None or head > 0):
            taken, left = _next(files, left, wanted)
            for frame in _scan([files[i] for i in taken], taken, wanted, head):
                yield frame
                head = None if head is None else head - len(frame)
            if head is not None and head <= 0:
                return


def _next(files: Sequence[LogFile], numbers: list[int], wanted: Schema) -> tuple[list[int], list[int]]:
    """The files of the next frame and the rest, if all are as long as the first; a file in memory stands alone."""
    rows = _height(files[numbers[0]])
    count = max(1, min(FILES, ROWS // max(rows, 1)))
    together = next((k for k, i in enumerate(numbers[:count]) if files[i].path is None), count)
    count = max(1, together)
    return numbers[:count], numbers[count:]


def _scan(files: Sequence[LogFile], numbers: Sequence[int], wanted: Schema, head: int | None) -> Iterator[pl.DataFrame]:
    size = ROWS if len(files) == 1 else None
    start, rows = 0, _height(files[0]) if size else 1
    while start < rows and (head is None or start < head):
        part = size or head
        if head is not None:
            part = min(part or head, head - start)
        yield _read(files, numbers, wanted, start, part)
        start += size or rows


def _read(
    files: Sequence[LogFile], numbers: Sequence[int], wanted: Schema, start: int, rows: int | None
) -> pl.DataFrame:
    # Several files are all on disk, see _next.
    sources = [file.path for file in files if file.path is not None]
    try:
        # polars reads no rows with an empty schema; without one it counts them.
        scan = pl.scan_parquet(
            sources or _source(files[0]),
            schema=dict(wanted) or None,
            extra_columns="ignore",
            glob=False,
            include_file_paths="_path",
        ).select(*wanted, "_path")
        frame = scan.slice(start, rows).collect()
        if len(files) == 1:
            number, first = pl.lit(numbers[0], pl.Int64).alias("_file"), pl.lit(start, pl.Int64).alias("_row")
            return frame.with_columns(number, first).drop("_path")
        paths = pl.Enum([str(source) for source in sources])
        order = pl.Series(numbers, dtype=pl.Int64)
        file = frame["_path"].cast(paths).to_physical()
        return frame.select(order.gather(file).alias("_file"), *wanted)
    except BROKEN as error:
        if len(files) > 1:
            return pl.concat(_read([file], [i], wanted, 0, None) for file, i in zip(files, numbers, strict=True))
        raise _unreadable(files, error) from None


def _height(file: LogFile) -> int:
    try:
        return pl.scan_parquet(_source(file), glob=False).select(pl.len()).collect().item()
    except BROKEN as error:
        raise _unreadable([file], error) from None


def _source(file: LogFile) -> Path | io.BytesIO:
    return file.path if file.path is not None else io.BytesIO(file.content())


def _unreadable(files: Sequence[LogFile], error: BaseException) -> InputError:
    size = len(files[0].content()) if files[0].path is None else files[0].path.stat().st_size
    try:
        expect(size > 0, files[0].name, "a Parquet file", "an empty file")
        expect(files[0].start(4) == b"PAR1", files[0].name, "a Parquet file", "a file that does not begin as one")
    except InputError as wrong:
        return wrong
    why = " ".join(str(error).split())[:200]
    return InputError(
        f"{files[0].name}: expected a whole Parquet file, got one that cannot be read, cut or damaged: {why}"
    )
