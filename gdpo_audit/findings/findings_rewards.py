"""Findings about single rewards: one that is constant, fades, is mostly noise, makes most or next to nothing of the
update, opposes another one, or is correlated with the length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from gdpo_audit.findings import thresholds as t
from gdpo_audit.findings.facts import Facts, ValueFacts
from gdpo_audit.findings.figures import ratio
from gdpo_audit.findings.finding import SEVERITIES, Finding
from gdpo_audit.findings.prompts import lengths_of
from gdpo_audit.findings.sentences import lead_in
from gdpo_audit.findings.sums import bin_batches, select_batches
from gdpo_core._words import clip, count, listing, number, percent, signed
from gdpo_core.conventions import NAMES


def reward_dead(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that is constant in all or nearly all groups that hold it, or that every response
    lacks.
    """
    for k, name in enumerate(f.rewards):
        dead, acts = f.dead(k), f.totals.groups - f.totals.rewards.dead_groups[k]
        if dead < t.DEAD:
            continue
        everywhere, title = f.coverage(k) == 1, f"{name} does nothing"
        holding = "" if everywhere else f" that hold{'s' * (dead == 1)} it ({percent(f.coverage(k))} of all)"
        says = f"in {'every' if everywhere else 'each'} group{holding}, so it does nothing, whatever its weight"
        if dead < 1:
            title = f"{name} is constant in nearly every group"
            says = f"in {percent(dead)} of the groups{holding}, and acts only in {count(acts, 'other group')}"
        message = f"{name} is constant {says}. Its mean is {number(f.mean(k), 3)}."
        missing = not f.totals.rewards.present[k]
        numbers = {"reward": name, "dead_groups": dead, "groups": int(f.totals.rewards.holding_groups[k])}
        yield Finding(
            title=title,
            message=f"{name} is missing in every response, so it does nothing." if missing else message,
            to_do=f"Log {name}, or take it out." if missing else f"Grade {name} in finer steps, or take it out.",
            evidence=numbers | {"threshold": t.DEAD},
            extent=f.share_of_squares(k),
        )


