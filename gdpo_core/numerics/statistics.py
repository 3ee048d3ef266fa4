"""Weighted sums, their normalisation inside groups, and which of their values are round-off.

Equal values give exactly 0 on every processor, because a mean is computed as one of the values plus the mean distance
from it. A std, or a sum of normalised rewards, becomes 0 if it is no more than round-off. It is round-off if it is only
a few units in the last place of the numbers from which it was computed. Numbers that float32 adds up exactly have no
round-off, so nothing is tolerated there. `batch_statistics.py` has the normalisation over the batch.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from gdpo_core.numerics.batch import Batch
from gdpo_core.numerics.reductions import Reduction

# How many units in the last place a sum may leave whose terms cancel each other.
_CANCELLED_UNITS = 8
# The largest tolerance for a sum whose terms cancel, relative to Σ_k |w_k|: a larger sum is never taken for 0.
_LARGEST_TOLERANCE = 0.02
# float32 adds up multiples of 1 / GRAIN exactly while their sum is below GRAINY, and whole numbers while their sum is
# below 2**24.
GRAIN, GRAINY = 1024, 2.0**14
# A bound on the relative round-off of a product, a sum and a mean in float32; 2.7 eps was met in a million groups.
ROUNDED = 3 * torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class Normalised:
    """Values after normalisation, with the mean and the standard deviation that normalised them.

    In `mean` and `std` the axes over which they were taken stay, with length 1. If groups are given by ids, the last
    axis has one value per group. With leave-one-out each response has a mean and a std of its own, taken over the other
    rollouts of its group.

    value: the normalised values.
    by: what the deviations from the mean were divided by.
    centred: whether `mean` was subtracted.
    """

    mean: Tensor
    std: Tensor
    value: Tensor
    by: Tensor | float = 1.0  # std + eps, by which each deviation was divided; inf where the std is 0
    centred: bool = True  # whether `mean` was subtracted from the values


def normalise(
    x: Tensor,
    over: Reduction,
    *,
    ddof: int,
    eps: float = 0.0,
    eps_to: str = "std",
    tolerance: Tensor | None = None,
) -> Normalised:
    """Return mean, std and (x − mean) / (std + eps) as `Normalised`, where equal values give exactly 0.

    over: the reduction over the responses over which mean and std are taken.
    ddof: the sum of squares in the std is divided by the number of responses minus `ddof`.
    eps_to: "std", or "variance" for the divisor √(std² + eps).
    tolerance: the largest std that is taken as 0.
    """
    mean, deviation = centre(x, over)
    std = std_of(deviation, over, ddof)
    if tolerance is not None:
        std = std.masked_fill(std <= tolerance, 0)
    by = over.broadcast(divisor(std, eps, eps_to))
    return Normalised(mean, std, deviation.div_(by), by)


def centre(x: Tensor, over: Reduction) -> tuple[Tensor, Tensor]:
    """Return the mean of x over the responses of `over`, and each value minus that mean.

    The mean is one of the values plus the mean distance from it. Equal values have distance 0. So a constant leaves no
    round-off, which a division would blow up.
    """
    start = over.member(x)
    distance = x - over.broadcast(start)
    shift = over.total(distance) / over.counted(x)
    return start + shift, distance.sub_(over.broadcast(shift))


def std_of(deviation: Tensor, over: Reduction, ddof: int) -> Tensor:
    """Return a standard deviation, given the values minus their mean; 0 for a single value, whatever ddof is.

    over: the reduction (each group, or the batch) with which the mean was taken.
    ddof: the sum of squares is divided by the number of values minus `ddof`, or by 1 where that is less.
    """
    degrees = over.counted(deviation) - ddof
    degrees = max(degrees, 1) if isinstance(degrees, int) else degrees.masked_fill(degrees <= 0, 1)
    return root(over.squares(deviation) / degrees)


def divisor(std: Tensor, eps: float, eps_to: str = "std") -> Tensor:
    """Return what deviations are divided by, std + eps; infinity where the std is 0, so that the quotient is 0.

    eps_to: "std", or "variance" for √(std² + eps).
    """
    by = root(std.square() + eps) if eps_to == "variance" else std + eps
    return by.masked_fill(std == 0, torch.inf)


def root(x: Tensor) -> Tensor:
    """Return √x; on a CPU it is rounded as IEEE 754 demands, and so is the same on every CPU.

    torch's own root may differ between processors, and between two places of one tensor. On a GPU torch's root is used
    nevertheless.

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
    """Return Σ_k w_k x_k, summed over the first axis of x.

    A missing reward adds nothing if the convention skips missing rewards; otherwise it makes the sum NaN. If they are
    skipped, the sum of a response without any reward is NaN, or 0 if the convention counts such a response.
    """
    skips = batch.skips_missing
    terms = batch.weights * x
    terms = terms.nan_to_num_() if skips else terms
    # The rewards are added one after the other: torch's own sum adds those of some rollouts in another order, and then
    # equal rollouts could get sums that differ.
    s = reduce(Tensor.add_, terms.unbind())
    if not skips or batch.convention.empty_counts:
        return s
    return s.masked_fill(batch.rewards.isnan().all(0), torch.nan)


