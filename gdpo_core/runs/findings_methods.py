"""The findings about a method: ties, silent groups, inverted priorities, amplification, what metrics miss."""

from collections.abc import Iterator, Mapping
from math import ceil, floor, isfinite, log10

import numpy as np

from gdpo_core import config_lines
from gdpo_core._words import count, decimal, listing, number, percent
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.runs import thresholds
from gdpo_core.runs.facts import Facts, Finding, ratio, some
from gdpo_core.runs.remedies import break_ties, finding_members, put_first


def ties_hide_signal(f: Facts) -> Iterator[Finding]:
    """Different rewards get the same advantage."""
    ties, with_gdpo, pairs = f.ties(f.method), f.ties("gdpo"), f.tied_pairs(f.method)
    if f.contradicted or not ties >= thresholds.TIES:
        return
    evidence: dict[str, object] = {
        "method": f.method,
        "groups_with_ties": ties,
        "tied_pairs": pairs,
        "groups_with_ties_gdpo": with_gdpo,
        "mixed_groups": int(f.method_sums.mixed_groups),
        "threshold": thresholds.TIES,
        "threshold_warning_pairs": thresholds.TIED_PAIRS,
        "threshold_warning_left": thresholds.TIES_LEFT,
    }
    message = [
        f"{f.lead_in}, {percent(ties)} of the groups whose rewards differ hold responses with different rewards and "
        f"the same advantage ({percent(pairs)} of the pairs that differ): the update cannot tell them apart."
    ]
    if f.plan.primary is not None and f.totals.primary_pairs:
        methods = dict.fromkeys([f.method, "gdpo"])
        for m in methods:
            order = f.order(m)
            evidence |= {f"right_{m}": order.right, f"inverted_{m}": order.wrong, f"tied_primary_pairs_{m}": order.tied}
        first, *rest = (f"{NAMES[m]} {_order_in_words(f, m)}" for m in methods)
        of = f"Of the {count(f.totals.primary_pairs, 'pair')} that differ in {f.rewards[f.plan.primary]},"
        message.append("; ".join([f"{of} {first}", *rest]) + ".")
    remedy = break_ties(f)
    if not f.is_gdpo and with_gdpo < ties:
        message.append(f"GDPO would leave ties in {percent(with_gdpo)} of these groups.")
    if f.plan.primary is None:
        message.append(
            "Whether a tie that is broken has the better response first, shows only beside a primary reward."
        )
        to_do = "Name the reward that matters most (--primary): a broken tie can put the worse answer first."
    elif remedy is None:
        message.append("What is tried here does not break ties without putting the wrong responses first more often.")
        to_do = f"Grade in finer steps, above all {f.rewards[f.plan.primary]}, if the ties matter."
    else:
        first = f.rewards[f.plan.primary]
        to_do = f"{remedy.words}: fewer ties, and the answer with less {first} comes first no more often."
    yield Finding(
        "warning"
        if pairs >= thresholds.TIED_PAIRS and not f.is_gdpo and f.tied_pairs("gdpo") <= thresholds.TIES_LEFT * pairs
        else "info",
        " ".join(message),
        evidence,
        **finding_members(remedy),
        extent=pairs,
        title=f"{percent(pairs)} of the pairs of different responses get the same advantage",
        to_do=to_do,
    )


def _order_in_words(f: Facts, method: str) -> str:
    order = f.order(method)
    has = (
        f"has {count(order.right)} the right way round, {count(order.wrong)} the wrong way and {count(order.tied)} tied"
    )
    lost = f.totals.primary_pairs - order.pairs
    return f"{has} ({count(lost)} are lost to missing rewards)" if lost else has


def silent_groups(f: Facts) -> Iterator[Finding]:
    """Groups whose advantages are all 0."""
    silent, with_gdpo = f.silent(f.method), f.silent("gdpo")
    if not silent >= thresholds.SILENT_INFO:
        return
    # A group whose rewards are all constant is silent. In every other silent group the rewards differ.
    alike = f.totals.groups - f.totals.mixed_groups
    cancelled = max(1 - ratio(alike, f.method_sums.silent_groups), 0.0)
    message = [
        f"{f.lead_in}, {percent(silent)} of the groups are silent: every response there has advantage 0 and adds "
        "nothing to the policy gradient."
    ]
    if not f.is_gdpo and with_gdpo < silent:
        message.append(f"Under GDPO it would be {percent(with_gdpo)}.")
    if cancelled:
        part = "all" if cancelled == 1 else percent(cancelled)
        nothing = "" if all(f.plan.weights) else ", or the rewards that differ have weight 0"
        message.append(f"In {part} of them the rewards differ and cancel in the sum{nothing}.")
    if cancelled <= 0.5:
        others = "The other prompts" if cancelled else "Such prompts"
        message.append(
            f"{others} are mostly too easy or too hard: other prompts help, and mostly larger groups do. This log "
            "cannot show how much."
        )
        to_do = "Use other prompts, neither too easy nor too hard, or larger groups."
    else:
        message.append("Larger groups do not change that; unequal weights, which say what counts more, do.")
        to_do = "Use unequal weights, which say what counts more."
    yield Finding(
        "warning" if silent >= thresholds.SILENT_WARNING else "info",
        " ".join(message),
        {
            "method": f.method,
            "silent_groups": silent,
            **{f"silent_groups_{m}": f.silent(m) for m in f.methods},
            "rewards_differ_in": cancelled,
            "groups": int(f.totals.groups),
            "threshold_info": thresholds.SILENT_INFO,
            "threshold_warning": thresholds.SILENT_WARNING,
        },
        extent=silent,
        title=f"{percent(silent)} of the groups teach nothing",
        to_do=to_do,
    )


