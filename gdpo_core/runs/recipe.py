"""A recipe for advantages, what it makes of a log, and how far that is from what is logged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_core._groups import Batch, make_batch
from gdpo_core._statistics import GRAIN, ROUNDED, normalised_in_float32
from gdpo_core.conventions import Convention
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.methods import Steps
from gdpo_core.registry import method_for

# How far a logged advantage may be from the recipe's, in addition to the framework's float32 round-off.
TOLERANCE = 2e-5
# Where all of a group are equal, leave-one-out may divide the round-off of their mean by that of their std, its root.
_ALIKE = 1e-3
# Two logged advantages farther apart than this differ by more than round-off.
_DIFFERENT = 1e-3
# Multiples of the same advantages may differ by this part of their size.
_MULTIPLE = 1e-4
# Numbers that a log is rounded to: decimals, or the bits of a float's significand and its least exponent. Coarse first.
GRIDS: dict[str, int | tuple[int, int]] = {
    **{f"{n} decimals": n for n in (2, 3, 4)},
    "bf16": (8, -126),
    "float16": (11, -14),
}
_SAME = 1e-7  # the relative distance of a number from the same one in float32
_SIMPLE = (20, 64)
_FITTED = 1.5  # times the rounding, as weights that are fitted to rounded numbers come only near


@dataclass(frozen=True)
class Recipe:
    """How advantages were made: the method, convention and weights that reproduce the logged ones, or most of them."""

    method: str  # a key of NAMES
    convention: str  # a key of ALL_CONVENTIONS
    weights: tuple[float, ...]  # one per reward; those that are unknown are only one choice of many
    unknown: tuple[int, ...]  # rewards whose weight the log does not determine, such as one that never varies
    up_to_scale: bool  # whether the log leaves a common factor of the weights open
    # What was done with the advantages afterwards, and how coarsely they, or the rewards, are logged.
    clipped_at: float = inf
    scaled: bool = False  # each batch times a factor of its own
    grid: str = ""  # of GRIDS
    rewards_grid: str = ""

    @property
    def known(self) -> tuple[float | None, ...]:
        """The weights; None where the log does not show one."""
        return tuple(None if k in self.unknown else w for k, w in enumerate(self.weights))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What came after the method, in words that follow it in a sentence.

        >>> Recipe("grpo", "trl", (1.0,), (), False, clipped_at=2.0, grid="4 decimals").remarks
        ('clipped at ±2', 'logged with 4 decimals')
        """
        grids = {"logged": self.grid, "from rewards that are logged": self.rewards_grid}
        return (
            *[f"clipped at ±{self.clipped_at:g}"] * (self.clipped_at < inf),
            *["each batch times a factor of its own"] * self.scaled,
            *(f"{what} {'with' if grid.endswith('decimals') else 'in'} {grid}" for what, grid in grids.items() if grid),
        )


