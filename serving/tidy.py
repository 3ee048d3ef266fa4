"""Memory that visitors leave behind goes back to the machine once it is calm."""

import contextlib
import ctypes
import gc
import threading

CALM = 30  # seconds after a visitor's session ended; those of a class end together, and each search stalls the others

_pending = threading.Lock()


def tidy_soon() -> None:
    """Tidy once, a while after the first of those who leave, for all who leave until then."""
    if _pending.acquire(blocking=False):
        timer = threading.Timer(CALM, _tidy)
        timer.daemon = True
        timer.start()


def _tidy() -> None:
    _pending.release()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not glibc, which alone keeps what is free
        ctypes.CDLL("libc.so.6").malloc_trim(0)
