"""Rewards as a batch of groups, checked and in one form for every method.

Rewards stand first: (rewards, prompts, rollouts), or (rewards, responses) where each response has a group id, so that
every statistic runs over the last axes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypedDict

import torch
from torch import Tensor

from gdpo_core._errors import InputError, expect
from gdpo_core._inputs import (
    ArrayLike,
    Groups,
    group_numbers,
    rewards_and_weights,
    shows_keywords_of,
    token_counts,
)
from gdpo_core._reductions import (
    Reduction,
    over_axes,
    over_batches_of_prompts,
    over_ids,
    skipping_missing,
    weighted,
)
from gdpo_core.conventions import PAPER, Convention

# The number of rewards that fit, with what is computed from them, into the cache of a processor.
_PIECE = 1 << 19


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Checked rewards, and all that the methods have to know about them."""

    rewards: Tensor  # (rewards, …, prompts, rollouts), or (rewards, responses) with group ids; NaN = missing
    weights: Tensor  # (rewards, 1, …), broadcasts over the rewards
    missing: bool  # whether any reward is NaN
    group: Reduction
    convention: Convention
    lengths: Tensor | None = None  # tokens per response, (…, prompts, rollouts) or (responses,)
    index: Tensor | None = None  # (responses,) each response's group; None where the rewards have a prompt axis
    group_ids: tuple | None = None  # the caller's ids, in the order of the groups
    single: bool = False  # whether the caller gave one prompt without a prompt axis
    dtype: torch.dtype  # the dtype of what the caller gets back
    batches: Reduction | None = None  # over the responses of each batch, if this holds several batches
    exact: bool = False  # whether weighted sums of these rewards are known to be without round-off

    @property
    def skips_missing(self) -> bool:
        """Whether statistics and sums have missing rewards to skip."""
        return self.missing and self.convention.missing == "skipped"

    @property
    def each_group(self) -> Reduction:
        """The reduction over the rollouts of each group, which skips missing rewards if the convention does."""
        return skipping_missing(self.group) if self.skips_missing else self.group

    @property
    def all_responses(self) -> Reduction:
        """The reduction over all responses of the batch, or of each batch, missing ones included."""
        return self.batches or over_axes(self.rewards.shape, *((-1,) if self.rewards.ndim == 2 else (-2, -1)))

    @property
    def last_step(self) -> Reduction:
        """The reduction of GDPO's batch step: over all responses, all tokens or each group.

        Raises InputError where the convention averages over tokens and the batch has no lengths.
        """
        c = self.convention
        over = self.group if c.last_step == "group" else self.all_responses
        if c.last_step == "tokens":
            if self.lengths is None:
                raise InputError(f"lengths: expected tokens per response, by which {c.name} weighs, got none")
            over = weighted(over, self.lengths.to(self.rewards))
        return skipping_missing(over) if self.skips_missing else over

    def in_float64(self) -> "Batch":
        """Return this batch with rewards and weights in double precision."""
        return replace(self, rewards=self.rewards.double(), weights=self.weights.double())

    def without_missing(self) -> "Batch":
        """Return this batch with 0 for every missing reward."""
        return replace(self, rewards=self.rewards.nan_to_num(nan=0.0), missing=False)

    def pieces(self) -> Iterator["Batch"]:
        """Yield the batch in pieces of whole groups that fit into the cache, in order.

        A batch with group ids, or on a GPU, is one piece.
        """
        if self.index is not None or self.rewards.numel() <= _PIECE or self.rewards.is_cuda:
            yield self
            return
        rewards, prompts, rollouts = self.rewards.shape
        at_once = max(1, _PIECE // (rewards * rollouts))
        for first in range(0, prompts, at_once):
            yield replace(self, rewards=self.rewards[:, first : first + at_once])

    def group_index(self) -> Tensor:
        """Return (responses,) the number of each response's group, in the order of the flattened responses."""
        if self.index is not None:
            return self.index
        prompts, rollouts = self.rewards.shape[-2:]
        return torch.arange(prompts, device=self.rewards.device).repeat_interleave(rollouts)

    def zero_unrewarded(self, a: Tensor) -> Tensor:
        """Return the advantages with 0 for a response without any reward, unless the convention counts it."""
        left_out = self.skips_missing and not self.convention.empty_counts
        return a.masked_fill(self.rewards.isnan().all(0), 0) if left_out else a

    def to_caller(self, x: Tensor) -> Tensor:
        """Return a tensor (…, prompts, rollouts) in the caller's dtype, with a prompt axis only if one was given."""
        return (x.squeeze(-2) if self.single else x).to(self.dtype)


def make_batch(
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Groups | None = None,
    lengths: ArrayLike | None = None,
    batches: Groups | None = None,
    convention: Convention = PAPER,
) -> Batch:
    """Check rewards and options as the caller gave them, and return them as a `Batch`. Raises InputError.

    batches: the rewards are of several batches; one id per group, in the order of the groups.
    """
    expect(isinstance(convention, Convention), "convention", "a gdpo_core.Convention", repr(convention))
    r, w, dtype, missing = rewards_and_weights(rewards, weights, grouped=groups is not None)
    tokens = None if lengths is None else token_counts(lengths, tuple(r.shape[:-1])).to(r.device)
    single = groups is None and r.ndim == 2
    if single:
        r, tokens = r[None], None if tokens is None else tokens[None]
    x = r.movedim(-1, 0).contiguous()  # (rewards, prompts, rollouts) or (rewards, responses)
    if groups is None:
        index, ids = None, None
        group, group_count = over_axes(x.shape, -1), len(r)
    else:
        index, ids = group_numbers(groups, r.shape[0], r.device)
        group, group_count = over_ids(index, len(ids)), len(ids)
    return Batch(
        rewards=x,
        weights=w.reshape(-1, *[1] * (x.ndim - 1)),
        missing=missing,
        group=group,
        convention=convention,
        lengths=tokens,
        index=index,
        group_ids=ids,
        single=single,
        dtype=dtype,
        batches=None if batches is None else _over_batches(batches, group_count, x, index),
    )


def _over_batches(batches: Groups, groups: int, x: Tensor, index: Tensor | None) -> Reduction:
    """Return the reduction over the responses of each batch; batches: an id per group; index: each response's group."""
    numbers, ids = group_numbers(batches, groups, x.device)
    if index is None:
        return over_batches_of_prompts(numbers, len(ids), x.shape[-1])
    return over_ids(numbers[index], len(ids))


def batch_of(x: Tensor, weights: Tensor, *, exact: bool = False) -> Batch:
    """Return complete and finite rewards as a batch, without the checks of `make_batch`.

    x: (rewards, …, rollouts, prompts), since statistics along the last axis but one are several times as fast;
    weights: (rewards, 1, …), one axis for each of x; exact: as in `Batch`.
    """
    return Batch(
        rewards=x,
        weights=weights,
        missing=False,
        group=over_axes(x.shape, -2),
        convention=PAPER,
        dtype=x.dtype,
        exact=exact,
    )


class Options(TypedDict, total=False):
    """The options of every function of rewards; `grpo` says what each is."""

    weights: ArrayLike | None
    groups: Groups | None
    lengths: ArrayLike | None
    convention: Convention


with_options = shows_keywords_of(make_batch, Options.__annotations__)
