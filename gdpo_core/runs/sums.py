"""What is added up over a run, per batch, and how the sums of its parts merge: no log has to fit into memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import polars as pl

from gdpo_core.conventions import COMPARED
from gdpo_core.runs.recipe import Recipe, starts_of

Array = np.ndarray
Number = TypeVar("Number", Array, float)  # (batches,), or one number for all batches

# How the values of two batches become one, where they are not added up.
LOWEST, HIGHEST, XOR = ({"merge": ufunc} for ufunc in (np.minimum, np.maximum, np.bitwise_xor))
HELD_EXAMPLES = 20  # of each thing: a report shows five, and some may be of batches that it leaves out
OWN_WAY = {"merge": np.add}  # and then what `join_scatter` says: a sum of plain squares would lose digits


class Made(NamedTuple):
    """What a batch is computed with, and how its logged advantages were made."""

    weights: tuple[float, ...]
    recipe: Recipe | None


@dataclass(frozen=True)
class Plan:
    """What a summary is computed with: the same for all parts of a run."""

    rewards: tuple[str, ...]
    weights: tuple[float, ...]
    convention: str  # a key of ALL_CONVENTIONS
    primary: int | None
    recipe: Recipe | None  # how the logged advantages were made
    extra_method: str | None = None  # to compute beside these
    examples_of: str | None = None  # the method whose ties, inversions and the like need examples; None: none
    changes: Mapping[int, Made] = field(default_factory=dict)  # by batch, where it is not `weights` and `recipe`

    def of_batch(self, batch: int) -> Made:
        """What this batch is computed with."""
        return self.changes.get(batch, Made(self.weights, self.recipe))

    def with_weights(self, named: Mapping[str, float]) -> "Plan":
        """The plan with these weights in every batch; rewards without one keep theirs."""

        def changed(weights: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(named.get(name, w) for name, w in zip(self.rewards, weights, strict=True))

        changes = {batch: Made(changed(made.weights), made.recipe) for batch, made in self.changes.items()}
        return replace(self, weights=changed(self.weights), changes=changes)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to compute: the three that every report compares, and the one that made the log."""
        made_the_log = [] if self.recipe is None else [self.recipe.method]
        return tuple(dict.fromkeys([*COMPARED, *made_the_log, *([self.extra_method] if self.extra_method else [])]))


class Moments(NamedTuple):
    """What the scatter of joined parts is made of; parts are on the last axis."""

    present: Array  # values
    total: Array  # of the values
    scatter: Array  # Σ of their squared distances from their mean


@dataclass(frozen=True)
class RewardSums:
    """Sums over each reward, (rewards, batches), and over each pair of rewards, (rewards, rewards, batches)."""

    present: Array  # responses that have the reward
    total: Array  # of its values
    scatter: Array = field(metadata=OWN_WAY)  # Σ of the squared distances of its values from their mean
    low: Array = field(metadata=LOWEST)  # infinite where no response has it
    high: Array = field(metadata=HIGHEST)
    degrees: Array  # of freedom of the std inside groups: responses that have it, minus one per group that holds it
    holding_groups: Array  # groups in which a response has it
    dead_groups: Array  # groups in which it is constant or missing
    faint_groups: Array  # groups in which it is nearly constant, see FAINT_STD
    # With d the distance from the mean of the group, over the responses that have both rewards of a pair i, j. The
    # correlation inside groups is products[i, j] / √(squared[i, j] squared[j, i]).
    products: Array  # Σ d_i d_j
    squared: Array  # Σ d_i²


@dataclass(frozen=True)
class MethodSums(Generic[Number]):
    """Sums over the advantages of one method.

    All but `silent_groups`, `squares` and the updates leave out a group with a NaN advantage: a framework that does not
    skip missing rewards makes such NaNs.
    """

    silent_groups: Number  # groups in which every advantage is 0
    squares: Number  # Σ A²
    update: Array  # (rewards, batches) Σ a_k A, with each reward's part a_k of A as in `gdpo_core.update_share`
    update_unright: Array  # the same of the groups that `unright_groups` counts
    mixed_groups: Number  # groups that hold two different reward vectors
    different_pairs: Number  # pairs in a group whose reward vectors differ
    tie_groups: Number  # groups in which such a pair has one advantage
    tied_pairs: Number  # how many such pairs have one advantage
    levels: Number  # distinct advantages, summed over the mixed groups
    primary_pairs: Number  # pairs in a group with different primary reward
    inverted: Number  # of these: the lower response gets more
    tied_primary: Number  # of these: both get the same
    # The weight on the primary reward above which no such pair is inverted; −infinite where none is.
    break_even: Number = field(metadata=HIGHEST)


