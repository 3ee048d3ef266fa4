"""Logged advantages that no rewards can make: they are larger than a z-score can be, or leave-one-out divided them by
the round-off of a std that is 0.
"""

from math import inf, sqrt
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from gdpo_audit.recipe.recipe import AdvantageComparison, Recipe, Tensors
from gdpo_audit.sums.sums import Array
from gdpo_core.frameworks import ALL_CONVENTIONS

# An advantage counts as divided by almost 0 if it is more than so many times what the rewards differ by, since no
# weights are so large.
_TIMES = 100.0
# How near the other advantages of the group have to be to what leave-one-out makes of them; rounded ones may be so far.
_NEAR = 6e-3

_Number = TypeVar("_Number", float, Tensor)


def last_z(recipe: Recipe) -> Literal["group", "batch"] | None:
    """Return whether the advantages that a recipe makes are z-scores of their group ("group") or of their batch
    ("batch"); None if they are neither.
    """
    c = ALL_CONVENTIONS[recipe.convention]
    if recipe.method == "grpo" and not (c.leave_one_out or c.mean_of_others):
        return "group"
    by_batch = recipe.method in ("gdpo", "reinforce_pp", "reinforce_pp_baseline")
    if not by_batch or (recipe.method == "gdpo" and c.last_step == "tokens"):
        return None
    return "group" if recipe.method == "gdpo" and c.last_step == "group" else "batch"


def largest_z(n: _Number, ddof: int) -> _Number:
    """Return the largest z-score that one of n values can have, which is that of one value beside n − 1 equal ones.
    With ddof 1 it is (n − 1)/√n, and with ddof 0 it is √(n − 1).

    n: how many values there are.
    ddof: the std divides by n − ddof.

    >>> round(largest_z(8.0, ddof=1), 4), round(largest_z(8.0, ddof=0), 4)
    (2.4749, 2.6458)
    """
    return ((n - 1) * (n - ddof) / n) ** 0.5


def impossible(log: Tensors, recipe: Recipe | None, comparison: AdvantageComparison | None) -> Tensor:
    """Return (responses,) whether no rewards can have made a logged advantage.

    An advantage that the recipe reproduces is always possible. Without a recipe, only division by almost 0 is looked
    for.

    log: the logged advantages and rewards.
    recipe: how the advantages were made; None where that is not known.
    comparison: each logged advantage beside the one that the recipe makes; None without a recipe.
    """
    if recipe is None or comparison is None:
        return _divided_by_nothing(log)
    wrong = comparison.error > comparison.allowed
    return (_divided_by_nothing(log) & wrong) | _beyond(log, recipe, comparison, wrong) if bool(wrong.any()) else wrong


def _beyond(log: Tensors, recipe: Recipe, comparison: AdvantageComparison, wrong: Tensor) -> Tensor:
    """Return (responses,) whether an advantage is too large to be a z-score; all False if the recipe makes no z-scores.

    In a group or batch of n responses no z-score exceeds a bound that depends on n. An advantage is too large if the
    recipe does not reproduce it, and if it exceeds that bound by more than the error that counts as reproduced.

    Two more things have to hold in its group. The recipe reproduces more than half of the advantages, and all
    advantages that it does not reproduce are too large. In a group that was scaled, or that lacks rows, some of the
    advantages that are not reproduced would be small enough.

    log: the logged advantages.
    recipe: how they were made.
    comparison: each logged advantage beside the one that the recipe makes.
    wrong: (responses,) whether the recipe does not reproduce the advantage.
    """
    over = last_z(recipe)
    if over is None:
        return torch.zeros_like(wrong)
    index, unit = log.group_of_response, log.group_of_response if over == "group" else log.batch_of_response
    n = unit.bincount().double()
    bound = largest_z(n, ALL_CONVENTIONS[recipe.convention].ddof).masked_fill(n == 1, inf)
    large = wrong & (log.advantages.abs() - comparison.allowed > bound[unit])
    of_group = torch.zeros(3, len(log.batch)).index_add_(1, index, torch.stack([wrong, large, ~wrong]).float())
    return large & ((of_group[0] == of_group[1]) & (of_group[1] < of_group[2]))[index]


def _divided_by_nothing(log: Tensors) -> Tensor:
    """Return (responses,) whether leave-one-out divided an advantage by the round-off of a std that is 0.

    A group shows this by itself, whatever the weights are. All of its responses but one have equal rewards, so that
    their advantages are ∓1/√(n − 1), or ∓1/√(n − 2) with ddof 0. The advantage of the one response has the opposite
    sign, and is many times as large as the differences of the rewards.
    """
    rewards, a = log.rewards.flatten(0, -2).numpy(), log.advantages.numpy()
    sizes = log.group_of_response.bincount().numpy()
    size, start = sizes.repeat(sizes), (sizes.cumsum() - sizes).repeat(sizes)
    divided = np.zeros(len(a), dtype=bool)
    for i in np.flatnonzero((np.abs(a) > np.sqrt(size)) & (size > 3)):
        group = slice(start[i], start[i] + size[i])
        # Looking at one neighbour first rules out most groups of other methods, which saves time.
        if _by_leave_one_out(a[i], a[start[i] + (i == start[i])], size[i]):
            divided[i] = alone_by_nothing(rewards[group], a[group]) == i - start[i]
    return torch.from_numpy(divided)


def alone_by_nothing(rewards: Array, advantages: Array) -> int | None:
    """Return the index of the response whose advantage is far too large because it was divided by mere round-off.

    None if the group has no such response. Leave-one-out divides an advantage by the std of the other responses. If
    these have equal rewards, that std should be 0, but round-off may make it a tiny number above 0.

    rewards: (responses, rewards) of the group.
    advantages: (responses,) as logged.

    >>> alone_by_nothing(np.array([[0.0]] + 7 * [[0.95]]), np.array([-2075.39] + 7 * [7**-0.5]))
    0
    """
    n, at = len(advantages), int(np.abs(np.nan_to_num(advantages)).argmax())
    rest = np.delete(rewards, at, axis=0)
    if np.isnan(rewards).any() or (rest != rest[0]).any():
        return None
    far = abs(advantages[at]) > _TIMES * np.abs(rewards[at] - rest[0]).sum() > 0
    return at if far and all(_by_leave_one_out(advantages[at], a, n) for a in np.delete(advantages, at)) else None


def _by_leave_one_out(advantage: float, neighbour: float, n: int) -> bool:
    """Return whether the advantage of a neighbour is what leave-one-out gives to n − 1 responses with equal rewards
    beside one response with other rewards.

    Its sign has to be opposite to the sign of `advantage`. Its size has to be near 1/√(n − 1), if the std has ddof 1,
    or near 1/√(n − 2), if it has ddof 0. Near means within `_NEAR`.

    advantage: the advantage of the one response; only its sign counts.
    neighbour: the advantage of one of the n − 1 responses.
    n: the size of the group; for a group of at most three, the result is False.
    """
    size, opposite = abs(neighbour), advantage < 0 < neighbour or neighbour < 0 < advantage
    return n > 3 and opposite and min(abs(size - 1 / sqrt(n - 1)), abs(size - 1 / sqrt(n - 2))) <= _NEAR
