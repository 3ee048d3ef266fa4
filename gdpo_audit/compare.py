"""What changed between two runs, or between several of each kind: how they were made, and how their figures differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from msgspec import Meta

from gdpo_audit.findings.over_time import DEAD, MEAN, PUSH, SHARE, SILENT, TIES, column
from gdpo_audit.findings.sums import Array
from gdpo_audit.findings.thresholds import FEW_GROUPS
from gdpo_audit.findings.words import weights_in_turn, weights_in_words
from gdpo_audit.json_types import RunPart
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import Table, comparable, shown_method, writer
from gdpo_audit.speeds import PooledSpeed, pooled_speeds
from gdpo_core._errors import InputError, expect
from gdpo_core._words import MISSING, count, listing, number, percent, signed
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.intervals import LEVEL, half_width
from gdpo_core.pushing import MEANING

# Of the figures of two single runs that differ in the seed alone, the share that was clear in simulated runs: in all
# settings that were tried, and in those with the fewest and the most. Of several runs a side it is 1 − LEVEL at most.
SEEDS_CLEAR, SEEDS_FEWEST, SEEDS_MOST = 0.10, 0.01, 0.51

_FIGURES = ("mean", "constant groups", "share of the update", "push", "groups with ties", "silent groups")


def _weights(run: RunPart) -> str:
    """The weights that made the logged advantages."""
    if run["weights_in_turn"]:
        return weights_in_turn([(phase["step"], phase["weights"]) for phase in run["weights_in_turn"]])
    known = {name: w for name, w in (run["weights"] or {}).items() if w is not None}
    unknown = [f"{name} not shown by the log" for name in run["weights"] or {} if name not in known]
    return "; ".join([*([weights_in_words(known, bool(run["weights_up_to_scale"]))] if known else []), *unknown])


_MADE: dict[str, Callable[[AuditReport], str]] = {  # how a run was made, in words
    "written by": writer,
    "responses per group": lambda report: number(report.source["group_size"]),
    "method": lambda report: NAMES[report.run["method"]] if report.run["method"] else "not known",
    "convention": lambda report: (
        ALL_CONVENTIONS[report.run["convention"]].name if report.run["convention"] else MISSING
    ),
    "weights": lambda report: _weights(report.run) or MISSING,
}


@dataclass(frozen=True)
class Change:
    """One figure of both runs: means over the steps, their difference, and its interval."""

    figure: Annotated[str, Meta(examples=list(_FIGURES))]
    reward: Annotated[str | None, Meta(description="null: of all rewards together.")]
    a: float | None
    b: float | None
    difference: Annotated[float | None, Meta(description="b - a")]
    low: Annotated[float | None, Meta(description="Of the interval of the difference; null: too few steps or runs.")]
    high: float | None
    clear: Annotated[bool, Meta(description="Whether the interval leaves out 0.")]


@dataclass(frozen=True)
class Setting:
    """How the two runs were made, where that differs; in words."""

    name: Annotated[str, Meta(examples=list(_MADE))]
    a: str
    b: str


@dataclass(frozen=True)
class Changes:
    """All that changed from run a to run b: what `gdpo compare --json` writes."""

    schema: Literal[1] = field(default=1, kw_only=True)
    a: Annotated[str, Meta(description="The path of the first run; of several, with commas between them.")]
    b: str
    runs_a: Annotated[tuple[str, ...], Meta(description="The paths of the runs that a stands for.")]
    runs_b: tuple[str, ...]
    method_a: Annotated[str, Meta(description="Under which ties, shares, pushes and silent groups of a are computed.")]
    method_b: str
    settings: tuple[Setting, ...]
    rewards_of_a: Annotated[tuple[str, ...], Meta(description="Rewards that b does not have.")]
    rewards_of_b: tuple[str, ...]
    unit: Annotated[Literal["steps", "runs"], Meta(description="Over which the interval is taken.")]
    paired: Annotated[bool, Meta(description="Step by step; else all of a beside all of b.")]
    steps_a: Annotated[int, Meta(description="Rows of steps; of several runs, in the shortest.")]
    steps_b: int
    groups: Annotated[int, Meta(description="In the run that has the fewest.")]
    figures: tuple[Change, ...]
    speeds: Annotated[
        tuple[PooledSpeed, ...],
        Meta(description="How fast each reward follows a push, over all runs; empty where a log does not tell it."),
    ]
    level: Annotated[float, Meta(description="Of the intervals.")] = field(default=LEVEL, kw_only=True)
    clear_by_seed: Annotated[
        float, Meta(description="Share of the figures that are clear in simulated runs which differ in the seed alone.")
    ]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values, ready for JSON."""
        return asdict(self)


