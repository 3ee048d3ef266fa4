"""The one HTML layer of the page: what a cell shows, verdicts, bars, folds, controls, and what waits to be seen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import marimo as mo

from gdpo_core import _html
from gdpo_core._html import Cell, Html, Row, join, line, prose, table, tag, text
from gdpo_core._theme import METHODS, Look

ROOT = Path(__file__).resolve().parent.parent
__all__ = [
    "Cell",
    "Html",
    "Row",
    "bold",
    "charts",
    "controls",
    "element",
    "fold",
    "framed",
    "join",
    "lazily",
    "legend",
    "meter",
    "methods",
    "paragraphs",
    "prose",
    "reason",
    "says",
    "show",
    "sliders",
    "small",
    "table",
    "tag",
    "text",
    "thin",
    "when_seen",
]


def element(x: object) -> Html:
    """A control, a chart or anything else that marimo draws, as HTML; text is escaped.

    >>> element(mo.Html("<i>a</i>")), element("a < b")
    (Markup('<i>a</i>'), Markup('a &lt; b'))
    """
    return text(x) if isinstance(x, str) else Html(format(mo.as_html(x)))


def show(*parts: object) -> mo.Html:
    """What a cell shows: pieces of HTML one after another.

    >>> show(tag("b", "a"), "<").text
    '<b>a</b>&lt;'
    """
    return mo.Html(str(join(*map(element, parts))))


def reason(error: Exception) -> str:
    """What an error says, with our files named from the project's folder on: where that lies is the server's matter.

    >>> reason(ValueError(f"{ROOT}/data/tasks: expected a task"))
    'data/tasks: expected a task'
    """
    return str(error).replace(f"{ROOT}/", "")


def bold(x: object) -> Html:
    """What stands out."""
    return tag("b", x)


def small(*content: object) -> Html:
    """A note below a number."""
    return tag("small", *content)


def paragraphs(*said: str) -> Html:
    """Sentences as paragraphs, in which what stands between two `**` is bold; an empty one is left out.

    >>> paragraphs("**4** of 5", "")
    Markup('<p><b>4</b> of 5</p>')
    """
    return join(*(tag("p", prose(one)) for one in said if one))


def says(*said: str) -> Html:
    """A verdict, a paragraph each.

    >>> says("a < b")
    Markup('<div class="says"><p>a &lt; b</p></div>')
    """
    return tag("div", paragraphs(*said), kind="says")


def fold(title: object, *content: object) -> Html:
    """What opens on a click."""
    return _html.fold(title, tag("div", *content), kind="fold")


def meter(share: float, bar: str = "", kind: str = "meter") -> Html:
    """A bar that is as long as the share; bar and kind: classes of the bar and of its track.

    >>> meter(0.25)
    Markup('<span class="meter"><i style="width:25.0%"></i></span>')
    """
    return tag("span", tag("i", kind=bar, style=f"width:{100 * share:.1f}%"), kind=kind)


def legend(entries: Iterable[tuple[Html, str]], **attributes: object) -> Html:
    """What each mark stands for."""
    return _html.legend(entries, **attributes)


def methods(names: Mapping[str, str], shaped: bool = False) -> list[tuple[Html, str]]:
    """Entries of a legend: the methods by colour and dash, shaped: also by marker."""
    return [(line(METHODS[method], 2 if shaped else 3, shaped), name) for method, name in names.items()]


def thin(look: Look, name: str) -> tuple[Html, str]:
    """An entry of a legend: a thin line."""
    return line(look, 1.25), name


def controls(elements: Iterable[object], caption: str = "") -> Html:
    """A grid of controls, with what they have in common above them."""
    above = tag("p", caption, kind="asked") if caption else ""
    return join(above, tag("div", *(tag("div", element(one)) for one in elements), kind="controls"))


def sliders(titles: Sequence[str], rows: Iterable[Iterable[object]]) -> Html:
    """A table of controls, a row per title.

    >>> sliders(["A & B"], [[mo.Html("<input>")]])
    Markup('<table class="sliders"><tbody><tr><th scope="row">A &amp; B</th><td><input></td></tr></tbody></table>')
    """
    return table([], [[title, *map(element, row)] for title, row in zip(titles, rows, strict=True)], "sliders")


def charts(drawn: Iterable[object], kind: str = "") -> Html:
    """Charts side by side, or below each other where there is no room."""
    return tag("div", *(tag("div", element(chart)) for chart in drawn), kind=f"charts {kind}".strip())


def framed(kind: str, *parts: object, **attributes: object) -> Html:
    """Parts of the page in a frame of that class."""
    return tag("div", *map(element, parts), kind=kind, **attributes)


def lazily(draw: Callable[[], Html], busy: bool = False) -> Html:
    """What is drawn once the reader comes near; busy: with a sign while it is computed."""
    return element(mo.lazy(lambda: show(draw()), show_loading_indicator=busy))


def when_seen(kind: str, draw: Callable[[], Html], busy: bool = False) -> Html:
    """The same in a frame whose class keeps room for it."""
    return tag("div", lazily(draw, busy), kind=kind)
