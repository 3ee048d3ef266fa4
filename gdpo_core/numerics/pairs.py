"""Ties: which responses of a group have the same advantage, which differ, and which pairs are in the wrong order.

Two advantages of a group count as one if both of these conditions hold:
- computed without any eps, they are equal up to round-off (`tie_tolerance`);
- computed with the eps, they are less than `APART` times the group's largest advantage apart.

The first condition looks past an eps. Added to the stds of rewards on different scales, an eps moves tied advantages a
few ten-thousandths apart, which no optimiser feels. The second condition parts advantages that an eps moves farther
apart. Where no eps can part ties, there is one condition: the advantages are equal up to round-off. Pairs are counted
without listing them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gdpo_core.numerics.batch import Batch

_WHOLE = 2**53  # float64 holds every whole number up to this one
# How far apart two advantages that count as one may be, as a part of the largest of their group: half a unit in the
# last of two printed decimals if that largest one is 1.
APART = 0.005


def tie_tolerance(rewards: torch.dtype) -> float:
    """Return the largest distance at which two advantages of a group count as equal.

    The distance is relative to the largest absolute advantage of the group. It is 1e-9 for float64, 1e-6 for float32
    and 1e-3 for any other dtype. Advantages are compared in float64, so only the round-off of the rewards themselves
    has to be tolerated.

    rewards: the dtype in which the rewards were given.
    """
    return {torch.float64: 1e-9, torch.float32: 1e-6}.get(rewards, 1e-3)


@dataclass(frozen=True)
class Block:
    """A block of groups of similar size, as a rectangle: a row per group, padded to the size of the largest of them.

    A block holds only the numbers of its groups and responses. `pad` puts the values of the responses into the
    rectangle, and `put` writes them back.
    """

    groups: Tensor  # (groups,) the number of each group
    rollouts: int  # the size of the largest group
    # (groups, rollouts) the number of each response, −1 where a row is padded; None: the responses stand group by group
    rows: Tensor | None

    def pad(self, x: Tensor, fill: float) -> Tensor:
        """Return the values of the responses in this block as (…, groups, rollouts), a row per group.

        x: (…, responses) a value for every response of the batch.
        fill: the value that stands where a row is padded.
        """
        if self.rows is None:
            return x.reshape(*x.shape[:-1], len(self.groups), self.rollouts)
        return x[..., self.rows.clamp(min=0)].masked_fill(self.rows < 0, fill)

    def put(self, x: Tensor, into: Tensor) -> None:
        """Write x, (groups, rollouts), into `into`, (responses,), each value at the place of its response.

        Values where a row is padded are not written.
        """
        if self.rows is None:
            into.copy_(x.flatten())
        else:
            into[self.rows[self.rows >= 0]] = x[self.rows >= 0]


def blocks(index: Tensor, rollouts: int | None = None) -> Iterator[Block]:
    """Yield blocks that together hold every group.

    Without `rollouts` there is a block for groups of 1 response, one for 2, one for 3 or 4, one for 5 to 8, and so on.
    So no short group is padded to the length of a long one. A block without groups is left out.

    index: (responses,) the number of each response's group.
    rollouts: the size of every group, if all have the same size and their responses stand one group after the other.
        All groups are then one block.
    """
    if rollouts is not None:
        yield Block(torch.arange(len(index) // rollouts, device=index.device), rollouts, None)
        return
    order, sizes = index.argsort(stable=True), index.bincount()
    start = sizes.cumsum(0) - sizes
    doublings = torch.frexp((sizes - 1).double()).exponent  # ⌈log2⌉ of the sizes, exactly
    for doubling in doublings[sizes > 0].unique():
        groups = (doublings == doubling).nonzero().flatten()
        longest = int(sizes[groups].max())
        column = torch.arange(longest, device=index.device)
        rows = order[(start[groups, None] + column).clamp(max=len(order) - 1)]
        yield Block(groups, longest, rows.masked_fill(column >= sizes[groups, None], -1))


def blocks_of(batch: Batch) -> list[Block]:
    """Return blocks of groups of similar size, which together hold every group of a batch.

    There is a single block if the batch has a prompt axis, as all its groups then have one size.
    """
    return list(blocks(batch.group_index(), None if batch.index is not None else batch.rewards.shape[-1]))


def ranks(x: Tensor, same: Tensor | float = 0.0) -> Tensor:
    """Return the rank of each value among the distinct values of its group, 0 the lowest; −1 where x is NaN.

    Two values that are neighbours in ascending order have one rank if they are at most `same` apart.

    x: (groups, rollouts).
    same: one number, or (groups, 1).

    >>> ranks(torch.tensor([[0.5, 2.0, 0.5, torch.nan]])).tolist()
    [[0, 1, 0, -1]]
    """
    value, order = x.sort(-1)
    number = torch.zeros_like(order)
    torch.cumsum(value.diff(dim=-1) > same, -1, out=number[:, 1:])
    return torch.empty_like(order).scatter_(-1, order, number.masked_fill_(value.isnan(), -1))


def ranks_despite_eps(x: Tensor, bare: Tensor, same: float) -> Tensor:
    """Return the ranks of advantages as `ranks` does, but with one rank for values that differ only because of an eps.

    To find which values share a rank, the values that are equal in `bare` are put in ascending order of x. Two
    neighbours in this order share a rank if their distance in x is less than `APART` times the largest of the group.
    Values that share a rank get the rank of the lowest of them.

    x: (groups, rollouts) the advantages as they were computed.
    bare: (groups, rollouts) the advantages computed without any eps.
    same: how far apart round-off may put equal values, relative to the largest of the group.

    >>> ranks_despite_eps(torch.tensor([[-1.3541, 1.0, -1.3537]]), torch.tensor([[-1.35, 1.0, -1.35]]), 1e-6).tolist()
    [[0, 1, 0]]
    """
    value, order = x.sort(-1)
    kind, again = ranks(bare, same * _largest(bare)).gather(-1, order).sort(stable=True)
    value, order = value.gather(-1, again), order.gather(-1, again)
    number = torch.zeros_like(order)
    torch.cumsum((kind.diff() > 0) | (value.diff() >= APART * _largest(x)), -1, out=number[:, 1:])
    lowest = torch.full_like(value, torch.inf).scatter_reduce_(-1, number, value, "amin").gather(-1, number)
    return ranks(torch.empty_like(x).scatter_(-1, order, lowest), same * _largest(x))


def _largest(x: Tensor) -> Tensor:
    """Return (groups, 1) the largest absolute value in each group, where NaN is left out.

    Infinity counts as the largest float. The result is 0 for a group in which all values are NaN.

    x: (groups, rollouts).
    """
    return x.abs().nan_to_num_(nan=0.0).amax(1, keepdim=True)


def vector_ranks(rewards: Tensor, mask: Tensor) -> Tensor:
    """Return (groups, rollouts) the rank of each response's reward vector among the distinct vectors of its group.

    The rank is −1 where `mask` is false. Two missing rewards count as equal.

    rewards: (rewards, groups, rollouts).
    mask: (groups, rollouts).
    """
    groups, rollouts = mask.shape
    rank = ranks(rewards.nan_to_num(nan=torch.inf).masked_fill_(~mask, torch.nan).view(-1, rollouts))
    first, *rest = rank.view(-1, groups, rollouts).double()
    number, kinds = first, rollouts
    for reward in rest:
        if kinds > _WHOLE // rollouts:  # there are more vectors than float64 tells apart
            number, kinds = ranks(number.masked_fill(~mask, torch.nan)).double(), rollouts
        number, kinds = number * rollouts + reward, kinds * rollouts
    return ranks(number.masked_fill(~mask, torch.nan))


def equal_pairs(rank: Tensor) -> Tensor:
    """Return (groups,) how many pairs of responses in each group have equal ranks.

    rank: (groups, rollouts), in which a response of rank −1 is left out.
    """
    groups, rollouts = rank.shape
    size = rank.new_zeros(groups, rollouts + 1)  # the first column counts the responses of rank −1
    size.scatter_add_(1, rank + 1, torch.ones_like(rank))
    size = size[:, 1:]
    return (size * (size - 1)).sum(1) // 2


@dataclass(frozen=True)
class Distinctions:
    """Counts, group by group, of distinct reward vectors, of distinct advantages and of tied pairs of responses.

    A tied pair has different reward vectors, but one advantage. Besides the counts, `dead` says in which groups each
    reward is constant, and `level` holds the rank of each advantage in its group.
    """

    vectors: Tensor  # (groups,) distinct reward vectors
    pairs: Tensor  # (groups,) pairs whose vectors differ
    dead: Tensor  # (rewards, groups) whether all values of the reward that are there are equal
    levels: dict[str, Tensor]  # by method, (groups,) distinct advantages
    tied: dict[str, Tensor]  # by method, (groups,) pairs whose vectors differ and that have one advantage
    by_eps: dict[str, Tensor]  # by method, (groups,) how many of the tied pairs only an eps keeps apart
    level: dict[str, Tensor]  # by method, (responses,) rank of the advantage in its group, 0 = lowest; −1 = left out


def count_distinct_and_tied(
    all_blocks: list[Block],
    rewards: Tensor,
    mask: Tensor,
    advantages: Mapping[str, Tensor],
    bare: Mapping[str, Tensor],
    same: float,
) -> Distinctions:
    """Count distinct reward vectors and advantages, and tied pairs of responses, group by group.

    A tied pair has different reward vectors, but one advantage.

    all_blocks: the blocks of all groups.
    rewards: (rewards, responses).
    mask: (responses,) whether a response is counted.
    advantages: by method, (responses,) the advantages. An advantage that is NaN is not counted.
    bare: by method, the advantages computed without any eps. Only methods under which an eps can part ties are in it.
    same: how far apart round-off may put equal advantages, relative to the largest of the group.
    """
    groups = sum(len(block.groups) for block in all_blocks)
    counts = mask.new_zeros((2 + 3 * len(advantages), groups), dtype=torch.int64)
    dead = mask.new_zeros((len(rewards), groups))
    level = {method: torch.empty_like(a, dtype=torch.int64) for method, a in advantages.items()}
    for block in all_blocks:
        present, r = block.pad(mask, False), block.pad(rewards, torch.nan)
        vector = vector_ranks(r, present)
        same_vector, size = equal_pairs(vector), present.sum(1)
        rows = [vector.amax(1) + 1, size * (size - 1) // 2 - same_vector]
        for method, a in advantages.items():
            rank, by_eps = _ranks_and_parted(block, present, a, bare.get(method), same)
            block.put(rank, level[method])
            # Responses with one reward vector always have one advantage.
            rows += [rank.amax(1) + 1, (equal_pairs(rank) - same_vector).clamp(min=0), by_eps]
        counts[:, block.groups] = torch.stack(rows)
        r = r.masked_fill(~present, torch.nan)
        low, high = r.nan_to_num(nan=torch.inf).amin(-1), r.nan_to_num_(nan=-torch.inf).amax(-1)
        dead[:, block.groups] = low >= high
    levels, tied, by_eps = counts[2::3], counts[3::3], counts[4::3]
    return Distinctions(
        vectors=counts[0],
        pairs=counts[1],
        dead=dead,
        levels=dict(zip(level, levels, strict=True)),
        tied=dict(zip(level, tied, strict=True)),
        by_eps=dict(zip(level, by_eps, strict=True)),
        level=level,
    )


def _ranks_and_parted(
    block: Block, present: Tensor, advantages: Tensor, bare: Tensor | None, same: float
) -> tuple[Tensor, Tensor]:
    """Return the ranks of a block's advantages, (groups, rollouts), and how many ties in each group an eps hides,
    (groups,).

    An eps hides a tie if it puts two advantages a little apart that are equal without it. The two responses of such a
    tie get one rank.

    present: (groups, rollouts) whether a response counts.
    advantages: (responses,) as they were computed.
    bare: (responses,) the same computed without any eps; None if no eps can hide a tie, and then all numbers of ties
        are 0.
    same: how far apart round-off may put equal advantages, relative to the largest of the group.
    """
    x = block.pad(advantages, torch.nan).masked_fill(~present, torch.nan)
    rank = ranks(x, same * _largest(x))
    if bare is None:
        return rank, rank.new_zeros(len(rank))
    despite_eps = ranks_despite_eps(x, block.pad(bare, torch.nan).masked_fill(~present, torch.nan), same)
    return despite_eps, (equal_pairs(despite_eps) - equal_pairs(rank)).clamp(min=0)


def _inversions(x: Tensor) -> Tensor:
    """Return (groups,) the number of pairs i < j with x_i > x_j.

    They are counted in a merge sort. Wherever two sorted halves merge, each value of the left half moves back by one
    place for each smaller value of the right half.

    x: (groups, rollouts) whole numbers.

    >>> _inversions(torch.tensor([[0, 1, 2], [2, 1, 1]])).tolist()
    [0, 2]
    """
    groups, rollouts = x.shape
    half, inverted = 1, x.new_zeros(groups)
    longest = 1 << (rollouts - 1).bit_length()
    x = torch.nn.functional.pad(x, (0, longest - rollouts), value=int(x.max()) if x.numel() else 0)
    while half < longest:
        x, order = x.view(groups, -1, 2 * half).sort(dim=-1, stable=True)
        place = torch.arange(2 * half, device=x.device) * (order < half)
        inverted += place.sum((1, 2)) - longest // (2 * half) * (half * (half - 1) // 2)
        half *= 2
    return inverted


@dataclass(frozen=True)
class PairOrders:
    """Counts, for each group, of the pairs that differ in the primary reward, by the order of their advantages.

    Each count is (groups,).
    """

    pairs: Tensor  # all pairs that differ in the primary reward
    inverted: dict[str, Tensor]  # by method, the pairs whose lower reward has the larger advantage
    tied: dict[str, Tensor]  # by method, the pairs with one advantage


def count_orders(all_blocks: list[Block], primary: Tensor, level: Mapping[str, Tensor]) -> PairOrders:
    """Count, group by group, the pairs that differ in the primary reward, and which of them tie or are in wrong order.

    all_blocks: the blocks of all groups.
    primary: (responses,) the reward that should decide. A response whose reward is NaN is left out.
    level: by method, (responses,) the rank of each advantage in its group, 0 the lowest. A response of rank −1 is in no
        tied and no inverted pair, but its pairs are still among all pairs.
    """
    pairs = torch.zeros(sum(len(block.groups) for block in all_blocks), dtype=torch.int64, device=primary.device)
    inverted, tied = ({method: torch.zeros_like(pairs) for method in level} for _ in range(2))
    for block in all_blocks:
        reward = ranks(block.pad(primary, torch.nan))
        pairs[block.groups] = _apart(reward.clamp(max=0), reward)
        for method, levels in level.items():
            x = block.pad(levels, -1).masked_fill(reward < 0, -1)
            tied[method][block.groups] = _apart(x, reward)
            inverted[method][block.groups] = _swapped(reward, x)
    return PairOrders(pairs, inverted, tied)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Return (groups, rollouts) the ranks by `first` and, where two of them are equal, by `second`.

    The rank is −1 where either of the two is −1.

    first, second: (groups, rollouts) ranks.
    """
    both = (first * (first.shape[1] + 1) + second).double()
    return ranks(both.masked_fill_((first < 0) | (second < 0), torch.nan))


def _apart(rank: Tensor, reward: Tensor) -> Tensor:
    """Return (groups,) the number of pairs of responses with equal `rank` but different `reward`.

    rank: (groups, rollouts) a whole number per response, such as the rank of its advantage in the group; −1 for a
        response that is not counted.
    reward: (groups, rollouts) a whole number per response. Where it is −1, `rank` must be −1 too.
    """
    return equal_pairs(rank) - equal_pairs(_joined(rank, reward))


def _swapped(reward: Tensor, rank: Tensor) -> Tensor:
    """Return (groups,) the number of pairs in which the response of lower `reward` has the higher `rank`.

    reward, rank: (groups, rollouts) ranks; a response with −1 in one of them is left out.
    """
    more = reward.shape[1] + 1
    # A response that is left out gets the largest number of all: it stands last and is in no inverted pair.
    both = (reward * more + rank).masked_fill_((reward < 0) | (rank < 0), more**2 - 1)
    return _inversions(both.sort(-1).values % more)
