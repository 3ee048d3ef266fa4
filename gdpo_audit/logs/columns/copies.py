"""Number columns of a log that hold the same numbers as another one, up to a factor and a constant.

The log cannot part the weights of two such columns, but it shows the weights of all others. So one of the two is read
in the place of both where a name says which: a reward before a count, a part before a total.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from gdpo_audit.logs.forms.roles import REWARD_WORDS, role, total_rank, words_of
from gdpo_audit.logs.numbers.weighted_sums import RANGE

_EXACT = 1e-6  # the relative round-off of a column that was multiplied and logged in float32
_LEAST = 30  # the fewest rows in which two columns have to agree


@dataclass(frozen=True)
class Copy:
    """A column that is not read because another one holds the same numbers: left = factor × taken + constant."""

    taken: str
    left: str
    factor: float
    constant: float

    @property
    def same(self) -> bool:
        """Whether the two columns are equal."""
        return self.factor == 1 and self.constant == 0


def copies_among(rows: pl.DataFrame, names: Sequence[str], functions: bool) -> list[Copy]:
    """Return the columns that another one can stand for, each with this other one.

    A pair that no name decides is left out, unless the two columns are equal and no trainer says that both are rewards.
    So is a pair of which one is called weighted, because it tells a weight.
    rows: a sample of the rows.
    names: the columns that may be rewards.
    functions: whether a trainer writes a column for each reward function, so that both columns of a pair may count.
    """
    copies, gone = list[Copy](), set[str]()
    for first, second in _pairs(rows, names):
        if {first, second} & gone or any("weighted" in words_of(name) for name in (first, second)):
            continue
        taken, left = sorted((first, second), key=lambda name: (_doubt(name, functions), names.index(name)))
        copy = _copy(rows, taken, left)
        if copy is None or (_doubt(taken, functions) == _doubt(left, functions) and (functions or not copy.same)):
            continue
        gone.add(left)
        copies.append(copy)
    return [copy for copy in copies if copy.taken not in gone]


def _doubt(name: str, functions: bool) -> tuple[int, bool, bool]:
    """Return how doubtful it is by its name that a column is a reward of its own; the smallest is the surest.

    The first member is 0 for the name of a reward, 1 for one that may be a metric's, such as a count, and 2 for a
    metric's. The second says whether no word for rewards is in it, and the third whether it may be a total's.
    functions: whether a trainer writes a column for each reward function, so that any name may be a reward's.
    """
    says = functions or bool(REWARD_WORDS & {*words_of(name)})
    return ("reward", "either", "metric").index(role(name)), not says, total_rank(name) is not None


def _pairs(rows: pl.DataFrame, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of columns whose correlation over all rows is 1 or −1, but for round-off."""
    columns = {name: rows[name].to_numpy() for name in names}
    whole = [name for name, x in columns.items() if len(x) >= _LEAST and np.isfinite(x).all()]
    sizes = {name: np.abs(columns[name]).max() for name in whole}
    whole = [name for name in whole if RANGE[0] <= sizes[name] <= RANGE[1] and np.ptp(columns[name]) > 0]
    if len(whole) < 2:
        return
    correlation = np.abs(np.corrcoef([columns[name] / sizes[name] for name in whole]))
    for i, k in combinations(range(len(whole)), 2):
        if correlation[i, k] > 1 - 1e-9:
            yield whole[i], whole[k]


def _copy(rows: pl.DataFrame, taken: str, left: str) -> Copy | None:
    """Return the copy, if one column is a multiple of the other plus a constant in every row; else None.

    rows: a sample of the rows.
    taken: the column that is read.
    left: the column that it stands for.
    """
    x, y = rows[taken].to_numpy(), rows[left].to_numpy()
    centred = x - x.mean()
    factor = centred @ (y - y.mean()) / (centred @ centred)
    constant, largest = (y - factor * x).mean(), max(np.abs(y).max(), np.abs(factor * x).max())
    if np.abs(y - factor * x - constant).max() > _EXACT * largest:
        return None
    constant = 0.0 if abs(constant) <= _EXACT * largest else float(f"{constant:.6g}")
    return Copy(taken, left, float(f"{factor:.6g}"), constant)


def without(names: Collection[str], copies: Sequence[Copy]) -> list[str]:
    """Return the names without those of the copies."""
    left = {copy.left for copy in copies}
    return [name for name in names if name not in left]
