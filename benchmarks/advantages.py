"""A benchmark of GDPO's advantages: how fast and how exact the library computes them, beside the frameworks' own code.

TRL's code and verl's loop run only where `make parity` has installed their packages.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

import gdpo_core as gc
from benchmarks.table import judge, quantile, record, show
from tests.parity.frameworks import load

ROLLOUTS, REWARDS = 16, 3
WEIGHTS = (1.0, 0.5, 2.0)
SIZES = (1_024, 16_384, 131_072, 1_600_000)
JUDGED, LARGEST = SIZES[-2:]
ERROR = 4e-6  # the largest difference allowed between float32 and float64, at any size and in any layout
SLOW = 20_000  # with more responses than this, verl's loop runs only once
TARGETS = {"TRL's block": 3, "verl's loop": 1000}  # how many times faster gc.gdpo should be


def run(repeats: int = 15) -> None:
    """Measure how long each programme takes to compute GDPO's advantages of every size in SIZES, and print the tables.

    The advantages from the frameworks' code are checked to be the library's. The programmes take turns in each round. A
    slow programme takes part in the first round alone, and its advantages are not checked.

    repeats: the number of rounds.

    Raises RuntimeError if the advantages differ, or if float32 is further from float64 than `ERROR`.
    """
    ms = {size: _measure(size, repeats) for size in SIZES}
    errors = {size: _errors(size) for size in SIZES}
    _print(ms, errors, repeats)
    worst = max(error for of in errors.values() for error in of.values())
    if not worst <= ERROR:
        raise RuntimeError(f"gdpo_core in float32 is up to {worst:.1e} off float64, more than {ERROR:g}")


def _measure(size: int, repeats: int) -> dict[str, float]:
    """Return the median time in milliseconds of each programme, by its name.

    size: how many responses.
    repeats: how often each programme is timed, except for a slow one, which is timed once.
    """
    programmes, slow = _programmes(size)
    times: dict[str, list[float]] = {name: [] for name in programmes}
    for name, programme in programmes.items():
        if name not in slow:
            programme()
    for turn in range(repeats):
        for name, programme in programmes.items():
            if name not in slow or turn == 0:
                start = time.perf_counter()
                programme()
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: quantile(t, 0.5) for name, t in times.items()}


def _programmes(size: int) -> tuple[dict[str, Callable], set[str]]:
    """Return two things: the programmes to measure, by name, and the names of the slow ones among them, which run only
    once.

    All compute advantages of the same responses; only in the ragged layout these responses are grouped otherwise. Code
    of a framework that is not installed is left out, and so is verl's at more than `JUDGED` responses.

    size: how many responses.

    Raises RuntimeError if the advantages in the shuffled layout, or the advantages of a framework whose code is not
    slow, differ from the library's.
    """
    rows, lengths, order = _draw(size)
    layouts, weights = _layouts(size), torch.tensor(WEIGHTS)
    dense = layouts["gc.gdpo"][0]
    programmes: dict[str, Callable] = {name: lambda layout=layout: _gdpo(*layout) for name, layout in layouts.items()}
    _same(programmes["gc.gdpo, shuffled"](), programmes["gc.gdpo"]().flatten()[order], "shuffled")
    slow = set()
    for name, key, convention in (("TRL's block", "trl", gc.TRL), ("verl's loop", "verl", gc.VERL)):
        framework = load(key)
        if framework is None or (key == "verl" and size > JUDGED):
            continue
        theirs = framework.methods["gdpo"]
        prepared = theirs.prepare(rows, weights, ROLLOUTS, lengths)
        programmes[name] = lambda call=theirs.call, prepared=prepared: call(*prepared)
        slow |= {name} if key == "verl" and size > SLOW else set()
        if name not in slow:
            ours = gc.gdpo(dense, weights=weights, lengths=lengths.view(-1, ROLLOUTS), convention=convention)
            _same(ours.flatten(), theirs.read(programmes[name]()), name)
    return programmes, slow


def _draw(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return random rewards, (responses, rewards); the number of tokens of each response; and the indices of the
    responses in a random order.

    size: how many responses.
    """
    generator = torch.Generator().manual_seed(size)
    rows = torch.randint(0, 2, (size, REWARDS), generator=generator).float()
    lengths = torch.randint(1, 9, (size,), generator=generator)
    return rows, lengths, torch.randperm(size, generator=generator)


