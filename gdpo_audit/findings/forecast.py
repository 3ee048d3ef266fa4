"""Forecasts, with intervals, of what the run would have learnt under another setting; they start from its course."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.trials import Gate, Trial, behind
from gdpo_audit.findings.what_if import METHODS
from gdpo_audit.logs.names import reward_column
from gdpo_audit.recipe.recipe import starts_of, tensors_of
from gdpo_core._errors import InputError, expect, is_whole
from gdpo_core._html import Displayed
from gdpo_core._inputs import weights_by_name, width
from gdpo_core._json import jsonable
from gdpo_core.conventions import NAMES
from gdpo_core.forecasting import Array, Course, DifferingGroups, Pushes, Speeds, fit_speeds, integrate, times_of
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.registry import method_for, method_named

FEWEST_STEPS, MOST_STEPS = 20, 100_000
UNKNOWN = 1.0  # standard deviation of the logarithm of a speed from which on nothing is said
_DRAWS = 100
_QUANTILE = 1.2816  # of the normal distribution, for 80 of 100
# Calibrated on 28 logs of the five old set-ups, under GRPO and GDPO, of 50 steps, and what 100 runs had come to: the
# differences came to this part of what rewards that do not help each other would have. Beside it the model is off by a
# part of the difference and by a part of the reward's range; settings of other kinds than those runs get more room.
CARRIED, MODEL_ERROR, LEAST_ERROR = 0.85, 0.3, 0.006
OF_WHAT = "The interval is calibrated on a small model of 0.2 M parameters and one task."


@dataclass(frozen=True, kw_only=True)
class RewardForecast:
    """The forecast of one reward under a setting, beside its course as the run went, in the reward's own unit.

    difference: of the mean over the steps, setting less as it ran; low, high: the ends of its 80 % interval. All three
    are None where the log does not tell, and then `why` is a sentence. as_it_ran, forecast: the mean of the reward at
    each step, steps + 1 numbers. speed: by how much the logit of the reward moves a step for a push of one, as far as
    the run tells; speed_error: its standard error. push, push_as_it_ran: on the logged groups.
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
    """The forecast of every reward under a setting; `table` has a row for each.

    steps: over which the means are taken. from_steps: of the log. notes: what the figures stand on.
    """

    method: str
    weights: Mapping[str, float]
    gate: Mapping[str, str | float] | None
    steps: int
    from_steps: int
    rewards: Mapping[str, RewardForecast]
    notes: tuple[str, ...] = (OF_WHAT,)

    def table(self) -> pl.DataFrame:
        """One row per reward: reward, difference, low, high, speed, speed_error, push, push_as_it_ran, why."""
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
    """A setting to forecast, checked; steps: over which the means are taken."""

    method: str
    weights: tuple[float, ...]
    gate: Gate | None
    steps: int


def forecast_of(
    f: Facts, method: object = None, weights: object = None, gate: object = None, steps: object = None
) -> Forecast:
    """Forecast a setting from the facts of a run; the arguments are those of `AuditReport.forecast`."""
    log = logged_groups(f)
    setting = _checked(f, log.course, method, weights, gate, steps)
    own = log.pushes(f.method, f.setup.weights)
    speeds = fit_speeds(log.course, own)
    after = log.pushes(setting.method, setting.weights, setting.gate)
    compared = _compare(speeds, own, after, setting.steps)
    rewards = {name: _reward_forecast(log, speeds, compared, own, after, k) for k, name in enumerate(f.rewards)}
    return Forecast(
        method=setting.method,
        weights=dict(zip(f.rewards, f.printed(setting.weights), strict=True)),
        gate=None if setting.gate is None else setting.gate.named(f.rewards),
        steps=setting.steps,
        from_steps=len(log.course.time),
        rewards=rewards,
        notes=(*_notes(f), OF_WHAT),
    )


