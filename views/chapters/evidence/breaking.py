"""Whether it helps to break ties: what each method makes of a right and a wrong answer, and what training gave.

GRPO without std is among the methods, because it ties exactly what GRPO ties: what it changes, no broken tie explains.
"""

from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.shared.words import count, decimal
from views.bfcl import REWARDS
from views.bfcl.prompts import Choice, Pairs
from views.chapters.evidence import order
from views.chapters.evidence.trained import Difference, interval, load_differences
from views.widgets.html import Html, join, paragraphs, table, tag

_EQUAL, WEIGHT_2 = "equal", "weight_2"  # set-ups in which all marks pay alike


def section(choice: Choice, first: Pairs) -> Html:
    """Return the question and its answer: what training says, and what happens to the ties of published answers.

    choice: how answers are drawn, graded and weighed.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    says = tag("div", paragraphs(in_training(of_correctness(_EQUAL)), order.ties_and_pairs(choice, first)), kind="says")
    return join(tag("h2", "Does it help to break the ties?", kind="section"), says)


def of_correctness(setup: str) -> dict[str, Difference]:
    """Return what training gave for correctness in a set-up, by method, less what GRPO gave."""
    return {row.method: row for row in load_differences() if (row.setup, row.reward) == (setup, REWARDS[0])}


def in_training(differences: dict[str, Difference]) -> str:
    """Return sentences on how correctness was learnt under GDPO and under GRPO without std, beside GRPO.

    differences: by method, in a set-up where all marks weigh the same.
    """
    gdpo, no_std = differences["gdpo"], differences["grpo_no_std"]
    says = "says yes" if gdpo.leads else "says no" if gdpo.trails else "shows no clear help"
    return (
        f"**Training {says}, in the set-up “{gdpo.title}”:** the model learnt correctness {_than(gdpo)} under GDPO "
        f"than under GRPO. Under GRPO without std it learnt {_than(no_std)}. That method ties what GRPO ties, so "
        "ties alone did not decide what was learnt."
    )


def _than(row: Difference) -> str:
    """Return words such as "1.2 points less" for a difference."""
    return f"{decimal(abs(row.difference), 1)} points {'more' if row.difference > 0 else 'less'}"


def table_of_methods(choice: Choice, first: Pairs) -> Html:
    """Return a table with a line for GRPO, GRPO without std and GDPO: ties and pairs in the wrong order among the
    published answers, and what training gave for correctness at equal weights and where correctness weighs 2.

    choice: holds the weight of correctness.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    trained = [of_correctness(setup) for setup in (_EQUAL, WEIGHT_2)]
    rows = []
    for method in COMPARED:
        counts = first.order("gdpo" if method == "gdpo" else "grpo", choice.weight)
        results = (interval(by[method]) if method in by else "0 (compared with)" for by in trained)
        rows.append([NAMES[method], count(counts.tied), count(counts.wrong), *results])
    head = ["", "tied", "wrong order", "trained, equal weights", "trained, correctness weighs 2"]
    caption = (
        f"Left: pairs of a right and a wrong published answer, with {order.weights_said(choice)}. Right: by how many "
        "points more or less correctness was learnt in training than under GRPO"
    )
    return table(head, rows, "figures", caption)
