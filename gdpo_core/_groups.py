"""Rewards as a batch, and statistics over its groups in which equal values are equal and round-off is no signal.

Rewards stand first: (rewards, prompts, rollouts), or (rewards, responses) where each response has a group id, so that
every statistic runs over the last axes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np
import torch
from torch import Tensor

from gdpo_core._errors import InputError, expect
from gdpo_core._inputs import group_numbers, rewards_and_weights, token_counts
from gdpo_core._types import ArrayLike, Groups
from gdpo_core.conventions import PAPER, Convention

# As many rewards as fit, with what is computed from them, into the cache of a processor.
_PIECE = 1 << 19
# Numbers added one after the other lose digits of float32 with every one; more than this are added in float64.
_IN_A_ROW = 1024
# By how many units in the last place the mean of many values may be wrong.
_MEAN_UNITS = 32
# What is left of a sum that cancels, in units in the last place.
_CANCELLED_UNITS = 8
# Of another reward, no reward may hide more than this part, however close to round-off it is itself.
_LARGEST = 0.02
# Numbers that are multiples of 1 / GRAIN below GRAINY, or whole ones below 2^24, float32 adds up exactly.
GRAIN, GRAINY = 1024, 2.0**14


# --- what a statistic is taken over --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """What a statistic is taken over: the rollouts of each group, or all responses of a batch.

    `counted` (how many values count), `total`, `squares` (the total of the squares), `lowest` and `member` (any one of
    the values) give one value per group, or one for the batch; `broadcast` copies such a value to every response.
    """

    count: Tensor | int
    counted: Callable[[Tensor], Tensor | int]
    total: Callable[[Tensor], Tensor]
    squares: Callable[[Tensor], Tensor]
    lowest: Callable[[Tensor], Tensor]
    member: Callable[[Tensor], Tensor]
    broadcast: Callable[[Tensor], Tensor]

    @property
    def spread(self) -> Callable[[Tensor], Tensor]:  # shim: the lead removes it
        return self.broadcast


def over_axes(shape: torch.Size, *axes: int) -> Reduction:
    """Over these axes, counted from the end, which stay as axes of length 1."""
    count = prod(map(shape.__getitem__, axes))

    def squares(x: Tensor) -> Tensor:
        if axes == (-1,) and count <= _IN_A_ROW:  # torch's norm needs no memory, but adds in a row
            return torch.linalg.vector_norm(x, 2, -1, keepdim=True).square_()
        return x.square().sum(axes, keepdim=True)

    def member(x: Tensor) -> Tensor:
        return reduce(lambda x, axis: x.narrow(axis, 0, 1), axes, x)

    return Reduction(
        count=count,
        counted=lambda x: count,
        total=lambda x: x.sum(axes, keepdim=True),
        squares=squares,
        lowest=lambda x: x.amin(axes, keepdim=True),
        member=member,
        broadcast=lambda x: x,
    )


def over_ids(index: Tensor, groups: int) -> Reduction:
    """Over the responses of one number; index: (responses,) from 0."""

    def lowest(x: Tensor) -> Tensor:
        highest = torch.iinfo(x.dtype).max if x.dtype == torch.int64 else torch.inf
        return x.new_full((*x.shape[:-1], groups), highest).scatter_reduce_(-1, index.expand_as(x), x, "amin")

    def total(x: Tensor) -> Tensor:
        start = x.new_zeros(*x.shape[:-1], groups, dtype=torch.float64 if longest > _IN_A_ROW else x.dtype)
        return start.index_add_(-1, index, x.to(start)).to(x)

    count = index.bincount(minlength=groups)
    longest = int(count.max()) if len(index) > _IN_A_ROW else len(index)
    first = lowest(torch.arange(len(index), device=index.device))
    return Reduction(
        count=count,
        counted=lambda x: count,
        total=total,
        squares=lambda x: total(x.square()),
        lowest=lowest,
        member=lambda x: x.index_select(-1, first),
        broadcast=lambda x: x.index_select(-1, index),
    )


def over_batches_of_prompts(batch_of: Tensor, batches: int, rollouts: int) -> Reduction:
    """Over the responses of each batch; batch_of: (prompts,) the number of each prompt's batch."""
    prompts = over_ids(batch_of, batches)
    count = prompts.count * rollouts
    return Reduction(
        count=count,
        counted=lambda x: count,
        total=lambda x: prompts.total(x.sum(-1)),
        squares=lambda x: prompts.total(x.square().sum(-1)),
        lowest=lambda x: prompts.lowest(x.amin(-1)),
        member=lambda x: prompts.member(x[..., 0]),
        broadcast=lambda x: prompts.broadcast(x)[..., None],
    )


