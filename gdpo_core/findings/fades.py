"""The finding about a reward that stops differing in the course of the run."""

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

from gdpo_core._words import number, percent
from gdpo_core.findings.facts import Facts, Finding, sums
from gdpo_core.findings.thresholds import AMPLIFIED_SHARE, DEAD, FADES_BATCHES, FADES_DEAD, FADES_GROUPS, FADES_SHARE
from gdpo_core.summary import Summary


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
