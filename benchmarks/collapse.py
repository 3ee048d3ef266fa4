"""What ties among the published answers: gc.collapse beside a loop over groups and pairs in plain Python."""

import time
from collections.abc import Callable
from itertools import combinations
from statistics import fmean, stdev

import gdpo_core as gc
from benchmarks.table import quantile, record, show
from gdpo_core.bfcl import load_published

FILE = "data/bfcl_rewards.parquet"
METHODS = ("grpo", "grpo_no_std", "gdpo")
EVERY = 40  # the loop sees one prompt in so many; its time is scaled by the number of answers
SAME = 1e-9


def run(repeats: int = 5) -> None:
    """Measure interleaved, check that both count the same ties, print."""
    rewards = load_published(FILE).rewards()  # (prompts, answers, rewards)
    few = rewards[::EVERY]
    rows = few.tolist()
    scale = len(rewards) / len(few)
    programmes: dict[str, Callable[[str], object]] = {
        "gc.collapse": lambda method: gc.collapse(rewards, method),
        "a Python loop": lambda method: tied_pairs(rows, method),
    }
    for method in METHODS:  # and warm
        ours, loop = gc.collapse(few, method).tied_pairs, tied_pairs(rows, method)
        if abs(ours - loop) > SAME:
            raise RuntimeError(f"{method}: gc.collapse has {ours} of the pairs tied, the loop {loop}")
    times: dict[str, dict[str, list[float]]] = {name: {method: [] for method in METHODS} for name in programmes}
    for _ in range(repeats):
        for name, programme in programmes.items():
            for method in METHODS:
                start = time.perf_counter()
                programme(method)
                times[name][method].append(1000 * (time.perf_counter() - start))
    ms = {name: {m: quantile(t, 0.5) for m, t in of.items()} for name, of in times.items()}
    ms["a Python loop"] = {method: t * scale for method, t in ms["a Python loop"].items()}
    _print(ms, rewards.shape[0] * rewards.shape[1], len(few), repeats)


def tied_pairs(prompts: list, method: str) -> float:
    """Of the pairs in a group whose rewards differ, the share with one advantage; gc.collapse counts more than that."""
    different, tied = 0, 0
    for rows in prompts:
        a = _advantages(rows, method)
        near = SAME * max(map(abs, a))
        for i, j in combinations(range(len(rows)), 2):
            if rows[i] != rows[j]:
                different += 1
                tied += abs(a[i] - a[j]) <= near
    return tied / different


def _advantages(rows: list, method: str) -> list[float]:
    """Of one group, without the batch step, which unties nothing."""
    if method != "gdpo":
        return _normalise([sum(row) for row in rows], divide=method == "grpo")
    return [sum(z) for z in zip(*(_normalise(column) for column in zip(*rows, strict=True)), strict=True)]


def _normalise(values, divide: bool = True) -> list[float]:
    mean, std = fmean(values), stdev(values) if divide else 1.0
    return [(value - mean) / std if std else 0.0 for value in values]


def _print(ms: dict[str, dict[str, float]], answers: int, few: int, repeats: int) -> None:
    ours, loop = ms
    faster = {method: ms[loop][method] / ms[ours][method] for method in METHODS}
    show(
        f"ties among {answers:,} published answers in groups of all; medians of {repeats}, interleaved; "
        f"the loop ran on {few} prompts and is scaled",
        ("", ours, loop, "faster"),
        [
            (method, f"{ms[ours][method]:.1f} ms", f"{ms[loop][method]:.0f} ms", f"{faster[method]:.1f} ×")
            for method in METHODS
        ],
    )
    record("collapse", answers=answers, ms=ms, times_faster=faster)


if __name__ == "__main__":
    run()
