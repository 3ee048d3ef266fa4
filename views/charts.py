"""The charts: the only importer of Altair."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import altair as alt
import polars as pl

from gdpo_core._theme import METHODS, VALUES
from gdpo_core._words import decimal, percent, signed
from gdpo_core.scenarios import LEVEL
from views.text import NAMES

# Vega's own menu saves a picture; its editor would leave the page.
SAVE = {"export": True, "source": False, "compiled": False, "editor": False}


def _inline(rows: Sequence[Mapping]) -> alt.InlineData:
    # As text, which Altair need not look through; as JSON, for Vega compiles a function to read CSV.
    json = pl.DataFrame(rows).with_columns(pl.selectors.float().round(4)).write_json()
    return alt.InlineData(values=json, format=alt.JsonDataFormat(type="json"))


# --- Lab ------


# --- Train ------


@dataclass(frozen=True)
class Drawn:
    """A chart that was built before, with the data of now: Altair takes 100 ms to build and to check one of these."""

    spec: str

    def _mime_(self) -> tuple[str, str]:  # how marimo asks
        return "application/vnd.vegalite.v6+json", self.spec


def learning(
    rows: Sequence[Mapping], marks: Sequence[Mapping], title: str, methods: tuple[str, ...], low: float
) -> Drawn:
    """How likely one coin or answer is, by epoch: median, band and limit of each method, and where it is learnt.

    rows: as `curves` gives them, of one coin; marks: method, epoch, level and label of each that gets there, the first
    one first; methods: their names; low: where the axis begins.
    """
    ends = (
        ", ".join(f"{mark['method']} after {mark['epoch']:g} epochs" for mark in marks) or "neither within these epochs"
    )
    described = f"{title}: its probability by epoch, 0 to {rows[-1]['epoch']}; learnt: {ends}."
    data = {"rows": list(rows), "marks": [{**mark, "place": n} for n, mark in enumerate(marks)]}
    panel = _panel(methods, low)
    named = {"title": title, "description": described, "datasets": {**panel.get("datasets", {}), **data}}
    return Drawn(json.dumps(panel | named))


@lru_cache(maxsize=32)
def _panel(methods: tuple[str, ...], low: float) -> dict:
    grey = METHODS["grpo_no_std"]
    looks = [METHODS.get({name: m for m, name in NAMES.items()}.get(name, ""), grey) for name in methods]

    def scale(values: list) -> alt.Scale:
        return alt.Scale(domain=list(methods), range=values)

    color = alt.Color("method:N", scale=scale([look.colour for look in looks]), legend=None)
    dash = alt.StrokeDash("method:N", scale=scale([list(look.dash) for look in looks]), legend=None)
    shape = alt.Shape("method:N", scale=scale([look.shape for look in looks]), legend=None)
    x = alt.X("epoch:Q", title=None, scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=4, format="d"))

    def y(name: str) -> alt.Y:
        ticks = alt.Axis(values=[low, 0.5, LEVEL], format=".1~f")
        return alt.Y(f"{name}:Q", title=None, scale=alt.Scale(domain=[low, 1]), axis=ticks)

    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("epoch:Q")]
    tooltip += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("median", "low", "high", "limit")]
    base = alt.Chart(alt.NamedData("rows")).encode(x, color)
    marks = alt.Chart(alt.NamedData("marks")).encode(x, y("level"), color)
    line = alt.Chart(_inline([{"level": LEVEL}])).mark_rule(strokeDash=[2, 3], opacity=0.8, color=grey.colour)
    layers = [
        line.encode(y("level")),
        base.mark_area(opacity=0.15).encode(y("low"), alt.Y2("high:Q")),
        base.mark_line(strokeWidth=1, opacity=0.8).encode(y("limit"), detail="method:N"),
        base.mark_line(strokeWidth=2.5).encode(y("median"), dash),
        base.mark_point(opacity=0, size=200, aria=False).encode(y("median"), tooltip=tooltip),
        marks.mark_point(filled=True, size=110, opacity=1, aria=False).encode(shape),
    ]
    for n, _ in enumerate(methods):  # the first label stands left of the curves, the others right of them
        align: Literal["left", "right"] = "left" if n else "right"
        place = {"dx": 9, "dy": 2 + 13 * n} if n else {"dx": -9, "dy": -9}
        text = marks.transform_filter(alt.datum.place == n).encode(text="label:N")
        layers.append(
            text.mark_text(align=align, dx=place["dx"], dy=place["dy"], fontSize=14, fontWeight=700, aria=False)
        )
    return _typed(alt.layer(*layers), "", "").properties(height=236).to_dict()


# --- the Evidence -------------------------------------------------------------------------------------------------


def by_group_size(lines: Mapping[str, Mapping[int, float | None]], title: str, top: float, now: int) -> alt.LayerChart:
    """A line per method: the share of what the title names, from 0 to `top`, by group size; upright, the size now."""
    rows = [{"size": s, "method": NAMES[m], "share": x} for m, line in lines.items() for s, x in line.items()]
    sizes = sorted({row["size"] for row in rows})
    ends = [
        max((row for row in rows if row["method"] == NAMES[m] and _there(row)), key=_size, default=None) for m in lines
    ]
    # A label stands above its line, also where that comes down to its end.
    high = {
        m: max(
            (r["share"] for r in rows if r["method"] == NAMES[m] and _there(r) and 3 * r["size"] >= sizes[-1]),
            default=0,
        )
        for m in lines
    }
    ends = [
        row | {"label": f"{row['method']} {percent(row['share'])}", "at": high[m]}
        for m, row in zip(lines, ends, strict=True)
        if row
    ]
    description = f"Share of {title}, {sizes[0]} to {sizes[-1]} answers per prompt; at the end: "
    description += f"{', '.join(row['label'] for row in ends)}."
    x = alt.X(
        "size:Q",
        title="answers per prompt",
        scale=alt.Scale(type="log", base=2, domain=[sizes[0], sizes[-1]]),
        axis=alt.Axis(values=[s for s in sizes if s in (2, 4, 8, 16, 32, sizes[-1])]),
    )
    y = alt.Y(
        "share:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(format="%", values=[0, top / 2, top])
    )
    color, dash, _ = _looks([NAMES[m] for m in lines])
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("size:Q", title="answers"), alt.Tooltip("share:Q", format=".1%")]
    base = alt.Chart(_inline([row for row in rows if _there(row)])).encode(x, y, color)
    here = alt.Chart(_inline([{"size": now}])).mark_rule(
        strokeDash=[1, 2], opacity=0.7, color=METHODS["grpo_no_std"].colour
    )
    text = alt.Chart(_inline(ends)).mark_text(align="right", dy=-12, fontSize=13, fontWeight=600)
    layers = [
        here.encode(x),
        base.mark_line(strokeWidth=2.5, clip=True).encode(dash),
        base.mark_point(filled=True, size=26, opacity=1, clip=True).encode(tooltip=tooltip),
        text.encode(x, alt.Y("at:Q", title=None), color, text="label:N"),
    ]
    return _typed(alt.layer(*layers), title, description)


def _there(row: Mapping) -> bool:
    return row["share"] is not None and row["share"] == row["share"]


def _size(row: Mapping) -> int:
    return row["size"]


@dataclass(frozen=True)
class Growth:
    """How many advantage vectors each method has while one size grows."""

    found: Mapping[int, Mapping[str, int]]  # by the size that grows
    title: str
    grows: str
    paper: int  # the size up to which the paper's figure draws GDPO
    top: int  # of the axis


def counts(growth: Growth) -> alt.LayerChart:
    """A line with markers per method, and an upright one where the paper's figure stops drawing GDPO."""
    rows = [{"size": n, "method": NAMES[m], "count": c} for n, row in growth.found.items() for m, c in row.items()]
    sizes = list(growth.found)
    ends = [row | {"label": f"{row['method']} {row['count']:,}"} for row in rows if row["size"] == sizes[-1]]
    description = f"Different lists of advantages, {growth.title}; at {sizes[-1]} {growth.grows}: "
    description += f"{', '.join(row['label'] for row in ends)}. The paper draws GDPO up to {growth.paper}."
    x = alt.X(
        "size:Q",
        title=growth.grows,
        scale=alt.Scale(domain=[sizes[0], sizes[-1]]),
        axis=alt.Axis(tickMinStep=1, format="d", values=sizes),
    )
    y = alt.Y(
        "count:Q",
        title=None,
        scale=alt.Scale(domain=[0, growth.top]),
        axis=alt.Axis(format=",d", values=[0, growth.top / 2, growth.top]),
    )
    color, dash, shape = _looks(list(NAMES.values()))
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("size:Q", title=growth.grows), alt.Tooltip("count:Q", format=",d")]
    base = alt.Chart(_inline(rows)).encode(x, y, color)
    soft = METHODS["grpo_no_std"].colour
    end = alt.Chart(_inline([{"size": growth.paper, "count": growth.top, "label": "the paper draws GDPO up to here"}]))
    labels = alt.Chart(_inline(_apart(ends, growth.top))).mark_text(
        align="right", dx=-10, dy=-9, fontSize=13, fontWeight=600
    )
    layers = [
        end.mark_rule(color=soft, strokeDash=[1, 2]).encode(x),
        end.mark_text(align="right", dx=-5, dy=6, fontSize=12, color=soft).encode(x, y, text="label:N"),
        base.mark_line(strokeWidth=2).encode(dash),
        base.mark_point(filled=True, size=40, opacity=1).encode(shape, tooltip=tooltip),
        labels.encode(x, alt.Y("at:Q", title=None), color, text="label:N"),
    ]
    return _typed(alt.layer(*layers), growth.title, description)


