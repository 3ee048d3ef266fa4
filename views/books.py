"""The same in plain words: books rated on unequal scales, which GRPO and GDPO put in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gdpo_core as gc
from gdpo_core._html import Html, join, prose, table, tag
from gdpo_core._json import read_json
from gdpo_core._words import listing, percent, signed

FILE = Path(__file__).parent.parent / "data" / "books.json"


@dataclass(frozen=True)
class Book:
    """A book and its ratings, one per scale."""

    title: str
    ratings: tuple[float, ...]


@dataclass(frozen=True)
class Books:
    """The shipped books; scales: the lowest and highest rating, by what is rated."""

    scales: dict[str, tuple[int, int]]
    books: tuple[Book, ...]


try:
    _DATA = read_json(FILE, Books)
except gc.InputError:  # a fold less, and the page works
    _DATA = Books({}, ())
SCALES = _DATA.scales
TITLES = [book.title for book in _DATA.books]
RATINGS = tuple(rating for book in _DATA.books for rating in book.ratings)
METHODS = {"grpo": "GRPO: add the ratings", "gdpo": "GDPO: normalise, then add"}


def checked(ratings: Sequence[float]) -> tuple[float, ...]:
    """Ratings book by book, brought onto their scales; ValueError where there are too few or too many."""
    if len(ratings) != len(RATINGS):
        raise ValueError(f"{len(RATINGS)} ratings, got {len(ratings)}")
    bounds = list(SCALES.values()) * len(TITLES)
    return tuple(float(min(max(round(float(x)), low), high)) for x, (low, high) in zip(ratings, bounds, strict=True))


def shelf(ratings: Sequence[float]) -> Html:
    """HTML of the fold: what is shown, a slider per rating, and both rankings."""
    if not TITLES:
        return tag("p", f"data/{FILE.name} is missing or has changed: expected scales and rated books.")
    scales = listing([f"{name} from {low} to {high}" for name, (low, high) in SCALES.items()])
    opening = (
        f"Five books are an answer each, their ratings the rewards: {scales}. A wide scale speaks louder: GRPO adds "
        "the ratings as they are, GDPO makes each rating count alike first."
    )
    rows = [
        [title, *(_slider(title, k, ratings[len(SCALES) * i + k]) for k in range(len(SCALES)))]
        for i, title in enumerate(TITLES)
    ]
    return tag(
        "div",
        tag("p", opening),
        table(["", *SCALES], rows, "sliders"),
        tag("div", ranking(ratings), kind="rankings"),
        kind="books",
    )


def _slider(title: str, k: int, value: float) -> Html:
    name, (low, high) = list(SCALES.items())[k]
    slider = tag("input", type="range", min=low, max=high, step=1, value=int(value), aria_label=f"{title}: {name}")
    return tag("span", slider, tag("output", int(value)), kind="slide")


def ranking(ratings: Sequence[float]) -> Html:
    """HTML of both rankings side by side, and of whose ratings decide."""
    rows = [list(ratings[i : i + len(SCALES)]) for i in range(0, len(ratings), len(SCALES))]
    collapses = {method: gc.collapse(rows, method) for method in METHODS}
    columns = (
        tag("section", tag("h3", name), _list(rows, method, collapses[method]), kind=method)
        for method, name in METHODS.items()
    )
    return join(tag("p", prose(_said(collapses)), kind="said"), tag("div", *columns, kind="ranking"))


def _said(collapses: dict[str, gc.Collapse]) -> str:
    firsts = {
        m: [t for t, level in zip(TITLES, c.level.tolist(), strict=True) if level == max(c.level.tolist())]
        for m, c in collapses.items()
    }
    if all(len(first) == len(TITLES) for first in firsts.values()):
        return "All books are rated alike: neither method puts one before another."
    shares = {m: list(c.update_share) for m, c in collapses.items()}
    names = list(SCALES)
    largest = [
        f"{names[s.index(max(s))]} makes {percent(max(s))} of the difference under {m.upper()}"
        for m, s in shares.items()
        if all(x == x for x in s)
    ]
    best = " and ".join(f"**{title}**" for title in firsts["grpo"])
    if firsts["grpo"] == firsts["gdpo"]:
        first = f"Both put {best} first."
    else:
        first = f"GRPO puts {best} first, GDPO {' and '.join(f'**{title}**' for title in firsts['gdpo'])}."
    against = " More than 100 %: the other ratings pull against it." if any(max(s) > 1 for s in shares.values()) else ""
    return f"{first} {_sentence(listing(largest))}{against}" if largest else first


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


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
