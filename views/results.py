"""The result tables of the paper, every cell of them: where GDPO is ahead, and where GRPO is."""

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._words import listing

FILE = Path(__file__).parent.parent / "data" / "paper_results.csv"
GOOD = ("higher", "lower")
NUMBERS = ("base", "grpo", "gdpo")
CELLS = 68  # of the paper's tables


@dataclass(frozen=True)
class Result:
    """One cell of the paper's tables: what training with each method led to, in percent."""

    experiment: str
    model: str
    setting: str
    benchmark: str
    metric: str
    better: str  # higher or lower
    base: float  # before training
    grpo: float
    gdpo: float

    @property
    def ahead(self) -> float:
        """By how many points GDPO is ahead; below 0, GRPO is."""
        return round((self.gdpo - self.grpo) * (1 if self.better == "higher" else -1), 2)

    @property
    def leader(self) -> str:
        return "gdpo" if self.ahead > 0 else "grpo" if self.ahead < 0 else "equal"

    @property
    def name(self) -> str:
        """Short, and the only one of its kind."""
        model = self.model.removeprefix("DeepSeek-").removesuffix("-Instruct").replace("Qwen2.5-", "")
        metric = "" if self.metric in ("accuracy", "passed") else self.metric
        setting = {"length counts only if right": "gated"}.get(self.setting, self.setting)
        return " · ".join(filter(None, (self.benchmark, metric, model, setting)))


@lru_cache(maxsize=1)
def results() -> tuple[Result, ...]:
    """All cells, in the order of the file; InputError where it is missing or has changed."""
    place = f"data/{FILE.name}"
    try:
        read = pl.read_csv(FILE, schema_overrides=dict.fromkeys(NUMBERS, pl.Float64))
    except (OSError, pl.exceptions.PolarsError) as error:
        why = "none" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        raise InputError(f"{place}: expected the paper's tables as CSV, got {why}") from error
    names = [field.name for field in fields(Result)]
    expect(read.columns == names, place, f"columns {listing(names)}", listing(read.columns))
    cells = read.with_columns(pl.col("setting").fill_null("")).drop_nulls().filter(pl.col("better").is_in(GOOD))
    expect(len(cells) == CELLS, place, f"all {CELLS} cells of the paper's tables", len(cells))
    return tuple(Result(**row) for row in cells.to_dicts())


def ahead(cells: tuple[Result, ...]) -> dict[str, list[Result]]:
    """The cells by who is ahead."""
    return {leader: [cell for cell in cells if cell.leader == leader] for leader in ("grpo", "equal", "gdpo")}
