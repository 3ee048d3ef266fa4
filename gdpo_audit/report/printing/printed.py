"""The report of an audit in a terminal: on one screen, or with `--explain` as a whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from rich.console import Console
from rich.text import Text

from gdpo_audit.console import COLOURS, console_of, show_facts, show_lines, show_paragraph, show_trimmed
from gdpo_audit.facts.claims import line_of
from gdpo_audit.findings.finding import Finding
from gdpo_audit.records import Claim
from gdpo_audit.report import brief, summary
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.group_tables import GROUPS_EXPLAINED, PUNISHED_TITLE, group_tables, punished_tables
from gdpo_audit.report.printing.printed_tables import show_section, show_table
from gdpo_audit.report.sections import HOW_COMPUTED, READING, above_and_below
from gdpo_audit.report.tables import TextTable
from gdpo_core.shared.words import printable

_EVIDENCE = {"proved": "bold green", "agrees": "green", "assumed": "bold yellow"}
_MORE = "  (--explain says more, --html FILE says all)"
_SAVED = "Add --html FILE to save a fuller report, with the evidence, the formulas, a what-if and further reading."


def print_report(console: Console, report: AuditReport, groups: int = 0, explain: bool = False) -> None:
    """Print one report.

    The parts come in this order: what to do, with what to copy for it; what ran, and why there is no forecast, if there
    is none; how the log was read; the plan; what each reward did; and the findings. Without `explain`, each claim and
    each finding is one line, and of a table only the columns are printed that tell its rows apart.

    groups: the most groups that are printed for each finding; 0 for none. If it is not 0, at most as many groups with
        punished answers follow the findings. These answers are better than the group's mean of a reward, with an
        advantage of 0 or less.
    explain: whether the report is printed as a whole: with what its columns mean, the full text of each finding, and
        all other sections but the formulas and the limits.
    """
    show_paragraph(console, report.what_first, "bold")
    show_lines(console, brief.to_copy(report), "")
    show_paragraph(console, " ".join(filter(None, (report.what_ran, report.forecast_note))))
    if explain:
        _reading(console, report.reading, READING)
        _explained(console, report, groups)
    else:
        _reading(console, report.reading, READING, cut=True)
        _on_one_screen(console, report, groups)


def _on_one_screen(console: Console, report: AuditReport, groups: int) -> None:
    """Print what follows how the log was read, on one screen: notes on the log, tables, and a line per finding.

    groups: the most groups that are printed for each finding.
    """
    show_paragraph(console, brief.report_notes(report))
    for section in brief.brief_sections(report):
        show_section(console, section)
    _heading(console, report, _MORE)
    for line in brief.finding_lines(report):
        _finding_line(console, line)
    for finding in report.findings if groups else ():
        _groups(console, group_tables(report, finding, groups))
    _punished(console, report, groups)


def _explained(console: Console, report: AuditReport, groups: int) -> None:
    """Print what follows how the log was read as a whole.

    groups: the most groups that are printed for each finding.
    """
    (plan, *above), below = above_and_below(report)
    recommended = [row for row in report.plan if row.recommended]
    lines = {row.do: brief.without_axolotl(report, row.lines) for row in recommended}
    copied = brief.to_copy(report)  # these stand at the top
    show_section(console, replace(plan, lines={do: text for do, text in lines.items() if text != copied}))
    for section in above:
        show_section(console, section)
    _heading(console, report)
    for finding in report.findings:
        _finding(console, report, finding)
        if groups:
            _groups(console, group_tables(report, finding, groups))
    _punished(console, report, groups)
    for section in below:
        if section.fold != HOW_COMPUTED:
            show_section(console, section)
    show_paragraph(console, _SAVED, "dim")


def show_reading(reading: Sequence[Claim], path: str, file: TextIO) -> None:
    """Print how a log was read, and nothing else.

    file: where it is printed.
    """
    _reading(console_of(file), reading, f"{READING}: {path}")


def _reading(console: Console, reading: Sequence[Claim], title: str, cut: bool = False) -> None:
    """Print a line for each decision of reading a log, with its evidence; nothing without any.

    title: the line above them.
    cut: whether the reason of a decision is cut to what fits into its line.
    """
    if not reading:
        return
    console.print()
    show_paragraph(console, title, "bold")
    room = console.width - sum(max(map(len, words)) + 2 for words in ([x.what for x in reading], [*_EVIDENCE]))
    lines = (brief.claim_line(claim, room) if cut else line_of(claim) for claim in reading)
    rows = zip(reading, lines, strict=True)
    show_facts(console, [(x.what, Text(x.evidence, _EVIDENCE[x.evidence]), line) for x, line in rows])


def _heading(console: Console, report: AuditReport, more: str = "") -> None:
    """Print the line above the findings, with the primary reward, and with how many of each severity there are.

    more: words at the end of the line.
    """
    primary = report.run["primary"]
    of_primary = f"; primary: {printable(primary)}" if primary is not None else ""
    title = f"Findings: {summary.severity_counts(report)}{of_primary}"
    more *= len(title) + len(more) <= console.width
    console.print(Text.assemble((f"\n{title}", "bold"), (more, "dim")))


def _finding_line(console: Console, line: brief.FindingLine) -> None:
    """Print a finding as one line. If the screen is too narrow for all of it, first the row of the plan is left out,
    and then the name of the finding.
    """
    name, title = printable(line.id), f"  {printable(line.title)}"
    ways = [(name, f"{title}{line.row}"), (name, title), ("", title)]
    drawn = [Text.assemble((f"{line.severity}  {id_}".rstrip(), COLOURS[line.severity]), text) for id_, text in ways]
    _show_line(console, next((text for text in drawn if len(text) <= console.width), drawn[1]))


def _show_line(console: Console, line: Text) -> None:
    """Print a line, wrapped on a screen only."""
    if console.is_terminal:
        show_trimmed(console, line)
    else:
        console.print(line, soft_wrap=True)


def _finding(console: Console, report: AuditReport, finding: Finding) -> None:
    """Print a finding in full, with the lines that mend what it is about."""
    if finding is not report.findings[0]:
        console.print()
    name = (f"{finding.severity}  {printable(finding.id)}", COLOURS[finding.severity])
    row = "" if finding.row is None else f" (plan, row {finding.row})"
    _show_line(console, Text.assemble(name, f"  {printable(finding.title)}{row}"))
    show_paragraph(console, finding.message)
    show_lines(console, brief.without_axolotl(report, finding.fix))


def _groups(console: Console, tables: Sequence[TextTable]) -> None:
    """Print tables of groups, and below them what their columns mean; nothing without tables."""
    for table in tables:
        show_table(console, table)
    if tables:
        show_paragraph(console, GROUPS_EXPLAINED, "dim")


def _punished(console: Console, report: AuditReport, groups: int) -> None:
    """Print the groups in which most of the best answers are punished, at most `groups` of them."""
    if groups and (tables := punished_tables(report, groups)):
        console.print(f"\n{PUNISHED_TITLE}", style="bold")
        _groups(console, tables)
