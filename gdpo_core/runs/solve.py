"""Finds the recipe: solves each method and convention for its weights, and takes the one that computes the log best."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

import polars as pl
import torch
from torch import Tensor

from gdpo_core._groups import Batch
from gdpo_core.conventions import NAMES, PAPER
from gdpo_core.frameworks import ALL_CONVENTIONS, conventions_to_try
from gdpo_core.registry import method_named
from gdpo_core.runs.recipe import (
    GRIDS,
    TOLERANCE,
    Recipe,
    Tensors,
    compare,
    compare_with,
    grid_of,
    holds_lengths,
    is_simple,
    tensors_of,
    with_weights,
)
from gdpo_core.runs.weights import (
    BY_GROUP,
    UNDIVIDED,
    WITHOUT_EPS,
    Scale,
    Solution,
    Terms,
    eps_of,
    fit_to_rounded,
    scale_of,
    separate,
    solution_of,
    terms_of,
    weights_from_eps,
)

# The methods that most logs are made by, and others.
_METHODS = (
    ("grpo", "gdpo", "grpo_no_std", "grpo_batch_std"),
    ("reinforce_pp_baseline", "mo_grpo", "reinforce_pp", "max_rl"),
)
# Those that differ, where each batch may be times a factor of its own.
_SCALED = ("grpo", "gdpo", "grpo_no_std", "reinforce_pp")
# A recipe has to reproduce this share of the batches with a signal; one that few use, fitted weights and rounded
# advantages, which may fit some batches by chance, more.
_FEWEST, _FEWEST_FITTED = 1 / 3, 1 / 2
# Nearly all, where advantages have so few sizes, as in groups of two, that a recipe only has to explain their signs.
_FEWEST_BY_SIGNS, _FEW_SIZES = 0.9, 3
# A root mean square error that counts as exact, and one that explains nothing, relative to the advantages.
_EXACT, _UNLIKE = 2e-6, 0.2
# The largest standard error of a known weight, relative to it; of a weight of 0, relative to the largest weight; and of
# a known scale.
_KNOWN_WEIGHT, _KNOWN_ZERO, _KNOWN_SCALE = 3e-3, 1e-5, 0.05
# The complexity of weights that are no round numbers.
FITTED = 1000
# Where the scale is open, the largest weight is one of these, of those that make the other weights simplest.
_LARGEST = (1, *range(2, 13), 15, 20)
# A weight is changed by no more than this part of it to make it a round number.
_COARSEST = 0.02
_DENOMINATORS = (3, 6, 7, 9, 11, 12)
# A scale may be off by this part of it, besides its error; and by this one, where advantages are rounded.
_SCALE_OFF, _ROUGHLY = 1e-3, 0.1
# Nobody chooses one weight so much smaller than another.
_FAR_APART = 1e-5
# Nobody chooses weights so small that eps is more than a correction: such a part of the std. With smaller weights one
# method can imitate another.
_EPS_AT_MOST = 0.25
_LEAST = 1e-290  # of a number that can be round
# A scale is implausible if all weights are below the first number, or none is below the second.
_USUAL = (0.01, 100)
# A log with more responses than this has more equations than weights.
_MANY = 4096
# Where each batch has a factor of its own, or numbers are rounded, chance explains fewer equations than this.
_FEW_EQUATIONS = 8
_FEW_EXACT = 4  # the same of weights for a batch of exact numbers, where the method is known
# Other readings of a log are looked for in its first batches, with about so many responses.
_ENOUGH = 2000
# Weights fitted to rounded advantages may miss some; where they reproduce this share, better ones do all.
_ROUNDED = 0.5
# The complexity of a single weight of one digit.
_ONE_DIGIT = 2
# Weights this far apart, relatively, are different ones.
_APART = 0.01
# So many groups in which several rewards vary tell methods that normalise each reward from the others.
_MIXED = 20
# A change of a weight, relative to it, that rounded numbers have to show.
_SHOWN = 0.003
# An advantage is taken for clipped if so many have that size.
_CLIPPED = 2


Solved = dict[tuple[object, ...], tuple[Terms, Solution]]


@dataclass(frozen=True)
class Guess:
    """Weights to try."""

    weights: tuple[float, ...]
    complexity: int  # 0 for the weights asked for and for ones, about one per digit for round numbers, else FITTED


@dataclass(frozen=True)
class Attempt:
    """A recipe with weights for one method and convention, and how well it reproduces the log."""

    recipe: Recipe
    complexity: int
    share: float  # of the batches with a signal, the share that it reproduces
    error: float  # root mean square error in these batches


def solve(
    tables: Sequence[pl.DataFrame], rewards: Sequence[str], framework: str, weights: Sequence[float] | None = None
) -> Recipe | None:
    """The recipe that reproduces most of the logged advantages of these tables; None where none comes near.

    weights: one per reward, tried first. Where the weights change during the run, those of most batches are returned.
    What several recipes that make the same advantages do not agree on is said to be unknown.
    """
    tables = [table for table in tables if "advantage" in table.columns]
    if not tables:
        return None
    columns = ["batch", "group", *rewards, "advantage"]
    columns += ["length"] if all(holds_lengths(table, rewards) for table in tables) else []
    log = tensors_of(pl.concat([table.select(columns) for table in tables]), rewards)
    given = None if weights is None else tuple(float(w) for w in weights)

    solved: Solved = {}
    found = _search(log, framework, given, solved)
    if found is None or not _exactly(log, found):
        log, found = _search_alternatives(log, found, framework, given, solved)
    return None if found is None else _agree(log, found, framework, given)


def solve_weights(tables: Sequence[pl.DataFrame], rewards: Sequence[str], like: Recipe) -> Recipe | None:
    """The recipe with the weights that make all advantages of these tables; None where none do, or too few show it."""
    after = {name: getattr(like, name) for name in ("clipped_at", "scaled", "grid", "rewards_grid")}
    log = replace(tensors_of(pl.concat(tables), rewards), **after)
    terms = terms_of(log, log.read(ALL_CONVENTIONS[like.convention]), like.method)
    solution = solution_of(terms, log.batches)
    exact = not (log.scaled or log.grid or log.rewards_grid)
    if _degrees_of_freedom(log, terms, solution) < (_FEW_EXACT if exact else _FEW_EQUATIONS):
        return None
    found = _attempt(log, like.method, like.convention, like.weights, terms, solution)
    if found is None or found.share < 1 or len(found.recipe.unknown) == len(rewards):
        return None
    return found.recipe


def same_weights(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes of one method have the same weights: up to scale, but where that changes the advantages.

    >>> from gdpo_core.runs.recipe import Recipe
    >>> same_weights(*(Recipe("grpo", "trl", w, (), False) for w in ((1.0, 0.5), (2.0, 1.0))))
    True
    """
    known = [k for k in range(len(one.weights)) if k not in (*one.unknown, *other.unknown)]
    a, b = ([recipe.weights[k] for k in known] for recipe in (one, other))
    most = max(range(len(known)), key=lambda k: abs(a[k]), default=-1)
    if most < 0 or a[most] == 0:
        return not any(b)
    open_scale = one.up_to_scale or other.up_to_scale or one.method not in UNDIVIDED
    factor = b[most] / a[most] if open_scale else 1.0
    rounded = any(recipe.grid or recipe.rewards_grid for recipe in (one, other))
    off, nothing = (_COARSEST, _APART) if rounded else (_SHOWN / 3, _KNOWN_ZERO)
    near = (
        abs(y - factor * x) <= abs(factor) * (off * abs(x) + nothing * abs(a[most])) for x, y in zip(a, b, strict=True)
    )
    return factor > 0 and all(near)


