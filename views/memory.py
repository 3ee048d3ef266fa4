"""The memory that the server and its workers hold, how much they may hold, and how it is given back."""

import ctypes
import functools
import gc
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

WHOSE, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
FILES = {  # by version of control groups: limit, use, and what of the use are files that may go
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
LOOK, PAUSE, LONG_PAUSE = 5, 60, 600  # seconds
ARENA_MAX, ARENAS = -8, 2  # glibc's M_ARENA_MAX: else each thread has one, which holds what others could use
COPIES = 6  # of a file, that are there at once while it travels, and while a worker reads it
left = threading.Event()  # a session has ended since memory was given back
_turn = threading.Lock()
_promised = 0  # bytes


@contextmanager
def reserved(size: int) -> Iterator[bool]:
    """Keep room for files of `size` bytes and for what is made of them, and yield whether there is room."""
    global _promised
    needed = COPIES * size
    with _turn:
        fits = held() + _promised + needed <= limit()[0]
        _promised += needed * fits
    try:
        yield fits
    finally:
        with _turn:
            _promised -= needed * fits


@functools.cache
def limit() -> tuple[int, Path | None, int]:
    """Return the bytes that this process and its children may hold, the control group that says so, and its version.

    Where no control group has a lower limit, these are half of the machine's memory, None and 0.
    """
    limits = [(psutil.virtual_memory().total // 2, None, 0), *_limits()]
    return min(limits, key=lambda memory_limit: memory_limit[0])


def held() -> int:
    """Return the bytes that the server and its workers hold, or, where a control group limits them, all in that group.

    Cached files that the system may drop do not count there.
    """
    _, group, version = limit()
    if group:
        _, use, files = FILES[version]
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int((group / use).read_text()) - int(stat.get(files, 0))
    memory = psutil.Process().memory_info().rss
    for child in multiprocessing.active_children():
        try:
            info = psutil.Process(child.pid).memory_info()
        except psutil.Error:  # it has ended meanwhile
            continue
        memory += info.rss - getattr(info, "shared", 0)
    return memory


def tend() -> None:
    """Let a thread keep automatic collections short, and give memory back, for as long as the process lives."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)
    gc.freeze()
    threading.Thread(target=_tend, daemon=True).start()


def _tend() -> None:
    """Keep automatic collections short: after each look they leave out what is alive, which took up to 0.3 s.

    What they leave in cycles is collected a minute after the last time, or in any case after ten.
    """
    given = time.monotonic()
    while True:
        time.sleep(LOOK)
        if time.monotonic() < given + (PAUSE if left.is_set() else LONG_PAUSE):
            gc.collect(1)
            gc.freeze()
        else:
            left.clear()
            give_back()
            given = time.monotonic()


def give_back() -> None:
    """Collect all that is no longer used, and hand what is free to the system; then nothing is looked at again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed


def _limits() -> list[tuple[int, Path | None, int]]:
    """Return the memory limits of this process's control group and of those above it: bytes, path and cgroup version.

    Groups without a limit are left out; the list is empty where there are no control groups.
    """
    try:
        lines = WHOSE.read_text().splitlines()
    except OSError:
        return []
    limits: list[tuple[int, Path | None, int]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version, root = (1, GROUPS / "memory") if controllers else (2, GROUPS)
        group = root / path.lstrip("/")
        for above in (group, *group.parents):
            if above.is_relative_to(root):
                try:
                    limits.append((int((above / FILES[version][0]).read_text()), above, version))
                except (OSError, ValueError):  # not there, or "max"
                    continue
    return limits
