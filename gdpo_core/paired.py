"""Two methods on the same seeds: their paired difference with an interval, and whether a prediction of it held."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import pi, sqrt

import numpy as np

from gdpo_core._errors import InputError

SMALLEST = 0.01  # of a mean pass rate; a difference below it is none
LEVEL = 0.95
PREDICTIONS = ("faster", "slower", "no difference")


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences and the interval around it."""

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the whole interval is on one side of 0."""
        return self.low > 0 or self.high < 0


def paired_difference(first: Sequence[float], second: Sequence[float], level: float = LEVEL) -> Difference:
    """The mean of second − first, pair by pair, with Student's t interval; InputError below two pairs.

    >>> found = paired_difference([0.5, 0.6, 0.7], [0.6, 0.7, 0.9])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.133, -0.01, 0.277)
    """
    if len(first) != len(second) or len(first) < 2:
        raise InputError(f"pairs: expected at least two of both methods, got {len(first)} and {len(second)}")
    differences = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    mean, count = float(differences.mean()), len(differences)
    half = t_quantile((1 + level) / 2, count - 1) * float(differences.std(ddof=1)) / sqrt(count)
    return Difference(mean, mean - half, mean + half, count)


@cache
def t_quantile(share: float, freedom: int) -> float:
    """The value that this share of Student's t distribution lies below, for a share from 0.5.

    >>> round(t_quantile(0.975, 9), 3)
    2.262
    """
    # With t = √ν tan θ the density is cos θ to the power of ν − 1, which is bounded.
    angle = np.linspace(0, pi / 2, 20_001)
    height = np.cos(angle) ** (freedom - 1)
    below = np.concatenate([[0.0], ((height[1:] + height[:-1]) / 2).cumsum()])
    return sqrt(freedom) * float(np.tan(np.interp(2 * share - 1, below / below[-1], angle)))


def verdict(prediction: str, difference: Difference, smallest: float = SMALLEST) -> str:
    """Held, did not hold, or no difference seen, of a prediction among PREDICTIONS.

    >>> verdict("faster", Difference(0.05, 0.01, 0.09, 10)), verdict("no difference", Difference(0.05, 0.01, 0.09, 10))
    ('held', 'did not hold')
    """
    if prediction not in PREDICTIONS:
        raise InputError(f"prediction: expected one of {', '.join(PREDICTIONS)}, got {prediction!r}")
    if prediction == "no difference":
        if -smallest < difference.low and difference.high < smallest:
            return "held"
        return "did not hold" if difference.leaves_out_zero else "no difference seen"
    if not difference.leaves_out_zero:
        return "no difference seen"
    return "held" if (difference.mean > 0) == (prediction == "faster") else "did not hold"


def by_chance(comparisons: int, level: float = LEVEL) -> float:
    """How many of so many comparisons leave out 0 by chance alone, on average.

    >>> round(by_chance(15), 2)
    0.75
    """
    return (1 - level) * comparisons
