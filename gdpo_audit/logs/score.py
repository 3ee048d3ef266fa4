"""A total beside the rewards that it is made of: whether it is a weighted sum of them, and with which weights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

_ROUND_OFF = 1e-6  # relative, of a total that was added up and logged in float32
_RANK = 1e-9
_DIGITS = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class Score:
    """How a score comes from rewards: score = Σ weight · reward + a constant."""

    exact: bool
    weights: Mapping[str, float] | None  # per reward that varies; None: not exact, or other weights fit too
    error: float  # the largest difference
    parts: int  # how many independent rewards it is made of
    spare: int  # different rows beyond those that any column would fit
    explained: float  # the part of its variance that the rewards explain


def weights_of(
    table: pl.DataFrame, rewards: Collection[str], flags: Collection[str] = (), score: str = "score"
) -> Score | None:
    """The weights with which the rewards make the column `score`; None if too few rows hold them all, or none varies.

    flags: rewards of true and false; one that the other rewards determine gets weight 0.

    >>> table = pl.DataFrame({"score": [1.5, 0.0, 1.0, 0.5], "right": [1, 0, 1, 0], "format": [1, 0, 0, 1]})
    >>> weights_of(table, ["right", "format"]).weights
    {'right': 1.0, 'format': 0.5}
    """
    columns = table.select(pl.col(score, *rewards).cast(pl.Float64).fill_nan(None))
    whole = columns.drop_nulls()
    if len(whole) < len(rewards) + 2:  # as where each task has rewards of its own; a sum leaves missing ones out
        whole = columns.with_columns(pl.col(*rewards).fill_null(0.0)).drop_nulls()
    columns = whole.filter(pl.all_horizontal(pl.all().is_finite()))
    total = columns[score].to_numpy()
    order = sorted(rewards, key=lambda name: name in flags)
    values = {name: columns[name].to_numpy() for name in order}
    values = {name: x for name, x in values.items() if len(x) and np.ptp(x) > 0}
    if len(total) < len(values) + 2 or not values or np.ptp(total) == 0:
        return None
    independent, dependent = _independent(values)
    x = np.stack([values[name] for name in independent], 1)  # (responses, rewards)
    mean, std = x.mean(0), x.std(0)
    w = np.linalg.lstsq((x - mean) / std, total - total.mean(), rcond=None)[0] / std
    rest = total - x @ w
    error, explained = float(np.ptp(rest) / 2), 1 - float(rest.var() / total.var())
    allowed = _ROUND_OFF * max(np.abs(total).max(), np.abs(x * w).max())
    counts = np.abs(w) * np.ptp(x, 0) > allowed
    spare = len(np.unique(x, axis=0)) - len(independent) - int(abs(rest.mean()) > allowed)
    found = Score(error <= allowed, None, error, int(counts.sum()), spare, explained)
    if not found.exact or any(name not in flags for name in dependent):
        return found
    w[~counts] = 0
    rounded = ([float(f"{one:.{digits}g}") for one in w] for digits in _DIGITS)
    w = next((r for r in rounded if _error(x, total, np.array(r)) <= allowed), w.tolist())
    by_name = dict(zip(independent, w, strict=True)) | dict.fromkeys(dependent, 0.0)
    return replace(found, weights={name: by_name[name] for name in rewards if name in by_name})


def _independent(values: Mapping[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """The columns that are linearly independent of earlier ones and a constant, and the others."""
    independent: list[str] = []
    dependent: list[str] = []
    basis: list[np.ndarray] = []
    for name, x in values.items():
        rest = x - x.mean()
        size = np.linalg.norm(rest)
        for _ in range(2):  # once leaves round-off
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
    """Half the range of the differences: the constant is free."""
    return float(np.ptp(score - x @ w) / 2)
