"""Forecasts, with intervals, of what the run would have learnt under another setting; they start from its course."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.logged_groups import LoggedGroups, what_is_lacking
from gdpo_audit.findings.trials import Gate, Trial
from gdpo_audit.findings.what_if import TRIED_METHODS
from gdpo_core._errors import InputError, expect, is_whole
from gdpo_core._html import Displayed
from gdpo_core._inputs import weights_by_name, width
from gdpo_core._json import jsonable
from gdpo_core.conventions import NAMES
from gdpo_core.forecasting import Array, Course, Pushes, Speeds, fit_speeds, integrate, times_of

MOST_STEPS = 100_000
NO_SPEED = 1e6  # an error from which on nothing is known of a speed, as of a reward that was never pushed
UNKNOWN = 1.0  # standard deviation of the logarithm of a speed from which on nothing is said
_DRAWS = 100
_QUANTILE = 1.2816  # of the normal distribution, for 80 of 100
# These were calibrated on 28 logs of 50 steps, of the five old set-ups under GRPO and GDPO, and on what 100 runs came
# to. CARRIED: the differences were this part of what they would be if no reward helped another. The errors: the model
# is off by a part of the difference and by a part of the reward's range, with room for settings of other kinds.
CARRIED, MODEL_ERROR, LEAST_ERROR = 0.85, 0.3, 0.006
OF_WHAT = "The interval is calibrated on a small model of 0.2 M parameters and one task."


@dataclass(frozen=True, kw_only=True)
class RewardForecast:
    """Hold the forecast of one reward under a setting, beside its course as the run went, in the reward's own unit.

    difference: of the mean over the steps, setting less as it ran; low, high: the ends of its 80 % interval. All three
    are None where the log does not tell, and then `why` is a sentence. as_it_ran, forecast: the mean of the reward at
    each step, steps + 1 numbers. speed: by how much the logit of the reward moves a step for a push of one, as far as
    the run tells; speed_error: its standard error. push, push_as_it_ran: the push under the setting and under the run's
    own, both measured on the logged groups.
    """

    difference: float | None
    low: float | None
    high: float | None
    as_it_ran: tuple[float, ...]
    forecast: tuple[float, ...]
    speed: float
    speed_error: float
    push: float
    push_as_it_ran: float
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Forecast(Displayed):
    """Hold the forecast of every reward under a setting.

    steps: the number of steps over which the means are taken. from_steps: the number of steps that the log holds.
    notes: what the figures stand on, a sentence each.
    """

    method: str
    weights: Mapping[str, float]
    gate: Mapping[str, str | float] | None
    steps: int
    from_steps: int
    rewards: Mapping[str, RewardForecast]
    notes: tuple[str, ...] = (OF_WHAT,)

    def table(self) -> pl.DataFrame:
        """Return a row per reward: reward, difference, low, high, speed, speed_error, push, push_as_it_ran, why."""
        numbers = ("difference", "low", "high", "speed", "speed_error", "push", "push_as_it_ran")
        rows = [
            {"reward": name, **{column: getattr(made, column) for column in numbers}, "why": made.why or None}
            for name, made in self.rewards.items()
        ]
        schema = {"reward": pl.String, **dict.fromkeys(numbers, pl.Float64), "why": pl.String}
        return pl.DataFrame(rows, schema=schema)

    def to_dict(self) -> dict[str, object]:
        """Return the forecast as plain values, ready for JSON."""
        return jsonable(asdict(self))


@dataclass(frozen=True)
class ForecastSetting:
    """Hold a checked setting to forecast; steps: the number of steps over which the means are taken."""

    method: str
    weights: tuple[float, ...]
    gate: Gate | None
    steps: int


def forecast_of(
    f: Facts, method: object = None, weights: object = None, gate: object = None, steps: object = None
) -> Forecast:
    """Forecast a setting from the facts of a run; the arguments are those of `AuditReport.forecast`."""
    forecaster = _Forecaster(f)
    setting = _checked(f, forecaster.log.course, method, weights, gate, steps)
    return Forecast(
        method=setting.method,
        weights=dict(zip(f.rewards, f.printed(setting.weights), strict=True)),
        gate=None if setting.gate is None else setting.gate.named(f.rewards),
        steps=setting.steps,
        from_steps=len(forecaster.log.course.time),
        rewards=forecaster.rewards(Trial(setting.method, setting.weights, setting.gate), setting.steps),
        notes=(*_notes(f), OF_WHAT),
    )


def forecasts_of(f: Facts, trials: Sequence[Trial]) -> list[dict[str, dict[str, float | None]]]:
    """Return a dict for each of several settings: by reward the forecast difference over the steps of the log, and the
    ends of its interval, None where the log does not tell. Raises InputError where it tells nothing.
    """
    forecaster = _Forecaster(f)
    steps = int(forecaster.log.course.time[-1]) + 1
    forecasts = [forecaster.rewards(trial, steps) for trial in trials]
    return [
        {name: {"difference": x.difference, "low": x.low, "high": x.high} for name, x in rewards.items()}
        for rewards in forecasts
    ]


def why_no_forecast(f: Facts) -> str:
    """Return in a sentence what the log lacks for a forecast; an empty one where it lacks nothing."""
    lacking = what_is_lacking(f)
    return f"A forecast needs {lacking[0]}, but this log has {lacking[1]}." if lacking else ""


class _Forecaster:
    """The run as it went, which gives the forecast of any other setting."""

    def __init__(self, f: Facts) -> None:
        self.names = f.rewards
        self.log = LoggedGroups(f)
        self.before = self.log.pushes(f.method, f.basis.weights)
        self.speeds = fit_speeds(self.log.course, self.before)

    def rewards(self, trial: Trial, steps: int) -> dict[str, RewardForecast]:
        """Return the forecast of each reward under a setting, by name; steps: how many the means are taken over."""
        after = self.log.pushes(trial.method, trial.weights, trial.gate)
        compared = _compare(self.speeds, self.before, after, steps)
        return {
            name: _reward_forecast(self.log, self.speeds, compared, self.before, after, k)
            for k, name in enumerate(self.names)
        }


def _notes(f: Facts) -> Iterator[str]:
    """Yield a sentence for each assumption of the figures that the log does not confirm."""
    if f.recipe is None:
        yield f"The log does not show which method ran; “as it ran” stands for {NAMES[f.method]} here."
    if f.basis.changes:
        yield "The weights of the run change; the speeds were fitted as if those of most batches had held throughout."


def fitted_speeds(f: Facts) -> dict[str, tuple[float, float]]:
    """Return the speed of each reward and its standard error, by reward, each from its own course alone; rewards that
    never differ or were never pushed are left out. Raises InputError where the log does not tell enough.
    """
    run = _Forecaster(f)
    fitted, errors = run.speeds.fitted.tolist(), run.speeds.error.tolist()
    pairs = zip(f.rewards, fitted, errors, run.log.range, strict=True)
    return {name: (speed, error) for name, speed, error, width in pairs if not np.isnan(width) and error < NO_SPEED}


# --- what is asked for ------------------------------------------------------------------------------------------------


def _checked(f: Facts, course: Course, method: object, weights: object, gate: object, steps: object) -> ForecastSetting:
    """Return the setting that a caller asks for, checked against the run. Raises InputError."""
    known = method is None or (isinstance(method, str) and method in TRIED_METHODS)
    expect(known, "forecast, method", f"one of {', '.join(TRIED_METHODS)}", repr(method))
    named = weights_by_name(weights, f.rewards, "forecast, weights")
    basis = f.basis.with_weights({name: w / f.unit for name, w in named.items()})
    expect(any(basis.weights), "forecast, weights", "one that is not 0", "0 for every reward")
    width([abs(weight) for weight in basis.weights], torch.float64, "forecast, weights")
    steps = int(course.time[-1]) + 1 if steps is None else steps
    whole = f"a whole number from 1 to {MOST_STEPS:,}"
    if not is_whole(steps) or not 1 <= steps <= MOST_STEPS:
        raise InputError(f"forecast, steps: expected {whole}, got {steps!r}")
    chosen = f.method if method is None else str(method)
    return ForecastSetting(chosen, basis.weights, None if gate is None else _gate(f, gate), int(steps))


def _gate(f: Facts, gate: object) -> Gate:
    """Return the gate that a caller describes by the names of its rewards, checked. Raises InputError."""
    names = f"a reward and another one on which it depends, of {', '.join(f.rewards)}"
    asked = dict(gate) if isinstance(gate, Mapping) else {}
    reward, on = asked.get("reward"), asked.get("on")
    given = reward in f.rewards and on in f.rewards and reward != on
    expect(given, "forecast, gate", f"{{'reward': …, 'on': …}} with {names}", repr(gate))
    k, opens = f.rewards.index(str(reward)), f.rewards.index(str(on))
    for i in (k, opens):
        differs = f.highest(i) > float(f.totals.rewards.low[i])
        expect(differs, "forecast, gate", "two rewards that differ in the log", f"{f.rewards[i]}, which has one value")
    threshold, otherwise = asked.get("threshold", f.highest(opens)), asked.get("otherwise", f.worst(k))
    for name, value in (("threshold", threshold), ("otherwise", otherwise)):
        number = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
        expect(number, f"forecast, gate, {name}", "a finite number", repr(value))
    return Gate(k, opens, float(threshold), float(otherwise))


# --- the forecast -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compared:
    """Both courses, as it ran and as forecast, at some times: (times, draws, K).

    The first draw is the middle of what is known of the speeds.
    """

    times: Array
    as_it_ran: Array
    forecast: Array

    @cached_property
    def differences(self) -> Array:
        """(draws, K) the differences of the means over the steps, each step as it was before its update."""
        steps = int(self.times[-1])
        low, part = _between(self.times, np.arange(steps, dtype=float))
        weight = np.bincount(low, 1 - part, len(self.times)) + np.bincount(low + 1, part, len(self.times))
        return np.einsum("t,tdk->dk", weight / steps, self.forecast - self.as_it_ran)

    def at_every_step(self, course: Array, k: int) -> Array:
        """Return (steps + 1,) the course of the reward of index k in the first draw of one of the two courses."""
        return np.interp(np.arange(self.times[-1] + 1), self.times, course[:, 0, k])


def _between(times: Array, steps: Array) -> tuple[NDArray[np.int64], Array]:
    """Return the index of the last time that is not after each of these steps, and how far the step is from it towards
    the next time, from 0 to 1.
    """
    low = np.clip(np.searchsorted(times, steps, side="right") - 1, 0, len(times) - 2)
    return low, (steps - times[low]) / (times[low + 1] - times[low])


def _compare(speeds: Speeds, before: Pushes, after: Pushes, steps: int) -> _Compared:
    """Return the courses of both settings, followed for so many steps from the same start at the same speeds; before,
    after: the pushes as it ran and under the other setting.
    """
    levels = np.random.default_rng(0).random((_DRAWS, len(speeds.start)))
    drawn = np.concatenate([speeds.speed[None], speeds.quantile(levels)])
    starts, times = speeds.starts(drawn), times_of(steps)
    as_it_ran, forecast = (integrate(pushes, starts, drawn, times) for pushes in (before, after))
    return _Compared(times, as_it_ran, as_it_ran + CARRIED * (forecast - as_it_ran))


def _reward_forecast(
    log: LoggedGroups, speeds: Speeds, compared: _Compared, before: Pushes, after: Pushes, k: int
) -> RewardForecast:
    """Return the forecast of the reward of index k, in its unit; before, after: the pushes as it ran and as tried."""
    unit, least = float(log.range[k]), float(log.low[k])
    if np.isnan(unit):
        unit = 0.0
    difference, draws = compared.differences[0, k], compared.differences[1:, k]
    below, above = (abs(np.quantile(draws, level) - difference) for level in (0.1, 0.9))
    of_model = _QUANTILE * np.hypot(MODEL_ERROR * difference, LEAST_ERROR)
    low, high = difference - np.hypot(below, of_model), difference + np.hypot(above, of_model)
    why = _why_open(log, speeds, k)
    told = (None, None, None) if why else tuple(float(x * unit) for x in (difference, low, high))
    return RewardForecast(
        difference=told[0],
        low=told[1],
        high=told[2],
        as_it_ran=tuple((least + unit * compared.at_every_step(compared.as_it_ran, k)).tolist()),
        forecast=tuple((least + unit * compared.at_every_step(compared.forecast, k)).tolist()),
        speed=float(speeds.speed[k]),
        speed_error=float(speeds.spread[k]),
        push=float(after.measured[k]),
        push_as_it_ran=float(before.measured[k]),
        why=why,
    )


def _why_open(log: LoggedGroups, speeds: Speeds, k: int) -> str:
    """Return the sentence that says why a reward has no forecast; an empty one where it has one."""
    name, steps = log.facts.rewards[k], len(log.course.time)
    if np.isnan(log.range[k]):
        return f"{name} has one value in the whole log, which does not show how fast {name} follows a push."
    unknown = f"so the {steps} steps of this log do not show how fast {name} follows a push."
    if speeds.error[k] >= NO_SPEED:
        return f"{name} was never pushed, {unknown}"
    if speeds.fitted[k] + 2 * speeds.error[k] < 0:
        return f"{name} moved against its push, {unknown}"
    if speeds.log_spread[k] > UNKNOWN:
        return f"{name} hardly moved, {unknown}"
    return ""
