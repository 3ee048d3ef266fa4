"""The pushes of a setting on the rewards of a run, as functions of the rates of the rewards, for forecasts of a run.

The rate of a reward is its mean on a scale from 0, its lowest value in the log, to 1, its highest. `Pushes` computes
from the rates how much a setting would push each reward. `Course` has the rates of a run at each step, and
`DifferingGroups` the share of groups in which a reward takes different values.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Course:
    """The course of the rewards of a run: the rate of each of K rewards at each of T steps.

    time: (T,) steps since the first one.
    rates: (T, K) the mean of each reward on a scale from 0, its lowest value in the log, to 1, its highest; NaN where
        it is missing.
    dispersion: (K,) how uncertain the rate of a single step is, as it is a mean over few groups: its sampling variance,
        divided by the mean of rate (1 − rate) over the steps. It is not the variance from step to step.
    """

    time: Array
    rates: Array
    dispersion: Array

    @cached_property
    def logits(self) -> Array:
        """The logits of a smooth course through the rates: (T, K), for each step and reward."""
        columns = [_smooth(self.time, self.rates[:, k]) for k in range(self.rates.shape[1])]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class DifferingGroups:
    """The share of groups in which a reward takes different values, for each of K rewards, as a function of its rate.

    A rate is a mean from 0 to 1, as in `Course`.

    logits: (points,) the logits of some rates, equally spaced.
    shares: (K, points) the share of groups at each of these rates.
    """

    logits: Array
    shares: Array

    @classmethod
    def for_size(cls, within: Array, size: int) -> "DifferingGroups":
        """Return the shares of groups in which a reward takes different values, for groups of `size` responses.

        Each group is taken to have a rate of its own, at which its responses pass. These rates are beta-distributed
        around the reward's rate in all groups.

        within: (K,) the part of each reward's variance that lies inside groups. If it is NaN, the reward is taken to
            differ in every group.
        """
        logits = np.linspace(-9, 9, 73)
        rates = 1 / (1 + np.exp(-logits))
        shares = [
            np.ones_like(rates)
            if np.isnan(share)
            else 1 - _all_equal(rates, share, size) - _all_equal(1 - rates, share, size)
            for share in within
        ]
        return cls(logits, np.maximum(shares, 1e-6))

    def at(self, logits: Array) -> Array:
        """Return (…, K) the share of groups in which each of K rewards takes different values, by the logit of its
        rate.

        Between the points of `self.logits` the share is interpolated. Beyond the first and the last point it stays as
        it is there.

        logits: (…, K) one per reward.
        """
        place = np.clip((logits - self.logits[0]) / (self.logits[1] - self.logits[0]), 0, len(self.logits) - 1.001)
        low = place.astype(int)
        k = np.arange(self.shares.shape[0])
        fraction = place - low
        return self.shares[k, low] * (1 - fraction) + self.shares[k, low + 1] * fraction


def _all_equal(rates: Array, within: float, size: int) -> Array:
    """Return (points,) the probability that all responses of a group pass a reward.

    Each group has a rate of its own; these rates are beta-distributed around the mean rate.

    rates: (points,) the mean rate over groups.
    within: the part of the reward's variance that lies inside groups.
    size: how many responses a group has.
    """
    between = max(1 - within, 0.0)
    chance = np.ones_like(rates)
    for passed in range(size):  # Pólya's urn: each response that passes makes the next pass more likely
        chance = chance * (rates * (1 - between) + between * passed) / (1 - between + between * passed)
    return chance


@dataclass(frozen=True, kw_only=True)
class Pushes:
    """The push of a setting on each of K rewards, as a function of the rates of the rewards.

    The rate of a reward is its mean on a scale from 0, its lowest value in the log, to 1, its highest. The source of a
    reward is the reward itself, or its gated value if it is gated. A weight multiplies the source, which is normalised
    first if `decoupled`.

    course: the rates of the rewards in the log.
    measured: (K,) the push on the logged groups.
    weights: (K,) the weight of each source.
    decoupled: whether each source is normalised by itself, as under GDPO.
    spread: (K,) the standard deviation of each source inside groups.
    sources: (K, K) the correlations of the sources inside groups.
    cross: (K, K) the correlations of each source (rows) with each reward (columns).
    differing: the share of groups in which a reward takes different values.
    gate: (k, j, c) if reward k counts only where reward j is passed; None without a gate. The rate of the gated value
        is c × rate k × rate j.
    from_above: the rewards of the gate of which the highest value is the worst; 1 − rate takes the place of their rate.
    """

    course: Course
    measured: Array
    weights: Array
    decoupled: bool
    spread: Array
    sources: Array
    cross: Array
    differing: DifferingGroups
    gate: tuple[int, int, float] | None = None
    from_above: tuple[int, ...] = ()

    def at(self, logits: Array) -> Array:
        """Return (…, K) the push on each of the K rewards when they have the rates whose logits are given.

        `_formula` gives the artanh of each push, up to a constant per reward. That constant is chosen so that the mean
        artanh over the course of the log is the artanh of the measured push.

        logits: (…, K) one per reward.
        """
        return np.tanh(self._formula(logits) + self._offset)

    @cached_property
    def _offset(self) -> Array:
        """A constant per reward, (K,), that makes the formula agree with the log.

        It is the artanh of the measured push, minus the mean of `_formula` over the logged steps.
        """
        return np.arctanh(np.clip(self.measured, -0.999, 0.999)) - self._formula(self.course.logits).mean(0)

    @cached_property
    def _variance(self) -> Array:
        """The mean of rate (1 − rate) over the steps of the log for the rate of each source, (K,); at least 1e-9.

        The rate of a source is the rate of a reward, or of its gated value if it is gated.
        """
        rates = self._rates(self.course.logits)
        return np.maximum((rates * (1 - rates)).mean(0), 1e-9)

    def _rates(self, logits: Array) -> Array:
        """Return (…, K) the rate of each reward at these logits; for a gated reward, the rate of its gated value.

        logits: (…, K) one per reward.
        """
        rates = 1 / (1 + np.exp(-logits))
        if self.gate is not None:
            gated, on, factor = self.gate
            passed, counts = (1 - rates[..., k] if k in self.from_above else rates[..., k] for k in (on, gated))
            rate = np.clip(factor * counts * passed, 1e-6, 1 - 1e-6)
            rates[..., gated] = 1 - rate if gated in self.from_above else rate
        return rates

    def _formula(self, logits: Array) -> Array:
        """Return (…, K) the artanh of each push, as it follows from the rates, weights and correlations of the rewards.

        Its mean over the log may differ from the artanh of the measured push: `at` adds what is missing.

        logits: (…, K) the logits of the rates.
        """
        rates = self._rates(logits)
        if self.decoupled:
            size = self.weights * np.sqrt(self.differing.at(np.log(rates / (1 - rates))))
        else:
            size = self.weights * self.spread * np.sqrt(rates * (1 - rates) / self._variance)
        square = np.maximum(((size @ self.sources) * size).sum(-1, keepdims=True), 1e-300)
        return np.arctanh(np.clip(size @ self.cross / np.sqrt(square), -0.999, 0.999))


def _smooth(time: Array, rates: Array) -> Array:
    """Return (T,) the logits of a smooth course through the rates of one reward.

    The course is the parabola in time that comes nearest to the rates; with fewer than three rates it is a line or a
    constant. It is clipped to 0.01 and 0.99.

    time: (T,) as in `Course`.
    rates: (T,), where NaN is left out.
    """
    there = ~np.isnan(rates)
    x = time / max(time[-1], 1)
    fit = np.polynomial.Polynomial.fit(x[there], np.clip(rates[there], 0.02, 0.98), min(2, there.sum() - 1))
    smooth = np.clip(fit(x), 0.01, 0.99)
    return np.log(smooth / (1 - smooth))
