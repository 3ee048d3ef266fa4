"""Other settings of a run, tried on the run's own log: no report recommends what it has not tried."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from gdpo_audit.findings.summarise import summarise_all
from gdpo_audit.findings.sums import Array, Setup, Sums

MOST = 20_000  # responses on which a setting is tried: all of a smaller log, else whole batches from all over the run
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Gate:
    """A reward that counts only where another one reaches a threshold; both are indices."""

    reward: int
    on: int
    threshold: float
    fallback: float  # what stands in its place everywhere else


@dataclass(frozen=True)
class Trial:
    """What a run could have used."""

    method: str
    weights: tuple[float, ...]
    gates: tuple[Gate, ...] = ()


def spread(tables: Iterable[pl.DataFrame], most: int) -> list[pl.DataFrame]:
    """Whole batches from all over a run, with so many responses at most, or a single batch of more.

    >>> [part["batch"].to_list() for part in spread([pl.DataFrame({"batch": [0, 1, 2, 3, 3]})], 3)]
    [[0, 2]]
    """
    share, sample = 1.0, list[pl.DataFrame]()
    for table in tables:
        sample += _some(table, share)
        while sum(map(len, sample)) > most:
            fewer = [part for held in sample for part in _some(held, share / 2)]
            if not fewer or sum(part["batch"].n_unique() for part in sample) == 1:
                break
            share, sample = share / 2, fewer
    return sample


def _some(table: pl.DataFrame, share: float) -> list[pl.DataFrame]:
    """The table with this share of its batches, chosen by their numbers; none where it has none of them."""
    # The golden ratio spreads them evenly, and is in step with nothing that comes every few steps.
    part = table if share == 1 else table.filter(pl.col("batch") * _GOLDEN % 1 < share)
    return [part] * (len(part) > 0)


def sample_of(tables: Iterable[pl.DataFrame]) -> list[pl.DataFrame]:
    """At most `MOST` of these responses: whole batches, or of a single one that is too large its first groups."""
    sample = spread(tables, MOST)
    if sum(map(len, sample)) <= MOST:
        return sample
    whole = pl.concat(sample)
    ends = whole["group"].rle().struct.field("len").cum_sum()
    return [whole.head(max(ends.filter(ends <= MOST).max() or 0, ends[0]))]


def sums_under(setup: Setup, gates: Sequence[Gate], sample: Sequence[pl.DataFrame]) -> Sums[Array]:
    """The sums over the sample of a run, behind gates."""
    table = _apply_gates(pl.concat(sample), setup.rewards, gates).drop("advantage", strict=False)
    return summarise_all([table], setup).batches


def _apply_gates(table: pl.DataFrame, rewards: Sequence[str], gates: Sequence[Gate]) -> pl.DataFrame:
    """The table with the rewards as they are behind their gates; a missing reward stays missing."""
    behind = []
    for gate in gates:
        reward, on = pl.col(rewards[gate.reward]), pl.col(rewards[gate.on])
        reached = on.is_not_nan() & (on >= gate.threshold)
        behind.append(pl.when(reached | reward.is_nan()).then(reward).otherwise(gate.fallback))
    return table.with_columns(behind)
