"""What came before and after GDPO for the same problem, in its notation: a few lines each on top of `advantages.py`.

Symbols as there; σ_k the standard deviation of reward k in a group, ρ_kl its correlation with reward l, t_k = w_k z_k
what GDPO adds up. Inside a group GRPO, GRPO without std, DVAO and CorrGRPO have one direction, the centred weighted
sum, and differ in its length; GDPO, MO-GRPO, SA-MRPO and GD²PO have directions of their own.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from gdpo_core import round_off
from gdpo_core._types import ArrayLike, Groups
from gdpo_core.advantages import (
    NAMED,
    Method,
    Steps,
    _gdpo,
    _over_group,
    _weighted_sum,
    advantages,
    applied,
    over_batch,
)
from gdpo_core.batch import Batch, read, weighted, whole
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.errors import InputError, expect
from gdpo_core.inputs import numbers
from gdpo_core.normalise import Normalised, normalise

GAMMA = 0.5  # of SA-MRPO: the best of the paper's ablation
THRESHOLD = 0.8  # of GD²PO: what its scripts set; 1 drops every rollout whose rewards disagree

_NO_SIGN = 1e-8  # a z closer to 0 has no sign, as in the code of GD²PO; float32 needs more
_ROUNDED = 32  # units in the last place


@dataclass(frozen=True)
class Successor:
    """Where a method comes from and what it computes."""

    name: str
    title: str
    paper: str  # arXiv number
    formula: str
    published: str  # year-month


SUCCESSORS = {
    "mo_grpo": Successor(
        "MO-GRPO",
        "Mitigating Reward Hacking of Group Relative Policy Optimization on Multi-Objective Problems",
        "2509.22047",
        "A = Σ_k w_k (r_k − μ_k) / σ_k: GDPO without its last step",
        "2025-09",
    ),
    "dvao": Successor(
        "DVAO",
        "Dynamic Variance-adaptive Advantage Optimization for Multi-reward Reinforcement Learning",
        "2605.25604",
        "A = Σ_k w_k (r_k − μ_k) / Σ_k w_k σ_k",
        "2026-05",
    ),
    "gd2po": Successor(
        "GD²PO",
        "Mitigating Multi-Reward Conflicts via Group-Dynamic reward-Decoupled Policy Optimization",
        "2606.16771",
        f"GDPO without the rollouts whose w_k z_k disagree in sign with |Σ_k w_k z_k| < {THRESHOLD} Σ_k |w_k z_k|, each"
        " group times its kept share",
        "2026-06",
    ),
    "sa_mrpo": Successor(
        "SA-MRPO",
        "Saturation Aware Advantage Reweighting for Multi-Reward Policy Optimization",
        "2608.16072",
        f"GDPO with w_k (1 − s_k)^{GAMMA}, s_k = (batch mean − lowest) / (highest − lowest) of reward k",
        "2026-08",
    ),
    "corr_grpo": Successor(
        "CorrGRPO",
        "Correlation-Normalized GRPO for Multi-Reward Learning",
        "2609.36820",
        "A = Σ_k w_k (r_k − μ_k) / √(Σ_k Σ_l ρ_kl)",
        "2026-09",
    ),
}


def _dvao(batch: Batch) -> Steps:
    s, centred, batch = _centred_sum(batch)
    std = _over_group(batch, batch.rewards, None).std
    divisor = (batch.weights.abs() * std).sum(0)  # Σ_k w_k σ_k
    if batch.convention.leave_one_out:  # one a response; where the others agree, nothing is divided
        by = (divisor + batch.convention.sum_eps).masked_fill(divisor == 0, 1)
    else:
        # Where every σ is 0 so is the centred sum: 0 / ∞ is that 0.
        by = batch.group.spread((divisor + batch.convention.sum_eps).masked_fill(divisor == 0, torch.inf))
    return _divided(s, centred, divisor, by)


def _corr_grpo(batch: Batch) -> Steps:
    c = batch.convention
    expect(not c.leave_one_out, "convention", "one with whole groups, for corr_grpo correlates in these", c.name)
    s, centred, batch = _centred_sum(batch)
    # Σ_kl ρ_kl is the variance of Σ_k ±z_k, and a z of a constant reward is 0, as are its row and column of ρ.
    z = _over_group(batch, batch.rewards, 0.0)
    signs = replace(batch, weights=batch.weights.sign(), weight=float(len(batch.weights)))
    total = round_off.without(signs, _weighted_sum(signs, z.value), z)
    root = _over_group(batch, total, None).std
    # Rewards in perfect conflict have Σρ = 0, and their sum, if scales differ, is not 0. No finite number is right: the
    # published ε makes it 1 / √ε times the sum. Without an ε it is 0, as what GDPO makes of such a group is.
    divisor = (root.square() + c.sum_eps).sqrt()
    return _divided(s, centred, divisor, batch.group.spread(divisor.masked_fill(divisor == 0, torch.inf)))


def _centred_sum(batch: Batch) -> tuple[Tensor, Normalised, Batch]:
    """Σ_k w_k r_k, the same without its mean in the group, and the batch, whose rewards stay as they are."""
    batch = replace(batch, scratch=False)
    s = _weighted_sum(batch, batch.rewards)
    return s, _over_group(batch, s, None, round_off.of_sums(batch)), batch


def _divided(s: Tensor, centred: Normalised, divisor: Tensor, by: Tensor) -> Steps:
    a = centred.value / by
    return Steps(Normalised(centred.mean, divisor, a), None, s, None, a)


def _unsaturated(batch: Batch, gamma: float = GAMMA, bounds: Tensor | None = None) -> Batch:
    """The batch with weights w_k (1 − s_k)^γ; bounds: (rewards, 2), else the lowest and highest reward of the batch."""
    r, group = batch.rewards, batch.group
    axes = (-1,) if batch.index is not None else (-2, -1)
    missing = r.isnan()
    if bounds is None:
        low = r.masked_fill(missing, torch.inf).amin(axes, keepdim=True)
        high = r.masked_fill(missing, -torch.inf).amax(axes, keepdim=True)
    else:
        low, high = (b.reshape(batch.weights.shape).to(r) for b in bounds.T)
        inside = bool(((low <= r) & (r <= high) | missing).all())
        expect(inside, "bounds", "a lowest and a highest value, with every reward between", bounds.tolist())
    # Group by group: the rollouts of an infinite group count as often as they are likely.
    count = group.total((~missing).to(r)).sum(axes, keepdim=True)
    mean = group.total(r.nan_to_num() if batch.skips else r).sum(axes, keepdim=True) / count
    # Under a weight below 0 the lowest value is the goal.
    left = torch.where(batch.weights < 0, mean - low, high - mean)
    # A reward that never varies adds 0 under any weight.
    varies = (high > low) & (count > 0)
    left = (left / (high - low)).clamp(0, 1).masked_fill(~varies, 0)
    return replace(batch, weights=batch.weights * left**gamma)


@dataclass(frozen=True)
class _Agreement:
    """GDPO's steps inside the groups, and which rollouts GD²PO drops."""

    group: Normalised
    sums: Tensor
    dropped: Tensor


