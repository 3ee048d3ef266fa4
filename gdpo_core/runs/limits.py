"""What a log in memory may hold: an upload can be a bomb, which takes memory or time that its size does not show.

Counted before anything is parsed. A log on disk is its owner's own, and has no such limits.
"""

import json
from collections.abc import Iterable

import msgspec
import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._words import count
from gdpo_core.runs.files import MAX_IN_MEMORY, LogFile, LogFiles, format_of
from gdpo_core.runs.pages import unpacked_bytes
from gdpo_core.runs.tables import COLUMNS, SEPARATORS, UNREAD, height, parquet_schema, text_bytes

ROWS = 2_000_000  # of all files
VALUES = 4_000_000  # of a JSON document, in which one can take 70 bytes
TEXT = 1 << 29  # bytes of the texts that are read, of which Parquet writes equal ones once
FOOTER = 1 << 22  # bytes of a Parquet file's own description, which takes 60 times as many when it is read
PAGES = 100_000  # of a Parquet file
LINE = 1 << 24  # bytes of a line of JSON
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])  # the values are not parsed


def bounded(log: LogFiles) -> LogFiles:
    """The log, whose files in memory hold no more than the page reads in a few seconds; InputError for more."""
    rows = unpacked = 0
    for file in log.files:
        if file.load is not None:
            unpacked += len(file.content())
            _expect_at_most(unpacked, MAX_IN_MEMORY, "byte", file, "bytes unpacked")
            rows += _rows(file)
            expect(rows <= ROWS, log.name, f"at most {count(ROWS, 'row')} in a log in memory", "more")
    return log


def _rows(file: LogFile) -> int:
    """About how many rows a file holds, where its form tells; InputError where it holds too many of something else."""
    kind = format_of(file)
    if kind == "parquet":
        if file.load is not None:
            _expect_small_pages(file)
        schema = parquet_schema(file)
        _expect_at_most(len(schema), COLUMNS, "column", file)
        if (rows := height(file)) <= ROWS:
            read = [name for name, kind in schema.items() if kind == pl.String and name.lower() not in UNREAD]
            _expect_at_most(text_bytes(file, read), TEXT, "byte of text", file, "bytes of text")
        return rows
    if kind == "trackio":
        return 0
    content = file.content()
    if kind in ("json", "wandb"):
        _expect_at_most(content.count(b",") + 1, VALUES, "value", file)
        return 0
    first = content[: content.find(b"\n") + 1] or content
    lines = max(content.count(b"\n"), content.count(b"\r"))
    if kind != "jsonl":
        _expect_at_most(max(first.count(s.encode()) for s in SEPARATORS) + 1, COLUMNS, "column", file)
    elif lines <= ROWS:  # of more, each would be parsed for nothing
        _expect_plain_lines(file.lines(), file)
    return lines


def _expect_small_pages(file: LogFile) -> None:
    """Raise InputError for a Parquet file that few bytes make large: its description, or what its pages unpack to."""
    content = file.content()
    footer = int.from_bytes(content[-8:-4], "little")
    if not content.endswith(b"PAR1") or footer > len(content):
        return  # polars says that it is cut
    _expect_at_most(footer, FOOTER, "byte", file, "bytes of footer")
    size = 0
    try:
        for number, page in enumerate(unpacked_bytes(content, UNREAD), start=1):
            size += page
            _expect_at_most(number, PAGES, "page", file)
            _expect_at_most(size, TEXT, "byte", file, "bytes unpacked")
    except InputError:
        raise
    except ValueError as error:
        wanted = "a whole Parquet file"
        raise InputError(f"{file.name}: expected {wanted}, got one that is cut or damaged: {error}") from None


def _expect_plain_lines(lines: Iterable[bytes], file: LogFile) -> None:
    """Raise InputError for a line of JSON that is too long, or more different keys than a table has columns.

    polars looks each key up among all.
    """
    keys: set[str] = set()
    for line in lines:
        _expect_at_most(len(line), LINE, "byte", file, "bytes in a line")
        try:
            keys.update(_KEYS.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # as of NaN, which Python's parser takes
            keys.update(_keys(line))
        if len(keys) > COLUMNS:
            _expect_at_most(len(keys), COLUMNS, "column", file)


def _keys(line: bytes) -> Iterable[str]:
    """The keys of an object that Python alone can read; none of anything else."""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    return item if isinstance(item, dict) else ()


def _expect_at_most(got: int, most: int, noun: str, file: LogFile, plural: str = "") -> None:
    expect(got <= most, file.name, f"at most {count(most, noun, plural)} in a log in memory", f"{count(got)}")
