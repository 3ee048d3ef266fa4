"""The ranges of the shares of ties in Evidence over other random draws of answers, computed in another process.

For 24 answers per prompt that takes half a second.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gdpo_core.bfcl import prompts
from gdpo_core.bfcl.prompts import Choice, Spread
from views.worker import elsewhere

PROMPTS, MODELS = 963, 71  # of the published answers


def spread(file: Path, choice: Choice) -> Spread:
    """Return the lowest and the highest value of two shares of Evidence over other draws of as many answers.

    The shares are those of prompts with a tie, by method, and of broken ties in the wrong order, as
    `gdpo_core.bfcl.prompts.spread` returns them; they are computed once for all visitors. file: the published verdicts;
    choice: what is chosen in Evidence, of which the seed does not matter.
    """
    return _of_any_draw(file, replace(choice, seed=0))


@lru_cache(maxsize=256)
def _of_any_draw(file: Path, choice: Choice) -> Spread:
    return elsewhere(compute, file, choice)


def compute(file: Path, choice: Choice) -> Spread:
    """Return what `spread` returns, computed in this process and anew at each call; workers run it."""
    return prompts.spread(prompts.load_once(file), choice)
