"""What the checkpoint's sampled answers earn, measured before the runs; `python -m experiments.probe`."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.predict import MEASURED
from experiments.requests import draw, task_of
from experiments.setups import REWARDS
from experiments.train import CHECKPOINT, LEARNING_RATE, LONGEST, STEPS, cannot_train
from gdpo_core.bfcl import grade

REQUESTS, ANSWERS, SEED = 200, 12, 2  # drawn apart from those of warm-up and training


def sample(checkpoint: Path = CHECKPOINT) -> list[tuple[str, str, tuple[int, int, int]]]:
    """Request, answer and marks of answers sampled at temperature 1."""
    from experiments.model import load, tokenizer

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    words, model, generator = tokenizer(), load(checkpoint), np.random.default_rng(SEED)
    requests = [draw(generator) for _ in range(REQUESTS)]
    prompts: Any = words([request.text for request in requests], return_tensors="pt", padding=True)
    prompts.pop("token_type_ids", None)
    answers = model.generate(
        **prompts, do_sample=True, top_k=0, num_return_sequences=ANSWERS, max_new_tokens=LONGEST, pad_token_id=0
    )
    texts = words.batch_decode(answers[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    tasks = [task_of(request) for request in requests]
    return [
        (task.request, text, grade(task, text).vector)
        for task, text in zip(np.repeat(np.array(tasks, dtype=object), ANSWERS), texts, strict=True)
    ]


def tuning_mean(folder: Path) -> float:
    """The mean pass rate over steps, rewards and seeds of GRPO's runs of the set-up for tuning."""
    logs = [json.loads(path.read_text())["log"] for path in sorted(folder.glob("tuning/grpo/*/metrics.json"))]
    means = [line[f"rewards/{name}/mean"] for log in logs for line in log if "reward" in line for name in REWARDS]
    return round(sum(means) / len(means), 4)


def main() -> int:
    """Print what the answers earn, and write it down; 2 with one sentence where TRL or the checkpoint is missing."""
    parser = argparse.ArgumentParser(prog="python -m experiments.probe", description=__doc__)
    parser.add_argument("--tuning", type=Path, help="folder of the runs for tuning: write measured.json, too")
    folder = parser.parse_args().tuning
    if fault := cannot_train():
        print(fault, file=sys.stderr)
        return 2
    from experiments.model import checksum

    sampled = sample()
    marks = np.array([marks for *_, marks in sampled])
    for request, text, passed in sampled[:60:5]:
        print(request, "→", text, passed)
    print("pass rates:", marks.mean(0).round(3).tolist())
    print("correlations:", np.corrcoef(marks.T).round(2).tolist())
    if folder:
        measured = {
            "checkpoint": checksum(CHECKPOINT),
            "pass_rates": marks.mean(0).round(3).tolist(),
            "steps": STEPS,
            "learning_rate": LEARNING_RATE,
            "tuning_mean": tuning_mean(folder),
        }
        MEASURED.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
