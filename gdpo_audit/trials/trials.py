"""Trials of other settings on a sample of the run's own log: a report recommends nothing that was not tried."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from gdpo_audit.facts.facts import Facts
from gdpo_audit.json_types import GatePart
from gdpo_audit.logs.groups.run import batches_from_all_over
from gdpo_audit.logs.names import reward_column
from gdpo_audit.sums.selection import ungated_column
from gdpo_audit.sums.summarise import sums_of_all
from gdpo_audit.sums.sums import Array, Basis, Made, Sums

TRIAL_RESPONSES = (
    20_000  # responses on which a setting is tried: all of a smaller log, else whole batches from all over the run
)


@dataclass(frozen=True)
class Gate:
    """A rule by which one reward counts only where another one reaches a threshold; elsewhere it has the value
    `fallback`.

    reward: the index of the reward that the gate changes.
    on: the index of the reward that has to reach the threshold.
    at_most: whether that reward has to be at most the threshold, as one of which the run wants less; else at least.
    """

    reward: int
    on: int
    threshold: float
    fallback: float  # the value of the gated reward where the other one does not reach the threshold
    at_most: bool = False

    def named(self, rewards: Sequence[str]) -> GatePart:
        """Return the gate as reports hold it, with the names of the rewards.

        rewards: the names of all rewards of the run.
        """
        rule: GatePart = {
            "on": rewards[self.on],
            "reward": rewards[self.reward],
            "threshold": self.threshold,
            "otherwise": self.fallback,
        }
        return {**rule, "at_most": True} if self.at_most else rule


@dataclass(frozen=True)
class Trial:
    """A setting to try on a log: a method, weights, and a gate or None."""

    method: str
    weights: tuple[float, ...]
    gate: Gate | None = None


class Trials:
    """Try settings on a sample of a run, each only once, and keep the facts of the sample under each setting."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.sample = sample_of(facts)
        self._facts_under: dict[Trial, Facts] = {}

    def facts_under(self, trial: Trial) -> Facts:
        """Return the facts of the sample of the run under a setting. They are computed once for each setting and kept.

        trial: the setting.

        Raises InputError if rows of one batch or group do not stand together in the sample.
        """
        if trial not in self._facts_under:
            f = self.facts
            changes = {batch: Made(weights, None) for batch, weights in changes_of(f, trial.weights).items()}
            basis = replace(f.basis, recipe=None, extra_method=trial.method, examples_of=None)
            basis = replace(basis, weights=trial.weights, changes=changes)
            batches = sums_under(basis, trial.gate, self.sample)
            self._facts_under[trial] = replace(f, basis=basis, batches=batches)
        return self._facts_under[trial]

    @cached_property
    def as_it_ran(self) -> Facts:
        """The facts of the sample under the run's own method and weights. The facts under every other setting are
        compared with these.
        """
        return self.facts_under(Trial(self.facts.method, self.facts.basis.weights))


def changes_of(f: Facts, weights: tuple[float, ...]) -> dict[int, tuple[float, ...]]:
    """Return the weights of each batch that has others than the run, by its number, if a setting keeps the run's own
    weights; {} if it has weights of its own, which then hold in every batch.

    weights: those of the setting. They are the run's own if they are those of the figures, or those of the recipe.
    """
    recipe = f.basis.recipe
    if weights == f.basis.weights:
        return {batch: made.weights for batch, made in f.basis.changes.items()}
    if recipe is not None and weights == recipe.weights:
        return {batch: made.recipe.weights for batch, made in f.basis.changes.items() if made.recipe is not None}
    return {}


def sample_of(f: Facts) -> list[pl.DataFrame]:
    """Return the responses on which settings are tried: whole batches from all over the run, at most `TRIAL_RESPONSES`
    responses.

    They are taken from the tables that the facts hold, and only from batches that count in the facts. If a single batch
    has more than `TRIAL_RESPONSES` responses, its first groups are taken, at least one.
    """
    counted = pl.col("batch").is_in(f.batches.batch.tolist())
    return at_most(table.filter(counted) for table in f.tables)


def at_most(tables: Iterable[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return whole batches from all over the run, with at most `TRIAL_RESPONSES` responses in all.

    If even the fewest batches that can be taken have more, return their first groups that fit, but at least one group.

    tables: the tables of the run, or of a sample of it.
    """
    sample = batches_from_all_over(tables, TRIAL_RESPONSES)
    if sum(map(len, sample)) <= TRIAL_RESPONSES:
        return sample
    whole = pl.concat(sample)
    ends = whole["group"].rle().struct.field("len").cum_sum()
    return [whole.head(max(ends.filter(ends <= TRIAL_RESPONSES).max() or 0, ends[0]))]


def sums_under(basis: Basis, gate: Gate | None, sample: Sequence[pl.DataFrame]) -> Sums[Array]:
    """Return the sums over each batch of a sample, as `sums_of_all` computes them, after a gate has changed one
    reward.

    The advantages are those of each method that `basis` asks for; the logged ones are dropped.

    basis: the rewards, weights, convention and methods to compute with.
    gate: None for no gate.
    sample: tables of whole batches.
    """
    table = pl.concat(sample).drop("advantage", strict=False)
    table = table if gate is None else table.with_columns(*behind(gate, basis.rewards))
    return sums_of_all([table], basis)


def behind(gate: Gate, rewards: Sequence[str]) -> tuple[pl.Expr, pl.Expr]:
    """Return expressions for two columns of a table: the gated reward as its gate leaves it, and the same reward as the
    log holds it.

    The first column keeps the name of the reward's column, and so replaces it in `with_columns`. The first column is
    NaN where the reward is missing in the log. Elsewhere it has the logged value if the gate is open, and the fallback
    if it is closed. The gate is closed where the reward `gate.on` does not reach the threshold, or is missing (NaN).
    The second column has the name that `ungated_column` returns.

    gate: the rule, with the indices of its two rewards.
    rewards: the names of all rewards.
    """
    reward, on = (pl.col(reward_column(rewards[k])) for k in (gate.reward, gate.on))
    reached = on.is_not_nan() & ((on <= gate.threshold) if gate.at_most else (on >= gate.threshold))
    gated = pl.when(reached | reward.is_nan()).then(reward).otherwise(gate.fallback)
    return gated, reward.alias(ungated_column(rewards[gate.reward]))
