"""Differences in training between GDPO and GRPO with the same weights and seeds: `python -m experiments.differences`.

All runs that were trained under both methods are compared, and GRPO without std where it was trained too. The command
reads the tables of these runs in data/ and writes two small ones, which the page shows:

- `trained.csv`: a row for each reward of a set-up under a method other than GRPO. The difference is the mean of the
  reward over all steps, less that under GRPO with the same seed, averaged over the seeds. It is in points: a point is a
  hundredth of the reward's range. `low` and `high` are the ends of its 95 % interval by Student's t. Above 0 is always
  what the run wants: a reward with a negative weight counts upside down.
- `trained_curves.parquet`: the course of each reward under each method, in its own unit.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.learners import CASES, FORECASTS, LATER_CASES, LATER_FORECASTS, MEANS, Case
from experiments.setups import NEW_SETUPS, NO_STD, REWARDS, SETUPS, Setup
from gdpo_audit.comparing.judging import AS_IT_RAN
from gdpo_core.intervals import half_width

DATA = Path(__file__).resolve().parent.parent / "data"
TABLE, OUTLINE = DATA / "trained.csv", DATA / "trained_curves.parquet"
NO_STD_CURVES = DATA / "no_std.parquet"
GATED, BEHIND_GATE = "gated", "gated reward"
EVERY = 5  # a point of a curve stands for so many steps
# What the set-ups of a group share, in the order in which they are shown.
TEN, FIVE, FASTER, COLD = (
    "A model warmed up by imitation, ten seeds",
    "The same model, five seeds",
    "The same model at a higher learning rate, five seeds",
    "Two models that start from random weights, five seeds",
)
# The set-ups of the learners by name. Only where nothing but 0/1 marks is rewarded are the rewards alike in scale.
LEARNERS_TITLES = {
    "equal": "Equal weights",
    "dense": "Two scores beside a mark",
    "missing": "A judge that skips some answers",
    "penalty": "A penalty for length",
    "weights": "Other weights",
}
MARKS = {*REWARDS, "strict", "style_judge", "on_topic", "closed", "topic_judge"}  # rewards of 0 or 1


@dataclass(frozen=True)
class Trained:
    """The runs of one set-up under GRPO, GDPO and perhaps GRPO without std.

    alike: whether each reward that can be learnt is 0 or 1 and pays the same as the others.
    ranges: of each reward, below 0 where its weight is.
    runs: a table with method, seed, step, reward and rate, the mean of the reward in its own unit.
    """

    name: str
    group: str
    title: str
    alike: bool
    ranges: dict[str, float]
    runs: pl.DataFrame


def trained() -> Iterator[Trained]:
    """Yield the set-ups that were trained under both methods, group by group."""
    yield from ten_seeds()
    yield from _new_setups()
    kinds = {"warm": FIVE, "fast": FASTER, "faster": FASTER, "small": COLD, "wide": COLD}
    cases = sorted((*CASES, *LATER_CASES), key=lambda case: list(kinds).index(case.learner))
    for case in cases:
        yield _of_learner(case, kinds[case.learner])


def ten_seeds() -> Iterator[Trained]:
    """Yield the five old set-ups, with GRPO without std.

    Of the set-up with the gate, `experiments.parquet` has conciseness whatever it paid, and the other tables have it
    behind the gate. These are two rewards, so GRPO without std is compared with the runs of `forecasts.parquet`.
    """
    earlier = _read(DATA / "experiments.parquet").unpivot(
        REWARDS, index=["setup", "method", "seed", "step"], variable_name="reward", value_name="rate"
    )
    gated = _read(DATA / "forecasts.parquet").filter(setup=GATED, row=AS_IT_RAN, reward=REWARDS[2])
    later = [
        gated.with_columns(method=pl.lit("grpo")),
        _read(NO_STD_CURVES).with_columns(method=pl.lit(NO_STD)),
    ]
    of_gate = (pl.col("setup") == GATED) & (pl.col("reward") == REWARDS[2])
    name = pl.when(of_gate).then(pl.lit(BEHIND_GATE)).otherwise("reward").alias("reward")
    kept = (table.with_columns(name).rename({"mean": "rate"}).select(earlier.columns) for table in later)
    runs = pl.concat([earlier, *kept])
    for setup in SETUPS:
        rewards = (*REWARDS, BEHIND_GATE) if setup.name == GATED else REWARDS
        alike = len(set(setup.pays)) == 1
        yield Trained(setup.name, TEN, setup.title, alike, dict.fromkeys(rewards, 1.0), _runs(runs, setup=setup.name))


def _new_setups() -> Iterator[Trained]:
    """Yield the four set-ups of which GRPO and GDPO are rows of plans.json."""
    runs = _read(DATA / "forecasts.parquet").rename({"mean": "rate"})
    named = runs.with_columns(method=pl.col("row").replace_strict({AS_IT_RAN: "grpo", "GDPO": "gdpo"}, default=None))
    for setup in NEW_SETUPS:
        ranges = dict.fromkeys(setup.graded, 1.0)
        found = _runs(named.drop_nulls("method"), setup=setup.name)
        yield Trained(setup.name, FIVE, setup.title, _all_marks(setup), ranges, found)


def _all_marks(setup: Setup) -> bool:
    spans = {high - low for low, high in zip(setup.fails, setup.pays, strict=True)}
    return {*setup.graded} <= MARKS and len(spans) == 1


def _of_learner(case: Case, group: str) -> Trained:
    """Return the runs of a learner's set-up as it ran and under the other method, with the same weights."""
    said = [x for path in (FORECASTS, LATER_FORECASTS) for x in json.loads(path.read_text())]
    ranges = {x["reward"]: x["range"] for x in said if (x["learner"], x["setup"]) == (case.learner, case.name)}
    signs = {name: 1 if weight > 0 else -1 for name, weight in zip(case.rewards, case.weights, strict=True)}
    other = "gdpo" if case.method == "grpo" else "grpo"
    methods = {AS_IT_RAN: case.method, "other method": other}
    runs = _read(MEANS).rename({"mean": "rate"}).filter(pl.col("row").is_in([*methods]))
    runs = runs.with_columns(method=pl.col("row").replace_strict(methods))
    found = _runs(runs, learner=case.learner, setup=case.name)
    return Trained(
        f"{case.learner}-{case.name}",
        group,
        _title(case),
        {*case.rewards} <= MARKS,
        {name: signs[name] * ranges[name] for name in case.rewards},
        found,
    )