def forecasts_of(f: Facts, trials: Sequence[Trial]) -> list[dict[str, dict[str, float | None]]]:
    """Forecast several settings at once: of each reward the difference over the steps of the log, and its interval.

    Raises InputError where the log does not tell enough.
    """
    log = logged_groups(f)
    own, steps = log.pushes(f.method, f.setup.weights), int(log.course.time[-1]) + 1
    speeds = fit_speeds(log.course, own)

    def told(trial: Trial) -> dict[str, dict[str, float | None]]:
        after = log.pushes(trial.method, trial.weights, trial.gate)
        compared = _compare(speeds, own, after, steps)
        made = {name: _reward_forecast(log, speeds, compared, own, after, k) for k, name in enumerate(f.rewards)}
        return {n: {"difference": x.difference, "low": x.low, "high": x.high} for n, x in made.items()}

    return [told(trial) for trial in trials]


def _notes(f: Facts) -> Iterator[str]:
    """Yield a sentence for each assumption of the figures that the log does not confirm."""
    if f.recipe is None:
        yield f"“As it ran” is taken as {NAMES[f.method]}, which the log does not show."
    if f.setup.changes:
        yield "The weights of the run change; its speeds are fitted as if it had had those of most batches."


def fitted_speeds(f: Facts) -> dict[str, tuple[float, float]]:
    """Return the speed of each reward that differs and its standard error, each from its own course alone."""
    log = logged_groups(f)
    speeds = fit_speeds(log.course, log.pushes(f.method, f.setup.weights))
    pairs = zip(f.rewards, speeds.fitted.tolist(), speeds.error.tolist(), log.range, strict=True)
    return {name: (speed, error) for name, speed, error, width in pairs if not np.isnan(width)}


def logged_groups(f: Facts) -> "_LoggedGroups":
    """Return what forecasts stand on, from the log once more, as a report keeps no rows of it."""
    return _LoggedGroups(f if f.tables else replace(f, tables=f.run.sample, _trials={}))


# --- what is asked for ------------------------------------------------------------------------------------------------


def _checked(f: Facts, course: Course, method: object, weights: object, gate: object, steps: object) -> ForecastSetting:
    """The setting that a caller asks for; raises InputError."""
    known = method is None or (isinstance(method, str) and method in METHODS)
    expect(known, "forecast, method", f"one of {', '.join(METHODS)}", repr(method))
    named = weights_by_name(weights, f.rewards, "forecast, weights")
    setup = f.setup.with_weights({name: w / f.unit for name, w in named.items()})
    expect(any(setup.weights), "forecast, weights", "one that is not 0", "0 for every reward")
    width([abs(weight) for weight in setup.weights], torch.float64, "forecast, weights")
    steps = int(course.time[-1]) + 1 if steps is None else steps
    whole = f"a whole number from 1 to {MOST_STEPS:,}"
    if not is_whole(steps) or not 1 <= steps <= MOST_STEPS:
        raise InputError(f"forecast, steps: expected {whole}, got {steps!r}")
    chosen = f.method if method is None else str(method)
    return ForecastSetting(chosen, setup.weights, None if gate is None else _gate(f, gate), int(steps))


def _gate(f: Facts, gate: object) -> Gate:
    """The gate of these names."""
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


# --- what the log holds -----------------------------------------------------------------------------------------------


