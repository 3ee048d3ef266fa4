"""The search for weights that change during a run, which finds the recipe that made each batch."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile

import numpy as np
import polars as pl

from gdpo_audit.logs.groups.run import Run
from gdpo_audit.recipe.recipe import Recipe, Tensors, compare, tensors_of
from gdpo_audit.recipe.solve import solve, solve_weights
from gdpo_audit.recipe.weights import UNDIVIDED

# The share of the batches that one recipe does not reproduce which changing weights have to explain. A gate leaves more
# unexplained, evaluations leave less.
_EXPLAINED = 0.75
_TOGETHER = 16  # the most batches that are solved together, where a single batch shows too little
_TRIED = 6  # the batches of an unexplained log that are tried, each of which a recipe has to explain by itself
_SHOWN = 3  # the fewest batches in which a weight that stays shows the scale of all
_STAYS = 1e-3  # the share of a weight by which it may seem to change because advantages are rounded
_KNOWN = 3  # the recipes of earlier batches that may have come back
# The batches that nothing explains after which the search ends, as it would take long, unless weights explain more
# batches than that.
_HOPELESS = 50


def recipe_of_one_batch(run: Run, sample: Sequence[pl.DataFrame]) -> Recipe | None:
    """Return a recipe for a run whose weights may change at every batch.

    The method of the recipe makes each of the first batches of a sample by itself, at most `_TRIED` batches with an
    advantage other than 0. The weights are those of the last of these batches.

    None if there is no such method, or if the sample has fewer than two batches with an advantage other than 0. None
    too if the method is one of `UNDIVIDED`, which divide by nothing, its weights are known only up to a factor, and no
    weight stays as it was in all of these batches.

    run: the run, for the names of its rewards and its framework.
    sample: tables of whole batches.
    """
    live = (rows for rows in _batches(sample) if rows["advantage"].fill_nan(0).cast(bool).any())
    first = list(islice(live, _TRIED))
    tried = set[tuple[str, str]]()
    # A batch may not tell two conventions apart of which the next one needs the second, so that several are tried.
    for rows in first[:_SHOWN] if len(first) > 1 else ():
        recipe = solve([rows], run.rewards, run.framework)
        if recipe is None or (recipe.method, recipe.convention) in tried:
            continue
        tried.add((recipe.method, recipe.convention))
        by_batch = _in_turn(first, run.rewards, recipe)
        # Where nothing is divided, weights whose scale is open may belong to another method, times a factor of the
        # batch. A factor that changes from batch to batch leaves no weight as it was.
        if len(by_batch) == len(first):
            scaled = by_batch[-1].up_to_scale and recipe.method in UNDIVIDED
            if not scaled or _one_stays(by_batch):
                return by_batch[-1]
    return None


def _in_turn(batches: Sequence[pl.DataFrame], rewards: Sequence[str], recipe: Recipe) -> list[Recipe]:
    """Return the recipes of some batches with the method of a recipe, each solved from the one before it, up to the
    first batch that has none.
    """
    solved = list[Recipe]()
    for rows in batches:
        if (new := solve_weights([rows], rewards, solved[-1] if solved else recipe)) is None:
            return solved
        solved.append(new)
    return solved


def _one_stays(by_batch: Sequence[Recipe]) -> bool:
    """Return whether one of the weights is the same in all of these recipes, is known in them, and is not 0. Fewer than
    `_SHOWN` recipes show nothing.
    """
    known = [k for k in range(len(by_batch[0].weights)) if all(k not in recipe.unknown for recipe in by_batch)]
    weights = np.array([[recipe.weights[k] for k in known] for recipe in by_batch])
    least, most = np.abs(weights).min(0), np.abs(weights).max(0)
    return len(by_batch) >= _SHOWN and bool(((least > 0) & (np.ptp(weights, 0) <= _STAYS * most)).any())


def recipes_by_batch(
    run: Run, recipe: Recipe, batches: Sequence[int], bad: set[int], whole: set[int]
) -> dict[int, Recipe]:
    """Return the recipe of each batch, by its number, if the weights change; {} if changing weights do not explain the
    log.

    They do not if they explain less than three quarters of the batches in `bad`, or if so many batches stay unexplained
    that the search ends early.

    For each batch the last few recipes are tried, the latest first. If none of them reproduces the batch, a new one is
    solved for it, alone or together with batches before it. These earlier batches then get the new recipe too. A batch
    for which that fails, or which lacks rows, has the recipe of the batch before it. The batches before the first
    change have `recipe`, or the first new recipe if it reproduces all of them that lack no rows.

    run: the run, whose tables are read anew.
    recipe: the recipe of the whole run.
    batches: the numbers of all batches, in order.
    bad: the numbers of the batches that `recipe` does not explain.
    whole: the numbers of the batches that lack no rows.
    """
    by_batch, known = dict[int, Recipe](), [recipe]
    missed = 0
    # Batches that may show more of the weights of the last recipe, and batches that may show those of the next one.
    phase, waiting = list[pl.DataFrame](), list[pl.DataFrame]()
    for rows in _batches(run.tables()):
        batch = rows["batch"][0]
        if batch not in whole or (len(known) == 1 and batch not in bad):
            continue
        log = tensors_of(rows, run.rewards)
        again = next((recipe for recipe in known[::-1] if _reproduces(recipe, log)), None)
        if again is not None:
            phase = [*phase[-_TOGETHER:], rows] if again is known[-1] and _open(again) else []
            known = [*(recipe for recipe in known if recipe is not again), again]
            by_batch[batch] = again
            continue
        options = [[*before, rows] for before in (phase, waiting) if before]
        for some in (*options, [rows]):
            if (new := solve_weights(some, run.rewards, known[-1])) is not None:
                new = _scaled_to(known[-1], new, some, run.rewards)
                by_batch |= {table["batch"][0]: new for table in some}
                phase, waiting, known = some if _open(new) else [], [], [*known[-_KNOWN:], new]
                break
        else:
            waiting, missed = [*waiting[-_TOGETHER:], rows], missed + 1
            if missed > max(_HOPELESS, len(bad & by_batch.keys())):
                return {}
    if len(bad & by_batch.keys()) < _EXPLAINED * len(bad):
        return {}
    last = recipe
    first = next(batch for batch in batches if batch in by_batch)
    earlier = takewhile(lambda rows: rows["batch"][0] != first, _batches(run.tables()))
    if all(_reproduces(by_batch[first], tensors_of(p, run.rewards)) for p in earlier if p["batch"][0] in whole):
        # The batches before it fit this recipe too: a reward was constant in them, so that its weight did not show.
        # That is no change of weights.
        last = by_batch[first]
    return {batch: (last := by_batch.get(batch, last)) for batch in batches}


def most_common(recipes: Sequence[Recipe]) -> Recipe:
    """Return the recipe that occurs most often; of several that occur equally often, the one that comes last.

    recipes: one per batch.
    """
    count = Counter(recipes)
    return max(reversed(recipes), key=lambda recipe: count[recipe])


def _batches(tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the batches of some tables, each as a table of its own."""
    return (rows for table in tables for rows in table.partition_by("batch", maintain_order=True))


