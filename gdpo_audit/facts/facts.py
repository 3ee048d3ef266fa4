"""Facts about a run, which all findings read: the figures of its rewards and methods, and the recipe that made its
advantages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from gdpo_audit.logs.groups.run import Run
from gdpo_audit.phrases import reading_remarks
from gdpo_audit.recipe.guesses import WEIGHTS_APART
from gdpo_audit.recipe.recipe import AFTER, Recipe
from gdpo_audit.recipe.solve import same_weights
from gdpo_audit.recipe.weights import UNDIVIDED
from gdpo_audit.sums.figures import Figures
from gdpo_audit.sums.returning import Returning
from gdpo_audit.sums.sentinels import Sentinel
from gdpo_audit.sums.summarise import Summary
from gdpo_audit.sums.sums import Array, LengthSums, MethodSums, Sums
from gdpo_audit.thresholds import MERGED, SCALE_ONLY
from gdpo_audit.unexplained.added import Added
from gdpo_audit.unexplained.residual import Residual
from gdpo_audit.unexplained.shown import NOTHING_SHOWN, Shown
from gdpo_core.frameworks import FRAMEWORKS, Framework
from gdpo_core.pushing import NO_STD

FAR = 100  # how many times the smallest weight the largest may be if ratios are printed with the smallest as 1


@dataclass(frozen=True)
class Examples:
    """Hold the groups that show each kind of finding best.

    `scores` has a row for each group and each kind of finding that the group shows. `rows` has the responses of these
    groups. The columns of `scores`:

    finding: the id of the finding.
    reward: the index of the reward that the finding is about, or null.
    score: how well the group shows it; higher is better.
    group: the id of the group.
    """

    scores: pl.DataFrame  # of each finding and reward, the best group first
    rows: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class Facts(Figures):
    """Hold all that a finding may read of a run: the figures of its rewards and methods, and what is known of how its
    advantages were made.

    Two kinds of batches are not in `batches`: those that repeat the rows of the batch before them, and those that an
    evaluation or another recipe made, where this was found out. So the figures count no row twice, and as far as the
    recipes are known, the figures mix them only where the weights change during the run.
    """

    run: Run
    repeated_batches: Sums[Array]  # batches that repeat the rows of the batch before them; not in `batches`
    overwritten_batches: Sums[Array]  # batches that an evaluation, or another recipe, made; not in `batches` either
    steps: Sequence[int]  # the numbers of the steps that the log holds, ascending
    given_weights: Mapping[str, float]  # the weights that the caller gave, by reward
    intended_method: str | None  # the method that the caller, or a configuration beside the log, asks for
    size_of_evaluations: int | None = None  # the group size in `overwritten_batches`, if it differs from the run's
    recipe_of_the_rest: Recipe | None = None  # what made `overwritten_batches`, if that was another recipe
    tables: Sequence[pl.DataFrame] = ()  # whole batches from all over the run
    summary: Summary | None = None  # of the whole run
    examples: Examples | None = None
    sentinels: Mapping[str, Sentinel] = field(default_factory=dict)  # by reward, a value far from all its others
    # A column that was not read as a reward, and the recipe that makes the advantages if the column is read as one.
    left_out_reward: tuple[str, Recipe] | None = None
    added: Added | None = None  # a column of which a multiple was added to the advantages
    by_themselves: Shown = NOTHING_SHOWN  # what the signs of the advantages show, where no recipe makes them
    pattern: Residual | None = None  # the pattern found in advantages that no recipe makes
    with_all: "Facts | None" = None  # the facts with every reward, where some of them do not count here
    by: "tuple[ValueFacts, ...]" = ()  # the facts of each value of the column that was asked for
    # The members from here on were read from the log by log_details.py.

    # The number of groups left out because several choices of passed parts make a total, and the number of their rows.
    undecided: tuple[int, int] = (0, 0)
    pays: Sequence[float] = ()  # what a pass of each part of a total may pay, where the total alone is logged
    prompt_texts: pl.DataFrame | None = None  # `_place` and text of the prompts that wasted most responses
    characters: LengthSums[Array] | None = None  # lengths of the completions in characters, by batch
    # By the index of a reward whose mean gets worse, its mean on the prompts that come both early and late.
    returning: Mapping[int, Returning] = field(default_factory=dict)

    @property
    def framework(self) -> Framework:
        return FRAMEWORKS[self.run.framework]

    @property
    def recipe(self) -> Recipe | None:
        """The recipe that made the logged advantages; None where none was found, or where the advantages are as small
        as round-off, so that any recipe would reproduce them.
        """
        return None if self.only_round_off else self.basis.recipe

    @cached_property
    def only_round_off(self) -> bool:
        """Whether the recipe that was found shows nothing. No advantage that it computes is larger than the error that
        is allowed, so any other recipe would reproduce the log as well. False if no recipe was found.
        """
        if self.basis.recipe is None:
            return False
        logged_sums = self.batches.logged, self.overwritten_batches.logged
        return not any(sums.wrong.any() or sums.testable.any() for sums in logged_sums)

    @property
    def method(self) -> str:
        """The id of the method that made the logged advantages.

        Where the log does not show it, this is the method that was meant to run, if its advantages were computed on
        this log. Otherwise it is `grpo`.
        """
        if self.recipe is not None:
            return self.recipe.method
        intended = self.intended_method
        return intended if intended is not None and intended in self.methods else "grpo"

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Phrases on the advantages that can follow the name of the method in a sentence: those of the recipe, and
        those that follow from how the log was read.
        """
        of_recipe = () if self.recipe is None else self.recipe.remarks
        of_recipe = (AFTER["factor"], *of_recipe) if self.scaled_by_batch else of_recipe
        return (*of_recipe, *(remark for x in self.run.issues for remark in reading_remarks(x.id, x.details)))

    @cached_property
    def scaled_by_batch(self) -> bool:
        """Whether the weights of the batches differ by a factor alone, though the method divides by nothing. Then each
        batch was multiplied once more, by a number that the log does not name.
        """
        recipe, weights = self.recipe, [made.weights for made in self.basis.changes.values()]
        if recipe is None or recipe.method not in UNDIVIDED or len(self.phases) > 1 or not weights:
            return False
        return any(abs(x - y) > WEIGHTS_APART * abs(y) for w in weights for x, y in zip(w, recipe.weights, strict=True))

    @property
    def step_of(self) -> str:
        """The method whose length of a step the run has, as far as the log shows it. Times a factor of each batch, what
        divides by the batch's std is no other than GRPO without std.
        """
        return NO_STD if self.recipe is not None and NO_STD in (self.recipe.alike or ()) else self.method

    @property
    def weights_by_column(self) -> str | None:
        """The column on whose value the weights of the advantages depend; None where there is none."""
        return next((x.details["column"] for x in self.run.issues if x.id == "weights-by-column"), None)

    @property
    def known_weights(self) -> "Mapping[str, float]":
        """The weights that the log shows, by the name of the reward. A reward whose weight stays open is left out, and
        without a recipe all are. Where the weights change during the run, these are the weights that made the most
        batches.
        """
        known = zip(self.rewards, self.recipe.known, strict=True) if self.recipe else ()
        return {name: w for name, w in known if w is not None}

    @property
    def weights_from(self) -> str:
        """The source of the weights that the figures of the report are computed with, as a key of
        `sentences.WEIGHTS_FROM`, such as "given", "solved" or "assumed".
        """
        if self.given_weights:
            return "given"
        if self.nearest_weights is not None:
            return "nearest"
        if self.recipe is not None and (len(self.recipe.unknown) < len(self.rewards) or not self.run.weights):
            return "solved"
        return self.run.weights_by if self.run.weights and self.run.weights_by else "assumed"

    @property
    def nearest_weights(self) -> tuple[float, ...] | None:
        """The weights that the advantages show, one per reward, although no known method alone made these advantages;
        None where a recipe makes them, or where no weights show.
        """
        if self.recipe is not None:
            return None
        of_pattern = self.pattern.weights if self.pattern is not None else None
        return self.by_themselves.weights or (self.added.recipe.weights if self.added is not None else of_pattern)

    @property
    def trainers_own(self) -> bool:
        """Whether the method that was meant to run is the one that the trainer of this log runs without being told.

        False where no method was meant to run. False also for ms-swift: there, somebody chooses the method in the
        configuration.
        """
        same = self.intended_method is not None and self.intended_method == self.run.configured_method
        return same and self.run.framework != "ms_swift"

    @property
    def method_sums(self) -> MethodSums[float]:
        """The sums over the advantages of the run's own method, `method`."""
        return self.totals.methods[self.method]

    @property
    def is_gdpo(self) -> bool:
        return self.method == "gdpo"

    @property
    def reproduced(self) -> bool | None:
        """Whether the recipe reproduces every logged advantage.

        False also if no recipe was found, or if an evaluation or another recipe made some batches. None where no
        advantage is logged. None, too, where every method would reproduce the log, as the advantages are all 0 or no
        larger than round-off.
        """
        logged = self.totals.logged
        if not logged.count or self.only_round_off or (self.recipe is None and self.all_silent):
            return None
        return bool(self.recipe is not None and logged.wrong == 0 and not len(self.overwritten_batches.batch))

    @cached_property
    def phases(self) -> "Sequence[Phase]":
        """The stretches of the run with constant weights, in order. A new one begins at each step at which the weights
        that make the advantages change. Empty where no recipe was found, except where a total shows the weights of each
        step.
        """
        turns, last = list[Phase](), self.basis.of_batch(-1)
        if self.recipe is None and not (self.basis.recipe is None and self.basis.changes):
            return turns
        for batch, step in zip(self.batches.batch.tolist(), self.batches.step.tolist(), strict=True):
            weights, recipe = made = self.basis.of_batch(batch)
            same = made.weights == last.weights if recipe is None or last.recipe is None else recipe is last.recipe
            if turns and not same and recipe is not None and last.recipe is not None:
                same = same_weights(last.recipe, recipe)
            if not turns or not same:
                known = weights if recipe is None else recipe.known
                up_to_scale = recipe is not None and recipe.up_to_scale
                turns.append(Phase(step, dict(zip(self.rewards, known, strict=True)), up_to_scale))
                last = made
        return turns

    @cached_property
    def lack_rows(self) -> Array:
        """(batches,) whether the log lacks rows of a batch that were there when its advantages were computed.

        This is so if the recipe does not reproduce some advantages of the batch, and two signs agree. The batch has
        fewer rows than the largest batch that the recipe reproduces. And in at least half of the groups that are not
        reproduced, all advantages are off by one factor. The std of a whole batch with more rows would make such a
        factor; a group that lacks rows itself would not be off by one factor.

        False for all batches unless the recipe's method is "gdpo" or "grpo_batch_std". False, too, for all batches if
        the log lacks a whole reward.
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
        """Whether every logged advantage is 0, and each of the `methods` that the audit computed makes all advantages 0
        too.
        """
        return self.all_zero and all(self.silent(m) == 1 for m in self.methods)

    @property
    def lacks_a_reward(self) -> bool:
        """Whether a reward that went into the advantages is missing from the log: in more groups than chance explains,
        responses with equal rewards have different advantages.

        Always False in these cases:
        - `reproduced` is True or None, or a recipe reproduces most batches.
        - The log holds a total alone.
        - The trainer does not log each reward function in a column of its own.
        """
        if self.reproduced is not False or not self.framework.column_per_function or self.run.total_only:
            return False
        # A column that is missing is missing in every batch, so a recipe that makes most batches speaks against it.
        if self.recipe is not None and 2 * (self.batches.logged.wrong == 0).sum() > len(self.batches.batch):
            return False
        groups = self.totals.logged.wrong_groups or self.totals.mixed_groups
        return bool(self.totals.logged.hidden_groups > MERGED * groups)

    @property
    def contradicted(self) -> bool:
        """Whether no known method makes the logged advantages, so that no figure of the report shows what really ran.
        False where no advantage is logged, or where all of them are 0.
        """
        return self.recipe is None and self.reproduced is False and not self.all_zero

    @property
    def ratios_alone(self) -> bool:
        """Whether only the ratios of the weights are known.

        This is so if the recipe leaves a common factor open, and nothing else gives the weights. They may be given by
        the caller, by the log or by a configuration file beside it.
        """
        settled = self.given_weights or (self.run.weights and self.run.weights_by != "assumed")
        return self.recipe is not None and self.recipe.up_to_scale and not settled

    @property
    def unit(self) -> float:
        """The factor by which weights are multiplied before they are printed. It is 1, unless only the ratios of the
        weights are known; then it gives the smallest of the known weights other than 0 the absolute value 1, or the
        largest where it is more than `FAR` times the smallest.
        """
        if self.recipe is None or not self.ratios_alone:
            return 1.0
        known = [abs(w) for w in self.recipe.known if w]
        if not known:
            return 1.0
        return 1 / (max(known) if max(known) > FAR * min(known) else min(known))

    def printed(self, weights: Iterable[float]) -> list[float]:
        """Return weights as they are printed: times the factor `unit`, and rounded to 12 significant digits, to 5
        where only the ratios of the weights are known, or to 4 where the advantages that show them are rounded.
        """
        digits = 4 if self.recipe is not None and self.recipe.grid else 5 if self.ratios_alone else 12
        return [float(f"{self.unit * w:.{digits}g}") for w in weights]

    def functions(self, weights: Iterable[float]) -> tuple[list[str], list[float]]:
        """Return two lists that a configuration needs: the names of the reward functions in the order of the log, and
        their weights as they are printed.

        The lists also hold each reward function of the trainer that does not count, with the weight 0. It has a place
        in the trainer's list of weights all the same.

        weights: one per reward that counts.
        """
        weight_by_name = {x.name: 0.0 for x in self.run.uncounted if x.function}
        weight_by_name |= zip(self.rewards, self.printed(weights), strict=True)
        names = [name for name in self.run.columns if name in weight_by_name]
        return names, [weight_by_name[name] for name in names]


class Phase(NamedTuple):
    """A stretch of a run with constant weights.

    step: the first step of the stretch.
    weights: by reward, the weights that made its advantages; None where the log does not show the weight.
    up_to_scale: whether these weights are known only up to a common factor.
    """

    step: int
    weights: Mapping[str, float | None]
    up_to_scale: bool


@dataclass(frozen=True)
class ValueFacts:
    """The facts of all groups that have one value of a column, such as one task.

    The last record of several may hold the facts of all groups whose values are too rare to be shown one by one. Its
    `value` is then words such as "12 others".
    """

    value: str | None  # None: the groups where the column has no value
    values: int  # how many values these groups have
    facts: Facts  # its `batches` holds a single entry, the sums of all of these groups together
