"""Three learners on which forecasts are tried, with rewards of several kinds: `python -m experiments.learners`.

All that stands here, and the forecasts, were committed before the runs that they are about. The rules:

- For each set-up a forecast is made of the log of its row "as it ran" with seed 0: from its first 25 and its first 50
  steps, over `STEPS` steps. Until the forecasts are committed no other run is trained.
- Each row is trained with the seeds 0 to 4. What came of it is the mean of a reward over all steps and seeds, less that
  of "as it ran", in parts of the reward's range in the log that was forecast from. How forecasts are judged stands in
  `gdpo_audit/comparing/judging.py`.
- Asked, for each learner: nine in ten clear differences with the right sign among the forecasts that tell one, 70 in
  100 intervals that hold, and, where a forecast is told, a mean error of at most 0.7 of the guess "nothing changes".

A run is in FOLDER/LEARNER/SETUP/ROW/SEED.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl

from experiments.requests import pieces, task_of
from experiments.train import Job, finished, grades, prompts, warm
from gdpo_audit import audit, read_run
from gdpo_audit.comparing.judging import AS_IT_RAN, FIRST_SEEDS, judge

DATA = Path(__file__).resolve().parent.parent / "data"
FORECASTS, LATER_FORECASTS = DATA / "learners.json", DATA / "learners_later.json"
MEANS = DATA / "learners.parquet"
STEPS = 100
FROM_STEPS = (25, 50)
UNJUDGED = 0.3  # the part of the answers that the judge gives no reward
_TASKS = {request.text: task_of(request) for request in prompts()}


def small() -> Any:
    """Return a model of another size with random weights, which writes pieces at random."""
    return _random(3, {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16, "num_hidden_layers": 1})


def wide() -> Any:
    """Return a model of the size of the warm one with random weights."""
    return _random(4, {})


def _random(seed: int, sizes: dict[str, int]) -> Any:
    """Return a model with random weights.

    seed: fixes these weights.
    sizes: where it differs from the warm one.
    """
    import torch
    from transformers import LlamaForCausalLM

    from experiments.train import CHECKPOINT

    config = LlamaForCausalLM.config_class.from_pretrained(CHECKPOINT)
    config.update(sizes)
    torch.manual_seed(seed)
    return LlamaForCausalLM(config)


@dataclass(frozen=True)
class Learner:
    """A model, a learning rate and the most tokens of an answer."""

    model: Callable[[], Any]
    learning_rate: float
    longest: int = 20


LEARNERS = {"warm": Learner(warm, 1e-4), "fast": Learner(warm, 3e-4), "small": Learner(small, 1e-3, 12)}
LATER = {"faster": Learner(warm, 6e-4), "wide": Learner(wide, 5e-4, 12)}  # see README.md


@dataclass(frozen=True)
class Case:
    """A set-up of one learner: names of REWARDS, the weight of each, the method that runs, and three other settings.

    rows: each a method and weights, by the title of the row.
    """

    learner: str
    name: str
    rewards: tuple[str, str, str]
    weights: tuple[float, float, float]
    method: str
    rows: dict[str, tuple[str, tuple[float, float, float]]]

    @property
    def trained(self) -> dict[str, tuple[str, tuple[float, float, float]]]:
        """The method and the weights of every row, the one that ran first."""
        return {AS_IT_RAN: (self.method, self.weights)} | self.rows


def _case(learner: str, name: str, rewards: str, weights: Sequence[float], method: str = "grpo") -> Case:
    """Return a case with three rows: the other method, the first reward weighed three times as much, and the last one
    a third as much under the other method.
    """
    first, second, third = weights
    other = "gdpo" if method == "grpo" else "grpo"
    rows = {
        "other method": (other, (first, second, third)),
        "first x 3": (method, (3 * first, second, third)),
        "last / 3, other method": (other, (first, second, third / 3)),
    }
    a, b, c = rewards.split()
    return Case(learner, name, (a, b, c), (first, second, third), method, rows)


CASES = (
    _case("warm", "dense", "correctness closeness terse", (1, 1, 1)),
    _case("warm", "missing", "correctness closeness style_judge", (1, 1, 1)),
    _case("warm", "penalty", "correctness style tokens", (1, 1, -0.1), "gdpo"),
    _case("fast", "equal", "correctness style conciseness", (1, 1, 1)),
    _case("fast", "dense", "correctness closeness terse", (2, 1, 0.5)),
    _case("fast", "weights", "correctness style conciseness", (1, 3, 0.5), "gdpo"),
    _case("small", "penalty", "on_topic closed tokens", (1, 1, -0.1)),
    _case("small", "missing", "closed words topic_judge", (1, 1, 1)),
    _case("small", "weights", "on_topic closed words", (1, 0.5, 2), "gdpo"),
)
LATER_CASES = (
    _case("faster", "equal", "correctness style conciseness", (1, 1, 1), "gdpo"),
    _case("faster", "missing", "correctness closeness style_judge", (1, 1, 1)),
    _case("faster", "penalty", "correctness conciseness tokens", (1, 1, -0.1)),
    _case("wide", "equal", "on_topic closed words", (1, 1, 1)),
    _case("wide", "missing", "closed words topic_judge", (1, 1, 2)),
    _case("wide", "penalty", "on_topic words tokens", (1, 1, -0.1), "gdpo"),
)

# --- rewards ----------------------------------------------------------------------------------------------------------

_PIECES = re.compile("|".join(map(re.escape, pieces())))


def _graded(name: str) -> Callable[[str, str, int], float | None]:
    """Return a function of a prompt, an answer and its number of tokens: a grade of `experiments.train.grades`."""
    return lambda prompt, text, tokens: grades(_TASKS[prompt], text)[name]


def _on_topic(prompt: str, text: str, tokens: int) -> float:
    """Return 1 if an answer has a word of at least four letters out of its prompt, else 0."""
    return float(any(word in text for word in re.findall(r"\w{4,}", prompt)))


def _words(prompt: str, text: str, tokens: int) -> float:
    """Return the share of an answer's pieces that are made of letters alone."""
    found = _PIECES.findall(text)
    return sum(piece.isalpha() for piece in found) / max(len(found), 1)


