"""The paths that a command is given: which of them are one run, and their names in errors."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gdpo_audit.logs.files.unpack import format_suffix
from gdpo_core.shared.errors import InputError


def runs_of(paths: Sequence[str]) -> list[list[str]]:
    """Return the paths of each run: files of one format in one directory are one run together.

    Any other path, such as a directory or a zip, is a run by itself. A path that is given twice counts once.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = [f"{folder}/{name}" for name in ("1.parquet", "2.parquet", "a.csv")]
    ...     for name in names: pathlib.Path(name).touch()
    ...     [[pathlib.Path(path).name for path in run] for run in runs_of([*names, "elsewhere"])]
    [['1.parquet', '2.parquet'], ['a.csv'], ['elsewhere']]
    """
    runs: dict[object, dict[str, str]] = {}
    for path in paths:
        real = os.path.realpath(path)
        # Each zip holds a whole run, so several of them are not parts of one.
        shares_a_run = os.path.isfile(path) and not path.lower().endswith(".zip")
        run = runs.setdefault((os.path.dirname(real), format_suffix(path)) if shares_a_run else real, {})
        run.setdefault(real, path)
    return [list(run.values()) for run in runs.values()]


@contextmanager
def name_in_errors(paths: Sequence[str], several: bool) -> Iterator[None]:
    """Make errors of bad input that are raised inside this context begin with the first of a run's paths.

    An OSError, as of a path that a reader cannot open, becomes an InputError that begins with it too.

    paths: the paths of the run.
    several: whether there are other runs; if not, only errors about the log's rewards or lengths are changed.
    """
    try:
        yield
    except InputError as error:
        # An error that begins so comes from a computation, which refuses numbers of the log without knowing its path.
        if (several or str(error).startswith(("rewards:", "lengths:"))) and not str(error).startswith(paths[0]):
            raise InputError(f"{paths[0]}: {error}") from None
        raise
    except OSError as error:
        first = str(error).strip().split("\n")[0]
        raise InputError(f"{paths[0]}: expected the log of a run, got {type(error).__name__}: {first}") from None
