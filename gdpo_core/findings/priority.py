"""Whether the reward that should decide does: pairs of responses that a method has the wrong way round, or ties."""

from collections.abc import Iterator
from math import isnan

from gdpo_core import settings
from gdpo_core.findings.facts import NAMES, Facts, Finding, named, percent
from gdpo_core.findings.thresholds import INVERTED_INFO, INVERTED_WARNING


def priority_inversion(f: Facts) -> Iterator[Finding]:
    """A response with less of the primary reward gets more."""
    found = f.inversions(f.acting)
    if len(f.rewards) < 2 or not found >= INVERTED_INFO:  # NaN without a primary reward
        return
    primary = f.rewards[f.plan.primary]
    by_method = {m: f.inversions(m) for m in f.methods if not isnan(f.inversions(m))}
    tied = {m: f.part(f"{m}_tied_primary", f"{m}_primary_pairs") for m in by_method}
    right = {m: 1 - by_method[m] - tied[m] for m in by_method}
    best = max(right, key=right.get)
    compared = named([f"{NAMES[m]} {percent(share)} and {percent(tied[m])}" for m, share in by_method.items()])
    other = _strongest_opponent(f)
    most = (
        f"{NAMES[best]} has the most pairs the right way round, {percent(right[best])}, but"
        if right[best] > right[f.acting]
        else f"No other method has more than these {percent(right[f.acting])} the right way round:"
    )
    yield Finding(
        "priority-inversion",
        "warning" if found >= INVERTED_WARNING else "info",
        f"{f.under}, in {percent(found)} of the pairs that differ in {primary} the response with less {primary} gets "
        f"more, and {percent(tied[f.acting])} are tied. By method, inverted and tied: {compared}. {most} no "
        f"normalisation puts {primary} first. A larger weight on it helps; so does letting the others, above all "
        f"{f.rewards[other]}, count only where {primary} is reached.",
        {
            "primary": primary,
            "method": f.acting,
            "inversions": found,
            **{f"inversions_{m}": share for m, share in by_method.items()},
            **{f"tied_{m}": share for m, share in tied.items()},
            "pairs": int(f.totals[f"{f.acting}_primary_pairs"]),
            "threshold_info": INVERTED_INFO,
            "threshold_warning": INVERTED_WARNING,
        },
        settings.gate(
            f.run.framework,
            f.rewards,
            f.rewards[other],
            primary,
            f.batches[f"high_{f.plan.primary}"].max(),
            otherwise=f.worst(other),
        ),
    )


def order(f: Facts, method: str) -> dict[str, int]:
    """How many pairs with different primary reward a method has the right way round, the wrong way, and ties."""
    pairs, inverted, tied = (
        int(f.totals[f"{method}_{what}"]) for what in ("primary_pairs", "inverted", "tied_primary")
    )
    return {"right": pairs - inverted - tied, "inverted": inverted, "tied_primary_pairs": tied}


def ordered(f: Facts, method: str) -> str:
    """The same in words."""
    right, inverted, tied = order(f, method).values()
    has = f"has {right:,} the right way round, {inverted:,} the wrong way and {tied:,} tied"
    lost = int(f.totals["primary_pairs"] - f.totals[f"{method}_primary_pairs"])
    return f"{has} ({lost:,} are lost to missing rewards)" if lost else has


def _strongest_opponent(f: Facts) -> int:
    """The reward that pulls most against the primary one; if none does, the one with the most of the update."""
    others = [k for k in range(len(f.rewards)) if k != f.plan.primary]
    pulls = {k: f.correlation(k, f.plan.primary) for k in others}
    against = [k for k in others if pulls[k] < 0]
    shares = f.shares(f.acting)
    if against:
        return min(against, key=pulls.get)
    return max(others, key=lambda k: -1.0 if isnan(shares[k]) else shares[k])
