"""A recipe for advantages, what it makes of a log, and how far that is from what is logged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_core._errors import expect
from gdpo_core._groups import Batch, read
from gdpo_core._statistics import GRAIN, ROUNDED, normalised_in_float32
from gdpo_core.advantages import Steps, method_for
from gdpo_core.conventions import Convention
from gdpo_core.frameworks import CONVENTIONS

# How far a logged advantage may be from the recipe's, in addition to the framework's float32 round-off.
TOLERANCE = 2e-5
# Two logged advantages farther apart than this differ by more than round-off.
_DIFFERENT = 1e-3
# Multiples of the same advantages may differ by this part of their size.
_MULTIPLE = 1e-4


@dataclass(frozen=True)
class Recipe:
    """How advantages were made: the method, convention and weights that reproduce the logged ones, or most of them."""

    method: str  # grpo, grpo_no_std, grpo_batch_std or gdpo
    convention: str  # a key of CONVENTIONS
    weights: tuple[float, ...]  # one per reward; those that are unknown are only one choice of many
    unknown: tuple[int, ...]  # rewards whose weight the log does not determine, such as one that never varies
    up_to_scale: bool  # whether the log leaves a common factor of the weights open


@dataclass(frozen=True)
class Log:
    """A table's columns as tensors for the methods; groups and batches are numbered from 0 as they appear."""

    rewards: Tensor  # (prompts, rollouts, rewards), or (responses, rewards) where groups differ in size; NaN = missing
    group: Tensor | None  # (responses,) the group of each response; None where all groups have one size
    batch: Tensor  # (groups,) the batch of each group
    lengths: Tensor | None  # (prompts, rollouts) or (responses,) tokens
    advantages: Tensor  # (responses,) as logged; NaN = none

    def read(self, convention: Convention, weights: Sequence[float] | None = None) -> Batch:
        """The log as a `Batch` under a convention; weights: one per reward, 1 by default."""
        lengths = self.lengths if convention.last_step == "tokens" else None
        return read(
            self.rewards,
            weights=weights,
            groups=self.group,
            lengths=lengths,
            batches=self.batch,
            convention=convention,
        )

    @property
    def group_of_response(self) -> Tensor:
        """(responses,) the group of each response."""
        if self.group is not None:
            return self.group
        prompts, rollouts = self.rewards.shape[:2]
        return torch.arange(prompts).repeat_interleave(rollouts)

    @property
    def batch_of_response(self) -> Tensor:
        """(responses,) the batch of each response."""
        return self.batch[self.group_of_response]

    @property
    def batches(self) -> int:
        return int(self.batch[-1]) + 1


def read_log(table: pl.DataFrame, rewards: Sequence[str]) -> Log:
    """The table of a run as tensors. The rows of a group, and of a batch, have to follow one another."""
    for name in ("batch", "group", *rewards):
        expect(name in table.columns, "table", f"a column {name!r}", f"only {', '.join(table.columns)}")
    expect(len(table) > 0 and len(rewards) > 0, "table", "at least one row and one reward", f"shape {table.shape}")
    values = torch.empty(len(rewards), len(table), dtype=torch.float64)  # (rewards, responses)
    for row, name in zip(values.numpy(), rewards, strict=True):
        row[:] = table[name].to_numpy()
    advantages = torch.full((len(table),), torch.nan, dtype=torch.float64)
    if "advantage" in table.columns:
        advantages = torch.from_numpy(table["advantage"].cast(pl.Float64).to_numpy().copy())
    lengths = None
    if holds_lengths(table, rewards) and not table["length"].null_count():
        tokens = table["length"].to_numpy()
        # Lengths that are no counts of tokens cannot be weights; such a log is read without them.
        if bool(((tokens >= 1) & (tokens == np.floor(tokens)) & np.isfinite(tokens)).all()):
            lengths = torch.from_numpy(tokens.copy())

    first = torch.from_numpy(starts_of(table["group"].to_numpy()))  # (groups,) the first response of each
    ids = table["batch"].to_numpy()[first.numpy()]
    batch = torch.from_numpy(np.concatenate([[0], np.cumsum(ids[1:] != ids[:-1])]))
    sizes = torch.diff(first, append=torch.tensor([len(table)]))
    if bool((sizes == sizes[0]).all()):
        shape = (len(first), int(sizes[0]))
        lengths = None if lengths is None else lengths.view(shape)
        return Log(values.view(-1, *shape).movedim(0, -1), None, batch, lengths, advantages)
    group = torch.arange(len(first)).repeat_interleave(sizes)
    return Log(values.T, group, batch, lengths, advantages)


