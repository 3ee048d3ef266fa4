"""The audit of a log that grows: the report itself, drawn anew in place when the log changed."""

from contextlib import nullcontext
from typing import Any, TextIO

from rich.live import Live
from rich.text import Text

from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.terminal import console_of, print_report
from gdpo_audit.watch import reports
from gdpo_core._errors import InputError
from gdpo_core._words import count, listing, printable


def follow(path: str, file: TextIO, audit_args: dict[str, Any], **named: Any) -> AuditReport:
    """Show a log that grows until Ctrl-C, and return its last report.

    A terminal shows the report; anything else gets a line per change. Raises InputError where there was none to show.
    audit_args: arguments of `audit`; named: arguments of `read_run`.
    """
    console = console_of(file)
    live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
    fault = InputError(f"{path}: expected the log of a run, got none before Ctrl-C")
    report: AuditReport | None = None
    try:
        with live or nullcontext():
            for found in reports(path, audit_args, **named):
                if isinstance(found, InputError):
                    fault = found
                else:
                    report = found
                if live is None:
                    print(line_of(found), file=file, flush=True)
                    continue
                with console.capture() as drawn:
                    if report is not None:
                        print_report(console, report)
                live.update(Text.from_ansi(f"{line_of(found)}  (Ctrl-C ends)\n\n{drawn.get()}"), refresh=True)
    except KeyboardInterrupt:
        pass
    if report is None:
        raise fault
    return report


def line_of(found: AuditReport | InputError) -> str:
    """What a look found, in one line: the log so far and its findings, or why it cannot be read."""
    if isinstance(found, InputError):
        return printable(f"waiting: {found}")
    s = found.source
    ids = listing((f"{finding.id} ({finding.severity})" for finding in found.findings), link="")
    holds = listing((count(s["steps"], "step"), count(s["responses"], "response")), link="")
    return printable(f"{holds}; {ids or 'no findings'}")
