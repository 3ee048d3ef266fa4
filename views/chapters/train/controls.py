"""The controls of Train: their values in a scenario and in the address, how they are drawn, and the set-up that they
describe.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import pstdev
from typing import Any

import marimo as mo

from gdpo_core.board.state import State
from gdpo_core.shared.markup import Html, tag
from gdpo_core.training import COMPARISONS
from views.chapters.train.runs import THIRD
from views.chapters.train.train_words import PREDICTIONS_ASKED, WAY_TITLES
from views.studies.scenarios import Scenario, Setup
from views.widgets.html import div, element, fold, show
from views.widgets.nav import Nav

STEP_RULES = {
    "start": (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.85),
    "pays": (0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 30.0, 100.0),
    "weights": (0.0, 0.1, 0.125, 0.25, 0.5, 0.9, 1.0, 2.0, 4.0, 5.0),
}
_SIZES = {  # name, what can be chosen
    "rollouts": ("Answers per group", (2, 4, 8, 16, 32)),
    "prompts": ("Groups per batch", (1, 8, 16, 32, 64, 128)),
    "seeds": ("Seeds", (4, 8, 16, 32, 64)),
}
_NUMBERS = {"epochs": ("Epochs", 10, 1000, 10), "lr": ("Learning rate", 0.01, 5.0, 0.01)}  # name, least, most, step
NOISIEST = 10.0
_OPTIMIZERS = ("sgd", "adam")
# The labels, for screen readers alone, of two controls whose options explain themselves: words, and a class.
_LABELS = (("How the methods are compared", "segments unseen"), ("Add a third method", "unseen"))
REST = 0.05  # where rewards conflict, the start of the answer that is neither right nor concise


def pass_rates(marks: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the share of answers that passes each mark, but at least 0.5 / n and at most 1 − 0.5 / n for n answers.

    The shares are rounded to four decimals.

    marks: (answers, rewards).

    >>> pass_rates([[1, 0], [1, 0], [0, 0], [1, 0]])
    (0.75, 0.125)
    """
    edge = 0.5 / len(marks)
    return tuple(round(min(max(sum(mark) / len(mark), edge), 1 - edge), 4) for mark in zip(*marks, strict=True))


def as_coins(lab: State) -> tuple[list[float], list[float]]:
    """Return two lists, one entry per mark of the Lab: the starting probabilities and the pays of the coins that stand
    for the marks.

    A mark whose values are 0 and 1 becomes a coin that starts at the mark's pass rate and has the mark's pay. A mark
    with other values becomes a coin that starts at one half, with a pay that gives the reward the same standard
    deviation.

    lab: the state of the Lab's board.
    """
    starts, pays = list(pass_rates(lab.marks)), list(lab.pays)
    for k, mark in enumerate(zip(*lab.marks, strict=True)):
        if not {*mark} <= {0, 1}:
            starts[k], pays[k] = 0.5, round(2 * pstdev(mark) * pays[k], 6)
    return starts, pays


def scenario_values(scenario: Scenario) -> dict[str, Any]:
    """Return the values that the controls have in an unchanged scenario, by the name of the control."""
    s, ones = scenario.setup, (1.0,) * scenario.setup.rewards
    return {
        "start": s.p0[:1] if s.arms else s.p0,  # of arms, only that of the right answer
        "pays": s.scale or (ones if s.arms else ones[: len(s.p0)]),
        "weights": s.weights or ones,
        "gate": bool(s.gate),
        "compare": s.comparison,
        "optimizer": s.optimizer,
        **{name: getattr(s, name) for name in (*_SIZES, *_NUMBERS)},
        "noise": s.noise or (0.0,) * s.rewards,
    }


def linked_values(scenario: Scenario, page: Nav) -> dict[str, Any]:
    """Return the values of a scenario's controls, by name. They are the values of the address, or the scenario's own
    where the address has none.

    A value of the address that a control cannot take is replaced by the scenario's value, or by the nearest value that
    the control can take.

    page: holds the values of the address.
    """
    values, arms = scenario_values(scenario), bool(scenario.setup.arms)
    for name in ("start", "pays", "weights"):
        many = 0 if scenario.from_marks else len(values[name])  # 0: they are the Lab's, and not in the address
        values[name] = page.restore(f"train-{name}", default=values[name], many=many)
    if arms:
        values["start"] = (min(*values["start"], STEP_RULES["start"][-1]),)
    values["gate"] = page.restore("train-gate", ("0", "1") if arms else ("0",), str(int(values["gate"]))) == "1"
    if scenario.setup.comparison != "equal":
        values["compare"] = page.restore("train-compare", default=values["compare"])
    if more := page.restore("train-more", many=6 + len(values["noise"])):
        values["optimizer"] = _OPTIMIZERS[more[0] == 1]
        for name, x in zip(_SIZES, more[1:4], strict=True):
            values[name] = round(min(max(x, 1), _SIZES[name][1][-1]))
        for (name, (_, low, high, _)), x in zip(_NUMBERS.items(), more[4:6], strict=True):
            values[name] = type(low)(min(max(x, low), high))
        values["noise"] = tuple(0.0 if arms else min(std, NOISIEST) for std in more[6:])
    return values


