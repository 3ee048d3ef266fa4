"""Methods of other papers, from before and after GDPO, that also make one advantage of several rewards.

They are written in GDPO's notation, with the symbols of `methods.py`, and build on that file. Three symbols are added:
σ_k is the standard deviation of reward k in a group, ρ_kl its correlation with reward l, and t_k = w_k z_k what GDPO
adds up.

Inside a group GRPO, GRPO without std, DVAO and CorrGRPO point in one and the same direction, the centred weighted sum,
and differ only in length. GDPO and MO-GRPO share another direction, Σ_k t_k. PAPO, SAW, SA-MRPO and GD²PO each have
their own.

DRPO, arXiv 2510.04474, is not here: it needs the policy's probability of each wrong answer, which the rewards do not
hold (Optimization-AI/DRPO@405f702 verl/verl/trainer/ppo/core_algos.py:337).
"""

from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from gdpo_core.conventions import NAMES
from gdpo_core.methods import Method, Steps, _gdpo, over_batch
from gdpo_core.numerics.batch import Batch, skipping_missing
from gdpo_core.numerics.statistics import (
    Normalised,
    centre_sums,
    deviations,
    divisor,
    normalise,
    normalise_in_groups,
    weighted_sum,
    zero_cancelled,
)
from gdpo_core.shared.errors import expect

GAMMA = 0.5  # the exponent γ of SA-MRPO: the best of the paper's ablation
# The threshold of GD²PO as its scripts set it; with 1, every rollout whose rewards disagree would be dropped.
THRESHOLD = 0.8

_NO_SIGN = 1e-8  # a z closer to 0 than this has no sign, as in the code of GD²PO; in float32 the limit is larger
_ROUNDED = 32  # how many units in the last place count as round-off


@dataclass(frozen=True)
class Successor:
    """A method of another paper, from before or after GDPO, for the problem that GDPO solves.

    name: the short name of the method.
    title: the title of its paper.
    paper: the arXiv number of its paper.
    formula: what the method computes, in words and symbols.
    """

    name: str
    title: str
    paper: str  # arXiv number
    formula: str

    @property
    def published(self) -> str:
        """The year and month of the paper, YYYY-MM, which its arXiv number tells.

        >>> SUCCESSORS["dvao"].published
        '2026-05'
        """
        return f"20{self.paper[:2]}-{self.paper[2:4]}"


SUCCESSORS = {
    "mo_grpo": Successor(
        "MO-GRPO",
        "Mitigating Reward Hacking of Group Relative Policy Optimization on Multi-Objective Problems",
        "2509.22047",
        "A = Σ_k w_k (r_k − μ_k) / σ_k: GDPO without its batch step",
    ),
    "papo": Successor(
        "PAPO",
        "Stabilizing Rubric Integration Training via Decoupled Advantage Normalization",
        "2603.26535",
        "A = w_1 z_1 + Σ_k>1 w_k z′_k, with z′_k normalised over the rollouts of the group whose first reward is above"
        " 0, and 0 for the others",
    ),
    "dvao": Successor(
        "DVAO",
        "Dynamic Variance-adaptive Advantage Optimization for Multi-reward Reinforcement Learning",
        "2605.25604",
        "A = Σ_k w_k (r_k − μ_k) / Σ_k w_k σ_k",
    ),
    "saw": Successor(
        "SAW",
        "Stage-Aware Dynamic Weighting for Multi-Objective Reinforcement Learning in Large Language Models",
        "2606.07705",
        "GDPO with K w_k c_k / Σ_l c_l, c_k = std / |mean| of reward k over the batch, K the number of rewards",
    ),
    "gd2po": Successor(
        "GD²PO",
        "Mitigating Multi-Reward Conflicts via Group-Dynamic reward-Decoupled Policy Optimization",
        "2606.16771",
        f"GDPO without the rollouts whose w_k z_k disagree in sign with |Σ_k w_k z_k| < {THRESHOLD} Σ_k |w_k z_k|, each"
        " group times its kept share",
    ),
    "sa_mrpo": Successor(
        "SA-MRPO",
        "Saturation Aware Advantage Reweighting for Multi-Reward Policy Optimization",
        "2608.16072",
        f"GDPO with w_k (1 − s_k)^{GAMMA}, s_k = (batch mean − lowest) / (highest − lowest) of reward k",
    ),
    "corr_grpo": Successor(
        "CorrGRPO",
        "Correlation-Normalized GRPO for Multi-Reward Learning",
        "2609.36820",
        "A = Σ_k w_k (r_k − μ_k) / √(Σ_k Σ_l ρ_kl)",
    ),
}

