"""Forecasts of the means of rewards under another setting, from how they moved under the setting that ran.

Price's equation: an update moves the mean of a reward by the covariance of advantage and reward inside groups. The push
on a reward is the correlation of advantage and reward. On the scale of logits each reward follows its push at a speed
of its own, which depends on the learner and the reward. `fit_speeds` estimates the speeds from the run itself, and
`integrate` computes how the rewards would follow another push.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdpo_core.pushes_by_rate import Array, Course, Pushes

# The standard deviation of the logarithms of the speeds of one run's rewards, about as in runs of the small model.
PRIOR_SPREAD = 0.6
# The mean and spread of the logarithm of a run's typical speed: wide enough for nearly any learner.
PRIOR_CENTRE, PRIOR_CENTRE_SPREAD = np.log(0.02), 2.0
_ROUNDS = 4  # how often the regression is repeated, each time with the pushes on the course that it fitted before
# A course is computed at every step up to _STEPS_EACH; from there each time is _GROWTH times the one before.
_STEPS_EACH, _GROWTH = 200, 1.02


@dataclass(frozen=True)
class Speeds:
    """The speed at which each of K rewards follows its push, with its uncertainty.

    A speed is in logits per step for a push of 1 at a rate of one half; at other rates a push has less effect, as
    `damping` says.

    start: (K,) the logit of each reward at the first step.
    fitted: (K,) the speed fitted to each reward alone.
    error: (K,) the standard error of this speed.
    slope: (K,) how much lower the start that fits best is if the speed is taken to be higher by 1.
    grid: (points,) speeds that are possible.
    chance: (K, points) for each reward, the probability of each speed in `grid`. It follows from the speeds fitted to
        all rewards, as the speeds of one run are taken to be alike.
    """

    start: Array
    fitted: Array
    error: Array
    slope: Array
    grid: Array
    chance: Array

    @cached_property
    def speed(self) -> Array:
        """The median of each reward's speed, (K,), over the speeds in `grid` with the probabilities in `chance`."""
        return self.quantile(np.full((1, len(self.start)), 0.5))[0]

    @cached_property
    def spread(self) -> Array:
        """The standard deviation of each reward's speed, (K,), over the speeds in `grid` with the probabilities in
        `chance`.
        """
        mean = self.chance @ self.grid
        return np.sqrt(np.maximum(self.chance @ self.grid**2 - mean**2, 0))

    @cached_property
    def log_spread(self) -> Array:
        """The standard deviation, (K,), of the logarithm of each reward's speed, with the probabilities `chance`."""
        logs = np.log(self.grid)
        return np.sqrt(np.maximum(self.chance @ logs**2 - (self.chance @ logs) ** 2, 0))

    def quantile(self, probability: Array) -> Array:
        """Return (draws, K) the speed of each reward below which a given part of its distribution lies.

        The distribution is `chance`.

        probability: (draws, K) these parts, from 0 to 1: 0.5 gives the median speed.
        """
        cumulated = self.chance.cumsum(1) - self.chance / 2
        columns = [np.interp(probability[:, k], cumulated[k], self.grid) for k in range(len(self.start))]
        return np.stack(columns, axis=1)

    def starts(self, speeds: Array) -> Array:
        """Return (draws, K) the logits of the rewards at the first step, one for each of the speeds.

        A higher speed gives a lower start, by `slope`. A speed that lies more than 3 standard errors above the fitted
        speed counts as if it lay 3 above.

        speeds: (draws, K).
        """
        return self.start - self.slope * (np.minimum(speeds, self.fitted + 3 * self.error) - self.fitted)


def damping(logits: Array) -> Array:
    """Return the factor by which a push on a reward moves its logit: 4 p (1 − p) at a rate of p, but at least 0.001.

    The factor is 1 at a rate of one half and less at any other rate. Of its powers from −0.5 to 1.5 the first followed
    the second hundred steps of runs of the small model best, off by 0.002 in the mean (10 logs of five set-ups).

    logits: the logits of the rates, in any shape.
    """
    rates = 1 / (1 + np.exp(-logits))
    return np.maximum(4 * rates * (1 - rates), 1e-3)


def fit_speeds(course: Course, pushes: Pushes) -> Speeds:
    """Return the speed at which each reward of a run follows its push, fitted to the run's course.

    The fit is a logistic regression of each reward's rate on its push. The push is damped (`damping`) and summed over
    the steps so far. As the pushes depend on the rates, the regression is repeated a few times, each time with the
    pushes that belong to the rates fitted before.

    course: the rates of the rewards in the run.
    pushes: the pushes of the setting that ran.
    """
    rewards = course.rates.shape[1]
    start, speed = np.zeros(rewards), np.zeros(rewards)
    error, slope = np.full(rewards, np.inf), np.zeros(rewards)
    smooth = course.logits.copy()
    for _ in range(_ROUNDS):
        rise = pushes.at(smooth) * damping(smooth)
        gaps = np.diff(course.time)[:, None]
        driven = np.concatenate([np.zeros((1, rewards)), ((rise[1:] + rise[:-1]) / 2 * gaps).cumsum(0)])
        for k in range(rewards):
            start[k], speed[k], error[k], slope[k] = _regress(driven[:, k], course.rates[:, k], course.dispersion[k])
            smooth[:, k] = start[k] + speed[k] * driven[:, k]
    grid, chance = _together(speed, error)
    return Speeds(start, speed, error, slope, grid, chance)


