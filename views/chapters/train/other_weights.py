"""The table of weights for the set-ups in which rewards conflict: which answer wins at each weight and with the gate.

data/gallery.json holds its numbers, and a test recomputes them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gdpo_core.shared.markup import Html, Row, join, prose, table, tag
from gdpo_core.shared.words import listing, number
from views.chapters.train.gallery import File
from views.chapters.train.runs import METHOD_LABELS
from views.chapters.train.train_words import probability
from views.studies.scenarios import LEARNT, Scenario, Setup

WEIGHTS = (4.0, 2.0, 1.0, 0.9, 0.5, 0.25, 0.125)  # of conciseness, in the table of weights


def conciseness_table(file: File, scenario: Scenario, setup: Setup) -> Html | str:
    """Return a table of which answer wins at each weight of conciseness and with the gate, a row per method, and
    sentences.

    The right answer wins if its final probability is LEARNT or more, and a wrong answer if that probability is 1 −
    LEARNT or less. The result is empty if the reader changed anything in the scenario but weights, gate and comparison.

    file: the content of data/gallery.json, which holds these probabilities.
    scenario: a scenario with arms.
    setup: the set-up that the reader made of the scenario.
    """
    as_shipped = replace(scenario.setup, match_scale=setup.match_scale, weights=None, gate=None)
    if replace(setup, weights=None, gate=None) != as_shipped:
        return ""
    endings = file["weights"][scenario.id][setup.comparison]
    here = "gate" if setup.gate else (setup.weights or (1.0, 1.0))[1]
    columns = [*WEIGHTS, "gate"]
    rows = [
        Row([METHOD_LABELS[m], *(_result(p, column == here) for column, (p, _) in zip(columns, cells, strict=True))], m)
        for m, cells in endings.items()
    ]
    need = {m: _largest(cells) for m, cells in endings.items()}
    each = listing([f"{'none of these' if w is None else number(w)} under {METHOD_LABELS[m]}" for m, w in need.items()])
    gate = (
        "Behind the gate the right answer wins under every method, at any weight."
        if all(cells[-1][0] >= LEARNT for cells in endings.values())
        else "Behind this gate the right answer does not win: an answer that is not concise pays a penalty here, and "
        "the gate spares wrong answers this penalty."
    )
    sentences = (
        f"The right answer wins if the policy gives it in the end with a probability of {LEARNT:g} or more. Of these "
        f"weights of conciseness, the largest with which the right answer wins is **{each}**. {gate}",
        "Normalising does not know which reward matters more. It moves the weight up to which the right answer wins, "
        "but it does not choose the weight. A gate needs no weight to be found if the gated reward is never below 0; "
        "otherwise let the gate set it to its worst value.",
    )
    caption = (
        "Which answer wins at each weight of conciseness (correctness weighs 1): ✓ the right one, ✗ a wrong one, "
        "~ none. Below: the final probability of the right one."
    )
    head = ["", *(f"{w:g}" for w in WEIGHTS), "gate"]
    return join(table(head, rows, "ends", caption), *(tag("p", prose(sentence)) for sentence in sentences))


def _result(p: float, here: bool) -> Html:
    """Return a cell of `conciseness_table`: which answer wins, and the final probability of the right answer.

    p: the final probability of the right answer.
    here: whether the reader's set-up has the weight of this cell.
    """
    name, sign = ("right", "✓") if p >= LEARNT else ("wrong", "✗") if p <= 1 - LEARNT else ("open", "~")
    return tag("span", tag("b", sign), tag("small", probability(p)), kind=f"{name}{' here' if here else ''}")


def _largest(cells: Sequence[Sequence[Any]]) -> float | None:
    """Return the largest of WEIGHTS such that the right answer wins at this weight and at all smaller ones. None if it
    does not win at the smallest weight.

    The right answer wins if its final probability is LEARNT or more.

    cells: a pair for each of WEIGHTS, from the largest weight to the smallest, and a last pair for the gate, which does
        not count here. The first number of a pair is the final probability of the right answer.
    """
    largest = None
    for weight, (p, _) in zip(reversed(WEIGHTS), reversed(cells[:-1]), strict=True):
        if p < LEARNT:
            break
        largest = weight
    return largest
