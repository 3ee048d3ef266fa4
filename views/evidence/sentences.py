"""What the chapter says of the prompts that are drawn, and the program that prints its numbers."""

from collections.abc import Callable, Mapping
from math import ceil

import marimo as mo
from torch import Tensor

from gdpo_core import _html
from gdpo_core._words import count, listing, percent
from gdpo_core.bfcl import Published
from gdpo_core.bfcl.prompts import DRAWS, WEIGHTS, Choice, Outcomes, Pairs, Spread, models, outcomes, ties_of
from views import charts, html, terms
from views.html import Html, join, paragraphs, prose, table, tag

EQUAL = "ties of equal weights"
UNLIKE = (1.0, 0.9, 0.8)  # weights of which no two are equal, and none is the sum of the others


def claim(data: Published, found: Outcomes) -> Html:
    """The headline of the chapter: how often answers are tied."""
    shares = [percent(n / len(data.tasks)) for n in found.tied.values()]
    title = f"On {count(len(data.tasks))} real prompts GRPO ties different answers in {shares[0]}, GDPO in {shares[1]}"
    return tag("div", tag("h1", prose(title)), kind="markdown")


def lead(data: Published, choice: Choice, marks: Tensor, first: Pairs, spread: Spread) -> Html:
    """What stands below it: which of two tied answers is first under GDPO, and what a square is."""
    grpo, gdpo = (between(*spread.tied[m]) for m in ("grpo", "gdpo"))
    over = f" Over {DRAWS} draws of {choice.group_size} answers GRPO ties in {grpo}, GDPO in {gdpo}."
    return tag(
        "div",
        tag("p", prose(key_sentence(choice, first, spread)), kind="paragraph matters"),
        tag("p", introduction(data, choice, marks), over, kind="paragraph"),
        kind="markdown",
    )


def key_sentence(choice: Choice, first: Pairs, spread: Spread) -> str:
    """The one sentence that matters: of the ties that the squares show, at the weight that is chosen."""
    order = first.order("gdpo", choice.weight, first.broken(choice.weight))
    at = "" if choice.weight == 1 else f", with correctness at {choice.weight:g}"
    if not order.pairs:
        return f"**With {choice.group_size} answers GDPO breaks no tie of a right and a wrong answer{at}.**"
    share = f"{percent(order.wrong / order.pairs)}{_over_draws(choice, spread)}"
    said = f"Where GDPO breaks a tie of a right and a wrong answer{at}, the wrong one is first in {share}"
    equal = first.order("gdpo", choice.weight, first.broken())
    if choice.weight == 1 or not equal.pairs:
        return f"**{said}.**"
    then = percent(equal.wrong / equal.pairs) if equal.wrong else "none"
    return f"**{said}**; of the {count(equal.pairs)} that it breaks at equal weights, then in {then}."


def _over_draws(choice: Choice, spread: Spread) -> str:
    """The range of a share over many draws, in parentheses; nothing where all answers are drawn."""
    if spread.wrong is None or spread.wrong[0] == spread.wrong[1]:
        return ""
    draws = f"{DRAWS} draws" if spread.draws == DRAWS else f"the {spread.draws} of {DRAWS} draws that have one"
    return f" ({between(*spread.wrong)} among {draws})"


def introduction(data: Published, choice: Choice, marks: Tensor) -> Html:
    """What a square is, whose answers these are, and the weights without which there are no ties."""
    who = f"{len(data.models)} configurations of {models(data)} models"
    everything = choice.group_size == len(data.models)
    drawn = f"all {who} (so a draw changes nothing)" if everything else f"{choice.group_size} of {who}"
    now = (
        "**All marks weigh the same here.**"
        if choice.weight == 1
        else f"**Correctness weighs {choice.weight:g} here**, the other marks 1."
    )
    grpo, gdpo = outcomes(marks, ties_of(marks, UNLIKE)).tied.values()
    rarely = (
        f"GRPO ties different answers in {count(grpo, 'prompt')} and GDPO in {count(gdpo)}"
        if grpo or gdpo
        else "neither method ties different answers"
    )
    return join(
        f"A square is a prompt with the answers of {drawn}, no samples of one ",
        terms.term("policy"),
        ". A ",
        terms.term("tie"),
        " is one advantage for different marks. ",
        prose(f"{now} With weights {listing(f'{w:g}' for w in UNLIKE)} {rarely}."),
    )


def verdict(choice: Choice, first: Pairs) -> Html:
    """What breaking ties is worth: which answer comes first, and from which weight on it is the right one."""
    said = tag("div", paragraphs(*_of_ties(choice, first)), kind="says")
    return join(tag("h2", _title(choice, first), kind="part"), said)


def _title(choice: Choice, first: Pairs) -> str:
    wrong = first.wrong("gdpo", choice.weight, first.broken(choice.weight))
    if wrong is None:
        return "No tie of a right and a wrong answer is broken"
    return "More resolution, not better priorities" if wrong else "More resolution, and no tie broken the wrong way"


def _of_ties(choice: Choice, first: Pairs) -> list[str]:
    among = first.broken(choice.weight)
    order, broken = first.order("grpo", choice.weight), first.order("gdpo", choice.weight, among)
    weights = "equal weights" if choice.weight == 1 else f"correctness at {choice.weight:g}"
    ties = f"{count(order.tied, 'tie')} of a right and a wrong answer that GRPO has with {weights}"
    if not order.tied:
        return [f"With {weights} GRPO ties no right answer with a wrong one.", _all_pairs(first)]
    if not broken.pairs:
        return [f"With {choice.group_size} answers GDPO breaks none of the {ties}.", _all_pairs(first)]
    said = f"GDPO breaks {count(broken.pairs)} of the {ties}. It puts the **wrong answer first in "
    said += f"{percent(broken.wrong / broken.pairs)}** of these."
    least = round_up(first.sufficient_weight("gdpo", among))
    mends = f"A heavier correctness mends that: from **{least}** on, the right answer is first in all of them. "
    return [said, (mends if broken.wrong else "") + _all_pairs(first)]


