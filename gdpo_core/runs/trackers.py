"""Tables that experiment trackers keep of TRL's completions: W&B's `*.table.json` and trackio's SQLite databases."""

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import polars as pl

from gdpo_core._errors import InputError, expect, reason
from gdpo_core._words import clip, count, listing
from gdpo_core.runs.files import MAX_IN_MEMORY, WANDB_TABLE, LogFile, LogFiles, format_of
from gdpo_core.runs.tables import expect_width, json_column, table_of

PATIENCE = 2.0  # seconds that a database may stay locked
LONGEST = 20.0  # seconds that a database may compute: a column can be an expression without an end
RUNS = 10_000  # of a database
_STEPS = 100_000  # of SQLite between two looks at the clock
KEY = "completions"  # what TRL logs its table as
_COLUMNS = ("id", "run_name", "step", "metrics")


def as_tables(log: LogFiles) -> LogFiles:
    """The log with each table of a tracker as a file of its own, parsed; other files as they are.

    Raises InputError, naming the file, and the row where there is one.
    """
    kinds = [format_of(file) for file in log.files]
    databases = [file.name for file, kind in zip(log.files, kinds, strict=True) if kind == "trackio"]
    if len(databases) > 1:
        raise InputError(f"{log.name}: expected the database of one project, got {listing(databases, most=5)}")
    _expect_one_run(log, [file.name for file, kind in zip(log.files, kinds, strict=True) if kind == "wandb"])
    files: list[LogFile] = []
    for file, kind in zip(log.files, kinds, strict=True):
        if file.run is not None:
            expect(kind == "trackio", f"{file.name}::{file.run}", "a trackio database before ::", "another file")
        if kind == "wandb":
            files.append(LogFile(file.name, frame=_wandb(file, texts=False), texts=partial(_wandb, file, texts=True)))
        else:
            files += _trackio(file) if kind == "trackio" else [file]
    return replace(log, files=tuple(files))


# --- W&B -------------------------------------------------------------------------------------------------------------


def _expect_one_run(log: LogFiles, names: Sequence[str]) -> None:
    """Raise InputError unless the names show tables of one key, each of them once: a run logs one table at a time."""
    tables = [(name, table) for name in names if (table := WANDB_TABLE.search(name)) and table["index"]]
    keys = dict.fromkeys(table["key"] for _, table in tables)
    expect(len(keys) < 2, log.name, "the tables of one run under one key", f"those of {listing(keys, most=5)}")
    numbered = Counter((name.rpartition("/")[0], table["index"]) for name, table in tables)
    twice = [name for name, table in tables if numbered[name.rpartition("/")[0], table["index"]] > 1]
    got = f"several of one number, as of several runs: {listing([n.rpartition('/')[2] for n in twice], most=6)}"
    expect(not twice, log.name, "the tables of one run; name those of one", got)


def _wandb(file: LogFile, *, texts: bool) -> pl.LazyFrame:
    """The table of a `*.table.json`: names in `columns`, rows in `data`; texts: with the long texts of completions."""
    wanted = 'a table of W&B, {"columns": [names], "data": [rows]}'
    try:
        content = json.loads(file.content().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name}: expected {wanted}, got broken JSON: {clip(str(error), 100)}") from None
    expect(isinstance(content, dict), file.name, wanted, f"JSON of another form ({type(content).__name__})")
    names, rows = content.get("columns"), content.get("data")
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names) and isinstance(rows, list)
    kinds = [f"{name} ({type(value).__name__})" for name, value in content.items()]
    expect(fits, file.name, wanted, f"an object with {listing(kinds, most=5) or 'nothing in it'}")
    expect_width(names, file.name)
    repeated = [name for name, times in Counter(names).items() if times > 1]
    expect(not repeated, file.name, "columns of different names", f"{', '.join(map(repr, repeated))} more than once")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list) or len(row) != len(names):
            got = f"{len(row)}" if isinstance(row, list) else type(row).__name__
            raise InputError(f"{file.name}, row {number}: expected {count(len(names), 'value')}, got {got}")
    values = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    columns = zip(names, values, strict=True)
    return table_of(json_column(name, list(v), file.name, texts) for name, v in columns).lazy()


# --- trackio ---------------------------------------------------------------------------------------------------------


def _trackio(file: LogFile, only: int | None = None) -> list[LogFile]:
    """The tables of completions of one run of a database, each as a file, in the order in which they were logged.

    only: the number of one entry of the run, whose table is wanted alone, with its long texts.
    """
    try:
        with closing(_open(file)) as database:
            ends = time.monotonic() + LONGEST
            database.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_IN_MEMORY)
            identity, run, name = _run(database, file)
            query = f"SELECT metrics FROM metrics WHERE {identity} = ? ORDER BY step, id"
            entries = enumerate(text for (text,) in database.execute(query, (run,)))
            some = entries if only is None else islice(entries, only, only + 1)
            tables = list(_tables(file, f"{file.name}::{name}", some, only is not None))
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of names that are no UTF-8
        raise _unreadable(file, error) from None
    expect(bool(tables), file.name, "a run that logged completions (log_completions=True)", "one without such a table")
    return tables


