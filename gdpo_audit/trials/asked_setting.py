"""The setting that a caller asks a forecast for, checked against the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch

from gdpo_audit.facts.facts import Facts
from gdpo_audit.trials.trials import Gate
from gdpo_audit.trials.what_if import TRIED_METHODS
from gdpo_core.forecasting import Course
from gdpo_core.shared.errors import expect, expect_count, is_finite
from gdpo_core.shared.inputs import weights_by_name, width

MOST_STEPS = 100_000


@dataclass(frozen=True)
class ForecastSetting:
    """A setting that is to be forecast, after its check.

    steps: for how many steps, counted from the run's first one, the run is followed under this setting and under its
        own. The means of the rewards are taken over these computed steps.
    """

    method: str
    weights: tuple[float, ...]
    gate: Gate | None
    steps: int


def checked(f: Facts, course: Course, method: object, weights: object, gate: object, steps: object) -> ForecastSetting:
    """Return the setting that a caller of `AuditReport.forecast` asks for, once its arguments are checked.

    f: the facts of the run.
    course: the rates of its rewards over the steps of the log.
    method, weights: None for the run's own; a reward that `weights` leaves out keeps its weight.
    gate: None for no gate.
    steps: how many steps to forecast, None for as many as the course has.

    Raises InputError for an argument that does not fit the run.
    """
    known = method is None or (isinstance(method, str) and method in TRIED_METHODS)
    expect(known, "forecast, method", f"one of {', '.join(TRIED_METHODS)}", repr(method))
    named = weights_by_name(weights, f.rewards, "forecast, weights")
    basis = f.basis.with_weights({name: w / f.unit for name, w in named.items()})
    expect(any(basis.weights), "forecast, weights", "one that is not 0", "0 for every reward")
    width([abs(weight) for weight in basis.weights], torch.float64, "forecast, weights")
    steps = int(course.time[-1]) + 1 if steps is None else steps
    expect_count(steps, "forecast, steps", MOST_STEPS)
    chosen = f.method if method is None else str(method)
    return ForecastSetting(chosen, basis.weights, None if gate is None else _gate(f, gate), int(cast(int, steps)))


def _gate(f: Facts, gate: object) -> Gate:
    """Return the gate that a caller describes in a dict, checked against the run.

    The dict has the names of two rewards: the gated one under `reward`, and under `on` the one on which it depends. It
    may have two numbers. `threshold` is the value that `on` has to reach, by default its best logged value.
    `otherwise` is the value of `reward` elsewhere, by default its worst logged value, or 0 if that is worse. `at_most`
    says whether `on` has to be at most the threshold, by default where the run wants less of it.

    Raises InputError for anything else, and for a reward that has one value in the whole log.
    """
    names = f"a reward and another one on which it depends, of {', '.join(f.rewards)}"
    asked = dict(gate) if isinstance(gate, Mapping) else {}
    reward, on = asked.get("reward"), asked.get("on")
    texts = isinstance(reward, str) and isinstance(on, str)
    given = texts and reward in f.rewards and on in f.rewards and reward != on
    expect(given, "forecast, gate", f"{{'reward': …, 'on': …}} with {names}", repr(gate))
    keys = ("reward", "on", "threshold", "otherwise", "at_most")
    unknown = [key for key in asked if key not in keys]
    expect(not unknown, "forecast, gate", f"no keys but {', '.join(keys)}", ", ".join(map(repr, unknown)))
    k, opens = f.rewards.index(str(reward)), f.rewards.index(str(on))
    for i in (k, opens):
        differs = f.highest(i) > float(f.totals.rewards.low[i])
        expect(differs, "forecast, gate", "two rewards that differ in the log", f"{f.rewards[i]}, which has one value")
    threshold, otherwise = asked.get("threshold", f.top(opens)), asked.get("otherwise", f.worst(k))
    for name, value in (("threshold", threshold), ("otherwise", otherwise)):
        expect(is_finite(value), f"forecast, gate, {name}", "a finite number", repr(value))
    at_most = asked.get("at_most", f.wanted[opens] < 0)
    expect(isinstance(at_most, bool), "forecast, gate, at_most", "True or False", repr(at_most))
    return Gate(k, opens, float(threshold), float(otherwise), at_most)
