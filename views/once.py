"""Equal requests of several visitors, also of two at the same moment, are computed once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any

POLL = 0.1  # seconds between two looks at whether the caller still waits


class Once:
    """The results of the last `maxsize` keys; whoever asks for one that is under way waits for it."""

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self._kept: OrderedDict[Hashable, Future] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Any], waiting: Callable[[], None] | None = None) -> Any:
        """What `compute` returned for this key; `waiting` is called now and then while another computes it.

        Both may raise, which ends this call alone: who else waits computes for themselves.

        >>> squares = Once(maxsize=2)
        >>> squares.get(3, lambda: 9), squares.get(3, lambda: 10)
        (9, 9)
        """
        while True:
            with self._lock:
                future = self._kept.get(key)
                if future is None:
                    mine = self._kept[key] = Future()
                    self._forget_oldest()
                else:
                    self._kept.move_to_end(key)
            if future is None:
                return self._computed(key, mine, compute)
            while not future.done():
                if waiting is not None:
                    waiting()
                wait([future], POLL)
            if future.exception() is None:
                return future.result()

    def has(self, key: Hashable) -> bool:
        """Whether the result is there already."""
        with self._lock:
            future = self._kept.get(key)
        return future is not None and future.done()

    def _computed(self, key: Hashable, mine: Future, compute: Callable[[], Any]) -> Any:
        try:
            result = compute()
        except BaseException as error:
            with self._lock:
                self._kept.pop(key, None)
            mine.set_exception(error)
            raise
        mine.set_result(result)
        with self._lock:
            self._forget_oldest()
        return result

    def _forget_oldest(self) -> None:
        done = [key for key, future in self._kept.items() if future.done()]
        for key in done[: max(0, len(self._kept) - self.maxsize)]:
            del self._kept[key]
