"""The round-off of a framework that computes advantages in float32: a bound on it for each response."""

import torch
from torch import Tensor

from gdpo_core.methods import Steps
from gdpo_core.numerics.batch import Batch
from gdpo_core.numerics.statistics import GRAIN, ROUNDED, normalised_in_float32

# Where all values of a group are equal, leave-one-out may divide the round-off of their mean by that of their std, its
# square root.
_ALIKE = 1e-3


def float32_error(method: str, batch: Batch, steps: Steps) -> Tensor:
    """Return a bound on how far round-off may move each advantage in a framework that computes in float32.

    The bound is (…, prompts, rollouts) or (responses,), or a single 0 of the shape (1,) if all values add up exactly. A
    small std makes it larger. It is 0 in a group whose values add up exactly, unless a step over the batch brings in
    the round-off of other groups.

    method: the id of the method.
    batch: the rewards, with the convention and the weights.
    steps: the method's computation of the advantages from `batch` in float64.
    """
    c, group, in_z = batch.convention, batch.group, steps.z is not None
    error = _error_of_means(batch, each=in_z)
    if error is None:
        return batch.rewards.new_zeros(1)
    if steps.z is not None or method in ("grpo", "max_rl"):
        std = steps.group.std
        alike = error.new_zeros(1)
        if c.leave_one_out:  # each response has its own std, and the bound is that of the smallest
            alike = (group.lowest(-std) == 0) * (error > 0)
            std = group.lowest(std.masked_fill(std == 0, 1))
        eps = 0.0 if method == "max_rl" else c.group_eps if in_z else c.sum_eps  # MaxRL adds no eps
        error = normalised_in_float32(error, std, eps, group.count)
        error = error + _ALIKE * alike
    error = (batch.weights.abs() * error).sum(0) if in_z else error
    error = group.broadcast(error) + torch.zeros_like(steps.advantages)
    if steps.batch is None:
        return error
    over = batch.group if in_z and c.last_step == "group" else batch.all_responses
    count = over.broadcast(over.total(torch.ones_like(error)))
    if in_z:  # the round-off of one group moves the mean and the std of its whole batch
        typical = (over.broadcast(over.total(error.square())) / count).sqrt()
        error = error + typical * (1 + steps.advantages.abs().nan_to_num())
    return normalised_in_float32(error, over.broadcast(steps.batch.std), c.batch_eps if in_z else c.sum_eps, count)


def float32_error_of_sums(batch: Batch) -> Tensor:
    """Return a bound on how far round-off may move each weighted sum of rewards, less the mean of its group, in a
    framework that computes in float32. Its shape is that of the bound which `float32_error` returns.
    """
    error = _error_of_means(batch, each=False)
    return batch.rewards.new_zeros(1) if error is None else batch.group.broadcast(error).expand(batch.rewards.shape[1:])


def _error_of_means(batch: Batch, each: bool) -> Tensor | None:
    """Return a bound on the round-off of the mean of each group, or None if no mean has any.

    each: whether the means are those of each reward, with the axis of rewards first, or those of the weighted sums of
        the rewards.
    """
    group, terms = batch.group, batch.rewards if each else batch.weights * batch.rewards
    terms = terms.nan_to_num() if batch.missing else terms
    rounded = (terms * GRAIN).frac_() != 0
    if not rounded.any():
        return None
    inexact = group.total(rounded.to(terms)) > 0
    if not each:  # a sum rounds at its own size, whichever of its rewards is no round number
        inexact = inexact.any(0, keepdim=True)
    error = ROUNDED * group.total(terms.abs()) / group.count * inexact
    return error if each else error.sum(0)
