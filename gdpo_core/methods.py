"""The formulas of GRPO, of GDPO, and of the methods that frameworks offer besides.

GRPO adds up the weighted rewards and normalises the sum in its group. GDPO normalises each reward in its group, adds up
the results, weighted, and normalises that sum once more over the batch. GRPO without std only centres the sum. The
methods of `OF_FRAMEWORKS` take the same sum as GRPO, but divide it by something else or normalise it over the batch.

Symbols: r rewards, w weights, s weighted sum, z normalised rewards, A advantages; j numbers the rollouts, k the
rewards; G is the group of a prompt's rollouts, B the whole batch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from gdpo_core.numerics.batch import Batch, MethodOptions, make_batch, with_options
from gdpo_core.numerics.batch_statistics import (
    divide_by_batch_std,
    normalise_over_batch,
    over_responses,
    whiten,
    whiten_centred,
)
from gdpo_core.numerics.reductions import skipping_missing
from gdpo_core.numerics.statistics import (
    Normalised,
    centre_sums,
    deviations,
    normalise_rewards,
    normalise_sums,
    weighted_sum,
    with_rloo_baseline,
    zero_cancelled,
)
from gdpo_core.shared.errors import expect, expect_index, is_finite
from gdpo_core.shared.inputs import ArrayLike


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Every intermediate result of one computation, with the axis of rewards first, if there is one.

    A result is None where the method has no step that makes it.
    """

    group: Normalised  # what is normalised in each group: each reward, or the weighted sum
    z: Tensor | None = None  # the normalised rewards, of a method that normalises each on its own
    sums: Tensor  # the weighted sums of z if there is z, else of the raw rewards
    factors: Tensor | None = None  # the numbers by which GD²PO multiplies the sums; 0 for a rollout that it drops
    in_groups: bool = True  # whether the method subtracts the mean of a group; else only that of the batch
    batch: Normalised | None = None  # the step over the batch
    advantages: Tensor


def _grpo(batch: Batch) -> Steps:
    """Compute GRPO: the weighted sum of the rewards, normalised in its group."""
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    group = normalise_sums(batch, s)  # A_j = (s_j − mean_G s) / std_G s
    return Steps(group=group, sums=s, advantages=group.value)


def _grpo_no_std(batch: Batch) -> Steps:
    """Compute GRPO without std: the weighted sum of the rewards, centred in its group."""
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    group = centre_sums(batch, s)  # A_j = s_j − mean_G s
    return Steps(group=group, sums=s, advantages=group.value)


def _over_batch_std(batch: Batch, centred: Tensor) -> Normalised:
    """Return `centred` divided by the std over the batch of the weighted sums as they were before centring.

    centred: the weighted sums less the mean of their group.
    """
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    return divide_by_batch_std(batch, centred, s)  # A_j = (s_j − mean_G s) / std_B s


def _reinforce_pp(batch: Batch) -> Steps:
    """Compute REINFORCE++ before its batch step: the weighted sum of the rewards, which no group normalises."""
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    none = torch.zeros_like(batch.group.member(s))  # no group is normalised
    return Steps(group=Normalised(none, none + 1, s), sums=s, advantages=s, in_groups=False)


def _max_rl(batch: Batch) -> Steps:
    """Compute MaxRL: the weighted sum, centred in its group and divided by the mean of the group.

    With leave-one-out the divisor is the mean of the other rollouts. The result is 0 where the divisor is not above 0.
    """
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    group = centre_sums(batch, s)  # A_j = (s_j − mean_G s) / mean_G s, and 0 where that mean is not above 0
    by = group.mean.masked_fill(group.mean <= 0, torch.inf)  # no eps is added, as prime-rl has none
    by = by if batch.convention.leave_one_out else batch.group.broadcast(by)
    a = group.value / by
    return Steps(group=Normalised(group.mean, group.mean.clamp(min=0), a, by), sums=s, advantages=a)


def _gdpo(batch: Batch) -> Steps:
    """Compute GDPO inside the groups: each reward normalised, then their weighted sum."""
    group = normalise_rewards(batch)  # eq. 4: z_jk = (r_jk − mean_G r_k) / std_G r_k
    s = weighted_sum(batch, group.value)  # eq. 5, weighted as in eq. 7: s_j = Σ_k w_k z_jk
    s = zero_cancelled(batch, s, group)
    return Steps(group=group, z=group.value, sums=s, advantages=s)


def over_batch(batch: Batch, s: Tensor) -> Normalised:
    """Normalise the sums `s` as GDPO's batch step does: over all responses, all tokens or each group.

    The convention says which, in its `last_step`.
    """
    return normalise_over_batch(batch, s)  # eq. 6: A_j = (s_j − mean_B s) / std_B s


