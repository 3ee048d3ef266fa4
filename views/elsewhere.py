"""Long computations in processes of their own, so that no flip waits for Python's lock while others train or audit.

A process is forked from one that has imported torch and nothing of the page, works for one visitor at a time and at
low priority, and is ended when its visitor moves on. Without a server that serves many, all is computed in place.
"""

import contextlib
import multiprocessing
import multiprocessing.util
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from gdpo_core._errors import InputError

SLOTS = 2  # visitors at once; the others wait for their turn
POLL = 0.1  # seconds between two looks at whether the visitor still waits
NICER = 10  # than the server
STEP = 0.05  # of the work, between two reports of how much is done
ENDED = "This computation ended early, perhaps for want of memory. Ask again, or for something smaller."
LATE = "This computation takes longer than {} seconds, which is all that a visitor has here."


class Lost(InputError):
    """The work was not done: its process ended, or it took too long."""


class Workers:
    """At most `slots` processes, started when they are first asked for; one that is free is asked again."""

    def __init__(self, slots: int) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self._slots = threading.BoundedSemaphore(slots)
        self._free: list[Worker] = []

    def compute(
        self, work: Callable[..., Any], args: tuple, hear: Callable[[float], None], most: float, keep: bool
    ) -> Any:
        """What `work(tell, *args)` returns or raises; `hear` may raise too, which ends the process."""
        while not self._slots.acquire(timeout=POLL):
            hear(0.0)
        try:
            try:
                worker = self._worker()
            except OSError:  # no process more, or no place for its socket: the folder for it has a long name, or none
                return work(hear, *args)
            try:
                returned, outcome = worker.ask((work, args), hear, most)
            except BaseException:
                worker.end()
                raise
            if keep:
                self._free.append(worker)
            else:
                worker.end()
        finally:
            self._slots.release()
        if returned:
            return outcome
        raise outcome

    def _worker(self) -> "Worker":
        with contextlib.suppress(IndexError):  # none is free, or another thread was faster
            while True:
                worker = self._free.pop()
                if worker.process.is_alive():
                    return worker
        if hasattr(self._context, "set_forkserver_preload"):
            self._context.set_forkserver_preload(["views.work"])
        return Worker(self._context)

    def end(self) -> None:
        """End those that are free; who still works learns from the pipe that nobody asks any more."""
        with contextlib.suppress(IndexError):
            while True:
                self._free.pop().end()


class Worker:
    """A process and the pipe to it."""

    def __init__(self, context: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, question: Any, hear: Callable[[float], None], most: float) -> tuple[bool, Any]:
        """Whether it returned or raised, and what."""
        started, share = time.monotonic(), 0.0
        try:
            _send(self.pipe, question)
            while True:
                hear(share)
                if time.monotonic() - started > most:
                    raise Lost(LATE.format(round(most)))
                if self.pipe.poll(POLL):
                    told = _received(self.pipe)
                    if isinstance(told, tuple):
                        return told
                    share = told
        except (EOFError, OSError):
            raise Lost(ENDED) from None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """In the process: answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, which stops the server
    if hasattr(os, "nice"):
        os.nice(NICER)
    with contextlib.suppress(EOFError, OSError):  # the server is gone
        while True:
            work, args = _received(pipe)
            last = 0.0

            def tell(share: float) -> None:
                nonlocal last
                if share >= last + STEP:
                    last = share
                    _send(pipe, share)

            try:
                answer = True, work(tell, *args)
            except Exception as error:
                answer = False, error
            del args
            _send(pipe, answer)
            del answer


def _send(pipe: Connection, thing: Any) -> None:
    """What is in a `pickle.PickleBuffer` is not copied."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    pipe.send_bytes(pickle.dumps(len(buffers)))
    pipe.send_bytes(head)
    for buffer in buffers:
        pipe.send_bytes(buffer.raw())


def _received(pipe: Connection) -> Any:
    count = pickle.loads(pipe.recv_bytes())
    head = pipe.recv_bytes()
    return pickle.loads(head, buffers=[pipe.recv_bytes() for _ in range(count)])


_workers: Workers | None = None


def serve_many() -> None:
    """From now on compute elsewhere."""
    global _workers
    _workers = _workers or Workers(SLOTS)


def end() -> None:
    """Leave no process and no temporary file behind; Python itself cleans up only where no signal ends the server."""
    if _workers is not None:
        _workers.end()
        multiprocessing.util._run_finalizers()


def compute(
    work: Callable[..., Any],
    *args: Any,
    hear: Callable[[float], None] = lambda share: None,
    most: float = 600,
    keep: bool = True,
) -> Any:
    """What `work(tell, *args)` returns or raises; work: a function of views/work.py, which may tell what share is done.

    hear: called several times a second, with that share; what it raises ends the work.
    most: seconds that the work may take. keep: whether the process may wait for more work, with the memory it took.
    Raises Lost.

    >>> compute(lambda tell, x: x + 1, 2)
    3
    """
    if _workers is None:
        return work(hear, *args)
    return _workers.compute(work, args, hear, most, keep)
