"""Tables of completions that TRL logs to experiment trackers: W&B's `*.table.json` files and trackio's databases."""

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from gdpo_audit.logs.files.directories import WANDB_TABLE, key_of
from gdpo_audit.logs.files.files import LogFile
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_audit.logs.tables.json_values import column_of_values, expect_names, json_content, records, table_of
from gdpo_core.shared.errors import reason
from gdpo_core.shared.words import clip, count, listing

PATIENCE = 2.0  # the seconds that a database may stay locked
_LONGEST = 20.0  # the seconds that a query may take, because a column can be an expression that never ends
_RUNS = 10_000  # the most runs of a database that are looked at
KEY = "completions"  # the key under which TRL logs its table
# The columns that trackio's table of metrics has at least.
_COLUMNS = ("id", "run_name", "step", "metrics")


# --- W&B -------------------------------------------------------------------------------------------------------------


def expect_one_run(where: str, names: Sequence[str]) -> None:
    """Raise InputError if the names of W&B's table files show that they come from several runs.

    They do if the tables were logged under several keys, or if two tables in one folder have the same number. The name
    of a file holds its key and its number.
    where: the name of the log, for the error.
    names: the paths of the table files. Files whose names hold no number are ignored.
    """
    tables = [(name, table) for name in names if (table := WANDB_TABLE.search(name)) and table["index"]]
    keys = dict.fromkeys(map(key_of, (table for _, table in tables)))
    if len(keys) > 1:
        refuse(where, "the tables of one run under one key", f"those of {listing(keys, most=5)}")
    numbered = Counter((name.rpartition("/")[0], table["index"]) for name, table in tables)
    twice = [name for name, table in tables if numbered[name.rpartition("/")[0], table["index"]] > 1]
    if twice:
        got = f"several of one number, as of several runs: {listing([n.rpartition('/')[2] for n in twice], most=6)}"
        refuse(where, "the tables of one run; name those of one", got)


def wandb(file: LogFile, odd: set[str]) -> pl.DataFrame:
    """Return the table in a `*.table.json` file of W&B: an object with the names of the columns, and the rows.

    The names are its member `columns`, the rows its member `data`.
    file: the file.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.

    Raises InputError for a file with anything else.
    """
    wanted = 'a table of W&B, {"columns": [names], "data": [rows]}'
    content: Any = json_content(file, wanted)
    names: Any
    rows: Any
    names, rows = (content.get(key) if isinstance(content, dict) else None for key in ("columns", "data"))
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names) and isinstance(rows, list)
    refuse_unless(fits, file.name, wanted, "JSON of another form")
    expect_names(names, file.name)
    for number, row in enumerate(rows):
        got = len(row) if isinstance(row, list) else type(row).__name__
        if got != len(names):
            refuse(location(file.name, row=number), count(len(names), "value"), got)
    values = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return table_of(column_of_values(name, list(v), odd) for name, v in zip(names, values, strict=True))


# --- trackio ---------------------------------------------------------------------------------------------------------


def trackio(file: LogFile, odd: set[str]) -> list[tuple[str, pl.DataFrame]]:
    """Return the tables of completions that one run logged to a database, each with its name, in the order of steps.

    The run is the one that `file.run` names. If that is None, it is the only run that logged completions.
    file: the database.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.

    Raises InputError if the database cannot be read, if no run or several runs fit, or if the run logged no
    completions.
    """
    tables: list[tuple[str, pl.DataFrame]] = []
    try:
        with closing(_open(file)) as database:
            ends = time.monotonic() + _LONGEST
            database.set_progress_handler(lambda: time.monotonic() > ends, 100_000)
            identity, run, name = _run(database, file)
            query = f"SELECT metrics FROM metrics WHERE {identity} = ? ORDER BY step, id"
            for (text,) in database.execute(query, (run,)):
                where = f"{file.name}::{name}, table {len(tables) + 1}"
                if rows := _rows(text, where):
                    tables.append((where, records(rows, odd)))
    except (sqlite3.Error, UnicodeDecodeError) as error:  # a name that is not UTF-8 raises the latter
        why = clip(reason(error), 120)
        locked = "one that another program keeps locked: wait until it has written, or audit a copy"
        got = locked if re.search("locked|busy", why) else f"one that cannot be read: {why}"
        refuse(file.name, "a trackio database", got)
    refuse_unless(
        bool(tables), file.name, "a run that logged completions (log_completions=True)", "one without such a table"
    )
    return tables


