"""Whose answers the squares are of, and what each mark asks for."""

from functools import lru_cache

from gdpo_core._html import Html, join, prose, tag
from gdpo_core._words import count, word
from gdpo_core.bfcl import GRADERS, REWARDS, Published
from views.prompts import models

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

    said = (
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
    return join(*(tag("p", prose(one)) for one in said))