class _LoggedGroups:
    """The parts of a log that its forecasts need: its course, and the groups on which pushes are measured."""

    def __init__(self, f: Facts) -> None:
        where = f.run.path
        whole, steps = not f.run.total_only, len(f.steps)
        known, several = not (f.contradicted or f.lacks_a_reward), bool((f.totals.rewards.degrees > 0).any())
        for holds, expected, got in (
            (whole, "a log with each reward in a column of its own", f"one total, in {where}"),
            (several, "groups of several responses", f"none, in {where}"),
            (known, "a log whose advantages a known method makes of its rewards", f"others, in {where}"),
            (steps >= FEWEST_STEPS, f"a log of at least {FEWEST_STEPS} steps", f"{steps}, in {where}"),
        ):
            expect(holds, "forecast", expected, got)
        self.facts = f
        self.low, self.high = (np.array(x, dtype=float) for x in (f.totals.rewards.low, f.totals.rewards.high))
        self.range = np.where(self.high > self.low, self.high - self.low, np.nan)  # NaN: constant or missing
        self.table = pl.concat(f.sample).drop("advantage", strict=False)
        self.starts = starts_of(self.table["group"].to_numpy())
        self.sizes = np.diff(self.starts, append=len(self.table))
        self.values = self._values(self.table)
        self.distances = self._distances(self.values)

    def _values(self, table: pl.DataFrame) -> Array:
        """(K, responses) the rewards."""
        return np.stack([table[reward_column(name)].to_numpy() for name in self.facts.rewards])

    def _distances(self, values: Array) -> Array:
        """(K, responses) the rewards less the means of their groups; 0 where they are missing."""
        return np.nan_to_num(values - self._means(values).repeat(self.sizes, axis=1))

    def _means(self, values: Array) -> Array:
        """(K, groups) the means of the groups; NaN where a reward is missing in one."""
        there = np.add.reduceat(~np.isnan(values), self.starts, axis=1)
        sums = np.add.reduceat(np.nan_to_num(values), self.starts, axis=1)
        return np.divide(sums, there, out=np.full(sums.shape, np.nan), where=there > 0)

    @cached_property
    def course(self) -> Course:
        """The mean of each reward at each step, between its least and its largest value."""
        batches = self.facts.batches
        step, which = np.unique(batches.step, return_inverse=True)
        total, present = (
            np.stack([np.bincount(which, row, len(step)) for row in rows], axis=1)
            for rows in (batches.rewards.total, batches.rewards.present)
        )
        means = np.divide(total, present, out=np.full(total.shape, np.nan), where=present > 0)
        rates = (means - self.low) / self.range
        rates[:, np.isnan(self.range)] = 0.5
        return Course(time=(step - step[0]).astype(float), rates=rates, dispersion=self._dispersion(rates))

    def _dispersion(self, rates: Array) -> Array:
        """(K,) the variance of a step's rate by how the means of its groups differ, in units of rate (1 − rate)."""
        means = (self._means(self.values) - self.low[:, None]) / self.range[:, None]
        batch = self.table["batch"].to_numpy()[self.starts]
        firsts = starts_of(batch)
        held = np.add.reduceat((~np.isnan(means)).astype(int), firsts, axis=1)  # groups that hold the reward
        middle = np.add.reduceat(np.nan_to_num(means), firsts, axis=1) / np.maximum(held, 1)
        apart = means - middle.repeat(np.diff(firsts, append=len(batch)), axis=1)
        squares = np.add.reduceat(np.nan_to_num(apart) ** 2, firsts, axis=1)
        several = held > 1
        variances = squares / np.maximum(held * (held - 1), 1)
        variance = (variances * several).sum(1) / np.maximum(several.sum(1), 1)
        known = variance / np.maximum(np.nanmean(rates * (1 - rates), axis=0), 1e-9)
        return np.where(np.isnan(self.range), 1.0, np.maximum(known, 1e-6))

    def pushes(self, method: str, weights: tuple[float, ...], gate: Gate | None = None) -> Pushes:
        """Return how a setting pushes the rewards, measured on the groups and continued by what varies in them."""
        table = self.table if gate is None else self.table.with_columns(behind(gate, self.facts.rewards))
        values = self.values if gate is None else self._values(table)
        sources = self.distances if gate is None else self._distances(values)
        a = np.nan_to_num(self._advantages(table, method, weights))
        spread, of_rewards = (np.sqrt((x**2).mean(1)) for x in (sources, self.distances))
        size = np.sqrt((a**2).mean()) * of_rewards
        measured = np.divide(self.distances @ a / len(a), size, out=np.zeros(len(size)), where=size > 0)
        cross, among = (
            sources @ x.T / len(a) / np.maximum(np.outer(spread, of_x), 1e-300)
            for x, of_x in ((self.distances, of_rewards), (sources, spread))
        )
        return Pushes(
            course=self.course,
            measured=measured,
            weights=np.array(weights),
            decoupled=method_named(method).decoupled,
            spread=spread,
            sources=among,
            cross=cross,
            differing=self._differing,
            gate=None if gate is None else (gate.reward, gate.on, self._passes(gate, values)),
        )

    def _advantages(self, table: pl.DataFrame, method: str, weights: tuple[float, ...]) -> Array:
        """(responses,) what a method makes of these rewards."""
        convention = ALL_CONVENTIONS[self.facts.setup.convention]
        log = tensors_of(table, self.facts.rewards)
        if convention.last_step == "tokens" and log.lengths is None:
            convention = replace(convention, last_step="responses")
        formula, batch = method_for(method, log.read(convention, weights))
        return batch.zero_unrewarded(formula(batch).advantages).flatten().numpy()

    def _passes(self, gate: Gate, values: Array) -> float:
        """Return how often a reward passes behind its gate, over the product of the rates of the two."""
        k, on = gate.reward, gate.on
        passing = self._rates(self.values)
        return float(self._rates(values)[k] / max(passing[k] * passing[on], 1e-9))

    def _rates(self, values: Array) -> Array:
        """(K,) the mean of each reward between its least and its largest value."""
        there = np.maximum((~np.isnan(values)).sum(1), 1)
        return (np.nan_to_num(values).sum(1) / there - self.low) / self.range

    @cached_property
    def _differing(self) -> DifferingGroups:
        """Count the groups that have different values of each reward, by its rate."""
        ends = (self.values == self.low[:, None]) | (self.values == self.high[:, None]) | np.isnan(self.values)
        rates = self._rates(self.values)
        degrees = max(len(self.table) - len(self.starts), 1)
        inside = (self.distances**2).sum(1) / degrees / self.range**2
        part = np.clip(inside / np.maximum(rates * (1 - rates), 1e-9), 0.02, 1.0)
        return DifferingGroups.of(np.where(ends.all(1), part, np.nan), int(np.median(self.sizes)))


