"""The terms that a method adds up, before they are weighted: one per reward and response."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gdpo_core.advantages import LOGGED_METHODS
from gdpo_core.batch import Batch
from gdpo_core.reproduce.recipe import Log, float32_error, prepared, with_weights

# Relative round-off of logged advantages.
FLOAT32 = 2e-7


@dataclass(frozen=True)
class Terms:
    """The terms of a method, and its units: the sets of responses whose sums are divided by one number."""

    x: Tensor  # (rewards, responses); 0 where the response takes no part
    a: Tensor  # (responses,) logged advantages, 0 where the response takes no part
    part: Tensor  # (responses,) 1 where it does, else 0
    noise: Tensor  # (responses,) round-off of x, relative to the round-off of 1
    unit: Tensor  # (responses,) the unit of each response: a group or a batch
    batch: Tensor  # (units,) the batch of each unit

    def total(self, value: Tensor) -> Tensor:
        """(…, responses) summed over each unit, (…, units)."""
        return value.new_zeros(*value.shape[:-1], len(self.batch)).index_add_(-1, self.unit, value)


def terms_of(log: Log, batch: Batch, method: str) -> Terms:
    """The terms, computed by the method itself: z under GDPO, else what each reward alone gives without std."""
    count, groups = len(batch.rewards), log.group_of_response
    if method == "gdpo":
        formula, batch = prepared(method, batch)
        steps = formula.in_groups(batch)
        x = steps.group.value  # z
        nothing = steps.sums.isnan()
        noise = float32_error(method, batch, steps)
    else:
        formula = LOGGED_METHODS["grpo_no_std"]
        x = torch.stack([formula(with_weights(batch, one)).advantages for one in torch.eye(count)])
        nothing = x.isnan().any(0)
        size = x.nan_to_num().square().flatten(1).mean(1).sqrt()
        alike = with_weights(batch, 1 / size.masked_fill(size == 0, torch.inf))
        noise = float32_error("grpo_no_std", alike, formula(alike))
    x, nothing = x.nan_to_num().reshape(count, -1), nothing.flatten() | ~log.advantages.isfinite()
    by_group = method == "grpo" or (method == "gdpo" and batch.convention.last_step == "group")
    return Terms(
        x=x.masked_fill(nothing, 0),
        a=log.advantages.masked_fill(nothing, 0),
        part=(~nothing).to(x),
        noise=noise.flatten().nan_to_num().expand(len(groups))
        / (4 * FLOAT32),  # the bound is about 4 times the usual round-off
        unit=groups if by_group else log.batch_of_response,
        batch=log.batch if by_group else torch.arange(log.batches),
    )


def live_batches(terms: Terms, batches: int) -> Tensor:
    """(batches,) whether some reward varies within a group of the batch, and advantages are logged there."""
    varies = torch.zeros(len(terms.batch)).index_add_(0, terms.unit, (terms.x != 0).any(0).float())
    return torch.zeros(batches).index_add_(0, terms.batch, varies) > 0