def priority_inversion(f: Facts) -> Iterator[Finding]:
    """A response with less of the primary reward gets the larger advantage."""
    inverted = f.inversions(f.method)
    if f.plan.primary is None or len(f.rewards) < 2 or not inverted >= thresholds.INVERTED_INFO:
        return
    primary = f.rewards[f.plan.primary]
    orders = {m: f.order(m) for m in f.methods if f.order(m).pairs}
    tied = {m: order.tied / order.pairs for m, order in orders.items()}
    right = {m: order.right / order.pairs for m, order in orders.items()}
    best = max(right, key=lambda m: right[m])
    compared = some(f"{NAMES[m]} {percent(f.inversions(m))} and {percent(tied[m])}" for m in orders)
    most = (
        f"{NAMES[best]} has the most pairs the right way round, {percent(right[best])}, but"
        if right[best] > right[f.method]
        else f"No other method has more than these {percent(right[f.method])} the right way round:"
    )
    needed = {m: f.totals.methods[m].break_even for m in dict.fromkeys([f.method, "gdpo"])}
    lowest = _break_even_in_words(f, f.plan.primary, needed)
    weight = needed[f.method]
    remedy = put_first(
        f,
        weight=_round_up(f.unit * weight) / f.unit if isfinite(weight) and _usable(f, f.plan.primary, weight) else None,
    )
    yield Finding(
        "warning" if inverted >= thresholds.INVERTED_WARNING and not f.contradicted else "info",
        f"{f.lead_in}, in {percent(inverted)} of the pairs that differ in {primary} the response with less {primary} "
        f"gets more, and {percent(tied[f.method])} are tied. By method, inverted and tied: {compared}. {most} no "
        f"normalisation knows that {primary} matters most. {lowest}",
        {
            "primary": primary,
            "method": f.method,
            "inversions": inverted,
            **{f"inversions_{m}": f.inversions(m) for m in orders},
            **{f"tied_{m}": share for m, share in tied.items()},
            "pairs": orders[f.method].pairs,
            **{f"break_even_{m}": f.unit * weight for m, weight in needed.items() if isfinite(weight)},
            "threshold_info": thresholds.INVERTED_INFO,
            "threshold_warning": thresholds.INVERTED_WARNING,
        },
        **finding_members(remedy),
        extent=inverted,
        title=(
            f"Under {NAMES[f.method]} the response with less {primary} would get more"
            if f.contradicted
            else f"The response with less {primary} gets more"
        )
        + f" in {percent(inverted)} of the pairs",
        to_do=f"{remedy.words}."
        if remedy
        else f"Decide how much {primary} counts: no gate and no weight tried here helps.",
    )


def _usable(f: Facts, primary: int, weight: float) -> bool:
    """Whether the other rewards still count beside such a weight on the primary one."""
    return weight <= thresholds.BREAK_EVEN * max(abs(w) for k, w in enumerate(f.plan.weights) if k != primary)


def _break_even_in_words(f: Facts, primary: int, needed: Mapping[str, float]) -> str:
    """The weights above which no pair is the wrong way round, or that there is none."""
    on, now = f.rewards[primary], number(f.unit * f.plan.weights[primary])
    usable = {m: w for m, w in needed.items() if isfinite(w) and _usable(f, primary, w)}
    if not usable:
        last = needed[f.method]
        turns = (
            f"the last pair turns only at {number(_round_up(f.unit * last))}"
            if isfinite(last)
            else "some pair never turns"
        )
        return f"No usable weight on {on} does either (now {now}): {turns}."
    weights = listing(f"{number(_round_up(f.unit * w))} under {NAMES[m]}" for m, w in usable.items())
    return f"With a weight on {on} above {weights} (now {now}), no pair would be the wrong way round."


def _round_up(weight: float) -> float:
    """The next number of three digits.

    >>> _round_up(1.2301), _round_up(-0.5)
    (1.24, -0.5)
    """
    if not weight:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(weight))) - 2)
    return float(f"{ceil(weight / unit - 1e-6) * unit:.3g}")


