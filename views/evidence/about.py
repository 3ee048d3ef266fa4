"""Whose answers the squares are of, what each mark asks for, and what a gate on correctness would do to them."""

from functools import lru_cache

from torch import Tensor

import gdpo_core as gc
from gdpo_core._words import count, percent, word
from gdpo_core.bfcl import GRADERS, REWARDS, Published
from gdpo_core.bfcl.prompts import Choice, models, ties_of
from gdpo_core.conventions import NAMES
from views.html import Html, join, paragraphs, prose, table, tag

ANSWERED = "August 2024"
LEADERBOARD = "https://gorilla.cs.berkeley.edu/leaderboard.html"


def source_note(data: Published) -> Html:
    """Whose answers these are, and what a share of them says."""
    configurations = f"{len(data.models)} configurations of {models(data)} models"
    link = tag("a", "Berkeley Function Calling Leaderboard", href=LEADERBOARD, target="_blank", rel="noopener")
    graded = (
        f" (BFCL) in {ANSWERED}. Each answer was graded for the same {word(len(REWARDS))} marks as in the Lab. A group "
        "here is a random draw of the answers to one prompt, or all of them."
    )
    prompts = (
        f"{configurations} (some with and without native function calling) answered each of {count(len(data.tasks))}"
    )
    return join(
        tag("p", prompts, " prompts of the ", link, graded),
        paragraphs(
            f"These are **{configurations}, not {len(data.models)} samples of one policy**. The marks are real, but "
            "the answers of a model that you train may differ more or less from each other than these do: read the "
            "shares as what can happen, not as a forecast."
        ),
    )


@lru_cache(maxsize=2)
def readings(data: Published) -> Html:
    """What each choice of a grader means, the default first, and how many answers it changes."""
    graded = {name: data.rewards((name,)) for name in GRADERS}

    def changed(reading: str, mark: str) -> str:
        more, less = (int((graded[a] > graded[b]).sum()) for a, b in ((reading, mark), (mark, reading)))
        fewer = count(less) if less else "none"
        return f"passes {count(more)} answers that the default fails and fails {fewer} that it passes"

    return paragraphs(
        f"Each mark has a default and alternatives; there are {count(graded['style'].numel())} answers. One without a "
        f"readable call fails the default of all {word(len(REWARDS))}.",
        "**Correctness**, by default: exactly the needed calls, with accepted values once they are read as the "
        f"documented types. Alternative: BFCL's own checker, which {changed('bfcl_ast_valid', 'correctness')}.",
        "**Style**, by default: exact types, documented spelling and a bare call, which is only the call with no text "
        f"around it. Alternatives: types and spelling alone, which {changed('style_args', 'style')}; or a bare call "
        f"alone, which {changed('envelope', 'style')}.",
        "**Conciseness**, by default strict: nothing was sent that could be deleted, such as a documented default or "
        "an unknown parameter. Alternative: a lenient reading. Our data hold its verdicts but not its rule; it "
        f"{changed('conciseness_lenient', 'conciseness')}.",
    )


def gate(marks: Tensor, choice: Choice) -> Html:
    """The order of right and wrong answers as graded, and with the other marks counted for right answers only."""
    gated = marks
    for reward in range(1, marks.shape[-1]):
        gated = gc.condition(gated, reward, 0)
    rows, alike = [], {}
    for name, rewards in (("as graded", marks), ("gated", gated)):
        for method, c in ties_of(rewards, choice.weights).items():
            order, alike[name] = c.order(), c.groups - c.mixed_groups
            ends = (
                percent(n / order.pairs if order.pairs else None, 1) for n in (order.right, order.tied, order.wrong)
            )
            rows.append([f"{NAMES[method]}, {name}", *ends, percent(c.tied_pairs, 1)])
    said = (
        "The gate counts style and conciseness only where an answer is right, as the paper's eq. 8 does. **The right "
        "answer is first in every pair**, under either method and with any positive weights: these marks are never "
        "below 0. The price: wrong answers become all alike, and prompts with nothing to learn go from "
        f"{count(alike['as graded'])} to {count(alike['gated'])}."
    )
    caption = "Of all pairs of a right and a wrong answer; last column: of what is still rewarded"
    head = ["", "right first", "tied", "wrong first", "pairs with different marks, tied"]
    return join(tag("p", prose(said)), table(head, rows, "figures", caption))


def onward() -> Html:
    """Where to go from here."""
    link = tag("a", "What happened in your own run?", href="?at=run")
    return tag("p", "These are other people's answers. ", link, kind="onward")
