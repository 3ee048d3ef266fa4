"""A benchmark of how often the audit names the right recipe, which is the method, its constants and the weights that
made a log. It is tried on random logs of every recipe in `MAKERS`.

`python -m benchmarks.recipes [LOGS] [SEED] [RECIPE]` tries LOGS random logs of each recipe, or only of the recipes with
RECIPE in their names. Three of four logs are as trainers write them: in float32, with round weights and several
batches; the fourth may be rounded and short, with odd weights and group sizes. The advantages are computed in numpy,
without any code of gdpo_core.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
import torch

from benchmarks.table import record, show
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.recipe.recipe import Recipe, compare, tensors_of
from gdpo_audit.recipe.solve import solve

ROUND = (1, 0.5, 2, 0.1, 0.2, 0.25, 0.3, 0.75, 0.8, 1.5, 3, 5, 10, -1, -0.5)
PRECISIONS = ("float32", "bf16", "float16", "4 decimals", "3 decimals", "2 decimals")
KINDS = {  # of rewards: each draws n values
    "binary": lambda draw, n: draw.random(n) < 0.5,
    "rare": lambda draw, n: draw.random(n) < 0.1,
    "ternary": lambda draw, n: draw.integers(0, 3, n) / 2,
    "continuous": lambda draw, n: draw.normal(0, 1, n),
    "coarse": lambda draw, n: draw.random(n).round(2),
    "large": lambda draw, n: draw.normal(5, 20, n),
}
SAME = 0.01  # weights whose relative difference is at most this count as the same
MOST = 0.9  # the part of the advantages that a recipe has to make if its weights are open, and so only fitted
VERDICTS = ("certain, right", "certain, wrong", "open", "open, wrong", "nothing")


@dataclass(frozen=True)
class Maker:
    """A way to make the advantages of a log from its rewards.

    framework: the framework that writes a log of this kind.
    method: the id of the method in the audit.
    decoupled: whether each reward is normalised in its group before the rewards are added up.
    centre: whose mean is subtracted from a sum: the mean of its "group", of the "others" in the group, or of the
        "batch". If `decoupled`, the mean of a group is 0 already.
    by: what the centred sums are divided by. "group" is the std of the sums in the group, and "mean" their mean there.
        "sums" is the std of all sums of the batch, and "batch" the std of all its centred sums. "" is nothing.
    eps: what is added to the std in `by`.
    group_eps: what is added to the std of a reward that is normalised in its group.
    ddof: the ddof of these stds.
    after: what is done at the end: "clipped", "whitened", or "factor" if each batch is multiplied by a random number;
        "" for nothing.
    """

    framework: str
    method: str
    decoupled: bool = False
    centre: str = "group"
    by: str = ""
    eps: float = 0.0
    group_eps: float = 0.0
    ddof: int = 1
    after: str = ""


# The kinds of recipes, each with the first fields of a `Maker` after the framework: method, decoupled, centre, by.
GRPO, NO_STD, GDPO = ("grpo", False, "group", "group"), ("grpo_no_std",), ("gdpo", True, "group", "batch")
BATCH_STD, MO_GRPO = ("grpo_batch_std", False, "group", "sums"), ("mo_grpo", True)
RLOO, PLUS = ("grpo_no_std", False, "others"), ("reinforce_pp", False, "batch", "batch")
BASELINE = "reinforce_pp_baseline", False, "group", "batch"
OWN = (  # recipes of code that people write themselves: what stands before the name, ddof, values of eps, kinds by name
    ("own ", 1, (1e-4, 1e-5, 1e-6, 1e-8, 1e-9), {"GRPO": GRPO, "GDPO": GDPO}),
    ("numpy ", 0, (0, 1e-8, 1e-6, 1e-4), {"GRPO": GRPO, "GDPO": GDPO, "batch std": BATCH_STD}),
    ("", 1, (0, 1e-4, 1e-8), {"REINFORCE++": PLUS, "REINFORCE++-baseline": BASELINE, "MO-GRPO": MO_GRPO}),
)
MADE = (  # each with its name, framework, kind, eps, eps of each reward, ddof, and what is done at the end
    ("TRL GRPO", "trl", GRPO, 1e-4),
    ("TRL GRPO, no std", "trl", NO_STD),
    ("TRL GRPO, batch std", "trl", BATCH_STD, 1e-4),
    ("TRL GDPO", "trl", GDPO, 1e-4, 1e-4),
    ("TRL RLOO", "trl", RLOO),
    ("TRL RLOO, normalised", "trl", ("reinforce_pp_baseline", False, "others", "batch"), 1e-4),
    ("TRL AsyncGRPO", "trl", GRPO, 1e-8, 0, 0),
    ("ms-swift grpo, group", "ms_swift", GRPO, 1e-4),
    ("ms-swift grpo, batch", "ms_swift", BATCH_STD, 1e-4),
    ("ms-swift grpo, none", "ms_swift", NO_STD),
    ("ms-swift grpo, gdpo", "ms_swift", GDPO, 1e-8, 1e-8),
    ("ms-swift rloo, none", "ms_swift", RLOO),
    ("ms-swift rloo, group", "ms_swift", ("grpo", False, "others", "group"), 1e-4),
    ("ms-swift rloo, batch", "ms_swift", ("grpo_batch_std", False, "others", "sums"), 1e-4),
    ("ms-swift reinforce++, batch", "ms_swift", BASELINE, 1e-4),
    ("NeMo-RL GRPO", "nemo_rl", GRPO, 1e-6),
    ("NeMo-RL GDPO", "nemo_rl", GDPO, 0, 1e-6),
    ("MaxRL", "generic", ("max_rl", False, "group", "mean")),
    ("paper GRPO", "generic", GRPO),
    ("paper GRPO, no std", "generic", NO_STD),
    ("paper GDPO", "generic", GDPO),
    ("REINFORCE++, numpy", "generic", PLUS, 1e-8, 0, 0),
    ("MO-GRPO, numpy", "generic", MO_GRPO, 0, 1e-8, 0),
    *(
        (f"{before}{name}, eps {eps:g}", "generic", shape, eps, eps, ddof)
        for before, ddof, several, shapes in OWN
        for name, shape in shapes.items()
        for eps in several
    ),
    ("TRL GRPO, clipped", "trl", GRPO, 1e-4, 0, 1, "clipped"),
    ("TRL GRPO, no std, clipped", "trl", NO_STD, 0, 0, 1, "clipped"),
    ("TRL GDPO, clipped", "trl", GDPO, 1e-4, 1e-4, 1, "clipped"),
    ("TRL GRPO, whitened", "trl", GRPO, 1e-4, 0, 1, "whitened"),
    ("TRL GRPO, factor per batch", "trl", GRPO, 1e-4, 0, 1, "factor"),
    ("TRL GDPO, factor per batch", "trl", GDPO, 1e-4, 1e-4, 1, "factor"),
)
MAKERS = {
    name: Maker(framework, *shape, **dict(zip(("eps", "group_eps", "ddof", "after"), rest, strict=False)))
    for name, framework, shape, *rest in MADE
}


# --- one log ----------------------------------------------------------------------------------------------------------


def simulate(maker: Maker, batches: list, weights: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the advantages, (responses,), that a maker gives batches of groups, computed in float32.

    batches: for each batch a list of groups, each (rollouts, rewards).
    weights: (rewards,).
    draw: draws the bound at which the maker clips all advantages, and the factor by which it multiplies the advantages
        of a batch, if it does so.
    """
    clip = draw.choice([1.0, 1.5, 2.0, 3.0])
    a = np.concatenate([_of_batch(maker, groups, weights.astype(np.float32), draw) for groups in batches])
    return a.clip(-clip, clip) if maker.after == "clipped" else a


