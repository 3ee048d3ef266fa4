"""The report on one screen: tables without the columns in which all rows agree, a line for each claim and each
finding, and the lines to copy. `--explain` and the HTML hold the rest.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from gdpo_audit.facts.claims import otherwise_of
from gdpo_audit.findings.finding import Finding
from gdpo_audit.records import Claim
from gdpo_audit.report import summary, tables
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.meanings import IN_SHORT
from gdpo_audit.report.sections import Section, what_if_section
from gdpo_audit.report.tables import FORECAST, TextTable
from gdpo_core.shared.words import MISSING, count, listing, percent, printable


@dataclass(frozen=True)
class FindingLine:
    """The line of a finding, or of several that say the same.

    id: the ids of the findings, with commas between them.
    row: words for the row of the plan that may answer it; empty without one.
    """

    severity: str
    id: str
    title: str
    row: str = ""


def to_copy(report: AuditReport) -> str:
    """Return the lines of configuration for the first thing that the report says to do; "" where none are known.

    They mend the finding that the first lines of the report are about, or else they set what the plan recommends.
    """
    fixes = [finding.fix for finding in report.findings if finding.to_do and finding.to_do in report.what_first]
    set_by_plan = [row.lines for row in report.plan if row.recommended]
    return next((lines for fix in (*fixes, *set_by_plan) if (lines := without_axolotl(report, fix))), "")


def without_axolotl(report: AuditReport, lines: str | None) -> str:
    """Return lines of configuration without axolotl's own, unless the log shows that axolotl wrote it; "" for None."""
    if lines is None or (report.run["convention"] or "").startswith("axolotl"):
        return lines or ""
    return "\n".join(line for line in lines.split("\n") if not line.startswith("# axolotl:"))


def report_notes(report: AuditReport) -> str:
    """Return in sentences which steps the report is about if these are not all, what was not read, and the notes on the
    log.
    """
    facts = summary.source_facts(report)
    not_read = f"Not read: {facts['not read']}." if "not read" in facts else ""
    return " ".join(filter(None, [*summary.report_limits(report), *report.notes, not_read]))


def claim_line(claim: Claim, room: int) -> str:
    """Return what was taken and why in one line, with “…” for the end of a reason that does not fit; where it is only
    assumed, also the option that says otherwise.

    The line is longer only if what was taken and that option do not fit by themselves. No word is cut.

    room: how many characters fit.

    >>> weights = Claim(what="weights", taken="1 each", evidence="assumed", because="a log of 16 rows", otherwise="-w")
    >>> claim_line(weights, 50), claim_line(weights, 33), claim_line(weights, 20)
    ('1 each: a log of 16 rows (otherwise -w)', '1 each: a log of … (otherwise -w)', '1 each (otherwise -w)')
    """
    start, because, way = printable(claim.taken), printable(claim.because), printable(otherwise_of(claim))
    whole = f"{start}: {because}{way}"
    if len(whole) <= room:
        return whole
    words = because.split(" ")
    cut = [f"{start}: {' '.join(words[:n])} …{way}" for n in range(len(words) - 1, 1, -1)]
    return next((line for line in cut if len(line) <= room), f"{start}{way}")


# --- tables ----------------------------------------------------------------------------------------------------------


def brief_sections(report: AuditReport) -> list[Section]:
    """Return the sections with tables that stand between how the log was read and the findings: the plan, the setting
    that was asked for, what each reward did, and the values of a column.
    """
    asked = []
    if report.alternative is not None:
        whole = what_if_section(report.alternative)
        told = [replace(table, note=" ".join(report.alternative.notes)) for table in whole.tables if table]
        asked = [replace(whole, tables=told)]
    by = tables.by_table(report)
    values = [Section(tables=[replace(by, note="", meanings=())])] if by else []
    return [*_plan(report), *asked, _rewards(report), *values]


def _plan(report: AuditReport) -> list[Section]:
    """Return the section with the plan in a list; [] where no setting was tried.

    If the plan has forecasts, its columns are pushes, shares and forecasts, from which it is decided. Without forecasts
    it also has the columns that explain a setting, as far as settings differ in them.
    """
    whole = tables.plan_table(report)
    if whole is None:
        return []
    primary = report.run["primary"]
    head = ["setting", "push", "shares", *(head.removeprefix(f"{primary} ") for head in whole.head[3:])]
    whole = replace(whole, head=head)
    if any(cell != MISSING for row in whole.rows for name, cell in zip(head, row, strict=True) if name == FORECAST):
        shown = _without(whole, head[4:])
    else:
        shown = _without_agreeing(whole, head[3:])
    of_primary = [head for head in shown.head if head in (FORECAST, "punished", "constant")]
    about = [f"push, shares: {' / '.join(r['name'] for r in report.rewards)}"]
    about += [f"{', '.join(of_primary)}: {primary}"] if of_primary else []
    says = [tables.on_a_sample(report), shown.note]
    if primary is not None and len(report.plan) > 1 and not any(row.recommended for row in report.plan):
        says.insert(1, tables.on_recommended(report))
    title = f"Plan{tables.if_assumed(report)}: {'; '.join(about)}"
    return [Section(title, tables=[replace(shown, title="", note=" ".join(filter(None, says)))])]


