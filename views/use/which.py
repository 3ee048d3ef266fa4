"""When to use which: the cases for GDPO beside those for GRPO, each with what this page found about it."""

from dataclasses import dataclass
from functools import lru_cache

import marimo as mo

from gdpo_core._words import percent
from gdpo_core.bfcl import prompts
from gdpo_core.scenarios import load_scenarios
from views.html import ROOT, Html, join, prose, show, table, tag
from views.onward import onward


@dataclass(frozen=True)
class Case:
    """A case for a method: what the rewards are like, what was found, and where that is shown.

    at: a chapter, or a set-up of Train. `found` holds {verdict} where the verdict of that set-up stands.
    """

    rewards: str
    found: str
    at: str
    scenario: str = ""


def cases() -> list[tuple[Case, Case]]:
    """Return the rows of the table: a case for GDPO, and one for GRPO."""
    return [
        (
            Case(
                "The scales differ,",
                "and no weights make up for that. In GRPO's sum the largest reward makes most of the update. In Train, "
                "{verdict}.",
                "train",
                "scales",
            ),
            Case(
                "There is a single reward.",
                "Nothing has to be kept apart: inside a group both give the same order and the same ratios. "
                "Two weights of 0 in the Lab show it.",
                "lab",
            ),
        ),
        (
            Case(
                "A continuous reward stands beside binary ones",
                "and is meant to count in full. It differs in every group, a rare mark in few, so the mark is learnt "
                "later. In Train, {verdict}.",
                "train",
                "dense",
            ),
            Case(
                "The scales are similar",
                "and so are the starts. The order of normalisation then has little to change. In Train, {verdict}.",
                "train",
                "equal",
            ),
        ),
        (
            Case(
                "All signals matter.",
                "Each counts as much as its weight says, even beside a reward a hundred times as large. In Train, "
                "{verdict}.",
                "train",
                "hundred",
            ),
            Case(
                "One reward dominates on purpose,",
                "by its scale or by weights tuned for the sum. GDPO takes the scale out and undoes that. In Train, the "
                "answer is {verdict}.",
                "train",
                "tuned",
            ),
        ),
        (
            Case(
                "GRPO ties answers that should differ,",
                "and correctness weighs more than the rest. At equal weights GDPO decides "
                f"{percent(share_of_broken_ties_that_are_wrong())} of the ties of a right and a wrong answer that it "
                "breaks for the wrong one.",
                "evidence",
            ),
            Case(
                "One reward is nearly constant noise.",
                "GDPO makes it as loud as a real reward; in GRPO's sum it stays faint. In Train, {verdict}.",
                "train",
                "noise",
            ),
        ),
    ]


@lru_cache(maxsize=1)
def share_of_broken_ties_that_are_wrong() -> float:
    """Return how many of the ties of a right and a wrong answer that GDPO breaks in Evidence end in the wrong order."""
    choice = prompts.Choice()
    pairs = prompts.pairs(prompts.marks_of(prompts.load_once(ROOT / "data" / "bfcl_rewards.parquet"), choice))
    return pairs.wrong("gdpo", choice.weight, pairs.broken(choice.weight)) or 0.0


@lru_cache(maxsize=1)
def _drawn() -> Html:
    verdicts = {one.id: one.verdict for one in load_scenarios(ROOT / "data" / "scenarios.json")}

    def cell(case: Case) -> Html:
        verdict = verdicts.get(case.scenario, "")
        verdict = f"GDPO is {verdict.removeprefix('GDPO ')}" if verdict.startswith("GDPO ") else verdict
        verdict = "there is no difference" if verdict == "no difference" else verdict
        says = prose(f"**{case.rewards}** {case.found.format(verdict=verdict)}")
        return join(says, " ", onward(case.at, case.rewards.rstrip(".,"), case.scenario))

    rows = [[cell(gdpo), cell(grpo)] for gdpo, grpo in cases()]
    first = "No normalisation knows which reward must come first: a larger weight or a gate does, under either method."
    return join(
        table(["Use GDPO when …", "Use GRPO when …"], rows, "which"),
        tag("p", first, " ", onward("train", "a gate", "gated"), kind="note"),
    )


def section() -> mo.Html:
    """Return the table of cases."""
    return show(tag("h2", "When to use which", kind="part"), _drawn())
