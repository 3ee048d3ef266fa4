"""The runs of the experiments held against what was predicted of them, reward by reward."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from gdpo_core.paired import Difference, paired_difference, verdict


@dataclass(frozen=True)
class Comparison:
    """One prediction and what came of it."""

    setup: str
    reward: str
    prediction: str  # faster, slower or no difference
    coins: float  # the difference of the coins
    found: Difference  # GDPO − GRPO of the mean pass rate over all steps, paired by seed
    verdict: str


def hold(table: pl.DataFrame, predictions: Mapping[str, Any]) -> list[Comparison]:
    """The comparison of each set-up and reward, in the order of the predictions.

    table: data/experiments.parquet. predictions: experiments/predictions.json.
    """
    rows = []
    for setup in predictions["setups"]:
        for reward, said in setup["rewards"].items():
            means = means_by_seed(table, setup["name"], reward)
            found = paired_difference(means["grpo"].to_list(), means["gdpo"].to_list())
            word = verdict(said["prediction"], found, predictions["smallest_difference"])
            rows.append(Comparison(setup["name"], reward, said["prediction"], said["difference"], found, word))
    return rows


def means_by_seed(table: pl.DataFrame, setup: str, reward: str) -> pl.DataFrame:
    """The mean pass rate over all steps of each seed that both methods have: seed, grpo, gdpo."""
    runs = table.filter(pl.col("setup").cast(pl.String) == setup).group_by("seed", pl.col("method").cast(pl.String))
    means = runs.agg(pl.col(reward).cast(pl.Float64).mean())
    return means.pivot("method", index="seed", values=reward).drop_nulls().sort("seed").select("seed", "grpo", "gdpo")
