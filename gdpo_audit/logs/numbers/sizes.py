"""The size of groups that are blocks of rows, as the prompts and advantages of a log show it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import comb, gcd

import numpy as np

USUAL = 0.6  # the share of the batches that a size must divide; an evaluation may have written the others
_CHANCE = 0.01  # the largest probability that a smaller size fits by chance
_DRAWS = 400  # the shuffles that estimate this probability
ALONE = 0.02  # the share of groups of a single row from which on sizes are those of a sample
_DRAWN = 60  # of fewer groups the spread of the sizes says little
WHOLE = 0.8  # the share of a batch's groups that must have its usual size for this to be the run's size at the time
FEW_PROMPTS = 0.1  # the chance that two groups share a prompt, from which on prompts alone show no change of size
_LEAST = 3  # the fewest batches in a row that show another size; fewer may be an evaluation's
_BLOCKS = 64  # the most groups whose advantages are shuffled


@dataclass(frozen=True)
class _Size:
    """A group size that advantages or prompts show."""

    size: int
    smaller: tuple[int, ...] = field(default=(), repr=False)  # other sizes that fit too, perhaps by chance


def infer(sizes: Sequence[int], advantages: Sequence[np.ndarray], prompts: Sequence[np.ndarray]) -> _Size | None:
    """Return the group size of a log whose groups are blocks of one size; None if nothing shows it.

    sizes: the number of rows of each batch.
    advantages: the logged advantages of the first batches. Advantages that do not sum to 0 over their batch show
        nothing.
    prompts: the prompt id of each row of the first batches, which changes only where a group ends.

    >>> infer([8] * 4, [np.array([3.0, -1.0, -2.0, 0.0, 7.0, -5.0, -2.0, 0.0])] * 4, [])
    _Size(size=4)
    >>> infer([6], [], [np.array([7, 7, 7, 4, 4, 4])])
    _Size(size=3)
    """
    rows = Counter(sizes).most_common(1)[0][0]
    largest = _from_prompts([ids for ids in prompts if len(ids) == rows] or prompts)
    live = [a for a in advantages if np.abs(a).max(initial=0) > 0 and np.isfinite(a).all() and _sums_to_zero(a, len(a))]
    fits = [g for g in divisors(largest or rows) if live and _fits(g, live)]
    for size in fits:
        if largest is None and size == rows:
            return None  # advantages that are centred over the whole batch sum to 0 as well
        if all(_chance(size, larger, live) < _CHANCE for larger in fits if larger > size and larger % size == 0):
            return _Size(size, tuple(g for g in fits if g < size))
        if largest is None:
            return None
    return None if largest is None else _Size(largest, tuple(g for g in fits if g < largest))


def stretches(
    sizes: Sequence[int], advantages: Sequence[np.ndarray], prompts: Sequence[np.ndarray]
) -> list[tuple[int, int]]:
    """Return the stretches of batches with one group size, each as a pair of its first batch and its group size.

    The list is empty if the log does not show for sure that the group size changes. Prompts show the group sizes, or,
    if there are none, advantages do.
    sizes: the number of rows of each batch.
    advantages: the logged advantages of the rows of the first batches, an array per batch.
    prompts: the prompt ids of the rows of the first batches, an array per batch.

    >>> stretches([4] * 8, [], [np.repeat([n], 4) for n in range(4)] + [np.repeat([n, 2 * n], 2) for n in range(4, 8)])
    [(0, 4), (4, 2)]
    """
    size_of_batch = [_whole(ids) for ids in prompts] if prompts else _sizes_by_advantages(sizes, advantages)
    runs = stretches_of_size(size_of_batch)
    if len(runs) < 2:
        return []
    changes: list[tuple[int, int]] = []
    for (first, size), (end, _) in zip(runs, [*runs[1:], (len(sizes), 0)], strict=True):
        if prompts:
            batches = slice(first, end)
            inferred = infer(sizes[batches], advantages[batches], prompts[batches])
            if inferred is None:
                return []
            size = inferred.size
            if not any(np.abs(a).max(initial=0) > 0 for a in advantages[batches]):
                smaller = reduce(gcd, (stretch_size for _, stretch_size in runs))
                if _chance_of_prompts(size, smaller, prompts[batches], prompts) > _CHANCE:
                    return []
        if not changes or changes[-1][1] != size:
            changes.append((first, size))
    return changes if len(changes) > 1 else []


def _chance_of_prompts(size: int, smaller: int, batches: Sequence[np.ndarray], prompts: Sequence[np.ndarray]) -> float:
    """Return an upper bound on the chance that prompts make groups of the size `smaller` look like groups of `size`.

    They look so where groups that follow each other happen to have the same prompt. The bound is 0 if the sizes are
    equal. It is 1 if they differ and two groups share a prompt with a chance of `FEW_PROMPTS` or more.
    size: the size that the groups seem to have.
    smaller: the size that they may have in truth.
    batches: arrays with the prompt of each row. Batches that look like groups of `size` count.
    prompts: an array with the prompt of each row, for each of the first batches of the log.
    """
    starts = Counter(int(x) for ids in prompts for x in ids[np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))])
    alike = sum((times / starts.total()) ** 2 for times in starts.values())
    alike_ones = [ids for ids in batches if (_whole(ids) or 1) % size == 0]
    together = sum(len(ids) // size * (size // smaller - 1) for ids in alike_ones)
    if size == smaller:
        return 0.0
    return len(prompts) * alike**together if alike < FEW_PROMPTS else 1.0


def stretches_of_size(size_of_batch: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return the stretches of batches that have one group size: of each its first batch and that size.

    Stretches of fewer than `_LEAST` batches of known size are left out. If the stretches before and after one that is
    left out have the same size, they become one. The first stretch begins with batch 0.
    size_of_batch: the group size in each batch, or None if it is not known; such a batch ends no stretch.
    """
    known = [(batch, size) for batch, size in enumerate(size_of_batch) if size is not None]
    runs: list[list[tuple[int, int]]] = []
    for batch, size in known:
        if runs and runs[-1][0][1] == size:
            runs[-1].append((batch, size))
        else:
            runs.append([(batch, size)])
    long = [run for run in runs if len(run) >= _LEAST]
    stretches_of_run: list[tuple[int, int]] = []
    for run in long:
        if not stretches_of_run or stretches_of_run[-1][1] != run[0][1]:
            stretches_of_run.append((run[0][0] if stretches_of_run else 0, run[0][1]))
    return stretches_of_run


