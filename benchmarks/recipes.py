"""How often the audit names the recipe of a log: random logs of every recipe that it knows, in plain numpy.

`python -m benchmarks.recipes [LOGS] [SEED] [RECIPE]`: so many logs of each recipe, or of those with RECIPE in their
names. Nothing that makes a log comes from gdpo_core.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from benchmarks.table import record, show
from gdpo_core.runs.recipe import Recipe, compare, tensors_of
from gdpo_core.runs.solve import solve

ROUND = (1, 0.5, 2, 0.1, 0.2, 0.25, 0.3, 0.75, 0.8, 1.5, 3, 5, 10, -1, -0.5)
PRECISIONS = ("float32", "float32", "float32", "float32", "bf16", "float16", "4 decimals", "3 decimals", "2 decimals")
SAME = 0.01  # weights that differ by less, relatively, are the same
MOST = 0.9  # of the advantages; weights that are open, and so only fitted, may miss some
VERDICTS = ("certain, right", "certain, wrong", "open", "open, wrong", "nothing")


@dataclass(frozen=True)
class Maker:
    """One recipe: what is summed, what is taken off, what divides, and what comes afterwards."""

    framework: str
    method: str  # what the audit calls it
    decoupled: bool = False  # each reward normalised in its group before the sum
    centre: str = "group"  # or others, batch
    by: str = ""  # group, mean (of the group), sums (their std over the batch), batch (the std of what is left)
    eps: float = 0.0
    group_eps: float = 0.0
    ddof: int = 1
    after: str = ""  # clipped, whitened, factor


def own(method: str, **parts: object) -> Maker:
    return Maker("generic", method, **parts)  # type: ignore[arg-type]


GDPO = {"decoupled": True, "by": "batch"}
MAKERS = {
    "TRL GRPO": Maker("trl", "grpo", by="group", eps=1e-4),
    "TRL GRPO, no std": Maker("trl", "grpo_no_std"),
    "TRL GRPO, batch std": Maker("trl", "grpo_batch_std", by="sums", eps=1e-4),
    "TRL GDPO": Maker("trl", "gdpo", **GDPO, eps=1e-4, group_eps=1e-4),  # type: ignore[arg-type]
    "TRL RLOO": Maker("trl", "grpo_no_std", centre="others"),
    "TRL RLOO, normalised": Maker("trl", "reinforce_pp_baseline", centre="others", by="batch", eps=1e-4),
    "ms-swift grpo, group": Maker("ms_swift", "grpo", by="group", eps=1e-4),
    "ms-swift grpo, batch": Maker("ms_swift", "grpo_batch_std", by="sums", eps=1e-4),
    "ms-swift grpo, none": Maker("ms_swift", "grpo_no_std"),
    "ms-swift grpo, gdpo": Maker("ms_swift", "gdpo", **GDPO, eps=1e-8, group_eps=1e-8),  # type: ignore[arg-type]
    "ms-swift rloo, none": Maker("ms_swift", "grpo_no_std", centre="others"),
    "ms-swift rloo, group": Maker("ms_swift", "grpo", centre="others", by="group", eps=1e-4),
    "ms-swift rloo, batch": Maker("ms_swift", "grpo_batch_std", centre="others", by="sums", eps=1e-4),
    "ms-swift reinforce++, batch": Maker("ms_swift", "reinforce_pp_baseline", by="batch", eps=1e-4),
    "NeMo-RL GRPO": Maker("nemo_rl", "grpo", by="group", eps=1e-6),
    "NeMo-RL GDPO": Maker("nemo_rl", "gdpo", **GDPO, group_eps=1e-6),  # type: ignore[arg-type]
    "paper GRPO": own("grpo", by="group"),
    "paper GRPO, no std": own("grpo_no_std"),
    "paper GDPO": own("gdpo", **GDPO),
    **{f"own GRPO, eps {eps:g}": own("grpo", by="group", eps=eps) for eps in (1e-4, 1e-5, 1e-6, 1e-8, 1e-9)},
    **{f"own GDPO, eps {eps:g}": own("gdpo", **GDPO, eps=eps, group_eps=eps) for eps in (1e-4, 1e-5, 1e-6, 1e-8, 1e-9)},
    **{
        f"numpy {name}, eps {eps:g}": own(method, **parts, ddof=0, eps=eps, group_eps=eps)
        for eps in (0, 1e-8, 1e-6, 1e-4)
        for name, method, parts in (
            ("GRPO", "grpo", {"by": "group"}),
            ("batch std", "grpo_batch_std", {"by": "sums"}),
            ("GDPO", "gdpo", GDPO),
        )
    },
    **{
        f"REINFORCE++, eps {eps:g}": own("reinforce_pp", centre="batch", by="batch", eps=eps) for eps in (0, 1e-4, 1e-8)
    },
    "REINFORCE++, numpy": own("reinforce_pp", centre="batch", by="batch", eps=1e-8, ddof=0),
    **{
        f"REINFORCE++-baseline, eps {eps:g}": own("reinforce_pp_baseline", by="batch", eps=eps)
        for eps in (0, 1e-4, 1e-8)
    },
    **{f"MO-GRPO, eps {eps:g}": own("mo_grpo", decoupled=True, group_eps=eps) for eps in (0, 1e-4, 1e-8)},
    "MO-GRPO, numpy": own("mo_grpo", decoupled=True, group_eps=1e-8, ddof=0),
    "TRL GRPO, clipped": Maker("trl", "grpo", by="group", eps=1e-4, after="clipped"),
    "TRL GRPO, no std, clipped": Maker("trl", "grpo_no_std", after="clipped"),
    "TRL GDPO, clipped": Maker("trl", "gdpo", **GDPO, eps=1e-4, group_eps=1e-4, after="clipped"),  # type: ignore[arg-type]
    "TRL GRPO, whitened": Maker("trl", "grpo", by="group", eps=1e-4, after="whitened"),
    "TRL GRPO, factor per batch": Maker("trl", "grpo", by="group", eps=1e-4, after="factor"),
    "TRL GDPO, factor per batch": Maker("trl", "gdpo", **GDPO, eps=1e-4, group_eps=1e-4, after="factor"),  # type: ignore[arg-type]
    "MaxRL": own("max_rl", by="mean"),
    "TRL AsyncGRPO": Maker("trl", "grpo", by="group", eps=1e-8, ddof=0),
}


# --- one log ----------------------------------------------------------------------------------------------------------


def simulate(
    maker: Maker, batches: list[list[np.ndarray]], weights: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """(responses,) the advantages of batches of groups, (rollouts, rewards) each; in float32, in one order."""
    clip = draw.choice([1.0, 1.5, 2.0, 3.0])
    return np.concatenate([_of_batch(maker, groups, weights.astype(np.float32), clip, draw) for groups in batches])


def _of_batch(
    maker: Maker, groups: list[np.ndarray], weights: np.ndarray, clip: float, draw: np.random.Generator
) -> np.ndarray:
    sums, left = [], []
    for group in groups:
        r = group.astype(np.float32)
        if maker.decoupled:
            r = np.stack([_normalise(column, maker.group_eps, maker.ddof) for column in r.T], 1)
        s = np.nansum(r * weights, axis=1, dtype=np.float32)
        n = len(s)
        c = s if maker.decoupled or maker.centre == "batch" or n < 2 else s - s.mean(dtype=np.float32)
        if np.ptp(s) <= 1e-6 * np.abs(s).max(initial=0):  # round-off
            c = c if maker.centre == "batch" else np.zeros_like(s)
        c = np.zeros_like(s) if n < 2 and not maker.decoupled and maker.centre != "batch" else c
        if maker.centre == "others":
            c = c * np.float32(n / max(n - 1, 1))
        if maker.by == "group":
            c = c / np.float32(_std(s, maker.ddof) + maker.eps) if c.any() else c
        if maker.by == "mean":
            c = c / s.mean(dtype=np.float32) if s.mean(dtype=np.float32) > 0 else np.zeros_like(s)
        sums.append(s)
        left.append(c)
    s, a = np.concatenate(sums), np.concatenate(left)
    if maker.centre == "batch":
        a = a - a.mean(dtype=np.float32)
    if maker.by in ("sums", "batch"):
        by = _std(s if maker.by == "sums" else a, maker.ddof) + maker.eps
        a = a / np.float32(by) if by > 1e-6 else np.zeros_like(a)
    if maker.after == "whitened":
        a = (a - a.mean(dtype=np.float32)) / np.float32(_std(a, 1) + 1e-8) if a.any() else a
    if maker.after == "factor":
        a = a * np.float32(draw.uniform(0.3, 3))
    if maker.after == "clipped":
        a = a.clip(-clip, clip)
    return a.astype(np.float32)


def _normalise(column: np.ndarray, eps: float, ddof: int) -> np.ndarray:
    there = column[~np.isnan(column)]
    if len(there) < 2 or np.ptp(there) <= 1e-6 * np.abs(there).max():
        return np.where(np.isnan(column), np.nan, 0).astype(np.float32)
    return (column - there.mean(dtype=np.float32)) / np.float32(_std(there, ddof) + eps)


def _std(values: np.ndarray, ddof: int) -> float:
    return float(values.std(ddof=ddof, dtype=np.float64)) if len(values) > ddof else 0.0


def round_to(a: np.ndarray, precision: str) -> np.ndarray:
    """(responses,) float64, as a log of this precision holds them."""
    if precision.endswith("decimals"):
        return a.astype(np.float64).round(int(precision[0]))
    if precision == "float16":
        return a.astype(np.float16).astype(np.float64)
    if precision == "bf16":
        bits = a.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits += 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))
        return (bits & np.uint64(0xFFFF0000)).astype(np.uint32).view(np.float32).astype(np.float64)
    return a.astype(np.float64)


@dataclass(frozen=True)
class RandomLog:
    """A log, and what made it."""

    table: pl.DataFrame
    rewards: list[str]
    weights: tuple[float, ...]
    about: str


def random_log(maker: Maker, draw: np.random.Generator) -> RandomLog:
    """A log of this recipe: rewards, weights, sizes and precision at random."""
    count, batches = int(draw.integers(1, 5)), int(draw.integers(1, 21))
    size, prompts = int(draw.integers(2, 17)), int(draw.integers(1, 9))
    ragged = draw.random() < 0.2
    kinds = draw.choice(["binary", "rare", "ternary", "continuous", "coarse", "large"], count)
    holes = maker.framework in ("trl", "ms_swift", "generic") and draw.random() < 0.2 and count > 1
    of_weights = draw.choice(["ones", "round", "round", "decimals", "odd"])
    weights = {
        "ones": np.ones(count),
        "round": draw.choice(ROUND, count),
        "decimals": draw.uniform(0.05, 3, count).round(2),
        "odd": draw.uniform(0.05, 3, count),
    }[of_weights]
    precision = str(draw.choice(PRECISIONS))

    def group() -> np.ndarray:
        n = int(draw.integers(2, 17)) if ragged else size
        x = np.stack([_reward(kind, n, draw) for kind in kinds], 1).astype(np.float32)
        if holes:
            missing = draw.random(x.shape) < 0.15
            missing[np.arange(n), draw.integers(count, size=n)] = False
            x[missing] = np.nan
        return x

    made_of = [[group() for _ in range(prompts)] for _ in range(batches)]
    a = round_to(simulate(maker, made_of, weights, draw), precision)
    every = [g for batch in made_of for g in batch]
    sizes = [len(g) for g in every]
    of_batch = np.repeat(np.arange(batches).repeat(prompts), sizes)
    r = np.concatenate(every).astype(np.float64)
    names = [f"r{k}" for k in range(count)]
    columns = {"batch": of_batch, "group": np.arange(len(every)).repeat(sizes), **dict(zip(names, r.T, strict=True))}
    about = f"{batches} batches of {prompts} groups of {'2 to 16' if ragged else size}, {', '.join(kinds)}"
    about += f"{', holes' * holes}, {precision}, weights {weights.tolist()}"
    return RandomLog(pl.DataFrame(columns | {"advantage": a}), names, tuple(weights.tolist()), about)


def _reward(kind: str, n: int, draw: np.random.Generator) -> np.ndarray:
    match kind:
        case "binary":
            return draw.random(n) < 0.5
        case "rare":
            return draw.random(n) < 0.1
        case "ternary":
            return draw.integers(0, 3, n) / 2
        case "coarse":
            return draw.random(n).round(2)
        case "large":
            return draw.normal(5, 20, n)
    return draw.normal(0, 1, n)


# --- what is said of it -----------------------------------------------------------------------------------------------


def verdict(log: RandomLog, method: str, recipe: Recipe | None) -> str:
    """One of VERDICTS. Another method that makes the same advantages with the same weights is no other recipe."""
    if recipe is None:
        return "nothing"
    known = [k for k in range(len(log.weights)) if k not in recipe.unknown]
    claimed, true = (np.array([w[k] for k in known]) for w in (recipe.weights, log.weights))
    if recipe.up_to_scale and len(known):
        largest = np.abs(true).argmax()
        claimed = claimed * (true[largest] / claimed[largest] if claimed[largest] else 1)
    right = bool((np.abs(claimed - true) <= SAME * np.abs(true)).all())
    if right and recipe.method != method:
        comparison = compare(tensors_of(log.table, log.rewards), recipe)
        share = (comparison.error <= comparison.allowed).double().mean().item()
        right = share >= (MOST if recipe.up_to_scale or recipe.unknown else 1)
    if recipe.up_to_scale or recipe.unknown:
        return "open" if right else "open, wrong"
    return "certain, right" if right else "certain, wrong"


def try_logs(name: str, logs: int, seed: int) -> Iterator[tuple[str, RandomLog, Recipe | None]]:
    """The verdicts on so many random logs of a recipe."""
    maker = MAKERS[name]
    for number in range(logs):
        draw = np.random.default_rng([seed, list(MAKERS).index(name), number])
        log = random_log(maker, draw)
        recipe = solve([log.table], log.rewards, maker.framework)
        yield verdict(log, maker.method, recipe), log, recipe


def run(logs: int = 20, seed: int = 0, only: str = "", verbose: bool = False) -> None:
    """Try every recipe, print a table, and each log of which something wrong is said."""
    counts = {}
    for name in (name for name in MAKERS if only in name):
        counts[name] = Counter[str]()
        for said, log, recipe in try_logs(name, logs, seed):
            counts[name][said] += 1
            if said.endswith("wrong") or (verbose and said == "nothing"):
                print(f"{said}: {name}: {log.about}\n    {recipe}", flush=True)
    total = sum(counts.values(), Counter())
    rows = [[name, *(str(count[v]) for v in VERDICTS)] for name, count in [*counts.items(), ("all", total)]]
    show(f"recipes of {logs} random logs each", ("", *VERDICTS), rows)
    record("recipes", **{v: total[v] for v in VERDICTS})


if __name__ == "__main__":
    chosen = sys.argv[1:]
    run(int(chosen[0]) if chosen else 20, int(chosen[1]) if len(chosen) > 1 else 0, *chosen[2:4])
