"""Audit reports, and the numbers of one computation, as text and tables for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from gdpo_core._words import count, listing, number, printable, raw, raw_column
from gdpo_core.conventions import NAMES, exceptions, formulas
from gdpo_core.report import summary
from gdpo_core.report.changes import Changes, figures_table, headline, settings_table
from gdpo_core.report.groups import MEANING, group_tables
from gdpo_core.report.summary import (
    by_table,
    comparable,
    comparison,
    drift_table,
    label,
    methods_table,
    not_comparable,
    own_method,
    rewards_table,
    run_facts,
    severity_counts,
    shares_table,
    source_facts,
    value,
    what_if_table,
)
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.what_if import WhatIf
from gdpo_core.steps import Explanation, float32_error, only_eps_is_left

_WIDE = 240  # characters per line in a file or a pipe, where nothing is cut to a screen
_TEXT = 100  # characters per line of a paragraph on a screen
_NAME, _RUN = 22, 26  # characters per line of a comparison: for the names, and for each run
COLOURS = {"error": "bold red", "warning": "bold yellow", "info": "bold"}  # of the severities


def show(reports: Sequence[AuditReport], file: TextIO, verbose: bool = False, groups: int = 0) -> None:
    """Print the reports; several first side by side, then each with its findings.

    verbose: with evidence and tables; groups: with so many groups that show a finding best.
    """
    console = _console(file)
    if len(reports) > 1:
        _side_by_side(console, reports)
    for report in reports:
        if len(reports) > 1:
            path = printable(report.source["path"])
            console.print(f"\n{path}\n{'─' * min(len(path), console.width)}", style="bold")
        _report(console, report, verbose, groups)


def show_changes(c: Changes, file: TextIO) -> None:
    """Print what changed between runs."""
    console = _console(file)
    _paragraph(console, headline(c), "bold")
    for name, paths in (("A", c.runs_a), ("B", c.runs_b)):
        for path in paths:
            _paragraph(console, f"{name}  {path}")
    console.print()
    if settings := settings_table(c):
        console.print(_table(settings, None))
        console.print()
    figures = figures_table(c)
    console.print(_table(figures, None))
    _paragraph(console, figures.meaning, "dim")


def _console(file: TextIO) -> Console:
    width = None if file.isatty() else _WIDE
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _report(console: Console, report: AuditReport, verbose: bool, groups: int) -> None:
    _paragraph(console, summary.to_do(report), "bold")
    _paragraph(console, report.what_ran)
    console.print()
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    did = {
        name: text
        for name, text in run_facts(report).items()
        if verbose or name in ("weights used here", "asked for")  # what ran says the rest
    }
    for name, text in {**source_facts(report), **did}.items():
        facts.add_row(name, printable(text))
    console.print(facts)
    console.print(f"\nFindings: {severity_counts(report)}", style="bold")
    if report.findings:
        _paragraph(console, summary.severities(report), "dim")
    for n, finding in enumerate(report.findings):
        if verbose or finding.severity != "info" or not n or report.findings[n - 1].severity != "info":
            console.print()
        _finding(console, report, finding, verbose)
        if groups:
            _groups(console, group_tables(report, finding, groups))
    console.print()
    if report.alternative is not None:
        _what_if(console, report.alternative)
    own = own_method(report)
    for table in _tables(report, verbose):
        console.print(_table(table, NAMES[own] if own else None))
        if table.meaning:
            _paragraph(console, table.meaning, "dim")
            console.print()
    _paragraph(console, summary.ties(report) if comparable(report) else not_comparable(report), "dim")
    if not verbose:
        _paragraph(
            console, "--verbose prints evidence, all tables and where to read more; --html FILE has charts.", "dim"
        )


def _finding(console: Console, report: AuditReport, finding: Finding, verbose: bool) -> None:
    name = (f"{finding.severity}  {printable(finding.id)}", COLOURS[finding.severity])
    console.print(Text.assemble(name, f"  {printable(finding.title)}"), soft_wrap=not console.is_terminal)
    if not verbose and finding.severity == "info":
        return
    _paragraph(console, finding.message)
    if verbose:
        _paragraph(console, "; ".join(f"{label(key)} {value(x)}" for key, x in finding.evidence.items()), "dim")
    if finding.fix:
        _lines(console, finding.fix)
    if tried := summary.effect(report, finding):
        _paragraph(console, tried)
    elsewhere = [f"{link.title}: {link.url}" for link in report.links(finding)]
    if more := [place for place in (finding.read_more, *elsewhere) if place and verbose]:
        _paragraph(console, f"read more: {'; '.join(more)}", "dim")


def _groups(console: Console, tables: Sequence[summary.Table]) -> None:
    for table in tables:
        console.print()
        _paragraph(console, table.title, "bold")
        if table.meaning:
            _paragraph(console, table.meaning, "dim")
        console.print(_table(replace(table, title=""), None))
    if tables:
        _paragraph(console, MEANING, "dim")


def _what_if(console: Console, w: WhatIf) -> None:
    table = what_if_table(w)
    console.print(_table(table, None))
    if w.fix:
        _lines(console, w.fix)
    _paragraph(console, table.meaning, "dim")
    console.print()


def _lines(console: Console, fix: str) -> None:
    """Lines of configuration."""
    console.print("what changes it:", style="dim")
    # Not wrapped, so that it can be copied.
    console.print(Text(printable(fix), "cyan"), soft_wrap=True)


def _paragraph(console: Console, words: str, style: str = "") -> None:
    text = Text(printable(words), style)
    if console.is_terminal:
        console.print(text, width=min(console.width, _TEXT), overflow="fold")
    else:
        console.print(text, soft_wrap=True)  # one line per paragraph, for the next program in a pipe


def _tables(report: AuditReport, verbose: bool) -> list[summary.Table]:
    """The tables that the report has numbers for; by default one of the rewards, and one of the methods' inversions."""
    if not verbose:
        by_method = methods_table(report) if report.run["primary"] and comparable(report) else None
        maybe = [by_method, by_table(report)]
        return [summary.overview_table(report), *(table for table in maybe if table)]
    of_methods = [shares_table(report), methods_table(report)] if comparable(report) else []
    maybe = [drift_table(report), by_table(report)]
    return [rewards_table(report), *of_methods, *(table for table in maybe if table)]


