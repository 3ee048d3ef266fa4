"""Ties: which responses the advantages of a method no longer tell apart, and how they order the responses.

The class `Collapse` counts ties, constant rewards and pairs in the wrong order, and holds each reward's share of the
update. The last functions compute how much a reward has to weigh before GDPO lets it decide the order of a pair.
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from gdpo_core.methods import Steps, reward_parts
from gdpo_core.numerics.batch import Batch, MethodOptions, make_batch, with_options
from gdpo_core.numerics.pairs import blocks, blocks_of, count_distinct_and_tied, count_orders, tie_tolerance
from gdpo_core.numerics.reductions import Reduction
from gdpo_core.numerics.statistics import normalise_rewards
from gdpo_core.pushing import push_under
from gdpo_core.registry import advantages_without_eps, method_for
from gdpo_core.shared.errors import expect, expect_index
from gdpo_core.shared.inputs import ArrayLike, Groups
from gdpo_core.steps import Explanation, explanation_of

_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Order:
    """Counts of pairs of responses that differ in the primary reward, by which response has the larger advantage.

    Both responses of a pair belong to one group. The counts are over all groups.
    """

    right: int  # the pairs whose response with more of the primary reward has the larger advantage
    tied: int  # the pairs whose two responses have the same advantage
    wrong: int  # the pairs whose response with more of the primary reward has the smaller advantage

    @property
    def pairs(self) -> int:
        """The number of all pairs of responses of one group that differ in the primary reward, over all groups."""
        return self.right + self.tied + self.wrong


@dataclass(frozen=True)
class Collapse:
    """The collapse of advantages: how much of the difference between reward vectors they keep.

    Two advantages of a group count as one if both of two conditions hold. Computed without any eps, they are equal but
    for round-off. And as they were computed, they are less than 0.5 % of the group's largest apart.

    `groups`, `silent_groups`, `update_share` and `push` are of all groups. The other numbers are of the mixed groups,
    which hold at least two different reward vectors; a mean over no group is NaN. Responses without any reward are left
    out, and so are responses whose advantage is NaN under the convention.
    """

    groups: int
    mixed_groups: int  # groups that hold at least two different reward vectors
    groups_with_ties: float  # the share of the mixed groups in which two different vectors have one advantage
    tied_pairs: float  # the share of the pairs with different vectors that have one advantage
    tied_pair_count: int
    pairs_by_eps: float  # the share of the same pairs whose advantages only an eps keeps apart
    levels: float  # the mean number of distinct advantages in a group
    vectors: float  # the mean number of distinct reward vectors in a group
    dead_rewards: tuple[float, ...]  # per reward, the share of the mixed groups in which it is constant
    silent_groups: float  # the share of all groups in which every advantage is 0
    update_share: tuple[float, ...]  # per reward, its part of Σ A², as in `update_share`; NaN if all A are 0
    push: tuple[float, ...]  # per reward, how much the update raises it, as in `push`
    level: Tensor = field(repr=False)  # (responses,) the rank of each response's advantage in its group, 0 = lowest
    response: Tensor = field(repr=False)  # (responses,) the number of each response that was not left out
    _rewards: Tensor = field(repr=False)  # the rewards of all responses, as given
    _index: Tensor = field(repr=False)  # the number of each response's group

    def inversions(self, primary: int = 0) -> float:
        """Return which share of the pairs that differ in the `primary` reward is in the wrong order.

        In such a pair the response with less of that reward has the larger advantage. The result is NaN where no pair
        of a group differs in the reward.

        primary: the index of the reward.

        Raises InputError.

        >>> collapse([[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]], "grpo").inversions(primary=0)
        0.6666666666666666
        """
        order = self.order(primary)
        return order.wrong / order.pairs if order.pairs else float("nan")

    def order(self, primary: int = 0) -> Order:
        """Count the pairs that differ in the `primary` reward by the order of their advantages, over all groups.

        A pair consists of two responses of the same group.

        primary: the index of the reward.

        Raises InputError.

        >>> collapse([[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]], "grpo").order(primary=0)
        Order(right=1, tied=0, wrong=2)
        """
        expect_index(primary, self._rewards.shape[1], "primary", "rewards")
        level = _of_all(self.level, self.response, len(self._rewards))
        reward = self._rewards[:, primary].masked_fill(level < 0, torch.nan)
        counted = count_orders(list(blocks(self._index)), reward, {"": level})
        pairs, tied, wrong = (int(x.sum()) for x in (counted.pairs, counted.tied[""], counted.inverted[""]))
        return Order(pairs - tied - wrong, tied, wrong)


@with_options
def collapse(rewards: ArrayLike, method: str = "gdpo", **options: Unpack[MethodOptions]) -> Collapse:
    """Return a `Collapse`: what the method's advantages still tell apart, and each reward's share of the update.

    Arguments and errors are those of `advantages`.

    >>> c = collapse([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]], "grpo")
    >>> c.levels, c.vectors, c.tied_pair_count, c.tied_pairs
    (2.0, 4.0, 3, 0.5)
    """
    return explain_and_collapse(rewards, method, **options)[1]


@with_options
def explain_and_collapse(
    rewards: ArrayLike, method: str = "gdpo", **options: Unpack[MethodOptions]
) -> tuple[Explanation, Collapse, Tensor]:
    """Return `explain`, `collapse` and each reward's part of every advantage, all from one computation.

    The parts are (responses, rewards), float64, with their signs. The parts of a response sum to its advantage (see
    `update_share`). All of them are NaN if its advantage is NaN, or if it has no reward and the convention leaves it
    out, or if GD²PO drops it. In the last two cases its advantage is 0. Arguments and errors are those of `advantages`.

    >>> e, c, parts = explain_and_collapse([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]], "grpo")
    >>> e.weighted_sums.tolist(), c.level.tolist(), [round(part, 2) for part in parts[0].tolist()]
    ([2.0, 2.0, 2.0, 0.0], [1, 1, 1, 0], [0.5, -0.5, 0.5])
    """
    batch = make_batch(rewards, **options)
    formula, prepared = method_for(method, batch)
    steps = formula(prepared)
    explanation = explanation_of(method, batch, prepared, steps)
    same = tie_tolerance(batch.dtype)
    if batch.rewards.dtype != torch.float64:
        batch = batch.in_float64()
        formula, prepared = method_for(method, batch)
        steps = formula(prepared)
    parts = reward_parts(prepared, steps).flatten(1).T
    return explanation, _collapsed(method, batch, prepared, steps, same), parts


def _collapsed(method: str, batch: Batch, prepared: Batch, steps: Steps, same: float) -> Collapse:
    """Return the `Collapse` of advantages that are already computed: how many ties they have, and more.

    batch: the rewards as given, in float64.
    prepared: this batch after the changes that the convention and the method make to rewards or weights before they
        compute.
    steps: what the method computed from `prepared`.
    same: how far apart two advantages may be and still count as equal, relative to the largest of their group.
    """
    advantages = prepared.zero_unrewarded(steps.advantages)
    silent = batch.group.lowest(-advantages.abs()) == 0
    rewards, a = batch.rewards.reshape(len(batch.rewards), -1), advantages.flatten()
    kept = ~(rewards.isnan().all(0) | a.isnan())
    bare = advantages_without_eps(method, batch)
    of_bare = {} if bare is None else {method: bare.flatten()}
    distinct = count_distinct_and_tied(blocks_of(batch), rewards, kept, {method: a}, of_bare, same)
    mixed, tied, pairs = distinct.vectors > 1, distinct.tied[method], int(distinct.pairs.sum())
    means = torch.cat([torch.stack([tied > 0, distinct.levels[method], distinct.vectors]), distinct.dead])[:, mixed]
    products, squares = update_sums(prepared, steps, advantages, prepared.all_responses)
    # These are means of whole numbers, so that they do not depend on the order of the groups.
    with_ties, levels, vectors, *dead = means.double().mean(1).tolist()
    return Collapse(
        groups=silent.numel(),
        mixed_groups=int(mixed.sum()),
        groups_with_ties=with_ties,
        tied_pairs=int(tied.sum()) / pairs if pairs else float("nan"),
        tied_pair_count=int(tied.sum()),
        pairs_by_eps=int(distinct.by_eps[method].sum()) / pairs if pairs else float("nan"),
        levels=levels,
        vectors=vectors,
        dead_rewards=tuple(dead),
        silent_groups=silent.double().mean().item(),
        push=push_under(batch, advantages),
        update_share=tuple(torch.where(squares > 0, products / squares, torch.nan).flatten().tolist()),
        level=distinct.level[method][kept],
        response=kept.nonzero().flatten(),
        _rewards=rewards.T,
        _index=batch.group_index(),
    )


@with_options
def update_share(rewards: ArrayLike, method: str = "gdpo", **options: Unpack[MethodOptions]) -> tuple[float, ...]:
    """Return the share of each reward in the advantages; the shares sum to 1, and are NaN where every advantage is 0.

    Every method's advantage is a sum of one part per reward, A = Σ_k a_k. Under GRPO a part is a_k = w_k (r_k − mean_G
    r_k) / std_G s, under GDPO a_k = w_k z_k / std_B s. The share is Σ a_k A / Σ A² over all responses, where an
    advantage that is NaN counts as 0. Where the share is below 0, the update works against the reward. Methods with
    proportional advantages give equal shares, unless rewards are collinear inside a group, where the advantages alone
    do not tell them apart. Arguments and errors are those of `advantages`.

    >>> [round(share, 2) for share in update_share([[1, 0], [0, 0], [1, 0], [0, 10]], "grpo")]
    [-0.06, 1.06]
    """
    return collapse(rewards, method, **options).update_share


def update_sums(batch: Batch, steps: Steps, a: Tensor, over: Reduction) -> tuple[Tensor, Tensor]:
    """Return (rewards, …) Σ a_k A and (…) Σ A², each summed as `over` does.

    Their ratio is each reward's share of the update.

    batch: the rewards with which the method computed.
    steps: what the method computed for them, from which `reward_parts` makes the parts a_k.
    a: the advantages A. An advantage that is NaN or infinite counts as 0.
    over: the reduction over the responses that are summed.
    """
    a = a.masked_fill(~a.isfinite(), 0)
    products = reward_parts(batch, steps).mul_(a).nan_to_num_(posinf=0, neginf=0)
    return over.total(products), over.total(a.square())


@dataclass(frozen=True)
class BrokenTies:
    """The pairs of responses with different primary reward that one method ties and another one does not.

    Each response is given by its number among all responses.

    lower: (pairs,) the response with the lower primary reward.
    higher: (pairs,) the response with the higher primary reward.
    inverted: (pairs,) whether the method that breaks the tie puts the pair in the wrong order.
    """

    lower: Tensor  # (pairs,) the response with the lower primary reward
    higher: Tensor  # (pairs,) the response with the higher primary reward
    inverted: Tensor  # (pairs,) whether the method that breaks the tie gives the lower one more


def broken_ties(coarse: Collapse, fine: Collapse, primary: int = 0) -> BrokenTies:
    """Return the pairs with different primary reward that `coarse` ties and `fine` does not.

    The result also says which of the pairs `fine` puts in the wrong order.

    coarse, fine: collapses of the same rewards under two methods.
    primary: the index of the reward that should decide.

    Raises InputError.

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
    responses = torch.arange(len(primary_reward), device=primary_reward.device)
    for block in blocks(coarse._index):
        rows, reward = block.pad(responses, -1), block.pad(primary_reward, torch.nan)
        for at in range(0, len(reward), at_once := max(1, _PAIRS_AT_ONCE // block.rollouts**2)):
            members, r = rows[at : at + at_once], reward[at : at + at_once]
            below = r[:, :, None] < r[:, None, :]  # NaN compares false, so padding and responses left out are no pairs
            tied = at_coarse[members][:, :, None] == at_coarse[members][:, None, :]
            apart = at_fine[members][:, :, None] != at_fine[members][:, None, :]
            group, low, high = (below & tied & apart).nonzero(as_tuple=True)
            lower.append(members[group, low])
            higher.append(members[group, high])
    low, high = torch.cat(lower), torch.cat(higher)
    order = coarse._index[low].argsort(stable=True)
    low, high = low[order], high[order]
    return BrokenTies(low, high, at_fine[low] > at_fine[high])


def _of_all(level: Tensor, response: Tensor, count: int) -> Tensor:
    """Return (count,) the rank of the advantage of each response in its group, −1 for a response that was left out.

    level: the ranks of the responses that were not left out.
    response: the numbers of these responses.
    count: how many responses there are.
    """
    return level.new_full((count,), -1).scatter(0, response, level)


def break_even_weights(
    rewards: ArrayLike,
    pairs: BrokenTies,
    reward: int = 0,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
) -> Tensor:
    """Return the weights on `reward` above which GDPO gives `higher` of a pair more than `lower`; (pairs,), float64.

    The responses of a pair differ in `reward`, so a large enough weight always puts `higher` first: every value is
    finite.

    rewards, groups: the rewards of the collapses from which `pairs` were made, and their group ids.
    pairs: the pairs that `broken_ties` returned.
    reward: the index of the primary reward.
    weights: (rewards,), 1 by default. The weight on `reward` does not matter.

    Raises InputError.

    >>> from gdpo_core import broken_ties, collapse
    >>> rewards = [[[1, 0], [1, 1], [1, 1], [0, 1], [1, 0], [1, 0]]]
    >>> pairs = broken_ties(collapse(rewards, "grpo"), collapse(rewards, "gdpo"))
    >>> [round(w, 4) for w in break_even_weights(rewards, pairs).tolist()]
    [0.7454, 0.7454, 0.7454]
    """
    expect(isinstance(pairs, BrokenTies), "pairs", "a gdpo_core.BrokenTies", type(pairs).__name__)
    batch = make_batch(rewards, weights=weights, groups=groups).in_float64()
    group = batch.group_index()
    z = normalise_rewards(batch).value.flatten(1)  # (rewards, responses)
    expect_index(reward, len(z), "reward", "rewards")
    ours = f"pairs of responses of one prompt out of {z.shape[1]} responses"
    largest = int(torch.stack([pairs.lower, pairs.higher]).max()) if len(pairs.lower) else -1
    expect(largest < z.shape[1], "pairs", ours, f"response {largest}")
    apart = (group[pairs.lower] != group[pairs.higher]).nonzero().flatten().tolist()
    expect(not apart, "pairs", ours, f"two prompts in pair {apart[:1]}")
    weight = break_even_of(z, pairs.lower, pairs.higher, reward, batch.weights)
    wrong = weight.isnan().nonzero().flatten().tolist()[:1]
    expect(not wrong, "pairs", f"`higher` with more of reward {reward} than `lower`", f"another order in pair {wrong}")
    return weight


def break_even_of(z: Tensor, lower: Tensor, higher: Tensor, reward: int, weights: Tensor) -> Tensor:
    """Return (pairs,) the weight on `reward` with which the two responses of a pair have the same weighted sum.

    It is NaN where the response `higher` has no more of `reward` than `lower`.

    z: (rewards, responses) the normalised rewards, or other terms of the sums.
    lower, higher: (pairs,) the numbers of the responses.
    reward: the index of the reward.
    weights: one per reward. The weight on `reward` does not matter.
    """
    gained = z[reward, higher] - z[reward, lower]
    terms = weights.reshape(-1, 1) * z.nan_to_num()  # GDPO adds up the rewards that are there
    rest = terms[:, higher] - terms[:, lower]
    rest = rest.sum(0) - rest[reward]
    return torch.where(gained > 0, -rest / gained, torch.nan)
