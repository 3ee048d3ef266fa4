"""Findings about what a run is for. A reward, above all the primary one, has a mean that gets worse, or no answer of a
group gets any of the primary reward.
"""

from collections.abc import Iterator

from gdpo_audit import thresholds as t
from gdpo_audit.facts.drifts import Drift, drifts_of, falling_rewards, step_of_fall
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.wording import lead_in
from gdpo_audit.findings.finding import Finding
from gdpo_audit.phrases import some
from gdpo_audit.sums.figures import ratio
from gdpo_audit.sums.returning import gave_up
from gdpo_audit.sums.wanted import named
from gdpo_core.shared.words import count, listing, number, percent


def reward_falls(f: Facts) -> Iterator[Finding]:
    """Yield a finding for a reward whose mean gets worse during the run: lower, or higher if its weight is below 0. A
    change counts only if `Drift.moves` says so.

    If a reward is primary, only this one is looked at. Otherwise a reward gets a finding in two cases: its mean gets
    worse by at least `FALLS_FAR` standard deviations, or the mean of another reward gets better meanwhile. Then a
    reward of weight 0 is left out, and so is one whose weight the log does not show.
    """
    drifts, primary = drifts_of(f), f.basis.primary
    up = sorted((k for k in drifts if drifts[k].moves(1)), key=lambda k: -drifts[k].size)
    for k in falling_rewards(f, drifts):
        name, fell = f.rewards[k], drifts[k]
        far = fell.size <= -t.FALLS_FAR
        if not (far or up or primary is not None):
            continue
        step, before, after = step_of_fall(f, k)
        goes = [_goes(f.rewards[i], f.wanted[i], drifts[i]) for i in up]
        moves = "falls" if f.wanted[k] > 0 else f"rises against its weight of {number(f.basis.weights[k])}"
        says = f"{name} {moves}, from {number(fell.first, 3)} to {number(fell.last, 3)}"
        quarters = f"{number(fell.first, 3)} in the first quarter of the run to {number(fell.last, 3)} in the last"
        meanwhile = f", while {some(goes)}" if up else ", while no other reward gets much better"
        because, given_up = gave_up(name, f.returning.get(k), fell.last - fell.first)
        numbers = {"reward": name, "since_step": step, "fall_in_stds": -fell.size, "threshold": t.FALLS}
        yield Finding(
            severity="warning" if far or (up and primary is not None) else "info",
            title=f"The mean of {says}",
            message=f"The mean of {name} {moves}, from {quarters}, most clearly at step {step} (it is "
            f"{number(before, 3)} before that step and {number(after, 3)} from there on)"
            f"{meanwhile * (len(drifts) > 1)}. {because}",
            to_do=f"Find out why the mean of {says}{f', while {goes[0]}' if up else ''}: read responses from step "
            f"{step} on{', and check whether the prompts became harder' * (given_up is not True)}.",
            evidence=numbers | _on_returning(f, k),
            extent=min(-fell.size, 1.0),
        )


def _goes(name: str, direction: int, drift: Drift) -> str:
    """Return the clause that the mean of a reward goes from one number to another, as the run wants it.

    direction: 1 if the run wants more of the reward, -1 if it wants less.
    """
    comma = "," * (direction < 0)
    return f"the mean of {named(name, direction)}{comma} goes from {number(drift.first, 3)} to {number(drift.last, 3)}"


def _on_returning(f: Facts, k: int) -> dict[str, float]:
    """Return the evidence of the mean of a reward on prompts that come both early and late; {} where there is none."""
    on_both = f.returning.get(k)
    if on_both is None or not on_both.prompts:
        return {}
    means = {"mean_on_them_early": on_both.first, "mean_on_them_late": on_both.last}
    return {"prompts_early_and_late": on_both.prompts, **means}


def no_right_answer(f: Facts) -> Iterator[Finding]:
    """Yield one finding if much of the update comes from groups in which the primary reward is 0 or less for every
    answer, or 0 or more if the run wants less of it.

    Yield nothing if no reward is primary, or if no known method makes the logged advantages. Yield nothing, too, if
    such an answer is not surely one without the primary reward (see `_can_be_missed`).
    """
    on = f.basis.primary
    if on is None or f.contradicted or not _can_be_missed(f, on):
        return
    updates, groups = f.method_sums.update_unright, f.totals.unright_groups
    share, of_all = ratio(updates.sum(), f.method_sums.squares), ratio(groups, f.totals.groups)
    if not share >= t.UNRIGHT_INFO:
        return
    name, by_size = f.rewards[on], sorted(set(range(len(f.rewards))) - {on}, key=lambda k: -updates[k])
    there = {f.rewards[k]: ratio(updates[k], updates.sum()) for k in by_size}
    teach = {reward: share_there for reward, share_there in there.items() if share_there > 0}
    taught, less = listing(teach), "less" if f.wanted[on] > 0 else "more"
    numbers = {"update_share": share, "groups": groups, "update_share_there": there, "threshold": t.UNRIGHT_INFO}
    yield Finding(
        severity="warning" if share >= t.UNRIGHT_WARNING else "info",
        title=f"{percent(share)} of the update comes from groups without any {name}",
        message=f"{lead_in(f)}, {percent(share)} of the update comes from {count(groups, 'group')} "
        f"({percent(of_all)} of all) in which {name} is 0 or {less} for every response. Of that part of the update, "
        f"{some(f'{reward} accounts for {percent(share_there)}' for reward, share_there in teach.items())}.",
        to_do=f"Decide whether {taught} should be taught where no response gets any {name}; if not, drop such groups.",
        evidence=numbers,
        extent=share,
    )


def _can_be_missed(f: Facts, k: int) -> bool:
    """Return whether an answer in which the reward with index k is 0 or less is surely an answer without that reward.
    If the run wants less of the reward, the same is asked of its negative; False if it wants neither.

    This needs a highest value above 0 and a lowest value of 0. The lowest value may also be below 0 if the reward has
    only two values.
    """
    sums, direction = f.totals.rewards, f.wanted[k]
    low, high = sorted((direction * sums.low[k], direction * sums.high[k]))
    if not low <= 0 < high:
        return False
    # The mean of (x − low)(high − x) is 0 if every value x is the lowest or the highest one.
    mean = direction * f.mean(k)
    between = (mean - low) * (high - mean) - sums.scatter[k] / sums.present[k]
    return bool(low == 0 or between <= t.TWO_VALUES * (high - low) ** 2)