TITLES = NAMES | {key: method.name for key, method in SUCCESSORS.items()}  # of every method, by its key


def _dvao(batch: Batch) -> Steps:
    """Compute DVAO: GRPO's centred sum, divided by Σ_k |w_k| σ_k.

    As published, each normalised reward z_k is weighted by w_k σ_k / Σ_l w_l σ_l, which comes to the same. Unless
    rewards are missing, no advantage is larger than GRPO's. A weight below 0 enters the divisor by its absolute value.
    A convention's eps is added to the divisor. Where every σ_k is 0, so is the advantage; with leave-one-out the sum is
    then not divided. Source: arXiv 2605.25604, its definition and proposition 2, as a published reading of the paper
    gives them.
    """
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    std = deviations(batch, batch.rewards).std
    # Σ_k |w_k| σ_k is added up one term after the other, so that equal rewards have equal sums.
    total = reduce(Tensor.add_, (batch.weights.abs() * std).unbind())
    if batch.convention.leave_one_out:  # a divisor per response; where the other rollouts agree, nothing is divided
        by = (total + batch.convention.sum_eps).masked_fill(total == 0, 1)
    else:
        by = batch.group.broadcast(divisor(total, batch.convention.sum_eps))
    return _divided(s, centre_sums(batch, s), total, by)  # A_j = (s_j − mean_G s) / Σ_k w_k σ_k


def _corr_grpo(batch: Batch) -> Steps:
    """Compute CorrGRPO: GRPO's centred sum, divided by √(Σ_k Σ_l ρ_kl).

    GRPO divides by the std of the sum, whose variance adds up covariances. Here Pearson's correlations ρ of the
    weighted rewards take their place; those of a constant reward are 0. A convention's eps is added under the root, as
    published. Where Σ_k Σ_l ρ_kl and eps are 0, as for rewards in perfect conflict, the advantages are 0. Of missing
    rewards the paper says nothing. With them the sum of ρ is the variance of the sum of the z-scores that are there,
    each with the sign of its weight. Raises InputError under leave-one-out. Source: arXiv 2609.36820 and the code in
    HKUST-KnowComp/CorrGRPO.
    """
    c = batch.convention
    expect(not c.leave_one_out, "convention", "one with whole groups, for corr_grpo correlates in these", c.name)
    s = weighted_sum(batch, batch.rewards)  # s_j = Σ_k w_k r_jk
    # Σ_kl ρ_kl is the variance of Σ_k ±z_k, with the sign of each weight. The z of a constant reward is 0, as are its
    # row and column of ρ.
    z = normalise_in_groups(batch, batch.rewards, eps=0.0)
    signs = replace(batch, weights=batch.weights.sign())
    std = deviations(batch, zero_cancelled(signs, weighted_sum(signs, z.value), z)).std
    # Rewards in perfect conflict have Σρ = 0, though their sum is not 0 if their scales differ. No finite advantage is
    # right for them: with the published ε it is the sum divided by √ε. Without an ε it is 0 here, as it is under GDPO.
    correlation = (std.square() + c.sum_eps).sqrt()
    by = batch.group.broadcast(divisor(correlation, 0.0))
    return _divided(s, centre_sums(batch, s), correlation, by)  # A_j = (s_j − mean_G s) / √(Σ_k Σ_l ρ_kl)


def _divided(s: Tensor, centred: Normalised, std: Tensor, by: Tensor) -> Steps:
    """Return the steps of a method that divides GRPO's centred sum by something else than its std.

    s: the weighted sums.
    centred: these sums minus the mean of their group.
    std: what the steps show as the std of the group.
    by: the divisor of each response.
    """
    a = centred.value / by
    return Steps(group=Normalised(centred.mean, std, a, by), sums=s, advantages=a)