def _apart(ends: list[dict], top: float) -> list[dict]:
    """The labels at the ends of lines, moved up where one would cover the one below."""
    placed: list[dict] = []
    for row in sorted(ends, key=lambda row: row["count"]):
        least = placed[-1]["at"] + 0.085 * top if placed else 0
        placed.append(row | {"at": max(row["count"], least)})
    return placed


def who_is_ahead(cells: Sequence, title: str) -> alt.LayerChart:
    """A row per cell of the paper's tables: by how many points GRPO, to the left, or GDPO, to the right, is ahead."""
    names = {"grpo": NAMES["grpo"], "gdpo": NAMES["gdpo"], "equal": "equal"}
    cells = sorted(cells, key=lambda cell: -cell.ahead)
    rows = [
        {
            "cell": cell.name,
            "ahead": cell.ahead,
            "leader": names[cell.leader],
            "label": signed(abs(cell.ahead), 1) if abs(cell.ahead) >= 0.05 else decimal(abs(cell.ahead), 1),
            "grpo": cell.grpo,
            "gdpo": cell.gdpo,
            "metric": f"{cell.metric}, {cell.better} is better",
        }
        for cell in cells
    ]
    low, high = min(row["ahead"] for row in rows), max(row["ahead"] for row in rows)
    many = {leader: sum(cell.leader == leader for cell in cells) for leader in names}
    description = f"{title}: GRPO is ahead in {many['grpo']} of {len(cells)} cells, by up to {-low:g} points, "
    description += f"GDPO in {many['gdpo']}, by up to {high:g}."
    scale = alt.Scale(domain=[low - 0.15 * high, high * 1.16])
    x = alt.X(
        "ahead:Q",
        title="← points ahead: GRPO | GDPO →",
        scale=scale,
        axis=alt.Axis(tickCount=5, labelExpr="abs(datum.value)"),
    )
    y = alt.Y(
        "cell:N",
        title=None,
        sort=[row["cell"] for row in rows],
        axis=alt.Axis(labelLimit=330, ticks=False, domain=False),
    )
    looks = [METHODS["grpo"], METHODS["gdpo"], METHODS["grpo_no_std"]]
    order = [names["grpo"], names["gdpo"], names["equal"]]
    color = alt.Color("leader:N", scale=alt.Scale(domain=order, range=[look.colour for look in looks]), legend=None)
    shape = alt.Shape("leader:N", scale=alt.Scale(domain=order, range=[look.shape for look in looks]), legend=None)
    tooltip = [
        alt.Tooltip(name, title=words)
        for name, words in (
            ("cell:N", "cell"),
            ("metric:N", "what"),
            ("grpo:Q", "GRPO, %"),
            ("gdpo:Q", "GDPO, %"),
            ("leader:N", "ahead"),
        )
    ]
    base = alt.Chart(_inline(rows)).encode(y, color, tooltip=tooltip)
    zero = (
        alt.Chart(_inline([{"ahead": 0}]))
        .mark_rule(opacity=0.6, color=METHODS["grpo_no_std"].colour)
        .encode(alt.X("ahead:Q", scale=scale))
    )
    text = base.encode(x, text="label:N")
    layers = [
        zero,
        base.mark_bar(height=2).encode(x),
        base.mark_point(filled=True, size=70, opacity=1).encode(x, shape),
        text.transform_filter("datum.ahead >= 0").mark_text(align="left", dx=8, fontSize=12),
        text.transform_filter("datum.ahead < 0").mark_text(align="right", dx=-8, fontSize=12, fontWeight=700),
    ]
    return _typed(alt.layer(*layers), title, description).properties(height=17 * len(rows))


