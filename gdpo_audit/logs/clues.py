"""Ways to tell the groups of a log apart under which its advantages add up to 0 in each group.

Nearly every method subtracts a group's mean from its advantages. So the advantages show which rows are one group. These
may be the rows that share the value of one column, or the values of two columns. They may also be blocks of rows, or
rows a fixed number of places apart. The advantages also show which rows repeat another one, and which rows a mask left
out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from gdpo_audit.logs.sizes import divisors
from gdpo_core._words import listing

ROWS = 20_000  # the most rows that are looked at
KEYS, PAIRED = 10, 7  # the most columns that are tried as keys, and the most of these that are tried in pairs
LEAST = 4  # the fewest groups with an advantage other than 0; in fewer the advantages may add up to 0 by chance
NEARLY_ALL = 0.9  # the share of the groups, or of the batches, that counts as nearly all
ROUNDED = 6e-3  # how far bfloat16 may keep a group's sum of advantages from 0, as a share of the sum of their sizes
MOST = 0.9  # the largest share of the rows that a mask may leave out
FOLLOWS = 1e-4  # how far advantages may be from a weighted sum of rewards, relative to the largest of the group
FEWEST, SHOWING = 8, 200  # the fewest and the most groups in which advantages are compared with weighted sums
TRIED = 6  # the most groupings that are worth solving for, the finest first


class Mask(NamedTuple):
    """The rows that a mask leaves out: the rows in which `column` has the value `value`, or all rows of advantage 0.

    column: the name of the column; None if the rows of advantage 0 are meant.
    value: the value of the rows that are left out; it has no meaning if `column` is None.
    counts: whether the rows that are left out still count in the statistics of their group, so that only their
        advantage is left out.
    """

    column: str | None
    value: float
    counts: bool


@dataclass(frozen=True)
class Grouping:
    """A way to tell the groups of a batch apart: by columns, by blocks of rows, or by rows that are `places` apart.

    columns: the columns whose values together name a group.
    group_size: the number of rows in a block.
    places: the distance between neighbouring rows of a group.
    once: a column that marks copies. Of the rows of a batch with one value in it only the last one counts.
    follows: whether advantages tell these groups that follow the rewards in each of them, without adding up to 0.
    """

    columns: tuple[str, ...] = ()
    group_size: int | None = None
    places: int | None = None
    once: str | None = None
    follows: bool = False

    @property
    def options(self) -> dict[str, object]:
        """The options for reading the log in these groups: fields of `ReadOptions`, by name."""
        given = {"group": self.columns, "group_size": self.group_size, "places": self.places}
        named: dict[str, object] = {name: value for name, value in given.items() if value}
        if named:  # one way to tell groups apart takes the place of another
            named = {"group": None, "group_size": None, "places": None, "unkeyed": not self.columns} | named
        return named | {"once": self.once}


@dataclass(frozen=True)
class Clues:
    """Some rows of a log, sorted by batch, with columns that may tell groups apart, and columns that may be masks.

    batch: the number of each row's batch.
    advantage: the advantage of each row.
    keys: the columns that may tell groups apart, by name. Their values are numbers, which are equal where the values in
        the log are equal.
    flags: the columns of 0 and 1, which may be masks, by name.
    rewards: (rows, rewards) the values of the rewards, NaN where one is missing.
    """

    batch: np.ndarray
    advantage: np.ndarray
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    flags: dict[str, np.ndarray] = field(default_factory=dict)
    rewards: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def at_rows(self, rows: np.ndarray) -> "Clues":
        """Return some of the rows.

        rows: their numbers, from 0.
        """
        return Clues(
            self.batch[rows],
            self.advantage[rows],
            {name: key[rows] for name, key in self.keys.items()},
            {name: flag[rows] for name, flag in self.flags.items()},
            self.rewards[rows] if len(self.rewards) else self.rewards,
        )


def groupings_of(clues: Clues) -> list[Grouping]:
    """Return up to `TRIED` ways to tell groups apart under which the advantages add up to 0, the finest first.

    It is enough if they add up to 0 in nearly all groups. If no way is found, the search begins anew without the rows
    that seem to be copies of others. It does so once for each column that may mark copies (`Grouping.once`).
    """
    admitted = [*_admitted(clues)]
    for once in _copied(clues) if not admitted else ():
        last = _last_of_each(clues.batch, clues.keys[once])
        admitted += [Grouping(g.columns, g.group_size, g.places, once) for g in _admitted(clues.at_rows(last))]
    return admitted[:TRIED]


def following_of(clues: Clues) -> list[Grouping]:
    """Return the columns in whose groups the advantages follow the rewards: in each group they are a weighted sum of
    them plus a constant, though they need not add up to 0. That is so if a mean was taken over rows of which the log
    lacks some.

    The coarsest way comes first. There is none if too few groups have enough rows to show it, or if the advantages of
    whole batches follow the rewards.
    """
    if not len(clues.rewards) or not np.isfinite(clues.rewards).all() or _follows(clues.batch, clues):
        return []
    ways, batches = list[tuple[int, Grouping]](), len(np.unique(clues.batch))
    for grouping, key in _partitions(clues):
        group = _numbered(clues.batch, key)
        groups = int(group.max()) + 1
        if grouping.columns and batches < groups <= len(group) / 2 and _follows(group, clues):
            ways.append((groups, replace(grouping, follows=True)))
    return [grouping for _, grouping in sorted(ways, key=lambda way: way[0])][:TRIED]


def _follows(group: np.ndarray, clues: Clues) -> bool:
    """Return whether the advantages are a weighted sum of the rewards plus a constant in nearly all groups that have
    more different rows than such a sum has numbers. Only the first `SHOWING` of these groups are looked at.

    group: the number of each row's group.
    """
    order = np.argsort(group, kind="stable")
    good = shown = 0
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        x, a = clues.rewards[rows], clues.advantage[rows]
        with_one = np.column_stack([x, np.ones(len(x))])
        if len(rows) <= with_one.shape[1] + 1 or len(np.unique(x, axis=0)) <= np.linalg.matrix_rank(with_one):
            continue
        w = np.linalg.lstsq(with_one, a, rcond=None)[0]
        good, shown = good + int(np.abs(a - with_one @ w).max() <= FOLLOWS * max(np.abs(a).max(), 1.0)), shown + 1
        if shown >= SHOWING:
            break
    return shown >= FEWEST and good >= NEARLY_ALL * shown


def masks_of(clues: Clues) -> Iterator[tuple[str, float]]:
    """Yield the columns of 0 and 1 that may be masks, each with the value of the rows that the mask leaves out.

    The advantage is 0 in all rows that are left out. It is not 0 in more than half of the rows that are kept. At most
    the share `MOST` of all rows is left out.
    """
    for name, flag in clues.flags.items():
        for value in (0.0, 1.0):
            out = flag == value
            kept = clues.advantage[~out]
            if 0 < out.sum() <= MOST * len(out) and not clues.advantage[out].any() and (kept != 0).mean() > 0.5:
                yield name, value


def add_up(group: np.ndarray, advantage: np.ndarray) -> float:
    """Return the share of groups whose advantages add up to 0, among the groups with an advantage other than 0.

    A sum that rounding may make counts as 0. The share is 0 if fewer than `LEAST` groups have an advantage other than
    0.
    group: the number of each row's group.
    advantage: the advantage of each row.

    >>> add_up(np.repeat(np.arange(4), 2), np.array([1, -1, 2, -2, 3, -3, 1, 1.0]))
    0.75
    """
    sizes = np.bincount(group, np.abs(advantage))
    sums = np.abs(np.bincount(group, advantage))
    live = sizes > 0
    return float((sums[live] <= ROUNDED * sizes[live]).mean()) if live.sum() >= LEAST else 0.0


def _admitted(clues: Clues) -> Iterator[Grouping]:
    """Yield each way to tell groups apart under which the advantages add up to 0 in nearly all groups.

    The ways are sorted by the number of groups that they make, the largest first. Of ways that make the same groups
    only one comes. A way has to make more groups than there are batches, of two rows or more on average.
    """
    by_partition: dict[bytes, tuple[int, Grouping]] = {}
    batches = len(np.unique(clues.batch))
    for grouping, group in _partitions(clues):
        numbers = _numbered(clues.batch, group)
        groups = int(numbers.max()) + 1
        if batches < groups <= len(numbers) / 2 and add_up(numbers, clues.advantage) >= NEARLY_ALL:
            by_partition.setdefault(numbers.tobytes(), (groups, grouping))
    yield from (grouping for _, grouping in sorted(by_partition.values(), key=lambda pair: -pair[0]))


def _partitions(clues: Clues) -> Iterator[tuple[Grouping, np.ndarray]]:
    """Yield ways to tell groups apart, each with a number per row; rows of a batch with equal numbers are a group.

    The ways are single columns, pairs of columns, blocks of rows, and rows a fixed number of places apart.
    """
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
    """Return for each row the number of its group: from 0, unique over all batches, in the order of first rows.

    batch: the number of each row's batch.
    group: for each row a number that tells the groups of its batch apart.
    """
    _, first, number = np.unique(np.stack([batch, group], 1), axis=0, return_index=True, return_inverse=True)
    return first.argsort().argsort()[number.ravel()]


def _copied(clues: Clues) -> Iterator[str]:
    """Yield each column that may mark copies: the rows of a batch that share a value there also share their advantage.

    There have to be at least `LEAST` values that several rows of a batch share, and the shared advantage must not be 0
    in all of them. Some batch must hold more than one value.
    """
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
    """Return the numbers of the rows that are the last with their key in their batch, ascending.

    batch: the number of each row's batch.
    key: the value of each row in the column that marks copies, as a number.
    """
    number = _numbered(batch, key)
    last = np.zeros(int(number.max()) + 1, dtype=np.int64)
    np.maximum.at(last, number, np.arange(len(number)))
    return np.sort(last)


def in_words(grouping: Grouping) -> str:
    """Return words for how groups are told apart.

    >>> in_words(Grouping(columns=("prompt_id", "turn"))), in_words(Grouping(places=8))
    ('the columns prompt_id and turn', 'rows of a batch that stand 8 apart')
    """
    if grouping.columns:
        return f"the column{'s' * (len(grouping.columns) > 1)} {listing(grouping.columns)}"
    if grouping.group_size:
        return f"blocks of {grouping.group_size} rows"
    return f"rows of a batch that stand {grouping.places} apart"


def key_names(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Return the columns to try as keys of groups: usual names first, then names with "id" or the like, then others.

    There are at most `KEYS` of them.
    names: the columns to choose from.
    usual: the usual names, in small letters, the likeliest first.

    >>> key_names(["note", "turn_id", "prompt"], ["prompt"])
    ['prompt', 'turn_id', 'note']
    """

    def rank(name: str) -> int:
        """Return where a column stands in the order in which columns are tried; the smallest number comes first.

        Usual names stand in the order of `usual` of the outer function.
        """
        lower = name.lower()
        if lower in usual:
            return usual.index(lower)
        called = any(word in lower for word in ("id", "idx", "index", "key", "group", "prompt", "turn", "task", "seed"))
        return len(usual) + (not called)

    return sorted(names, key=rank)[:KEYS]
