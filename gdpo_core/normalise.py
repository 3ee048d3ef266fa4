"""One step of every method: subtract the mean and divide by the standard deviation."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from gdpo_core.batch import Over, root

MeanIs: TypeAlias = Literal["any", "zero", "zero but for round-off"]

# By how many units in the last place the mean of many values may be wrong.
_ROUNDED = 32


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
    over: Over,
    *,
    eps: float | None,
    ddof: int,
    eps_to: str = "std",
    skip: bool = False,
    noise: Tensor | None = None,
    mean_is: MeanIs = "any",
    overwrite: bool = False,
    alone: str = "zero",
    leave_one_out: bool = False,
) -> Normalised:
    """(x − mean) / (std + eps), with the mean and std taken over `over`; equal values give exactly 0.

    Mean and std are those of the distances from one of the values: equal values have distance 0, so no constant becomes
    round-off that the division blows up. eps None: subtract the mean, do not divide. skip: NaN stays NaN and the
    statistics leave it out; else it makes them NaN. noise: a std of at most this is taken as 0. mean_is: what is known
    of the mean; one that is 0 is not subtracted, so that zeros stay zeros. overwrite: x may be overwritten. alone: what
    a single value gives, see `Convention.group_of_one`.
    """
    count = over.total((~x.isnan()).to(x)) if skip else over.count
    raw = torch.as_tensor(count == 1, device=x.device) if alone == "raw" else None
    if mean_is == "any":
        zero = over.lowest(x.nan_to_num(nan=torch.inf)) if skip else over.member(x).clone()
        zero = zero if raw is None else zero.masked_fill(raw, 0)
        centred = torch.sub(x, over.spread(zero), out=x if overwrite else None)
        off = over.total(centred.nan_to_num() if skip else centred) / count
        off = off if raw is None else off.masked_fill(raw, 0)
        centred.sub_(over.spread(off))
        mean = zero + off
    else:
        centred, mean = x if overwrite else x.clone(), None
        if mean_is != "zero":
            mean = _mean_beside(centred, over, count, skip)
            centred.sub_(over.spread(mean))
    norm = over.norm(centred.nan_to_num() if skip else centred)
    if mean is None:
        mean = torch.zeros_like(norm)
        mean = mean.masked_fill(torch.as_tensor(count == 0), torch.nan) if skip else mean  # of nothing
    if leave_one_out:
        return _among_peers(x, over, mean, centred, norm, eps, ddof, noise)

    std = norm / root(_degrees(count, ddof))
    if noise is not None:
        std = std.masked_fill(std <= noise, 0)
    if raw is not None:
        std = std.masked_fill(raw, 1)
    elif alone == "nan":
        std = std.masked_fill(torch.as_tensor(count == 1, device=x.device), torch.nan)
    divisor = _divisor(std, eps, eps_to)
    if noise is not None or not eps:
        divisor = divisor.masked_fill(std == 0, torch.inf)
    return Normalised(mean, std, centred.div_(over.spread(divisor)))


def _mean_beside(x: Tensor, over: Over, count: Tensor | int, skip: bool) -> Tensor:
    """The mean, or 0 where it is no more than round-off beside the size of the values."""
    values = x.nan_to_num() if skip else x
    mean, size = over.total(values) / count, over.norm(values) / root(count)
    return mean.masked_fill(mean.abs() <= _ROUNDED * torch.finfo(x.dtype).eps * size, 0)


def _degrees(count: Tensor | int, ddof: int) -> Tensor | int:
    """By what a sum of squares is divided; one value has a sum of 0, whatever that is divided by."""
    if isinstance(count, int):
        return max(count - ddof, 1)
    return (count - ddof).masked_fill_(count <= ddof, 1)


def _divisor(std: Tensor, eps: float | None, eps_to: str) -> Tensor:
    if eps is None:
        return torch.ones_like(std)
    if eps == 0:
        return std
    return root(std.square() + eps) if eps_to == "variance" else std + eps


def _among_peers(
    x: Tensor,
    over: Over,
    mean: Tensor,
    centred: Tensor,
    norm: Tensor,
    eps: float | None,
    ddof: int,
    noise: Tensor | None,
) -> Normalised:
    """Each value against the mean and standard deviation of the others; where these agree, it is only centred.

    With n values, c_j = x_j − mean and S = Σ c²: the others' mean is mean − c_j / (n − 1), their sum of squared
    deviations S − c_j² n / (n − 1).
    """
    n = over.spread(torch.as_tensor(over.count, dtype=x.dtype, device=x.device))
    peers = n - 1
    off = (centred / peers).masked_fill(peers == 0, 0)
    others = (over.spread(norm).square() - centred.square() * (n / peers)).clamp(min=0)
    mean, value = over.spread(mean) - off, centred + off

    # That difference loses digits where c_j² is most of S, so at the value farthest out the others are added up alone.
    size = centred.abs()
    far = size == over.spread(-over.lowest(-size))
    far &= (over.spread(over.total(far.to(x))) == 1) & (peers > 0)
    low = over.lowest(x.masked_fill(far, torch.inf))
    near = (x - over.spread(low)).masked_fill(far, 0)
    mean_near = over.total(near) / (over.count - 1)
    off_near = (near - over.spread(mean_near)).masked_fill(far, 0)
    others = torch.where(far, over.spread(over.norm(off_near)).square(), others)
    mean = torch.where(far, over.spread(low + mean_near), mean)
    value = torch.where(far, x - over.spread(low) - over.spread(mean_near), value)

    std = root(others / (peers - ddof)).masked_fill(peers <= ddof, 0)
    if noise is not None:
        std = std.masked_fill(std <= over.spread(noise), 0)
        value = value.masked_fill(value.abs() <= over.spread(noise), 0)
    divisor = torch.ones_like(std) if eps is None else torch.where(std > 0, std + eps, 1)
    return Normalised(mean, std, value / divisor)
