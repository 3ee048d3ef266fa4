"""Batches whose advantages are computed together, and the reductions of a number per response to one per group."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from gdpo_audit.sums.sums import Array
from gdpo_core.numerics import pairs
from gdpo_core.numerics.batch import Batch, skipping_missing
from gdpo_core.numerics.statistics import centre, std_of


@dataclass(frozen=True)
class Grouped:
    """Hold several batches whose advantages are computed together, and sum up numbers of their responses by group."""

    batch: Batch
    starts: Array  # (groups,) the first response of each group
    masked: Tensor | None = None  # (responses,) whether a mask took a response's advantage from the update

    @cached_property
    def rewarded(self) -> Tensor:
        """(prompts, rollouts) or (responses,) whether a response has at least one reward."""
        return ~self.batch.rewards.isnan().all(0)

    @cached_property
    def blocks(self) -> list[pairs.Block]:
        """The groups, cut into blocks of groups of similar sizes."""
        return pairs.blocks_of(self.batch)

    def per_group(self, x: Tensor) -> Tensor:
        """Return (…, groups) the sum of x over each group.

        x: (…, prompts, rollouts) or (…, responses) a value per response.
        """
        return self.flat(self.batch.group.total(x))

    def count(self, x: Tensor) -> Tensor:
        """Return (groups,) the number of responses in each group for which x is true.

        x: a boolean per response, either (responses,) or in the shape of one reward in the batch.
        """
        return self.per_group(x.view(self.batch.rewards.shape[1:]).to(self.batch.rewards)).long()

    def lowest(self, x: Tensor) -> Tensor:
        """Return (…, groups) the lowest value in each group.

        x: a value per response.
        """
        return self.flat(self.batch.group.lowest(x))

    def highest(self, x: Tensor) -> Tensor:
        """Return (…, groups) the highest value in each group.

        x: a value per response.
        """
        return -self.lowest(-x)

    def silent(self, x: Tensor) -> Tensor:
        """Return (groups,) whether every value in a group is 0, where NaN is not 0.

        x: a value per response.
        """
        return self.lowest(-x.abs()) == 0

    def per_response(self, x: Tensor) -> Tensor:
        """Return x in a shape that broadcasts against a number per response.

        x: (…, groups) numbers per group.
        """
        return x[..., None] if self.batch.index is None else self.batch.group.broadcast(x)

    def centred(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return two tensors: the std of each group, and the distance of each value from the mean of its group.

        The std, (…, groups), divides by n − 1 and leaves out NaN. The distance has the shape of x, and is 0 where x is
        NaN.

        x: a value per response.
        """
        group = self.batch.group
        over = skipping_missing(group) if bool(x.isnan().any()) else group
        distance = centre(x, over)[1]
        return self.flat(std_of(distance, over, ddof=1)), distance.nan_to_num_(nan=0.0)

    def flat(self, x: Tensor) -> Tensor:
        """Return x in the shape (…, groups).

        If prompts are an axis of the batch, x has a last axis of length 1, which is dropped. Otherwise x comes back
        unchanged.

        x: the result of a reduction over groups.
        """
        return x.squeeze(-1) if self.batch.index is None else x