def batch_step_amplifies(f: Facts) -> Iterator[Finding]:
    """A std over the whole batch scales up the groups that differ, because silent groups lower it."""
    by_batch_std = f.method == "grpo_batch_std"
    if ALL_CONVENTIONS[f.plan.convention].last_step == "group" and not by_batch_std:
        return
    live = f.batches.live_responses > 0
    if not live.any():
        return
    # Without silent groups, and where each group is divided by its own std, advantages have mean square 1.
    squares = f.batches.methods[f.method].squares if by_batch_std else f.batches.responses
    factors = np.sqrt(squares[live] / f.batches.live_responses[live])
    factor, largest = float(factors.mean()), float(factors.max())
    largest_at = int(f.batches.step[live][factors.argmax()])
    if factor < thresholds.AMPLIFIES_INFO:
        return
    share = ratio(f.totals.live_responses, f.totals.responses)
    most = f" (up to {decimal(largest, 2)}, at step {largest_at})" if len(factors) > 1 else ""
    if by_batch_std:
        does = "Dividing by the batch's std multiplies"
        against = "dividing each group by its own"
    else:
        does = f"GDPO's batch step {'multiplies' if f.is_gdpo else 'would multiply'}"
        against = "a batch in which all groups differ"
    yield Finding(
        "warning" if (f.is_gdpo or by_batch_std) and factor >= thresholds.AMPLIFIES_WARNING else "info",
        f"{does} the advantages by {decimal(factor, 2)} on average{most}, compared with {against}. Only "
        f"{percent(share)} of the responses are in groups that differ, and the std runs over all responses. Adam "
        "removes a constant factor; what acts is how the factor changes from batch to batch, and its size against a "
        "KL term. Watch how the share of silent groups changes.",
        {
            "method": f.method if by_batch_std else "gdpo",
            "factor": factor,
            "largest_factor": largest,
            "largest_at_step": largest_at,
            "live_responses": share,
            "threshold_info": thresholds.AMPLIFIES_INFO,
            "threshold_warning": thresholds.AMPLIFIES_WARNING,
        },
        extent=1 - share,
        title=f"Silent groups scale the others up by {decimal(factor, 2)}",
        to_do="Watch how the share of silent groups changes.",
    )


def blind_zero_std_metric(f: Facts) -> Iterator[Finding]:
    """The trainer's metric does not show groups in which a reward is constant."""
    if f.framework.zero_std_metric is None or len(f.rewards) < 2:
        return
    most = max(range(len(f.rewards)), key=f.dead)
    sees = ratio(f.totals.constant_sums, f.totals.groups)
    over_batch = f.framework.zero_std_over_batch.get(f.method) if f.recipe is not None else None
    if f.dead(most) - (0 if over_batch else sees) < thresholds.BLIND:
        return
    zero = "every advantage is 0" if f.is_gdpo else "all responses have the same sum"
    why = (
        f"Under {over_batch} it looks at the std of the whole batch: per batch it is 1 only if {zero}, else 0"
        if over_batch
        else f"It looks at the summed reward, which is constant in {percent(sees)}"
    )
    yield Finding(
        "info",
        f"{f.framework.title}'s {f.framework.zero_std_metric} does not show that {f.rewards[most]} is constant in "
        f"{percent(f.dead(most))} of the groups. {why}. Log the share of constant groups of each reward yourself to "
        "see a reward die.",
        {
            "reward": f.rewards[most],
            "dead_groups": f.dead(most),
            "groups_with_constant_sum": sees,
            "threshold": thresholds.BLIND,
        },
        extent=f.dead(most) - (0 if over_batch else sees),
        title=f"{f.framework.title}'s metric does not show that {f.rewards[most]} is constant",
        to_do=f"Log the share of groups in which each reward is constant, {f.rewards[most]} above all.",
    )


def filter_drops_signal(f: Facts) -> Iterator[Finding]:
    """A filter on the summed reward would drop groups that GDPO can use."""
    share = ratio(f.totals.filtered_groups, f.totals.groups)
    if not share > thresholds.FILTERED or not f.framework.gdpo_can_be_filtered:
        return
    option = f.framework.filter_option
    filters = (
        f"A filter on the std of the summed reward ({option})"
        if option
        else "A filter on the std of the summed reward, as other frameworks' dynamic sampling has it,"
    )
    uses = "GDPO uses" if f.is_gdpo else "GDPO would use (under GRPO they are silent)"
    yield Finding(
        "warning" if f.is_gdpo and option else "info",
        f"{filters} would drop {count(f.totals.filtered_groups, 'group')} ({percent(share)}) that {uses}: their "
        "rewards differ and cancel in the sum. With GDPO leave the filter off, or drop only groups in which "
        "every reward is constant.",
        {"groups": int(f.totals.filtered_groups), "share": share, "threshold": thresholds.FILTERED},
        config_lines.keep_groups(f.run.framework) if f.is_gdpo else None,
        extent=share,
        title="A filter would drop groups that GDPO can use",
        to_do="Leave the filter on the summed reward off." if f.is_gdpo else "",
    )
