"""The charts: the only importer of Altair."""

from collections.abc import Mapping, Sequence
from math import ceil

import altair as alt
import polars as pl

from gdpo_core._theme import METHODS, VALUES
from gdpo_core._words import decimal, percent, signed
from views.text import NAMES


# Vega's own menu saves a picture; its editor would leave the page.
SAVE = {"export": True, "source": False, "compiled": False, "editor": False}


def _inline(rows: Sequence[Mapping]) -> alt.InlineData:
    # As text, which Altair need not look through; as JSON, for Vega compiles a function to read CSV.
    json = pl.DataFrame(rows).with_columns(pl.selectors.float().round(4)).write_json()
    return alt.InlineData(values=json, format=alt.JsonDataFormat(type="json"))


# --- Lab ------


# --- Train ------


# --- the Evidence -------------------------------------------------------------------------------------------------

PARTS = {"right": "right first", "tied": "tied", "wrong": "wrong first"}  # of a pair of a right and a wrong answer
INK = "currentColor"  # of the page, dark or light


def who_comes_first(rows: Sequence[Mapping]) -> alt.LayerChart:
    """A bar per method and what it is of: the pairs by which answer comes first, in the order of PARTS."""
    drawn: dict[str, list[dict]] = {}
    for row in rows:
        bar = drawn.setdefault(f"{NAMES[row['method']]}, {row['of']}", [])
        at = bar[-1]["to"] if bar else 0.0
        label = f"{percent(row['share'], 1 if row['share'] < 0.1 else 0)} {PARTS[row['part']]}"
        colour = INK if row["part"] == "wrong" else METHODS[row["method"]].colour
        bar.append(
            dict(row)
            | {
                "at": at,
                "to": at + row["share"],
                "label": label,
                "colour": colour,
                "opacity": 0.3 if row["part"] == "tied" else 1.0,
            }
        )
    parts = [part | {"bar": bar} for bar, of in drawn.items() for part in of if part["share"]]
    labels = {bar: [part["label"] for part in of if part["share"]] for bar, of in drawn.items()}
    heads = [{"bar": bar, "rest": " · ".join(x for x in said if "right" not in x)} for bar, said in labels.items()]
    y = alt.Y("bar:N", axis=None, sort=list(drawn), scale=alt.Scale(paddingInner=0.64, paddingOuter=0.32))
    x = alt.X("at:Q", axis=None, scale=alt.Scale(domain=[0, 1]))
    opacity = alt.Opacity("opacity:Q", scale=None)
    tooltip = [alt.Tooltip("bar:N", title="of"), alt.Tooltip("label:N", title="share")]
    base = alt.Chart(_inline(parts)).encode(y)
    head = alt.Chart(_inline(heads)).encode(y)
    color = alt.Color("colour:N", scale=None)
    inside = base.transform_filter("datum.part == 'right' && datum.share > 0.2")
    layers = [
        base.mark_bar(stroke=INK, strokeWidth=0.7).encode(x, color, opacity, alt.X2("to"), tooltip=tooltip),
        inside.mark_text(align="left", dx=8, fontSize=13, fontWeight=600, color=VALUES["on-mark"]).encode(
            x, text="label:N"
        ),
        head.mark_text(align="left", dy=-21, fontSize=13, fontWeight=600, color=INK).encode(
            x=alt.value(0), text="bar:N"
        ),
        head.mark_text(align="right", dy=21, fontSize=13, color=INK).encode(x=alt.value("width"), text="rest:N"),
    ]
    said = "; ".join(f"{bar}: {', '.join(of)}" for bar, of in labels.items())
    return _typed(alt.layer(*layers), "Which answer comes first", f"{said}.").properties(height=66 * len(drawn))


Lines = Mapping[str, Mapping[float, float]]  # by method, by what is on the x axis: a share


def by_weight(lines: Lines, of: str, now: float, none: Mapping[str, str]) -> alt.LayerChart:
    """The share with the wrong answer first as correctness weighs more; none: by method, from where on it is 0."""
    most = max(share for line in lines.values() for share in line.values())
    top = 1.0 if most > 0.3 else max(0.05, ceil(20 * most) / 20)
    weights = [weight for line in lines.values() for weight in line]
    x = alt.X(
        "x:Q",
        title="weight of correctness",
        scale=alt.Scale(domain=[min(weights), max(weights)]),
        axis=alt.Axis(values=[1, 2, 3, 4, 5]),
    )
    labels = [
        {"x": max(weights), "at": top * (0.98 - 0.14 * k), "method": NAMES[m], "label": f"{NAMES[m]}: none from {text}"}
        for k, (m, text) in enumerate(none.items())
    ]
    said = ", ".join(f"{NAMES[m]} {percent(line[1.0], 1)} at weight 1" for m, line in lines.items())
    said = "; ".join([said, *(row["label"] for row in labels)])
    chart = _shares(lines, x, top, now, labels, "weight")
    return _typed(chart, f"wrong first, {of}", f"Wrong answer first, {of}: {said}.").properties(height=110)


