"""The search for a recipe: each method under each convention is solved for its weights, and the best fit to the log
wins.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import polars as pl
import torch
from torch import Tensor

from gdpo_audit.logs.names import reward_columns
from gdpo_audit.recipe.guesses import (
    APART,
    COARSEST,
    FITTED,
    KNOWN_SCALE,
    KNOWN_ZERO,
    Guess,
    Weights,
    along_direction,
    degrees_of_freedom,
    is_plausible,
    open_weights,
    rms,
    round_weights,
    shows_scale,
)
from gdpo_audit.recipe.recipe import Recipe, Tensors, compare, compare_with, grid_of, tensors_of
from gdpo_audit.recipe.weights import UNDIVIDED, Solution, Terms, eps_of, scale_of, separate, solution_of, terms_of
from gdpo_core._groups import Batch
from gdpo_core.frameworks import ALL_CONVENTIONS, FRAMEWORKS

# The methods that make most logs, and then the others.
_BY_FREQUENCY = (
    ("grpo", "gdpo", "grpo_no_std", "grpo_batch_std"),
    ("reinforce_pp_baseline", "mo_grpo", "reinforce_pp", "max_rl"),
)
# The share of the batches with a signal that a recipe has to reproduce. It is larger for methods that few use, for
# fitted weights, and for rounded advantages, which may all fit some batches by chance.
_FEWEST, _FEWEST_FITTED = 1 / 3, 1 / 2
# The same share, and the most sizes of advantages, where these are so few, as in groups of two, that a recipe only has
# to explain their signs.
_FEWEST_BY_SIGNS, _FEW_SIZES = 0.9, 3
# The root mean square errors that count as exact and as explaining nothing, relative to the advantages.
_EXACT, _UNLIKE = 2e-6, 0.2
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

Solved = tuple[Terms, Solution]


@dataclass(frozen=True)
class Attempt:
    """A recipe that was tried, with weights for one method and convention.

    share, error: in which share of the batches it reproduces the log, and with which root mean square error.
    complexity: about how many digits its weights have.
    """

    recipe: Recipe
    complexity: int  # 0 for weights that were asked for or are ones; FITTED for weights that are not round
    share: float  # the share of the batches with a signal that it reproduces
    error: float  # the root mean square error in these batches

    @property
    def claims(self) -> int:
        """The complexity of the weights, as far as they are known. Likely attempts are ranked by it, the lowest first,
        because a false recipe needs weights of many digits, which fit only by luck.

        It is 0 if no weight is known, as where only the signs of the advantages are to be explained, or if the only
        known weight is known up to a factor.
        """
        known = len(self.recipe.weights) - len(self.recipe.unknown)
        return 0 if known <= self.recipe.up_to_scale else self.complexity


def solve(
    tables: Sequence[pl.DataFrame], rewards: Sequence[str], framework: str, weights: Sequence[float] | None = None
) -> Recipe | None:
    """Return the recipe that reproduces the logged advantages in the most batches of some tables, or in about as many
    with simpler weights. None if none does so in enough of them, at least a third, or if no table has advantages.

    framework: the id of the framework whose conventions are tried first; an unknown id raises InputError.
    weights: one per reward, tried first. If the weights change during the run, the recipe has those that fit the most
        batches. If recipes with different weights make the same advantages, the weights that differ are marked as
        unknown, unless they are the given ones.
    """
    tables = [table for table in tables if "advantage" in table.columns]
    if not tables:
        return None
    columns = ["batch", "group", *reward_columns(rewards), "advantage"]
    columns += ["length"] if all("length" in table.columns for table in tables) else []
    table = pl.concat([table.select(columns) for table in tables])
    log = tensors_of(table, rewards)
    given = None if weights is None else tuple(float(w) for w in weights)
    conventions = FRAMEWORKS[framework].conventions_to_try
    attempt, grid = _search(log, conventions, given), grid_of(log.advantages)
    # A few rounded numbers can be exactly what some odd weights make.
    most = 2 * len(rewards) if _few_sizes(log) else FITTED - 1
    if grid and not (attempt and attempt.share == 1 and attempt.error <= _EXACT and attempt.complexity <= most):
        log = replace(log, grid=grid)
        attempt = _search(log, conventions, given)
    if attempt is None:
        return None
    is_given = attempt.recipe.weights == given
    if not log.grid and (is_given or len(attempt.recipe.unknown) == len(rewards)):
        return attempt.recipe
    comparison, index = compare(log, attempt.recipe), log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (comparison.error > comparison.allowed).float())
    size, good = index.bincount(minlength=log.batches), wrong == 0
    first = good & ((size * good).cumsum(0) - size < _ENOUGH)
    log_of_good = replace(tensors_of(table.filter(pl.Series(first[index].numpy())), rewards), grid=log.grid)
    recipe = _agree(log, attempt, _attempts(log_of_good, conventions, given, by_chance=True))
    recipe = replace(attempt.recipe, convention_open=recipe.convention_open) if is_given else recipe
    return replace(recipe, convention_open=False) if recipe.convention in FRAMEWORKS[framework].conventions else recipe


def solve_weights(tables: Sequence[pl.DataFrame], rewards: Sequence[str], like: Recipe) -> Recipe | None:
    """Return a recipe with the method and convention of `like`, and with weights that reproduce every advantage of some
    tables.

    None if no weights do, if the tables hold too few numbers to tell, or if they leave every weight open.
    """
    log = replace(tensors_of(pl.concat(tables), rewards), grid=like.grid)
    terms = terms_of(log, log.read(ALL_CONVENTIONS[like.convention]), like.method)
    solution = solution_of(terms, log.batches)
    if degrees_of_freedom(log, terms, solution) < (_SPARE_ROUNDED if log.grid else SPARE):
        return None
    attempt = _attempt(log, like.method, like.convention, like.weights, (terms, solution))
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
    off, nothing = (COARSEST, APART) if first.grid or second.grid else (_SHOWN, KNOWN_ZERO)
    near = (b - factor * a).abs() <= factor * (off * a.abs() + nothing * a[most].abs())
    return bool(near.all() and factor > 0)


def _search(log: Tensors, conventions: Sequence[str], given: Weights | None) -> Attempt | None:
    """Return the first attempt that reproduces the whole log exactly with simple weights. If there is none, return the
    one with the simplest weights among those that reproduce the log about as well as the best. None if none reproduces
    enough of it.

    conventions: keys of ALL_CONVENTIONS, the likeliest first.
    given: weights to try first, or None.
    """
    attempts: list[Attempt] = []
    for attempt in _attempts(log, conventions, given):
        attempts.append(attempt)
        if attempt.share == 1 and attempt.error <= _EXACT and attempt.complexity <= 2 * log.rewards.shape[-1]:
            return attempt
    return min(_best(attempts, 2, log), key=lambda attempt: attempt.claims) if attempts else None


def _attempts(
    log: Tensors, conventions: Sequence[str], given: Weights | None, by_chance: bool = False
) -> Iterator[Attempt]:
    """Yield for each method and convention the best attempt with them, if it reproduces enough of the log.

    conventions: keys of ALL_CONVENTIONS, the likeliest first.
    given: weights to try first, or None.
    by_chance: whether to yield attempts also on a log with no more equations than unknowns, which chance alone may make
        fit.
    """
    few_sizes = _few_sizes(log)
    solved: dict[tuple[object, ...], Solved] = {}
    for method, convention, key in candidates(log, conventions):
        if key not in solved:
            terms = terms_of(log, log.read(ALL_CONVENTIONS[convention]), method)
            solved[key] = terms, solution_of(terms, log.batches)
        attempt = _attempt(log, method, convention, given, solved[key], by_chance)
        if attempt is None:
            continue
        sure = method in _BY_FREQUENCY[0] and attempt.complexity < FITTED and not log.grid
        fewest = _FEWEST_BY_SIGNS if few_sizes and method != "grpo" else _FEWEST if sure else _FEWEST_FITTED
        if attempt.share >= fewest:
            yield attempt


def _few_sizes(log: Tensors) -> bool:
    """Return whether the advantages have so few absolute values besides 0 that they show little but their signs."""
    sizes = (log.advantages.abs() * 1e4).round()
    return len(sizes[sizes > 0].unique()) <= _FEW_SIZES


def candidates(log: Tensors, conventions: Sequence[str]) -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """Yield methods and conventions to try, the likeliest first: the id of a method, the key of a convention, and a key
    for the terms that the method adds up. A pair that computes the same as an earlier one on this log is left out, and
    so is GDPO by tokens where the log has no lengths.

    conventions: keys of ALL_CONVENTIONS, the likeliest first.

    Candidates with the same third item add up the same terms, so that the weights need to be solved for only once.
    """
    missing, count = log.rewards.isnan(), log.rewards.shape[-1]
    any_missing, any_empty = bool(missing.any()), bool(missing.all(-1).any())
    alone = log.rewards.shape[1] == 1 if log.group is None else bool((log.group.bincount() == 1).any())
    known: set[tuple[object, ...]] = set()
    for name, method in (pair for several in _BY_FREQUENCY for pair in product(conventions, several)):
        c = ALL_CONVENTIONS[name]
        # The points of the convention that make a difference on this log.
        open_points = (any_missing and c.missing, any_empty and c.empty_counts, alone and c.group_of_one)
        of_group = (c.leave_one_out, c.mean_of_others)
        terms: tuple[object, ...] = (method in ("grpo", "max_rl"), *open_points, *of_group)
        eps: object = None if method in (*UNDIVIDED, "max_rl") else (c.sum_eps, c.ddof)
        if method == "reinforce_pp":
            terms = (method, *open_points[:2])
        if method in ("gdpo", "mo_grpo"):
            if c.one_reward_is_grpo and count == 1:
                continue
            terms = ("z", *open_points, c.leave_one_out, any_missing and c.missing_is_zero_in_gdpo, c.group_eps, c.ddof)
        if method == "gdpo":
            if c.last_step == "tokens" and log.lengths is None:
                continue
            terms = (*terms, c.last_step == "group")
            eps = (c.batch_eps, c.batch_eps_to, c.ddof, c.last_step)
        if (method, terms, eps) not in known:
            known.add((method, terms, eps))
            yield method, name, terms


def _attempt(
    log: Tensors, method: str, convention: str, given: Weights | None, solved: Solved, by_chance: bool = False
) -> Attempt | None:
    """Return the attempt with the best weights for one method and convention; None if these cannot have made the log.

    given: weights to try first, or None.
    solved: the terms of the method, and the weights that fit them.
    by_chance: whether a fit counts that chance alone may have made, as the log has no more equations than unknowns.
    """
    terms, solution = solved
    batch, live = log.read(ALL_CONVENTIONS[convention]), terms.live_batches(log.batches)
    # Leave-one-out divides each response of a group by another std, so that weights cannot be solved for, only tried.
    solvable = not (batch.convention.leave_one_out and method in ("grpo", "max_rl"))
    if not live.any() or (solvable and (solution.batches & live).sum() < _FEWEST * live.sum()):
        return None
    trial = _trial_of(batch, method, given, solved, solvable)
    if trial is None:
        return None
    unknown, measured, count = trial.unknown, trial.measured, len(batch.rewards)
    # Where the weights only explain signs, there is nothing that chance could have made fit.
    signs_only = method == "grpo" and not solution.is_direction
    equations = math.inf if by_chance or signs_only else degrees_of_freedom(log, terms, solution)
    attempts = []
    for weights, complexity in trial.guesses:
        if not is_plausible((weights, complexity), unknown, terms, eps_of(batch.convention, method), equations):
            continue
        share, off = _judge(log, log.read(batch.convention, weights), method, live)
        told = measured is not None and shows_scale((weights, complexity), solution, measured, trial.error)
        # In a single batch another method can make the advantages larger or smaller by any factor.
        told &= complexity < FITTED or share * int(live.sum()) >= 1.5
        known = [w for k, w in enumerate(weights) if k not in unknown]
        # Weights that are 0, beside others that are unknown, do not show the ratio of any weights.
        open_ones = unknown if any(known) or not any(weights) else range(count)
        up_to_scale = not (told or (measured is not None and weights == given))
        recipe = Recipe(method, convention, weights, tuple(open_ones), up_to_scale, log.grid)
        attempts.append(Attempt(recipe, complexity, share, off))
        if share == 1 and off <= _EXACT:
            break
    return _best(attempts, 1.5, log)[0] if attempts else None


@dataclass(frozen=True)
class _Trial:
    """The weights to try with one method and convention, and what solving for the weights on the log has shown."""

    guesses: list[Guess]
    unknown: list[int]  # the rewards whose weights the log leaves open
    measured: Tensor | None = None  # (rewards,) the solved weights with their scale; None if the log shows no scale
    error: float = math.inf  # the relative error of the scale of `measured`


def _trial_of(batch: Batch, method: str, given: Weights | None, solved: Solved, solvable: bool) -> _Trial | None:
    """Return the weights to try with one method and convention. None if, by the logged advantages, too few units were
    divided as the method divides. Units are the groups, or the batches if the method divides over these.

    given: weights to try first; None for 1 each.
    solved: the terms of the method and the weights solved from them.
    solvable: whether weights could be solved for; if not, only `given` and weights of 1 are tried.
    """
    terms, solution = solved
    count = len(batch.rewards)
    ones, unknown = (1.0,) * count, list(range(count)) if count > 1 else []
    wanted = torch.tensor(given or ones, dtype=torch.float64)
    guesses: list[Guess] = [(w, 0) for w in dict.fromkeys([given or ones, ones])]
    if not solvable:
        return _Trial(guesses, unknown)
    if not solution.is_direction:
        apart = separate(solution, terms, wanted)
        # The larger weights are tried because eps matters less with them.
        return _Trial([*guesses, *((round_weights(times * apart), FITTED) for times in (1, 1000))], unknown)
    factor, error, fits = scale_of(solution, terms, batch, method)
    if fits < _FEWEST / 2:
        return None
    measured = None if factor is None or error > KNOWN_SCALE else factor * solution.directions[:, 0]
    guesses += along_direction(solution, wanted, factor, error)
    return _Trial(guesses, open_weights(solution), measured, error)


def _best(attempts: list[Attempt], slack: float, log: Tensors) -> list[Attempt]:
    """Return the attempts that are about as good as the best one, in their order. Such an attempt has a share of at
    least 98 % of the largest one. Its error is at most `_EXACT`, or at most `slack` times the smallest error, which
    counts as no smaller than what the rounding of the log explains.

    attempts: one or more.
    """
    most = max(attempt.share for attempt in attempts)
    attempts = [attempt for attempt in attempts if attempt.share >= 0.98 * most]
    # An error below that of the rounding is chance, as the log has few different numbers.
    of_rounding = rms(log.rounding[log.advantages.isfinite()]) / math.sqrt(3) if log.grid else 0.0
    least = max(min(attempt.error for attempt in attempts), of_rounding)
    return [attempt for attempt in attempts if attempt.error <= max(_EXACT, slack * least)]


def _judge(log: Tensors, batch: Batch, method: str, live: Tensor) -> tuple[float, float]:
    """Return how well a method makes the logged advantages: in what share of the live batches it makes all of them, and
    its root mean square error in these batches. Return 0 and infinity if there are none, or if they are only some and
    its errors there are not far below the advantages.

    live: (batches,) whether a batch says anything on the weights.
    """
    comparison = compare_with(log, method, batch)
    error, index = comparison.error, log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (error > comparison.allowed).float())
    good = live & (wrong == 0)
    if not good.any():
        return 0.0, math.inf
    share = (good.sum() / live.sum()).item()
    off, size = (rms(x[good[index]].nan_to_num()) for x in (error, log.advantages))
    # Batches in which round-off may be as large as the advantages, because sums cancel there, explain nothing.
    return (0.0, math.inf) if share < 1 and off > max(_UNLIKE * size, 10 * _EXACT) else (share, off)


# --- what other recipes that make the same advantages do not agree on ------------------------------------------------


def _agree(log: Tensors, chosen: Attempt, alternatives: Iterator[Attempt]) -> Recipe:
    """Return the simplest recipe that makes the logged advantages, or the chosen one if the advantages are rounded.
    Other recipes may make them too. What differs in these is marked: a weight as unknown, the scale as open, and the
    convention as open if the advantages are rounded.

    chosen: the attempt that was found.
    alternatives: any attempts.
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
    return replace(recipe, convention_open=is_open)


