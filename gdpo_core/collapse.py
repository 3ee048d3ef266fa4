"""What a method can no longer tell apart: ties, levels, dead rewards, update shares, inverted priorities."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gdpo_core.advantages import method_for
from gdpo_core.batch import Batch, read
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.errors import expect, expect_index

# Advantages closer than this, relative to the largest, are one: float32 rewards carry round-off of their own.
_SAME = {torch.float64: 1e-9, torch.float32: 1e-6}
_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Collapse:
    """How much of the difference between reward vectors the advantages keep.

    All but `groups`, `silent_groups` and `update_share` look at the mixed groups only; a mean over none is NaN.
    A response without any reward is left out, and one whose advantage the convention makes NaN.
    """

    groups: int
    mixed_groups: int  # groups that hold at least two different reward vectors
    groups_with_ties: float  # share of the mixed groups in which two different vectors have one advantage
    tied_pairs: float  # of the pairs in a group whose vectors differ, the share with one advantage
    tied_pair_count: int
    levels: float  # mean number of distinct advantages a group
    vectors: float  # mean number of distinct reward vectors a group
    dead_rewards: tuple[float, ...]  # per reward, share of the groups in which it is constant
    silent_groups: float  # share of all groups in which every advantage is 0
    update_share: tuple[float, ...]  # per reward, its part of the advantages' variance; sums to 1, NaN if all are 0
    level: Tensor = field(repr=False)  # (responses,) number of each response's advantage in its group, 0 = lowest
    response: Tensor = field(repr=False)  # (responses,) the number, among all, of each that was not left out
    _rewards: Tensor = field(repr=False)  # of all responses, as given
    _index: Tensor = field(repr=False)  # the number of each one's group

    def inversions(self, primary: int = 0) -> float:
        """Of the pairs in a group with different `primary` reward, the share in which the lower one gets more.

        NaN where there is no such pair. Raises InputError.

        >>> collapse([[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]], "grpo").inversions(primary=0)
        0.6666666666666666
        """
        expect_index(primary, self._rewards.shape[1], "primary", "rewards")
        different, inverted = 0, 0
        primary_reward = self._rewards[self.response, primary]
        for members in _padded_groups(self._index[self.response]):
            inside = members >= 0
            reward = primary_reward[members].masked_fill(~inside, torch.nan)  # (groups, rollouts)
            below = reward[:, :, None] < reward[:, None, :]  # NaN compares false: padding and missing drop out
            more = self.level[members][:, :, None] > self.level[members][:, None, :]
            different += int(below.sum())
            inverted += int((below & more).sum())
        return inverted / different if different else float("nan")


def collapse(
    rewards, method: str = "gdpo", *, weights=None, groups=None, lengths=None, convention: Convention = PAPER
) -> Collapse:
    """What the method's advantages on these rewards still tell apart; arguments and errors as `grpo`.

    >>> c = collapse([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]], "grpo")
    >>> c.levels, c.vectors, c.tied_pair_count, c.tied_pairs
    (2.0, 4.0, 3, 0.5)
    """
    batch = read(rewards, weights=weights, groups=groups, lengths=lengths, convention=convention)
    same = _SAME.get(batch.dtype, 1e-3)
    batch = batch.in_float64()
    formula, prepared = method_for(method, batch)
    steps = formula(prepared)
    a = prepared.learnt(steps.advantages).flatten()  # (responses,)
    rewards = batch.rewards.reshape(len(batch.rewards), -1).T  # (responses, rewards)
    groups = batch.group_index()
    group_count = int(groups.max()) + 1
    silent = torch.zeros(group_count, dtype=torch.float64, device=a.device)
    silent = silent.scatter_reduce(0, groups, a.abs(), "amax", include_self=True) == 0

    kept = ~(rewards.isnan().all(1) | a.isnan())
    share = _shares(prepared, steps.z, a)
    a, r, index = a[kept], rewards[kept], groups[kept]
    vector = _vector_numbers(r)
    level = _level_numbers(a, index, same)
    vectors, same_vector = _distinct_and_pairs(index, vector, group_count)
    levels, same_level = _distinct_and_pairs(index, level, group_count)
    sizes = index.bincount(minlength=group_count)
    pairs = sizes * (sizes - 1) // 2
    mixed = vectors > 1
    tied = (same_level - same_vector).clamp(min=0)  # one vector always has one advantage
    dead = torch.stack([_constant(index, reward, group_count) for reward in r.unbind(1)])

    def mean(x: Tensor) -> float:
        return x[..., mixed].double().mean(-1)

    different = int((pairs - same_vector).sum())
    return Collapse(
        groups=group_count,
        mixed_groups=int(mixed.sum()),
        groups_with_ties=mean(tied > 0).item(),
        tied_pairs=int(tied.sum()) / different if different else float("nan"),
        tied_pair_count=int(tied.sum()),
        levels=mean(levels).item(),
        vectors=mean(vectors).item(),
        dead_rewards=tuple(mean(dead).tolist()),
        silent_groups=silent.double().mean().item(),
        update_share=share,
        level=level,
        response=kept.nonzero().flatten(),
        _rewards=rewards,
        _index=groups,
    )


def update_share(
    rewards, method: str = "gdpo", *, weights=None, groups=None, lengths=None, convention: Convention = PAPER
) -> tuple[float, ...]:
    """Per reward, its part of the advantages' variance; sums to 1, NaN where every advantage is 0.

    w_k Cov(x_k, A) / Var(A), brought to the sum 1; x_k is what the method adds up, raw rewards or normalised ones. A
    share below 0 means that the update works against this reward. Arguments and errors as `grpo`.

    >>> [round(share, 2) for share in update_share([[1, 0], [0, 0], [1, 0], [0, 10]], "grpo")]
    [-0.06, 1.06]
    """
    batch = read(rewards, weights=weights, groups=groups, lengths=lengths, convention=convention)
    formula, batch = method_for(method, batch.in_float64())
    steps = formula(batch)
    return _shares(batch, steps.z, batch.learnt(steps.advantages).flatten())


def _shares(batch: Batch, z: Tensor | None, a: Tensor) -> tuple[float, ...]:
    x = (batch.rewards if z is None else z).nan_to_num()
    if batch.convention.group_of_one != "raw":
        # Inside its group, where it acts: what a reward is on average there moves no rollout before another.
        x = x - batch.group.spread(batch.group.total(x) / batch.group.count)
    there = a.isfinite()
    x, a = x.reshape(len(x), -1)[:, there], a[there]
    part = batch.weights.flatten() * (x * (a - a.mean())).sum(1)
    if not a.any():
        return (float("nan"),) * len(part)
    return tuple((part / part.sum()).tolist())


def _constant(index: Tensor, reward: Tensor, groups: int) -> Tensor:
    """(groups,) whether all values of the reward that are there are equal."""
    there = ~reward.isnan()
    low, high = (
        reward.new_zeros(groups).scatter_reduce(0, index[there], reward[there], how, include_self=False)
        for how in ("amin", "amax")
    )
    return low == high


def _vector_numbers(r: Tensor) -> Tensor:
    """A number for each distinct row of (responses, rewards); missing equals missing."""
    number = torch.zeros(len(r), dtype=torch.int64, device=r.device)
    for column in r.nan_to_num(nan=torch.inf).unbind(1):
        value = column.unique(return_inverse=True)[1]
        number = (number * (_span(value)) + value).unique(return_inverse=True)[1]
    return number


def _level_numbers(a: Tensor, index: Tensor, same: float) -> Tensor:
    """A number for each distinct advantage of a group, ascending within it; closer than `same` is not distinct."""
    order = a.argsort()
    order = order[index[order].argsort(stable=True)]
    a_sorted, i_sorted = a[order], index[order]
    largest = a.new_zeros(_span(index)).scatter_reduce(0, index, a.abs(), "amax")
    new = (i_sorted.diff() > 0) | (a_sorted.diff() > same * largest[i_sorted[1:]])
    number = torch.zeros_like(index)
    number[order] = torch.cat([new.new_zeros(min(1, len(a))), new]).cumsum(0)
    lowest = number.new_full((_span(index),), len(number)).scatter_reduce(0, index, number, "amin")
    return number - lowest[index]


def _span(number: Tensor) -> int:
    return int(number.max()) + 1 if len(number) else 1


def _distinct_and_pairs(index: Tensor, number: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Per group: how many distinct numbers it holds, and how many of its pairs share theirs."""
    span = _span(number)
    key, size = (index * span + number).unique(return_counts=True)
    group = key // span
    distinct = group.bincount(minlength=groups)
    pairs = torch.zeros_like(distinct).index_add_(0, group, size * (size - 1) // 2)
    return distinct, pairs


def _padded_groups(index: Tensor):
    """Row numbers of each group's responses, (groups, longest group), −1 where a group is shorter; in chunks."""
    order = index.argsort(stable=True)
    sizes = index.bincount()
    longest = _span(sizes) - 1 or 1
    column = torch.arange(longest, device=index.device)
    start = sizes.cumsum(0) - sizes
    at_once = max(1, _PAIRS_AT_ONCE // longest**2)
    for first in range(0, len(sizes), at_once):
        size, begin = sizes[first : first + at_once, None], start[first : first + at_once, None]
        rows = order[(begin + column).clamp(max=len(order) - 1)]
        yield rows.masked_fill(column >= size, -1)


@dataclass(frozen=True)
class BrokenTies:
    """The pairs with different primary reward that one method ties and another does not, by response number."""

    lower: Tensor  # (pairs,) the response with the lower primary reward
    higher: Tensor  # (pairs,)
    inverted: Tensor  # (pairs,) whether the lower one gets more


def broken_ties(coarse: Collapse, fine: Collapse, primary: int = 0) -> BrokenTies:
    """Which right-against-wrong ties of `coarse` the method of `fine` breaks, and which of them the wrong way round.

    Both are of the same rewards. `primary`: index of the reward that should decide.

    >>> rewards = [[1, 0, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 1, 0]]
    >>> ties = broken_ties(collapse(rewards, "grpo"), collapse(rewards, "gdpo"))
    >>> ties.lower.tolist(), ties.higher.tolist(), ties.inverted.tolist()
    ([1, 2], [0, 0], [False, False])
    """
    for name, value in (("coarse", coarse), ("fine", fine)):
        expect(isinstance(value, Collapse), name, "a gdpo_core.Collapse", type(value).__name__)
    expect_index(primary, coarse._rewards.shape[1], "primary", "rewards")
    same = all(
        torch.equal(a.nan_to_num(nan=torch.inf), b.nan_to_num(nan=torch.inf))
        for a, b in ((coarse._rewards, fine._rewards), (coarse._index, fine._index))
    )
    expect(same, "fine", "a collapse of the rewards that `coarse` is of", "one of other rewards or groups")
    at_coarse, at_fine = (_of_all(c.level, c.response, len(c._rewards)) for c in (coarse, fine))
    primary_reward = coarse._rewards[:, primary].masked_fill((at_coarse < 0) | (at_fine < 0), torch.nan)
    lower, higher = [at_fine.new_empty(0)], [at_fine.new_empty(0)]
    for members in _padded_groups(coarse._index):
        reward = primary_reward[members].masked_fill(members < 0, torch.nan)
        below = reward[:, :, None] < reward[:, None, :]  # NaN compares false: padding and what is left out drop out
        tied = at_coarse[members][:, :, None] == at_coarse[members][:, None, :]
        apart = at_fine[members][:, :, None] != at_fine[members][:, None, :]
        group, low, high = (below & tied & apart).nonzero(as_tuple=True)
        lower.append(members[group, low])
        higher.append(members[group, high])
    low, high = torch.cat(lower), torch.cat(higher)
    return BrokenTies(low, high, at_fine[low] > at_fine[high])


def _of_all(level: Tensor, response: Tensor, count: int) -> Tensor:
    """(responses,) the levels of all, −1 for those that were left out."""
    return level.new_full((count,), -1).scatter(0, response, level)
