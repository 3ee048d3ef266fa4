"""Reports, comparisons of runs, checks of configurations and single computations, printed in a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text
from torch import Tensor

from gdpo_audit.findings.claims import line_of
from gdpo_audit.findings.finding import Finding
from gdpo_audit.records import Claim
from gdpo_audit.report import summary
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.comparison import Changes, headline
from gdpo_audit.report.groups import MEANING, PUNISHED_TITLE, group_tables, punished_tables
from gdpo_audit.report.sample_score import SampleScore
from gdpo_audit.report.sections import NOTES, READING, Section, above_and_below, changes_sections
from gdpo_audit.report.tables import Table
from gdpo_core._words import count, listing, number, percent, printable, raw, raw_column, signed
from gdpo_core.checking.check import ConfigCheck
from gdpo_core.conventions import NAMES, exceptions, formulas
from gdpo_core.pushing import MEANING as PUSH
from gdpo_core.steps import Explanation

_WIDE = 240  # characters per line in a file or a pipe, where nothing is cut to a screen
_TEXT = 100  # characters per line of a paragraph on a screen
_NAME, _PROSE = 22, 24  # characters per line of a row's name, and of a cell that holds words
_EVIDENCE = {"proved": "bold green", "agrees": "green", "assumed": "bold yellow"}
_COLOURS = {"error": "bold red", "warning": "bold yellow", "info": "bold"}  # the style of each severity


def show(reports: Sequence[AuditReport], file: TextIO, groups: int = 0) -> None:
    """Print some reports, and with each finding at most `groups` of the groups that show it best; by default none.

    file: where they are printed.
    """
    console = console_of(file)
    for report in reports:
        if len(reports) > 1:
            path = printable(report.source["path"])
            console.print(f"\n{path}\n{'─' * min(len(path), console.width)}", style="bold")
        print_report(console, report, groups)


def show_reading(reading: Sequence[Claim], path: str, file: TextIO) -> None:
    """Print how a log was read, and nothing else.

    path: the path of the log.
    file: where it is printed.
    """
    _reading(console_of(file), reading, f"{READING}: {path}")


def _reading(console: Console, reading: Sequence[Claim], title: str) -> None:
    """Print a line for each decision of reading a log, with its evidence; nothing without any.

    title: the line above them.
    """
    if not reading:
        return
    console.print()
    _paragraph(console, title, "bold")
    grid = Drawn.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for claim in reading:
        grid.add_row(claim.what, Text(claim.evidence, _EVIDENCE[claim.evidence]), printable(line_of(claim)))
    console.print(grid)


def show_changes(c: Changes, file: TextIO) -> None:
    """Print what changed between runs.

    file: where it is printed.
    """
    console = console_of(file)
    _paragraph(console, headline(c), "bold")
    for section in changes_sections(c):
        _section(console, section)


def console_of(file: TextIO) -> Console:
    """Return a console that prints to a file or a screen, and takes nothing in a log for markup."""
    width = None if file.isatty() else _WIDE
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def print_report(console: Console, report: AuditReport, groups: int = 0) -> None:
    """Print one report.

    The parts come in this order: what to do; why there is no forecast, if there is none; what ran; how the log was
    read; the plan and the rewards; the findings; and all other sections but the formulas and the limits.

    groups: the most groups that are printed for each finding; 0 for none. If it is not 0, at most as many groups with
        punished answers follow the findings. These answers are above the group's mean of a reward, with an advantage of
        0 or less.
    """
    _paragraph(console, report.what_first, "bold")
    _paragraph(console, report.forecast_note)
    _paragraph(console, report.what_ran)
    _reading(console, report.reading, READING)
    (plan, *above), below = above_and_below(report)
    shown = 1 if any(row.recommended for row in report.plan) else 0
    _section(console, replace(plan, lines=dict([*plan.lines.items()][:shown])))
    for section in above:
        _section(console, section)
    console.print(f"\nFindings: {summary.severity_counts(report)}", style="bold")
    for finding in report.findings:
        _finding(console, report, finding)
        if groups:
            _groups(console, group_tables(report, finding, groups))
    if groups and (tables := punished_tables(report, groups)):
        console.print(f"\n{PUNISHED_TITLE}", style="bold")
        _groups(console, tables)
    for section in below:
        if section.fold != NOTES:
            _section(console, section)
    _paragraph(
        console,
        "Add --html FILE to save a fuller report, with the evidence, the formulas, a what-if and further reading.",
        "dim",
    )


def _finding(console: Console, report: AuditReport, finding: Finding) -> None:
    """Print a finding: all of it, or only its first line if its severity is info."""
    if finding.severity != "info" and finding is not report.findings[0]:
        console.print()
    name = (f"{finding.severity}  {printable(finding.id)}", _COLOURS[finding.severity])
    row = "" if finding.row is None else f" (plan, row {finding.row})"
    console.print(Text.assemble(name, f"  {printable(finding.title)}{row}"), soft_wrap=not console.is_terminal)
    if finding.severity != "info":
        _paragraph(console, finding.message)
        _lines(console, finding.fix)


def _groups(console: Console, tables: Sequence[Table]) -> None:
    """Print tables of groups, and below them what their columns mean; nothing without tables."""
    for table in tables:
        _table(console, table)
    if tables:
        _paragraph(console, MEANING, "dim")


def _section(console: Console, section: Section) -> None:
    """Print a section of a report, without the tables that only HTML shows; nothing if no facts, sentences or tables
    are left.
    """
    tables = [table for table in section.tables if table and table.on_screen != 0]
    if not (section.facts or section.items or tables):
        return
    console.print()
    _paragraph(console, section.title, "bold")
    if section.facts:
        grid = Drawn.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, text in section.facts.items():
            grid.add_row(name, printable(text))
        console.print(grid)
    for item in section.items:
        _paragraph(console, item)
    for table in tables:
        _table(console, table)
    for title, lines in section.lines.items():
        _lines(console, lines, title)


def _lines(console: Console, fix: str | None, title: str = "what to change") -> None:
    """Print lines of configuration under a title, unwrapped; print nothing without lines."""
    if fix:
        console.print(printable(f"{title}:"), style="dim")
        # The lines are not wrapped, so that they can be copied.
        console.print(Text(printable(fix), "cyan"), soft_wrap=True)


def _paragraph(console: Console, words: str, style: str = "") -> None:
    """Print words as a paragraph, wrapped on a screen and in one line elsewhere; nothing without words."""
    text = Text(printable(words), style)
    if not words:
        return
    if console.is_terminal:
        console.print(text, width=min(console.width, _TEXT), overflow="fold")
    else:
        console.print(text, soft_wrap=True)  # one line per paragraph, for the next program in a pipe


def _table(console: Console, table: Table) -> None:
    """Print the rows of a table that a terminal shows, and below them what the table means. If the screen is too
    narrow, the table is printed in several parts below each other, each with some of the columns.
    """
    widths = [_width(table, k) for k in range(len(table.head))]
    for nth, columns in enumerate(_columns_that_fit(widths, console.width)):
        wide = _widened(table, widths, columns, console.width)
        title = table.title if nth == 0 else None
        drawn = Drawn(
            title=title, title_justify="left", title_style="bold", box=SIMPLE, show_edge=False, padding=(0, 1, 0, 0)
        )
        for k in columns:
            whole = wide[k] if k and not table.prose else None  # rich breaks the cells of any other column
            drawn.add_column(
                printable(table.head[k]),
                justify="right" if k and not table.prose else "left",
                overflow="fold",
                width=whole,
            )
        for row in table.rows[: table.on_screen]:
            drawn.add_row(*(printable(row[k]) for k in columns))
        console.print(drawn)
    if told := " ".join(filter(None, [table.note, *table.meanings])):
        _paragraph(console, told, "dim")


def _width(table: Table, k: int) -> int:
    """Return the least width, in characters, at which no number in the column with index k has to break.

    The column needs the length of the longest word of its heading, or of the longest line in its cells if that is more.
    Names of rows (column 0) and the cells of a table of prose may break anywhere, so these columns need at most `_NAME`
    and `_PROSE` characters.
    """
    lines = [*table.head[k].split(), *(line for row in table.rows for line in row[k].split("\n"))]
    longest = max((len(printable(line)) for line in lines), default=0)
    return min(longest, _NAME) if k == 0 else min(longest, _PROSE) if table.prose else longest


def _widened(table: Table, widths: Sequence[int], columns: Sequence[int], room: int) -> dict[int, int]:
    """Return the width of each column of a part of a table, by its index: the least one, and more for a heading in one
    line, as long as there is room.

    widths: the least width of each column of the table.
    columns: the indices of the columns in this part.
    room: the width of the screen, in characters.
    """
    names = max((len(printable(row[0])) for row in table.rows), default=0)
    left = room - max(names, widths[0]) - 2 - sum(widths[k] + 2 for k in columns[1:])
    wide = {}
    for k in columns:
        more = max(min(len(printable(table.head[k])) - widths[k], left), 0)
        wide[k], left = widths[k] + more, left - more
    return wide


def _columns_that_fit(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the indices of the columns in each part into which a table is cut if it is too wide for the screen.

    The first column is in every part, and each other column in one part. A part has as many columns as fit.

    widths: the width of each column, in characters.
    room: the width of the screen, in characters.
    """
    columns: list[int] = [0]
    used = widths[0] + 2
    for k, width in enumerate(widths[1:], start=1):
        if len(columns) > 1 and used + width + 2 > room:
            yield columns
            columns, used = [0], widths[0] + 2
        columns.append(k)
        used += width + 2
    yield columns


