"""One table of all runs; `python -m experiments.summarise --runs FOLDER` writes data/experiments.parquet.

A row per set-up, method, seed and step. The pass rates are graded anew from the logged texts, so that they are the
answers' own, whatever was paid for them; the shares are those of the audit. It needs no TRL.
"""

import argparse
import json
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

import gdpo_core as gc
from experiments.setups import METHODS, REWARDS, SEEDS, SETUPS, Setup
from experiments.train import prompts
from gdpo_core._errors import InputError
from gdpo_core.bfcl import Task, grade

TABLE = Path(__file__).resolve().parent.parent / "data" / "experiments.parquet"
RUNS = Path(__file__).parent / "runs.csv"
DIGITS = 3  # of shares and entropy, which makes the file small


@cache
def _tasks() -> dict[str, Task]:
    from experiments.requests import task_of

    return {request.text: task_of(request) for request in prompts()}


@cache
def _marks(prompt: str, text: str) -> tuple[int, int, int]:
    return grade(_tasks()[prompt], text).vector


def summarise(folder: Path, setup: Setup, method: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The rows of one run, and what its audit says: method, convention, weights, largest error, seconds, memory."""
    metrics = json.loads((folder / "metrics.json").read_text())
    log = {line["step"]: line for line in metrics["log"] if "reward" in line}
    run = gc.read_run(folder)
    report = gc.audit(run, primary="correctness")
    files = sorted((folder / "completions").glob("*.parquet"))
    texts = pl.concat([pl.read_parquet(path) for path in files])
    marks = [_marks(*pair) for pair in texts.select("prompt", "completion").iter_rows()]
    passed = (
        pl.concat([texts.select("step"), pl.DataFrame(marks, schema=list(REWARDS), orient="row")], how="horizontal")
        .group_by("step")
        .mean()
        .sort("step")
    )
    steps = report.steps
    shares = {f"share_{name}": steps[f"share:{method}:{name}"].round(DIGITS) for name in setup.names}
    rows = pl.DataFrame(
        {
            "step": steps["step"],
            **{name: passed[name] for name in REWARDS},
            "noise": steps["mean:noise"].round(DIGITS) if setup.noise else None,
            **shares,
            **({} if setup.noise else {"share_noise": None}),
            "entropy": [round(log[step]["entropy"], DIGITS) for step in steps["step"]],
            "length": [log[step]["completions/mean_length"] for step in steps["step"]],
        }
    )
    named = rows.select(
        pl.lit(setup.name).alias("setup"), pl.lit(method).alias("method"), pl.lit(metrics["seed"]).alias("seed"), "*"
    )
    logged = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    found = {key: report.run[key] for key in ("method", "convention", "weights", "max_error", "reproduced")}
    return named, found | {key: metrics[key] for key in ("seconds", "peak_mb")} | {"log_sha256": logged}


def recovered(setup: Setup, method: str, found: dict[str, Any]) -> bool:
    """Whether an audit found out method, convention and weights."""
    weights = dict(zip(setup.names, setup.reward_weights, strict=True))
    same = all(abs(found["weights"][name] / weight - 1) < 1e-3 for name, weight in weights.items())
    return bool(found["method"] == method and found["convention"] == "trl" and found["reproduced"] and same)


def table_of(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The table of all finished runs, and a row per run of what its audit says."""
    tables, audits = [], []
    for setup in SETUPS:
        for method in METHODS:
            for seed in SEEDS:
                run = folder / setup.name / method / str(seed)
                if not (run / "metrics.json").exists():
                    continue
                rows, found = summarise(run, setup, method)
                tables.append(rows)
                measured = {key: found[key] for key in ("max_error", "seconds", "peak_mb", "log_sha256")}
                named = {"setup": setup.name, "method": method, "seed": seed}
                audits.append(named | {"recovered": recovered(setup, method, found)} | measured)
    if not tables:
        raise InputError(f"{folder}: expected finished runs, got none: python -m experiments.train makes them")
    table = pl.concat(tables, how="diagonal_relaxed").with_columns(
        pl.col("setup", "method").cast(pl.Categorical), pl.col("seed").cast(pl.UInt8), pl.col("step").cast(pl.UInt16)
    )
    return table.with_columns(pl.col(pl.Float64).cast(pl.Float32)), pl.DataFrame(audits)


def main() -> int:
    """Write the table and print what the audits say; 2 with one sentence where there are no runs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.summarise", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=Path, default=TABLE)
    parser.add_argument("--audits", type=Path, default=RUNS, help="a row per run: whether its audit found all out")
    given = parser.parse_args()
    try:
        table, audits = table_of(given.runs)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    table.write_parquet(given.out, compression="zstd", compression_level=19)
    print(f"{given.out}: {len(table)} rows, {given.out.stat().st_size / 1000:.0f} kB")
    audits.write_csv(given.audits)
    with pl.Config(tbl_rows=-1):
        print(
            audits.group_by("setup", "method", maintain_order=True).agg(
                pl.len().alias("runs"),
                pl.col("recovered").sum(),
                pl.col("max_error").max(),
                pl.col("seconds").median(),
                pl.col("peak_mb").max(),
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
