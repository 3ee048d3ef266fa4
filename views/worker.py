"""Processes with limits of time and memory for what may hang or crash: reading an upload, or a long training."""

import contextlib
import multiprocessing
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields
from multiprocessing import spawn
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from gdpo_audit import AuditReport, Run, audit, read_run
from gdpo_core._errors import InputError, fault_of, is_fault
from gdpo_core.scenarios import Setup
from views import threads  # noqa: F401

MEMORY, SECONDS = 2 << 30, 60  # of one process; marimo holds a session for two minutes after its visitor left
LIMIT_EXCEEDED = f"server: expected what takes {MEMORY >> 30} GB and {SECONDS} s at most, got more, or a damaged file"
_slots = defaultdict(lambda: threading.BoundedSemaphore(2))  # by function: who trains does not wait for others' files
_context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
_context.set_forkserver_preload(["views.worker", "views.preload"])  # once, with torch


def _told(name: str) -> dict[str, Any]:
    """Return what multiprocessing tells a new process, but for the order to import what is main here.

    marimo puts the notebook there: each worker imported app.py and all of marimo, a second of CPU in place of 30 ms.
    """
    return {key: value for key, value in _all_told(name).items() if not key.startswith("init_main")}


_all_told, spawn.get_preparation_data = spawn.get_preparation_data, _told


def start(function: Callable[[Connection], None]) -> tuple[BaseProcess, Connection]:
    """Start a process that runs the function and ends with this process; return it and our end of its pipe."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=function, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def call(function: Callable[..., Any], *args: Any, check: Callable[[], None] = lambda: None) -> Any:
    """Return what the function returns, computed in a process of its own.

    Raises the function's InputError, and InputError for any other error of it and where its process dies or is late.
    check: called ten times a second meanwhile; what it raises ends the process.
    """
    slots = _slots[function]
    while not slots.acquire(timeout=0.1):
        check()
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_run, args=(theirs, function, args), daemon=True)
    try:
        process.start()
        theirs.close()
        ends = time.monotonic() + SECONDS
        while not ours.poll(0.1) and time.monotonic() < ends:
            check()
        returned, outcome = ours.recv() if ours.poll() else (False, InputError(LIMIT_EXCEEDED))
    except (EOFError, OSError) as error:  # it died, or could not be started
        room = f"server: expected room for one more process, got {error}"
        returned, outcome = False, InputError(room if isinstance(error, OSError) else LIMIT_EXCEEDED)
    finally:
        if process.pid:
            process.kill()
            process.join()
        slots.release()
    if not returned:
        raise outcome
    return outcome


def elsewhere(function: Callable[..., Any], *args: Any) -> Any:
    """Return what the function returns, computed in another process, or in this one where that fails."""
    try:
        return call(function, *args)
    except InputError:
        return function(*args)


def audit_upload(
    files: dict, how: dict, weights: dict | None, primary: str | None
) -> tuple[Run, AuditReport | InputError]:
    """Return the `Run` of a log, without its tables, and its report, or the InputError that says why there is none.

    Raises InputError where the log cannot be read. how: the arguments of `read_run`.
    """
    run = read_run(files, **how)
    facts = Run(**{f.name: getattr(run, f.name) for f in fields(run) if not f.name.startswith("_")})
    try:
        return facts, audit(run, weights=weights, primary=primary)
    except InputError as error:
        return facts, error


def train_probabilities(setup: Setup, method: str, limit: bool) -> np.ndarray:
    """Return the probabilities of one method's runs, or, with `limit`, of its infinite-group limit. Raises InputError.

    Runs: (seeds, epochs + 1, coins or arms); the limit: (epochs + 1, coins or arms).
    """
    return (setup.mean_field(method) if limit else setup.train(method).p).numpy()


def _run(pipe: Connection, function: Callable[..., Any], args: tuple) -> None:
    if os.name == "posix":  # Windows has the limit of time alone
        import resource

        os.nice(10)  # the answer to a click comes first
        with contextlib.suppress(OSError):  # where memory runs out, it is this process that ends, not the server
            Path("/proc/self/oom_score_adj").write_text("1000")
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        pipe.send((True, function(*args)))
    except InputError as error:
        pipe.send((False, error))
    except BaseException as error:
        if not is_fault(error) or _is_of_limits(error):
            raise
        pipe.send((False, InputError(fault_of(error))))


def _is_of_limits(error: BaseException) -> bool:
    """Return whether an error comes from the limits of this process, which each library reports in its own way."""
    return isinstance(error, MemoryError | OSError) or bool(re.search("memory|thread", str(error)))
