"""How ties and priorities change with the number of answers per prompt."""

from collections.abc import Mapping

from gdpo_core._words import percent
from gdpo_core.bfcl.prompts import METHODS, Choice, SizeShares
from gdpo_core.conventions import NAMES
from views import charts, html
from views.evidence.sentences import between
from views.html import Html, callout, join, table, tag

Lines = dict[str, dict[int, float]]  # by method, by group size


def shares(sizes: Mapping[int, SizeShares]) -> dict[str, Lines]:
    """By what is counted, by method and by group size: a share, where there is something to count."""
    wrong = {n: of.wrong for n, of in sizes.items() if of.wrong is not None}
    return {
        "prompts with a tie": {m: {n: of.tied[m] for n, of in sizes.items()} for m in METHODS},
        "pairs with different marks, tied": {m: {n: of.tied_pairs[m] for n, of in sizes.items()} for m in METHODS},
        "broken ties, wrong answer first": {"gdpo": wrong},
    }


def part(sizes: Mapping[int, SizeShares], choice: Choice) -> Html:
    """How the share of prompts with a tie changes, and what the other shares do."""
    lines = shares(sizes)
    title = next(iter(lines))
    drawn = html.charts([charts.by_group_size(lines[title], title, choice.group_size)])
    heading = tag("h2", "More answers per prompt, more ties under GRPO", kind="part")
    return join(heading, tag("div", callout(_says(lines, choice)), drawn, kind="aside"))


def _says(lines: dict[str, Lines], choice: Choice) -> str:
    grpo, gdpo = (lines["prompts with a tie"][m] for m in METHODS)
    first, last, top = min(grpo), max(grpo), max(gdpo, key=lambda size: gdpo[size])
    start, most, end = (percent(gdpo[size], 1) for size in (first, top, last))
    said = (
        f"From {first} to {last} answers the share of prompts with a tie goes from {percent(grpo[first], 1)} to "
        f"**{percent(grpo[last], 1)}** under GRPO; under GDPO from {start} to {end}, with {most} at {top}."
    )
    if broken := lines["broken ties, wrong answer first"]["gdpo"]:
        weighed = f", with correctness at {choice.weight:g}" if choice.weight != 1 else ""
        mends = "With" if broken[max(broken)] < broken[min(broken)] else "More answers do not mend the order: with"
        share = between(min(broken.values()), max(broken.values()))
        said += f" {mends} {min(broken)} to {max(broken)} answers the wrong one is first in {share} of the ties "
        said += f"that GDPO breaks{weighed}."
    return said


def curves_table(sizes: Mapping[int, SizeShares]) -> Html:
    """The curves as a table."""
    lines = shares(sizes)
    columns = [of[m] for of in lines.values() for m in of]
    rows = [[size, *(percent(column.get(size), 1) for column in columns)] for size in sizes]
    over = {title: len(of) for title, of in lines.items()}
    return table(["answers", *(NAMES[m] for of in lines.values() for m in of)], rows, "figures", over=over)