def _agreement(batch: Batch, threshold: float) -> _Agreement:
    batch = replace(batch, scratch=False)
    group = _over_group(batch, batch.rewards, batch.convention.group_eps)
    s = round_off.without(batch, _weighted_sum(batch, group.value), group)
    t, eps = batch.weights * group.value, torch.finfo(s.dtype).eps
    signed = group.value.abs() > max(_NO_SIGN, 8 * eps)
    dropped = ((t > 0) & signed).any(0) & ((t < 0) & signed).any(0)  # a missing reward has no sign
    if threshold < 1:
        # At the threshold itself round-off decides nothing.
        dropped &= s.abs() < (threshold - _ROUNDED * eps) * t.abs().nansum(0)
    return _Agreement(group, s, dropped)


def _gd2po(batch: Batch, threshold: float = THRESHOLD) -> Steps:
    found = _agreement(batch, threshold)
    s = found.sums
    a = (s * _shares(batch, found)).masked_fill(found.dropped, 0)
    return Steps(found.group, found.group.value, s, None, a)


def _shares(batch: Batch, found: _Agreement) -> Tensor:
    """What each rollout's sum is multiplied by: the share of its group that is kept, 0 for one that is dropped."""
    s, group = found.sums, batch.group
    there = (~s.isnan()).to(s) if batch.skips else torch.ones_like(s)
    kept = there.masked_fill(found.dropped, 0)
    return group.spread(group.total(kept) / group.total(there)).masked_fill(found.dropped, 0)


