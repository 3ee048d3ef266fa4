"""Every chart can be taken away: as PNG and SVG, which the browser draws from what it shows, and as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping

from gdpo_core._html import Html, tag
from views.html import each_figure

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
    """A report with buttons in each figure that holds a chart; `numbers` of a figure's title go to `kept` as CSV."""

    def with_links(n: int, title: str, content: Html) -> Html:
        name = f"{chart}-{n}"
        kept[name] = lambda: table(numbers(title))
        return tag("figure", content, links(name, title), data_picture=name)

    return each_figure(drawn, with_links)


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
