"""The order of a right and a wrong answer to one prompt: which of the two gets the larger advantage, and how this
depends on the weight of correctness.

Where a function here takes `first`, it is all pairs of a right and a wrong answer to one prompt.
"""

from math import ceil

from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import count, listing, percent
from gdpo_core.ties import Order
from views.bfcl.prompts import TABLE_WEIGHTS, Choice, Pairs
from views.widgets import charts, html
from views.widgets.html import Html, join, paragraphs, table, tag

_BROKEN = "broken right–wrong ties"  # at equal weights
ALL = "all right–wrong pairs"


def weights_said(choice: Choice) -> str:
    """Return words for the weights of a choice, to stand after the word "with" in a sentence."""
    return "equal weights" if choice.weight == 1 else f"correctness weighing {choice.weight:g}"


def ties_and_pairs(choice: Choice, first: Pairs) -> str:
    """Return sentences on the pairs of a right and a wrong answer. They say how many of GRPO's ties GDPO breaks, and
    how many pairs each method has in the wrong order.

    choice: holds the weight of correctness.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    grpo, gdpo = (first.order(m, choice.weight) for m in ("grpo", "gdpo"))
    if not grpo.pairs:
        return "In no prompt is there both a right and a wrong answer."
    every = count(grpo.pairs, "pair")
    pairs = (
        f"Of {every} of a right and a wrong answer **{count(gdpo.wrong)} {_stand(gdpo.wrong)} in the wrong order under "
        f"GDPO, {count(grpo.wrong)} under GRPO**."
    )
    return f"{_ties_said(choice, first)} {pairs}"


def _stand(n: int) -> str:
    return "stands" if n == 1 else "stand"


def _ties_said(choice: Choice, first: Pairs) -> str:
    """Return one or two sentences on the ties of a right and a wrong answer. They say how many of these ties GRPO has,
    how many GDPO breaks, and how many broken ties end in the wrong order.

    choice: holds the weight of correctness.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    tied = first.order("grpo", choice.weight).tied
    broken = first.order("gdpo", choice.weight, first.broken(choice.weight))
    if not tied:
        return "GRPO ties no right answer with a wrong one, so there is no tie to break."
    if not broken.pairs:
        kept = "keeps the only tie" if tied == 1 else f"keeps all {count(tied)} ties"
        return f"GDPO {kept} of a right and a wrong answer that GRPO has."
    has = f"GRPO ties a right answer with a wrong one in {count(tied, 'pair')}."
    whole = "this tie" if tied == 1 else f"all {count(tied)} ties"
    some = whole if broken.pairs == tied else f"{count(broken.pairs)} of these ties"
    return f"{has} GDPO breaks {some}, {_end(broken)}."


def _end(broken: Order) -> str:
    """Return the end of a sentence, without its comma and full stop, on how many broken ties end in the wrong order.

    broken: the counts of the ties that GDPO breaks, at least one.
    """
    wrong, pairs = broken.wrong, broken.pairs
    if not wrong:
        return "and none in the wrong order" if pairs > 1 else "and not in the wrong order"
    if wrong == pairs:
        return "and all of them in the wrong order" if pairs > 1 else "and in the wrong order"
    return f"{percent(wrong / pairs)} of them in the wrong order"


def title(first: Pairs) -> str:
    """Return the title of the fold. It names the weight of correctness above which the right answer comes first in
    every pair, for GRPO and for GDPO.

    If no prompt has a right and a wrong answer, the title says so.

    first: all pairs of a right and a wrong answer to one prompt.
    """
    asked = "Which answer comes first?"
    if not first.count.sum():
        return f"{asked} In no prompt is there both a right and a wrong answer"
    needed = {NAMES[m]: first.sufficient_weight(m) for m in ("grpo", "gdpo")}
    if max(needed.values()) < 1:
        return f"{asked} The right one in every pair, at every weight of correctness from 1 on"
    above = " and ".join(f"{up(max(1.0, w))} under {name}" for name, w in needed.items())
    return f"{asked} The right one in every pair, once correctness weighs more than {above}"


def section(choice: Choice, first: Pairs) -> Html:
    """Return the sentences of `enough`, and below them charts of which answer gets the larger advantage.

    The first chart counts the pairs by their order at the weight of correctness in `choice`. The other charts draw the
    share of pairs in the wrong order over the weight of correctness.

    choice: holds the weight of correctness.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    drawn = [charts.who_comes_first(first_rows(choice, first)), *_curves(choice, first)]
    return join(tag("div", paragraphs(enough(choice, first)), kind="says"), html.charts(drawn, "small"))


def enough(choice: Choice, first: Pairs) -> str:
    """Return sentences on the weight of correctness above which no pair is in the wrong order; "" if there are no
    pairs.

    choice: holds the weight of correctness at which ties count as broken by GDPO.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    pairs = int(first.count.sum())
    if not pairs:
        return ""
    grpo, gdpo = (first.sufficient_weight(m) for m in ("grpo", "gdpo"))
    broken = first.broken(choice.weight)
    wrong = first.order("gdpo", choice.weight, broken).wrong
    all_pairs = f"all {count(pairs)} right–wrong pairs" if pairs > 1 else "the only right–wrong pair"
    if max(grpo, gdpo) < 1:
        return (
            f"In {all_pairs} the right answer gets the larger advantage under both methods, at every weight from 1 on."
        )
    sentence = "With enough weight on correctness the right answer always gets the larger advantage."
    if wrong:
        these = "right–wrong tie" if first.order("gdpo", choice.weight, broken).pairs == 1 else "right–wrong ties"
        above = up(first.sufficient_weight("gdpo", broken))
        sentence += f" For the {these} that GDPO breaks, the weight has to be above {above}."
    return f"{sentence} For {all_pairs}, {_enough_for_all({'GDPO': gdpo, 'GRPO': grpo})}."


