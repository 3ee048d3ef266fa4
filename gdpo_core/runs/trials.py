"""Other settings of a run, tried on the run's own log: no report recommends what it has not tried."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Array, Plan, Sums, merge

MOST = 20_000  # responses on which a setting is tried: all of a smaller log, else whole batches from all over the run


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


@dataclass
class Sample:
    """Whole batches from all over a run, whose tables come one after the other.

    >>> sample = Sample()
    >>> sample.add(pl.DataFrame({"batch": [0, 0, 1, 1], "group": [0, 0, 1, 1]}))
    >>> sample.every, [len(table) for table in sample.tables]
    (1, [4])
    """

    tables: list[pl.DataFrame] = field(default_factory=list)
    every: int = 1  # of so many batches by number, one is here

    def add(self, table: pl.DataFrame) -> None:
        """Take what is needed of one more table."""
        self.tables.append(_every(table, self.every))
        while sum(map(len, self.tables)) > MOST and self._batches > 1:
            self.every *= 2
            self.tables = [_every(table, self.every) for table in self.tables]
        if self._batches == 1 and sum(map(len, self.tables)) > MOST:  # one batch alone is too large: its first groups
            whole = pl.concat(self.tables)
            ends = whole["group"].rle().struct.field("len").cum_sum()
            self.tables = [whole.head(max(ends.filter(ends <= MOST).max() or 0, ends[0]))]

    @property
    def _batches(self) -> int:
        return sum(table["batch"].n_unique() for table in self.tables)


def _every(table: pl.DataFrame, number: int) -> pl.DataFrame:
    return table if number == 1 else table.filter(pl.col("batch") % number == 0)


def sums_under(plan: Plan, gates: Sequence[Gate], sample: Sequence[pl.DataFrame]) -> Sums[Array]:
    """The sums over the sample of a run, behind gates."""
    tables = [_apply_gates(table, plan.rewards, gates) for table in sample]
    return merge([summarise(table.drop("advantage", strict=False), plan) for table in tables]).batches


def _apply_gates(table: pl.DataFrame, rewards: Sequence[str], gates: Sequence[Gate]) -> pl.DataFrame:
    """The table with the rewards as they are behind their gates; a missing reward stays missing."""
    behind = []
    for gate in gates:
        reward, on = pl.col(rewards[gate.reward]), pl.col(rewards[gate.on])
        reached = on.is_not_nan() & (on >= gate.threshold)
        behind.append(pl.when(reached | reward.is_nan()).then(reward).otherwise(gate.fallback))
    return table.with_columns(behind)
