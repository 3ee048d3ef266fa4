"""The push on each mark, under GRPO and GDPO, and how it depends on the weight of correctness.

A push is how much an update on the published answers raises the mark.
"""

from collections.abc import Iterable

from gdpo_core._words import signed
from gdpo_core.bfcl import REWARDS, Published
from gdpo_core.bfcl.prompts import PUSH_WEIGHTS, Choice, Pairs, pushes
from gdpo_core.conventions import NAMES
from gdpo_core.pushing import MEANING
from views import charts
from views.evidence import order
from views.html import Html, join, paragraphs, table, tag


def section(data: Published, choice: Choice, first: Pairs) -> Html:
    """Return the second question of the chapter with its answer, and a note on what a push is.

    The answer says which method pushes correctness more, and how many ties of a right and a wrong answer GDPO breaks.
    It also says how many pairs of a right and a wrong answer each method puts in the wrong order.

    choice: how answers are drawn, graded and weighed.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    says = tag("div", paragraphs(pushes_in_words(data, choice), order.ties_and_pairs(choice, first)), kind="says")
    note = tag("p", MEANING, kind="note")
    return join(tag("h2", "Does it help to break the ties?", kind="section"), says, note)


def pushes_in_words(data: Published, choice: Choice) -> str:
    """Return sentences on how strongly GRPO and GDPO push each mark at the chosen weight of correctness, correctness
    first.
    """
    grpo, gdpo = (pushes(data, choice)[m] for m in ("grpo", "gdpo"))
    weights = order.weights_said(choice)
    if signed(grpo[0]) == signed(gdpo[0]):
        bold = f"With {weights}, both methods push correctness alike: its correlation with the advantages is "
        bold += f"{signed(gdpo[0])} under each."
    else:
        more = "more" if gdpo[0] > grpo[0] else "less"
        by = f"{signed(gdpo[0])} against {signed(grpo[0])}"
        bold = f"With {weights}, GDPO pushes correctness {more} than GRPO does: the correlation of correctness with "
        bold += f"the advantages is {by}."
    rest = " and ".join(
        f"{name} by {signed(gdpo[k])} (GRPO by {signed(grpo[k])})" for k, name in enumerate(REWARDS) if k
    )
    return f"**{bold}** GDPO pushes {rest}."


def curve(data: Published, choice: Choice) -> list:
    """Return a list of one chart: the push on correctness under GRPO and GDPO by the weight of correctness."""
    weights = sorted({*PUSH_WEIGHTS, choice.weight})
    lines = {
        m: {w: by_reward[0] for w, by_reward in by_weight.items()}
        for m, by_weight in _by_weight(data, choice, weights).items()
    }
    return [charts.push_by_weight(lines, choice.weight)]


def curve_table(data: Published, choice: Choice) -> Html:
    """Return a table of the push on every mark under GRPO and GDPO, with a row for each weight of correctness in
    PUSH_WEIGHTS.

    choice: how answers are drawn and graded; its own weight does not count.
    """
    columns = _by_weight(data, choice, PUSH_WEIGHTS)
    heads = [f"{NAMES[m]}, push on {name}" for m in columns for name in REWARDS]
    rows = [
        [f"{w:g}", *(signed(x) for pushes_by_weight in columns.values() for x in pushes_by_weight[w])]
        for w in PUSH_WEIGHTS
    ]
    return table(["weight", *heads], rows, "figures")


def _by_weight(data: Published, choice: Choice, weights: Iterable[float]) -> dict[str, dict[float, tuple[float, ...]]]:
    """Return the push on each mark under GRPO and GDPO, by method and then by the weight of correctness.

    choice: how answers are drawn and graded; its own weight does not count.
    weights: the weights of correctness; 1 has to be among them.
    """
    by_weight = {w: pushes(data, choice.weighing(w)) for w in weights}
    return {
        m: {w: pushes_by_method[m] for w, pushes_by_method in by_weight.items()} for m in NAMES if m in by_weight[1.0]
    }
