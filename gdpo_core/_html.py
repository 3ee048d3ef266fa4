"""HTML in which text stays text: what is not `Html` already is escaped when it is put into a tag.

Outside this file `Html` takes literals alone (a test holds that), so that no text of a log becomes markup.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from itertools import zip_longest

from markupsafe import Markup as Html

from gdpo_core._words import printable

_EMPTY = frozenset({"br", "circle", "input", "line", "meta", "path", "rect"})  # elements without content


def text(x: object) -> Html:
    """Return anything as HTML: `Html` unchanged, all else escaped, with unprintable characters spelled out.

    A hyphen before a number becomes a real minus sign, and a percent sign stays on the line of its number.

    >>> text("<b> & 5 %"), text(Html("<b>5 %</b>")), text("-3\\x1b")
    (Markup('&lt;b&gt; &amp; 5\\xa0%'), Markup('<b>5 %</b>'), Markup('−3\\\\x1b'))
    """
    if isinstance(x, Html):
        return x
    raw = printable(x)
    if raw[:1] == "-" and raw[1:2].isdigit():
        raw = f"−{raw[1:]}"
    if " %" in raw:
        raw = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", raw)
    return Html(escape(raw, quote=False))


def prose(sentence: str) -> Html:
    """Return a sentence as HTML, in which text between two `**` is bold.

    >>> prose("**4** of <5>")
    Markup('<b>4</b> of &lt;5&gt;')
    """
    return Html(re.sub(r"(?s)\*\*(.+?)\*\*", r"<b>\1</b>", str(text(sentence))))


def join(*content: object) -> Html:
    """Return these pieces of HTML, one after another, as one.

    >>> join(tag("b", "a"), "<")
    Markup('<b>a</b>&lt;')
    """
    return Html("".join(map(text, content)))


def tag(name: str, /, *content: object, kind: str = "", **attributes: object) -> Html:
    """Return an element of HTML; kind: its class.

    An attribute that is None is left out; `_` in its name stands for `-`.

    >>> tag("p", "a < b", kind="says", aria_label='"', id=None)
    Markup('<p class="says" aria-label="&quot;">a &lt; b</p>')
    """
    given = {"class": kind or None, **attributes}
    head = name + "".join(
        f' {key.replace("_", "-")}="{escape(printable(value))}"' for key, value in given.items() if value is not None
    )
    return Html(f"<{head}/>" if name in _EMPTY else f"<{head}>{join(*content)}</{name}>")


def style(css: str) -> Html:
    """Return a style sheet of our own, unescaped, as an element.

    >>> style("b > i {}")
    Markup('<style>b > i {}</style>')
    """
    return Html(f"<style>{css}</style>")


def script(code: str) -> Html:
    """Return a script of our own, unescaped, as an element.

    >>> script("1 < 2")
    Markup('<script>1 < 2</script>')
    """
    return tag("script", Html(code))


def data(values: object, name: str) -> Html:
    """Return values for a script to read, as JSON in an element with this id, which no text in them can end.

    >>> data("</script>", "a")
    Markup('<script type="application/json" id="a">"\\\\u003c/script>"</script>')
    """
    written = json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(written), type="application/json", id=name)


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its content and its class."""

    content: object
    kind: str = ""  # the class of the cell


@dataclass(frozen=True)
class Row:
    """A row of a table with a class."""

    cells: Sequence[object]
    kind: str


def table(
    head: Sequence[object],
    rows: Iterable[Sequence[object] | Row],
    kind: str = "",
    caption: object = "",
    *,
    over: Mapping[str, int] | None = None,
    folds: bool = False,
) -> Html:
    """Return a table whose first column names the rows. Any cell may be a `Cell`, any row a `Row`.

    over: names above the head, each with the number of columns that it spans, without the first column.
    folds: each cell holds the name of its column, so that CSS can put the cells of a row below each other.

    >>> table(["", "a"], [["b", 1]])
    Markup('<table><thead><tr><td></td><th scope="col">a</th></tr></thead><tbody><tr><th scope="row">b</th><td>1</td></tr></tbody></table>')
    """  # noqa: E501
    content = [tag("caption", caption)] if caption else []
    if over:
        first, *head = head
        spans = (tag("th", name, scope="colgroup", colspan=columns) for name, columns in over.items())
        content.append(tag("thead", tag("tr", tag("th", first, scope="col", rowspan=2), *spans), _head(head)))
    elif head:
        content.append(tag("thead", _head(head)))
    content.append(tag("tbody", *(_row(row, head[1:] if folds else ()) for row in rows)))
    return tag("table", *content, kind=kind)


def _head(cells: Sequence[object]) -> Html:
    """Return the row of a table's head; a cell without content is no heading."""
    return tag("tr", *(_cell("th", cell, "col") if _content(cell) != "" else _cell("td", cell) for cell in cells))


def _row(row: Sequence[object] | Row, columns: Sequence[object] = ()) -> Html:
    """Return a row of a table, whose first cell is its heading; columns: the names that its cells carry."""
    first, *cells = row.cells if isinstance(row, Row) else row
    kind = row.kind if isinstance(row, Row) else ""
    named = zip_longest(cells, columns)
    return tag("tr", _cell("th", first, "row"), *(_cell("td", cell, column=name) for cell, name in named), kind=kind)


def _cell(name: str, cell: object, scope: str | None = None, column: object = None) -> Html:
    """Return a cell of a table, in which line breaks of its text stay line breaks."""
    content = _content(cell)
    if not isinstance(content, Html) and "\n" in str(content):  # line breaks of a text stay line breaks
        content = Html("<br>").join(map(text, str(content).split("\n")))
    return tag(name, content, kind=cell.kind if isinstance(cell, Cell) else "", scope=scope, data_column=column)


def _content(cell: object) -> object:
    """Return the content of a `Cell`, and anything else as it is."""
    return cell.content if isinstance(cell, Cell) else cell


def fold(
    title: object,
    *content: object,
    kind: str = "",
    opened: bool = False,
    label: str | None = None,
    name: str | None = None,
) -> Html:
    """Return content that opens on a click on its title.

    kind: the class; opened: whether it is open to begin with; label: the title for screen readers; name: the id.

    >>> fold("more", "a < b")
    Markup('<details><summary>more</summary>a &lt; b</details>')
    """
    summary = tag("summary", title, aria_label=label)
    return tag("details", summary, *content, kind=kind, open="" if opened else None, id=name)


def legend(entries: Iterable[tuple[Html, str]], **attributes: object) -> Html:
    """Return a legend: a list of marks, each with its meaning; attributes: as for `tag`, of the list.

    >>> legend([(tag("i", kind="dot"), "passed")])
    Markup('<ul class="key"><li><i class="dot"></i>passed</li></ul>')
    """
    return tag("ul", *(tag("li", mark, name) for mark, name in entries), kind="key", **attributes)


# --- notebooks -------------------------------------------------------------------------------------------------------


@singledispatch
def notebook_html(report: object) -> str:
    """Return what a notebook shows of a report, as HTML.

    `gdpo_audit.report` registers a function for each kind of report; any other value raises NotImplementedError.
    """
    raise NotImplementedError


class Displayed:
    """A report that Jupyter and marimo show as HTML."""

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def _mime_(self) -> tuple[str, str]:
        return "text/html", notebook_html(self)
