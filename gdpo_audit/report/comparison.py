"""A comparison of two sides, each one run or several repetitions of one: its records, its sentences and its tables."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from gdpo_audit.json_types import RunPart
from gdpo_audit.phrases import weights_in_turn, weights_in_words
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.meanings import SILENT_EXPLAINED
from gdpo_audit.report.summary import writer
from gdpo_audit.report.tables import TextTable
from gdpo_audit.thresholds import FEW_GROUPS
from gdpo_core.conventions import NAMES
from gdpo_core.forecasting import pool
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.intervals import CONFIDENCE
from gdpo_core.pushing import PUSH_EXPLAINED
from gdpo_core.shared.words import MISSING, count, listing, number, percent, signed

# The share of the figures that were clear between two simulated runs that differ in their seeds alone: over all set-ups
# that were tried, and in the set-ups with the fewest and the most. Between several runs a side it is at most
# 1 − CONFIDENCE.
SEEDS_CLEAR, SEEDS_FEWEST, SEEDS_MOST = 0.10, 0.01, 0.51

_FIGURES = ("mean", "constant groups", "share of the update", "push", "groups with ties", "silent groups")


def _weights(run: RunPart) -> str:
    """Return in words the weights that made the logged advantages of a run, and which of them the log does not show.

    Empty where the audit found no method that made these advantages.
    """
    if run["weights_in_turn"]:
        return weights_in_turn([(phase["step"], phase["weights"]) for phase in run["weights_in_turn"]])
    known = {name: w for name, w in (run["weights"] or {}).items() if w is not None}
    unknown = [f"{name} not shown by the log" for name in run["weights"] or {} if name not in known]
    return "; ".join([*([weights_in_words(known, bool(run["weights_up_to_scale"]))] if known else []), *unknown])


HOW_MADE: dict[str, Callable[[AuditReport], str]] = {  # how a run was made, in words
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
    """One figure on both sides of a comparison: its means over steps or runs, their difference, and the interval of
    that difference.
    """

    figure: Annotated[str, Meta(examples=list(_FIGURES))]
    reward: Annotated[str | None, Meta(description="null: of all rewards together.")]
    a: float | None
    b: float | None
    difference: Annotated[float | None, Meta(description="b - a")]
    low: Annotated[float | None, Meta(description="The lower end of its interval; null: too few steps or runs.")]
    high: float | None
    clear: Annotated[bool, Meta(description="Whether the interval leaves out 0.")]


@dataclass(frozen=True)
class HowMade:
    """One thing in which the runs of two sides were made differently: its name, and its value on side a and side b."""

    name: Annotated[str, Meta(examples=list(HOW_MADE))]
    a: str
    b: str


@dataclass(frozen=True)
class PooledSpeed:
    """The speed at which one reward followed a push over several runs.

    reward: the name of the reward.
    speed: how far the logit of the reward's rate moved in a step for a push of 1.
    error: the standard error of the speed.
    between: how far the speeds of the runs differ beyond their errors, as a standard deviation.
    by_run: the speed and its error in each run; None where a run does not tell it.
    """

    reward: str
    speed: float
    error: float
    between: float
    by_run: tuple[tuple[float, float] | None, ...]

    def of_runs(self, runs: slice) -> tuple[float, float] | None:
        """Return the speed pooled over some of the runs, and its standard error; None where none of these runs tells
        it.

        runs: the places of the runs in `by_run`.
        """
        known = np.array([x for x in self.by_run[runs] if x is not None])
        return pool(known[:, 0], known[:, 1])[:2] if len(known) else None


@dataclass(frozen=True)
class Changes:
    """All that changed from run a to run b, or from the runs a to the runs b: what `gdpo compare --json` writes."""

    schema: Literal[1] = field(default=1, kw_only=True)
    a: Annotated[str, Meta(description="The path of the first run; of several, with commas between them.")]
    b: str
    runs_a: Annotated[tuple[str, ...], Meta(description="The paths of the runs that a stands for.")]
    runs_b: tuple[str, ...]
    method_a: Annotated[
        str, Meta(description="The method under which ties, shares, pushes and silent groups of a are computed.")
    ]
    method_b: str
    settings: tuple[HowMade, ...]
    rewards_of_a: Annotated[tuple[str, ...], Meta(description="Rewards that b does not have.")]
    rewards_of_b: tuple[str, ...]
    unit: Annotated[Literal["steps", "runs"], Meta(description="What the interval is taken over.")]
    paired: Annotated[bool, Meta(description="true: compared step by step; else all of a beside all of b.")]
    steps_a: Annotated[int, Meta(description="Rows of steps; of several runs, those of the shortest.")]
    steps_b: int
    groups: Annotated[int, Meta(description="Those of the run that has the fewest.")]
    figures: tuple[Change, ...]
    speeds: Annotated[
        tuple[PooledSpeed, ...],
        Meta(description="How fast each reward follows a push, over all runs; empty where a log does not tell it."),
    ]
    level: Annotated[float, Meta(description="The confidence of the intervals.")] = field(
        default=CONFIDENCE, kw_only=True
    )
    clear_by_seed: Annotated[
        float, Meta(description="Share of the figures that are clear in simulated runs which differ in the seed alone.")
    ]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, ready for JSON."""
        return asdict(self)


