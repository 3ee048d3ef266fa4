"""The charts: the only importer of Altair."""

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from gdpo_core import TrainingRun
from views.text import NAMES

COLOURS = {"GRPO": "#c8641e", "GRPO without std": "#8a8a8a", "GDPO": "#3b82d0"}
DASHES = {"GRPO": [1, 0], "GRPO without std": [2, 3], "GDPO": [8, 4]}
SHOWN_EVERY = 3  # epochs; 51 points draw the curve of 151 as well


def training(runs: Mapping[str, TrainingRun], rewards: Sequence[str]) -> list[alt.LayerChart]:
    """A chart a reward: the median over seeds as a line a method, nine tenths of the seeds as a band."""
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
    curves = _curves(runs, rewards)
    return [
        alt.layer(band, line, data=curves.filter(reward=reward))
        .properties(width="container", height=200, title=reward, description=_description(runs, k, reward, epochs))
        .properties(usermeta={"embedOptions": {"actions": False}})
        .configure(background="transparent")
        .configure_view(strokeOpacity=0)
        for k, reward in enumerate(rewards)
    ]


def legend() -> str:
    """HTML legend of the methods: colour and dash."""
    keys = "".join(
        f'<span><svg width="34" height="8" aria-hidden="true"><line x1="0" x2="34" y1="4" y2="4" stroke-width="3" '
        f'stroke="{COLOURS[name]}" stroke-dasharray="{" ".join(map(str, DASHES[name]))}"/></svg>{name}</span>'
        for name in NAMES.values()
    )
    return f'<p class="key">{keys}</p>'


def _description(runs: Mapping[str, TrainingRun], k: int, reward: str, epochs: int) -> str:
    ends = ", ".join(f"{NAMES[m]} {run.p[:, -1, k].median().item():.2f}" for m, run in runs.items())
    return f"Pass probability of the {reward} over {epochs} epochs; the medians end at {ends}."


def _curves(runs: Mapping[str, TrainingRun], rewards: Sequence[str]) -> pl.DataFrame:
    frames = []
    for method, run in runs.items():
        low, median, high = (run.p.quantile(q, dim=0) for q in (0.05, 0.5, 0.95))  # (epochs + 1, rewards)
        for k, reward in enumerate(rewards):
            frames.append(
                pl.DataFrame(
                    {
                        "epoch": range(len(median)),
                        "median": median[:, k].numpy(),
                        "low": low[:, k].numpy(),
                        "high": high[:, k].numpy(),
                    }
                )
                .with_columns(pl.lit(NAMES[method]).alias("method"), pl.lit(reward).alias("reward"))
                .gather_every(SHOWN_EVERY)
            )
    return pl.concat(frames).with_columns(pl.col("median", "low", "high").round(3))