def _exactly(log: Tensors, found: Attempt) -> bool:
    """Whether the attempt explains the log as it stands, and the log is not one of rounded numbers by its looks."""
    # A few rounded numbers are exactly what some odd weights make.
    most = 2 * sum(map(bool, found.recipe.known)) if _few_sizes(log) else FITTED - 1
    return found.share == 1 and (not grid_of(log.advantages) or (found.error <= _EXACT and found.complexity <= most))


def _search_alternatives(
    log: Tensors, found: Attempt | None, framework: str, given: tuple[float, ...] | None, solved: Solved
) -> tuple[Tensors, Attempt | None]:
    """The log as one of numbers that were rounded, clipped or scaled, and what explains that; or what was found."""
    grid = grid_of(log.advantages)
    for other in _alternative_logs(log, grid):
        only_rounded = other.clipped_at == inf and not other.rewards_grid
        if found is not None and (other.rewards_grid or (found.share == 1 and not only_rounded)):
            break
        instead = _search(other, framework, given, solved)
        if instead is not None and (found is None or instead.share >= found.share):
            found, log = instead, other
    if found is not None and (grid or log.rewards_grid):
        recipe = _allow_for_rounding(replace(log, grid=grid), found)
        if not log.rewards_grid or len(recipe.unknown) < len(recipe.weights):  # else all will do
            return log, replace(found, recipe=recipe)
        log, found = replace(log, rewards_grid=""), None
    if found is None:
        log = replace(log, scaled=True, grid=grid)
        found = _search(log, framework, given, solved)
    return log, found


