"""Bounds on the lengths of the rewards' terms in a step, from the means and stds that a log has of the step.

`means.py` makes bounds on each reward's share of the update from them. A step is a batch of groups of answers. For
reward k, x_k has a number for each answer of the step: the term of reward k in the weighted sum, w_k r_k, or w_k z_k
under GDPO, minus the mean of this term in the answer's group. The length |x_k| is the root of the sum of the squares of
these numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdpo_core.frameworks import CONVENTIONS
from gdpo_core.numerics.statistics import GRAIN

Array = np.ndarray
TRL_RULES = CONVENTIONS["trl"]
TINY = 1e-9  # a length of at most this is 0
_SLACK = 1e-4  # the relative error of a sum of squares that comes from float32 and a few printed digits


@dataclass(frozen=True)
class Scalars:
    """The numbers of each step in a log that holds means of rewards but no answers.

    A step is a batch of `groups` groups of `size` answers.

    size: the number of answers in a group.
    groups: the number of groups in a step.
    weights: one per reward.
    values: the two values, lower and higher, of each reward that takes only two, and None for any other reward.
    means: (steps, rewards) the mean of each reward.
    stds: (steps, rewards) the std of each reward, with n − 1; NaN where it is not known. It is used for rewards with
        more than two values alone.
    total_std: (steps,) the std of the weighted sum; NaN where it is not known.
    silent: (steps,) the share of groups in which the weighted sum is the same for all answers; NaN where it is not
        known. TRL logs it as `frac_reward_zero_std` under GRPO.
    """

    size: int
    groups: int
    weights: Sequence[float]
    values: Sequence[tuple[float, float] | None]
    means: Array
    stds: Array
    total_std: Array
    silent: Array

    @property
    def gaps(self) -> Array:
        """The distance between the two values of each reward times the size of its weight, (rewards,).

        NaN for a reward with more than two values.
        """
        apart = [np.nan if v is None else float(v[1] - v[0]) for v in self.values]
        return np.abs(np.array(self.weights) * np.array(apart))

    @property
    def passes(self) -> Array:
        """The number of answers that have the higher of a reward's two values, (steps, rewards).

        NaN for a reward with more than two values.
        """
        low = np.array([np.nan if v is None else v[0] for v in self.values])
        high = np.array([np.nan if v is None else v[1] for v in self.values])
        return np.round((self.means - low) / (high - low) * self.size * self.groups)


@dataclass(frozen=True)
class Sides:
    """Bounds on the lengths of the rewards' terms in a step, and on the number of groups in which each reward varies.

    For reward k, x_k has a number for each answer of the step: the term of reward k in the weighted sum, minus the mean
    of this term in the answer's group. The length |x_k| is the root of the sum of the squares of these numbers.

    low, high: (steps, rewards) the least and the greatest length |x_k|.
    sum_low, sum_high: (steps,) the least and the greatest length |Σ_k x_k|.
    varies_low, varies_high: (steps, rewards) the least and the greatest number of groups in which reward k varies.
    """

    low: Array
    high: Array
    sum_low: Array
    sum_high: Array
    varies_low: Array
    varies_high: Array


def length_of_rest(x: Array) -> Array:
    """Return (steps, rewards) for each reward the sum of x over all other rewards.

    The sum is infinite where x is infinite for one of the other rewards.

    x: (steps, rewards), such as bounds on lengths or on shares.
    """
    return np.array([np.delete(x, k, 1).sum(1) for k in range(x.shape[1])]).T


def sides_of(s: Scalars, method: str, weights: Array) -> Sides:
    """Return, for each step, bounds on three things: their least and their greatest value.

    The first is the length |x_k| of each reward's term. The second is the length |Σ_k x_k| of the sum of all terms. The
    third is the number of groups in which each reward varies. Here x_k has a number per answer of the step: the term of
    reward k in the answer's weighted sum, minus the mean of this term in the answer's group.

    s: the means and other numbers that the log has.
    method: the method that makes the sum.
    weights: (steps, rewards) the weight of each reward at each step.
    """
    varies_low, varies_high = _varying(s)
    rows = s.size * s.groups
    if method == "gdpo":  # |z|² of a group is n − 1 where the reward varies, but for the eps
        squares = weights**2 * (s.size - 1)
        smallest = np.nan_to_num(s.gaps / np.abs(weights[0]) / np.sqrt(s.size))
        by_eps = (smallest / (smallest + TRL_RULES.group_eps)) ** 2
        low, high = np.sqrt(squares * varies_low * by_eps), np.sqrt(squares * varies_high)
        batch = np.full(len(s.means), np.inf)
    else:
        low, high = _inside(s, weights)
        batch = np.nan_to_num(s.total_std * np.sqrt((rows - 1) * (1 + _SLACK)), nan=np.inf)
    sum_high = np.minimum(high.sum(1), batch)
    sum_low = np.maximum((low - length_of_rest(high)).max(1), 0)
    if method != "gdpo":
        sum_low = np.maximum(sum_low, _smallest_sum(s))
        if s.groups == 1 and np.isfinite(s.total_std).all():
            sum_low = np.maximum(sum_low, s.total_std * np.sqrt((rows - 1) * (1 - _SLACK)))
    return Sides(low, high, np.minimum(sum_low, sum_high), sum_high, varies_low, varies_high)


def _varying(s: Scalars) -> tuple[Array, Array]:
    """Return the least and the greatest number of groups in which each reward can vary, each (steps, rewards).

    For a reward with two values the least number is 0 if the number of its passes is a multiple of the group size. All
    groups may then be constant. Otherwise it is 1. A group in which the reward varies needs a pass and a failure. So
    the greatest number is the number of passes, of failures or of groups, whichever is least.

    For a reward with more values the least number is 0, and the greatest is the number of groups. If the step is a
    single group, both are 1. Both are 0 where the reward's std is 0.
    """
    rows, passes = s.size * s.groups, s.passes
    of_two = np.isfinite(passes)
    c = np.where(of_two, passes, 0)
    constant = np.where(of_two, False, s.stds <= TINY)
    low = np.where(of_two, c % s.size != 0, (s.groups == 1) & ~constant)
    high = np.where(of_two, np.minimum(np.minimum(c, rows - c), s.groups), np.where(constant, 0, s.groups))
    return low.astype(float), high.astype(float)


def _inside(s: Scalars, weights: Array) -> tuple[Array, Array]:
    """Return bounds on the size, in each step, of each reward's weighted distance from its group means.

    This size is the root of Σ (w (r − mean))² over all answers of the step. Here w is the weight of the reward, r its
    value for an answer, and mean its mean in the answer's group. The first bound is the least size, the second one the
    greatest, each (steps, rewards).

    For a reward with two values, the passes are the answers with the higher one. If the values are 0 and 1, a group of
    n answers of which m pass has Σ (r − mean)² = m (n − m) / n. This is concave in m. So its sum over the groups is
    least if the passes fill whole groups and the remaining ones are in a single group. It is greatest if the passes are
    spread evenly. If the values are two others, the size is multiplied by their distance.

    For a reward with more than two values its std is used. In a step of N answers the size is at least 0 and at most
    |w| std √(N − 1). If all answers of a step are one group, both bounds are |w| std √(N − 1). Room is left for the
    round-off of the logged std. Where the std is not known, the greatest size is infinite, and the least is NaN in a
    step of one group.

    weights: (steps, rewards), for the rewards with more than two values; the others take their weights from `s`.
    """
    n, passes = s.size, np.nan_to_num(s.passes)
    rest, each, more = passes % n, passes // s.groups, passes % s.groups
    least = rest * (n - rest) / n
    most = (more * (each + 1) * (n - each - 1) + (s.groups - more) * each * (n - each)) / n
    of_batch = (s.size * s.groups - 1) * (weights * s.stds) ** 2
    unbounded = np.isnan(s.gaps)[None, :]
    squares_low = np.where(unbounded, of_batch * (1 - _SLACK) if s.groups == 1 else 0.0, s.gaps**2 * least)
    squares_high = np.where(unbounded, np.nan_to_num(of_batch, nan=np.inf) * (1 + _SLACK), s.gaps**2 * most)
    return np.sqrt(squares_low), np.sqrt(squares_high)


def grain_of(s: Scalars) -> float:
    """Return the grain of a log: the largest number of which each reward's gap is a whole multiple.

    A gap is the distance between a reward's two values times the size of its weight. So two weighted sums of rewards
    are equal, or differ by the grain or more. Only the smallest gap other than 0, divided by 1 to 64, is tried. The
    result is 0 where none of these numbers fits, or where a reward has more than two values.
    """
    gaps = s.gaps[s.gaps > 0] if not np.isnan(s.gaps).any() else np.array([])
    for divisor in range(1, 65):
        grain = gaps.min(initial=np.inf) / divisor
        if gaps.size and np.allclose(gaps / grain, np.round(gaps / grain), rtol=0, atol=1e-6):
            return float(grain)
    return 0.0


def count_teaching(s: Scalars) -> Array:
    """Return (steps,) the number of groups in which the weighted sums differ, so that not every advantage is 0.

    The number follows from the logged share of groups with std 0, but only if float32 holds all sums exactly
    (`grain_of`). Otherwise the std of equal sums may be round-off and not 0, so the result is NaN.

    s: what the log tells of each step.
    """
    exact = grain_of(s) * GRAIN % 1 == 0 and grain_of(s) > 0
    return np.round(s.groups * (1 - s.silent)) if exact else np.full(len(s.means), np.nan)


def _smallest_sum(s: Scalars) -> Array:
    """Return (steps,) a lower bound on the size of the distances of the weighted sums from their group means.

    This size is the root of Σ (sum − mean)² over all answers of a step. Here sum is an answer's weighted sum of
    rewards, and mean the mean of these sums in the answer's group.

    All differences between sums are whole multiples of the log's grain (`grain_of`). Divided by the grain, the sums
    differ by whole numbers, as counts of passes do. So the bound is found in the way of `_inside`. Where it is known in
    how many groups the sums differ, that can raise the bound. The bound is 0 where the log has no grain.
    """
    grain = grain_of(s)
    if grain == 0:
        return np.zeros(len(s.means))
    n, signed = s.size, np.array([w * (v[1] - v[0]) / grain for w, v in zip(s.weights, s.values, strict=True) if v])
    rest = np.round(s.passes @ np.round(signed)) % n
    return grain * np.sqrt(np.maximum(rest * (n - rest) / n, np.nan_to_num(count_teaching(s)) * (n - 1) / n))
