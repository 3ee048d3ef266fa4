"""Texts at the end of the chapter Evidence: which models gave the answers that it counts, and what an answer has to do
for each mark. A line that leads on to the next chapter is here too.
"""

from gdpo_core.shared.words import count, word
from views.bfcl import REWARDS, Published
from views.bfcl.prompts import models
from views.widgets.html import Html, join, paragraphs, tag

ANSWERED = "August 2024"
LEADERBOARD = "https://gorilla.cs.berkeley.edu/leaderboard.html"


def note_on_answers(data: Published) -> Html:
    """Return two paragraphs: whose answers the chapter counts, and why its shares show what can happen in a training
    but do not forecast it.
    """
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


def readings() -> Html:
    """Return the paragraphs on which graders can give each mark and what each of them asks for, the default grader
    first.
    """
    return paragraphs(
        "Each mark has a default and alternatives. An answer without a readable call fails the default of all.",
        "**Correctness** asks by default for exactly the needed calls, with values that are accepted once they are "
        "read as the documented types. The alternative is BFCL's own checker.",
        "**Style** asks by default for exact types, documented spelling and a bare call, which is the call with no "
        "text around it. The alternatives ask for types and spelling alone, or for a bare call alone.",
        "**Conciseness** is strict by default: it asks that nothing was sent that could be deleted, such as "
        "a documented default or an unknown parameter. The alternative is a lenient reading, of which our "
        "data hold the verdicts but not the rule.",
    )


def onward_from_answers() -> Html:
    """Return the line that leads on to chapter 4, with the logs of two small runs and with the reader's own."""
    runs = tag(
        "a", "Chapter 4 shows the first steps of two runs of the small model", href="?at=run&run-sample=pays_5_grpo"
    )
    link = tag("a", "What happened in your own run?", href="?at=run")
    whose = "The answers behind the squares come from published models, not from the small model that we trained. "
    return tag("p", whose, runs, " ", link, kind="next")
