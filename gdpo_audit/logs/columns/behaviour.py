"""Behaviour of the number columns in a log, which tells places, clocks, labels and copies from rewards.

A place numbers the responses of a group. A clock rises along the log. A label is equal for all responses of a group. A
copy orders the responses as another column does. The numbers decide all of this. Names count in `measures` alone: a
unit or a role at the end of a name, as in cost_usd, speaks against a reward.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import polars as pl

from gdpo_audit.logs.names import GROUP_OF_ROW, ROW

LEAST_GROUPS = 8  # the fewest groups of two responses or more that have to agree; what fewer show may be chance
LEAST_PAIRS = 30  # the fewest neighbours in which both columns of a pair must differ; with fewer it may be chance
_NEARLY_ALL = 0.95  # the share of the groups, or of the rows, that counts as nearly all
# The least correlation of a clock's ranks with the numbers of its rows. A reward that is learnt never reaches it,
# because groups differ.
_FOLLOWS = 0.95
COPY = 0.5  # of the neighbours in which one copy differs, the least share in which the other differs
_FEW_VALUES = 8  # the most different values of a mark; a measured time or price has more

# Units, roles of a machine, and places, which are the last word of a name such as gen_time_s, cost_usd or
# worker_version.
_UNITS = {"s", "ms", "us", "ns", "sec", "secs", "seconds", "minutes", "usd", "eur", "cents", "bytes", "mb", "gb"}
_ROLES = {"version", "worker", "latency", "idx", "index", "node", "host", "port", "pid", "gpu", "shard", "attempt"}
_ROLES |= {"timestamp", "time", "cost", "price", "retries", "rank", "seed", "id", "uid"}

PLACE = "it numbers the responses of each group"
LABEL = "it is the same for all responses of a group"
CLOCK = "it rises along the log, as a step or a clock does"
MEASURE = "it is named like a measurement or a place, and its numbers do not speak against that"


def not_rewards(rows: pl.DataFrame, names: Sequence[str], labels: bool) -> dict[str, str]:
    """Return the columns that cannot be rewards, each with the reason in words.

    A column cannot be a reward if it numbers the responses of each group, rises along the log, or looks like a
    measurement (`measures`).
    rows: some responses in the order of the steps, with the group of each in GROUP_OF_ROW where the log shows it, and
        its place in the log in ROW where that is another order, as where a run was started again.
    names: the columns to examine.
    labels: whether a column that has one value in each group cannot be a reward, too.

    >>> rows = pl.DataFrame({GROUP_OF_ROW: [g for g in range(9) for _ in "abc"], "n": [0, 1, 2] * 9, "at": range(27)})
    >>> not_rewards(rows, ["n", "at"], labels=True)["at"]
    'it rises along the log, as a step or a clock does'
    """
    groups = rows[GROUP_OF_ROW].to_numpy() if GROUP_OF_ROW in rows.columns else None
    reasons = {name: _reason(rows[name], groups, labels) for name in names}
    if ROW in rows.columns and not rows[ROW].is_sorted():
        in_log = rows.sort(ROW)
        reasons |= {name: CLOCK for name in names if not reasons[name] and _is_clock(in_log[name])}
    return {name: why for name, why in reasons.items() if why} | {
        name: MEASURE for name, why in reasons.items() if not why and measures(name, rows[name])
    }


def measures(name: str, values: pl.Series) -> bool:
    """Return whether a column looks like a measurement, such as a time or a cost, and not like a reward.

    Two things have to hold. The name has two words or more, of which the last is a unit or a role, as in gen_time_s.
    And the column has too many different values for a grade: more than `_FEW_VALUES`, or more than two if all of them
    are whole numbers.

    >>> measures("gen_time_s", pl.Series([0.1 * k for k in range(9)])), measures("is_fast_s", pl.Series([0.0, 1.0]))
    (True, False)
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.rpartition("/")[2].lower()) if word]
    if len(words) < 2 or words[-1] not in _UNITS | _ROLES:
        return False
    there = values.drop_nulls().drop_nans()
    several_whole = there.n_unique() > 2 and bool((there.floor() == there).all())
    return several_whole or there.n_unique() > _FEW_VALUES


def _reason(column: pl.Series, groups: np.ndarray | None, labels: bool) -> str:
    """Return why one column cannot be a reward, in words; an empty text if its numbers do not speak against it.

    The text is also empty if there are no rows, if a value is missing or infinite, or if all values are equal.
    column: the values of the column.
    groups: the number of each row's group, or None if the log does not show groups.
    labels: whether a column that has one value in each group cannot be a reward.
    """
    values = column.to_numpy()
    if not varies(values):
        return ""
    if _is_clock(column):
        return CLOCK
    if groups is None:
        return PLACE if _counts_up(values) else ""
    return reason_in_groups(values, groups, labels)


