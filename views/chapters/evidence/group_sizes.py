"""Three shares by the number of answers per prompt: of prompts with a tie, of tied pairs, and of broken ties in the
wrong order.
"""

from collections.abc import Mapping
from dataclasses import replace

from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import listing, percent
from views.bfcl import Published
from views.bfcl.prompts import BOTH_METHODS, SIZES, Choice, SizeShares, size_shares
from views.chapters.evidence.sentences import between
from views.widgets import charts, html
from views.widgets.html import Html, callout, table, tag

MIDDLE = 12  # the size of a group that stands between the smallest and the largest in the title
_Lines = dict[str, dict[int, float]]  # by method, by group size


def shares(sizes: Mapping[int, SizeShares]) -> dict[str, _Lines]:
    """Return three shares as curves: by words for what is counted, then by method, then by group size.

    The first is the share of prompts with a tie. The second is the share of tied pairs among the pairs of answers with
    different marks. The third, for GDPO alone, is the share of broken ties in the wrong order; its curve leaves out the
    sizes at which GDPO breaks no tie.

    sizes: the shares by group size.
    """
    wrong = {n: size_share.wrong for n, size_share in sizes.items() if size_share.wrong is not None}
    return {
        "prompts with a tie": {m: {n: size_share.tied[m] for n, size_share in sizes.items()} for m in BOTH_METHODS},
        "pairs with different marks, tied": {
            m: {n: size_share.tied_pairs[m] for n, size_share in sizes.items()} for m in BOTH_METHODS
        },
        "broken right–wrong ties in the wrong order": {"gdpo": wrong},
    }


def title(data: Published, choice: Choice) -> str:
    """Return the title of the fold: the share of prompts with a tie under each method, at equal weights. It gives the
    share for groups of the smallest, a middle and the largest size.
    """
    sizes = SIZES[0], MIDDLE, len(data.models)
    tied = [size_shares(data, replace(choice.weighing(1), group_size=size)).tied for size in sizes]
    grpo, gdpo = (listing(percent(shares[m], 1) for shares in tied) for m in BOTH_METHODS)
    with_sizes = f"With {listing(sizes)} answers at equal weights"
    return f"More answers per prompt? {with_sizes} GRPO ties answers in {grpo} of the prompts, GDPO in {gdpo}"


def section(sizes: Mapping[int, SizeShares], choice: Choice) -> Html:
    """Return the chart of the share of prompts with a tie by group size, below sentences on it and on broken ties."""
    lines = shares(sizes)
    name = next(iter(lines))
    drawn = html.charts([charts.by_group_size(lines[name], name, choice.group_size)])
    return tag("div", callout(_says(lines, choice)), drawn, kind="aside")


def _says(lines: dict[str, _Lines], choice: Choice) -> str:
    """Return the sentences on how two shares change with the group size. They are the share of prompts with a tie, and
    the share of broken ties in the wrong order.

    lines: the curves that `shares` returns.
    choice: holds the weight of correctness that the reader chose.
    """
    grpo, gdpo = (lines["prompts with a tie"][m] for m in BOTH_METHODS)
    first, last, top = min(grpo), max(grpo), max(gdpo, key=lambda size: gdpo[size])
    start, most, end = (percent(gdpo[size], 1) for size in (first, top, last))
    sentence = (
        f"From {first} to {last} answers the share of prompts with a tie goes from {percent(grpo[first], 1)} to "
        f"**{percent(grpo[last], 1)}** under GRPO; under GDPO from {start} to {end}, with {most} at {top}."
    )
    if broken := lines["broken right–wrong ties in the wrong order"]["gdpo"]:
        weighed = f", with correctness at {choice.weight:g}" if choice.weight != 1 else ""
        share = between(min(broken.values()), max(broken.values()))
        these = f"of the ties of a right and a wrong answer that GDPO breaks{weighed} {share} end in the wrong order"
        if len(broken) == 1:
            return f"{sentence} With {min(broken)} answers, {these}."
        mends = "With" if broken[max(broken)] < broken[min(broken)] else "More answers do not mend the order: with"
        sentence += f" {mends} {min(broken)} to {max(broken)} answers, {these}."
    return sentence


def curves_table(sizes: Mapping[int, SizeShares]) -> Html:
    """Return a table of the curves of `shares`, with a row per group size and a column per curve. A curve is one share
    under one method. "–" stands where a curve leaves out a size.
    """
    lines = shares(sizes)
    columns = [by_method[m] for by_method in lines.values() for m in by_method]
    rows = [[size, *(percent(column.get(size), 1) for column in columns)] for size in sizes]
    over = {title: len(by_method) for title, by_method in lines.items()}
    return table(
        ["answers", *(NAMES[m] for by_method in lines.values() for m in by_method)], rows, "figures", over=over
    )
