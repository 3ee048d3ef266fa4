"""A reward that makes most of the update, and why the others make little of it."""

from collections.abc import Iterator
from itertools import combinations
from math import sqrt

from gdpo_core import settings
from gdpo_core.findings.facts import NAMES, Facts, Finding, named, percent, signed
from gdpo_core.findings.thresholds import DEAD, DOMINATES, DOMINATES_BY, DOMINATES_HELPED, DOMINATES_WEIGHT, FAINT


def reward_dominates(f: Facts) -> Iterator[Finding]:
    """A reward makes most of the update for little of the weight."""
    live = [k for k in range(len(f.rewards)) if f.dead(k) < 1 and f.plan.weights[k]]
    # A reward can use its weight only where it is there at all.
    weights = [abs(w) * f.held(k) for k, w in enumerate(f.plan.weights)]
    shares, with_gdpo = f.shares(f.acting), f.shares("gdpo")
    for k in live:
        others = [i for i in live if i != k]
        # Beside what is dead or noise, as other findings say, the only reward has to make most of the update.
        if all(f.dead(i) >= DEAD or f.faint(i) >= FAINT for i in others):
            continue
        weight_share = weights[k] / sum(weights)
        # Of two equal ones none can have twice its share: look at what is left for the others.
        taken = shares[k] >= DOMINATES_BY * weight_share or DOMINATES_BY * (1 - shares[k]) <= 1 - weight_share
        # A share of NaN, where every advantage is 0, compares false.
        if not (shares[k] >= DOMINATES and taken and weight_share <= DOMINATES_WEIGHT):
            continue
        name = f.rewards[k]
        counted = "" if all(f.held(i) == 1 for i in live) else ", counted where each reward is there"
        message = [
            f"{f.under}, {name} makes {percent(shares[k])} of the update with {percent(weight_share)} of the "
            f"weight{counted}."
        ]
        fix = None
        if f.is_gdpo:
            squares = f.plan.weights[k] ** 2 / sum(w**2 for w in f.plan.weights)
            message.append(
                "Shares under GDPO go by the squares of the weights if rewards differ equally often and are not "
                f"correlated, which would give it {percent(squares)}. {_why_little(f, k, others)}"
            )
        else:
            spread = named([f"{f.rewards[i]} {abs(f.plan.weights[i]) * _std_in_groups(f, i):.3g}" for i in live])
            message.append(
                f"{NAMES[f.acting]} adds raw rewards up, so what differs most inside a group decides (weight times "
                f"std there: {spread})."
            )
            if shares[k] - with_gdpo[k] >= DOMINATES_HELPED:
                message.append(
                    f"GDPO would give it {percent(with_gdpo[k])}. If it is not meant to decide: GDPO, or a smaller "
                    "weight on it."
                )
                fix = settings.switch_to_gdpo(f.run.framework, f.rewards, f.plan.weights)
            elif with_gdpo[k] >= DOMINATES:
                message.append(
                    f"GDPO would give it {percent(with_gdpo[k])}, so scale is not the reason. "
                    f"{_why_little(f, k, others)}"
                )
        yield Finding(
            "reward-dominates",
            "warning",
            " ".join(message).rstrip(),
            {
                "reward": name,
                "method": f.acting,
                "update_share": shares[k],
                "weight_share": weight_share,
                "update_share_gdpo": with_gdpo[k],
                "threshold": DOMINATES,
                "threshold_weight_share": DOMINATES_WEIGHT,
                "threshold_times_weight": DOMINATES_BY,
            },
            fix,
        )


def _why_little(f: Facts, k: int, others: list[int]) -> str:
    """Why the other rewards make little of the update though they are normalised; nothing where it is neither."""
    said = []
    if rarer := [i for i in others if f.idle(i) > f.idle(k)]:
        constant = "constant" if all(f.held(i) == 1 for i in (k, *rarer)) else "constant or missing"
        shares = named([f"{f.rewards[i]} in {percent(f.idle(i))}" for i in (*rarer, k)])
        said.append(
            f"It differs in more groups ({constant}: {shares} of the groups). A larger weight does nothing where a "
            f"reward is {constant}."
        )
    undone = [(i, j) for i, j in combinations(sorted((k, *others)), 2) if f.correlation(i, j) <= -f.by_chance(i, j)]
    if undone:
        pairs = named([f"{f.rewards[i]} and {f.rewards[j]} ({signed(f.correlation(i, j))})" for i, j in undone])
        said.append(f"Rewards undo each other in part, by their correlation inside groups: {pairs}.")
    return " ".join(said)


def _std_in_groups(f: Facts, k: int) -> float:
    return sqrt(f.totals[f"spread_{k}"] / f.totals[f"spread_count_{k}"]) if f.totals[f"spread_count_{k}"] else 0.0
