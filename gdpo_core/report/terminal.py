"""Audit reports as text and tables for a terminal."""

from collections.abc import Callable, Sequence
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdpo_core._words import count, number, percent
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
    not_comparable,
    plain,
    source,
    value,
    weight_shares,
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
            path = plain(report.source["path"])
            console.print(f"\n{path}\n{'─' * min(len(path), console.width)}", style="bold")
        _report(console, report)


def _report(console: Console, report: AuditReport) -> None:
    _paragraph(console, Text(plain(report.verdict), "bold"))
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, said in {**source(report), **did(report)}.items():
        facts.add_row(name, said)
    console.print(facts)
    console.print(f"\nFindings: {counted(report)}", style="bold")
    for finding in report.findings:
        _finding(console, finding)
    console.print()
    tables = {REWARDS: _rewards, SHARES: _shares, METHODS: _methods, DRIFT: _drift}
    for meaning, made in tables.items():
        if (table := made(report)) is not None:
            console.print(table)
            _paragraph(console, Text(meaning, "dim"))
            console.print()
    if not comparable(report):
        _paragraph(console, Text(not_comparable(report), "dim"))


def _finding(console: Console, finding: Finding) -> None:
    console.print(Text.assemble("\n", (finding.severity, _COLOURS[finding.severity]), f"  {plain(finding.id)}"))
    _paragraph(console, Text(plain(finding.message)))
    numbers = "; ".join(f"{label(key)} {value(x)}" for key, x in finding.evidence.items())
    _paragraph(console, Text(numbers, "dim"))
    if finding.fix:
        console.print("what changes it:", style="dim")
        # Not wrapped, so that it can be copied.
        console.print(Text(plain(finding.fix), "cyan"), soft_wrap=True)


def _paragraph(console: Console, text: Text) -> None:
    if console.is_terminal:
        console.print(text, width=min(console.width, _TEXT), overflow="fold")
    else:
        console.print(text, soft_wrap=True)  # one line per paragraph, for the next program in a pipe


def _rewards(report: AuditReport) -> Table:
    table = _table("Rewards", ["reward", "mean", "std", "missing", "constant in groups"])
    for r in report.rewards:
        table.add_row(
            plain(r["name"]), number(r["mean"]), number(r["std"]), number(r["missing"]), percent(r["dead_groups"])
        )
    return table


def _shares(report: AuditReport) -> Table | None:
    if not comparable(report):
        return None
    own, asked = acting(report), weight_shares(report)
    methods = list(report.methods)
    title = "Share of the update" + (f" (the run’s method: {NAMES[own]})" if own else "")
    table = _table(title, ["reward", "weight", *(NAMES[m] for m in methods)])
    for r in report.rewards:
        shares = [Text(percent(r["update_share"].get(m)), "bold" if m == own else "") for m in methods]
        table.add_row(plain(r["name"]), percent(asked[r["name"]]), *shares)
    return table


def _methods(report: AuditReport) -> Table | None:
    if not comparable(report):
        return None
    heads = ["method", "groups with ties", "tied pairs", "levels", "silent groups", "inversions"]
    table = _table("Methods on the rewards of this run", heads)
    for method, found in report.methods.items():
        shares = [percent(found.get(key)) for key in ("groups_with_ties", "tied_pairs", "silent_groups", "inversions")]
        table.add_row(NAMES[method], *shares[:2], number(found.get("levels")), *shares[2:])
    return table


def _drift(report: AuditReport) -> Table | None:
    """Each reward in the first and in the last quarter of the steps."""
    if len(report.steps) < 4:
        return None
    method, _ = looked_at(report)
    if method is None:
        return None
    update = [f"update, {NAMES[method]}"] if comparable(report) else []
    table = _table("First → last quarter of the steps", ["reward", "mean", "constant", *update])
    means, dead, shares = over_time.means(report), over_time.dead(report), over_time.shares(report, method)
    for name in means:
        cells = [_from_to(means[name], number), _from_to(dead[name], percent)]
        table.add_row(plain(name), *cells, *(_from_to(shares[name], percent) for _ in update))
    return table


def _from_to(series: over_time.Series, say: Callable[[float | None], str]) -> str:
    first, last = over_time.quarters(series)
    return f"{say(first)} → {say(last)}"


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
    for k, name in enumerate(columns):
        table.add_column(name, justify="right" if k else "left", overflow="fold")
    return table


def _side_by_side(console: Console, reports: Sequence[AuditReport]) -> None:
    """One column per run, in several tables if the terminal is too narrow for one."""
    at_once = max(1, (console.width - _NAME) // _RUN)
    for first in range(0, len(reports), at_once):
        some = reports[first : first + at_once]
        table = Table(box=SIMPLE, padding=(0, 2, 0, 0))
        table.add_column(count(len(reports), "run"), style="dim", max_width=_NAME if console.is_terminal else None)
        for report in some:
            table.add_column(plain(report.source["path"]), overflow="fold", ratio=1 if console.is_terminal else None)
        for name, cells in compared(some).items():
            table.add_row(name, *cells)
        console.print(table)