# --- a configuration -------------------------------------------------------------------------------------------------


def show_check(check: ConfigCheck, sample: SampleScore | None, file: TextIO) -> None:
    """Print what a configuration will run, its traps, and what a sample, if there is one, would do under it.

    file: where it is printed.
    """
    console = console_of(file)
    _section(console, Section(listing(check.files, most=4), facts=check.facts))
    for line in check.lines:
        _lines(console, line, "a line that makes the run write a log that can be audited")
    if not check.traps:
        console.print(f"\n{check.looked}", style="bold")
    for trap in check.traps:
        console.print()
        name = (f"{trap.severity}  {trap.id}", _COLOURS[trap.severity])
        console.print(Text.assemble(name, f"  {printable(trap.place)}"), soft_wrap=True)
        _paragraph(console, trap.says)
        _lines(console, trap.line, "write")
        _paragraph(console, f"Read in {trap.read_in}.", "dim")
    if sample:
        _show_sample(console, sample)


def _show_sample(console: Console, sample: SampleScore) -> None:
    """Print a table of what the rewards of a sample would do under a configuration, and the notes on it."""
    rows = [
        [name, number(weight), percent(sample.update_share[name]), signed(sample.push[name])]
        for name, weight in sample.weights.items()
    ]
    console.print()
    title = (
        f"What the update would do with {count(sample.answers, 'response')} of {sample.path} under this configuration"
    )
    _table(console, Table(title, ["reward", "weight", "share of the update", "push"], rows, note=PUSH))
    for note in sample.notes:
        _paragraph(console, note)