def normalise_in_groups(batch: Batch, x: Tensor, eps: float, tolerance: Tensor | None = None) -> Normalised:
    """Return x minus the mean of its group, divided by the std of its group plus eps.

    `deviations` says which mean and std these are. Where the std is 0, the value is 0; with leave-one-out the deviation
    then stays undivided.

    tolerance: for each group, the largest std that is taken as 0.
    """
    in_group = deviations(batch, x, tolerance)
    if batch.convention.leave_one_out:  # nothing is divided where the other rollouts agree
        by = torch.where(in_group.std > 0, in_group.std + eps, 1)
    else:
        by = batch.group.broadcast(divisor(in_group.std, eps))
    return Normalised(in_group.mean, in_group.std, in_group.value.div_(by), by)


def normalise_rewards(batch: Batch) -> Normalised:
    """Return each reward normalised inside its group; `value` of the result is what the formulas call z."""
    return normalise_in_groups(batch, batch.rewards, batch.convention.group_eps)


def normalise_sums(batch: Batch, s: Tensor) -> Normalised:
    """Return the weighted sums `s` of the raw rewards, normalised inside their group as GRPO does.

    Sums of a group that differ by round-off alone all become 0. If the convention has `mean_of_others`, the mean of the
    other rollouts is subtracted in place of the group's.
    """
    return with_rloo_baseline(batch, s, normalise_in_groups(batch, s, batch.convention.sum_eps, sum_tolerance(batch)))


def centre_sums(batch: Batch, s: Tensor) -> Normalised:
    """Return the weighted sums `s` of the raw rewards minus a mean, undivided, with the std of each group.

    The mean is taken over the group. With leave-one-out, or if the convention has `mean_of_others`, it is taken over
    the other rollouts of the group. Sums of a group that differ by round-off alone all become 0.
    """
    tolerance = sum_tolerance(batch)
    in_group = deviations(batch, s, tolerance)
    # Sums without round-off have deviation 0 already where they are equal.
    if tolerance is not None and not batch.convention.leave_one_out:
        equal = batch.group.broadcast(in_group.std == 0) & ~in_group.value.isnan()
        in_group = replace(in_group, value=in_group.value.masked_fill(equal, 0))
    return with_rloo_baseline(batch, s, in_group)


def with_rloo_baseline(batch: Batch, s: Tensor, in_group: Normalised) -> Normalised:
    """Return `in_group` with RLOO's baseline subtracted in place of the mean, if the convention has `mean_of_others`.

    Otherwise `in_group` comes back unchanged. In a group of n rollouts, the baseline of a rollout is the mean of the n
    − 1 others. To subtract it gives n / (n − 1) times the centred value.

    s: the values from which `in_group` was computed.
    """
    if not batch.convention.mean_of_others:
        return in_group
    over = batch.each_group
    n = torch.as_tensor(over.counted(s), dtype=s.dtype, device=s.device)
    farther = torch.where(n > 1, n / (n - 1), 1.0)
    return replace(in_group, value=in_group.value * over.broadcast(farther))


def deviations(batch: Batch, x: Tensor, tolerance: Tensor | None = None) -> Normalised:
    """Return x minus the mean of its group, undivided, together with that mean and the std.

    With leave-one-out, mean and std are taken over the other responses in the group; otherwise over the whole group. If
    the convention's `group_of_one` is "raw", and there is no leave-one-out, a lone response keeps x, with mean 0 and
    std 1.

    tolerance: for each group, the largest std that counts as 0.
    """
    c, over = batch.convention, batch.each_group
    mean, deviation = centre(x, over)
    if c.leave_one_out:
        return _leave_one_out(x, over, mean, deviation, c.ddof, tolerance)
    std = std_of(deviation, over, c.ddof)
    if tolerance is not None:
        std = std.masked_fill(std <= tolerance, 0)
    if c.group_of_one == "raw":
        alone = torch.as_tensor(over.counted(x) == 1, device=x.device)
        if bool(alone.any()):
            mean, std = mean.masked_fill(alone, 0), std.masked_fill(alone, 1)
            deviation = torch.where(over.broadcast(alone), x, deviation)
    return Normalised(mean, std, deviation)


