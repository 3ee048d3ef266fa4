"""What stands below the findings of a report, listed once: the terminal and HTML each draw a section in their way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gdpo_audit.compare import Changes, figures_table, settings_table
from gdpo_audit.findings.what_if import WhatIf
from gdpo_audit.report import summary
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import Table

RUN, TABLES, NOTES = "What the run did", "Tables", "How it was computed, and what this cannot tell"  # folds of the page


@dataclass(frozen=True)
class Section:
    """Facts by their names, sentences, a list, tables, and lines of configuration; most sections have one of them."""

    title: str = ""
    fold: str = ""  # of the page, that it stands in
    facts: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = ()
    items: Sequence[str] = ()
    tables: Sequence[Table | None] = ()  # None: there is nothing to show
    fix: str = ""


def sections(report: AuditReport, brief: bool = False) -> list[Section]:
    """The sections of a report, in order; brief: what a terminal shows unless it is asked for all."""
    compared = summary.comparable(report)
    methods = summary.methods_table(report) if compared and (report.run["primary"] or not brief) else None
    tables = [summary.rewards_table(report, brief), methods, summary.by_table(report)]
    notes = [
        Section("How it was computed", NOTES, lines=summary.notes(report), items=summary.formulas_used(report)),
        Section("What this cannot tell", NOTES, items=summary.limits(report)),
    ]
    return [
        *([what_if_section(report.alternative)] if report.alternative else []),
        Section(RUN, RUN, facts={**summary.source_facts(report), **summary.run_facts(report)}),
        Section(fold=TABLES, tables=tables),
        *([] if brief else notes),
    ]


def what_if_section(w: WhatIf) -> Section:
    """A run as it was and under another setting."""
    return Section(tables=[summary.what_if_table(w)], fix=w.fix or "")


def changes_sections(c: Changes) -> list[Section]:
    """What changed between runs."""
    named = (("A", c.a, c.runs_a), ("B", c.b, c.runs_b))
    runs = {side: "\n".join(paths) if len(paths) > 1 else name for side, name, paths in named}
    return [Section(facts=runs), Section(tables=[settings_table(c), figures_table(c)])]
