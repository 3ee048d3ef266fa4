"""Forecasts, with intervals, of what a run would have learnt under another setting, worked out from how its rewards
went.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gdpo_audit.facts.facts import Facts
from gdpo_audit.json_types import ForecastPart, GatePart
from gdpo_audit.trials.asked_setting import checked
from gdpo_audit.trials.forecast_backtest import AGAINST, LogTest, objection_of_run, tested_on_log
from gdpo_audit.trials.logged_groups import LoggedGroups, what_is_lacking
from gdpo_audit.trials.trials import Trial
from gdpo_core.conventions import NAMES
from gdpo_core.forecasting import Array, Pushes, Speeds, fit_speeds, integrate, times_of
from gdpo_core.pushing import OTHER_STEPS, same_step
from gdpo_core.shared.markup import Displayed
from gdpo_core.shared.plain import jsonable
from gdpo_core.shared.words import number

NO_SPEED = 1e6  # a speed with an error of this size or more is not known, as that of a reward that was never pushed
UNKNOWN = 1.0  # with a larger standard deviation of the logarithm of its speed, a reward gets no forecast
_DRAWS = 100  # of the speeds, from which the interval is taken
_QUANTILE = 1.2816  # of the normal distribution: 80 of 100 draws lie within so many standard deviations
# These three numbers were chosen on 9 logs of the small model whose settings had been trained before, and on two logs
# of somebody else's: another model, other rewards (`experiments/README.md`). CARRIED: the differences were about this
# part of what they would be if each reward followed its push alone. MODEL_ERROR: the standard deviation of the
# logarithm of the factor by which a difference was off; what the log's own test was off by is added to it. LEAST_ERROR:
# the part of the reward's range by which a difference is off in any case.
CARRIED, MODEL_ERROR, LEAST_ERROR = 0.7, 0.6, 0.012
OF_WHAT = (
    "On three small learners that had been trained before, 56 of 60 such intervals held; on two that started from "
    "random weights, 12 of 39, with 26 of 29 directions right: there, trust only the direction."
)

DIRECTION_ALONE = "If the model started from random weights, trust only the direction."


@dataclass(frozen=True, kw_only=True)
class Tested:
    """Hold how the log's own test of a forecast went for one reward. Its speed was fitted to the first part of the run,
    and the rest was foretold as it ran.

    fitted_to, foretold: the first and the last step of either part.
    error: the mean logged in the foretold steps less the foretold mean, in the reward's own unit.
    speeds: the speed fitted to each part.
    """

    fitted_to: tuple[int, int]
    foretold: tuple[int, int]
    error: float
    speeds: tuple[float, float]

    def __str__(self) -> str:
        """Return the test in words."""
        (a, b), (c, d), off = self.fitted_to, self.foretold, abs(self.error)
        return f"tested on this log: steps {c} to {d} foretold from {a} to {b}, off by {number(off)}"


@dataclass(frozen=True, kw_only=True)
class RewardForecast:
    """Hold the forecast of one reward under a setting, beside its forecast under the run's own setting.

    difference: by how much the mean of the reward over the steps is higher under the tried setting than under the run's
        own, in the reward's own unit.
    low, high: the ends of the 80 % interval of `difference`. `difference`, `low` and `high` are None where the log does
        not tell.
    as_it_ran: the mean of the reward at each step under the run's own setting, steps + 1 numbers. It is computed, not
        logged.
    forecast: the mean of the reward at each step under the tried setting, as many numbers. It is computed too.
    speed: by how much a push of 1 moves the logit of the reward's mean in a step, at a mean of one half. The mean is
        taken as a rate from 0 to 1. The speed is estimated from the run.
    speed_error: the standard error of the speed.
    push: the push on the reward under the tried setting, as `gdpo_core.push` defines it, measured on the logged groups.
    push_as_it_ran: the push under the run's own setting, measured on the same groups.
    why: a sentence that says why `difference` is None; empty if it is a number.
    tested: how the log's own test went; None where it could not be done, as for a reward that has one value in the
        whole log or is missing in half of it.
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
    tested: Tested | None = None


@dataclass(frozen=True, kw_only=True)
class Forecast(Displayed):
    """Hold the forecast of every reward, by its name, under a setting: a method, weights and, unless None, a gate.

    steps: the number of steps over which the means are taken.
    from_steps: the number of steps that the log holds.
    notes: sentences on what the figures rest on.
    """

    method: str
    weights: Mapping[str, float]
    gate: GatePart | None
    steps: int
    from_steps: int
    rewards: Mapping[str, RewardForecast]
    notes: tuple[str, ...] = (OF_WHAT,)

    def table(self) -> pl.DataFrame:
        """Return a table with a row per reward. Its first column, `reward`, has the name of the reward.

        The columns difference, low, high, speed, speed_error, push, push_as_it_ran and why are those fields of its
        `RewardForecast`; why is null for a reward that has a forecast.
        """
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


