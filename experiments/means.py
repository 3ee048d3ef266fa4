"""Bounds that a log of means proves, beside the exact shares of runs whose answers are known.

A share is a reward's part of the update. TRL logs means and other numbers of each step. `python -m experiments.means
--runs FOLDER` takes only these from the logs of `experiments.train`, and computes bounds on the shares from them. It
writes to experiments/means.csv how good the bounds are, a line for each run and method. With --runs or without it, the
tables of docs/means.md are written anew, from that file and from data/experiments.parquet. It does not need TRL.
"""

import argparse
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gdpo_core as gc
from experiments.setups import AGGREGATIONS as TRAINED
from experiments.setups import SEEDS, SETUPS, Setup, setup_named
from experiments.train import GROUP, PROMPTS
from gdpo_core.bounds.means import Scalars, Shares, bound_shares
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.shared.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "data" / "experiments.parquet", ROOT / "docs" / "means.md"
FILE, RUNS = ROOT / "experiments" / "means.csv", ROOT / "experiments" / "runs.csv"
BEGIN, END = "<!-- written by experiments.means -->", "<!-- to here -->"
WIDEST = 10.0  # bounds that are further apart say no more than that the share is open
ROUNDED = 6e-4  # by how much a share in the table may be rounded, as it has three decimals
EVERY, SWAPS = 10, 3_000  # the answers of every tenth step are dealt anew, with so many swaps tried for each reward


# --- the means alone, of the table of 100 runs -----------------------------------------------------------------------


def of_table() -> list[dict[str, Any]]:
    """Return a dict for each run in the table of 100 runs, data/experiments.parquet: its setup, method and seed, and
    the figures that `_judge` returns.

    The figures say how good the bounds on the shares of the update are that the means alone prove. Runs of a set-up
    with a gate are left out, as the table holds a pass rate there that is not the reward.
    """
    rows = []
    for (name, method, seed), steps in pl.read_parquet(TABLE).group_by("setup", "method", "seed", maintain_order=True):
        setup = setup_named(str(name))
        if setup.gate is not None:
            continue
        exact = steps.select([f"share_{reward}" for reward in setup.names]).to_numpy().astype(float)
        found = bound_shares(_scalars_of_rates(setup, steps), str(method))
        judged = _judge(exact, found, ROUNDED)
        rows.append({"setup": name, "method": method, "seed": seed, **judged})
    return rows


def _scalars_of_rates(setup: Setup, steps: pl.DataFrame) -> Scalars:
    """Return what a log of means alone would hold of one of the 100 runs in data/experiments.parquet.

    The mean of a reward is its pass rate times what a pass pays; for the noise it is the mean in the table. Stds and
    other scalars are NaN, because the table does not have them.

    setup: the set-up of the run.
    steps: the rows that the table has of the run.
    """
    rates = steps.select(setup.names).to_numpy().astype(float)
    pays = np.array([*setup.pays, *[1.0] * setup.noise])
    unknown = np.full(len(steps), np.nan)
    stds = np.full(rates.shape, np.nan)
    return Scalars(GROUP, PROMPTS, setup.reward_weights, values_of(setup), rates * pays, stds, unknown, unknown)


def values_of(setup: Setup) -> list[tuple[float, float] | None]:
    """Return for each reward of a set-up the pair (0, what it pays for a pass), and None for the noise.

    The 0 stands for a fail, even if the set-up pays something else for it.
    """
    return [*[(0.0, pay) for pay in setup.pays], *([None] if setup.noise else [])]


def _judge(exact: np.ndarray, found: Shares, slack: float) -> dict[str, float]:
    """Return a dict that says how good the bounds on the shares of a run are. It has five figures:

    - "steps": how many steps were judged;
    - "held": the share of steps at which all bounds hold;
    - "width": the median width of the bounds;
    - "decided_steps": the share of steps at which the bounds decide which reward has the largest share;
    - "decided": 1 if the means of the bounds over the second half of the run decide this, else 0.

    exact: (steps, rewards) the exact shares; a step with a NaN is left out.
    found: the bounds.
    slack: by how much a bound may be missed.
    """
    there = np.isfinite(exact).all(1)
    exact, low, high, largest = exact[there], found.low[there], found.high[there], found.largest[there]
    half = len(exact) // 2
    low_half, high_half = low[half:].mean(0), high[half:].mean(0)
    over = [bool((low_half[k] > np.delete(high_half, k)).all()) for k in range(len(low_half))]
    return {
        "steps": len(exact),
        "held": float(((exact >= low - slack) & (exact <= high + slack)).all(1).mean()),
        "width": float(np.median(high - low)),
        "decided_steps": float((largest >= 0).mean()),
        "decided": float(any(over)),
    }


