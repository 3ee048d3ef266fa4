"""How often the audit names the recipe of a log: random logs of every recipe that it knows, in plain numpy.

`python -m benchmarks.recipes [LOGS] [SEED] [RECIPE]`: so many logs of each recipe, or of those with RECIPE in their
names. Three of four are as trainers write them: float32, round weights, several batches. Nothing that makes a log
comes from gdpo_core.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
import torch

from benchmarks.table import record, show
from gdpo_core.runs.recipe import Recipe, compare, tensors_of
from gdpo_core.runs.solve import solve

ROUND = (1, 0.5, 2, 0.1, 0.2, 0.25, 0.3, 0.75, 0.8, 1.5, 3, 5, 10, -1, -0.5)
PRECISIONS = ("float32", "bf16", "float16", "4 decimals", "3 decimals", "2 decimals")
KINDS = {  # of rewards
    "binary": lambda draw, n: draw.random(n) < 0.5,
    "rare": lambda draw, n: draw.random(n) < 0.1,
    "ternary": lambda draw, n: draw.integers(0, 3, n) / 2,
    "continuous": lambda draw, n: draw.normal(0, 1, n),
    "coarse": lambda draw, n: draw.random(n).round(2),
    "large": lambda draw, n: draw.normal(5, 20, n),
}
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
    each: float = 0.0  # eps where each reward is normalised
    ddof: int = 1
    after: str = ""  # clipped, factor: nothing that the audit names, but nothing to be wrong about


# Method, decoupled, centre, by: the shapes of which the recipes are made.
SHAPES = {
    "GRPO": ("grpo", False, "group", "group"),
    "GDPO": ("gdpo", True, "group", "batch"),
    "GRPO, no std": ("grpo_no_std",),
    "GRPO, batch std": ("grpo_batch_std", False, "group", "sums"),
    "RLOO": ("grpo_no_std", False, "others"),
    "RLOO, batch": ("reinforce_pp_baseline", False, "others", "batch"),
    "REINFORCE++": ("reinforce_pp", False, "batch", "batch"),
    "REINFORCE++-baseline": ("reinforce_pp_baseline", False, "group", "batch"),
    "MO-GRPO": ("mo_grpo", True),
    "MaxRL": ("max_rl", False, "group", "mean"),
}
# Framework, eps, eps in the group, ddof, shapes, and what comes afterwards.
CODE = (
    ("trl", 1e-4, 1e-4, 1, ("GRPO", "GDPO", "GRPO, no std", "GRPO, batch std", "RLOO", "RLOO, batch")),
    ("trl", 1e-8, 1e-8, 0, ("GRPO",)),  # AsyncGRPO
    ("trl", 1e-4, 1e-4, 1, ("GRPO", "GDPO", "GRPO, no std"), "clipped"),
    ("trl", 1e-4, 1e-4, 1, ("GRPO", "GDPO"), "factor"),
    ("ms_swift", 1e-4, 1e-4, 1, ("GRPO", "GRPO, batch std", "RLOO", "REINFORCE++-baseline")),
    ("ms_swift", 1e-8, 1e-8, 1, ("GDPO",)),
    ("nemo_rl", 1e-6, 1e-6, 1, ("GRPO",)),
    ("nemo_rl", 0, 1e-6, 1, ("GDPO",)),
    ("verl", 1e-6, 1e-6, 1, ("GRPO",)),
    ("generic", 0, 0, 1, tuple(SHAPES)),
    *(("generic", eps, eps, ddof, ("GRPO", "GDPO")) for eps, ddof in ((1e-4, 1), (1e-6, 1), (1e-8, 1), (1e-8, 0))),
)
MAKERS = {
    ", ".join([framework, name, f"eps {eps:g}", f"ddof {ddof}", *after]): Maker(
        framework, *SHAPES[name], eps=eps, each=each, ddof=ddof, after="".join(after)
    )
    for framework, eps, each, ddof, several, *after in CODE
    for name in several
}


# --- one log ----------------------------------------------------------------------------------------------------------


def simulate(maker: Maker, rewards: np.ndarray, weights: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """(batches, prompts, rollouts) advantages of rewards with one more axis, NaN where missing; in float32."""
    there, r, w = ~np.isnan(rewards), np.nan_to_num(rewards).astype(np.float32), weights.astype(np.float32)
    if maker.decoupled:
        count = there.sum(2, keepdims=True)
        r = np.where(there, r - r.sum(2, keepdims=True) / count.clip(1), 0)
        std = np.sqrt((r**2).sum(2, keepdims=True, dtype=np.float64) / (count - maker.ddof).clip(1))
        r = _divided(r, std, maker.each)
    s = a = (r * w).sum(-1)
    if not maker.decoupled:
        a = s - s.mean((1, 2) if maker.centre == "batch" else 2, keepdims=True)
    if maker.centre == "others":
        a = a * np.float32(s.shape[2] / (s.shape[2] - 1))
    if maker.by == "mean":
        a = _divided(a, s.mean(2, keepdims=True), 0)
    elif maker.by:
        over, of = 2 if maker.by == "group" else (1, 2), a if maker.by == "batch" else s
        a = _divided(a, of.std(over, ddof=maker.ddof, keepdims=True, dtype=np.float64), maker.eps)
    if maker.after == "factor":
        a = a * draw.uniform(0.3, 3, (len(a), 1, 1)).astype(np.float32)
    clip = draw.choice([1.0, 1.5, 2.0, 3.0])
    return a.clip(-clip, clip) if maker.after == "clipped" else a


def _divided(a: np.ndarray, by: np.ndarray, eps: float) -> np.ndarray:
    """0 where the divisor is round-off, or below 0."""
    return np.where(by > 1e-5, a / np.where(by > 1e-5, by + eps, 1), 0).astype(np.float32)


def round_to(a: np.ndarray, precision: str) -> np.ndarray:
    """(responses,) float64, as a log of this precision holds them."""
    if precision.endswith("decimals"):
        return a.astype(np.float64).round(int(precision[0]))
    kinds = {"float32": torch.float32, "float16": torch.float16, "bf16": torch.bfloat16}
    return torch.from_numpy(a).to(kinds[precision]).double().numpy()


@dataclass(frozen=True)
class RandomLog:
    """A log, and what made it."""

    table: pl.DataFrame
    rewards: list[str]
    weights: tuple[float, ...]
    about: str


def random_log(maker: Maker, draw: np.random.Generator, odd: bool = False) -> RandomLog:
    """A log of this recipe as trainers write it; odd: rounded, or of any weights, or of few batches."""
    count, batches = int(draw.integers(1, 5)), int(draw.integers(1, 12) if odd else draw.integers(4, 21))
    size, prompts = int(draw.integers(2, 17) if odd else draw.choice([4, 8, 16])), int(draw.integers(2, 9))
    kinds, names = draw.choice(list(KINDS), count), [f"r{k}" for k in range(count)]
    holes = maker.framework in ("trl", "ms_swift", "generic") and count > 1 and draw.random() < 0.15
    weights = [np.ones(count), draw.choice(ROUND, count), draw.uniform(0.05, 3, count).round(2)]
    weights = weights[draw.integers(3 if odd else 2)]
    precision = str(draw.choice(PRECISIONS)) if odd else "float32"

    r = np.stack([KINDS[kind](draw, (batches, prompts, size)) for kind in kinds], -1).astype(np.float32)
    missing = draw.random(r.shape) < 0.15 * holes
    missing[..., 0] &= ~missing.all(-1)  # no response without a reward
    r = np.where(missing, np.nan, r)
    a = round_to(simulate(maker, r, weights, draw).ravel(), precision)
    columns = {"batch": np.arange(batches).repeat(prompts * size), "group": np.arange(batches * prompts).repeat(size)}
    columns |= dict(zip(names, r.reshape(-1, count).T.astype(float), strict=True))
    about = f"{batches} batches of {prompts} groups of {size}, {', '.join(kinds)}"
    about += f"{', holes' * holes}, {precision}, weights {weights.tolist()}"
    return RandomLog(pl.DataFrame(columns | {"advantage": a}), names, tuple(weights.tolist()), about)


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


def run(logs: int = 20, seed: int = 0, only: str = "") -> None:
    """Try every recipe, print a table, and each log of which something wrong is said."""
    counts = {name: Counter[str]() for name in MAKERS if only in name}
    for (name, count), number in product(counts.items(), range(logs)):
        draw = np.random.default_rng([seed, list(MAKERS).index(name), number])
        log = random_log(MAKERS[name], draw, odd=number % 4 == 3)
        recipe = solve([log.table], log.rewards, MAKERS[name].framework)
        said = verdict(log, MAKERS[name].method, recipe)
        count[said] += 1
        if said.endswith("wrong"):
            print(f"{said}: {name}: {log.about}\n    {recipe}", flush=True)
    total = sum(counts.values(), Counter())
    rows = [[name, *(str(count[v]) for v in VERDICTS)] for name, count in [*counts.items(), ("all", total)]]
    show(f"recipes of {logs} random logs each", ("", *VERDICTS), rows)
    record("recipes", **{v: total[v] for v in VERDICTS})


if __name__ == "__main__":
    run(*map(int, sys.argv[1:3]), *sys.argv[3:4])
