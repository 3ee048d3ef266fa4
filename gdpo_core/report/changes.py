"""What changed between two runs: how they were made, and how their figures differ beyond the scatter of their steps."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from msgspec import Meta

from gdpo_core._words import MISSING, count, listing, number, percent
from gdpo_core.conventions import NAMES
from gdpo_core.report import svg
from gdpo_core.report.figures import Figure
from gdpo_core.report.sentences import Table, comparable, comparison, shown_method
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.over_time import DEAD, MEAN, SHARE, SILENT, TIES, column
from gdpo_core.runs.sums import Array

# The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; for more, the last one is a little wide.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_LEVEL = 0.95  # of the intervals
_FEWEST = 3  # steps below which their scatter says nothing

_SETTINGS = ("written by", "responses per group", "method", "convention", "weights")


_FIGURES = ("mean", "constant groups", "share of the update", "groups with ties", "silent groups")


@dataclass(frozen=True)
class Change:
    """One figure of both runs: means over the steps, their difference, and its interval."""

    figure: Annotated[str, Meta(examples=list(_FIGURES))]
    reward: Annotated[str | None, Meta(description="null: of all rewards together.")]
    a: float | None
    b: float | None
    difference: Annotated[float | None, Meta(description="b - a")]
    low: Annotated[float | None, Meta(description="Of the interval of the difference; null: too few steps.")]
    high: float | None
    clear: Annotated[bool, Meta(description="Whether the interval leaves out 0.")]


@dataclass(frozen=True)
class Setting:
    """How the two runs were made, where that differs; in words."""

    name: Annotated[str, Meta(examples=list(_SETTINGS))]
    a: str
    b: str


@dataclass(frozen=True)
class Changes:
    """All that changed from run a to run b: what `gdpo compare --json` writes."""

    schema: Literal[1] = field(default=1, kw_only=True)
    a: Annotated[str, Meta(description="The path of the first run.")]
    b: str
    method_a: Annotated[str, Meta(description="Under which ties, shares and silent groups of a are computed.")]
    method_b: str
    settings: tuple[Setting, ...]
    rewards_of_a: Annotated[tuple[str, ...], Meta(description="Rewards that b does not have.")]
    rewards_of_b: tuple[str, ...]
    paired: Annotated[
        bool, Meta(description="Step by step, over the steps that both runs hold; else over all steps of each.")
    ]
    steps_a: int
    steps_b: int
    figures: tuple[Change, ...]
    level: Annotated[float, Meta(description="Of the intervals.")] = field(default=_LEVEL, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values, ready for JSON."""
        return asdict(self)


def changes(a: AuditReport, b: AuditReport) -> Changes:
    """What changed from run a to run b. Ties, shares and silent groups are those of each run's own method.

    The figures are means over steps; of a long run, over rows of a few steps each. Where at least half of the steps
    of the shorter run are in the other too, these are compared pair by pair, so that a course that both share cancels.
    """
    rows_a, rows_b = _same_steps(a.steps, b.steps)
    paired = 2 * len(rows_a) >= min(len(a.steps), len(b.steps))  # else most of what the runs hold would be left out
    if not paired:
        rows_a, rows_b = a.steps, b.steps
    method_a, method_b = (shown_method(report)[0] or "grpo" for report in (a, b))
    names_a, names_b = ([reward["name"] for reward in report.rewards] for report in (a, b))
    both = [name for name in names_a if name in names_b]
    of_methods = comparable(a) and comparable(b)
    compared: list[tuple[str, str | None, str, str]] = []
    for name in both:
        compared.append(("mean", name, column(MEAN, name), column(MEAN, name)))
    for name in both:
        compared.append(("constant groups", name, column(DEAD, name), column(DEAD, name)))
    if of_methods:
        for name in both:
            compared.append(("share of the update", name, column(SHARE, method_a, name), column(SHARE, method_b, name)))
        compared.append(("groups with ties", None, column(TIES, method_a), column(TIES, method_b)))
    compared.append(("silent groups", None, column(SILENT, method_a), column(SILENT, method_b)))
    cells = {name: row for name, row in comparison([a, b]).items() if name in _SETTINGS and row[0] != row[1]}
    return Changes(
        a=a.source["path"],
        b=b.source["path"],
        method_a=method_a,
        method_b=method_b,
        settings=tuple(Setting(name, *row) for name, row in cells.items()),
        rewards_of_a=tuple(name for name in names_a if name not in names_b),
        rewards_of_b=tuple(name for name in names_b if name not in names_a),
        paired=paired,
        steps_a=len(rows_a),
        steps_b=len(rows_b),
        figures=tuple(
            _change(figure, reward, _values(rows_a, of_a), _values(rows_b, of_b), paired)
            for figure, reward, of_a, of_b in compared
        ),
    )


