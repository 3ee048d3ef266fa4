"""Every chart can be taken away: as PNG and SVG, which the browser draws from what it shows, and as CSV."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path

import polars as pl

from gdpo_core._html import Html, style, tag
from gdpo_core.report import figures
from gdpo_core.report.figures import Figure, Frame
from gdpo_core.runs.run import read_run

Rows = Iterable[Mapping[str, object]]
KINDS = ("png", "svg", "csv")
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")  # what a spreadsheet takes for one
CSS = (Path(__file__).parent / "save.css").read_text(encoding="utf-8")
STYLE = style(CSS)


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


def framed(chart: str, kept: dict[str, Callable[[], str]]) -> Frame:
    """A frame for the figures of a report, with buttons where there are numbers; these go to `kept` as CSV."""
    numbers = count(1)

    def frame(figure: Figure) -> Html:
        if not figure.rows:
            return figures.framed(figure)
        name = f"{chart}-{next(numbers)}"
        kept[name] = lambda: table(figure.rows)
        drawn = figures.content(figure), links(name, figure.title)
        return tag("figure", *drawn, kind=figure.kind, data_picture=name)

    return frame


def table(rows: Rows) -> str:
    """Rows as CSV, numbers with all their digits, nothing for None.

    >>> table([{"a": 0.1 + 0.2, "b": None}])
    'a,b\\n0.30000000000000004,\\n'
    """
    rows = list(rows)
    return _written([rows[0], *(row.values() for row in rows)]) if rows else ""


def written(numbers: pl.DataFrame, kind: str) -> bytes:
    """Numbers as a file of this kind, csv or parquet."""
    if kind == "csv":
        return of_frame(numbers).encode()
    content = io.BytesIO()
    numbers.write_parquet(content)
    return content.getvalue()


def of_log(files: dict, how: dict, kind: str) -> bytes:
    """A log's responses as a file of this kind, csv or parquet."""
    return written(read_run(files, **how).table, kind)


def of_frame(numbers: pl.DataFrame) -> str:
    """A table of numbers as CSV.

    >>> of_frame(pl.DataFrame({"=a": [-1.5]}))
    "'=a\\n-1.5\\n"
    """
    return _written([numbers.columns]) + numbers.write_csv(include_header=False)


def _written(rows: Iterable[Iterable[object]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(map(neutral, rows))
    return written.getvalue()


def neutral(cells: Iterable[object]) -> list[object]:
    """Cells of which a spreadsheet runs none: a text that it would take for a formula gets an apostrophe before it.

    Source: OWASP's "CSV Injection". Numbers stay as they are, signs too.

    >>> neutral(["=1+1", "@SUM(A1)", "-length", "a=b", -1.5, None])
    ["'=1+1", "'@SUM(A1)", "'-length", 'a=b', -1.5, None]
    """
    return [f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell for cell in cells]
