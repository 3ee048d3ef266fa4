"""Finds the recipe: solves each method and convention for its weights, and takes the one that computes the log best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor

from gdpo_core.batch import Batch
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.errors import expect
from gdpo_core.reproduce.belief import believed, rivals, spare
from gdpo_core.reproduce.factor import eps_of, factor, from_divisor, separating
from gdpo_core.reproduce.nice import ODD, UNSURE, Guess, likely, rounded, simplest
from gdpo_core.reproduce.recipe import TOLERANCE, Log, Recipe, differences, holds_lengths, read_log, with_weights
from gdpo_core.reproduce.terms import Terms, live_batches, terms_of
from gdpo_core.reproduce.weights import Space, space

# Conventions of each framework, the likeliest first. Of several that fit equally well, the first is taken.
_LIKELY = {
    "trl": ("trl", "axolotl_async", "nvlabs_trl", "axolotl_streaming"),
    "ms_swift": ("ms_swift", "trl", "axolotl_async", "nvlabs_trl"),
    "nemo_rl": ("nemo_rl_loo", "nemo_rl"),
    "verl": ("verl",),
    "generic": (
        *("paper", "trl", "ms_swift", "verl", "nemo_rl", "nemo_rl_loo"),
        *("axolotl_async", "axolotl_streaming", "nvlabs_trl"),
    ),
}
Solved = tuple[Terms, Tensor, Space]  # terms, the batches with a signal, the weights
_METHODS = ("grpo", "gdpo", "grpo_no_std", "grpo_batch_std")
# A recipe has to reproduce this share of the batches with a signal; odd weights, which can be fitted to some batches
# by chance, have to reproduce more.
_FEWEST, _FEWEST_ODD = 1 / 3, 1 / 2
# The largest standard error of a known weight, relative to it; and of a weight of 0, relative to the largest weight.
_TOLD, _NOTHING = 5e-3, 1e-5
# A root mean square error that counts as exact.
_EXACT = 2e-6


@dataclass(frozen=True)
class Tried:
    """A recipe with weights for one method and convention, and how well it reproduces the log."""

    recipe: Recipe
    share: float  # of the batches with a signal, the share that it reproduces
    error: float  # root mean square error in these batches, beyond round-off
    odd: int  # how little the weights look like numbers that someone chose; 0 for the weights asked for, and ones


def solve(
    tables: Sequence[pl.DataFrame], rewards: Sequence[str], framework: str, weights: Sequence[float] | None = None
) -> Recipe | None:
    """The recipe that reproduces most of the logged advantages of these tables; None where none comes near.

    weights: one per reward, tried first. Where the weights change during the run, those of most batches are returned.
    """
    expect(framework in _LIKELY, "framework", f"one of {', '.join(_LIKELY)}", repr(framework))
    tables = [table for table in tables if "advantage" in table.columns]
    if not tables:
        return None
    columns = ["batch", "group", *rewards, "advantage"]
    columns += ["length"] if all(holds_lengths(table, rewards) for table in tables) else []
    log = read_log(pl.concat([table.select(columns) for table in tables]), rewards)
    given = None if weights is None else tuple(float(w) for w in weights)
    expect(given is None or len(given) == len(rewards), "weights", f"{len(rewards)} numbers", repr(weights))

    found: list[Tried] = []
    solved: dict[tuple[object, ...], Solved] = {}
    for method, name, key in _candidates(log, framework):
        if key not in solved:
            terms = terms_of(log, log.read(CONVENTIONS[name]), method)
            solved[key] = terms, live_batches(terms, log.batches), space(terms, log.batches)
        tried = _try(log, method, name, given, solved[key])
        if tried is None or tried.share < (_FEWEST_ODD if tried.odd >= ODD else _FEWEST):
            continue
        if tried.share == 1 and tried.error <= _EXACT and tried.odd <= 2 * len(rewards):
            return _at_scale(log, tried, framework, given)
        found.append(tried)
    if not found:
        return None
    best = _best(found, _EXACT, 2)
    return _at_scale(log, min(best, key=lambda tried: tried.odd), framework, given)


def _candidates(log: Log, framework: str) -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """Methods and conventions, the likeliest first, without those that compute the same on this log.

    The third item is equal for candidates with the same direction of the weights, which is solved for once.
    """
    missing, count = log.rewards.isnan(), log.rewards.shape[-1]
    any_missing, any_empty = bool(missing.any()), bool(missing.all(-1).any())
    alone = log.rewards.shape[1] == 1 if log.group is None else bool((log.group.bincount() == 1).any())
    known = set()
    for name in _LIKELY[framework]:
        c = CONVENTIONS[name]
        # The parts of the convention that make a difference on such a log.
        open_points = (any_missing and c.missing, any_empty and c.empty_counts, alone and c.group_of_one)
        for method in _METHODS:
            terms: tuple[object, ...] = (method == "grpo", *open_points, c.leave_one_out)
            eps: object = None if method == "grpo_no_std" else c.sum_eps
            if method == "gdpo":
                if (c.one_reward_is_grpo and count == 1) or (c.last_step == "tokens" and log.lengths is None):
                    continue
                terms = (method, *terms, any_missing and c.missing_is_zero_in_gdpo, c.group_eps, c.last_step)
                eps = (c.batch_eps, c.batch_eps_to)
            if (method, terms, eps) not in known:
                known.add((method, terms, eps))
                yield method, name, terms


def _try(log: Log, method: str, convention: str, given: tuple[float, ...] | None, solved: Solved) -> Tried | None:
    """The best weights for one method and convention; None if these cannot have made the log."""
    terms, live, seen = solved
    batch = log.read(CONVENTIONS[convention])
    # Leave-one-out divides each response of a group by a different std.
    solvable = not (method == "grpo" and batch.convention.leave_one_out)
    if not live.any() or (solvable and (seen.batches & live).sum() < _FEWEST * live.sum()):
        return None
    count = len(batch.rewards)
    ones = (1.0,) * count
    preferred = list(dict.fromkeys([given or ones, ones]))
    unknown = tuple(k for k in range(count) if seen.free[k].abs().sum() > 1e-6)
    unsure, guesses = torch.inf, list[Guess]()
    if not solvable:
        unknown = tuple(range(count)) if count > 1 else ()
    elif seen.direction is None:
        guesses, wide, eps_tells = _guesses(batch, terms, seen, method, preferred[0])
        unsure = 0.0 if eps_tells else torch.inf
        unknown = tuple(wide) if eps_tells else tuple(range(count))
    else:
        preferred = [w for w in preferred if _fits(w, seen, seen.direction)]
        size, unsure = factor(batch, terms, seen, seen.direction, method)
        guesses = likely(seen, seen.direction, given or ones, size, unsure, eps_of(batch.convention, method) > 0)
        wide = _wide(seen.direction, seen.error, seen.scale)
        unknown = tuple(sorted({*unknown, *wide}))

    tried, eps = [], eps_of(batch.convention, method)
    # Where GRPO's direction stays open, the weights only explain signs, and the count of equations does not apply.
    equations = torch.inf if method == "grpo" and seen.direction is None else spare(log, terms, seen)
    for weights, odd in [*((w, 0) for w in preferred), *guesses]:
        if not believed(weights, odd, unknown, terms, eps, equations):
            continue
        # In a single batch another method can make the advantages larger or smaller by any factor.
        free = unsure > UNSURE or (odd >= ODD and int(live.sum()) == 1)
        recipe = Recipe(method, convention, tuple(weights), unknown, free)
        share, error = _judge(log, with_weights(batch, weights), method, live)
        tried.append(Tried(recipe, share, error, odd))
    return _best(tried, _EXACT, 1.5)[0] if tried else None


def _at_scale(log: Log, found: Tried, framework: str, given: tuple[float, ...] | None) -> Recipe:
    """The recipe found; up to scale if another convention makes the same advantages from weights of another scale."""
    recipe = found.recipe
    if recipe.up_to_scale or recipe.weights == given:
        return recipe
    live = torch.ones(log.batches, dtype=torch.bool)
    for other in rivals(log, recipe, _LIKELY[framework]):
        batch = log.read(CONVENTIONS[other.convention], other.weights)
        made = log.read(CONVENTIONS[recipe.convention], recipe.weights)
        if _judge(log, batch, recipe.method, live)[0] >= 0.98 * _judge(log, made, recipe.method, live)[0]:
            return replace(recipe, up_to_scale=True)
    return recipe


def _best(tried: list[Tried], exact: float, times: float) -> list[Tried]:
    """Those that reproduce about as many batches as the best, about as exactly; in the order given."""
    most = max(t.share for t in tried)
    tried = [t for t in tried if t.share >= 0.98 * most]
    least = min(t.error for t in tried)
    return [t for t in tried if t.error <= max(exact, times * least)]


def _judge(log: Log, batch: Batch, method: str, live: Tensor) -> tuple[float, float]:
    """The share of the live batches that are reproduced, and their root mean square error beyond round-off."""
    error, allowed = differences(log.advantages, batch, method)
    index = log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (error > allowed).float())
    good = live & (wrong == 0)
    if not good.any():
        return 0.0, torch.inf
    over = (error - (allowed - TOLERANCE))[good[index]].nan_to_num().clamp(min=0)
    return (good.sum() / live.sum()).item(), over.square().mean().sqrt().item()


def _fits(weights: tuple[float, ...], seen: Space, direction: Tensor) -> bool:
    """Whether the weights lie in the space that was solved for, on the side of the direction."""
    w = torch.tensor(weights, dtype=torch.float64)
    beside = (w - seen.basis @ (seen.basis.T @ w)) * seen.scale
    return bool(beside.abs().max() <= 0.05 * (w * seen.scale).abs().max()) and bool(w @ direction > 0)


def _wide(weights: Tensor, error: Tensor, scale: Tensor) -> list[int]:
    """Rewards whose weight the log leaves open: its standard error is too large, and it need not be 0 either."""
    part = (weights * scale).abs().max()
    # A reward of very small size can be invisible at any weight; then a weight of 0 is not certain either.
    zero = (error * scale <= _NOTHING * part) & (error <= _TOLD * weights.abs().max())
    known = (error <= _TOLD * weights.abs()) | zero
    return [int(k) for k in (~known | (scale == 0)).nonzero().flatten()]


def _guesses(
    batch: Batch, terms: Terms, seen: Space, method: str, wanted: tuple[float, ...]
) -> tuple[list[Guess], list[int], bool]:
    """Weights to try where several directions fit, as in groups of two; which stay unknown; whether eps shows them."""
    near = torch.tensor(wanted, dtype=torch.float64)
    apart = separating(seen, terms, near)
    guesses = [(rounded(w), ODD) for w in (seen.basis @ (seen.basis.T @ near), apart)]
    # The larger the weights, the less eps matters.
    guesses += [(rounded(times * apart), ODD) for times in (10, 100, 1000)]
    c, solution = batch.convention, None
    if method in ("grpo", "gdpo"):  # the sum is divided by its own std
        solution = from_divisor(seen, terms, eps_of(c, method), c.ddof)
    if solution is None:
        return guesses, [], False
    weights, error = solution
    wide = _wide(weights, error, seen.scale)
    if len(wide) == len(weights):
        return [*guesses, (rounded(weights), ODD)], wide, False
    tries = (
        (w, ODD) if k in wide else simplest(w, min(0.02, 3 * e / abs(w) + 1e-5)) if abs(w) > 3 * e else (0.0, 0)
        for k, (w, e) in enumerate(zip(weights.tolist(), error.tolist(), strict=True))
    )
    snapped = [number for number in tries if number is not None]
    odd = 1 + sum(odd for _, odd in snapped if odd < ODD)
    simple = [(tuple(w for w, _ in snapped), odd)] if len(snapped) == len(weights) else []
    return [*simple, (rounded(weights), ODD), *guesses], wide, True
