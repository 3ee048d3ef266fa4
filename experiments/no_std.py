"""GRPO without std beside GRPO on the five old set-ups: `python -m experiments.no_std measure|judge`.

What was said before stands in README.md, with the four predictions that are judged here.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from experiments.differences import BEHIND_GATE, GATED, NO_STD_CURVES, apart, ten_seeds
from experiments.forecasts import DATA, rewards_of
from experiments.setups import NO_STD, REWARDS, SEEDS, SETUPS
from gdpo_audit import audit, read_run

PUSHES = DATA / "no_std_pushes.csv"
FROM, LOWER_BY = 50, 10  # the steps of which pushes are measured, and how many points the gated reward was said to lose
NEARLY = 0.03  # by how much a push may be lower and still count as about as large


def measure(runs: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two tables of the runs: the mean of each reward at each step, as setup, seed, step, reward and mean; and
    the push on correctness in the first steps, under GRPO without std and under GRPO, by setup and seed.

    runs: the folder of the runs, in SETUP/grpo_no_std/SEED.
    """
    curves, pushes = [], []
    for setup in SETUPS:
        for seed in SEEDS:
            folder = runs / setup.name / NO_STD / str(seed)
            named = pl.lit(setup.name).alias("setup"), pl.lit(seed).alias("seed")
            curves.append(rewards_of(setup, folder).select(*named, "step", "reward", "mean"))
            files = sorted(map(str, (folder / "completions").glob("*.parquet")))[:FROM]
            push = audit(read_run(files)).push
            of_methods = {f"push_{method}": round(push[method][REWARDS[0]], 4) for method in (NO_STD, "grpo")}
            pushes.append({"setup": setup.name, "seed": seed} | of_methods)
    kinds = (
        pl.col("setup", "reward").cast(pl.Categorical),
        pl.col("seed").cast(pl.UInt8),
        pl.col("step").cast(pl.UInt16),
    )
    return pl.concat(curves).with_columns(*kinds, pl.col("mean").cast(pl.Float32)), pl.DataFrame(pushes)


def print_judged(pushes: pl.DataFrame) -> None:
    """Print the differences to GRPO in points, with their standard errors, and how the four predictions fared.

    pushes: the second table that `measure` returns.
    """
    found = {}
    for setup, method in product(ten_seeds(), (NO_STD, "gdpo")):
        for reward in setup.ranges:
            if len(points := apart(setup, method, reward)):
                mean, error = points.mean(), points.std(ddof=1) / np.sqrt(len(points))
                found[setup.name, method, reward] = mean, error
                print(f"| {setup.name} | {method} | {reward} | {mean:+.1f} ({error:.1f}) |")
    first = [of for (_, method, reward), of in found.items() if (method, reward) == (NO_STD, REWARDS[0])]
    behind = [(mean, error) for mean, error in first if mean < 0]
    clearly = [mean for mean, error in behind if mean < -2 * error]
    gated, _ = found[GATED, NO_STD, BEHIND_GATE]
    pushes = pushes.group_by("setup").agg(pl.col("push_grpo_no_std", "push_grpo").mean())
    as_large = pushes.filter(pl.col("push_grpo_no_std") >= pl.col("push_grpo") - NEARLY)
    print(f"1: correctness behind in {len(behind)} of {len(first)} set-ups")
    print(f"2: by more than two standard errors in {len(clearly)}")
    print(f"3: conciseness behind the gate {gated:+.1f} points, said to be below {-LOWER_BY}")
    print(f"4: the push on correctness at least about as large in {len(as_large)} of {len(pushes)}")
    print(pushes.sort("setup"))


def main() -> int:
    """Run the command and return 0: "measure" writes two tables of the runs, "judge" prints what came."""
    parser = argparse.ArgumentParser(prog="python -m experiments.no_std", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("do", choices=("measure", "judge"))
    parser.add_argument("--runs", type=Path, help="folder of the runs, in SETUP/grpo_no_std/SEED")
    given = parser.parse_args()
    if given.do == "measure":
        if given.runs is None:
            parser.error("measure: expected a folder as --runs, got none")
        curves, pushes = measure(given.runs)
        curves.write_parquet(NO_STD_CURVES, compression="zstd", compression_level=19)
        pushes.write_csv(PUSHES)
    print_judged(pl.read_csv(PUSHES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