def for_all(page: Nav, linked: Scenario) -> tuple[mo.ui.radio, mo.ui.dropdown]:
    """Return two controls that stay as they are when another scenario is chosen: how methods are compared, and the
    third method that is shown.

    They have the values of the address. One case is different: the scenario that the address names may be about a
    single comparison. Then the value in the address is that scenario's own, and the first control is at "equal".

    page: holds the values of the address.
    linked: the scenario that the address names.
    """
    compare = page.restore("train-compare") if linked.setup.comparison == "equal" else "equal"
    titles = {title: name for name, title in WAY_TITLES.items()}
    third = {"no third method": ""} | {f"+ {name}": m for m, name in THIRD.items()}
    method = page.restore("train-method", list(third.values()))
    standing = next(title for title, m in third.items() if m == method)
    label, third_label = (tag("span", words, kind=kind) for words, kind in _LABELS)
    return (
        mo.ui.radio(titles, WAY_TITLES[compare], inline=True, label=label),
        mo.ui.dropdown(third, standing, label=third_label),
    )


def question(scenario: Scenario) -> mo.ui.radio:
    """Return the control that asks how a scenario ends. Its options are the possible verdicts, of which none is chosen
    at first.
    """
    asked, answers = PREDICTIONS_ASKED[bool(scenario.setup.arms)]
    label = tag("span", asked, kind="question")
    return mo.ui.radio({words: kind for kind, words in answers.items()}, label=label, inline=True)


def elements(scenario: Scenario, values: Mapping[str, Any]) -> mo.ui.dictionary:
    """Return the controls of a scenario, by name.

    Some controls exist only in some scenarios. Starts, pays and weights are missing in the scenario that takes them
    from the Lab. Scenarios with arms have a gate and no noise; scenarios with coins have noise and no gate. "compare"
    exists if the scenario is about a single comparison.

    values: the values of the controls, by name.
    """
    made: dict[str, Any] = {}
    names = _rewards(scenario)
    for name, words in (("start", "start probability"), ("pays", "pay"), ("weights", "weight")):
        if not scenario.from_marks:
            sliders = [_slider(name, x, words, reward) for reward, x in zip(names, values[name], strict=False)]
            made[name] = mo.ui.array(sliders)
    if scenario.setup.arms:
        made["gate"] = mo.ui.checkbox(values["gate"], label="gate: being concise counts only if right")
    if scenario.setup.comparison != "equal":
        made["compare"] = mo.ui.dropdown(
            {title: c for c, title in WAY_TITLES.items()}, WAY_TITLES[values["compare"]], label="Compared"
        )
    made["optimizer"] = mo.ui.dropdown(
        {"SGD": "sgd", "Adam": "adam"}, {"sgd": "SGD", "adam": "Adam"}[values["optimizer"]], label=_aligned("Optimizer")
    )
    for name, (title, sizes) in _SIZES.items():
        options = {f"{n}": n for n in sorted({*sizes, values[name]})}
        made[name] = mo.ui.dropdown(options, f"{values[name]}", label=_aligned(title))
    for name, (title, low, high, step) in _NUMBERS.items():
        made[name] = mo.ui.number(low, high, step, values[name], debounce=True, label=_aligned(title))
    if not scenario.setup.arms:
        made["noise"] = mo.ui.array(
            [
                mo.ui.number(0, NOISIEST, 0.001, std, debounce=True, label=_aligned(f"Noise of {reward}"))
                for reward, std in zip(names, values["noise"], strict=True)
            ]
        )
    return mo.ui.dictionary(made)


def _aligned(label: str) -> Html:
    return tag("span", label, kind="aligned")


