"""The charts: the only importer of Altair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl
import torch

from gdpo_core import TrainingRun
from gdpo_core._theme import GRID, LIMIT, METHODS
from gdpo_core._words import percent
from views.text import BAND, NAMES

LOOKS = {NAMES[method]: look for method, look in METHODS.items()}
GRID_LINES = {"gridColor": GRID, "gridOpacity": 0.3}  # faint on white and on near-black
SHOWN_POINTS = 75  # of a curve; more are not to be seen


def training(
    runs: Mapping[str, TrainingRun],
    limits: Mapping[str, torch.Tensor],
    steps: Mapping[str, Sequence[float]],
    coins: Sequence[str],
    level: float,
) -> list[alt.LayerChart]:
    """A chart per coin: the median over seeds as a line per method, most seeds as a band, thin the large-group limit.

    steps: by method, the epoch of the marker at the level, for each coin; infinity for none.
    """
    names = [NAMES[m] for m in runs]
    epochs = next(iter(runs.values())).p.shape[1] - 1
    x = alt.X("epoch:Q", title="epoch", scale=alt.Scale(domain=[0, epochs]), axis=alt.Axis(tickCount=4))
    color, dash = _of_method(names)
    shape = alt.Shape("method:N", scale=alt.Scale(domain=names, range=[LOOKS[n].shape for n in names]), legend=None)
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(values=sorted({0, 0.5, level, 1}), format="g")
    p = alt.Y("median:Q", title="probability", scale=scale, axis=axis)
    told = [alt.Tooltip("method:N"), alt.Tooltip("epoch:Q", title=f"epoch at which {level:g} is reached")]
    base = alt.Chart().encode(x, color)
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title="probability", scale=scale, axis=axis), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2.5).encode(p, dash)
    thin = base.mark_line(strokeWidth=1.25, strokeDash=list(LIMIT.dash)).encode(y=alt.Y("limit:Q", scale=scale))

    def marked(k: int) -> alt.Chart:
        reached = {NAMES[m]: found[k] for m, found in steps.items() if found[k] <= epochs}
        rows = [{"method": name, "epoch": epoch, "median": level} for name, epoch in reached.items()]
        empty = [{"method": "", "epoch": None, "median": None}]
        points = alt.Chart(_inline(rows or empty)).mark_point(filled=True, size=90, opacity=1)
        return points.encode(x, p, color, shape, tooltip=told)

    return [
        _lone(
            alt.layer(band, thin, line, marked(k), data=_curves(runs, limits, k)),
            coin,
            _description(runs, steps, k, coin, level),
        )
        for k, coin in enumerate(coins)
    ]


def _description(
    runs: Mapping[str, TrainingRun], steps: Mapping[str, Sequence[float]], k: int, coin: str, level: float
) -> str:
    epochs = next(iter(runs.values())).p.shape[1] - 1

    def ends(m: str) -> str:
        at = f"reaches {level:g} at {steps[m][k]:g}" if steps[m][k] <= epochs else f"does not reach {level:g}"
        return f"{NAMES[m]} {at}, ends at {runs[m].p[:, -1, k].median().item():.2f}"

    return f"Probability of the {coin} over {epochs} epochs, median over seeds: {'; '.join(map(ends, runs))}."


def _curves(runs: Mapping[str, TrainingRun], limits: Mapping[str, torch.Tensor], k: int) -> alt.InlineData:
    """One coin's curves as CSV, a quarter of the size of JSON on its way to the reader."""
    frames = []
    for method, run in runs.items():
        every = max(1, (run.p.shape[1] - 1) // SHOWN_POINTS)
        low, median, high = (
            run.p[:, ::every, k].quantile(torch.tensor([BAND[0], 0.5, BAND[1]]).to(run.p), dim=0).numpy()
        )
        epoch = range(0, run.p.shape[1], every)
        limit = limits[method][::every, k].numpy()
        frame = pl.DataFrame({"epoch": epoch, "median": median, "low": low, "high": high, "limit": limit})
        frames.append(frame.with_columns(method=pl.lit(NAMES[method])))
    csv = pl.concat(frames).write_csv(float_precision=3)
    return alt.InlineData(values=csv, format=alt.CsvDataFormat(type="csv"))


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


def arms(runs: Mapping[str, TrainingRun], large: Mapping[str, torch.Tensor], answers: Sequence[str]) -> list:
    """A chart per answer: how likely each method's policy gives it; thin dotted lines for the infinite-group limit."""
    names = [NAMES[m] for m in runs]
    epochs = next(iter(runs.values())).p.shape[1] - 1
    color, dash = _of_method(names)
    x = alt.X("epoch:Q", title="epoch", scale=alt.Scale(domain=[0, epochs]), axis=alt.Axis(tickCount=4))
    axis = alt.Axis(values=[0, 0.5, 0.9, 1])
    charts = []
    for n, answer in enumerate(answers):
        base = alt.Chart(_arm(runs, large, n)).encode(x, color)
        low = alt.Y("low:Q", title="probability", scale=alt.Scale(domain=[0, 1]), axis=axis)
        band = base.mark_area(opacity=0.18).encode(low, y2="high:Q")
        line = base.mark_line(strokeWidth=2.5).encode(dash, y="median:Q")
        limit = base.mark_line(strokeWidth=1.25, strokeDash=list(LIMIT.dash)).encode(y="large:Q")
        ends = ", ".join(f"{NAMES[m]} {run.p[:, -1, n].median():.2f}" for m, run in runs.items())
        limits = ", ".join(f"{NAMES[m]} {p[-1, n]:.2f}" for m, p in large.items())
        said = f"Probability of the answer that is {answer} over {epochs} epochs; the medians end at {ends}. "
        said += f"Infinite-group limit: {limits}."
        charts.append(_lone(alt.layer(band, line, limit), answer, said))
    return charts


def _arm(runs: Mapping[str, TrainingRun], large: Mapping[str, torch.Tensor], n: int) -> alt.InlineData:
    """One answer's curves as CSV; all of the first epochs, in which most of it happens, and few of the later ones."""
    last = next(iter(runs.values())).p.shape[1] - 1
    epochs = [*range(0, min(60, last), 2), *range(min(60, last), last, 10), last]
    frames = []
    for method, run in runs.items():
        low, median, high = run.p[:, epochs, n].quantile(torch.tensor([BAND[0], 0.5, BAND[1]]), dim=0).numpy()
        columns = {
            "epoch": epochs,
            "median": median,
            "low": low,
            "high": high,
            "large": large[method][epochs, n].numpy(),
        }
        frames.append(pl.DataFrame(columns).with_columns(method=pl.lit(NAMES[method])))
    csv = pl.concat(frames).write_csv(float_precision=3)
    return alt.InlineData(values=csv, format=alt.CsvDataFormat(type="csv"))