def reason_in_groups(values: np.ndarray, groups: np.ndarray, labels: bool) -> str:
    """Return why a column cannot be a reward, as its values inside groups show; an empty text if they show no reason.

    There are two reasons. The first: in nearly every group the column gives each response a number of its own, and
    these are consecutive whole numbers, in any order. The second, which counts only if `labels` is true: the column has
    one value in each group.
    Groups of a single response do not count, and a group of two never counts as numbered. The text is empty if fewer
    than `LEAST_GROUPS` groups count.
    values: the value of each row.
    groups: the number of each row's group.
    labels: whether one value in each group is a reason.
    """
    order = np.lexsort((values, groups))
    inside, group = values[order], groups[order]
    first = np.append(True, group[1:] != group[:-1])
    starts = np.flatnonzero(first)
    sizes = np.diff(starts, append=len(values))
    held = sizes > 1
    if held.sum() < LEAST_GROUPS:
        return ""
    # Whole numbers in a row, each once, are a permutation of the places of a group.
    next_to_each_other = first | np.append(False, inside[1:] == inside[:-1] + 1)
    places = np.logical_and.reduceat(next_to_each_other & (inside == np.floor(inside)), starts) & (sizes > 2)
    if places[held].sum() >= _NEARLY_ALL * held.sum():
        return PLACE
    constant = inside[starts] == inside[starts + sizes - 1]
    return LABEL if labels and constant[held].all() else ""


def _is_clock(column: pl.Series) -> bool:
    """Return whether the values of a column are there in every row, differ, and rise along the rows (`_rises`)."""
    values = column.to_numpy()
    return varies(values) and _rises(values)


def varies(values: np.ndarray) -> bool:
    """Return whether there are values, all of them are finite, and they differ.

    >>> varies(np.array([-1e308, 1e308])), varies(np.array([1.0, 1.0])), varies(np.array([1, np.nan]))
    (True, False, False)
    """
    return bool(len(values) and np.isfinite(values).all() and values.min() < values.max())


def _rises(values: np.ndarray) -> bool:
    """Return whether the values rise along the rows, or nearly do, and more than `_FEW_VALUES` of them are different.

    Fewer values rise too if none ever falls and each stands in many rows, as the number of an attempt or of a stage
    does.
    """
    several = len(np.unique(values))
    if (values[1:] >= values[:-1]).all():
        return several > _FEW_VALUES or len(values) >= LEAST_PAIRS * several
    if several <= _FEW_VALUES:
        return False
    ranks = np.argsort(np.argsort(values, kind="stable"))
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1]) >= _FOLLOWS


def _counts_up(values: np.ndarray) -> bool:
    """Return whether the values count up by one from the smallest one, again and again, in at least `LEAST_GROUPS`
    runs of three rows or more: they number the responses of groups that no column names.
    """
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1] + 1))
    lengths = np.diff(starts, append=len(values))
    return len(starts) >= LEAST_GROUPS and bool((lengths > 2).all() and (values[starts] == values.min()).all())


def same_order(rows: pl.DataFrame, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of columns that order the responses of every group alike, as squashed or rescaled copies do.

    In a pair one column, y, follows another, x, in every group (`_follows`). Where x rises, y never falls, and where x
    stays, y stays. In at least half of the places where x changes, y has to change, too. A pass mark for a score
    changes far less often, so it remains a reward of its own.
    Columns with missing or infinite values, or with only one value, are left out. A pair is also left out if one column
    has two values and the second has more.
    rows: some responses, with the group of each in GROUP_OF_ROW; without that column all rows are one group.
    names: the columns to compare.

    >>> score = pl.Series("score", [float(k * 7 % 64) for k in range(64)])
    >>> [*same_order(pl.DataFrame([score, score.sqrt().alias("z")]), ["score", "z"])]
    [('score', 'z')]
    """
    groups = rows[GROUP_OF_ROW].to_numpy() if GROUP_OF_ROW in rows.columns else np.zeros(len(rows))
    values = {name: rows[name].to_numpy() for name in names}
    values = {name: x for name, x in values.items() if varies(x)}
    for first, second in combinations(values, 2):
        x, y = values[first], values[second]
        two_values = len(np.unique(x)) == 2, len(np.unique(y)) == 2
        if two_values[0] == two_values[1] and (_follows(x, y, groups) or _follows(y, x, groups)):
            yield first, second


def _follows(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> bool:
    """Return whether y follows x in each group: y never falls as x rises, and mostly changes where x changes.

    To tell this, each group is sorted by x, and each response is compared with the next one. Wherever y changes between
    the two, x has to change as well. Where x changes, y has to change in at least the share `COPY` of the cases. There
    have to be at least `LEAST_PAIRS` cases in which both change.
    x: the value of each row in the first column.
    y: the value of each row in the second column.
    groups: the number of each row's group.
    """
    order = np.lexsort((y, x, groups))
    inside = groups[order][1:] == groups[order][:-1]
    x, y = x[order], y[order]
    x_rises, y_rises, y_falls = ((x[:-1] < x[1:])[inside], (y[:-1] < y[1:])[inside], (y[1:] < y[:-1])[inside])
    if (y_falls | (y_rises & ~x_rises)).any():
        return False
    both = int((x_rises & y_rises).sum())
    return both >= LEAST_PAIRS and both >= COPY * int(x_rises.sum())
