"""The findings about single rewards: constant, noise, opposed to another, coupled to the length, dominant, fading."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import isfinite, sqrt

from gdpo_core import settings
from gdpo_core._words import count, number, percent, signed
from gdpo_core.runs.facts import NAMES, Facts, Finding, some, sums
from gdpo_core.runs.sums import FAINT as FAINT_STD
from gdpo_core.runs.sums import Summary
from gdpo_core.runs.thresholds import (
    AMPLIFIED,
    AMPLIFIED_SHARE,
    CONFLICT,
    DEAD,
    DOMINATES,
    DOMINATES_BY,
    DOMINATES_HELPED,
    DOMINATES_WEIGHT,
    FADES_BATCHES,
    FADES_DEAD,
    FADES_GROUPS,
    FADES_SHARE,
    FAINT,
    LENGTH,
)


def reward_dead(f: Facts) -> Iterator[Finding]:
    """A reward is constant in nearly all groups."""
    for k, name in enumerate(f.rewards):
        dead, there = f.dead(k), f.totals[f"there_{k}"]
        if dead < DEAD:
            continue
        if not there:
            message = f"{name} is missing in every response: it does nothing."
        elif dead == 1:
            message = (
                f"{name} is constant in {_every_group(f, k)} (its mean is "
                f"{number(f.totals[f'total_{k}'] / there, 3)}), so it does nothing to the advantages, whatever its "
                "weight. If it is meant to teach something, it has to differ between responses to one prompt: grade "
                "it in finer steps, or take it out."
            )
        else:
            message = (
                f"{name} is constant in {percent(dead)} of the {_groups(f, k)} and acts in the other "
                f"{count(f.totals['groups'] - f.totals[f'dead_groups_{k}'], 'group')} alone "
                f"(its mean is {number(f.totals[f'total_{k}'] / there, 3)})."
            )
        groups = int(f.totals[f"there_groups_{k}"])
        evidence = {"reward": name, "dead_groups": dead, "groups": groups, "threshold": DEAD}
        yield Finding("reward-dead", "warning", message, evidence, None)


def reward_noise(f: Facts) -> Iterator[Finding]:
    """A reward is nearly constant, and GDPO gives it a large part of the update."""
    grpo, gdpo = f.shares("grpo"), f.shares("gdpo")
    for k, name in enumerate(f.rewards):
        faint = f.faint(k)
        amplified = gdpo[k] >= AMPLIFIED_SHARE and gdpo[k] >= AMPLIFIED * abs(grpo[k])
        if faint < FAINT or not amplified or len(f.rewards) < 2:
            continue
        fix = None
        if f.is_gdpo and 0 < grpo[k] < gdpo[k] < 1:
            # Update shares follow the squares of the weights: this factor brings the share to its value under GRPO.
            factor = sqrt(grpo[k] / (1 - grpo[k]) * (1 - gdpo[k]) / gdpo[k])
            lower = [w * factor if i == k else w for i, w in enumerate(f.plan.weights)]
            fix = settings.set_weights(f.run.framework, f.rewards, [_two_digits(w) for w in lower])
        does, then = ("divides", "is") if f.is_gdpo else ("would divide", "would be")
        yield Finding(
            "reward-noise",
            "warning" if f.is_gdpo else "info",
            f"{name} is nearly constant (std at most {percent(FAINT_STD)} of its largest absolute value) in "
            f"{percent(faint)} of the groups in which it differs at all. GDPO {does} these differences by their own "
            f"std: its part of the update {then} {percent(gdpo[k])} (under GRPO: {percent(grpo[k])}). If such small "
            "differences mean nothing, round the reward so that they vanish, or lower its weight.",
            {
                "reward": name,
                "faint_groups": faint,
                "update_share_gdpo": gdpo[k],
                "update_share_grpo": grpo[k],
                "threshold": FAINT,
                "threshold_std": FAINT_STD,
                "threshold_times_grpo": AMPLIFIED,
                "threshold_update_share": AMPLIFIED_SHARE,
            },
            fix,
        )


def conflict(f: Facts) -> Iterator[Finding]:
    """Two rewards oppose each other inside groups."""
    for j in range(len(f.rewards)):
        for i in range(j):
            correlation = f.correlation(i, j)
            if not correlation <= min(CONFLICT, -f.by_chance(i, j)):  # NaN where one is constant
                continue
            first, second = f.rewards[i], f.rewards[j]
            fix = None
            if f.plan.primary is not None and f.plan.primary in (i, j):
                fix = _gate(f, f.plan.primary, j if f.plan.primary == i else i)
            yield Finding(
                "conflict",
                "warning",
                f"{first} and {second} work against each other: inside a group their correlation is "
                f"{signed(correlation)}. Normalising does not settle that: with equal weights they cancel under GDPO "
                "as far as they oppose each other, and under GRPO the one that varies more wins. Decide which one "
                "counts: give it the larger weight, or let the other count only where it is reached.",
                {"rewards": [first, second], "correlation": correlation, "threshold": CONFLICT},
                fix,
            )


def length_coupled(f: Facts) -> Iterator[Finding]:
    """A reward is correlated with the length of the response."""
    if not f.run.has_length:
        return
    for k, name in enumerate(f.rewards):
        size = sqrt(f.totals["length_spread"] * f.totals[f"spread_{k}"])
        correlation = f.totals[f"length_cross_{k}"] / size if size else 0.0
        if abs(correlation) < max(LENGTH, f.by_chance(k)):
            continue
        silent = f.totals["silent_responses"]
        pushed = f.totals["silent_verl"] / silent if silent else 0.0
        verl = f.run.framework == "verl" and f.is_gdpo and pushed > 0
        message = (
            f"Longer responses to one prompt get {'more' if correlation > 0 else 'less'} {name}: correlation "
            f"{signed(correlation)} inside groups."
        )
        if verl:
            message += (
                " verl weighs GDPO's batch step by tokens, so its mean is not 0: responses in groups without any "
                f"signal get an advantage of size {number(pushed, 2)} on average ({count(silent, 'response')})."
            )
        else:
            which = "longer" if correlation > 0 else "shorter"
            message += (
                f" Teaching {name} then also teaches {which} answers. If that is not meant, look for what in the "
                "reward prefers them."
            )
        yield Finding(
            "length-coupled",
            "warning" if verl else "info",
            message,
            {
                "reward": name,
                "correlation": correlation,
                "mean_size_of_advantage_without_signal": pushed,
                "responses_without_signal": int(silent),
                "threshold": LENGTH,
            },
            None,
        )


def weight_zero(f: Facts) -> Iterator[Finding]:
    """A column among the rewards that the advantages do not depend on."""
    if f.recipe is None or not f.reproduced:
        return
    for k, name in enumerate(f.rewards):
        if f.recipe.weights[k] or k in f.recipe.unknown or f.dead(k) >= DEAD:
            continue
        yield Finding(
            "weight-zero",
            "info",
            f"{name} has weight 0 in the logged advantages: it is logged beside the rewards, or switched off.",
            {"reward": name, "weight": 0.0},
            None,
        )


def _groups(f: Facts, k: int) -> str:
    return "groups" if f.held(k) == 1 else f"groups that hold it ({percent(f.held(k))} of all)"


def _every_group(f: Facts, k: int) -> str:
    return "every group" if f.held(k) == 1 else f"each group that holds it ({percent(f.held(k))} of all)"


def _gate(f: Facts, primary: int, other: int) -> str:
    highest = f.totals[f"high_{primary}"]
    return settings.gate(f.run.framework, f.rewards, f.rewards[other], f.rewards[primary], highest, f.worst(other))


def _two_digits(x: float) -> float:
    return float(f"{x:.2g}")


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


def reward_fades(f: Facts) -> Iterator[Finding]:
    """A reward that differed inside groups at first no longer does."""
    if len(f.batches) < FADES_BATCHES:
        return
    quarter = len(f.batches) // 4
    quarters = f.batches.head(quarter), f.batches.tail(quarter)
    parts = [replace(f, totals=sums(Summary(f.plan, part)), batches=part) for part in quarters]
    for k, name in enumerate(f.rewards):
        groups = min(part.totals[f"there_groups_{k}"] for part in parts)
        if groups < FADES_GROUPS or not f.plan.weights[k] or f.dead(k) >= DEAD:
            continue
        dead = [part.dead(k) for part in parts]
        share = [part.shares(f.acting)[k] for part in parts]
        mean = [part.part(f"total_{k}", f"there_{k}") for part in parts]
        weaker = share[0] >= AMPLIFIED_SHARE and share[1] <= FADES_SHARE * share[0]
        if dead[1] - dead[0] < FADES_DEAD or not (dead[1] >= DEAD or weaker):
            continue
        better = (mean[1] - mean[0]) * f.plan.weights[k] > 0
        message = (
            f"{name} fades: it is constant in {percent(dead[0])} of the groups in the first quarter of the batches and "
            f"in {percent(dead[1])} in the last, and its mean goes from {number(mean[0], 3)} to "
            f"{number(mean[1], 3)}. "
        )
        if all(map(isfinite, share)):
            message += f"Its part of the update goes from {percent(share[0])} to {percent(share[1])}. "
        message += (
            "If it is as good as it has to be, nothing is wrong: the other rewards go on teaching."
            if better
            else "Where all responses to a prompt get the same value, it teaches nothing: look at what the other "
            "rewards pay for, and at whether the prompts became harder."
        )
        yield Finding(
            "reward-fades",
            "info" if better else "warning",
            message,
            {
                "reward": name,
                "dead_groups_first_quarter": dead[0],
                "dead_groups_last_quarter": dead[1],
                "mean_first_quarter": mean[0],
                "mean_last_quarter": mean[1],
                "update_share_first_quarter": share[0],
                "update_share_last_quarter": share[1],
                "groups_in_a_quarter": int(groups),
                "threshold": DEAD,
                "threshold_rise": FADES_DEAD,
                "threshold_times_share": FADES_SHARE,
            },
            None,
        )
