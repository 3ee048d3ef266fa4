"""The idea of GDPO in plain words: books rated on unequal scales, which GRPO and GDPO put in order."""

import json
from collections.abc import Sequence
from pathlib import Path

import marimo as mo

import gdpo_core as gc
from gdpo_core.shared.markup import Html, join, prose, table, tag
from gdpo_core.shared.words import listing, signed, word
from views.widgets.html import element
from views.widgets.nav import Nav

_FILE = Path(__file__).resolve().parents[3] / "data" / "books.json"


_DATA = json.loads(_FILE.read_text(encoding="utf-8"))
_SCALES: dict[str, list[int]] = _DATA["scales"]  # the lowest and highest rating, by what is rated
_TITLES = [book["title"] for book in _DATA["books"]]
RATINGS = tuple(float(rating) for book in _DATA["books"] for rating in book["ratings"])
_RULES = {"grpo": "GRPO: add the ratings", "gdpo": "GDPO: normalise, then add"}


def sliders(page: Nav) -> mo.ui.array:
    """Return a slider per rating, one book after another.

    A slider stands at the rating in the address, rounded and brought onto its scale, or at the shipped rating if the
    address has no ratings.
    """
    ratings = page.restore("lab-books", default=RATINGS, many=len(RATINGS))
    named = [(f"{title}: {name}", *bounds) for title in _TITLES for name, bounds in _SCALES.items()]
    return mo.ui.array(
        [
            mo.ui.slider(
                low, high, value=min(max(round(x), low), high), show_value=True, label=tag("span", name, kind="unseen")
            )
            for (name, low, high), x in zip(named, ratings, strict=True)
        ]
    )


def shelf(sliders: Sequence[object]) -> Html:
    """Return a paragraph on the books, and below it a table of sliders with a row per book and a column per rating.

    The books stand for answers, and their ratings for rewards.

    sliders: one per rating, first all of the first book.
    """
    scales = listing([f"{name} from {low} to {high}" for name, (low, high) in _SCALES.items()])
    sentence = (
        f"Each of these {word(len(_TITLES))} books is an answer, and its ratings are the rewards: {scales}. GRPO adds "
        "the ratings as they are, so a rating on a wide scale counts for more. GDPO first brings all scales to one "
        "spread. **Move a rating.**"
    )
    rows = [
        [title, *(element(sliders[len(_SCALES) * i + k]) for k in range(len(_SCALES)))]
        for i, title in enumerate(_TITLES)
    ]
    return tag("div", tag("p", prose(sentence)), table(["", *_SCALES], rows, "sliders"), kind="opened")


def ranking(ratings: Sequence[float]) -> Html:
    """Return the order of the books under GRPO beside the order under GDPO, below a sentence on which books each method
    puts first.

    ratings: the ratings of all books, one book after another.
    """
    rows = [list(ratings[i : i + len(_SCALES)]) for i in range(0, len(ratings), len(_SCALES))]
    collapses = {method: gc.collapse(rows, method) for method in _RULES}
    columns = (
        tag("section", tag("h3", name), _list(rows, method, collapses[method]), kind=method)
        for method, name in _RULES.items()
    )
    return tag("div", tag("p", prose(_verdict(collapses))), tag("div", *columns, kind="ranking"), kind="opened")


def _verdict(collapses: dict[str, gc.Collapse]) -> str:
    """Return a sentence on which books GRPO puts first, and which books GDPO puts first.

    collapses: by method, the `Collapse` of the books' ratings; GRPO has to come before GDPO.
    """
    levels = [collapse.level.tolist() for collapse in collapses.values()]
    grpo, gdpo = ([t for t, n in zip(_TITLES, level, strict=True) if n == max(level)] for level in levels)
    if grpo != gdpo:
        return f"GRPO {_puts_first(grpo)}, and GDPO {_puts_first(gdpo)}."
    if grpo == _TITLES:
        return "Both methods give all books the same advantage."
    return f"Both methods put {listing(f'**{title}**' for title in grpo)} first."


def _puts_first(titles: list[str]) -> str:
    """Return words to follow a method's name: that it puts these books first, or that it ties all books.

    titles: the books with the method's largest advantage, which may be all of them.
    """
    if titles == _TITLES:
        return f"ties all {word(len(_TITLES))} books"
    return f"puts {listing(f'**{title}**' for title in titles)} first"


def _list(rows: list[list[float]], method: str, collapse: gc.Collapse) -> Html:
    """Return the books as a list in a method's order, each with its place and its advantage. Books with the same
    advantage share a place. A book has the mark "= tie" if a book with other ratings has the same advantage.

    rows: (books, ratings).
    collapse: the method's levels of advantage for these ratings, as `gc.collapse` returns them.
    """
    advantages, level = gc.advantages(rows, method).tolist(), collapse.level.tolist()
    order = sorted(range(len(rows)), key=lambda i: (-level[i], i))
    lines = []
    for i in order:
        place = 1 + sum(higher > level[i] for higher in level)
        tied = any(level[j] == level[i] and rows[j] != rows[i] for j in order)
        title = join(_TITLES[i], " ", tag("b", "= tie", kind="tie")) if tied else _TITLES[i]
        lines.append(
            tag("li", tag("b", place), " ", title, tag("span", signed(advantages[i])), kind="tied" if tied else "")
        )
    return tag("ol", *lines)