# --- what TRL logs, of logs with completions -------------------------------------------------------------------------


def scalars_of(rewards: np.ndarray, setup: Setup, method: str) -> Scalars:
    """Return what TRL 1.16 logs of some steps under a method.

    `frac_reward_zero_std`, TRL's share of the groups whose rewards all have one sum, is NaN under GDPO, where TRL takes
    it of the whole batch.

    rewards: (steps, groups, rollouts, rewards).
    setup: gives the weights of the rewards, and what each of them pays.
    method: the id of the method.
    """
    steps, groups, size, count = rewards.shape
    flat, total = rewards.reshape(steps, -1, count), rewards @ np.array(setup.reward_weights)
    silent = np.isclose(total.std(2, ddof=1), 0).mean(1) if method != "gdpo" else np.full(steps, np.nan)
    stds, total_std = flat.std(1, ddof=1), total.reshape(steps, -1).std(1, ddof=1)
    weights, values = setup.reward_weights, values_of(setup)
    return Scalars(size, groups, weights, values, flat.mean(1), stds, total_std, silent)


def exact_shares(rewards: np.ndarray, setup: Setup, method: str) -> np.ndarray:
    """Return each reward's share of the update at each step, (steps, rewards), as the library computes it.

    rewards: (steps, groups, rollouts, rewards).
    setup: gives the weights of the rewards.
    method: the id of the method.
    """
    options: dict[str, Any] = {"weights": setup.reward_weights, "convention": gc.TRL}
    return np.array([gc.update_share(step, method, **options) for step in rewards])


def other_largest(rewards: np.ndarray, weights: Sequence[float], method: str, seed: int) -> bool:
    """Return whether other groups of the same answers are found in which another reward has the largest share of the
    update, while TRL logs the same numbers.

    All answers are of one step. TRL logs means and stds of the batch, which do not depend on the groups. Under any
    method but GDPO it also logs how many groups are silent, so that this number has to stay. A silent group is one
    whose advantages are all 0. The search swaps answers at random, so False only means that it found none.

    rewards: (groups, rollouts, rewards).
    weights: one per reward.
    method: the id of the method.
    seed: the seed of the random swaps.
    """
    sums = [_update_sums(group, np.array(weights), method) for group in rewards]
    shares = _shares(sums)
    for target in np.argsort(-shares)[1:]:
        if _climb(rewards.copy(), [*sums], int(target), np.array(weights), method, np.random.default_rng(seed)):
            return True
    return False


def _climb(dealt: np.ndarray, sums: list, target: int, weights: np.ndarray, method: str, draw: Any) -> bool:
    """Return whether random swaps of answers between groups give one reward the largest share of the update.

    At most `SWAPS` swaps are tried, one after the other. The lead of the reward is its share less the largest other
    share. A swap is kept only if nothing that TRL logs changes, and if the lead is larger than after the last swap that
    was kept. The first swap that is kept may leave any lead. `dealt` and `sums` are changed in place.

    dealt: (groups, rollouts, rewards) the rewards of the answers in each group.
    sums: by group, the pair that `_update_sums` returns.
    target: the index of the reward.
    weights: one per reward.
    method: the id of the method.
    draw: a random generator of NumPy.
    """
    groups, size, _ = dealt.shape
    silent, best = sum(pair[1] == 0 for pair in sums), -np.inf
    for _ in range(SWAPS):
        g, h = draw.choice(groups, 2, replace=False)
        i, j = draw.integers(size, size=2)
        if (dealt[g, i] == dealt[h, j]).all():
            continue
        before = sums[g], sums[h]
        dealt[g, i], dealt[h, j] = dealt[h, j].copy(), dealt[g, i].copy()
        sums[g], sums[h] = _update_sums(dealt[g], weights, method), _update_sums(dealt[h], weights, method)
        shares = _shares(sums)
        lead = shares[target] - np.delete(shares, target).max()
        same = method == "gdpo" or sum(pair[1] == 0 for pair in sums) == silent
        if not same or not lead > best:
            dealt[g, i], dealt[h, j] = dealt[h, j].copy(), dealt[g, i].copy()
            sums[g], sums[h] = before
            continue
        best = lead
        if best > 1e-6:
            return True
    return False