@dataclass(frozen=True)
class Method:
    """The formulas of a method: what it computes inside each group, and what it then does over the batch.

    `prepare` changes rewards or weights before both. `decoupled` says whether the method normalises each reward on its
    own, `by_order` whether it treats the first reward in another way than the rest, and `centres_groups` whether it
    subtracts the mean of each group.
    """

    in_groups: Callable[[Batch], Steps]
    over_batch: Callable[[Batch, Tensor], Normalised] | None = None
    # whether it normalises each reward on its own, so that a convention's rules for GDPO hold for it
    decoupled: bool = False
    # a change of the rewards or weights that looks at the whole batch and comes before the formulas of the groups
    prepare: Callable[[Batch], Batch] | None = None
    # whether it treats the first reward in another way than the rest, so that their order matters
    by_order: bool = False
    # whether it subtracts the mean of each group; REINFORCE++ subtracts only that of the batch
    centres_groups: bool = True

    def __call__(self, batch: Batch) -> Steps:
        """Return the advantages and every intermediate result.

        batch: the result of `prepare`, where the method has such a function.
        """
        steps = self.in_groups(batch)
        if self.over_batch is None:
            return steps
        last = self.over_batch(batch, steps.advantages)
        return replace(steps, batch=last, advantages=last.value)

    @property
    def ends_as_gdpo(self) -> bool:
        """Whether the method's step over the batch is GDPO's, after which the advantages have std 1."""
        return self.over_batch is over_batch

    def advantages(self, batch: Batch) -> Tensor:
        """Return the advantages alone, in the layout of `batch`, computed in pieces that fit into the cache.

        batch: the result of `prepare`, where the method has such a function.
        """
        pieces = [self.in_groups(piece).advantages for piece in batch.pieces()]
        a = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return a if self.over_batch is None else self.over_batch(batch, a).value


def reward_parts(batch: Batch, steps: Steps) -> Tensor:
    """Return (rewards, …) each reward's part a_k of the advantages A: the parts of a response sum to its advantage.

    A method is linear in the rewards but for its divisors. So the parts are the terms of its sum, divided as in
    `steps`, where eps is added to each std:
    - GRPO: a_k = w_k (r_k − mean_G r_k) / std_G s
    - GDPO: a_k = w_k (z_k − mean_B z_k) / std_B s

    All parts of a response are NaN in three cases:
    - Its advantage in `steps` is NaN, because a missing reward propagates to it, or because the convention gives NaN to
      a group of one.
    - It has no reward and the convention leaves it out. Its advantage in `steps` is NaN too, and
      `Batch.zero_unrewarded` makes it 0 later.
    - GD²PO drops it, which gives it the advantage 0.

    steps: what the method computed for this batch.
    """
    x = batch.rewards if steps.z is None else steps.z
    terms = (batch.weights * x).nan_to_num_()
    if batch.missing or batch.convention.group_of_one == "nan":  # else every advantage is a number
        terms.masked_fill_(steps.advantages.isnan(), torch.nan)
    if steps.z is None and steps.in_groups:
        terms = with_rloo_baseline(batch, terms, deviations(batch, terms)).value
    if steps.batch is None:
        return terms if steps.z is not None else terms / steps.group.by
    if not steps.batch.centred:
        return terms / steps.batch.by
    over = over_responses(batch) if steps.z is None else batch.last_step
    if steps.factors is not None:
        terms, over = (terms * steps.factors).masked_fill_(steps.factors == 0, torch.nan), skipping_missing(over)
    mean = over.total(terms) / over.counted(terms)
    return (terms - over.broadcast(mean)) / steps.batch.by


# The methods that every report compares.
METHODS = {
    "grpo": Method(_grpo),
    "grpo_no_std": Method(_grpo_no_std),
    "gdpo": Method(_gdpo, over_batch, decoupled=True),
}
# The methods that some frameworks offer besides. REINFORCE++ is arXiv 2501.03262; MaxRL, of prime-rl, is arXiv
# 2602.02710.
OF_FRAMEWORKS = {
    "grpo_batch_std": Method(_grpo_no_std, _over_batch_std),
    # A_j = (c_j − mean_B c) / std_B c, with c_j = s_j − mean_G s
    "reinforce_pp_baseline": Method(_grpo_no_std, whiten_centred),
    "reinforce_pp": Method(_reinforce_pp, whiten, centres_groups=False),  # A_j = (s_j − mean_B s) / std_B s
    "max_rl": Method(_max_rl),
}