def _slider(name: str, value: float, kind: str, reward: str) -> mo.ui.slider:
    words = tag(
        "span", kind, tag("span", f" of {reward}", kind="unseen"), kind="reward-label"
    )  # the row itself names the reward for readers who see
    steps = sorted({*STEP_RULES[name], value})
    return mo.ui.slider(steps=steps, value=value, label=words, debounce=True, show_value=True)


def _rewards(scenario: Scenario) -> list[str]:
    """Return the names of a scenario's rewards, including rewards that are noise alone."""
    if scenario.setup.arms:
        return ["being right", "being concise"]
    return [*scenario.coins, *["noise"] * (scenario.setup.rewards - len(scenario.coins))]


def panel(scenario: Scenario, controls: Mapping[str, Any]) -> mo.Html:
    """Return the sliders of start, pay and weight, a row per reward. For the scenario that takes the Lab's answers,
    return a sentence and a link to the Lab, without sliders.

    controls: the controls of the scenario, by name.
    """
    if scenario.from_marks:
        link = tag("a", "Change them in the Lab →", href="?at=lab")
        sentence = "Starts, pays and weights are those of the Lab; a score is a coin that spreads as it does. "
        return show(div("sliders", tag("p", sentence, link)))
    rows = []
    for k, name in enumerate(_rewards(scenario)):
        columns = (list(controls[group]) for group in ("start", "pays", "weights"))
        cells = (tag("span", element(sliders[k]) if k < len(sliders) else "") for sliders in columns)
        rows.append(tag("div", tag("b", name), *cells, kind="reward"))
    return show(div("sliders", *rows))


def further(controls: Mapping[str, Any], compare: mo.ui.radio, third: mo.ui.dropdown, reset: mo.ui.button) -> mo.Html:
    """Return a line with the controls that concern all rewards, and below it a fold with controls that few readers
    need.

    controls: the controls of the scenario, by name.
    compare: the control, from `for_all`, of how methods are compared. It is used only if the scenario has none of its
        own.
    third: the control, from `for_all`, of the third method.
    reset: the button that brings the values of the scenario back.
    """
    line = [controls.get("compare", compare), *(controls[name] for name in ("gate",) if name in controls)]
    few = [controls[name] for name in ("optimizer", *_SIZES, *_NUMBERS)] + list(controls.get("noise", []))
    more = fold("Optimizer, noise, groups, seeds, epochs", div("few", *few))
    return show(div("line", *line, third, reset), more)


def setup_of(scenario: Scenario, comparison: str, values: Mapping[str, Any], lab: State) -> Setup:
    """Return the `Setup` that the values of a scenario's controls describe.

    comparison: how the methods are compared, a key of COMPARISONS. A scenario that is about a single comparison has a
        control of its own for it; then `values["compare"]` counts instead.
    values: the values of the controls, by name.
    lab: the state of the Lab's board, from which the scenario of the Lab's answers takes starts, pays and weights.
    """
    if scenario.from_marks:
        starts, pays = as_coins(lab)
        values = {**values, "start": starts, "pays": pays, "weights": lab.weights}
    start = tuple(values["start"])
    if scenario.setup.comparison != "equal":  # such a scenario has a control of its own for it
        comparison = values["compare"]
    return replace(
        scenario.setup,
        p0=(start[0], round(1 - REST - start[0], 6), REST) if scenario.setup.arms else start,
        scale=_unless_all(1, values["pays"]),
        weights=_unless_all(1, values["weights"]),
        noise=_unless_all(0, values.get("noise", ())),
        gate=(1, 0) if values.get("gate") else None,
        match_scale=COMPARISONS[comparison],
        **{name: values[name] for name in ("optimizer", *_SIZES, *_NUMBERS)},
    )


def _unless_all(untouched: float, values: Sequence[float]) -> tuple[float, ...] | None:
    """Return the values as a tuple of floats; None if each of them is `untouched`."""
    return None if all(x == untouched for x in values) else tuple(map(float, values))


def link_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a scenario's controls as the address holds them, by the control's key in the address.

    "train-more" holds the values of several controls in a row: optimizer, sizes, epochs, learning rate and noise.
    """
    more = tuple(float(values[name]) for name in (*_SIZES, *_NUMBERS))
    noise = values.get("noise", (0.0, 0.0))  # a scenario with arms has no noise
    return {
        **{f"train-{name}": tuple(values[name]) for name in ("start", "pays", "weights") if name in values},
        "train-gate": str(int(values.get("gate", False))),
        "train-more": (float(_OPTIMIZERS.index(values["optimizer"])), *more, *noise),
    }