def _open(file: LogFile) -> sqlite3.Connection:
    """A connection that only reads."""
    if file.plain_path is None:
        return _in_memory(file.content())
    uri = f"file:{quote(str(file.plain_path.absolute()))}"
    # A database that had a write-ahead log and has none now is at rest; opened as one in use, it would get a new log.
    at_rest = file.start(20)[18:19] == b"\2" and not Path(f"{file.path}-wal").exists()
    return sqlite3.connect(f"{uri}?{'immutable=1' if at_rest else 'mode=ro'}", uri=True, timeout=PATIENCE)


def _in_memory(content: bytes) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    # Bytes 18 and 19 say 2 where the file had a write-ahead log, which memory has not.
    database.deserialize(content[:18] + b"\1\1" + content[20:])
    return database


def _run(database: sqlite3.Connection, file: LogFile) -> tuple[str, str, str]:
    """The expression that identifies runs, its value for the run that was asked for, and the name of that run.

    Without a run asked for, only those count that logged a table of completions, if any did.
    """
    columns = [row[1] for row in database.execute("PRAGMA table_info(metrics)")]
    kinds = dict(database.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"))
    wanted = f"a trackio database, with the columns {', '.join(_COLUMNS)} in a table metrics"
    got = f"the columns {', '.join(columns)}" if columns else f"the tables {', '.join(kinds) or 'none'}"
    got = got if kinds.get("metrics") != "view" else "metrics as a view"  # which may never end
    expect(kinds.get("metrics") == "table" and {*_COLUMNS} <= {*columns}, file.name, wanted, got)
    # Old databases have no ids of runs, and those that were brought up to date may have none of old runs.
    identity = f"coalesce({'run_id, ' * ('run_id' in columns)}run_name, '')"
    logged = f"max(instr(metrics, '{KEY}') > 0)"
    query = f"SELECT {identity}, coalesce(run_name, ''), {logged} FROM metrics GROUP BY 1, 2 ORDER BY min(id)"
    first = islice(database.execute(query), RUNS + 1)
    found = [(str(key), str(name), shows) for key, name, shows in first]
    expect(len(found) <= RUNS, file.name, f"at most {count(RUNS, 'run')}", "more")
    expect(bool(found), file.name, "a run that logged completions", "a database without runs")
    runs = [(key, name) for key, name, _ in found]
    if file.run is None:
        chosen = [(key, name) for key, name, shows in found if shows] or runs
        runs = chosen
    else:
        chosen = [run for run in runs if file.run in run]
    if len(chosen) == 1:
        return identity, *chosen[0]
    names = Counter(name for _, name in runs)
    known = [name if names[name] == 1 and name.strip() else key for key, name in runs]
    shown = listing((name if name.strip() else repr(name) for name in known), most=8)
    if not chosen:
        raise InputError(f"{file.name}: expected one of the runs {shown}, got {file.run!r}")
    example = f"{file.name}::{known[0]}"
    raise InputError(f"{file.name}: expected one run, got {len(chosen)}, name one, as {example!r}: {shown}")


def _with_texts(file: LogFile, entry: int) -> pl.LazyFrame:
    [table] = _trackio(file, entry)
    assert table.frame is not None, "tables of trackers are parsed"
    return table.frame


def _tables(file: LogFile, name: str, entries: Iterable[tuple[int, object]], texts: bool) -> Iterator[LogFile]:
    number = 0
    for entry, text in entries:
        if not isinstance(text, str | bytes) or KEY not in (
            text if isinstance(text, str) else text.decode(errors="replace")
        ):
            continue
        try:
            logged = json.loads(text)
        except (ValueError, RecursionError):
            logged = None
        if not isinstance(logged, dict):
            raise InputError(f"{name}: expected metrics in JSON, got {clip(str(text))!r}")
        table = next((value for key, value in logged.items() if key.rpartition("/")[2] == KEY), None)
        if not isinstance(table, dict) or table.get("_value") == []:
            continue
        number += 1
        where = f"{name}, table {number}"
        yield LogFile(where, frame=_records(table, where, texts), texts=partial(_with_texts, file, entry))


def _records(table: dict, where: str, texts: bool) -> pl.LazyFrame:
    rows = table.get("_value")
    wanted = 'a table of trackio, {"_type": "trackio.table", "_value": [rows]}'
    fits = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    expect(fits, where, wanted, f"an object with {listing(map(str, table), most=5) or 'nothing in it'}")
    assert rows is not None
    names = list(rows[0]) if rows else []
    for number, row in enumerate(rows, start=1):
        if row.keys() != rows[0].keys():
            raise InputError(f"{where}, row {number}: expected {', '.join(names)}, got {', '.join(row)}")
    return table_of(json_column(name, [row[name] for row in rows], where, texts) for name in names).lazy()


def _unreadable(file: LogFile, error: Exception) -> InputError:
    why = clip(reason(error), 120)
    if re.search("locked|busy", why):
        why = "one that another program keeps locked: wait until it has written, or audit a copy"
    else:
        why = f"one that cannot be read: {why}"
    return InputError(f"{file.name}: expected a trackio database, got {why}")
