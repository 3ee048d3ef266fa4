"""Findings about the values of a reward: it is constant, fades, is mostly noise, opposes another reward, or is
correlated with the length.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import isfinite

from gdpo_audit import thresholds as t
from gdpo_audit.facts.facts import Facts, ValueFacts
from gdpo_audit.facts.prompt_counts import lengths_of
from gdpo_audit.facts.quarters import facts_of_quarters
from gdpo_audit.findings.finding import Finding
from gdpo_audit.sums.figures import ratio
from gdpo_core.shared.words import clip, count, listing, number, percent, signed


def reward_dead(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that does nothing or next to nothing: no response has it, or it is constant in
    all or nearly all groups in which some response has it.
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
            extent=f.share_of_squares(k) if dead < 1 else f.coverage(k) / len(f.rewards),
        )


def reward_sentinel(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward in which few responses have a value far from all others, and these responses make
    most of its variance inside groups.

    It is a warning if the value is farther from the others than they are from each other. Otherwise it may be a penalty
    that is meant.
    """
    for name, sentinel in f.sentinels.items():
        k, value = f.rewards.index(name), number(sentinel.value)
        if not f.basis.weights[k]:
            continue
        rows, variance = percent(sentinel.rows, 1), percent(sentinel.variance)
        yield Finding(
            severity="warning" if sentinel.far else "info",
            title=f"{rows} of the responses make {variance} of the variance of {name}",
            message=f"{rows} of the responses have {value} in {name}, and all others have {number(sentinel.low)} to "
            f"{number(sentinel.high)}. These responses make {variance} of the variance of {name} inside groups. So "
            f"{name} mostly says which responses have {value}, and differences between the others count for little.",
            to_do=f"If {value} stands for a grade that is missing, as where a judge failed, log it as missing or grade "
            f"these responses again; if it is meant as a penalty, make it a reward beside {name}.",
            evidence={
                "reward": name,
                "value": sentinel.value,
                "lowest_of_others": sentinel.low,
                "highest_of_others": sentinel.high,
                "share_of_responses": sentinel.rows,
                "share_of_variance": sentinel.variance,
                "threshold": t.SENTINEL_VARIANCE,
            },
            extent=f.share_of_squares(k) * sentinel.variance,
        )