def _papo(batch: Batch) -> Steps:
    """Compute PAPO: the first reward normalised over its group, each other one over the rollouts that pass the first.

    The first reward is the outcome, 1 or 0. The others are normalised over the rollouts whose outcome is above 0, and
    add 0 for all other rollouts. No batch step follows.

    Raises InputError under leave-one-out. Source: arXiv 2603.26535, as its abstract has it, and a reimplementation,
    ScopeHLS/Process-Aware-Policy-Optimization@4d48531 roll/utils/functionals.py:778, where a single λ stands for the
    weights; no code of its authors was found.
    """
    c, outcome, process = batch.convention, batch.rewards[:1], batch.rewards[1:]
    expect(not c.leave_one_out, "convention", "one with whole groups, for papo normalises in a part of them", c.name)
    whole = normalise_in_groups(batch, outcome, c.group_eps)
    among_right = skipping_missing(batch.group)
    right = normalise(process.masked_fill(~(outcome > 0), torch.nan), among_right, ddof=c.ddof, eps=c.group_eps)
    lost = process if batch.skips_missing else batch.group.broadcast(batch.group.total(process))
    z = right.value.nan_to_num().masked_fill(lost.isnan(), torch.nan)  # 0 for a rollout that fails the outcome
    pairs = ((whole.mean, right.mean), (whole.std, right.std), (whole.value, z), (whole.by, right.by))
    mean, std, z, by = (torch.cat([torch.as_tensor(a), torch.as_tensor(b)]) for a, b in pairs)
    s = weighted_sum(batch, z)  # A_j = w_1 z_j1 + Σ_k>1 w_k z'_jk
    return Steps(group=Normalised(mean, std, z, by), z=z, sums=s, advantages=s)


def _by_variation(batch: Batch) -> Batch:
    """Return the batch with SAW's weights, w_k · K c_k / Σ_l c_l, with which GDPO then computes.

    c_k is std / |mean| of reward k over the batch, and 0 for a reward that never varies. K is the number of rewards
    whose weight is not 0; rewards of weight 0 take no part. Rewards that vary and have mean 0 take all of the weight.

    The authors' code has no w_k, and adds an ε of 1e-8 to each divisor; here ε is 0. The result depends on where a
    reward has its zero: their code first adds 3 to correctness, which lies between −3 and 3, and this function adds
    nothing. Their name for GDPO with these weights is gdpo-h, and for GRPO with them grpo-h. Source: arXiv 2606.07705
    and Zhaolutuan/SAW@119951f (gdpo-h) verl/trainer/ppo/ray_trainer.py:221.
    """
    r, group = batch.rewards, batch.group
    axes = (-1,) if batch.index is not None else (-2, -1)
    there = ~r.isnan() if batch.skips_missing else torch.ones_like(r, dtype=torch.bool)
    count = group.total(there.to(r)).sum(axes, keepdim=True)
    mean = group.total(r.masked_fill(~there, 0)).sum(axes, keepdim=True) / count
    squares = group.total((r - mean).masked_fill(~there, 0).square()).sum(axes, keepdim=True)
    low = r.masked_fill(~there, torch.inf).amin(axes, keepdim=True)
    varies = r.masked_fill(~there, -torch.inf).amax(axes, keepdim=True) > low
    # The degrees of freedom of the std cancel in c_k / Σ_l c_l. A reward that never varies gets c_k = 0, even where
    # round-off leaves it a std.
    counted, zero = batch.weights != 0, mean == 0
    c = (squares / count).sqrt() / mean.abs().masked_fill(zero, 1)
    c = c.masked_fill(~counted | (~varies & ~(mean.isnan() & (count > 0))), 0)
    c = c.masked_fill((zero & (c > 0)).any(0) & ~zero, 0)
    total = c.sum(0)
    return replace(batch, weights=batch.weights * (c / total.masked_fill(total == 0, 1) * counted.sum()))


def _unsaturated(batch: Batch) -> Batch:
    """Return the batch with SA-MRPO's weights, w_k (1 − s_k)^γ, with which GDPO then computes; γ is GAMMA.

    s_k is the mean of reward k over the batch, measured from 0 at the reward's lowest value to 1 at its highest. The
    paper takes the lowest and highest possible value as known. Here they are the lowest and highest value in the batch.
    For a reward of two values this is the same wherever the reward varies. Under a weight below 0, of which the paper
    says nothing, s_k is 0 at the highest value and 1 at the lowest. A reward that never varies gets weight 0. Source:
    arXiv 2608.16072, as reported; no code of its authors was found.
    """
    r, group = batch.rewards, batch.group
    axes = (-1,) if batch.index is not None else (-2, -1)
    missing = r.isnan()
    low = r.masked_fill(missing, torch.inf).amin(axes, keepdim=True)
    high = r.masked_fill(missing, -torch.inf).amax(axes, keepdim=True)
    # The sums are taken by the reduction of the groups, because in the infinite-group limit it counts each outcome as
    # often as it is likely.
    count = group.total((~missing).to(r)).sum(axes, keepdim=True)
    mean = group.total(r.nan_to_num() if batch.skips_missing else r).sum(axes, keepdim=True) / count
    left = torch.where(batch.weights < 0, mean - low, high - mean)
    # A reward that never varies adds 0 under any weight.
    varies = (high > low) & (count > 0)
    left = (left / (high - low)).clamp(0, 1).masked_fill(~varies, 0)
    return replace(batch, weights=batch.weights * left**GAMMA)


