"""The runs of the small language model: what was predicted of them, and what came of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from gdpo_core._errors import InputError, reason
from gdpo_core.predicted import Comparison, hold
from views.html import ROOT

TABLE, PREDICTIONS = ROOT / "data" / "experiments.parquet", ROOT / "experiments" / "predictions.json"
PARAMETERS, ANSWERS = 199_392, 96  # of the model, and per step; experiments/ trains it, tests hold both against it


@dataclass(frozen=True)
class Experiment:
    """The runs, the predictions and what came of each."""

    runs: pl.DataFrame  # a row per set-up, method, seed and step
    predictions: Mapping[str, Any]
    comparisons: tuple[Comparison, ...]

    def ahead(self, method: str, least: float = 0.0) -> list[Comparison]:
        """The comparisons in which this method is clearly ahead, by so much or more."""
        sign = 1 if method == "gdpo" else -1
        return [one for one in self.comparisons if one.found.leaves_out_zero and one.found.mean * sign >= least]

    def title(self, setup: str) -> str:
        """What a set-up is called."""
        return next(one["title"] for one in self.predictions["setups"] if one["name"] == setup)


@lru_cache(maxsize=2)
def load(table: Path = TABLE, predictions: Path = PREDICTIONS) -> Experiment:
    """The shipped runs and predictions; InputError, which names the file, where one is missing or damaged."""
    said = _read(predictions, lambda file: json.loads(file.read_text(encoding="utf-8")))
    runs = _read(table, lambda file: pl.read_parquet(file).with_columns(pl.col("setup", "method").cast(pl.String)))
    return Experiment(runs, said, tuple(_read(table, lambda _: hold(runs, said))))


def _read(file: Path, of: Callable[[Path], Any]) -> Any:
    try:
        return of(file)
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        where = f"{file.parent.name}/{file.name}"
        raise InputError(f"{where}: expected the experiments as they were shipped, got {reason(error)[:100]}") from None
