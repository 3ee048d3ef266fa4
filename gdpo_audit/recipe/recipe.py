"""A recipe of advantages, the advantages that it makes of a log's rewards, and how far these are from the logged
ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_audit.logs.names import reward_column, reward_columns
from gdpo_audit.recipe.round_off import float32_error
from gdpo_core.conventions import Convention
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.batch import Batch, make_batch
from gdpo_core.numerics.statistics import ROUNDED
from gdpo_core.registry import method_for

# How far a logged advantage may be from the recipe's, in addition to the framework's float32 round-off.
TOLERANCE = 2e-5
# The smallest difference of two logged advantages that is no round-off.
_DIFFERENT = 1e-3
# The part of their size by which multiples of the same advantages may differ.
_MULTIPLE = 1e-4
# The grids that a log's numbers may be rounded to, the coarsest first: so many decimals, or a float of few bits.
GRIDS: dict[str, int | torch.dtype] = {
    **{f"{n} decimals": n for n in (2, 3, 4)},
    "bf16": torch.bfloat16,
    "float16": torch.float16,
}
# The changes that may have come after the method, in words that follow its name in a sentence.
AFTER = {"whitened": "and then whitened over the batch", "factor": "times a factor for each batch"}
# The root mean square error, relative to the advantages, up to which they count as made exactly: in float32 or with
# few decimals, and in float64.
EXACT, _EXACT_IN_FLOAT64 = 2e-6, 1e-9
_SAME = 1e-7  # the relative distance of a number from the same one in float32
FITTED_TO_ROUNDED = (
    1.5  # The multiple of the rounding that is allowed, because weights fitted to rounded numbers come only near.
)


@dataclass(frozen=True)
class Recipe:
    """Describe how logged advantages were made: the method, the convention and the weights that reproduce all of them,
    or most of them.
    """

    method: str  # a key of NAMES
    convention: str  # a key of ALL_CONVENTIONS
    weights: tuple[float, ...]  # one per reward; an unknown weight is only one choice of many
    unknown: tuple[int, ...]  # the rewards whose weight the log does not show, such as a reward that never varies
    up_to_scale: bool  # whether the log leaves a common factor of the weights open
    grid: str = ""  # of GRIDS: how coarsely the advantages are logged
    # Whether other conventions make the same advantages on that grid, while the framework does not tell which one ran.
    convention_open: bool = False
    after: str = ""  # a key of AFTER, the change that came after the method
    # The fewest and the most responses that its batch step ran over, where the log does not hold all of them.
    batch_rows: tuple[int, int] | None = None
    # The other methods that make the same advantages on these rewards, so that the log does not part them; None where
    # no other was tried.
    alike: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def known(self) -> tuple[float | None, ...]:
        """The weights, with None for a reward whose weight the log does not show."""
        return tuple(None if k in self.unknown else w for k, w in enumerate(self.weights))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Phrases on the advantages that can follow the name of the method in a sentence, at most two; () where there
        is nothing to say.

        The first is there only if something changed the advantages after the method, and names that change. If a batch
        step over more responses than the log holds explains the change, the phrase gives the number of these responses
        instead. The second says how coarsely the advantages are logged, if they are rounded.

        >>> Recipe("grpo", "trl", (1.0,), (), False, grid="4 decimals").remarks
        ('logged with 4 decimals',)
        """
        remarks = [AFTER[self.after]] if self.after else []
        if self.batch_rows is not None:
            fewest, most = self.batch_rows
            rows = f"{most}" if fewest == most else f"{fewest} to {most}"
            dropped = "the log does not hold all, as where silent groups are dropped after that step"
            remarks = [f"whose batch step ran over {rows} responses a batch, of which {dropped}"]
        if self.grid:
            too_coarse = ", too coarse to show the convention" if self.convention_open else ""
            remarks.append(f"logged {'with' if self.grid.endswith('decimals') else 'in'} {self.grid}{too_coarse}")
        return tuple(remarks)


