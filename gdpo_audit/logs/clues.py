"""Ways to tell the groups of a log apart under which its advantages add up to 0 in each group.

Nearly every method centres the advantages of a group. So they judge which rows are one: a column, a pair of columns,
blocks of rows or places in a batch; and they show rows that repeat another one, and rows that a mask left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from gdpo_audit.logs.sizes import divisors
from gdpo_core._words import listing

ROWS = 20_000  # the most rows that are looked at
KEYS = 10  # the most columns that are tried as keys, and the most of these that are tried in pairs
PAIRED = 7
LEAST = 4  # the fewest groups with an advantage other than 0: in fewer they may add up by chance
NEARLY_ALL = 0.9  # the share of the groups, or of the batches, that counts as nearly all
ROUNDED = 6e-3  # The part of the sizes of a group's advantages by which bfloat16 may keep their sum from 0.
MOST = 0.9  # the largest share of the rows that a mask may leave out
TRIED = 6  # the most groupings that are worth solving for, the finest first


class Mask(NamedTuple):
    """Rows that a mask leaves out: those in which a column has this value; without a column, those of advantage 0.

    counts: whether these rows are in the statistics of their group all the same, so that only their advantage goes.
    """

    column: str | None
    value: float
    counts: bool


@dataclass(frozen=True)
class Grouping:
    """A way to tell the groups of a batch apart: columns that name them, or a number of rows."""

    columns: tuple[str, ...] = ()
    group_size: int | None = None  # the number of rows in a block
    places: int | None = None  # how far apart the rows of a group stand
    once: str | None = None  # a column: of the rows of a batch that share it the last alone counts

    @property
    def options(self) -> dict[str, object]:
        """The options of `ReadOptions` with which the log is read in these groups."""
        given = {"group": self.columns, "group_size": self.group_size, "places": self.places}
        named: dict[str, object] = {name: value for name, value in given.items() if value}
        if named:  # one way to tell groups apart takes the place of another
            named = {"group": None, "group_size": None, "places": None, "unkeyed": not self.columns} | named
        return named | {"once": self.once}


@dataclass(frozen=True)
class Clues:
    """Some rows of a log in the order of its steps: batch, advantage, and columns that may tell groups or masks."""

    batch: np.ndarray
    advantage: np.ndarray
    keys: dict[str, np.ndarray] = field(default_factory=dict)  # columns as numbers, equal where the values are equal
    flags: dict[str, np.ndarray] = field(default_factory=dict)  # columns of 0 and 1

    def taken(self, rows: np.ndarray) -> "Clues":
        """Return some of the rows, chosen by their numbers."""
        return Clues(
            self.batch[rows],
            self.advantage[rows],
            {name: key[rows] for name, key in self.keys.items()},
            {name: flag[rows] for name, flag in self.flags.items()},
        )


def groupings_of(clues: Clues) -> list[Grouping]:
    """Return the ways to tell groups apart that the advantages admit, the finest first; [] for none.

    Where none is found at first, rows that repeat the advantage of another row are left out.
    """
    admitted = [*_admitted(clues)]
    for once in _copied(clues) if not admitted else ():
        last = _last_of_each(clues.batch, clues.keys[once])
        admitted += [Grouping(g.columns, g.group_size, g.places, once) for g in _admitted(clues.taken(last))]
    return admitted[:TRIED]


def masks_of(clues: Clues) -> Iterator[tuple[str, float]]:
    """Yield the columns of 0 and 1 with the value that marks rows whose advantages are all 0, as a mask makes them."""
    for name, flag in clues.flags.items():
        for value in (0.0, 1.0):
            out = flag == value
            kept = clues.advantage[~out]
            if 0 < out.sum() <= MOST * len(out) and not clues.advantage[out].any() and (kept != 0).mean() > 0.5:
                yield name, value


def add_up(group: np.ndarray, advantage: np.ndarray) -> float:
    """Return the share of the groups with an advantage other than 0 in which they add up to 0; 0 where these are few.

    >>> add_up(np.repeat(np.arange(4), 2), np.array([1, -1, 2, -2, 3, -3, 1, 1.0]))
    0.75
    """
    sizes = np.bincount(group, np.abs(advantage))
    sums = np.abs(np.bincount(group, advantage))
    live = sizes > 0
    return float((sums[live] <= ROUNDED * sizes[live]).mean()) if live.sum() >= LEAST else 0.0


def _admitted(clues: Clues) -> Iterator[Grouping]:
    """Yield the groupings under which the advantages add up to 0 in nearly all groups, each partition once."""
    by_partition: dict[bytes, tuple[int, Grouping]] = {}
    batches = len(np.unique(clues.batch))
    for grouping, group in _partitions(clues):
        numbers = _numbered(clues.batch, group)
        groups = int(numbers.max()) + 1
        if batches < groups <= len(numbers) / 2 and add_up(numbers, clues.advantage) >= NEARLY_ALL:
            by_partition.setdefault(numbers.tobytes(), (groups, grouping))
    yield from (grouping for _, grouping in sorted(by_partition.values(), key=lambda pair: -pair[0]))


def _partitions(clues: Clues) -> Iterator[tuple[Grouping, np.ndarray]]:
    """Yield ways to tell groups apart, with a number for each row that is equal in one group of a batch."""
    for name, key in clues.keys.items():
        yield Grouping(columns=(name,)), key
    for first, second in combinations(islice(clues.keys, PAIRED), 2):
        pair = np.stack([clues.keys[first], clues.keys[second]], 1)
        yield Grouping(columns=(first, second)), np.unique(pair, axis=0, return_inverse=True)[1].ravel()
    starts = np.flatnonzero(np.append(True, clues.batch[1:] != clues.batch[:-1]))
    sizes = np.diff(np.append(starts, len(clues.batch)))
    place = np.arange(len(clues.batch)) - starts.repeat(sizes)
    whole = sizes[:-1] if len(sizes) > 1 else sizes  # the last batch may be cut
    for size in divisors(int(whole.max())):
        if (whole % size == 0).mean() >= NEARLY_ALL:
            yield Grouping(group_size=size), place // size
            yield Grouping(places=size), place % size


def _numbered(batch: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the groups of all batches numbered from 0, in the order of their first rows."""
    _, first, number = np.unique(np.stack([batch, group], 1), axis=0, return_index=True, return_inverse=True)
    return first.argsort().argsort()[number.ravel()]


