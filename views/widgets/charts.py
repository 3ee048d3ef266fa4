"""Every Altair chart of the page; what all charts share is in `views.widgets.chart_looks`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil
from typing import Any, Literal

import altair as alt

from gdpo_core.conventions import COMPARED
from gdpo_core.shared.theme import LOOKS
from gdpo_core.shared.words import count, number, percent
from gdpo_core.successors import TITLES as NAMES
from views.studies.scenarios import LEARNT
from views.widgets.chart_looks import GREY, FilledChart, coloured, encodings, filled, inline, typed
from views.widgets.chart_rows import INK, Lines, bars_of_pairs, moved_apart, points_of_lines

# --- Train --------------------------------------------------------------------------------------------------------

# px beside the curves of a panel, the same in each panel; theme.css draws the curves from left to right.
_LEFT, _RIGHT = 50, 14


def learning(
    rows: Sequence[Mapping], marks: Sequence[Mapping], title: str, methods: tuple[str, ...], upright: str, bottom: float
) -> FilledChart:
    """Draw the probability of one coin or answer by epoch: lines and bands per method, and the epoch at which it is
    learnt.

    For each method a thick line shows the median of the runs, a band their spread, and a thin line the infinite-group
    limit.

    rows: as `views.chapters.train.runs.curve_rows` returns them, for this coin or answer alone.
    marks: a dict for each method that learns the coin, the fastest first. "method" is its title, "epoch" the epoch at
        which it learns the coin, and "learnt" the probability that counts as learnt. The epoch is also written as a
        number above the curves, beside an upright line at the epoch "beside". "slot" says where: 0 for left of that
        line, 1 for right of it, and 2 for further right, behind another number.
    title: the title of the panel.
    methods: the titles of the methods.
    upright: the title of the upright axis.
    bottom: the probability at which the upright axis begins.
    """
    ends = (
        ", ".join(f"{mark['method']} after {count(mark['epoch'], 'epoch')}" for mark in marks)
        or "neither within these epochs"
    )
    described = f"{title}: its probability by epoch, 0 to {rows[-1]['epoch']}; learnt: {ends}."
    spec = _panel(methods, upright) | {
        "title": title,
        "params": [{"name": "end", "value": rows[-1]["epoch"]}, {"name": "bottom", "value": bottom}],
    }
    looks = {NAMES[m]: look.colour for m, look in LOOKS.items()}
    inked = [dict(mark) | {"ink": _inked(looks.get(mark["method"], GREY.colour))} for mark in marks]
    return filled(spec, described, rows=list(rows), marks=inked)


def _inked(colour: str) -> str:
    """Return a colour for text: the given one mixed with the ink of the page, so that it can be read on a dark or light
    page.
    """
    return f"color-mix(in oklab, {colour} 74%, {INK})"


@lru_cache(maxsize=32)
def _panel(methods: tuple[str, ...], upright: str) -> dict:
    """Return the specification of the chart that `learning` draws, without data. It is built once for the same
    arguments.

    methods: the titles of the methods.
    upright: the title of the upright axis, "" for none.
    """
    color, dash, shape = encodings(methods)
    # Taken from the data, the domain would be the extent of all layers, and some layers have no data.
    epochs = alt.Scale(domain=[0, alt.ExprRef("end")], nice=False)
    x = alt.X("epoch:Q", title="epoch", scale=epochs, axis=alt.Axis(tickCount=4, format="d"))

    def y(name: str) -> alt.Y:
        # Each panel has the same room on the left, with and without a title, so that all curves have one width.
        at = alt.ExprRef(f"[bottom, 0.5, {LEARNT}, 1]")
        ticks = alt.Axis(values=at, format=".1~f", minExtent=_LEFT, maxExtent=_LEFT, titleX=15 - _LEFT)
        return alt.Y(f"{name}:Q", title=upright or None, scale=alt.Scale(domain=[alt.ExprRef("bottom"), 1]), axis=ticks)

    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("epoch:Q")]
    tooltip += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("median", "low", "high", "limit")]
    base = alt.Chart(alt.NamedData("rows")).encode(x, color)
    marks = alt.Chart(alt.NamedData("marks")).encode(x, color)
    line = alt.Chart(inline([{"learnt": LEARNT}])).mark_rule(strokeDash=[2, 3], opacity=0.8, color=GREY.colour)
    layers = [
        line.encode(y("learnt")),
        marks.mark_rule(strokeWidth=1.2, strokeDash=[3, 3], aria=False).encode(y=alt.value("height"), y2=alt.datum(1)),
        base.mark_area(opacity=0.15).encode(y("low"), alt.Y2("high:Q")),
        base.mark_line(strokeWidth=1, opacity=0.8).encode(y("limit"), detail="method:N"),
        base.mark_line(strokeWidth=2.5).encode(y("median"), dash),
        base.mark_point(opacity=0, size=200, aria=False).encode(y("median"), tooltip=tooltip),
        marks.mark_point(filled=True, size=130, opacity=1, aria=False).encode(y("learnt"), shape),
    ]
    bold = {"fontSize": 17, "fontWeight": 600, "aria": False}
    ink = alt.Color("ink:N", scale=None)
    # A number stands above the curves: left of an upright line, right of it, or right of another number.
    for slot, dx in enumerate((-3, 3, 36)):
        align: Literal["left", "right"] = "left" if slot else "right"
        text = marks.transform_filter(alt.datum.slot == slot).encode(ink, x="beside:Q", y=alt.datum(1), text="epoch:Q")
        layers.append(text.mark_text(align=align, dx=dx, dy=-11, **bold))
    # A panel without numbers keeps as much room for them.
    room = alt.Chart(inline([{"learnt": LEARNT}])).mark_point(opacity=0, size=4, aria=False).encode(y=alt.value(-20))
    around = {"left": 0, "right": _RIGHT, "top": 4, "bottom": 2}
    return typed(alt.layer(*layers, room), "", "").properties(height=278, padding=around).to_dict()


# --- the Evidence -------------------------------------------------------------------------------------------------


def who_comes_first(rows: Sequence[Mapping]) -> FilledChart:
    """Draw bars of pairs of a right and a wrong answer, one bar for each method and kind of pair. A bar is divided into
    the shares in the right order, tied, and in the wrong order.

    rows: a dict for each share. "method" is the method's id, "of" is words for the kind of pair, "order" is a key of
        `chart_rows.ORDERS`, and "share" is from 0 to 1.
    """
    bars, description = bars_of_pairs(rows)
    return filled(_bars(len(bars["heads"])), f"{description}.", **bars)


@lru_cache(maxsize=4)
def _bars(many: int) -> dict[str, Any]:
    """Return the specification of the chart that `who_comes_first` draws with `many` bars, without data. It is built
    once per number of bars.
    """
    y = alt.Y("bar:N", axis=None, sort=None, scale=alt.Scale(paddingInner=0.64, paddingOuter=0.32))
    x = alt.X("at:Q", axis=None, scale=alt.Scale(domain=[0, 1]))
    looks = alt.Color("colour:N", scale=None), alt.Opacity("opacity:Q", scale=None)
    tooltip = [alt.Tooltip("bar:N", title="of"), alt.Tooltip("label:N", title="share")]
    base, head = (alt.Chart(alt.NamedData(name)).encode(y) for name in ("pieces", "heads"))
    bold = {"align": "left", "fontSize": 13, "fontWeight": 600}
    layers = [
        base.mark_bar(stroke=INK, strokeWidth=0.7).encode(x, *looks, alt.X2("to"), tooltip=tooltip),
        head.mark_text(dy=-21, color=INK, **bold).encode(x=alt.value(0), text="bar:N"),
        head.mark_text(align="right", dy=21, fontSize=13, color=INK).encode(x=alt.value("width"), text="rest:N"),
    ]
    chart = typed(alt.layer(*layers), "Order of right and wrong", "").properties(height=56 * many)
    return chart.to_dict()


HEAVIEST_SHOWN = 6.5  # the weight of correctness at which its slider ends


def by_weight(lines: Lines, counted: str, now: float, none: Mapping[str, str]) -> FilledChart:
    """Draw the share of pairs in the wrong order by the weight of correctness, a line per method, with an upright rule
    at the weight `now`.

    lines: the share, by method and by weight; 1 is among the weights.
    counted: words for the pairs.
    none: by method, the weight above which the share is 0, as a text for the label. A method that is left out gets no
        label.
    """
    most = max(share for line in lines.values() for share in line.values())
    top = 1.0 if most > 0.3 else max(0.05, ceil(20 * most) / 20)
    labels = [
        {
            "x": HEAVIEST_SHOWN,
            "at": top * (0.94 - 0.16 * k),
            "method": NAMES[m],
            "label": f"{NAMES[m]}: none above {text}",
        }
        for k, (m, text) in enumerate(none.items())
    ]
    at_weight_1 = ", ".join(f"{NAMES[m]} {percent(line[1.0], 1)} at weight 1" for m, line in lines.items())
    description = f"Wrong order, {counted}: {'; '.join([at_weight_1, *(row['label'] for row in labels)])}."
    return filled(_weights(tuple(lines), top, counted), description, **points_of_lines(lines, now, labels))


@lru_cache(maxsize=64)
def _weights(methods: tuple[str, ...], top: float, counted: str) -> dict[str, Any]:
    return (
        typed(_shares(methods, _by_weight(), top, "weight"), f"wrong order, {counted}", "")
        .properties(height=110)
        .to_dict()
    )


def _by_weight() -> alt.X:
    ticks = alt.Axis(values=list(range(1, ceil(HEAVIEST_SHOWN))))
    return alt.X("x:Q", title="weight of correctness", scale=alt.Scale(domain=[1, HEAVIEST_SHOWN]), axis=ticks)


def by_group_size(lines: Lines, title: str, now: int) -> FilledChart:
    """Draw a share by the number of answers per prompt, a line per method, with an upright rule at the number `now`.

    lines: the share, by method and by number of answers, from the smallest number to the largest.
    title: words for the share.
    """
    sizes = list(next(iter(lines.values())))
    last = sizes[-1]
    # A label stands above its line, even where the line falls towards its end.
    above = {m: 0.06 + max(share for size, share in line.items() if 3 * size >= last) for m, line in lines.items()}
    labels = [
        {"x": last, "at": above[m], "method": NAMES[m], "label": f"{NAMES[m]} {percent(line[last])}"}
        for m, line in lines.items()
    ]
    ticks = alt.Axis(values=[size for size in sizes if size in (2, 4, 8, 16, 32, last)])
    doubling = alt.Scale(type="log", base=2, domain=[sizes[0], last])
    x = alt.X("x:Q", title="answers per prompt", scale=doubling, axis=ticks)
    description = f"Share of {title}, {sizes[0]} to {last} answers per prompt; at the end: "
    description += f"{', '.join(row['label'] for row in labels)}."
    chart = typed(_shares(tuple(lines), x, 1.0, "answers"), title, "")
    return filled(chart.to_dict(), description, **points_of_lines(lines, now, labels))


def _shares(methods: Sequence[str], x: alt.X, top: float, axis_title: str, written: str = ".1%") -> alt.LayerChart:
    """Return a chart without data: a line of shares per method with a label beside it, and an upright rule at the
    chosen x.

    The chart takes its data from the tables that `points_of_lines` returns.

    methods: the ids of the methods.
    x: the horizontal axis.
    top: the end of the upright axis, which begins at 0.
    axis_title: the name of x in a tooltip.
    written: the format of a share in a tooltip.
    """
    ticks = alt.Axis(format="%" if written.endswith("%") else "~f", values=[0, top / 2, top])
    y = alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=ticks)
    color, dash, _ = encodings([NAMES[m] for m in methods])
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("x:Q", title=axis_title), alt.Tooltip("share:Q", format=written)]
    lines, now = (alt.Chart(alt.NamedData(name)).encode(x, color) for name in ("lines", "now"))
    labels = alt.Chart(alt.NamedData("labels")).encode(x, alt.Y("at:Q", title=None), text="label:N")
    return alt.layer(
        alt.Chart(alt.NamedData("now")).mark_rule(strokeDash=[1, 2], opacity=0.7, color=INK).encode(x),
        lines.mark_line(strokeWidth=2.5, clip=True).encode(y, dash),
        lines.mark_point(size=90, opacity=0).encode(y, tooltip=tooltip),
        now.mark_point(filled=True, size=50, opacity=1).encode(y),
        *coloured(labels, [NAMES[m] for m in methods]),
    )


def chart_of_counts(
    groups: Mapping[int, Mapping[str, int]], title: str, grows: str, paper: int, top: int
) -> alt.LayerChart:
    """Draw how many groups each method tells apart, by the number of rewards or by the number of answers.

    groups: how many groups are told apart, by that number and by method.
    title: words for what the chart shows.
    grows: words for what the number counts.
    paper: the number at which GDPO's curve ends in the paper, where an upright rule stands.
    top: the end of the upright axis.
    """
    rows = [{"size": n, "method": NAMES[m], "count": c} for n, row in groups.items() for m, c in row.items()]
    sizes = list(groups)
    ends = [row | {"label": f"{row['method']} {row['count']:,}"} for row in rows if row["size"] == sizes[-1]]
    description = f"Groups told apart, {title}; at {sizes[-1]} {grows}: "
    description += f"{', '.join(row['label'] for row in ends)}. The paper draws GDPO up to {paper}."
    ends_at, ticks = alt.Scale(domain=[sizes[0], sizes[-1]]), alt.Axis(tickMinStep=1, format="d", values=sizes)
    x = alt.X("size:Q", title=grows, scale=ends_at, axis=ticks)
    counted = alt.Axis(format=",d", values=[0, top / 2, top])
    y = alt.Y("count:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=counted)
    color, dash, shape = encodings([NAMES[m] for m in COMPARED])
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("size:Q", title=grows), alt.Tooltip("count:Q", format=",d")]
    base = alt.Chart(inline(rows)).encode(x, y, color)
    end = alt.Chart(inline([{"size": paper, "count": top, "label": "paper: up to here"}]))
    labels = alt.Chart(inline(moved_apart(ends, top))).encode(x, alt.Y("at:Q", title=None), text="label:N")
    layers = [
        end.mark_rule(color=GREY.colour, strokeDash=[1, 2]).encode(x),
        end.mark_text(align="right", dx=-5, dy=6, fontSize=12, color=INK).encode(x, y, text="label:N"),
        base.mark_line(strokeWidth=2).encode(dash),
        base.mark_point(filled=True, size=40, opacity=1).encode(shape, tooltip=tooltip),
        *coloured(labels, [NAMES[m] for m in COMPARED], dx=-10, dy=-9),
    ]
    return typed(alt.layer(*layers), title, description)


def trained(rows: Sequence[Mapping], reward: str, words: str) -> FilledChart:
    """Draw the mean of one reward by step under the methods that trained it: the median over seeds, and a band of
    quartiles.

    rows: dicts with method (its title), step, median, low and high, where low and high are the quartiles.
    reward: the name of the reward, which is the title of the chart.
    words: the differences between the methods, with "; " between them.
    """
    methods = [name for name in (NAMES[m] for m in COMPARED) if any(row["method"] == name for row in rows)]
    last = max(row["step"] for row in rows)
    ends = {row["method"]: f"{row['method']} {number(row['median'], 2)}" for row in rows if row["step"] == last}
    description = f"{reward}: its mean by step, at the end {', '.join(ends.values())}; {words}."
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    title = {"text": reward, "subtitle": words.split("; ")}  # a line per method, which fits a phone
    spec = _means(tuple(methods)) | {"title": title, "params": [{"name": "ends", "value": [low, high]}]}
    return filled(spec, description, lines=list(rows))


@lru_cache(maxsize=8)
def _means(methods: tuple[str, ...]) -> dict[str, Any]:
    """Return the specification of the chart that `trained` draws for methods with these titles, a dict of Vega-Lite
    without data and title. It is built once for the same methods.
    """
    x = alt.X("step:Q", title="step", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=3, format="d"))
    scale, ticks = alt.Scale(domain=alt.ExprRef("ends"), nice=True), alt.Axis(tickCount=3, format="~g")
    color, dash, _ = encodings(methods)
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("step:Q")]
    tooltip += [alt.Tooltip(f"{name}:Q", format=".3~f") for name in ("median", "low", "high")]
    base = alt.Chart(alt.NamedData("lines")).encode(x, color)
    median = alt.Y("median:Q", title=None, scale=scale, axis=ticks)
    layers = [
        base.mark_area(opacity=0.15).encode(alt.Y("low:Q", title=None, scale=scale, axis=ticks), alt.Y2("high:Q")),
        base.mark_line(strokeWidth=2.2).encode(median, dash),
        base.mark_point(size=80, opacity=0).encode(median, tooltip=tooltip),
    ]
    return typed(alt.layer(*layers), "", "").properties(height=96).to_dict()


def chart_of_speeds(rows: Sequence[Mapping]) -> alt.LayerChart:
    """Draw how fast each reward follows a push, by set-up: a dot per run and reward, with one standard error each way.

    rows: a dict per run and reward. Its keys are "setup", "row" (the name of the run's setting), "reward", "speed", and
        "low" and "high", the speed less and plus its standard error.
    """
    description = f"How fast each reward follows a push: {len(rows)} speeds with their errors, by set-up."
    y = alt.Y("reward:N", title=None)
    place = alt.YOffset("setup:N")
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("setup", "row", "reward")] + [alt.Tooltip("speed:Q", format=".3f")]
    base = alt.Chart(inline(rows)).encode(y, place, tooltip=tooltip)
    x = alt.X("speed:Q", title="change of the logit per step (push 1, mean ½)")
    layers = [
        base.mark_rule(opacity=0.4, color=INK).encode(alt.X("low:Q"), alt.X2("high:Q")),
        base.mark_point(filled=True, size=30, opacity=0.9, color=LOOKS["gdpo"].colour).encode(x),
    ]
    return typed(alt.layer(*layers), "Speeds of all runs, one row for each set-up", description).properties(height=300)


def chart_of_courses(rows: Sequence[Mapping], words: str) -> FilledChart:
    """Draw three courses of a reward by step: its forecast for the run as it ran, its forecast under another setting,
    and its measured mean under that setting.

    rows: dicts with line ("as it ran", "forecast" or "came", which is the measured course), step and rate.
    words: the name of the reward, then ": ", then its forecast and what was measured.
    """
    title = {"text": words.partition(": ")[0], "subtitle": words.partition(": ")[2]}
    return filled(_courses() | {"title": title}, f"{words}.", lines=list(rows))


@lru_cache(maxsize=1)
def _courses() -> dict[str, Any]:
    """Return the specification of the chart that `chart_of_courses` draws, without data and title. It is built once."""
    x = alt.X("step:Q", title="step", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=3, format="d"))
    y = alt.Y(
        "rate:Q",
        title=None,
        scale=alt.Scale(domain=[0.3, 1], clamp=True),
        axis=alt.Axis(format="%", values=[0.5, 0.75, 1]),
    )
    names = ["as it ran", "forecast", "came"]
    dash = alt.StrokeDash("line:N", legend=None, scale=alt.Scale(domain=names, range=[[2, 3], [6, 3], [1, 0]]))
    colour = alt.Color(
        "line:N", legend=None, scale=alt.Scale(domain=names, range=[GREY.colour, LOOKS["gdpo"].colour, INK])
    )
    tooltip = [alt.Tooltip("line:N"), alt.Tooltip("step:Q"), alt.Tooltip("rate:Q", format=".1%")]
    lines = alt.Chart(alt.NamedData("lines")).encode(x, y, colour, dash, tooltip=tooltip).mark_line(strokeWidth=2.2)
    return typed(alt.layer(lines), "", "").properties(height=110).to_dict()
