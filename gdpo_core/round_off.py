"""Which small numbers are round-off and not signal; divided by their own std they would look like signal."""

import torch
from torch import Tensor

from gdpo_core.batch import Batch, root
from gdpo_core.normalise import Normalised

# What is left of a sum that cancels, in units in the last place.
_UNITS = 8
# Of another reward, no reward may hide more than this part, however close to round-off it is itself.
_LARGEST = 0.02
# Numbers that are multiples of 1 / GRAIN below GRAINY, or whole ones below 2^24, float32 adds up exactly.
GRAIN, GRAINY = 1024, 2.0**14


def adds_exactly(terms: Tensor) -> bool:
    """Whether any of these numbers can be added up without rounding, in float32 too."""
    return bool((terms * GRAIN == (terms * GRAIN).round()).all() and terms.abs().sum() < GRAINY)


def of_sums(batch: Batch) -> Tensor | None:
    """Per group, the std of Σ_k w_k r_k up to which it is round-off; None where no sum is rounded."""
    count = len(batch.rewards)
    if count == 1 or batch.exact:
        return None
    terms = batch.weights * batch.rewards
    terms = terms.nan_to_num_() if batch.skips else terms
    largest = -batch.group.lowest(-terms.abs().sum(0))
    grain = torch.where(largest < GRAINY, GRAIN, 1).to(terms)
    rounded = (terms.mul_(batch.group.spread(grain)).frac_() != 0).any(0)
    if not rounded.any() and bool((largest < 2**24).all()):
        return None
    noise = largest * (count * torch.finfo(terms.dtype).eps)
    exact = (batch.group.total(rounded.to(terms)) == 0) & (largest < 2**24)
    return noise.masked_fill(exact, 0)


def without(batch: Batch, s: Tensor, group: Normalised) -> Tensor:
    """Σ_k w_k z_k, s, with exact zeros in the groups in which the normalised rewards cancel."""
    size = root(batch.group.count)
    norm = batch.group.norm(s.nan_to_num() if batch.skips else s)
    small = (norm > 0) & (norm <= size * (_LARGEST * batch.weight))
    if not small.any():
        return s
    live = (group.std > 0) | batch.convention.leave_one_out
    # The size of a reward beside its own spread.
    beside = (group.mean.abs() + group.std) / group.std.masked_fill(group.std == 0, 1)
    noise = (beside * (_UNITS * torch.finfo(s.dtype).eps)).clamp(max=_LARGEST).masked_fill(~live, 0)
    noise = (batch.weights.abs() * noise).sum(0)
    if batch.convention.leave_one_out:  # a value per response; the group takes the largest
        noise = -batch.group.lowest(-noise)
    cancelled = small & (norm <= noise * size)
    return s.masked_fill(batch.group.spread(cancelled) & ~s.isnan(), 0)