def reward_fades(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that teaches less at the end of the run.

    It is constant in many more groups of the last quarter than of the first. In the last quarter it also is constant in
    nearly all groups or makes a much smaller share of the update. None for a short run or a reward of weight 0.
    """
    batches = len(f.batches.batch)
    if batches < t.FADES_BATCHES:
        return
    size = batches // 4
    first, last = (replace(f, batches=select_batches(f.batches, end)) for end in (slice(size), slice(-size, None)))
    for k, name in enumerate(f.rewards):
        groups = int(min(facts.totals.rewards.holding_groups[k] for facts in (first, last)))
        if groups < t.FADES_GROUPS or not f.basis.weights[k] or f.dead(k) >= t.DEAD:
            continue
        dead = first.dead(k), last.dead(k)
        share = first.shares(f.method)[k], last.shares(f.method)[k]
        mean = first.mean(k), last.mean(k)
        weaker = share[0] >= t.AMPLIFIED_SHARE and share[1] <= t.FADES_SHARE * share[0]
        if dead[1] - dead[0] < t.FADES_DEAD or not (dead[1] >= t.DEAD or weaker):
            continue
        better = (mean[1] - mean[0]) * f.basis.weights[k] > 0
        why = (
            f"If {name} is now as good as it has to be, nothing is wrong."
            if better
            else f"Where {name} is constant, it teaches nothing."
        )
        to_do = f"Find out why {name} fades: what the other rewards pay for, and whether the prompts became harder."
        numbers: dict[str, object] = {"reward": name, "groups_in_a_quarter": groups}
        for n, quarter_of in enumerate(("first_quarter", "last_quarter")):
            numbers |= {f"dead_groups_{quarter_of}": dead[n], f"mean_{quarter_of}": mean[n]}
            numbers |= {f"update_share_{quarter_of}": share[n]}
        numbers |= {"threshold": t.DEAD, "threshold_rise": t.FADES_DEAD, "threshold_times_share": t.FADES_SHARE}
        yield Finding(
            severity="info" if better else "warning",
            title=f"{name} fades",
            message=f"{name} is constant in {percent(dead[0])} of the groups in the first quarter of the batches and "
            f"in {percent(dead[1])} of those in the last quarter, and its mean goes from {number(mean[0], 3)} to "
            f"{number(mean[1], 3)}. {why}",
            to_do="" if better else to_do,
            evidence=numbers,
            extent=dead[1] - dead[0],
        )


def reward_noise(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward whose tiny differences have a large share of the update under GDPO, at least
    twice that under GRPO. Such a reward is nearly constant in half or more of the groups in which it differs at all. In
    a run with another method, the finding says what GDPO would do. Yield nothing for a single reward, or where no known
    method makes the logged advantages.
    """
    grpo, gdpo = f.shares("grpo"), f.shares("gdpo")
    for k, name in enumerate(f.rewards):
        faint = f.faint(k)
        amplified = gdpo[k] >= t.AMPLIFIED_SHARE and gdpo[k] >= t.AMPLIFIED * abs(grpo[k])
        if faint < t.FAINT or not amplified or len(f.rewards) < 2 or f.contradicted:
            continue
        does, then, makes = "divides", "accounts", "amplifies"
        if not f.is_gdpo:
            does, then, makes = "would divide", "would account", "would amplify"
        numbers: dict[str, object] = {"reward": name, "faint_groups": faint}
        numbers |= {"update_share_gdpo": gdpo[k], "update_share_grpo": grpo[k]}
        numbers |= {"threshold": t.FAINT, "threshold_std": t.FAINT_STD}
        numbers |= {"threshold_times_grpo": t.AMPLIFIED, "threshold_update_share": t.AMPLIFIED_SHARE}
        yield Finding(
            severity="warning" if f.is_gdpo else "info",
            title=f"{name} is nearly constant, and GDPO {makes} it",
            message=f"{name} is nearly constant (std at most {percent(t.FAINT_STD)} of its largest absolute value) in "
            f"{percent(faint)} of the groups in which it differs at all. GDPO {does} these differences by their own "
            f"std, so that {name} {then} for {percent(gdpo[k])} of the update; under GRPO its share is "
            f"{percent(grpo[k])}.",
            to_do=f"If such small differences mean nothing, round {name} or lower its weight.",
            evidence=numbers,
            extent=gdpo[k],
        )


# --- one reward makes most of the update, another next to nothing ----------------------------------------------------


def reward_dominates(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that makes most of the update, and far more of it than its weight asks for. A
    reward is passed over if all others are constant or noise.
    """
    shares, gdpo = f.shares(f.method), f.shares("gdpo")
    for n, k in enumerate(_dominant(f)):
        name, asks = f.rewards[k], f.share_of_squares(k)
        why = "" if n else f" {_why(f, k, shares[k], gdpo[k], asks)}"
        makes = f"{name} accounts for {percent(shares[k])} of the update"
        numbers: dict[str, object] = {"reward": name, "method": f.method, "update_share": shares[k]}
        numbers |= {"weight_asks_for": asks, "update_share_gdpo": gdpo[k]}
        yield Finding(
            severity="info" if k == f.basis.primary else "warning",  # the reward that matters most may well make most
            title=makes,
            message=f"{lead_in(f)}, {makes}. By its weight alone it would account for {percent(asks)}, if all rewards "
            f"were uncorrelated and had the same spread in every group. The push on {name} is "
            f"{signed(f.push(f.method)[k])}, {_pushes_on_others(f, k)}.{why}".rstrip(),
            to_do=f"Decide whether {name} is meant to account for most of the update.",
            evidence=numbers | {"threshold": t.DOMINATES, "threshold_times_weight": t.DOMINATES_BY},
            extent=shares[k] - asks,
        )


def _pushes_on_others(f: Facts, k: int) -> str:
    """Return words, beginning with “against”, that say the push on each reward but the one with index k."""
    pushes = [(name, x) for i, (name, x) in enumerate(zip(f.rewards, f.push(f.method), strict=True)) if i != k]
    return f"against {listing(f'{signed(x)} on {name}' for name, x in pushes)}"


def _dominant(f: Facts) -> list[int]:
    """Return the indices of the rewards that make most of the update, and far more of it than their weight asks for. A
    reward is left out if all others are constant or noise, as it makes most of the update anyway.
    """
    able, shares = _acting_rewards(f), f.shares(f.method)
    # A reward that alone is neither constant nor noise makes most of the update anyway, which other findings say.
    loud = {k for k in able if f.dead(k) < t.DEAD and f.faint(k) < t.FAINT}
    return [k for k in able if loud - {k} and _far_above(shares[k], f.share_of_squares(k))]


def reward_starved(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that `_starved` returns: it has a weight, and yet it makes next to nothing of the
    update, or the update works against it, in the whole run or at least in its second half.
    """
    shares, gdpo, able = f.shares(f.method), f.shares("gdpo"), _acting_rewards(f)
    most = max(able, key=lambda i: shares[i], default=0)
    reason_given = bool(_dominant(f))  # `reward_dominates`, which is shown before this, has given the reason
    for k, late in _starved(f):
        name, due, whole = f.rewards[k], f.due_share(k), shares[k] <= t.STARVED * f.due_share(k)
        share, with_gdpo = (shares[k], gdpo[k]) if whole else (late.share, late.share_gdpo)
        title = f"{name} accounts for {percent(share)} of the update"
        makes, should = title, "by its weight it should account for"
        if share < 0:
            title = f"The update works against {name}"
            makes, should = (
                f"the update works against {name}: its share is {percent(share)}",
                "by its weight it should be",
            )
        since = "" if whole or late.step is None else f" from step {late.step} on"
        where = " in the groups in which it differs" if f.dead_or_missing(k) else ""
        why, reason_given = "" if reason_given else f" {_why(f, most, share, with_gdpo, due)}", True
        numbers: dict[str, object] = {"reward": name, "method": f.method, "update_share": shares[k], "due_share": due}
        numbers |= {"update_share_gdpo": gdpo[k], "since_step": late.step}
        yield Finding(
            severity=_severity_of_starved(f, k),
            title=title,
            message=f"{lead_in(f)}, {makes}{since}, though {should} {percent(due)}{where}. "
            f"{late.words * whole}The push on {name} is {signed(f.push(f.method)[k])}.{why}".rstrip(),
            to_do=f"If {name} is meant to count, look at what holds it down.",
            evidence=numbers | {"threshold_of_due": t.STARVED},
            extent=due - share,
        )


class _End(NamedTuple):
    """The last part of a run, in which a reward makes next to nothing of the update. step: the first step of this part;
    None if there is no such part, or if the log is too short to show it. extent: how much of the run the part is, from
    0 to 1. share, share_gdpo: the reward's share of the update in this part under the run's method and under GDPO; NaN
    without such a part. saturated: whether the reward is better in this part than before and differs too little there
    to teach more. words: a sentence on since when the share is so small, or on why `step` is None; it ends in a space.
    """

    step: int | None
    extent: float
    share: float
    share_gdpo: float
    saturated: bool
    words: str


def _starved(f: Facts) -> list[tuple[int, _End]]:
    """Return the starved rewards, each as a pair: its index, and the last part of the run, as `_at_the_end` returns it.

    A reward is starved if its share of the update is at most `STARVED` times the share that its weight asks for, in the
    whole run or in a last part of at least `STARVED_EXTENT` of it. Rewards that need a warning come first; within a
    severity, those whose share falls short by most. Left out are rewards that are constant in nearly all groups, that
    have done their work, or whose weight asks for next to nothing. [] if fewer than two rewards have a weight and vary.
    """
    shares, able, starved = f.shares(f.method), _acting_rewards(f), list[tuple[str, float, int, _End]]()
    for k in able if len(able) > 1 else ():
        due, late = f.due_share(k), _at_the_end(f, k)
        share = shares[k] if shares[k] <= t.STARVED * due else late.share
        if due < t.STARVED_DUE or f.dead(k) >= t.DEAD or late.saturated:
            continue
        if share <= t.STARVED * due and (shares[k] == share or late.extent >= t.STARVED_EXTENT):
            starved.append((_severity_of_starved(f, k), share - due, k, late))
    return [(k, late) for _, _, k, late in sorted(starved, key=lambda x: (SEVERITIES.index(x[0]), x[1]))]


def _severity_of_starved(f: Facts, k: int) -> str:
    """Return "info" if the starved reward with index k needs no warning, else "warning".

    No warning is needed if the update raises the reward all the same, as its push shows. Nor is it under another method
    than GDPO, if the reward is nearly constant in half or more of the groups in which it differs.
    """
    pushed = f.push(f.method)[k] >= t.PUSHED
    return "info" if pushed or (f.faint(k) >= t.FAINT and not f.is_gdpo) else "warning"


def _at_the_end(f: Facts, k: int) -> _End:
    """Return the longest last part of the run throughout which the reward with index k makes at most `STARVED` times
    what its weight asks for of the update. `step` is None if there is no such part, or if the log is too short to show
    it. To find where that part begins, the run is cut into at most 20 pieces with enough groups each.
    """
    bins = min(20, len(f.batches.batch), int(f.totals.groups) // t.STARVED_GROUPS)
    if bins < 2:
        return _End(None, 0.0, nan, nan, False, "The log is too short to say from which step on this holds. ")
    b = bin_batches(f.batches, bins)
    sums = b.methods[f.method]
    of_batch = f.batches.methods[f.method].squares * f.due_shares(k)
    could = np.bincount(np.arange(len(of_batch)) * bins // len(of_batch), of_batch)
    starved = (sums.update[k] <= t.STARVED * could) & (could > 0)  # without a weight a reward is only switched off
    begin = next((i + 1 for i in reversed(range(bins)) if not starved[i]), 0)
    if begin == bins:
        return _End(
            None, 0.0, nan, nan, False, f"At the end of the run, the share of {f.rewards[k]} is no longer so small. "
        )
    before, end = (replace(f, batches=select_batches(b, some)) for some in (slice(begin), slice(begin, None)))
    since = f"since step {int(b.step[begin])}" if begin else "from the first step on"
    better = begin > 0 and (end.mean(k) - before.mean(k)) * f.basis.weights[k] > 0
    return _End(
        step=int(b.step[begin]),
        extent=1 - begin / bins,
        share=end.shares(f.method)[k],
        share_gdpo=end.shares("gdpo")[k],
        saturated=better and (end.dead(k) >= t.DEAD or end.due_share(k) < t.STARVED_DUE),
        words=f"The share of {f.rewards[k]} has been so small {since}. ",
    )


def _acting_rewards(f: Facts) -> list[int]:
    """Return the indices of the rewards that have a weight other than 0 and differ in some group; [] where the log does
    not show each reward's share of the update.
    """
    if f.contradicted or f.relations:
        return []
    return [k for k in range(len(f.rewards)) if f.dead(k) < 1 and f.share_of_squares(k) > 0]


def _far_above(share: float, asks: float) -> bool:
    """Return whether a share of the update is large in itself and also far above `asks`, the share that the reward's
    weight asks for; False where the share is NaN.
    """
    # A reward that should have more than half of the update cannot have twice as much. So it also counts whether only
    # half of what the other rewards should have is left to them.
    beside = share >= t.DOMINATES_BY * asks or t.DOMINATES_BY * (1 - share) <= 1 - asks
    return share >= t.DOMINATES and beside and share - asks >= t.MOVED


def _why(f: Facts, most: int, share: float, gdpo: float, asks: float) -> str:
    """Return a sentence with the reason why the reward with index `most` makes most of the update; empty if neither of
    the two known reasons holds.

    One reason is the scale of the reward: the method is not GDPO, and under GDPO the share would be nearer to what is
    asked for. The other is that another reward differs in fewer groups. share, gdpo, asks: of the reward that the
    finding is about, its share of the update as it ran, its share under GDPO, and the share that its weight asks for.
    """
    if not f.is_gdpo and (gdpo - share) / (asks - share) >= t.BY_SCALE:
        adds = f"{NAMES[f.method]} adds up the raw rewards"
        return f"{adds}, so the more a reward varies inside groups, the more it counts."
    rarer = any(f.dead_or_missing(k) > f.dead_or_missing(most) for k in _acting_rewards(f))
    return f"{f.rewards[most]} differs in more groups than other rewards do." if rarer else ""


# --- two rewards, a reward and the length -----------------------------------------------------------------------------


def conflict(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each pair of rewards that oppose each other inside groups, which means that their correlation
    there is far below 0, and further than chance explains.
    """
    shares = f.shares(f.method)
    for i, j in sorted(combinations(range(len(f.rewards)), 2), key=lambda pair: pair[::-1]):
        correlation = f.correlation(i, j)
        if not correlation <= min(t.CONFLICT, -f.by_chance(i, j)):  # also if it is NaN, as one of them is constant
            continue
        first, second = f.rewards[i], f.rewards[j]
        # A conflict with a reward that makes nothing of the update costs nothing there.
        least = min((abs(shares[k]) for k in (i, j) if isfinite(shares[k])), default=1.0)
        yield Finding(
            title=f"{first} and {second} work against each other",
            message=f"Inside a group the correlation of {first} and {second} is {signed(correlation)}. Normalising "
            "does not settle this conflict: with equal weights the two cancel under GDPO as far as they oppose each "
            "other, and under GRPO the update follows the one that varies more.",
            to_do=f"Decide which of {first} and {second} counts more: give that one the larger weight, or add a gate, "
            "so that the other one counts only where that one is passed.",
            evidence={"rewards": [first, second], "correlation": correlation, "threshold": t.CONFLICT},
            extent=-correlation * min(1.0, 2 * least),
        )


def length_coupled(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that is correlated with the length of the response inside groups, more than
    chance explains; nothing for a log without lengths in tokens.
    """
    lengths = lengths_of(f) if f.run.has_length else None
    for k, (name, correlation) in enumerate(lengths["correlations"].items() if lengths else ()):
        if correlation is None or abs(correlation) < max(t.LENGTH, f.by_chance(k)):
            continue
        more, which = ("higher", "longer") if correlation > 0 else ("lower", "shorter")
        yield Finding(
            severity="info",
            title=f"Longer responses score {more} on {name}",
            message=f"Inside groups, the correlation of the length of a response with {name} is {signed(correlation)}. "
            f"Teaching {name} therefore also teaches {which} responses.",
            to_do=f"If that is not meant, find out what in {name} favours {which} responses.",
            evidence={"reward": name, "correlation": correlation, "threshold": t.LENGTH},
            extent=correlation**2,
        )


# --- the values of a column, such as the tasks of a run ---------------------------------------------------------------


def reward_dead_in_part(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that is constant in nearly all groups with some values of a column, such as some
    tasks, and in clearly fewer of the other groups. None for a reward that is constant in nearly all groups of the run.
    """
    for k, name in enumerate(f.rewards):
        here = [
            value_facts
            for value_facts in f.by
            if value_facts.facts.totals.rewards.holding_groups[k] >= t.BY_GROUPS and value_facts.facts.dead(k) >= t.DEAD
        ]
        (dead, holding), (dead_of_all, of_all) = (_dead_and_holding(some, k) for some in (here, f.by))
        dead_elsewhere = ratio(dead_of_all - dead, of_all - holding)
        if not here or not dead_elsewhere <= t.DEAD - t.BY_RISE or f.dead(k) >= t.DEAD:
            continue
        values = [clip("missing" if value_facts.value is None else value_facts.value, 30) for value_facts in here]
        where = f"where {f.run.by} is {values[0]}" if len(values) == 1 else f"at {len(values)} values of {f.run.by}"
        numbers: dict[str, object] = {"reward": name, "column": f.run.by, "values": values, "groups": holding}
        numbers |= {
            "dead_groups": {value: value_facts.facts.dead(k) for value, value_facts in zip(values, here, strict=True)}
        }
        numbers |= {"dead_groups_of_others": dead_elsewhere, "threshold": t.DEAD, "threshold_groups": t.BY_GROUPS}
        yield Finding(
            title=f"{clip(name, 40)} does nothing {clip(where, 50)}",
            message=f"Where {f.run.by} is {listing(values, 'or', most=8)}, {name} is constant in "
            f"{percent(dead / holding)} of the groups and so does next to nothing. In the other groups it is constant "
            f"in {percent(dead_elsewhere)}. The figures of the whole run hide this difference.",
            to_do=f"Grade {name} in finer steps there, or look at whether these prompts are too easy or too hard.",
            evidence=numbers | {"threshold_of_others": t.DEAD - t.BY_RISE},
            extent=f.share_of_squares(k) * holding / of_all,
        )


def _dead_and_holding(values: Sequence[ValueFacts], k: int) -> tuple[int, int]:
    """Return two counts of groups: those in which the reward with index k is present and constant, and those in which
    it is present at all. values: parts of a run, such as some of its tasks, of which all groups are counted.
    """
    sums = [value.facts.totals for value in values]
    holding = int(sum(total.rewards.holding_groups[k] for total in sums))
    return int(sum(total.rewards.dead_groups[k] - total.groups for total in sums)) + holding, holding