# --- the forecast -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compared:
    """Both courses at some times, (times, draws, K): the first draw is the middle of what is known of the speeds."""

    times: Array
    as_it_ran: Array
    forecast: Array

    @cached_property
    def differences(self) -> Array:
        """(draws, K) of the means over the steps, each as it was before its update."""
        steps = int(self.times[-1])
        low, part = _between(self.times, np.arange(steps, dtype=float))
        weight = np.bincount(low, 1 - part, len(self.times)) + np.bincount(low + 1, part, len(self.times))
        return np.einsum("t,tdk->dk", weight / steps, self.forecast - self.as_it_ran)

    def at_every_step(self, course: Array, k: int) -> Array:
        """(steps + 1,) the course of one reward for the middle of what is known."""
        return np.interp(np.arange(self.times[-1] + 1), self.times, course[:, 0, k])


def _between(times: Array, steps: Array) -> tuple[NDArray[np.int64], Array]:
    """The last time before each of these steps, and how far each is towards the next one."""
    low = np.clip(np.searchsorted(times, steps, side="right") - 1, 0, len(times) - 2)
    return low, (steps - times[low]) / (times[low + 1] - times[low])


def _compare(speeds: Speeds, own: Pushes, after: Pushes, steps: int) -> _Compared:
    """Follow both settings from the same start at the same speeds."""
    levels = np.random.default_rng(0).random((_DRAWS, len(speeds.start)))
    drawn = np.concatenate([speeds.speed[None], speeds.quantile(levels)])
    starts, times = speeds.starts(drawn), times_of(steps)
    as_it_ran, forecast = (integrate(pushes, starts, drawn, times) for pushes in (own, after))
    return _Compared(times, as_it_ran, as_it_ran + CARRIED * (forecast - as_it_ran))


def _reward_forecast(
    log: _LoggedGroups, speeds: Speeds, compared: _Compared, own: Pushes, after: Pushes, k: int
) -> RewardForecast:
    """The forecast of one reward, in its own unit."""
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
        push_as_it_ran=float(own.measured[k]),
        why=why,
    )


def _why_open(log: _LoggedGroups, speeds: Speeds, k: int) -> str:
    """Return the sentence that says why a reward has no forecast; an empty one where it has one."""
    name, steps = log.facts.rewards[k], len(log.course.time)
    if np.isnan(log.range[k]):
        return f"{name} has one value in the whole log, so nothing can be said of how fast it follows a push."
    if speeds.fitted[k] + 2 * speeds.error[k] < 0:
        return f"{name} moved against its push, so its speed cannot be told from {steps} steps."
    if speeds.log_spread[k] > UNKNOWN:
        return f"{name} hardly moved: its speed cannot be told from {steps} steps."
    return ""