def _search(log: Tensors, framework: str, given: tuple[float, ...] | None, solved: Solved) -> Attempt | None:
    """The likeliest attempt that reproduces the log about as well as the best one does."""
    attempts: list[Attempt] = []
    for attempt in _attempts(log, framework, given, solved):
        attempts.append(attempt)
        if attempt.share == 1 and attempt.error <= _EXACT and attempt.complexity <= 2 * log.rewards.shape[-1]:
            return attempt
    return min(_best(attempts, 2, log), key=_claims) if attempts else None


def _claims(attempt: Attempt) -> int:
    """How much its weights have to be right by chance: nothing, where they only explain signs or one is alone."""
    known = len(attempt.recipe.weights) - len(attempt.recipe.unknown)
    return 0 if known <= attempt.recipe.up_to_scale else attempt.complexity


def _attempts(
    log: Tensors,
    framework: str,
    given: tuple[float, ...] | None,
    solved: Solved,
    by_chance: bool = False,
    methods: Sequence[str] = tuple(NAMES),
) -> Iterator[Attempt]:
    """The best attempt with each method and convention that reproduces enough of the log, the likeliest first.

    solved: what is solved for is kept here. by_chance: also those with weights that chance alone may make fit.
    methods: no others.
    """
    few_sizes = _few_sizes(log)
    for method, convention, key in _candidates(log, framework):
        if method not in methods:
            continue
        key = *key, log.clipped_at, log.grid, log.rewards_grid
        if key not in solved:
            terms = terms_of(log, log.read(ALL_CONVENTIONS[convention]), method)
            solved[key] = terms, solution_of(terms, log.batches)
        attempt = _attempt(log, method, convention, given, *solved[key], by_chance)
        if attempt is None:
            continue
        sure = method in _METHODS[0] and attempt.complexity < FITTED and not log.grid
        fewest = _FEWEST if sure else _FEWEST_FITTED
        if log.scaled or (method != "grpo" and few_sizes):
            fewest = _FEWEST_BY_SIGNS
        if attempt.share >= fewest:
            yield attempt


def _few_sizes(log: Tensors) -> bool:
    """Whether the advantages have so few sizes that a recipe only has to explain their signs."""
    sizes = (log.advantages.abs() * 1e4).round()
    return len(sizes[sizes > 0].unique()) <= _FEW_SIZES


def _alternative_logs(log: Tensors, grid: str) -> Iterator[Tensors]:
    """The log as one of advantages, or of rewards, that were rounded or clipped, where the numbers look like that."""
    largest = log.advantages[log.advantages.isfinite()].abs()
    if grid:
        yield replace(log, grid=grid)
    clip = largest.max().item() if len(largest) else 0.0
    if clip and (largest == clip).sum() >= _CLIPPED and (round_one := simplest(clip, 1e-6)) and round_one[1] <= 2:
        yield replace(log, clipped_at=round_one[0], grid=grid)
    columns = log.rewards.flatten(0, -2).T
    grids = [grid_of(column) for column in columns if not is_simple(column)]
    if grids and all(grids):
        yield replace(log, rewards_grid=min(grids, key=list(GRIDS).index), grid=grid)


def _candidates(log: Tensors, framework: str) -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """Methods and conventions, the likeliest first, without those that compute the same on this log.

    The third item is equal for candidates with the same direction of the weights, which is solved for once.
    """
    missing, count = log.rewards.isnan(), log.rewards.shape[-1]
    any_missing, any_empty = bool(missing.any()), bool(missing.all(-1).any())
    alone = log.rewards.shape[1] == 1 if log.group is None else bool((log.group.bincount() == 1).any())
    known, names = set(), conventions_to_try(framework)
    methods = ([m for m in _SCALED if m in several] if log.scaled else several for several in _METHODS)
    for name, method in (pair for several in methods for pair in product(names, several)):
        c = ALL_CONVENTIONS[name]
        # The parts of the convention that make a difference on such a log.
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
        eps = None if log.scaled else eps
        if (method, terms, eps) not in known:
            known.add((method, terms, eps))
            yield method, name, terms


