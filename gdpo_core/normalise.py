"""One step of every method: take the mean off and divide by the standard deviation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gdpo_core.batch import Over


@dataclass(frozen=True)
class Normalised:
    """A mean and a standard deviation (the reduced axes kept) and the values they normalise.

    With leave-one-out, mean and standard deviation are those of the other rollouts, one a response.
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
    noise: Tensor | float = 0.0,
    around_zero: bool = False,
    overwrite: bool = False,
    alone: str = "zero",
    leave_one_out: bool = False,
) -> Normalised:
    """(x − mean) / (std + eps) over what `over` says; what is constant gives exactly 0.

    Values are taken from one of their own: equal values become exact zeros whatever they are, so no constant turns
    into round-off that the division blows up; around_zero: they are signal or round-off beside 0, and stay as they
    are. A std or mean of at most `noise` is zero. overwrite: x is no longer needed.
    eps None: centre without dividing. skip: NaN takes no part and stays NaN, else it spreads. alone: what one value
    without others gives, see `Convention.group_of_one`.
    """
    count = over.total((~x.isnan()).to(x)) if skip else over.count
    raw = (count == 1) if alone == "raw" else None
    if around_zero:
        zero, shifted = 0.0, x if overwrite else x.clone()
    else:
        zero = over.lowest(x.nan_to_num(nan=torch.inf)) if skip else over.member(x).clone()
        zero = zero if raw is None else zero.masked_fill(raw, 0)
        shifted = torch.sub(x, over.spread(zero), out=x if overwrite else None)
    mean = over.total(shifted.nan_to_num() if skip else shifted) / count
    mean = mean.masked_fill(mean.abs() <= noise if raw is None else (mean.abs() <= noise) | raw, 0)
    centred = shifted.sub_(over.spread(mean))
    squares = over.squares(centred.nan_to_num() if skip else centred)
    if leave_one_out:
        return _among_peers(x, over, zero + mean, centred, squares, eps, ddof, noise)

    variance = squares / (count - ddof)
    std = variance.sqrt()
    dead = (std <= noise) | (count <= ddof)
    std = std.masked_fill(dead, 0)
    if raw is not None:
        std = std.masked_fill(raw, 1)
    elif alone == "nan":
        std = std.masked_fill(count == 1, torch.nan)
    divisor = _divisor(std, variance, eps, eps_to).masked_fill(std == 0, torch.inf)
    return Normalised(zero + mean, std, centred.div_(over.spread(divisor)))


def _divisor(std: Tensor, variance: Tensor, eps: float | None, eps_to: str) -> Tensor:
    if eps is None:
        return torch.ones_like(std)
    return (variance + eps).sqrt() if eps_to == "variance" else std + eps


def _among_peers(
    x: Tensor, over: Over, mean: Tensor, centred: Tensor, squares: Tensor, eps: float | None, ddof: int, noise
) -> Normalised:
    """Each value against the mean and standard deviation of the others; where these agree, it is only centred.

    With n values, c_j = x_j − mean and S = Σ c²: the others' mean is mean − c_j / (n − 1), their sum of squared
    deviations S − c_j² n / (n − 1).
    """
    n, mean, squares = over.spread(over.count), over.spread(mean), over.spread(squares)
    peers = n - 1
    alone = peers < 1
    off = (centred / peers).masked_fill(alone, 0)
    std = ((squares - centred.square() * (n / peers)).clamp(min=0) / (peers - ddof)).sqrt()
    std = std.masked_fill((peers <= ddof) | _peers_agree(x, over, noise), 0)
    divisor = torch.ones_like(std) if eps is None else torch.where(std > 0, std + eps, 1)
    return Normalised(mean - off, std, (centred + off).masked_fill(alone, 0) / divisor)


def _peers_agree(x: Tensor, over: Over, noise: Tensor | float) -> Tensor:
    """Whether all other values of the group are equal: exact, where a difference of sums would leave round-off."""
    low, high = over.spread(over.lowest(x)), -over.spread(over.lowest(-x))
    within = over.spread(noise) if isinstance(noise, Tensor) else noise
    at_low, at_high = (x - low) <= within, (high - x) <= within
    others = over.spread(over.count) - 1
    number = [over.spread(over.total(at.to(x))) for at in (at_low, at_high)]
    return (number[0] > others) | (at_low & (number[1] == others)) | (at_high & (number[0] == others))
