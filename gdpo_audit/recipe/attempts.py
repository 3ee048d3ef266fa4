"""Attempts at a recipe: for each method and convention, the weights that fit the log best, and how well they fit."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from gdpo_audit.recipe.guesses import (
    FITTED,
    KNOWN_SCALE,
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
from gdpo_audit.recipe.recipe import EXACT, FITTED_TO_ROUNDED, Recipe, Tensors, compare_with
from gdpo_audit.recipe.terms import BY_GROUP, Terms, terms_of
from gdpo_audit.recipe.weights import WITHOUT_EPS, Solution, eps_of, scale_of, separate, solution_of
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.batch import Batch

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
# The root mean square error that counts as explaining nothing, relative to the advantages.
_UNLIKE = 0.2


class Solved(NamedTuple):
    """Hold what one method and convention add up on a log, and the weights with which that gives the advantages."""

    terms: Terms
    live: Tensor  # (batches,) whether a batch shows anything of the weights
    solution: Solution  # no weights are solved for if they fit too few live batches to be tried


@dataclass(frozen=True)
class Attempt:
    """A recipe that was tried, with weights for one method and convention, and how well it fits the log."""

    recipe: Recipe
    complexity: int  # 0 for weights that were asked for or are ones; FITTED for weights that are not round
    share: float  # the share of the batches with a signal that it reproduces
    error: float  # the root mean square error in these batches
    within: bool = False  # whether no error in these batches is larger than the rounding of the log

    @property
    def claims(self) -> int:
        """The complexity of the weights, as far as they are known. Likely attempts are ranked by it, the lowest first,
        because a false recipe needs weights of many digits, which fit only by luck.

        It is 0 if no weight is known, as where only the signs of the advantages are to be explained. It is also 0 if
        the only known weight is known up to a factor.
        """
        known = len(self.recipe.weights) - len(self.recipe.unknown)
        return 0 if known <= self.recipe.up_to_scale else self.complexity


def attempts_on(
    log: Tensors, conventions: Sequence[str], given: Weights | None, by_chance: bool = False
) -> Iterator[Attempt]:
    """Yield the best attempt for each of the `candidates`, if it reproduces enough of the log.

    A method and convention that compute the same on this log as an earlier pair are not tried.

    log: the logged advantages and rewards.
    conventions: keys of ALL_CONVENTIONS, the likeliest first.
    given: weights to try first, or None.
    by_chance: whether fitted weights count also on a log with no more equations than unknowns, where chance alone may
        make them fit. Weights that were given, are all 1 or are round may count there also without `by_chance`.
    """
    few_sizes = has_few_sizes(log)
    solved: dict[tuple[object, ...], Solved] = {}
    for method, convention, key in candidates(log, conventions):
        if key not in solved:
            solved[key] = solved_for(log, method, convention)
        attempt = attempt_with(log, method, convention, given, solved[key], by_chance)
        if attempt is None:
            continue
        sure = method in _BY_FREQUENCY[0] and attempt.complexity < FITTED and not log.grid
        fewest = _FEWEST_BY_SIGNS if few_sizes and method != "grpo" else _FEWEST if sure else _FEWEST_FITTED
        if attempt.share >= fewest:
            yield attempt


def solved_for(log: Tensors, method: str, convention: str) -> Solved:
    """Return the terms of a method and convention on a log, and the weights that fit them.

    log: the logged advantages and rewards.
    method, convention: the id of the method and the key of the convention.
    """
    terms = terms_of(log, log.read(ALL_CONVENTIONS[convention]), method)
    live = terms.live_batches(log.batches)
    return Solved(terms, live, solution_of(terms, log.batches, fewest=_FEWEST * live.sum().item()))


def has_few_sizes(log: Tensors) -> bool:
    """Return whether the advantages have so few absolute values besides 0 that they show little but their signs."""
    sizes = (log.advantages.abs() * 1e4).round()
    return len(sizes[sizes > 0].unique()) <= _FEW_SIZES


def candidates(log: Tensors, conventions: Sequence[str]) -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """Yield methods and conventions to try, the likeliest first.

    Three things come for each: the id of the method, the key of the convention, and a key for the terms that the method
    adds up. Candidates with the same third item add up the same terms, so that the weights need to be solved for only
    once.

    A pair that computes the same as an earlier one on this log is left out, and so is GDPO by tokens where the log has
    no lengths.

    log: the logged rewards, which tell what points of a convention make a difference.
    conventions: keys of ALL_CONVENTIONS, the likeliest first.
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
        terms: tuple[object, ...] = (method in BY_GROUP, *open_points, *of_group)
        eps: object = None if method in WITHOUT_EPS else (c.sum_eps, c.ddof)
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


