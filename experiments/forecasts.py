"""Forecasts for the rows of plans, and what came of them; `python -m experiments.forecasts predict|measure|judge`.

A row of a plan is a set-up under another method, other weights or a gate. The rules, written before any of these runs
was started:

- For each set-up, forecasts are made from one log (GRPO, seed 0): from its first 50 steps, and again from its first 25.
- A reward is graded from the logged texts as the set-up itself pays it. It is counted in parts of the range from what a
  fail pays to what a pass pays. The reward of noise is not judged: no text earns it.
- What came of a row, and how a forecast of it is judged, stands in `gdpo_audit/comparing/judging.py`. Seeds are 0 to 4.
- Wanted, of the forecasts from 50 steps: at least 9 of 10 signs, 70 of 100 intervals, half the error of the guess.
- Two kinds of rows are not judged: GDPO with the same weights on the five old set-ups, and the row of shares as asked
  where conciseness pays 5. What came of these was known, and the forecast was calibrated on it.

Rows are trained in the order of `plans.json`. If time ends the runs, rows without all five seeds are left out. Nothing
is changed after the runs.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from experiments.requests import task_of
from experiments.setups import REWARDS, Row, Setup, planned_rows, setup_named
from experiments.train import STEPS, grades, pay, prompts
from gdpo_audit import audit, read_run
from gdpo_audit.comparing.judging import AS_IT_RAN, judge, what_came
from gdpo_audit.comparing.judging import FIRST_SEEDS as SEEDS
from gdpo_audit.comparing.speeds import pooled_speeds
from views.bfcl import Task

DATA = Path(__file__).resolve().parent.parent / "data"
FORECASTS, RUNS, SPEEDS, EARLIER = (
    DATA / name for name in ("forecasts.json", "forecasts.parquet", "speeds.csv", "experiments.parquet")
)
FROM_STEPS = (25, 50)
_EVERY = 5  # every fifth step of a course is kept


# --- predict ----------------------------------------------------------------------------------------------------------


def predict(logs: Path) -> list[dict[str, Any]]:
    """Return the forecasts for every row of plans.json but the rows named "as it ran": a dict per row, reward and
    number of steps.

    Forecasts are made from the first 25 steps of a log, and again from its first 50. A dict has the keys of `_forecast`
    and four more: setup, the name of the row's set-up; row, the name of the row; from_steps, 25 or 50; and reward.

    logs: the folder with the logs to forecast from. The log of a set-up is in SETUP/grpo/0.
    """
    rows = [row for row in planned_rows() if row.name != AS_IT_RAN]
    reports = {
        (name, n): _report(logs / name / "grpo" / "0", n) for name in {r.setup for r in rows} for n in FROM_STEPS
    }
    return [
        {"setup": row.setup, "row": row.name, "from_steps": n, "reward": name} | values
        for row in rows
        for n in FROM_STEPS
        for name, values in _forecast(reports[row.setup, n], row)
    ]


def _report(folder: Path, steps: int) -> Any:
    """Return the audit's report on the first steps of a run, with correctness as its primary reward.

    folder: the folder of the run.
    steps: how many steps from the first one on.
    """
    files = sorted((folder / "completions").glob("*.parquet"))[:steps]
    return audit(read_run([str(path) for path in files]), primary=REWARDS[0])


def _forecast(report: Any, row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the forecast of each reward of the row's set-up, except the noise, which is not judged.

    A forecast is a dict of fields of `RewardForecast`. difference, low and high are in parts of the reward's range, or
    all None if the forecast is open. as_it_ran and forecast are in these parts too, with every fifth step only. speed,
    speed_error, push and push_as_it_ran are as in `RewardForecast`. why is missing if it is empty.

    report: the audit's report on the log to forecast from.
    row: the row of plans.json whose method, weights and gate are forecast.
    """
    setup, trained = setup_named(row.setup), row.trained
    gate = None if row.gate is None else {"reward": row.gate[0], "on": row.gate[1]}
    weights = dict(zip(trained.names, trained.reward_weights, strict=True))
    made = report.forecast(method=row.method, weights=weights, gate=gate, steps=STEPS)
    for k, name in enumerate(setup.graded):
        f, least, unit = made.rewards[name], setup.fails[k], setup.pays[k] - setup.fails[k]
        values = {
            x: None if getattr(f, x) is None else round(getattr(f, x) / unit, 5) for x in ("difference", "low", "high")
        }
        courses = {
            x: [round((y - least) / unit, 4) for y in getattr(f, x)[::_EVERY]] for x in ("as_it_ran", "forecast")
        }
        of_log = {x: float(f"{getattr(f, x):.4g}") for x in ("speed", "speed_error", "push", "push_as_it_ran")}
        yield name, values | of_log | courses | ({"why": f.why} if f.why else {})


# --- measure ----------------------------------------------------------------------------------------------------------


@cache
def _tasks() -> dict[str, Task]:
    """Return the task by which the answers to each training request are graded, by the text of the request."""
    return {request.text: task_of(request) for request in prompts()}


@cache
def _grades(prompt: str, text: str) -> Mapping[str, float]:
    """Return the grades of an answer, as `experiments.train.grades` returns them.

    prompt: the request.
    text: the answer.
    """
    return grades(_tasks()[prompt], text)


