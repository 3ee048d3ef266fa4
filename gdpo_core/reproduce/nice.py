"""Rounds weights to numbers that people write into a configuration: few digits, or a simple fraction."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from gdpo_core.reproduce.weights import Space

_DENOMINATORS = (3, 6, 7, 9, 11, 12)
# Weights and how odd they are: a penalty that grows as they look less like numbers that someone chose.
Guess = tuple[tuple[float, ...], int]
# ODD: the penalty of numbers that nobody would choose. _TOO_LARGE: the penalty of a weight above _LARGE.
ODD, _LARGE, _TOO_LARGE = 1000, 50, 100
# The largest relative error of a factor that counts as known.
UNSURE = 0.05


def simplest(x: float, tolerance: float) -> tuple[float, int] | None:
    """The simplest number within a relative tolerance of x, and how odd it is: 0 for 1, else about its digits.

    >>> simplest(0.2500001, 1e-5), simplest(0.333334, 1e-5), simplest(0.1234567, 1e-5)
    ((0.25, 2), (0.3333333333333333, 2), None)
    """
    if x == 0:
        return 0.0, 0
    sign, size = math.copysign(1, x), abs(x)
    numbers = [(odd, abs(number - size), number) for number, odd in _near(size, tolerance)]
    if not numbers:
        return None
    odd, _, number = min(numbers)
    return sign * number, odd


def near(x: float, tolerance: float) -> list[float]:
    """All numbers with few digits and simple fractions within a relative tolerance of x, simplest first.

    >>> near(1.01, 0.05)[:3]
    [1.0, 1.01, 1.02]
    """
    sign, size = math.copysign(1, x), abs(x)
    numbers = sorted((odd, abs(number - size), number) for number, odd in _near(size, tolerance))
    return list(dict.fromkeys(sign * number for _, _, number in numbers))


def _near(size: float, tolerance: float) -> Iterator[tuple[float, int]]:
    """Simple numbers within a relative tolerance of a positive one, and how odd each is."""
    low, high = size * (1 - tolerance), size * (1 + tolerance)
    exponent = math.floor(math.log10(size))
    for digits in (1, 2, 3):
        unit = exponent - digits + 1
        for whole in range(math.ceil(low / 10.0**unit - 1e-9), math.floor(high / 10.0**unit + 1e-9) + 1):
            number = float(f"{whole}e{unit}")
            if whole and low <= number <= high:
                yield number, 0 if number == 1 else digits
    if size < 100:
        for below in _DENOMINATORS:
            for above in range(math.ceil(low * below), math.floor(high * below) + 1):
                if above and math.gcd(above, below) == 1:
                    yield above / below, 2 if below == 3 else 4


def rounded(weights: Tensor) -> tuple[float, ...]:
    """Weights with six digits, as many as a log can tell."""
    nothing = 1e-9 * weights.abs().max().item()
    return tuple(0.0 if abs(w) <= nothing else float(f"{w:.6g}") for w in weights.tolist())


def likely(
    seen: Space, direction: Tensor, wanted: tuple[float, ...], factor: float | None, unsure: float, bounded: bool
) -> list[Guess]:
    """Weights along the direction and how odd they are, the likeliest first.

    direction: (rewards,), its largest number is 1. wanted: values for the weights that the log cannot tell. factor: of
    the direction, None if any fits. unsure: the factor's relative error. bounded: whether only large factors fit.
    """
    rest = seen.free @ (seen.free.T @ torch.tensor(wanted, dtype=torch.float64))
    near_factor: list[tuple[float, float | None]] = []
    if factor is not None:
        near_factor = [(factor, (3 * min(unsure, UNSURE) + 1e-3) / by) for by in (1, 3, 10)]
    if unsure <= UNSURE:
        tries = near_factor
    else:
        tries = [(1.0, None), *near_factor, *((f, None) for f in (10.0, 100.0, 1000.0) if bounded)]
    guesses: dict[tuple[float, ...], int] = {}
    for f, window in tries:
        for exact in (1e-5, 1e-3, 2e-2):
            snapped = _snapped(seen, direction, rest, f, window, exact)
            if snapped is not None:
                guesses.setdefault(*snapped)
    for f, _ in tries:
        guesses.setdefault(rounded(f * direction + rest), ODD)
    return list(guesses.items())


def _snapped(
    seen: Space, direction: Tensor, rest: Tensor, factor: float, window: float | None, exact: float
) -> Guess | None:
    """The simplest weights near factor times direction, and how odd they are; None if there are none.

    rest: (rewards,) is added for what the log cannot tell. window: the largest relative change of the factor; None: any
    factor will do, but the given one is kept if it gives simple weights. exact: the largest change of a reward's part
    of the sum, relative to the largest part.
    """
    d = direction.tolist()
    parts = (direction * seen.scale).abs()
    part = (parts / parts.max()).tolist()
    determined = [k for k, coupled in enumerate((seen.free.abs().sum(1) > 1e-6).tolist()) if not coupled]
    found: list[tuple[bool, int, float, float, list[float]]] = []
    for k in determined:
        if part[k] <= exact:
            continue
        if window is not None:
            anchors = near(factor * d[k], window)
        elif abs(d[k]) == 1:
            anchors = [factor * d[k] * times for times in (1, *range(2, 13), 15, 20)]
        else:
            continue
        for anchor in anchors:
            times = anchor / d[k]
            tries = (
                (0.0, 0) if part[j] <= exact / 3 else simplest(times * d[j], min(5e-3, exact / part[j]))
                for j in determined
            )
            simple = [number for number in tries if number is not None]
            if len(simple) == len(determined):
                kept = window is None and times == factor
                odd = sum(odd for _, odd in simple)
                found.append((not kept, odd, abs(times - factor), times, [number for number, _ in simple]))
    if determined and not found:
        return None
    _, odd, _, times, numbers = min(found) if determined else (False, 0, 0.0, factor, [])
    weights = (times * direction + rest).tolist()
    nothing = 1e-9 * max(map(abs, weights))  # round-off of a sum that is 0
    weights = [0.0 if abs(w) <= nothing else (simplest(w, 1e-6) or (w,))[0] for w in weights]
    for k, number in zip(determined, numbers, strict=True):
        weights[k] = number
    return tuple(weights), 1 + odd + _TOO_LARGE * (max(map(abs, weights)) > _LARGE)