@dataclass(frozen=True)
class Tensors:
    """A table's columns as tensors for the methods; groups and batches are numbered from 0 as they appear."""

    rewards: Tensor  # (prompts, rollouts, rewards), or (responses, rewards) where groups differ in size; NaN = missing
    group: Tensor | None  # (responses,) the group of each response; None where all groups have one size
    batch: Tensor  # (groups,) the batch of each group
    lengths: Tensor | None  # (prompts, rollouts) or (responses,) tokens
    advantages: Tensor  # (responses,) as logged; NaN = none
    # What a recipe says came after the method.
    clipped_at: float = inf
    scaled: bool = False
    grid: str = ""
    rewards_grid: str = ""

    @property
    def after_the_method(self) -> dict[str, Any]:
        """The same as fields of a recipe."""
        return {name: getattr(self, name) for name in ("clipped_at", "scaled", "grid", "rewards_grid")}

    def of_batches(self, chosen: Tensor) -> "Tensors":
        """The log of these batches alone; chosen: (batches,) yes or no."""
        groups, responses = chosen[self.batch], chosen[self.batch_of_response]
        _, batch = torch.unique_consecutive(self.batch[groups], return_inverse=True)
        if self.group is None:
            rows, group = groups, None
        else:
            rows, group = responses, torch.unique_consecutive(self.group[responses], return_inverse=True)[1]
        return replace(
            self,
            rewards=self.rewards[rows],
            group=group,
            batch=batch,
            lengths=None if self.lengths is None else self.lengths[rows],
            advantages=self.advantages[responses],
        )

    @property
    def unclipped(self) -> Tensor:
        """(responses,) the advantages, NaN where clipping took them away."""
        if self.clipped_at == inf:
            return self.advantages
        return self.advantages.masked_fill(self.advantages.abs() >= self.clipped_at * (1 - _SAME), torch.nan)

    @property
    def rounding(self) -> Tensor:
        """(responses,) how far each logged advantage may be from what it was before it was rounded."""
        return half_step(self.grid, self.advantages.nan_to_num())

    @property
    def rewards_rounding(self) -> Tensor | None:
        """The same of the rewards, (rewards, …); 0 in a column of simple numbers. None without such a grid."""
        if not self.rewards_grid:
            return None
        r = self.rewards.movedim(-1, 0).nan_to_num()
        simple = torch.tensor([is_simple(column) for column in r])
        return half_step(self.rewards_grid, r).masked_fill(simple.view(-1, *[1] * (r.ndim - 1)), 0)

    def read(self, convention: Convention, weights: Sequence[float] | None = None) -> Batch:
        """The log as a `Batch` under a convention; weights: one per reward, 1 by default."""
        lengths = self._batch.lengths if convention.last_step == "tokens" else None
        batch = replace(self._batch, convention=convention, lengths=lengths)
        if weights is None:
            return batch
        return with_weights(batch, weights)

    @cached_property
    def _batch(self) -> Batch:
        return make_batch(self.rewards, groups=self.group, lengths=self.lengths, batches=self.batch)

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


def tensors_of(table: pl.DataFrame, rewards: Sequence[str]) -> Tensors:
    """The table of a run as tensors. The rows of a group, and of a batch, have to follow one another."""
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
        return Tensors(values.view(-1, *shape).movedim(0, -1), None, batch, lengths, advantages)
    group = torch.arange(len(first)).repeat_interleave(sizes)
    return Tensors(values.T, group, batch, lengths, advantages)


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


def compare(log: Tensors, recipe: Recipe) -> Comparison:
    """The log's advantages beside the recipe's; a batch is reproduced if no error is larger than allowed."""
    batch = log.read(ALL_CONVENTIONS[recipe.convention], recipe.weights)
    after = {name: getattr(recipe, name) for name in log.after_the_method}
    return compare_with(replace(log, **after), recipe.method, batch)


def compare_with(log: Tensors, method: str, batch: Batch) -> Comparison:
    """The same for a method and a batch that holds the log's rewards, the convention and the weights."""
    formula, batch = method_for(method, batch)
    steps = formula(batch)
    computed = batch.zero_unrewarded(steps.advantages).flatten()
    allowed = float32_error(method, batch, steps, log.rewards_rounding).nan_to_num().flatten()
    # A large one loses more in its last steps: the mean is taken off, n / (n - 1) comes, and the log stores it.
    allowed = allowed + (ROUNDED * computed.abs().nan_to_num(posinf=0.0)).clamp(min=TOLERANCE)
    if log.scaled:
        factor = _factors(log, computed)[log.batch_of_response]
        computed, allowed = computed * factor, allowed * factor.nan_to_num(nan=1.0).clamp(min=1)
    if log.clipped_at < inf:
        computed = computed.clamp(-log.clipped_at, log.clipped_at)
    if log.grid:
        allowed = allowed + _FITTED * log.rounding
    error = (log.advantages - computed).abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)
    return Comparison(computed, error.masked_fill_(log.advantages.isnan(), torch.nan), allowed.expand(len(error)))


