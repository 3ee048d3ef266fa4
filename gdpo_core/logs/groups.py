"""Finds the groups of a batch: blocks of one size, inferred from the log, or rows with one value of a column."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import gcd

import numpy as np
import polars as pl

BATCHES = 200  # whose advantages are examined
USUAL = 0.6  # share of batches that a size must divide: an evaluation may have written the others
CHANCE = 0.01  # a smaller size must be less likely than this to fit by chance
DRAWS = 400  # shuffles that estimate this probability
_BLOCKS = 64  # shuffled at most


@dataclass(frozen=True)
class Size:
    """A group size and the evidence for it: advantages or prompts."""

    size: int
    told_by: str
    others: tuple[int, ...] = field(default=(), repr=False)  # smaller sizes that fit too, perhaps by chance


def infer(sizes: Sequence[int], advantages: Sequence[np.ndarray], prompts: Sequence[np.ndarray]) -> Size | None:
    """The group size of a log whose groups are blocks of one size; None if nothing shows it.

    sizes: the rows of each batch. advantages: as logged, of the first batches; they sum to 0 in every group.
    prompts: the prompt id of each row, of the first batches; it changes only where a group ends.

    >>> infer([8] * 4, [np.array([3.0, -1.0, -2.0, 0.0, 7.0, -5.0, -2.0, 0.0])] * 4, [])
    Size(size=4, told_by='advantages')
    >>> infer([6], [], [np.array([7, 7, 7, 4, 4, 4])])
    Size(size=3, told_by='prompts')
    """
    rows = Counter(sizes).most_common(1)[0][0]
    largest = _from_prompts([ids for ids in prompts if len(ids) == rows] or prompts)
    live = [a for a in advantages if np.abs(a).max(initial=0) > 0 and np.isfinite(a).all() and _sums_to_zero(a, len(a))]
    common = largest or rows
    fits = [g for g in divisors(common) if live and _fits(g, live)]
    for size in fits:
        if largest is None and size == rows:
            return None  # advantages centred over the whole batch sum to 0 as well
        if all(_chance(size, other, live) < CHANCE for other in fits if other > size and other % size == 0):
            told_by = "advantages" if size != largest else "prompts"
            return Size(size, told_by, tuple(g for g in fits if g < size))
        if largest is None:
            return None
    return None if largest is None else Size(largest, "prompts", tuple(g for g in fits if g < largest))


def divisors(n: int) -> list[int]:
    return [g for g in range(2, n + 1) if n % g == 0]


def _from_prompts(prompts: Sequence[np.ndarray]) -> int | None:
    """The largest size that divides every stretch of equal prompts in most batches; None if that is 1."""
    found: Counter[int] = Counter()
    for ids in prompts:
        ends = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        lengths = np.diff(np.concatenate([[0], ends, [len(ids)]])).tolist()
        whole = reduce(gcd, lengths[:-1], 0)
        cut = len(set(lengths[:-1])) == 1 and len(lengths) > 2 and lengths[-1] < whole
        found[whole if cut else gcd(whole, lengths[-1])] += 1
    sizes = {size for length in found for size in divisors(length)}
    usual = [g for g in sizes if sum(n for length, n in found.items() if length % g == 0) >= USUAL * found.total()]
    return max(usual, default=None)


def _sums_to_zero(values: np.ndarray, size: int) -> bool:
    """Whether every block of `size` sums to 0, up to the round-off of float32."""
    blocks = values.reshape(-1, size)
    return bool((np.abs(blocks.sum(1)) <= 1e-5 * np.abs(blocks).sum(1) + 1e-6 * np.abs(values).max()).all())


def _fits(size: int, live: Sequence[np.ndarray]) -> bool:
    """Whether blocks of this size sum to 0 in nearly all batches that the size divides."""
    whole = [a for a in live if len(a) % size == 0]
    return bool(whole) and sum(_sums_to_zero(a, size) for a in whole) >= 0.9 * len(whole)


def _chance(size: int, larger: int, live: Sequence[np.ndarray]) -> float:
    """How likely blocks of `size` sum to 0 by chance, if groups are the `larger` blocks with rows in random order."""
    blocks = [block for a in live if len(a) % larger == 0 for block in a.reshape(-1, larger) if np.abs(block).max() > 0]
    draw, log = np.random.default_rng(0), 0.0
    for block in blocks[:_BLOCKS]:
        shuffled = draw.permuted(np.tile(block, (DRAWS, 1)), axis=1).reshape(DRAWS, -1, size)
        close = np.abs(shuffled.sum(2)) <= 1e-5 * np.abs(shuffled).sum(2) + 1e-6 * np.abs(block).max()
        log += np.log(max(close.all(1).mean(), 0.5 / DRAWS))
        if log < np.log(CHANCE):
            break
    return float(np.exp(log))


def in_blocks(frames: Iterator[pl.DataFrame], size: int) -> Iterator[pl.DataFrame]:
    """Add `group`: blocks of `size` rows from the start of each batch, of which the last may be shorter."""
    number = 0
    for rows in frames:
        within = pl.int_range(pl.len()).over("batch")
        group = pl.struct("batch", within // size).rle_id().cast(pl.Int64)
        rows = rows.with_columns((group + number).alias("group"))
        number = rows["group"][-1] + 1
        yield rows


def by_key(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Add `group`: the rows of a batch that share `_key`, moved together, in the order of their first rows."""
    number = 0
    for rows in frames:
        rows = rows.with_row_index("group").with_columns(pl.col("group").first().over("batch", "_key"))
        rows = rows.sort("group", maintain_order=True)
        rows = rows.with_columns(pl.col("group").rle_id().cast(pl.Int64) + number)
        number = rows["group"][-1] + 1
        yield rows


def merged_prompts(prompts: pl.DataFrame, size: int) -> dict[str, object] | None:
    """Evidence that groups of one batch share a prompt, from a sample of the prompts; None if none do.

    prompts: batch, step, `_key` and `text` of rows in blocks of `size`.
    """
    within = pl.int_range(pl.len()).over("batch") // size
    groups = prompts.with_columns(within.alias("block")).unique(["batch", "block"], keep="first", maintain_order=True)
    shared = groups.filter(pl.len().over("batch", "_key") > 1)
    if not len(shared):
        return None
    return {
        "step": shared["step"][0],
        "steps": shared["step"].n_unique(),
        "groups": len(shared),
        "prompts": len(shared.unique(["batch", "_key"])),
        "looked_at_groups": len(groups),
        "excerpt": shared["text"][0],
    }
