"""The result tables of the paper, every cell of them: where GDPO is ahead, and where GRPO is."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

FILE = Path(__file__).parent.parent / "data" / "paper_results.csv"


@dataclass(frozen=True)
class Result:
    """One cell of the paper's tables: what training with each method led to, in percent.

    better: whether "higher" or "lower" is better; base: the value before training; grpo, gdpo: the values after it.
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
        """The number of percentage points by which GDPO is better than GRPO; below 0 where GRPO is better."""
        return round((self.gdpo - self.grpo) * (1 if self.better == "higher" else -1), 2)

    @property
    def leader(self) -> str:
        """The method that is better: "gdpo" or "grpo", or "equal" where neither is."""
        return "gdpo" if self.ahead > 0 else "grpo" if self.ahead < 0 else "equal"

    @property
    def name(self) -> str:
        """A short name of the cell, which no other cell has."""
        model = self.model.removeprefix("DeepSeek-").removesuffix("-Instruct").replace("Qwen2.5-", "")
        metric = "" if self.metric in ("accuracy", "passed") else self.metric
        setting = {"length counts only if right": "gated"}.get(self.setting, self.setting)
        return " · ".join(filter(None, (self.benchmark, metric, model, setting)))


@lru_cache(maxsize=1)
def results() -> tuple[Result, ...]:
    """Return all cells of the paper's tables, in the order of the file, which is read once."""
    read = pl.read_csv(FILE, schema_overrides=dict.fromkeys(("base", "grpo", "gdpo"), pl.Float64))
    return tuple(Result(**row) for row in read.with_columns(pl.col("setting").fill_null("")).to_dicts())


def ahead(cells: tuple[Result, ...]) -> dict[str, list[Result]]:
    """Return the cells by the method that is ahead, under the keys "grpo", "equal" and "gdpo"."""
    return {leader: [cell for cell in cells if cell.leader == leader] for leader in ("grpo", "equal", "gdpo")}


def clear(cells: Iterable[Result]) -> int:
    """Count the cells in which either method is ahead by at least one percentage point."""
    return sum(abs(cell.ahead) >= 1 - 1e-9 for cell in cells)
