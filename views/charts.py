"""The charts: the only importer of Altair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from gdpo_core._theme import GRID, METHODS
from gdpo_core._words import percent
from views.text import NAMES

LOOKS = {NAMES[method]: look for method, look in METHODS.items()}
GRID_LINES = {"gridColor": GRID, "gridOpacity": 0.3}  # faint on white and on near-black


def ties_by_size(shares: Mapping[int, Mapping[str, float]], title: str, top: float) -> alt.Chart:
    """A line per method: the share of what the title names, from 0 to `top`, by group size."""
    rows = [{"size": s, "method": NAMES[m], "share": x} for s, row in shares.items() for m, x in row.items()]
    names, sizes = [NAMES[m] for m in next(iter(shares.values()))], list(shares)
    last = ", ".join(f"{NAMES[m]} {percent(x, 1)}" for m, x in shares[sizes[-1]].items())
    said = f"Share of {title} for groups of {sizes[0]} to {sizes[-1]} answers; with {sizes[-1]}: {last}."
    x = alt.X(
        "size:Q",
        title="answers in a group",
        scale=alt.Scale(type="log", base=2, domain=[sizes[0], sizes[-1]]),
        axis=alt.Axis(values=[s for s in sizes if s in (2, 4, 8, 16, 32, sizes[-1])]),
    )
    chart = alt.Chart(_inline(rows)).mark_line(strokeWidth=2.5, clip=True)
    return _lone(chart.encode(x, _share(top), *_of_method(names)), title, said)


def wrong_first(shares: Mapping[float, float]) -> alt.Chart:
    """GDPO's line: the share of broken ties with the wrong answer first, by the weight on correctness."""
    rows = [{"weight": w, "method": NAMES["gdpo"], "share": x} for w, x in shares.items()]
    weights, title = list(shares), "broken ties with the wrong answer first"
    said = f"Share of {title} under GDPO: {percent(shares[weights[0]])} at weight {weights[0]:g}, then falling."
    scale = alt.Scale(domain=[weights[0], weights[-1]])
    x = alt.X("weight:Q", title="weight on correctness", scale=scale, axis=alt.Axis(tickCount=4))
    chart = alt.Chart(_inline(rows)).mark_line(strokeWidth=2.5)
    return _lone(chart.encode(x, _share(1.0), *_of_method([NAMES["gdpo"]])), title, said)


def _share(top: float) -> alt.Y:
    return alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(format="%", tickCount=4))


def _of_method(names: Sequence[str]) -> tuple[alt.Color, alt.StrokeDash]:
    """A method's colour and its dash."""
    color = alt.Scale(domain=names, range=[LOOKS[n].colour for n in names])
    dash = alt.Scale(domain=names, range=[list(LOOKS[n].dash) for n in names])
    return alt.Color("method:N", scale=color, legend=None), alt.StrokeDash("method:N", scale=dash, legend=None)


def _inline(rows: Sequence[Mapping]) -> alt.InlineData:
    csv = pl.DataFrame(rows).write_csv(float_precision=4)
    return alt.InlineData(values=csv, format=alt.CsvDataFormat(type="csv"))


def _lone(chart: alt.Chart, title: str, description: str) -> alt.Chart:
    return (
        chart.properties(width="container", height=200, title=title, description=description)
        .properties(usermeta={"embedOptions": {"actions": False}})
        .configure(background="transparent")
        .configure_axis(**GRID_LINES)
        .configure_view(strokeOpacity=0)
    )


@dataclass(frozen=True)
class Growth:
    """How many advantage vectors each method has while one size grows."""

    found: Mapping[int, Mapping[str, int]]  # by the size that grows
    title: str
    grows: str
    paper: int  # the size at which the paper's figure ends
    top: int  # of the axis


def counts(growth: Growth, log: bool) -> alt.LayerChart:
    """A line with markers per method, and an upright one where the paper's figure ends."""
    rows = [{"size": n, "method": NAMES[m], "count": c} for n, row in growth.found.items() for m, c in row.items()]
    names, sizes = list(NAMES.values()), list(growth.found)
    last = ", ".join(f"{NAMES[m]} {c}" for m, c in growth.found[sizes[-1]].items())
    said = f"Different advantage vectors, {growth.title}; at {sizes[-1]} {growth.grows}: {last}."
    said += f" The paper's figure ends at {growth.paper}."
    x = alt.X(
        "size:Q",
        title=f"{growth.grows} (line: paper's figure ends)",
        scale=alt.Scale(domain=[sizes[0], sizes[-1]]),
        axis=alt.Axis(tickMinStep=1, format="d", grid=False),
    )
    scale = alt.Scale(type="log", domain=[1, growth.top]) if log else alt.Scale(domain=[0, growth.top])
    ticks = {"values": [1, 10, 100, 1000]} if log else {"tickCount": 5}
    y = alt.Y("count:Q", title=None, scale=scale, axis=alt.Axis(format=",d", **ticks))
    color, dash = _of_method(names)
    shape = alt.Shape("method:N", scale=alt.Scale(domain=names, range=[LOOKS[n].shape for n in names]), legend=None)
    told = [alt.Tooltip("method:N"), alt.Tooltip("size:Q", title=growth.grows), alt.Tooltip("count:Q", format=",d")]
    base = alt.Chart(_inline(rows)).encode(x, y, color)
    end = alt.Chart(_inline([{"size": growth.paper}])).mark_rule(color=GRID, strokeWidth=1.5).encode(x)
    line = base.mark_line(strokeWidth=2).encode(dash)
    points = base.mark_point(filled=True, size=45, opacity=1).encode(shape, tooltip=told)
    return _lone(alt.layer(end, line, points), growth.title, said)
