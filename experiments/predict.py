"""What independent coins predict for each set-up; `python -m experiments.predict` writes predictions.json.

The coins start at the pass rates of the warm-up, and earn, weigh, gate and draw what the set-up says. They know nothing
of the model: one learning rate sets their clock, chosen so that under GRPO they learn as much of the set-up for tuning
as the model did. `match_scale=True`: both methods' advantages have unit standard deviation, as TRL's have under GRPO
in each group and under GDPO over the batch, and Adam takes out what is left of their size.
"""

import json
from pathlib import Path
from typing import Any

import gdpo_core as gc
from experiments.setups import METHODS, NOISE_STD, REWARDS, SETUPS, TUNING, Setup
from views.experiment import SMALLEST

HERE = Path(__file__).parent
PREDICTIONS, MEASURED = HERE / "predictions.json", HERE / "measured.json"
SEEDS = 64
RULE = (
    "Compared is, per set-up and reward, a run's mean pass rate over all its steps (of conciseness without the gate, "
    "too): the mean over seeds of GDPO's minus GRPO's of the same seed, with the 95 % interval of Student's t. "
    "The coins predict 'faster' or 'slower' where their median difference is at least the smallest difference, else "
    "'no difference'. Faster or slower held if the whole interval is on that side of 0, did not hold if it is on the "
    "other side. No difference held if the whole interval is within the smallest difference of 0, did not hold if "
    "the interval leaves out 0 and is not within. All else is 'no difference seen'. A reward 'suffers' in a set-up if "
    "it is slower than with equal pay and the same method, by the same measure."
)


def options_of(setup: Setup) -> dict[str, Any]:
    """The set-up as arguments of `gdpo_core.train`."""
    options: dict[str, Any] = {"scale": setup.pays, "weights": setup.reward_weights}
    if setup.gated:
        options["gate"] = (REWARDS.index("conciseness"), REWARDS.index("correctness"))
    if setup.noise:
        options["noise"] = (0.0, 0.0, 0.0, NOISE_STD)
    return options


def coins(setup: Setup, method: str, measured: dict[str, Any], lr: float) -> list[list[float]]:
    """Mean pass rate over the steps of each seed, (seeds, rewards)."""
    run = gc.train(
        method,
        measured["pass_rates"],
        **options_of(setup),
        rollouts=12,
        prompts=8,
        epochs=measured["steps"],
        lr=lr,
        seeds=SEEDS,
    )
    means: list[list[float]] = run.p[:, :-1].mean(1).tolist()  # a step is graded before its update
    return means


def clock(measured: dict[str, Any]) -> float:
    """The learning rate with which the coins learn as much as the model did on the set-up for tuning."""
    low, high = 0.001, 10.0
    for _ in range(16):
        middle = (low * high) ** 0.5
        runs = coins(TUNING, "grpo", measured, middle)
        mean = sum(map(sum, runs)) / (len(runs) * len(REWARDS))
        low, high = (middle, high) if mean < measured["tuning_mean"] else (low, middle)
    return float(f"{low:.3g}")


def predict(setup: Setup, measured: dict[str, Any], lr: float) -> dict[str, Any]:
    """The coins' numbers and words for one set-up."""
    means = {method: coins(setup, method, measured, lr) for method in METHODS}
    suffers = {method: _suffers(means[method], coins(SETUPS[0], method, measured, lr)) for method in METHODS}
    rewards = {}
    for k, reward in enumerate(REWARDS):
        grpo, gdpo = (_median([run[k] for run in means[method]]) for method in ("grpo", "gdpo"))
        difference = _median([b[k] - a[k] for a, b in zip(means["grpo"], means["gdpo"], strict=True)])
        word = "no difference" if abs(difference) < SMALLEST else "faster" if difference > 0 else "slower"
        rewards[reward] = {
            "prediction": word,
            "grpo": round(grpo, 3),
            "gdpo": round(gdpo, 3),
            "difference": round(difference, 3),
        }
    words = {"name": setup.name, "title": setup.title, "words": sentence(rewards)}
    return words | {"suffers": suffers, "rewards": rewards}


def _suffers(runs: list[list[float]], equal: list[list[float]]) -> list[str]:
    """The rewards that are learned more slowly than with equal pay and the same method."""
    differences = [_median([a[k] - b[k] for a, b in zip(runs, equal, strict=True)]) for k in range(len(REWARDS))]
    return [name for name, difference in zip(REWARDS, differences, strict=True) if difference <= -SMALLEST]


def sentence(rewards: dict[str, dict[str, Any]]) -> str:
    """The prediction in words.

    >>> sentence({"style": {"prediction": "slower"}, "correctness": {"prediction": "faster"}})
    'GDPO is faster at correctness and slower at style.'
    """
    parts = []
    for word in ("faster", "slower"):
        if those := [name for name, reward in rewards.items() if reward["prediction"] == word]:
            parts.append(f"{word} at {', '.join(those[:-1]) + ' and ' * (len(those) > 1)}{those[-1]}")
    same = [name for name, reward in rewards.items() if reward["prediction"] == "no difference"]
    if not parts:
        return "No difference between the methods in any reward."
    others = f", and there is no difference in {' and '.join(same)}" if same else ""
    return f"GDPO is {' and '.join(parts)}{others}."


def predictions(measured: dict[str, Any]) -> dict[str, Any]:
    """All that is written down before the runs."""
    lr = clock(measured)
    return {
        "rule": RULE,
        "smallest_difference": SMALLEST,
        "measured": measured,
        "coins": {"lr": lr, "optimizer": "sgd", "match_scale": True, "seeds": SEEDS},
        "setups": [predict(setup, measured, lr) for setup in SETUPS],
    }


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


if __name__ == "__main__":
    found = predictions(json.loads(MEASURED.read_text(encoding="utf-8")))
    PREDICTIONS.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for entry in found["setups"]:
        print(f"{entry['title']}: {entry['words']}", entry["suffers"])
