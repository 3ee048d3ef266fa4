"""Train with TRL's GRPOTrainer from the checkpoint of the warm-up; `python -m experiments.train --out FOLDER`.

Where --setup, --method or --seed is left out, all set-ups, methods or seeds are trained, one after the other. A run
that is finished is not trained again. A run is in FOLDER/SETUP/METHOD/SEED, with the completions that TRL logs, and a
metrics.json of what the trainer logged. With --plans the rows of plans.json are trained instead, and a run is in
FOLDER/SETUP/ROW/SEED, where ROW is the name of its row.
"""

import argparse
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from experiments.requests import Request, draw, task_of
from experiments.setups import (
    AGGREGATIONS,
    NO_STD,
    NOISE_MEAN,
    NOISE_STD,
    REWARDS,
    SEEDS,
    SETUPS,
    Setup,
    planned_rows,
    setup_named,
)
from views.bfcl import Task, grade

CHECKPOINT = Path(__file__).parent / "checkpoint"
REQUESTS, REQUESTS_SEED = 512, 1  # how many requests are drawn, some of them twice; the warm-up had another seed
GROUP, PROMPTS = 12, 8  # answers per prompt, prompts per step
LONGEST = 20  # the most tokens of an answer
STEPS, LEARNING_RATE = 150, 1e-4  # chosen on a set-up that only served for tuning


def prompts() -> list[Request]:
    """Return the requests on which every run is trained, the same ones each time.

    None of them comes twice, because two groups with one prompt would look like one group in a log.
    """
    generator = np.random.default_rng(REQUESTS_SEED)
    return list(dict.fromkeys(draw(generator) for _ in range(REQUESTS)))


def reward_functions(setup: Setup, tasks: dict[str, Task], seed: int) -> list[Callable[..., list[float]]]:
    """Return the reward functions of a set-up as TRL calls them. Each function has the name of its reward.

    tasks: the task of each request, by the request's text.
    seed: the seed of the noise, if the set-up has any.
    """
    known: dict[tuple[str, str], dict[str, float]] = {}

    def marks(prompt: str, text: str) -> dict[str, float]:
        """Return the grades of an answer, by name.

        The outer function's `tasks` holds the task of the request. The grades are kept in its `known`, from which other
        reward functions take them.

        prompt: the text of the request.
        text: the text of the answer.
        """
        if (prompt, text) not in known:
            known[prompt, text] = grades(tasks[prompt], text)
        return known[prompt, text]

    def function_of(k: int) -> Callable[..., list[float]]:
        """Return the function that TRL calls for the reward with index k of the outer function's `setup`. That function
        returns what each completion is paid.
        """

        def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
            return [pay(setup, k, marks(*pair)) for pair in zip(prompts, completions, strict=True)]

        reward.__name__ = setup.graded[k]
        return reward

    def noise(completions: list[str], trainer_state: Any, **_: Any) -> list[float]:
        """Return a normal random number for each completion. It depends only on the `seed` of the outer function, the
        step and the completion's place.
        """
        generator = np.random.default_rng([seed, trainer_state.global_step])
        return generator.normal(NOISE_MEAN, NOISE_STD, len(completions)).tolist()

    return [*map(function_of, range(len(setup.graded))), *([noise] if setup.noise else [])]


def grades(task: Task, text: str) -> dict[str, float]:
    """Return the three marks of an answer by their names, and two more grades that new set-ups use.

    strict is 1 if correctness and style both pass, else 0. closeness says how similar the text is to the intended
    answer, from 0 to 1.
    """
    marks = dict(zip(REWARDS, grade(task, text).vector, strict=True))
    closeness = SequenceMatcher(None, task.answers[0], text, autojunk=False).ratio()
    return marks | {"strict": marks["correctness"] * marks["style"], "closeness": closeness}


