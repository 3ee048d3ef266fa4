"""How much a reward has to weigh before GDPO lets it decide."""

from math import sqrt

import torch
from torch import Tensor

from gdpo_core._errors import expect, expect_index
from gdpo_core._groups import read
from gdpo_core._types import ArrayLike, Groups
from gdpo_core.advantages import normalised_rewards
from gdpo_core.collapse import BrokenTies


def break_even_weight(
    rewards: ArrayLike, lower: int, higher: int, reward: int = 0, *, weights: ArrayLike | None = None
) -> float:
    """The weight on `reward` above which GDPO gives the response `higher` more than the response `lower`.

    rewards: (rollouts, rewards) of one prompt; lower, higher: numbers of two responses, `higher` with more of `reward`;
    the other weights stay as given. Raises InputError, also where the reward is constant in the group.

    >>> rewards = [[1, 0], [1, 1], [1, 1], [0, 1], [1, 0], [1, 0]]
    >>> round(break_even_weight(rewards, lower=3, higher=0), 4)
    0.7454
    """
    batch = read(rewards, weights=weights)
    expect(batch.single, "rewards", "shape (rollouts, rewards) of one prompt", "a batch of prompts")
    z = normalised_rewards(batch).value[:, 0]  # (rewards, rollouts)
    expect_index(reward, len(z), "reward", "rewards")
    for name, value in (("lower", lower), ("higher", higher)):
        expect_index(value, z.shape[1], name, "responses")
    found = _balance(z, torch.tensor([lower]), torch.tensor([higher]), reward, batch.weights)
    more = f"a response with more of reward {reward} than `lower`"
    expect(not found.isnan().any(), "higher", more, f"{higher}, beside {lower}")
    return found.item()


def break_even_weights(
    rewards: ArrayLike,
    pairs: BrokenTies,
    reward: int = 0,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
) -> Tensor:
    """`break_even_weight` of every pair of `broken_ties`, in their order; (pairs,), float64.

    rewards, groups: those of the collapses that the pairs are from; reward: their primary one. The responses of a pair
    differ in it, so a large enough weight always puts `higher` first: every value is finite. Raises InputError.

    >>> from gdpo_core import broken_ties, collapse
    >>> rewards = [[[1, 0], [1, 1], [1, 1], [0, 1], [1, 0], [1, 0]]]
    >>> pairs = broken_ties(collapse(rewards, "grpo"), collapse(rewards, "gdpo"))
    >>> [round(w, 4) for w in break_even_weights(rewards, pairs).tolist()]
    [0.7454, 0.7454, 0.7454]
    """
    expect(isinstance(pairs, BrokenTies), "pairs", "a gdpo_core.BrokenTies", type(pairs).__name__)
    batch = read(rewards, weights=weights, groups=groups).in_float64()
    group = batch.group_index()
    z = normalised_rewards(batch).value.flatten(1)  # (rewards, responses)
    expect_index(reward, len(z), "reward", "rewards")
    ours = f"pairs of responses of one prompt out of {z.shape[1]} responses"
    largest = int(torch.stack([pairs.lower, pairs.higher]).max()) if len(pairs.lower) else -1
    expect(largest < z.shape[1], "pairs", ours, f"response {largest}")
    apart = (group[pairs.lower] != group[pairs.higher]).nonzero().flatten().tolist()
    expect(not apart, "pairs", ours, f"two prompts in pair {apart[:1]}")
    found = _balance(z, pairs.lower, pairs.higher, reward, batch.weights)
    wrong = found.isnan().nonzero().flatten().tolist()[:1]
    expect(not wrong, "pairs", f"`higher` with more of reward {reward} than `lower`", f"another order in pair {wrong}")
    return found


def most_needed(rollouts: int) -> float:
    """The largest ratio of the spreads of two binary rewards, neither constant, in a group of this size.

    Two responses that an equal-weight sum of three binary rewards ties, and of which one alone has the first reward,
    differ in the first and in one other reward. So this is also the largest weight on the first reward that GDPO can
    need to put the one that has it ahead.

    >>> round(most_needed(12), 4), most_needed(3)
    (1.8091, 1.0)
    """
    half = rollouts // 2
    return sqrt(half * (rollouts - half) / (rollouts - 1))


def _balance(z: Tensor, lower: Tensor, higher: Tensor, reward: int, weights: Tensor) -> Tensor:
    """The weight on `reward` at which its gain equals the loss by the other rewards; NaN where it gains nothing.

    z: (rewards, responses); lower, higher: (pairs,).
    """
    gained = z[reward, higher] - z[reward, lower]
    there = weights.reshape(-1, 1) * z.nan_to_num()  # GDPO adds up what is there
    rest = there[:, higher] - there[:, lower]
    rest = rest.sum(0) - rest[reward]
    return torch.where(gained > 0, -rest / gained, torch.nan)
