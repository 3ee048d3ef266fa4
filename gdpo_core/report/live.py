"""The audit of a log that grows: its findings and last steps, redrawn in place, and what each step changed."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TextIO

import polars as pl
from rich.box import SIMPLE
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gdpo_core._errors import InputError
from gdpo_core._words import count, listing, number, percent, printable
from gdpo_core.conventions import NAMES
from gdpo_core.report.summary import severity_counts, shown_method
from gdpo_core.report.terminal import COLOURS
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.files import expand_home
from gdpo_core.runs.over_time import MEAN, SHARE, SILENT, column
from gdpo_core.runs.watch import Follower

_REWARDS = 4  # that have columns
_RECENT = 8  # steps that are shown one by one
_EVERY, _PATIENCE = 1.0, 3.0  # seconds between looks, and until a log that cannot be read is an error
# Looks in a row, each at new rows, that must agree before a finding is said to have come or gone. Of runs of 30 steps
# whose true correlation is at the threshold of a conflict, 35 % would else say so more than twice; with five, 1 %.
STEADY = 5


def new_rows(before: AuditReport | None, now: AuditReport) -> str:
    """What the new rows changed, in one line.

    The steps and the responses that were added, and the findings that came, went, or changed in severity.
    """
    old_steps, old_responses = (before.source["steps"], before.source["responses"]) if before else (0, 0)
    added, responses = now.source["steps"] - old_steps, now.source["responses"] - old_responses
    last = now.steps["step_last"][-1] if len(now.steps) else None
    parts = [f"step {number(last)}: {count(added, 'new step')}, {count(responses, 'response')}"]
    if before is not None and before.run["method"] != now.run["method"]:
        method = now.run["method"]
        parts.append(f"the method is {NAMES[method]}" if method else "the method is not clear any more")
    was = {finding.id: finding.severity for finding in before.findings} if before else {}
    is_ = {finding.id: finding.severity for finding in now.findings}
    came = [f"{id_} ({severity})" for id_, severity in is_.items() if id_ not in was]
    gone = [id_ for id_ in was if id_ not in is_]
    moved = [f"{id_} (now {severity})" for id_, severity in is_.items() if was.get(id_, severity) != severity]
    parts += [f"new: {listing(came)}"] * bool(came) + [f"gone: {listing(gone)}"] * bool(gone)
    parts += [f"changed: {listing(moved)}"] * bool(moved)
    return printable("; ".join(parts))


class Steady:
    """The findings that last: each came, went or changed its severity only once `STEADY` looks in a row agreed."""

    def __init__(self) -> None:
        self._findings: dict[str, Finding] = {}
        self._looks: dict[str, tuple[str | None, int]] = {}  # its severity, None where it is absent, in so many looks

    def of(self, report: AuditReport) -> AuditReport:
        """The report of one more look, with the findings that last. The first look counts once for each step."""
        now = {finding.id: finding for finding in report.findings}
        first = not self._looks
        for id_ in dict.fromkeys([*self._looks, *now]):
            severity = now[id_].severity if id_ in now else None
            before, looks = self._looks.get(id_, (None, STEADY))
            looks = looks + 1 if severity == before else 1
            self._looks[id_] = severity, report.source["steps"] if first else looks
            if self._looks[id_][1] >= STEADY:
                self._findings.pop(id_, None)
                self._findings |= {id_: now[id_]} if id_ in now else {}
        return replace(report, findings=tuple(self._findings.values()))


def follow(follower: Follower, file: TextIO, every: float = _EVERY, patience: float = _PATIENCE) -> AuditReport:
    """Show a growing log until Ctrl-C (or SIGTERM), and return the report of the whole log as it then is.

    A terminal is redrawn in place; anything else gets one line per change, and one if there is nothing at the path yet.
    There are `every` seconds between looks, and more where an audit takes more than a tenth of that. Raises InputError
    if the log is removed or truncated, or if `patience` seconds pass in which it cannot be read.
    """
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    report: AuditReport | None = None
    shown: AuditReport | None = None  # with the findings that last
    steady = Steady()
    live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
    unreadable_since: float | None = None
    with _interrupts(), live or nullcontext():
        try:
            _draw(live, follower, None, "")
            if live is None and not _is_there(follower):
                print(printable(_waiting_line(follower)), file=file, flush=True)
            while True:
                started = time.monotonic()
                if (new := follower.look()) is not None:
                    report, before, shown = new, shown, steady.of(new)
                    changed = new_rows(before, shown)
                    _draw(live, follower, report, changed)
                    if live is None:
                        print(changed, file=file, flush=True)
                elif report is None:
                    _draw(live, follower, None, "")
                now = time.monotonic()
                unreadable_since = (unreadable_since or now) if follower.fault and follower.marks else None
                if follower.fault and unreadable_since and now - unreadable_since > patience:
                    raise follower.fault
                time.sleep(max(every, 9 * (now - started)))
        except KeyboardInterrupt:
            pass
    try:
        return follower.whole()
    except InputError:  # the last file is half written
        if report is None:
            raise
        return report


@contextmanager
def _interrupts() -> Iterator[None]:
    """SIGTERM, and a SIGINT that a shell told its background jobs to ignore, end the watch as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, signal.default_int_handler) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _draw(live: Live | None, follower: Follower, report: AuditReport | None, changed: str) -> None:
    if live is not None:
        live.update(_screen(follower, report, changed), refresh=True)


def _is_there(follower: Follower) -> bool:
    return expand_home(follower.path.partition("::")[0]).exists()


def _waiting_line(follower: Follower) -> str:
    what = "the first step" if _is_there(follower) else "it: there is nothing of that name yet"
    return f"{follower.path}: waiting for {what}"


def _screen(follower: Follower, report: AuditReport | None, changed: str) -> RenderableType:
    """The report in a few lines: what it stands on, its findings, its last steps, and what the last of them changed."""
    path = printable(follower.path)
    if report is None:
        return Text(f"{printable(_waiting_line(follower))}. Ctrl-C ends.", "dim")
    s = report.source
    holds = f"{count(s['steps'], 'step')}, {count(s['responses'], 'response')}, {count(s['groups'], 'group')}"
    lines: list[RenderableType] = [
        Text(f"{path}: {holds}", "bold"),
        Text(f"last change: {changed}", "dim"),
        Text(f"\nFindings: {severity_counts(report)}", "bold"),
    ]
    for finding in report.findings:
        head = (finding.severity, COLOURS[finding.severity]), f"  {printable(finding.id)}  "
        lines.append(Text.assemble(*head, (printable(finding.title), "dim")))
    lines.append(_steps(report, report.steps.tail(_RECENT)))
    lines.append(Text("Ctrl-C ends and prints the whole report.", "dim"))
    return Group(*lines)


def _steps(report: AuditReport, recent: pl.DataFrame) -> Table:
    """The last steps: the mean of each reward and its share of the update, and the silent groups."""
    method, _ = shown_method(report)
    names: Sequence[str] = report.source["rewards"][:_REWARDS]
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("step", justify="right")
    for name in names:
        table.add_column(f"mean {printable(name)}", justify="right", overflow="fold")
        table.add_column("update", justify="right")
    table.add_column("silent groups", justify="right")
    for row in recent.iter_rows(named=True):
        cells = [number(row["step_last"])]
        for name in names:
            cells += [number(row[column(MEAN, name)]), percent(row.get(column(SHARE, f"{method}", name)))]
        table.add_row(*cells, percent(row.get(column(SILENT, f"{method}"))))
    return table
