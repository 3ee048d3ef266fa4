"""The test that a forecast does on the log it is made from: speeds are fitted to the first part of the run, and the
rest is foretold as it ran.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from gdpo_audit.facts.facts import Facts
from gdpo_audit.trials.logged_groups import LoggedGroups
from gdpo_core.forecasting import Array, Speeds, fit_speeds, integrate, times_of
from gdpo_core.pushes_by_rate import Pushes

# The halves of a log disagree if the speeds fitted to them are further apart than this many of their standard errors.
DISAGREE = 3.0
# A reward moved against its push in a half whose speed lies more than this many standard errors below 0.
BELOW = 2.0
# The speeds of a run are unlike if one is surely more than this many times another, both surely above 0.
_UNLIKE = 5.0
# Why a reward has no forecast where the log shows that its push does not predict.
AGAINST = "moved against its push"
# Nine equally likely speeds, by the part of the distribution that lies below each.
_QUANTILES = (np.arange(9) + 0.5) / 9


@dataclass(frozen=True)
class LogTest:
    """Hold what came of the test for each of K rewards.

    first, rest: the first and the last step of the part that speeds were fitted to, and of the part that was foretold.
    error: (K,) the logged mean of each reward over the foretold steps less the foretold one, in parts of its range.
    noise: (K,) the standard error of this difference: of the logged mean, and of the foretold one by that of the speed.
    moved: (K,) how far the reward was foretold to move from the first step, in parts of its range.
    speeds, errors: (2, K) the speed fitted to each of the two parts, and its standard error.
    held: (K,) whether both parts hold values of the reward, without which there is nothing to test.
    """

    first: tuple[int, int]
    rest: tuple[int, int]
    error: Array
    noise: Array
    moved: Array
    speeds: Array
    errors: Array
    held: NDArray[np.bool_]

    def off_by(self, k: int) -> float:
        """Return by how much the error of reward k exceeds the noise, divided by its foretold move, or by the noise if
        that is larger: 0 within the noise, and 1 if the excess is as large as the foretold move.
        """
        beyond = max(0.0, abs(float(self.error[k])) - float(self.noise[k]))
        return beyond / max(abs(float(self.moved[k])), float(self.noise[k]), 1e-9)

    def objection(self, k: int, name: str) -> str:
        """Return the words that say why nothing can rest on the speed of reward k, to follow “so the log …”; "" where
        the test objects to nothing.
        """
        if not self.held[k]:
            return f"{name} is missing in one half of the log"
        known = self.errors[:, k] < np.inf
        against = (self.speeds[:, k] + BELOW * self.errors[:, k] < 0) & known
        if against.any():
            begin, end = (self.first, self.rest)[int(against.argmax())]
            return f"{name} {AGAINST} in steps {begin} to {end}"
        apart = abs(float(np.diff(self.speeds[:, k])[0]))
        if known.all() and apart > DISAGREE * float(np.hypot(*self.errors[:, k])):
            return f"{name} followed its push at another speed in the second half of the log than in the first"
        if self.off_by(k) > 1:
            (begin, end), (first, last) = self.rest, self.first
            return (
                f"{name} went in steps {begin} to {end} further from what steps {first} to {last} foretold than it was "
                "foretold to move"
            )
        return ""


def objection_of_run(test: LogTest | None, speeds: Speeds, names: Sequence[str]) -> str:
    """Return the words that say why nothing can rest on any speed of a run, to follow “so the log …”; "" where nothing
    speaks against them.

    The rewards of a run hang together, as one policy learns them all. So if the test objects to the speed of one, the
    others are in doubt too; and a reward that is much slower than another may move with what the other one changes.

    speeds: those that were fitted to the whole log.
    names: the names of the rewards.
    """
    if test is None:
        return "the sample of this log has groups of one half of the steps alone, which leaves no forecast to be tested"
    for k in range(len(names)):
        if objection := test.objection(k, names[k]):
            return objection
    known = [k for k in range(len(names)) if speeds.fitted[k] > 2 * speeds.error[k]]
    least, most = (speeds.fitted + sign * 2 * speeds.error for sign in (-1, 1))
    for fast, slow in permutations(known, 2):
        if least[fast] > _UNLIKE * most[slow]:
            return (
                f"{names[fast]} followed its push more than {_UNLIKE:g} times as fast as {names[slow]}, which may move "
                f"with what {names[fast]} changes"
            )
    return ""


def tested_on_log(f: Facts, whole: LoggedGroups) -> LogTest | None:
    """Return the test of a run's own log, whose two parts hold about as many steps each; None where the sample of the
    log has no groups of one part, as where a single step has more responses than the sample.

    whole: the data of the whole log.
    """
    steps = np.array(f.steps)
    begin, middle, end = int(steps[0]), int(steps[len(steps) // 2]), int(steps[-1]) + 1
    spans = (begin, middle), (middle, end)
    if not all(whole.logged["step"].is_between(*steps_of, closed="left").any() for steps_of in spans):
        return None
    halves = [LoggedGroups(f, steps_of) for steps_of in spans]
    pushes = [half.pushes(f.method, f.basis.weights) for half in halves]
    first, second = (fit_speeds(half.course, push) for half, push in zip(halves, pushes, strict=True))
    course = whole.course
    late = course.time >= middle - begin
    rates = course.rates[late]
    there = ~np.isnan(rates)
    several = np.maximum(there.sum(0), 1)
    start, expected, spread = _foretold(first, pushes[0], course.time[late], there)
    means = np.where(there, rates, 0).sum(0) / several
    variance = course.dispersion * np.where(there, rates * (1 - rates), 0).sum(0) / several
    return LogTest(
        first=(begin, int(steps[len(steps) // 2 - 1])),
        rest=(middle, end - 1),
        error=means - expected,
        noise=np.hypot(np.sqrt(np.maximum(variance, 0) / several), spread),
        moved=expected - start,
        speeds=_both(first, second, "fitted"),
        errors=_both(first, second, "error"),
        held=np.logical_and(there.any(axis=0), (~np.isnan(course.rates[~late])).any(axis=0)),
    )


def _foretold(speeds: Speeds, pushes: Pushes, steps: Array, there: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Return three arrays about what is foretold of each reward, each (K,): its rate at the first step, the mean of its
    rates at some steps, and the standard deviation of this mean over possible speeds.

    speeds, pushes: of the part that the speeds were fitted to.
    steps: (T,) counted from the first step.
    there: (T, K) whether the log holds the reward at that step.
    """
    below = np.repeat([[0.5], *([x] for x in _QUANTILES)], len(speeds.start), axis=1)
    drawn, times = speeds.quantile(below), times_of(int(steps[-1]))
    courses = integrate(pushes, speeds.starts(drawn), drawn, times)  # (times, draws, K)
    low = np.clip(np.searchsorted(times, steps, side="right") - 1, 0, len(times) - 2)
    on_the_way = ((steps - times[low]) / (times[low + 1] - times[low]))[:, None, None]
    at = (1 - on_the_way) * courses[low] + on_the_way * courses[low + 1]
    means = np.where(there[:, None], at, 0).sum(0) / np.maximum(there.sum(0), 1)
    return courses[0, 0], means[0], means[1:].std(0)


def _both(first: Speeds, second: Speeds, field: str) -> Array:
    """Return a field of the speeds of both parts, (2, K)."""
    return np.stack([getattr(first, field), getattr(second, field)])
