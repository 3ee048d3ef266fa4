"""Other settings of a run, tried on the run's own log: no report recommends what it has not tried."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gdpo_audit.findings.selection import ungated_column
from gdpo_audit.findings.summarise import summarise_all
from gdpo_audit.findings.sums import Array, Setup, Sums
from gdpo_audit.logs.names import reward_column
from gdpo_audit.logs.run import spread

MOST = 20_000  # responses on which a setting is tried: all of a smaller log, else whole batches from all over the run


@dataclass(frozen=True)
class Gate:
    """A reward that counts only where another one reaches a threshold; both are indices."""

    reward: int
    on: int
    threshold: float
    fallback: float  # what stands in its place everywhere else

    def named(self, rewards: Sequence[str]) -> dict[str, Any]:
        """Return the gate as its reader gives it, with the names of the rewards."""
        names = {"on": rewards[self.on], "reward": rewards[self.reward]}
        return {**names, "threshold": self.threshold, "otherwise": self.fallback}


@dataclass(frozen=True)
class Trial:
    """What a run could have used."""

    method: str
    weights: tuple[float, ...]
    gate: Gate | None = None


def sample_of(tables: Iterable[pl.DataFrame]) -> list[pl.DataFrame]:
    """At most `MOST` of these responses: whole batches, or of a single one that is too large its first groups."""
    sample = spread(tables, MOST)
    if sum(map(len, sample)) <= MOST:
        return sample
    whole = pl.concat(sample)
    ends = whole["group"].rle().struct.field("len").cum_sum()
    return [whole.head(max(ends.filter(ends <= MOST).max() or 0, ends[0]))]


def sums_under(setup: Setup, gate: Gate | None, sample: Sequence[pl.DataFrame]) -> Sums[Array]:
    """The sums over the sample of a run, behind a gate."""
    table = pl.concat(sample).drop("advantage", strict=False)
    table = table if gate is None else table.with_columns(*behind(gate, setup.rewards))
    return summarise_all([table], setup).batches


def behind(gate: Gate, rewards: Sequence[str]) -> tuple[pl.Expr, pl.Expr]:
    """The reward as it is behind its gate, and as the log has it; a missing one stays missing."""
    reward, on = (pl.col(reward_column(rewards[k])) for k in (gate.reward, gate.on))
    reached = on.is_not_nan() & (on >= gate.threshold)
    gated = pl.when(reached | reward.is_nan()).then(reward).otherwise(gate.fallback)
    return gated, reward.alias(ungated_column(rewards[gate.reward]))