def kept_shares(
    rewards: ArrayLike,
    *,
    threshold: float = THRESHOLD,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """What GD²PO multiplies each sum by: the share of its group that it keeps, 0 for a rollout that it drops.

    Shapes, errors, options and source as `gd2po`.

    >>> kept_shares([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    batch = read(rewards, weights=weights, groups=groups, lengths=lengths, convention=convention)
    return batch.returned(_shares(batch, _agreement(batch, threshold)))


def _over_kept(batch: Batch, s: Tensor, threshold: float = THRESHOLD) -> Normalised:
    """GDPO's last step over the rollouts that are kept; the others get 0. Their mean need not be 0 and is taken off."""
    c, dropped = batch.convention, _agreement(batch, threshold).dropped
    over = batch.group if c.last_step == "group" else batch.batches or whole(s)
    lost = torch.zeros_like(over.total(s), dtype=torch.bool) if batch.skips else over.total(s).isnan()
    if c.group_of_one == "nan":
        lost = lost | torch.as_tensor(over.count == 1, device=s.device)
    lost = over.spread(lost)
    # Sums that only round-off tells apart, group from group, are one.
    noise = -over.lowest(-s.abs().nan_to_num()) * (_ROUNDED * torch.finfo(s.dtype).eps)
    if c.last_step == "tokens":
        if batch.lengths is None:
            raise InputError(f"lengths: expected tokens per response, by which {c.name} weighs, got none")
        over = weighted(over, batch.lengths.to(s))
    last = normalise(
        s.masked_fill(dropped, torch.nan),
        over,
        eps=c.batch_eps,
        eps_to=c.batch_eps_to,
        ddof=c.ddof,
        skip=True,
        noise=noise,
    )
    return replace(last, value=last.value.masked_fill(dropped, 0).masked_fill(lost, torch.nan))


def _sa_mrpo_with(gamma: float, bounds: Tensor | None) -> Method:
    return Method(_gdpo, over_batch, decoupled=True, prepared=partial(_unsaturated, gamma=gamma, bounds=bounds))


def _gd2po_with(threshold: float) -> Method:
    return Method(partial(_gd2po, threshold=threshold), partial(_over_kept, threshold=threshold), decoupled=True)


NAMED.update(
    mo_grpo=Method(_gdpo, decoupled=True),
    dvao=Method(_dvao),
    gd2po=_gd2po_with(THRESHOLD),
    sa_mrpo=_sa_mrpo_with(GAMMA, None),
    corr_grpo=Method(_corr_grpo),
)


def mo_grpo(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of MO-GRPO: each reward normalised inside its group, then the weighted sum.

    That is GDPO without its last step, four months older; the paper has no weights.
    Shapes, errors and options as `grpo`. Source: arXiv 2509.22047, as reported by those who build on it; TRL's
    `normalize_then_sum` is this before its division by the batch's standard deviation.

    >>> [round(a, 3) for a in mo_grpo([[1, 1], [1, 0], [0, 1], [1, 1]]).tolist()]
    [1.0, -1.0, -1.0, 1.0]
    """
    return advantages(rewards, "mo_grpo", weights=weights, groups=groups, lengths=lengths, convention=convention)


def dvao(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of DVAO: GRPO's centred sum, divided by the weighted sum of the rewards' standard deviations.

    As published each normalised reward is weighted by w_k σ_k / Σ_l w_l σ_l, which is the same. No advantage is larger
    than GRPO's. A weight below 0 counts by its size in the divisor. A convention's eps is added to the divisor.
    Shapes, errors and options as `grpo`. Source: arXiv 2605.25604, its definition and proposition 2 as a published
    reading gives them.

    >>> [round(a, 3) for a in dvao([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()]
    [0.866, 0.0, 0.0, -0.866]
    """
    return advantages(rewards, "dvao", weights=weights, groups=groups, lengths=lengths, convention=convention)


def corr_grpo(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of CorrGRPO: GRPO's centred sum, divided by the root of the sum of all correlations.

    Where GRPO's variance of the sum adds up covariances, this adds up Pearson's ρ of the weighted rewards; those of a
    constant reward are 0. A convention's eps is added under the root, as published. With missing rewards, of which the
    paper says nothing, the sum of ρ is the variance of what is there of each Σ_k z_k. Where it is 0, rewards in
    perfect conflict, and eps is 0, so are the advantages.
    Shapes, errors and options as `grpo`; leave-one-out is an InputError. Source: arXiv 2609.36820 and the code in
    HKUST-KnowComp/CorrGRPO.

    >>> [round(a, 3) for a in corr_grpo([[3, 1], [3, 0], [0, 1], [0, 0]]).tolist()]
    [1.414, 0.707, -0.707, -1.414]
    """
    return advantages(rewards, "corr_grpo", weights=weights, groups=groups, lengths=lengths, convention=convention)


def sa_mrpo(
    rewards: ArrayLike,
    *,
    gamma: float = GAMMA,
    bounds: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of SA-MRPO: GDPO with each weight times (1 − s)^γ, s how far the batch's mean reward is to the top.

    gamma: 0 is GDPO. bounds: (rewards, 2), the lowest and highest value that each reward can have, which the paper
    takes as known; by default those in the batch, the same for a reward of two values wherever it varies. Under a
    weight below 0, of which the paper says nothing, the lowest value is the top.
    Shapes, other options and errors as `grpo`. Source: arXiv 2608.16072, as reported; no code of its authors was found.

    >>> rewards = [[1, 1], [1, 0], [1, 1], [0, 1]]
    >>> [round(a, 3) for a in sa_mrpo(rewards, gamma=1).tolist()], sa_mrpo([[1, 1], [0, 1]]).tolist()
    ([0.866, -0.866, 0.866, -0.866], [0.7071067811865475, -0.7071067811865475])
    """
    number = isinstance(gamma, int | float) and not isinstance(gamma, bool) and 0 <= gamma < float("inf")
    expect(number, "gamma", "a finite number that is not negative", repr(gamma))
    ends = None if bounds is None else numbers(bounds, "bounds").double()
    batch = read(rewards, weights=weights, groups=groups, lengths=lengths, convention=convention)
    if ends is not None:
        count = len(batch.rewards)
        expect(tuple(ends.shape) == (count, 2), "bounds", f"shape ({count}, 2)", f"shape {tuple(ends.shape)}")
        expect(bool((ends[:, 0] < ends[:, 1]).all()), "bounds", "a lowest below a highest value", ends.tolist())
    return _of(_sa_mrpo_with(float(gamma), ends), batch)


def gd2po(
    rewards: ArrayLike,
    *,
    threshold: float = THRESHOLD,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    convention: Convention = PAPER,
) -> Tensor:
    """Advantages of GD²PO: GDPO without the rollouts whose normalised rewards pull against each other.

    Dropped, with advantage 0, is a rollout whose w_k z_k have both signs and |Σ_k w_k z_k| < threshold · Σ_k |w_k z_k|.
    Each group's sums are multiplied by the share that is kept, then the kept ones of the batch are brought to mean 0
    and std 1. threshold: inside [0, 1]; 1 drops every disagreement (the paper's hard variant), 0 none. The published
    code has no weights.
    Shapes, other options and errors as `grpo`. Source: arXiv 2606.16771 and the code in Qwen-Applications/GD2PO.

    >>> [round(a, 3) for a in gd2po([[1, 1], [1, 0], [0, 1], [0, 0]]).tolist()]
    [0.707, 0.0, 0.0, -0.707]
    """
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool) and 0 <= threshold <= 1
    expect(number, "threshold", "a number inside [0, 1]", repr(threshold))
    batch = read(rewards, weights=weights, groups=groups, lengths=lengths, convention=convention)
    return _of(_gd2po_with(float(threshold)), batch)


def _of(formula: Method, batch: Batch) -> Tensor:
    formula, batch = applied(formula, batch)
    return batch.returned(batch.learnt(formula.advantages(batch)))