def _update_sums(group: np.ndarray, weights: np.ndarray, method: str) -> tuple[np.ndarray, float]:
    """Return two sums over the answers of one group: Σ a_k A for each reward k, (rewards,), and Σ A².

    A is the advantage of an answer, and a_k the part of reward k in it. Both sums leave out a factor that all groups of
    the batch have in common, and under GRPO the eps. Both are 0 where every advantage is 0.

    group: (rollouts, rewards) the rewards of the group.
    weights: one per reward.
    method: the id of the method.
    """
    x = (group - group.mean(0)) * weights
    if method == "gdpo":
        x = x / (group.std(0, ddof=1) + gc.TRL.group_eps)
    s = x.sum(1)
    total = float(s @ s)
    if total < 1e-12:
        return np.zeros(len(weights)), 0.0
    by = total if method == "grpo" else 1.0
    return x.T @ s / by, total / by


def _shares(sums: list) -> np.ndarray:
    """Return each reward's share of the update, (rewards,).

    sums: for each group, the pair of sums that `_update_sums` returns: the part of each reward in Σ A², and Σ A².
    """
    return np.sum([pair for pair, _ in sums], axis=0) / max(sum(total for _, total in sums), 1e-12)


def of_run(folder: Path, setup: Setup, ran: str, seed: int) -> list[dict[str, Any]]:
    """Return how good the bounds on the shares of the update would be if TRL had logged the run under each method of
    COMPARED.

    The result is a dict for each method. It has setup, ran, seed and method, the keys that `_judge` returns, and two
    more:

    - "same_log" says whether the log is, byte for byte, the log that experiments/runs.csv names.
    - "dealt" is None for any method but `ran`. For `ran` it is the share of steps at which `other_largest` finds other
      groups of the same answers. With these groups TRL would log the same numbers, but another reward would have the
      largest share. Only every tenth step is looked at.

    folder: the folder of the run.
    setup: the set-up of the run.
    ran: the method that really trained the run.
    seed: the seed of the run.
    """
    files = sorted((folder / "completions").glob("*.parquet"))
    logged = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    named = (pl.col("setup") == setup.name) & (pl.col("method") == ran) & (pl.col("seed") == seed)
    known = pl.read_csv(RUNS).filter(named)["log_sha256"].to_list()
    table = pl.concat([pl.read_parquet(path, columns=list(setup.names)) for path in files])
    rewards = table.to_numpy().astype(float).reshape(-1, PROMPTS, GROUP, len(setup.names))
    rows = []
    for method in COMPARED:
        found = bound_shares(scalars_of(rewards, setup, method), method)
        judged = _judge(exact_shares(rewards, setup, method), found, 1e-5)
        dealt: float | None = None
        if method == ran:
            some = range(0, len(rewards), EVERY)
            dealt = float(np.mean([other_largest(rewards[t], setup.reward_weights, method, t) for t in some]))
        row = {"setup": setup.name, "ran": ran, "seed": seed, "same_log": logged in known, "method": method}
        rows.append(row | judged | {"dealt": dealt})
    return rows


def of_runs(folder: Path) -> pl.DataFrame:
    """Return a table of how good the bounds on the shares of the update are, rounded to four decimals.

    It has a row for each dict that `of_run` returns for the finished runs in a folder.

    folder: a folder of runs that `experiments.train` wrote.

    Raises InputError if there is no finished run.
    """
    rows = []
    for setup in SETUPS:
        for ran in TRAINED:
            for seed in SEEDS:
                run = folder / setup.name / ran / str(seed)
                if (run / "metrics.json").exists():
                    rows += of_run(run, setup, ran, seed)
    if not rows:
        raise InputError(f"{folder}: expected finished runs, got none: python -m experiments.train makes them")
    return pl.DataFrame(rows).with_columns(pl.col(pl.Float64).round(4))


# --- the page --------------------------------------------------------------------------------------------------------


