"""The sections of a report other than its findings, listed once for both the terminal and HTML, which draw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gdpo_audit.facts.wording import whose
from gdpo_audit.report import prompt_tables, summary, tables
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.comparison import Changes, figures_table, how_made_table, speeds_table
from gdpo_audit.report.tables import TextTable
from gdpo_audit.trials.what_if import WhatIf
from gdpo_core.conventions import exceptions, formulas
from gdpo_core.frameworks import ALL_CONVENTIONS

# The titles of the folds in which the page shows sections.
READING = "How the log was read"
PLAN, RUN, TABLES, HOW_COMPUTED = (
    "Plan",
    "What the run did",
    "Tables",
    "How it was computed, and what it cannot tell you",
)

_LIMITS = (
    "The share of the update is a reward’s part of the advantages, Σ a A / Σ A², where a is the reward’s part of the "
    "advantage A of a response. Gradients also depend on the probabilities of the tokens, on clipping, on a KL term "
    "and on how tokens are averaged; none of that is in the log.",
    "What other methods would have done is computed from the rewards of this run. A run trained with another method "
    "would have produced other responses.",
    "This report cannot tell whether a reward measures what it is meant to measure, because it does not read the text "
    "of prompts and responses.",
)


@dataclass(frozen=True)
class Section:
    """A section of a report, which holds facts by their names, a list of sentences, tables, and lines of
    configuration.
    """

    title: str = ""
    fold: str = ""  # the fold of the page in which it stands
    facts: Mapping[str, str] = field(default_factory=dict)
    items: Sequence[str] = ()
    tables: Sequence[TextTable | None] = ()  # None in place of a table: there is nothing to show
    lines: Mapping[str, str] = field(default_factory=dict)  # lines of configuration, by what they do


def sections(report: AuditReport) -> list[Section]:
    """Return all sections of a report, in the order in which they are shown."""
    return [
        _plan(report),
        *([what_if_section(report.alternative)] if report.alternative else []),
        Section(fold=PLAN, tables=[tables.rewards_table(report)]),
        Section(fold=TABLES, tables=[tables.correlations_table(report)]),
        Section(fold=TABLES, items=prompt_tables.taught(report), tables=[prompt_tables.prompts_table(report)]),
        Section(fold=TABLES, tables=[tables.by_table(report)]),
        Section(RUN, RUN, facts={**summary.source_facts(report), **summary.run_facts(report)}),
        _formulas(report),
        Section("What this report cannot tell you", HOW_COMPUTED, items=_LIMITS),
    ]


def above_and_below(report: AuditReport) -> tuple[list[Section], list[Section]]:
    """Return two lists: the sections that stand above the findings of a report, and the sections below the findings."""
    every = sections(report)
    return [s for s in every if s.fold in (PLAN, "")], [s for s in every if s.fold not in (PLAN, "")]


def _plan(report: AuditReport) -> Section:
    """Return the section with the plan: a table of the settings that were tried on the log, and lines of configuration.

    Each setting but the run's own has lines; the lines of the recommended setting come first.
    """
    rows = sorted(report.plan[1:], key=lambda row: not row.recommended)
    lines = {row.do: row.lines or "# no lines are known" for row in rows}
    return Section(fold=PLAN, tables=[tables.plan_table(report)], lines=lines)


def _formulas(report: AuditReport) -> Section:
    """Return the section with the formulas of the method and the convention that made the run's advantages.

    Where the log does not show the method, the section has the formulas of GDPO. Where it shows the method but not the
    convention, the section has the formulas of a convention that fits the advantages.
    """
    method, convention = report.run["method"], ALL_CONVENTIONS[report.run["convention_used"]]
    title = "How the run’s advantages were computed"
    if not method:
        title = "How GDPO computes advantages (the log does not show which method ran)"
    if method and report.run["convention"] is None:
        fit = whose(report.run["convention_used"])
        title = f"Formulas that fit the run’s advantages: those of {fit} (the log does not show whose formulas ran)"
    return Section(
        title,
        HOW_COMPUTED,
        items=[*formulas(method or "gdpo", convention, len(report.rewards)), *exceptions(convention)],
    )


def what_if_section(w: WhatIf) -> Section:
    """Return the section that shows a run as it was beside the same run under another setting."""
    return Section(tables=[tables.what_if_table(w)], lines={"What sets this": w.fix} if w.fix else {})


def changes_sections(c: Changes) -> list[Section]:
    """Return the two sections that show a comparison of runs.

    The first has the paths of the runs. The second has three tables: of what differs in how the runs were made, of all
    compared figures, whether they differ or not, and of the rewards' speeds. None stands in place of the first or the
    third table where it would be empty.
    """
    named = (("A", c.a, c.runs_a), ("B", c.b, c.runs_b))
    runs = {side: "\n".join(paths) if len(paths) > 1 else name for side, name, paths in named}
    return [Section(facts=runs), Section(tables=[how_made_table(c), figures_table(c), speeds_table(c)])]
