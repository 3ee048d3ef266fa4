"""The numbers that people write into a configuration: few digits, or a simple fraction."""

import math

import torch
from torch import Tensor

from gdpo_core.reproduce.weights import Space

_DENOMINATORS = (3, 6, 7, 9, 11, 12)
# How odd numbers are that nobody would choose, and how odd it makes them to be larger than this.
ODD, _LARGE, _TOO_LARGE = 1000, 50, 100
# A factor that is less sure than this, relatively, is not told.
UNSURE = 0.05


def simplest(x: float, tolerance: float) -> tuple[float, int] | None:
    """The simplest number within a relative tolerance of x, and how odd it is: 0 for 1, else mostly its digits.

    >>> simplest(0.2500001, 1e-5), simplest(0.333334, 1e-5), simplest(0.1234567, 1e-5)
    ((0.25, 2), (0.3333333333333333, 2), None)
    """
    if x == 0:
        return 0.0, 0
    sign, size = math.copysign(1, x), abs(x)
    found = [(odd, abs(number - size), number) for number, odd in _near(size, tolerance)]
    if not found:
        return None
    odd, _, number = min(found)
    return sign * number, odd


def near(x: float, tolerance: float) -> list[float]:
    """All numbers with few digits and simple fractions within a relative tolerance of x, simplest first.

    >>> near(1.01, 0.05)[:3]
    [1.0, 1.01, 1.02]
    """
    sign, size = math.copysign(1, x), abs(x)
    found = sorted((odd, abs(number - size), number) for number, odd in _near(size, tolerance))
    return list(dict.fromkeys(sign * number for _, _, number in found))


def _near(size: float, tolerance: float):
    """Numbers near a positive one and how odd each is."""
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
    """To six digits: the log tells no more."""
    nothing = 1e-9 * weights.abs().max().item()
    return tuple(0.0 if abs(w) <= nothing else float(f"{w:.6g}") for w in weights.tolist())


def likely(
    seen: Space, wanted: tuple[float, ...], factor: float | None, unsure: float, bounded: bool
) -> list[tuple[tuple[float, ...], int]]:
    """Weights along the direction, the likeliest first, and how odd they are.

    wanted: for what the log cannot tell. factor: of the direction, whose largest number is 1, and how unsure it is,
    relatively; None: any will do. bounded: any that is large enough.
    """
    rest = seen.free @ (seen.free.T @ torch.tensor(wanted, dtype=torch.float64))
    near_factor = [] if factor is None else [(factor, (3 * min(unsure, UNSURE) + 1e-3) / by) for by in (1, 3, 10)]
    if unsure <= UNSURE:
        tries = near_factor
    else:
        tries = [(1.0, None), *near_factor, *((f, None) for f in (10.0, 100.0, 1000.0) if bounded)]
    found = {}
    for f, window in tries:
        for exact in (1e-5, 1e-3, 2e-2):
            snapped = _snapped(seen, rest, f, window, exact)
            if snapped is not None:
                found.setdefault(*snapped)
    for f, _ in tries:
        found.setdefault(rounded(f * seen.direction + rest), ODD)
    return list(found.items())


def _snapped(seen: Space, rest: Tensor, factor: float, window: float | None, exact: float):
    """The simplest weights and how odd they are: the direction times about the factor.

    window: by how much the factor may differ, relatively; None: it may be any, but is kept if that gives simple ones.
    exact: by how much what a reward adds may differ, beside what the one that adds most does.
    """
    direction = seen.direction.tolist()
    part = (seen.direction * seen.scale).abs()
    part = (part / part.max()).tolist()
    told = [k for k, coupled in enumerate((seen.free.abs().sum(1) > 1e-6).tolist()) if not coupled]
    found = []
    for k in told:
        if part[k] <= exact:
            continue
        if window is not None:
            anchors = near(factor * direction[k], window)
        elif abs(direction[k]) == 1:
            anchors = [factor * direction[k] * times for times in (1, *range(2, 13), 15, 20)]
        else:
            continue
        for anchor in anchors:
            times = anchor / direction[k]
            numbers = [
                (0.0, 0) if part[j] <= exact / 3 else simplest(times * direction[j], min(5e-3, exact / part[j]))
                for j in told
            ]
            if all(numbers):
                kept = window is None and times == factor
                odd = sum(number[1] for number in numbers)
                found.append((not kept, odd, abs(times - factor), times, [number[0] for number in numbers]))
    if told and not found:
        return None
    _, odd, _, times, numbers = min(found) if told else (False, 0, 0, factor, [])
    weights = (times * seen.direction + rest).tolist()
    nothing = 1e-9 * max(map(abs, weights))  # round-off of a sum that comes to 0
    weights = [0.0 if abs(w) <= nothing else (simplest(w, 1e-6) or (w,))[0] for w in weights]
    for k, number in zip(told, numbers, strict=True):
        weights[k] = number
    return tuple(weights), 1 + odd + _TOO_LARGE * (max(map(abs, weights)) > _LARGE)
