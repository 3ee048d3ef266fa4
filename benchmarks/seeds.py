"""How often `gdpo compare` calls a figure clear in runs that differ in their seed alone: simulated runs, 24 seeds each.

A policy of coins learns by GRPO or GDPO: per reward one logit that all prompts share and one offset per prompt; its
responses are audited as any log is. Nothing differs between two runs but the draws of prompts and responses.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

import gdpo_core as gc
from benchmarks.table import record, show
from gdpo_core.report.changes import LEVEL, SEEDS_CLEAR, changes
from gdpo_core.runs.audit_report import AuditReport

SEEDS, A_SIDE, DRAWS = 24, (2, 3, 5), 60
ROLLOUTS = 8


@dataclass(frozen=True)
class RunSetting:
    """What the runs of one setting have in common."""

    name: str
    method: str
    steps: int
    prompts: int  # a step
    start: tuple[float, ...]  # how often each reward is reached at first
    pays: tuple[float, ...]  # by each reward
    rate: float  # of learning
    drift: float = 0.0  # std of a step that each logit takes at random: what else is learnt moves it
    kinds: int = 0  # of answers, each with rewards of its own, among which the policy chooses; 0: independent coins


SETTINGS = (
    RunSetting("nothing is learnt", "grpo", 60, 8, (0.3, 0.6), (1, 1), 0.0),
    RunSetting("a few steps", "grpo", 12, 8, (0.3, 0.5, 0.2), (1, 1, 1), 0.3),
    RunSetting("slow", "grpo", 80, 4, (0.3, 0.5, 0.2), (1, 1, 1), 0.2),
    RunSetting("slow, GDPO", "gdpo", 80, 4, (0.3, 0.5, 0.2), (1, 1, 1), 0.2),
    RunSetting("one reward drowns the others", "grpo", 80, 4, (0.5, 0.5, 0.5), (1, 0.5, 10), 0.5),
    RunSetting("rare rewards, fast", "grpo", 150, 4, (0.05, 0.1), (1, 1), 1.0),
    RunSetting("rare rewards, fast, GDPO", "gdpo", 150, 4, (0.05, 0.1), (1, 1), 1.0),
    RunSetting("large batches", "grpo", 100, 32, (0.2, 0.5, 0.7), (1, 2, 1), 0.5),
    RunSetting("long", "gdpo", 400, 4, (0.2, 0.5), (1, 1), 0.1),
    RunSetting("other things drift", "grpo", 100, 4, (0.3, 0.5, 0.2), (1, 1, 1), 0.2, drift=0.1),
    RunSetting("other things drift, long", "gdpo", 300, 4, (0.3, 0.5), (1, 1), 0.1, drift=0.05),
    RunSetting("one of several ways is taken", "grpo", 60, 4, (0.5, 0.5, 0.5), (1, 1, 1), 0.5, kinds=12),
    RunSetting("one of several ways is taken, GDPO", "gdpo", 150, 4, (0.5, 0.5, 0.5), (1, 1, 1), 0.5, kinds=12),
)


def run(seeds: int = SEEDS, draws: int = DRAWS) -> None:
    """Simulate, compare pairs of runs and sets of runs, print the share of the figures that are clear."""
    rows, pairs, sets = [], [], {n: [] for n in A_SIDE}
    for setting in SETTINGS:
        reports = [audit_run(setting, seed) for seed in range(seeds)]
        two = [clear([a], [b]) for a, b in combinations(reports, 2)]
        cells = [_percent(two)]
        pairs += two
        rng = np.random.default_rng(0)
        for n in A_SIDE:
            found = []
            for _ in range(draws):
                chosen = [reports[i] for i in rng.permutation(seeds)[: 2 * n]]
                found.append(clear(chosen[:n], chosen[n:]))
            sets[n] += found
            cells.append(_percent(found))
        rows.append((setting.name, *cells))
    rows.append(("all", _percent(pairs), *(_percent(sets[n]) for n in A_SIDE)))
    show(
        f"of the figures of runs that differ in the seed alone, how many are clear; {seeds} seeds of each setting",
        ("", "two runs", *(f"{n} against {n}" for n in A_SIDE)),
        rows,
    )
    print(f"  gdpo compare says: {SEEDS_CLEAR:.0%} of two runs, {1 - LEVEL:.0%} of several")
    record("seeds", two_runs=share_of(pairs), **{f"{n}_a_side": share_of(of) for n, of in sets.items()})


def clear(a: list[AuditReport], b: list[AuditReport]) -> tuple[int, int]:
    """How many figures are clear, and how many have an interval."""
    figures = [x for x in changes(a, b).figures if x.low is not None]
    return sum(x.clear for x in figures), len(figures)


def share_of(found: list[tuple[int, int]]) -> float:
    """The share of the figures with an interval that are clear."""
    return sum(clear for clear, _ in found) / max(1, sum(known for _, known in found))


def _percent(found: list[tuple[int, int]]) -> str:
    return f"{share_of(found):.1%}"


def audit_run(setting: RunSetting, seed: int) -> AuditReport:
    """The audit of one simulated run."""
    table = pl.DataFrame(simulate(setting, seed))
    rewards = [name for name in table.columns if name.startswith("r")]
    return gc.audit(gc.read_run(table, rewards=rewards, group="prompt", step="step"), asked=setting.method)


def simulate(setting: RunSetting, seed: int) -> dict[str, np.ndarray]:
    """The log of one run, by column."""
    rng = np.random.default_rng([seed, len(setting.name), setting.steps])
    start, pays = np.array(setting.start), np.array(setting.pays)
    kinds = np.random.default_rng(len(setting.name)).random((setting.kinds, len(start))) < start  # of every seed
    logits, logged = np.zeros(setting.kinds) if setting.kinds else np.log(start / (1 - start)), []
    for _ in range(setting.steps):
        offset = rng.normal(0, 1, (setting.prompts, 1, len(logits)))
        if setting.kinds:
            odds = np.exp(logits + offset)
            p = odds / odds.sum(-1, keepdims=True)
            chosen = (p.cumsum(-1) < rng.random((setting.prompts, ROLLOUTS, 1))).sum(-1).clip(max=setting.kinds - 1)
            drawn, rewards = np.eye(setting.kinds)[chosen], kinds[chosen] * pays
        else:
            p = 1 / (1 + np.exp(-(logits + offset)))
            drawn = (rng.random((setting.prompts, ROLLOUTS, len(start))) < p).astype(float)
            rewards = drawn * pays
        logged.append(rewards)
        a = gc.advantages(rewards, setting.method).numpy()
        moved = (a[..., None] * (drawn - p)).mean((0, 1)) * (setting.kinds or 1)
        logits = logits + setting.rate * moved + setting.drift * rng.normal(size=len(logits))
    rewards = np.concatenate(logged).reshape(-1, len(start))  # (responses, rewards)
    group = np.arange(setting.steps * setting.prompts).repeat(ROLLOUTS)
    columns = {"step": group // setting.prompts + 1, "prompt": group}
    return columns | {f"r{k}": rewards[:, k] for k in range(len(start))}


if __name__ == "__main__":
    run()
