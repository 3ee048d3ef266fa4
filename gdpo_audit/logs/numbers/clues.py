"""Ways to tell the groups of a log apart under which its advantages add up to 0 in each group.

Nearly every method subtracts a group's mean from its advantages. So the advantages show which rows are one group. These
may be the rows that share the value of one column, or the values of two columns. They may also be blocks of rows, or
rows a fixed number of places apart. The advantages also show which rows repeat another one, and which rows a mask left
out.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

import numpy as np

from gdpo_audit.logs.numbers.sizes import divisors
from gdpo_audit.records import ROUNDED_SUM, Clues, Grouping
from gdpo_core.shared.words import listing

_KEYS, PAIRED = 10, 7  # the most columns that are tried as keys, and the most of these that are tried in pairs
_LARGEST = 1e6  # the largest number of which a float holds nine decimals
_LEAST = 4  # the fewest groups with an advantage other than 0; in fewer the advantages may add up to 0 by chance
NEARLY_ALL = 0.9  # the share of the groups, or of the batches, that counts as nearly all
_EQUAL, ONE_BATCH = 0.95, 0.95  # the share of groups of one size, and of values in one batch, that show groups
ALWAYS = 0.5  # ids of prompts stand in at most this share of the batches, on average; workers and flags in nearly all
_MOST = 0.9  # the largest share of the rows that a mask may leave out
_FOLLOWS = 1e-4  # how far advantages may be from a weighted sum of rewards, relative to the largest of the group
_FEWEST, SHOWING = 8, 200  # the fewest and the most groups in which advantages are compared with weighted sums
TRIED = 6  # the most groupings that are worth solving for, the finest first


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


def equal_groups(clues: Clues) -> Grouping | None:
    """Return the column that cuts each batch into groups of one size, for a log without advantages; None without one.

    Nearly all groups have the same number of rows, two or more. The rows of a group stand together, or a value comes in
    one batch alone: a column that numbers the responses of each group does neither. The finest such column counts.
    clues: the rows; their advantages are not looked at.
    """
    batches, best = len(np.unique(clues.batch)), (0, "")
    for name, key in clues.keys.items():
        number = _numbered(clues.batch, key)
        sizes = np.bincount(number)
        groups = len(sizes)
        usual = int(np.median(sizes))
        apart = np.count_nonzero(np.diff(number)) + 1 > groups
        # In a single batch, a number of the responses of each group makes few groups, and each of them is large.
        shared = groups * ONE_BATCH > len(np.unique(key)) if batches > 1 else groups < 2 * usual
        even = usual > 1 and groups >= max(_LEAST, batches + 1) and (sizes == usual).mean() >= _EQUAL
        if even and not (apart and shared) and groups > best[0]:
            best = (groups, name)
    return Grouping(columns=(best[1],)) if best[0] else None


def ids_of(clues: Clues, prompt: str | None = None, barred: Collection[str] = ()) -> list[Grouping]:
    """Return the column whose values repeat inside a batch as ids of prompts do, as the one way to tell groups apart.

    Inside a batch there are several values, and two rows or more have each of them on average. Over the run there are
    many values: most stand in few of the batches, unless there are few batches. Of several such columns the finest
    counts. The list is empty if there is none.
    clues: some rows of the log.
    prompt: the column that is known to name prompts, which may stand in every batch; None if there is none.
    barred: columns that are known to hold something else.

    >>> ids = np.array([7, 7, 8, 8, 3, 3, 4, 4])
    >>> worker = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    >>> batch = np.repeat([0, 1], 4)
    >>> ids_of(Clues(batch, np.zeros(8), {"worker": worker, "ids": ids}))[0].columns
    ('ids',)
    """
    best, finest = list[Grouping](), 0
    batches = len(np.unique(clues.batch))
    for name, key in clues.keys.items():
        pairs = np.unique(np.stack([clues.batch, key]), axis=1)
        groups, values = pairs.shape[1], len(np.unique(key))
        several = groups >= 2 * batches and 2 * groups <= len(key)
        few = name == prompt or groups / values <= max(1, batches * ALWAYS)  # the batches in which a value stands
        if several and few and name not in barred and groups > finest:
            best, finest = [Grouping(columns=(name,))], groups
    return best


def following_of(clues: Clues) -> list[Grouping]:
    """Return the columns in whose groups the advantages follow the rewards: in each group they are a weighted sum of
    them plus a constant, though they need not add up to 0. That is so if a mean was taken over rows of which the log
    lacks some.

    Rows whose advantages a mask set to 0 (`masks_of`) need not follow them. The coarsest way comes first. There is none
    if too few groups have enough rows to show it, or if the advantages of whole batches follow the rewards.
    """
    if not len(clues.rewards) or not np.isfinite(clues.rewards).all() or _follows(clues.batch, clues):
        return []
    ways, batches = list[tuple[int, Grouping]](), len(np.unique(clues.batch))
    kept = [np.arange(len(clues.batch)), *(np.flatnonzero(clues.flags[n] != value) for n, value in masks_of(clues))]
    for grouping, key in _partitions(clues):
        group = _numbered(clues.batch, key)
        groups = int(group.max()) + 1
        several = grouping.columns and batches < groups <= len(group) / 2
        if several and any(_follows(group[rows], clues.at_rows(rows)) for rows in kept):
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
        good, shown = good + int(np.abs(a - with_one @ w).max() <= _FOLLOWS * max(np.abs(a).max(), 1.0)), shown + 1
        if shown >= SHOWING:
            break
    return shown >= _FEWEST and good >= NEARLY_ALL * shown


def masks_of(clues: Clues) -> Iterator[tuple[str, float | str]]:
    """Yield the columns of few values that may be masks, each with the value of the rows that the mask leaves out.

    The advantage is 0 in all rows that are left out. It is not 0 in more than half of the rows that are kept. At most
    the share `_MOST` of all rows is left out.
    """
    for name, flag in clues.flags.items():
        for value in flag_values(flag):
            out = flag == value
            kept = clues.advantage[~out]
            if 0 < out.sum() <= _MOST * len(out) and not clues.advantage[out].any() and (kept != 0).mean() > 0.5:
                yield name, value


def flag_values(flag: np.ndarray) -> list[float | str]:
    """Return the values of a column of `Clues.flags`, ascending, without missing ones.

    >>> flag_values(np.array([1.0, 0.0, np.nan, 1.0])), flag_values(np.array(["train", None, "greedy"], dtype=object))
    ([0.0, 1.0], ['greedy', 'train'])
    """
    return sorted({value for value in flag.tolist() if value is not None and value == value})


def balanced_share(group: np.ndarray, advantage: np.ndarray) -> float:
    """Return the share of groups whose advantages add up to 0, among the groups with an advantage other than 0.

    A sum that rounding may make counts as 0. The share is 0 if fewer than `_LEAST` groups have an advantage other than
    0.
    group: the number of each row's group.
    advantage: the advantage of each row.

    >>> balanced_share(np.repeat(np.arange(4), 2), np.array([1, -1, 2, -2, 3, -3, 1, 1.0]))
    0.75
    """
    sizes = np.bincount(group, np.abs(advantage))
    sums = np.abs(np.bincount(group, advantage))
    live = sizes > 0
    allowed = np.maximum(ROUNDED_SUM * sizes, np.bincount(group) * half_of_last_decimal(advantage) * (1 + ROUNDED_SUM))
    return float((sums <= allowed)[live].mean()) if live.sum() >= _LEAST else 0.0


def half_of_last_decimal(values: np.ndarray) -> float:
    """Return how far numbers of one to six decimals may be from what they were rounded from; 0 for more decimals.

    >>> half_of_last_decimal(np.array([0.25, -1.5])), half_of_last_decimal(np.array([1 / 3]))
    (0.005, 0.0)
    """
    values = values[np.isfinite(values)]
    if np.abs(values).max(initial=0.0) > _LARGEST:
        return 0.0
    decimals = next((d for d in range(1, 7) if np.abs(values - values.round(d)).max(initial=0.0) <= 1e-9), None)
    return 0.0 if decimals is None else 0.5 * 10.0**-decimals


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
        if batches < groups <= len(numbers) / 2 and balanced_share(numbers, clues.advantage) >= NEARLY_ALL:
            by_partition.setdefault(numbers.tobytes(), (groups, grouping))
    yield from (grouping for _, grouping in sorted(by_partition.values(), key=lambda pair: -pair[0]))


def _partitions(clues: Clues) -> Iterator[tuple[Grouping, np.ndarray]]:
    """Yield ways to tell groups apart, each with a number per row; rows of a batch with equal numbers are a group.

    The ways are single columns, pairs of columns, blocks of rows, and rows a fixed number of places apart.
    """
    for name, key in clues.keys.items():
        yield Grouping(columns=(name,)), key
    for first, second in combinations(islice(clues.keys, PAIRED), 2):
        yield Grouping(columns=(first, second)), _of_pairs(clues.keys[first], clues.keys[second])
    starts = np.flatnonzero(np.append(True, clues.batch[1:] != clues.batch[:-1]))
    sizes = np.diff(np.append(starts, len(clues.batch)))
    place = np.arange(len(clues.batch)) - starts.repeat(sizes)
    whole = sizes[:-1] if len(sizes) > 1 else sizes  # the last batch may be cut
    for size in divisors(int(whole.max())):
        if (whole % size == 0).mean() >= NEARLY_ALL:
            yield Grouping(group_size=size), place // size
            yield Grouping(places=size), place % size


def column_like_blocks(clues: Clues, size: int) -> str | None:
    """Return a column that cuts the rows into the same groups as blocks of `size` rows do; None if none does, or if
    too many batches hold no whole blocks.
    """
    ways = [(way, _numbered(clues.batch, group)) for way, group in _partitions(clues) if len(way.columns) < 2]
    blocks = next((number for way, number in ways if way.group_size == size), None)
    if blocks is None:
        return None
    return next((way.columns[0] for way, number in ways if way.columns and (number == blocks).all()), None)


def member_numbers(clues: Clues, grouping: Grouping) -> np.ndarray:
    """Return the number of each row's group, if groups are told apart in one of the ways of `groupings_of`.

    grouping: one of these ways; its `once` is not looked at.
    """
    plain = Grouping(grouping.columns, grouping.group_size, grouping.places)
    return next(_numbered(clues.batch, group) for known, group in _partitions(clues) if known == plain)


def _numbered(batch: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return for each row the number of its group: from 0, unique over all batches, in the order of first rows.

    group: for each row a number that tells the groups of its batch apart.
    """
    _, first, number = np.unique(_of_pairs(batch, group), return_index=True, return_inverse=True)
    return first.argsort().argsort()[number]


def _of_pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return for each row a number that tells its pair of values from all other pairs.

    Whole numbers are sorted many times faster than the rows of a table are.
    """
    of_second, number = np.unique(second, return_inverse=True)
    return np.unique(first, return_inverse=True)[1] * len(of_second) + number


def _copied(clues: Clues) -> Iterator[str]:
    """Yield each column that may mark copies: the rows of a batch that share a value there also share their advantage.

    There have to be at least `_LEAST` values that several rows of a batch share, and the shared advantage must not be 0
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
        if several.sum() >= _LEAST and (high == low).all() and high[several].any() and groups > batches:
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

    There are at most `_KEYS` of them.
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

    return sorted(names, key=rank)[:_KEYS]