def _attempt(
    log: Tensors,
    method: str,
    convention: str,
    given: tuple[float, ...] | None,
    terms: Terms,
    solution: Solution,
    by_chance: bool = False,
) -> Attempt | None:
    """The best weights for one method and convention; None if these cannot have made the log."""
    batch, live = log.read(ALL_CONVENTIONS[convention]), terms.live_batches(log.batches)
    # Leave-one-out divides each response of a group by another std, so that only weights at hand can be tried.
    solvable = not (method in BY_GROUP and batch.convention.leave_one_out)
    if not live.any() or (solvable and (solution.batches & live).sum() < _FEWEST * live.sum()):
        return None
    loose = log.scaled or bool(log.rewards_grid)
    if loose and not (solvable and solution.is_direction):
        return None
    count = len(batch.rewards)
    ones = (1.0,) * count
    wanted = torch.tensor(given or ones, dtype=torch.float64)
    preferred = [Guess(w, 0) for w in dict.fromkeys([given or ones, ones])]
    guesses, unknown, scale_known = list[Guess](), list(range(count)) if count > 1 else [], False
    scale, surest, measured = Scale(None, 0, 1), 0, 0.0
    if solvable and solution.is_direction:
        scale = scale_of(solution, terms, batch, method, log.scaled)
        if log.scaled:  # which may hide it
            scale = replace(scale, error=torch.inf, fits=1.0)
        if scale.fits < _FEWEST / 2:
            return None
        guesses, unknown, scale_known = _along_direction(solution, scale, wanted)
        if log.grid and scale.factor is not None:  # which rounded advantages show only roughly
            simple = _simple_along(solution, scale.factor, _ROUGHLY, wanted)
            guesses = [*([] if simple is None else [simple]), *guesses]
        if log.grid and not log.scaled:
            fitted = (torch.tensor(g.weights, dtype=torch.float64) for g in guesses if g.complexity >= FITTED)
            better = [fit_to_rounded(w, terms, method not in UNDIVIDED) for w in fitted]
            guesses += [Guess(round_weights(w), FITTED) for w in better]
        surest = int((solution.directions[:, 0] * solution.size).abs().argmax())
        measured = (scale.factor or 0) * solution.directions[surest, 0].item()
    elif solvable:
        guesses, unknown, scale_known = _where_directions_are_open(solution, terms, batch, method, wanted)
        if log.clipped_at < inf:  # what is left of a group does not show its std
            unknown, scale_known = list(range(count)), False

    equations = torch.inf if by_chance else _degrees_of_freedom(log, terms, solution)
    if loose and equations < _FEW_EQUATIONS:
        return None
    if method == "grpo" and not solution.is_direction:  # the weights only explain signs
        equations = torch.inf
    attempts = []
    for guess in (*preferred, *guesses):
        if not _plausible(guess, unknown, terms, eps_of(batch.convention, method), equations):
            continue
        up_to_scale = not scale_known
        if guess.weights != given:
            # What the advantages show of the scale only roughly, several weights of one digit each show.
            settled = count - solution.null_space.shape[1]
            shown = (3 if log.clipped_at == inf else 10) * scale.error <= _APART or (
                guess.complexity <= settled and settled > 1
            )
            away = abs(guess.weights[surest] - measured) > (3 * scale.error + _SCALE_OFF) * abs(measured)
            up_to_scale |= not shown or (bool(measured) and away)
        known = [w for k, w in enumerate(guess.weights) if k not in unknown]
        open_ones = unknown if any(known) or not any(guess.weights) else range(count)  # 0 beside nothing is nothing
        recipe = Recipe(method, convention, guess.weights, tuple(open_ones), up_to_scale)
        recipe = replace(recipe, **log.after_the_method)
        share, error = _judge(log, with_weights(batch, guess.weights), method, live)
        # In a single batch another method can make the advantages larger or smaller by any factor.
        if guess.complexity >= FITTED and share * int(live.sum()) < 1.5:
            if method in UNDIVIDED and live.sum() > 1:
                continue
            recipe = replace(recipe, up_to_scale=True)
        attempts.append(Attempt(recipe, guess.complexity, share, error))
        if share == 1 and error <= _EXACT:
            break
    return _best(attempts, 1.5, log)[0] if attempts else None


