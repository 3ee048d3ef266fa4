"""Processes with limits of time and memory, for work that may hang or crash: reading an upload, or a long training. A
function for a process without limits is here too.
"""

import contextlib
import multiprocessing
import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from multiprocessing import spawn
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from gdpo_core.shared.errors import InputError, fault_of, is_fault
from views.server import threads  # noqa: F401

MEMORY, WORKER_SECONDS = (
    2 << 30,
    60,
)  # of one process; marimo keeps a session for two minutes after its visitor has left
LIMIT_EXCEEDED = (
    f"server: expected what takes {MEMORY >> 30} GB and {WORKER_SECONDS} s at most, got more, or a damaged file"
)
_slots = defaultdict(lambda: threading.BoundedSemaphore(2))  # by function, so that training does not wait for uploads
_context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
_context.set_forkserver_preload(["views.server.worker", "views.server.preload"])  # once, with torch


def _told(name: str) -> dict[str, Any]:
    """Return what multiprocessing tells a new process of this name, without the order to import the main module.

    The main module is app.py, because marimo runs it as the main module. Each worker would import it with all of
    marimo: a second of CPU time in place of 30 ms.
    """
    return {key: value for key, value in _all_told(name).items() if not key.startswith("init_main")}


_all_told, spawn.get_preparation_data = spawn.get_preparation_data, _told


def start_process(function: Callable[[Connection], None]) -> tuple[BaseProcess, Connection]:
    """Start a process that runs `function` with one end of a pipe. Return the process and the other end of the pipe.

    The new process has no limit of time or memory. It ends with the process that called this function at the latest.
    """
    ours, theirs = _context.Pipe()
    process = _context.Process(target=function, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Return what the function returns for these arguments, computed in a process of its own. Of one function, at most
    two such processes run at once; further calls wait.

    Raises the InputError of the function. If the function fails in another way, or its process dies or takes too long,
    raises InputError too.
    """
    with _slots[function]:
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=_run, args=(theirs, function, args), daemon=True)
        try:
            process.start()
            theirs.close()
            returned, outcome = ours.recv() if ours.poll(WORKER_SECONDS) else (False, InputError(LIMIT_EXCEEDED))
        except (EOFError, OSError) as error:  # the process died, or could not be started
            room = f"server: expected room for one more process, got {error}"
            returned, outcome = False, InputError(room if isinstance(error, OSError) else LIMIT_EXCEEDED)
        finally:
            if process.pid:
                process.kill()
                process.join()
    if not returned:
        raise outcome
    return outcome


def elsewhere(function: Callable[..., Any], *args: Any) -> Any:
    """Return what the function returns for these arguments, computed by `call` in a process of its own.

    If `call` raises InputError, the calling process computes the function itself. So an error of the function is raised
    here too, and the lack of a process is not.
    """
    try:
        return call(function, *args)
    except InputError:
        return function(*args)


def _run(pipe: Connection, function: Callable[..., Any], args: tuple) -> None:
    """Run a function in this process under the limits, and send a pair through the pipe: whether it returned, and its
    result or an InputError.

    An error of the function is sent as InputError. An error that comes from the limits ends the process instead.
    """
    if os.name == "posix":  # on Windows there is the limit of time alone
        import resource

        os.nice(10)  # the answer to a click comes first
        with contextlib.suppress(OSError):  # so that this process ends, and not the server, where memory runs out
            Path("/proc/self/oom_score_adj").write_text("1000")
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (WORKER_SECONDS, WORKER_SECONDS))
    try:
        outcome: tuple[bool, Any] = (True, function(*args))
    except InputError as error:
        outcome = (False, error)
    except BaseException as error:
        if not is_fault(error) or _is_of_limits(error):
            raise
        outcome = (False, InputError(fault_of(error)))
    with contextlib.suppress(BrokenPipeError):  # the server has ended meanwhile, and nobody waits
        pipe.send(outcome)


def _is_of_limits(error: BaseException) -> bool:
    """Return whether an error shows that the process ran into its limits, such as the limit of memory.

    Each library reports this in its own way, so the type and the message of the error decide.
    """
    return isinstance(error, MemoryError | OSError) or bool(re.search("memory|thread", str(error)))