def _reproduces(recipe: Recipe, log: Tensors) -> bool:
    """Return whether a recipe reproduces every logged advantage in `log`."""
    comparison = compare(log, recipe)
    return not bool((comparison.error > comparison.allowed).any())


def _open(recipe: Recipe) -> bool:
    """Return whether further batches may show more of a recipe's weights. They may if some of these weights are
    unknown, or if the advantages are rounded.
    """
    return bool(recipe.unknown or recipe.grid)


def _scaled_to(old: Recipe, new: Recipe, made: Sequence[pl.DataFrame], rewards: Sequence[str]) -> Recipe:
    """Return the recipe `new` with its weights multiplied by one factor, so that as many of them as possible stay as
    they were in the recipe `old`.

    The recipe comes back unchanged in three cases:
    - The log shows the scale of its weights.
    - No weight has the same sign in both recipes.
    - The multiplied weights no longer make the advantages of the tables `made`.

    made: the tables of the batches for which `new` was solved.
    rewards: the names of the rewards.
    """
    pairs = [(x, y) for x, y in zip(old.weights, new.weights, strict=True) if x / (y or 1) > 0 and y]
    if not new.up_to_scale or not pairs:
        return new

    def kept(factor: float) -> tuple[int, float]:
        """Return how good a factor for the new weights is, as a pair; a better factor has the larger pair.

        The first member says how many new weights, times the factor, equal the old ones to 0.1 %. The second says how
        near the factor is to 1. Of `_scaled_to` it uses `pairs`, which holds (old, new) for each weight that has the
        same sign in both recipes.
        """
        return sum(abs(factor * y - x) <= 1e-3 * abs(x) for x, y in pairs), -abs(math.log(factor))

    factor = max((x / y for x, y in pairs), key=kept)
    scaled = replace(new, weights=tuple(float(f"{factor * w:.8g}") for w in new.weights))
    return scaled if _reproduces(scaled, tensors_of(pl.concat(made), rewards)) else new
