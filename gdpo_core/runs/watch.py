"""A log that still grows: it is audited anew whenever its files have changed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gdpo_core._errors import InputError, expect
from gdpo_core._inputs import ArrayLike
from gdpo_core.frameworks import framework_named
from gdpo_core.runs.audit import findings, gather
from gdpo_core.runs.audit_report import AuditReport, report_of
from gdpo_core.runs.columns import ReadOptions
from gdpo_core.runs.facts import Facts
from gdpo_core.runs.files import LogFile, LogFiles, NoLog, find_files, format_of
from gdpo_core.runs.frames import REMOTE
from gdpo_core.runs.read import read_files, read_run
from gdpo_core.runs.run import Run

LINES = ("jsonl", "csv", "tsv")  # formats that grow by lines


@dataclass(frozen=True)
class _Mark:
    """What shows that a file changed."""

    size: int
    changed: int  # in nanoseconds


class Follower:
    """The audit of a log that grows, anew at each look that finds its files changed.

    A file that is removed is an error, and so is one that is truncated, unless it is the last, which may be written
    again.
    """

    def __init__(
        self,
        path: str,
        *,
        framework: str | None = None,
        weights: Mapping[str, float] | ArrayLike | None = None,
        primary: str | None = None,
        asked: str | None = None,
        **named: Any,
    ) -> None:
        """path: a directory or a file. named: further arguments of `read_run`."""
        expect(REMOTE.match(path) is None, "--watch", "a directory or file on this machine", f"the URL {path}")
        self.path, self.framework, self.named = path, framework and framework_named(framework), named
        self.weights, self.primary, self.asked = weights, primary, asked
        ReadOptions(**named)  # bad arguments are refused now
        self.marks: dict[str, _Mark] = {}
        self.fault: InputError | None = None
        self.facts: Facts | None = None  # of the last report

    def look(self) -> AuditReport | None:
        """The report, if the log changed since the last look; None if not, or as long as there is no log.

        Raises InputError if a file was removed or truncated. A log that has not begun, and a last file that is being
        written, cannot be read yet: then `fault` says why, until a look succeeds.
        """
        log = self._log()
        if log is None:
            return None
        marks = {file.name: _mark(file) for file in log.files}
        if marks == self.marks:
            return None
        self._expect_growth(marks)
        self.marks, self.fault = marks, None
        try:
            return self._report(self._read(_whole_lines(log)))
        except InputError as error:
            self.fault = error
            return None

    def whole(self) -> AuditReport:
        """The report of the log as it is now, with a last line that has no end. Raises InputError."""
        return self._report(read_run(self.path, self.framework, **self.named))

    def _read(self, log: LogFiles) -> Run:
        return read_files(log, self.framework, ReadOptions(**self.named))

    def _report(self, run: Run) -> AuditReport:
        self.facts = gather(run, self.weights, self.primary, self.asked)
        return report_of(self.facts, findings(self.facts))

    def _log(self) -> LogFiles | None:
        """The files of the log; None where there are none yet."""
        try:
            log = find_files(self.path)
        except (InputError, OSError) as error:
            if not self.marks and isinstance(error, NoLog):
                self.fault = error
                return None
            if not self.marks:
                raise
            if isinstance(error, InputError) and not isinstance(error, NoLog):  # a packed file that is being written
                self.fault = error
                return None
            raise InputError(f"{self.path}: expected a log that stays where it is, got none: it was removed") from None
        for file in log.files:
            expect(file.path is not None, file.name, "a directory or a file that grows", "a file inside an archive")
        return log

    def _expect_growth(self, marks: Mapping[str, _Mark]) -> None:
        last = next(reversed(self.marks), None)
        for name, before in self.marks.items():
            expect(name in marks, name, "a file that stays where it is", "none: it was removed")
            grows = name != last or name.lower().endswith(LINES)
            fits = not grows or marks[name].size >= before.size
            expect(fits, name, "a file that grows", "one that was truncated")


def _mark(file: LogFile) -> _Mark:
    assert file.path is not None, "archives are refused"
    try:
        states = [file.path.stat()]
    except OSError as error:
        raise InputError(f"{file.name}: expected a file that can be read, got {error.strerror}") from None
    with suppress(OSError):
        states.append(Path(f"{file.path}-wal").stat())  # where SQLite writes what is new
    return _Mark(sum(state.st_size for state in states), max(state.st_mtime_ns for state in states))


def _whole_lines(log: LogFiles) -> LogFiles:
    """The log without a line at the end of its only file that is still being written."""
    last = log.files[-1]
    if len(log.files) > 1 or not last.plain_path or not last.start(1) or format_of(last) not in LINES:
        return log
    content = last.content()
    whole = content[: content.rfind(b"\n") + 1]
    return log if whole == content else replace(log, files=(LogFile(last.name, load=partial(bytes, whole)),))
