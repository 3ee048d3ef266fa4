"""Logs that are no file: a DataFrame of polars, pandas or Arrow, a list of dicts, or a URL that polars reads."""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from gdpo_audit.logs.files.files import LogFile, LogFiles
from gdpo_audit.logs.refusals import refuse
from gdpo_audit.logs.tables.json_values import column_of_values, records, table_of
from gdpo_core.shared.errors import InputError, reason
from gdpo_core.shared.words import clip

_NAME = "table"  # the name of the table in messages
REMOTE = re.compile(r"(hf|s3|gs)://", re.IGNORECASE)
_HUB_DATASET = re.compile(r"hf://datasets/[^/]+/[^/]+/?", re.IGNORECASE)
_NO_TABLE = "a table whose columns polars can take"


def log_of(source: object) -> LogFiles | None:
    """Return the log in a table in memory, or behind URLs of hf://, s3:// or gs://; None for any other source.

    source: the argument `path` of `read_run`.

    Raises InputError if polars cannot take the table or read the URL.
    """
    urls = [source] if isinstance(source, str) else source
    if isinstance(urls, list | tuple) and urls and all(isinstance(u, str) and REMOTE.match(u) for u in urls):
        name = urls[0] if len(urls) == 1 else f"{urls[0]} and {len(urls) - 1} more"
        return LogFiles(tuple(LogFile(url, frame=_scan(url)) for url in urls), name, None)
    paths = isinstance(source, Sequence) and all(isinstance(path, str | os.PathLike) for path in source)
    if paths or isinstance(source, str | os.PathLike | Mapping):
        return None
    odd: set[str] = set()
    table = _frame_of(source, odd)
    if table is None:
        return None
    return LogFiles((LogFile(_NAME, frame=table.lazy(), odd=frozenset(odd)),), _NAME, None)


def _frame_of(data: Any, odd: set[str]) -> pl.DataFrame | None:
    """Return a table in memory as a DataFrame of polars; None if `data` is not a table.

    data: a table of any library that narwhals knows, such as pandas or Arrow, or a sequence of dicts, one per row. An
        index of pandas that has a name becomes a column.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.

    Raises InputError if polars cannot take the data, if two columns have one name, or if a key of a dict is no text.
    """
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        no_name = next((name for row in data for name in row if not isinstance(name, str)), None)
        if no_name is not None:
            refuse(_NAME, "texts as names of columns", repr(no_name))
        return records(data, odd)
    import narwhals as nw  # the import is slow, and most runs are read from files
    from narwhals.exceptions import DuplicateError

    try:
        if any(name is not None for name in getattr(getattr(data, "index", None), "names", ())):
            data = data.reset_index()  # an index of pandas with a name is a column
        native: Any = nw.from_native(data)
        table = native.collect(backend="polars") if isinstance(native, nw.LazyFrame) else native
        return _in_polars(table, odd)
    except DuplicateError as error:
        names = re.findall(r"- ('.*?') \d+ times", str(error))
        refuse(_NAME, "columns of different names", f"{', '.join(names)} more than once")
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # the library of the table may raise anything
        if isinstance(error, TypeError) and not hasattr(data, "columns"):
            return None
        refuse(_NAME, _NO_TABLE, clip(reason(error), 200))


def _in_polars(table: Any, odd: set[str]) -> pl.DataFrame:
    """Return a table of narwhals as a DataFrame of polars.

    The table is copied value by value where pyarrow is missing or refuses a column of pandas.
    table: the table of narwhals.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.
    """
    try:
        return table.to_polars()
    except (ImportError, TypeError, ValueError):
        return table_of(column_of_values(name, table[name].to_list(), odd) for name in table.columns)


def _scan(url: str) -> pl.LazyFrame:
    """Return a lazy frame of the Parquet files behind a URL: a file, a glob, or all files of a folder or a dataset.

    The URL leads to the Hugging Face Hub, to S3 or to Google Cloud.

    Raises InputError if the URL ends as CSV, TSV or JSON does, and if polars refuses it.
    """
    # polars warns that it has to look for the region of a bucket, which does not concern a user.
    warnings.filterwarnings("ignore", r"'\(default_\)region' not set", UserWarning)
    scheme, rest = url.split("://", 1)
    url = f"{scheme.lower()}://{rest}"
    ending = re.search(r"\.(jsonl|ndjson|json|[ct]sv)$", url, re.IGNORECASE)
    if ending is not None:
        refuse(url, "Parquet behind a URL; download other files", f"one of {ending[0]}")
    try:
        whole = _HUB_DATASET.fullmatch(url) or not re.search(r"[*?\[]|\.\w+$", url.rpartition("/")[2])
        return pl.scan_parquet(f"{url.rstrip('/')}/**/*.parquet" if whole else url)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, ImportError) as error:
        refuse(url, "a table that polars can read", clip(reason(error), 200))
