"""Compute what changed from one run to another, or from several runs of one kind to several of another kind."""

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import polars as pl

from gdpo_audit.comparing.speeds import pooled_speeds, reports_in
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.comparison import HOW_MADE, SEEDS_CLEAR, Change, Changes, HowMade, PooledSpeed, changes_headline
from gdpo_audit.report.summary import comparable, shown_method
from gdpo_audit.sums.over_time import DEAD_SHARE, MEAN, PUSH, SILENT_SHARE, TIED_SHARE, UPDATE_SHARE, column_name
from gdpo_audit.sums.sums import Array
from gdpo_core.conventions import NAMES
from gdpo_core.intervals import CONFIDENCE, half_width
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.words import listing

__all__ = ["Changes", "changes", "changes_headline"]


def changes(a: AuditReport | Sequence[AuditReport], b: AuditReport | Sequence[AuditReport]) -> Changes:
    """Return what differs between run a and run b, or between the runs a and the runs b.

    The runs of one side are repetitions: they have one method, and differ in their seeds. Ties, shares, pushes and
    silent groups are computed under the method of their side.

    The result compares numbers such as the mean of a reward. A run has one value of each number for each row of its
    table of steps. A row stands for one step, or for a few steps of a long run. With one run on each side, the means
    over the rows are compared. With several runs on each side, each run counts as one number, its mean over the rows.
    The interval of the difference then comes from how much the runs of a side differ.

    A row counts only if all runs have a row for the same steps. All rows count instead if fewer than half of the rows
    of the shortest run are shared in this way, or if a run has two rows for the same steps. Where only shared rows
    count, two single runs are compared row by row: a rise or fall that both runs have in common then cancels.

    Raises InputError for a side that is no report and no sequence of reports, for a side without a run, for a single
    run beside several, and for runs of one side by two methods.
    """
    first, second = (reports_in(side, "changes") for side in (a, b))
    runs, several = [*first, *second], len(first) + len(second) > 2
    got = f"{len(first)} and {len(second)}"
    expect(min(len(first), len(second)) > several, "--with", "at least two runs on each side", got)
    tables, shared = _comparable_rows([report.steps for report in runs])
    tables_a, tables_b = tables[: len(first)], tables[len(first) :]
    method_a, method_b = _method_of(first), _method_of(second)
    names_a, names_b = _names(first), _names(second)
    paired = shared and not several
    figures = []
    for figure, reward, of_a, of_b in _columns([n for n in names_a if n in names_b], method_a, method_b, runs):
        x, y = (
            [_values(table, column_name) for table in side]
            for side, column_name in ((tables_a, of_a), (tables_b, of_b))
        )
        if several:
            x, y = ([np.array([_mean(run) for run in side], dtype=float)] for side in (x, y))
        figures.append(_change(figure, reward, x[0], y[0], paired, several))
    paths_a, paths_b = (tuple(report.source["path"] for report in side) for side in (first, second))
    return Changes(
        a=listing(paths_a, link=""),
        b=listing(paths_b, link=""),
        runs_a=paths_a,
        runs_b=paths_b,
        method_a=method_a,
        method_b=method_b,
        settings=_how_made(first, second),
        rewards_of_a=tuple(name for name in names_a if name not in names_b),
        rewards_of_b=tuple(name for name in names_b if name not in names_a),
        unit="runs" if several else "steps",
        paired=paired,
        groups=min(report.source["groups"] for report in runs),
        steps_a=min(map(len, tables_a)),
        steps_b=min(map(len, tables_b)),
        figures=tuple(figures),
        speeds=_speeds(runs),
        clear_by_seed=round(1 - CONFIDENCE, 4) if several else SEEDS_CLEAR,
    )


def _speeds(runs: Sequence[AuditReport]) -> tuple[PooledSpeed, ...]:
    """Return the speed at which each reward follows a push, over all runs together.

    () where one of the logs tells no speeds, as when it is too short.
    """
    try:
        return pooled_speeds(runs)
    except InputError:  # as of a log that is too short
        return ()


