"""The caller's rewards in one form, and the statistics over a group and over the batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import overload

import numpy as np
import torch
from torch import Tensor

from gdpo_core._types import ArrayLike, Groups
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.errors import expect
from gdpo_core.inputs import group_numbers, rewards_and_weights, token_counts

# As many rewards as fit, with what is computed from them, into the cache of a processor.
_PART = 1 << 20
# Numbers added one after the other lose digits of float32 with every one; more than this are added in another way.
_IN_A_ROW = 1024


@dataclass(frozen=True)
class Over:
    """What a statistic is taken over: the rollouts of each group, or all responses of the batch.

    `count`, `total`, `norm` (the root of the total of squares), `lowest` and `member` (any one of its values) give one
    value per group, or one for the batch; `spread` copies such a value to every response it was taken over.
    """

    count: Tensor | int
    total: Callable[[Tensor], Tensor]
    norm: Callable[[Tensor], Tensor]
    lowest: Callable[[Tensor], Tensor]
    member: Callable[[Tensor], Tensor]
    spread: Callable[[Tensor], Tensor]


def along(x: Tensor, *dims: int) -> Over:
    return Over(
        count=prod(x.shape[d] for d in dims),
        total=lambda x: x.sum(dims, keepdim=True),
        norm=lambda x: _norm(x, dims),
        lowest=lambda x: x.amin(dims, keepdim=True),
        member=lambda x: x[(..., *[slice(1) if d - x.ndim in dims else slice(None) for d in range(x.ndim)])],
        spread=lambda x: x,
    )


def _norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """torch's own norm needs no memory for the squares, but is fast along the last axis only and adds in a row."""
    if dims != (-1,):
        return root(x.square().sum(dims, keepdim=True))
    if x.shape[-1] <= _IN_A_ROW:
        return torch.linalg.vector_norm(x, 2, -1, keepdim=True)
    pieces, rest = x.shape[-1] // _IN_A_ROW, x.shape[-1] % _IN_A_ROW
    norms = [torch.linalg.vector_norm(x.narrow(-1, 0, pieces * _IN_A_ROW).unflatten(-1, (pieces, _IN_A_ROW)), 2, -1)]
    norms += [torch.linalg.vector_norm(x.narrow(-1, -rest, rest), 2, -1, keepdim=True)] if rest else []
    return root(torch.cat(norms, -1).square().sum(-1, keepdim=True))


@overload
def root(x: Tensor) -> Tensor: ...
@overload
def root(x: int) -> float: ...
def root(x: Tensor | int) -> Tensor | float:
    """√x as IEEE 754 rounds it; torch's own may differ between processors, and between two places of one tensor.

    >>> root(torch.tensor([4.0, 9.0])), root(16)
    (tensor([2., 3.]), 4.0)
    """
    if isinstance(x, int):
        return sqrt(x)
    if x.device.type != "cpu":
        return x.sqrt()
    out = torch.empty_like(x)
    np.sqrt(x.numpy(), out=out.numpy())
    return out


def whole(x: Tensor) -> Over:
    """Over the batch, which is the last axes of x. A large batch is squared piece by piece: fresh memory is slow."""
    over = along(x, *((-2, -1) if x.ndim > 1 else (-1,)))
    if x.ndim == 1 or x.numel() <= _PART:
        return over
    return replace(over, norm=lambda x: root(over.total(_norm(x, (-1,)).square())))


def weighted(over: Over, weights: Tensor) -> Over:
    """The same, with each response counted `weights` times."""
    return replace(
        over,
        count=over.total(weights),
        total=lambda x: over.total(x * weights),
        norm=lambda x: root(over.total(x.square() * weights)),
    )