def _leave_one_out(
    x: Tensor, over: Reduction, mean: Tensor, deviation: Tensor, ddof: int, tolerance: Tensor | None
) -> Normalised:
    """Return each value minus the mean of the others in its group, undivided, with the mean and std of those others.

    With n values, c_j = x_j − mean and S = Σ c², the mean of the others is mean − c_j / (n − 1). Their sum of squared
    deviations is S − c_j² n / (n − 1).

    over: the reduction over the responses of each group.
    mean: the mean of the whole group, from `centre`.
    deviation: x minus this mean, from `centre`.
    ddof: the squares in the others' std are divided by their number minus `ddof`.
    tolerance: for each group, the largest std that is taken as 0.
    """
    n = over.broadcast(torch.as_tensor(over.count, dtype=x.dtype, device=x.device))
    remaining = n - 1
    shift = (deviation / remaining).masked_fill(remaining == 0, 0)
    squares = over.broadcast(over.squares(deviation))
    squares = (squares - deviation.square() * (n / remaining)).clamp(min=0)
    mean, value = over.broadcast(mean) - shift, deviation + shift

    # The difference S − c_j² n / (n − 1) loses digits where c_j² is most of S. So for the value farthest from the mean,
    # the squares of the others are added up directly.
    size = deviation.abs()
    far = size == over.broadcast(-over.lowest(-size))
    far &= (over.broadcast(over.total(far.to(x))) == 1) & (remaining > 0)
    low = over.lowest(x.masked_fill(far, torch.inf))
    distance = (x - over.broadcast(low)).masked_fill(far, 0)
    mean_distance = over.total(distance) / (over.count - 1)
    near = (distance - over.broadcast(mean_distance)).masked_fill(far, 0)
    squares = torch.where(far, over.broadcast(over.squares(near)), squares)
    mean = torch.where(far, over.broadcast(low + mean_distance), mean)
    value = torch.where(far, x - over.broadcast(low) - over.broadcast(mean_distance), value)

    std = root(squares / (remaining - ddof)).masked_fill(remaining <= ddof, 0)
    if tolerance is not None:
        std = std.masked_fill(std <= over.broadcast(tolerance), 0)
        value = value.masked_fill(value.abs() <= over.broadcast(tolerance), 0)
    return Normalised(mean, std, value)


# --- what is round-off and not signal ------------------------------------------------------------------------------


def adds_exactly(terms: Tensor) -> bool:
    """Return whether it is certain that every sum of some of these numbers is exact, without rounding, in float32 too.

    If the result is False, the sums may be exact all the same.
    """
    return bool((terms * GRAIN == (terms * GRAIN).round()).all() and terms.abs().sum() < GRAINY)


def sum_tolerance(batch: Batch) -> Tensor | None:
    """Return, for each group, the largest std of its sums Σ_k w_k r_k that is mere round-off.

    It is 0 for a group in which no sum is rounded. The result is None if no sum of the whole batch is rounded.
    """
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
    """Return the sums `s` = Σ_k w_k z_k, set to exactly 0 in the groups in which the normalised rewards cancel out.

    A group counts as cancelled if the root mean square of its sums is no more than round-off.

    z: the normalised rewards, with the means and stds of their groups.
    """
    group = batch.each_group
    size = root(group.squares(s) / group.count)
    small = (size > 0) & (size <= _LARGEST_TOLERANCE * batch.weights.abs().sum())
    if not small.any():
        return s
    live = (z.std > 0) | batch.convention.leave_one_out
    # How large a reward is beside its own std.
    beside = (z.mean.abs() + z.std) / z.std.masked_fill(z.std == 0, 1)
    tolerance = (
        (beside * (_CANCELLED_UNITS * torch.finfo(s.dtype).eps)).clamp(max=_LARGEST_TOLERANCE).masked_fill(~live, 0)
    )
    tolerance = (batch.weights.abs() * tolerance).sum(0)
    if batch.convention.leave_one_out:  # each response has its own tolerance, and the group takes the largest
        tolerance = -group.lowest(-tolerance)
    cancelled = small & (size <= tolerance)
    return s.masked_fill(group.broadcast(cancelled) & ~s.isnan(), 0)


def normalised_in_float32(error: Tensor, std: Tensor, eps: float, count: Tensor | int) -> Tensor:
    """Return a bound on the error of (x − mean) / (std + eps) in float32.

    The normalised values of `count` responses stay below √count, so the bound is at most √count. It is 0 where std +
    eps is 0, since nothing is divided there.

    error: a bound on the error of x − mean.
    count: how many responses are normalised together.

    >>> normalised_in_float32(torch.tensor([0.01, 1.0, 1.0]), torch.tensor([0.5, 1e-9, 0.0]), 0.0, 4)
    tensor([0.0200, 2.0000, 0.0000])
    """
    divisor = std + eps
    most = torch.as_tensor(count, dtype=error.dtype).sqrt()
    return torch.minimum(error / divisor.masked_fill(divisor == 0, torch.inf), most)