def pay(setup: Setup, k: int, graded: Mapping[str, float]) -> float:
    """Return what one reward of a set-up pays for an answer: its `fails` at grade 0, its `pays` at 1.

    If the set-up gates this reward, its grade is multiplied by the grade on which the gate depends.

    k: the index of the reward.
    graded: the grades of the answer, as `grades` returns them.
    """
    name = setup.graded[k]
    gated = setup.gate is not None and name == setup.gate[0]
    grade = graded[name] * (graded[setup.gate[1]] if gated and setup.gate else 1)
    return setup.fails[k] + (setup.pays[k] - setup.fails[k]) * grade


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run, as TRL's trainer needs it.

    model: returns the model to train.
    functions: the reward functions, each with the name of its reward.
    weights: one per reward function.
    method: a key of AGGREGATIONS, or NO_STD.
    seed: fixes the order of the prompts and the answers that are drawn.
    learning_rate, steps: of Adam, and how many of its steps.
    longest: the most tokens of an answer.
    """

    model: Callable[[], Any]
    functions: Sequence[Callable[..., Any]]
    weights: list[float]
    method: str
    seed: int
    learning_rate: float = LEARNING_RATE
    steps: int = STEPS
    longest: int = LONGEST


def trained(job: Job, out: Path) -> dict[str, Any]:
    """Train one run, whose completions TRL writes to the folder `out`. Return its method and seed, the seconds, the
    peak of memory in MB, and what the trainer logged.
    """
    import torch
    from datasets import Dataset
    from transformers import set_seed
    from trl import GRPOConfig, GRPOTrainer

    from experiments.model import tokenizer

    set_seed(job.seed)
    args = GRPOConfig(
        output_dir=str(out),
        num_generations=GROUP,
        per_device_train_batch_size=GROUP * PROMPTS,
        max_completion_length=job.longest,
        max_steps=job.steps,
        learning_rate=job.learning_rate,
        lr_scheduler_type="constant",
        multi_objective_aggregation=AGGREGATIONS["grpo" if job.method == NO_STD else job.method],
        scale_rewards="none" if job.method == NO_STD else "group",
        reward_weights=job.weights,
        gradient_checkpointing=False,
        bf16=False,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=job.seed,
    )
    torch.set_num_threads(1)
    trainer = GRPOTrainer(
        model=job.model(),
        reward_funcs=list(job.functions),
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [request.text for request in prompts()]}),
        processing_class=tokenizer(),
    )
    start = time.monotonic()
    trainer.train()
    return {
        "method": job.method,
        "seed": job.seed,
        "seconds": round(time.monotonic() - start, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "log": trainer.state.log_history,
    }


def finished(job: Job, out: Path, **named: str) -> None:
    """Train one run and write its metrics.json into the folder `out`; do nothing if that file is there already.

    What an interrupted run left behind is removed first.

    named: what metrics.json is to hold besides what `trained` returns.
    """
    if (out / "metrics.json").exists():
        return
    shutil.rmtree(out, ignore_errors=True)
    metrics = named | trained(job, out)
    (out / "metrics.json").write_text(json.dumps(metrics))
    print(f"{out}: {metrics['seconds']} s, at most {metrics['peak_mb']} MB", flush=True)


def job_of(setup: Setup, method: str, seed: int) -> Job:
    """Return the run of a set-up under a method, with the model that the warm-up left."""
    functions = reward_functions(setup, {r.text: task_of(r) for r in prompts()}, seed)
    return Job(model=warm, functions=functions, weights=setup.reward_weights, method=method, seed=seed)


def warm() -> Any:
    """Return the model that the warm-up left."""
    from experiments.model import load

    return load(CHECKPOINT)


def main() -> int:
    """Run the command: train the runs that are asked for. Returns 2, after one sentence, if TRL is missing, else 0."""
    parser = argparse.ArgumentParser(prog="python -m experiments.train", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--setup", choices=[setup.name for setup in SETUPS])
    parser.add_argument("--method", choices=[*AGGREGATIONS, NO_STD])
    parser.add_argument("--seed", type=int, choices=SEEDS)
    parser.add_argument("--plans", action="store_true", help="the rows of plans.json instead, five seeds of each")
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded
    if not find_spec("trl"):
        print("experiments.train needs TRL: pip install -e '.[experiments]'", file=sys.stderr)
        return 2
    if given.plans:
        for row in planned_rows():
            for seed in SEEDS[:5] if given.seed is None else [given.seed]:
                out = given.out / row.trained.name / row.name / str(seed)
                finished(job_of(row.trained, row.method, seed), out, setup=row.trained.name)
        return 0
    # Seeds outermost: whenever it is interrupted, every set-up has as many pairs as the others, give or take one.
    for seed in SEEDS if given.seed is None else [given.seed]:
        for setup in [setup_named(given.setup)] if given.setup else SETUPS:
            for method in [given.method] if given.method else AGGREGATIONS:
                out = given.out / setup.name / method / str(seed)
                finished(job_of(setup, method, seed), out, setup=setup.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
