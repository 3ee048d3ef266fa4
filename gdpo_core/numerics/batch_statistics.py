"""The normalisation of weighted sums over the batch, of which GDPO's batch step is one kind.

Sums of exactly 0 stay 0. The statistics are those of `statistics.py`, where equal values give exactly 0 on every
processor.
"""

from dataclasses import replace

import torch
from torch import Tensor

from gdpo_core.numerics.batch import Batch
from gdpo_core.numerics.reductions import Reduction, skipping_missing
from gdpo_core.numerics.statistics import Normalised, centre, divisor, normalise, root, std_of, sum_tolerance

# By how many units in the last place the mean of many values may be wrong.
_MEAN_UNITS = 32


def normalise_over_batch(batch: Batch, s: Tensor) -> Normalised:
    """Return the sums `s` = Σ_k w_k z_k after GDPO's batch step: minus their mean, divided by their std and an eps.

    Mean and std are over all responses, over all tokens or over each group, as the convention says. Where they are of
    a single sum and the convention's `group_of_one` is "nan", the result is NaN.
    """
    c, over = batch.convention, batch.last_step
    mean, deviation = _centre_zero_sums(batch, s, over)
    std = std_of(deviation, over, c.ddof)
    if c.group_of_one == "nan":
        std = std.masked_fill(torch.as_tensor(over.counted(s) == 1, device=s.device), torch.nan)
    by = over.broadcast(divisor(std, c.batch_eps, c.batch_eps_to))
    return Normalised(mean, std, deviation / by, by)


def whiten_centred(batch: Batch, centred: Tensor) -> Normalised:
    """Return `centred` minus its mean over the batch, divided by its std over the batch plus eps.

    centred: the weighted sums less the mean of their group.
    """
    c, over = batch.convention, over_responses(batch)
    mean, deviation = _centre_zero_sums(batch, centred, over)
    std = std_of(deviation, over, c.ddof)
    by = over.broadcast(divisor(std, c.sum_eps))
    return Normalised(mean, std, deviation / by, by)


def divide_by_batch_std(batch: Batch, centred: Tensor, s: Tensor) -> Normalised:
    """Return `centred`, divided by the std of the weighted sums `s` over the batch.

    The convention's eps for sums is added to that std. The `mean` of the result is the mean of `s`, which is not
    subtracted.

    centred: the sums `s` less the mean of their group.
    """
    c, over = batch.convention, over_responses(batch)
    of_sums = normalise(s, over, ddof=c.ddof)
    by = over.broadcast(divisor(of_sums.std, c.sum_eps))
    return replace(of_sums, value=centred / by, by=by, centred=False)


def whiten(batch: Batch, s: Tensor) -> Normalised:
    """Return the weighted sums `s` minus their mean over all responses of the batch, divided by their std plus eps.

    All values are 0 where that std is no more than round-off.
    """
    tolerance = sum_tolerance(batch)
    if tolerance is not None:  # the batch takes the largest tolerance of its groups
        tolerance = -batch.all_responses.lowest(-(batch.group.broadcast(tolerance) + torch.zeros_like(s)))
    c = batch.convention
    return normalise(s, over_responses(batch), ddof=c.ddof, eps=c.sum_eps, tolerance=tolerance)


def over_responses(batch: Batch) -> Reduction:
    """Return the reduction over all responses of the batch, which skips NaN if the convention skips missing rewards."""
    over = batch.all_responses
    return skipping_missing(over) if batch.skips_missing else over


def _centre_zero_sums(batch: Batch, s: Tensor, over: Reduction) -> tuple[Tensor, Tensor]:
    """Return the mean of the sums `s` over the batch, and `s` minus it, where sums of exactly 0 stay 0.

    The sums of each group add up to 0, so their mean over responses is exactly 0. It is not subtracted, since its
    round-off would turn zeros into tiny advantages. A mean over tokens need not be 0; it is subtracted unless it is
    round-off. In two cases the groups need not add up to 0: with leave-one-out, and if some group of one keeps its raw
    reward. The mean is then subtracted as computed.

    over: the reduction over the responses or tokens over which the mean is taken.
    """
    c = batch.convention
    if c.leave_one_out or (c.group_of_one == "raw" and bool(torch.as_tensor(batch.group.count == 1).any())):
        return centre(s, over)
    if c.last_step == "tokens":
        count = over.counted(s)
        mean, size = over.total(s) / count, root(over.squares(s) / count)
        mean = mean.masked_fill(mean.abs() <= _MEAN_UNITS * torch.finfo(s.dtype).eps * size, 0)
        return mean, s - over.broadcast(mean)
    count, mean = over.counted(s), torch.zeros_like(over.member(s))
    return mean if isinstance(count, int) else mean.masked_fill(count == 0, torch.nan), s  # the mean of nothing is NaN