@dataclass(frozen=True)
class Tensors:
    """The columns of a table as tensors, in the form in which methods take them. Groups and batches are numbered from 0
    in the order in which they appear.
    """

    rewards: Tensor  # (prompts, rollouts, rewards), or (responses, rewards) where groups differ in size; NaN = missing
    group: Tensor | None  # (responses,) the group of each response; None where all groups have one size
    batch: Tensor  # (groups,) the batch of each group
    lengths: Tensor | None  # (prompts, rollouts) or (responses,) tokens
    advantages: Tensor  # (responses,) as logged; NaN = none
    grid: str = ""  # of GRIDS: how coarsely the advantages are logged

    def digest(self) -> str:
        """Return a text that two logs share only if all their numbers are the same."""
        digest = blake2b()
        for tensor in (self.rewards, self.group, self.batch, self.lengths, self.advantages):
            digest.update(b"none" if tensor is None else str(tensor.shape).encode() + tensor.numpy().tobytes())
        return digest.hexdigest() + self.grid

    @cached_property
    def rounding(self) -> Tensor:
        """(responses,) how far each logged advantage may be from its value before rounding; 0 if `grid` is empty."""
        return half_step(self.grid, self.advantages.nan_to_num())

    @cached_property
    def exact(self) -> float:
        """The root mean square error up to which a recipe makes these advantages exactly. It is smaller where they have
        more digits than float32 has.
        """
        a = self.advantages[self.advantages.isfinite()]
        in_float32 = bool((a == a.float().double()).all()) or bool(grid_of(a)) or not a.numel()
        return EXACT if in_float32 or bool((a == a.round(decimals=8)).all()) else _EXACT_IN_FLOAT64

    def read(self, convention: Convention, weights: Sequence[float] | None = None) -> Batch:
        """Return the log as a `Batch` under a convention, ready for a method.

        weights: one per reward, 1 each by default.
        """
        if convention not in self._batches:
            lengths = self._batch.lengths if convention.last_step == "tokens" else None
            self._batches[convention] = replace(self._batch, convention=convention, lengths=lengths)
        batch = self._batches[convention]
        return batch if weights is None else batch.with_weights(weights)

    @cached_property
    def _batches(self) -> dict[Convention, Batch]:
        """The log under each convention under which it was read."""
        return {}

    @cached_property
    def _batch(self) -> Batch:
        """The log as a `Batch`, made once, so that its input is not checked anew for each convention and weights."""
        return make_batch(self.rewards, groups=self.group, lengths=self.lengths, batches=self.batch)

    @cached_property
    def group_of_response(self) -> Tensor:
        """(responses,) the number of the group of each response."""
        if self.group is not None:
            return self.group
        prompts, rollouts = self.rewards.shape[:2]
        return torch.arange(prompts).repeat_interleave(rollouts)

    @cached_property
    def batch_of_response(self) -> Tensor:
        """(responses,) the number of the batch of each response."""
        return self.batch[self.group_of_response]

    @property
    def batches(self) -> int:
        """The number of batches."""
        return int(self.batch[-1]) + 1


def tensors_of(table: pl.DataFrame, rewards: Sequence[str]) -> Tensors:
    """Return the table of a run as tensors.

    Without a column of advantages, all advantages are NaN. The lengths are None if they are not logged, or if one of
    them is missing or no whole number from 1 on.

    table: the responses. The rows of a group, and those of a batch, have to stand together.
    rewards: the names of the rewards to take.
    """
    values = torch.empty(len(rewards), len(table), dtype=torch.float64)  # (rewards, responses)
    for row, name in zip(values.numpy(), rewards, strict=True):
        row[:] = table[reward_column(name)].to_numpy()
    advantages = torch.full((len(table),), torch.nan, dtype=torch.float64)
    if "advantage" in table.columns:
        advantages = torch.from_numpy(table["advantage"].cast(pl.Float64).to_numpy().copy())
    lengths = None
    if "length" in table.columns and not table["length"].null_count():
        tokens = table["length"].to_numpy()
        # Lengths that are no counts of tokens cannot be weights, so that the log is read without them.
        if bool(((tokens >= 1) & (tokens == np.floor(tokens)) & np.isfinite(tokens)).all()):
            lengths = torch.from_numpy(tokens.copy())

    first = torch.from_numpy(starts_of(table["group"].to_numpy()))  # (groups,) the first response of each
    ids = table["batch"].to_numpy()[first.numpy()]
    batch = torch.from_numpy(np.concatenate([[0], np.cumsum(ids[1:] != ids[:-1])]))
    sizes = torch.diff(first, append=torch.tensor([len(table)]))
    if bool((sizes == sizes[0]).all()):
        shape = (len(first), int(sizes[0]))
        lengths = None if lengths is None else lengths.view(shape)
        return Tensors(values.view(-1, *shape).movedim(0, -1), None, batch, lengths, advantages)
    group = torch.arange(len(first)).repeat_interleave(sizes)
    return Tensors(values.T, group, batch, lengths, advantages)