def _factors(log: Tensors, computed: Tensor) -> Tensor:
    """(batches,) what the computed advantages of each batch are multiplied by to come nearest to the logged ones.

    NaN where that is not above 0.
    """
    a, there = log.advantages.nan_to_num(), computed.nan_to_num()
    both, square = (a.new_zeros(log.batches).index_add_(0, log.batch_of_response, x * there) for x in (a, there))
    factor = both / square.masked_fill(square == 0, 1)
    return factor.masked_fill((factor <= 0) & (square > 0), torch.nan)


def same_direction(log: Tensors, comparison: Comparison) -> Tensor:
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


def half_step(grid: str, x: Tensor) -> Tensor:
    """Half the distance of the numbers of a grid, near each of these, and a little more; 0 without a grid.

    >>> [round(half_step(grid, torch.tensor([1.5])).item(), 5) for grid in ("2 decimals", "bf16")]
    [0.005, 0.00391]
    """
    return _step(grid, x) / 2 + 2 * _SAME * x.abs() if grid else torch.zeros_like(x)


def _step(grid: str, x: Tensor) -> Tensor:
    size = GRIDS[grid]
    if isinstance(size, int):
        return torch.full_like(x, 10.0**-size)
    bits, least = size
    return torch.ldexp(torch.ones_like(x), (torch.frexp(x)[1] - 1).clamp(min=least) - bits + 1)


def grid_of(x: Tensor) -> str:
    """The coarsest grid that holds all these numbers, NaN left out; "" for none.

    >>> grid_of(torch.tensor([0.1234, -1.5])), grid_of(torch.tensor([0.5, -0.12345]))
    ('4 decimals', '')
    """
    x = x[x.isfinite()]
    for grid in GRIDS:
        units = x / _step(grid, x)
        if bool(((units - units.round()).abs() <= 2 * _SAME * units.abs()).all()):
            return grid
    return ""


def is_simple(x: Tensor) -> bool:
    """Whether these numbers are all multiples of a twentieth, or of 1/64: no rounding made them."""
    there = x.nan_to_num()
    return any(bool(((there * n - (there * n).round()).abs() <= 1e-6).all()) for n in _SIMPLE)


def float32_error(method: str, batch: Batch, steps: Steps, rounding: Tensor | None = None) -> Tensor:
    """A bound on the round-off of a framework that computes in float32; a small std enlarges it.

    (…, prompts, rollouts) or (responses,), or a single 0. It is 0 where the values of a group add up exactly.
    rounding: how far each logged reward may be from the one that was used, (rewards, …).
    """
    c, group, in_z = batch.convention, batch.group, steps.z is not None
    terms = batch.rewards if in_z else batch.weights * batch.rewards
    terms = terms.nan_to_num() if batch.missing else terms
    rounded = (terms * GRAIN).frac_() != 0
    if not rounded.any() and rounding is None:
        return terms.new_zeros(1)
    inexact = group.total(rounded.to(terms)) > 0
    if not in_z:  # a sum rounds at its own size, whichever of its rewards is no round number
        inexact = inexact.any(0, keepdim=True)
    error = ROUNDED * group.total(terms.abs()) / group.count * inexact
    if rounding is not None:  # of the value farthest off, its mean and the std
        off = -2 * group.lowest(-rounding)
        error = error + (off if in_z else batch.weights.abs() * off) * (1 + steps.advantages.abs().nan_to_num().max())
    error = error if in_z else error.sum(0)
    if steps.z is not None or method in ("grpo", "max_rl"):
        std = steps.group.std
        alike = error.new_zeros(1)
        if c.leave_one_out:  # one std per response; the bound is that of the smallest
            alike = (group.lowest(-std) == 0) * (error > 0)
            std = group.lowest(std.masked_fill(std == 0, 1))
        eps = 0.0 if method == "max_rl" else c.group_eps if in_z else c.sum_eps  # it divides by no eps
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