# --- one computation -------------------------------------------------------------------------------------------------


def show_explanation(e: Explanation, prompts: Sequence[int], ties: Sequence[Sequence[int]], file: TextIO) -> None:
    """Print every number of a computation.

    e: the computation.
    prompts: the number of the prompt of each response.
    ties: a list for each tie with the indices, from 0, of the responses that share an advantage though their rewards
        differ.
    file: where it is printed.
    """
    console = console_of(file)
    _paragraph(console, f"{NAMES[e.method]}, convention {e.convention.name} ({e.convention.source})")
    for k, formula in enumerate(formulas(e.method, e.convention, len(e.weights)), start=1):
        _paragraph(console, f"  {k}. {formula}")
    _paragraph(console, f"  w = {listing((raw(w, 6) for w in e.weights.tolist()), link='')}")
    ids = list(dict.fromkeys(prompts))
    for group, prompt in enumerate(ids):
        if len(ids) > 1:
            console.print(f"\nprompt {prompt}")
        _table(console, _steps(e, [i for i, prompt_of_row in enumerate(prompts) if prompt_of_row == prompt], group))
    for line in _notes(e, ties):
        _paragraph(console, line)


def _notes(e: Explanation, ties: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield the lines below the tables of a computation: the mean and std of its batch step, its ties, and what its
    formulas leave out.

    e: the computation.
    ties: for each tie, the indices of its responses.
    """
    if isinstance(e.batch_mean, float) and isinstance(e.batch_std, float):
        over = "tokens" if e.convention.last_step == "tokens" else "responses"
        [mean], [std] = raw_column([e.batch_mean]), raw_column([e.batch_std])
        yield f"over the {over} of the batch: mean s = {mean}, std s = {std}"
    for tied in ties:
        yield f"Responses {listing(i + 1 for i in tied)} differ in their rewards and have the same advantage."
    yield from (f"· {line}" for line in exceptions(e.convention))


def _steps(e: Explanation, rows: Sequence[int], group: int) -> Table:
    """Return a table of the responses to one prompt, with a column for each step of the computation.

    A column that is normalised has its mean and std in two rows at the end of the table. With leave-one-out, each
    response has a mean and std of its own in the group. These then stand in more columns.

    e: the computation.
    rows: the indices of the responses.
    group: the index of the prompt.
    """
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
            feet[name] = [raw(mean[group].item()), raw(std[group].item(), 6)]
    if e.z is not None:
        columns |= {f"z{k + 1}": raw_column(e.z[rows, k].tolist()) for k in range(len(rewards))}
    columns["s"] = raw_column(e.weighted_sums[rows].tolist())
    if isinstance(e.batch_mean, Tensor) and isinstance(e.batch_std, Tensor):
        feet["s"] = [raw(e.batch_mean[group].item()), raw(e.batch_std[group].item(), 6)]
    columns["A"] = raw_column(e.advantages[rows].tolist())
    names = [*(str(i + 1) for i in rows), *(["mean", "std"] if feet else [])]
    cells = [[*values, *(feet.get(name, ["", ""]) if feet else [])] for name, values in columns.items()]
    return Table("", ["", *columns], list(zip(names, *cells, strict=True)))
