"""The formulas once more, written slowly with floats, lists and loops. The tests compare gdpo_core with them.

Rows are responses: (responses, rewards) as lists of floats, with NaN for a missing reward. `ids` says which group each
row is in. Nothing here imports gdpo_core or torch. At the end are the random batches on which properties are tried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import fsum, isnan, nan
from statistics import stdev

from hypothesis import strategies as st

METHODS = ("grpo", "grpo_no_std", "gdpo")
EPS = {"paper": (0.0, 0.0), "TRL": (1e-4, 1e-4)}  # added to a group's std, to the batch's std

# What is smaller than this beside the numbers it was made of is round-off; no batch here holds a signal so small.
ROUND_OFF = 1e-12
CANCELLED = 1e-9
SAME_ADVANTAGE = 1e-9
BY_EPS = 0.005  # of the largest: what is closer, and equal without an eps, is one


@dataclass
class Computed:
    """The result of a method on a batch, from the statistics of each group to the advantages."""

    means: dict  # by group id; a list over the rewards for GDPO
    stds: dict
    z: list | None
    sums: list
    batch_mean: float | None
    batch_std: float | None
    advantages: list


def members(ids) -> dict:
    """Return the indices of the rows of each group, by its id."""
    rows: dict = {}
    for row, id in enumerate(ids):
        rows.setdefault(id, []).append(row)
    return rows


def mean_and_std(values, round_off=0.0):
    """Return the mean and the std, with ddof 1, of the values that are not NaN. The std is 0 for equal values, for a
    single one, and for none (whose mean is NaN), and where it is not above `round_off`.
    """
    there = [v for v in values if not isnan(v)]
    if not there:
        return nan, 0.0
    std = stdev(there) if len(there) > 1 else 0.0
    return fsum(there) / len(there), std if std > round_off else 0.0


def standardised(value, mean, std, eps, divide=True):
    """Return (value − mean) / (std + eps), or value − mean if it is not to be divided; 0 where the std is 0, and NaN
    for NaN.
    """
    if isnan(value):
        return nan
    if std == 0:
        return 0.0
    return (value - mean) / (std + eps) if divide else value - mean


def weighted_sum(weights, values):
    """Return the weighted sum of the values that are not NaN; NaN if all are."""
    terms = [w * v for w, v in zip(weights, values, strict=True) if not isnan(v)]
    return fsum(terms) if terms else nan


def size(weights, values):
    """Return the sum of the absolute values of the terms of a weighted sum."""
    return fsum(abs(w * v) for w, v in zip(weights, values, strict=True) if not isnan(v))


def compute(rows, ids, method, weights=None, convention="paper") -> Computed:
    """Return what a method computes of rows; weights: 1 each by default."""
    weights = [1.0] * len(rows[0]) if weights is None else weights
    return (_gdpo if method == "gdpo" else _grpo)(rows, ids, weights, *EPS[convention], method)


def _grpo(rows, ids, weights, group_eps, _, method) -> Computed:
    sums = [weighted_sum(weights, row) for row in rows]
    means, stds, advantages = {}, {}, [0.0] * len(rows)
    for id, group in members(ids).items():
        round_off = ROUND_OFF * max(size(weights, rows[i]) for i in group)
        means[id], stds[id] = mean_and_std([sums[i] for i in group], round_off)
        for i in group:
            a = standardised(sums[i], means[id], stds[id], group_eps, divide=method == "grpo")
            advantages[i] = 0.0 if isnan(a) else a
    return Computed(means, stds, None, sums, None, None, advantages)


def _gdpo(rows, ids, weights, group_eps, batch_eps, _) -> Computed:
    rewards = range(len(weights))
    z = [[nan] * len(weights) for _ in rows]
    sums = [nan] * len(rows)
    means, stds = {}, {}
    for id, group in members(ids).items():
        statistics = [mean_and_std([rows[i][k] for i in group]) for k in rewards]
        means[id], stds[id] = [m for m, _ in statistics], [s for _, s in statistics]
        for i in group:
            z[i] = [standardised(rows[i][k], *statistics[k], group_eps) for k in rewards]
            sums[i] = weighted_sum(weights, z[i])
        largest = max(size(weights, z[i]) for i in group)
        if all(isnan(sums[i]) or abs(sums[i]) <= CANCELLED * largest for i in group):
            for i in group:
                sums[i] = nan if isnan(sums[i]) else 0.0
    mean, std = mean_and_std(sums)
    if abs(mean) <= ROUND_OFF * max((abs(s) for s in sums if not isnan(s)), default=0.0):
        mean = 0.0  # In every group the z of a reward sum to zero.
    a = [standardised(s, mean, std, batch_eps) for s in sums]
    return Computed(means, stds, z, sums, mean, std, [0.0 if isnan(v) else v for v in a])


# --- collapse: explicit pairs --------------------------------------------------------------------------------------


def same_reward(x, y) -> bool:
    """Return whether two rewards are equal; two missing ones are."""
    return x == y or (isnan(x) and isnan(y))


def same_vector(u, v) -> bool:
    """Return whether all rewards of two responses are equal."""
    return all(same_reward(x, y) for x, y in zip(u, v, strict=True))


def distinct(items, same: Callable) -> int:
    """Return how many items are different; same: says whether two are not."""
    kept: list = []
    for item in items:
        if not any(same(item, other) for other in kept):
            kept.append(item)
    return len(kept)


@dataclass
class Pair:
    """Two responses of a group: whether their rewards differ, and whether they are tied."""

    first: int
    second: int
    differ: bool  # in their reward vectors
    tied: bool  # one advantage


@dataclass
class Group:
    """A group with all its pairs of responses."""

    rows: list
    pairs: list
    levels: int
    vectors: int
    constant: list  # per reward


def has_a_reward(row) -> bool:
    """Return whether a response has at least one reward."""
    return not all(isnan(v) for v in row)


def groups_of(rows, ids, advantages, bare=None) -> list[Group]:
    """Return the groups with all pairs of the rows that have a reward. bare: the advantages that are computed without
    any eps; if they are given, advantages that are close count as tied if the bare ones are equal.
    """
    groups = []
    for all_rows in members(ids).values():
        group = [i for i in all_rows if has_a_reward(rows[i])]

        def near(a, i, j, within, group=group):
            return abs(a[i] - a[j]) <= within * max(abs(a[k]) for k in group)

        def tied(i, j, near=near):
            by_eps = bare is not None and near(bare, i, j, SAME_ADVANTAGE) and near(advantages, i, j, BY_EPS)
            return by_eps or near(advantages, i, j, SAME_ADVANTAGE)

        pairs = [Pair(i, j, not same_vector(rows[i], rows[j]), tied(i, j)) for i, j in combinations(group, 2)]
        groups.append(
            Group(
                group,
                pairs,
                distinct(group, tied),
                distinct([rows[i] for i in group], same_vector),
                [distinct([rows[i][k] for i in group], same_reward) <= 1 for k in range(len(rows[0]))],
            )
        )
    return groups


def mean(values) -> float:
    """Return the mean of some values; NaN for none."""
    values = list(values)
    return fsum(values) / len(values) if values else nan


def collapse(rows, ids, method, weights=None, convention="paper") -> dict:
    """Return the facts about ties that gdpo_core's `collapse` gives, as a dict."""
    computed = compute(rows, ids, method, weights, convention)
    a = computed.advantages
    groups = groups_of(rows, ids, a, compute(rows, ids, method, weights).advantages)
    mixed = [g for g in groups if g.vectors > 1]
    different = [p for g in groups for p in g.pairs if p.differ]
    return {
        "groups": len(groups),
        "mixed_groups": len(mixed),
        "groups_with_ties": mean(any(p.differ and p.tied for p in g.pairs) for g in mixed),
        "tied_pairs": mean(p.tied for p in different),
        "tied_pair_count": sum(p.tied for p in different),
        "levels": mean(g.levels for g in mixed),
        "vectors": mean(g.vectors for g in mixed),
        "dead_rewards": tuple(mean(g.constant[k] for g in mixed) for k in range(len(rows[0]))),
        "silent_groups": mean(all(a[i] == 0 for i in group) for group in members(ids).values()),
        "update_share": update_share(rows, ids, computed, weights, EPS[convention], method),
    }