def _by_index(index: Tensor, groups: int, dtype: torch.dtype) -> Over:
    def lowest(x: Tensor) -> Tensor:
        start = x.new_full((*x.shape[:-1], groups), torch.iinfo(x.dtype).max if x.dtype == torch.int64 else torch.inf)
        return start.scatter_reduce_(-1, index.expand_as(x), x, "amin")

    def total(x: Tensor) -> Tensor:
        start = x.new_zeros(*x.shape[:-1], groups, dtype=torch.float64 if longest > _IN_A_ROW else x.dtype)
        return start.index_add_(-1, index, x.to(start)).to(x)

    count = index.bincount(minlength=groups)
    longest = int(count.max()) if len(index) > _IN_A_ROW else len(index)
    first = lowest(torch.arange(len(index), device=index.device))
    return Over(
        count=count.to(dtype),
        total=total,
        norm=lambda x: root(total(x.square())),
        lowest=lowest,
        member=lambda x: x.index_select(-1, first),
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
    lengths: Tensor | None  # tokens per response, (…, prompts, rollouts) or (responses,)
    index: Tensor | None  # (responses,) the number of each response's group; None where the rewards have a prompt axis
    group_ids: tuple | None  # the caller's ids, in the order of the groups
    single: bool  # the caller gave one prompt without a prompt axis
    dtype: torch.dtype  # of what the caller gets back
    weight: float  # Σ |w|
    batches: Over | None = None  # what GDPO's last step runs over, where this holds several batches
    scratch: bool = False  # the rewards are a copy that the steps may overwrite
    exact: bool = False  # weighted sums of these rewards are known to be without round-off

    @property
    def skips(self) -> bool:
        """Whether statistics and sums have missing rewards to skip."""
        return self.missing and self.convention.missing == "skipped"

    def in_float64(self) -> "Batch":
        """The same batch, computed in double precision."""
        if self.rewards.dtype == torch.float64:
            return self
        return self._with(self.rewards.double(), self.weights.double())

    def without_missing(self) -> "Batch":
        """The same batch with 0 for every missing reward."""
        return replace(self, rewards=self.rewards.nan_to_num(nan=0.0), missing=False)

    def parts(self) -> Iterator[tuple[slice, "Batch"]]:
        """The batch in pieces of whole groups, each with the slice of its prompts; all use the same memory in turn.

        A piece and what is computed from it stay in the cache; fresh memory takes longer than the arithmetic.
        """
        prompts, rollouts = self.rewards.shape[-2:]
        at_once = max(1, _PART // (len(self.rewards) * rollouts))
        if self.index is not None or self.rewards.ndim != 3 or self.rewards.is_cuda:
            yield slice(None), self
            return
        memory = self.rewards.new_empty(len(self.rewards) * min(at_once, prompts) * rollouts)
        for first in range(0, prompts, at_once):
            piece = self.rewards[:, first : first + at_once]
            copy = memory[: piece.numel()].view(piece.shape).copy_(piece)
            yield slice(first, first + at_once), replace(self._with(copy, self.weights), scratch=True)

    def _with(self, rewards: Tensor, weights: Tensor) -> "Batch":
        return replace(self, rewards=rewards, weights=weights, group=_groups(rewards, self.index, self.group_ids))

    def group_index(self) -> Tensor:
        """(responses,) number of each response's group, in the order of the flattened responses."""
        if self.index is not None:
            return self.index
        prompts, rollouts = self.rewards.shape[-2:]
        return torch.arange(prompts, device=self.rewards.device).repeat_interleave(rollouts)

    def learnt(self, a: Tensor) -> Tensor:
        """The advantages, with 0 for a response without any reward, unless the convention counts it."""
        out = self.skips and not self.convention.empty_counts
        return a.masked_fill(self.rewards.isnan().all(0), 0) if out else a

    def returned(self, x: Tensor) -> Tensor:
        """A tensor (…, prompts, rollouts) in the caller's dtype, without the prompt axis where none was given."""
        return (x.squeeze(-2) if self.single else x).to(self.dtype)


def read(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    batches: Groups | None = None,
    convention: Convention = PAPER,
) -> Batch:
    """Check what the caller gave and bring it into one form; every fault is an InputError.

    batches: the rewards are of several batches; one id per group, in the order of the groups.
    """
    expect(isinstance(convention, Convention), "convention", "a gdpo_core.Convention", repr(convention))
    r, w, dtype, missing = rewards_and_weights(rewards, weights, grouped=groups is not None)
    tokens = None if lengths is None else token_counts(lengths, tuple(r.shape[:-1])).to(r.device)
    single = groups is None and r.ndim == 2
    if single:
        r, tokens = r[None], None if tokens is None else tokens[None]
    x = r.movedim(-1, 0)  # (rewards, prompts, rollouts) or (rewards, responses)
    index, ids = (None, None) if groups is None else group_numbers(groups, r.shape[0], r.device)
    weight = w.abs().sum().item()
    w = w.reshape(-1, *[1] * (x.ndim - 1))
    group = _groups(x, index, ids)
    several = None if batches is None else _by_batch(batches, x, index, len(ids) if ids else x.shape[1])
    return Batch(x, w, missing, group, convention, tokens, index, ids, single, dtype, weight, several)


def batch_of(x: Tensor, weights: Tensor, weight: float, *, exact: bool = False) -> Batch:
    """Rewards that are complete and finite, without the checks of `read`; the steps may overwrite them.

    x: (rewards, …, rollouts, prompts), since statistics along the last axis but one are several times as fast;
    weight: Σ |w|.
    """
    group = along(x, -2)
    return Batch(x, weights, False, group, PAPER, None, None, None, False, x.dtype, weight, scratch=True, exact=exact)


def _by_batch(batches: Groups, x: Tensor, index: Tensor | None, groups: int) -> Over:
    """Over each of several batches; x: (rewards, prompts, rollouts), or (rewards, responses) with their `index`."""
    number, ids = group_numbers(batches, groups, x.device)
    if index is not None:
        return _by_index(number[index], len(ids), x.dtype)
    over = _by_index(number, len(ids), x.dtype)
    return Over(
        count=over.count * x.shape[-1],
        total=lambda x: over.total(x.sum(-1)),
        norm=lambda x: root(over.total(x.square().sum(-1))),
        lowest=lambda x: over.lowest(x.amin(-1)),
        member=lambda x: over.member(x[..., 0]),
        spread=lambda x: over.spread(x)[..., None],
    )


def _groups(x: Tensor, index: Tensor | None, ids: tuple | None) -> Over:
    return along(x, -1) if index is None or ids is None else _by_index(index, len(ids), x.dtype)
