"""The findings about single rewards: constant, noise, opposed to another, or coupled to the response length."""

from collections.abc import Iterator
from math import sqrt

from gdpo_core import settings
from gdpo_core._words import count, number, percent, signed
from gdpo_core.findings.facts import Facts, Finding
from gdpo_core.findings.thresholds import AMPLIFIED, AMPLIFIED_SHARE, CONFLICT, DEAD, FAINT, LENGTH
from gdpo_core.summary import sums


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
            f"{name} is nearly constant (std at most {percent(sums.FAINT)} of its largest absolute value) in "
            f"{percent(faint)} of the groups in which it differs at all. GDPO {does} these differences by their own "
            f"std: its part of the update {then} {percent(gdpo[k])} (under GRPO: {percent(grpo[k])}). If such small "
            "differences mean nothing, round the reward so that they vanish, or lower its weight.",
            {
                "reward": name,
                "faint_groups": faint,
                "update_share_gdpo": gdpo[k],
                "update_share_grpo": grpo[k],
                "threshold": FAINT,
                "threshold_std": sums.FAINT,
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
