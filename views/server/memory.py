"""The memory of the server and its workers: how much they hold, how much they may hold, and how it is given back."""

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

WHOSE, CONTROL_GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# By the version of control groups: the file of the limit, that of the use, and the line of memory.stat with the part of
# the use that the system may drop.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
LOOK, PAUSE, LONG_PAUSE = 5, 60, 600  # seconds
# glibc's option M_ARENA_MAX, and its value: else each thread has an arena, which holds memory that others could use.
ARENA_MAX, ARENAS = -8, 2
COPIES = 6  # of a file, which are in memory at once while it is uploaded, and while a worker reads it
left = threading.Event()  # set where a session has ended since memory was last given back
_turn = threading.Lock()
_promised = 0  # bytes that are reserved now


@contextmanager
def reserved(size: int) -> Iterator[bool]:
    """Reserve six times `size` bytes of memory until the end of the `with`, and yield whether so much is free. If it is
    not, nothing is reserved.

    Six times the size is enough for the upload and the audit of files of that size.
    """
    global _promised
    needed = COPIES * size
    with _turn:
        fits = memory_in_use() + _promised + needed <= memory_limit()[0]
        _promised += needed * fits
    try:
        yield fits
    finally:
        with _turn:
            _promised -= needed * fits


@functools.cache
def memory_limit() -> tuple[int, Path | None, int]:
    """Return the memory limit of this process and its children as a tuple: bytes, control group, and cgroup version.

    It is the lowest limit of a control group. If no control group has a limit below half of the machine's memory, the
    tuple is that half, None and 0. It is found out once.
    """
    limits = [(psutil.virtual_memory().total // 2, None, 0), *_limits()]
    return min(limits, key=lambda memory_limit: memory_limit[0])


def memory_in_use() -> int:
    """Return how many bytes of memory are in use.

    If a control group sets the limit, all that the group uses counts, except cached files that the system may drop.
    Otherwise the memory of the server and its workers counts, without what a worker shares with other processes.
    """
    _, group, version = memory_limit()
    if group:
        _, use, files = _FILES[version]
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
    """Start a thread that looks after memory while the process lives: it keeps automatic garbage collections short, and
    gives free memory back.

    Before that, limit the C library glibc, where it is in use, to `ARENAS` arenas of memory, and exempt all living
    objects from garbage collection.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)
    gc.freeze()
    threading.Thread(target=_tend, daemon=True).start()


def _tend() -> None:
    """Look after memory forever: every few seconds collect recent garbage, and freeze what is alive.

    Automatic garbage collections, which took up to 0.3 s, skip frozen objects. Every ten minutes all free memory is
    given back instead (see `give_back`), or already after one minute if a session has ended in the meantime.
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
    """Collect all garbage, hand free memory to the system, and freeze the objects that are alive, so that automatic
    garbage collections skip them.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed


def _limits() -> list[tuple[int, Path | None, int]]:
    """Return the memory limits of this process's control group and of the groups above it, each as bytes, path and
    cgroup version.

    Control groups without a limit are left out; the list is empty where there are no control groups.
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
        version, root = (1, CONTROL_GROUPS / "memory") if controllers else (2, CONTROL_GROUPS)
        group = root / path.lstrip("/")
        for above in (group, *group.parents):
            if above.is_relative_to(root):
                try:
                    limits.append((int((above / _FILES[version][0]).read_text()), above, version))
                except (OSError, ValueError):  # not there, or "max"
                    continue
    return limits
