"""A benchmark of the runs in the chapter Train: gc.train beside NumPy programmes, one for all seeds at once and one
that loops over them.
"""

import time
from collections.abc import Callable

import numpy as np

import gdpo_core as gc
from benchmarks.table import judge, quantile, record, show
from gdpo_core.conventions import COMPARED

START = (0.5, 0.5, 0.5)
SCALE = (1.0, 3.0, 10.0)
SEEDS, PROMPTS, ROLLOUTS, EPOCHS, RATE = 32, 32, 8, 150, 0.5
EPS = 1e-12  # added to every std, where gc treats groups without spread exactly


def run(repeats: int = 7) -> None:
    """Measure all programmes in turn, check that they learn the same, and print the table. Each programme trains every
    method of COMPARED.

    repeats: how often each is measured.

    Raises RuntimeError if a programme learns something else than gc.train: if the medians of their probabilities over
    seeds are anywhere more than 0.05 apart.
    """
    programmes: dict[str, Callable[[str], np.ndarray]] = {
        "gc.train": lambda method: gc.train(method, START, scale=SCALE).p.numpy(),
        "NumPy over all seeds": lambda method: train(method, SEEDS, np.random.default_rng(0)),
        "NumPy, a loop over seeds": lambda method: np.concatenate(
            [train(method, 1, np.random.default_rng(seed)) for seed in range(SEEDS)]
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in programmes}
    medians: dict[str, dict[str, np.ndarray]] = {}  # over seeds; (epochs + 1, rewards)
    for name, programme in programmes.items():
        medians[name] = {method: np.median(programme(method), axis=0) for method in COMPARED}  # and warm
    for _ in range(repeats):
        for name, programme in programmes.items():
            start = time.perf_counter()
            for method in COMPARED:
                programme(method)
            times[name].append(1000 * (time.perf_counter() - start))
    apart = max(float(np.abs(medians[name][m] - medians["gc.train"][m]).max()) for name in programmes for m in COMPARED)
    if apart > 0.05:
        raise RuntimeError(f"the programmes do not learn the same: their medians are up to {apart:.3f} apart")
    _print({name: quantile(t, 0.5) for name, t in times.items()}, apart, repeats)


def train(method: str, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Train a policy of coins in plain NumPy, as `gdpo_core.train` does, and return the probability that each coin
    falls on 1.

    The probabilities are (seeds, epochs + 1, rewards), with the ones before training first. They begin at START, and a
    1 pays SCALE.

    method: one of COMPARED.
    seeds: how many trainings run at once.
    rng: draws all their samples.
    """
    scale = np.array(SCALE, dtype=np.float32)
    logits = np.tile(np.log(np.array(START) / (1 - np.array(START))), (seeds, 1)).astype(np.float32)
    path = [_sigmoid(logits)]
    for _ in range(EPOCHS):
        p = path[-1][:, None, None, :]
        drawn = (rng.random((seeds, PROMPTS, ROLLOUTS, len(START)), dtype=np.float32) < p).astype(np.float32)
        a = _advantages(method, scale * drawn)[..., None]
        logits = logits + RATE * (a * (drawn - p)).mean((1, 2))
        path.append(_sigmoid(logits))
    return np.stack(path, 1)


def _advantages(method: str, rewards: np.ndarray) -> np.ndarray:
    """Return the advantages, (seeds, prompts, rollouts), scaled to mean 0 and std 1 over all responses of a seed.

    method: "gdpo", "grpo", or any other name for GRPO without std.
    rewards: (seeds, prompts, rollouts, rewards).
    """
    if method == "gdpo":
        centred = rewards - rewards.mean(2, keepdims=True)
        a = (centred / (rewards.std(2, keepdims=True) + EPS)).sum(-1)
    else:
        total = rewards.sum(-1)
        a = total - total.mean(2, keepdims=True)
        if method == "grpo":
            a = a / (total.std(2, keepdims=True) + EPS)
    return (a - a.mean((1, 2), keepdims=True)) / (a.std((1, 2), keepdims=True) + EPS)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _print(ms: dict[str, float], apart: float, repeats: int) -> None:
    ours, *others = ms
    show(
        f"training view: {len(COMPARED)} methods, {SEEDS} seeds, {PROMPTS} × {ROLLOUTS}, {EPOCHS} epochs; "
        f"medians of {repeats}, interleaved; curves at most {apart:.3f} apart",
        ("", "measured", "target", ""),
        [
            (ours, *judge(ms[ours], 120, "ms")),
            *((name, f"{ms[name]:.0f} ms", "", "") for name in others),
            *(
                (f"faster than {name}", *judge(ms[name] / ms[ours], target, "×", at_least=True))
                for name, target in zip(others, (2, 5), strict=True)
            ),
        ],
    )
    record("training", ms=ms, times_faster={name: ms[name] / ms[ours] for name in others})


if __name__ == "__main__":
    run()
