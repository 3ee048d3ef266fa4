"""Whose answers the squares are of, what each mark asks for, and what a gate on correctness would do to them."""

from functools import lru_cache

import gdpo_core as gc
from gdpo_core._html import Html, join, prose, table, tag
from gdpo_core._words import count, percent, word
from gdpo_core.bfcl import GRADERS, REWARDS, Published
from views.prompts import METHODS, Choice, marks_of, models
from views.text import NAMES

ANSWERED = "August 2024"


def whose(data: Published) -> Html:
    """HTML: whose answers these are, and what a share of them says."""
    configurations = f"{len(data.models)} configurations of {models(data)} models"
    leaderboard = tag(
        "a",
        "Berkeley Function Calling Leaderboard",
        href="https://gorilla.cs.berkeley.edu/leaderboard.html",
        target="_blank",
        rel="noopener",
    )
    return join(
        tag(
            "p",
            f"{configurations} (some with and without native function calling) answered each of "
            f"{count(len(data.tasks))} prompts of the ",
            leaderboard,
            f" (BFCL) in {ANSWERED}. Each answer was graded for the same {word(len(REWARDS))} marks as in the Lab. A "
            "group here is a random draw of the answers to one prompt, or all of them.",
        ),
        tag(
            "p",
            prose(
                f"These are **{configurations}, not {len(data.models)} samples of one policy**. The marks are real, "
                "but the answers of a model that you train may differ more or less from each other than these do: "
                "read the shares as what can happen, not as a forecast."
            ),
        ),
    )


@lru_cache(maxsize=2)
def readings(data: Published) -> Html:
    """HTML: what each choice of a grader means, the default first, and how many answers it changes."""
    graded = {name: data.rewards((name,)) for name in GRADERS}

    def changed(reading: str, mark: str) -> str:
        more, less = (int((graded[a] > graded[b]).sum()) for a, b in ((reading, mark), (mark, reading)))
        fewer = count(less) if less else "none"
        return f"passes {count(more)} answers that the default fails and fails {fewer} that it passes"

    sentences = (
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
    return join(*(tag("p", prose(one)) for one in sentences))


@lru_cache(maxsize=32)
def gate(data: Published, choice: Choice) -> Html:
    """HTML: the order of right and wrong answers as graded, and with the other marks counted for right answers only."""
    graded = marks_of(data, choice)
    gated = graded
    for reward in range(1, graded.shape[-1]):
        gated = gc.condition(gated, reward, 0)
    rows, alike = [], {}
    for name, marks in (("as graded", graded), ("gated", gated)):
        for method in METHODS:
            c = gc.collapse(marks, method, weights=choice.weights)
            order = c.order()
            alike[name] = c.groups - c.mixed_groups
            rows.append(
                [
                    f"{NAMES[method]}, {name}",
                    *(
                        percent(n / order.pairs, 1) if order.pairs else "–"
                        for n in (order.right, order.tied, order.wrong)
                    ),
                    percent(c.tied_pairs, 1),
                ]
            )
    head = ["", "right first", "tied", "wrong first", "pairs with different marks, tied"]
    return join(
        tag(
            "p",
            prose(
                "The gate counts style and conciseness only where an answer is right, as the paper's eq. 8 does. "
                "**The right answer is first in every pair**, under either method and with any positive weights: "
                "these marks are never below 0. The price: wrong answers become all alike, and prompts with nothing to "
                f"learn go from {count(alike['as graded'])} to {count(alike['gated'])}."
            ),
        ),
        table(
            head, rows, "figures", "Of all pairs of a right and a wrong answer; last column: of what is still rewarded"
        ),
    )