def update_share(rows, ids, computed, weights, eps, method) -> tuple:
    """Return each reward's share of the update, Σ a_k A / Σ A². Here a_k is what reward k adds to an advantage A,
    divided by the number that divides A.
    """
    a = computed.advantages
    weights = [1.0] * len(rows[0]) if weights is None else weights
    if not any(a):
        return (nan,) * len(weights)
    shares = []
    for k, w in enumerate(weights):
        products = []
        for id, group in members(ids).items():
            if method == "gdpo":
                part = [w * computed.z[i][k] / (computed.batch_std + eps[1]) for i in group]
            else:
                there = [i for i in group if has_a_reward(rows[i])]
                terms = {i: 0.0 if isnan(rows[i][k]) else w * rows[i][k] for i in there}
                mean = fsum(terms.values()) / len(terms) if terms else 0.0
                by = computed.stds[id] + eps[0] if method == "grpo" else 1.0
                part = [(terms[i] - mean) / by if i in terms and by else 0.0 for i in group]
            products += [p * a[i] for p, i in zip(part, group, strict=True) if not isnan(p)]
        shares.append(fsum(products) / fsum(x * x for x in a))
    return tuple(shares)


def right_and_wrong(rows, pair, primary):
    """Return the two rows of a pair, first the one with less of the primary reward; None if the two are equal in it or
    one lacks it.
    """
    x, y = rows[pair.first][primary], rows[pair.second][primary]
    if isnan(x) or isnan(y) or x == y:
        return None
    return (pair.first, pair.second) if x < y else (pair.second, pair.first)


