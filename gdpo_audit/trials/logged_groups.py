"""The data of a log that its forecasts need: how its rewards went over the steps, and groups on which pushes are
measured.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from gdpo_audit.facts.facts import Facts
from gdpo_audit.logs.names import reward_column
from gdpo_audit.recipe.recipe import starts_of, tensors_of
from gdpo_audit.sums.summarise import as_counted
from gdpo_audit.trials.trials import Gate, behind, changes_of, sample_of
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.pushes_by_rate import Array, Course, DifferingGroups, Pushes
from gdpo_core.registry import method_for, method_named
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.words import count

FEWEST_STEPS = 20


def what_is_lacking(f: Facts) -> tuple[str, str] | None:
    """Return the first thing that a forecast needs and the log lacks, and what the log has in its place, both in words;
    None if the log has all that is needed.
    """
    conditions = (
        (not f.run.total_only, "a log with each reward in a column of its own", "one total"),
        (bool((f.totals.rewards.degrees > 0).any()), "groups of several responses", "none"),
        (
            not (f.contradicted or f.lacks_a_reward),
            "logged advantages that a known method makes of the logged rewards",
            "other advantages",
        ),
        (len(f.steps) >= FEWEST_STEPS, f"a log of at least {FEWEST_STEPS} steps", count(len(f.steps), "step")),
    )
    return next(((expected, got) for holds, expected, got in conditions if not holds), None)


class LoggedGroups:
    """Hold the data of a log that its forecasts need: how its rewards went over the steps, and groups on which pushes
    are measured.

    f: the facts of the run.
    between: the first step that counts and the one from which on none does; None for all steps.

    Raises InputError for a log that does not have all that a forecast needs.
    """

    def __init__(self, f: Facts, between: tuple[int, int] | None = None) -> None:
        if lacking := what_is_lacking(f):
            expected, got = lacking
            raise InputError(f"forecast: expected {expected}, got {got}, in {f.run.path}")
        self.facts = f
        self.between = between
        self.low, self.high = (np.array(x, dtype=float) for x in (f.totals.rewards.low, f.totals.rewards.high))
        self.range = np.where(
            self.high > self.low, self.high - self.low, np.nan
        )  # NaN: the reward is constant or missing
        self.logged = pl.concat(sample_of(f)).drop("advantage", strict=False)
        if between is not None:
            self.logged = self.logged.filter(pl.col("step").is_between(*between, closed="left"))
        self.table = as_counted(self.logged, f.rewards)
        self.starts = starts_of(self.table["group"].to_numpy())
        self.sizes = np.diff(self.starts, append=len(self.table))
        self.values = self._values(self.table)
        self.distances = self._distances(self.values)

    def _values(self, table: pl.DataFrame) -> Array:
        """Return (rewards, responses) the rewards in a table, NaN where one is missing."""
        return np.stack([table[reward_column(name)].to_numpy() for name in self.facts.rewards])

    def _distances(self, values: Array) -> Array:
        """Return (rewards, responses) rewards minus the means of their groups; 0 where one is missing.

        values: (rewards, responses) the rewards.
        """
        return np.nan_to_num(values - self._means(values).repeat(self.sizes, axis=1))

    def _means(self, values: Array) -> Array:
        """Return (rewards, groups) the mean of each reward in each group; NaN where no response of the group has it.

        values: (rewards, responses).
        """
        there = np.add.reduceat(~np.isnan(values), self.starts, axis=1)
        sums = np.add.reduceat(np.nan_to_num(values), self.starts, axis=1)
        return np.divide(sums, there, out=np.full(sums.shape, np.nan), where=there > 0)

    @cached_property
    def course(self) -> Course:
        """The course of the rewards: the mean of each at each step, as a rate from 0, its lowest value in the log, to
        1, its highest.

        NaN where a step holds no value of a reward. A reward that has one value in the whole log, or none in these
        steps, has the rate 0.5.
        """
        batches = self.facts.batches
        step, which = np.unique(batches.step, return_inverse=True)
        total, present = (
            np.stack([np.bincount(which, row, len(step)) for row in rows], axis=1)
            for rows in (batches.rewards.total, batches.rewards.present)
        )
        means = np.divide(total, present, out=np.full(total.shape, np.nan), where=present > 0)
        rates = (means - self.low) / self.range
        rates[:, np.isnan(self.range)] = 0.5
        if self.between is not None:
            inside = (step >= self.between[0]) & (step < self.between[1])
            step, rates = step[inside], rates[inside]
            rates[:, np.isnan(rates).all(0)] = 0.5
        return Course(time=(step - step[0]).astype(float), rates=rates, dispersion=self._dispersion(rates))

    def _dispersion(self, rates: Array) -> Array:
        """Return (rewards,) the dispersion of each reward, which says how uncertain its rate at a step is. The rate is
        the reward's mean as a part of its range.

        The dispersion is the variance of a step's rate, divided by the mean of rate (1 − rate) over the steps. The
        variance is estimated from the distances between the groups of a batch. The dispersion is 1 for a reward with
        one value or none.

        rates: (steps, rewards).
        """
        means = (self._means(self.values) - self.low[:, None]) / self.range[:, None]
        batch = self.table["batch"].to_numpy()[self.starts]
        firsts = starts_of(batch)
        held = np.add.reduceat((~np.isnan(means)).astype(int), firsts, axis=1)  # groups that hold the reward
        middle = np.add.reduceat(np.nan_to_num(means), firsts, axis=1) / np.maximum(held, 1)
        apart = means - middle.repeat(np.diff(firsts, append=len(batch)), axis=1)
        squares = np.add.reduceat(np.nan_to_num(apart) ** 2, firsts, axis=1)
        several = held > 1
        variances = squares / np.maximum(held * (held - 1), 1)
        variance = (variances * several).sum(1) / np.maximum(several.sum(1), 1)
        known = variance / np.maximum(np.nanmean(rates * (1 - rates), axis=0), 1e-9)
        return np.where(np.isnan(self.range), 1.0, np.maximum(known, 1e-6))

    def pushes(self, method: str, weights: tuple[float, ...], gate: Gate | None = None) -> Pushes:
        """Return the push of a setting on each reward, as measured on the sample of the log: a number from −1 to 1.

        The result, a `Pushes`, also holds what is needed to compute the push as the means of the rewards move: the
        standard deviations and correlations of the rewards.

        method, weights, gate: the setting; None for no gate.
        """
        table, names = self.table, self.facts.rewards
        if gate is not None:
            # A gate opens at what is logged, as it does in a trainer, and not at what that is rounded to.
            table = as_counted(self.logged.with_columns(behind(gate, names)), names)
        values = self.values if gate is None else self._values(table)
        sources = self.distances if gate is None else self._distances(values)
        a = np.nan_to_num(self._advantages(table, method, weights))
        spread, of_rewards = (np.sqrt((x**2).mean(1)) for x in (sources, self.distances))
        size = np.sqrt((a**2).mean()) * of_rewards
        measured = np.divide(self.distances @ a / len(a), size, out=np.zeros(len(size)), where=size > 0)
        cross, among = (
            sources @ x.T / len(a) / np.maximum(np.outer(spread, of_x), 1e-300)
            for x, of_x in ((self.distances, of_rewards), (sources, spread))
        )
        return Pushes(
            course=self.course,
            measured=measured,
            weights=np.array(weights),
            decoupled=method_named(method).decoupled,
            spread=spread,
            sources=among,
            cross=cross,
            differing=self._differing,
            gate=None if gate is None else (gate.reward, gate.on, self._passes(gate, values)),
            from_above=self._from_above(gate),
        )

    def _advantages(self, table: pl.DataFrame, method: str, weights: tuple[float, ...]) -> Array:
        """Return (responses,) the advantages that a method gives the responses of a table, under the convention of the
        run.

        If the convention weights the batch step by tokens and the table has no lengths, that step runs over responses.
        A response without any reward gets 0, unless the convention counts such responses or lets missing rewards make
        advantages NaN.

        weights: one per reward. If they are the run's own, and change during the run, each batch has its own.
        """
        convention = ALL_CONVENTIONS[self.facts.basis.convention]
        if convention.last_step == "tokens" and tensors_of(table, self.facts.rewards).lengths is None:
            convention = replace(convention, last_step="responses")
        changes = changes_of(self.facts, weights)
        weights_of_rows = [changes.get(batch, weights) for batch in table["batch"].to_list()]
        made = np.empty(len(table))
        for constant in dict.fromkeys(weights_of_rows):
            rows = np.array([w == constant for w in weights_of_rows])
            log = tensors_of(table.filter(pl.Series(rows)), self.facts.rewards)
            formula, batch = method_for(method, log.read(convention, constant))
            made[rows] = batch.zero_unrewarded(formula(batch).advantages).flatten().numpy()
        return made

    def _passes(self, gate: Gate, values: Array) -> float:
        """Return the factor of a gate: the rate of the gated reward, divided by the product of two other rates. They
        are the rate of the reward without the gate, and the rate of the reward that has to be passed.

        A rate is the mean of a reward, as a number from 0 at its worst to 1 at its best value in the log.

        gate: the rule, with the indices of its two rewards.
        values: (rewards, responses) the rewards as the gate leaves them.
        """
        k, on = gate.reward, gate.on
        turned = np.isin(np.arange(len(values)), self._from_above(gate))
        passing, gated = (np.where(turned, 1 - rates, rates) for rates in map(self._rates, (self.values, values)))
        return float(gated[k] / max(passing[k] * passing[on], 1e-9))

    def _from_above(self, gate: Gate | None) -> tuple[int, ...]:
        """Return the indices of the two rewards of a gate whose highest value is the worst one; () without a gate."""
        if gate is None:
            return ()
        return tuple(
            k for k, turned in ((gate.reward, self.facts.wanted[gate.reward] < 0), (gate.on, gate.at_most)) if turned
        )

    def _rates(self, values: Array) -> Array:
        """Return (rewards,) the mean of each reward over all responses as a rate, from 0 at the lowest value in the log
        to 1 at the highest. NaN for a reward with one value or none.

        values: (rewards, responses).
        """
        there = np.maximum((~np.isnan(values)).sum(1), 1)
        return (np.nan_to_num(values).sum(1) / there - self.low) / self.range

    @cached_property
    def _differing(self) -> DifferingGroups:
        """The share of the groups in which a reward takes different values, for each reward, as a function of its rate.

        The rate of a reward is its mean on a scale from 0, its lowest value in the log, to 1, its highest. For a reward
        that does not have exactly two values in the log, the share is always 1.
        """
        ends = (self.values == self.low[:, None]) | (self.values == self.high[:, None]) | np.isnan(self.values)
        rates = self._rates(self.values)
        degrees = max(len(self.table) - len(self.starts), 1)
        inside = ((self.distances / self.range[:, None]) ** 2).sum(1) / degrees
        within = np.clip(inside / np.maximum(rates * (1 - rates), 1e-9), 0.02, 1.0)
        return DifferingGroups.for_size(np.where(ends.all(1), within, np.nan), int(np.median(self.sizes)))
