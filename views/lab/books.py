"""The same in plain words: books rated on unequal scales, which GRPO and GDPO put in order."""

import json
from collections.abc import Sequence
from pathlib import Path

import marimo as mo

import gdpo_core as gc
from gdpo_core._html import Html, join, prose, table, tag
from gdpo_core._words import listing, signed, word
from views.html import element
from views.nav import Nav

FILE = Path(__file__).resolve().parents[2] / "data" / "books.json"


_DATA = json.loads(FILE.read_text(encoding="utf-8"))
SCALES: dict[str, list[int]] = _DATA["scales"]  # the lowest and highest rating, by what is rated
TITLES = [book["title"] for book in _DATA["books"]]
RATINGS = tuple(float(rating) for book in _DATA["books"] for rating in book["ratings"])
METHODS = {"grpo": "GRPO: add the ratings", "gdpo": "GDPO: normalise, then add"}


def sliders(page: Nav) -> mo.ui.array:
    """A slider per rating, which stands as the address says, as shipped where that does not fit."""
    ratings = page.given("lab-books", default=RATINGS, many=len(RATINGS))
    named = [(f"{title}: {name}", *bounds) for title in TITLES for name, bounds in SCALES.items()]
    return mo.ui.array(
        [
            mo.ui.slider(
                low, high, value=min(max(round(x), low), high), show_value=True, label=tag("span", name, kind="unseen")
            )
            for (name, low, high), x in zip(named, ratings, strict=True)
        ]
    )


def shelf(sliders: Sequence[object]) -> Html:
    """HTML: what is shown, and a slider per rating, in a table of books."""
    scales = listing([f"{name} from {low} to {high}" for name, (low, high) in SCALES.items()])
    said = (
        f"{word(len(TITLES)).capitalize()} books are an answer each, their ratings the rewards: {scales}. A wide scale "
        "speaks louder: GRPO adds the ratings as they are, GDPO makes each scale count alike first. "
        "**Move a rating.**"
    )
    rows = [
        [title, *(element(sliders[len(SCALES) * i + k]) for k in range(len(SCALES)))] for i, title in enumerate(TITLES)
    ]
    return tag("div", tag("p", prose(said)), table(["", *SCALES], rows, "sliders"), kind="opened")


def ranking(ratings: Sequence[float]) -> Html:
    """HTML of both rankings side by side."""
    rows = [list(ratings[i : i + len(SCALES)]) for i in range(0, len(ratings), len(SCALES))]
    collapses = {method: gc.collapse(rows, method) for method in METHODS}
    columns = (
        tag("section", tag("h3", name), _list(rows, method, collapses[method]), kind=method)
        for method, name in METHODS.items()
    )
    return tag("div", tag("p", prose(_verdict(collapses))), tag("div", *columns, kind="ranking"), kind="opened")


def _verdict(collapses: dict[str, gc.Collapse]) -> str:
    firsts = {
        m: [t for t, level in zip(TITLES, c.level.tolist(), strict=True) if level == max(c.level.tolist())]
        for m, c in collapses.items()
    }
    if all(len(first) == len(TITLES) for first in firsts.values()):
        return "All books are rated alike: neither method puts one before another."
    grpo, gdpo = (" and ".join(f"**{title}**" for title in first) for first in firsts.values())
    return f"Both put {grpo} first." if grpo == gdpo else f"GRPO puts {grpo} first, GDPO {gdpo}."


def _list(rows: list[list[float]], method: str, collapse: gc.Collapse) -> Html:
    advantages, level = gc.advantages(rows, method).tolist(), collapse.level.tolist()
    order = sorted(range(len(rows)), key=lambda i: (-level[i], i))
    lines = []
    for i in order:
        place = 1 + sum(other > level[i] for other in level)
        tied = any(level[j] == level[i] and rows[j] != rows[i] for j in order)
        title = join(TITLES[i], " ", tag("b", "= tie", kind="tie")) if tied else TITLES[i]
        lines.append(
            tag("li", tag("b", place), " ", title, tag("span", signed(advantages[i])), kind="tied" if tied else "")
        )
    return tag("ol", *lines)
