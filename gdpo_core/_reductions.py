"""Reductions: what a statistic is taken over, such as the rollouts of each group or all responses of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

# Numbers that are added one after the other lose digits of float32 with each of them: more are added in float64.
_IN_A_ROW = 1024


class Reduction(ABC):
    """The responses that a statistic is taken over: the rollouts of each group, or all responses of a batch.

    Every statistic gives one value per group, or one for the batch, which `broadcast` copies to each response.
    """

    @property
    @abstractmethod
    def count(self) -> Tensor | int:
        """The number of members, missing ones included."""

    def counted(self, x: Tensor) -> Tensor | int:
        """Return how many members the statistics of x count: all, or, where NaN is skipped, those that are there."""
        return self.count

    @abstractmethod
    def total(self, x: Tensor) -> Tensor:
        """Return the sum of the values of x, for each group or the batch."""

    @abstractmethod
    def squares(self, x: Tensor) -> Tensor:
        """Return the sum of the squares of the values of x, for each group or the batch."""

    @abstractmethod
    def lowest(self, x: Tensor) -> Tensor:
        """Return the lowest value of x, for each group or the batch."""

    @abstractmethod
    def member(self, x: Tensor) -> Tensor:
        """Return one of the values of x, whichever it is, for each group or the batch."""

    @abstractmethod
    def broadcast(self, x: Tensor) -> Tensor:
        """Return one value per group, or per batch, as a value for each response."""


@dataclass(frozen=True, eq=False)
class _OverAxes(Reduction):
    """A reduction over axes, counted from the end, which stay as axes of length 1."""

    axes: tuple[int, ...]
    members: int

    @property
    def count(self) -> int:
        return self.members

    def total(self, x: Tensor) -> Tensor:
        return x.sum(self.axes, keepdim=True)

    def squares(self, x: Tensor) -> Tensor:
        if self.axes == (-1,) and self.members <= _IN_A_ROW:  # torch's norm needs no memory, but adds in a row
            return torch.linalg.vector_norm(x, 2, -1, keepdim=True).square_()
        return x.square().sum(self.axes, keepdim=True)

    def lowest(self, x: Tensor) -> Tensor:
        return x.amin(self.axes, keepdim=True)

    def member(self, x: Tensor) -> Tensor:
        for axis in self.axes:
            x = x.narrow(axis, 0, 1)
        return x

    def broadcast(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True, eq=False)
class _OverIds(Reduction):
    """A reduction over the responses of each group; index: (responses,) the number of each response's group, from 0."""

    index: Tensor
    groups: int

    @cached_property
    def count(self) -> Tensor:
        return self.index.bincount(minlength=self.groups)

    @cached_property
    def _longest(self) -> int:
        """The size of the largest group, or a number below `_IN_A_ROW` that it cannot exceed."""
        return int(self.count.max()) if len(self.index) > _IN_A_ROW else len(self.index)

    @cached_property
    def _first(self) -> Tensor:
        """The number of each group's first response, (groups,)."""
        return self.lowest(torch.arange(len(self.index), device=self.index.device))

    def total(self, x: Tensor) -> Tensor:
        wide = torch.float64 if self._longest > _IN_A_ROW else x.dtype
        start = x.new_zeros(*x.shape[:-1], self.groups, dtype=wide)
        return start.index_add_(-1, self.index, x.to(start)).to(x)

    def squares(self, x: Tensor) -> Tensor:
        return self.total(x.square())

    def lowest(self, x: Tensor) -> Tensor:
        highest = torch.iinfo(x.dtype).max if x.dtype == torch.int64 else torch.inf
        start = x.new_full((*x.shape[:-1], self.groups), highest)
        return start.scatter_reduce_(-1, self.index.expand_as(x), x, "amin")

    def member(self, x: Tensor) -> Tensor:
        return x.index_select(-1, self._first)

    def broadcast(self, x: Tensor) -> Tensor:
        return x.index_select(-1, self.index)


@dataclass(frozen=True, eq=False)
class _OverBatchesOfPrompts(Reduction):
    """A reduction over the responses of each batch, where each prompt, with all its rollouts, is in one batch."""

    prompts: Reduction
    rollouts: int

    @cached_property
    def count(self) -> Tensor | int:
        return self.prompts.count * self.rollouts

    def total(self, x: Tensor) -> Tensor:
        return self.prompts.total(x.sum(-1))

    def squares(self, x: Tensor) -> Tensor:
        return self.prompts.total(x.square().sum(-1))

    def lowest(self, x: Tensor) -> Tensor:
        return self.prompts.lowest(x.amin(-1))

    def member(self, x: Tensor) -> Tensor:
        return self.prompts.member(x[..., 0])

    def broadcast(self, x: Tensor) -> Tensor:
        return self.prompts.broadcast(x)[..., None]


@dataclass(frozen=True, eq=False)
class _Weighted(Reduction):
    """A reduction in which each response counts `weights` times."""

    over: Reduction
    weights: Tensor

    @cached_property
    def count(self) -> Tensor:
        return self.over.total(self.weights)

    def total(self, x: Tensor) -> Tensor:
        return self.over.total(x * self.weights)

    def squares(self, x: Tensor) -> Tensor:
        return self.over.total(x.square() * self.weights)

    def lowest(self, x: Tensor) -> Tensor:
        return self.over.lowest(x)

    def member(self, x: Tensor) -> Tensor:
        return self.over.member(x)

    def broadcast(self, x: Tensor) -> Tensor:
        return self.over.broadcast(x)


@dataclass(frozen=True, eq=False)
class _SkippingMissing(Reduction):
    """A reduction that leaves NaN out of its statistics; `count` still includes it, and `lowest` does not skip it."""

    over: Reduction

    @property
    def count(self) -> Tensor | int:
        return self.over.count

    def counted(self, x: Tensor) -> Tensor:
        return self.over.total((~x.isnan()).to(x))

    def total(self, x: Tensor) -> Tensor:
        return self.over.total(x.nan_to_num())

    def squares(self, x: Tensor) -> Tensor:
        return self.over.squares(x.nan_to_num())

    def lowest(self, x: Tensor) -> Tensor:
        return self.over.lowest(x)

    def member(self, x: Tensor) -> Tensor:
        return self.over.lowest(x.nan_to_num(nan=torch.inf))

    def broadcast(self, x: Tensor) -> Tensor:
        return self.over.broadcast(x)


def over_axes(shape: torch.Size, *axes: int) -> Reduction:
    """Return the reduction over these axes, counted from the end, of tensors of this shape; they stay with length 1."""
    return _OverAxes(axes, prod(map(shape.__getitem__, axes)))


def over_ids(index: Tensor, groups: int) -> Reduction:
    """Return the reduction over the responses of each group; index: (responses,) each response's group, from 0."""
    return _OverIds(index, groups)


def over_batches_of_prompts(batch_of: Tensor, batches: int, rollouts: int) -> Reduction:
    """Return the reduction over the responses of each batch; batch_of: (prompts,) the number of each prompt's batch."""
    return _OverBatchesOfPrompts(_OverIds(batch_of, batches), rollouts)


def weighted(over: Reduction, weights: Tensor) -> Reduction:
    """Return a reduction over the same responses, in which each counts `weights` times."""
    return _Weighted(over, weights)


def skipping_missing(over: Reduction) -> Reduction:
    """Return a reduction over the same responses whose means and standard deviations skip NaN.

    Its `count` still includes them, and `lowest` does not skip them.
    """
    return _SkippingMissing(over)
