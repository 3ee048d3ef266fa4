"""Marks of one task's answers as keys for caches, and what each method keeps apart of them."""

from collections.abc import Iterable
from functools import lru_cache

import gdpo_core as gc

Passed = tuple[tuple[int, ...], ...]  # (answers, rewards) of 0 or 1


def frozen(passed: Iterable[Iterable[int]]) -> Passed:
    """Rewards as a key for a cache."""
    return tuple(tuple(row) for row in passed)


@lru_cache(maxsize=1024)
def told_apart(passed: Passed, method: str) -> gc.Collapse:
    """What the method keeps apart of these rewards; the board and the sections below it ask for the same."""
    return gc.collapse(passed, method)
