"""Audit reports as text and tables for a terminal."""

from collections.abc import Callable, Sequence
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdpo_core._words import count, number, percent, printable
from gdpo_core.audit import AuditReport, Finding
from gdpo_core.report import series as over_time
from gdpo_core.report.sentences import (
    DRIFT,
    METHODS,
    NAMES,
    REWARDS,
    SHARES,
    acting,
    comparable,
    compared,
    counted,
    did,
    label,
    looked_at,
    methods_table,
    not_comparable,
    rewards_table,
    shares_table,
    source,
    value,
)

_WIDE = 240  # characters per line in a file or a pipe, where nothing is cut to a screen
_TEXT = 100  # characters per line of a paragraph on a screen
_NAME, _RUN = 22, 26  # characters per line of a comparison: for the names, and for each run
_COLOURS = {"error": "bold red", "warning": "bold yellow", "info": "bold"}


def show(reports: Sequence[AuditReport], file: TextIO) -> None:
    """Print the reports; several first side by side, then each with its findings."""
    screen = file.isatty()
    console = Console(file=file, width=None if screen else _WIDE, highlight=False, markup=False, emoji=False)
    if len(reports) > 1:
        _side_by_side(console, reports)
    for report in reports:
        if len(reports) > 1:
            path = printable(report.source["path"])
            console.print(f"\n{path}\n{'─' * min(len(path), console.width)}", style="bold")
        _report(console, report)


def _report(console: Console, report: AuditReport) -> None:
    _paragraph(console, report.verdict, "bold")
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in {**source(report), **did(report)}.items():
        facts.add_row(name, printable(text))
    console.print(facts)
    console.print(f"\nFindings: {counted(report)}", style="bold")
    for finding in report.findings:
        _finding(console, finding)
    console.print()
    for table, meaning in _tables(report):
        console.print(table)
        _paragraph(console, meaning, "dim")
        console.print()
    if not comparable(report):
        _paragraph(console, not_comparable(report), "dim")


def _finding(console: Console, finding: Finding) -> None:
    console.print(Text.assemble("\n", (finding.severity, _COLOURS[finding.severity]), f"  {printable(finding.id)}"))
    _paragraph(console, finding.message)
    _paragraph(console, "; ".join(f"{label(key)} {value(x)}" for key, x in finding.evidence.items()), "dim")
    if finding.fix:
        console.print("what changes it:", style="dim")
        # Not wrapped, so that it can be copied.
        console.print(Text(printable(finding.fix), "cyan"), soft_wrap=True)


def _paragraph(console: Console, words: str, style: str = "") -> None:
    text = Text(printable(words), style)
    if console.is_terminal:
        console.print(text, width=min(console.width, _TEXT), overflow="fold")
    else:
        console.print(text, soft_wrap=True)  # one line per paragraph, for the next program in a pipe


def _tables(report: AuditReport) -> list[tuple[Table, str]]:
    """The tables that the report has numbers for, each with what its columns mean."""
    tables = [(_table("Rewards", *rewards_table(report)), REWARDS)]
    if comparable(report):
        own = NAMES[method] if (method := acting(report)) else None
        title = "Share of the update" + (f" (the run’s method: {own})" if own else "")
        tables.append((_table(title, *shares_table(report), bold=own), SHARES))
        tables.append((_table("Methods on the rewards of this run", *methods_table(report)), METHODS))
    return [*tables, *((table, DRIFT) for table in _drift(report))]


def _drift(report: AuditReport) -> list[Table]:
    """Each reward in the first and in the last quarter of the steps."""
    method, _ = looked_at(report)
    if len(report.steps) < 4 or method is None:
        return []
    head = ["reward", "mean", "constant"]
    columns = [_quarters(over_time.means(report), number), _quarters(over_time.dead(report), percent)]
    if comparable(report):
        head.append(f"update, {NAMES[method]}")
        columns.append(_quarters(over_time.shares(report, method), percent))
    names = [reward["name"] for reward in report.rewards]
    return [_table("First → last quarter of the steps", head, list(zip(names, *columns, strict=True)))]


def _quarters(series: dict[str, over_time.Series], words: Callable[[float | None], str]) -> list[str]:
    return [" → ".join(map(words, over_time.quarters(values))) for values in series.values()]


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], bold: str | None = None) -> Table:
    """A table whose first column names the rows; bold: the title of the column that stands out."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
    for k, name in enumerate(head):
        style = "bold" if name == bold else ""
        table.add_column(name, justify="right" if k else "left", overflow="fold", style=style)
    for row in rows:
        table.add_row(*map(printable, row))
    return table


def _side_by_side(console: Console, reports: Sequence[AuditReport]) -> None:
    """One column per run, in several tables if the terminal is too narrow for one."""
    at_once = max(1, (console.width - _NAME) // _RUN)
    for first in range(0, len(reports), at_once):
        some = reports[first : first + at_once]
        table = Table(box=SIMPLE, padding=(0, 2, 0, 0))
        table.add_column(count(len(reports), "run"), style="dim", max_width=_NAME if console.is_terminal else None)
        for report in some:
            path = printable(report.source["path"])
            table.add_column(path, overflow="fold", ratio=1 if console.is_terminal else None)
        for name, cells in compared(some).items():
            table.add_row(name, *map(printable, cells))
        console.print(table)