def rewards_of(setup: Setup, folder: Path) -> pl.DataFrame:
    """Return a table of a run with the columns step, reward and mean: the mean of each reward at each step, in parts of
    the reward's range.

    The rewards are graded from the logged texts as the set-up pays them; the noise is left out.

    setup: the set-up of the run.
    folder: the folder of the run.
    """
    texts = pl.concat([pl.read_parquet(path) for path in sorted((folder / "completions").glob("*.parquet"))])
    graded = [_grades(*pair) for pair in texts.select("prompt", "completion").iter_rows()]
    columns = {
        name: [(pay(setup, k, marks) - setup.fails[k]) / (setup.pays[k] - setup.fails[k]) for marks in graded]
        for k, name in enumerate(setup.graded)
    }
    means = (
        texts.select("step").with_columns(**{name: pl.Series(x) for name, x in columns.items()}).group_by("step").mean()
    )
    return means.sort("step").unpivot(index="step", variable_name="reward", value_name="mean")


def measure(runs: Path) -> pl.DataFrame:
    """Return a table with the mean of each reward at each step of the runs of plans.json.

    The columns are setup, row, seed, step, reward and mean; the mean counts a fail as 0 and a pass as 1, whatever they
    pay. A row of plans.json is left out if one of its seeds is not trained. A reward that is noise alone is always left
    out.

    runs: the folder of the runs. A run is in SETUP/ROW/SEED.
    """
    tables = []
    for row in planned_rows():
        folders = [runs / row.setup / row.name / str(seed) for seed in SEEDS]
        if all((folder / "metrics.json").exists() for folder in folders):
            for seed, folder in zip(SEEDS, folders, strict=True):
                named = pl.lit(row.setup).alias("setup"), pl.lit(row.name).alias("row"), pl.lit(seed).alias("seed")
                tables.append(rewards_of(setup_named(row.setup), folder).select(*named, "step", "reward", "mean"))
    kinds = pl.col("setup", "row", "reward").cast(pl.Categorical), pl.col("seed").cast(pl.UInt8)
    return pl.concat(tables).with_columns(*kinds, pl.col("step").cast(pl.UInt16), pl.col("mean").cast(pl.Float32))


def speeds(*folders: Path) -> pl.DataFrame:
    """Return a table of the speed of each reward of each run, with the standard error of this speed. The speed says how
    fast the reward follows a push in the first 50 steps.

    The columns are setup, row, seed, reward, speed and error; a reward whose speed is not known has no line. A run
    counts once, from the first folder that has it. The method grpo counts as the row "as it ran", and gdpo as "GDPO".
    Runs of the rows named "gate" are left out, because their logs hold the gated reward only as the gate leaves it.

    folders: the folders of the runs. A run is in SETUP/ROW/SEED or in SETUP/METHOD/SEED.
    """
    rows: dict[tuple[str, str, int], list[tuple[str, float, float]]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/*/*/metrics.json")):
            setup, row, seed = path.relative_to(folder).parts[:3]
            row = {"grpo": AS_IT_RAN, "gdpo": "GDPO"}.get(row, row)
            if row != "gate" and (setup, row, int(seed)) not in rows:
                known = {x.reward: x for x in pooled_speeds([_report(path.parent, max(FROM_STEPS))])}
                names = [name for name in setup_named(setup).graded if name in known]
                rows[setup, row, int(seed)] = [
                    (name, round(known[name].speed, 5), round(known[name].error, 5)) for name in names
                ]
    flat = [(*run, *x) for run, of_run in sorted(rows.items()) for x in of_run]
    return pl.DataFrame(flat, schema=["setup", "row", "seed", "reward", "speed", "error"], orient="row")


# --- judge ------------------------------------------------------------------------------------------------------------


def main() -> int:
    """Run the command, and return 0.

    "predict" writes the forecasts, "measure" writes the tables of runs and of speeds, and "judge" prints how good the
    forecasts were.
    """
    parser = argparse.ArgumentParser(
        prog="python -m experiments.forecasts", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("do", choices=("predict", "measure", "judge"))
    parser.add_argument("--runs", type=Path, help="folder of the runs of the rows, in SETUP/ROW/SEED")
    parser.add_argument(
        "--logs", type=Path, help="folder of other logs, in SETUP/METHOD/SEED: to predict from, for speeds"
    )
    given = parser.parse_args()
    needed = {"predict": "logs", "measure": "runs"}.get(given.do)
    if needed and getattr(given, needed) is None:
        parser.error(f"{given.do}: expected a folder as --{needed}, got none")
    if given.do == "predict":
        lines = [json.dumps(x, ensure_ascii=False) for x in predict(given.logs)]
        FORECASTS.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    elif given.do == "measure":
        measure(given.runs).write_parquet(RUNS, compression="zstd", compression_level=19)
        speeds(*filter(None, (given.runs, given.logs))).write_csv(SPEEDS)
    else:
        print_judged(pl.read_parquet(RUNS))
    return 0


def print_judged(table: pl.DataFrame) -> None:
    """Print each forecast whose row is in the table, with what came of it, and then how good these forecasts are.

    The forecasts from 25 steps come first, and then, in the same way, the forecasts from 50 steps.

    table: what `measure` returns.
    """
    came, said = what_came(table, pl.read_parquet(EARLIER)), json.loads(FORECASTS.read_text())
    for steps in FROM_STEPS:
        judged = [x for x in said if x["from_steps"] == steps and (x["setup"], x["row"], x["reward"]) in came]
        truth = [came[x["setup"], x["row"], x["reward"]] for x in judged]
        for x, true in zip(judged, truth, strict=True):
            shown = "open" if x["low"] is None else f"{x['difference']:+.3f} [{x['low']:+.3f}, {x['high']:+.3f}]"
            print(f"| {x['setup']} | {x['row']} | {x['reward']} | {shown} | {true:+.3f} |")
        print(f"from {steps} steps: {judge(truth, judged)}")


if __name__ == "__main__":
    sys.exit(main())
