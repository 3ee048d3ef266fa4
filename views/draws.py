"""What other draws give, computed in another process: for 24 answers it takes half a second, which all would wait."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gdpo_core.bfcl.prompts import Choice, Spread, load_once
from gdpo_core.bfcl.prompts import spread as spread_here
from views.worker import elsewhere

PROMPTS, MODELS = 963, 71  # of the published answers


def spread(file: Path, choice: Choice) -> Spread:
    """`gdpo_core.bfcl.prompts.spread` of the verdicts in a file, once for all draws and visitors."""
    return _spread(file, replace(choice, seed=0))


@lru_cache(maxsize=256)
def _spread(file: Path, choice: Choice) -> Spread:
    return elsewhere(spread_of, file, choice)


def spread_of(file: Path, choice: Choice) -> Spread:
    """The same, here and each time anew."""
    return spread_here(load_once(file), choice)