def attempt_with(
    log: Tensors, method: str, convention: str, given: Weights | None, solved: Solved, by_chance: bool = False
) -> Attempt | None:
    """Return the attempt with the best weights for one method and convention; None if these cannot have made the log.

    log: the logged advantages and rewards.
    method, convention: the id of the method and the key of the convention.
    given: weights to try first, or None.
    solved: what `solved_for` returns for these three.
    by_chance: whether fitted weights count also on a log with no more equations than unknowns, as in `attempts_on`.
    """
    terms, live, solution = solved
    # Leave-one-out divides each response of a group by another std, so that weights cannot be solved for, only tried.
    solvable = not (ALL_CONVENTIONS[convention].leave_one_out and method in BY_GROUP)
    if not live.any() or (solvable and (solution.batches & live).sum() < _FEWEST * live.sum()):
        return None
    batch = log.read(ALL_CONVENTIONS[convention])
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
        share, off, within = judge_method(log, log.read(batch.convention, weights), method, live)
        told = measured is not None and shows_scale((weights, complexity), solution, measured, trial.error)
        # In a single batch another method can make the advantages larger or smaller by any factor.
        # Nobody chooses a single weight of many digits: something else has multiplied the advantages.
        several = sum(map(bool, weights)) > 1 and share * int(live.sum()) >= 1.5
        told &= complexity < FITTED or several
        known = [w for k, w in enumerate(weights) if k not in unknown]
        # Weights that are 0, beside others that are unknown, do not show the ratio of any weights.
        open_ones = unknown if any(known) or not any(weights) else range(count)
        up_to_scale = not (told or (measured is not None and weights == given))
        recipe = Recipe(method, convention, weights, tuple(open_ones), up_to_scale, log.grid)
        attempts.append(Attempt(recipe, complexity, share, off, within))
        if share == 1 and off <= log.exact:
            break
    return best_of(attempts, 1.5, log)[0] if attempts else None


@dataclass(frozen=True)
class _Trial:
    """The weights to try with one method and convention, and what solving for the weights on the log has shown."""

    guesses: list[Guess]
    unknown: list[int]  # the rewards whose weights the log leaves open
    measured: Tensor | None = None  # (rewards,) the solved weights with their scale; None if the log shows no scale
    error: float = math.inf  # the relative error of the scale of `measured`


def _trial_of(batch: Batch, method: str, given: Weights | None, solved: Solved, solvable: bool) -> _Trial | None:
    """Return the weights to try with one method and convention.

    None if too few units show the divisor that the method would have. A unit is a group, or a batch if the method
    divides over batches.

    batch: the rewards, with the convention.
    method: the id of the method.
    given: weights to try first; None for 1 each.
    solved: the terms of the method, and the weights solved from them, as `solved_for` returns them.
    solvable: whether weights could be solved for; if not, only `given` and weights of 1 are tried.
    """
    terms, _, solution = solved
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


def best_of(attempts: list[Attempt], slack: float, log: Tensors) -> list[Attempt]:
    """Return the attempts that are about as good as the best one, in their order.

    Such an attempt has a share of at least 98 % of the largest one. Its error is at most `log.exact`, or at most
    `slack` times the smallest error. The smallest error counts as no smaller than the rounding of the log explains. If
    some of these attempts explain every rounded number, an attempt that misses one by more than its rounding is none of
    them.

    attempts: one or more.
    slack: how many times the smallest error an error may be.
    log: the logged advantages, and how coarsely they are rounded.
    """
    most = max(attempt.share for attempt in attempts)
    attempts = [attempt for attempt in attempts if attempt.share >= 0.98 * most]
    # An error below that of the rounding is chance, as the log has few different numbers.
    of_rounding = rms(log.rounding[log.advantages.isfinite()]) / math.sqrt(3) if log.grid else 0.0
    least = max(min(attempt.error for attempt in attempts), of_rounding)
    good = [attempt for attempt in attempts if attempt.error <= max(log.exact, slack * least)]
    return [attempt for attempt in good if attempt.within] or good


def judge_method(log: Tensors, batch: Batch, method: str, live: Tensor) -> tuple[float, float, bool]:
    """Return how well a method makes the logged advantages. Two numbers come first: the share of the live batches in
    which it makes all of them, and its root mean square error in the batches of this share. The last one says whether
    no error there is larger than the rounding of the log, and is False where nothing is rounded.

    Return 0 and infinity if it makes all advantages of no live batch. Return them too if it does so in only some of the
    live batches, and its errors there are not far below the advantages.

    log: the logged advantages.
    batch: the rewards, with the convention and the weights.
    method: the id of the method.
    live: (batches,) whether a batch says anything on the weights.
    """
    comparison = compare_with(log, method, batch)
    error, index = comparison.error, log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (error > comparison.allowed).float())
    good = live & (wrong == 0)
    if not good.any():
        return 0.0, math.inf, False
    share = (good.sum() / live.sum()).item()
    off, size = (rms(x[good[index]].nan_to_num()) for x in (error, log.advantages))
    # Batches in which round-off may be as large as the advantages, because sums cancel there, explain nothing.
    if share < 1 and off > max(_UNLIKE * size, 10 * EXACT):
        return 0.0, math.inf, False
    rounded = comparison.allowed - (FITTED_TO_ROUNDED - 1) * log.rounding
    return share, off, bool(log.grid) and not bool((error > rounded)[good[index]].any())