def _rewards(report: AuditReport) -> Section:
    """Return the section with the table of what each reward did, without the course of its share, without the
    difference of the two means that it shows, and without columns in which all rewards agree. Behind the title, a few
    words say what its figures are.
    """
    whole, granted = tables.rewards_table(report), tables.if_assumed(report)
    pushed = any(head.startswith("push") for head in whole.head)
    whole = replace(whole, head=[head.removesuffix(granted) for head in whole.head])
    shown = _without(whole, (tables.SHARE_COURSE, "change"))
    shown = _without_agreeing(shown, ("punished", "shifted at step", "constant"))
    words = [meaning for head, meaning in IN_SHORT.items() if any(head in title.split() for title in shown.head)]
    short = f" ({'; '.join(words)})" * bool(words)
    return Section(f"{shown.title}{granted * pushed}{short}", tables=[replace(shown, title="")])


def _without(table: TextTable, dropped: Collection[str]) -> TextTable:
    """Return a table without some columns, without its note and without what its columns mean.

    dropped: the headings of these columns.
    """
    kept = [k for k, head in enumerate(table.head) if head not in dropped]
    rows = [[row[k] for k in kept] for row in table.rows]
    return replace(table, head=[table.head[k] for k in kept], rows=rows, note="", meanings=())


def _without_agreeing(table: TextTable, among: Collection[str]) -> TextTable:
    """Return a table without the columns in which all of its rows agree; its note says what these hold.

    A table of one row loses only the columns that hold nothing there.

    among: the headings of the columns that may go.
    """
    columns = {head: {row[k] for row in table.rows} for k, head in enumerate(table.head) if head in among}
    agreeing = {head: cells.pop() for head, cells in columns.items() if len(cells) == 1}
    if len(table.rows) == 1:
        agreeing = {head: cell for head, cell in agreeing.items() if cell == MISSING}
    same = [f"{head} {cell}" for head, cell in agreeing.items() if cell != MISSING]
    return replace(_without(table, agreeing), note=f"The same in every row: {listing(same, link='')}." * bool(same))


# --- findings --------------------------------------------------------------------------------------------------------


def finding_lines(report: AuditReport) -> list[FindingLine]:
    """Return a line for each finding, in their order; findings of one severity that say the same share a line.

    These are findings of one kind, and rewards that make little of the update (`reward-starved`) because another one
    makes most of it (`reward-dominates`).
    """
    together: dict[tuple[str, str], list[Finding]] = {}
    dominating = {x.severity for x in report.findings if x.id == "reward-dominates"}
    for x in report.findings:
        starved = x.id == "reward-starved" and x.severity in dominating
        together.setdefault((x.severity, "reward-dominates" if starved else x.id), []).append(x)
    return [_line(report, several) for several in together.values()]


def _answer(report: AuditReport, finding: str, n: int) -> str:
    """Return words for what a finding's figure is under a row of the plan, where the plan on one screen may not have
    it as a column; "" for the other findings.

    n: the number of the row.
    """
    row = report.plan[n]
    figures = {
        "ties-hide-signal": row.tied_pairs,
        "priority-inversion": row.inversions,
        "silent-groups": row.silent_groups,
    }
    return f": {percent(figures[finding])}" if finding in figures else ""


def _line(report: AuditReport, several: list[Finding]) -> FindingLine:
    """Return the line of findings that say the same, of which there may be one."""
    several = sorted(several, key=lambda x: x.id == "reward-starved")
    first, *further = several
    title, named = first.title, [x.evidence.get("reward") for x in further]
    if first.id == "reward-dominates" and further:
        shares = [(x.evidence["reward"], percent(x.evidence["update_share"])) for x in further]
        title += f", {listing(f'{name} for {share}' for name, share in shares)}"
    elif further:
        title += f"; also {listing(named)}" if all(named) else f"; {count(len(further))} more of this kind"
    rows = [x.row for x in several if x.row is not None]
    row = f" (plan, row {rows[0]}{_answer(report, first.id, rows[0])})" if rows else ""
    return FindingLine(first.severity, ", ".join(dict.fromkeys(x.id for x in several)), title, row)
