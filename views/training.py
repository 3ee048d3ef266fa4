"""Section 6: training runs of all methods from one start, what they show in a sentence, as charts and as a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import inf

from torch import Tensor

import gdpo_core as gc
from gdpo_core.scenarios import VERDICTS, Setting
from views.once import Once
from views.text import COLOURS, DASHES, NAMES, SHAPES, percent

LEVEL = 0.9
ALIKE_EPOCHS, ALIKE_SHARE = 2, 0.05  # medians that are no further apart count as equal
QUICK = 16e6  # random outcomes that are drawn in well under a second
SAME, FASTER, SLOWER = VERDICTS
NEITHER = "neither"

Runs = Mapping[str, gc.TrainingRun]
_runs, _limits = Once(maxsize=64), Once(maxsize=64)  # at most 30 MB, with 400 epochs of 3 coins each


class Stopped(Exception):
    """The reader has moved on, and nobody waits for this run."""


@dataclass(frozen=True)
class Verdict:
    """How the runs ended: one of VERDICTS or NEITHER, and the same in words, as HTML."""

    kind: str
    sentence: str


def runs(setting: Setting, progress: Callable[[float], None] | None = None) -> Runs:
    """All methods from the same start with the same seeds; `progress` is told the share that is done, and may raise."""
    told = progress or (lambda share: None)

    def compute() -> Runs:
        return {
            method: setting.train(method, lambda epoch, n=n: told((n + epoch / setting.epochs) / len(NAMES)))
            for n, method in enumerate(NAMES)
        }

    return _runs.get(setting, compute, waiting=lambda: told(0))


def quick(setting: Setting) -> bool:
    """Whether the runs are there already, or in less than a second."""
    noisy = sum(n > 0 for n in setting.noise or ())  # normal numbers take about three times as long
    drawn = setting.seeds * setting.prompts * setting.rollouts * (setting.rewards + 2 * noisy) * setting.epochs
    return drawn <= QUICK or _runs.has(setting)


def limits(setting: Setting) -> dict[str, Tensor]:
    """The large-group limit of each method."""
    return _limits.get(setting, lambda: {method: setting.mean_field(method) for method in NAMES})


def charts(setting: Setting, coins: Sequence[str], level: float = LEVEL) -> list:
    """A chart a coin."""
    from views.charts import training  # here, because Altair is half of what the first visitor would wait for

    found = runs(setting)
    steps = {method: medians(run, level) for method, run in found.items()}
    return training(found, limits(setting), steps, coins, level)


def chart_row(charts: Iterable, kind: str = "") -> str:
    """HTML that sets charts side by side, or below each other where there is no room."""
    return f'<div class="charts {kind}">{"".join(f"<div>{chart}</div>" for chart in charts)}</div>'


def legend() -> str:
    """HTML legend of the methods: colour and dash."""
    keys = "".join(
        _key(f'stroke-width="3" stroke="{COLOURS[name]}" stroke-dasharray="{" ".join(map(str, DASHES[name]))}"', name)
        for name in NAMES.values()
    )
    return f'<p class="key">{keys}</p>'


def legend_of_runs(level: float = LEVEL) -> str:
    """The same with what else these charts hold: the thin curves and the markers."""
    thin = _key('stroke-width="1.25" stroke="currentcolor" stroke-dasharray="2 2"', "groups without end")
    paths = "".join(
        f'<path transform="translate({8 + 15 * n} 4) scale(4)" d="{SHAPES[name]}" fill="{COLOURS[name]}"/>'
        for n, name in enumerate(NAMES.values())
    )
    marks = (
        f'<span><svg width="46" height="8" overflow="visible" aria-hidden="true">{paths}</svg>reaches {level:g}</span>'
    )
    return legend().replace("</p>", f"{thin}{marks}</p>")


def _key(stroke: str, name: str) -> str:
    line = f'<line x1="0" x2="34" y1="4" y2="4" {stroke}/>'
    return f'<span><svg width="34" height="8" aria-hidden="true">{line}</svg>{name}</span>'


def medians(run: gc.TrainingRun, level: float = LEVEL) -> list[float]:
    """Per coin, the (lower) median over seeds of the epoch at which it reaches the level; infinity for never."""
    steps = run.steps_to(level).sort(0).values
    return steps[(len(steps) - 1) // 2].tolist()


def verdict(found: Runs, coins: Sequence[str], level: float = LEVEL) -> Verdict:
    """GRPO against GDPO, by the epochs until the slowest coin has reached the level."""
    grpo, gdpo = (medians(found[method], level) for method in ("grpo", "gdpo"))
    of_grpo, of_gdpo = max(grpo), max(gdpo)  # each method's slowest coin
    epochs, each = next(iter(found.values())).p.shape[1] - 1, f"every coin at {level:g}"
    if of_grpo == of_gdpo == inf:
        return Verdict(NEITHER, f"<b>Neither method has {each}</b> within {epochs} epochs.")
    if inf in (of_grpo, of_gdpo):
        kind, first, last = (FASTER, "GDPO", "GRPO") if of_grpo == inf else (SLOWER, "GRPO", "GDPO")
        said = f"{first} has {each} after {min(of_grpo, of_gdpo):g} epochs, {last} not within {epochs}."
        return Verdict(kind, f"<b>{first} gets there, {last} does not</b>: {said}")
    if alike(of_grpo, of_gdpo):
        told = "at its start" if of_grpo == of_gdpo == 0 else f"after {_both(of_grpo, of_gdpo)} epochs"
        told = f"<b>No difference</b>: GRPO and GDPO have {each} {told}."
        apart = [k for k in range(len(coins)) if not alike(grpo[k], gdpo[k])]
        if apart:
            told += _other(max(apart, key=lambda k: abs(gdpo[k] - grpo[k])), grpo, gdpo, coins, "But")
        return Verdict(SAME, told)
    share = percent(of_gdpo / of_grpo) if of_grpo else ""
    if of_gdpo < of_grpo:
        said = f"<b>GDPO reaches {level:g} in the slowest coin in {share} of GRPO's steps</b>"
        said += f": {of_gdpo:g} epochs, not {of_grpo:g}."
        behind = max(range(len(coins)), key=lambda k: gdpo[k] - grpo[k])
        more = gdpo[behind] > grpo[behind] and not alike(grpo[behind], gdpo[behind])
        return Verdict(FASTER, said + (_other(behind, grpo, gdpo, coins, "In return,") if more else ""))
    said = f"<b>GDPO is slower</b>: it reaches {level:g} in the slowest coin after {of_gdpo:g} epochs"
    return Verdict(SLOWER, f"{said}, GRPO after {of_grpo:g}" + (f" ({share} of GRPO's steps)." if share else "."))


def alike(a: float, b: float) -> bool:
    """Whether two medians count as equal.

    >>> alike(100, 105), alike(100, 107), alike(18, 20), alike(inf, 3)
    (True, False, True, False)
    """
    return a == b or (max(a, b) < inf and abs(a - b) <= max(ALIKE_EPOCHS, ALIKE_SHARE * max(a, b)))


def _both(a: float, b: float) -> str:
    return f"{a:g}" if a == b else f"{a:g} and {b:g}"


def _other(k: int, grpo: Sequence[float], gdpo: Sequence[float], coins: Sequence[str], how: str) -> str:
    order = "later" if gdpo[k] > grpo[k] else "sooner"
    return f" {how} GDPO has the {coins[k]} there {order}: after {gdpo[k]:g} epochs, not {grpo[k]:g}."


def says(text: str) -> str:
    """HTML of a verdict; no line break between a number and its percent sign."""
    return f'<div class="says">{text.replace(" %", "&nbsp;%")}</div>'


def steps_table(found: Runs, coins: Sequence[str], level: float = LEVEL) -> str:
    """HTML table of the median epoch at which each coin reaches the level."""
    head = "".join(f'<th scope="col">{escape(coin)}</th>' for coin in coins)
    rows = "".join(
        f'<tr class="{m}"><th scope="row">{NAMES[m]}</th>'
        + "".join(f"<td>{_number(s, run)}</td>" for s in medians(run, level))
        + "</tr>"
        for m, run in found.items()
    )
    seeds = len(next(iter(found.values())).p)
    return (
        f'<table class="steps"><caption>Epochs until p ≥ {level:g}, median over {seeds} seeds</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def figure(lazy) -> str:
    """HTML that keeps room for three charts in a row, which are drawn once they are in sight."""
    return f'<div class="trained">{lazy}</div>'


class Progress:
    """Passes a share on when it has grown by a twentieth, so that the reader's browser can keep up."""

    def __init__(self, show: Callable[[float], None]) -> None:
        self.show, self.last = show, 0.0

    def __call__(self, share: float) -> None:
        if share >= self.last + 0.05:
            self.last = share
            self.show(share)


def waiting(share: float) -> str:
    """HTML of a run that takes a while."""
    return (
        '<div class="await"><label>Training '
        f'<progress max="1" value="{share:.2f}">{percent(share)}</progress></label> '
        "Change a control to stop this run.</div>"
    )


def _number(steps: float, run: gc.TrainingRun) -> str:
    return f"not in {run.p.shape[1] - 1}" if steps == inf else f"{steps:g}"
