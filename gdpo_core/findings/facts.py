"""What the findings are made from: a run, the sums over its batches, and what made the logged advantages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import polars as pl

from gdpo_core import rules
from gdpo_core.logs import Run
from gdpo_core.reproduce import Recipe
from gdpo_core.summary import Plan

NAMES = rules.NAMES | {"grpo_batch_std": "GRPO with the batch's std"}
_SHOWN = 8  # steps named in a sentence


@dataclass(frozen=True)
class Finding:
    """One thing about a run that its owner should know."""

    id: str
    severity: str  # info, warning or error
    message: str  # what it is, what it means and what to do about it
    evidence: Mapping[str, object]  # the numbers, and the thresholds they were held against
    fix: str | None  # the line of configuration that changes it, for the framework of the run

    @property
    def headline(self) -> str:
        """The fact, without what it means and what to do."""
        return f"{self.message.split('. ')[0].removesuffix('.')}."


@dataclass(frozen=True)
class Facts:
    """A run as the findings see it; batches that hold the same rows again are counted once."""

    run: Run
    plan: Plan
    totals: Mapping[str, float]  # sums over the batches, named as the columns of a summary
    batches: pl.DataFrame  # a row a batch
    repeated: pl.DataFrame  # the batches that hold the rows of the one before them, left out of the sums
    steps: Sequence[int]  # the numbers of the steps that the log holds, ascending
    given: Mapping[str, float]  # weights that the caller named
    asked: str | None  # the method that the caller or a configuration beside the log asks for

    @property
    def recipe(self) -> Recipe | None:
        return self.plan.recipe

    @property
    def rewards(self) -> tuple[str, ...]:
        return self.plan.rewards

    @property
    def methods(self) -> list[str]:
        """The methods whose outcome on this log is known."""
        return [m for m in NAMES if f"{m}_silent_groups" in self.totals]

    @property
    def acting(self) -> str:
        """The method that made the advantages; if the log doesn't show it, the one asked for, else GRPO."""
        if self.recipe is not None:
            return self.recipe.method
        return self.asked if self.asked in self.methods else "grpo"

    @property
    def is_gdpo(self) -> bool:
        return self.acting == "gdpo"

    @property
    def under(self) -> str:
        """How a sentence about the acting method starts."""
        name = f"Under {NAMES[self.acting]}"
        if self.recipe is not None:
            return name
        why = "which was asked for" if self.asked == self.acting else "taken as the default"
        return f"{name} ({why}: the log does not show the method)"

    @property
    def reproduced(self) -> bool | None:
        """Whether every logged advantage comes out; None if none is logged, or every method makes them."""
        silent = self.totals["logged_zero"] == self.totals["logged"] and not self.totals["mixed_groups"]
        if not self.totals["logged"] or (self.recipe is None and silent):
            return None
        return self.recipe is not None and self.totals["rows_off"] == 0

    def part(self, what: str, of: str) -> float:
        """One sum as a share of another; NaN of nothing."""
        return self.totals[what] / self.totals[of] if self.totals[of] else nan

    def dead(self, k: int) -> float:
        """Share of all groups in which the reward is constant."""
        return self.part(f"dead_groups_{k}", "groups")

    def shares(self, method: str) -> list[float]:
        """Each reward's part of the advantages' variance under a method; they sum to 1, NaN if all advantages are 0."""
        parts = [self.totals[f"{method}_part_{k}"] for k in range(len(self.rewards))]
        return [part / sum(parts) for part in parts] if sum(parts) else [nan] * len(parts)

    def correlation(self, i: int, j: int) -> float:
        """How two rewards go together inside groups, −1 to 1; NaN where one of them is constant."""
        i, j = sorted((i, j))
        size = sqrt(self.totals[f"cross_squares_{i}_{j}"] * self.totals[f"cross_squares_{j}_{i}"])
        return self.totals[f"cross_{i}_{j}"] / size if size else nan

    def ties(self, method: str) -> float:
        """Of the groups whose rewards differ, the share in which a method gives different rewards one advantage."""
        return self.part(f"{method}_tie_groups", f"{method}_mixed_groups")

    def inversions(self, method: str) -> float:
        """Of the pairs with different primary reward, the share in which the worse response gets more."""
        return self.part(f"{method}_inverted", f"{method}_primary_pairs") if self.plan.primary is not None else nan


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.314), percent(0.004), percent(0.9996), percent(1)
    ('31 %', '0.4 %', '99.9 %', '100 %')
    """
    if 0 < share < 0.01 or 0.99 < share < 1:
        return f"{min(max(100 * share, 0.1), 99.9):.1f} %"
    return f"{100 * share:.0f} %".replace("-", "−")


def count(n: float, thing: str, things: str | None = None) -> str:
    """A number of things.

    >>> count(1, "group"), count(1200, "group"), count(2, "batch", "batches")
    ('1 group', '1,200 groups', '2 batches')
    """
    return f"{int(n):,} {thing if n == 1 else things or f'{thing}s'}"


def named(items: Sequence[object]) -> str:
    """A list as a sentence has it.

    >>> named(["a"]), named([1, 2, 3]), named(range(20))
    ('a', '1, 2 and 3', '0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    texts = [str(item) for item in items]
    if len(texts) > _SHOWN + 1:
        texts = [*texts[:_SHOWN], f"{len(texts) - _SHOWN:,} more"]
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def at_steps(steps: Sequence[int]) -> str:
    """Where in the run.

    >>> at_steps([3]), at_steps([3, 5])
    ('step 3', 'steps 3 and 5')
    """
    return f"step{'s' * (len(steps) > 1)} {named(steps)}"