def _enough_for_all(needed: dict[str, float]) -> str:
    """Return the end of a sentence: for each method, the weight of correctness above which all pairs are in the right
    order.

    needed: that weight by the method's title. The largest of these weights is at least 1.
    """
    above = listing(f"above {up(weight)} under {name}" for name, weight in needed.items() if weight >= 1)
    always = "".join(f"; under {name} every weight from 1 on is enough" for name, w in needed.items() if w < 1)
    return f"the weight has to be {above}{always}"


def up(needed: float) -> str:
    """Return a weight as text, rounded up to two decimals, so that every weight above the text is enough too.

    >>> up(1.8091), up(2.0), up(3.1333978)
    ('1.81', '2', '3.14')
    """
    return f"{ceil(100 * needed - 1e-6) / 100:g}"


def first_rows(choice: Choice, first: Pairs) -> list[dict]:
    """Return the rows for `charts.who_comes_first`, which draws bars that are divided into pieces. A row is a dict for
    one piece.

    "of" is words for the pairs that the bar counts. "method" is the id of a method. "order" is "right", "tied" or
    "wrong", and "share" is the share of the bar's pairs that the method orders so. If GDPO breaks ties of GRPO, the
    first bar counts these ties. Then come a bar for GRPO and one for GDPO, of all pairs. They are left out if there is
    no pair.

    choice: holds the weight of correctness at which pairs are ordered.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    broken = first.broken(choice.weight)
    bars = [("the {} that it breaks", "right–wrong tie", "gdpo", broken)] if broken.any() else []
    bars += [("all {}", "right–wrong pair", method, None) for method in ("grpo", "gdpo") if len(first.count)]
    rows = []
    for what, noun, method, among in bars:
        counts = first.order(method, choice.weight, among)
        for order in ("right", "tied", "wrong"):
            share = getattr(counts, order) / counts.pairs
            rows.append(
                {"of": what.format(count(counts.pairs, noun)), "method": method, "order": order, "share": share}
            )
    return rows


def weight_rows(first: Pairs) -> dict[str, dict[str, dict[float, float]]]:
    """Return the share of pairs in the wrong order, by the kind of pair, then by method, then by the weight of
    correctness.

    The kinds of pairs are two keys. _BROKEN has the pairs that GRPO ties and GDPO does not at equal weights, with
    GDPO's shares alone. It is left out if it has no pair. ALL has all pairs, with the shares of GDPO and of GRPO.

    first: all pairs of a right and a wrong answer to one prompt.
    """
    drawn = {_BROKEN: (("gdpo",), first.broken()), ALL: (("gdpo", "grpo"), None)}
    return {
        name: {m: first.curve(m, among) for m in methods}
        for name, (methods, among) in drawn.items()
        if among is None or among.any()
    }


def _curves(choice: Choice, first: Pairs) -> list:
    """Return a chart for each kind of pair in `weight_rows`, of the share of pairs in the wrong order over the weight
    of correctness.

    The first chart counts the ties that GDPO breaks at equal weights; it is left out if there are none. The last chart
    counts all pairs.

    choice: holds the weight of correctness that is marked in the charts.
    first: all pairs of a right and a wrong answer to one prompt.
    """
    among = {_BROKEN: first.broken()}
    needed = {
        counted: {m: first.sufficient_weight(m, among.get(counted)) for m in lines}
        for counted, lines in weight_rows(first).items()
    }
    return [
        charts.by_weight(lines, counted, choice.weight, {m: up(w) for m, w in needed[counted].items() if w >= 1})
        for counted, lines in weight_rows(first).items()
    ]


def weights_table(first: Pairs) -> Html:
    """Return a table of the share of pairs in the wrong order, by the weight of correctness.

    There is a row for each weight of TABLE_WEIGHTS. There is a column for each kind of pair in `weight_rows` and each
    method that has shares of that kind.

    first: all pairs of a right and a wrong answer to one prompt.
    """
    columns = weight_rows(first)
    heads = [f"{m.upper()}, {counted}" for counted, lines in columns.items() for m in lines]
    lines = [line for by_method in columns.values() for line in by_method.values()]
    return table(["weight", *heads], [[f"{w:g}", *(percent(x[w], 1) for x in lines)] for w in TABLE_WEIGHTS], "figures")