def forecast_of(
    f: Facts, method: object = None, weights: object = None, gate: object = None, steps: object = None
) -> Forecast:
    """Return the forecast of a setting from the facts of a run with a sample of its log.

    method, weights, gate, steps: what a caller of `AuditReport.forecast` passed, not yet checked. None stands for the
        run's own method, its own weights, no gate, and as many steps as the log has.

    Raises InputError if one of them is not valid, or if the log lacks what a forecast needs.
    """
    forecaster = _Forecaster(f)
    setting = checked(f, forecaster.log.course, method, weights, gate, steps)
    return Forecast(
        method=setting.method,
        weights=dict(zip(f.rewards, f.printed(setting.weights), strict=True)),
        gate=None if setting.gate is None else setting.gate.named(f.rewards),
        steps=setting.steps,
        from_steps=len(forecaster.log.course.time),
        rewards=forecaster.rewards(Trial(setting.method, setting.weights, setting.gate), setting.steps),
        notes=(*_notes(f), OF_WHAT),
    )


def forecasts_of(f: Facts, trials: Sequence[Trial]) -> list[dict[str, ForecastPart]]:
    """Return the forecasts of several settings over the steps of the log, in the order of `trials`.

    Each is a dict from the name of a reward to a dict: "difference", the difference from the run as it was, and "low"
    and "high", the ends of its interval, all three None where the log does not tell; "why", why it does not; and
    "off_by", by how much the log's own test was off.

    Raises InputError where the log lacks what every forecast needs.
    """
    forecaster = _Forecaster(f)
    steps = int(forecaster.log.course.time[-1]) + 1
    forecasts = [forecaster.rewards(trial, steps) for trial in trials]
    return [
        {
            name: {
                "difference": x.difference,
                "low": x.low,
                "high": x.high,
                "why": x.why,
                "off_by": None if x.tested is None else abs(x.tested.error),
            }
            for name, x in rewards.items()
        }
        for rewards in forecasts
    ]


def why_no_forecast(f: Facts) -> str:
    """Return a sentence that says what a log lacks for a forecast; an empty one where it lacks nothing."""
    lacking = what_is_lacking(f)
    return f"A forecast needs {lacking[0]}, but this log has {lacking[1]}." if lacking else ""


class _Forecaster:
    """Hold what is known of a run as it went, its pushes and the speeds of its rewards, in order to forecast other
    settings.
    """

    def __init__(self, f: Facts) -> None:
        self.names, self.method = f.rewards, f.step_of
        self.log = LoggedGroups(f)
        self.before = self.log.pushes(f.method, f.basis.weights)
        self.speeds = fit_speeds(self.log.course, self.before)
        self.test = tested_on_log(f, self.log)

    def rewards(self, trial: Trial, steps: int) -> dict[str, RewardForecast]:
        """Return the forecast of each reward, by name, under a setting.

        trial: the setting.
        steps: the number of steps for which the run is followed under that setting and under its own, and over which
            the means of the two are compared.
        """
        after = self.log.pushes(trial.method, trial.weights, trial.gate)
        compared = _compare(self.speeds, self.before, after, steps)
        other_steps = "" if same_step(self.method, trial.method) else OTHER_STEPS
        return {name: _reward_forecast(self, compared, after, k, other_steps) for k, name in enumerate(self.names)}


def _notes(f: Facts) -> Iterator[str]:
    """Yield a sentence if the log does not show which method ran, since the forecast then assumes a method. Yield a
    sentence if the weights of the run change, since the forecast then follows one set of weights.
    """
    if f.recipe is None:
        yield f"The log does not show which method ran; “as it ran” stands for {NAMES[f.method]} here."
    if f.basis.changes:
        yield (
            "The weights of the run change; the pushes were measured with the weights of each step, and followed as if "
            "the most frequent ones had held throughout."
        )


def fitted_speeds(f: Facts) -> dict[str, tuple[float, float]]:
    """Return the speed of each reward and its standard error, as a pair by the name of the reward.

    Each speed is fitted to the course of that reward alone. Rewards that never differ or were never pushed are left
    out.

    Raises InputError where the log lacks what a forecast needs.
    """
    run = _Forecaster(f)
    fitted, errors = run.speeds.fitted.tolist(), run.speeds.error.tolist()
    pairs = zip(f.rewards, fitted, errors, run.log.range, strict=True)
    return {name: (speed, error) for name, speed, error, width in pairs if not np.isnan(width) and error < NO_SPEED}


# --- the forecast -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compared:
    """The courses of the rewards under the run's own setting and, as forecast, under another one. Each course holds
    rates, (times, draws, rewards), and `times` are counted in steps.

    A draw is one possible answer to how fast each reward follows its push. The first draw has each reward's median
    speed.
    """

    times: Array
    as_it_ran: Array
    forecast: Array

    @cached_property
    def differences(self) -> Array:
        """(draws, rewards) by how much each rate is higher under the other setting than under the run's own, averaged
        over the steps.

        A draw is a set of speeds. The rate at a step is the one before the step's update.
        """
        steps = int(self.times[-1])
        low, fraction = _between(self.times, np.arange(steps, dtype=float))
        weight = np.bincount(low, 1 - fraction, len(self.times)) + np.bincount(low + 1, fraction, len(self.times))
        return np.einsum("t,tdk->dk", weight / steps, self.forecast - self.as_it_ran)

    def at_every_step(self, course: Array, k: int) -> Array:
        """Return (steps + 1,) the rate of the reward with index k before the first step and after each, at the median
        speeds.

        course: `as_it_ran` or `forecast`, whose first draw has the median speed of each reward. It holds rates at
            `times` alone; rates in between are interpolated.
        """
        return np.interp(np.arange(self.times[-1] + 1), self.times, course[:, 0, k])