def _all_pairs(first: Pairs) -> str:
    pairs, (grpo, gdpo) = count(int(first.count.sum())), (first.sufficient_weight(m) for m in ("grpo", "gdpo"))
    if max(grpo, gdpo) < 1:
        return f"Both methods put the right answer first in all {pairs} pairs."
    on = f"from **{round_up(gdpo)}** on under GDPO, **{round_up(grpo)}** under GRPO"
    return f"In all {pairs} pairs the right answer is first {on}."


def round_up(needed: float) -> str:
    """A weight with which the right answer is first, with two decimals: rounded up, so that it is true.

    >>> round_up(1.8091), round_up(2.0), round_up(0.3)
    ('1.81', 'just over 2', '1')
    """
    if needed < 1:
        return "1"
    exact = abs(100 * needed - round(100 * needed)) < 1e-6
    return f"just over {needed:g}" if exact else f"{ceil(100 * needed) / 100:g}"


def between(low: float, high: float) -> str:
    """A range of shares.

    >>> between(0.38, 0.437), between(0.0, 0.0)
    ('38–44 %', '0 %')
    """
    return percent(low) if percent(low) == percent(high) else f"{percent(low).removesuffix(' %')}–{percent(high)}"


def first_rows(choice: Choice, first: Pairs) -> list[dict]:
    """Who comes first: of the broken ties under GDPO, of all pairs under both; a row per part of a bar."""
    broken = first.broken(choice.weight)
    of = [("the {} ties it breaks", "gdpo", broken)] if broken.any() else []
    of += [("all {} pairs", method, None) for method in ("grpo", "gdpo")]
    rows = []
    for what, method, among in of:
        order = first.order(method, choice.weight, among)
        for part in ("right", "tied", "wrong"):
            share = getattr(order, part) / order.pairs
            rows.append({"of": what.format(count(order.pairs)), "method": method, "part": part, "share": share})
    return rows


def bars(choice: Choice, first: Pairs) -> list:
    """A chart of it."""
    return [charts.who_comes_first(first_rows(choice, first))]


def weight_rows(first: Pairs) -> dict[str, dict[str, dict[float, float]]]:
    """The share with the wrong answer first by the weight of correctness: of what, by method."""
    of = {EQUAL: (("gdpo",), first.broken()), "all pairs": (("gdpo", "grpo"), None)}
    return {
        name: {m: first.curve(m, among) for m in methods}
        for name, (methods, among) in of.items()
        if among is None or among.any()
    }


def curves(choice: Choice, first: Pairs) -> list:
    """A chart of each."""
    among = {EQUAL: first.broken()}
    needed = {
        of: {m: first.sufficient_weight(m, among.get(of)) for m in lines} for of, lines in weight_rows(first).items()
    }
    return [
        charts.by_weight(lines, of, choice.weight, {m: round_up(w) for m, w in needed[of].items() if w >= 1})
        for of, lines in weight_rows(first).items()
    ]


def weights_table(first: Pairs) -> Html:
    """The curves as a table."""
    columns = weight_rows(first)
    heads = [f"{m.upper()}, {of}" for of, lines in columns.items() for m in lines]
    lines = [line for by_method in columns.values() for line in by_method.values()]
    return table(["weight", *heads], [[f"{w:g}", *(percent(x[w], 1) for x in lines)] for w in WEIGHTS], "figures")


def section(
    title: str, draw: Callable[[], Html], folds: Mapping[str, Callable[[], Html]], name: str | None = None
) -> Html:
    """What lies further down, computed when the reader comes near: on a phone it waits behind its title.

    name: its id, for links.
    """
    return _html.fold(title, html.lazily(draw), html.element(more(folds)), kind="part", name=name)


def more(folds: Mapping[str, Callable[[], Html]]) -> mo.Html:
    """What is computed when its fold is opened."""
    return mo.accordion({name: html.lazily(draw) for name, draw in folds.items()})


def program(choice: Choice) -> str:
    """A program of at most 15 lines that prints the shares on the screen."""
    return f"""\
import gdpo_core as gc
from gdpo_core.bfcl import prompts

data = prompts.load_once("data/bfcl_rewards.parquet")
choice = prompts.Choice({choice.group_size}, {choice.seed}, {choice.graders!r}, weight={choice.weight:g})
marks = prompts.marks_of(data, choice)  # (prompts, answers, rewards)
for method in ("grpo", "gdpo"):
    c = gc.collapse(marks, method, weights=choice.weights)
    order = c.order()  # of all pairs of a right and a wrong answer
    print(method, f"{{c.groups_with_ties * c.mixed_groups / c.groups:.0%}} of the prompts with a tie;", end=" ")
    print(*(f"{{name}} {{getattr(order, name) / order.pairs:.1%}}" for name in ("right", "tied", "wrong")))
broken = gc.broken_ties(*(gc.collapse(marks, m, weights=choice.weights) for m in ("grpo", "gdpo")))
wrong = int(broken.inverted.sum()) / max(len(broken.lower), 1)
print(len(broken.lower), "broken ties,", f"{{wrong:.0%}} with the wrong answer first")
"""
