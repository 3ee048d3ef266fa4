"""What the findings are made from: a run, the sums over its batches, and what made the logged advantages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt

import polars as pl

from gdpo_core import rules
from gdpo_core.findings.thresholds import CHANCE
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
    overwritten: pl.DataFrame  # those that an evaluation wrote, left out too
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
        if not self.totals["logged"] or (self.recipe is None and self.all_silent):
            return None
        return self.recipe is not None and self.totals["rows_off"] == 0 and not len(self.overwritten)

    @property
    def all_silent(self) -> bool:
        """Whether every logged advantage is 0, and every method makes it so."""
        silent = all(self.totals[f"{m}_silent_groups"] == self.totals["groups"] for m in self.methods)
        return silent and self.totals["logged_zero"] == self.totals["logged"] > 0

    def part(self, what: str, of: str) -> float:
        """One sum as a share of another; NaN of nothing."""
        return self.totals[what] / self.totals[of] if self.totals[of] else nan

    def dead(self, k: int) -> float:
        """Of the groups that hold the reward, the share in which it is constant; 1 where none holds it."""
        held = self.totals[f"there_groups_{k}"]
        return (self.totals[f"dead_groups_{k}"] - (self.totals["groups"] - held)) / held if held else 1.0

    def idle(self, k: int) -> float:
        """Share of all groups in which the reward does nothing: it is constant there, or missing."""
        return self.part(f"dead_groups_{k}", "groups")

    def held(self, k: int) -> float:
        """Share of all groups that hold the reward."""
        return self.part(f"there_groups_{k}", "groups")

    def faint(self, k: int) -> float:
        """Of the groups in which the reward differs, the share in which it hardly does; see `sums.FAINT`."""
        differs = self.totals["groups"] - self.totals[f"dead_groups_{k}"]
        return self.totals[f"faint_groups_{k}"] / differs if differs else 0.0

    def worst(self, k: int) -> float:
        """What a gate leaves of the reward: 0, or a penalty at its worst; a weight below 0 turns the sign round."""
        low, high = self.totals[f"low_{k}"], self.totals[f"high_{k}"]
        if low is None:
            return 0.0
        return min(low, 0.0) if self.plan.weights[k] >= 0 else max(high, 0.0)

    def shares(self, method: str) -> list[float]:
        """Each reward's part of the advantages' variance under a method; they sum to 1, NaN if all advantages are 0."""
        parts = [self.totals[f"{method}_part_{k}"] for k in range(len(self.rewards))]
        return [part / sum(parts) for part in parts] if sum(parts) else [nan] * len(parts)

    def correlation(self, i: int, j: int) -> float:
        """How two rewards go together inside groups, −1 to 1; NaN where one of them is constant."""
        i, j = sorted((i, j))
        size = sqrt(self.totals[f"cross_squares_{i}_{j}"] * self.totals[f"cross_squares_{j}_{i}"])
        return self.totals[f"cross_{i}_{j}"] / size if size else nan

    def by_chance(self, *rewards: int) -> float:
        """The correlation inside groups that rewards which have nothing to do with each other may well show."""
        return CHANCE / sqrt(max(min(self.totals[f"spread_count_{k}"] for k in rewards), 1))

    def ties(self, method: str) -> float:
        """Of the groups whose rewards differ, the share in which a method gives different rewards one advantage."""
        return self.part(f"{method}_tie_groups", f"{method}_mixed_groups")

    def inversions(self, method: str) -> float:
        """Of the pairs with different primary reward, the share in which the worse response gets more."""
        return self.part(f"{method}_inverted", f"{method}_primary_pairs") if self.plan.primary is not None else nan


def percent(share: float) -> str:
    """A share in words: whole, but one decimal where whole ones would hide it.

    >>> percent(0.314), percent(0.004), percent(-0.07), percent(1), percent(float("nan"))
    ('31 %', '0.4 %', '−7 %', '100 %', '–')
    >>> percent(0.0004), percent(-0.0004), percent(0.9996)
    ('under 0.1 %', 'about 0 %', 'over 99.9 %')
    """
    if not isfinite(share):
        return "–"
    size = abs(round(100 * share, 6))  # what is left of rounding is nothing
    if 0 < size < 0.1:
        return "under 0.1 %" if share > 0 else "about 0 %"
    if 99.9 < size < 100:
        return "over 99.9 %" if share > 0 else "under −99.9 %"
    text = f"{size:.1f} %" if 0 < size < 1 or 99 < size < 100 else f"{size:.0f} %"
    return f"−{text}" if share < 0 and size else text


def signed(x: float) -> str:
    """A correlation.

    >>> signed(0.314), signed(-0.5)
    ('+0.31', '−0.50')
    """
    return f"{x:+.2f}".replace("-", "−")


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
