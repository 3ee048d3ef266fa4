"""The class `Batch`, which holds checked rewards in groups, and the functions that make one.

Every method computes with the layout of a `Batch`. The axis of rewards stands first: (rewards, prompts, rollouts), or
(rewards, responses) where each response has a group id. So every statistic runs over the last axes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import torch
from torch import Tensor

from gdpo_core.conventions import PAPER, Convention
from gdpo_core.numerics.reductions import (
    Reduction,
    over_axes,
    over_batches_of_prompts,
    over_ids,
    skipping_missing,
    weighted,
)
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.inputs import (
    ArrayLike,
    Groups,
    group_numbers,
    rewards_and_weights,
    shows_keywords_of,
    token_counts,
)

# The number of rewards that fit into the cache of a processor together with what is computed from them.
_PIECE = 1 << 19


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Checked rewards with their groups, weights and convention: all that a method needs to compute advantages.

    Without group ids the rewards have an axis of prompts, whose rollouts are a group. With group ids they have a single
    axis of responses, and `index` says which group each is in. A `Reduction` takes sums, means and other statistics,
    here over each group or each batch.
    """

    rewards: Tensor  # (rewards, …, prompts, rollouts), or (rewards, responses) with group ids; NaN = missing
    weights: Tensor  # (rewards, 1, …), broadcasts over the rewards
    missing: bool  # whether any reward is NaN
    group: Reduction  # over the rollouts of each group, missing ones included
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
        """Whether a reward is missing and the convention leaves missing rewards out of statistics and sums."""
        return self.missing and self.convention.missing == "skipped"

    @property
    def each_group(self) -> Reduction:
        """The reduction over the rollouts of each group; it skips missing rewards where `skips_missing` is true."""
        return skipping_missing(self.group) if self.skips_missing else self.group

    @property
    def all_responses(self) -> Reduction:
        """The reduction over all responses; where this `Batch` holds several batches, over the responses of each.

        It does not skip missing rewards, whatever the convention says.
        """
        return self.batches or over_axes(self.rewards.shape, *((-1,) if self.rewards.ndim == 2 else (-2, -1)))

    @property
    def last_step(self) -> Reduction:
        """The reduction of GDPO's batch step: over all responses, all tokens or each group, as the convention says.

        Where this `Batch` holds several batches, each of them is taken by itself. The reduction skips missing rewards
        where `skips_missing` is true. Raises InputError where the convention averages over tokens and the batch has no
        lengths.
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

    def with_weights(self, weights: Sequence[float] | Tensor) -> "Batch":
        """Return this batch with other weights, one per reward, in the dtype of its rewards."""
        w = torch.as_tensor(weights, dtype=self.rewards.dtype)
        return replace(self, weights=w.view_as(self.weights))

    def without_missing(self) -> "Batch":
        """Return this batch with 0 in place of every missing reward."""
        return replace(self, rewards=self.rewards.nan_to_num(nan=0.0), missing=False)

    def pieces(self) -> Iterator["Batch"]:
        """Yield the batch in pieces of whole groups, in order.

        A piece is small enough for the cache of a processor, or it is a single group. Only the rewards are cut; every
        piece keeps the other fields of the whole batch. A small batch, a batch with group ids and a batch on a GPU are
        a single piece.
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
        """Return the advantages `a`, with 0 for a response without any reward if the convention leaves it out.

        `a` comes back unchanged where no reward is missing, where missing rewards propagate, and where the convention
        counts a response without any reward.
        """
        left_out = self.skips_missing and not self.convention.empty_counts
        return a.masked_fill(self.rewards.isnan().all(0), 0) if left_out else a

    def to_caller(self, x: Tensor) -> Tensor:
        """Return a tensor in the caller's dtype, without the prompt axis if the caller gave a single prompt without it.

        x: (…, prompts, rollouts), or (…, responses) with group ids.
        """
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
    """Return a `Batch` of the rewards and options that a caller gave, after checking them. Raises InputError.

    rewards, weights, groups, lengths, convention: as in `grpo`.
    batches: for each group, the id of the batch to which it belongs; None if all responses are one batch. The ids stand
        in the order of the prompts, or in that of `Batch.group_ids` if `groups` is given.
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
    """Return the reduction over the responses of each batch. Raises InputError.

    batches: the id of each group's batch.
    groups: how many groups there are.
    x: the rewards of the `Batch`.
    index: (responses,) the number of each response's group, None where x has an axis of prompts.
    """
    numbers, ids = group_numbers(batches, groups, x.device, name="batches", thing="group")
    if index is None:
        return over_batches_of_prompts(numbers, len(ids), x.shape[-1])
    return over_ids(numbers[index], len(ids))


def batch_of(x: Tensor, weights: Tensor, *, exact: bool = False) -> Batch:
    """Return complete and finite rewards as a `Batch` under the paper's convention, without checking them.

    x: (rewards, …, rollouts, prompts). The rollouts stand on the last axis but one because statistics along that axis
        are several times as fast as along the last.
    weights: (rewards, 1, …), with as many axes as x.
    exact: whether weighted sums of the rewards are known to be without round-off.
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


class MethodOptions(TypedDict, total=False):
    """The keyword arguments of `grpo`, whose docstring explains each.

    Other public functions that compute advantages, such as `gdpo`, `explain`, `collapse` and `push`, take them too.
    """

    weights: ArrayLike | None
    groups: Groups | None
    lengths: ArrayLike | None
    convention: Convention


with_options = shows_keywords_of(make_batch, MethodOptions.__annotations__)