def broken_ties(rows, ids, coarse, fine, primary) -> set:
    """Return the pairs with different primary reward that the advantages `coarse` tie and `fine` do not: a set of (row
    with less of it, row with more, whether `fine` puts them in the wrong order).
    """
    broken = set()
    for g_coarse, g_fine in zip(groups_of(rows, ids, coarse), groups_of(rows, ids, fine), strict=True):
        for c, f in zip(g_coarse.pairs, g_fine.pairs, strict=True):
            ends = right_and_wrong(rows, c, primary)
            if ends and c.tied and not f.tied:
                lower, higher = ends
                broken.add((lower, higher, fine[lower] > fine[higher]))
    return broken


# --- batches to try them on ----------------------------------------------------------------------------------------


@dataclass
class Batch:
    """A batch of responses with the group of each, and weights or None."""

    rows: list
    ids: list
    weights: list | None


VALUES = {
    "binary": st.integers(0, 1),
    "ordinal": st.integers(-2, 3),
    "tenths": st.integers(-20, 20).map(lambda n: n / 10),
    "far from zero": st.integers(0, 5).map(lambda n: 20 + n / 8),
}
SCALES = (1.0, 1.0, 1.0, 0.1, 7.0, 30.0)  # wider, and the round-off of a weighted sum exceeds 1e-9
WEIGHTS = (1.0, 1.0, 0.3, 2.5, 0.7, 0.0, -0.5, -2.0)
MISSING = ("none", "none", "none", "scattered", "all", "all but one")


def _column(draw, count, values, scale, missing):
    """Return random values of one reward in a group of `count` responses. missing: whether some may be missing."""
    constant = draw(st.integers(0, 4)) == 0
    drawn = [draw(values)] * count if constant else draw(st.lists(values, min_size=count, max_size=count))
    value = [float(v * scale) for v in drawn]
    pattern = draw(st.sampled_from(MISSING)) if missing else "none"
    if pattern == "all":
        return [nan] * count
    if pattern == "all but one":
        there = draw(st.integers(0, count - 1))
        return [v if i == there else nan for i, v in enumerate(value)]
    if pattern == "scattered":
        gone = draw(st.integers(0, 2**count - 1))
        return [nan if gone >> i & 1 else v for i, v in enumerate(value)]
    return value


@st.composite
def batches(draw, missing=True, dense=False, shuffled=True):
    """Draw a batch of 1 to 5 prompts with 1 to 7 rollouts and 1 to 4 rewards; some rewards are constant, and the
    weights are any. missing: whether rewards may be missing; dense: whether all groups have one size; shuffled: whether
    the rows of a group may stand apart.
    """
    prompts, rewards = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rollouts = st.integers(1, 7)
    sizes = [draw(rollouts)] * prompts if dense else [draw(rollouts) for _ in range(prompts)]
    kinds = [(VALUES[draw(st.sampled_from(list(VALUES)))], draw(st.sampled_from(SCALES))) for _ in range(rewards)]
    rows, ids = [], []
    for prompt, count in enumerate(sizes):
        columns = [_column(draw, count, *kind, missing) for kind in kinds]
        rows += [list(row) for row in zip(*columns, strict=True)]
        ids += [prompt] * count
    if missing and draw(st.booleans()):
        rows[draw(st.integers(0, len(rows) - 1))] = [nan] * rewards
    if shuffled and not dense:
        order = draw(st.permutations(range(len(rows))))
        rows, ids = [rows[i] for i in order], [ids[i] for i in order]
    weights = draw(st.none() | st.lists(st.sampled_from(WEIGHTS), min_size=rewards, max_size=rewards))
    return Batch(rows, ids, weights)
