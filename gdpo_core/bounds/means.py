"""Bounds on each reward's share of an update, from the means and stds of a step alone.

A log of means does not say which answers were compared with which, so it does not tell the exact share. The bounds here
hold for every way to put the answers into groups. Let x_k be reward k's term in each answer's sum, less the mean of its
group: w_k (r_k − mean_G r_k), or w_k z_k under GDPO. Let R be the sum of the other terms. The lengths of these vectors
over the answers of the step are a = |x_k|, b = |R| and t = |x_k + R|. The share of reward k is

  share_k = ⟨x_k, x_k + R⟩ / t² = 1/2 + (a² − b²) / 2t²

under GRPO without std and under GDPO. Each of a, b and t lies between bounds of its own, which `term_lengths.py`
computes, and no side of the triangle is longer than the other two together.

Under GRPO, Σ A² is the same, but for the eps, in every group whose advantages are not all 0. So a reward makes no more
of the update than what it can make in the groups in which it varies. The convention is TRL's, as TRL writes such logs.
No reward may be missing.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import comb

import numpy as np

from gdpo_core.bounds.term_lengths import (
    TINY,
    TRL_RULES,
    Array,
    Scalars,
    Sides,
    count_teaching,
    grain_of,
    length_of_rest,
    sides_of,
)

_MOST_KINDS = 300_000  # the most kinds of groups that are looked at one by one
_FAR, _ROUNDED = 100.0, 1e-6  # a share beyond ±_FAR is widened by its relative round-off, _ROUNDED


@dataclass(frozen=True)
class Shares:
    """The lowest and the highest share of the update that each reward can have at each step.

    low: (steps, rewards) the lowest shares.
    high: (steps, rewards) the highest shares.
    largest: (steps,) the index of the reward that has the largest share however the answers are put into groups; −1
        where the bounds do not tell.
    """

    low: Array
    high: Array
    largest: Array


def bound_shares(s: Scalars, method: str) -> Shares:
    """Return bounds of each reward's share of the update at each step, under a method of `conventions.COMPARED`.

    Where nothing bounds a share, its bounds are infinite.

    s: what a log tells of each step, such as the means and stds of the rewards, from which the bounds follow.

    >>> one = np.array([[0.25, 0.5]])
    >>> s = Scalars(4, 1, (1, 1), ((0, 1), (0, 1)), one, one * np.nan, np.array([0.5]), np.array([0.0]))
    >>> bounds = bound_shares(s, "grpo_no_std")
    >>> bounds.low.round(2).tolist(), bounds.high.round(2).tolist()
    ([[0.33, 0.67]], [[0.33, 0.67]])
    """
    known = np.array(s.weights, dtype=float)[None, :]
    sides = sides_of(s, method, np.broadcast_to(known, s.means.shape))
    low, high = _by_triangle(sides)
    if method == "grpo" and s.groups > 1:
        low, high = _by_groups(s, sides)
    least, most = _of_one_group(s, method)
    low, high = np.maximum(low, least), np.minimum(high, most)
    low, high = np.where(sides.high <= TINY, 0.0, low), np.where(sides.high <= TINY, 0.0, high)
    for _ in range(2):  # the shares sum to 1, so that the bounds of all others bound each of them
        low, high = np.maximum(low, 1 - length_of_rest(high)), np.minimum(high, 1 - length_of_rest(low))
    return Shares(low, high, _largest(low, high, sides if method != "grpo" or s.groups == 1 else None))


def _largest(low: Array, high: Array, sides: Sides | None) -> Array:
    """Return (steps,) the index of the reward whose share must be the largest; −1 where no reward's share must be.

    A share is certainly the largest if its lower bound is above the upper bounds of all others. It is so, too, if the
    length a_k = |x_k| of the reward's term is certainly more than the lengths of all other terms together. Proof: let
    `rest` be the sum of the terms of all rewards but k and l. Then share_k − share_l has the sign of ⟨x_k − x_l, x_k +
    x_l + rest⟩. This is at least (a_k + a_l) (a_k − a_l − |rest|).

    low, high: (steps, rewards) the lower and the upper bounds of the shares.
    sides: bounds on the lengths; None to compare the shares alone.
    """
    count = low.shape[1]
    of_others = np.array([np.delete(high, k, 1).max(1, initial=-np.inf) for k in range(count)]).T
    above = low > of_others
    if sides is not None:
        above |= sides.low > length_of_rest(sides.high)
    return np.where(above.any(1), above.argmax(1), -1)


def _by_triangle(sides: Sides) -> tuple[Array, Array]:
    """Return the lowest and the highest share of the update, each (steps, rewards), that each reward can have.

    Three vectors are the sides of a triangle: the reward's term, the sum of the other terms, and the sum of all. Bounds
    on their lengths bound the share.

    sides: the bounds on the lengths.
    """
    low, high = np.empty_like(sides.low), np.empty_like(sides.low)
    for k in range(low.shape[1]):
        a_low, a_high = sides.low[:, k], sides.high[:, k]
        rest_low, rest_high = np.delete(sides.low, k, 1), np.delete(sides.high, k, 1)
        b_high = np.minimum(rest_high.sum(1), sides.sum_high + a_high)
        b_low = np.maximum((rest_low - length_of_rest(rest_high)).max(1, initial=0), sides.sum_low - a_high)
        b_low = np.clip(b_low, 0, b_high)
        t_high = np.minimum(sides.sum_high, a_high + b_high)
        t_low = np.minimum(np.maximum(sides.sum_low, np.maximum(a_low - b_high, b_low - a_high)), t_high)
        high[:, k] = _highest((a_low, a_high), (b_low, b_high), (t_low, t_high))
        low[:, k] = 1 - _highest((b_low, b_high), (a_low, a_high), (t_low, t_high))
    return low, high


def _highest(a: tuple[Array, Array], b: tuple[Array, Array], t: tuple[Array, Array]) -> Array:
    """Return (steps,) the highest share of the update that a reward can have, given bounds on three lengths.

    The three lengths are the sides of a triangle, and the share is 1/2 + (a² − b²) / 2t². The result is infinite where
    t may be 0.

    For a given t the share is highest with the longest a that closes a triangle, and then the shortest b. Between the
    values of t that are tried here it is monotone, so one of them has the highest of all.

    a: the least and the greatest length of the reward's term, each (steps,).
    b: the least and the greatest length of the sum of the other terms, each (steps,).
    t: the least and the greatest length of the whole sum, each (steps,).
    """
    best = np.full(len(a[0]), -np.inf)
    for try_at in (t[0], t[1], np.abs(a[1] - b[0]), a[1] + b[0], a[1] - b[1]):
        at = np.clip(try_at, t[0], t[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            shortest = np.maximum(b[0], np.abs(a[1] - at))
            share = 0.5 + (a[1] ** 2 - shortest**2) / (2 * at**2)
            share = np.where(shortest > b[1] + TINY, 1 + b[1] / at, share)
        best = np.fmax(best, np.where(at > 0, share, np.inf))
    return best


# --- group by group --------------------------------------------------------------------------------------------------


def _by_groups(s: Scalars, sides: Sides) -> tuple[Array, Array]:
    """Return the lowest and the highest share of the update under GRPO, each (steps, rewards), from single groups.

    A reward's share of the update is the mean of its shares in the groups whose weighted sums differ. These groups
    would count equally, but the eps makes a group with a small std count less. A reward that alone varies in a group
    makes all of the update there. A reward that does not vary makes nothing of it.

    s: what the log tells of each step.
    sides: bounds, of which `varies_high` alone is used, the largest number of groups in which each reward can vary.
    """
    least, most = _of_one_group(s, "grpo")
    grain = grain_of(s)
    # A group counts beside another by this factor or a larger one, since an eps shrinks advantages most where the std
    # is small.
    counts = (grain / (grain + TRL_RULES.sum_eps * np.sqrt(s.size))) ** 2
    teaching = np.maximum(np.nan_to_num(count_teaching(s), nan=1.0), 1)[:, None]
    reached = np.minimum(sides.varies_high, teaching)
    with np.errstate(invalid="ignore", divide="ignore"):
        share_of_teaching = reached / (reached + (teaching - reached) * counts)
        share_of_teaching = np.where(reached == 0, 0.0, share_of_teaching)
        alone = np.maximum(teaching - length_of_rest(sides.varies_high), 0)
        alone = np.where(alone < teaching, alone * counts / (alone * counts + teaching - alone), 1.0)
        high = np.where(share_of_teaching > 0, np.maximum(most, 0) * share_of_teaching, 0.0)
        low = np.where(alone < 1, alone + (1 - alone) * np.minimum(least, 0), 1.0)
    return low, high


def _of_one_group(s: Scalars, method: str) -> tuple[Array, Array]:
    """Return the lowest and the highest share of a group's update that each reward can have, each (rewards,).

    If nothing can be said, the lowest shares are all −∞ and the highest all ∞. This is so if any reward has more than
    two values, or if there are too many kinds of groups to look at each. It is so, too, if no kind of group has
    advantages other than 0.
    """
    if any(v is None for v in s.values):
        return np.full(len(s.values), -np.inf), np.full(len(s.values), np.inf)
    terms = tuple(float(w) * (v[1] - v[0]) for w, v in zip(s.weights, s.values, strict=True) if v is not None)
    spans = tuple(float(v[1] - v[0]) for v in s.values if v is not None)
    return _kinds_of_group(s.size, terms, spans if method == "gdpo" else None)


@lru_cache(maxsize=32)
def _kinds_of_group(n: int, terms: tuple[float, ...], spans: tuple[float, ...] | None) -> tuple[Array, Array]:
    """Return the lowest and the highest share of a group's update that each reward can have, each (rewards,).

    They are taken over all possible groups of n answers, each of which passes or fails each reward. The lowest shares
    are −∞ and the highest ∞ if there are too many kinds of groups, or if no kind has advantages other than 0.

    terms: for each reward its weight times the distance of its two values.
    spans: these distances alone, which GDPO needs for the stds of the rewards. None for other methods, which divide a
        whole group by one number.
    """
    k = len(terms)
    without = np.full(k, -np.inf), np.full(k, np.inf)
    if comb(n + 2**k - 1, n) > _MOST_KINDS:
        return without
    bars = np.array([*combinations(range(n + 2**k - 1), 2**k - 1)], dtype=np.int64).reshape(-1, 2**k - 1)
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + 2**k - 1)])
    answers = np.diff(ends, axis=1) - 1  # (kinds, patterns) how many answers have each pattern of passes
    patterns = np.array([*product((0, 1), repeat=k)], dtype=float)
    passes = answers @ patterns
    products = (answers @ np.einsum("pi,pj->pij", patterns, patterns).reshape(2**k, -1)).reshape(-1, k, k)
    products = products - passes[:, :, None] * passes[:, None, :] / n
    by = np.broadcast_to(np.array(terms), passes.shape)
    if spans is not None:
        std = np.sqrt(np.einsum("gkk->gk", products) / max(n - 1, 1)) * np.abs(spans)
        by = by / (std + TRL_RULES.group_eps)
    parts = by * np.einsum("gkl,gl->gk", products, by)
    total, size = parts.sum(1), (np.sqrt(np.einsum("gkk->gk", products)) * np.abs(by)).sum(1) ** 2
    teaches = total > 1e-10 * size
    if not teaches.any():
        return without
    shares = parts[teaches] / total[teaches, None]
    least, most = shares.min(0), shares.max(0)
    # A share of more than a hundred was divided by nearly 0, so that its round-off is no longer small.
    return np.where(least < -_FAR, least * (1 + _ROUNDED), least), np.where(most > _FAR, most * (1 + _ROUNDED), most)