def _columns(
    both: Sequence[str], method_a: str, method_b: str, runs: Sequence[AuditReport]
) -> Iterator[tuple[str, str | None, str, str]]:
    """Yield the figures in which the runs A and B are compared, each as a tuple of four names.

    The four are the figure, its reward, its column in the tables of steps of A, and its column in the tables of steps
    of B. The reward is None for a figure of all rewards together, such as ties.

    both: the rewards that all runs have.
    method_a, method_b: the methods of A and of B.
    runs: all reports; ties, shares and pushes are left out if one report does not tell them.
    """
    for figure, what in (("mean", MEAN), ("constant groups", DEAD_SHARE)):
        yield from ((figure, name, column_name(what, name), column_name(what, name)) for name in both)
    if all(map(comparable, runs)):
        for name in both:
            yield (
                "share of the update",
                name,
                column_name(UPDATE_SHARE, method_a, name),
                column_name(UPDATE_SHARE, method_b, name),
            )
        for name in both:
            yield "push", name, column_name(PUSH, method_a, name), column_name(PUSH, method_b, name)
        yield "groups with ties", None, column_name(TIED_SHARE, method_a), column_name(TIED_SHARE, method_b)
    yield "silent groups", None, column_name(SILENT_SHARE, method_a), column_name(SILENT_SHARE, method_b)


def _how_made(*sides: Sequence[AuditReport]) -> tuple[HowMade, ...]:
    """Return the things in which the runs of two sides were made differently: the name of each thing, and its value on
    each side.

    Where the runs of one side differ from each other, all of their values are named.
    """
    made = {
        name: [" / ".join(dict.fromkeys(map(in_words, side))) for side in sides] for name, in_words in HOW_MADE.items()
    }
    return tuple(HowMade(name, a, b) for name, (a, b) in made.items() if a != b)


def _names(side: Sequence[AuditReport]) -> list[str]:
    """Return the names of the rewards that all runs of a side have, in the order of its first run."""
    first, *rest = [[reward["name"] for reward in report.rewards] for report in side]
    return [name for name in first if all(name in names for names in rest)]


def _method_of(side: Sequence[AuditReport]) -> str:
    """Return the method under which the figures of one side are computed.

    It is the method that its runs had. Where the logs do not show it, it is the method that was asked for, or GRPO if
    none was.

    Raises InputError where the runs had several methods.
    """
    methods = dict.fromkeys(shown_method(report)[0] or "grpo" for report in side)
    first, got = side[0].source["path"], f"{listing(NAMES[m] for m in methods)}"
    expect(len(methods) == 1, f"{first} and the runs beside it", "runs by one method", got)
    return next(iter(methods))


def _comparable_rows(tables: Sequence[pl.DataFrame]) -> tuple[Sequence[pl.DataFrame], bool]:
    """Return the rows of each table that can be compared step by step, and True; or the tables as they are, and False.

    Rows can be compared if each step has one row and all runs share at least half of the steps of the shortest run. The
    rows of the shared steps are then returned in one order.

    tables: for each run, its table of steps.
    """
    keys = ["step", "step_last"]
    ambiguous = any(table.select(keys).is_duplicated().any() for table in tables)
    if ambiguous:  # a step that has several rows in one run pairs with no row of another
        return tables, False
    shared = reduce(lambda x, y: x.join(y, on=keys, how="semi"), (table.select(keys) for table in tables))
    if 2 * len(shared) < min(map(len, tables)):  # most of the runs would be left out
        return tables, False
    return [table.join(shared, on=keys, how="semi").sort(keys) for table in tables], True


def _values(rows: pl.DataFrame, column: str) -> Array:
    """Return (steps,) the numbers in one column of a report's steps, NaN where a step has none."""
    return rows[column].cast(pl.Float64).fill_null(np.nan).to_numpy()


def _mean(values: Array) -> float | None:
    """Return the mean of the values that are not NaN; None where there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _change(figure: str, reward: str | None, a: Array, b: Array, paired: bool, runs: bool = False) -> Change:
    """Return the difference of the means of two series, b less a, with its interval.

    The difference is None where a series has no number, and the interval is None where a series has too few.

    figure, reward: what the series are of.
    a, b: the two series of numbers, NaN for a missing one.
    paired: whether they are compared number by number, so that a number counts only if both series have it.
    runs: whether each number is of a whole run; else the numbers are of steps, in order.

    >>> c = _change("mean", "x", np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.5, 3.5]), True)
    >>> c.difference, round(c.low, 3), round(c.high, 3)
    (1.0, -0.242, 2.242)
    """
    known_a, known_b = ~np.isnan(a), ~np.isnan(b)
    if paired:
        known_a = known_b = known_a & known_b
    a, b = a[known_a], b[known_b]
    if not len(a) or not len(b):
        return Change(figure, reward, _mean(a), _mean(b), None, None, None, False)
    difference = float(b.mean() - a.mean())
    half = half_width([b - a] if paired else [a, b], runs)
    low, high = (None, None) if half is None else (difference - half, difference + half)
    return Change(
        figure, reward, _mean(a), _mean(b), difference, low, high, half is not None and abs(difference) > half
    )
