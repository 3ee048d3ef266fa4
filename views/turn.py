"""The short computations of visitors take turns.

Every call of torch lets another thread in: fifty short computations at once would take three times as long.
"""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

IN_TURN = threading.RLock()

P, R = ParamSpec("P"), TypeVar("R")


def in_turn(compute: Callable[P, R]) -> Callable[P, R]:
    """The same function, of which one call runs at a time, beside none other that takes turns."""

    @functools.wraps(compute)
    def computed(*args: P.args, **kwargs: P.kwargs) -> R:
        with IN_TURN:
            return compute(*args, **kwargs)

    return computed