def _of_batch(maker: Maker, groups: list, weights: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the advantages, (responses,), that a maker gives one batch, before any clipping.

    groups: a (rollouts, rewards) array for each group.
    weights: (rewards,).
    draw: draws the random number by which all advantages of the batch are multiplied, if the maker does that.
    """
    sums, left = [], []
    for group in groups:
        r = group.astype(np.float32)
        if maker.decoupled:
            r = np.stack([_normalise(column, maker.group_eps, maker.ddof) for column in r.T], 1)
        s = np.nansum(r * weights, axis=1, dtype=np.float32)
        c, n, by = s, len(s), None
        if not maker.decoupled and maker.centre != "batch":
            c = s - s.mean(dtype=np.float32) if np.ptp(s) > 1e-6 * np.abs(s).max() else np.zeros_like(s)  # round-off
        if maker.centre == "others":
            c = c * np.float32(n / (n - 1))
        if maker.by == "group" and c.any():
            by = np.float32(_std(s, maker.ddof) + maker.eps)
        if maker.by == "mean":
            by = max(s.mean(dtype=np.float32), np.float32(0)) or np.float32(np.inf)
        sums.append(s)
        left.append(c if by is None else c / by)
    s, a = np.concatenate(sums), np.concatenate(left)
    if maker.centre == "batch":
        a = a - a.mean(dtype=np.float32)
    if maker.by in ("sums", "batch"):
        by = _std(s if maker.by == "sums" else a, maker.ddof) + maker.eps
        a = a / np.float32(by) if by > 1e-6 else np.zeros_like(a)
    if maker.after == "whitened":
        a = (a - a.mean(dtype=np.float32)) / np.float32(_std(a, 1) + 1e-8) if a.any() else a
    return (a * np.float32(draw.uniform(0.3, 3)) if maker.after == "factor" else a).astype(np.float32)


def _normalise(column: np.ndarray, eps: float, ddof: int) -> np.ndarray:
    """Return one reward of a group minus its mean, divided by its std plus eps; 0 if the reward is constant or only one
    answer has it. NaN stays NaN.
    """
    there = column[~np.isnan(column)]
    if len(there) < 2 or np.ptp(there) <= 1e-6 * np.abs(there).max():
        return column * 0
    return (column - there.mean(dtype=np.float32)) / np.float32(_std(there, ddof) + eps)


def _std(values: np.ndarray, ddof: int) -> float:
    return float(values.std(ddof=ddof, dtype=np.float64))


def round_to(a: np.ndarray, precision: str) -> np.ndarray:
    """Return the values, (responses,), as a log of this precision holds them, in float64.

    precision: one of PRECISIONS.
    """
    if precision.endswith("decimals"):
        return a.astype(np.float64).round(int(precision[0]))
    kinds = {"float32": torch.float32, "float16": torch.float16, "bf16": torch.bfloat16}
    return torch.from_numpy(a).to(kinds[precision]).double().numpy()


@dataclass(frozen=True)
class RandomLog:
    """A random log.

    table: its rows.
    rewards: the names of its rewards.
    weights: the weights that made its advantages.
    about: words that describe it.
    """

    table: pl.DataFrame
    rewards: list[str]
    weights: tuple[float, ...]
    about: str


def random_log(maker: Maker, draw: np.random.Generator, odd: bool = False) -> RandomLog:
    """Return a random log such as trainers write, with the advantages that `maker` makes of its rewards.

    draw: draws all that is random in the log.
    odd: whether the log may be unlike most trainers' logs. Its advantages may then be rounded, and its weights may be
        any numbers of two decimals. Its groups may have any size from 2 to 16, and it may have few batches.
    """
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
    a = round_to(simulate(maker, list(r), weights, draw), precision)
    columns = {"batch": np.arange(batches).repeat(prompts * size), "group": np.arange(batches * prompts).repeat(size)}
    columns |= dict(zip(reward_columns(names), r.reshape(-1, count).T.astype(float), strict=True))
    about = f"{batches} batches of {prompts} groups of {size}, {', '.join(kinds)}"
    about += f"{', holes' * holes}, {precision}, weights {weights.tolist()}"
    return RandomLog(pl.DataFrame(columns | {"advantage": a}), names, tuple(weights.tolist()), about)


# --- what is said of it -----------------------------------------------------------------------------------------------


def verdict(log: RandomLog, method: str, recipe: Recipe | None) -> str:
    """Return the verdict, one of VERDICTS, on the recipe that was found for a log. It is "nothing" if `recipe` is None.

    The verdict says whether the recipe is certain or open, and whether it is right. A recipe is open if it leaves
    weights unknown, or tells them only up to a factor. It can only be right if the weights that it tells are the
    weights of the log. Besides, its method has to be `method`, or the recipe has to reproduce all logged advantages.
    For an open recipe the share `MOST` of these advantages is enough.

    method: the method that made the log.
    recipe: the recipe that was found, or None.
    """
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
    """Search for the recipes of random logs, and print how often each verdict on what was found fell.

    Each log with a wrong verdict is printed first. Then come a table and a line of JSON with the verdicts.

    logs: how many logs are made by each recipe.
    seed: the number that fixes their random draws.
    only: a text; a recipe without it in its name is left out.
    """
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
