"""Section 6: training runs of all methods from one start, what they show in a sentence, as charts and as a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import marimo as mo
from torch import Tensor

import gdpo_core as gc
from gdpo_core._theme import LIMIT, METHODS
from gdpo_core._words import percent
from gdpo_core.scenarios import VERDICTS, Setting
from views import html
from views.html import Html, Row, methods, prose, show, table, tag, thin
from views.once import Once
from views.text import NAMES

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
    sentence: Html


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
    """A chart per coin."""
    from views.charts import training  # here, because Altair is half of what the first visitor would wait for

    found = runs(setting)
    steps = {method: medians(run, level) for method, run in found.items()}
    return training(found, limits(setting), steps, coins, level)


def legend_of_runs(level: float = LEVEL) -> Html:
    """HTML legend of what these charts hold: the methods' curves, the thin ones and the markers."""
    shapes = (
        tag("path", transform=f"translate({8 + 15 * n} 4) scale(4)", d=look.shape, fill=look.colour)
        for n, look in enumerate(METHODS.values())
    )
    marks = tag("svg", *shapes, width=46, height=8, overflow="visible", aria_hidden="true")
    return html.legend([*methods(NAMES), thin(LIMIT, "infinite-group limit"), (marks, f"reaches {level:g}")])


def medians(run: gc.TrainingRun, level: float = LEVEL) -> list[float]:
    """Per coin, the (lower) median over seeds of the epoch at which it reaches the level; infinity for never."""
    steps = run.steps_to(level).sort(0).values
    return steps[(len(steps) - 1) // 2].tolist()


def verdict(found: Runs, coins: Sequence[str], level: float = LEVEL) -> Verdict:
    """GRPO against GDPO, by the epochs until the slowest coin has reached the level."""
    kind, sentence = _verdict(found, coins, level)
    return Verdict(kind, prose(sentence))


def _verdict(found: Runs, coins: Sequence[str], level: float) -> tuple[str, str]:
    grpo, gdpo = (medians(found[method], level) for method in ("grpo", "gdpo"))
    of_grpo, of_gdpo = max(grpo), max(gdpo)  # each method's slowest coin
    epochs, each = next(iter(found.values())).p.shape[1] - 1, f"every coin at {level:g}"
    if of_grpo == of_gdpo == inf:
        return NEITHER, f"**Neither method has {each}** within {epochs} epochs."
    if inf in (of_grpo, of_gdpo):
        kind, first, last = (FASTER, "GDPO", "GRPO") if of_grpo == inf else (SLOWER, "GRPO", "GDPO")
        said = f"{first} has {each} after {min(of_grpo, of_gdpo):g} epochs, {last} not within {epochs}."
        return kind, f"**{first} gets there, {last} does not**: {said}"
    if alike(of_grpo, of_gdpo):
        told = "at its start" if of_grpo == of_gdpo == 0 else f"after {_both(of_grpo, of_gdpo)} epochs"
        told = f"**No difference**: GRPO and GDPO have {each} {told}."
        apart = [k for k in range(len(coins)) if not alike(grpo[k], gdpo[k])]
        if apart:
            told += _other(max(apart, key=lambda k: abs(gdpo[k] - grpo[k])), grpo, gdpo, coins, "But")
        return SAME, told
    share = percent(of_gdpo / of_grpo) if of_grpo else ""
    if of_gdpo < of_grpo:
        said = f"**GDPO reaches {level:g} in the slowest coin in {share} of GRPO's steps**"
        said += f": {of_gdpo:g} epochs, not {of_grpo:g}."
        behind = max(range(len(coins)), key=lambda k: gdpo[k] - grpo[k])
        more = gdpo[behind] > grpo[behind] and not alike(grpo[behind], gdpo[behind])
        return FASTER, said + (_other(behind, grpo, gdpo, coins, "In return,") if more else "")
    said = f"**GDPO is slower**: it reaches {level:g} in the slowest coin after {of_gdpo:g} epochs"
    return SLOWER, f"{said}, GRPO after {of_grpo:g}" + (f" ({share} of GRPO's steps)." if share else ".")


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


def steps_table(found: Runs, coins: Sequence[str], level: float = LEVEL) -> Html:
    """HTML table of the median epoch at which each coin reaches the level."""
    rows = [Row([NAMES[m], *(_number(s, run) for s in medians(run, level))], m) for m, run in found.items()]
    seeds = len(next(iter(found.values())).p)
    return table(["", *coins], rows, "steps", f"Epochs until p ≥ {level:g}, median over {seeds} seeds")


def _number(steps: float, run: gc.TrainingRun) -> str:
    return f"not in {run.p.shape[1] - 1}" if steps == inf else f"{steps:g}"


def when_trained(setting: Setting, view: Callable[[], mo.Html]) -> mo.Html | None:
    """The view of a setting's runs, in a cell: at once if they are quick.

    Else a bar that moves comes first, and the next change of a control stops the runs.
    """
    if quick(setting):
        return view()
    mo.output.replace(show(waiting(0)))
    mo.Thread(target=_train_meanwhile, args=(setting, view)).start()
    return None


def _train_meanwhile(setting: Setting, view: Callable[[], mo.Html]) -> None:
    """In a thread of its own: train with a progress bar, and show the view unless the reader has moved on."""
    thread = mo.current_thread()
    shown = Progress(lambda share: mo.output.replace(show(waiting(share))))

    def progress(share: float) -> None:
        if thread.should_exit:
            raise Stopped
        shown(share)

    try:
        runs(setting, progress)
    except Stopped:
        return
    if not thread.should_exit:
        mo.output.replace(view())


class Progress:
    """Passes a share on when it has grown by a twentieth, so that the reader's browser can keep up."""

    def __init__(self, show: Callable[[float], None]) -> None:
        self.show, self.last = show, 0.0

    def __call__(self, share: float) -> None:
        if share >= self.last + 0.05:
            self.last = share
            self.show(share)


def waiting(share: float) -> Html:
    """HTML of a run that takes a while."""
    bar = tag("label", "Training ", tag("progress", percent(share), max=1, value=f"{share:.2f}"))
    return tag("div", bar, " Change a control to stop this run.", kind="await")
