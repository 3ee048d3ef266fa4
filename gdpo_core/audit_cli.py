"""The command line: `gdpo audit`."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gdpo_core._parse import parse_weights
from gdpo_core.audit import AuditReport, audit
from gdpo_core.errors import InputError, expect
from gdpo_core.findings import NAMES
from gdpo_core.logs import read_run
from gdpo_core.logs.files import TABLES, UNRELATED
from gdpo_core.report import document, terminal

_PATIENCE = 1.0  # seconds after which progress is shown


def audit_command(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="files, directories, globs or zips of runs")],
    framework: Annotated[
        str | None, typer.Option(help="trl (also axolotl), verl, ms_swift, nemo_rl or generic; found by default")
    ] = None,
    group_size: Annotated[str | None, typer.Option(metavar="N", help="responses per prompt; found by default")] = None,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="NAME=W", help="a reward's weight; found by default, else 1")
    ] = None,
    primary: Annotated[str | None, typer.Option(metavar="NAME", help="the reward that matters most")] = None,
    asked: Annotated[
        str | None, typer.Option(metavar="METHOD", help=f"the method that was meant to run: {', '.join(NAMES)}")
    ] = None,
    reward: Annotated[list[str] | None, typer.Option(metavar="NAME", help="a column with a reward")] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="the column that identifies the prompt")] = None,
    advantage: Annotated[str | None, typer.Option(metavar="NAME", help="the column with advantages")] = None,
    length: Annotated[str | None, typer.Option(metavar="NAME", help="the column with tokens per response")] = None,
    step: Annotated[str | None, typer.Option(metavar="NAME", help="the column with the training step")] = None,
    skip_bad_lines: Annotated[bool, typer.Option("--skip-bad-lines", help="leave out broken lines")] = False,
    json_: Annotated[str | None, typer.Option("--json", metavar="FILE", help="write JSON; - prints only that")] = None,
    html_: Annotated[str | None, typer.Option("--html", metavar="FILE", help="write one HTML file with charts")] = None,
) -> None:
    """Say what the log of a training run shows about its rewards.

    A path is a run; several are compared. Files of one ending in one directory are one run, so that
    completions/*.parquet means the same as completions.

    \b
    gdpo audit outputs/completions --primary correctness --html audit.html
    gdpo audit rewards.csv --reward correct --reward short --group prompt_id --weight short=0.5
    """
    given = parse_weights(weight or [], "weight")
    size = _whole(group_size)
    targets = _targets(json_, html_, paths)
    runs = _runs(paths)
    reports = []
    for number, files in enumerate(runs, start=1):
        name = f"run {number} of {len(runs)}: " if len(runs) > 1 else ""
        with _read(files, len(runs) > 1), _progress(name) as count:
            run = read_run(
                files if len(files) > 1 else files[0],
                framework=framework,
                group_size=size,
                rewards=reward or None,
                group=group,
                advantage=advantage,
                length=length,
                step=step,
                skip_bad_lines=skip_bad_lines,
            )
            _spare(targets, files, run.files)
            reports.append(audit(run, weights=given or None, primary=primary, asked=_method(asked), progress=count))
    if "html" in targets:
        _write(targets["html"], document(reports), "html")
    if "json" in targets:
        _write(targets["json"], _json(reports), "json")
    if json_ == "-":
        sys.stdout.write(_json(reports))
    else:
        terminal.show(reports, sys.stdout)


def _whole(text: str | None) -> int | None:
    fits = text is None or (re.fullmatch("[0-9]{1,9}", text) and int(text) > 0)
    expect(bool(fits), "group-size", "a whole number from 1", repr(text))
    return None if text is None else int(text)


def _method(name: str | None) -> str | None:
    return None if name is None else name.strip().lower().replace("-", "_")


def _runs(paths: Sequence[str]) -> list[list[str]]:
    """The paths of each run: files of one ending in one directory belong together, any other path is a run.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = [f"{folder}/{name}" for name in ("1.parquet", "2.parquet", "a.csv")]
    ...     for name in names: pathlib.Path(name).touch()
    ...     [[pathlib.Path(path).name for path in run] for run in _runs([*names, "elsewhere"])]
    [['1.parquet', '2.parquet'], ['a.csv'], ['elsewhere']]
    """
    runs: dict[object, list[str]] = {}
    for path in paths:
        file = Path(path)
        # Each zip holds a whole run.
        part = file.is_file() and file.suffix.lower() != ".zip"
        run = runs.setdefault((file.resolve().parent, file.suffix) if part else _real(path), [])
        if _real(path) not in map(_real, run):
            run.append(path)
    return list(runs.values())


def _real(path: str) -> str:
    """One name per file or directory; realpath, because Path.resolve fails on a link to itself."""
    return os.path.realpath(path)


@contextmanager
def _read(paths: Sequence[str], several: bool) -> Iterator[None]:
    """Make errors name the run, those that the readers did not foresee included."""
    try:
        yield
    except InputError as error:
        # Numbers that a computation refuses come from the log.
        if (several or str(error).startswith(("rewards:", "lengths:"))) and not str(error).startswith(paths[0]):
            raise InputError(f"{paths[0]}: {error}") from None
        raise
    except (OSError, pl.exceptions.PolarsError, UnicodeError) as error:
        first = str(error).strip().split("\n")[0]
        raise InputError(f"{paths[0]}: expected the log of a run, got {type(error).__name__}: {first}") from None


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int], None] | None]:
    """Count responses on stderr, if that is a terminal and the run takes a while."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}{task.completed:,.0f} responses"), TimeElapsedColumn()
    shown = Progress(*columns, console=console, transient=True)
    task, started = shown.add_task(name, total=None), time.monotonic()

    def count(responses: int) -> None:
        shown.advance(task, responses)
        if time.monotonic() - started > _PATIENCE:
            shown.start()

    try:
        yield count
    finally:
        shown.stop()


def _targets(json_: str | None, html_: str | None, paths: Sequence[str]) -> dict[str, Path]:
    """The files to write, checked before any work is done."""
    targets = {"html": html_} | ({"json": json_} if json_ != "-" else {})
    found: dict[str, Path] = {}
    for option, name in targets.items():
        if name is None:
            continue
        expect(name not in ("", "-"), option, "the name of a file", repr(name))
        try:
            path, logs = Path(name).resolve(), {Path(log).resolve() for log in paths}
            folder, there, elsewhere = path.is_dir(), path.parent.is_dir(), path.exists() and not path.is_file()
        except (OSError, ValueError, RuntimeError):  # no name that a file can have
            raise InputError(f"{option}: expected the name of a file, got {name!r}") from None
        expect(not folder, option, "a file", f"the directory {name!r}")
        expect(there, option, "a file in a directory that exists", repr(name))
        writable = os.access(path if elsewhere else path.parent, os.W_OK)
        expect(writable, option, "a file that can be written", repr(name))
        expect(path not in logs, option, "another file than the log", repr(name))
        expect(path not in found.values(), option, "another file than for the other option", repr(name))
        found[option] = path
    return found


def _spare(targets: Mapping[str, Path], paths: Sequence[str], read: Sequence[str]) -> None:
    """Raise InputError if a file to write is part of the log, or would be read as one the next time."""
    logs = {_real(name) for name in read}
    for option, target in targets.items():
        expect(_real(str(target)) not in logs, option, "another file than the log", repr(str(target)))
        inside = any(target.is_relative_to(_real(path)) for path in paths if Path(path).is_dir())
        name = target.name.lower()
        log = name.endswith(TABLES) and not (".json" in name and UNRELATED.search(name))
        expect(not (inside and log), option, "a file that is not taken for a part of the log", repr(str(target)))


def _json(reports: Sequence[AuditReport]) -> str:
    found = [report.to_dict() for report in reports]
    return json.dumps(found[0] if len(found) == 1 else {"schema": 1, "runs": found}, indent=2, allow_nan=False) + "\n"


def _write(path: Path, text: str, option: str) -> None:
    """Write the whole file or nothing: an older file stays until the new one is complete."""
    content = text.encode("utf-8", errors="replace")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a device or a pipe cannot be replaced
            return
        try:
            beside.write_bytes(content)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        got = f"{str(path)!r} ({error.strerror})"
        raise InputError(f"{option}: expected a file that can be written, got {got}") from None