def _best(attempts: list[Attempt], slack: float, log: Tensors) -> list[Attempt]:
    """Those that reproduce about as many batches as the best, with at most `slack` times its error; in their order."""
    most = max(attempt.share for attempt in attempts)
    attempts = [attempt for attempt in attempts if attempt.share >= 0.98 * most]
    # An error below that of the rounding is chance: the log has few different numbers.
    of_rounding = _rms_of(log.rounding[log.advantages.isfinite()]) / math.sqrt(3) if log.grid else 0.0
    least = max(min(attempt.error for attempt in attempts), of_rounding)
    return [attempt for attempt in attempts if attempt.error <= max(_EXACT, slack * least)]


def _judge(log: Tensors, batch: Batch, method: str, live: Tensor) -> tuple[float, float]:
    """The share of the live batches that are reproduced, and their root mean square error."""
    comparison = compare_with(log, method, batch)
    error, allowed, index = comparison.error, comparison.allowed, log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (error > allowed).float())
    good = live & (wrong == 0)
    if not good.any():
        return 0.0, torch.inf
    # Round-off is not taken off: where it may be as large as the advantages, every recipe reproduces them.
    share = (good.sum() / live.sum()).item()
    off, size = (_rms_of(x[good[index]].nan_to_num()) for x in (error, log.advantages))
    # Where that is so in some batches alone, as sums cancel there, they explain nothing.
    return (0.0, torch.inf) if share < 1 and off > max(_UNLIKE * size, TOLERANCE) else (share, off)


# Which weights to try


def _along_direction(solution: Solution, of: Scale, wanted: Tensor) -> tuple[list[Guess], list[int], bool]:
    """Weights to try where one direction fits, the rewards whose weight is unknown, and whether the scale is known."""
    scale, error = of.factor, of.error
    direction = solution.directions[:, 0]
    unknown = sorted({*solution.open_rewards, *_open_weights(direction, solution)})
    # The larger the weights, the less eps matters.
    scales = [1.0, *([] if scale is None else [scale]), 1000.0]
    windows: list[tuple[float, float | None]] = [(factor, None) for factor in scales]
    if known := scale is not None and error <= _KNOWN_SCALE:
        scales = [scale]
        windows = [(scale, (3 * error + _SCALE_OFF) / by) for by in (1, 3, 10)]  # the simplest are in the widest
    simple = [_simple_along(solution, factor, window, wanted) for factor, window in windows]
    guesses = [guess for guess in dict.fromkeys(simple) if guess is not None]
    guesses += [Guess(round_weights(solution.completed(factor * direction, wanted)), FITTED) for factor in scales]
    return guesses, unknown, known


def _where_directions_are_open(
    solution: Solution, terms: Terms, batch: Batch, method: str, wanted: Tensor
) -> tuple[list[Guess], list[int], bool]:
    """The same where several directions fit, as in groups of two: there only what eps leaves can show the weights."""
    apart, everything = separate(solution, terms, wanted), list(range(len(wanted)))
    guesses = [Guess(round_weights(weights), FITTED) for weights in (apart, 1000 * apart)]
    c = batch.convention
    # The sum is divided by its own std under these methods.
    by_own_std = method in ("grpo", "gdpo", "reinforce_pp_baseline", "reinforce_pp")
    by_own_std = by_own_std and not (method == "grpo" and c.mean_of_others)
    from_eps = weights_from_eps(solution, terms, eps_of(c, method), c.ddof) if by_own_std else None
    if from_eps is None:
        return guesses, everything, False
    weights, error = from_eps
    unknown = _open_weights(weights, replace(solution, error=error))
    fitted = Guess(round_weights(solution.completed(weights, wanted)), FITTED)
    if len(unknown) == len(wanted):
        return [*guesses, fitted], unknown, False
    simple = _simple(solution.completed(weights, wanted), error, unknown)
    return [*([] if simple is None else [simple]), fitted, *guesses], unknown, True


