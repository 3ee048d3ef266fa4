"""Intervals of Student's t: how far the mean of a few numbers may be off."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; for more, the last one is a little wide.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
CONFIDENCE = 0.95  # the confidence level of the intervals
_FEWEST, _FEWEST_RUNS = 3, 2  # the fewest steps, and the fewest runs, of which an interval is given


def half_width(series: Sequence[Array], runs: bool = False) -> float | None:
    """Return half the width of the 95 % interval of a sum or difference of the means of independent series.

    The quantile is Student's t. For several series it has the degrees of freedom of Welch. The result is None where a
    series has fewer than 3 steps or 2 runs. It is 0 where no number of any series varies, and otherwise None where a
    series counts as fewer than 2 numbers.

    series: the numbers of each series, whose means are added or subtracted; a single series gives the interval of its
        mean.
    runs: whether the numbers of a series come from independent runs. Otherwise they come from successive steps, and n
        of them count as n (1 − ρ) / (1 + ρ). Here ρ is their lag-1 autocorrelation, or 0 where it is negative.

    >>> round(half_width([np.array([1.0, -1.0, 1.0, -1.0])]), 3)
    1.837
    """
    if min(map(len, series)) < (_FEWEST_RUNS if runs else _FEWEST):
        return None
    resemblances = [0.0 if runs else _autocorrelation(x) for x in series]
    counts = np.array([len(x) * (1 - r) / (1 + r) for x, r in zip(series, resemblances, strict=True)])
    variances = np.array([x.var(ddof=1) for x in series]) / counts
    if not variances.any():
        return 0.0
    if counts.min() < 2:
        return None
    freedom = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()
    return float(np.interp(freedom, np.arange(1, len(_T) + 1), _T) * np.sqrt(variances.sum()))


def _autocorrelation(x: Array) -> float:
    """Return the lag-1 autocorrelation of a series; 0 where that is negative or where no number varies."""
    d = x - x.mean()
    squares = float(d @ d)
    return max(0.0, float(d[1:] @ d[:-1]) / squares) if squares else 0.0
