"""Training runs and infinite-group limits, each computed once for all visitors by set-up and method. The rows of a
table of their curves, and a program that prints their results, are here too.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

import gdpo_core as gc
from gdpo_core.conventions import COMPARED
from gdpo_core.registry import ALL_METHODS
from gdpo_core.successors import SUCCESSORS, TITLES
from gdpo_core.training import TrainingRun
from views.server import worker
from views.studies.scenarios import LEARNT, Setup, train_probabilities

COMPARED_METHODS = ("grpo", "gdpo")
METHOD_LABELS = {m: TITLES[m] for m in (*COMPARED, *SUCCESSORS) if not ALL_METHODS[m].by_order}  # no coin is the first
THIRD = {m: name for m, name in METHOD_LABELS.items() if m not in COMPARED_METHODS}
BAND = (0.05, 0.95)  # quantiles over seeds between which a band is drawn
ROOM = 1.5  # a small picture ends at so many times the epoch at which the slowest method has learnt its coins
KEPT = 96  # how many runs and limits are kept: 6 MB for unchanged scenarios, 75 MB at most

TrainedRuns = Mapping[str, TrainingRun]


@lru_cache(KEPT)
def run(setup: Setup, method: str) -> TrainingRun:
    """Train one method in another process, so that no visitor's click waits for it, and return the runs of all seeds.

    Results are kept for the last KEPT pairs of set-up and method. Raises InputError if the set-up or the method is
    refused.

    >>> run(Setup((0.5, 0.5), epochs=3, seeds=2), "gdpo").p.shape
    torch.Size([2, 4, 2])
    """
    return TrainingRun(method, torch.from_numpy(worker.call(train_probabilities, setup, method, False)))


@lru_cache(KEPT)
def large_group_limit(setup: Setup, method: str) -> Tensor:
    """Return the probabilities in a method's infinite-group limit, (epochs + 1, coins or arms), computed in another
    process.

    Results are kept for the last KEPT pairs of set-up and method. Raises InputError.
    """
    return torch.from_numpy(worker.call(train_probabilities, setup, method, True))


def by_method(
    compute: Callable[..., Any], methods: Sequence[str], p0: Sequence[float], **options: Any
) -> dict[str, Any]:
    """Return what compute(method, p0, **options) gives for each method, by method.

    It is computed in other processes, and once for all visitors.

    compute: `gdpo_core.train` or `gdpo_core.mean_field`.
    p0: the probabilities at the start.
    options: further arguments of these two functions.

    Raises InputError, as these functions do.
    """
    kept = {gc.train: run, gc.mean_field: large_group_limit}[compute]
    setup = Setup(tuple(p0), **{name: tuple(x) if isinstance(x, list) else x for name, x in options.items()})
    with ThreadPoolExecutor(len(methods)) as pool:  # `worker` bounds how many run at once
        return dict(zip(methods, pool.map(partial(kept, setup), methods), strict=True))


def further_options(setup: Setup) -> dict[str, Any]:
    """Return the fields of a set-up, by name, except p0, scale, weights and epochs. They are arguments of
    `gdpo_core.train`.
    """
    return {name: value for name, value in vars(setup).items() if name not in ("p0", "scale", "weights", "epochs")}


def train_setup(setup: Setup, methods: Sequence[str] = COMPARED_METHODS) -> TrainedRuns:
    """Train each method from the same start with the same seeds, and return the runs by method, in the order of
    `methods`.

    Raises InputError.
    """
    return by_method(gc.train, methods, **vars(setup))


def curve_rows(coins: Sequence[str], runs: TrainedRuns, limits: Mapping[str, Tensor], every: int = 1) -> list[dict]:
    """Return a dict per method, coin or answer, and epoch: the probability of the coin or answer in the runs and in the
    infinite-group limit.

    The keys are of (the name of the coin or answer), method (its title), epoch, median, low and high (the ends of the
    band over seeds) and limit. Probabilities are rounded to four decimals.

    coins: the names of the coins or answers.
    runs: the trained runs, by method.
    limits: by method, the probabilities in the infinite-group limit, (epochs + 1, coins or answers).
    every: 1 for all epochs, n for every nth.
    """
    rows = []
    for m, trained in runs.items():
        p = trained.p[:, ::every]
        drawn = [*p.quantile(p.new_tensor([0.5, *BAND]), dim=0), limits[m][::every]]  # each (epochs, coins)
        for k, coin in enumerate(coins):
            columns = zip(*(x[:, k].tolist() for x in drawn), strict=True)
            rows += [
                {"of": coin, "method": METHOD_LABELS[m], "epoch": every * i}
                | dict(zip(("median", "low", "high", "limit"), (round(x, 4) for x in values), strict=True))
                for i, values in enumerate(columns)
            ]
    return rows


def training_program(setup: Setup, methods: Sequence[str]) -> str:
    """Return a Python program that prints the median epoch at which each method learns each coin of a set-up.

    With answers in place of coins, it prints the median of the last probability of each answer. The program has at most
    15 lines.
    """
    untouched = vars(Setup(setup.p0))
    given = {name: value for name, value in vars(setup).items() if value != untouched[name]}
    p0 = [round(p, 6) for p in setup.p0]
    result = (
        "[round(p, 2) for p in run.p[:, -1].median(0).values.tolist()]"
        if setup.arms
        else f"run.steps_to({LEARNT:g}).median(0).values.tolist()"
    )
    lines = [
        "import gdpo_core as gc",
        "",
        f"options = { ({name: list(x) if isinstance(x, tuple) else x for name, x in given.items()})!r}",
        f"for method in {tuple(methods)!r}:",
        f"    run = gc.train(method, {p0}, **options)",
        f"    print(method, {result})",
    ]
    return "\n".join(lines) + "\n"