@dataclass(frozen=True)
class LengthSums(Generic[Number]):
    """Sums over the lengths in tokens; 0 where the log has none."""

    squared: Number  # Σ d², with d the distance from the mean of the group
    products: Array  # (rewards, batches) Σ d times the distance of the reward from its mean
    silent_responses: Number  # responses in groups without a signal: 0 before the last step of verl's GDPO
    silent_verl: Number  # Σ |A| that it gives them none the less, because it weights its last step by tokens


@dataclass(frozen=True)
class LoggedSums(Generic[Number]):
    """Sums over the logged advantages; without a recipe nothing is compared."""

    count: Number  # how many there are
    zeros: Number  # how many are 0
    wrong: Number  # how many the recipe does not reproduce
    testable: Number  # how many are far enough from 0 to test the recipe
    impossible: Number  # of these: how many no rewards make, see runs/impossible.py
    wrong_groups: Number  # groups that hold such an advantage
    scaled_groups: Number  # of these: all advantages are the same positive multiple of the recipe's
    hidden_groups: Number  # groups in which something that the log does not hold made a difference
    max_error: Number = field(metadata=HIGHEST)  # −infinite where nothing is compared


@dataclass(frozen=True)
class Sums(Generic[Number]):
    """Sums over responses and groups: `Sums[Array]` of each batch, on the last axis, `Sums[float]` of all batches."""

    batch: Number = field(metadata=LOWEST)
    step: Number = field(metadata=LOWEST)  # the first and the last of the batch
    step_last: Number = field(metadata=HIGHEST)
    fingerprint: Number = field(metadata=XOR)  # a hash of rewards and logged advantages in their order
    responses: Number
    groups: Number
    mixed_groups: Number  # groups that hold two different reward vectors
    different_pairs: Number  # pairs in a group whose reward vectors differ
    primary_pairs: Number  # pairs in a group with different primary reward
    unright_groups: Number  # groups that hold the primary reward, in which no response has more than 0 of it
    live_responses: Number  # responses in groups with an advantage other than 0 before GDPO's step over the batch
    constant_sums: Number  # groups in which the weighted sum of the rewards is constant
    filtered_groups: Number  # of these: those with an advantage other than 0 before GDPO's step over the batch
    rewards: RewardSums
    methods: Mapping[str, MethodSums[Number]]
    lengths: LengthSums[Number]
    logged: LoggedSums[Number]


@dataclass(frozen=True)
class Examples:
    """The groups that show something best, at most `HELD_EXAMPLES` of each thing, and their rows."""

    scores: pl.DataFrame  # finding, reward (the number of the one it is about, or −1), score, group
    rows: pl.DataFrame


@dataclass(frozen=True)
class Summary:
    """The sums of a run, or of a part of it, in the order of the steps."""

    plan: Plan
    batches: Sums[Array]
    examples: Examples | None = None
    sample: tuple[pl.DataFrame, ...] = ()  # whole batches from all over the run, on which settings are tried


# --- merging ----------------------------------------------------------------------------------------------------------


def merge(summaries: Sequence[Summary]) -> Summary:
    """The summary of all parts of a run together, in any order.

    Parts of the same batch are added up. Sums over groups are then those of the whole batch. What comes from a step
    over the batch is not, if the groups of a batch were in several parts: squares and update of GDPO and of GRPO with
    the batch's std, silent_verl, a NaN that spreads over a batch, the comparison with the recipe, and the fingerprint.
    """
    plan = summaries[0].plan
    batches = _combine([s.batches for s in summaries], lambda arrays, _: np.concatenate(arrays, axis=-1))
    batches = take(batches, np.argsort(batches.batch, kind="stable"))
    batches = _join(batches, batches.batch)
    in_order = take(batches, np.lexsort((batches.batch, batches.step)))
    return Summary(plan, in_order, _merge_examples([s.examples for s in summaries if s.examples is not None]))


