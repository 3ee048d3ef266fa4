"""The spread of other draws of answers, computed in another process: for 24 answers that takes half a second."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gdpo_core.bfcl import prompts
from gdpo_core.bfcl.prompts import Choice, Spread
from views.worker import elsewhere

PROMPTS, MODELS = 963, 71  # of the published answers


def spread(file: Path, choice: Choice) -> Spread:
    """Return `gdpo_core.bfcl.prompts.spread` of the verdicts in a file, once for all draws and visitors."""
    return _of_any_draw(file, replace(choice, seed=0))


@lru_cache(maxsize=256)
def _of_any_draw(file: Path, choice: Choice) -> Spread:
    return elsewhere(compute, file, choice)


def compute(file: Path, choice: Choice) -> Spread:
    """Return `gdpo_core.bfcl.prompts.spread` of the verdicts in a file, computed in this process each time anew."""
    return prompts.spread(prompts.load_once(file), choice)
