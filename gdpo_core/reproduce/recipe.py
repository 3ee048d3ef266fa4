"""How advantages were made, and what such a recipe makes of a log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_core.advantages import LOGGED_METHODS, METHODS, Method, Steps, method_for
from gdpo_core.batch import Batch, read, whole
from gdpo_core.conventions import Convention
from gdpo_core.errors import expect
from gdpo_core.round_off import GRAIN

# By how much a logged advantage may differ from the recipe's, beside what the framework's float32 is off.
TOLERANCE = 2e-5
# Rounding of a product, of a sum and of a mean in float32, with some room.
ROUNDED = 4 * torch.finfo(torch.float32).eps / 2


@dataclass(frozen=True)
class Recipe:
    """How advantages were made: what computes the logged ones, or the nearest that was found."""

    method: str  # grpo, grpo_no_std, grpo_batch_std or gdpo
    convention: str  # a key of CONVENTIONS
    weights: tuple[float, ...]  # one a reward; where the log cannot tell, 1
    unknown: tuple[int, ...]  # rewards whose weight the log cannot tell: constant in every group, or another's copy
    up_to_scale: bool  # whether a common factor of the weights cannot be told


@dataclass(frozen=True)
class Log:
    """A table's columns as the methods take them; groups and batches are numbered from 0 as they appear."""

    rewards: Tensor  # (prompts, rollouts, rewards), or (responses, rewards) where groups differ in size; NaN = missing
    group: Tensor | None  # (responses,) the group of each where they differ in size
    batch: Tensor  # (groups,) the batch of each
    lengths: Tensor | None  # (prompts, rollouts) or (responses,) tokens
    advantages: Tensor  # (responses,) as logged; NaN = none

    def read(self, convention: Convention, weights=None) -> Batch:
        """The log as the methods take it."""
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
        """(responses,) the number of each response's group."""
        if self.group is not None:
            return self.group
        prompts, rollouts = self.rewards.shape[:2]
        return torch.arange(prompts).repeat_interleave(rollouts)

    @property
    def batch_of_response(self) -> Tensor:
        """(responses,) the number of each response's batch."""
        if self.group is not None:
            return self.batch[self.group]
        return self.batch.repeat_interleave(self.rewards.shape[1])

    @property
    def batches(self) -> int:
        return int(self.batch[-1]) + 1


def read_log(table: pl.DataFrame, rewards: Sequence[str]) -> Log:
    """A table of a run, whose groups and batches each stand together, as tensors."""
    for name in ("batch", "group", *rewards):
        expect(name in table.columns, "table", f"a column {name!r}", f"only {', '.join(table.columns)}")
    expect(len(table) > 0 and len(rewards) > 0, "table", "at least one row and one reward", f"shape {table.shape}")
    values = np.empty((len(rewards), len(table)))
    for row, name in zip(values, rewards, strict=True):
        row[:] = table[name].to_numpy()
    values = torch.from_numpy(values)  # (rewards, responses)
    advantages = torch.full((len(table),), torch.nan, dtype=torch.float64)
    if "advantage" in table.columns:
        advantages = torch.from_numpy(table["advantage"].cast(pl.Float64).to_numpy().copy())
    lengths = None
    if holds_lengths(table, rewards) and not table["length"].null_count():
        tokens = table["length"].to_numpy()
        # What is no count of tokens cannot weigh anything; a log is not refused for it.
        if bool(((tokens >= 1) & (tokens == np.floor(tokens)) & np.isfinite(tokens)).all()):
            lengths = torch.from_numpy(tokens.copy())

    first = torch.from_numpy(starts_of(table["group"].to_numpy()))  # (groups,) the first response of each
    batch = table["batch"].to_numpy()[first.numpy()]
    batch = torch.from_numpy(np.concatenate([[0], np.cumsum(batch[1:] != batch[:-1])]))
    sizes = torch.diff(first, append=torch.tensor([len(table)]))
    if bool((sizes == sizes[0]).all()):
        shape = (len(first), int(sizes[0]))
        lengths = None if lengths is None else lengths.view(shape)
        return Log(values.view(-1, *shape).movedim(0, -1), None, batch, lengths, advantages)
    group = torch.arange(len(first)).repeat_interleave(sizes)
    return Log(values.T, group, batch, lengths, advantages)


