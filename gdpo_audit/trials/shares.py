"""A search for weights under which each reward makes up its wanted share of the update."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gdpo_audit.recipe.recipe import tensors_of
from gdpo_audit.sums.sums import Array
from gdpo_audit.trials.trials import Trials
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.batch import Reduction, skipping_missing
from gdpo_core.numerics.statistics import centre
from gdpo_core.registry import method_for

_ROUNDS, _EXACT = 200, 1e-4  # the search for weights ends after so many rounds, or when all shares are so near
# The smallest product of a weight and a spread, relative to the largest: with a smaller one a reward could be left out.
_LEAST = 1e-3


def weights_for(trials: Trials, method: str, wanted: Mapping[int, float]) -> tuple[float, ...] | None:
    """Return weights, one per reward and rounded to three significant digits, under which a method gives each reward
    about its wanted share of the update.

    None if no share is wanted, or if a reward in `wanted` never differs. If the search has not come near enough after
    `_ROUNDS` rounds, the last weights are returned. A weight of 0 may become positive; no other weight changes its
    sign. The largest absolute weight of the rewards in `wanted` stays as it is, or becomes 1 if all of their weights
    are 0.

    The share of reward k is Σ_u w_k (M_u w)_k / d_u², divided by Σ_u w'M_u w / d_u², where w' is w transposed. Here u
    counts the units, which are groups or batches: the method divides each unit by one number d_u. M_u holds, for each
    two rewards, the sum over the unit of the products of their terms. The term of a reward is the number that its
    weight multiplies.

    trials: the sample of the log on which the shares are computed.
    method: "gdpo", "grpo", "grpo_no_std" or "grpo_batch_std".
    wanted: the share of each reward by the index of the reward; all shares are above 0 and sum to 1. A reward that is
        not in `wanted` keeps its weight, but the search computes the update as if that weight were 0.
    """
    f = trials.facts
    products, divisors = _products(trials, method)
    keys = list(wanted)
    sign = np.sign(np.where(np.array(f.basis.weights) == 0, 1.0, f.basis.weights))
    target = np.array([wanted.get(k, 0.0) for k in range(len(sign))])
    spread = np.sqrt(np.einsum("ukk->k", products))
    if not keys or (spread[keys] == 0).any():
        return None
    size = np.divide(target > 0, spread, out=np.zeros_like(spread), where=spread > 0)
    for _ in range(_ROUNDS):
        w = sign * size
        updates = w * np.einsum("ukl,l->uk", products, w)
        by = np.ones(len(updates)) if divisors is None else np.einsum("k,ukl,l->u", w, divisors, w)
        inverse = np.divide(1.0, by, out=np.zeros_like(by), where=by > 0)
        share = (updates * inverse[:, None]).sum(0)
        share = share / share.sum() if share.sum() > 0 else share
        if np.abs(share - target).max() <= _EXACT:
            break
        # A share goes by about the square of its weight; steps stay small where rewards are correlated.
        size *= np.clip(target / np.maximum(share, 1e-3), 0.25, 4.0) ** 0.25
        loud = size * spread
        size = np.where(target > 0, np.maximum(loud, _LEAST * loud.max()) / np.where(spread > 0, spread, 1), 0.0)
    largest = max(abs(f.basis.weights[k]) for k in keys) or 1.0
    weights = np.where(target > 0, sign * size * largest / size.max(), f.basis.weights)
    return tuple(float(f"{x:.3g}") for x in weights)


def _products(trials: Trials, method: str) -> tuple[Array, Array | None]:
    """Return two stacks of matrices, (units, rewards, rewards), for the sample of `trials`. A unit is a set of
    responses that the method divides by one number: a group or a batch.

    The first stack holds Σ x_k x_l over the responses of each unit, where x_k is the number that the weight of reward k
    multiplies. Under GDPO that is the reward normalised in its group, and under other methods the reward minus its mean
    in the group.

    The second stack holds a matrix D for each unit: with the weights w, w'D w is the square of the number by which the
    method divides. For "grpo_no_std", which divides by nothing, None is returned in place of this stack.
    """
    f = trials.facts
    c = ALL_CONVENTIONS[f.basis.convention]
    by_group = method == "grpo" or (method == "gdpo" and c.last_step == "group")
    products, divisors = [], []
    for table in trials.sample:
        log = tensors_of(table, f.rewards)
        batch = log.read(replace(c, last_step="responses"))
        formula, batch = method_for("gdpo" if method == "gdpo" else "grpo_no_std", batch)
        z = formula.in_groups(batch).z
        terms = _centre(batch.rewards, batch.group) if z is None else z.nan_to_num()
        unit = log.group_of_response if by_group else log.batch_of_response
        products.append(_in_units(terms.flatten(1), unit))
        # The batch's std is that of the sums themselves, whose means differ from group to group.
        whole = _centre(batch.rewards, batch.all_responses) if method == "grpo_batch_std" else terms
        degrees = (unit.bincount() - 1).clamp(min=1).numpy()
        divisors.append(_in_units(whole.flatten(1), unit) / degrees[:, None, None])
    return np.concatenate(products), None if method == "grpo_no_std" else np.concatenate(divisors)


def _centre(x: Tensor, over: Reduction) -> Tensor:
    """Return x minus its mean over a set of responses, with 0 where x is NaN."""
    return centre(x, skipping_missing(over))[1].nan_to_num()


def _in_units(x: Tensor, unit: Tensor) -> Array:
    """Return (units, rewards, rewards) the sums of x_k x_l over the responses of each unit, for each two rewards k and
    l. A unit is a group or a batch.

    x: (rewards, responses) a value of each reward.
    unit: (responses,) the number of each response's unit.
    """
    pairs = torch.einsum("kj,lj->jkl", x, x)
    return pairs.new_zeros(int(unit.max()) + 1, *pairs.shape[1:]).index_add_(0, unit, pairs).numpy()
