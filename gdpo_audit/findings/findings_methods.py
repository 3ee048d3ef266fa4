"""Findings about what a method does: ties, silent groups, pairs in the wrong order, amplified advantages, and what a
trainer's own metrics and filters miss.
"""

from collections.abc import Iterator, Mapping
from math import ceil, floor, isfinite, log10

import numpy as np

from gdpo_audit import thresholds as t
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.wording import but_residue, lead_in
from gdpo_audit.findings.finding import Finding
from gdpo_audit.phrases import is_or_are, of_groups
from gdpo_audit.sums.figures import ratio
from gdpo_audit.sums.wanted import named
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.words import count, decimal, listing, number, percent, signed


def ties_hide_signal(f: Facts) -> Iterator[Finding]:
    """Yield one finding if in many groups the run's method gives the same advantage to responses with different
    rewards; nothing where no known method makes the logged advantages.
    """
    ties, pairs, on = f.ties(f.method), f.tied_pairs(f.method), f.basis.primary
    if f.contradicted or not ties >= t.TIES:
        return
    message = (
        f"{lead_in(f)}, {percent(ties)} of the groups with differing rewards hold a tie: responses with different "
        f"rewards but the same advantage, which the update cannot tell apart. Of all pairs of responses with different "
        f"rewards, {percent(pairs)} are tied. Ties alone say little about what is learnt: {_pushes_in_words(f)}."
    )
    if on is not None and f.totals.primary_pairs:
        message += f" {_orders_in_words(f, f.rewards[on])}"
    to_do = (
        "Name the reward that matters most (--primary). Until you do, no setting is recommended: if a method breaks "
        "a tie, the audit cannot tell whether it puts the better or the worse response first."
    )
    if on is not None:
        to_do = f"If the ties matter, grade in finer steps, above all {f.rewards[on]}."
    by_method = not f.is_gdpo and f.tied_pairs("gdpo") <= t.TIES_LEFT * pairs
    yield Finding(
        severity="warning" if by_method and pairs >= t.TIED_PAIRS else "info",
        title=f"{percent(pairs)} of the pairs with different rewards get the same advantage",
        message=message,
        to_do=to_do,
        evidence={"groups_with_ties": ties, "tied_pairs": pairs, "threshold": t.TIES},
        extent=pairs,
    )


def _pushes_in_words(f: Facts) -> str:
    """Return words that say the push on each reward under the run's method and, if that is another one, under GDPO."""
    methods = dict.fromkeys([f.method, "gdpo"])
    of_method = {m: listing(f"{signed(x)} on {n}" for n, x in zip(f.rewards, f.push(m), strict=True)) for m in methods}
    pushes = (
        f"under {NAMES[m]} {'it' if n else 'the push'} is {words}" for n, (m, words) in enumerate(of_method.items())
    )
    return "; ".join(pushes)


def _orders_in_words(f: Facts, primary: str) -> str:
    """Return a sentence that says how the run's method and GDPO order the pairs that differ in the primary reward."""
    methods, pairs = dict.fromkeys([f.method, "gdpo"]), f.totals.primary_pairs
    if pairs == 1:
        places = (f"{_place_of_only_pair(f, m)} under {NAMES[m]}" for m in methods)
        return f"The only pair that differs in {primary} is {listing(places)}."
    return (
        f"Of the {count(pairs, 'pair')} that differ in {primary}, {'; '.join(_order_in_words(f, m) for m in methods)}."
    )


def _place_of_only_pair(f: Facts, method: str) -> str:
    """Return words that say how a method orders the only pair that differs in the primary reward, or that this pair is
    lost to a missing reward.
    """
    order = f.order(method)
    if not order.pairs:
        return "lost to a missing reward"
    return "in the right order" if order.right else "in the wrong order" if order.wrong else "tied"


def _order_in_words(f: Facts, method: str) -> str:
    """Return words that say how a method orders the pairs with different primary reward. They say how many are in the
    right order, how many are in the wrong order, and how many are tied. If some of these pairs are lost to missing
    rewards, the words say how many.
    """
    order = f.order(method)
    lost = int(f.totals.primary_pairs - order.pairs)
    missing = f" ({count(lost, 'pair')} {is_or_are(lost)} lost to missing rewards)" if lost else ""
    orders = f"{NAMES[method]} orders {count(order.right)} correctly and {count(order.wrong)} wrongly"
    return f"{orders}, and it ties {count(order.tied)}{missing}"


