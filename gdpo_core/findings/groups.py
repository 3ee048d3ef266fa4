"""What a method makes of the groups: ties, silence, amplification, inverted priorities, and who cannot see it."""

from collections.abc import Iterator
from math import isnan

import polars as pl

from gdpo_core import settings
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.findings.facts import NAMES, Facts, Finding, count, named, percent
from gdpo_core.findings.thresholds import (
    AMPLIFIES_INFO,
    AMPLIFIES_WARNING,
    BLIND,
    FILTERED,
    INVERTED_INFO,
    INVERTED_WARNING,
    SILENT_INFO,
    SILENT_WARNING,
    TIES,
)


def ties_hide_signal(f: Facts) -> Iterator[Finding]:
    """Different rewards get the same advantage."""
    ties, with_gdpo = f.ties(f.acting), f.ties("gdpo")
    pairs = f.part(f"{f.acting}_tied_pairs", f"{f.acting}_different_pairs")
    if not ties >= TIES:
        return
    evidence = {
        "method": f.acting,
        "groups_with_ties": ties,
        "tied_pairs": pairs,
        "groups_with_ties_gdpo": with_gdpo,
        "mixed_groups": int(f.totals[f"{f.acting}_mixed_groups"]),
        "threshold": TIES,
    }
    message = [
        f"{f.under}, {percent(ties)} of the groups whose rewards differ hold responses with different rewards and the "
        f"same advantage ({percent(pairs)} of the pairs that differ): the update cannot tell them apart."
    ]
    worse = False
    if f.plan.primary is not None:
        tied = int(f.totals[f"{f.acting}_tied_primary"])
        evidence |= {"tied_primary_pairs": tied}
        differ = "differs" if tied == 1 else "differ"
        message.append(f"{count(tied, 'tied pair')} {differ} in {f.rewards[f.plan.primary]}.")
        if tied and not f.is_gdpo:
            right, wrong = int(f.totals["gdpo_right"]), int(f.totals["gdpo_wrong"])
            evidence |= {"gdpo_right": right, "gdpo_wrong": wrong}
            of_grpo = "" if f.acting == "grpo" else " of those that GRPO ties"
            message.append(f"GDPO would put {right:,}{of_grpo} the right way round and {wrong:,} the wrong way round.")
            worse = wrong > right
    fix = None
    if not f.is_gdpo and with_gdpo < ties:
        message.append(f"GDPO would leave ties in {percent(with_gdpo)} of these groups.")
        if worse:
            message.append("That tells more apart, but not what comes first: a larger weight or a gate does.")
        else:
            fix = settings.switch_to_gdpo(f.run.framework, f.rewards, f.plan.weights)
    else:
        message.append("Weights that are not equal, or a finer reward, tell more of them apart.")
    yield Finding("ties-hide-signal", "warning", " ".join(message), evidence, fix)


def silent_groups(f: Facts) -> Iterator[Finding]:
    """Groups whose advantages are all 0."""
    shares = {m: f.part(f"{m}_silent_groups", "groups") for m in f.methods}
    silent = shares[f.acting]
    if not silent >= SILENT_INFO:
        return
    message = [
        f"{f.under}, {percent(silent)} of the groups are silent: every response there has advantage 0 and adds nothing "
        "to the policy gradient."
    ]
    if not f.is_gdpo and shares["gdpo"] < silent:
        message.append(f"Under GDPO it would be {percent(shares['gdpo'])}.")
    message.append("Mostly such prompts are too easy or too hard: larger groups or other prompts help.")
    yield Finding(
        "silent-groups",
        "warning" if silent >= SILENT_WARNING else "info",
        " ".join(message),
        {
            "method": f.acting,
            "silent_groups": silent,
            **{f"silent_groups_{m}": share for m, share in shares.items()},
            "groups": int(f.totals["groups"]),
            "threshold_info": SILENT_INFO,
            "threshold_warning": SILENT_WARNING,
        },
        settings.set_group_size(f.run.framework, 2 * f.run.group_size) if f.run.group_size else None,
    )


def batch_step_amplifies(f: Facts) -> Iterator[Finding]:
    """A std over the whole batch scales up what is left beside silent groups."""
    by_batch_std = f.acting == "grpo_batch_std"
    if CONVENTIONS[f.plan.convention].last_step == "group" and not by_batch_std:
        return
    # Scaled by the std of their own group, or by GDPO in a batch without silent groups, advantages have mean square 1.
    size = pl.col("grpo_batch_std_squares" if by_batch_std else "responses")
    live = f.batches.filter(pl.col("live_responses") > 0)
    live = live.select("step", factor=(size / pl.col("live_responses")).sqrt())
    if not len(live) or live["factor"].mean() < AMPLIFIES_INFO:
        return
    factor, largest = live["factor"].mean(), live.row(live["factor"].arg_max(), named=True)
    share = f.part("live_responses", "responses")
    most = f" (up to {largest['factor']:.2f}, at step {largest['step']})" if len(live) > 1 else ""
    if by_batch_std:
        does = "Dividing by the batch's std multiplies"
        against = "dividing each group by its own"
    else:
        does = f"GDPO's batch step {'multiplies' if f.is_gdpo else 'would multiply'}"
        against = "a batch in which all groups differ"
    yield Finding(
        "batch-step-amplifies",
        "warning" if (f.is_gdpo or by_batch_std) and factor >= AMPLIFIES_WARNING else "info",
        f"{does} the advantages of the groups that differ by {factor:.2f} on average{most}, compared with {against}. "
        f"Only {percent(share)} of the responses are in such groups, and the std runs over all. That acts like a "
        "larger learning rate, and no metric reports it. Watch the share of silent groups; if it grows, lower the "
        "learning rate or replace those prompts.",
        {
            "method": f.acting if by_batch_std else "gdpo",
            "factor": factor,
            "largest_factor": largest["factor"],
            "largest_at_step": largest["step"],
            "live_responses": share,
            "threshold_info": AMPLIFIES_INFO,
            "threshold_warning": AMPLIFIES_WARNING,
        },
        None,
    )


