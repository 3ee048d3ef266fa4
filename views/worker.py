"""A stranger's file is read in a process of its own: it may take so much memory and time, and may die."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import fields
from multiprocessing.connection import Connection
from threading import BoundedSemaphore
from typing import Any

import psutil

from gdpo_core._errors import InputError
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.run import Run, read_run
from views import save

LARGEST = 64 * 10**6  # bytes of a visitor's files
# Of one file's process, which ends before its visitor's session does: marimo holds that for two minutes.
MEMORY, SECONDS = 2 << 30, 60
TOO_LARGE = f"upload: expected at most {LARGEST / 1e6:.0f} MB in all, got more"
NO_ROOM = "upload: expected room in this server's memory, got none: try again in a moment"
ENDED = f"upload: expected files that take {MEMORY >> 30} GB and {SECONDS} s, got some that are damaged, or take more"
_slots = BoundedSemaphore(2)
# A fork takes 9 ms once torch is imported there.
_context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
_context.set_forkserver_preload(["views.worker"])


def full(share: float = 0.5) -> bool:
    """Whether this process holds that share of the machine's memory, so that it takes no more files."""
    return psutil.Process().memory_info().rss > share * psutil.virtual_memory().total


def call(function: Callable[..., Any], *args: Any) -> Any:
    """What the function returns or raises; InputError where its process dies or takes too long. Two at a time."""
    with _slots:
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=_run, args=(theirs, function, args), daemon=True)
        process.start()
        theirs.close()
        try:
            returned, outcome = ours.recv() if ours.poll(SECONDS) else (False, InputError(ENDED))
        except EOFError:
            returned, outcome = False, InputError(ENDED)
        finally:
            process.kill()
            process.join()
    if returned:
        return outcome
    raise outcome


def audited(files: dict, how: dict, weights: dict | None, primary: str | None) -> tuple[Run, AuditReport | InputError]:
    """What a log says of itself, without its tables, and its report or why there is none."""
    run = read_run(files, **how)
    facts = Run(**{f.name: getattr(run, f.name) for f in fields(run) if not f.name.startswith("_")})
    try:
        return facts, audit(run, weights=weights, primary=primary)
    except InputError as error:
        return facts, error


def table(files: dict, how: dict, kind: str) -> bytes:
    """A log's responses as a file of this kind, csv or parquet."""
    return save.written(read_run(files, **how).table, kind)


def _run(pipe: Connection, function: Callable[..., Any], args: tuple) -> None:
    if os.name == "posix":  # Windows has the limit of time alone
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        pipe.send((True, function(*args)))
    except InputError as error:
        pipe.send((False, error))
