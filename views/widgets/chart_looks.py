"""Helpers that give all charts the same look: colours, dashes and shapes of methods, fonts, axes and titles. Two more
helpers put data into a chart.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from gdpo_core.shared.theme import LOOKS, THEME_VALUES
from gdpo_core.successors import TITLES as NAMES

GREY = LOOKS["grpo_no_std"]
# Vega's own menu saves a picture; its editor would leave the page.
SAVE = {"export": True, "source": False, "compiled": False, "editor": False}
# Text in a method's colour is mixed with ink until its contrast is 4.5; a saved picture has black text instead.
TEXT = {NAMES[m]: f"color-mix(in oklab, var(--{m.replace('_', '-')}) 64%, currentColor)" for m in LOOKS}


def inline(rows: Sequence[Mapping]) -> alt.InlineData:
    """Return rows as the data of a chart, with floats rounded to four decimals."""
    # They are text, which Altair need not look through, and JSON, because Vega compiles a function to read CSV.
    json = pl.DataFrame(rows).with_columns(pl.selectors.float().round(4)).write_json()
    return alt.InlineData(values=json, format=alt.JsonDataFormat(type="json"))


@dataclass(frozen=True)
class FilledChart:
    """A Vega-Lite specification with its data put in, which marimo shows as a chart.

    The specification is built once and kept, because Altair takes 50 to 100 ms to build a chart.
    """

    spec: dict[str, Any]

    def _mime_(self) -> tuple[str, str]:
        """Return the MIME type of the specification, and the specification as JSON; marimo asks for both."""
        return f"application/vnd.vegalite.{alt.SCHEMA_VERSION.partition('.')[0]}+json", json.dumps(self.spec)


def filled(spec: Mapping[str, Any], description: str, **rows: list[dict]) -> FilledChart:
    """Return a chart of a Vega-Lite specification, with a description and with data.

    spec: the specification, which refers to each table of data by its name.
    description: a text about the chart for screen readers.
    rows: the tables by their names, each a list of rows.
    """
    return FilledChart({**spec, "description": description, "datasets": {**spec.get("datasets", {}), **rows}})


def coloured(labels: alt.Chart, names: Sequence[str], **place: float) -> list[alt.Chart]:
    """Return one layer of text per method, in the colour of that method.

    labels: a chart with the texts of all methods, whose data have the title of the method in the column "method".
    names: titles of methods.
    place: further options of `mark_text`, such as dx.
    """
    return [
        labels.transform_filter(alt.datum.method == name).mark_text(
            align="right", fontSize=13, fontWeight=600, color=TEXT[name], **place
        )
        for name in names
    ]


def encodings(names: Sequence[str], field: str = "method:N") -> tuple[alt.Color, alt.StrokeDash, alt.Shape]:
    """Return a tuple of three encodings, colour, dash and shape, by which a chart tells methods apart.

    names: titles of methods. Any other name gets the grey, the dash and the shape of GRPO without std.
    field: the column with these names, and its type as Altair writes it.
    """
    looks = [LOOKS.get({name: m for m, name in NAMES.items()}.get(name, ""), GREY) for name in names]

    def scale(values: list) -> alt.Scale:
        return alt.Scale(domain=list(names), range=values)

    return (
        alt.Color(field, scale=scale([look.colour for look in looks]), legend=None),
        alt.StrokeDash(field, scale=scale([list(look.dash) for look in looks]), legend=None),
        alt.Shape(field, scale=scale([look.shape for look in looks]), legend=None),
    )


def typed(chart: alt.LayerChart, title: str, description: str) -> alt.LayerChart:
    """Return the chart with this title and this description, in the looks of the page.

    It is as wide as its container and 210 px high, has the page's font and no grid, and its menu only saves a picture.
    """
    meta = {"embedOptions": {"actions": SAVE, "renderer": "svg", "ast": True}}
    return (
        chart.properties(width="container", height=210, title=title, description=description, usermeta=meta)
        .configure(background="transparent", font=THEME_VALUES["sans"])
        .configure_axis(
            grid=False, labelFontSize=12, titleFontSize=12, titleFontWeight="normal", domainOpacity=0.4, tickOpacity=0.4
        )
        .configure_title(fontSize=14, fontWeight=600, anchor="start", offset=12)
        .configure_view(strokeOpacity=0)
    )