def priority_inversion(f: Facts) -> Iterator[Finding]:
    """A response with less of the primary reward gets more."""
    found = f.inversions(f.acting)
    if len(f.rewards) < 2 or not found >= INVERTED_INFO:  # NaN without a primary reward
        return
    primary = f.rewards[f.plan.primary]
    by_method = {m: f.inversions(m) for m in f.methods if not isnan(f.inversions(m))}
    lowest = min(by_method, key=by_method.get)
    compared = named([f"{NAMES[m]} {percent(share)}" for m, share in by_method.items()])
    other = _strongest_opponent(f)
    best = f"{NAMES[lowest]} has the fewest here, but" if by_method[lowest] < found else "No other method has fewer:"
    yield Finding(
        "priority-inversion",
        "warning" if found >= INVERTED_WARNING else "info",
        f"{f.under}, in {percent(found)} of the pairs that differ in {primary} the response with less {primary} gets "
        f"more ({compared}). {best} no normalisation puts {primary} first. A larger weight on it helps; so does "
        f"letting the others, above all {f.rewards[other]}, count only where {primary} is reached.",
        {
            "primary": primary,
            "method": f.acting,
            "inversions": found,
            **{f"inversions_{m}": share for m, share in by_method.items()},
            "pairs": int(f.totals[f"{f.acting}_primary_pairs"]),
            "threshold_info": INVERTED_INFO,
            "threshold_warning": INVERTED_WARNING,
        },
        settings.gate(f.run.framework, f.rewards, f.rewards[other], primary, f.batches[f"high_{f.plan.primary}"].max()),
    )


def blind_zero_std_metric(f: Facts) -> Iterator[Finding]:
    """The trainer's metric does not show groups in which a reward is constant."""
    dead = {name: f.dead(k) for k, name in enumerate(f.rewards)}
    sees = f.part("zero_sum_std_groups", "groups")
    most = max(dead, key=dead.get)
    if f.run.framework not in ("trl", "ms_swift") or len(dead) < 2:
        return
    over_batch = {"gdpo": "normalize_then_sum", "grpo_batch_std": 'scale_rewards="batch"'}
    blind = f.run.framework == "trl" and f.recipe is not None and f.acting in over_batch
    if dead[most] - (0 if blind else sees) < BLIND:
        return
    why = (
        f"Under {over_batch[f.acting]} it looks at the std of the whole batch: it is 0, or 1 if that is constant"
        if blind
        else f"It looks at the summed reward, which is constant in {percent(sees)}"
    )
    yield Finding(
        "blind-zero-std-metric",
        "warning" if blind else "info",
        f"{'TRL' if f.run.framework == 'trl' else 'ms-swift'}'s frac_reward_zero_std does not show that {most} is "
        f"constant in {percent(dead[most])} of the groups. {why}. Log the share of constant groups of each reward "
        "yourself to see a reward die.",
        {
            "reward": most,
            "dead_groups": dead[most],
            "groups_with_constant_sum": sees,
            "threshold": BLIND,
        },
        None,
    )


def filter_drops_signal(f: Facts) -> Iterator[Finding]:
    """A filter on the summed reward would drop groups that GDPO can use."""
    share = f.part("filtered_groups", "groups")
    if not share > FILTERED:
        return
    fix = settings.keep_groups(f.run.framework)
    option = {
        "verl": "algorithm.filter_groups with metric reward",
        "ms_swift": "--dynamic_sample",
        "nemo_rl": "grpo.use_dynamic_sampling",
    }.get(f.run.framework)
    filters = (
        f"A filter on the std of the summed reward ({option})"
        if option
        else ("A filter on the std of the summed reward, as other frameworks' dynamic sampling has it,")
    )
    uses = "GDPO uses" if f.is_gdpo else "GDPO would use (under GRPO they are silent)"
    yield Finding(
        "filter-drops-signal",
        "warning" if f.is_gdpo and option else "info",
        f"{filters} would drop {count(f.totals['filtered_groups'], 'group')} ({percent(share)}) that {uses}: their "
        "rewards differ and cancel in the sum. With GDPO leave the filter off, or filter where every reward is "
        "constant.",
        {"groups": int(f.totals["filtered_groups"]), "share": share, "threshold": FILTERED},
        fix if f.is_gdpo else None,
    )


def _strongest_opponent(f: Facts) -> int:
    """The reward that pulls most against the primary one; if none does, the one with the most of the update."""
    others = [k for k in range(len(f.rewards)) if k != f.plan.primary]
    pulls = {k: f.correlation(k, f.plan.primary) for k in others}
    against = [k for k in others if pulls[k] < 0]
    shares = f.shares(f.acting)
    if against:
        return min(against, key=pulls.get)
    return max(others, key=lambda k: -1.0 if isnan(shares[k]) else shares[k])
