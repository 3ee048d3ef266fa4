"""The finding about the primary reward: pairs of responses that a method orders against it, or ties."""

from collections.abc import Iterator
from math import isnan

from gdpo_core import settings
from gdpo_core._words import count, percent
from gdpo_core.findings.facts import NAMES, Facts, Finding, real, some
from gdpo_core.findings.thresholds import INVERTED_INFO, INVERTED_WARNING


def priority_inversion(f: Facts) -> Iterator[Finding]:
    """A response with less of the primary reward gets the larger advantage."""
    inverted = f.inversions(f.acting)
    if f.plan.primary is None or len(f.rewards) < 2 or not inverted >= INVERTED_INFO:
        return
    primary = f.rewards[f.plan.primary]
    by_method = {m: f.inversions(m) for m in f.methods if not isnan(f.inversions(m))}
    tied = {m: f.part(f"{m}_tied_primary", f"{m}_primary_pairs") for m in by_method}
    right = {m: 1 - by_method[m] - tied[m] for m in by_method}
    best = max(right, key=lambda m: right[m])
    compared = some(f"{NAMES[m]} {percent(share)} and {percent(tied[m])}" for m, share in by_method.items())
    other = _strongest_opponent(f, f.plan.primary)
    most = (
        f"{NAMES[best]} has the most pairs the right way round, {percent(right[best])}, but"
        if right[best] > right[f.acting]
        else f"No other method has more than these {percent(right[f.acting])} the right way round:"
    )
    yield Finding(
        "priority-inversion",
        "warning" if inverted >= INVERTED_WARNING else "info",
        f"{f.under}, in {percent(inverted)} of the pairs that differ in {primary} the response with less {primary} "
        f"gets more, and {percent(tied[f.acting])} are tied. By method, inverted and tied: {compared}. {most} no "
        f"normalisation puts {primary} first. A larger weight on it helps; so does letting the others, above all "
        f"{f.rewards[other]}, count only where {primary} is reached.",
        {
            "primary": primary,
            "method": f.acting,
            "inversions": inverted,
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
            real(f.batches[f"high_{f.plan.primary}"].max()),
            otherwise=f.worst(other),
        ),
    )


def order(f: Facts, method: str) -> dict[str, int]:
    """How many pairs with different primary reward a method puts the right way round, the wrong way, and ties."""
    pairs, inverted, tied = (
        int(f.totals[f"{method}_{what}"]) for what in ("primary_pairs", "inverted", "tied_primary")
    )
    return {"right": pairs - inverted - tied, "inverted": inverted, "tied_primary_pairs": tied}


def ordered(f: Facts, method: str) -> str:
    """`order` in words."""
    right, inverted, tied = order(f, method).values()
    has = f"has {count(right)} the right way round, {count(inverted)} the wrong way and {count(tied)} tied"
    lost = int(f.totals["primary_pairs"] - f.totals[f"{method}_primary_pairs"])
    return f"{has} ({count(lost)} are lost to missing rewards)" if lost else has


def _strongest_opponent(f: Facts, primary: int) -> int:
    """The reward most opposed to the primary one; if none is opposed, the one with the largest update share."""
    others = [k for k in range(len(f.rewards)) if k != primary]
    pulls = {k: f.correlation(k, primary) for k in others}
    against = [k for k in others if pulls[k] < 0]
    shares = f.shares(f.acting)
    if against:
        return min(against, key=lambda k: pulls[k])
    return max(others, key=lambda k: -1.0 if isnan(shares[k]) else shares[k])
