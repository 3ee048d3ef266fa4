"""Rewards as the caller has them, read into one form, and the statistics over a group and over the batch."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from gdpo_core.conventions import PAPER, Convention
from gdpo_core.errors import expect
from gdpo_core.inputs import check_lengths, group_numbers, rewards_and_weights


@dataclass(frozen=True)
class Over:
    """What a statistic is taken over: the rollouts of a group, or every response of the batch.

    `count`, `total` and `lowest` are a value a group (or one for the batch), `spread` hands such a value back
    to each response.
    """

    count: Tensor
    total: Callable[[Tensor], Tensor]
    lowest: Callable[[Tensor], Tensor]
    spread: Callable[[Tensor], Tensor]


def along(x: Tensor, *dims: int) -> Over:
    return Over(
        count=x.new_tensor(prod(x.shape[d] for d in dims)),
        total=lambda x: x.sum(dims, keepdim=True),
        lowest=lambda x: x.amin(dims, keepdim=True),
        spread=lambda x: x,
    )


def _by_index(index: Tensor, groups: int, dtype) -> Over:
    return Over(
        count=index.bincount(minlength=groups).to(dtype),
        total=lambda x: x.new_zeros(*x.shape[:-1], groups).index_add_(-1, index, x),
        lowest=lambda x: x.new_full((*x.shape[:-1], groups), torch.inf).scatter_reduce_(
            -1, index.expand_as(x), x, "amin"
        ),
        spread=lambda x: x.index_select(-1, index),
    )


@dataclass(frozen=True)
class Batch:
    """Checked rewards with the reward axis first, so that every statistic runs over the last axes."""

    rewards: Tensor  # (rewards, …, prompts, rollouts), or (rewards, responses) with group ids; NaN = missing
    weights: Tensor  # (rewards, 1, …), broadcasts over the rewards
    missing: bool  # whether any reward is NaN
    group: Over
    convention: Convention
    index: Tensor | None  # (responses,) number of each response's group; None where the shape tells
    group_ids: tuple | None  # the caller's ids in the order of the group axis
    single: bool  # the caller gave one prompt without a prompt axis
    dtype: torch.dtype  # of what the caller gets back

    def in_float64(self) -> "Batch":
        """The same batch, computed in double precision."""
        r, w = self.rewards.double(), self.weights.double()
        return _grouped(r, w, self.missing, self.convention, self.index, self.group_ids, self.single, self.dtype)

    def group_index(self) -> Tensor:
        """(responses,) number of each response's group, in the order of the flattened responses."""
        if self.index is not None:
            return self.index
        prompts, rollouts = self.rewards.shape[-2:]
        return torch.arange(prompts, device=self.rewards.device).repeat_interleave(rollouts)

    def returned(self, x: Tensor) -> Tensor:
        """A tensor (…, prompts, rollouts) as the caller expects it: dtype, and no prompt axis where none was given."""
        return (x.squeeze(-2) if self.single else x).to(self.dtype)


def read(rewards, *, weights=None, groups=None, lengths=None, convention: Convention = PAPER) -> Batch:
    """Check what the caller gave and bring it into one form; every fault is an InputError."""
    expect(isinstance(convention, Convention), "convention", "a gdpo_core.Convention", repr(convention))
    r, w, dtype = rewards_and_weights(rewards, weights, grouped=groups is not None)
    if lengths is not None:
        check_lengths(lengths, tuple(r.shape[:-1]))
    single = groups is None and r.ndim == 2
    x = (r[None] if single else r).movedim(-1, 0)  # (rewards, prompts, rollouts) or (rewards, responses)
    index, ids = (None, None) if groups is None else group_numbers(groups, r.shape[0], r.device)
    w = w.reshape(-1, *[1] * (x.ndim - 1))
    return _grouped(x, w, bool(x.isnan().any()), convention, index, ids, single, dtype)


def batch_of(x: Tensor, weights: Tensor, convention: Convention = PAPER) -> Batch:
    """Rewards (rewards, …, prompts, rollouts) known to be complete and finite, without the checks of `read`."""
    return _grouped(x, weights, False, convention, None, None, False, x.dtype)


def _grouped(x: Tensor, w: Tensor, missing: bool, convention: Convention, index, ids, single: bool, dtype) -> Batch:
    group = along(x, -1) if index is None else _by_index(index, len(ids), x.dtype)
    return Batch(x, w, missing, group, convention, index, ids, single, dtype)


@dataclass(frozen=True)
class Normalised:
    """A mean and a standard deviation (the reduced axes kept) and the values they normalise."""

    mean: Tensor
    std: Tensor
    value: Tensor


def normalise(
    x: Tensor,
    over: Over,
    *,
    eps: float | None,
    ddof: int,
    missing: bool,
    noise: Tensor | float = 0.0,
    zero: Tensor | None = None,
) -> Normalised:
    """(x − mean) / (std + eps) over what `over` says; NaN stays NaN, and what is constant gives exactly 0.

    Values are taken from `zero`, by default their own minimum: equal values become exact zeros whatever they are,
    so no constant turns into round-off that the division blows up. A std or mean of at most `noise` is zero.
    eps None: centre without dividing.
    """
    if zero is None:
        zero = over.lowest(x.nan_to_num(nan=torch.inf) if missing else x)
    shifted = x - over.spread(zero)
    count = over.total((~x.isnan()).to(x)) if missing else over.count
    mean = over.total(shifted.nan_to_num() if missing else shifted) / count
    mean = mean.masked_fill(mean.abs() <= noise, 0)
    centred = shifted - over.spread(mean)
    squares = centred.square()
    std = (over.total(squares.nan_to_num() if missing else squares) / (count - ddof)).sqrt()
    std = std.masked_fill((std <= noise) | (count <= ddof), 0)
    divisor = torch.ones_like(std) if eps is None else std + eps
    return Normalised(zero + mean, std, centred / over.spread(divisor.masked_fill(std == 0, torch.inf)))