def _sizes_by_advantages(sizes: Sequence[int], advantages: Sequence[np.ndarray]) -> list[int | None]:
    """Return the group size of each of the first batches, as far as their advantages show it; None for other batches.

    They show it where the advantages of each group add up to 0. A size smaller than the usual one counts only if it
    holds for at least `_LEAST` batches one after the other. Chance would hardly make so many. Batches in between are
    passed over if all their advantages are 0, or if one is not finite.
    sizes: the number of rows of each batch.
    advantages: the logged advantages of each of the first batches.
    """
    inferred = infer(sizes, advantages, [])
    usual = inferred.size if inferred else Counter(sizes).most_common(1)[0][0]
    live = [n for n, a in enumerate(advantages) if np.abs(a).max(initial=0) > 0 and np.isfinite(a).all()]
    size_of_batch: list[int | None] = [usual if inferred and n in live else None for n in range(len(advantages))]
    enough = _CHANCE / max(len(live), 1)
    for size in divisors(usual)[-2::-1]:
        fits = [len(advantages[n]) % size == 0 and _sums_to_zero(advantages[n], size) for n in live]
        ends = [*np.flatnonzero(~np.array(fits, dtype=bool)).tolist(), len(live)]
        for begin, end in zip([-1, *ends[:-1]], ends, strict=True):
            run = live[begin + 1 : end]
            if len(run) >= _LEAST and _chance(size, usual, [advantages[n] for n in run], enough) < enough:
                for n in run:
                    size_of_batch[n] = size
    return size_of_batch


def divisors(n: int) -> list[int]:
    """Return the divisors of n from 2 on, ascending."""
    return [g for g in range(2, n + 1) if n % g == 0]


def _from_prompts(prompts: Sequence[np.ndarray]) -> int | None:
    """Return the largest group size that fits the prompts of at least the share `USUAL` of the batches.

    A size fits a batch if it divides the length of every stretch of rows with one prompt; the last stretch may be cut
    (see `_whole`). None if no size above 1 fits so many.
    prompts: the prompt id of each row, an array per batch.
    """
    batches: Counter[int] = Counter()  # the number of batches by the largest size that divides their stretches
    for ids in prompts:
        batches[_whole(ids) or 1] += 1
    sizes = {size for length in batches for size in divisors(length)}
    usual = [g for g in sizes if sum(n for length, n in batches.items() if length % g == 0) >= USUAL * batches.total()]
    return max(usual, default=None)