def tables(rates: pl.DataFrame, logs: pl.DataFrame) -> list[str]:
    """Return lines of Markdown for docs/means.md: tables and sentences on how good the bounds are.

    rates: the rows of `of_table`, with bounds from the means alone.
    logs: the rows of `of_runs`, with bounds from all that TRL logs.
    """
    ran = logs.filter(pl.col("method") == pl.col("ran"))
    centred = logs.filter(pl.col("method") == "grpo_no_std")
    return [
        f"**The means alone**, {len(rates)} runs of `data/experiments.parquet`, under the method that ran:",
        "",
        *_table(rates.rename({"method": "under"}), False),
        "",
        f"**All that TRL logs**, {len(ran)} runs, under the method that ran:",
        "",
        *_table(ran.drop("method").rename({"ran": "under"}), True),
        "",
        f"**The answers of the same {len(ran)} runs**, if they had been trained by GRPO without std:",
        "",
        *_table(centred.drop("ran").rename({"method": "under"}), False),
        "",
        *_sentences(rates, ran),
    ]


def _table(rows: pl.DataFrame, dealt: bool) -> list[str]:
    """Return the lines of a Markdown table with a row per set-up and method, summed up over their runs.

    rows: a row per run, with its set-up in the column "setup", its method in "under", and the figures of `_judge`.
    dealt: whether the table also has the mean of the column "dealt", which `of_run` describes.
    """
    heads = ["set-up", "method", "runs", "steps inside", "median width", "steps decided", "runs decided"]
    heads += ["steps that other groups turn"] * dealt
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for (setup, method), cell in rows.group_by("setup", "under", maintain_order=True):
        width = float(np.median(cell["width"]))
        cells = [
            setup_named(str(setup)).title,
            NAMES[str(method)],
            str(len(cell)),
            f"{100 * _over_steps(cell, 'held'):.4g} %",
            f"{100 * width:.0f} points" if width <= WIDEST else "open",
            f"{100 * _over_steps(cell, 'decided_steps'):.1f} %",
            f"{cell['decided'].sum():.0f} of {len(cell)}",
        ]
        cells += [f"{100 * float(np.average(cell['dealt'])):.0f} %"] if dealt else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _over_steps(rows: pl.DataFrame, name: str) -> float:
    """Return the mean of a column over runs, each weighted by its number of steps.

    rows: a row per run, with its number of steps in the column "steps".
    name: the name of the column.
    """
    return float(np.average(rows[name], weights=rows["steps"]))


def _sentences(rates: pl.DataFrame, ran: pl.DataFrame) -> list[str]:
    """Return the sentences below the tables of docs/means.md. Their numbers show whether the bounds are as good as we
    expected before we computed them.

    rates: a row per run, with bounds from the means alone.
    ran: a row per run, with bounds from all that TRL logs, computed under the method with which the run was trained.
    """
    both = pl.concat([rates.select("held", "steps"), ran.select("held", "steps")])
    wide = 100 * float(np.median([*rates["width"], *ran["width"]]))
    return [
        f"Bounds and exact shares were compared at {both['steps'].sum():,} steps. At {_over_steps(both, 'held'):.2%} "
        "of them all exact shares lie inside their bounds.",
        f"The median width over the runs of the first two tables is {wide:.0f} points.",
        f"The largest reward is decided in {rates['decided'].sum():.0f} of {len(rates)} runs by the means alone, and "
        f"in {ran['decided'].sum():.0f} of {len(ran)} by all that TRL logs. Of single steps it is decided in "
        f"{_over_steps(rates, 'decided_steps'):.1%} and in {_over_steps(ran, 'decided_steps'):.1%}.",
        f"At {np.average(ran['dealt']):.0%} of the steps that were searched, the same answers in other groups make TRL "
        "log the same numbers, and another reward is the largest.",
        f"{ran['same_log'].sum()} of the {len(ran)} logs are, byte for byte, those of `experiments/runs.csv`.",
    ]


def main() -> int:
    """Run the command: write experiments/means.csv if a folder of runs is given, then write the tables into
    docs/means.md, and print them.

    Returns the exit code: 2 if the folder cannot be used, such as one without a finished run, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.means", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder of the runs of experiments.train")
    given = parser.parse_args()
    if given.runs is not None:
        try:
            of_runs(given.runs).write_csv(FILE)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
    lines = "\n".join(tables(pl.DataFrame(of_table()), pl.read_csv(FILE)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{lines}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
