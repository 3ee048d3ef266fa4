"""Facts that the findings read: a run, the sums over its batches, and the recipe of the logged advantages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
import polars as pl

from gdpo_audit.findings.relations import Relation, relations_of
from gdpo_audit.findings.residual import Residual
from gdpo_audit.findings.shown import NOTHING_SHOWN, Shown
from gdpo_audit.findings.summarise import Summary
from gdpo_audit.findings.sums import Array, Basis, LengthSums, MethodSums, Sums, push_of, total
from gdpo_audit.findings.thresholds import CHANCE, MERGED, SCALE_ONLY
from gdpo_audit.logs.run import Run
from gdpo_audit.recipe.added import Added
from gdpo_audit.recipe.recipe import Recipe
from gdpo_audit.recipe.solve import same_weights
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import FRAMEWORKS, Framework
from gdpo_core.ties import Order


@dataclass(frozen=True)
class Examples:
    """The groups that show a finding best, with their scores, and the rows of these groups."""

    scores: pl.DataFrame  # finding, reward (the number of the one it is about, or null), score, group; the best first
    rows: pl.DataFrame


@dataclass(frozen=True)
class Facts:
    """Hold a run as the findings read it. A batch that repeats the rows of the batch before it is counted once."""

    run: Run
    basis: Basis
    batches: Sums[Array]
    repeated_batches: Sums[Array]  # batches that repeat the rows of the batch before them; not in `batches`
    overwritten_batches: Sums[Array]  # batches that an evaluation, or another method, made; not in `batches` either
    steps: Sequence[int]  # the numbers of the steps that the log holds, ascending
    given_weights: Mapping[str, float]  # that the caller named, by reward
    intended_method: str | None  # that the caller, or a configuration beside the log, asks for
    size_of_evaluations: int | None = None  # of the groups of `overwritten_batches`, where it is another
    recipe_of_the_rest: Recipe | None = None  # of another method, which made `overwritten_batches`
    tables: Sequence[pl.DataFrame] = ()  # whole batches from all over the run
    summary: Summary | None = None  # of the whole run
    examples: Examples | None = None
    left_out_reward: tuple[str, Recipe] | None = None  # a column, and what makes the advantages if it is a reward too
    added: Added | None = None  # a column that was added to the advantages
    by_themselves: Shown = NOTHING_SHOWN  # what the advantages show, where no recipe makes them
    pattern: Residual | None = None  # what else is known of them then
    with_all: "Facts | None" = None  # with the rewards that do not count, where there are such
    by: "tuple[ValueFacts, ...]" = ()  # the same of each value of the column that was asked for
    # The members from here on were read from the log by log_details.py.
    undecided: tuple[int, int] = (0, 0)  # groups left out because a total in them has several sums of pays; their rows
    pays: Sequence[float] = ()  # that the parts of a total may have, where it alone is logged
    prompt_texts: pl.DataFrame | None = None  # `_place` and text of the prompts that wasted most
    characters: LengthSums[Array] | None = None  # lengths of the completions in characters, by batch

    @cached_property
    def totals(self) -> Sums[float]:
        """The sums over `batches`."""
        return total(self.batches)

    @property
    def framework(self) -> Framework:
        return FRAMEWORKS[self.run.framework]

    @property
    def recipe(self) -> Recipe | None:
        """The recipe of the logged advantages; None where no recipe makes them, or any would, as they are round-off."""
        return None if self.only_round_off else self.basis.recipe

    @cached_property
    def only_round_off(self) -> bool:
        """Whether advantages are logged that any recipe reproduces, as round-off may be as large as they are."""
        if self.basis.recipe is None:
            return False
        logged_sums = self.batches.logged, self.overwritten_batches.logged
        return not any(sums.wrong.any() or sums.testable.any() for sums in logged_sums)

    @property
    def rewards(self) -> tuple[str, ...]:
        return self.basis.rewards

    @property
    def methods(self) -> list[str]:
        """The methods that were computed on this log."""
        return [m for m in NAMES if m in self.totals.methods]

    @property
    def method(self) -> str:
        """The method that made the advantages; if the log does not show it, the intended one, else GRPO."""
        if self.recipe is not None:
            return self.recipe.method
        intended = self.intended_method
        return intended if intended is not None and intended in self.methods else "grpo"

    @property
    def known_weights(self) -> "Mapping[str, float]":
        """The weights that the log shows, by reward; of most batches where they change, and none without a recipe."""
        known = zip(self.rewards, self.recipe.known, strict=True) if self.recipe else ()
        return {name: w for name, w in known if w is not None}

    @property
    def weights_from(self) -> str:
        """The origin of the weights of the figures, as a key of `sentences.WEIGHTS_FROM`."""
        if self.given_weights:
            return "given"
        if self.nearest_weights is not None:
            return "nearest"
        if self.recipe is not None and (len(self.recipe.unknown) < len(self.rewards) or not self.run.weights):
            return "solved"
        return self.run.weights_by if self.run.weights and self.run.weights_by else "assumed"

    @property
    def nearest_weights(self) -> tuple[float, ...] | None:
        """The weights that show although no known method made the advantages; None if a recipe did, or none show."""
        if self.recipe is not None:
            return None
        of_pattern = self.pattern.weights if self.pattern is not None else None
        return self.by_themselves.weights or (self.added.recipe.weights if self.added is not None else of_pattern)

    @property
    def trainers_own(self) -> bool:
        """Whether the intended method is only the trainer's default, which nobody set or asked for."""
        same = self.intended_method is not None and self.intended_method == self.run.configured_method
        return same and self.run.framework != "ms_swift"  # whose configuration names it

    @property
    def method_sums(self) -> MethodSums[float]:
        """The sums over the advantages of the run's method, which is `method`."""
        return self.totals.methods[self.method]

    @property
    def is_gdpo(self) -> bool:
        return self.method == "gdpo"

    @property
    def reproduced(self) -> bool | None:
        """Whether the recipe reproduces every logged advantage; None if none is logged, or every method does so."""
        logged = self.totals.logged
        if not logged.count or self.only_round_off or (self.recipe is None and self.all_silent):
            return None
        return bool(self.recipe is not None and logged.wrong == 0 and not len(self.overwritten_batches.batch))

    @cached_property
    def phases(self) -> "Sequence[Phase]":
        """The phases of the run with the weights that made its advantages; empty where the log does not show them."""
        turns, last = list[Phase](), self.recipe
        if last is None:
            return turns
        for batch, step in zip(self.batches.batch.tolist(), self.batches.step.tolist(), strict=True):
            recipe = self.basis.of_batch(batch).recipe
            assert recipe is not None, "there is one of the run"
            if not turns or (recipe is not last and not same_weights(last, recipe)):
                turns.append(Phase(step, dict(zip(self.rewards, recipe.known, strict=True)), recipe.up_to_scale))
                last = recipe
        return turns

    @cached_property
    def lack_rows(self) -> Array:
        """(batches,) whether a batch lacks rows that were there when its advantages were computed.

        It has fewer rows than others, and most of its groups that are not reproduced are off by one factor each: a
        method that looks at the whole batch computed them over more rows. A group that was cut is off by more than a
        factor.
        """
        logged = self.batches.logged
        if self.recipe is None or self.lacks_a_reward or self.recipe.method not in ("gdpo", "grpo_batch_std"):
            return np.zeros(len(logged.wrong), dtype=bool)
        most = self.batches.responses[logged.wrong == 0].max(initial=0)
        multiple = logged.scaled_groups >= SCALE_ONLY * logged.wrong_groups
        return (logged.wrong > 0) & multiple & (self.batches.responses < most)

    @property
    def all_zero(self) -> bool:
        """Whether advantages are logged and all of them are 0."""
        return bool(self.totals.logged.zeros == self.totals.logged.count > 0)

    @property
    def all_silent(self) -> bool:
        """Whether every logged advantage is 0, and every method makes them 0."""
        return self.all_zero and all(self.silent(m) == 1 for m in self.methods)

    @property
    def lacks_a_reward(self) -> bool:
        """Whether a reward that made the advantages is missing, in a log with one column per reward function."""
        if self.reproduced is not False or not self.framework.column_per_function or self.run.total_only:
            return False
        # A column that is missing is missing in every batch, so a recipe that makes most batches speaks against it.
        if self.recipe is not None and 2 * (self.batches.logged.wrong == 0).sum() > len(self.batches.batch):
            return False
        groups = self.totals.logged.wrong_groups or self.totals.mixed_groups
        return bool(self.totals.logged.hidden_groups > MERGED * groups)

    @property
    def contradicted(self) -> bool:
        """Whether no known method makes the logged advantages: no figure is that of what ran. False if all are 0."""
        return self.recipe is None and self.reproduced is False and not self.all_zero

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """The rewards that are weighted sums of earlier ones inside every group, each with these and their weights."""
        return tuple(relations_of(self.rewards, self.totals))

    @property
    def alike(self) -> set[str]:
        """The rewards that are part of a relation, whose shares of the update the log does not tell."""
        return {linked for name, terms in self.relations for linked in (name, *terms)}

    # --- one reward; k is its index ---

    def dead(self, k: int) -> float:
        """Return the share of the groups holding the reward in which it is constant; 1 where no group holds it."""
        holding = self.totals.rewards.holding_groups[k]
        missing = self.totals.groups - holding
        return ratio(self.totals.rewards.dead_groups[k] - missing, holding) if holding else 1.0

    def dead_or_missing(self, k: int) -> float:
        """Return the share of all groups in which the reward is constant or missing, so that it does nothing."""
        return ratio(self.totals.rewards.dead_groups[k], self.totals.groups)

    def coverage(self, k: int) -> float:
        """Return the share of all groups that hold the reward."""
        return ratio(self.totals.rewards.holding_groups[k], self.totals.groups)

    def faint(self, k: int) -> float:
        """Return the share of nearly constant groups among those in which the reward differs; 0 without these."""
        differs = self.totals.groups - self.totals.rewards.dead_groups[k]
        return ratio(self.totals.rewards.faint_groups[k], differs) if differs else 0.0

    def mean(self, k: int) -> float:
        return ratio(self.totals.rewards.total[k], self.totals.rewards.present[k])

    def highest(self, k: int) -> float:
        return float(self.totals.rewards.high[k])

    def worst(self, k: int) -> float:
        """Return what a closed gate pays instead of the reward: the worse of 0 and its worst logged value, which is its
        highest where its weight is negative.
        """
        # Under a weight below 0 the highest value is the worst one.
        if self.basis.weights[k] >= 0:
            return min(float(self.totals.rewards.low[k]), 0.0)
        return max(self.highest(k), 0.0)

    def correlation(self, i: int, j: int) -> float:
        """Return the correlation of two rewards inside groups; NaN where one of them is constant in every group."""
        sums = self.totals.rewards
        return ratio(sums.products[i, j], sqrt(sums.squared[i, j] * sums.squared[j, i]))

    def by_chance(self, *rewards: int) -> float:
        """Return the size up to which a correlation counts as chance; rewards: the indices of the one or two in it."""
        return CHANCE / sqrt(max(min(self.totals.rewards.degrees[list(rewards)]), 1))

    def share_of_squares(self, k: int) -> float:
        """Return the share of the update that the weight asks for: that of its square among the squares of all weights.

        A reward has this share where all rewards differ equally and are not correlated. It is a mean over the groups,
        where only rewards count that a group holds.
        """
        return self._over_groups(self._by_weights(self.coverage)[k])

    def due_share(self, k: int) -> float:
        """Return the share of the update that the weight asks for in the groups where the reward differs.

        In the other groups no weight can do anything.
        """
        return self._over_groups(self.due_shares(k))

    def due_shares(self, k: int) -> Array:
        """Return (batches,) the share that the weight of each batch asks for where the reward differs."""
        return self._by_weights(lambda i: 1 - self.dead_or_missing(i))[k]

    def _by_weights(self, acts: Callable[[int], float]) -> Array:
        """Return (rewards, batches) the shares of w² · acts in their sum; acts: in which share of groups i acts."""
        squares = np.square(self._weights) * np.array([[acts(k)] for k in range(len(self.rewards))])
        whole = squares.sum(0)
        return np.divide(squares, whole, out=np.full_like(squares, nan), where=whole > 0)

    @cached_property
    def _weights(self) -> Array:
        """(rewards, batches) the weights of each batch."""
        batches = self.batches.batch.tolist()
        each = [self.basis.of_batch(b).weights for b in batches] if self.basis.changes else [self.basis.weights]
        return np.broadcast_to(each, (len(batches), len(self.rewards))).T

    def _over_groups(self, of_batch: Array) -> float:
        """Return the mean over all groups of a number that each batch has, without the batches where it is NaN."""
        known = of_batch == of_batch
        return ratio(of_batch[known] @ self.batches.groups[known], self.batches.groups[known].sum())

    @property
    def ratios_alone(self) -> bool:
        """Whether weights are known up to a common factor only."""
        settled = self.given_weights or (self.run.weights and self.run.weights_by != "assumed")
        return self.recipe is not None and self.recipe.up_to_scale and not settled

    @property
    def unit(self) -> float:
        """The factor of weights in print: 1, or, where only ratios are known, the one that makes the smallest 1."""
        if self.recipe is None or not self.ratios_alone:
            return 1.0
        known = [abs(w) for w in self.recipe.known if w]
        return 1 / min(known) if known else 1.0

    def printed(self, weights: Iterable[float]) -> list[float]:
        """Return weights as they are printed: times `unit`, with 12 digits, or 5 where ratios alone are known."""
        digits = 5 if self.ratios_alone else 12
        return [float(f"{self.unit * w:.{digits}g}") for w in weights]

    def functions(self, weights: Iterable[float]) -> tuple[list[str], list[float]]:
        """Return the names of the reward functions and their weights as lines of configuration need them.

        A function whose weight is 0 is among them, as it has its place in the list of weights.
        """
        weight_by_name = {x.name: 0.0 for x in self.run.uncounted if x.function}
        weight_by_name |= zip(self.rewards, self.printed(weights), strict=True)
        names = [name for name in self.run.columns if name in weight_by_name]
        return names, [weight_by_name[name] for name in names]

    # --- one method ---

    def shares(self, method: str) -> list[float]:
        """Return each reward's share of the update, as `gdpo_core.update_share`.

        NaN for all if every advantage is 0, and for rewards that are linked by a relation.
        """
        sums = self.totals.methods[method]
        shares = zip(self.rewards, sums.update.tolist(), strict=True)
        return [nan if name in self.alike else ratio(update, sums.squares) for name, update in shares]

    def push(self, method: str) -> list[float]:
        """Return the push on each reward, as `gdpo_core.push`; unlike `shares`, also for rewards in a relation."""
        sums = self.totals.methods[method]
        return [float(x) for x in push_of(sums.pushed, sums.distances, sums.squares)]

    def punished(self, method: str) -> list[float]:
        """Return for each reward the share of the responses above their group's mean whose advantage is 0 or less; NaN
        where no response is above it.
        """
        sums = self.totals.methods[method]
        return [ratio(punished, above) for punished, above in zip(sums.punished, sums.above, strict=True)]

    def silent(self, method: str) -> float:
        """Return the share of the groups in which every advantage is 0."""
        return ratio(self.totals.methods[method].silent_groups, self.totals.groups)

    def ties(self, method: str) -> float:
        """Return the share of the groups whose rewards differ in which different rewards get the same advantage."""
        sums = self.totals.methods[method]
        return ratio(sums.tie_groups, sums.mixed_groups)

    def tied_pairs(self, method: str) -> float:
        """Return the share of the pairs with different rewards in a group that get the same advantage."""
        sums = self.totals.methods[method]
        return ratio(sums.tied_pairs, sums.different_pairs)

    def order(self, method: str) -> Order:
        """Count the pairs with different primary reward that are in the right order, tied and in the wrong order."""
        sums = self.totals.methods[method]
        pairs, tied, wrong = int(sums.primary_pairs), int(sums.tied_primary), int(sums.inverted)
        return Order(pairs - tied - wrong, tied, wrong)

    def inversions(self, method: str) -> float:
        """Return the share of the pairs with different primary reward whose lower one gets the larger advantage."""
        return ratio(self.order(method).wrong, self.order(method).pairs)


class Phase(NamedTuple):
    """Weights that made the advantages from one step on, until the next phase."""

    step: int  # the first
    weights: Mapping[str, float | None]  # None: the log does not show it
    up_to_scale: bool


@dataclass(frozen=True)
class ValueFacts:
    """The facts of the groups that have one value of a column, or any of the many values that are not shown alone."""

    value: str | None  # None: missing
    values: int  # how many these are
    facts: Facts  # `batches` is all of these groups together


def ratio(numerator: float, denominator: float) -> float:
    """Return the numerator divided by the denominator; NaN where the denominator is 0."""
    return float(numerator / denominator) if denominator else nan
