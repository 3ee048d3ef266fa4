"""GRPO without std beside GRPO on the five old set-ups: `python -m experiments.no_std measure|judge`.

What was said before stands in README.md, with the four predictions that are judged here.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from experiments.forecasts import DATA, EARLIER, rewards_of
from experiments.setups import NO_STD, REWARDS, SEEDS, SETUPS
from gdpo_audit import audit, read_run

CURVES, PUSHES = DATA / "no_std.parquet", DATA / "no_std_pushes.csv"
FROM, LOWER_BY = 50, 0.1  # the steps of which pushes are measured, and by how much the gated reward was said to fall
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


def differences(curves: pl.DataFrame) -> pl.DataFrame:
    """Return a row per set-up, method and reward: the mean over seeds of GRPO without std, or of GDPO, less GRPO with
    the same seed, over all steps; and its standard error.
    """
    earlier = pl.read_parquet(EARLIER).group_by("setup", "method", "seed").agg(pl.col(REWARDS).mean())
    known = {(a, b, c): values for a, b, c, *values in earlier.iter_rows()}
    means = curves.group_by("setup", "seed", "reward").agg(pl.col("mean").mean())
    of_run = {(a, b, c): x for a, b, c, x in means.iter_rows()}
    mine = {(s.name, seed): [of_run[s.name, seed, name] for name in REWARDS] for s in SETUPS for seed in SEEDS}
    rows = []
    for setup in (setup.name for setup in SETUPS):
        grpo = np.array([known[setup, "grpo", seed] for seed in SEEDS])
        for name, of_seeds in (
            (NO_STD, [mine[setup, seed] for seed in SEEDS]),
            ("gdpo", [known[setup, "gdpo", seed] for seed in SEEDS]),
        ):
            apart = np.array(of_seeds) - grpo
            error = apart.std(0, ddof=1) / np.sqrt(len(SEEDS))
            rows += [(setup, name, r, apart.mean(0)[k], error[k]) for k, r in enumerate(REWARDS)]
    return pl.DataFrame(rows, schema=["setup", "method", "reward", "difference", "error"], orient="row")


def print_judged(curves: pl.DataFrame, pushes: pl.DataFrame) -> None:
    """Print the differences as a table, and how the four predictions fared.

    curves, pushes: what `measure` returns.
    """
    found = differences(curves)
    for setup, method, reward, difference, error in found.iter_rows():
        print(f"| {setup} | {method} | {reward} | {difference:+.3f} ({error:.3f}) |")
    mine = found.filter(method=NO_STD)
    first = mine.filter(reward=REWARDS[0])
    behind = first.filter(pl.col("difference") < 0)
    clearly = behind.filter(pl.col("difference") < -2 * pl.col("error"))
    gated = mine.filter(setup="gated", reward=REWARDS[2])["difference"].item()
    pushes = pushes.group_by("setup").agg(pl.col("push_grpo_no_std", "push_grpo").mean())
    as_large = pushes.filter(pl.col("push_grpo_no_std") >= pl.col("push_grpo") - NEARLY)
    print(f"1: correctness behind in {len(behind)} of {len(first)} set-ups")
    print(f"2: by more than two standard errors in {len(clearly)}")
    print(f"3: conciseness behind the gate {gated:+.3f}, said to be below {-LOWER_BY}")
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
        curves.write_parquet(CURVES, compression="zstd", compression_level=19)
        pushes.write_csv(PUSHES)
    print_judged(pl.read_parquet(CURVES), pl.read_csv(PUSHES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
