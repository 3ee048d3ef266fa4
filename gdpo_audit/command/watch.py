"""The audit of a log that still grows: it is read anew whenever one of its files has changed."""

import os
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any, TextIO

from gdpo_audit.auditing import audit
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.words import count, listing, printable

Changed = dict[str, tuple[int, int]]  # of each file, by name: its size, and the time of its last change, in nanoseconds


def follow(path: str, file: TextIO, audit_args: dict[str, Any], **named: Any) -> AuditReport:
    """Print a line for each change of a log until Ctrl-C, and return the report of its last state that could be read.

    file: where the lines are printed.
    audit_args: arguments of `audit`.
    named: arguments of `read_run`.

    Raises InputError where no state of the log could be read.
    """
    fault = InputError(f"{path}: expected the log of a run, got none before Ctrl-C")
    report: AuditReport | None = None
    try:
        for outcome in reports(path, audit_args, **named):
            if isinstance(outcome, InputError):
                fault = outcome
            else:
                report = outcome
            # Ctrl-C can come as soon as the line is out; the outcome is kept before, so that no line promises more than
            # the report holds.
            print(_line_of(outcome), file=file, flush=True)
    except KeyboardInterrupt:
        pass
    if report is None:
        raise fault
    return report


def _line_of(outcome: AuditReport | InputError) -> str:
    """Return one line about a log that is watched: how much it holds and its findings, or why it cannot be read."""
    if isinstance(outcome, InputError):
        return printable(f"waiting: {outcome}")
    s = outcome.source
    ids = listing((f"{finding.id} ({finding.severity})" for finding in outcome.findings), link="")
    holds = listing((count(s["steps"], "step"), count(s["responses"], "response")), link="")
    return printable(f"{holds}; {ids or 'no findings'}")


def reports(
    path: str, audit_args: dict[str, Any], every: float = 1.0, **named: Any
) -> Iterator[AuditReport | InputError]:
    """Yield the report of a log, and a new one after each change of its files. Where the log cannot be read, yield the
    error instead.

    The iterator has no end. It looks at the files again after `every` seconds, or later if reading and auditing take
    long: at most a tenth of the time goes into them.

    path: as in `changed_files`; no URL.
    audit_args: arguments of `audit`.
    every: the least number of seconds from one look to the next.
    named: arguments of `read_run`.

    Raises InputError for a URL.
    """
    expect("://" not in path, "--watch", "a directory or file on this machine", f"the URL {path}")
    seen: Changed | None = None
    while True:
        started = time.monotonic()
        if (now := changed_files(path)) != seen:
            seen = now
            try:
                yield audit(read_run(path, **named), **audit_args)
            except InputError as error:
                yield error
        time.sleep(max(every, 9 * (time.monotonic() - started)))


def changed_files(path: str) -> Changed:
    """Return (size, time of the last change in nanoseconds) of each file at a path, by the name of the file.

    path: a file, a directory with all that is in it, a pattern, or DATABASE::RUN. The log that SQLite writes beside a
        database counts too.
    """
    place = os.path.expanduser(path.partition("::")[0])  # a run of a database is named DATABASE::RUN
    names = Path(place).rglob("*") if os.path.isdir(place) else map(Path, [place, f"{place}-wal", *glob(place)])
    states = {}
    for name in names:
        try:
            state = name.stat()
        except OSError:  # gone since, or not there yet
            continue
        states[str(name)] = state.st_size, state.st_mtime_ns
    return states