def _table(table: summary.Table, bold: str | None) -> Table:
    """The table for a terminal; bold: the title of the column that stands out."""
    drawn = Table(title=table.title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
    for k, name in enumerate(table.head):
        style = "bold" if name == bold else ""
        drawn.add_column(name, justify="right" if k else "left", overflow="fold", style=style)
    for row in table.rows:
        drawn.add_row(*map(printable, row))
    return drawn


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
        for name, cells in comparison(some).items():
            table.add_row(name, *map(printable, cells))
        console.print(table)


# --- one computation -------------------------------------------------------------------------------------------------


def show_explanation(e: Explanation, prompts: Sequence[int], ties: Sequence[Sequence[int]], file: TextIO) -> None:
    """Print every number of a computation; prompts: of each response, ties: responses that share an advantage."""
    console = _console(file)
    _paragraph(console, f"{NAMES[e.method]}, convention {e.convention.name} ({e.convention.source})")
    for k, formula in enumerate(formulas(e.method, e.convention, len(e.weights)), start=1):
        _paragraph(console, f"  {k}. {formula}")
    _paragraph(console, f"  w = {listing((raw(w, 6) for w in e.weights.tolist()), link='')}")
    ids = list(dict.fromkeys(prompts))
    for group, prompt in enumerate(ids):
        rows = [i for i, of in enumerate(prompts) if of == prompt]
        columns, feet = _steps(e, rows, group)
        if len(ids) > 1:
            console.print(f"\nprompt {prompt}")
        for table in _steps_tables([str(i + 1) for i in rows], columns, feet, console.width):
            console.print(table)
    for line in _notes(e, ties):
        _paragraph(console, line)


def _notes(e: Explanation, ties: Sequence[Sequence[int]]) -> Iterator[str]:
    """What stands below the tables: the last step, ties, and where the framework itself may return round-off."""
    if isinstance(e.batch_mean, float) and isinstance(e.batch_std, float):
        over = "tokens" if e.convention.last_step == "tokens" else "responses"
        [mean], [std] = raw_column([e.batch_mean]), raw_column([e.batch_std])
        yield f"over the {over} of the batch: mean s = {mean}, std s = {std}"
    for tied in ties:
        yield f"Responses {listing(i + 1 for i in tied)} differ in their rewards and have the same advantage."
    name = e.convention.name
    if (error := float32_error(e)) > 1e-3:
        yield f"{name} computes in float32, where round-off may change z or A by about {number(error, digits=1)}."
    if only_eps_is_left(e):
        yield f"The normalised rewards cancel but for eps: {name} in float32 may return something else."
    yield from (f"· {line}" for line in exceptions(e.convention))


def _steps(e: Explanation, rows: Sequence[int], group: int) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The responses of one prompt, one column per step, and the mean and std that normalised a column."""
    rewards = [f"r{k + 1}" for k in range(len(e.weights))]
    columns = {name: [raw(x) for x in e.rewards[rows, k].tolist()] for k, name in enumerate(rewards)}
    feet = {}
    if e.lengths is not None:
        columns["tokens"] = [raw(x) for x in e.lengths[rows].tolist()]
    for k, name in enumerate(rewards if e.z is not None else ["s"]):
        mean, std = (x[..., k] if e.z is not None else x for x in (e.group_means, e.group_stds))
        if e.convention.leave_one_out:
            columns[f"mean {name}"] = raw_column(mean[rows].tolist())
            columns[f"std {name}"] = raw_column(std[rows].tolist())
        else:
            feet[name] = _foot(mean[group], std[group])
    if e.z is not None:
        columns |= {f"z{k + 1}": raw_column(e.z[rows, k].tolist()) for k in range(len(rewards))}
    columns["s"] = raw_column(e.weighted_sums[rows].tolist())
    if isinstance(e.batch_mean, Tensor) and isinstance(e.batch_std, Tensor):
        feet["s"] = _foot(e.batch_mean[group], e.batch_std[group])
    columns["A"] = raw_column(e.advantages[rows].tolist())
    return columns, feet


def _foot(mean: Tensor, std: Tensor) -> str:
    return f"{raw(mean.item())}\n{raw(std.item(), 6)}"


def _steps_tables(
    rows: Sequence[str], columns: Mapping[str, list[str]], feet: Mapping[str, str], width: int
) -> list[Table]:
    """The columns as one table, or as several below each other if the terminal is too narrow."""
    tables: list[list[tuple[str, str, Sequence[str]]]] = []
    room = 0
    for name, values in columns.items():
        wide = max(map(len, [name, *values, *feet.get(name, "").split("\n")])) + 2
        if not tables or room < wide:
            foot = "mean\nstd" if feet.keys() & columns.keys() else ""
            tables.append([("", foot, rows)])
            room = width - max(map(len, [*rows, *foot.split("\n")])) - 2
        tables[-1].append((name, feet.get(name, ""), values))
        room -= wide
    return [_steps_table(columns) for columns in tables]


def _steps_table(columns: Sequence[tuple[str, str, Sequence[str]]]) -> Table:
    """Columns of a header, a footer of one or two lines, and the cells."""
    table = Table(
        title_justify="left", show_footer=any(foot for _, foot, _ in columns[1:]), box=SIMPLE, padding=(0, 1, 0, 0)
    )
    for k, (name, foot, _) in enumerate(columns):
        table.add_column(name, foot, justify="right" if k else "left", no_wrap=True)
    for cells in zip(*(values for _, _, values in columns), strict=True):
        table.add_row(*cells)
    return table
