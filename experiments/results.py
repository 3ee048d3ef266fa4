"""The runs held against the predictions; `python -m experiments.results` prints the table. It needs no TRL."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from gdpo_core.paired import Difference, by_chance, paired_difference, verdict

ROOT = Path(__file__).resolve().parent.parent
TABLE, PREDICTIONS = ROOT / "data" / "experiments.parquet", ROOT / "experiments" / "predictions.json"


def judged(table: pl.DataFrame, predictions: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per set-up and reward: the prediction, the paired difference GDPO − GRPO and the verdict."""
    rows = []
    for setup in predictions["setups"]:
        for reward, predicted in setup["rewards"].items():
            found = difference_of(means_of(table, setup["name"], reward))
            word = verdict(predicted["prediction"], found, predictions["smallest_difference"])
            rows.append({"setup": setup["name"], "reward": reward, "predicted": predicted, "found": found, "is": word})
    return rows


def means_of(table: pl.DataFrame, setup: str, reward: str) -> pl.DataFrame:
    """The mean pass rate over all steps of each seed that both methods have: seed, grpo, gdpo."""
    runs = table.filter(pl.col("setup").cast(pl.String) == setup).group_by("seed", pl.col("method").cast(pl.String))
    means = runs.agg(pl.col(reward).cast(pl.Float64).mean())
    return means.pivot("method", index="seed", values=reward).drop_nulls().sort("seed").select("seed", "grpo", "gdpo")


def difference_of(means: pl.DataFrame) -> Difference:
    """GDPO − GRPO, paired by seed."""
    return paired_difference(means["grpo"].to_list(), means["gdpo"].to_list())


def suffering(table: pl.DataFrame, predictions: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per set-up, method and reward: whether it was said to suffer against equal pay, and the difference."""
    rows = []
    for setup in predictions["setups"][1:]:
        for method, said in setup["suffers"].items():
            for reward in setup["rewards"]:
                equal, here = (means_of(table, name, reward) for name in ("equal", setup["name"]))
                both = equal.join(here, on="seed", suffix="_here")
                found = paired_difference(both[method].to_list(), both[f"{method}_here"].to_list())
                word = verdict("slower" if reward in said else "no difference", found)
                row = {"setup": setup["name"], "method": method, "reward": reward, "said": reward in said}
                rows.append(row | {"found": found, "is": word})
    return rows


def _line(row: dict[str, Any], said: str) -> str:
    found, method = row["found"], row.get("method", "")
    numbers = f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    return f"{row['setup']:9} {method:5} {row['reward']:12} {said:28} {numbers}  {row['is']}"


def main() -> None:
    """Print every comparison and how many would look like a difference by chance."""
    table, predictions = pl.read_parquet(TABLE), json.loads(PREDICTIONS.read_text(encoding="utf-8"))
    rows = judged(table, predictions)
    for row in rows:
        said = row["predicted"]
        print(_line(row, f"{said['prediction']} ({said['difference']:+.3f})"))
    print(f"{len(rows)} comparisons; {by_chance(len(rows)):.2f} of them would leave out 0 by chance\n")
    for row in suffering(table, predictions):
        print(_line(row, "suffers" if row["said"] else "does not suffer"))


if __name__ == "__main__":
    main()