def _same_steps(a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of both runs that stand for the same steps, in one order; none where a step has several rows."""
    keys = ["step", "step_last"]
    if any(table.select(keys).is_duplicated().any() for table in (a, b)):
        return a.clear(), b.clear()
    return a.join(b, on=keys, how="semi").sort(keys), b.join(a, on=keys, how="semi").sort(keys)


def _values(rows: pl.DataFrame, column: str) -> Array:
    """(steps,) NaN where a step has no such figure."""
    return rows[column].cast(pl.Float64).fill_null(np.nan).to_numpy()


def _change(figure: str, reward: str | None, a: Array, b: Array, paired: bool) -> Change:
    """The difference of two series with its interval.

    >>> c = _change("mean", "x", np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.5, 3.5]), True)
    >>> c.difference, round(c.low, 3), round(c.high, 3)
    (1.0, -0.242, 2.242)
    """
    if paired:
        known = ~np.isnan(a) & ~np.isnan(b)
        a, b = a[known], b[known]
    else:
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    if not len(a) or not len(b):
        return Change(figure, reward, _mean(a), _mean(b), None, None, None, False)
    difference = float(b.mean() - a.mean())
    half = _half_width([b - a] if paired else [a, b])
    low, high = (None, None) if half is None else (difference - half, difference + half)
    clear = half is not None and abs(difference) > half
    return Change(figure, reward, _mean(a), _mean(b), difference, low, high, clear)


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def _half_width(series: Sequence[Array]) -> float | None:
    """Half the 95 % interval of a sum or difference of the means of independent series; None for too few steps.

    Student's t, for two series with the degrees of freedom of Welch. Steps that resemble their neighbours count as
    fewer: n (1 − ρ) / (1 + ρ), ρ their lag-1 autocorrelation where that is positive.
    """
    if min(map(len, series)) < _FEWEST:
        return None
    resemblances = [_autocorrelation(x) for x in series]
    counts = np.array([len(x) * (1 - r) / (1 + r) for x, r in zip(series, resemblances, strict=True)])
    variances = np.array([x.var(ddof=1) for x in series]) / counts
    if not variances.any():
        return 0.0
    if counts.min() < 2:
        return None
    freedom = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()
    return float(np.interp(freedom, np.arange(1, len(_T) + 1), _T) * np.sqrt(variances.sum()))


def _autocorrelation(x: Array) -> float:
    """How much each number resembles the one before it: 0 (not, or the opposite) up to 1."""
    d = x - x.mean()
    squares = float(d @ d)
    return max(0.0, float(d[1:] @ d[:-1]) / squares) if squares else 0.0


# --- in words ---------------------------------------------------------------------------------------------------------


def headline(c: Changes) -> str:
    """What changed, in a sentence or two."""
    made = f"differ in {listing(s.name for s in c.settings)}" if c.settings else "were made the same way"
    clear = [f"the {named(x)}" if x.reward else named(x) for x in c.figures if x.clear]
    if clear:
        beyond = f"Beyond the scatter of their steps they differ in {listing(clear, most=8)}."
    elif all(x.low is None for x in c.figures):
        beyond = "They have too few steps to tell differences from scatter."
    else:
        beyond = "No figure differs beyond the scatter of their steps."
    return f"As far as the logs show, the runs {made}. {beyond}"


def settings_table(c: Changes) -> Table | None:
    """How the runs were made, where they differ; None where they do not."""
    rows = [[s.name, s.a, s.b] for s in c.settings]
    if c.rewards_of_a or c.rewards_of_b:
        rows.append(["rewards of one run", *(", ".join(r) or MISSING for r in (c.rewards_of_a, c.rewards_of_b))])
    return Table("How they were made", ["", "A", "B"], rows, "") if rows else None


def figures_table(c: Changes) -> Table:
    """The figures of both runs and their differences."""
    return Table(
        "What they did",
        ["figure", "reward", "A", "B", "B − A", f"{percent(_LEVEL)} interval", "clear"],
        [_row(x) for x in c.figures],
        meaning(c),
    )


def _row(x: Change) -> list[str]:
    words = number if x.figure == "mean" else percent
    interval = MISSING if x.low is None else f"{words(x.low)} to {words(x.high)}"
    clear = "too few steps" if x.low is None else "yes" if x.clear else "no"
    return [x.figure, x.reward or "", words(x.a), words(x.b), words(x.difference), interval, clear]


def changes_figures(c: Changes) -> list[Figure]:
    """The differences of shares with their intervals as a chart; means have units of their own."""
    groups: dict[str, list[svg.Interval]] = {}
    rows: list[dict[str, object]] = []
    for x in c.figures:
        if x.figure == "mean" or x.difference is None or x.low is None or x.high is None:
            continue
        words, look = percent(x.difference), "alarm" if x.clear else "p0"
        row = svg.Interval(x.reward or "", look, x.low, x.difference, x.high, words, x.clear)
        groups.setdefault(x.figure, []).append(row)
        rows.append({"figure": named(x), "B − A": x.difference, "from": x.low, "to": x.high})
    if not groups:
        return []
    end = max(0.01, *(abs(edge) for of in groups.values() for row in of for edge in (row.low, row.high)))
    said = (f"{title} {row.name} {row.words}" for title, of in groups.items() for row in of)
    caption = f"B − A in percentage points, with {percent(_LEVEL)} intervals. Red and bold: the interval leaves out 0."
    drawn = svg.intervals(groups, f"B − A: {'; '.join(said)}.", (-end, end))
    return [Figure("Differences of shares", caption, drawn, rows)]


def named(x: Change) -> str:
    """A figure with its reward."""
    return f"{x.figure} of {x.reward}" if x.reward else x.figure


def meaning(c: Changes) -> str:
    """Where the numbers come from, and what they cannot tell."""
    if c.paired:
        over = f"Means over {count(c.steps_a, 'step')} that both runs hold; differences are taken step by step."
    else:
        over = (
            f"The runs share too few step numbers to pair them: means over {count(c.steps_a, 'row')} of steps of A and "
            f"{count(c.steps_b, 'row')} of B."
        )
    methods = NAMES[c.method_a]
    if c.method_a != c.method_b:
        methods = f"{NAMES[c.method_a]} in A, {NAMES[c.method_b]} in B"
    return (
        f"{over} Differences of shares are in percentage points. Interval: Student’s t over these steps; steps that "
        f"resemble their neighbours count as fewer. Clear: it leaves out 0. Of {1 / (1 - _LEVEL):.0f} figures that did "
        "not change, about one looks as if it had. These are two runs: what another seed would have done is not in "
        f"the interval. Ties, shares of the update and silent groups under {methods}."
    )
