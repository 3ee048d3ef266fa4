"""The finding about a reward that makes most of the update."""

from collections.abc import Iterator
from itertools import combinations
from math import sqrt

from gdpo_core import settings
from gdpo_core._words import number, percent, signed
from gdpo_core.findings.facts import NAMES, Facts, Finding, some
from gdpo_core.findings.thresholds import DEAD, DOMINATES, DOMINATES_BY, DOMINATES_HELPED, DOMINATES_WEIGHT, FAINT


def reward_dominates(f: Facts) -> Iterator[Finding]:
    """One reward makes most of the update, far more than its share of the weights."""
    live = [k for k in range(len(f.rewards)) if f.dead(k) < 1 and f.plan.weights[k]]
    # A weight acts only in the groups that hold its reward.
    weights = [abs(w) * f.held(k) for k, w in enumerate(f.plan.weights)]
    shares, with_gdpo = f.shares(f.acting), f.shares("gdpo")
    for k in live:
        others = [i for i in live if i != k]
        # The only reward that is neither constant nor noise makes most of the update; other findings say that.
        if all(f.dead(i) >= DEAD or f.faint(i) >= FAINT for i in others):
            continue
        weight_share = weights[k] / sum(weights)
        # A reward with half of the weight cannot have twice its share, so what is left for the others counts too.
        taken = shares[k] >= DOMINATES_BY * weight_share or DOMINATES_BY * (1 - shares[k]) <= 1 - weight_share
        # Where every advantage is 0 the share is NaN, and every comparison false.
        if not (shares[k] >= DOMINATES and taken and weight_share <= DOMINATES_WEIGHT):
            continue
        name = f.rewards[k]
        counted = "" if all(f.held(i) == 1 for i in live) else ", counted in the groups that hold each reward"
        message = [
            f"{f.under}, {name} makes {percent(shares[k])} of the update with {percent(weight_share)} of the "
            f"weight{counted}."
        ]
        fix = None
        if f.is_gdpo:
            squares = f.plan.weights[k] ** 2 / sum(w**2 for w in f.plan.weights)
            message.append(
                "Under GDPO, shares follow the squares of the weights if all rewards differ equally often and are not "
                f"correlated; that would give it {percent(squares)}. {_why_little(f, k, others)}"
            )
        else:
            spreads = some(
                f"{f.rewards[i]} {number(abs(f.plan.weights[i]) * _std_in_groups(f, i), digits=3)}" for i in live
            )
            message.append(
                f"{NAMES[f.acting]} adds raw rewards up, so the reward that differs most inside a group decides "
                f"(weight times std there: {spreads})."
            )
            if shares[k] - with_gdpo[k] >= DOMINATES_HELPED:
                message.append(
                    f"GDPO would give it {percent(with_gdpo[k])}. If it is not meant to decide, use GDPO or give it a "
                    "smaller weight."
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
    """Why the other rewards make little of the update although all are normalised; empty without such a reason."""
    reasons = []
    if rarer := [i for i in others if f.idle(i) > f.idle(k)]:
        constant = "constant" if all(f.held(i) == 1 for i in (k, *rarer)) else "constant or missing"
        shares = some(f"{f.rewards[i]} in {percent(f.idle(i))}" for i in (*rarer, k))
        reasons.append(
            f"It differs in more groups ({constant}: {shares} of the groups). A larger weight does nothing where a "
            f"reward is {constant}."
        )
    undone = [(i, j) for i, j in combinations(sorted((k, *others)), 2) if f.correlation(i, j) <= -f.by_chance(i, j)]
    if undone:
        pairs = some(f"{f.rewards[i]} and {f.rewards[j]} ({signed(f.correlation(i, j))})" for i, j in undone)
        reasons.append(f"Rewards undo each other in part; correlation inside groups: {pairs}.")
    return " ".join(reasons)


def _std_in_groups(f: Facts, k: int) -> float:
    """The pooled standard deviation of a reward inside its groups."""
    return sqrt(f.totals[f"spread_{k}"] / f.totals[f"spread_count_{k}"]) if f.totals[f"spread_count_{k}"] else 0.0
