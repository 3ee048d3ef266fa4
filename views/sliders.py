"""A table of sliders: one row a thing, its controls side by side."""

from collections.abc import Sequence
from html import escape


def slider_table(titles: Sequence[str], sliders) -> str:
    """HTML table with a row a title; `sliders` holds, row by row, controls that format as HTML.

    >>> slider_table(["A & B"], [["<input>"]])
    '<table class="sliders"><tbody><tr><th>A &amp; B</th><td><input></td></tr></tbody></table>'
    """
    rows = "".join(
        f"<tr><th>{escape(title)}</th>" + "".join(f"<td>{slider}</td>" for slider in row) + "</tr>"
        for title, row in zip(titles, sliders, strict=True)
    )
    return f'<table class="sliders"><tbody>{rows}</tbody></table>'
