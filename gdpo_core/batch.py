"""Rewards as the caller has them, read into one form, and the statistics over a group and over the batch."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from gdpo_core.conventions import PAPER, Convention
from gdpo_core.errors import InputError, expect


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

    def in_float64(self) -> "Batch":
        """The same batch, computed in double precision."""
        if self.rewards.dtype == torch.float64:
            return self
        r = self.rewards.double()
        return _grouped(
            r, self.weights.double(), self.missing, self.convention, self.index, self.group_ids, self.single
        )

    def group_index(self) -> Tensor:
        """(responses,) number of each response's group, in the order of the flattened responses."""
        if self.index is not None:
            return self.index
        prompts, rollouts = self.rewards.shape[-2:]
        return torch.arange(prompts, device=self.rewards.device).repeat_interleave(rollouts)

    def returned(self, x: Tensor | None) -> Tensor | None:
        """A tensor (…, prompts, rollouts or 1) in the caller's shape: no prompt axis where none was given."""
        return x.squeeze(-2) if x is not None and self.single else x


def read(rewards, *, weights=None, groups=None, lengths=None, convention: Convention = PAPER) -> Batch:
    """Check what the caller gave and bring it into one form; every fault is an InputError."""
    expect(isinstance(convention, Convention), "convention", "a gdpo_core.Convention", repr(convention))
    r = _numbers(rewards, "rewards")
    if groups is None:
        shapes = "(prompts, rollouts, rewards) or (rollouts, rewards)"
        expect(r.ndim in (2, 3), "rewards", f"shape {shapes}", f"shape {tuple(r.shape)}")
    else:
        expect(r.ndim == 2, "rewards", "shape (responses, rewards) with groups", f"shape {tuple(r.shape)}")
    expect(r.numel() > 0, "rewards", "at least one response and one reward", f"shape {tuple(r.shape)}")
    expect(not r.isinf().any(), "rewards", "finite numbers or NaN for missing", "an infinite value")
    if lengths is not None:
        _check_lengths(lengths, tuple(r.shape[:-1]))

    single = groups is None and r.ndim == 2
    x = (r[None] if single else r).movedim(-1, 0)  # (rewards, prompts, rollouts) or (rewards, responses)
    w = _read_weights(weights, x)
    index, ids = (None, None) if groups is None else _number_groups(groups, r.shape[0], r.device)
    return _grouped(x, w, bool(x.isnan().any()), convention, index, ids, single)


def batch_of(x: Tensor, weights: Tensor, convention: Convention = PAPER) -> Batch:
    """Rewards (rewards, …, prompts, rollouts) known to be complete and finite, without the checks of `read`."""
    return _grouped(x, weights, False, convention, None, None, False)


def _grouped(x: Tensor, w: Tensor, missing: bool, convention: Convention, index, ids, single: bool) -> Batch:
    group = along(x, -1) if index is None else _by_index(index, len(ids), x.dtype)
    return Batch(x, w, missing, group, convention, index, ids, single)


def _numbers(values, name: str) -> Tensor:
    try:
        t = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: expected numbers in a regular array, got {type(values).__name__}: {error}") from None
    expect(not t.is_complex(), name, "real numbers", t.dtype)
    return t.detach() if t.is_floating_point() else t.to(torch.float64)


def _read_weights(weights, x: Tensor) -> Tensor:
    count = x.shape[0]
    if weights is None:
        w = x.new_ones(count)
    else:
        w = _numbers(weights, "weights").to(x)
        expect(w.shape == (count,), "weights", f"{count} numbers, one a reward", f"shape {tuple(w.shape)}")
        expect(bool(w.isfinite().all()), "weights", "finite numbers", w.tolist())
    return w.reshape(count, *[1] * (x.ndim - 1))


def _check_lengths(lengths, shape: tuple) -> None:
    t = _numbers(lengths, "lengths")
    expect(tuple(t.shape) == shape, "lengths", f"one a response, shape {shape}", f"shape {tuple(t.shape)}")
    expect(
        bool((t.isfinite() & (t > 0)).all()),
        "lengths",
        "positive token counts",
        f"a smallest of {t.min().item()}",
    )


def _number_groups(groups, responses: int, device) -> tuple[Tensor, tuple]:
    """Each response's group as a number from 0, and the ids in that order: sorted if numbers, else as they appear."""
    if not isinstance(groups, Tensor | np.ndarray):
        try:
            groups = list(groups)
        except TypeError:
            raise InputError(f"groups: expected one id a response, got {type(groups).__name__}") from None
    shape = tuple(groups.shape) if isinstance(groups, Tensor | np.ndarray) else (len(groups),)
    expect(shape == (responses,), "groups", f"{responses} ids, one a response", f"shape {shape}")
    if isinstance(groups, Tensor) or (isinstance(groups, np.ndarray) and groups.dtype.kind in "iub"):
        ids, index = torch.as_tensor(groups).unique(return_inverse=True)
        return index.to(device), tuple(ids.tolist())
    number: dict = {}
    try:
        index = torch.tensor([number.setdefault(g, len(number)) for g in groups], device=device)
    except TypeError as error:
        raise InputError(f"groups: expected ids such as strings or integers, got {error}") from None
    return index, tuple(number)


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
