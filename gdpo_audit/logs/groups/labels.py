"""Columns that were read as rewards, but are the same for all responses of a group, as a temperature is, or a mark of
the groups that were trained. Where no column names the groups, these are found after the rewards, and show it then.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from gdpo_audit.logs.columns.behaviour import LABEL, reason_in_groups, varies
from gdpo_audit.logs.columns.constants import says_reward
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.names import reward_column
from gdpo_audit.records import LogIssue


def without_labels(run: Run, read: Callable[..., Run]) -> Run:
    """Return the run without rewards that vary over the log and are the same for all responses of every group.

    A reward stays if its name says that it is one, or if no other is left.

    run: a run in its groups, whose rewards nobody named.
    read: reads the log with other options.
    """
    suspects = [name for name in run.rewards if not says_reward(name)]
    labels = _labels(pl.concat(run.sample), suspects) if suspects and run.sample else []
    kept = tuple(name for name in run.rewards if name not in labels)
    if not labels or not kept:
        return run
    fewer = read(rewards=kept)
    known = [issue for issue in run.issues if issue not in fewer.issues]
    told = LogIssue("no-reward", {"columns": dict.fromkeys(labels, LABEL)})
    return replace(fewer, rewards_named=False, issues=(*fewer.issues, *known, told), left_out=(*run.left_out, *labels))


def _labels(rows: pl.DataFrame, rewards: Sequence[str]) -> list[str]:
    """Return the rewards that vary, but are the same for all responses of each group.

    rows: a table of a run, in its groups.
    rewards: the names of the rewards.
    """
    groups = rows["group"].to_numpy()
    values = {name: rows[reward_column(name)].to_numpy() for name in rewards}
    varying = {name: x for name, x in values.items() if varies(x)}
    return [name for name, x in varying.items() if reason_in_groups(x, groups, labels=True) == LABEL]