def _open(file: LogFile) -> sqlite3.Connection:
    """Return a connection that only reads the database; a packed file, or one in memory, is loaded into memory."""
    if file.plain_path is None:
        database, content = sqlite3.connect(":memory:"), file.content()
        # Bytes 18 and 19 are 2 where the file had a write-ahead log, which a database in memory cannot have.
        database.deserialize(content[:18] + b"\1\1" + content[20:])
        return database
    uri = f"file:{quote(str(file.plain_path.absolute()))}"
    # A database that had a write-ahead log and has none now is at rest; opened as one in use, it would get a new log.
    at_rest = file.start(20)[18:19] == b"\2" and not Path(f"{file.path}-wal").exists()
    return sqlite3.connect(f"{uri}?{'immutable=1' if at_rest else 'mode=ro'}", uri=True, timeout=PATIENCE)


def _run(database: sqlite3.Connection, file: LogFile) -> tuple[str, str, str]:
    """Return the run to read as three texts: an SQL expression, its value for the run, and the run's name.

    The expression tells the runs of a database apart. The run to read is the one whose id or name is `file.run`. If
    that is None, it is the only run with a table of completions, or, if no run has one, the only run.
    database: an open connection.
    file: the file of the database.

    Raises InputError for a database without the columns of trackio, and if no run or several could be meant.
    """
    columns = [row[1] for row in database.execute("PRAGMA table_info(metrics)")]
    fits = {*_COLUMNS} <= {*columns}
    got = f"the columns {', '.join(columns)}" if columns else "no such table"
    refuse_unless(
        fits, file.name, f"a trackio database, with the columns {', '.join(_COLUMNS)} in a table metrics", got
    )
    # Old databases have no ids of runs. Databases that were brought up to date may have none for their old runs.
    identity = f"coalesce({'run_id, ' * ('run_id' in columns)}run_name, '')"
    logged = f"max(instr(metrics, '{KEY}') > 0)"
    query = f"SELECT {identity}, coalesce(run_name, ''), {logged} FROM metrics GROUP BY 1, 2 ORDER BY min(id)"
    logged_runs = [(str(key), str(name), shows) for key, name, shows in islice(database.execute(query), _RUNS)]
    refuse_unless(bool(logged_runs), file.name, "a run that logged completions", "a database without runs")
    runs = [run for *run, shows in logged_runs if shows and file.run is None] or [run for *run, _ in logged_runs]
    chosen = [run for run in runs if file.run is None or file.run in run]
    if len(chosen) == 1:
        return identity, chosen[0][0], chosen[0][1]
    names = [name for _, name in runs]
    known = [name if names.count(name) == 1 and name.strip() else key for key, name in runs[:9]]
    shown = listing((name if name.strip() else repr(name) for name in known), most=8)
    refuse_unless(bool(chosen), file.name, f"one of the runs {shown}", repr(file.run))
    example = f"{file.name}::{known[0]}"
    refuse(file.name, "one run", f"{len(chosen)}, name one, as {example!r}: {shown}")


def _rows(text: object, where: str) -> list[dict]:
    """Return the rows of the table of completions in one entry of a run; an empty list for an entry without a table.

    text: the metrics of the entry, as JSON.
    where: the name of the table, for errors.

    Raises InputError for metrics that are not JSON, and for a table that is not a list of rows with the same columns.
    """
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    if not isinstance(text, str) or KEY not in text:
        return []
    try:
        logged = json.loads(text)
        table = next((value for key, value in logged.items() if key.rpartition("/")[2] == KEY), None)
    except (ValueError, RecursionError, AttributeError):
        refuse(where, "metrics in JSON", repr(clip(text)))
    rows: Any = table.get("_value") if isinstance(table, dict) else []
    fits = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    refuse_unless(
        fits, where, 'a table of trackio, {"_type": "trackio.table", "_value": [rows]}', "one of another form"
    )
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            refuse(location(where, row=number), ", ".join(rows[0]), ", ".join(row))
    return rows