def drawn_at_random(sizes: np.ndarray) -> bool:
    """Return whether groups have the sizes that are left where rows of equal groups were drawn or dropped at random.

    That is so in either of two cases. At least the share `ALONE` of the groups has a single row, in which nothing is
    compared, and the others have several sizes. Or there are at least `_DRAWN` groups of at least four sizes, the most
    common one is not the largest, and each size is as frequent as where every row of groups of the largest size stays
    with one chance (by a chi-square test).

    >>> drawn_at_random(np.array([1, 2, 2, 3, 3, 3, 4, 1, 2])), drawn_at_random(np.array([3, 4, 5, 6] * 20))
    (True, False)
    """
    values, times = np.unique(sizes, return_counts=True)
    if len(values) < 3:
        return False
    if values[0] == 1 and times[0] >= max(ALONE * len(sizes), 2):
        return True
    if len(sizes) < _DRAWN or len(values) < 4 or times.argmax() == len(values) - 1:
        return False
    whole = int(values[-1])
    stays = sizes.mean() / whole
    every = np.arange(whole + 1)
    expected = len(sizes) * np.array([comb(whole, int(n)) for n in every]) * stays**every * (1 - stays) ** every[::-1]
    misses = (np.bincount(sizes, minlength=whole + 1) - expected) ** 2 / np.maximum(expected, 0.5)
    free = int((expected >= 1).sum()) - 2
    return free > 0 and bool(misses.sum() <= free + 2 * np.sqrt(2 * free))


def _whole(ids: np.ndarray) -> int | None:
    """Return the largest number that divides the length of every stretch of equal prompts in a batch; None if it is 1.

    The last stretch may be cut off, and is then left out. It counts as cut off if it is shorter than the others, and if
    these are at least two, all of one length.
    ids: the prompt id of each row.
    """
    ends = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], ends, [len(ids)]])).tolist()
    whole = reduce(gcd, lengths[:-1], 0)
    cut = len(set(lengths[:-1])) == 1 and len(lengths) > 2 and lengths[-1] < whole
    size = whole if cut else gcd(whole, lengths[-1])
    return size if size > 1 else None


def _sums_to_zero(values: np.ndarray, size: int) -> bool:
    """Return whether every block of `size` values sums to 0, up to the round-off of float32."""
    blocks = values.reshape(-1, size)
    return bool((np.abs(blocks.sum(1)) <= 1e-5 * np.abs(blocks).sum(1) + 1e-6 * np.abs(values).max()).all())


def _fits(size: int, live: Sequence[np.ndarray]) -> bool:
    """Return whether blocks of this size sum to 0 in nearly all batches that the size divides.

    size: the number of advantages in a block.
    live: the advantages of the batches in which not all are 0.
    """
    whole = [a for a in live if len(a) % size == 0]
    return bool(whole) and sum(_sums_to_zero(a, size) for a in whole) >= 0.9 * len(whole)


def _chance(size: int, larger: int, live: Sequence[np.ndarray], enough: float = _CHANCE) -> float:
    """Return the chance that all blocks of `size` advantages sum to 0 although the groups are blocks of `larger`.

    The advantages of each group are shuffled to estimate this.
    size: the number of advantages in a block.
    larger: the size of the groups.
    live: the advantages of the batches, an array each.
    enough: once the estimate is below this, it may end.
    """
    blocks = [block for a in live if len(a) % larger == 0 for block in a.reshape(-1, larger) if np.abs(block).max() > 0]
    draw, log = np.random.default_rng(0), 0.0
    for block in blocks[:_BLOCKS]:
        shuffled = draw.permuted(np.tile(block, (_DRAWS, 1)), axis=1).reshape(_DRAWS, -1, size)
        close = np.abs(shuffled.sum(2)) <= 1e-5 * np.abs(shuffled).sum(2) + 1e-6 * np.abs(block).max()
        log += np.log(max(close.all(1).mean(), 0.5 / _DRAWS))
        if log < np.log(enough):
            break
    return float(np.exp(log))