def starts_of(number: np.ndarray) -> np.ndarray:
    """Return the positions at which a stretch of equal numbers begins.

    >>> starts_of(np.array([4, 4, 7, 4])).tolist()
    [0, 2, 3]
    """
    return np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1])


@dataclass(frozen=True)
class AdvantageComparison:
    """Logged advantages compared with computed ones, with a number per response in each tensor."""

    computed: Tensor
    error: Tensor  # the distance; NaN where nothing is logged, infinite where the method gives no number
    # The largest error that counts as reproduced: the framework's float32 round-off, plus TOLERANCE (more for a large
    # advantage), plus an allowance for the log's rounding if its advantages are rounded.
    allowed: Tensor


def compare(log: Tensors, recipe: Recipe) -> AdvantageComparison:
    """Compare the logged advantages with those that a recipe makes of the logged rewards. A batch counts as reproduced
    if no error in it is larger than allowed.
    """
    batch = log.read(ALL_CONVENTIONS[recipe.convention], recipe.weights)
    return compare_with(replace(log, grid=recipe.grid), recipe.method, batch, recipe.after)


def compare_with(log: Tensors, method: str, batch: Batch, after: str = "") -> AdvantageComparison:
    """Compare the logged advantages with those that a method makes of a batch.

    log: the logged advantages, and how coarsely they are rounded.
    method: the id of the method.
    batch: the rewards of the log, with the convention and the weights to use.
    after: the change that came after the method, a key of AFTER; "" for no change.
    """
    formula, batch = method_for(method, batch)
    steps = formula(batch)
    computed = batch.zero_unrewarded(steps.advantages).flatten()
    allowed = float32_error(method, batch, steps).nan_to_num().flatten()
    if after:
        computed, factor = _after(after, computed, log)
        allowed = allowed * factor
    # A large advantage loses more digits in its last steps: the mean is taken off, n / (n - 1) is multiplied, and the
    # log stores it.
    allowed = allowed + (ROUNDED * computed.abs().nan_to_num(posinf=0.0)).clamp(min=TOLERANCE)
    if log.grid:
        allowed = allowed + FITTED_TO_ROUNDED * log.rounding
    error = (log.advantages - computed).abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)
    return AdvantageComparison(
        computed, error.masked_fill_(log.advantages.isnan(), torch.nan), allowed.expand(len(error))
    )


def _after(after: str, computed: Tensor, log: Tensors) -> tuple[Tensor, Tensor]:
    """Return two tensors, each (responses,): the advantages after a last change of each batch, and the absolute value
    of the factor by which that change multiplies each advantage.

    after: the change, a key of AFTER: "whitened" gives the batch mean 0 and std 1, "factor" multiplies the batch by the
        number that brings it nearest to the logged advantages.
    computed: (responses,) the advantages before the change.
    log: says which responses have a logged advantage; only these count in mean, std and factor.
    """
    index, there = log.batch_of_response, ~log.advantages.isnan() & computed.isfinite()
    count = computed.new_zeros(log.batches).index_add_(0, index, there.to(computed))
    known = computed.masked_fill(~there, 0)

    def total(x: Tensor) -> Tensor:
        """Return (batches,) the sum of x over the responses of each batch of `log`.

        x: (responses,).
        """
        return x.new_zeros(log.batches).index_add_(0, index, x)

    if after == "whitened":
        mean = (total(known) / count.clamp(min=1))[index]
        spread = (total(((known - mean) * there).square()) / (count - 1).clamp(min=1)).sqrt()
        factor = 1 / spread.masked_fill(spread == 0, torch.inf)
        return (computed - mean) * factor[index], factor[index]
    square = total(known.square())
    factor = total(known * log.advantages.nan_to_num()) / square.masked_fill(square == 0, torch.inf)
    return computed * factor[index], factor[index].abs()