def silent_groups(f: Facts) -> Iterator[Finding]:
    """Yield one finding if in many groups every advantage is 0 under the run's method."""
    silent = f.silent(f.method)
    if not silent >= t.SILENT_INFO:
        return
    # A group whose rewards are all constant is silent. In every other silent group the rewards differ.
    alike = f.totals.groups - f.totals.mixed_groups
    cancelled = max(1 - ratio(alike, f.method_sums.silent_groups), 0.0)
    why, to_do = "The prompts of such groups are mostly too easy or too hard.", "Use other prompts, or larger groups."
    if cancelled:
        how_many = "all" if cancelled == 1 else percent(cancelled)
        nothing = "" if all(f.basis.weights) else ", or the rewards that differ have weight 0"
        why = f"In {how_many} of the silent groups the rewards differ but cancel in the sum{nothing}."
    if not any(f.basis.weights):
        to_do = "Give at least one reward a weight other than 0."
    elif cancelled > 0.5:
        to_do = "Use unequal weights, which decide what counts more; larger groups would not help."
    yield Finding(
        severity="warning" if silent >= t.SILENT_WARNING else "info",
        title=f"{of_groups(silent, int(f.totals.groups))} of the groups teach nothing",
        message=f"{lead_in(f)}, {percent(silent)} of the groups are silent: every advantage in them is 0"
        f"{but_residue(f)}. {why}",
        to_do=to_do,
        evidence={"silent_groups": silent, "rewards_differ_in": cancelled, "threshold": t.SILENT_INFO},
        extent=silent,
    )


