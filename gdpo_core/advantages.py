"""GRPO, GRPO without std and GDPO: the same lines in another order.

Symbols: r rewards, w weights, s weighted sum, z normalised rewards, A advantages; j numbers the rollouts, k the
rewards; G is the group of a prompt's rollouts, B the whole batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real

import torch
from torch import Tensor

from gdpo_core import round_off
from gdpo_core._types import ArrayLike, Groups
from gdpo_core.batch import Batch, read, weighted, whole
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.errors import InputError, expect, expect_index
from gdpo_core.normalise import MeanIs, Normalised, normalise


@dataclass(frozen=True)
class Steps:
    """Every intermediate of one computation, reward axis first; None where the method has no such step."""

    group: Normalised
    z: Tensor | None
    sums: Tensor
    whole: Normalised | None
    advantages: Tensor


def _grpo(batch: Batch) -> Steps:
    s = _weighted_sum(batch, batch.rewards, overwrite=batch.scratch and batch.exact)  # s_j = Σ_k w_k r_jk
    eps = batch.convention.sum_eps
    group = _over_group(batch, s, eps, round_off.of_sums(batch))  # A_j = (s_j − mean_G s) / std_G s
    return Steps(group, None, s, None, group.value)


def _grpo_no_std(batch: Batch) -> Steps:
    s = _weighted_sum(batch, batch.rewards, overwrite=batch.scratch and batch.exact)  # s_j = Σ_k w_k r_jk
    group = _over_group(batch, s, None, round_off.of_sums(batch))  # A_j = s_j − mean_G s
    return Steps(group, None, s, None, group.value)


def _gdpo(batch: Batch) -> Steps:
    group = normalised_rewards(batch)
    s = _weighted_sum(batch, group.value, overwrite=batch.scratch)  # eq. 5, weighted as in eq. 7: s_j = Σ_k w_k z_jk
    s = round_off.without(batch, s, group)
    return Steps(group, group.value, s, None, s)


def normalised_rewards(batch: Batch) -> Normalised:
    """GDPO's first step: each reward normalised inside its group; its value is z."""
    eps = batch.convention.group_eps
    return _over_group(batch, batch.rewards, eps)  # eq. 4: z_jk = (r_jk − mean_G r_k) / std_G r_k


def over_batch(batch: Batch, s: Tensor) -> Normalised:
    """GDPO's last step, over all responses, all tokens or each group once more, as the convention says."""
    c, over = batch.convention, batch.batches or whole(s)
    # z sums to 0 in each group, unless the mean is that of the other rollouts or a group of one keeps its raw reward.
    mean_is: MeanIs = "zero"
    if c.leave_one_out or (c.group_of_one == "raw" and bool(torch.as_tensor(batch.group.count == 1).any())):
        mean_is = "any"
    elif c.last_step == "tokens":
        mean_is = "zero but for round-off"
    if c.last_step == "tokens":
        if batch.lengths is None:
            raise InputError(f"lengths: expected tokens per response, by which {c.name} weighs, got none")
        over = weighted(over, batch.lengths.to(s))
    elif c.last_step == "group":
        over = batch.group
    return normalise(  # eq. 6: A = (s − mean_B s) / std_B s
        s,
        over,
        eps=c.batch_eps,
        eps_to=c.batch_eps_to,
        ddof=c.ddof,
        skip=batch.skips,
        mean_is=mean_is,
        overwrite=batch.scratch,
        alone="nan" if c.group_of_one == "nan" else "zero",
    )


def _over_batch_std(batch: Batch, centred: Tensor) -> Normalised:
    """The last step of `scale_rewards="batch"` in TRL and ms-swift: divide by the std of the sums over the batch."""
    s, c = _weighted_sum(batch, batch.rewards), batch.convention
    over = batch.batches or whole(s)
    last = normalise(s, over, eps=None, ddof=c.ddof, skip=batch.skips)
    divisor = (last.std + c.sum_eps).masked_fill(last.std == 0, torch.inf)
    return replace(last, value=centred / over.spread(divisor))  # A_j = (s_j − mean_G s) / std_B s


@dataclass(frozen=True)
class Method:
    """What a method computes inside each group, and then over the batch."""

    in_groups: Callable[[Batch], Steps]
    over_batch: Callable[[Batch, Tensor], Normalised] | None = None
    decoupled: bool = False  # normalises each reward on its own: what a convention says of GDPO holds for it
    prepared: Callable[[Batch], Batch] | None = None  # what needs the whole batch before any group

    def __call__(self, batch: Batch) -> Steps:
        """The computation with every intermediate."""
        steps = self.in_groups(batch)
        if self.over_batch is None:
            return steps
        last = self.over_batch(batch, steps.advantages)
        return replace(steps, whole=last, advantages=last.value)

    def advantages(self, batch: Batch) -> Tensor:
        """The same advantages without the intermediates, computed in pieces that fit into the cache."""
        a = batch.rewards.new_empty(batch.rewards.shape[1:])
        for prompts, part in batch.parts():
            a[prompts] = self.in_groups(part).advantages
        return a if self.over_batch is None else self.over_batch(replace(batch, scratch=True), a).value


METHODS = {
    "grpo": Method(_grpo),
    "grpo_no_std": Method(_grpo_no_std),
    "gdpo": Method(_gdpo, over_batch, decoupled=True),
}

# All that has a name: the methods above, and those that successors.py adds.
NAMED = dict(METHODS)

# The methods that may have made a log: those above and a variant of GRPO that frameworks offer.
LOGGED_METHODS = METHODS | {"grpo_batch_std": Method(_grpo_no_std, _over_batch_std)}