def holds_lengths(table: pl.DataFrame, rewards: Sequence[str]) -> bool:
    """Whether the column `length` holds the tokens of each response: a reward can have that name too."""
    return "length" in table.columns and "length" not in rewards


def starts_of(number: np.ndarray) -> np.ndarray:
    """Where each run of equal numbers starts.

    >>> starts_of(np.array([4, 4, 7, 4])).tolist()
    [0, 2, 3]
    """
    return np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1])


def with_weights(batch: Batch, weights: Sequence[float] | Tensor) -> Batch:
    """The same batch with other weights, one per reward, without reading it again."""
    w = torch.as_tensor(weights, dtype=batch.rewards.dtype)
    return replace(batch, weights=w.view_as(batch.weights))


@dataclass(frozen=True)
class Comparison:
    """Logged advantages beside computed ones, one number per response."""

    computed: Tensor
    error: Tensor  # the distance; NaN where nothing is logged, infinite where the method gives no number
    allowed: Tensor  # the largest error that counts as reproduced: TOLERANCE plus the framework's float32 round-off


def compare(log: Log, recipe: Recipe) -> Comparison:
    """The log's advantages beside the recipe's; a batch is reproduced if no error is larger than allowed."""
    return compare_with(log, recipe.method, log.read(CONVENTIONS[recipe.convention], recipe.weights))


def compare_with(log: Log, method: str, batch: Batch) -> Comparison:
    """The same for a method and a batch that holds the log's rewards, the convention and the weights."""
    formula, batch = method_for(method, batch)
    steps = formula(batch)
    computed = batch.zero_unrewarded(steps.advantages).flatten()
    error = (log.advantages - computed).abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)
    allowed = TOLERANCE + float32_error(method, batch, steps).nan_to_num().flatten()
    return Comparison(computed, error.masked_fill_(log.advantages.isnan(), torch.nan), allowed.expand(len(error)))


def same_direction(log: Log, comparison: Comparison) -> Tensor:
    """(groups,) whether a group's logged advantages are a positive multiple of the computed ones.

    False where an advantage of the group is missing. A group that is a multiple and not reproduced was scaled together
    with other responses: an evaluation wrote into the same file.
    """
    index, computed = log.group_of_response, comparison.computed

    def total(x: Tensor) -> Tensor:
        return x.new_zeros(len(log.batch)).index_add_(0, index, x)

    size = total(computed.square())
    factor = total(computed * log.advantages) / size.masked_fill(size == 0, 1)
    distance = (log.advantages - factor[index] * computed).abs()
    near = distance <= comparison.allowed + _MULTIPLE * log.advantages.abs()
    return (total((~near).double()) == 0) & ((factor > 0) | (size == 0))


def hidden_inputs(table: pl.DataFrame, rewards: Sequence[str]) -> int:
    """The number of groups in which two responses have equal rewards, and lengths if known, but different advantages.

    Such advantages depend on something that the log does not hold. 0 where no advantages are logged.
    """
    if "advantage" not in table.columns:
        return 0
    same = ["group", *rewards, *["length"] * holds_lengths(table, rewards)]
    advantage = pl.col("advantage").fill_nan(None)
    ranges = table.lazy().group_by(same).agg((advantage.max() - advantage.min()).alias("range"))
    groups = ranges.filter(pl.col("range") > _DIFFERENT).select(pl.col("group").n_unique())
    return int(groups.collect().item())


def float32_error(method: str, batch: Batch, steps: Steps) -> Tensor:
    """A bound on the round-off of a framework that computes in float32; a small std enlarges it.

    (…, prompts, rollouts) or (responses,), or a single 0. It is 0 where the values of a group add up exactly.
    """
    c, group, in_z = batch.convention, batch.group, steps.z is not None
    terms = batch.rewards if in_z else batch.weights * batch.rewards
    terms = terms.nan_to_num() if batch.missing else terms
    rounded = (terms * GRAIN).frac_() != 0
    if not rounded.any():
        return terms.new_zeros(1)
    error = ROUNDED * group.total(terms.abs()) / group.count * (group.total(rounded.to(terms)) > 0)
    error = error if in_z else error.sum(0)
    if method in ("grpo", "gdpo"):
        std = steps.group.std
        if c.leave_one_out:  # one std per response; the bound is that of the smallest
            std = group.lowest(std.masked_fill(std == 0, 1))
        error = normalised_in_float32(error, std, c.group_eps if in_z else c.sum_eps, group.count)
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
