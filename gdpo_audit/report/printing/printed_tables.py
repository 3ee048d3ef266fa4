"""Functions that print sections and tables of a report in a terminal: no line ends in blanks, and no number is cut."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Drawn

from gdpo_audit.console import show_facts, show_lines, show_paragraph, show_trimmed
from gdpo_audit.report.sections import Section
from gdpo_audit.report.tables import TextTable
from gdpo_core.shared.words import printable

_NAME, _PROSE = 22, 24  # characters per line of a row's name, and of a cell that holds words


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


def show_table(console: Console, table: TextTable) -> None:
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


def _width(table: TextTable, k: int) -> int:
    """Return the least width, in characters, at which no number in the column with index k has to break.

    The column needs the length of the longest word of its heading, or of the longest line in its cells if that is more.
    Names of rows (column 0) and the cells of a table of prose may break anywhere, so these columns need at most `_NAME`
    and `_PROSE` characters.
    """
    lines = [*table.head[k].split(), *(line for row in table.rows for line in row[k].split("\n"))]
    longest = max((len(printable(line)) for line in lines), default=0)
    return min(longest, _NAME) if k == 0 else min(longest, _PROSE) if table.prose else longest


def _widened(table: TextTable, widths: Sequence[int], columns: Sequence[int], room: int) -> dict[int, int]:
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
