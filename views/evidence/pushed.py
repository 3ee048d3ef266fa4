"""What the update raises on the published answers: the push on each mark as correctness weighs more."""

from gdpo_core._words import signed
from gdpo_core.bfcl import REWARDS, Published
from gdpo_core.bfcl.prompts import PUSH_WEIGHTS, Choice, pushes
from gdpo_core.conventions import NAMES
from gdpo_core.pushing import MEANING
from views import charts
from views.html import Html, join, paragraphs, table, tag


def part(data: Published, choice: Choice) -> Html:
    """What either method pushes at the chosen weight, in words."""
    now = pushes(data, choice)
    said = "; ".join(
        f"{NAMES[m]} **{signed(of[0])}** on correctness, {signed(of[1])} on style and {signed(of[2])} on conciseness"
        for m, of in now.items()
    )
    says = tag("div", paragraphs(f"The push at a weight of {choice.weight:g}: {said}. {MEANING}"), kind="says")
    return join(tag("h2", "What the update raises", kind="part"), says)


def curve(data: Published, choice: Choice) -> list:
    """A chart of the push on correctness by its weight."""
    lines = {m: {w: of[0] for w, of in by_weight.items()} for m, by_weight in _by_weight(data, choice).items()}
    return [charts.push_by_weight(lines, choice.weight)]


def curve_table(data: Published, choice: Choice) -> Html:
    """The push on every mark by the weight of correctness."""
    columns = _by_weight(data, choice)
    heads = [f"{NAMES[m]}, push on {name}" for m in columns for name in REWARDS]
    rows = [[f"{w:g}", *(signed(x) for of in columns.values() for x in of[w])] for w in PUSH_WEIGHTS]
    return table(["weight", *heads], rows, "figures")


def _by_weight(data: Published, choice: Choice) -> dict[str, dict[float, tuple[float, ...]]]:
    """By method and weight of correctness, the push on each mark."""
    by_weight = {w: pushes(data, choice.weighing(w)) for w in PUSH_WEIGHTS}
    return {m: {w: of[m] for w, of in by_weight.items()} for m in NAMES if m in by_weight[1.0]}