def _partly(graded: Callable[[str, str, int], float | None]) -> Callable[[str, str, int], float | None]:
    """Return a reward that some answers do not get: a judge that fails in `UNJUDGED` of its calls."""
    return lambda prompt, text, n: None if crc32(text.encode()) % 100 < 100 * UNJUDGED else graded(prompt, text, n)


REWARDS: dict[str, Callable[[str, str, int], float | None]] = {
    **{name: _graded(name) for name in ("correctness", "style", "conciseness", "closeness")},
    "terse": lambda prompt, text, tokens: -0.1 * tokens,
    "tokens": lambda prompt, text, tokens: float(tokens),
    "style_judge": _partly(_graded("style")),
    "topic_judge": _partly(_on_topic),
    "on_topic": _on_topic,
    "closed": lambda prompt, text, tokens: float(")" in text),
    "words": _words,
}


def function_of(name: str) -> Callable[..., list[float | None]]:
    """Return the reward function of this name as TRL calls it."""

    def reward(prompts: list[str], completions: list[str], completion_ids: list[list[int]], **_: Any) -> list:
        rows = zip(prompts, completions, completion_ids, strict=True)
        return [REWARDS[name](prompt, text, len(ids)) for prompt, text, ids in rows]

    reward.__name__ = name
    return reward


# --- runs -------------------------------------------------------------------------------------------------------------


def train(case: Case, row: str, seed: int, folder: Path) -> None:
    """Train one run, unless it is there."""
    learner, (method, weights) = (LEARNERS | LATER)[case.learner], case.trained[row]
    job = Job(
        model=learner.model,
        functions=[function_of(name) for name in case.rewards],
        weights=list(weights),
        method=method,
        seed=seed,
        learning_rate=learner.learning_rate,
        steps=STEPS,
        longest=learner.longest,
    )
    finished(job, folder / case.learner / case.name / row / str(seed), learner=case.learner, setup=case.name, row=row)


def files_of(folder: Path, case: Case, row: str, seed: int, steps: int = STEPS) -> list[str]:
    """Return the files of the first steps of a run."""
    found = (folder / case.learner / case.name / row / str(seed) / "completions").glob("*.parquet")
    return [str(path) for path in sorted(found)[:steps]]


def measure(folder: Path) -> pl.DataFrame:
    """Return a table of all finished runs with the mean of each reward at each step, in the reward's own unit: learner,
    setup, row, seed, step, reward, mean.
    """
    tables = []
    for case, seed in product((*CASES, *LATER_CASES), FIRST_SEEDS):
        for row in case.trained:
            if files := files_of(folder, case, row, seed):
                means = pl.read_parquet(files).group_by("step").agg(pl.col(case.rewards).fill_nan(None).mean())
                named = {"learner": case.learner, "setup": case.name, "row": row, "seed": seed}
                columns = [pl.lit(value).alias(name) for name, value in named.items()]
                long = means.sort("step").unpivot(index="step", variable_name="reward", value_name="mean")
                tables.append(long.select(*columns, "step", "reward", "mean"))
    kinds = pl.col("learner", "setup", "row", "reward").cast(pl.Categorical), pl.col("seed").cast(pl.UInt8)
    return pl.concat(tables).with_columns(*kinds, pl.col("step").cast(pl.UInt16), pl.col("mean").cast(pl.Float32))