def _open_weights(weights: Tensor, solution: Solution) -> list[int]:
    """Rewards whose weight the log leaves open: its standard error is too large, and it need not be 0 either."""
    error, size = solution.error, solution.size
    part = (weights * size).abs().max()
    # A reward of very small size can be invisible at any weight; then a weight of 0 is not certain either.
    zero = (error * size <= _KNOWN_ZERO * part) & (error <= _KNOWN_WEIGHT * weights.abs().max())
    known = (error <= _KNOWN_WEIGHT * weights.abs()) | zero
    return [int(k) for k in (~known | (size == 0)).nonzero().flatten()]


def _simple_along(solution: Solution, scale: float, window: float | None, wanted: Tensor) -> Guess | None:
    """The simplest weights near scale times the direction; None where no round numbers are.

    window: the largest relative change of the scale; None where any multiple of it will do.
    """
    direction = solution.directions[:, 0]
    settled = [k for k in range(len(direction)) if k not in solution.open_rewards]
    scales = [scale * largest for largest in _LARGEST]
    if window is not None and settled:
        surest = max(settled, key=lambda k: (direction * solution.size)[k].abs().item())
        one = direction[surest].item()
        scales = [number / one for number in numbers_near(scale * one, window)]
    options = list[tuple[bool, int, float, Guess]]()
    for times in scales:
        guess = _simple(solution.completed(times * direction, wanted), times * solution.error, solution.open_rewards)
        if guess is not None:
            options.append((window is not None or times != scale, guess.complexity, abs(times - scale), guess))
    return min(options, key=lambda option: option[:3])[3] if options else None


def _simple(weights: Tensor, error: Tensor, unknown: Sequence[int]) -> Guess | None:
    """The simplest weights within three standard errors; None where one of them is near no round number.

    unknown: indices of the weights that the log leaves open, which stay about as they are.
    """
    numbers = list[float]()
    complexity = 1
    for k, (w, e) in enumerate(zip(round_weights(weights), error.tolist(), strict=True)):
        if k in unknown:
            numbers.append((simplest(w, 1e-6) or (w, 0))[0])
            continue
        number = (0.0, 0) if abs(w) <= 3 * e else simplest(w, min(_COARSEST, 3 * e / abs(w) + 1e-5))
        if number is None:
            return None
        numbers.append(number[0])
        complexity += number[1]
    return Guess(tuple(numbers), complexity)


def simplest(x: float, tolerance: float) -> tuple[float, int] | None:
    """The simplest number within a relative tolerance of x, and its complexity: 0 for 1, else about its digits.

    >>> simplest(0.2500001, 1e-5), simplest(0.333334, 1e-5), simplest(0.1234567, 1e-5)
    ((0.25, 2), (0.3333333333333333, 2), None)
    """
    if x == 0:
        return 0.0, 0
    numbers = _by_complexity(abs(x), tolerance)
    return (math.copysign(numbers[0][2], x), numbers[0][0]) if numbers else None


def numbers_near(x: float, tolerance: float) -> list[float]:
    """All numbers with few digits and simple fractions within a relative tolerance of x, simplest first.

    >>> numbers_near(1.01, 0.05)[:3]
    [1.0, 1.01, 1.02]
    """
    return list(dict.fromkeys(math.copysign(number, x) for _, _, number in _by_complexity(abs(x), tolerance)))


def _by_complexity(size: float, tolerance: float) -> list[tuple[int, float, float]]:
    """Round numbers within a relative tolerance of a positive one: complexity, distance and number, in this order.

    None near 0 and near infinity, where a float holds no digits to be round.
    """
    if not _LEAST < size < 1 / _LEAST:
        return []
    low, high = size * (1 - tolerance), size * (1 + tolerance)
    exponent = math.floor(math.log10(size))
    numbers = list[tuple[int, float, float]]()
    for digits in (1, 2, 3):
        unit = exponent - digits + 1
        for multiple in range(math.ceil(low / 10.0**unit - 1e-9), math.floor(high / 10.0**unit + 1e-9) + 1):
            number = float(f"{multiple}e{unit}")
            if multiple and low <= number <= high:
                numbers.append((0 if number == 1 else digits, abs(number - size), number))
    for below in _DENOMINATORS if size < 100 else ():
        for above in range(math.ceil(low * below), math.floor(high * below) + 1):
            if above and math.gcd(above, below) == 1:
                numbers.append((2 if below == 3 else 4, abs(above / below - size), above / below))
    return sorted(numbers)


