"""Reductions: sums, counts and lowest values over the rollouts of each group, or over all responses of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

# A sum in float32 loses digits with each number that is added. So more numbers than these are added up in float64.
_IN_A_ROW = 1024


class Reduction(ABC):
    """A choice of responses over which a statistic is taken: the rollouts of each group, or all responses of a batch.

    Every statistic gives one value per group, or one per batch, which `broadcast` then spreads over the responses.
    """

    @property
    @abstractmethod
    def count(self) -> Tensor | int:
        """The number of responses in each group or batch, missing values included; with weights, the sum of weights."""

    def counted(self, x: Tensor) -> Tensor | int:
        """Return how many responses the statistics of x count: all, or those without NaN if the reduction skips NaN.

        If the responses are weighted, it is the sum of their weights.
        """
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
        """Return, for each group or the batch, the value of x of one response, no matter which."""

    @abstractmethod
    def broadcast(self, x: Tensor) -> Tensor:
        """Return x, one value per group or batch, in a shape that broadcasts to one value per response."""


@dataclass(frozen=True, eq=False)
class _OverAxes(Reduction):
    """A reduction over axes of a tensor; in the results these axes stay, with length 1.

    axes: the numbers of the axes, counted from the end (−1 is the last).
    members: how many values the axes hold together.
    """

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
    """A reduction over the responses of each group.

    index: (responses,) the number of each response's group, from 0.
    groups: how many groups there are.
    """

    index: Tensor
    groups: int

    @cached_property
    def count(self) -> Tensor:
        return self.index.bincount(minlength=self.groups)

    @cached_property
    def _longest(self) -> int:
        """An upper bound of the group sizes, which tells `total` whether it has to add up in float64.

        If there are at most `_IN_A_ROW` responses, it is their number, as no group can be larger. Otherwise it is the
        size of the largest group.
        """
        return int(self.count.max()) if len(self.index) > _IN_A_ROW else len(self.index)

    @cached_property
    def _first(self) -> Tensor:
        """The index of each group's first response, (groups,)."""
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
    """A reduction over the responses of each batch, where each prompt belongs to one batch with all of its rollouts.

    prompts: the reduction from values per prompt to values per batch.
    rollouts: how many responses each prompt has.
    """

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
    """A reduction in which each response counts as often as its weight says, as if it stood there so many times.

    over: the reduction whose responses are weighted.
    weights: a number per response.
    """

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
    """A reduction that leaves NaN out, as `skipping_missing` makes it.

    NaN is left out of sums, of the number `counted`, and of the values from which `member` picks one. But `count` still
    includes responses with NaN, and `lowest` is NaN where any value is. `member` is infinite where all values are NaN.

    over: the reduction over the same responses that leaves nothing out.
    """

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
    """Return the reduction over these axes of tensors of this shape; the axes stay, with length 1.

    axes: their numbers, counted from the end (−1 is the last).
    """
    return _OverAxes(axes, prod(map(shape.__getitem__, axes)))


def over_ids(index: Tensor, groups: int) -> Reduction:
    """Return a `Reduction` whose statistics, such as sum and lowest, are taken over the responses of each group. The
    groups may differ in size.

    index: (responses,) the number of each response's group, from 0.
    groups: how many groups there are.
    """
    return _OverIds(index, groups)


def over_batches_of_prompts(batch_of: Tensor, batches: int, rollouts: int) -> Reduction:
    """Return the reduction over the responses of each batch, where a prompt belongs to one batch with all its rollouts.

    batch_of: (prompts,) the number of each prompt's batch, from 0.
    batches: how many batches there are.
    rollouts: how many responses each prompt has.
    """
    return _OverBatchesOfPrompts(_OverIds(batch_of, batches), rollouts)


def weighted(over: Reduction, weights: Tensor) -> Reduction:
    """Return a reduction over the responses of `over` in which each counts as often as its weight says.

    weights: a number per response, such as its tokens.
    """
    return _Weighted(over, weights)


def skipping_missing(over: Reduction) -> Reduction:
    """Return a reduction over the responses of `over` whose means and standard deviations skip NaN.

    Its `count` still includes responses with NaN, and its `lowest` does not skip them.
    """
    return _SkippingMissing(over)
