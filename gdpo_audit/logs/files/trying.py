"""Attempts: a log is tried in other ways, one after another, for a bounded time; a way that fails is left out."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic, thread_time
from typing import TypeVar

import polars as pl

from gdpo_core.shared.errors import InputError

# The errors that end one attempt and not the whole search: the log cannot be read so, or polars refuses an operation on
# the columns that this attempt takes for something else. Any other error is a fault of ours. The tests leave only the
# first class here, so that they see the faults behind the second.
TOLERATED: tuple[type[BaseException], ...] = (InputError, pl.exceptions.PolarsError)
_PATIENCE = 3.0  # the seconds after which whoever waits is told what is going on
# A function that tells whoever waits what is going on; None where nobody looks.
LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("TOLD", default=None)

Way = TypeVar("Way")


@dataclass
class Search:
    """A search among several ways that ends when its time is over.

    seconds: the time of the processor that its thread may take, whatever others of the program compute meanwhile; an
        attempt that has begun is not broken off.
    tried: how many ways were tried so far.
    cut: whether some ways were not tried because the time was over.
    """

    seconds: float
    tried: int = 0
    cut: bool = False
    _begun: float = field(default_factory=thread_time)
    _since: float = field(default_factory=monotonic)
    _told: bool = False

    def among(self, ways: Iterable[Way], doing: str) -> Iterator[Way]:
        """Yield the ways as long as there is time.

        ways: the ways to try, the likeliest first.
        doing: in words, what is done, for whoever waits for longer than `_PATIENCE`.
        """
        for way in ways:
            if thread_time() - self._begun > self.seconds:
                self.cut = True
                return
            tell = LISTENER.get()
            if tell is not None and not self._told and monotonic() - self._since > _PATIENCE:
                self._told = True
                tell(doing)
            self.tried += 1
            yield way


@contextmanager
def attempt() -> Iterator[None]:
    """Run the block of the `with`, and end it without an error where one of `TOLERATED` is raised."""
    with suppress(*TOLERATED):
        yield