def _looks(names: Sequence[str]) -> tuple[alt.Color, alt.StrokeDash, alt.Shape]:
    """Colour, dash and shape of the methods with these names."""
    looks = [METHODS[{name: m for m, name in NAMES.items()}[name]] for name in names]

    def scale(values: list) -> alt.Scale:
        return alt.Scale(domain=list(names), range=values)

    return (
        alt.Color("method:N", scale=scale([look.colour for look in looks]), legend=None),
        alt.StrokeDash("method:N", scale=scale([list(look.dash) for look in looks]), legend=None),
        alt.Shape("method:N", scale=scale([look.shape for look in looks]), legend=None),
    )


def _typed(chart: alt.LayerChart, title: str, description: str) -> alt.LayerChart:
    """In the page's type, without a grid."""
    return (
        chart.properties(width="container", height=210, title=title, description=description)
        .properties(usermeta={"embedOptions": {"actions": SAVE, "renderer": "svg", "ast": True}})
        .configure(background="transparent", font=VALUES["sans"])
        .configure_axis(
            grid=False, labelFontSize=12, titleFontSize=12, titleFontWeight="normal", domainOpacity=0.4, tickOpacity=0.4
        )
        .configure_title(fontSize=14, fontWeight=600, anchor="start", offset=12)
        .configure_view(strokeOpacity=0)
    )
