"""Compare gdpo_core with every installed framework: `python -m tests.parity`."""

import argparse
import sys
import warnings

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import gdpo_core
from tests.parity.batches import Batch, batches
from tests.parity.frameworks import SOURCES, Framework, Method, load

SEEDS = 5
# The largest difference allowed, relative to max(1, |A|). Even if they are given float64, the frameworks compute some
# counts and eps in float32.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-7}


def main(arguments: list[str]) -> None:
    """Print the comparison, and exit with 1 if a difference is larger than its tolerance."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="first seed of the batches")
    options = parser.parse_args(arguments)
    rows = [row for name in SOURCES for row in compare(name, range(options.seed, options.seed + SEEDS))]
    limits = [f"{str(dtype).removeprefix('torch.')} ≤ {limit:g}" for dtype, limit in TOLERANCE.items()]
    head = ["framework", "method", "batches", *limits, "float32 round-off", "verdict"]
    table = Table(*head, title="Largest difference between gdpo_core and the framework, relative to max(1, |A|)")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    verdicts = [row[-1] for row in rows]
    print(f"\n{verdicts.count('ok')} ok, {verdicts.count('DIFFERS')} differ")
    if not any(map(load, SOURCES)):
        sys.exit("No framework is installed: run `make parity`, which installs them first.")
    sys.exit(1 if "DIFFERS" in verdicts else 0)


def compare(name: str, seeds: range) -> list[list[str]]:
    """Return the rows of the table for one framework: one per method, or a single row that says why it was not run.
    name: its key in SOURCES; seeds: of the batches.
    """
    framework, source = load(name), SOURCES[name]
    if framework is None:
        why = "not installed" if source.load else "not on PyPI"
        return [[source.title, "", "", "", "", "", why]]
    chosen = [batch for seed in seeds for batch in batches(seed).values() if accepts(framework, batch)]
    return [_row(framework, name, method, chosen) for name, method in framework.methods.items()]


def accepts(framework: Framework, batch: Batch) -> bool:
    """Return whether a framework accepts the groups of a batch, which may differ in size."""
    return framework.ragged or isinstance(batch.groups, int)


def _row(framework: Framework, name: str, method: Method, chosen: list[Batch]) -> list[str]:
    """Return the row of the table for one method of a framework. chosen: the batches on which it is compared."""
    sharp = [batch for batch in chosen if not batch.round_off]
    coarse = [batch for batch in chosen if batch.round_off]
    single = max(difference(framework, name, method, batch) for batch in sharp)
    chance = max(difference(framework, name, method, batch) for batch in coarse)
    double = None
    if name in framework.float64:
        double = max(difference(framework, name, method, batch, torch.float64) for batch in chosen)
    fits = single <= TOLERANCE[torch.float32] and (double is None or double <= TOLERANCE[torch.float64])
    numbers = ["–" if x is None else f"{x:.1e}" for x in (single, double, chance)]
    title = f"{framework.name} {framework.version}"
    return [title, name, str(len(chosen)), *numbers, "ok" if fits else "DIFFERS"]


def difference(framework: Framework, name: str, method: Method, batch: Batch, dtype=torch.float32) -> float:
    """Return the largest difference between the framework and gdpo_core on one batch, relative to sizes above 1;
    infinite if they do not have NaN in the same places. dtype: in which the framework gets the batch.
    """
    rewards, weights = batch.rewards.to(dtype), batch.weights.to(dtype)
    theirs = method(rewards, weights, batch.groups, batch.lengths).double()
    ours = of_gdpo_core(batch, name.split(",")[0], getattr(gdpo_core, framework.convention))
    if not torch.equal(ours.isnan(), theirs.isnan()):
        return float("inf")
    relative = (ours - theirs).abs() / theirs.abs().clamp(min=1)
    return relative.nan_to_num(nan=0).max().item()


def of_gdpo_core(batch: Batch, method: str, convention: gdpo_core.Convention) -> Tensor:
    """Return the advantages of gdpo_core, (responses,), computed in float64 whatever the framework computes in."""
    rewards, lengths, groups = batch.rewards.double(), batch.lengths, None
    if isinstance(batch.groups, int):
        rewards, lengths = rewards.unflatten(0, (-1, batch.groups)), lengths.view(-1, batch.groups)
    else:
        groups = batch.groups
    found = gdpo_core.advantages(
        rewards, method, weights=batch.weights.double(), groups=groups, lengths=lengths, convention=convention
    )
    return found.flatten()


if __name__ == "__main__":
    # axolotl computes the std of groups of one response
    warnings.filterwarnings("ignore", "std.*degrees of freedom")
    main(sys.argv[1:])
