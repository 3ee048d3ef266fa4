"""The table "When to use which": cases for GDPO beside cases for GRPO, each with what this page found about it."""

from dataclasses import dataclass
from functools import lru_cache

import marimo as mo

from gdpo_core.shared.words import count, listing, percent, word
from views.bfcl import prompts
from views.chapters.evidence.trained import by_reward
from views.chapters.train import gallery
from views.chapters.use.questions import points_in_words, weights_that_order_all
from views.widgets.html import ROOT, Html, fold, join, prose, show, table, tag
from views.widgets.onward import onward


@dataclass(frozen=True)
class Case:
    """A case for a method: what the rewards are like, what shows that the method fits, and where that can be seen.

    rewards: the first half of a text, on what the rewards are like.
    shown_by: the second half of the text, in which {verdict} stands for the verdict of the scenario.
    at: the key of a chapter.
    scenario: the id of a scenario, if the chapter is Train.
    """

    rewards: str
    shown_by: str
    at: str
    scenario: str = ""


def cases() -> list[tuple[Case, Case]]:
    """Return the rows of the table "When to use which", each a pair: a case for GDPO and one for GRPO."""
    mark, score = _epochs_of_dense(0), _epochs_of_dense(1)
    return [
        (
            Case(
                "The scales differ,",
                "and no weights make up for it. In GRPO's sum the largest reward accounts for most of the "
                f"update. In Train, {{verdict}} with SGD; with Adam {_in_train('adam')}, as each coin has a parameter "
                "of its own.",
                "train",
                "scales",
            ),
            Case(
                "One reward matters most.",
                "Give it a larger weight: among the published answers of Evidence, every right answer then stands "
                f"above every wrong one from a weight above {weights_that_order_all()[0]} on under GRPO, and only "
                f"above {weights_that_order_all()[1]} under GDPO. At equal weights, "
                f"{percent(share_of_broken_ties_that_are_wrong())} of the right–wrong ties that GDPO breaks end in the "
                "wrong order.",
                "evidence",
            ),
        ),
        (
            Case(
                "A continuous reward matters more than a rarely passed mark.",
                f"In Train it is learnt in {count(score['gdpo'], 'epoch')} under GDPO instead of {score['grpo']} under "
                f"GRPO. The price is that the mark takes {count(mark['gdpo'], 'epoch')} instead of {mark['grpo']}. "
                "Train judges by the reward learnt last, so it says that {verdict}. Trained with two scores beside a "
                f"mark, correctness, the small language model learnt {_trained('warm-dense')} under GDPO than under "
                "GRPO.",
                "train",
                "dense",
            ),
            Case(
                "The scales are similar",
                "and the rewards are passed about equally often at the start. Whether adding or normalising comes "
                "first then makes little difference. In Train, {verdict}.",
                "train",
                "equal",
            ),
        ),
        (
            Case(
                "All signals matter, on scales far apart,",
                "and none is nearly constant. Under GDPO the share of a reward depends on its weight, not on its "
                "scale, even beside a reward a hundred times as large. In Train, {verdict} with SGD.",
                "train",
                "hundred",
            ),
            Case(
                "One reward dominates on purpose,",
                "by its scale or by weights tuned for the sum. GDPO removes the scale, and so undoes that. In Train’s "
                "set-up “Weights tuned for a sum”, the answer is {verdict}.",
                "train",
                "tuned",
            ),
        ),
        (
            Case(
                "One reward pays far more than the others.",
                f"Trained where conciseness paid 5, the small language model learnt {_trained('pays_5')} under GDPO "
                "than under GRPO.",
                "evidence",
            ),
            Case(
                "One reward is nearly constant,",
                "because it varies only by a little noise. GDPO makes this noise as large as a real reward; in GRPO's "
                "sum it stays small. In Train, {verdict}.",
                "train",
                "noise",
            ),
        ),
    ]


@lru_cache(maxsize=1)
def share_of_broken_ties_that_are_wrong() -> float:
    """Return the share of broken ties in the wrong order. A broken tie is a right and a wrong answer that GRPO ties and
    GDPO does not. The share is 0 if there is none.

    The answers are those that the chapter Evidence shows when it opens, and all marks weigh the same.
    """
    pairs = _pairs()
    return pairs.wrong("gdpo", 1.0, pairs.broken()) or 0.0


def _pairs() -> prompts.Pairs:
    """Return all pairs of a right and a wrong answer in the chapter Evidence as it opens."""
    data = prompts.load_once(ROOT / "data" / "bfcl_rewards.parquet")
    return prompts.pairs(prompts.marks_of(data, prompts.Choice()))


def _trained(setup: str) -> str:
    """Return words for the differences GDPO − GRPO in points, reward by reward, of a set-up that was trained."""
    return listing(f"{points_in_words(row)} {row.reward}" for row in by_reward(setup).values())


def _epochs_of_dense(coin: int) -> dict[str, int]:
    """Return in how many epochs "gdpo" and "grpo" learn a coin of the scenario `dense`, by method.

    The comparison is "equal", in which both methods have advantages of unit std.

    coin: the coin's number, from 0.
    """
    sketch = gallery.load_gallery(ROOT / "data")[1]["sketches"]["dense"]["equal"]
    return {method: sketch[method]["steps"][coin] for method in ("gdpo", "grpo")}


def _in_train(scenario: str) -> str:
    """Return the verdict on a scenario of Train, as words of a sentence.

    The words are a clause, such as "GDPO is faster". If the policy of the scenario chooses among answers, the words can
    follow "the answer is".

    scenario: the id of the scenario.
    """
    verdict = gallery.load_gallery(ROOT / "data")[0][scenario].verdict
    verdict = f"GDPO is {verdict.removeprefix('GDPO ')}" if verdict.startswith("GDPO ") else verdict
    return "there is no difference" if verdict == "no difference" else verdict


@lru_cache(maxsize=1)
def _drawn() -> Html:
    """Return the table “Use GDPO when …, use GRPO when …” with a note below it."""

    def cell(case: Case) -> Html:
        verdict = _in_train(case.scenario) if case.scenario else ""
        says = prose(f"**{case.rewards}** {case.shown_by.format(verdict=verdict)}")
        return join(says, " ", onward(case.at, case.rewards.rstrip(".,"), case.scenario))

    rows = [[cell(gdpo), cell(grpo)] for gdpo, grpo in cases()]
    first = (
        "Under either method a large enough weight or a gate can put one reward "
        "first; under GRPO a larger pay can do so, too."
    )
    return join(
        table(["Use GDPO when …", "Use GRPO when …"], rows, "which"),
        tag("p", first, " ", onward("train", "a gate", "gated"), kind="note"),
    )


def section() -> mo.Html:
    """Return the fold “When to use which”: a table of cases for GDPO and of cases for GRPO."""
    return show(fold(f"When to use which: {word(2 * len(cases()))} cases, and where each is shown", _drawn))
