"""What a finding reads: a run, the sums over its batches, and the recipe of the logged advantages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import polars as pl

from gdpo_core import rules
from gdpo_core._words import listing
from gdpo_core.logs import Run
from gdpo_core.reproduce import Recipe
from gdpo_core.runs.sums import Plan, Summary, totals
from gdpo_core.runs.thresholds import CHANCE

NAMES = rules.NAMES | {"grpo_batch_std": "GRPO with the batch's std"}


SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Finding:
    """One thing that the owner of a run should know."""

    id: str
    severity: str  # info, warning or error
    message: str  # what it is, what it means and what to do about it
    evidence: Mapping[str, object]  # the numbers, and the thresholds they were held against
    fix: str | None  # the line of configuration that changes it, for the framework of the run

    @property
    def headline(self) -> str:
        """The first sentence of the message: the fact, without its meaning and what to do."""
        return f"{self.message.split('. ')[0].removesuffix('.')}."


@dataclass(frozen=True)
class Facts:
    """A run as the findings read it. A batch that repeats the rows of the batch before it is counted once."""

    run: Run
    plan: Plan
    totals: Mapping[str, float]  # see `sums`; named as the columns of a summary
    batches: pl.DataFrame  # one row per batch
    repeated: pl.DataFrame  # batches that repeat the rows of the batch before them; not in `batches`
    overwritten: pl.DataFrame  # batches that an evaluation wrote; not in `batches` either
    steps: Sequence[int]  # the numbers of the steps that the log holds, ascending
    given: Mapping[str, float]  # weights that the caller named, by reward
    asked: str | None  # the method that the caller, or a configuration beside the log, asks for

    @property
    def recipe(self) -> Recipe | None:
        return self.plan.recipe

    @property
    def rewards(self) -> tuple[str, ...]:
        return self.plan.rewards

    @property
    def methods(self) -> list[str]:
        """The methods that were computed on this log."""
        return [m for m in NAMES if f"{m}_silent_groups" in self.totals]

    @property
    def acting(self) -> str:
        """The method that made the advantages; if the log does not show it, the one asked for, else GRPO."""
        if self.recipe is not None:
            return self.recipe.method
        return self.asked if self.asked is not None and self.asked in self.methods else "grpo"

    @property
    def is_gdpo(self) -> bool:
        return self.acting == "gdpo"

    @property
    def under(self) -> str:
        """The start of a sentence about the acting method."""
        name = f"Under {NAMES[self.acting]}"
        if self.recipe is not None:
            return name
        why = "which was asked for" if self.asked == self.acting else "taken as the default"
        return f"{name} ({why}: the log does not show the method)"

    @property
    def reproduced(self) -> bool | None:
        """Whether every logged advantage is reproduced; None where none is logged, or every method reproduces them."""
        if not self.totals["logged"] or (self.recipe is None and self.all_silent):
            return None
        return self.recipe is not None and self.totals["rows_off"] == 0 and not len(self.overwritten)

    @property
    def all_silent(self) -> bool:
        """Whether every logged advantage is 0, and every method makes them 0."""
        silent = all(self.totals[f"{m}_silent_groups"] == self.totals["groups"] for m in self.methods)
        return silent and self.totals["logged_zero"] == self.totals["logged"] > 0

    def part(self, what: str, of: str) -> float:
        """One sum divided by another; NaN where the other is 0."""
        return self.totals[what] / self.totals[of] if self.totals[of] else nan

    def dead(self, k: int) -> float:
        """The share, of the groups that hold the reward, in which it is constant; 1 where no group holds it."""
        held = self.totals[f"there_groups_{k}"]
        return (self.totals[f"dead_groups_{k}"] - (self.totals["groups"] - held)) / held if held else 1.0

    def idle(self, k: int) -> float:
        """The share of all groups in which the reward is constant or missing, so that it does nothing."""
        return self.part(f"dead_groups_{k}", "groups")

    def held(self, k: int) -> float:
        """The share of all groups that hold the reward."""
        return self.part(f"there_groups_{k}", "groups")

    def faint(self, k: int) -> float:
        """The share, of the groups in which the reward differs, in which it is nearly constant; see `FAINT`."""
        differs = self.totals["groups"] - self.totals[f"dead_groups_{k}"]
        return self.totals[f"faint_groups_{k}"] / differs if differs else 0.0

    def worst(self, k: int) -> float:
        """What a closed gate puts in place of the reward: 0, or the worst value of a reward that can be a penalty."""
        # A weight below 0 makes the highest value the worst; of a reward that is missing everywhere there is none.
        if self.plan.weights[k] >= 0:
            return min(self.totals.get(f"low_{k}", 0.0), 0.0)
        return max(self.totals.get(f"high_{k}", 0.0), 0.0)

    def shares(self, method: str) -> list[float]:
        """Each reward's part of the variance of a method's advantages. They sum to 1; NaN if all advantages are 0."""
        parts = [self.totals[f"{method}_part_{k}"] for k in range(len(self.rewards))]
        return [part / sum(parts) for part in parts] if sum(parts) else [nan] * len(parts)

    def correlation(self, i: int, j: int) -> float:
        """The correlation of two rewards inside groups; NaN where one of them is constant in every group."""
        i, j = sorted((i, j))
        size = sqrt(self.totals[f"cross_squares_{i}_{j}"] * self.totals[f"cross_squares_{j}_{i}"])
        return self.totals[f"cross_{i}_{j}"] / size if size else nan

    def by_chance(self, *rewards: int) -> float:
        """The correlation inside groups that independent rewards may show by chance."""
        return CHANCE / sqrt(max(min(self.totals[f"spread_count_{k}"] for k in rewards), 1))

    def ties(self, method: str) -> float:
        """The share, of the groups whose rewards differ, in which different rewards get the same advantage."""
        return self.part(f"{method}_tie_groups", f"{method}_mixed_groups")

    def inversions(self, method: str) -> float:
        """The share, of the pairs with different primary reward, in which the worse response gets more."""
        return self.part(f"{method}_inverted", f"{method}_primary_pairs") if self.plan.primary is not None else nan


def sums(summary: Summary) -> dict[str, float]:
    """The totals of a summary, without those of nothing: the lowest value of a reward that is missing everywhere."""
    return {name: total for name, total in totals(summary).items() if total is not None}


def real(value: object) -> float:
    """A number as an aggregate of polars returns it; NaN for null, which is the aggregate of nothing."""
    return value if isinstance(value, int | float) else nan


def off_by_a_factor(batches: pl.DataFrame) -> float:
    """Of the groups that are not reproduced, the share whose advantages are a positive multiple of the recipe's."""
    return real(batches["groups_off_same_direction"].sum()) / max(real(batches["groups_off"].sum()), 1)


def some(items: Iterable[object]) -> str:
    """Items in a sentence, which names about eight and counts the rest.

    >>> some([1, 2, 3]), some(range(20))
    ('1, 2 and 3', '0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    return listing(items, most=8)


def at_steps(steps: Sequence[int]) -> str:
    """The steps in a sentence.

    >>> at_steps([3]), at_steps([3, 5])
    ('step 3', 'steps 3 and 5')
    """
    return f"step{'s' * (len(steps) > 1)} {some(steps)}"
