"""Training runs and what they show: one run per setting and method for all visitors, curves, verdicts, tables."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, partial
from math import inf

import torch
from torch import Tensor

import gdpo_core as gc
from gdpo_core._html import Html, Row, join, prose, table, tag, text
from gdpo_core._words import listing, percent
from gdpo_core.scenarios import (
    ALIKE_EPOCHS,
    ALIKE_SHARE,
    COMPARISONS,
    LEVEL,
    VERDICTS,
    Scenario,
    Setting,
    alike,
    medians,
    verdict,
)
from views import worker
from views.text import NAMES

BAND = (0.05, 0.95)  # quantiles over seeds between which a band is drawn
UNMOVED = 0.001  # of a probability, from where it started
FAR = 0.05  # between the runs and the infinite-group limit
POINTS = 160  # of a curve, at most
COMPARED = ("grpo", "gdpo")
SAME, FASTER, SLOWER, NEITHER = VERDICTS
TITLES = {"equal": "Steps of equal size", "published": "Each as published", "neither": "Neither with its last step"}
UNDER = {
    "equal": "With steps of equal size",
    "published": "Each as published",
    "neither": "With no last step for either",
}

Runs = Mapping[str, gc.TrainingRun]
KEPT = 96  # runs and limits of the latest settings: 6 MB as scenarios are given, 75 MB at most
Progress = Callable[[float], None]
_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)  # of the thread that trains


class Stopped(Exception):
    """The reader has moved on, and nobody waits for this run."""


def names() -> dict[str, str]:
    """All methods by key: their names."""
    return NAMES | {key: one.name for key, one in getattr(gc, "SUCCESSORS", {}).items()}


def runs(setting: Setting, methods: Sequence[str] = COMPARED, progress: Progress | None = None) -> Runs:
    """Each method from the same start with the same seeds.

    progress: called with the share of the methods that is done, now and then, and may raise; with it they are
    trained in processes of their own, so that no flip waits meanwhile.
    """
    found = {}
    for n, method in enumerate(methods):
        check = progress and partial(progress, n / len(methods))
        _check.set(check)
        if check:
            check()
        found[method] = _run(setting, method)
    return found


@lru_cache(KEPT)
def _run(setting: Setting, method: str) -> gc.TrainingRun:
    if check := _check.get():
        return gc.TrainingRun(
            method, torch.from_numpy(worker.call(worker.trained, setting, method, False, check=check))
        )
    return setting.train(method)


@lru_cache(KEPT)
def limit(setting: Setting, method: str) -> Tensor:
    """The infinite-group limit, (epochs + 1, coins)."""
    if check := _check.get():
        return torch.from_numpy(worker.call(worker.trained, setting, method, True, check=check))
    return setting.mean_field(method)


def panels(setting: Setting, coins: Sequence[str], methods: Sequence[str]) -> list[dict]:
    """Per coin or arm what is drawn of each method: median, band and limit, thinned out, and when it is learnt."""
    every = -(-setting.epochs // POINTS)
    by_method = runs(setting, methods)
    curves = {m: by_method[m].p[:, ::every].quantile(_quantiles(by_method[m]), dim=0) for m in methods}
    limits = {m: limit(setting, m)[::every] for m in methods}
    reached = {m: medians(by_method[m]) for m in methods}

    def series(m: str, k: int) -> dict:
        low, mid, high = (rounded(curve) for curve in curves[m][:, :, k])
        epoch = reached[m][k]
        return {
            "method": m,
            "mid": mid,
            "low": low,
            "high": high,
            "limit": rounded(limits[m][:, k]),
            "reach": None if epoch == inf else epoch,
        }

    return [{"name": name, "series": [series(m, k) for m in methods]} for k, name in enumerate(coins)]


def curves(setting: Setting, coins: Sequence[str], methods: Sequence[str]) -> list[dict]:
    """Every epoch of what `panels` draws, with all digits."""
    rows = []
    for m, run in runs(setting, methods).items():
        drawn, limits = run.p.quantile(_quantiles(run), dim=0), limit(setting, m)
        for k, name in enumerate(coins):
            columns = zip(*drawn[:, :, k].tolist(), limits[:, k].tolist(), strict=True)
            rows += [
                {"of": name, "method": names()[m], "epoch": epoch}
                | dict(zip(("low", "median", "high", "infinite_group_limit"), values, strict=True))
                for epoch, values in enumerate(columns)
            ]
    return rows


def _quantiles(run: gc.TrainingRun) -> Tensor:
    return run.p.new_tensor([BAND[0], 0.5, BAND[1]])


def rounded(curve: Tensor) -> list[float]:
    """Three digits, more than a screen shows."""
    return [round(p, 3) for p in curve.tolist()]


def probability(p: float) -> str:
    """Two decimals that never say always or never.

    >>> probability(0.98765), probability(0.9992), probability(0.0001)
    ('0.99', 'over 0.99', 'under 0.01')
    """
    if p > 0.995 or p < 0.005:
        return "over 0.99" if p > 0.5 else "under 0.01"
    return f"{p:.2f}"


# --- the verdict in words --------------------------------------------------------------------------------------------


def said(setting: Setting, coins: Sequence[str], methods: Sequence[str] = COMPARED) -> tuple[str, Html]:
    """The verdict on this setting, and the same in words, as HTML: of which comparison it is, and what it shows."""
    by_method = runs(setting, methods)
    kind = verdict(by_method, bool(setting.arms))
    sentence = _of_arms(setting, by_method, coins) if setting.arms else _of_coins(setting, by_method, coins, kind)
    return kind, tag("p", text(UNDER[setting.comparison]), ": ", sentence)


def _of_coins(setting: Setting, by_method: Runs, coins: Sequence[str], kind: str) -> Html:
    grpo, gdpo = (medians(by_method[m]) for m in COMPARED)
    a, b = _epochs("grpo", max(grpo)), _epochs("gdpo", max(gdpo))
    level = f" at {LEVEL:g} "
    if kind == NEITHER:
        return join(tag("b", "neither method"), f" has every coin{level}within {setting.epochs} epochs.")
    if inf in (max(grpo), max(gdpo)):
        first, last, when = ("GDPO", "GRPO", b) if kind == FASTER else ("GRPO", "GDPO", a)
        head = tag("b", f"{first} gets there, {last} does not")
        return join(head, f": {first} has every coin{level}after ", when, f" epochs, {last} not in {setting.epochs}.")
    if kind == SAME:
        apart = [k for k in range(len(coins)) if not alike(grpo[k], gdpo[k])]
        more = _other(max(apart, key=lambda k: abs(gdpo[k] - grpo[k])), grpo, gdpo, coins, "But") if apart else ""
        pace = join("every coin is", level, "after ", a, " epochs under GRPO, ", b, " under GDPO.")
        return join(tag("b", "no difference"), ", ", pace, more)
    if kind == FASTER:
        behind = max(range(len(coins)), key=lambda k: gdpo[k] - grpo[k])
        late = gdpo[behind] > grpo[behind] and not alike(grpo[behind], gdpo[behind])
        more = _other(behind, grpo, gdpo, coins, "In return") if late else ""
        return join("the slowest coin is", level, "after ", b, " epochs under GDPO, ", a, " under GRPO.", more)
    head = tag("b", "GDPO is slower")
    return join(head, ", with the slowest coin", level, "after ", b, " epochs; under GRPO after ", a, ".")


def _epochs(method: str, steps: float) -> Html:
    return tag("b", f"{steps:g}", kind=method)


def _other(k: int, grpo: Sequence[float], gdpo: Sequence[float], coins: Sequence[str], how: str) -> Html:
    order = "later" if gdpo[k] > grpo[k] else "sooner"
    when = (
        "" if max(grpo[k], gdpo[k]) == inf else join(": ", _epochs("gdpo", gdpo[k]), ", not ", _epochs("grpo", grpo[k]))
    )
    return join(f" {how} the {coins[k]} comes {order} under GDPO", when, ".")


def _of_arms(setting: Setting, by_method: Runs, coins: Sequence[str]) -> Html:
    last = {m: by_method[m].p[:, -1].median(0).values.tolist() for m in COMPARED}
    likeliest = {m: p.index(max(p)) for m, p in last.items()}
    share = {m: tag("b", probability(p[0]), kind=m) for m, p in last.items()}
    outcome = join(
        f" After {setting.epochs} epochs the right answer has a probability of ",
        share["grpo"],
        " under GRPO, ",
        share["gdpo"],
        " under GDPO.",
    )
    if all(abs(a - b) < UNMOVED for p in last.values() for a, b in zip(p, setting.p0, strict=True)):
        head = tag("b", "nothing is learnt")
    elif all(max(p) < LEVEL for p in last.values()):
        head = tag("b", "neither settles")
    elif likeliest["grpo"] == likeliest["gdpo"] and min(map(max, last.values())) >= LEVEL:
        head = tag("b", f"both methods end {coins[likeliest['grpo']]}")
    else:
        head = tag("b", ", ".join(f"{NAMES[m]} {_ends(last[m], coins)}" for m in COMPARED))
    return join(head, ".", outcome)


def _ends(p: Sequence[float], coins: Sequence[str]) -> str:
    return f"ends {coins[p.index(max(p))]}" if max(p) >= LEVEL else "does not settle"


def beside(setting: Setting, extra: Sequence[str]) -> Html:
    """What the third method does, in a sentence."""
    parts = []
    for method in extra:
        run = runs(setting, [method])[method]
        if setting.arms:
            parts.append(
                f"{names()[method]} gives the right answer with {probability(run.p[:, -1, 0].median().item())}."
            )
        else:
            steps = max(medians(run))
            when = f"not within {setting.epochs} epochs" if steps == inf else f"after {steps:g} epochs"
            parts.append(f"{names()[method]} has every coin there {when}.")
    return tag("p", " ".join(parts), kind="beside") if parts else Html("")


def told(setting: Setting, coins: Sequence[str]) -> list[str]:
    """What the controls do not say of a setting."""
    notes = []
    rows = [*coins, *["noise"] * (setting.rewards - len(coins))] if not setting.arms else ["being right", "being short"]
    for name, std in zip(rows, setting.noise or (), strict=False):
        if std and name == "noise":
            notes.append(f"One more reward is noise alone, standard deviation {std:g}; no coin moves it.")
        elif std:
            notes.append(f"The {name}'s reward also has noise, standard deviation {std:g}.")
    if not any(setting.weights or (1,)):
        notes.append("All weights are 0: every advantage is 0 and nothing is learnt.")
    elif 0 in (setting.weights or ()):
        idle = [name for name, w in zip(rows, setting.weights, strict=False) if w == 0]
        notes.append(f"A weight of 0: nothing pays for {listing([f'the {name}' for name in idle])}.")
    if setting.optimizer == "adam":
        notes.append("Adam divides each coin's gradient by its own size.")
    return notes


def without_end(setting: Setting, coins: Sequence[str]) -> str:
    """Of a conflict: where the infinite-group limit leaves GDPO, if that is far from where it ends."""
    if not setting.arms:
        return ""
    p, median = limit(setting, "gdpo")[-1], runs(setting)["gdpo"].p[:, -1].median(0).values
    if float((p - median).abs().max()) < FAR:
        return ""
    limited = f"In the infinite-group limit GDPO stays at {probability(p[0].item())} {coins[0]} (thin line)."
    if setting.gate or len(set(setting.weights or (1.0,))) > 1:
        return limited
    return (
        f"{limited} If every answer is either right or short, the two rewards are mirror images and cancel under GDPO: "
        f"only the few groups of {setting.rollouts} with a {coins[-1]} answer still move it."
    )


# --- folds ------------------------------------------------------------------------------------------------------------


def steps_table(setting: Setting, coins: Sequence[str], methods: Sequence[str]) -> Html:
    """HTML table of the median epoch at which each coin or answer is learnt, under each comparison."""
    rows = []
    for comparison in COMPARISONS:
        by_method = runs(setting.compared(comparison), methods)
        for n, (m, run) in enumerate(by_method.items()):
            steps = ["–" if s == inf else f"{s:g}" for s in medians(run)]
            rows.append(Row([join(TITLES[comparison] if not n else "", tag("small", names()[m])), *steps], m))
    caption = (
        f"Epochs until p ≥ {LEVEL:g}, median over {setting.seeds} seeds; – where it is not reached in {setting.epochs}."
    )
    return table(["", *coins], rows, "steps", caption)


def curves_table(setting: Setting, coins: Sequence[str], methods: Sequence[str]) -> Html:
    """The curves as a table: median, and below it the infinite-group limit."""
    epochs = sorted({round(setting.epochs * part) for part in (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1)})
    median = {m: run.p.quantile(0.5, dim=0) for m, run in runs(setting, methods).items()}

    def cell(m: str, epoch: int, k: int) -> Html:
        exact = limit(setting, m)[epoch, k].item()
        return join(probability(median[m][epoch, k].item()), tag("small", probability(exact)))

    rows = [[epoch, *(cell(m, epoch, k) for m in methods for k in range(len(coins)))] for epoch in epochs]
    over = {names()[m]: len(coins) for m in methods}
    return table(
        ["epoch", *coins * len(methods)], rows, "steps", "Median; below it the infinite-group limit", over=over
    )


def _moves(setting: Setting) -> str:
    """How the logits move."""
    outcome = (
        "b is 1 for the answer that was drawn and 0 for the others, p their probabilities"
        if setting.arms
        else "b is 1 or 0, as the coin fell, and p its probability of a 1"
    )
    gradient = "the mean of A (b − p), the score-function gradient"
    moved = (
        "Adam moves each logit along" if setting.optimizer == "adam" else "each logit moves by the learning rate times"
    )
    return f"{moved} {gradient}; {outcome}."


def how_it_learns(setting: Setting) -> Html:
    """What is trained and how, in plain words."""
    drawn = (
        "The policy is a softmax over three answers."
        if setting.arms
        else "The policy is a few coins. A coin that falls on 1 earns its reward; the policy sets how likely that is."
    )
    formulas = (
        ""
        if setting.arms
        else " With p, v = p (1 − p), pay c and weight w a logit then moves by w c v / √(Σ w² c² v) under GRPO and by "
        "w √v / √(Σ w²) under GDPO, times the learning rate, without noise and at steps of equal size."
    )
    return join(
        *(
            tag("p", prose(one))
            for one in (
                f"**The policy.** {drawn} An epoch draws {setting.prompts} groups of {setting.rollouts} answers, "
                "computes their advantages, and makes what got a positive one likelier, what got a negative one less "
                f"likely: {_moves(setting)}",
                "**The last step.** GDPO divides all advantages of a batch by their standard deviation, GRPO does not. "
                "Longer steps would win without being better, so by default every method gets GDPO's last step: steps "
                "of equal size. **Each as published** gives it to GDPO alone. **Neither** takes it from GDPO too, as "
                "many a demo does; then GDPO's steps are longer than GRPO's.",
                f"**Thin lines** are the infinite-group limit: what ever larger groups would do.{formulas}",
                f"**Bands** hold {percent(BAND[1] - BAND[0])} of the seeds. Two medians count as equal if they are "
                f"within {ALIKE_EPOCHS} epochs or {percent(ALIKE_SHARE)}.",
            )
        )
    )


# --- the same numbers from a program ----------------------------------------------------------------------------------


def program(setting: Setting, methods: Sequence[str]) -> str:
    """A program of at most 15 lines that prints the medians, or where the answers end, as on the screen."""
    untouched = vars(Setting(setting.p0))
    given = {k: v for k, v in vars(setting).items() if v != untouched[k] and k not in ("arms", "p0", "scale")}
    if not setting.arms and setting.scale:
        given["scale"] = setting.scale
    p0 = [round(p, 6) for p in setting.p0]
    call = f"train_arms(method, {p0}, {setting.paid}, **options)" if setting.arms else f"train(method, {p0}, **options)"
    result = (
        "[round(p, 2) for p in run.p[:, -1].median(0).values.tolist()]"
        if setting.arms
        else f"run.steps_to({LEVEL:g}).median(0).values.tolist()"
    )
    lines = [
        "import gdpo_core as gc",
        "",
        f"options = { ({name: list(x) if isinstance(x, tuple) else x for name, x in given.items()})!r}",
        f"for method in {tuple(methods)!r}:",
        f"    run = gc.{call}",
        f"    print(method, {result})",
    ]
    return "\n".join(lines) + "\n"


def as_given(scenario: Scenario, setting: Setting) -> bool:
    """Whether these are the scenario's own arguments, under any comparison."""
    own = replace(scenario.setting, match_scale=setting.match_scale)
    return setting == (replace(own, p0=setting.p0) if scenario.from_marks else own)
