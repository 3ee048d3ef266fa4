"""The search for a recipe: each method under each convention is solved for its weights, and the best fit to the log
wins.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl
import torch

from gdpo_audit.logs.names import reward_columns
from gdpo_audit.recipe.attempts import (
    Attempt,
    attempt_with,
    attempts_on,
    best_of,
    has_few_sizes,
    judge_method,
    solved_for,
)
from gdpo_audit.recipe.guesses import COARSEST, FITTED, KNOWN_ZERO, WEIGHTS_APART, Weights, degrees_of_freedom
from gdpo_audit.recipe.recipe import Recipe, Tensors, compare, grid_of, tensors_of
from gdpo_audit.recipe.terms import terms_of
from gdpo_audit.recipe.weights import UNDIVIDED, WITHOUT_EPS
from gdpo_core.frameworks import ALL_CONVENTIONS, FRAMEWORKS

# The equations to spare before the weights of a batch are trusted; more are needed where the numbers are rounded.
SPARE, _SPARE_ROUNDED = 4, 8
# The responses, about, of the first batches in which other readings of a log are looked for.
_ENOUGH = 2000
# The share of the batches that weights of rounded advantages reproduce, from which on better weights reproduce all.
_ROUNDED = 0.5
# The complexity of a single weight of one digit.
_ONE_DIGIT = 2
# The relative distance of the weights of two exact batches, which shows that they are different.
_SHOWN = 1e-3
# The error up to which an advantage that is logged in float32 counts as made exactly.
_ROUND_OFF = 1e-5
# The recipes that were solved, by the numbers that they were solved from, and the most of them. While an explanation of
# the advantages is looked for, a log is read in many ways, and many of these have the same numbers.
_SOLVED: dict[tuple[str, str, Weights | None], Recipe | None] = {}
_MOST_SOLVED = 1000


def solve(
    tables: Sequence[pl.DataFrame], rewards: Sequence[str], framework: str, weights: Sequence[float] | None = None
) -> Recipe | None:
    """Return the recipe that reproduces the logged advantages in the most batches of some tables, or in about as many
    with simpler weights.

    None if no recipe does so in enough batches, at least a third of them, or if no table has advantages. If the weights
    change during the run, the recipe has the weights that fit the most batches. If recipes with different weights make
    the same advantages, the weights that differ are marked as unknown, unless they are the given ones.

    tables: the responses, in batches.
    rewards: the names of the rewards.
    framework: the id of the framework whose conventions are tried first; an unknown id raises InputError.
    weights: one per reward, tried first; None for none.
    """
    tables = [table for table in tables if "advantage" in table.columns]
    if not tables:
        return None
    columns = ["batch", "group", *reward_columns(rewards), "advantage"]
    columns += ["length"] if all("length" in table.columns for table in tables) else []
    table = pl.concat([table.select(columns) for table in tables])
    log = tensors_of(table, rewards)
    given = None if weights is None else tuple(float(w) for w in weights)
    asked = (log.digest(), framework, given)
    if asked not in _SOLVED:
        if len(_SOLVED) >= _MOST_SOLVED:
            _SOLVED.clear()
        _SOLVED[asked] = _recipe_of(table, log, rewards, framework, given)
    return _SOLVED[asked]


def _recipe_of(
    table: pl.DataFrame, log: Tensors, rewards: Sequence[str], framework: str, given: Weights | None
) -> Recipe | None:
    """Return what `solve` returns for one table with advantages.

    table: the responses.
    log: the same as tensors.
    rewards: the names of the rewards.
    framework: the id of the framework whose conventions are tried first.
    given: weights to try first, or None.
    """
    conventions = FRAMEWORKS[framework].conventions_to_try
    attempt, grid = _search(log, conventions, given), grid_of(log.advantages)
    # A few rounded numbers can be exactly what some odd weights make.
    most = 2 * len(rewards) if has_few_sizes(log) else FITTED - 1
    if grid and not (attempt and attempt.share == 1 and attempt.error <= log.exact and attempt.complexity <= most):
        log = replace(log, grid=grid)
        attempt = _search(log, conventions, given)
    if attempt is None:
        return None
    is_given = attempt.recipe.weights == given
    if not log.grid and len(attempt.recipe.unknown) == len(rewards):
        return attempt.recipe
    comparison, index = compare(log, attempt.recipe), log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (comparison.error > comparison.allowed).float())
    size, good = index.bincount(minlength=log.batches), wrong == 0
    first = good & ((size * good).cumsum(0) - size < _ENOUGH)
    log_of_good = replace(tensors_of(table.filter(pl.Series(first[index].numpy())), rewards), grid=log.grid)
    recipe = _agree(log, attempt, attempts_on(log_of_good, conventions, given, by_chance=True))
    if is_given:
        alike = {recipe.method, *(recipe.alike or ())} - {attempt.recipe.method}
        recipe = replace(attempt.recipe, convention_open=recipe.convention_open, alike=tuple(sorted(alike)))
    if recipe.convention in FRAMEWORKS[framework].conventions:
        return replace(recipe, convention_open=False)
    # A multiple of the weights makes the same advantages with the same multiple of eps, which then is none of a known
    # convention. Advantages that are missed by more than the round-off of float32 may be made so.
    missed = not log.grid and float(comparison.error[wrong[index] == 0].nan_to_num().max()) > _ROUND_OFF
    scaled = recipe.up_to_scale and recipe.method not in WITHOUT_EPS
    return replace(recipe, convention_open=recipe.convention_open or (missed and scaled))


def solve_weights(tables: Sequence[pl.DataFrame], rewards: Sequence[str], like: Recipe) -> Recipe | None:
    """Return a recipe with the method and convention of `like`, and with weights that reproduce every advantage of some
    tables.

    None if no weights do, if the tables hold too few numbers to tell, or if they leave every weight open.

    tables: the responses of the batches that the recipe has to explain.
    rewards: the names of the rewards.
    like: the recipe whose method and convention are kept.
    """
    log = replace(tensors_of(pl.concat(tables), rewards), grid=like.grid)
    solved = solved_for(log, like.method, like.convention)
    if degrees_of_freedom(log, solved.terms, solved.solution) < (_SPARE_ROUNDED if log.grid else SPARE):
        return None
    attempt = attempt_with(log, like.method, like.convention, like.weights, solved)
    if attempt is None or attempt.share < 1 or len(attempt.recipe.unknown) == len(rewards):
        return None
    return replace(attempt.recipe, convention_open=like.convention_open)


def same_weights(first: Recipe, second: Recipe) -> bool:
    """Return whether two recipes of one method have the same weights, as far as both are known. A common factor counts
    as no difference, unless the method divides by nothing (`UNDIVIDED`) and both logs show the scale.

    >>> from gdpo_audit.recipe.recipe import Recipe
    >>> same_weights(*(Recipe("grpo", "trl", w, (), False) for w in ((1.0, 0.5), (2.0, 1.0))))
    True
    """
    known = [k for k in range(len(first.weights)) if k not in (*first.unknown, *second.unknown)]
    a, b = (torch.tensor([recipe.weights[k] for k in known], dtype=torch.float64) for recipe in (first, second))
    if not a.any():
        return not b.any()
    most = a.abs().argmax()
    factor = b[most] / a[most] if first.up_to_scale or second.up_to_scale or first.method not in UNDIVIDED else 1.0
    rounded = first.grid or second.grid
    of_each = COARSEST if rounded else _SHOWN  # how much of each weight it may be off
    of_largest = WEIGHTS_APART if rounded else KNOWN_ZERO  # and how much of the largest one, for weights near 0
    near = (b - factor * a).abs() <= factor * (of_each * a.abs() + of_largest * a[most].abs())
    return bool(near.all() and factor > 0)


def _search(log: Tensors, conventions: Sequence[str], given: Weights | None) -> Attempt | None:
    """Return the first attempt that reproduces the whole log exactly with simple weights.

    If there is none, return the one with the simplest weights among those that reproduce the log about as well as the
    best. None if none reproduces enough of it.

    log: the logged advantages and rewards.
    conventions: keys of ALL_CONVENTIONS, the likeliest first.
    given: weights to try first, or None.
    """
    attempts: list[Attempt] = []
    for attempt in attempts_on(log, conventions, given):
        attempts.append(attempt)
        if attempt.share == 1 and attempt.error <= log.exact and attempt.complexity <= 2 * log.rewards.shape[-1]:
            return attempt
    return min(best_of(attempts, 2, log), key=lambda attempt: attempt.claims) if attempts else None


# --- what other recipes that make the same advantages do not agree on ------------------------------------------------


def _agree(log: Tensors, chosen: Attempt, alternatives: Iterator[Attempt]) -> Recipe:
    """Return the simplest recipe that makes the logged advantages, or the chosen one if the advantages are rounded.

    Other recipes may make them too. If one of them has another weight or another scale, the returned recipe marks this
    weight as unknown, or the scale as open. If the advantages are rounded, it also marks the convention as open where
    another one makes them.

    log: the logged advantages and rewards.
    chosen: the attempt that was found.
    alternatives: other attempts, of any method and convention.
    """
    recipe, count = chosen.recipe, len(chosen.recipe.weights)
    made_by, readings = (recipe.method, recipe.convention), [chosen]
    for attempt in alternatives:
        same = (attempt.recipe.method, attempt.recipe.convention) == made_by
        if not same and attempt.share >= (_ROUNDED if log.grid else 1) and _as_good(log, attempt, chosen):
            readings.append(attempt)
    best = chosen if log.grid else min(readings, key=lambda attempt: attempt.claims)
    recipe = best.recipe
    # A single weight, and weights of rounded advantages, may be round numbers by chance, which says little.
    single = sum(map(bool, recipe.known)) == 1 and best.complexity > _ONE_DIGIT
    anything = log.grid or best.complexity >= FITTED or single
    most = math.inf if anything else max(best.complexity, 1) + 1 + count
    for reading in readings:
        if reading is not best and reading.claims <= most:
            recipe = _less_certain(recipe, reading.recipe)
    # Where nothing is divided, another convention makes the same advantages only with the same weights, not with a
    # multiple of them.
    by_method = [reading for reading in readings if reading is not best and reading.recipe.method == recipe.method]
    first, *alike = (replace(reading.recipe, up_to_scale=False) for reading in (best, *by_method))
    divides = recipe.method not in UNDIVIDED
    is_open = bool(log.grid) and divides and any(same_weights(first, second) for second in alike)
    methods = {reading.recipe.method for reading in readings} - {recipe.method}
    return replace(recipe, convention_open=is_open, alike=tuple(sorted(methods)))


def _as_good(log: Tensors, alternative: Attempt, chosen: Attempt) -> bool:
    """Return whether an attempt of another method or convention reproduces the log about as well as `chosen` does."""
    batch = log.read(ALL_CONVENTIONS[alternative.recipe.convention], alternative.recipe.weights)
    live = terms_of(log, batch, alternative.recipe.method).live_batches(log.batches)
    share, error, within = judge_method(log, batch, alternative.recipe.method, live)
    if chosen.within and not within:
        return False
    return share >= (_ROUNDED if log.grid else 0.98) * chosen.share and error <= max(2 * log.exact, 3 * chosen.error)


def _less_certain(recipe: Recipe, alternative: Recipe) -> Recipe:
    """Return the recipe with the doubts that an alternative recipe adds: with weights marked as unknown, or with the
    scale marked as open.

    A weight is marked as unknown if the alternative does not know it. The weights that both know are compared up to a
    common factor, with which the recipes agree on the largest of these weights. Those that then differ are marked as
    unknown, too. The scale is marked as open if the alternative's scale is open, if the factor is not 1, or if there is
    no weight that both know. Differences of up to `WEIGHTS_APART` of a number do not count.
    """
    unknown = {*recipe.unknown, *alternative.unknown}
    known = [k for k in range(len(recipe.weights)) if k not in unknown]
    if not known:
        return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=True)
    w, v = (torch.tensor([r.weights[k] for k in known], dtype=torch.float64) for r in (recipe, alternative))
    surest = w.abs().argmax()
    scale = (v[surest] / w[surest]).item() if w[surest] else 1.0
    apart = (v - scale * w).abs() > WEIGHTS_APART * (scale * w).abs()
    unknown |= {k for k, differs in zip(known, apart.tolist(), strict=True) if differs}
    up_to_scale = recipe.up_to_scale or alternative.up_to_scale or abs(scale - 1) > WEIGHTS_APART
    return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=up_to_scale)
