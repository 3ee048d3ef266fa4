"""The selection that advantages make: which rewards they raise, and which responses they punish though better."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from gdpo_core._groups import Batch
from gdpo_core.pushing import push_sums


def ungated_column(name: str) -> str:
    """Return the name of the column that holds a reward without its gate, in a table that has it behind the gate."""
    return f"ungated:{name}"


class Selected(NamedTuple):
    """Sums of each reward over the responses of each group that have an advantage; (rewards, groups) each."""

    products: Tensor  # Σ A d, with d the distance of the reward from its mean in the group
    squares: Tensor  # Σ d²
    above: Tensor  # responses with d > 0
    punished: Tensor  # of these: those with A ≤ 0


@dataclass(frozen=True)
class Deviations:
    """The distances of the rewards of some batches from the means of their groups."""

    batch: Batch
    distance: Tensor  # (rewards, …) 0 where a reward is missing
    squares: Tensor  # (rewards, groups) Σ d²
    above: Tensor  # (rewards, …) 1 where d is above 0 by more than round-off, else 0
    better: Tensor  # (rewards, groups) how many of these a group has
    same: float  # of the largest value of a group: what is nearer to 0 is 0

    def selected_by(self, a: Tensor) -> Selected:
        """Return which rewards these advantages raise and whom they punish; a: (prompts, rollouts) or (responses,)."""
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


def deviations_of(batch: Batch, distance: Tensor, same: float) -> Deviations:
    """Return the distances of rewards with what is computed of them once; same: as `gdpo_core._pairs.tie_tolerance`."""
    above = (distance > _round_off(batch, distance, same)).to(distance)
    squares, better = (batch.group.total(x) for x in (distance.square(), above))
    return Deviations(batch, distance, squares, above, better, same)


def _round_off(batch: Batch, x: Tensor, same: float) -> Tensor:
    """Return for every response the size up to which a value counts as 0 in its group."""
    return batch.group.broadcast(-same * batch.group.lowest(-x.abs()))


def _flat(batch: Batch, x: Tensor) -> Tensor:
    """Return (…, groups) of what a reduction over groups gives."""
    return x.squeeze(-1) if batch.index is None else x