def round_weights(weights: Tensor) -> tuple[float, ...]:
    """Weights rounded to eight digits; with fewer, the advantages of large rewards would not be reproduced."""
    nothing = 1e-9 * weights.abs().max().item()  # round-off of a sum that is 0
    return tuple(0.0 if abs(w) <= nothing else float(f"{w:.8g}") for w in weights.tolist())


# Which weights are plausible: chance, or another convention, can reproduce a log too


def _plausible(guess: Guess, unknown: Sequence[int], terms: Terms, eps: float, equations: float) -> bool:
    """Whether someone may have chosen these weights; those asked for, and ones, always.

    unknown: indices of the weights that the log cannot tell. equations: see `_degrees_of_freedom`.
    """
    if guess.complexity == 0:
        return True
    w = torch.tensor(guess.weights, dtype=torch.float64)
    size = w.abs().max().item()
    std = _rms(w @ terms.x, terms)
    known = [abs(x) for k, x in enumerate(guess.weights) if x and k not in unknown]
    if known and min(known) < _FAR_APART * size:
        return False
    if std <= _FAR_APART * _rms(w[:, None] * terms.x, terms):  # the rewards cancel
        return False
    if guess.complexity >= FITTED and equations <= 0:
        return False
    return eps < _EPS_AT_MOST * std


def _rms_of(x: Tensor) -> float:
    """The root mean square of numbers; 0 of none."""
    return x.square().mean().sqrt().item() if len(x) else 0.0


def _rms(x: Tensor, terms: Terms) -> float:
    """The root mean square of (…, responses) over the responses that take part, added up over the other axes."""
    return x.square().sum().div(terms.part.sum()).sqrt().item()


def _degrees_of_freedom(log: Tensors, terms: Terms, solution: Solution) -> float:
    """The number of independent equations in the log minus the number of unknowns; infinite for a large log."""
    if terms.x.shape[1] > _MANY:
        return torch.inf
    part, group = terms.part > 0, log.group_of_response
    draw = torch.rand(len(terms.x), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mark = (terms.x.T @ draw * 1e6).round()[part]  # equal for equal terms
    vectors = torch.unique(torch.stack([group[part].to(mark), mark], 1), dim=0)[:, 0].long().bincount()
    live = torch.zeros(len(terms.batch), dtype=torch.bool)
    live[terms.unit[(terms.x != 0).any(0)]] = True
    return (vectors - 1).clamp(min=0).sum().item() - int(live.sum()) - (int((solution.size > 0).sum()) - 1)


# What other recipes that make the same advantages do not agree on


def _allow_for_rounding(log: Tensors, found: Attempt) -> Recipe:
    """The recipe, with unknown what could be another weight, or another scale, without a trace in rounded numbers."""
    recipe, w = found.recipe, torch.tensor(found.recipe.weights, dtype=torch.float64)
    if len(recipe.unknown) == len(w):
        return recipe
    batch = log.read(ALL_CONVENTIONS[recipe.convention])
    terms = terms_of(log, batch, recipe.method)
    solution, live = solution_of(terms, log.batches), terms.live_batches(log.batches)
    seen = solution.every if recipe.method in UNDIVIDED else solution.orthogonal

    def shows(change: Tensor) -> bool:
        shares = [_judge(log, with_weights(batch, w + sign * change), recipe.method, live)[0] for sign in (1, -1)]
        return max(shares) < found.share

    unknown = set(recipe.unknown)
    known = [k for k in range(len(w)) if k not in unknown]
    # Where the scale is divided away, one weight is what the others are held against.
    fixed = set[int]() if recipe.method in UNDIVIDED else {max(known, key=lambda k: abs(w[k] * solution.size[k]))}
    for k in set(known) - fixed:
        others = [i for i in range(len(w)) if i not in (k, *fixed)]
        change = torch.zeros_like(w)
        change[k] = _SHOWN * (w[k].abs() or w.abs().max())
        alone = change.clone()
        # The other weights change such that the sums change least.
        change[others] = -torch.linalg.pinv(seen[others][:, others]) @ seen[others, k] * change[k]
        if not (shows(alone) and shows(change)):
            unknown.add(k)
    up_to_scale = recipe.up_to_scale or not shows(_SHOWN * w)
    return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=up_to_scale)


