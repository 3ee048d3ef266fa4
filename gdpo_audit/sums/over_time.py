"""The table of a run with a row per batch or per few batches, the names of its columns, and functions that describe
how a column develops.
"""

from collections.abc import Collection, Sequence
from itertools import combinations
from math import nan, sqrt

import numpy as np
import polars as pl

from gdpo_audit.sums.relations import correlations
from gdpo_audit.sums.sums import Array, Basis, Sums, bin_batches, push_of
from gdpo_audit.thresholds import CHANGED, CHANGED_STEPS

Series = list[float | None]  # the numbers of one column, one for each row of the table

# What the numbers of a column are:
MEAN, STD = "mean", "std"  # the mean and the standard deviation of a reward
_MISSING = "missing"  # how many responses lack a reward
DEAD_SHARE = "dead"  # of the groups that hold a reward, the share in which it is constant
UPDATE_SHARE = "share"  # the share of the update that a reward makes under a method
PUSH = "push"  # the push on a reward under a method
TIED_SHARE = "ties"  # of the groups whose rewards differ, the share that holds a tie under a method
SILENT_SHARE = "silent"  # the share of the groups in which every advantage is 0 under a method
CORRELATION = "correlation"  # the correlation of two rewards inside groups


def column_name(what: str, *subjects: str) -> str:
    """Return the name of a column of the table.

    what: a word for its numbers, such as `UPDATE_SHARE`.
    subjects: the method, the reward or the two rewards that the numbers are about.

    >>> column_name(UPDATE_SHARE, "gdpo", "style")
    'share:gdpo:style'
    """
    return ":".join([what, *subjects])


def over_time(basis: Basis, batches: Sums[Array], untold: Collection[str] = ()) -> pl.DataFrame:
    """Return the run as a table of at most 200 rows: one per batch, or one per few batches where there are more.

    A number that is not known is null. The columns step and step_last hold the first and the last step of the row. The
    columns responses and groups hold how many the row has. The names of all other columns come from `column_name` and
    one of these constants:
    - MEAN, STD, _MISSING and DEAD_SHARE of each reward.
    - TIED_SHARE and SILENT_SHARE of each method, and UPDATE_SHARE and PUSH of each method and reward.
    - CORRELATION of each pair of rewards.

    basis: tells the names of the rewards.
    batches: the sums over each batch of the run.
    untold: the rewards whose share of the update the log does not tell, so that it is null.
    """
    b = bin_batches(batches)
    sums, numbered = b.rewards, list(enumerate(basis.rewards))
    columns = {"step": b.step, "step_last": b.step_last, "responses": b.responses, "groups": b.groups}
    for k, name in numbered:
        n, total = sums.present[k], sums.total[k]
        variance = _ratio(sums.scatter[k], n - 1)
        missing_groups = b.groups - sums.holding_groups[k]
        columns[column_name(MEAN, name)] = _ratio(total, n)
        columns[column_name(STD, name)] = np.sqrt(variance)
        columns[column_name(_MISSING, name)] = b.responses - n
        columns[column_name(DEAD_SHARE, name)] = _ratio(sums.dead_groups[k] - missing_groups, sums.holding_groups[k])
    for m, method in b.methods.items():
        shares = _ratio(method.update, method.squares)
        columns |= {
            column_name(UPDATE_SHARE, m, name): shares[k] * (nan if name in untold else 1) for k, name in numbered
        }
        pushes = push_of(method.pushed, method.distances, method.squares)
        columns |= {column_name(PUSH, m, name): pushes[k] for k, name in numbered}
        columns[column_name(TIED_SHARE, m)] = _ratio(method.tie_groups, method.mixed_groups)
        columns[column_name(SILENT_SHARE, m)] = _ratio(method.silent_groups, b.groups)
    for (i, first), (j, second) in combinations(numbered, 2):
        pair = sums.products[i, j], sums.squared[i, j], sums.squared[j, i]
        columns[column_name(CORRELATION, first, second)] = correlations(*pair)
    return pl.DataFrame(columns).fill_nan(None)


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Return one array divided by another; NaN where the divisor is not above 0."""
    return np.divide(numerator, denominator, out=np.full(numerator.shape, nan), where=denominator > 0)


# --- how a series goes ------------------------------------------------------------------------------------------------


def series_of(steps: pl.DataFrame, name: str) -> Series:
    """Return the column `name` of the table of steps as a list of numbers, with None for each row without a number."""
    return steps[name].cast(pl.Float64).fill_nan(None).to_list()


def present(series: Series) -> list[float]:
    """Return the numbers of a series, without the Nones of steps that have no number.

    >>> present([0.0, None, 2.0])
    [0.0, 2.0]
    """
    return [x for x in series if x is not None]


def noise_std(numbers: Sequence[float] | Array) -> float:
    """Return an estimate of the standard deviation of the noise in a series, from how neighbouring numbers differ; 0
    for fewer than two numbers.

    >>> noise_std([0.0, 1.0, 0.0]), noise_std([1.0])
    (0.7071067811865476, 0.0)
    """
    return sqrt(np.square(np.diff(numbers)).mean() / 2) if len(numbers) > 1 else 0.0


def changed_at(steps: Sequence[int], series: Series) -> int | None:
    """Return the step at which the mean of a series changes; None if the change may be noise, or if the series is too
    short.

    The returned step cuts the series in two, so that the mean before it and the mean from it on differ most. The
    difference is counted in its standard error. The noise is estimated from neighbouring steps.

    steps: the step of each number.
    series: the numbers; those that are None are left out.

    >>> changed_at(range(1, 9), [0.1, 0.0, 0.1, 0.0, 1.0, 1.1, 1.0, 1.1]), changed_at(range(8), [0.0, 1.0] * 4)
    (5, None)
    """
    known = [(step, x) for step, x in zip(steps, series, strict=False) if x is not None]
    if len(known) < 2 * CHANGED_STEPS:
        return None
    x = np.array([value for _, value in known])
    before = np.arange(CHANGED_STEPS, len(x) - CHANGED_STEPS + 1)
    after, total = len(x) - before, x.cumsum()
    means = total[before - 1] / before, (total[-1] - total[before - 1]) / after
    errors = abs(means[1] - means[0]) * np.sqrt(before * after / len(x))
    at = int(errors.argmax())
    return int(known[before[at]][0]) if errors[at] > CHANGED * noise_std(x) + 1e-9 * abs(x).max() else None


def sparkline(series: Series, between: tuple[float, float] | None = None) -> str:
    """Draw a series in at most ten block characters, each for one number or for the mean of a few; "" without numbers.
    Steps without a number are skipped.

    series: the numbers.
    between: the lowest and the highest number of the scale, by default the lowest and the highest that is drawn.
        Numbers beyond them are drawn at the ends of the scale.

    >>> sparkline([0.0, 1.0, 2.0, 3.0]), sparkline([5.0, 5.0]), sparkline([0.5, 1.2], between=(0, 1)), sparkline([])
    ('▁▃▆█', '▄▄', '▅█', '')
    """
    values = present(series)
    means = [piece.mean() for piece in np.array_split(values, min(10, len(values)))] if values else []
    low, high = between or (min(means, default=0.0), max(means, default=0.0))
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return "▄" * len(means)
    return "".join("▁▂▃▄▅▆▇█"[round(7 * min(max((mean - low) / (high - low), 0), 1))] for mean in means)
