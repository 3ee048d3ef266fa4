"""The training runs of the small language model: what was predicted of each reward, and what the runs showed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from gdpo_core.intervals import half_width
from views.html import ROOT

TABLE, PREDICTIONS = ROOT / "data" / "experiments.parquet", ROOT / "experiments" / "predictions.json"
PARAMETERS, ANSWERS = 199_392, 96  # of the model, and per step; experiments/ trains it, tests hold both against it
SMALLEST = 0.01  # of a mean pass rate; a difference below it is none
SAME = "no difference"  # a prediction; the others are "faster" and "slower"
VERDICTS = ("held", "did not hold", "no difference seen")


@dataclass(frozen=True)
class Difference:
    """The mean of the differences of paired runs, with its 95 % interval, from low to high, and the number of pairs."""

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
    """A prediction about one reward of a set-up, and what the runs of that set-up showed.

    prediction: "faster", "slower" or "no difference", of GDPO against GRPO; coins: GDPO − GRPO of the mean pass rate in
    a training of coins in place of the model, from which the prediction was made; measured: GDPO − GRPO of the mean
    pass rate over all steps of the runs, paired by seed; verdict: one of VERDICTS.
    """

    setup: str
    reward: str
    prediction: str
    coins: float
    measured: Difference
    verdict: str


@dataclass(frozen=True)
class Experiment:
    """The runs of the small language model, the predictions about them, and the comparison of each with the runs."""

    runs: pl.DataFrame  # a row per set-up, method, seed and step
    predictions: Mapping[str, Any]
    comparisons: tuple[Comparison, ...]

    def ahead(self, method: str, least: float = 0.0) -> list[Comparison]:
        """Return the comparisons in which a method is ahead by `least` or more and whose interval leaves out 0.

        method: "grpo" or "gdpo"; least: a difference of mean pass rates, from 0 to 1.
        """
        sign = 1 if method == "gdpo" else -1
        return [
            comparison
            for comparison in self.comparisons
            if comparison.measured.leaves_out_zero and comparison.measured.mean * sign >= least
        ]

    def title(self, setup: str) -> str:
        """Return the title of the set-up with this name."""
        return next(record["title"] for record in self.predictions["setups"] if record["name"] == setup)


@lru_cache(maxsize=1)
def load() -> Experiment:
    """Return the runs and predictions that are shipped in data/ and experiments/, read once."""
    predictions = json.loads(PREDICTIONS.read_text(encoding="utf-8"))
    runs = pl.read_parquet(TABLE).with_columns(pl.col("setup", "method").cast(pl.String))
    return Experiment(runs, predictions, tuple(hold(runs, predictions)))


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Return the mean of the differences second − first, pair by pair, with its 95 % interval by Student's t; the
    interval of a single pair has no width.

    >>> found = paired_difference([0.5, 0.6, 0.7], [0.6, 0.7, 0.9])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.133, -0.01, 0.277)
    """
    differences = np.subtract(second, first)
    mean, half = float(differences.mean()), half_width([differences], runs=True) or 0.0
    return Difference(mean, mean - half, mean + half, len(differences))


def verdict(prediction: str, difference: Difference, smallest: float = SMALLEST) -> str:
    """Return one of VERDICTS on a prediction: whether it held, did not hold, or no difference was seen.

    prediction: "faster", "slower" or "no difference", of GDPO against GRPO; difference: GDPO − GRPO as measured;
    smallest: the size below which a difference counts as none.

    >>> verdict("faster", Difference(0.05, 0.01, 0.09, 10)), verdict("no difference", Difference(0.05, 0.01, 0.09, 10))
    ('held', 'did not hold')
    """
    if prediction == SAME and -smallest < difference.low and difference.high < smallest:
        return "held"
    if not difference.leaves_out_zero:
        return "no difference seen"
    right = prediction != SAME and (difference.mean > 0) == (prediction == "faster")
    return "held" if right else "did not hold"


def hold(table: pl.DataFrame, predictions: Mapping[str, Any]) -> list[Comparison]:
    """Return the comparison of each prediction with the runs, in the order of the predictions.

    table: a row per set-up, method, seed and step, with a column per reward; predictions: what predictions.json holds.
    """
    rows = []
    for setup in predictions["setups"]:
        for reward, of_coins in setup["rewards"].items():
            means = means_by_seed(table, setup["name"], reward)
            measured = paired_difference(means["grpo"].to_list(), means["gdpo"].to_list())
            prediction, difference = of_coins["prediction"], of_coins["difference"]
            outcome = verdict(prediction, measured, predictions["smallest_difference"])
            rows.append(Comparison(setup["name"], reward, prediction, difference, measured, outcome))
    return rows


def means_by_seed(table: pl.DataFrame, setup: str, reward: str) -> pl.DataFrame:
    """Return a table with the columns seed, grpo and gdpo: a run's mean of `reward` over all its steps, by method.

    It has a row for each seed with which both methods ran. table: as in `hold`; setup: the name of a set-up.
    """
    runs = table.filter(pl.col("setup").cast(pl.String) == setup).group_by("seed", pl.col("method").cast(pl.String))
    means = runs.agg(pl.col(reward).cast(pl.Float64).mean())
    return means.pivot("method", index="seed", values=reward).drop_nulls().sort("seed").select("seed", "grpo", "gdpo")