def _agree(log: Tensors, found: Attempt, framework: str, given: tuple[float, ...] | None) -> Recipe:
    """The simplest recipe that makes these advantages, with unknown what the others that make them say otherwise."""
    recipe, count = found.recipe, len(found.recipe.weights)
    if recipe.weights == given or recipe.scaled or len(recipe.unknown) == count:
        return recipe
    part = _reproduced_part(log, recipe)
    rounded_log, single = bool(log.grid or log.rewards_grid), sum(map(bool, recipe.known)) == 1
    if rounded_log and found.share < 1:
        recipe = replace(recipe, up_to_scale=True)
        found = replace(found, recipe=recipe)
    readings = [found]
    for attempt in _attempts(part, framework, given, {}, by_chance=True, methods=_alike(part, recipe.method)):
        other = attempt.recipe
        same = (other.method, other.convention) == (recipe.method, recipe.convention)
        if (
            not same
            and attempt.share >= (_ROUNDED if rounded_log else 1)
            and _usual(other)
            and _as_good(log, attempt, found)
        ):
            readings.append(attempt)
    best = found if rounded_log else min(readings, key=_claims)
    recipe = replace(best.recipe, unknown=recipe.unknown if best is found else best.recipe.unknown)
    # Numbers that are as round by chance, of a single weight or of rounded advantages, say little.
    anything = rounded_log or best.complexity >= FITTED or (single and best.complexity > _ONE_DIGIT)
    most = torch.inf if anything else max(best.complexity, 1) + 1 + count
    for other in (attempt.recipe for attempt in readings if attempt is not best and _claims(attempt) <= most):
        recipe = _less_certain(recipe, other)
    return recipe


def _alike(log: Tensors, method: str) -> tuple[str, ...]:
    """The methods that may make the advantages of this one; all, where few groups tell them apart."""
    batch = log.read(PAPER)
    lowest, below = (batch.group.lowest(x.nan_to_num(nan=torch.inf)) for x in (batch.rewards, -batch.rewards))
    if ((-below > lowest).flatten(1).sum(0) > 1).sum() < _MIXED:
        return tuple(NAMES)
    return tuple(m for m in NAMES if method_named(m).decoupled == method_named(method).decoupled)


def _reproduced_part(log: Tensors, recipe: Recipe) -> Tensors:
    """The first batches that the recipe reproduces, with about so many responses as show the other readings."""
    comparison, index = compare(log, recipe), log.batch_of_response
    wrong = torch.zeros(log.batches).index_add_(0, index, (comparison.error > comparison.allowed).float())
    size = index.bincount(minlength=log.batches)
    good = (wrong == 0) | bool(log.grid or log.rewards_grid)  # weights fitted to rounded numbers miss some
    return log.of_batches(good & ((size * good).cumsum(0) - size < _ENOUGH))


def _as_good(log: Tensors, other: Attempt, found: Attempt) -> bool:
    """Whether another recipe reproduces the whole log about as well."""
    batch = log.read(ALL_CONVENTIONS[other.recipe.convention], other.recipe.weights)
    live = terms_of(log, batch, other.recipe.method).live_batches(log.batches)
    share, error = _judge(log, batch, other.recipe.method, live)
    return share >= (_ROUNDED if log.grid or log.rewards_grid else 0.98) * found.share and error <= max(
        2 * _EXACT, 3 * found.error
    )


def _usual(recipe: Recipe) -> bool:
    """Whether someone may have chosen weights of this size."""
    known = [abs(w) for w in recipe.known if w]
    return recipe.up_to_scale or not known or (min(known) < _USUAL[1] and max(known) >= _USUAL[0])


def _less_certain(recipe: Recipe, other: Recipe) -> Recipe:
    """The recipe without what the other one says otherwise."""
    unknown = {*recipe.unknown, *other.unknown}
    known = [k for k in range(len(recipe.weights)) if k not in unknown]
    if not known:
        return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=True)
    w, v = (torch.tensor([r.weights[k] for k in known], dtype=torch.float64) for r in (recipe, other))
    surest = w.abs().argmax()
    scale = (v[surest] / w[surest]).item() if w[surest] else 1.0
    apart = (v - scale * w).abs() > _APART * (scale * w).abs()
    unknown |= {k for k, differs in zip(known, apart.tolist(), strict=True) if differs}
    up_to_scale = recipe.up_to_scale or other.up_to_scale or abs(scale - 1) > _APART
    return replace(recipe, unknown=tuple(sorted(unknown)), up_to_scale=up_to_scale)
