"""Section 6: scenarios as choices, what the controls add up to, the reader's guess, and all verdicts at a glance."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from html import escape

from gdpo_core.scenarios import VERDICTS, Scenario, Setting, load_scenarios
from views.text import listing, number
from views.training import LEVEL, NEITHER, SAME, Verdict, runs, says, verdict

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

PLACEHOLDER = (
    '<div class="await">The curves, the verdict and the lesson appear once you have said who gets there first.</div>'
)
HIDDEN = '<p class="told">Hidden while you predict; switch <b>Predict first</b> off to see all verdicts.</p>'

scenarios: Callable[..., tuple[Scenario, ...]] = lru_cache(maxsize=2)(load_scenarios)


def choices(scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    """The scenarios by title."""
    return {scenario.title: scenario for scenario in scenarios}


def rows(scenario: Scenario) -> list[str]:
    """The names of all rewards, those of noise alone included."""
    return [*scenario.coins, *[NOISE] * (scenario.setting.rewards - len(scenario.coins))]


def filled(values: Sequence[float] | None, count: int) -> list[float]:
    """One number a reward, 1 where the scenario says nothing."""
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
    """Titles and cells of the table of sliders, a row a reward."""
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


def described(setting: Setting, scenario: Scenario) -> str:
    """HTML: what the controls do not say of a setting."""
    told = []
    if scenario.from_marks:
        starts = ", ".join(f"{coin} {number(p, 2)}" for coin, p in zip(scenario.coins, setting.p0, strict=True))
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
        told.append("<b>The methods do not run at a common step size here.</b>")
    return f'<p class="told">{" ".join(told)}</p>' if told else ""


def reckoned(guess: str, found: Verdict) -> str:
    """HTML: the reader's guess, and whether it was right.

    >>> reckoned("GDPO faster", Verdict("GDPO faster", ""))
    '<p class="guess right"><b>✓ Right.</b> Your guess for the scenario as it is given, at 0.9: GDPO first.</p>'
    """
    words = next(words for words, kind in GUESSES.items() if kind == guess)
    right = guess == (SAME if found.kind == NEITHER else found.kind)
    name, mark = ("right", "✓ Right.") if right else ("wrong", "✗ Not so.")
    return (
        f'<p class="guess {name}"><b>{mark}</b> Your guess for the scenario as it is given, at {LEVEL:g}: {words}.</p>'
    )


def outcome(scenario: Scenario, passed: Sequence[Sequence[int]] = ()) -> Verdict:
    """The verdict on a scenario as it stands in its file; passed: the marks, for one that starts from them."""
    setting = scenario.at(pass_rates(passed)) if scenario.from_marks else scenario.setting
    return verdict(runs(setting), scenario.coins)


def shown(scenario: Scenario, setting: Setting, level: float, guessed: tuple[str, Verdict] | None) -> str:
    """HTML above the charts: what was run, the guess and whether it was right, and the verdict with the lesson."""
    found = verdict(runs(setting), scenario.coins, level)
    return (
        described(setting, scenario)
        + (reckoned(*guessed) if guessed else "")
        + says(f"<p>{found.sentence}</p>")
        + lesson(scenario, setting)
    )


def lesson(scenario: Scenario, setting: Setting) -> str:
    """HTML of what a scenario teaches, and whether these are still its settings."""
    as_given = setting == scenario.at(setting.p0)
    title = escape(scenario.title) if as_given else f"You have changed “{escape(scenario.title)}”. Unchanged, it shows"
    return f'<p class="lesson"><b>{title}{"." if as_given else ":"}</b> {escape(scenario.lesson)}</p>'


def overview(scenarios: Sequence[Scenario], verdicts: Sequence) -> str:
    """HTML table of all scenarios; `verdicts` formats as HTML, one a scenario."""
    body = "".join(
        f'<tr><th scope="row">{escape(s.title)}<small>{_start(s)}</small></th>'
        f"<td>{v}<small>{escape(s.lesson)}</small></td></tr>"
        for s, v in zip(scenarios, verdicts, strict=True)
    )
    return (
        '<table class="scenarios"><thead><tr><th scope="col">Scenario</th><th scope="col">What the runs show</th></tr>'
        f"</thead><tbody>{body}</tbody></table>"
    )


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
