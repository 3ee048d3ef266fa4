"""The console of a terminal, and functions that print paragraphs, facts and lines to copy; no line ends in blanks.

`gdpo check` prints with these alone, so this file imports neither torch nor polars.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gdpo_core.shared.words import printable

COLOURS = {"error": "bold red", "warning": "bold yellow", "info": "bold"}  # the style of each severity
_WIDE = 240  # characters per line in a file or a pipe, where nothing is cut to a screen
_TEXT = 100  # characters per line of a paragraph on a screen


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
    grid = Table.grid(padding=(0, 2, 0, 0))
    for k in range(len(listed[0]) if listed else 0):
        last = k == len(listed[0]) - 1
        grid.add_column(style="dim" if k == 0 else "", no_wrap=not last, overflow="fold")
    for row in listed:
        grid.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in row))
    if listed:
        show_trimmed(console, grid)


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
