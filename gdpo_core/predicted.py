"""The runs of the experiments held against what was predicted of them, reward by reward."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gdpo_core._errors import expect
from gdpo_core._inputs import ArrayLike, numbers
from gdpo_core.intervals import LEVEL, half_width

SMALLEST = 0.01  # of a mean pass rate; a difference below it is none
PREDICTIONS = ("faster", "slower", "no difference")
VERDICTS = ("held", "did not hold", "no difference seen")


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences and its 95 % interval."""

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the whole interval is on one side of 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Comparison:
    """One prediction and what came of it."""

    setup: str
    reward: str
    prediction: str  # one of PREDICTIONS
    coins: float  # the difference of the coins
    found: Difference  # GDPO − GRPO of the mean pass rate over all steps, paired by seed
    verdict: str  # one of VERDICTS


def paired_difference(first: ArrayLike, second: ArrayLike) -> Difference:
    """The mean of second − first, pair by pair, with Student's t interval.

    Raises InputError below two pairs, and for what is no finite number.

    >>> found = paired_difference([0.5, 0.6, 0.7], [0.6, 0.7, 0.9])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.133, -0.01, 0.277)
    """
    one, other = (numbers(values, "pairs").double().flatten().numpy() for values in (first, second))
    got = f"{len(one)} and {len(other)}"
    expect(len(one) == len(other) and len(one) > 1, "pairs", "at least two of both methods", got)
    expect(bool(np.isfinite([one, other]).all()), "pairs", "finite numbers", "others")
    differences = other - one
    mean, half = float(differences.mean()), half_width([differences], runs=True) or 0.0
    return Difference(mean, mean - half, mean + half, len(differences))


def verdict(prediction: str, difference: Difference, smallest: float = SMALLEST) -> str:
    """One of VERDICTS on one of PREDICTIONS.

    >>> verdict("faster", Difference(0.05, 0.01, 0.09, 10)), verdict("no difference", Difference(0.05, 0.01, 0.09, 10))
    ('held', 'did not hold')
    """
    expect(prediction in PREDICTIONS, "prediction", f"one of {', '.join(PREDICTIONS)}", repr(prediction))
    if prediction == "no difference":
        if -smallest < difference.low and difference.high < smallest:
            return "held"
        return "did not hold" if difference.leaves_out_zero else "no difference seen"
    if not difference.leaves_out_zero:
        return "no difference seen"
    return "held" if (difference.mean > 0) == (prediction == "faster") else "did not hold"


def by_chance(comparisons: int) -> float:
    """How many of so many comparisons leave out 0 by chance alone, on average.

    >>> round(by_chance(15), 2)
    0.75
    """
    return (1 - LEVEL) * comparisons


def hold(table: pl.DataFrame, predictions: Mapping[str, Any]) -> list[Comparison]:
    """The comparison of each set-up and reward, in the order of the predictions.

    table: data/experiments.parquet. predictions: experiments/predictions.json.
    """
    rows = []
    for setup in predictions["setups"]:
        for reward, of_coins in setup["rewards"].items():
            means = means_by_seed(table, setup["name"], reward)
            found = paired_difference(means["grpo"].to_list(), means["gdpo"].to_list())
            word = verdict(of_coins["prediction"], found, predictions["smallest_difference"])
            difference = of_coins["difference"]
            rows.append(Comparison(setup["name"], reward, of_coins["prediction"], difference, found, word))
    return rows


def means_by_seed(table: pl.DataFrame, setup: str, reward: str) -> pl.DataFrame:
    """The mean pass rate over all steps of each seed that both methods have: seed, grpo, gdpo."""
    runs = table.filter(pl.col("setup").cast(pl.String) == setup).group_by("seed", pl.col("method").cast(pl.String))
    means = runs.agg(pl.col(reward).cast(pl.Float64).mean())
    return means.pivot("method", index="seed", values=reward).drop_nulls().sort("seed").select("seed", "grpo", "gdpo")
