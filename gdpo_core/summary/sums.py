"""Sums over the rewards and lengths of a log, per batch."""

from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from gdpo_core.batch import Batch
from gdpo_core.conventions import VERL
from gdpo_core.normalise import normalise
from gdpo_core.reproduce.recipe import prepared

# A reward is nearly constant in a group if its std is at most FAINT of its largest absolute value there. A reward with
# few values, such as right or wrong plus a constant, does not count: one lowest and one highest response aside, at most
# the part AT_ENDS of the responses may have the lowest or the highest value.
FAINT, AT_ENDS = 1e-2, 0.25

Sums = dict[str, Tensor]  # (batches,) by name


@dataclass(frozen=True)
class Grouped:
    """Several batches computed as one, with sums over groups and over batches."""

    batch: Batch
    batch_of: Tensor  # (groups,) the batch of each group
    batches: int  # how many there are

    def over_groups(self, x: Tensor) -> Tensor:
        """(…, prompts, rollouts) or (…, responses) summed to (…, groups)."""
        return self._flat(self.batch.group.total(x))

    def lowest(self, x: Tensor) -> Tensor:
        """(…, groups) the lowest value of each group."""
        return self._flat(self.batch.group.lowest(x))

    def silent(self, x: Tensor) -> Tensor:
        """(groups,) whether every value of a group is 0; NaN is not 0."""
        return self.lowest(-x.abs()) == 0

    def back(self, x: Tensor) -> Tensor:
        """(…, groups) repeated for each response of the group."""
        return x[..., None] if self.batch.index is None else self.batch.group.spread(x)

    def centred(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The std, (…, groups), and each value minus the mean of its group; 0 where x is NaN."""
        centred = normalise(x, self.batch.group, eps=None, ddof=1, skip=bool(x.isnan().any()))
        return self._flat(centred.std), centred.value.nan_to_num_(nan=0.0)

    def sums(self, **of_groups: Tensor) -> Sums:
        """(groups,) summed to (batches,); of (rewards, groups) one sum per reward, its name ending in _0, _1, …"""
        found = {}
        for name, x in of_groups.items():
            x = x if x.is_floating_point() else x.long()
            for k, row in enumerate(x.reshape(-1, x.shape[-1])):
                total = row.new_zeros(self.batches).index_add_(0, self.batch_of, row)
                found[name if x.ndim == 1 else f"{name}_{k}"] = total
        return found

    def lowest_of_batch(self, x: Tensor) -> Tensor:
        """(batches,) the lowest value of each batch; x: (groups,)."""
        return x.new_zeros(self.batches).scatter_reduce_(0, self.batch_of, x, "amin", include_self=False)

    def _flat(self, x: Tensor) -> Tensor:
        return x.squeeze(-1) if self.batch.index is None else x


def group_sums(of: Grouped) -> Sums:
    """The number of responses and groups, and the sizes of the smallest and the largest group."""
    sizes = of.over_groups(torch.ones_like(of.batch.rewards[0])).long()
    return of.sums(responses=sizes, groups=torch.ones_like(sizes)) | {
        "smallest_group": of.lowest_of_batch(sizes),
        "largest_group": -of.lowest_of_batch(-sizes),
    }


def reward_sums(of: Grouped, off: Tensor, std: Tensor) -> Sums:
    """Sums over each reward and each pair of rewards; off, std: as `Grouped.centred` gives them for the rewards."""
    r, there = of.batch.rewards, ~of.batch.rewards.isnan()
    values, squared = r.nan_to_num(nan=0.0), off.square()
    count = of.over_groups(there.to(r))  # (rewards, groups)
    largest = -of.lowest(-values.abs())
    low, high = of.lowest(r.nan_to_num(nan=torch.inf)), -of.lowest((-r).nan_to_num(nan=torch.inf))
    at_ends = of.over_groups(((r == of.back(low)) | (r == of.back(high))).to(r))
    fine = (count > 2) & (at_ends - 2 <= AT_ENDS * (count - 2))
    found = of.sums(
        there=count.long(),
        total=of.over_groups(values),
        squares=of.over_groups(values.square()),
        dead_groups=std == 0,
        there_groups=count > 0,
        faint_groups=(std > 0) & (std <= FAINT * largest) & fine,
        spread=of.over_groups(squared),
        spread_count=(count - 1).clamp_(min=0).long(),
    )
    for k in range(len(r)):
        found |= {f"low_{k}": of.lowest_of_batch(low[k]), f"high_{k}": -of.lowest_of_batch(-high[k])}
    for i, j in combinations(range(len(r)), 2):
        products = {
            f"cross_{i}_{j}": off[i] * off[j],
            f"cross_squares_{i}_{j}": squared[i] * there[j],
            f"cross_squares_{j}_{i}": squared[j] * there[i],
        }
        found |= of.sums(**{name: of.over_groups(x) for name, x in products.items()})
    return found


def length_sums(of: Grouped, off: Tensor, lengths: Tensor) -> Sums:
    """Sums over the lengths, NaN where unknown, and their products with rewards; off: the rewards minus their means."""
    there, values = ~lengths.isnan(), lengths.nan_to_num(nan=0.0)
    beside = of.centred(lengths)[1]
    found = of.sums(
        length_there=of.over_groups(there.to(values)).long(),
        length_total=of.over_groups(values),
        length_squares=of.over_groups(values.square()),
        length_spread=of.over_groups(beside.square()),
        length_cross=of.over_groups(beside * off),
    )
    moved, silent = torch.zeros_like(lengths), torch.zeros_like(there)
    if bool((lengths >= 1).all()):
        formula, batch = prepared("gdpo", replace(of.batch, convention=VERL, lengths=lengths))
        steps = formula(batch)
        silent = of.back(of.silent(steps.sums)) & steps.advantages.isfinite()
        moved = steps.advantages.abs().masked_fill_(~silent, 0)
    return found | of.sums(silent_verl=of.over_groups(moved), silent_responses=of.over_groups(silent.to(values)).long())
