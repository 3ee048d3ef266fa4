"""Section 6: training runs of all methods from one start, what they show in a sentence, and as a table."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf

import gdpo_core as gc
from views.text import COLOURS, DASHES, NAMES

COINCIDE = 0.05  # medians closer than this at every epoch are one curve to the eye
LEVEL = 0.9


@lru_cache(maxsize=64)
def runs(p0: tuple[float, ...], scale: tuple[float, ...]) -> dict[str, gc.TrainingRun]:
    """All methods from the same start with the same seeds; equal requests of several visitors are computed once."""
    return {method: gc.train(method, p0, scale=scale) for method in NAMES}


def charts(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> list:
    """A chart a reward."""
    from views.charts import training  # here, because Altair is half of what the first visitor would wait for

    return training(found, rewards)


def chart_row(charts: Iterable) -> str:
    """HTML that sets charts side by side, or below each other where there is no room."""
    return f'<div class="charts">{"".join(f"<div>{chart}</div>" for chart in charts)}</div>'


def legend() -> str:
    """HTML legend of the methods: colour and dash."""
    keys = "".join(
        f'<span><svg width="34" height="8" aria-hidden="true"><line x1="0" x2="34" y1="4" y2="4" stroke-width="3" '
        f'stroke="{COLOURS[name]}" stroke-dasharray="{" ".join(map(str, DASHES[name]))}"/></svg>{name}</span>'
        for name in NAMES.values()
    )
    return f'<p class="key">{keys}</p>'


def medians(run: gc.TrainingRun) -> list[float]:
    """Per reward, the median over seeds of the epoch at which it reaches the level."""
    return run.steps_to(LEVEL).quantile(0.5, dim=0).tolist()


def largest_gap(found: Mapping[str, gc.TrainingRun]) -> float:
    """The largest distance between two methods' median curves, over epochs and rewards."""
    curves = [run.p.quantile(0.5, dim=0) for run in found.values()]
    return max((a - b).abs().max().item() for a in curves for b in curves)


def says(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> str:
    """The verdict as the page shows it."""
    return f'<div class="says">{verdict(found, rewards)}</div>'


def verdict(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> str:
    """What the runs show, as HTML."""
    gap = largest_gap(found)
    if gap <= COINCIDE:
        return f"<b>The three curves coincide</b>: at no epoch are two medians further apart than {gap:.2f}."
    steps = {method: medians(run) for method, run in found.items()}
    slowest = max(range(len(rewards)), key=lambda k: steps["grpo"][k])
    told = ", ".join(f"{_epochs(steps[m][slowest])} under {NAMES[m]}" for m in found)
    return f"<b>The curves come apart</b>: {rewards[slowest]} reaches {LEVEL:g} after {told}."


def steps_table(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> str:
    """HTML table of the median epoch at which each reward reaches the level."""
    head = "".join(f"<th>{reward}</th>" for reward in rewards)
    rows = "".join(
        f'<tr class="{m}"><th>{NAMES[m]}</th>' + "".join(f"<td>{_number(s)}</td>" for s in medians(run)) + "</tr>"
        for m, run in found.items()
    )
    return (
        f'<table class="steps"><caption>Epochs until p ≥ {LEVEL:g}, median over {_seeds(found)} seeds</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _seeds(found: Mapping[str, gc.TrainingRun]) -> int:
    return len(next(iter(found.values())).p)


def _number(steps: float) -> str:
    return "never" if steps == inf else f"{steps:g}"


def _epochs(steps: float) -> str:
    return "never" if steps == inf else f"{steps:g} epochs"