def same_direction(log: Tensors, comparison: AdvantageComparison) -> Tensor:
    """Return (groups,) whether the logged advantages of a group are its computed advantages times one positive factor.

    If all computed advantages of a group are 0, all logged ones have to be 0 too. False for a group in which a logged
    advantage is missing.

    If this holds although the logged advantages differ from the computed ones, the group was normalised together with
    other responses than the logged ones. That happens where an evaluation wrote into the same file.

    log, comparison: the logged advantages, and the computed ones beside them.
    """
    index, computed = log.group_of_response, comparison.computed

    def total(x: Tensor) -> Tensor:
        """Return (groups,) the sum of x over the responses of each group of `log`.

        x: (responses,).
        """
        return x.new_zeros(len(log.batch)).index_add_(0, index, x)

    size = total(computed.square())
    factor = total(computed * log.advantages) / size.masked_fill(size == 0, 1)
    distance = (log.advantages - factor[index] * computed).abs()
    near = distance <= comparison.allowed + _MULTIPLE * log.advantages.abs()
    return (total((~near).double()) == 0) & ((factor > 0) | (size == 0))


def hidden_groups(table: pl.DataFrame, rewards: Sequence[str]) -> pl.Series:
    """Return the ids of the groups whose advantages depend on something that the log does not hold.

    In such a group two responses have equal rewards, and equal lengths if lengths are logged, but their advantages
    differ by more than `_DIFFERENT`. The ids are values of the column `group`. The series is empty if no advantages are
    logged.

    table: the responses.
    rewards: the names of the rewards.
    """
    if "advantage" not in table.columns:
        return table["group"].clear()
    same = ["group", *reward_columns(rewards), *["length"] * ("length" in table.columns)]
    advantage = pl.col("advantage").fill_nan(None)
    ranges = table.lazy().group_by(same).agg((advantage.max() - advantage.min()).alias("range"))
    return ranges.filter(pl.col("range") > _DIFFERENT).select(pl.col("group").unique()).collect()["group"]


def half_step(grid: str, x: Tensor) -> Tensor:
    """Return how far rounding to a grid can move each of the numbers x, and a little more; 0 without a grid.

    grid: a key of GRIDS, or "" for none.
    x: the numbers.

    >>> [round(half_step(grid, torch.tensor([1.0])).item(), 5) for grid in ("2 decimals", "bf16")]
    [0.005, 0.00391]
    """
    if not grid:
        return torch.zeros_like(x)
    size = GRIDS[grid]
    if isinstance(size, int):
        return 0.5 * 10.0**-size + 2 * _SAME * x.abs()
    floats = torch.finfo(size)
    return (floats.eps / 2 + 2 * _SAME) * x.abs().clamp(min=floats.tiny)


def grid_of(x: Tensor) -> str:
    """Return the coarsest grid on which all the numbers x lie, as a key of GRIDS, or "" if they lie on none. NaN and
    infinity are left out; if no number remains, the key is the first of GRIDS.

    >>> grid_of(torch.tensor([0.1234, -1.5])), grid_of(torch.tensor([0.5, -0.12345]))
    ('4 decimals', '')
    """
    x = x[x.isfinite()]
    for grid, size in GRIDS.items():
        held = x.round(decimals=size) if isinstance(size, int) else x.to(size).to(x)
        if bool(((x - held).abs() <= 2 * _SAME * x.abs()).all()):
            return grid
    return ""