def _copied(clues: Clues) -> Iterator[str]:
    """Yield the columns that mark copied rows: several rows of a batch share a value, and those have one advantage."""
    for name, key in clues.keys.items():
        number = _numbered(clues.batch, key)
        count, groups = np.bincount(number), int(number.max()) + 1
        high, low = np.full(groups, -np.inf), np.full(groups, np.inf)
        np.maximum.at(high, number, clues.advantage)
        np.minimum.at(low, number, clues.advantage)
        several = count > 1
        batches = len(np.unique(clues.batch))
        if several.sum() >= LEAST and (high == low).all() and high[several].any() and groups > batches:
            yield name


def _last_of_each(batch: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the numbers of the rows that are the last of their key in their batch, ascending."""
    number = _numbered(batch, key)
    last = np.zeros(int(number.max()) + 1, dtype=np.int64)
    np.maximum.at(last, number, np.arange(len(number)))
    return np.sort(last)


def in_words(grouping: Grouping) -> str:
    """Say how groups are told apart.

    >>> in_words(Grouping(columns=("prompt_id", "turn"))), in_words(Grouping(places=8))
    ('the columns prompt_id and turn', 'rows of a batch that stand 8 apart')
    """
    if grouping.columns:
        return f"the column{'s' * (len(grouping.columns) > 1)} {listing(grouping.columns)}"
    if grouping.group_size:
        return f"blocks of {grouping.group_size} rows"
    return f"rows of a batch that stand {grouping.places} apart"


def key_names(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Return at most `KEYS` columns to try as keys: those with usual names first, then those that are called like ids.

    >>> key_names(["note", "turn_id", "prompt"], ["prompt"])
    ['prompt', 'turn_id', 'note']
    """

    def rank(name: str) -> int:
        """Return where a column stands in the order of trials, 0 the first."""
        lower = name.lower()
        if lower in usual:
            return usual.index(lower)
        called = any(word in lower for word in ("id", "idx", "index", "key", "group", "prompt", "turn", "task", "seed"))
        return len(usual) + (not called)

    return sorted(names, key=rank)[:KEYS]