def weighted(over: Reduction, weights: Tensor) -> Reduction:
    """The same, with each response counted `weights` times."""
    count = over.total(weights)
    return replace(
        over,
        count=count,
        counted=lambda x: count,
        total=lambda x: over.total(x * weights),
        squares=lambda x: over.total(x.square() * weights),
    )


def skipping_missing(over: Reduction) -> Reduction:
    """The same, with NaN left out; else it makes a mean and a standard deviation NaN."""
    return replace(
        over,
        counted=lambda x: over.total((~x.isnan()).to(x)),
        total=lambda x: over.total(x.nan_to_num()),
        squares=lambda x: over.squares(x.nan_to_num()),
        member=lambda x: over.lowest(x.nan_to_num(nan=torch.inf)),
    )


# --- the batch -----------------------------------------------------------------------------------------------------


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
    single: bool = False  # the caller gave one prompt without a prompt axis
    dtype: torch.dtype  # of what the caller gets back
    batches: Reduction | None = None  # over the responses of each batch, where this holds several
    exact: bool = False  # weighted sums of these rewards are known to be without round-off
    weight: float = 0.0  # shim: unused, the lead removes it

    @property
    def skips_missing(self) -> bool:
        """Whether statistics and sums have missing rewards to skip."""
        return self.missing and self.convention.missing == "skipped"

    @property
    def each_group(self) -> Reduction:
        """Over the rollouts of each group, as the convention takes missing rewards."""
        return skipping_missing(self.group) if self.skips_missing else self.group

    @property
    def all_responses(self) -> Reduction:
        """Over all responses of the batch, or of each batch, missing ones included."""
        return self.batches or over_axes(self.rewards.shape, *((-1,) if self.rewards.ndim == 2 else (-2, -1)))

    @property
    def last_step(self) -> Reduction:
        """Over what GDPO's last step averages: all responses, all tokens or each group."""
        c = self.convention
        over = self.group if c.last_step == "group" else self.all_responses
        if c.last_step == "tokens":
            if self.lengths is None:
                raise InputError(f"lengths: expected tokens per response, by which {c.name} weighs, got none")
            over = weighted(over, self.lengths.to(self.rewards))
        return skipping_missing(over) if self.skips_missing else over

    def in_float64(self) -> "Batch":
        """The same batch, computed in double precision."""
        return replace(self, rewards=self.rewards.double(), weights=self.weights.double())

    def without_missing(self) -> "Batch":
        """The same batch with 0 for every missing reward."""
        return replace(self, rewards=self.rewards.nan_to_num(nan=0.0), missing=False)

    def pieces(self) -> Iterator[tuple[slice, "Batch"]]:
        """The batch in pieces of whole groups that fit into the cache, each with the slice of its prompts."""
        if self.index is not None or self.rewards.ndim != 3 or self.rewards.is_cuda:
            yield slice(None), self
            return
        rewards, prompts, rollouts = self.rewards.shape
        at_once = max(1, _PIECE // (rewards * rollouts))
        for first in range(0, prompts, at_once):
            piece = slice(first, first + at_once)
            yield piece, replace(self, rewards=self.rewards[:, piece])

    def group_index(self) -> Tensor:
        """(responses,) number of each response's group, in the order of the flattened responses."""
        if self.index is not None:
            return self.index
        prompts, rollouts = self.rewards.shape[-2:]
        return torch.arange(prompts, device=self.rewards.device).repeat_interleave(rollouts)

    def zero_unrewarded(self, a: Tensor) -> Tensor:
        """The advantages, with 0 for a response without any reward, unless the convention counts it."""
        left_out = self.skips_missing and not self.convention.empty_counts
        return a.masked_fill(self.rewards.isnan().all(0), 0) if left_out else a

    def to_caller(self, x: Tensor) -> Tensor:
        """A tensor (…, prompts, rollouts) in the caller's dtype, without the prompt axis where none was given."""
        return (x.squeeze(-2) if self.single else x).to(self.dtype)

    @property
    def skips(self) -> bool:  # shim: the lead removes it
        return self.skips_missing

    def learnt(self, a: Tensor) -> Tensor:  # shim: the lead removes it
        return self.zero_unrewarded(a)

    def returned(self, x: Tensor) -> Tensor:  # shim: the lead removes it
        return self.to_caller(x)


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
    x = r.movedim(-1, 0).contiguous()  # (rewards, prompts, rollouts) or (rewards, responses)
    if groups is None:
        index, ids = None, None
        group, group_count = over_axes(x.shape, -1), len(r)
    else:
        index, ids = group_numbers(groups, r.shape[0], r.device)
        group, group_count = over_ids(index, len(ids)), len(ids)
    several = None
    if batches is not None:
        batch_of, batch_ids = group_numbers(batches, group_count, x.device)
        if index is None:
            several = over_batches_of_prompts(batch_of, len(batch_ids), x.shape[-1])
        else:
            several = over_ids(batch_of[index], len(batch_ids))
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
        batches=several,
    )


