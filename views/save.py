"""Every chart can be taken away: as PNG and SVG, which the browser draws from what it shows, and as CSV."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from html import unescape

from gdpo_core._html import Html, join, tag

Rows = Iterable[Mapping[str, object]]
KINDS = ("png", "svg", "csv")


def links(chart: str, title: str) -> Html:
    """Three buttons for the picture whose `data-picture` is the chart's name.

    >>> links("lab-bars", "Advantages").count("<button")
    3
    """
    buttons = (
        tag(
            "button",
            kind.upper(),
            type="button",
            data_save=kind,
            aria_label=f"Save the chart “{title}” as {kind.upper()}",
        )
        for kind in KINDS
    )
    return tag("p", *buttons, kind="save", data_chart=chart, data_title=title)


def pictured(chart: str, title: str, drawn: object) -> Html:
    """A chart with its buttons below it.

    >>> pictured("a", "A", "drawn").startswith('<div><div data-picture="a">drawn</div><p')
    True
    """
    return tag("div", tag("div", drawn, data_picture=chart), links(chart, title))


def figures(drawn: Html, chart: str, numbers: Callable[[str], Rows], kept: dict[str, Callable[[], str]]) -> Html:
    """A report with buttons in each figure that holds a chart; `numbers` of a figure's title go to `kept` as CSV.

    >>> kept = {}
    >>> figure = Html("<figure><figcaption><b>A</b></figcaption></figure>")
    >>> figures(figure, "run", lambda title: [{"title": title}], kept).count('data-chart="run-1"'), kept["run-1"]()
    (1, 'title\\nA\\n')
    """
    first, *rest = drawn.split("<figure>")
    made = []
    for n, piece in enumerate(rest, 1):
        inside, _, after = piece.partition("</figure>")
        title = re.search("<figcaption><b>(.*?)</b>", inside)
        name = f"{chart}-{n}"
        if title and 'class="held"' not in inside:
            said = unescape(title[1])
            kept[name] = lambda said=said: table(numbers(said))
            made.append(tag("figure", inside, links(name, said), data_picture=name))
        else:
            made.append(tag("figure", inside))
        made.append(after)
    return join(first, *made)


def table(rows: Rows) -> str:
    """Rows as CSV, numbers with all their digits, nothing for None.

    >>> table([{"a": 0.1 + 0.2, "b": None}])
    'a,b\\n0.30000000000000004,\\n'
    """
    rows = list(rows)
    if not rows:
        return ""
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()
