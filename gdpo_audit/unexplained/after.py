"""A search for recipes in which one step follows the method: the advantages of each batch are whitened, or multiplied
by a factor of that batch.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import torch

from gdpo_audit.recipe.attempts import candidates
from gdpo_audit.recipe.guesses import FITTED, along_direction, degrees_of_freedom
from gdpo_audit.recipe.recipe import Recipe, Tensors, compare, compare_with, tensors_of
from gdpo_audit.recipe.solve import SPARE
from gdpo_audit.recipe.terms import terms_of
from gdpo_audit.recipe.weights import solution_of
from gdpo_core.frameworks import ALL_CONVENTIONS, FRAMEWORKS

LAST_CHANGES = {"gdpo": ("factor",), "grpo_batch_std": ("factor",), "grpo": ("whitened", "factor")}
# By a method with a step over the batch, the method without that step: times a factor for each batch, both are one.
_WITHOUT_STEP = {"gdpo": "mo_grpo", "grpo_batch_std": "grpo_no_std"}
_WHOLE = 0.05  # how far a number of rows may be from a whole number
_BATCHES = 3  # the fewest batches: with fewer, a free factor for each leaves too little to check


def solve_after(
    tables: Sequence[pl.DataFrame], rewards: Sequence[str], framework: str, weights: Sequence[float] | None = None
) -> Recipe | None:
    """Return the recipe that makes every advantage of some tables, if each batch was changed once more after the
    method. The batch was whitened, or multiplied by a factor. None if there is no such recipe, or if too few batches
    show it.

    A factor comes with dynamic sampling: GDPO's batch step divides by the std of all rows of a batch. The silent
    groups, in which every advantage is 0, are dropped afterwards, so that the rows in the log have another std.

    tables: the responses, in batches.
    rewards: the names of the rewards.
    framework: the id of the framework whose conventions are tried first.
    weights: one per reward, which counts if the log leaves the weight of the reward open; 1 by default.
    """
    log = tensors_of(pl.concat(tables), rewards)
    live = log.batch_of_response[log.advantages.nan_to_num() != 0].unique()
    if len(live) < max(_BATCHES, log.batches / 2):
        return None
    wanted = torch.tensor([1.0] * len(rewards) if weights is None else [*weights], dtype=torch.float64)
    best: tuple[float, Recipe] | None = None
    for method, convention, _ in candidates(log, FRAMEWORKS[framework].conventions_to_try):
        for after in LAST_CHANGES.get(method, ()):
            attempt = _attempt(log, method, convention, after, wanted)
            if attempt is not None and (best is None or attempt[0] < best[0] / 2):
                best = attempt
    recipe = None if best is None else _with_rows(log, best[1])
    if recipe is None or recipe.batch_rows is not None or recipe.method not in _WITHOUT_STEP:
        return recipe
    return replace(recipe, alike=(_WITHOUT_STEP[recipe.method],))


def _attempt(
    log: Tensors, method: str, convention: str, after: str, wanted: torch.Tensor
) -> tuple[float, Recipe] | None:
    """Return two things if a recipe makes all logged advantages: its largest error, and the recipe; otherwise None.

    In the recipe, the change `after` follows the method. The weights are the simplest round numbers near the weights
    that fit best. None is also the answer if the log has too few advantages to prove a recipe, or does not show the
    weights up to one common factor.

    log: the logged advantages and rewards.
    method, convention: the id of the method and the key of the convention.
    after: a key of AFTER.
    wanted: (rewards,) the weights to take where the log leaves them open.
    """
    terms = terms_of(log, log.read(ALL_CONVENTIONS[convention]), method)
    solution = solution_of(terms, log.batches)
    if not solution.is_direction or degrees_of_freedom(log, terms, solution) - log.batches < SPARE:
        return None
    for weights, complexity in along_direction(solution, wanted):
        recipe = Recipe(method, convention, weights, tuple(solution.open_rewards), True, log.grid, after=after)
        comparison = compare(log, recipe)
        if complexity < FITTED and not bool((comparison.error > comparison.allowed).any()):
            return float(comparison.error.nan_to_num().max()), recipe
    return None


def _with_rows(log: Tensors, recipe: Recipe) -> Recipe:
    """Return the recipe with `batch_rows`: over how many rows its batch step must have run, in the batch with the
    fewest and in the batch with the most.

    The recipe is unchanged if its method is not GDPO. It is also unchanged if the number of rows computed for some
    batch is not whole, or is below the number of logged rows.
    """
    if recipe.method != "gdpo":
        return recipe
    convention = ALL_CONVENTIONS[recipe.convention]
    batch = log.read(convention, recipe.weights)
    plain, scaled = (compare_with(log, recipe.method, batch, after).computed for after in ("", recipe.after))
    index, live = log.batch_of_response, plain.abs() > 1e-6
    rows = index.bincount(minlength=log.batches).double()
    ratio = torch.zeros(log.batches, dtype=torch.float64).scatter_reduce(0, index[live], (scaled / plain)[live], "amax")
    known = ratio > 0
    over = convention.ddof + (rows - convention.ddof) * ratio.square()
    whole = over.round()
    near = ((over - whole).abs() <= _WHOLE) & (whole >= rows)
    if not bool(near[known].all()):
        return recipe
    return replace(recipe, batch_rows=(int(whole[known].min()), int(whole[known].max())))