@with_options
def grpo(rewards: ArrayLike, **options: Unpack[MethodOptions]) -> Tensor:
    """Compute GRPO's advantages: the weighted sum of the rewards, normalised inside its group.

    Returns (prompts, rollouts), (rollouts,) or (responses,), in the rewards' dtype and on their device.

    rewards: (prompts, rollouts, rewards), or (rollouts, rewards) for one prompt, or (responses, rewards) with `groups`.
        NaN marks a missing reward: the sum runs over the others, and a response without any reward takes no part and
        gets 0. Integers and booleans are computed in float64.
    weights: (rewards,), 1 by default; they multiply the raw rewards.
    groups: one id per response, None if the rewards have an axis of prompts or one prompt.
    lengths: (prompts, rollouts), or (responses,) with `groups`, the tokens of each response. Only conventions that
        average over tokens use them.
    convention: how an implementation fills in what the formulas leave open, such as eps and missing rewards; by default
        PAPER, by which the above holds.

    Raises InputError. Source: arXiv 2402.03300; arXiv 2601.05242, eq. 1 and 2.

    >>> [round(a, 6) for a in grpo([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()]
    [1.224745, 0.0, 0.0, -1.224745]
    """
    return compute_advantages(METHODS["grpo"], make_batch(rewards, **options))


@with_options
def grpo_no_std(rewards: ArrayLike, **options: Unpack[MethodOptions]) -> Tensor:
    """Compute the advantages of GRPO without its division: the weighted sum minus the mean of its group.

    Shapes, errors and options as `grpo`. Source: Dr. GRPO, arXiv 2503.20783.

    >>> grpo_no_std([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()
    [1.0, 0.0, 0.0, -1.0]
    """
    return compute_advantages(METHODS["grpo_no_std"], make_batch(rewards, **options))


@with_options
def gdpo(rewards: ArrayLike, **options: Unpack[MethodOptions]) -> Tensor:
    """Compute GDPO's advantages: each reward normalised inside its group, their weighted sum normalised over the batch.

    Shapes, errors and options as `grpo`; the weights multiply the *normalised* rewards. A reward that is constant in a
    group adds exactly 0 there. Source: arXiv 2601.05242, eq. 4 to 6, weights as in eq. 7.

    >>> [round(a, 6) for a in gdpo([[1, 1], [1, 0], [0, 1], [1, 1]]).tolist()]
    [0.866025, -0.866025, -0.866025, 0.866025]
    """
    return compute_advantages(METHODS["gdpo"], make_batch(rewards, **options))


def condition(rewards: ArrayLike, reward: int = 1, on: int = 0, threshold: float = 1.0) -> Tensor:
    """Return the rewards with `reward` counted only where the reward `on` reaches the threshold; elsewhere it is 0.

    Where `on` is missing, `reward` becomes missing too.

    rewards: in any shape that `grpo` takes; the result has the same shape.
    reward, on: indices of the last axis of `rewards`.

    Raises InputError. Source: arXiv 2601.05242, eq. 8.

    >>> condition([[1, 5], [0, 5]], reward=1, on=0).tolist()
    [[1.0, 5.0], [0.0, 0.0]]
    """
    batch = make_batch(rewards)
    r = batch.to_caller(batch.rewards).movedim(0, -1).clone(memory_format=torch.contiguous_format)
    for name, value in (("reward", reward), ("on", on)):
        expect_index(value, r.shape[-1], name, "rewards")
    expect(reward % r.shape[-1] != on % r.shape[-1], "on", "another reward than the one it gates", repr(on))
    fits = is_finite(threshold) or (isinstance(threshold, float | np.floating) and math.isinf(threshold))
    expect(fits, "threshold", "a number in the range of float64", repr(threshold))
    gate, gated = r[..., on], r[..., reward]
    elsewhere = torch.where(gate.isnan(), gate, torch.zeros_like(gated))
    r[..., reward] = torch.where(gate >= float(threshold), gated, elsewhere)
    return r


def apply_convention(formula: Method, batch: Batch) -> tuple[Method, Batch]:
    """Return the method and the batch to compute with, which may differ from the ones given.

    The batch's convention may put GRPO in the place of GDPO for a single reward, or have GDPO take missing rewards as
    0. The method's own `prepare` may change the rewards or weights of the batch.

    formula: the method as asked for.
    """
    c = batch.convention
    if formula.decoupled and len(batch.rewards) == 1 and c.one_reward_is_grpo:
        return METHODS["grpo"], batch
    if formula.decoupled and c.missing_is_zero_in_gdpo:
        batch = batch.without_missing()
    return formula, batch if formula.prepare is None else formula.prepare(batch)


def compute_advantages(formula: Method, batch: Batch) -> Tensor:
    """Return the advantages of a method, in the layout of the rewards that the caller gave.

    The shape is (prompts, rollouts); (rollouts,) for rewards of one prompt without an axis of prompts; or (responses,)
    with group ids. A response without any reward gets 0, unless the convention counts it, or lets missing rewards make
    advantages NaN.

    batch: the rewards as `make_batch` returns them.
    """
    formula, batch = apply_convention(formula, batch)
    return batch.to_caller(batch.zero_unrewarded(formula.advantages(batch)))