def _layouts(size: int) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Return random rewards in three layouts, by name, each as a pair of the rewards and the group of each response.

    The layouts are:

    - (prompts, rollouts, rewards), where the groups are None;
    - (responses, rewards) in groups of random sizes;
    - (responses, rewards) of equal groups in a random order.

    size: how many responses.
    """
    rows, _, order = _draw(size)
    sizes_by_chance = torch.Generator().manual_seed(size + 1)
    ragged = torch.randint(0, size // ROLLOUTS, (size,), generator=sizes_by_chance).sort().values
    return {
        "gc.gdpo": (rows.view(-1, ROLLOUTS, REWARDS), None),
        "gc.gdpo, ragged": (rows, ragged),
        "gc.gdpo, shuffled": (rows[order], order // ROLLOUTS),
    }


def _gdpo(rewards: Tensor, groups: Tensor | None) -> Tensor:
    """Return GDPO's advantages as TRL computes them.

    groups: the group of each response; None if the rewards are in a block per prompt.
    """
    return gc.gdpo(rewards, weights=WEIGHTS, groups=groups, convention=gc.TRL)


def _errors(size: int) -> dict[str, float]:
    """Return the largest difference between the advantages in float32 and in float64, for each layout of `_layouts` by
    its name.

    size: how many responses.
    """
    return {
        name: (_gdpo(rewards, groups) - _gdpo(rewards.double(), groups)).abs().max().item()
        for name, (rewards, groups) in _layouts(size).items()
    }


def _same(ours: Tensor, theirs: Tensor, name: str) -> None:
    """Raise RuntimeError if advantages differ by over 1e-4 anywhere.

    name: what the library is compared with.
    """
    apart = (ours - theirs).abs().max().item()
    if apart > 1e-4:
        raise RuntimeError(f"gdpo_core and {name} are up to {apart:.1e} apart")


def _print(ms: dict[int, dict[str, float]], errors: dict[int, dict[str, float]], repeats: int) -> None:
    """Print the times, the errors of float32, a table that compares both with TARGETS and ERROR, and a line of JSON.

    ms: the times in milliseconds, by size and programme.
    errors: the largest errors of float32, by size and layout.
    repeats: the number of rounds, for the title.
    """
    names = list(dict.fromkeys(name for of in ms.values() for name in of))
    show(
        f"advantages, {ROLLOUTS} rollouts × {REWARDS} rewards, float32; medians of {repeats} in ms, interleaved",
        ("", *(f"{size:,}" for size in ms)),
        [(name, *(_ms(of.get(name)) for of in ms.values())) for name in names],
    )
    show(
        "largest error of float32 beside float64",
        ("", *(f"{size:,}" for size in errors)),
        [(name, *(f"{of[name]:.1e}" for of in errors.values())) for name in errors[LARGEST]],
    )
    at, ours = ms[JUDGED], ms[JUDGED]["gc.gdpo"]
    faster = {name: at[name] / ours for name in TARGETS if name in at}
    rows = [
        (f"faster than {name}, {JUDGED:,} responses", *judge(faster.get(name), target, "×", at_least=True))
        for name, target in TARGETS.items()
    ]
    rows += [
        (f"error in millionths, {name}", *judge(1e6 * max(of[name] for of in errors.values()), 1e6 * ERROR, ""))
        for name in errors[LARGEST]
    ]
    show("against the targets", ("", "measured", "target", ""), rows)
    record(
        "advantages",
        ms=ms,
        millionths_off={size: {name: 1e6 * error for name, error in of.items()} for size, of in errors.items()},
        times_faster=faster,
    )


def _ms(value: float | None) -> str:
    """Return a time in milliseconds as text; "" for None."""
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


if __name__ == "__main__":
    run()