# --- in words ---------------------------------------------------------------------------------------------------------


def changes_headline(c: Changes) -> str:
    """Return in a few sentences how the runs were made differently, and which of their figures clearly differ. If a run
    has few groups, a sentence that warns of that comes first.
    """
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
    few = f"A run of {count(c.groups, 'group')} is too short to judge, so take what follows as a first hint. "
    few *= c.groups < FEW_GROUPS
    return f"{few}As far as the logs show, the runs {made}. {beyond}"


def how_made_table(c: Changes) -> TextTable | None:
    """Return a table of what differs in how the runs of the two sides were made, such as their methods or weights, and
    of the rewards that only one side has. None if there is nothing of either kind.
    """
    rows = [[s.name, s.a, s.b] for s in c.settings]
    if c.rewards_of_a or c.rewards_of_b:
        rows.append(["rewards of one run", *(", ".join(r) or MISSING for r in (c.rewards_of_a, c.rewards_of_b))])
    return TextTable("How the runs were made", ["", "A", "B"], rows, prose=True) if rows else None


def figures_table(c: Changes) -> TextTable:
    """Return a table of the figures of both sides with their differences."""
    return TextTable(
        "What the runs did",
        ["figure", "reward", "A", "B", "B − A", f"{percent(CONFIDENCE)} interval", "clear"],
        [_row(x, c.unit) for x in c.figures],
        caveat(c),
    )


def speeds_table(c: Changes) -> TextTable | None:
    """Return a table of the speed of each reward: in the runs of A, in the runs of B, and over all runs. None where no
    speed is known.
    """
    if not c.speeds:
        return None
    sides = (slice(len(c.runs_a)), slice(len(c.runs_a), None))
    rows = [
        [x.reward, *(_with_error(x.of_runs(side)) for side in sides), _with_error((x.speed, x.error))] for x in c.speeds
    ]
    caveat = (
        "A speed is how far the logit of a reward’s rate moves in a step at a push of 1 while the rate is one half, "
        "with its standard error. A speed belongs to the model and the reward: where A and B agree, a forecast from "
        "either run can be trusted more."
    )
    return TextTable("How fast each reward follows a push", ["reward", "A", "B", "together"], rows, caveat)


def _with_error(speed: tuple[float, float] | None) -> str:
    """Return a speed and its standard error as text; a dash where they are not known."""
    return MISSING if speed is None else f"{speed[0]:.3f} ± {speed[1]:.3f}"


def _row(x: Change, unit: str) -> list[str]:
    """Return the cells of one figure as text, in the order of the columns of `figures_table`.

    unit: "steps" or "runs": what the interval is taken over.
    """
    words = {"mean": number, "push": signed}.get(x.figure, percent)
    interval = MISSING if x.low is None else f"{words(x.low)} to {words(x.high)}"
    clear = f"too few {unit}" if x.low is None else "yes" if x.clear else "no"
    return [x.figure, x.reward or "", words(x.a), words(x.b), words(x.difference), interval, clear]


def figure_name(x: Change) -> str:
    """Return the name of the figure that changed, with the name of the reward if it is a figure of one reward."""
    return f"{x.figure} of {x.reward}" if x.reward else x.figure


def caveat(c: Changes) -> str:
    """Return sentences that say where the numbers of a comparison come from, and what they cannot tell."""
    if c.unit == "runs":
        how = (
            f"The figures are means over {count(len(c.runs_a), 'run')} of A and {count(len(c.runs_b), 'run')} of B. "
            "The interval is Student’s t over runs; a difference is clear if its interval leaves out 0. "
            f"Of {1 / (1 - CONFIDENCE):.0f} figures that did not change, about one at most looks as if it had changed."
        )
    else:
        over = f"{count(c.steps_a, 'step')} that both runs hold, step by step."
        if not c.paired:
            over = f"{count(c.steps_a, 'row')} of A and {count(c.steps_b, 'row')} of B, which share too few steps."
        how = (
            f"The figures are means over {over} The interval is Student’s t over these steps; a difference is clear if "
            "its interval leaves out 0. The interval does not cover what another seed would have done: of 100 figures "
            "of simulated runs that differed in the seed alone, "
            f"{100 * SEEDS_CLEAR:.0f} were clear ({100 * SEEDS_FEWEST:.0f} to {100 * SEEDS_MOST:.0f}, depending on the "
            "set-up). To tell a change from the effect of a seed, compare several runs of each kind: gdpo compare A1 "
            "A2 --with B1 --with B2."
        )
    methods = NAMES[c.method_a]
    if c.method_a != c.method_b:
        methods = f"{NAMES[c.method_a]} in A, {NAMES[c.method_b]} in B"
    under = f"Ties, shares of the update, pushes and silent groups are those under {methods}."
    return f"{how} {under} {SILENT_EXPLAINED} {PUSH_EXPLAINED}"
