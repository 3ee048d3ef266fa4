"""What is trained: a run and a limit per setting and method, once for all visitors, and their numbers as rows."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

import torch
from torch import Tensor

from gdpo_core import conventions
from gdpo_core.scenarios import LEVEL, Setting
from gdpo_core.successors import SUCCESSORS, TITLES
from gdpo_core.training import TrainingRun
from views import worker

COMPARED = ("grpo", "gdpo")
NAMES = {m: TITLES[m] for m in (*conventions.COMPARED, *SUCCESSORS)}
THIRD = {m: name for m, name in NAMES.items() if m not in COMPARED}
BAND = (0.05, 0.95)  # quantiles over seeds between which a band is drawn
ROOM = 1.5  # times as long as the slowest method takes: where a small picture ends
KEPT = 96  # runs and limits of the latest settings: 6 MB as scenarios are given, 75 MB at most

Runs = Mapping[str, TrainingRun]


@lru_cache(KEPT)
def run(setting: Setting, method: str) -> TrainingRun:
    """Train one method in a process of its own, so that no visitor's flip waits for it.

    >>> run(Setting((0.5, 0.5), epochs=3, seeds=2), "gdpo").p.shape
    torch.Size([2, 4, 2])
    """
    return TrainingRun(method, torch.from_numpy(worker.call(worker.train_probabilities, setting, method, False)))


@lru_cache(KEPT)
def limit(setting: Setting, method: str) -> Tensor:
    """Return the infinite-group limit of one method, (epochs + 1, coins)."""
    return torch.from_numpy(worker.call(worker.train_probabilities, setting, method, True))


def train(setting: Setting, methods: Sequence[str] = COMPARED) -> dict[str, TrainingRun]:
    """Train each method from the same start with the same seeds."""
    with ThreadPoolExecutor(len(methods)) as pool:  # as many at once as `worker` lets
        return dict(zip(methods, pool.map(partial(run, setting), methods), strict=True))


def train_limits(setting: Setting, methods: Sequence[str] = COMPARED) -> dict[str, Tensor]:
    """Return the infinite-group limit of each method."""
    with ThreadPoolExecutor(len(methods)) as pool:
        return dict(zip(methods, pool.map(partial(limit, setting), methods), strict=True))


def curves(coins: Sequence[str], runs: Runs, limits: Mapping[str, Tensor], every: int = 1) -> list[dict]:
    """Return a row per coin, method and epoch: median, band and infinite-group limit."""
    rows = []
    for m, trained in runs.items():
        p = trained.p[:, ::every]
        drawn = [*p.quantile(p.new_tensor([0.5, *BAND]), dim=0), limits[m][::every]]  # each (epochs, coins)
        for k, coin in enumerate(coins):
            columns = zip(*(x[:, k].tolist() for x in drawn), strict=True)
            rows += [
                {"of": coin, "method": NAMES[m], "epoch": every * i}
                | dict(zip(("median", "low", "high", "limit"), (round(x, 4) for x in values), strict=True))
                for i, values in enumerate(columns)
            ]
    return rows


def program(setting: Setting, methods: Sequence[str]) -> str:
    """Return a program of at most 15 lines that prints the medians, or where the answers end, as on the screen."""
    untouched = vars(Setting(setting.p0))
    given = {name: value for name, value in vars(setting).items() if value != untouched[name]}
    p0 = [round(p, 6) for p in setting.p0]
    result = (
        "[round(p, 2) for p in run.p[:, -1].median(0).values.tolist()]"
        if setting.arms
        else f"run.steps_to({LEVEL:g}).median(0).values.tolist()"
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
