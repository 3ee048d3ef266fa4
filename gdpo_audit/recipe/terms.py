"""The terms that a method multiplies by the weights and adds up, with the logged advantages that go with them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gdpo_audit.recipe.recipe import TOLERANCE, Tensors
from gdpo_audit.recipe.round_off import float32_error, float32_error_of_sums
from gdpo_core.numerics.batch import Batch
from gdpo_core.registry import method_for, undivided_terms

# The relative round-off of logged advantages; the bound of `float32_error` is about 6 times as large.
FLOAT32 = 2e-7
BOUND = 6
_LARGEST = 1e100  # the largest advantage; a larger number is none, as its square is infinite
# The methods that divide what they added up by a number of each group.
BY_GROUP = ("grpo", "max_rl")


@dataclass(frozen=True)
class Terms:
    """The terms that a method multiplies by the weights and adds up to one sum per response, and the method's units. A
    unit is a set of responses whose sums the method divides by one number: a group or a batch.
    """

    x: Tensor  # (rewards, responses); 0 where the response takes no part
    a: Tensor  # (responses,) logged advantages, 0 where the response takes no part
    included: Tensor  # (responses,) 1 where the response counts, else 0
    unread: Tensor  # (responses,) whether an advantage other than 0 is logged although the method can compute none
    round_off: Tensor  # (responses,) how large the round-off in x is, divided by that of the number 1
    rounding: Tensor  # (responses,) how far a may be from what it was before it was rounded; 0 where it takes no part
    unit: Tensor  # (responses,) the unit of each response: a group or a batch
    shifted: bool  # whether a mean of the unit that x does not show may have been subtracted
    batch: Tensor  # (units,) the batch of each unit

    def total(self, value: Tensor) -> Tensor:
        """Return (…, units) the sums of a value over the responses of each unit.

        value: (…, responses).
        """
        return value.new_zeros(*value.shape[:-1], len(self.batch)).index_add_(-1, self.unit, value)

    def mean(self, value: Tensor, trust: Tensor) -> Tensor:
        """Return (…, responses), for each response, the mean of a value over its unit (a group or a batch). Return 0
        everywhere unless `shifted`.

        value: (…, responses).
        trust: (responses,) the weight of each response in that mean.
        """
        if not self.shifted:
            return torch.zeros_like(value)
        weight = self.total(trust)
        return (self.total(value * trust) / weight.masked_fill(weight == 0, 1))[..., self.unit]

    def different(self, some: Tensor, group: Tensor) -> int:
        """Return how many different terms the responses of a group have, summed over all groups. A response's term is a
        vector of one number per reward.

        some: (responses,) whether a response counts.
        group: (responses,) the group of each response.
        """
        draw = torch.rand(len(self.x), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        mark, member = (self.x.T @ draw * 1e6).round()[some].numpy(), group[some].numpy()  # equal for equal terms
        order = np.lexsort((mark, member))
        mark, member = mark[order], member[order]
        return int(((mark[1:] != mark[:-1]) | (member[1:] != member[:-1])).sum()) + bool(len(order))

    def live_batches(self, batches: int) -> Tensor:
        """Return (batches,) whether each batch shows anything of the weights.

        It does if a response with a logged advantage has a term other than 0 for some reward, as where that reward
        varies in its group. A batch also counts if the log has an advantage other than 0 where the method gives none,
        since values are missing.

        batches: the number of batches.
        """
        varying = self.total(((self.x != 0).any(0) | self.unread).double())
        return varying.new_zeros(batches).index_add_(0, self.batch, varying) > 0


def terms_of(log: Tensors, batch: Batch, method: str) -> Terms:
    """Return the terms that a method multiplies by the weights and then adds up. They are the z-scores of each reward
    if the method computes them. Otherwise they are each reward minus the means that the method subtracts, not divided
    by anything.

    log: the logged advantages, with their groups, batches and rounding.
    batch: the rewards of the same log, read under a convention.
    method: the id of the method.
    """
    count, groups, logged = len(batch.rewards), log.group_of_response, log.advantages
    formula, batch = method_for(method, batch)
    if formula.decoupled:
        steps = formula.in_groups(batch)
        x, nothing = steps.group.value, steps.sums.isnan()
        round_off = float32_error("mo_grpo", batch, steps)
    else:
        x = undivided_terms(formula, batch)
        nothing = x.isnan().any(0)
        size = x.nan_to_num().square().flatten(1).mean(1).sqrt()
        alike = batch.with_weights(1 / size.masked_fill(size == 0, torch.inf))
        round_off = float32_error_of_sums(alike)
    x, nothing, there = x.nan_to_num().reshape(count, -1), nothing.flatten(), logged.abs() <= _LARGEST
    unread, nothing = nothing & there & (logged.abs() > TOLERANCE), nothing | ~there
    by_group = method in BY_GROUP or (method == "gdpo" and batch.convention.last_step == "group")
    return Terms(
        x=x.masked_fill(nothing, 0),
        a=logged.masked_fill(nothing, 0),
        included=(~nothing).to(x),
        unread=unread,
        rounding=log.rounding.masked_fill(nothing, 0),
        round_off=round_off.flatten().nan_to_num().expand(len(groups)) / (BOUND * FLOAT32),
        unit=groups if by_group else log.batch_of_response,
        shifted=formula.over_batch is not None and method != "grpo_batch_std",
        batch=log.batch if by_group else torch.arange(log.batches),
    )