def _merge_examples(parts: Sequence[Examples]) -> Examples | None:
    """The groups of these parts with the highest scores; of equal ones the earliest."""
    if len(parts) < 2:
        return parts[0] if parts else None
    scores = pl.concat([part.scores for part in parts]).sort("score", "group", descending=[True, False])
    scores = scores.group_by("finding", "reward", maintain_order=True).head(HELD_EXAMPLES)
    held = pl.col("group").is_in(scores["group"].unique().implode())
    return Examples(scores, pl.concat([part.rows.filter(held) for part in parts], how="diagonal"))


def total(batches: Sums[Array]) -> Sums[float]:
    """The sums over all batches: plain numbers, and arrays without their last axis."""

    def over_all(arrays: list[Array], merged: np.ufunc) -> Any:
        x = merged.reduce(arrays[0], axis=-1)
        return x if x.ndim else x.item()

    return _with_scatter(_combine([batches], over_all), join_scatter(batches.rewards, np.array([0]))[..., 0])


def join_scatter(parts: RewardSums | Moments, starts: Array) -> Array:
    """Σ (x − mean)² of all parts from each start on; parts and starts are on the last axis.

    Chan, Golub and LeVeque, Updating formulae (1979): the scatter of the parts, and that of their means.

    >>> parts = Moments(np.array([2, 1]), np.array([1e9 + 1e9 + 2, 1e9 + 4]), np.array([2.0, 0.0]))  # 0, 2 | 4
    >>> join_scatter(parts, np.array([0])).tolist()
    [8.0]
    """
    count = np.maximum(parts.present, 1)
    sizes = np.diff(starts, append=count.shape[-1])
    mean = parts.total / count
    distance = mean - mean[..., starts].repeat(sizes, axis=-1)
    shift = np.add.reduceat(parts.present * distance, starts, axis=-1)
    shift = shift / np.maximum(np.add.reduceat(parts.present, starts, axis=-1), 1)
    between = parts.present * (distance - shift.repeat(sizes, axis=-1)) ** 2
    return np.add.reduceat(parts.scatter + between, starts, axis=-1)


def _with_scatter(sums: Any, scatter: Array) -> Any:
    return replace(sums, rewards=replace(sums.rewards, scatter=scatter))


def take(batches: Sums[Array], which: Array | slice) -> Sums[Array]:
    """Some of the batches; which: a mask, numbers or a slice."""
    return _combine([batches], lambda arrays, _: arrays[0][..., which])


def bin_batches(batches: Sums[Array], at_most: int = 200) -> Sums[Array]:
    """The same run in at most `at_most` rows: consecutive batches are put together under the number of the first."""
    rows = len(batches.batch)
    return batches if rows <= at_most else _join(batches, np.arange(rows) * at_most // rows)


def _join(batches: Sums[Array], number: Array) -> Sums[Array]:
    """Each run of batches of equal number merged into one."""
    starts = starts_of(number)
    joined = _combine([batches], lambda arrays, merged: merged.reduceat(arrays[0], starts, axis=-1))
    return _with_scatter(joined, join_scatter(batches.rewards, starts))


def _combine(records: Sequence[Any], make: Callable[[list[Array], np.ufunc], Any]) -> Any:
    """A record of the same kind; `make` gets each array of all records, and how it merges."""

    def part(values: list[Any], merged: np.ufunc) -> Any:
        if isinstance(values[0], np.ndarray):
            return make(values, merged)
        if isinstance(values[0], Mapping):
            return {name: _combine([value[name] for value in values], make) for name in values[0]}
        return _combine(values, make)

    return type(records[0])(
        **{
            f.name: part([getattr(record, f.name) for record in records], f.metadata.get("merge", np.add))
            for f in fields(records[0])
        }
    )