def by_group_size(lines: Lines, title: str, now: int) -> alt.LayerChart:
    """A line per method: the share of what the title names by group size; upright, the size now."""
    sizes = list(next(iter(lines.values())))
    last = sizes[-1]
    # A label stands above its line, also where that comes down to its end.
    labels = [
        {
            "x": last,
            "at": max(share for size, share in line.items() if 3 * size >= last) + 0.06,
            "method": NAMES[m],
            "label": f"{NAMES[m]} {percent(line[last])}",
        }
        for m, line in lines.items()
    ]
    x = alt.X(
        "x:Q",
        title="answers per prompt",
        scale=alt.Scale(type="log", base=2, domain=[sizes[0], last]),
        axis=alt.Axis(values=[size for size in sizes if size in (2, 4, 8, 16, 32, last)]),
    )
    description = f"Share of {title}, {sizes[0]} to {last} answers per prompt; at the end: "
    description += f"{', '.join(row['label'] for row in labels)}."
    return _typed(_shares(lines, x, 1.0, now, labels, "answers"), title, description)


def _shares(lines: Lines, x: alt.X, top: float, now: float, labels: list[dict], of: str) -> alt.LayerChart:
    """A line per method from 0 to `top`, with labels and an upright rule at what is chosen now."""
    rows = [{"x": at, "method": NAMES[m], "share": share} for m, line in lines.items() for at, share in line.items()]
    y = alt.Y(
        "share:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(format="%", values=[0, top / 2, top])
    )
    color, dash, _ = _looks([NAMES[m] for m in lines])
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("x:Q", title=of), alt.Tooltip("share:Q", format=".1%")]
    base = alt.Chart(_inline(rows)).encode(x, y, color)
    here = alt.Chart(_inline([{"x": now}])).mark_rule(strokeDash=[1, 2], opacity=0.7, color=INK)
    text = alt.Chart(_inline(labels)).mark_text(align="right", fontSize=13, fontWeight=600)
    at_now = base.transform_filter(f"datum.x == {now:g}").mark_point(filled=True, size=50, opacity=1)
    return alt.layer(
        here.encode(x),
        base.mark_line(strokeWidth=2.5, clip=True).encode(dash),
        base.mark_point(size=90, opacity=0).encode(tooltip=tooltip),
        at_now,
        text.encode(x, alt.Y("at:Q", title=None), color, text="label:N"),
    )


def counts(found: Mapping[int, Mapping[str, int]], title: str, grows: str, paper: int, top: int) -> alt.LayerChart:
    """How many groups each method tells apart while one size grows; paper: where its figure stops drawing GDPO."""
    rows = [{"size": n, "method": NAMES[m], "count": c} for n, row in found.items() for m, c in row.items()]
    sizes = list(found)
    ends = [row | {"label": f"{row['method']} {row['count']:,}"} for row in rows if row["size"] == sizes[-1]]
    description = f"Groups told apart, {title}; at {sizes[-1]} {grows}: "
    description += f"{', '.join(row['label'] for row in ends)}. The paper draws GDPO up to {paper}."
    x = alt.X(
        "size:Q",
        title=grows,
        scale=alt.Scale(domain=[sizes[0], sizes[-1]]),
        axis=alt.Axis(tickMinStep=1, format="d", values=sizes),
    )
    y = alt.Y(
        "count:Q",
        title=None,
        scale=alt.Scale(domain=[0, top]),
        axis=alt.Axis(format=",d", values=[0, top / 2, top]),
    )
    color, dash, shape = _looks(list(NAMES.values()))
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("size:Q", title=grows), alt.Tooltip("count:Q", format=",d")]
    base = alt.Chart(_inline(rows)).encode(x, y, color)
    soft = METHODS["grpo_no_std"].colour
    end = alt.Chart(_inline([{"size": paper, "count": top, "label": "the paper draws GDPO up to here"}]))
    labels = alt.Chart(_inline(_apart(ends, top))).mark_text(align="right", dx=-10, dy=-9, fontSize=13, fontWeight=600)
    layers = [
        end.mark_rule(color=soft, strokeDash=[1, 2]).encode(x),
        end.mark_text(align="right", dx=-5, dy=6, fontSize=12, color=soft).encode(x, y, text="label:N"),
        base.mark_line(strokeWidth=2).encode(dash),
        base.mark_point(filled=True, size=40, opacity=1).encode(shape, tooltip=tooltip),
        labels.encode(x, alt.Y("at:Q", title=None), color, text="label:N"),
    ]
    return _typed(alt.layer(*layers), title, description)


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
    scale = alt.Scale(domain=[low, high], padding=44, nice=False)  # pixels, for the numbers beside the ends
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