def changes(a: AuditReport | Sequence[AuditReport], b: AuditReport | Sequence[AuditReport]) -> Changes:
    """What changed from run a to run b, or from the runs a to the runs b, which differ in their seeds among each other.

    Ties, shares, pushes and silent groups are those of each run's own method. Of two runs, the figures are means over
    steps; of a long run, over rows of a few steps each. Where at least half of the steps of the shorter run are in the
    other too, these are compared pair by pair, so that a course that both share cancels. Of several runs on each side,
    each run gives one mean; a figure is the mean of those, and its interval comes from their spread. Raises InputError
    for a single run beside several, and for runs of one side by two methods.
    """
    first, second = ([side] if isinstance(side, AuditReport) else list(side) for side in (a, b))
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
        settings=_settings(first, second),
        rewards_of_a=tuple(name for name in names_a if name not in names_b),
        rewards_of_b=tuple(name for name in names_b if name not in names_a),
        unit="runs" if several else "steps",
        paired=paired,
        groups=min(report.source["groups"] for report in runs),
        steps_a=min(map(len, tables_a)),
        steps_b=min(map(len, tables_b)),
        figures=tuple(figures),
        speeds=_speeds(runs),
        clear_by_seed=round(1 - LEVEL, 4) if several else SEEDS_CLEAR,
    )


def _speeds(runs: Sequence[AuditReport]) -> tuple[PooledSpeed, ...]:
    """Return how fast each reward follows a push; empty where one of the logs does not tell it."""
    try:
        return pooled_speeds(runs)
    except InputError:  # as of a log that is too short
        return ()


def _columns(
    both: Sequence[str], method_a: str, method_b: str, runs: Sequence[AuditReport]
) -> Iterator[tuple[str, str | None, str, str]]:
    """Each figure with its reward and its column in the steps of A and of B; both: rewards that all runs have."""
    for figure, what in (("mean", MEAN), ("constant groups", DEAD)):
        yield from ((figure, name, column(what, name), column(what, name)) for name in both)
    if all(map(comparable, runs)):
        for name in both:
            yield "share of the update", name, column(SHARE, method_a, name), column(SHARE, method_b, name)
        for name in both:
            yield "push", name, column(PUSH, method_a, name), column(PUSH, method_b, name)
        yield "groups with ties", None, column(TIES, method_a), column(TIES, method_b)
    yield "silent groups", None, column(SILENT, method_a), column(SILENT, method_b)


def _settings(*sides: Sequence[AuditReport]) -> tuple[Setting, ...]:
    """How the runs of both sides were made, where that differs."""
    made = {
        name: [" / ".join(dict.fromkeys(map(in_words, side))) for side in sides] for name, in_words in _MADE.items()
    }
    return tuple(Setting(name, a, b) for name, (a, b) in made.items() if a != b)


def _names(side: Sequence[AuditReport]) -> list[str]:
    """The rewards that all runs of a side have."""
    first, *rest = [[reward["name"] for reward in report.rewards] for report in side]
    return [name for name in first if all(name in names for names in rest)]


def _method_of(side: Sequence[AuditReport]) -> str:
    """The method of the runs of one side, under which their figures are."""
    methods = dict.fromkeys(shown_method(report)[0] or "grpo" for report in side)
    first, got = side[0].source["path"], f"{listing(NAMES[m] for m in methods)}"
    expect(len(methods) == 1, f"{first} and the runs beside it", "runs by one method", got)
    return next(iter(methods))


def _comparable_rows(tables: Sequence[pl.DataFrame]) -> tuple[Sequence[pl.DataFrame], bool]:
    """The rows for the steps that all runs share, in one order, and True; all rows where these are too few."""
    keys = ["step", "step_last"]
    if any(
        table.select(keys).is_duplicated().any() for table in tables
    ):  # a step that has several rows pairs with none
        return tables, False
    shared = reduce(lambda x, y: x.join(y, on=keys, how="semi"), (table.select(keys) for table in tables))
    if 2 * len(shared) < min(map(len, tables)):  # most of the runs would be left out
        return tables, False
    return [table.join(shared, on=keys, how="semi").sort(keys) for table in tables], True


def _values(rows: pl.DataFrame, column: str) -> Array:
    """(steps,) NaN where a step has no such figure."""
    return rows[column].cast(pl.Float64).fill_null(np.nan).to_numpy()


def _mean(values: Array) -> float | None:
    """The mean of the values that are known."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _change(figure: str, reward: str | None, a: Array, b: Array, paired: bool, runs: bool = False) -> Change:
    """The difference of two series with its interval; runs: the numbers are of runs, else of steps in their order.

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


# --- in words ---------------------------------------------------------------------------------------------------------


