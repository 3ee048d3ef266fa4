"""HTML in which text stays text: functions that make elements, tables, folds and legends, and escape what they contain.

Only a value of the type `Html` is put into an element as it is; anything else is escaped. Outside this file `Html` is
called with literals alone (a test checks that), so that no text of a log becomes markup. The last functions show a
report in a notebook.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from itertools import zip_longest

from markupsafe import Markup as Html

from gdpo_core.shared.words import printable

_EMPTY = frozenset({"br", "circle", "input", "line", "meta", "path", "rect"})  # elements without content


def text(x: object) -> Html:
    """Return anything as HTML: `Html` unchanged, all else as text, escaped and with control characters spelled out.

    If the text begins with a hyphen before a digit, the hyphen becomes a minus sign. The blank between a digit and a
    percent sign becomes a no-break space, which keeps both on one line.

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
    """Return pieces of HTML and text as one piece of HTML; text is escaped.

    >>> join(tag("b", "a"), "<")
    Markup('<b>a</b>&lt;')
    """
    return Html("".join(map(text, content)))


def tag(name: str, /, *content: object, kind: str = "", **attributes: object) -> Html:
    """Return the HTML element `name` with this content; content that is not `Html` is escaped.

    An element that has no content in HTML, such as `br`, drops `content`.

    kind: the CSS class of the element, if any.
    attributes: its other attributes, whose values are escaped. An attribute whose value is None is left out, and `_` in
        the name of an attribute becomes `-`.

    >>> tag("p", "a < b", kind="says", aria_label='"', id=None)
    Markup('<p class="says" aria-label="&quot;">a &lt; b</p>')
    """
    given = {"class": kind or None, **attributes}
    head = name + "".join(
        f' {key.replace("_", "-")}="{escape(printable(value))}"' for key, value in given.items() if value is not None
    )
    return Html(f"<{head}/>" if name in _EMPTY else f"<{head}>{join(*content)}</{name}>")


def style(css: str) -> Html:
    """Return a `style` element with CSS of our own, which is not escaped.

    >>> style("b > i {}")
    Markup('<style>b > i {}</style>')
    """
    return Html(f"<style>{css}</style>")


def script(code: str) -> Html:
    """Return a `script` element with JavaScript of our own, which is not escaped.

    >>> script("1 < 2")
    Markup('<script>1 < 2</script>')
    """
    return tag("script", Html(code))


def data(values: object, name: str) -> Html:
    """Return values as JSON in a `script` element with the id `name`, from which a script of the page reads them.

    "<" is written as an escape, so that no text among the values can end the element.

    >>> data("</script>", "a")
    Markup('<script type="application/json" id="a">"\\\\u003c/script>"</script>')
    """
    written = json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(written), type="application/json", id=name)


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its content and its CSS class."""

    content: object
    kind: str = ""  # the CSS class of the cell


@dataclass(frozen=True)
class Row:
    """A row of a table: its cells and its CSS class."""

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
    """Return an HTML table, in which the first cell of each row is a heading that names the row.

    head: the headings of the columns; if there are none, the table has no head.
    rows: the cells of each row. A cell may be a `Cell`, and a row a `Row`, which gives it a CSS class.
    kind: the CSS class of the table.
    caption: a text above the table.
    over: a second line of headings, above the headings in `head`: for each text, the number of columns that it spans,
        from left to right. The first column is not counted: its own heading is as high as both lines.
    folds: whether each cell but the first of its row carries the heading of its column as the attribute `data-column`,
        so that CSS can put the cells of a row below each other.

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
    """Return the row of headings of a table; a heading without content becomes an ordinary empty cell.

    cells: the headings, of which any may be a `Cell`.
    """
    return tag("tr", *(_cell("th", cell, "col") if _content(cell) != "" else _cell("td", cell) for cell in cells))


def _row(row: Sequence[object] | Row, columns: Sequence[object] = ()) -> Html:
    """Return a row of a table, in which the first cell is a heading.

    columns: the headings of the columns after the first, which the cells then carry as `data-column`.
    """
    first, *cells = row.cells if isinstance(row, Row) else row
    kind = row.kind if isinstance(row, Row) else ""
    named = zip_longest(cells, columns)
    return tag("tr", _cell("th", first, "row"), *(_cell("td", cell, column=name) for cell, name in named), kind=kind)


def _cell(name: str, cell: object, scope: str | None = None, column: object = None) -> Html:
    """Return a cell of a table. Line breaks in a text become <br>, as HTML would show them as blanks.

    name: the tag, th or td.
    cell: the content, or a `Cell`.
    scope: whether a th is the heading of a "row" or a "col"; None for a td.
    column: the heading of the cell's column, which the cell carries as `data-column`; None for no such attribute.
    """
    content = _content(cell)
    if not isinstance(content, Html) and "\n" in str(content):  # HTML would show a line break of a text as a blank
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
    """Return an HTML fold: a title, and below it content that a click on the title shows or hides.

    kind: the CSS class.
    opened: whether the content is shown at first.
    label: the title for screen readers, if it differs from `title`.
    name: the id of the element.

    >>> fold("more", "a < b")
    Markup('<details><summary>more</summary>a &lt; b</details>')
    """
    summary = tag("summary", title, aria_label=label)
    return tag("details", summary, *content, kind=kind, open="" if opened else None, id=name)


def legend(entries: Iterable[tuple[Html, str]], **attributes: object) -> Html:
    """Return a legend: an HTML list in which each mark stands before its meaning.

    attributes: HTML attributes of the list element, written as for `tag`.

    >>> legend([(tag("i", kind="dot"), "passed")])
    Markup('<ul class="key"><li><i class="dot"></i>passed</li></ul>')
    """
    return tag("ul", *(tag("li", mark, name) for mark, name in entries), kind="key", **attributes)


# --- notebooks -------------------------------------------------------------------------------------------------------


@singledispatch
def notebook_html(report: object) -> str:
    """Return the HTML with which a notebook shows a report.

    `gdpo_audit.report` registers a function for each kind of report; any other value raises NotImplementedError.
    """
    raise NotImplementedError


class Displayed:
    """A base class for reports, which Jupyter and marimo then show as the HTML of `notebook_html`."""

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def _mime_(self) -> tuple[str, str]:
        return "text/html", notebook_html(self)
