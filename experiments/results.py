"""The runs held against the predictions; `python -m experiments.results` prints the table. It needs no TRL."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from views.experiment import Difference, by_chance, hold, means_by_seed, paired_difference, verdict

ROOT = Path(__file__).resolve().parent.parent
TABLE, PREDICTIONS = ROOT / "data" / "experiments.parquet", ROOT / "experiments" / "predictions.json"


def suffering(table: pl.DataFrame, predictions: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per set-up, method and reward: whether it was said to suffer against equal pay, and the difference."""
    rows = []
    for setup in predictions["setups"][1:]:
        for method, said in setup["suffers"].items():
            for reward in setup["rewards"]:
                equal, here = (means_by_seed(table, name, reward) for name in ("equal", setup["name"]))
                both = equal.join(here, on="seed", suffix="_here")
                found = paired_difference(both[method].to_list(), both[f"{method}_here"].to_list())
                row = {"setup": setup["name"], "method": method, "reward": reward, "said": reward in said}
                word = _verdict(reward in said, found, predictions["smallest_difference"])
                rows.append(row | {"found": found, "verdict": word})
    return rows


def _verdict(suffers: bool, found: Difference, smallest: float) -> str:
    """As of slower; that a reward does not suffer is held against losses alone, since it may gain."""
    if suffers:
        return verdict("slower", found, smallest)
    if found.low > -smallest:
        return "held"
    return "did not hold" if found.high < 0 else "no difference seen"


def _numbers(found: Difference) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def main() -> None:
    """Print every comparison and how many would look like a difference by chance."""
    table, predictions = pl.read_parquet(TABLE), json.loads(PREDICTIONS.read_text(encoding="utf-8"))
    rows = hold(table, predictions)
    for row in rows:
        said = f"{row.prediction} ({row.coins:+.3f})"
        print(f"{row.setup:9} {row.reward:12} {said:22} {_numbers(row.found)}  {row.verdict}")
    seen = sum(row.found.leaves_out_zero for row in rows)
    print(f"{len(rows)} comparisons, {seen} leave out 0; {by_chance(len(rows)):.2f} of them would by chance\n")
    for other in suffering(table, predictions):
        said = "suffers" if other["said"] else "does not suffer"
        where = f"{other['setup']:9} {other['method']:5} {other['reward']:12}"
        print(f"{where} {said:16} {_numbers(other['found'])}  {other['verdict']}")


if __name__ == "__main__":
    main()
