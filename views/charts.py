"""The charts: the only importer of Altair."""

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl
import torch

from gdpo_core import TrainingRun
from views.text import BAND, COLOURS, DASHES, NAMES

SHOWN_EVERY = 3  # epochs; 51 points draw the curve of 151 as well


def training(runs: Mapping[str, TrainingRun], rewards: Sequence[str]) -> list[alt.LayerChart]:
    """A chart a reward: the median over seeds as a line a method, most of the seeds as a band."""
    names = [NAMES[m] for m in runs]
    epochs = next(iter(runs.values())).p.shape[1] - 1
    base = alt.Chart().encode(
        x=alt.X("epoch:Q", title="epoch", scale=alt.Scale(domain=[0, epochs]), axis=alt.Axis(tickCount=4)),
        color=alt.Color("method:N", scale=alt.Scale(domain=names, range=[COLOURS[n] for n in names]), legend=None),
    )
    axis = alt.Axis(values=[0, 0.5, 0.9, 1])
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title="pass probability", scale=alt.Scale(domain=[0, 1]), axis=axis), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2.5).encode(
        y="median:Q",
        strokeDash=alt.StrokeDash(
            "method:N", scale=alt.Scale(domain=names, range=[DASHES[n] for n in names]), legend=None
        ),
    )
    return [
        alt.layer(band, line, data=_curves(runs, k))
        .properties(width="container", height=200, title=reward, description=_description(runs, k, reward, epochs))
        .properties(usermeta={"embedOptions": {"actions": False}})
        .configure(background="transparent")
        .configure_view(strokeOpacity=0)
        for k, reward in enumerate(rewards)
    ]


def _description(runs: Mapping[str, TrainingRun], k: int, reward: str, epochs: int) -> str:
    ends = ", ".join(f"{NAMES[m]} {run.p[:, -1, k].median().item():.2f}" for m, run in runs.items())
    return f"Pass probability of the {reward} over {epochs} epochs; the medians end at {ends}."


def _curves(runs: Mapping[str, TrainingRun], k: int) -> alt.InlineData:
    """One reward's curves as CSV, a quarter of the size of JSON on its way to the reader."""
    frames = []
    for method, run in runs.items():
        low, median, high = run.p[:, ::SHOWN_EVERY, k].quantile(torch.tensor([BAND[0], 0.5, BAND[1]]), dim=0).numpy()
        epoch = range(0, run.p.shape[1], SHOWN_EVERY)
        frame = pl.DataFrame({"epoch": epoch, "median": median, "low": low, "high": high})
        frames.append(frame.with_columns(method=pl.lit(NAMES[method])))
    csv = pl.concat(frames).write_csv(float_precision=3)
    return alt.InlineData(values=csv, format=alt.CsvDataFormat(type="csv"))
