"""The drift of each reward: how its mean changes during a run, and where it gets worse most clearly."""

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

import numpy as np

from gdpo_audit import thresholds as t
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.quarters import facts_of_quarters, quarters_of
from gdpo_audit.sums.figures import ratio
from gdpo_audit.sums.returning import EarlyAndLate


class Drift(NamedTuple):
    """The change in the mean of a reward from the first quarter of the batches to the last.

    first: the mean in the first quarter.
    last: the mean in the last quarter.
    size: the change in standard deviations of the reward, above 0 if the mean gets better. For a reward with a weight
        below 0, lower is better, and of one that the run wants neither higher nor lower, the size is 0.
    beyond_chance: whether the change is larger than chance explains.
    """

    first: float
    last: float
    size: float
    beyond_chance: bool

    def moves(self, sign: int) -> bool:
        """Return whether the mean of the reward changes in the direction `sign`: 1 for better, −1 for worse.

        False where it changes by less than `FALLS` standard deviations of the reward over the run, or where chance
        alone may explain the change.
        """
        return self.beyond_chance and sign * self.size >= t.FALLS


def drifts_of(f: Facts) -> dict[int, Drift]:
    """Return the drift of each reward, that is the change in its mean, by the index of the reward.

    A reward is left out if too few groups hold it in the first or the last quarter of the batches. It is also left out
    if it has one value in the whole run. The result is {} for a run of fewer than `FADES_BATCHES` batches, or if one
    step reaches from the first quarter of the batches into the last.
    """
    size, step = len(f.batches.batch) // 4, f.batches.step
    if len(step) < t.FADES_BATCHES or step[size - 1] == step[-size]:
        return {}
    drifts = {}
    for k, quarters in enumerate(facts_of_quarters(f)):
        spread = sqrt(ratio(f.totals.rewards.scatter[k], max(f.totals.rewards.present[k] - 1, 1)))
        if not spread > 0 or any(facts.totals.rewards.holding_groups[k] < t.FADES_GROUPS for facts in quarters):
            continue
        chance = t.CHANCE * sqrt(sum(_squared_error(facts, k) for facts in quarters))
        first, last = (facts.mean(k) for facts in quarters)
        drifts[k] = Drift(first, last, f.wanted[k] * (last - first) / spread, abs(last - first) > chance)
    return drifts


def _squared_error(f: Facts, k: int) -> float:
    """Return the squared standard error of the mean of the reward with index k; NaN if fewer than two groups hold the
    reward. It is estimated from how the means of the groups differ, since the responses of one group are not
    independent of one another.
    """
    sums = f.totals.rewards
    between = max(sums.scatter[k] - sums.squared[k, k], 0.0)
    return ratio(between, (sums.holding_groups[k] - 1) * sums.present[k])


def falling_rewards(f: Facts, drifts: Mapping[int, Drift]) -> list[int]:
    """Return the indices of the rewards whose mean gets worse: the primary one if it does, or without a primary reward
    all that do, but those of weight 0 and those whose weight the log does not show.
    """
    primary = f.basis.primary
    known = [k for k in drifts if f.basis.weights[k] and not (f.recipe and k in f.recipe.unknown)]
    return [k for k in (known if primary is None else [primary]) if k in drifts and drifts[k].moves(-1)]


def step_of_fall(f: Facts, k: int) -> tuple[int, float, float]:
    """Return the step at which the mean of the reward with index k gets worse most clearly. Its mean before that step
    and its mean from that step on come with it.

    At this step, the difference of the two means in the bad direction is the largest, counted in its standard error.
    The standard error is that of responses that all have one variance. The first step is not looked at.
    """
    begins = np.flatnonzero(np.diff(f.batches.step, prepend=f.batches.step[0]))
    n, total = (np.append(0, x.cumsum()) for x in (f.batches.rewards.present[k], f.batches.rewards.total[k]))
    begins = begins[(n[begins] > 0) & (n[begins] < n[-1])]
    before, after = total[begins] / n[begins], (total[-1] - total[begins]) / (n[-1] - n[begins])
    at = int((n[begins] * (n[-1] - n[begins]) * np.maximum(f.wanted[k] * (before - after), 0) ** 2).argmax())
    return int(f.batches.step[begins[at]]), float(before[at]), float(after[at])


def early_and_late(f: Facts) -> dict[int, tuple[EarlyAndLate, ...]]:
    """Return for each reward whose mean gets worse, by its index, what may count as early and as late in the run: its
    first and last quarter, or the steps before the mean gets worse most clearly and those from there on.
    """
    ways: dict[int, tuple[EarlyAndLate, ...]] = {}
    for k in falling_rewards(f, drifts_of(f)):
        batch, (step, _, _) = f.batches.batch, step_of_fall(f, k)
        first, last = quarters_of(f.batches.rewards.present[k] > 0)
        before = f.batches.step < step
        ways[k] = (
            EarlyAndLate(batch[first], batch[last], "both in the first quarter of the run and in the last"),
            EarlyAndLate(batch[before], batch[~before], f"both before step {step} and from there on"),
        )
    return ways