def grpo(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of GRPO: the weighted sum of the rewards, normalised inside its group.

    rewards: (prompts, rollouts, rewards), or (rollouts, rewards) for one prompt, or (responses, rewards) with
        `groups`, one id per response. NaN = missing: the sum runs over what is there; a response without any reward
        takes no part and gets 0. Integers and booleans compute in float64.
    weights: (rewards,), 1 by default, on the raw rewards. lengths: (prompts, rollouts) tokens per response; only
        conventions that average over tokens use them.
    Returns (prompts, rollouts), without the reward axis, in the rewards' dtype and on their device.
    Raises InputError. Source: arXiv 2402.03300; arXiv 2601.05242, eq. 1 and 2.

    >>> [round(a, 6) for a in grpo([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()]
    [1.224745, 0.0, 0.0, -1.224745]
    """
    return advantages(rewards, "grpo", weights=weights, groups=groups, lengths=lengths, convention=convention)


def grpo_no_std(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of GRPO without its division: the weighted sum minus the mean of its group.

    Shapes, errors and options as `grpo`. Source: Dr. GRPO, arXiv 2503.20783.

    >>> grpo_no_std([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()
    [1.0, 0.0, 0.0, -1.0]
    """
    return advantages(rewards, "grpo_no_std", weights=weights, groups=groups, lengths=lengths, convention=convention)


def gdpo(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of GDPO: each reward normalised inside its group, then the weighted sum, scaled over the batch.

    Shapes, errors and options as `grpo`; the weights multiply the *normalised* rewards. A reward that is constant
    in a group adds exactly 0 there. Source: arXiv 2601.05242, eq. 4 to 6, weights as in eq. 7.

    >>> [round(a, 6) for a in gdpo([[1, 1], [1, 0], [0, 1], [1, 1]]).tolist()]
    [0.866025, -0.866025, -0.866025, 0.866025]
    """
    return advantages(rewards, "gdpo", weights=weights, groups=groups, lengths=lengths, convention=convention)


def advantages(
    rewards: ArrayLike,
    method: str = "gdpo",
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of the method of that name: "grpo", "grpo_no_std", "gdpo" or one of SUCCESSORS; the rest as `grpo`.

    >>> advantages([[1], [0]], "grpo_no_std").tolist()
    [0.5, -0.5]
    """
    batch = read(rewards, weights=weights, groups=groups, lengths=lengths, convention=convention)
    formula, batch = method_for(method, batch)
    return batch.returned(batch.learnt(formula.advantages(batch)))


def condition(rewards: ArrayLike, reward: int = 1, on: int = 0, threshold: float = 1.0) -> Tensor:
    """Rewards in which `reward` counts only where the reward `on` reaches the threshold, else it is 0.

    reward, on: indices of the last axis. Same shape as `rewards`; where `on` is missing, so is the result.
    Raises InputError. Source: arXiv 2601.05242, eq. 8.

    >>> condition([[1, 5], [0, 5]], reward=1, on=0).tolist()
    [[1.0, 5.0], [0.0, 0.0]]
    """
    batch = read(rewards)
    r = batch.returned(batch.rewards).movedim(0, -1).clone()
    for name, value in (("reward", reward), ("on", on)):
        expect_index(value, r.shape[-1], name, "rewards")
    expect(reward % r.shape[-1] != on % r.shape[-1], "on", "another reward than the one it gates", repr(on))
    number = isinstance(threshold, Real) and threshold == threshold
    expect(number, "threshold", "a number", repr(threshold))
    gate, gated = r[..., on], r[..., reward]
    r[..., reward] = torch.where(gate >= threshold, gated, torch.where(gate.isnan(), gate, torch.zeros_like(gated)))
    return r


def method_named(method: str) -> Method:
    """The formulas of that name.

    >>> method_named("ppo")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gdpo_core.errors.InputError: method: expected one of grpo, grpo_no_std, gdpo, ..., got 'ppo'
    """
    if not isinstance(method, str) or method not in NAMED:
        raise InputError(f"method: expected one of {', '.join(NAMED)}, got {method!r}")
    return NAMED[method]


def method_for(method: str, batch: Batch) -> tuple[Method, Batch]:
    """The formulas of that name, and the batch as they take it: a convention may have its own rules for GDPO."""
    return applied(method_named(method), batch)


def applied(formula: Method, batch: Batch) -> tuple[Method, Batch]:
    """The same for formulas at hand."""
    c = batch.convention
    if formula.decoupled and len(batch.rewards) == 1 and c.one_reward_is_grpo:
        return METHODS["grpo"], batch
    if formula.decoupled and c.missing_is_zero_in_gdpo:
        batch = batch.without_missing()
    return formula, batch if formula.prepared is None else formula.prepared(batch)


def _weighted_sum(batch: Batch, x: Tensor, overwrite: bool = False) -> Tensor:
    """Σ_k w_k x_k over the rewards that are not missing; where all are, NaN or, if the convention counts them, 0."""
    terms = torch.mul(batch.weights, x, out=x if overwrite and not batch.skips else None)
    terms = terms.nan_to_num_() if batch.skips else terms
    # One reward after the other: torch's sum takes some rollouts in another order, and equal ones would part.
    first, *rest = terms
    s = reduce(torch.add, rest, first) if rest else first.clone()
    if not batch.skips or batch.convention.empty_counts:
        return s
    return s.masked_fill(batch.rewards.isnan().all(0), torch.nan)


def _over_group(batch: Batch, x: Tensor, eps: float | None, noise: Tensor | None = None) -> Normalised:
    c = batch.convention
    alone = "raw" if c.group_of_one == "raw" else "zero"
    return normalise(
        x,
        batch.group,
        eps=eps,
        ddof=c.ddof,
        skip=batch.skips,
        noise=noise,
        alone=alone,
        leave_one_out=c.leave_one_out,
        overwrite=batch.scratch and not c.leave_one_out,
    )
