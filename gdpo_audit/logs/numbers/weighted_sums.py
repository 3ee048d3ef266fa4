"""Totals beside the rewards that they are made of: whether one is a weighted sum of them, and with which weights."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gdpo_audit.logs.names import GROUP_OF_ROW

_ROUND_OFF = 1e-6  # the relative round-off of a total that was added up and logged in float32
# How many more equations than unknowns there must be before a total is said to be a sum inside each group.
_SPARE = 20
_SHOWING = 200  # the most groups that are solved one by one
_NOTHING = 3.0  # the standard errors up to which a fitted weight is taken to be 0
_RANK = 1e-9  # the share of a column's size up to which what others leave of it is round-off
RANGE = (1e-100, 1e100)  # the sizes of numbers whose squares, and products of squares and counts, are numbers too
_DIGITS = (1, 2, 3, 4, 5, 6, 8)  # the numbers of digits to which weights are rounded, until one fits
FEWEST_ROWS = 30  # the fewest rows that show a total which is not named like one
# The share of a variance that float32's round-off makes, and the size of a weight, relative to the largest, that is 0.
_SINGULAR, _FAINT = 1e-11, 1e-6


@dataclass(frozen=True)
class Score:
    """A total as a weighted sum of rewards: total = Σ weight · reward + a constant, exactly or as nearly as can be.

    It also counts as exact if each group has another constant, and another positive factor for the whole sum.
    """

    exact: bool
    weights: Mapping[str, float] | None  # of each reward that varies; None if not exact, or if other weights fit too
    error: float  # the largest difference of the total from the sum and its constant; 0 if exact inside groups
    counted: int  # the number of independent rewards whose weight is not 0
    spare: int  # how many more distinct reward vectors there are than fitted numbers, which are weights and a constant
    explained: float  # the share of the total's variance that the rewards explain
    fitted: Mapping[str, float] | None = None  # the weights that come nearest; None where exact, or where several do


def weights_of(
    table: pl.DataFrame, rewards: Collection[str], flags: Collection[str] = (), score: str = "score"
) -> Score | None:
    """Fit `score` as a weighted sum of the rewards; return the fit, or None where nothing can be fitted.

    Nothing can be fitted where too few rows are complete, where no reward varies, or where `score` does not vary. Nor
    can it if the largest number of a column that varies is outside `RANGE`, so that an audit refuses it.

    The fit holds weights only if the sum is exact and no other weights make it. Weights have as few digits as still
    make the total. Rewards that do not vary have none.

    With groups, a sum also counts as exact if it makes the total inside each group, but for a positive factor and a
    constant. Factor and constant may differ from group to group. The weights then have six digits.

    table: rows with these columns, and perhaps with the group of each row in GROUP_OF_ROW.
    rewards: the columns of the rewards.
    flags: rewards of true and false. If other rewards determine one of them, its weight is 0.
    score: the column of the total.

    >>> table = pl.DataFrame({"score": [1.5, 0.0, 1.0, 0.5], "right": [1, 0, 1, 0], "format": [1, 0, 0, 1]})
    >>> weights_of(table, ["right", "format"]).weights
    {'right': 1.0, 'format': 0.5}
    """
    columns = _whole_rows(table, rewards, score)
    total = columns[score].to_numpy()
    order = sorted(rewards, key=lambda name: name in flags)
    values = {name: columns[name].to_numpy() for name in order}
    values = {name: x for name, x in values.items() if len(x) and x.min() < x.max()}
    if len(total) < len(values) + 2 or not values or total.min() == total.max():
        return None
    if not all(RANGE[0] <= np.abs(x).max() <= RANGE[1] for x in (total, *values.values())):
        return None
    independent, dependent = independent_of(values)
    x = np.stack([values[name] for name in independent], 1)  # (responses, rewards)
    mean, std = x.mean(0), x.std(0)
    w = np.linalg.lstsq((x - mean) / std, total - total.mean(), rcond=None)[0] / std
    rest = total - x @ w
    error, explained = float(np.ptp(rest) / 2), 1 - float(rest.var() / total.var())
    allowed = _ROUND_OFF * max(np.abs(total).max(), np.abs(x * w).max())
    counts = np.abs(w) * np.ptp(x, 0) > allowed
    spare = len(np.unique(x, axis=0)) - len(independent) - int(abs(rest.mean()) > allowed)
    fit = Score(error <= allowed, None, error, int(counts.sum()), spare, explained)
    if fit.exact:
        w[~counts] = 0
        rounded = ([float(f"{weight:.{digits}g}") for weight in w] for digits in _DIGITS)
        weights = next((r for r in rounded if _error(x, total, np.array(r)) <= allowed), w.tolist())
    elif (inside := _inside_groups(columns, independent, score)) is not None:
        weights, counted = inside, sum(map(bool, inside))
        fit = replace(fit, exact=True, error=0.0, counted=counted, spare=_SPARE, explained=1.0)
    else:
        return replace(fit, fitted=None if dependent else _fitted(x, rest, w, independent))
    if any(name not in flags for name in dependent):
        return fit
    by_name = dict(zip(independent, weights, strict=True)) | dict.fromkeys(dependent, 0.0)
    return replace(fit, weights={name: by_name[name] for name in rewards if name in by_name})


def _whole_rows(table: pl.DataFrame, rewards: Collection[str], score: str) -> pl.DataFrame:
    """Return the rows that hold the total and all rewards, as finite numbers; NaN is missing.

    If fewer than len(rewards) + 2 rows are complete, a missing reward counts as 0, but a row without the total is still
    left out. An infinite number counts as present in this test, but its row is left out of the result.
    table: the rows; the group of each may stand in GROUP_OF_ROW, which then is in the result.
    rewards: the columns of the rewards.
    score: the column of the total.
    """
    numbers = pl.col(score, *rewards)
    columns = table.with_columns(numbers.cast(pl.Float64).fill_nan(None)).select(numbers, f"^{GROUP_OF_ROW}$")
    whole = columns.drop_nulls()
    if len(whole) < len(rewards) + 2:  # as in a log whose tasks have rewards of their own
        whole = columns.with_columns(pl.col(*rewards).fill_null(0.0)).drop_nulls()
    return whole.filter(pl.all_horizontal(numbers.is_finite()))


def _inside_groups(columns: pl.DataFrame, names: list[str], score: str) -> list[float] | None:
    """Return weights with which the weighted sum of the rewards is the total in every group, but for a constant and a
    factor.

    Each group may add another constant and multiply by another positive factor. This happens if every data source
    scales its scores by itself. None if no weights fit, if the rows are too few to show them, or if the log has no
    groups.
    columns: the rewards, the total and the group of each row.
    names: the rewards, in the order of the weights.
    score: the column of the total.
    """
    if GROUP_OF_ROW not in columns.columns:
        return None
    group = np.unique(columns[GROUP_OF_ROW].to_numpy(), return_inverse=True)[1]

    def centred(values: np.ndarray) -> np.ndarray:
        """Return the values, one per row, minus the mean of the row's group. `group` of the outer function tells the
        groups.
        """
        return values - (np.bincount(group, values) / np.bincount(group))[group]

    total, x = centred(columns[score].to_numpy()), np.stack([centred(columns[name].to_numpy()) for name in names], 1)
    allowed = _ROUND_OFF * max(np.abs(columns[score].to_numpy()).max(), 1e-300)
    equations = len(total) - group.max() - 1
    w = np.linalg.lstsq(x, total, rcond=None)[0]
    if equations - len(names) >= _SPARE and np.abs(total - x @ w).max() <= allowed and np.ptp(x, 0).all():
        return [float(f"{weight:.6g}") for weight in w]
    w = _common_direction(x, total, group)
    if w is None:
        return None
    made = x @ w
    along, square = np.bincount(group, made * total), np.bincount(group, made**2)
    slope = along / np.where(square == 0, 1, square)
    follows = np.abs(total - slope[group] * made).max() <= allowed and (slope[square > 0] > 0).all()
    enough = equations - (square > 0).sum() - len(names) >= _SPARE and square.any()
    return [float(f"{weight:.6g}") for weight in w] if follows and enough else None


def _common_direction(x: np.ndarray, total: np.ndarray, group: np.ndarray) -> np.ndarray | None:
    """Return (rewards,) weights with which the rewards make the total, up to a factor; None if no group shows weights.

    They are the median over the first groups that show weights by themselves, at most `_SHOWING` of them. In each group
    the weights are scaled so that the largest size is 1. A group shows weights if it has at least two more responses
    than there are rewards, and the rewards vary independently in it. A single reward has the weight 1.
    x: (responses, rewards) the rewards minus the mean of their group.
    total: (responses,) the total minus the mean of its group.
    group: (responses,) the number of the group.
    """
    if x.shape[1] == 1:
        return np.ones(1)
    order = np.argsort(group, kind="stable")
    directions = list[np.ndarray]()
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(rows) > x.shape[1] + 1 and np.linalg.matrix_rank(x[rows]) == x.shape[1] and len(directions) < _SHOWING:
            w = np.linalg.lstsq(x[rows], total[rows], rcond=None)[0]
            if np.abs(w).max() > 0:
                directions.append(w / np.abs(w).max())
    return np.median(directions, axis=0) if directions else None


def _fitted(x: np.ndarray, rest: np.ndarray, w: np.ndarray, names: list[str]) -> dict[str, float]:
    """Return the weights with which the sum of the rewards comes nearest to the total, by reward, with three digits.

    A weight that may differ from 0 by chance alone is replaced by 0.
    x: (responses, rewards) the rewards.
    rest: (responses,) the total minus the weighted sum.
    w: (rewards,) the fitted weights, neither replaced nor rounded.
    names: the rewards.
    """
    centred = x - x.mean(0)
    error = np.sqrt(rest.var() * np.diag(np.linalg.inv(centred.T @ centred)))
    kept = np.where(np.abs(w) <= _NOTHING * error, 0.0, w)
    return {name: float(f"{weight:.3g}") for name, weight in zip(names, kept, strict=True)}


def independent_of(values: Mapping[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """Return two lists of names: the independent columns, and the dependent ones.

    A column is dependent if it is a linear combination of a constant and earlier columns.
    values: the values of each column, by name; their order is the order of the columns.
    """
    independent: list[str] = []
    dependent: list[str] = []
    basis: list[np.ndarray] = []
    for name, x in values.items():
        rest = x - x.mean()
        size = np.linalg.norm(rest)
        for _ in range(2):  # a single pass leaves round-off
            for direction in basis:
                rest = rest - (direction @ rest) * direction
        length = np.linalg.norm(rest)
        if length <= _RANK * size:
            dependent.append(name)
        else:
            independent.append(name)
            basis.append(rest / length)
    return independent, dependent


def _error(x: np.ndarray, score: np.ndarray, w: np.ndarray) -> float:
    """Return the largest distance of the total from the weighted sum plus a constant.

    The constant is the one that makes this distance as small as possible.
    x: (responses, rewards) the rewards.
    score: (responses,) the total.
    w: (rewards,) the weights.
    """
    return float(np.ptp(score - x @ w) / 2)


def sum_of_others(
    table: pl.DataFrame, names: Sequence[str], rows: int = FEWEST_ROWS, spreads: bool = True
) -> str | None:
    """Return the name of the column that is a sum of all the others with positive weights, and a constant.

    None if there is none, or if several may be it. None also if a column does not vary, if there are fewer than three
    columns, or if fewer than `rows` rows hold finite numbers alone.
    table: the rows.
    names: the columns.
    rows: the fewest rows that show a sum.
    spreads: whether the sum has to spread more than each of the others.
    """
    values = table.select(names).to_numpy() if len(names) > 2 else np.empty((0, 0))
    values = values[np.isfinite(values).all(1)]
    if len(values) < rows or (values.min(0) == values.max(0)).any():
        return None
    # A scaled column has the same correlations, and the squares of large rewards would be infinite without the scale.
    values = values / np.exp2(np.floor(np.log2(np.abs(values).max(0))))  # a power of 2, so that no digit is lost
    size, vector = np.linalg.eigh(np.corrcoef(values.T))
    relation = vector[:, 0] / np.abs(vector[:, 0]).max()
    if size[0] > _SINGULAR or size[1] <= _SINGULAR or (np.abs(relation) < _FAINT).any():
        return None
    below = relation < 0
    alone = [k for k, less in enumerate(below) if less == (below.sum() == 1)]
    if len(alone) != 1:
        return None
    # By numbers alone, a = b + c may be b = a − c as well. A sum of independent rewards spreads more than each of them.
    most = bool((np.abs(relation[alone[0]]) >= np.abs(relation)).all())
    return names[alone[0]] if most or not spreads else None
