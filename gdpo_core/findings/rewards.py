"""What each reward does: takes over, does nothing, is noise, works against another, or follows the length."""

from collections.abc import Iterator
from math import sqrt

from gdpo_core import settings
from gdpo_core.findings.facts import NAMES, Facts, Finding, count, named, percent
from gdpo_core.findings.thresholds import (
    AMPLIFIED,
    AMPLIFIED_SHARE,
    CHANCE,
    CONFLICT,
    DEAD,
    DOMINATES,
    DOMINATES_BY,
    DOMINATES_HELPED,
    DOMINATES_WEIGHT,
    FAINT,
    LENGTH,
)
from gdpo_core.summary import sums


def reward_dominates(f: Facts) -> Iterator[Finding]:
    """A reward makes most of the update for little of the weight."""
    live = [k for k in range(len(f.rewards)) if f.dead(k) < 1 and f.plan.weights[k]]
    weight = sum(abs(w) for w in f.plan.weights)
    shares, with_gdpo = f.shares(f.acting), f.shares("gdpo")
    for k in live if len(live) > 1 else []:
        weight_share = abs(f.plan.weights[k]) / weight
        # Of two equal ones none can have twice its share: look at what is left for the others.
        taken = shares[k] >= DOMINATES_BY * weight_share or DOMINATES_BY * (1 - shares[k]) <= 1 - weight_share
        # A share of NaN, where every advantage is 0, compares false.
        if not (shares[k] >= DOMINATES and taken and weight_share <= DOMINATES_WEIGHT):
            continue
        name = f.rewards[k]
        message = [
            f"{f.under}, {name} makes {percent(shares[k])} of the update with {percent(weight_share)} of the weight."
        ]
        fix = None
        others = named([f"{f.rewards[i]} in {percent(f.dead(i))}" for i in live if i != k])
        constant = f"(constant: {others} of the groups; {name} in {percent(f.dead(k))})"
        if f.is_gdpo:
            squares = f.plan.weights[k] ** 2 / sum(w**2 for w in f.plan.weights)
            message.append(
                "Shares under GDPO go by the squares of the weights if rewards differ equally often and are not "
                f"correlated, which would give it {percent(squares)}. The others are constant in more groups, or undo "
                f"each other {constant}. A larger weight does nothing where a reward is constant."
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
                    f"GDPO would give it {percent(with_gdpo[k])}, so scale is not the reason: the others differ too "
                    f"rarely, or undo each other {constant}."
                )
        yield Finding(
            "reward-dominates",
            "warning",
            " ".join(message),
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
                f"{name} is constant in every group (its mean is {f.totals[f'total_{k}'] / there:.3g}), so it does "
                "nothing to the advantages, whatever its weight. If it is meant to teach something, it has to differ "
                "between responses to one prompt: grade it finer, or take it out."
            )
        else:
            message = (
                f"{name} is constant in {percent(dead)} of the groups and acts in the other "
                f"{count(f.totals['groups'] - f.totals[f'dead_groups_{k}'], 'group')} alone "
                f"(its mean is {f.totals[f'total_{k}'] / there:.3g})."
            )
        evidence = {"reward": name, "dead_groups": dead, "groups": int(f.totals["groups"]), "threshold": DEAD}
        yield Finding("reward-dead", "warning", message, evidence, None)


def reward_noise(f: Facts) -> Iterator[Finding]:
    """A reward hardly differs, and GDPO makes it as large as the others."""
    grpo, gdpo = f.shares("grpo"), f.shares("gdpo")
    for k, name in enumerate(f.rewards):
        differs = f.totals["groups"] - f.totals[f"dead_groups_{k}"]
        faint = f.totals[f"faint_groups_{k}"] / differs if differs else 0.0
        amplified = gdpo[k] >= AMPLIFIED_SHARE and gdpo[k] >= AMPLIFIED * abs(grpo[k])
        if faint < FAINT or not amplified or len(f.rewards) < 2:
            continue
        fix = None
        if f.is_gdpo:
            lower = [w * max(grpo[k], 0) / gdpo[k] if i == k else w for i, w in enumerate(f.plan.weights)]
            fix = settings.set_weights(f.run.framework, f.rewards, [_two_digits(w) for w in lower])
        does, then = ("brings", "is") if f.is_gdpo else ("would bring", "would be")
        yield Finding(
            "reward-noise",
            "warning" if f.is_gdpo else "info",
            f"{name} is nearly constant (std at most {percent(sums.FAINT)} of its size) in {percent(faint)} of the "
            f"groups in which it differs at all. GDPO {does} these differences to the size of every other reward: its "
            f"part of the update {then} {percent(gdpo[k])}, against {percent(grpo[k])} under GRPO. If such small "
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
            found = f.correlation(i, j)
            if not found <= min(CONFLICT, -_by_chance(f, i, j)):  # NaN where one is constant
                continue
            first, second = f.rewards[i], f.rewards[j]
            fix = None
            if f.plan.primary in (i, j):
                other = second if f.plan.primary == i else first
                fix = _gate(f, other)
            yield Finding(
                "conflict",
                "warning",
                f"{first} and {second} work against each other: inside a group their correlation is "
                f"{_signed(found)}. Normalising does not settle that: with equal weights GDPO cancels them as far as "
                "they oppose, and under GRPO the one that varies more wins. Decide which one counts: give it the "
                "larger weight, or let the other count only where it is reached.",
                {"rewards": [first, second], "correlation": found, "threshold": CONFLICT},
                fix,
            )


def length_coupled(f: Facts) -> Iterator[Finding]:
    """A reward goes with the length of the response."""
    if not f.run.has_length:
        return
    for k, name in enumerate(f.rewards):
        size = sqrt(f.totals["length_spread"] * f.totals[f"spread_{k}"])
        found = f.totals[f"length_cross_{k}"] / size if size else 0.0
        if abs(found) < max(LENGTH, _by_chance(f, k)):
            continue
        silent = f.totals["silent_responses"]
        pushed = f.totals["silent_verl"] / silent if silent else 0.0
        verl = f.run.framework == "verl" and f.is_gdpo and pushed > 0
        message = f"Longer responses to one prompt get {'more' if found > 0 else 'less'} {name}: correlation " + (
            f"{_signed(found)} inside groups."
        )
        if verl:
            message += (
                " verl weighs GDPO's batch step by tokens, so its mean is not 0, and responses of groups without any "
                f"signal get an advantage of size {pushed:.2g} on average ({count(silent, 'response')})."
            )
        else:
            which = "long" if found > 0 else "short"
            message += (
                f" What teaches {name} then teaches length too. If that is not meant, look at what in the reward "
                f"prefers {which} answers."
            )
        yield Finding(
            "length-coupled",
            "warning" if verl else "info",
            message,
            {
                "reward": name,
                "correlation": found,
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


def _by_chance(f: Facts, *rewards: int) -> float:
    """The correlation inside groups that rewards which have nothing to do with each other may well show."""
    return CHANCE / sqrt(max(min(f.totals[f"spread_count_{k}"] for k in rewards), 1))


def _std_in_groups(f: Facts, k: int) -> float:
    return sqrt(f.totals[f"spread_{k}"] / f.totals[f"spread_count_{k}"]) if f.totals[f"spread_count_{k}"] else 0.0


def _gate(f: Facts, other: str) -> str:
    primary = f.rewards[f.plan.primary]
    highest = f.batches[f"high_{f.plan.primary}"].max()
    return settings.gate(f.run.framework, f.rewards, other, primary, highest)


def _two_digits(x: float) -> float:
    return float(f"{x:.2g}")


def _signed(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")
