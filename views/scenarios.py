"""Section 6: scenarios as choices, what the controls add up to, the reader's guess, and all verdicts at a glance."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import marimo as mo

from gdpo_core._words import decimal, listing
from gdpo_core.scenarios import VERDICTS, Scenario, Setting, load_scenarios
from views import html
from views.html import Html, join, prose, says, show, small, table, tag, when_seen
from views.training import (
    LEVEL,
    NEITHER,
    SAME,
    Verdict,
    charts,
    legend_of_runs,
    runs,
    steps_table,
    verdict,
    when_trained,
)

# What the sliders of a coin stop at; a scenario starts at one of these.
STARTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85)
SCALES = (0.1, 0.3, 1, 3, 6, 10, 30, 100)
WEIGHTS = (0, 0.1, 0.2, 0.5, 1, 2, 5)
ROLLOUTS, PROMPTS, SEEDS = (2, 4, 8, 16), (8, 16, 32, 64), (8, 16, 32)
RATES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
OPTIMIZERS = {"SGD": "sgd", "Adam": "adam"}
NOISE = "noise"  # the row of a reward that no coin moves
GUESSES = dict(zip(("No difference", "GDPO first", "GRPO first"), VERDICTS, strict=True))

PLACEHOLDER = tag(
    "div", "The curves, the verdict and the lesson appear once you have said who gets there first.", kind="await"
)
HIDDEN = tag("p", prose("Hidden while you predict; switch **Predict first** off to see all verdicts."), kind="told")

scenarios: Callable[..., tuple[Scenario, ...]] = lru_cache(maxsize=2)(load_scenarios)


def choices(scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    """The scenarios by title."""
    return {scenario.title: scenario for scenario in scenarios}


def rows(scenario: Scenario) -> list[str]:
    """The names of all rewards, those of noise alone included."""
    return [*scenario.coins, *[NOISE] * (scenario.setting.rewards - len(scenario.coins))]


def filled(values: Sequence[float] | None, count: int) -> list[float]:
    """One number per reward, 1 where the scenario says nothing."""
    return list(values) if values is not None else [1] * count


def sizes(setting: Setting) -> list[tuple]:
    """The sliders of the further settings: name, label, stops, where they start."""
    return [
        ("rollouts", "Answers a group", ROLLOUTS, setting.rollouts),
        ("prompts", "Groups a batch", PROMPTS, setting.prompts),
        ("lr", "Learning rate", RATES, setting.lr),
        ("seeds", "Seeds", SEEDS, setting.seeds),
        ("level", "Level to reach", LEVELS, LEVEL),
    ]


def optimizer(setting: Setting) -> str:
    """The name of the optimiser as the page has it."""
    return next(name for name, key in OPTIMIZERS.items() if key == setting.optimizer)


def controls(scenario: Scenario, start: Sequence, scale: Sequence, weights: Sequence) -> tuple[list[str], list[list]]:
    """Titles and cells of the table of sliders, a row per reward."""
    coins = len(scenario.coins)
    starts = list(start) or ["start: from the marks"] * coins
    cells = [[starts[k], scale[k], weights[k]] if k < coins else ["", "", weights[k]] for k in range(len(weights))]
    return rows(scenario), cells


def pass_rates(passed: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """The share that passes each mark, kept half an answer away from none and all.

    >>> pass_rates([[1, 0], [1, 0], [0, 0], [1, 0]])
    (0.75, 0.125)
    """
    edge = 0.5 / len(passed)
    return tuple(min(max(sum(mark) / len(mark), edge), 1 - edge) for mark in zip(*passed, strict=True))


def chosen(
    scenario: Scenario, start: Sequence, scale: Sequence, weights: Sequence, more: Mapping, passed=()
) -> Setting:
    """What the controls add up to."""
    return Setting(
        p0=pass_rates(passed) if scenario.from_marks else tuple(start),
        scale=_unless_ones(scale),
        weights=_unless_ones(weights),
        noise=scenario.setting.noise,
        gate=scenario.setting.gate,
        epochs=scenario.setting.epochs,
        **{name: value for name, value in more.items() if name != "level"},
    )


def _unless_ones(values: Sequence[float]) -> tuple[float, ...] | None:
    return None if all(x == 1 for x in values) else tuple(values)


def described(setting: Setting, scenario: Scenario) -> Html:
    """HTML: what the controls do not say of a setting."""
    told = []
    if scenario.from_marks:
        starts = ", ".join(f"{coin} {decimal(p, 2)}" for coin, p in zip(scenario.coins, setting.p0, strict=True))
        told.append(
            f"The coins start at the share of answers that pass each mark, as the marks above are now: {starts}. (None "
            "and all count as half an answer more and less.)"
        )
    for name, std in zip(rows(scenario), setting.noise or (), strict=False):
        if std and name == NOISE:
            told.append(f"One more reward is noise alone, with a standard deviation of {std:g}; no coin moves it.")
        elif std:
            told.append(f"The reward of the {name} also has noise with a standard deviation of {std:g}.")
    if not any(setting.weights or (1,)):
        told.append("All weights are 0: every advantage is 0 and nothing is learnt.")
    elif 0 in (setting.weights or ()):
        idle = [name for name, w in zip(rows(scenario), setting.weights, strict=False) if w == 0]
        told.append(f"Nothing pays for learning {listing([f'the {name}' for name in idle])}: a weight of 0.")
    if not setting.match_scale:
        told.append("**The methods do not run at a common step size here.**")
    return tag("p", prose(" ".join(told)), kind="told") if told else Html("")


def reckoned(guess: str, found: Verdict) -> Html:
    """HTML: the reader's guess, and whether it was right.

    >>> reckoned("GDPO faster", Verdict("GDPO faster", ""))
    Markup('<p class="guess right"><b>✓ Right.</b> Your guess for the scenario as it is given, at 0.9: GDPO first.</p>')
    """
    words = next(words for words, kind in GUESSES.items() if kind == guess)
    right = guess == (SAME if found.kind == NEITHER else found.kind)
    name, mark = ("right", "✓ Right.") if right else ("wrong", "✗ Not so.")
    said = f"**{mark}** Your guess for the scenario as it is given, at {LEVEL:g}: {words}."
    return tag("p", prose(said), kind=f"guess {name}")


def outcome(scenario: Scenario, passed: Sequence[Sequence[int]] = ()) -> Verdict:
    """The verdict on a scenario as it stands in its file; passed: the marks, for one that starts from them."""
    setting = scenario.at(pass_rates(passed)) if scenario.from_marks else scenario.setting
    return verdict(runs(setting), scenario.coins)


def shown(scenario: Scenario, setting: Setting, level: float, guessed: tuple[str, Verdict] | None) -> Html:
    """HTML above the charts: what was run, the guess and whether it was right, and the verdict with the lesson."""
    found = verdict(runs(setting), scenario.coins, level)
    guess = reckoned(*guessed) if guessed else ""
    return join(described(setting, scenario), guess, says(found.sentence), lesson(scenario, setting))


def result(
    scenario: Scenario, controls: Sequence, guess: tuple[str | None] | None, passed: Sequence[Sequence[int]] = ()
) -> mo.Html | None:
    """What a cell shows of a scenario under these controls, as `chosen` takes them.

    guess: None where the reader does not predict, (None,) where the guess is still to come.
    """
    if guess == (None,):
        return show(PLACEHOLDER)
    setting, level = chosen(scenario, *controls, passed), controls[-1]["level"]

    def view() -> mo.Html:
        guessed = (guess[0], outcome(scenario, passed)) if guess else None
        drawn = when_seen("trained", lambda: html.charts(charts(setting, scenario.coins, level), "thirds"))
        table = steps_table(runs(setting), scenario.coins, level)
        parts = (shown(scenario, setting, level, guessed), legend_of_runs(level), drawn, table)
        return mo.vstack(list(map(show, parts)))

    return when_trained(setting, view)


def lesson(scenario: Scenario, setting: Setting) -> Html:
    """HTML of what a scenario teaches, and whether these are still its settings."""
    as_given = setting == scenario.at(setting.p0)
    title = f"{scenario.title}." if as_given else f"You have changed “{scenario.title}”. Unchanged, it shows:"
    return tag("p", html.bold(title), " ", scenario.lesson, kind="lesson")


def overview(scenarios: Sequence[Scenario], passed: Sequence[Sequence[int]]) -> Html:
    """HTML table of all scenarios with their verdicts, each computed once it is in sight."""
    rows = [
        [
            join(s.title, small(_start(s))),
            join(html.lazily(lambda s=s: outcome(s, passed).sentence), small(s.lesson)),
        ]
        for s in scenarios
    ]
    return table(["Scenario", "What the runs show"], rows, "scenarios")


def _start(scenario: Scenario) -> str:
    setting = scenario.setting
    told = ["starts as graded" if scenario.from_marks else f"starts {_listed(setting.p0)}"]
    told += [f"scales {_listed(setting.scale)}"] if setting.scale else []
    told += [f"weights {_listed(setting.weights)}"] if setting.weights else []
    told += [f"noise {_listed(setting.noise)}"] if setting.noise else []
    told += [name for name, key in OPTIMIZERS.items() if key == setting.optimizer and key != "sgd"]
    told += [] if setting.match_scale else ["no common step size"]
    return "; ".join(told)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{x:g}" for x in values)
