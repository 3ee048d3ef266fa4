"""Functions that print paragraphs, tables and lines to copy in a terminal: no line ends in blanks, and no number is
cut.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Drawn
from rich.text import Text

from gdpo_audit.report.sections import Section
from gdpo_audit.report.tables import Table
from gdpo_core._words import printable

_WIDE = 240  # characters per line in a file or a pipe, where nothing is cut to a screen
_TEXT = 100  # characters per line of a paragraph on a screen
_NAME, _PROSE = 22, 24  # characters per line of a row's name, and of a cell that holds words


def console_of(file: TextIO) -> Console:
    """Return a console that prints to a file or a screen, and takes nothing in a log for markup."""
    width = None if file.isatty() else _WIDE
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


class _Trimmed:
    """Draw something without the blanks at the ends of its lines, with which rich fills a column or a paragraph."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in console.render_lines(self._drawn, options, pad=False):
            yield from _without_blanks(line)
            yield Segment.line()


def _without_blanks(line: list[Segment]) -> list[Segment]:
    """Return the segments of a line without the blanks at its end."""
    kept = list(line)
    while kept and not kept[-1].text.strip(" "):
        kept.pop()
    if kept:
        kept[-1] = Segment(kept[-1].text.rstrip(" "), kept[-1].style)
    return kept


def show_trimmed(console: Console, drawn: RenderableType, width: int | None = None) -> None:
    """Print something without blanks at the ends of its lines.

    width: how wide it is drawn, in characters; by default as wide as the console.
    """
    console.print(_Trimmed(drawn), width=width)


def show_facts(console: Console, rows: Iterable[Sequence[str | Text]]) -> None:
    """Print rows of words with their columns below each other; only the last column is wrapped.

    rows: the cells of each row.
    """
    listed = list(rows)
    grid = Drawn.grid(padding=(0, 2, 0, 0))
    for k in range(len(listed[0]) if listed else 0):
        last = k == len(listed[0]) - 1
        grid.add_column(style="dim" if k == 0 else "", no_wrap=not last, overflow="fold")
    for row in listed:
        grid.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in row))
    if listed:
        show_trimmed(console, grid)


def show_section(console: Console, section: Section) -> None:
    """Print a section of a report, without the tables that only HTML shows; nothing if no facts, sentences or tables
    are left.
    """
    tables = [table for table in section.tables if table and table.on_screen != 0]
    if not (section.facts or section.items or tables):
        return
    console.print()
    show_paragraph(console, section.title, "bold")
    show_facts(console, section.facts.items())
    for item in section.items:
        show_paragraph(console, item)
    for table in tables:
        show_table(console, table)
    for title, lines in section.lines.items():
        show_lines(console, lines, title)


def show_lines(console: Console, fix: str | None, title: str = "what to change") -> None:
    """Print lines of configuration, unwrapped; print nothing without lines.

    title: what stands above them; empty for nothing.
    """
    if fix:
        show_paragraph(console, f"{title}:" * bool(title), "dim")
        # The lines are not wrapped, so that they can be copied.
        console.print(Text(printable(fix), "cyan"), soft_wrap=True)


def show_paragraph(console: Console, words: str, style: str = "") -> None:
    """Print words as a paragraph, wrapped on a screen and in one line elsewhere; nothing without words."""
    text = Text(printable(words.strip()), style, overflow="fold")
    if not words:
        return
    if console.is_terminal:
        show_trimmed(console, text, min(console.width, _TEXT))
    else:
        console.print(text, soft_wrap=True)  # one line per paragraph, for the next program in a pipe


def show_table(console: Console, table: Table) -> None:
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
        show_trimmed(console, drawn)
    if told := " ".join(filter(None, [table.note, *table.meanings])):
        show_paragraph(console, told, "dim")


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