def priority_inversion(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the run's method puts many pairs of responses in the wrong order. In such a pair, the
    response that is worse in the primary reward gets the larger advantage. Yield nothing if no reward is primary, or if
    the primary reward is the only one.
    """
    inverted = f.inversions(f.method)
    if f.basis.primary is None or len(f.rewards) < 2 or not inverted >= t.INVERTED_INFO:
        return
    primary, order = f.rewards[f.basis.primary], f.order(f.method)
    needed = {m: f.totals.methods[m].break_even for m in dict.fromkeys([f.method, "gdpo"])}
    numbers = {"inversions": inverted, "pairs": order.pairs, "threshold": t.INVERTED_INFO}
    direction = f.wanted[f.basis.primary]
    numbers |= {f"break_even_{m}": direction * f.unit * w for m, w in needed.items() if isfinite(w)}
    push = f.push(f.method)
    as_wanted = [x * f.wanted[k] for k, x in enumerate(push)]
    most = max(range(len(push)), key=lambda k: as_wanted[k])
    weak = as_wanted[f.basis.primary] < t.WEAK_PUSH * as_wanted[most]
    largest = (
        ", the largest of all"
        if most == f.basis.primary
        else f"; the largest push is {signed(push[most])}, on {named(f.rewards[most], f.wanted[most])}"
    )
    tied = f"in another {percent(order.tied / order.pairs)} the two are tied" if order.tied else "no such pair is tied"
    are = f"would be in the wrong order under {NAMES[f.method]}" if f.contradicted else "are in the wrong order"
    yield Finding(
        severity="warning" if inverted >= t.INVERTED_WARNING and weak and not f.contradicted else "info",
        title=f"{percent(inverted)} of the pairs that differ in {primary} {are}",
        message=f"{lead_in(f)}, in {percent(inverted)} of the pairs of responses that differ in {primary} the larger "
        f"advantage goes to the response that scores {'lower' if direction > 0 else 'higher'} on it; {tied}. What the "
        f"model learns follows the push, not the order of pairs. The push on {primary} is "
        f"{signed(push[f.basis.primary])}{largest}. "
        f"{_break_even_in_words(f, f.basis.primary, needed)}",
        to_do=f"Decide how much {primary} should count.",
        evidence=numbers,
        extent=inverted,
    )


def _break_even_in_words(f: Facts, primary: int, needed: Mapping[str, float]) -> str:
    """Return a sentence that says above which weight of the primary reward no pair is in the wrong order (below which,
    if the run wants less of it), or that no usable weight achieves that. A weight is usable if its size is at most
    `BREAK_EVEN` times that of the largest weight of the other rewards.

    primary: the index of the primary reward.
    needed: by method, the size of the weight above which no pair is in the wrong order.
    """
    on, now, direction = f.rewards[primary], number(f.unit * f.basis.weights[primary]), f.wanted[primary]
    largest = max(abs(w) for k, w in enumerate(f.basis.weights) if k != primary)
    usable = {m: w for m, w in needed.items() if isfinite(w) and w <= t.BREAK_EVEN * largest}
    if not usable:
        return f"There is no usable weight on {on} with which no pair would be in the wrong order (it is {now} now)."
    weights = listing(f"{number(direction * round_up(f.unit * w))} under {NAMES[m]}" for m, w in usable.items())
    beyond = "above" if direction > 0 else "below"
    return f"With a weight on {on} {beyond} {weights} (it is {now} now), no pair would be in the wrong order."


def round_up(weight: float) -> float:
    """Return a weight rounded up to three significant digits. So whatever holds for all weights above the given one
    holds above the returned one too. Less than a millionth of the last digit counts as round-off and is dropped.

    >>> round_up(1.2301), round_up(-0.5)
    (1.24, -0.5)
    """
    if not weight:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(weight))) - 2)
    return float(f"{ceil(weight / unit - 1e-6) * unit:.3g}")


def batch_step_amplifies(f: Facts) -> Iterator[Finding]:
    """Yield one finding if silent groups, in which every advantage is 0, make the std of the batch small. A method that
    divides by this std then scales the advantages of all other groups up.

    GDPO does so in its batch step, unless the convention takes that step over each group. GRPO with the std of the
    batch does so too. For another method there is no finding.
    """
    by_batch_std = f.method == "grpo_batch_std"
    by_gdpo = f.is_gdpo and ALL_CONVENTIONS[f.basis.convention].last_step != "group"
    live = f.batches.live_responses > 0
    if not (by_batch_std or by_gdpo) or not live.any():
        return
    # Without silent groups the advantages have mean square 1; so they do if each group is divided by its own std.
    squares = f.batches.methods[f.method].squares if by_batch_std else f.batches.responses
    factors = np.sqrt(squares[live] / f.batches.live_responses[live])
    factor = float(factors.mean())
    if factor < t.AMPLIFIES:
        return
    share = ratio(f.totals.live_responses, f.totals.responses)
    yield Finding(
        title=f"Silent groups make the advantages of the others {decimal(factor, 2)} times as large",
        message=f"{NAMES[f.method]} divides by the std of the batch, which is small here: only {percent(share)} of the "
        "responses are in groups that are not silent, which means that not every advantage in them is 0. This "
        f"multiplies the advantages of these responses by {decimal(factor, 2)} on average. Adam cancels a constant "
        "factor, but not its changes, nor its size relative to a KL term.",
        to_do="Watch how the share of silent groups changes.",
        evidence={"factor": factor, "live_responses": share, "threshold": t.AMPLIFIES},
        extent=1 - share,
    )


def blind_zero_std_metric(f: Facts) -> Iterator[Finding]:
    """Yield one finding if a reward is constant in many groups and the trainer's metric of zero-variance groups does
    not show it.
    """
    metric = f.framework.zero_std_metric
    if metric is None or len(f.rewards) < 2:
        return
    most = max(range(len(f.rewards)), key=f.dead)
    over_batch = f.recipe is not None and f.framework.zero_std_over_batch and f.method in ("gdpo", "grpo_batch_std")
    constant = ratio(f.totals.constant_sums, f.totals.groups)
    seen = 0.0 if over_batch else constant
    if f.dead(most) - seen < t.BLIND:
        return
    dead = percent(f.dead(most))
    looks = "whole batch" if over_batch else f"summed reward, which is constant in {percent(constant)} of them"
    yield Finding(
        severity="info",
        title=f"{f.framework.title}'s metric misses that {f.rewards[most]} is constant in {dead} of groups",
        message=f"{f.framework.title}'s {metric} does not show that {f.rewards[most]} is constant in "
        f"{percent(f.dead(most))} of the groups, because the metric is computed from the {looks}.",
        to_do=f"Log the share of groups in which each reward is constant, {f.rewards[most]} above all.",
        evidence={"reward": f.rewards[most], "dead_groups": f.dead(most), "threshold": t.BLIND},
        extent=f.dead(most) - seen,
    )


def filter_drops_signal(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the trainer has a filter on the summed reward that would drop many groups which GDPO can
    use. Yield nothing if the run's method is not GDPO.
    """
    share, option = ratio(f.totals.filtered_groups, f.totals.groups), f.framework.filter_option
    if not share >= t.FILTERED or option is None or not f.is_gdpo:
        return
    groups = int(f.totals.filtered_groups)
    yield Finding(
        title="A filter would drop groups that GDPO can use",
        message=f"A filter on the std of the summed reward ({option}) would drop {count(groups, 'group')} "
        f"({percent(share)} of all) in which the rewards differ but cancel in the sum. GDPO learns from such groups.",
        to_do="Leave the filter on the summed reward off.",
        evidence={"groups": groups, "share": share, "threshold": t.FILTERED},
        fix=f.framework.lines.keep_groups,
        extent=share,
    )
