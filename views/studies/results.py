"""The results that the paper reports in its tables, without the averages there, as read from data/paper_results.csv;
and in which of them GDPO or GRPO is ahead. Other modules show them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

_FILE = Path(__file__).parent.parent.parent / "data" / "paper_results.csv"


@dataclass(frozen=True)
class _Result:
    """One cell of the paper's tables: a figure in percent before training, and after training with each method.

    better: "higher" or "lower", which of two figures is the better one.
    base: the figure before training.
    grpo, gdpo: the figures after training with that method.
    """

    experiment: str
    model: str
    setting: str
    benchmark: str
    metric: str
    better: str
    base: float
    grpo: float
    gdpo: float

    @property
    def ahead(self) -> float:
        """The percentage points by which GDPO is better than GRPO, to two decimals; below 0 where GRPO is better."""
        return round((self.gdpo - self.grpo) * (1 if self.better == "higher" else -1), 2)

    @property
    def leader(self) -> str:
        """The method whose figure is the better one: "gdpo" or "grpo", or "equal" where neither is."""
        return "gdpo" if self.ahead > 0 else "grpo" if self.ahead < 0 else "equal"

    @property
    def name(self) -> str:
        """A short name of this cell of the paper's tables, which no other cell has."""
        model = self.model.removeprefix("DeepSeek-").removesuffix("-Instruct").replace("Qwen2.5-", "")
        metric = "" if self.metric in ("accuracy", "passed") else self.metric
        setting = {"length counts only if right": "gated"}.get(self.setting, self.setting)
        return " · ".join(filter(None, (self.benchmark, metric, model, setting)))


@lru_cache(maxsize=1)
def results() -> tuple[_Result, ...]:
    """Return all cells of data/paper_results.csv, in the order of that file, which is read once."""
    read = pl.read_csv(_FILE, schema_overrides=dict.fromkeys(("base", "grpo", "gdpo"), pl.Float64))
    return tuple(_Result(**row) for row in read.with_columns(pl.col("setting").fill_null("")).to_dicts())


def ahead(cells: tuple[_Result, ...]) -> dict[str, list[_Result]]:
    """Return the cells in three lists by the method that is ahead, under the keys "grpo", "equal" and "gdpo", in this
    order.
    """
    return {leader: [cell for cell in cells if cell.leader == leader] for leader in ("grpo", "equal", "gdpo")}


def clear(cells: Iterable[_Result]) -> int:
    """Count the cells in which one of the two methods is ahead by at least one percentage point."""
    return sum(abs(cell.ahead) >= 1 - 1e-9 for cell in cells)
