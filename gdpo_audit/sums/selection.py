"""The selection that advantages make among responses: which rewards they raise, and which good responses they
punish.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from gdpo_core.numerics.batch import Batch
from gdpo_core.pushing import push_sums


def ungated_column(name: str) -> str:
    """Return the name of the column in which a gated reward stands as the log has it. The reward's usual column then
    holds the values that the gate leaves.
    """
    return f"ungated:{name}"


class Selected(NamedTuple):
    """Sums of each reward in each group, each (rewards, groups), over the responses that have an advantage, A."""

    products: Tensor  # Σ A d, with d the distance of the reward from its mean in the group
    squares: Tensor  # Σ d²
    above: Tensor  # how many responses are good: d > 0, or d < 0 where the run wants less of the reward
    punished: Tensor  # how many of the good responses have A ≤ 0


@dataclass(frozen=True)
class Deviations:
    """The distances d of rewards from the means of their groups, and the sums over each group that need no advantages.

    same: a number counts as 0 if its size is at most this part of the largest size in its group.
    """

    batch: Batch
    distance: Tensor  # (rewards, …) 0 where a reward is missing
    squares: Tensor  # (rewards, groups) Σ d²
    above: Tensor  # (rewards, …) 1 where d is above 0 (below 0 if less is wanted) by more than round-off, else 0
    better: Tensor  # (rewards, groups) in how many responses of a group `above` is 1
    same: float  # of the largest size in a group: the part up to which a number counts as 0

    def selected_by(self, a: Tensor) -> Selected:
        """Return the sums and counts of `Selected`, for every reward and group.

        Two are sums, Σ A d and Σ d². The other two count the responses that are better than their group's mean, and
        those of them that have an advantage of 0 or less.

        a: (prompts, rollouts) or (responses,) the advantages A; a response whose advantage is NaN or infinite is left
            out.
        """
        finite, above, better = a.isfinite(), self.above, self.better
        if bool(finite.all()):
            products, squares = self.batch.group.total(self.distance * a), self.squares
        else:
            products, squares = push_sums(a, self.distance, self.batch.group)
            a, above = a.masked_fill(~finite, 0), above * finite
            better = self.batch.group.total(above)
        low = (a <= _round_off(self.batch, a, self.same)).to(above)
        counts = (x.long() for x in (better, self.batch.group.total(above * low)))
        return Selected(*(_flat(self.batch, x) for x in (products, squares, *counts)))


def deviations_of(batch: Batch, distance: Tensor, same: float, wanted: Sequence[int]) -> Deviations:
    """Return the distances of rewards from the means of their groups, with the sums that follow from the distances
    alone.

    batch: the batches that the rewards belong to.
    distance: (rewards, …) these distances, 0 where a reward is missing.
    same: the largest distance that counts as round-off, as a part of the largest distance in its group.
    wanted: what the run wants of each reward: 1 for a higher one, -1 for a lower one, and 0 for neither; then no
        response counts as good.
    """
    better_by = distance * distance.new_tensor(wanted).view(-1, *[1] * (distance.ndim - 1))
    above = (better_by > _round_off(batch, distance, same)).to(distance)
    squares, better = (batch.group.total(x) for x in (distance.square(), above))
    return Deviations(batch, distance, squares, above, better, same)


def _round_off(batch: Batch, x: Tensor, same: float) -> Tensor:
    """Return the largest absolute value that counts as 0 in the group of each response: `same` times the largest
    absolute value of x in the group.

    batch: tells the group of each response.
    x: a value per response.
    same: the part of the largest value of a group up to which a value counts as 0.
    """
    return batch.group.broadcast(-same * batch.group.lowest(-x.abs()))


def _flat(batch: Batch, x: Tensor) -> Tensor:
    """Return x in the shape (…, groups).

    In a batch without group ids the rollouts have an axis of their own. A mean or sum over it leaves x with a last axis
    of length 1, which is dropped here. In a batch with group ids x comes back unchanged.

    batch: the batch that x was reduced in.
    x: a number per group.
    """
    return x.squeeze(-1) if batch.index is None else x