def headline(c: Changes) -> str:
    """What changed, in a sentence or two."""
    names = [s.name for s in c.settings] + ["rewards"] * bool(c.rewards_of_a or c.rewards_of_b)
    made = f"differ in {listing(names)}" if names else "were made the same way"
    scatter = "scatter of their steps" if c.unit == "steps" else "scatter between runs of one side"
    clear = [f"the {figure_name(x)}" if x.reward else figure_name(x) for x in c.figures if x.clear]
    if clear:
        beyond = f"Beyond the {scatter} they differ in {listing(clear, most=8)}."
    elif all(x.low is None for x in c.figures):
        beyond = f"They have too few {c.unit} to tell differences from scatter."
    else:
        beyond = f"No figure differs beyond the {scatter}."
    few = f"Too few to judge ({count(c.groups, 'group')} in a run). So far: " * (c.groups < FEW_GROUPS)
    return f"{few}As far as the logs show, the runs {made}. {beyond}"


def settings_table(c: Changes) -> Table | None:
    """How the runs were made, where they differ; None where they do not."""
    rows = [[s.name, s.a, s.b] for s in c.settings]
    if c.rewards_of_a or c.rewards_of_b:
        rows.append(["rewards of one run", *(", ".join(r) or MISSING for r in (c.rewards_of_a, c.rewards_of_b))])
    return Table("How they were made", ["", "A", "B"], rows, prose=True) if rows else None


def figures_table(c: Changes) -> Table:
    """The figures of both runs and their differences."""
    return Table(
        "What they did",
        ["figure", "reward", "A", "B", "B − A", f"{percent(LEVEL)} interval", "clear"],
        [_row(x, c.unit) for x in c.figures],
        caveat(c),
    )


def speeds_table(c: Changes) -> Table | None:
    """Return the speed of each reward in the runs of either side and over all of them; None where none is known."""
    if not c.speeds:
        return None
    sides = (slice(len(c.runs_a)), slice(len(c.runs_a), None))
    rows = [
        [x.reward, *(_with_error(x.of_runs(side)) for side in sides), _with_error((x.speed, x.error))] for x in c.speeds
    ]
    caveat = (
        "A speed is how far the logit of a reward’s rate moves in a step for a push of 1, with its standard error. It "
        "belongs to the model and the reward: where A and B agree, a forecast from either run can be trusted more."
    )
    return Table("How fast each reward follows a push", ["reward", "A", "B", "together"], rows, caveat)


def _with_error(speed: tuple[float, float] | None) -> str:
    """Return a speed with its standard error in words; a dash where it is not known."""
    return MISSING if speed is None else f"{speed[0]:.3f} ± {speed[1]:.3f}"


def _row(x: Change, unit: str) -> list[str]:
    words = {"mean": number, "push": signed}.get(x.figure, percent)
    interval = MISSING if x.low is None else f"{words(x.low)} to {words(x.high)}"
    clear = f"too few {unit}" if x.low is None else "yes" if x.clear else "no"
    return [x.figure, x.reward or "", words(x.a), words(x.b), words(x.difference), interval, clear]


def figure_name(x: Change) -> str:
    """A figure with its reward."""
    return f"{x.figure} of {x.reward}" if x.reward else x.figure


def caveat(c: Changes) -> str:
    """Where the numbers come from, and what they cannot tell."""
    if c.unit == "runs":
        how = (
            f"Means over {count(len(c.runs_a), 'run')} of A and {count(len(c.runs_b), 'run')} of B. Interval: "
            "Student’s t over runs; clear: it leaves out 0. "
            f"Of {1 / (1 - LEVEL):.0f} figures that did not change, at most about one looks as if it had."
        )
    else:
        over = f"{count(c.steps_a, 'step')} that both runs hold, step by step."
        if not c.paired:
            over = f"{count(c.steps_a, 'row')} of A and {count(c.steps_b, 'row')} of B, which share too few steps."
        how = (
            f"Means over {over} Interval: Student’s t over these steps; clear: it leaves out 0. What another seed "
            "would have done is not in it: of 100 figures of simulated runs that differed in the seed alone, "
            f"{100 * SEEDS_CLEAR:.0f} were clear ({100 * SEEDS_FEWEST:.0f} to {100 * SEEDS_MOST:.0f}, by the setting). "
            "Several runs of each kind, gdpo compare A1 A2 --with B1 --with B2, tell a change from a seed."
        )
    methods = NAMES[c.method_a]
    if c.method_a != c.method_b:
        methods = f"{NAMES[c.method_a]} in A, {NAMES[c.method_b]} in B"
    return f"{how} Ties, shares of the update, pushes and silent groups under {methods}. Push: {MEANING}"
