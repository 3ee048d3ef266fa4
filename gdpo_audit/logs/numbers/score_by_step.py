"""Totals whose weights change from step to step: the weighted sum that a total is inside each step."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gdpo_audit.logs.names import STEP_OF_ROW
from gdpo_audit.logs.numbers.weighted_sums import RANGE, independent_of, sum_of_others

_ROUND_OFF = 1e-6  # the relative round-off of a total that was added up and logged in float32
_SPARE = 20  # how many more equations than unknowns all steps together must have, so that the sums are no chance
_NEARLY_ALL = 0.95  # the share of the steps with enough rows in which the total has to be a sum
_DECIMALS = (2, 3, 4, 5)  # the numbers of decimals to which a total may be rounded
_DIGITS = (1, 2, 3, 4, 5, 6, 8)  # the numbers of digits to which weights are rounded, until one fits
_STEPS = 3  # the fewest steps that show weights; those of two may be chance
_ROWS = 8  # the fewest rows of a step, on average, where it is open which column numbers the steps
_NAMED_BY = 0.9  # the share of the steps in which the numbers alone have to show which column is the total
_APART = 20  # how many times the allowed error one sum over all steps must miss the total by, so that weights change


@dataclass(frozen=True)
class StepWeights:
    """The weights with which rewards make a total in each step.

    by_step: the weights by the number of the step; None for a reward that is constant in the step, so that its weight
        does not show there.
    """

    by_step: Mapping[float, tuple[float | None, ...]]

    @property
    def filled(self) -> dict[float, tuple[float, ...]]:
        """The weights by step; where a weight does not show, it is that of the step before, or of the next one."""
        steps = sorted(self.by_step)
        table = np.array([[np.nan if w is None else w for w in self.by_step[step]] for step in steps])
        frame = pl.DataFrame(table).fill_nan(None)
        rows = frame.select(pl.all().forward_fill().backward_fill().fill_null(0.0)).rows()
        return dict(zip(steps, rows, strict=True))

    def counted(self) -> list[bool]:
        """Return for each reward whether it has a weight other than 0 in some step."""
        return [any(weights) for weights in zip(*self.by_step.values(), strict=True)]


def weights_by_step(table: pl.DataFrame, rewards: Sequence[str], score: str) -> StepWeights | None:
    """Return the weights with which the rewards make `score` in each step, if they change from step to step.

    None if the total is a weighted sum with one set of weights throughout, if it is no weighted sum in nearly all
    steps, or if too few rows show it. Steps that have too few rows to show weights do not count.

    table: rows with these columns, and with the number of the step of each row in STEP_OF_ROW.
    rewards: the columns of the rewards.
    score: the column of the total.

    >>> a, step = np.arange(60) % 11, np.arange(60) // 20
    >>> table = pl.DataFrame({"a": a, "b": a % 4, "total": a + step * (a % 4), STEP_OF_ROW: step})
    >>> weights_by_step(table, ["a", "b"], "total").by_step
    {0: (1.0, 0.0), 1: (1.0, 1.0), 2: (1.0, 2.0)}
    """
    if STEP_OF_ROW not in table.columns or not rewards:
        return None
    numbers = pl.col(*rewards, score).cast(pl.Float64).fill_nan(None)
    rows = (
        table.select(STEP_OF_ROW, numbers).drop_nulls().filter(pl.all_horizontal(pl.col(*rewards, score).is_finite()))
    )
    if rows[STEP_OF_ROW].n_unique() < _STEPS:
        return None
    total, x = rows[score].to_numpy(), rows.select(rewards).to_numpy()
    largest = np.abs(np.column_stack([x, total])).max(0)
    if not ((largest == 0) | (largest >= RANGE[0]) & (largest <= RANGE[1])).all():
        return None
    allowed = _allowed(total)
    step, at = np.unique(rows[STEP_OF_ROW].to_numpy(), return_inverse=True)
    order = np.argsort(at, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(at))[:-1])
    fits = {number: _fit(x[part], total[part], allowed) for number, part in zip(step.tolist(), parts, strict=True)}
    told = {number: fit for number, fit in fits.items() if fit is not None}
    exact = {number: fit.weights for number, fit in told.items() if fit.exact}
    enough = sum(fit.spare for fit in told.values() if fit.exact) >= _SPARE
    if len(exact) < max(_STEPS, _NEARLY_ALL * len(told)) or not enough or _one_sum(x, total, allowed):
        return None
    return StepWeights(exact)


def total_by_steps(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    """Return the column that in nearly every step is a sum of all the others with positive weights; None if there is
    none.

    table: rows with these columns, and with the number of the step of each row in STEP_OF_ROW.
    names: the columns.
    """
    if STEP_OF_ROW not in table.columns:
        return None
    steps = table.partition_by(STEP_OF_ROW, maintain_order=True)[:_SPARE]
    odd = [name for step in steps if (name := sum_of_others(step, names, len(names) + _ROWS, False)) is not None]
    [most] = pl.Series(odd, dtype=pl.String).mode().head(1).to_list() or [None]
    return most if len(odd) >= _STEPS and odd.count(most) >= _NAMED_BY * len(steps) else None


def possible_steps(table: pl.DataFrame, names: Sequence[str]) -> list[tuple[str | None, pl.DataFrame]]:
    """Return the table with the steps that it has, or, if it has hardly any, with each column that may number steps in
    their place. Each table comes with the name of that column, None for the steps that it has.

    A column of whole numbers may number steps if there are at least `_ROWS` rows to each of its values.

    table: rows with the number of the step of each row in STEP_OF_ROW.
    names: the columns to look at.
    """
    if STEP_OF_ROW not in table.columns or table[STEP_OF_ROW].n_unique() >= _STEPS:
        return [(None, table)]
    ways = list[tuple[str | None, pl.DataFrame]]()
    for name in names:
        values = table[name]
        whole = not values.null_count() and bool((values.is_finite() & (values == values.floor())).all())
        if whole and _STEPS <= values.n_unique() <= len(table) / _ROWS:
            ways.append((name, table.with_columns(values.alias(STEP_OF_ROW))))
    return ways


@dataclass(frozen=True)
class _Fit:
    """The weighted sum that comes nearest to a total in one step: its weights, whether it is the total, and how many
    more distinct rows there are than unknowns.
    """

    weights: tuple[float | None, ...]
    exact: bool
    spare: int


def _fit(x: np.ndarray, total: np.ndarray, allowed: float) -> _Fit | None:
    """Return the weighted sum, plus a constant, that comes nearest to the total; None if the rows are too few.

    x: (responses, rewards) the rewards.
    total: (responses,) the total.
    allowed: how far the sum may be from it.
    """
    varies = [k for k in range(x.shape[1]) if np.ptp(x[:, k]) > 0]
    columns = {f"{k}": x[:, k] for k in varies}
    alone = [int(k) for k in independent_of(columns)[0]] if columns else []
    spare = len(np.unique(x[:, varies], axis=0)) - len(alone) - 1
    if spare < 1 or not alone:
        return None
    if len(alone) < len(varies):  # the weights of these are open, so nothing can be said of the step
        return None
    size = x[:, alone].std(0)
    centred = (x[:, alone] - x[:, alone].mean(0)) / size
    w = np.linalg.lstsq(centred, total - total.mean(), rcond=None)[0] / size
    exact = _off(x[:, alone], total, w) <= allowed
    w[np.abs(w) * np.ptp(x[:, alone], 0) <= 4 * allowed] = 0
    rounded = (np.array([float(f"{weight:.{digits}g}") for weight in w]) for digits in _DIGITS)
    w = next((r for r in rounded if _off(x[:, alone], total, r) <= allowed), w)
    weights = dict(zip(alone, w.tolist(), strict=True))
    return _Fit(tuple(weights.get(k) for k in range(x.shape[1])), exact, spare)


def _off(x: np.ndarray, total: np.ndarray, w: np.ndarray) -> float:
    """Return the largest distance of the total from the weighted sum plus the best constant."""
    return float(np.ptp(total - x @ w) / 2)


def _one_sum(x: np.ndarray, total: np.ndarray, allowed: float) -> bool:
    """Return whether one weighted sum, plus a constant, makes the total in all steps.

    Rewards and total as in `_fit`.
    """
    with_one = np.column_stack([x, np.ones(len(x))])
    w = np.linalg.lstsq(with_one, total, rcond=None)[0]
    return bool(np.abs(total - with_one @ w).max() <= _APART * allowed)


def _allowed(total: np.ndarray) -> float:
    """Return how far a sum may be from a total: by round-off, or by the rounding of a total with few decimals.

    The sum that is fitted to rounded numbers may miss one of them by more than half of the last decimal.
    """
    round_off = _ROUND_OFF * max(float(np.abs(total).max()), 1e-300)
    coarse = next((d for d in _DECIMALS if np.abs(total - total.round(d)).max() <= 1e-9), None)
    many = len(np.unique(total)) > _SPARE
    return max(round_off, 10.0**-coarse) if coarse is not None and many else round_off


def without_weightless(rewards: Collection[str], weights: StepWeights) -> list[str]:
    """Return the rewards that have a weight other than 0 in some step.

    rewards: the rewards that `weights` was fitted for, in this order.
    """
    return [name for name, counts in zip(rewards, weights.counted(), strict=True) if counts]