def _between(times: Array, steps: Array) -> tuple[NDArray[np.int64], Array]:
    """Return where each step lies between two neighbouring times, as two arrays. The first has the index of the earlier
    time. The second says how far the step is on the way from the earlier to the later time, from 0 to 1.

    times: ascending.
    steps: none before the first time or after the last.
    """
    low = np.clip(np.searchsorted(times, steps, side="right") - 1, 0, len(times) - 2)
    return low, (steps - times[low]) / (times[low + 1] - times[low])


def _compare(speeds: Speeds, before: Pushes, after: Pushes, steps: int) -> _Compared:
    """Return the courses of the rewards under the run's own setting and under another one, over so many steps.

    The first pair of courses has the median speeds; `_DRAWS` more have random draws of the speeds. The two courses of a
    pair have the same start and the same speeds. The course under the other setting is then moved towards the run's
    own, so that the part `CARRIED` of the distance between them is left.

    speeds: how fast each reward follows its push.
    before, after: the pushes under the run's own setting and under the other one.
    steps: the number of steps.
    """
    probabilities = np.random.default_rng(0).random((_DRAWS, len(speeds.start)))
    drawn = np.concatenate([speeds.speed[None], speeds.quantile(probabilities)])
    starts, times = speeds.starts(drawn), times_of(steps)
    as_it_ran, forecast = (integrate(pushes, starts, drawn, times) for pushes in (before, after))
    return _Compared(times, as_it_ran, as_it_ran + CARRIED * (forecast - as_it_ran))


def _reward_forecast(run: _Forecaster, compared: _Compared, after: Pushes, k: int, other_steps: str) -> RewardForecast:
    """Return the forecast of the reward with index k, in the reward's own unit.

    run: the run as it went.
    compared: the rates of all rewards step by step, under the run's own setting and under the tried one.
    after: the pushes under the tried setting.
    other_steps: why the steps of the tried setting have another length than those of the run; "" if they do not.
    """
    log, speeds, test = run.log, run.speeds, run.test
    unit, least = float(log.range[k]), float(log.low[k])
    one_value = np.isnan(unit)
    unit = 0.0 if one_value else unit
    difference, draws = compared.differences[0, k], compared.differences[1:, k]
    below, above = (abs(np.quantile(draws, probability) - difference) for probability in (0.1, 0.9))
    why = other_steps or _why_open(log, speeds, test, k)
    factor = np.exp(_QUANTILE * np.hypot(MODEL_ERROR, 0.0 if why or test is None else test.off_by(k)))
    nearer, further = abs(difference) * (1 - 1 / factor), abs(difference) * (factor - 1)
    down, up = (nearer, further) if difference > 0 else (further, nearer)
    low = difference - np.sqrt(below**2 + down**2 + (_QUANTILE * LEAST_ERROR) ** 2)
    high = difference + np.sqrt(above**2 + up**2 + (_QUANTILE * LEAST_ERROR) ** 2)
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
        push_as_it_ran=float(run.before.measured[k]),
        why=why,
        tested=None if one_value or test is None or not test.held[k] else _tested(test, k, unit),
    )


def _tested(test: LogTest, k: int, unit: float) -> Tested:
    """Return how the log's own test went for the reward with index k, whose range is `unit`."""
    first, second = test.speeds[:, k].tolist()
    error = float(test.error[k] * unit)
    return Tested(fitted_to=test.first, foretold=test.rest, error=error, speeds=(first, second))


def _why_open(log: LoggedGroups, speeds: Speeds, test: LogTest | None, k: int) -> str:
    """Return a sentence that says why the reward with index k has no forecast; an empty one where it has one."""
    name, steps = log.facts.rewards[k], len(log.course.time)
    if np.isnan(log.range[k]):
        return f"{name} has one value in the whole log, which does not show how fast {name} follows a push."
    unknown = f"so the {steps} steps of this log do not show how fast {name} follows a push."
    if speeds.error[k] >= NO_SPEED:
        return f"{name} was never pushed, {unknown}"
    if speeds.fitted[k] + 2 * speeds.error[k] < 0:
        return f"{name} {AGAINST}, {unknown}"
    if test is not None and (objection := test.objection(k, name)):
        return f"{objection}, {unknown}"
    if speeds.log_spread[k] > UNKNOWN:
        return f"{name} hardly moved, {unknown}"
    if objection := objection_of_run(test, speeds, log.facts.rewards):
        return f"{objection}, so the {steps} steps of this log foretell no reward of it."
    return ""