def _title(case: Case) -> str:
    """Return words for a learner's set-up: what is special about its rewards, its weights, and which learner it is."""
    title, weights = LEARNERS_TITLES[case.name], [w for w in case.weights if w > 0]
    if len(set(weights)) > 1:
        several = ", ".join(f"{w:g}" for w in weights[:-1])
        with_weights = f"weights {several} and {weights[-1]:g}"
        title = f"The {with_weights}" if case.name == "weights" else f"{title}, {with_weights}"
    which = {"fast": "rate × 3", "faster": "rate × 6", "small": "small", "wide": "wide"}.get(case.learner)
    return f"{title} ({which})" if which else title


def _read(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path).with_columns(pl.col(pl.Categorical).cast(pl.String))


def _runs(table: pl.DataFrame, **of: str) -> pl.DataFrame:
    rate = pl.col("rate").cast(pl.Float64)
    return table.filter(**of).select("method", "seed", "step", "reward", rate)


# --- what is written --------------------------------------------------------------------------------------------------


def apart(setup: Trained, method: str, reward: str) -> NDArray[np.float64]:
    """Return (seeds,) how many points a reward is higher under a method than under GRPO, in the mean over all steps.

    A seed counts if both methods ran with it, so that the result may be empty.
    """
    means = setup.runs.filter(reward=reward).group_by("method", "seed").agg(pl.col("rate").mean())
    found, grpo = (dict(means.filter(method=m).select("seed", "rate").iter_rows()) for m in (method, "grpo"))
    return np.array([100 * (found[s] - grpo[s]) / setup.ranges[reward] for s in sorted({*found} & {*grpo})])


def differences(setups: Sequence[Trained]) -> pl.DataFrame:
    """Return a row for each reward of each set-up under each method but GRPO, as the docstring of this file says."""
    rows = []
    for setup, method in product(setups, ("gdpo", NO_STD)):
        for reward, span in setup.ranges.items():
            found = apart(setup, method, reward)
            if len(found):
                mean, half = float(found.mean()), half_width([found], runs=True) or 0.0
                first = (setup.name, setup.group, setup.title, setup.alike, reward, span > 0, method)
                rows.append((*first, *(round(x, 3) for x in (mean, mean - half, mean + half)), len(found)))
    named = ["setup", "group", "title", "alike", "reward", "more_is_wanted", "method", "difference", "low", "high"]
    return pl.DataFrame(rows, schema=[*named, "seeds"], orient="row")


def outline(setups: Sequence[Trained]) -> pl.DataFrame:
    """Return the courses: setup, method, reward, step (the last of EVERY), median, low and high.

    These three are the median and the quartiles, over the seeds, of the reward's mean in these steps.
    """
    rate, tables = pl.col("rate"), []
    for setup in setups:
        steps = setup.runs.with_columns((pl.col("step") - 1) // EVERY * EVERY + EVERY)
        means = steps.group_by("method", "seed", "reward", "step").agg(rate.mean())
        lines = means.group_by("method", "reward", "step").agg(
            rate.median().alias("median"), rate.quantile(0.25).alias("low"), rate.quantile(0.75).alias("high")
        )
        named = lines.select(pl.lit(setup.name).alias("setup"), "method", "reward", "step", "median", "low", "high")
        order = pl.col("reward").replace_strict({name: k for k, name in enumerate(setup.ranges)})
        tables.append(named.sort(order, "method", "step"))
    texts = pl.col("setup", "method", "reward").cast(pl.Categorical)
    return pl.concat(tables).with_columns(texts, pl.col("median", "low", "high").round(4).cast(pl.Float32))


def main() -> int:
    """Write both tables and return 0."""
    setups = tuple(trained())
    differences(setups).write_csv(TABLE)
    outline(setups).write_parquet(OUTLINE, compression="zstd", compression_level=19)
    return 0


if __name__ == "__main__":
    sys.exit(main())