def batch_of(x: Tensor, weights: Tensor, *, exact: bool = False) -> Batch:
    """Rewards that are complete and finite, without the checks of `read`.

    x: (rewards, …, rollouts, prompts), since statistics along the last axis but one are several times as fast.
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


# --- mean and standard deviation -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Normalised:
    """A mean and a standard deviation (the reduced axes kept) and the values they normalise.

    With leave-one-out, mean and standard deviation are those of the other rollouts, so each response has its own.
    """

    mean: Tensor
    std: Tensor
    value: Tensor


def normalise(
    x: Tensor,
    over: Reduction,
    *,
    ddof: int,
    eps: float = 0.0,
    eps_to: str = "std",
    tolerance: Tensor | None = None,
) -> Normalised:
    """(x − mean) / (std + eps); equal values give exactly 0. tolerance: a std of at most this is taken as 0."""
    mean, deviation = centre(x, over)
    std = std_of(deviation, over, ddof)
    if tolerance is not None:
        std = std.masked_fill(std <= tolerance, 0)
    return Normalised(mean, std, deviation.div_(over.broadcast(divisor(std, eps, eps_to))))


def centre(x: Tensor, over: Reduction) -> tuple[Tensor, Tensor]:
    """The mean, and each value minus it.

    The mean is that of the distances from one of the values: equal values have distance 0, so no constant leaves
    round-off that a division would blow up.
    """
    start = over.member(x)
    distance = x - over.broadcast(start)
    shift = over.total(distance) / over.counted(x)
    return start + shift, distance.sub_(over.broadcast(shift))


def std_of(deviation: Tensor, over: Reduction, ddof: int) -> Tensor:
    """The standard deviation of values whose mean is taken off; 0 of a single one, whatever it is divided by."""
    degrees = over.counted(deviation) - ddof
    degrees = max(degrees, 1) if isinstance(degrees, int) else degrees.masked_fill(degrees <= 0, 1)
    return root(over.squares(deviation) / degrees)


def divisor(std: Tensor, eps: float, eps_to: str = "std") -> Tensor:
    """What deviations are divided by; infinity where the std is 0, so that the result is 0."""
    by = root(std.square() + eps) if eps_to == "variance" else std + eps
    return by.masked_fill(std == 0, torch.inf)


def root(x: Tensor) -> Tensor:
    """√x as IEEE 754 rounds it; torch's own may differ between processors, and between two places of one tensor.

    >>> root(torch.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """
    if x.device.type != "cpu":
        return x.sqrt()
    out = torch.empty_like(x)
    np.sqrt(x.numpy(), out=out.numpy())
    return out


# --- inside the groups ---------------------------------------------------------------------------------------------


def weighted_sum(batch: Batch, x: Tensor) -> Tensor:
    """Σ_k w_k x_k over the rewards that are not missing; where all are, NaN or, if the convention counts them, 0."""
    skips = batch.skips_missing
    terms = [weight * x_k for weight, x_k in zip(batch.weights, x, strict=True)]
    terms = [term.nan_to_num_() for term in terms] if skips else terms
    # One reward after the other: torch's sum takes some rollouts in another order, and equal ones would part.
    s = reduce(Tensor.add_, terms)
    if not skips or batch.convention.empty_counts:
        return s
    return s.masked_fill(batch.rewards.isnan().all(0), torch.nan)


def normalise_in_groups(batch: Batch, x: Tensor, eps: float, tolerance: Tensor | None = None) -> Normalised:
    """x minus the mean of its group, divided by its std plus eps; tolerance: as in `normalise`."""
    in_group = deviations(batch, x, tolerance)
    if batch.convention.leave_one_out:  # where the others agree, nothing is divided
        by = torch.where(in_group.std > 0, in_group.std + eps, 1)
    else:
        by = batch.group.broadcast(divisor(in_group.std, eps))
    return replace(in_group, value=in_group.value.div_(by))


def normalise_sums(batch: Batch, s: Tensor) -> Normalised:
    """The sums of the raw rewards, normalised inside their group; what only round-off tells apart is equal."""
    return normalise_in_groups(batch, s, batch.convention.sum_eps, _sum_tolerance(batch))


def centre_sums(batch: Batch, s: Tensor) -> Normalised:
    """The same without the division."""
    in_group = deviations(batch, s, _sum_tolerance(batch))
    if batch.convention.leave_one_out:
        return in_group
    return replace(in_group, value=in_group.value.masked_fill(batch.group.broadcast(in_group.std == 0), 0))


def deviations(batch: Batch, x: Tensor, tolerance: Tensor | None = None) -> Normalised:
    """Mean and std of each group as the convention has them, and the values minus the mean."""
    c, over = batch.convention, batch.each_group
    mean, deviation = centre(x, over)
    if c.leave_one_out:
        return _against_the_others(x, over, mean, deviation, c.ddof, tolerance)
    std = std_of(deviation, over, c.ddof)
    if tolerance is not None:
        std = std.masked_fill(std <= tolerance, 0)
    if c.group_of_one == "raw":
        alone = torch.as_tensor(over.counted(x) == 1, device=x.device)
        mean, std = mean.masked_fill(alone, 0), std.masked_fill(alone, 1)
        deviation = torch.where(over.broadcast(alone), x, deviation)
    return Normalised(mean, std, deviation)


def _against_the_others(
    x: Tensor, over: Reduction, mean: Tensor, deviation: Tensor, ddof: int, tolerance: Tensor | None
) -> Normalised:
    """Each value against the mean and standard deviation of the others in its group.

    With n values, c_j = x_j − mean and S = Σ c²: the others' mean is mean − c_j / (n − 1), their sum of squared
    deviations S − c_j² n / (n − 1).
    """
    n = over.broadcast(torch.as_tensor(over.count, dtype=x.dtype, device=x.device))
    others = n - 1
    shift = (deviation / others).masked_fill(others == 0, 0)
    squares = over.broadcast(over.squares(deviation))
    squares = (squares - deviation.square() * (n / others)).clamp(min=0)
    mean, value = over.broadcast(mean) - shift, deviation + shift

    # That difference loses digits where c_j² is most of S, so at the value farthest out the others are added up alone.
    size = deviation.abs()
    far = size == over.broadcast(-over.lowest(-size))
    far &= (over.broadcast(over.total(far.to(x))) == 1) & (others > 0)
    low = over.lowest(x.masked_fill(far, torch.inf))
    distance = (x - over.broadcast(low)).masked_fill(far, 0)
    mean_distance = over.total(distance) / (over.count - 1)
    near = (distance - over.broadcast(mean_distance)).masked_fill(far, 0)
    squares = torch.where(far, over.broadcast(over.squares(near)), squares)
    mean = torch.where(far, over.broadcast(low + mean_distance), mean)
    value = torch.where(far, x - over.broadcast(low) - over.broadcast(mean_distance), value)

    std = root(squares / (others - ddof)).masked_fill(others <= ddof, 0)
    if tolerance is not None:
        std = std.masked_fill(std <= over.broadcast(tolerance), 0)
        value = value.masked_fill(value.abs() <= over.broadcast(tolerance), 0)
    return Normalised(mean, std, value)


# --- what is round-off and not signal ------------------------------------------------------------------------------


def adds_exactly(terms: Tensor) -> bool:
    """Whether any of these numbers can be added up without rounding, in float32 too."""
    return bool((terms * GRAIN == (terms * GRAIN).round()).all() and terms.abs().sum() < GRAINY)


def _sum_tolerance(batch: Batch) -> Tensor | None:
    """Per group, the std of Σ_k w_k r_k up to which it is round-off; None where no sum is rounded."""
    count = len(batch.rewards)
    if count == 1 or batch.exact:
        return None
    terms = batch.weights * batch.rewards
    terms = terms.nan_to_num_() if batch.skips_missing else terms
    largest = -batch.group.lowest(-terms.abs().sum(0))
    grain = torch.where(largest < GRAINY, GRAIN, 1).to(terms)
    rounded = (terms.mul_(batch.group.broadcast(grain)).frac_() != 0).any(0)
    if not rounded.any() and bool((largest < 2**24).all()):
        return None
    tolerance = largest * (count * torch.finfo(terms.dtype).eps)
    exact = (batch.group.total(rounded.to(terms)) == 0) & (largest < 2**24)
    return tolerance.masked_fill(exact, 0)


def zero_cancelled(batch: Batch, s: Tensor, z: Normalised) -> Tensor:
    """Σ_k w_k z_k, s, with exact zeros in the groups in which the normalised rewards cancel."""
    group = batch.each_group
    size = root(group.squares(s) / group.count)
    small = (size > 0) & (size <= _LARGEST * batch.weights.abs().sum())
    if not small.any():
        return s
    live = (z.std > 0) | batch.convention.leave_one_out
    # The size of a reward beside its own std.
    beside = (z.mean.abs() + z.std) / z.std.masked_fill(z.std == 0, 1)
    tolerance = (beside * (_CANCELLED_UNITS * torch.finfo(s.dtype).eps)).clamp(max=_LARGEST).masked_fill(~live, 0)
    tolerance = (batch.weights.abs() * tolerance).sum(0)
    if batch.convention.leave_one_out:  # a value per response; the group takes the largest
        tolerance = -group.lowest(-tolerance)
    cancelled = small & (size <= tolerance)
    return s.masked_fill(group.broadcast(cancelled) & ~s.isnan(), 0)


def centre_zero_sums(batch: Batch, s: Tensor, over: Reduction) -> tuple[Tensor, Tensor]:
    """The mean over the batch of Σ_k w_k z_k, and the sums minus it; zeros stay zeros.

    z sums to 0 in each group, so that the mean is 0, or over tokens may be; subtracting its round-off would make
    signal of the zeros. With the mean of the other rollouts, or a group of one that keeps its reward, z need not.
    """
    c = batch.convention
    if c.leave_one_out or (c.group_of_one == "raw" and bool(torch.as_tensor(batch.group.count == 1).any())):
        return centre(s, over)
    if c.last_step == "tokens":
        count = over.counted(s)
        mean, size = over.total(s) / count, root(over.squares(s) / count)
        mean = mean.masked_fill(mean.abs() <= _MEAN_UNITS * torch.finfo(s.dtype).eps * size, 0)
        return mean, s - over.broadcast(mean)
    mean = torch.zeros_like(over.member(s))
    return mean.masked_fill(torch.as_tensor(over.counted(s) == 0), torch.nan), s  # NaN: of nothing
