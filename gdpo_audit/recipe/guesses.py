"""Guesses at the weights for one method and convention: which weights to try, and whether someone may have chosen
them.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gdpo_audit.recipe.recipe import Tensors
from gdpo_audit.recipe.terms import Terms
from gdpo_audit.recipe.weights import Solution

# The largest standard errors: of a known weight, relative to it; of a weight of 0, relative to the largest weight; and
# of a known scale.
_KNOWN_WEIGHT, KNOWN_ZERO, KNOWN_SCALE = 3e-3, 1e-5, 0.05
# The complexity of weights that are not round numbers.
FITTED = 1000
# Where the scale is open, the largest weight is taken to be one of these numbers, the one that makes the other weights
# simplest.
_LARGEST = (1, *range(2, 13), 15, 20)
# A weight is changed by no more than this part of it to make it a round number.
COARSEST = 0.02
_DENOMINATORS = (3, 6, 7, 9, 11, 12)
_LEAST = 1e-290  # the smallest number that can be round
# A scale may be off by this part of it, in addition to its standard error.
_SCALE_OFF = 1e-3
# The smallest plausible ratio of two weights.
_FAR_APART = 1e-5
# The largest plausible eps, as a part of the std: nobody chooses weights so small that eps is more than a correction.
# With smaller weights one method can imitate another.
_EPS_AT_MOST = 0.25
# A log with more responses than this has more equations than weights, so that they need not be counted.
_MANY = 4096
# Weights that are this far apart, relatively, are different weights.
WEIGHTS_APART = 0.01

Weights = tuple[float, ...]
Guess = tuple[Weights, int]  # weights to try, and their complexity


def rms(x: Tensor) -> float:
    """Return the root mean square of the numbers x; 0 if there are none."""
    return x.square().mean().sqrt().item() if x.numel() else 0.0


# --- the weights to try ----------------------------------------------------------------------------------------------


def along_direction(
    solution: Solution, wanted: Tensor, factor: float | None = None, error: float = math.inf
) -> list[Guess]:
    """Return one or two guesses at weights that the log shows up to a common factor.

    A guess is a pair of the weights and their complexity, which is larger for odder numbers. The last guess has the
    weights that fit best. If round numbers were found near them, the guess with the simplest of these comes first.

    solution: has a single direction, (rewards,) numbers to which the weights are proportional.
    wanted: (rewards,) the weights to take where the log leaves them open.
    factor: the number that turns the direction into weights; None if the log does not show it.
    error: the relative error of the factor.
    """
    direction = solution.directions[:, 0]
    scales = [float(largest) for largest in _LARGEST]
    if factor is not None and error <= KNOWN_SCALE:
        strongest = direction[(direction * solution.size).abs().argmax()].item()
        scales = [number / strongest for _, number in simple_near(factor * strongest, 3 * error + _SCALE_OFF)]
    simple = [_simple(scale, solution, wanted) for scale in scales]
    simplest_ones = sorted((guess for guess in simple if guess is not None), key=lambda guess: guess[1])[:1]
    return [*simplest_ones, (round_weights(solution.completed((factor or 1.0) * direction, wanted)), FITTED)]


def shows_scale(guess: Guess, solution: Solution, measured: Tensor, error: float) -> bool:
    """Return whether the log shows the scale of a guess, and not only the ratios of its weights.

    It does if the guess agrees with `measured` at the surest weight. Besides, `error` has to be small, or several
    weights have to come out with a single digit each.

    guess: the weights, and their complexity.
    solution: the weights that the log shows, up to a common factor.
    measured: (rewards,) these weights on the absolute scale that the advantages show.
    error: the relative standard error of that scale.
    """
    weights, complexity = guess
    # Where the advantages show the scale only roughly, it is trusted if several weights all come out with a single
    # digit.
    settled = len(weights) - solution.null_space.shape[1]
    surest = int((measured * solution.size).abs().argmax())
    near = abs(weights[surest] / measured[surest].item() - 1) <= 3 * error + _SCALE_OFF
    return near and (3 * error <= WEIGHTS_APART or (complexity <= settled and settled > 1))


def open_weights(solution: Solution) -> list[int]:
    """Return the indices of the rewards whose weight the log leaves open.

    A weight is open if its standard error is too large for its size, unless the error is so small that the weight must
    be 0. Open, too, are the weights of `solution.open_rewards` and of rewards that never vary.
    """
    weights, error, size = solution.directions[:, 0], solution.error, solution.size
    # A reward of very small size can be invisible at any weight, so that a weight of 0 is not certain either.
    zero = (error * size <= KNOWN_ZERO * (weights * size).abs().max()) & (error <= _KNOWN_WEIGHT)
    known = (error <= _KNOWN_WEIGHT * weights.abs()) | zero
    return sorted({*solution.open_rewards, *(int(k) for k in (~known | (size == 0)).nonzero().flatten())})


def _simple(scale: float, solution: Solution, wanted: Tensor) -> Guess | None:
    """Return the simplest weights near those that a log shows, with their complexity; None if one of the weights is
    near no simple number.

    The log shows `scale` times the direction of the solution, with a standard error for each weight. A number is near
    within three standard errors, but not if it is off by more than 2 % of the weight. A weight within three standard
    errors of 0 becomes 0. Weights that the log leaves open stay about as they are in `wanted`.
    """
    weights = round_weights(solution.completed(scale * solution.directions[:, 0], wanted))
    numbers, complexity = list[float](), 1
    for k, (w, e) in enumerate(zip(weights, (3 * scale * solution.error).tolist(), strict=True)):
        if k in solution.open_rewards:
            near = [(0, number) for _, number in simple_near(w, 1e-6)] or [(0, w)]
        else:
            near = [(0, 0.0)] if abs(w) <= e else simple_near(w, min(COARSEST, e / abs(w) + 1e-5))
        if not near:
            return None
        numbers.append(near[0][1])
        complexity += near[0][0]
    return tuple(numbers), complexity


def simple_near(x: float, tolerance: float) -> list[tuple[int, float]]:
    """Return the simple numbers near x, the simplest first, each in a pair of its complexity and the number.

    Two kinds of numbers are tried: x rounded to one, two and three digits, and fractions. If x is below 100 in size,
    the fraction nearest to it is tried for each of the denominators in `_DENOMINATORS`. The numbers that lie within the
    relative tolerance of x are returned; [] if there are none, or if x is almost 0 or almost infinite.

    The complexity of 1 and −1 is 0. The complexity of another rounded number is how many digits it has. The complexity
    of a fraction is 2 if its denominator is 3, and else 4.

    >>> simple_near(0.2500001, 1e-5), simple_near(0.333334, 1e-5), simple_near(0.1234567, 1e-5), simple_near(1.01, 0.05)
    ([(2, 0.25)], [(2, 0.3333333333333333)], [], [(0, 1.0), (3, 1.01)])
    """
    if not _LEAST < abs(x) < 1 / _LEAST:
        return []
    numbers = {float(f"{x:.{digits - 1}e}"): digits for digits in (3, 2, 1)}
    for below in _DENOMINATORS if abs(x) < 100 else ():
        above = round(x * below)
        if math.gcd(above, below) == 1:
            numbers[above / below] = 2 if below == 3 else 4
    near = ((0 if abs(number) == 1 else digits, number) for number, digits in numbers.items())
    return sorted(pair for pair in near if abs(pair[1] - x) <= tolerance * abs(x))


def round_weights(weights: Tensor) -> tuple[float, ...]:
    """Return weights rounded to eight significant digits, with exact zeros in place of round-off. With fewer digits the
    advantages of large rewards would not be reproduced.
    """
    nothing = 1e-9 * weights.abs().max().item()  # round-off of a sum that is 0
    return tuple(0.0 if abs(w) <= nothing else float(f"{w:.8g}") for w in weights.tolist())


# --- which weights are plausible: chance, or another convention, can reproduce a log too ------------------------------


def is_plausible(guess: Guess, unknown: Sequence[int], terms: Terms, eps: float, equations: float) -> bool:
    """Return whether someone may have chosen the weights of a guess.

    Weights of complexity 0 always pass: weights that were asked for, and weights that are all 1. Other weights fail in
    these cases:
    - A known weight that is not 0 is far smaller than the largest weight.
    - The rewards almost cancel each other in the weighted sum, so that its std is about 0.
    - eps is more than `_EPS_AT_MOST` of the std of the weighted sum.
    - The weights were fitted, and the log has no more equations than are needed to fit them.

    guess: the weights, and their complexity.
    unknown: the indices of the weights that the log does not show.
    terms: the terms that the method multiplies by the weights and adds up.
    eps: the number that the convention adds to the std.
    equations: the number of independent equations that the log gives for the weights, less the number of unknowns.
    """
    weights, complexity = guess
    if complexity == 0:
        return True
    w, included = torch.tensor(weights, dtype=torch.float64), terms.included > 0
    known = [abs(x) for k, x in enumerate(weights) if x and k not in unknown]
    std, apart = rms((w @ terms.x)[included]), rms((w[:, None] * terms.x)[:, included])
    enough = complexity < FITTED or equations > 0
    near = min(known, default=math.inf) >= _FAR_APART * w.abs().max().item()
    return enough and near and std > max(_FAR_APART * apart, eps / _EPS_AT_MOST)  # else the rewards cancel each other


def degrees_of_freedom(log: Tensors, terms: Terms, solution: Solution) -> float:
    """Return how many independent equations a log gives for the weights, less the number of unknowns. For a large log
    they are not counted: infinity is returned.

    log: tells the group of each response.
    terms: the terms that a method multiplies by the weights and adds up on this log.
    solution: the weights that fit.
    """
    if terms.x.shape[1] > _MANY:
        return math.inf
    included, group = terms.included > 0, log.group_of_response
    different = terms.different(included, group) - len(group[included].unique())
    live = terms.unit[(terms.x != 0).any(0)].unique()
    return different - len(live) - (int((solution.size > 0).sum()) - 1)
