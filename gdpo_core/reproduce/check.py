"""Compares logged advantages with those of a recipe."""

from collections.abc import Sequence

import polars as pl
from torch import Tensor

from gdpo_core.conventions import CONVENTIONS
from gdpo_core.reproduce.recipe import Log, Recipe, differences, holds_lengths, off_by, prepared, read_log

# Two logged advantages farther apart than this differ by more than round-off.
_DIFFERENT = 1e-3
# Multiples of the same advantages may differ by this part of their size.
_BESIDE = 1e-4


def errors(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> Tensor:
    """(responses,) the distance of each logged advantage from the recipe's.

    NaN where none is logged, infinite where the recipe gives no number.
    """
    log = read_log(table, rewards)
    return off_by(log.advantages, _computed(log, recipe))


def allowed(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> Tensor:
    """(responses,) the largest error allowed: TOLERANCE plus the round-off of the framework's own float32."""
    return compare(table, rewards, recipe)[1]


def compare(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> tuple[Tensor, Tensor]:
    """`errors` and `allowed` in one computation; a batch is reproduced if no error is larger than allowed."""
    log = read_log(table, rewards)
    batch = log.read(CONVENTIONS[recipe.convention], recipe.weights)
    return differences(log.advantages, batch, recipe.method)


def same_direction(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> Tensor:
    """(groups,) whether a group's logged advantages are a positive multiple of the recipe's; groups as they appear.

    False where an advantage of the group is missing. A group that is a multiple and not reproduced was scaled together
    with other responses: an evaluation wrote into the same file.
    """
    log = read_log(table, rewards)
    computed = _computed(log, recipe)
    may = differences(log.advantages, log.read(CONVENTIONS[recipe.convention], recipe.weights), recipe.method)[1]
    index = log.group_of_response

    def total(x: Tensor) -> Tensor:
        return x.new_zeros(len(log.batch)).index_add_(0, index, x)

    size = total(computed.square())
    factor = total(computed * log.advantages) / size.masked_fill(size == 0, 1)
    near = (log.advantages - factor[index] * computed).abs() <= may + _BESIDE * log.advantages.abs()
    return (total((~near).double()) == 0) & ((factor > 0) | (size == 0))


def hidden_inputs(table: pl.DataFrame, rewards: Sequence[str]) -> int:
    """The number of groups in which two responses have equal rewards, and lengths if known, but different advantages.

    Such advantages depend on something that the log does not hold. 0 where no advantages are logged.
    """
    if "advantage" not in table.columns:
        return 0
    same = ["group", *rewards, *["length"] * holds_lengths(table, rewards)]
    advantage = pl.col("advantage").fill_nan(None)
    apart = table.lazy().group_by(same).agg((advantage.max() - advantage.min()).alias("apart"))
    groups = apart.filter(pl.col("apart") > _DIFFERENT).select(pl.col("group").n_unique())
    return int(groups.collect().item())


def _computed(log: Log, recipe: Recipe) -> Tensor:
    """(responses,) the recipe's advantages."""
    formula, batch = prepared(recipe.method, log.read(CONVENTIONS[recipe.convention], recipe.weights))
    return batch.learnt(formula.advantages(batch)).flatten()