def reward_fades(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that teaches less at the end of the run.

    Two things have to come together. The reward is constant in many more groups of the last quarter of the run than of
    the first. And in the last quarter it is constant in nearly all groups, or it makes a much smaller share of the
    update than in the first.

    There is no finding for a run with few batches, and none for a reward that few groups of a quarter have. A reward of
    weight 0 is passed over, and so is one that is constant in nearly all groups of the whole run.
    """
    if len(f.batches.batch) < t.FADES_BATCHES:
        return
    for k, (name, (first, last)) in enumerate(zip(f.rewards, facts_of_quarters(f), strict=True)):
        groups = int(min(facts.totals.rewards.holding_groups[k] for facts in (first, last)))
        if groups < t.FADES_GROUPS or not f.basis.weights[k] or f.dead(k) >= t.DEAD:
            continue
        dead = first.dead(k), last.dead(k)
        share = first.shares(f.method)[k], last.shares(f.method)[k]
        mean = first.mean(k), last.mean(k)
        weaker = share[0] >= t.AMPLIFIED_SHARE and share[1] <= t.FADES_SHARE * share[0]
        if dead[1] - dead[0] < t.FADES_DEAD or not (dead[1] >= t.DEAD or weaker):
            continue
        better = (mean[1] - mean[0]) * f.wanted[k] > 0
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
            title=f"{name} fades: constant in {percent(dead[0])} of the groups at first, {percent(dead[1])} at the end",
            message=f"{name} is constant in {percent(dead[0])} of the groups in the first quarter of the batches and "
            f"in {percent(dead[1])} of those in the last quarter, and its mean goes from {number(mean[0], 3)} to "
            f"{number(mean[1], 3)}. {why}",
            to_do="" if better else to_do,
            evidence=numbers,
            extent=dead[1] - dead[0],
        )


def reward_noise(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward whose tiny differences make a large share of the update under GDPO.

    Such a reward is nearly constant in half or more of the groups in which it differs at all. Its share under GDPO is
    at least `AMPLIFIED` times its share under GRPO. In a run with another method, the finding says what GDPO would do.

    There is no finding for a single reward, and none where no known method makes the logged advantages.
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


# --- two rewards, a reward and the length ----------------------------------------------------------------------------


def conflict(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each pair of rewards that oppose each other inside groups. Their correlation there is far
    below 0, and further than chance explains; far above 0 if the run wants less of one of them and more of the other.
    """
    shares = f.shares(f.method)
    for i, j in sorted(combinations(range(len(f.rewards)), 2), key=lambda pair: pair[::-1]):
        correlation = f.correlation(i, j)
        together = correlation * f.wanted[i] * f.wanted[j]
        if not together <= min(t.CONFLICT, -f.by_chance(i, j)):  # also if it is NaN, as one of them is constant
            continue
        first, second = f.rewards[i], f.rewards[j]
        of_which = [name for k, name in ((i, first), (j, second)) if f.wanted[k] < 0]
        lowered = f", and {listing(of_which)} {'is' if len(of_which) == 1 else 'are'} to be lowered" * bool(of_which)
        # A conflict with a reward that makes nothing of the update costs nothing there.
        least = min((abs(shares[k]) for k in (i, j) if isfinite(shares[k])), default=1.0)
        yield Finding(
            title=f"{first} and {second} work against each other (correlation {signed(correlation)}{lowered})",
            message=f"Inside a group the correlation of {first} and {second} is {signed(correlation)}{lowered}. "
            "Normalising does not settle this conflict: with equal weights the two cancel under GDPO as far as they "
            "oppose each other, and under GRPO the update follows the one that varies more.",
            to_do=f"Decide which of {first} and {second} counts more: give that one the larger weight, or add a gate, "
            "so that the other one counts only where that one is passed.",
            evidence={"rewards": [first, second], "correlation": correlation, "threshold": t.CONFLICT},
            extent=-together * min(1.0, 2 * least),
        )


def length_coupled(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that is correlated with the length of the response inside groups, more than
    chance explains. Yield nothing for a log without lengths in tokens.
    """
    lengths = lengths_of(f) if f.run.has_length else None
    for k, (name, correlation) in enumerate(lengths["correlations"].items() if lengths else ()):
        if correlation is None or abs(correlation) < max(t.LENGTH, f.by_chance(k)):
            continue
        more = "higher" if correlation > 0 else "lower"
        which = "longer" if correlation * (f.wanted[k] or 1) > 0 else "shorter"
        taught = f"lower {name}" if f.wanted[k] < 0 else name
        yield Finding(
            severity="info",
            title=f"Longer responses score {more} on {name}",
            message=f"Inside groups, the correlation of the length of a response with {name} is {signed(correlation)}. "
            f"Teaching {taught} therefore also teaches {which} responses.",
            to_do=f"If that is not meant, find out what in {name} favours {which} responses.",
            evidence={"reward": name, "correlation": correlation, "threshold": t.LENGTH},
            extent=correlation**2,
        )


# --- the values of a column, such as the tasks of a run ---------------------------------------------------------------


def reward_dead_in_part(f: Facts) -> Iterator[Finding]:
    """Yield a finding for each reward that does nothing for some values of a column, such as for some tasks.

    The reward is constant in nearly all groups of each of these values, and in clearly fewer of the other groups. There
    is no finding for a reward that is constant in nearly all groups of the run.
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
    it is present at all.

    values: parts of a run, such as some of its tasks, of which all groups are counted.
    """
    sums = [value.facts.totals for value in values]
    holding = int(sum(total.rewards.holding_groups[k] for total in sums))
    return int(sum(total.rewards.dead_groups[k] - total.groups for total in sums)) + holding, holding
