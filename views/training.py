"""Section 6: training runs of all methods from one start, what they show in a sentence, and as a table."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf

import gdpo_core as gc
from views.text import COLOURS, DASHES, NAMES

LEVEL = 0.9
EPOCHS, PROMPTS, ROLLOUTS, SEEDS = 150, 32, 8, 32


@lru_cache(maxsize=64)
def runs(p0: tuple[float, ...], scale: tuple[float, ...]) -> dict[str, gc.TrainingRun]:
    """All methods from the same start with the same seeds; equal requests of several visitors are computed once."""
    sizes = {"epochs": EPOCHS, "prompts": PROMPTS, "rollouts": ROLLOUTS, "seeds": SEEDS}
    return {method: gc.train(method, p0, scale=scale, **sizes) for method in NAMES}


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
    """Per reward, the (lower) median over seeds of the epoch at which it reaches the level; infinity for never."""
    steps = run.steps_to(LEVEL).sort(0).values
    return steps[(len(steps) - 1) // 2].tolist()


def largest_gap(found: Mapping[str, gc.TrainingRun]) -> float:
    """The largest distance between two methods' median curves, over epochs and rewards."""
    curves = [run.p.quantile(0.5, dim=0) for run in found.values()]
    return max((a - b).abs().max().item() for a in curves for b in curves)


def says(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> str:
    """The verdict as the page shows it."""
    return f'<div class="says">{verdict(found, rewards)}</div>'


def verdict(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> str:
    """What the runs show, as HTML."""
    steps = {method: medians(run) for method, run in found.items()}
    per_reward = list(zip(*steps.values(), strict=True))
    if all(map(_alike, per_reward)):
        apart = max(max(s) - min(s) for s in per_reward if max(s) < inf) if min(map(max, per_reward)) < inf else 0
        return (
            f"<b>The three curves coincide</b>: each coin reaches {LEVEL:g} at the same epoch under all methods, "
            f"give or take {apart:g}, and no two medians are ever further apart than {largest_gap(found):.2f}."
        )
    slowest = max(range(len(rewards)), key=lambda k: steps["grpo"][k])
    told = f"<b>The curves come apart</b>: {_reaches(found, steps, rewards, slowest)}."
    behind = max(range(len(rewards)), key=lambda k: _behind(steps, k))
    if behind != slowest and _behind(steps, behind) > 0 and not _alike(per_reward[behind]):
        told += f" In return GDPO is slower elsewhere: {_reaches(found, steps, rewards, behind)}."
    return told


def _alike(steps: Sequence[float]) -> bool:
    """Whether the methods need the same number of epochs, to 2 epochs or 5 %."""
    return max(steps) == min(steps) or max(steps) - min(steps) <= max(2, 0.05 * max(steps))


def _behind(steps: Mapping[str, Sequence[float]], k: int) -> float:
    gdpo, grpo = steps["gdpo"][k], steps["grpo"][k]
    return 0 if gdpo == grpo else gdpo - grpo


def _reaches(found, steps: Mapping[str, Sequence[float]], rewards: Sequence[str], k: int) -> str:
    told = [f"{NAMES[m]} {_number(steps[m][k], found)}" for m in found]
    return f"epochs until the {rewards[k]} reaches {LEVEL:g}: {', '.join(told)}"


def steps_table(found: Mapping[str, gc.TrainingRun], rewards: Sequence[str]) -> str:
    """HTML table of the median epoch at which each reward reaches the level."""
    head = "".join(f'<th scope="col">{reward}</th>' for reward in rewards)
    rows = "".join(
        f'<tr class="{m}"><th scope="row">{NAMES[m]}</th>'
        + "".join(f"<td>{_number(s, found)}</td>" for s in medians(run))
        + "</tr>"
        for m, run in found.items()
    )
    return (
        f'<table class="steps"><caption>Epochs until p ≥ {LEVEL:g}, median over {_seeds(found)} seeds</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _seeds(found: Mapping[str, gc.TrainingRun]) -> int:
    return len(next(iter(found.values())).p)


def _number(steps: float, found: Mapping[str, gc.TrainingRun]) -> str:
    return f"not in {next(iter(found.values())).p.shape[1] - 1}" if steps == inf else f"{steps:g}"