def _as_good(log: Tensors, alternative: Attempt, chosen: Attempt) -> bool:
    """Return whether an attempt of another method or convention reproduces the log about as well as `chosen` does."""
    batch = log.read(ALL_CONVENTIONS[alternative.recipe.convention], alternative.recipe.weights)
    live = terms_of(log, batch, alternative.recipe.method).live_batches(log.batches)
    share, error = _judge(log, batch, alternative.recipe.method, live)
    return share >= (_ROUNDED if log.grid else 0.98) * chosen.share and error <= max(2 * _EXACT, 3 * chosen.error)


def _less_certain(recipe: Recipe, alternative: Recipe) -> Recipe:
    """Return the recipe with everything marked on which an alternative recipe does not agree with it: weights as
    unknown, the scale as open.
    """
    unknown = {*recipe.unknown, *alternative.unknown}
    known = [k for k in range(len(recipe.weights)) if k not in unknown]
    if not known:
        return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=True)
    w, v = (torch.tensor([r.weights[k] for k in known], dtype=torch.float64) for r in (recipe, alternative))
    surest = w.abs().argmax()
    scale = (v[surest] / w[surest]).item() if w[surest] else 1.0
    apart = (v - scale * w).abs() > APART * (scale * w).abs()
    unknown |= {k for k, differs in zip(known, apart.tolist(), strict=True) if differs}
    up_to_scale = recipe.up_to_scale or alternative.up_to_scale or abs(scale - 1) > APART
    return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=up_to_scale)
