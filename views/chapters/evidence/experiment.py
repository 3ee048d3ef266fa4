"""The training runs of the small language model: what was predicted of each reward, and what the runs showed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from gdpo_core.intervals import half_width
from views.widgets.html import ROOT

TABLE, PREDICTIONS = ROOT / "data" / "experiments.parquet", ROOT / "data" / "predictions.json"
PARAMETERS, ANSWERS = 199_392, 96  # of the model, and of a step; tests compare both with experiments/
SMALLEST = 0.01  # a smaller difference of mean pass rates counts as none
PREDICTED_SAME = "no difference"  # a prediction; the others are "faster" and "slower"
PREDICTION_VERDICTS = ("held", "did not hold", "no difference seen")


@dataclass(frozen=True)
class Gap:
    """The mean of the differences of paired runs, with its 95 % interval.

    low, high: the ends of the interval.
    pairs: the number of pairs of runs.
    """

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the whole interval is on one side of 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class CheckedPrediction:
    """A prediction about one reward in one set-up of the small language model, and what the runs of that set-up showed.

    prediction: how fast GDPO learns the reward in comparison with GRPO: "faster", "slower" or "no difference".
    coins: the mean pass rate under GDPO less that under GRPO in a training of coins, from which the prediction was
        made.
    measured: the mean pass rate under GDPO less that under GRPO in the runs of the model, over all their steps. The
        runs are paired by seed.
    verdict: one of PREDICTION_VERDICTS.
    """

    setup: str
    reward: str
    prediction: str
    coins: float
    measured: Gap
    verdict: str


@dataclass(frozen=True)
class Experiment:
    """The runs of the small language model, the predictions about them, and what came of each prediction.

    runs: a row per set-up, method, seed and step.
    predictions: the content of data/predictions.json.
    comparisons: each prediction beside what the runs showed, in the order of the predictions.
    """

    runs: pl.DataFrame
    predictions: Mapping[str, Any]
    comparisons: tuple[CheckedPrediction, ...]

    def ahead(self, method: str, least: float = 0.0) -> list[CheckedPrediction]:
        """Return the comparisons in which a method is ahead by `least` or more, and whose interval does not contain 0.

        method: "grpo" or "gdpo".
        least: a difference of mean pass rates, from 0 to 1.
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
def load_experiment() -> Experiment:
    """Return the runs and predictions that are shipped in data/, read once."""
    predictions = json.loads(PREDICTIONS.read_text(encoding="utf-8"))
    runs = pl.read_parquet(TABLE).with_columns(pl.col("setup", "method").cast(pl.String))
    return Experiment(runs, predictions, tuple(hold(runs, predictions)))


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Gap:
    """Return the mean of the differences second − first, pair by pair, with its 95 % interval by Student's t. The
    interval of a single pair has no width.

    >>> found = paired_difference([0.5, 0.6, 0.7], [0.6, 0.7, 0.9])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.133, -0.01, 0.277)
    """
    differences = np.subtract(second, first)
    mean, half = float(differences.mean()), half_width([differences], runs=True) or 0.0
    return Gap(mean, mean - half, mean + half, len(differences))


def verdict_on_gap(prediction: str, difference: Gap, smallest: float = SMALLEST) -> str:
    """Return the verdict on a prediction, one of PREDICTION_VERDICTS: "held", "did not hold" or "no difference seen".

    The prediction "faster" held if the whole interval of the difference is above 0, and "slower" if it is below 0. "no
    difference" held if the whole interval is nearer to 0 than `smallest`. A prediction that did not hold gets the
    verdict "no difference seen" if the interval contains 0, and otherwise "did not hold".

    prediction: what was said of GDPO against GRPO.
    difference: GDPO − GRPO as measured.

    >>> verdict_on_gap("faster", Gap(0.05, 0.01, 0.09, 10)), verdict_on_gap("no difference", Gap(0.05, 0.01, 0.09, 10))
    ('held', 'did not hold')
    """
    if prediction == PREDICTED_SAME and -smallest < difference.low and difference.high < smallest:
        return "held"
    if not difference.leaves_out_zero:
        return "no difference seen"
    right = prediction != PREDICTED_SAME and (difference.mean > 0) == (prediction == "faster")
    return "held" if right else "did not hold"


def hold(table: pl.DataFrame, predictions: Mapping[str, Any]) -> list[CheckedPrediction]:
    """Return the comparison of each prediction with the runs, in the order of the predictions.

    table: the runs, a row per set-up, method, seed and step, with a column per reward.
    predictions: the content of data/predictions.json.
    """
    rows = []
    for setup in predictions["setups"]:
        for reward, of_coins in setup["rewards"].items():
            means = means_by_seed(table, setup["name"], reward)
            measured = paired_difference(means["grpo"].to_list(), means["gdpo"].to_list())
            prediction, difference = of_coins["prediction"], of_coins["difference"]
            outcome = verdict_on_gap(prediction, measured, predictions["smallest_difference"])
            rows.append(CheckedPrediction(setup["name"], reward, prediction, difference, measured, outcome))
    return rows


def means_by_seed(table: pl.DataFrame, setup: str, reward: str) -> pl.DataFrame:
    """Return a table with the columns seed, grpo and gdpo: under each method, the mean of a reward over all steps of
    the run with that seed.

    The table has a row for each seed with which both methods ran.

    table: the runs, a row per set-up, method, seed and step, with a column per reward.
    setup: the name of a set-up.
    reward: the name of a reward.
    """
    runs = table.filter(pl.col("setup").cast(pl.String) == setup).group_by("seed", pl.col("method").cast(pl.String))
    means = runs.agg(pl.col(reward).cast(pl.Float64).mean())
    return means.pivot("method", index="seed", values=reward).drop_nulls().sort("seed").select("seed", "grpo", "gdpo")
