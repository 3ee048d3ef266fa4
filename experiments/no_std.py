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

MEANS = DATA / "no_std.parquet"
FROM, LOWER_BY = 50, 0.1  # the steps of which pushes are measured, and by how much the gated reward was said to fall
NEARLY = 0.03  # by how much a push may be lower and still count as about as large


def measure(runs: Path) -> pl.DataFrame:
    """Return a row per set-up and seed: the mean of each reward over all steps, and the push on correctness in the
    first steps under GRPO without std and under GRPO. runs: the folder of the runs, in SETUP/grpo_no_std/SEED.
    """
    rows = []
    for setup in SETUPS:
        for seed in SEEDS:
            folder = runs / setup.name / NO_STD / str(seed)
            means = dict(rewards_of(setup, folder).group_by("reward").agg(pl.col("mean").mean()).iter_rows())
            files = sorted(map(str, (folder / "completions").glob("*.parquet")))[:FROM]
            pushes = audit(read_run(files)).push
            row = {"setup": setup.name, "seed": seed} | {name: means[name] for name in REWARDS}
            rows.append(row | {f"push_{method}": pushes[method][REWARDS[0]] for method in (NO_STD, "grpo")})
    return pl.DataFrame(rows)


def differences(means: pl.DataFrame) -> pl.DataFrame:
    """Return a row per set-up and reward: the mean over seeds of GRPO without std less GRPO with the same seed, over
    all steps, its standard error, and the same of GDPO less GRPO.
    """
    earlier = pl.read_parquet(EARLIER).group_by("setup", "method", "seed").agg(pl.col(REWARDS).mean())
    known = {(a, b, c): values for a, b, c, *values in earlier.iter_rows()}
    mine = {(row["setup"], row["seed"]): [row[name] for name in REWARDS] for row in means.iter_rows(named=True)}
    rows = []
    for setup in means["setup"].unique(maintain_order=True):
        grpo = np.array([known[setup, "grpo", seed] for seed in SEEDS])
        for name, of_seeds in (
            (NO_STD, [mine[setup, seed] for seed in SEEDS]),
            ("gdpo", [known[setup, "gdpo", seed] for seed in SEEDS]),
        ):
            apart = np.array(of_seeds) - grpo
            error = apart.std(0, ddof=1) / np.sqrt(len(SEEDS))
            rows += [(setup, name, r, apart.mean(0)[k], error[k]) for k, r in enumerate(REWARDS)]
    return pl.DataFrame(rows, schema=["setup", "method", "reward", "difference", "error"], orient="row")


def print_judged(means: pl.DataFrame) -> None:
    """Print the differences as a table, and how the four predictions fared."""
    found = differences(means)
    for setup, method, reward, difference, error in found.iter_rows():
        print(f"| {setup} | {method} | {reward} | {difference:+.3f} ({error:.3f}) |")
    mine = found.filter(method=NO_STD)
    first = mine.filter(reward=REWARDS[0])
    behind = first.filter(pl.col("difference") < 0)
    clearly = behind.filter(pl.col("difference") < -2 * pl.col("error"))
    gated = mine.filter(setup="gated", reward=REWARDS[2])["difference"].item()
    pushes = means.group_by("setup").agg(pl.col("push_grpo_no_std", "push_grpo").mean())
    as_large = pushes.filter(pl.col("push_grpo_no_std") >= pl.col("push_grpo") - NEARLY)
    print(f"1: correctness behind in {len(behind)} of {len(first)} set-ups")
    print(f"2: by more than two standard errors in {len(clearly)}")
    print(f"3: conciseness behind the gate {gated:+.3f}, said to be below {-LOWER_BY}")
    print(f"4: the push on correctness at least about as large in {len(as_large)} of {len(pushes)}")
    print(pushes.sort("setup"))


def main() -> int:
    """Run the command and return 0: "measure" writes the table of runs, "judge" prints what came."""
    parser = argparse.ArgumentParser(prog="python -m experiments.no_std", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("do", choices=("measure", "judge"))
    parser.add_argument("--runs", type=Path, help="folder of the runs, in SETUP/grpo_no_std/SEED")
    given = parser.parse_args()
    if given.do == "measure":
        if given.runs is None:
            parser.error("measure: expected a folder as --runs, got none")
        measure(given.runs).write_parquet(MEANS, compression="zstd", compression_level=19)
    print_judged(pl.read_parquet(MEANS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
