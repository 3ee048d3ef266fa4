"""The ranges of two shares of the chapter Evidence over many random draws of answers. They are the share of prompts
with a tie, and the share of broken ties in the wrong order. They are computed in another process, which takes half a
second for 24 answers per prompt.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from views.bfcl import prompts
from views.bfcl.prompts import Choice, Spread
from views.server.worker import elsewhere

PROMPTS, MODELS = 963, 71  # of the published answers


def shares_over_draws(file: Path, choice: Choice) -> Spread:
    """Return the lowest and the highest value that two shares of the chapter Evidence have over 100 draws of answers.

    The first is the share of prompts with a tie, by method. The second is the share of broken ties that are in the
    wrong order. `views.bfcl.prompts.range_of_shares` computes them in another process, and the result is kept for all
    visitors.

    file: the published verdicts.
    choice: what is chosen in Evidence, such as how many answers a draw has per prompt; its seed does not matter.
    """
    return _of_any_draw(file, replace(choice, seed=0))


@lru_cache(maxsize=256)
def _of_any_draw(file: Path, choice: Choice) -> Spread:
    return elsewhere(_compute, file, choice)


def _compute(file: Path, choice: Choice) -> Spread:
    """Compute the ranges of two shares over 100 draws in the calling process. They are the share of prompts with a tie,
    and the share of broken ties in the wrong order.

    `shares_over_draws` calls this in another process and keeps the results. Nothing is kept here but the published
    verdicts.

    file: the published verdicts, which are read once.
    choice: what is chosen in Evidence; its seed does not matter.
    """
    return prompts.range_of_shares(prompts.load_once(file), choice)
