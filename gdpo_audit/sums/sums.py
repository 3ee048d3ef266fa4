"""The sums over a run: records of arrays with a number per batch, and functions that select, join and add up
batches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from gdpo_audit.recipe.recipe import Recipe, starts_of
from gdpo_audit.sums.wanted import sign_of
from gdpo_core.conventions import COMPARED

Array = np.ndarray
_Number = TypeVar("_Number", Array, float)  # (batches,), or one number for all batches
PerReward: TypeAlias = Any  # (…, rewards, batches), or (…, rewards) for all batches

# The functions by which values of two batches become one, where they are not added up.
_MERGED = {"batch": np.minimum, "step": np.minimum, "low": np.minimum, "top": np.minimum, "fingerprint": np.bitwise_xor}
_MERGED |= dict.fromkeys(
    (
        "step_last",
        "high",
        "bottom",
        "break_even",
        "max_error",
        "max_error_live",
        "largest_silent",
        "largest_impossible",
    ),
    np.maximum,
)


class Made(NamedTuple):
    """The weights and the recipe of one batch.

    weights: one per reward, with which the advantages of every method are computed for this batch.
    recipe: how the batch's logged advantages were made, None where that is not known.
    """

    weights: tuple[float, ...]
    recipe: Recipe | None


@dataclass(frozen=True)
class Basis:
    """All that the sums over a run are computed with: its rewards, weights, convention and methods.

    convention: a key of ALL_CONVENTIONS.
    primary: the index of the primary reward, None without one.
    recipe: how the logged advantages were made, None where that is not known.
    extra_method: a method to compute beside those of every report, None for none.
    examples_of: the method whose ties, wrong orders and silent groups are shown by example groups; None to keep no
        examples.
    changes: the weights and the recipe of each batch in which they are not those of the run, by the number of the
        batch.
    signs: what the run wants of each reward, see `wanted.directions`; None if the signs of `weights` say it. They stay
        what they are where other weights are tried.
    """

    rewards: tuple[str, ...]
    weights: tuple[float, ...]
    convention: str
    primary: int | None
    recipe: Recipe | None
    extra_method: str | None = None
    examples_of: str | None = None
    changes: Mapping[int, Made] = field(default_factory=dict)
    signs: tuple[int, ...] | None = None

    @property
    def wanted(self) -> tuple[int, ...]:
        """The direction in which the run wants each reward: 1 for higher, -1 for lower, and 0 for neither."""
        return tuple(map(sign_of, self.weights)) if self.signs is None else self.signs

    def of_batch(self, batch: int) -> Made:
        """Return the weights and the recipe of the batch with this number: those in `changes` if it has an entry there,
        else those of the run.
        """
        return self.changes.get(batch, Made(self.weights, self.recipe))

    def with_weights(self, named: Mapping[str, float]) -> "Basis":
        """Return the basis with other weights in every batch.

        named: the new weights by reward; a reward without one keeps its own in each batch.
        """

        def changed(weights: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(named.get(name, w) for name, w in zip(self.rewards, weights, strict=True))

        changes = {batch: Made(changed(made.weights), made.recipe) for batch, made in self.changes.items()}
        return replace(self, weights=changed(self.weights), changes=changes)

    @property
    def methods(self) -> tuple[str, ...]:
        """The ids of the methods to compute: the three that every report compares, the method that made the logged
        advantages if it is known, and `extra_method`.
        """
        made_the_log = None if self.recipe is None else self.recipe.method
        return tuple(dict.fromkeys(m for m in (*COMPARED, made_the_log, self.extra_method) if m is not None))


@dataclass(frozen=True)
class RewardSums:
    """Sums, counts and extremes of the values of each reward, and sums over each pair of rewards.

    The last axis of each array numbers the batches. `products` and `squared` are (rewards, rewards, batches), all other
    fields are (rewards, batches).
    """

    present: PerReward  # responses that have the reward
    total: PerReward  # of its values
    scatter: PerReward  # Σ of the squared distances of its values from their mean, as plain squares would lose digits
    low: PerReward  # its lowest value; infinite where no response has it
    high: PerReward  # its highest value; −infinite where no response has it
    # The values of a reward may be rounded before they are summed up, so that several logged values count as the
    # highest one. This is the lowest of these, with all of its digits; infinite or −infinite where no response has the
    # reward.
    top: PerReward
    bottom: PerReward  # so for the lowest value: the highest logged value that counts as it
    degrees: PerReward  # of freedom of the std inside groups: responses that have it, minus one per group that holds it
    holding_groups: PerReward  # groups in which a response has it
    dead_groups: PerReward  # groups in which it is constant or missing
    faint_groups: PerReward  # groups in which it is nearly constant, see FAINT_STD
    # The next two are over the responses that have both rewards of a pair i, j, with d the distances from the means of
    # the group. The correlation inside groups is products[i, j] / √(squared[i, j] squared[j, i]).
    products: PerReward  # Σ d_i d_j
    squared: PerReward  # Σ d_i²


@dataclass(frozen=True)
class MethodSums(Generic[_Number]):
    """Sums over the advantages that one method makes, with a number per batch or one for all batches.

    A framework that does not skip missing rewards may make NaN advantages. A group with a NaN advantage is left out of
    the counts of pairs, ties, levels and mixed groups. `silent_groups` and the sums from `squares` to `punished` leave
    out no group.
    """

    silent_groups: _Number  # groups in which every advantage is 0
    squares: _Number  # Σ A²
    update: PerReward  # (rewards, batches) Σ a_k A, with each reward's part a_k of A as in `gdpo_core.update_share`
    update_unright: PerReward  # the part of `update` that comes from the groups which `unright_groups` counts
    # The next four, (rewards, batches), are over responses that have an advantage, with d the distance of the reward
    # from its mean in the group. The push is pushed / √(squares · distances).
    pushed: PerReward  # Σ A d
    distances: PerReward  # Σ d²
    above: PerReward  # good responses: those with d > 0, or with d < 0 if the run wants less of the reward
    punished: PerReward  # of the good responses, those with A ≤ 0
    mixed_groups: _Number  # groups that hold two different reward vectors
    different_pairs: _Number  # pairs in a group whose reward vectors differ
    tie_groups: _Number  # groups in which a pair with different reward vectors has one advantage
    tied_pairs: _Number  # pairs with different reward vectors that have one advantage
    levels: _Number  # distinct advantages, summed over the mixed groups
    primary_pairs: _Number  # pairs in a group with different primary reward
    inverted: _Number  # of these pairs, those in the wrong order: the worse response gets more
    tied_primary: _Number  # of these pairs, those in which both responses get the same
    # The size of the weight on the primary reward above which no pair is in the wrong order; −infinite if none is now.
    break_even: _Number


@dataclass(frozen=True)
class LengthSums(Generic[_Number]):
    """Sums over the lengths of completions, in tokens or in characters; all are 0 if the log holds no lengths."""

    present: _Number  # responses with a length
    total: _Number  # the sum of the lengths
    squared: _Number  # Σ d², with d the distance of a length from the mean of its group
    products: PerReward  # (rewards, batches) Σ d times the distance of the reward from its mean in the group


@dataclass(frozen=True)
class LoggedSums(Generic[_Number]):
    """Sums over the logged advantages of a batch or a group.

    Many of them compare the logged advantages with those that the recipe makes. Without a recipe they are 0, and the
    largest errors are −infinite.
    """

    count: _Number  # how many advantages are logged
    zeros: _Number  # how many are 0
    wrong: _Number  # how many the recipe does not reproduce
    testable: _Number  # how many the recipe makes larger than it may miss, so that they test the recipe
    impossible: _Number  # how many no rewards can make, see findings/impossible.py
    wrong_groups: _Number  # groups with an advantage that the recipe does not reproduce
    scaled_groups: _Number  # of these groups, those whose advantages are one positive multiple of the recipe's
    hidden_groups: _Number  # groups where equal rewards got different advantages; not sought if the recipe is right
    max_error: _Number  # how far an advantage is from the recipe's, at most; −infinite where nothing is compared
    max_error_live: _Number  # the same in groups in which the recipe makes an advantage other than 0
    largest_silent: _Number  # the largest size in groups of which the recipe makes only zeros: round-off
    residue_groups: _Number  # groups of which the recipe makes only zeros, and the log more than it may miss
    largest_impossible: _Number  # the size of the largest advantage that no rewards make; 0 where there is none


@dataclass(frozen=True)
class Sums(Generic[_Number]):
    """Sums over responses and groups.

    A `Sums[Array]` has a number per batch on the last axis of its arrays. It may also have a number per group, or per
    other piece of a run. A `Sums[float]` holds the sums of all batches together.
    """

    batch: _Number
    step: _Number  # the first step of the batch, and the last one
    step_last: _Number
    fingerprint: _Number  # a hash of rewards and logged advantages in their order
    content: _Number  # the same in any order of the rows
    responses: _Number
    groups: _Number
    mixed_groups: _Number  # groups that hold two different reward vectors
    different_pairs: _Number  # pairs in a group whose reward vectors differ
    primary_pairs: _Number  # pairs in a group with different primary reward
    # Groups that hold the primary reward, in which no response has more than 0 of it, or less if less is wanted.
    unright_groups: _Number
    live_responses: _Number  # responses in groups with an advantage other than 0 before GDPO's step over the batch
    constant_sums: _Number  # groups in which the weighted sum of the rewards is constant
    filtered_groups: _Number  # of these groups, those with an advantage other than 0 before GDPO's step over the batch
    rewards: RewardSums
    methods: Mapping[str, MethodSums[_Number]]
    lengths: LengthSums[_Number]
    logged: LoggedSums[_Number]


_RECORDS = (RewardSums, MethodSums, LengthSums, LoggedSums, Sums)


def each(make: Callable[..., Any], *records: Any, name: str = "") -> Any:
    """Return a record, or a dict, like the first one, in which each field is `make(name, *values)`: its name, and the
    values that all given records hold there.

    Records and dicts inside are walked into by the same rule. For plain values in place of records the result is
    `make(name, *values)` with the argument `name`.
    """
    first: Any = records[0]
    if isinstance(first, _RECORDS):
        return type(first)(**each(make, *map(vars, records)))
    if isinstance(first, dict):
        return {key: each(make, *(record[key] for record in records), name=key) for key in first}
    return make(name, *records)


def select_batches(batches: Sums[Array], which: Array | slice) -> Sums[Array]:
    """Return some of the batches.

    batches: sums over each batch.
    which: a mask over the batches, their positions, or a slice.
    """
    return each(lambda _, x: x[..., which], batches)


def concat(several: Sequence[Sums[Array]]) -> Sums[Array]:
    """Return the batches of several sums, those of the first before those of the second."""
    return each(lambda _, *arrays: np.concatenate(arrays, axis=-1), *several) if len(several) > 1 else several[0]


def add_up(batches: Sums[Array], number: Array) -> Sums[Array]:
    """Return the sums of all batches that have the same number, in ascending order of these numbers.

    Some fields are not added up. Numbers of batches and steps, and extremes, are replaced by the lowest or the highest
    of them, as `_MERGED` says. The top of a reward becomes the lowest top of the batches that hold its highest value,
    and its bottom the highest bottom of those that hold its lowest one.
    Fingerprints are joined by XOR. The scatter of a reward, its sum of squared distances from the mean, is computed
    anew around the common mean.

    batches: sums over batches or over other pieces of a run, such as its groups.
    number: (batches,) the number of each batch or piece.
    """
    if (number[1:] < number[:-1]).any():
        order = np.argsort(number, kind="stable")
        batches, number = select_batches(batches, order), number[order]
    starts = starts_of(number)
    sums = each(lambda name, x: _MERGED.get(name, np.add).reduceat(x, starts, axis=-1), batches)
    # The scatter is that inside the batches plus that of their means: Chan, Golub and LeVeque, Updating formulae, 1979.
    r, sizes = batches.rewards, np.diff(starts, append=len(number))
    means = [x.total / np.maximum(x.present, 1) for x in (r, sums.rewards)]
    between = r.present * (means[0] - means[1].repeat(sizes, axis=-1)) ** 2
    scatter = np.add.reduceat(r.scatter + between, starts, axis=-1)
    tops = np.where(r.high == sums.rewards.high.repeat(sizes, axis=-1), r.top, np.inf)
    bottoms = np.where(r.low == sums.rewards.low.repeat(sizes, axis=-1), r.bottom, -np.inf)
    ends = {"top": np.minimum.reduceat(tops, starts, axis=-1), "bottom": np.maximum.reduceat(bottoms, starts, axis=-1)}
    return replace(sums, rewards=replace(sums.rewards, scatter=scatter, **ends))


def total(batches: Sums[Array]) -> Sums[float]:
    """Return the sums of all batches together. Where `batches` has a number per batch, the result has one number.
    Where it has an array per batch, such as one over the rewards, the result has one such array.
    """
    whole = add_up(batches, np.zeros(len(batches.batch), dtype=np.int64))
    return each(lambda _, x: x[..., 0] if x.ndim > 1 else x[0].item(), whole)


def push_of(pushed: Array, distances: Array, squares: Array | float) -> Array:
    """Return the push on each reward, as `gdpo_core.push` defines it. It is 0 where a reward is constant in every
    group, or where all advantages are 0.

    pushed: Σ A d, with A the advantages of a method and d the distances of a reward from the means of its groups.
    distances: Σ d².
    squares: Σ A².
    """
    size = np.sqrt(distances) * np.sqrt(squares)
    return np.clip(np.divide(pushed, size, out=np.zeros_like(size), where=size > 0), -1, 1)


def scaled_share(batches: Sums[Array]) -> float:
    """Return the share of groups whose logged advantages are the recipe's times one positive factor. It is a share of
    the groups in which the recipe does not reproduce some advantage; 0 without such groups.
    """
    return float(batches.logged.scaled_groups.sum() / max(batches.logged.wrong_groups.sum(), 1))


def bin_batches(batches: Sums[Array], at_most: int = 200) -> Sums[Array]:
    """Return the sums with neighbouring batches added together, so that at most `at_most` are left. They are unchanged
    if there are no more than that. Batches that were added together have the lowest of their numbers.
    """
    rows = len(batches.batch)
    return batches if rows <= at_most else add_up(batches, np.arange(rows) * at_most // rows)