def holds_lengths(table: pl.DataFrame, rewards: Sequence[str]) -> bool:
    """Whether the table has the tokens of each response: a reward may be called length too."""
    return "length" in table.columns and "length" not in rewards


def starts_of(number: np.ndarray) -> np.ndarray:
    """Where each run of equal numbers starts.

    >>> starts_of(np.array([4, 4, 7, 4])).tolist()
    [0, 2, 3]
    """
    return np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1])


def prepared(method: str, batch: Batch) -> tuple[Method, Batch]:
    """The formulas of that name, and the batch as they take it."""
    return method_for(method, batch) if method in METHODS else (LOGGED_METHODS[method], batch)


def with_weights(batch: Batch, weights) -> Batch:
    """The same batch under other weights, without reading it again."""
    w = torch.as_tensor(weights, dtype=batch.rewards.dtype)
    return replace(batch, weights=w.view_as(batch.weights), weight=w.abs().sum().item())


def differences(logged: Tensor, batch: Batch, method: str) -> tuple[Tensor, Tensor]:
    """(responses,) by how much the logged advantages differ from the method's, and by how much they may.

    Infinite where the method gives no number, NaN where nothing is logged.
    """
    formula, batch = prepared(method, batch)
    steps = formula(batch)
    may = TOLERANCE + float32_error(method, batch, steps).nan_to_num().flatten()
    return off_by(logged, batch.learnt(steps.advantages)), may.expand(len(logged))


def off_by(logged: Tensor, computed: Tensor) -> Tensor:
    """(responses,) the distance; infinite where only something else than a number is computed or logged."""
    off = (logged - computed.flatten()).abs()
    return off.nan_to_num_(nan=torch.inf, posinf=torch.inf).masked_fill_(logged.isnan(), torch.nan)


def float32_error(method: str, batch: Batch, steps: Steps) -> Tensor:
    """By how much a framework's own float32 may be off: round-off that a small std blows up.

    (…, prompts, rollouts) or (responses,), or a single 0. Where a group's values add up exactly, there is none.
    """
    c, group, in_z = batch.convention, batch.group, steps.z is not None
    terms = batch.rewards if in_z else batch.weights * batch.rewards
    terms = terms.nan_to_num() if batch.missing else terms
    rounded = (terms * GRAIN).frac_() != 0
    if not rounded.any():
        return terms.new_zeros(1)
    off = ROUNDED * group.total(terms.abs()) / group.count * (group.total(rounded.to(terms)) > 0)
    off = off if in_z else off.sum(0)
    if method in ("grpo", "gdpo"):
        std = steps.group.std
        if c.leave_one_out:  # one a response
            std = group.lowest(std.masked_fill(std == 0, 1))
        divisor = std + (c.group_eps if in_z else c.sum_eps)
        # Normalised values of n responses stay below the root of n, round-off too.
        off = torch.minimum(off / divisor.masked_fill(divisor == 0, torch.inf), _root(group.count, off))
    off = (batch.weights.abs() * off).sum(0) if in_z else off
    off = group.spread(off) + torch.zeros_like(steps.advantages)
    if steps.whole is None:
        return off
    over = batch.group if in_z and c.last_step == "group" else batch.batches or whole(off)
    ones = torch.ones_like(off)
    if in_z:  # one group's round-off moves the mean and the spread of its whole batch
        typical = over.spread((over.total(off.square()) / over.total(ones)).sqrt())
        off = off + typical * (1 + steps.advantages.abs().nan_to_num())
    divisor = over.spread(steps.whole.std) + (c.batch_eps if in_z else c.sum_eps)
    most = _root(over.spread(over.total(ones)), off)
    return torch.minimum(off / divisor.masked_fill(divisor == 0, torch.inf), most)


def _root(count: Tensor | int, like: Tensor) -> Tensor:
    return torch.as_tensor(count, dtype=like.dtype).sqrt()
