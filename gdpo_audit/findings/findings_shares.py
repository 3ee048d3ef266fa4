"""Findings about a reward whose share of the update is far from the share that its weight asks for. It makes most of
the update, or next to nothing of it.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import nan
from typing import NamedTuple

import numpy as np

from gdpo_audit import thresholds as t
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.wording import lead_in
from gdpo_audit.findings.finding import SEVERITIES, Finding
from gdpo_audit.sums.sums import bin_batches, select_batches
from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import listing, percent, signed


def reward_dominates(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that makes most of the update, and far more of it than its weight asks for.

    A reward is passed over if all others are constant or noise.
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
    """Return the indices of the rewards that make most of the update, and far more of it than their weight asks for.

    A reward is left out if all others are constant or noise, as it makes most of the update anyway.
    """
    able, shares = _acting_rewards(f), f.shares(f.method)
    # A reward that alone is neither constant nor noise makes most of the update anyway, which other findings say.
    loud = {k for k in able if f.dead(k) < t.DEAD and f.faint(k) < t.FAINT}
    return [k for k in able if loud - {k} and _far_above(shares[k], f.share_of_squares(k))]


def reward_starved(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that has a weight, and yet makes next to nothing of the update.

    The update may also work against the reward. A reward gets a finding if this is so in the whole run, or at least in
    its second half.
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
            title, should = f"The update works against {name}", "by its weight it should be"
            makes = f"the update works against {name}: its share is {percent(share)}"
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
    """The last part of a run, in which a reward makes next to nothing of the update.

    There may be no such part, or the log may be too short to show it. `step` is None then.
    """

    step: int | None  # the first step of this part
    extent: float  # how much of the run this part is, from 0 to 1; 0 where `step` is None
    share: float  # the reward's share of the update in this part, under the run's method; NaN where `step` is None
    share_gdpo: float  # the same share under GDPO; NaN where `step` is None
    saturated: bool  # whether the reward is better in this part than before and differs too little there to teach more
    words: str  # a sentence on since when the share is so small, or on why `step` is None; it ends in a space


def _starved(f: Facts) -> list[tuple[int, _End]]:
    """Return the starved rewards, each as a pair: its index, and the last part of the run, as `_at_the_end` returns it.

    A reward is starved if its share of the update is at most `STARVED` times the share that its weight asks for. This
    holds in the whole run, or in a last part that is at least `STARVED_EXTENT` of it.

    Some rewards are left out: those that are constant in nearly all groups, those that have done their work, and those
    whose weight asks for next to nothing. The list is empty if fewer than two rewards have a weight and vary.

    Rewards that need a warning come first. Within a severity, those whose share falls short by most come first.
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

    No warning is needed if the update moves the reward as the run wants all the same, as its push shows. Under another
    method than GDPO, no warning is needed either for a reward that is nearly constant in half or more of the groups in
    which it differs.
    """
    pushed = f.wanted[k] * f.push(f.method)[k] >= t.PUSHED
    return "info" if pushed or (f.faint(k) >= t.FAINT and not f.is_gdpo) else "warning"


def _at_the_end(f: Facts, k: int) -> _End:
    """Return the longest last part of the run in which the reward with index k makes next to nothing of the update.

    Its share of the update there is at most `STARVED` times the share that its weight asks for, in each piece of that
    part. A piece is one of at most 20 into which the run is cut, with enough groups each. `step` is None if there is no
    such part, or if the log is too short to show it.
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
        words = f"At the end of the run, the share of {f.rewards[k]} is no longer so small. "
        return _End(None, 0.0, nan, nan, False, words)
    before, end = (replace(f, batches=select_batches(b, some)) for some in (slice(begin), slice(begin, None)))
    since = f"since step {int(b.step[begin])}" if begin else "from the first step on"
    better = begin > 0 and (end.mean(k) - before.mean(k)) * f.wanted[k] > 0
    return _End(
        step=int(b.step[begin]),
        extent=1 - begin / bins,
        share=end.shares(f.method)[k],
        share_gdpo=end.shares("gdpo")[k],
        saturated=better and (end.dead(k) >= t.DEAD or end.due_share(k) < t.STARVED_DUE),
        words=f"The share of {f.rewards[k]} has been so small {since}. ",
    )


def _acting_rewards(f: Facts) -> list[int]:
    """Return the indices of the rewards that have a weight other than 0 and differ in some group. [] where the log does
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
    asked for. The other is that another reward differs in fewer groups.

    f: the facts of the run.
    most: the index of a reward that makes most of the update.
    share: of the reward that the finding is about, its share of the update as it ran.
    gdpo: its share under GDPO.
    asks: the share that its weight asks for.
    """
    if not f.is_gdpo and (gdpo - share) / (asks - share) >= t.BY_SCALE:
        adds = f"{NAMES[f.method]} adds up the raw rewards"
        return f"{adds}, so the more a reward varies inside groups, the more it counts."
    rarer = any(f.dead_or_missing(k) > f.dead_or_missing(most) for k in _acting_rewards(f))
    return f"{f.rewards[most]} differs in more groups than other rewards do." if rarer else ""