def _disagree(batch: Batch, z: Tensor, s: Tensor) -> Tensor:
    """Return, for each rollout, whether GD²PO drops it: (…, prompts, rollouts) or (responses,).

    It drops a rollout whose terms w_k z_k have both signs if |s| is less than THRESHOLD times Σ_k |w_k z_k|. A z that
    is missing or almost 0 has no sign.

    z: the normalised rewards.
    s: their weighted sums.
    """
    t, eps = batch.weights * z, torch.finfo(s.dtype).eps
    signed = z.abs() > max(_NO_SIGN, 8 * eps)
    both = ((t > 0) & signed).any(0) & ((t < 0) & signed).any(0)  # a missing reward has no sign
    # The threshold is lowered by a little, so that round-off decides nothing for a rollout exactly at it.
    return both & (s.abs() < (THRESHOLD - _ROUNDED * eps) * reduce(torch.add, t.abs().nan_to_num()))


def _gd2po(batch: Batch) -> Steps:
    """Compute GD²PO before its batch step: GDPO's sums, times the share of the group's rollouts that are not dropped.

    A rollout that is dropped gets 0. Source: arXiv 2606.16771 and the code in Qwen-Applications/GD2PO, which has no
    weights.
    """
    steps, group = _gdpo(batch), batch.group
    s = steps.sums
    dropped = _disagree(batch, steps.group.value, s)
    counted = (~s.isnan()).to(s) if batch.skips_missing else torch.ones_like(s)
    share = group.total(counted.masked_fill(dropped, 0)) / group.total(counted)
    kept = group.broadcast(share).masked_fill(dropped, 0)
    a = (s * kept).masked_fill((kept == 0) & ~s.isnan(), 0)  # 0 even where a sum is infinite
    return replace(steps, advantages=a, factors=kept)


def _over_kept(batch: Batch, s: Tensor) -> Normalised:
    """Return the sums `s` after GDPO's batch step over the rollouts that GD²PO does not drop; a dropped rollout gets 0.

    The mean of the sums of the kept rollouts need not be 0, and is subtracted.
    """
    c, over, steps = batch.convention, batch.last_step, _gdpo(batch)
    dropped = _disagree(batch, steps.group.value, steps.sums)
    lost = torch.zeros_like(over.total(s), dtype=torch.bool) if batch.skips_missing else over.total(s).isnan()
    if c.group_of_one == "nan":
        lost = lost | torch.as_tensor(over.count == 1, device=s.device)
    lost = over.broadcast(lost)
    # Sums that differ by round-off alone from one group to another count as equal.
    tolerance = -over.lowest(-s.abs().nan_to_num()) * (_ROUNDED * torch.finfo(s.dtype).eps)
    last = normalise(
        s.masked_fill(dropped, torch.nan),
        skipping_missing(over),
        ddof=c.ddof,
        eps=c.batch_eps,
        eps_to=c.batch_eps_to,
        tolerance=tolerance,
    )
    return replace(last, value=last.value.masked_fill(dropped, 0).masked_fill(lost, torch.nan))


OF_SUCCESSORS = {
    # MO-GRPO is as reported by those who build on it. TRL's `normalize_then_sum` computes the same, and then divides by
    # the std of the batch.
    "mo_grpo": Method(_gdpo, decoupled=True),
    "papo": Method(_papo, decoupled=True, by_order=True),
    "dvao": Method(_dvao),
    "saw": Method(_gdpo, over_batch, decoupled=True, prepare=_by_variation),
    "gd2po": Method(_gd2po, _over_kept, decoupled=True),
    "sa_mrpo": Method(_gdpo, over_batch, decoupled=True, prepare=_unsaturated),
    "corr_grpo": Method(_corr_grpo),
}