def _regress(driven: Array, rates: Array, dispersion: float) -> tuple[float, float, float, float]:
    """Fit logit(rate) = start + speed × driven; return start, speed, the standard error of the speed, and slope.

    The slope says how much lower the start that fits best is if the speed is taken to be higher by 1. The standard
    error is computed from `dispersion` or from the variance of the residuals, whichever is larger.

    driven: (T,) for each step the sum of the damped pushes on one reward since the first step.
    rates: (T,) the rates of this reward, where NaN is left out.
    dispersion: how uncertain its rate at a single step is, as in `Course`.
    """
    there = ~np.isnan(rates)
    x, y = driven[there], rates[there]
    design = np.stack([np.ones_like(x), x], axis=1)
    size = max(np.abs(x).max(), 1e-9)
    ridge = np.diag([1e-3, 1e-9 * size**2])
    middle = float(np.clip(y.mean(), 0.01, 0.99))
    beta = np.array([np.log(middle / (1 - middle)), 0.0])
    for _ in range(25):
        rate = 1 / (1 + np.exp(-np.clip(design @ beta, -12, 12)))
        weight = np.maximum(rate * (1 - rate), 1e-6)
        information = design.T @ (weight[:, None] * design) + ridge
        move = np.linalg.solve(information, design.T @ (y - rate))
        beta = beta + np.clip(move, [-1, -2 / size], [1, 2 / size])
    spread = np.linalg.inv(information)
    residual = ((y - rate) ** 2 / weight).sum() / max(len(y) - 2, 1)
    noise = max(dispersion, float(residual))
    return float(beta[0]), float(beta[1]), float(np.sqrt(noise * spread[1, 1])), float(-spread[0, 1] / spread[1, 1])


def _together(speed: Array, error: Array) -> tuple[Array, Array]:
    """Return (points,) a grid of speeds, and (K, points) the probability that each reward has each of these speeds.

    The logarithms of the speeds of a run's rewards are taken as normally distributed around one centre. Where that
    centre lies is estimated for each reward from the speeds of the other rewards and from a wide prior on the centre.

    speed: (K,) the speed that was fitted to each reward alone.
    error: (K,) its standard error.
    """
    top = max(float((np.maximum(speed, 0) + 4 * error)[np.isfinite(error)].max(initial=0)), 1e-3)
    grid = np.geomspace(min(1e-5, top * 1e-4), max(1.0, top), 400)
    logs = np.log(grid)
    likelihood = np.exp(
        -0.5 * ((grid - speed[:, None]) / error[:, None]) ** 2 + 0.5 * (np.minimum(speed, 0) / error)[:, None] ** 2
    )
    centres = np.linspace(logs[0], logs[-1], 121)
    prior = np.exp(-0.5 * ((logs - centres[:, None]) / PRIOR_SPREAD) ** 2)  # (centres, points)
    prior = prior / prior.sum(1, keepdims=True)
    fits = np.log(np.maximum(likelihood @ prior.T, 1e-300))  # (K, centres)
    hyper = -0.5 * ((centres - PRIOR_CENTRE) / PRIOR_CENTRE_SPREAD) ** 2
    chance = np.empty_like(likelihood)
    for k in range(len(speed)):  # the other rewards tell where the centre is, then the reward itself is added
        of_others = hyper + fits.sum(0) - fits[k]
        of_others = np.exp(of_others - of_others.max())
        chance[k] = likelihood[k] * (of_others @ prior)
    return grid, chance / chance.sum(1, keepdims=True)


def times_of(steps: int) -> Array:
    """Return the times, from step 0 to `steps`, at which a forecast computes the rewards' rates.

    They are every step up to 200. From there on the gaps between them become ever larger.
    """
    times = list(range(min(steps, _STEPS_EACH) + 1))
    while times[-1] < steps:
        times.append(min(steps, max(times[-1] + 1, int(times[-1] * _GROWTH))))
    return np.array(times, dtype=float)


def integrate(pushes: Pushes, start: Array, speeds: Array, times: Array) -> Array:
    """Return (times, draws, K) the rates of K rewards at each of these times, as they follow the pushes.

    In a step, a logit moves by speed × push × `damping`. It is computed in one go from each time to the next, so times
    have to lie close together. Logits stay from −12 to 12.

    pushes: the pushes on the rewards, as a function of their rates.
    start: (draws, K) the logits at the first time.
    speeds: (draws, K) in logits per step for a push of 1 at a rate of one half.
    times: (times,) in steps.
    """
    logits, rates = start, []
    for gap in np.diff(times, append=times[-1]):
        rates.append(1 / (1 + np.exp(-logits)))
        logits = np.clip(logits + gap * speeds * pushes.at(logits) * damping(logits), -12, 12)
    return np.stack(rates)


def pool(speeds: Array, errors: Array) -> tuple[float, float, float]:
    """Return the speed of one reward over several runs, its standard error, and the spread between the runs.

    The spread is the standard deviation by which the runs differ beyond their errors. A run counts the more, the
    smaller its own error and the spread are (DerSimonian and Laird, 1986).

    speeds: the speed in each run.
    errors: its standard error in each run.

    >>> [round(x, 4) for x in pool(np.array([0.03, 0.05]), np.array([0.001, 0.001]))]
    [0.04, 0.01, 0.0141]
    """
    weight = 1 / errors**2
    mean = (weight @ speeds) / weight.sum()
    freedom = len(speeds) - 1
    surplus = weight @ (speeds - mean) ** 2 - freedom
    between = max(0.0, float(surplus / (weight.sum() - (weight**2).sum() / weight.sum()))) if freedom else 0.0
    weight = 1 / (errors**2 + between)
    return float((weight @ speeds) / weight.sum()), float(weight.sum() ** -0.5), float(np.sqrt(between))
