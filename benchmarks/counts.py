"""Exact counts: gc.count_distinct for GDPO, beside a plain loop over every group at the size that it can afford."""

import time
from collections.abc import Callable
from itertools import combinations_with_replacement, product

import gdpo_core as gc
from benchmarks.table import judge, quantile, record, show

SIZE = (4, 8)
SMALLER = (4, 5)  # of the loop: it would look at 183 million groups of the other
TARGET = 1000  # ms


def run(repeats: int = 5) -> None:
    """Measure interleaved, check that both count the same, print."""
    programmes: dict[str, Callable[[], int]] = {
        "gc.count_distinct": lambda: gc.count_distinct("gdpo", *SIZE),
        "gc.count_distinct, smaller": lambda: gc.count_distinct("gdpo", *SMALLER),
        "a loop over groups, smaller": lambda: count_in_a_loop(*SMALLER),
    }
    counts = {name: programme() for name, programme in programmes.items()}  # and warm
    if counts["gc.count_distinct, smaller"] != counts["a loop over groups, smaller"]:
        raise RuntimeError(f"the programmes do not count the same: {counts}")
    times: dict[str, list[float]] = {name: [] for name in programmes}
    for _ in range(repeats):
        for name, programme in programmes.items():
            start = time.perf_counter()
            programme()
            times[name].append(1000 * (time.perf_counter() - start))
    _print({name: quantile(t, 0.5) for name, t in times.items()}, counts, repeats)


def count_in_a_loop(rollouts: int, rewards: int) -> int:
    """The definition in floats, nine digits of them: every group, its sums of normalised rewards, a set of them."""
    seen = set()
    for group in combinations_with_replacement(product((0, 1), repeat=rewards), rollouts):
        sums = [0.0] * rollouts
        for column in zip(*group, strict=True):
            mean = sum(column) / rollouts
            std = (sum((r - mean) ** 2 for r in column) / (rollouts - 1)) ** 0.5
            if std:
                sums = [s + (r - mean) / std for s, r in zip(sums, column, strict=True)]
        seen.add(tuple(sorted(round(s, 9) + 0.0 for s in sums)))
    return len(seen)


def _print(ms: dict[str, float], counts: dict[str, int], repeats: int) -> None:
    ours, smaller, loop = ms
    ratio = ms[loop] / ms[smaller]
    show(
        f"exact counts, GDPO: {SIZE[0]} rollouts × {SIZE[1]} rewards, {counts[ours]} vectors; "
        f"smaller: {SMALLER[0]} × {SMALLER[1]}, {counts[smaller]}; medians of {repeats}, interleaved",
        ("", "measured", "target", ""),
        [
            (ours, *judge(ms[ours], TARGET, "ms")),
            *((name, f"{ms[name]:.1f} ms", "", "") for name in (smaller, loop)),
            ("faster than the loop", f"{ratio:.0f} ×", "", ""),
        ],
    )
    record("counts", ms=ms, counts=counts, times_faster=ratio)


if __name__ == "__main__":
    run()
