"""Whether a logged total is a weighted sum of the rewards beside it, and with which weights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

# Relative round-off of a total that was added up and logged in float32.
ROUND_OFF = 1e-6
_RANK = 1e-9
_DIGITS = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class Score:
    """How a score comes from rewards: score = Σ weight · reward + a constant."""

    exact: bool
    weights: Mapping[str, float] | None  # per reward that varies; None: not exact, or other weights fit too
    error: float  # the largest difference


def weights_of(table: pl.DataFrame, rewards: Collection[str], flags: Collection[str] = ()) -> Score | None:
    """The weights with which the rewards make the column `score`; None if too few rows hold them all, or none varies.

    flags: rewards of true and false; one that the other rewards determine gets weight 0.

    >>> table = pl.DataFrame({"score": [1.5, 0.0, 1.0, 0.5], "right": [1, 0, 1, 0], "format": [1, 0, 0, 1]})
    >>> weights_of(table, ["right", "format"]).weights
    {'right': 1.0, 'format': 0.5}
    """
    columns = table.select(pl.col("score", *rewards).cast(pl.Float64))
    columns = columns.filter(pl.all_horizontal(pl.all().is_finite()))
    score = columns["score"].to_numpy()
    order = sorted(rewards, key=lambda name: name in flags)
    values = {name: columns[name].to_numpy() for name in order}
    values = {name: x for name, x in values.items() if len(x) and np.ptp(x) > 0}
    if len(score) < len(values) + 2 or not values or np.ptp(score) == 0:
        return None
    kept, twice = _independent(values)
    x = np.stack([values[name] for name in kept], 1)  # (responses, rewards)
    middle, size = x.mean(0), x.std(0)
    w = np.linalg.lstsq((x - middle) / size, score - score.mean(), rcond=None)[0] / size
    error = _error(x, score, w)
    may = ROUND_OFF * max(np.abs(score).max(), np.abs(x * w).max())
    if error > may:
        return Score(False, None, error)
    if any(name not in flags for name in twice):
        return Score(True, None, error)
    w[np.abs(w) * np.ptp(x, 0) <= may] = 0
    rounded = ([float(f"{one:.{digits}g}") for one in w] for digits in _DIGITS)
    w = next((r for r in rounded if _error(x, score, np.array(r)) <= may), w.tolist())
    found = dict(zip(kept, w, strict=True)) | dict.fromkeys(twice, 0.0)
    return Score(True, {name: found[name] for name in rewards if name in found}, error)


def _independent(values: Mapping[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """The columns that are linearly independent of earlier ones and a constant, and the others."""
    kept: list[str] = []
    twice: list[str] = []
    basis: list[np.ndarray] = []
    for name, x in values.items():
        rest = x - x.mean()
        size = np.linalg.norm(rest)
        for _ in range(2):  # once leaves round-off
            for direction in basis:
                rest = rest - (direction @ rest) * direction
        left = np.linalg.norm(rest)
        if left <= _RANK * size:
            twice.append(name)
        else:
            kept.append(name)
            basis.append(rest / left)
    return kept, twice


def _error(x: np.ndarray, score: np.ndarray, w: np.ndarray) -> float:
    off = score - x @ w
    return float(np.ptp(off) / 2)