# --- forecasts --------------------------------------------------------------------------------------------------------


def predict(folder: Path, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return the forecasts of every row of some cases, in parts of the range of the reward in the log: a dict per row,
    reward and number of steps of the log. It has learner, setup, row, reward, from_steps, range, difference, low, high
    and why; three of these are None where the forecast is open.
    """
    said = []
    for case, steps in product(cases, FROM_STEPS):
        report = audit(read_run(files_of(folder, case, AS_IT_RAN, 0, steps)))
        values = pl.read_parquet(files_of(folder, case, AS_IT_RAN, 0, steps)).select(case.rewards).fill_nan(None)
        ranges = values.max() - values.min()
        for row, (method, weights) in case.rows.items():
            made = report.forecast(method=method, weights=dict(zip(case.rewards, weights, strict=True)), steps=STEPS)
            for name, f in made.rewards.items():
                unit = float(ranges[name].item())
                told = (None if x is None else round(x / unit, 5) for x in (f.difference, f.low, f.high))
                named = {"learner": case.learner, "setup": case.name, "row": row, "reward": name, "from_steps": steps}
                numbers = dict(zip(("difference", "low", "high"), told, strict=True))
                said.append(named | {"range": round(unit, 6)} | numbers | {"why": f.why})
    return said


def print_judged(means: pl.DataFrame) -> None:
    """Print each forecast with what came, and how good the forecasts of each learner were, told ones apart.

    means: what `measure` returns.
    """
    key = ("learner", "setup", "row", "reward")
    came = {tuple(keys): x for *keys, x in means.group_by(*key).agg(pl.col("mean").mean()).iter_rows()}
    said = [x for path in (FORECASTS, LATER_FORECASTS) for x in json.loads(path.read_text())]
    for name, steps in product((*LEARNERS, *LATER), FROM_STEPS):
        truth, judged = [], [x for x in said if (x["learner"], x["from_steps"]) == (name, steps)]
        for x in judged:
            place = [x[name_of] for name_of in key]
            ran = came[place[0], place[1], AS_IT_RAN, place[3]]
            truth.append((came[tuple(place)] - ran) / x["range"])
            shown = "open" if x["low"] is None else f"{x['difference']:+.3f} [{x['low']:+.3f}, {x['high']:+.3f}]"
            print(f"| {' | '.join(place)} | {shown} | {truth[-1]:+.3f} |")
        told = [(t, x) for t, x in zip(truth, judged, strict=True) if x["low"] is not None]
        good = judge([t for t, _ in told], [x for _, x in told]) if told else "none"
        print(f"{name}, from {steps} steps, {len(judged) - len(told)} open, told: {good}")


def main() -> int:
    """Run the command and return 0.

    "first" trains the logs to forecast from, "predict" writes the forecasts, "rest" trains all other runs, "measure"
    writes the table of their means, and "judge" prints how good the forecasts were.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.learners", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("do", choices=("first", "predict", "rest", "measure", "judge"))
    parser.add_argument("--later", action="store_true", help="the later learners")
    parser.add_argument("--out", type=Path, help="folder of the runs")
    given = parser.parse_args()
    if given.do == "judge":
        print_judged(pl.read_parquet(MEANS))
        return 0
    if given.out is None:
        parser.error(f"{given.do}: expected a folder as --out, got none")
    cases = LATER_CASES if given.later else CASES
    if given.do == "predict":
        lines = [json.dumps(x, ensure_ascii=False) for x in predict(given.out, cases)]
        (LATER_FORECASTS if given.later else FORECASTS).write_text("[\n" + ",\n".join(lines) + "\n]\n")
        return 0
    if given.do == "measure":
        measure(given.out).write_parquet(MEANS, compression="zstd", compression_level=19)
        return 0
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded
    for seed in (0,) if given.do == "first" else FIRST_SEEDS:
        for case in cases:
            for row in (AS_IT_RAN,) if given.do == "first" else case.trained:
                train(case, row, seed, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
