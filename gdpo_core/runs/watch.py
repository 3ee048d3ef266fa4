"""A log that still grows: each look reads what is new, and its sums are merged with those of what was read before."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._inputs import ArrayLike
from gdpo_core.frameworks import framework_named
from gdpo_core.runs.audit import SAMPLE, check_arguments, facts_of, findings, gather, plan_of, sample_of, solve_recipe
from gdpo_core.runs.audit_report import AuditReport, over_time, report_of
from gdpo_core.runs.columns import ROWS_OF_A_FILE, Options
from gdpo_core.runs.facts import Facts
from gdpo_core.runs.files import LogFile, LogFiles, NoLog, find_files, format_of
from gdpo_core.runs.frames import REMOTE
from gdpo_core.runs.run import (
    BATCHES,
    PROMPTS,
    GroupingProof,
    Run,
    detect,
    options_of,
    read_rows,
    read_run,
    with_groups,
)
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Plan, Summary, merge, take
from gdpo_core.runs.texts import PromptAndCompletion
from gdpo_core.runs.trials import Sample
from gdpo_core.runs.unfinished import without_unfinished

LINES = ("jsonl", "csv", "tsv")  # formats that grow by lines
RECENT = 8  # steps that are shown one by one
_CHECKED = 4096  # bytes before the place where reading goes on, which must stay as they were


@dataclass(frozen=True)
class _Mark:
    """What shows that a file changed."""

    size: int
    changed: int  # in nanoseconds


@dataclass(frozen=True)
class _Part:
    """Some files, or some lines of one, as they were read; batches are numbered from 0."""

    run: Run  # its groups are not known yet
    proof: GroupingProof
    skipped: int  # broken lines

    @property
    def batches(self) -> int:
        return int(self.proof.sizes["batch"][-1]) + 1


class _LogChanged(Exception):
    """The settled part of the log has changed, so the log is read from its start."""


class Follower:
    """The audit of a log that grows.

    What stands before the last file, or before the last step of a file of lines, is settled: it is read once, and a
    change in it is an error. The last file or step may still change and is read again when it does. What is kept of
    the settled part: its sums per batch, the rows of its batches, and the responses from which the recipe is solved.
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
        self.path, self.framework, self.named = path, framework, named
        self.weights, self.primary, self.asked = weights, primary, asked
        options_of(**named)  # bad arguments are refused now
        part = next((name for name in ("steps", "last", "by") if named.get(name) is not None), None)
        expect(part is None, "--watch", "the whole log", f"{part}={named.get(f'{part}')!r} beside it")
        self.known = None if framework is None else framework_named(framework)
        self.marks: dict[str, _Mark] = {}
        self.fault: InputError | None = None
        self.facts: Facts | None = None  # of the last report
        self.recent = pl.DataFrame()  # the last steps, as in `AuditReport.steps`
        self.responses_read = 0  # what is read again counts again
        self._forget()

    def _forget(self) -> None:
        self.closed: dict[str, _Mark] = {}  # the settled files
        self.place, self.before_place = 0, b""  # where the unsettled lines of a single file begin
        self.proof: GroupingProof | None = None
        self.first: list[pl.DataFrame] = []  # tables from which the recipe is solved
        self.of_first: tuple[Plan, int, Summary] | None = None  # the summary of so many of them
        self.rest: Summary | None = None  # of the tables after them
        self.sample = Sample()  # of all settled tables, on which changes are tried
        self.batches = self.groups = self.files = self.skipped = 0
        self.left_out: tuple[str, ...] = ()
        self.last: tuple[LogFile, _Mark, _Part] | None = None  # the file that may still change
        self.of_last: list[pl.DataFrame] = []  # its tables
        self.rewards: tuple[str, ...] | None = None
        self.grouped_by: str | None = None

    def look(self) -> AuditReport | None:
        """The report, if the log changed since the last look; None if not, or as long as there is no log.

        Raises InputError if the log was removed, or what is settled was changed. A log that has not begun, and a last
        file that is being written, cannot be read yet: then `fault` says why, until a look succeeds.
        """
        log = self._log()
        if log is None:
            return None
        marks = {file.name: _mark(file) for file in log.files}
        if marks == self.marks:
            return None
        self._expect_settled(marks)
        first = log.files[0]
        single = len(log.files) == 1 and marks[first.name].size > 0 and first.plain_path and format_of(first) in LINES
        lines = self._new_lines(first) if single else None
        self.marks, self.fault = marks, None
        try:
            return self._new_files(log) if lines is None else self._report(self._with_lines(log, *lines))
        except (_LogChanged, InputError) as error:
            # The whole log says what is wrong with it, if anything is; else it has no form that grows by parts.
            self._forget()
            if isinstance(error, InputError) and without_unfinished(log) is not log:
                self.fault = error
                return None
        try:
            report = self.whole()
        except InputError as error:
            self.fault = error
            return None
        self.recent = report.steps.tail(RECENT)
        return report

    def whole(self) -> AuditReport:
        """The report of the log as it is now, read from its start."""
        run = read_run(self.path, self.framework, **self.named)
        self.facts = gather(run, self.weights, self.primary, self.asked)
        return report_of(self.facts, findings(self.facts))

    # --- what is new ---

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
            raise InputError(f"{self.path}: expected a log that stays where it is, got none: it was removed") from None
        for file in log.files:
            expect(file.path is not None, file.name, "a directory or a file that grows", "a file inside an archive")
        return log

    def _expect_settled(self, marks: Mapping[str, _Mark]) -> None:
        for name, mark in self.marks.items():
            expect(name in marks, name, "a file that stays where it is", "none: it was removed")
            if name.lower().endswith(LINES):
                expect(marks[name].size >= mark.size, name, "a file that grows", "one that was truncated")
            if name in self.closed and marks[name] != self.closed[name]:
                got = "one that was truncated" if marks[name].size < mark.size else "one that was rewritten"
                raise InputError(f"{name}: expected a file of an earlier step to stay as it was, got {got}")

    def _options(self) -> Options:
        return options_of(**self.named)

    def _part(self, files: Sequence[LogFile], log: LogFiles) -> _Part:
        """These files as a part of the log."""
        options = self._options()
        some = replace(log, files=tuple(files))
        self.known = self.known or detect(some, options)
        run, proof = read_rows(some, self.known, options)
        if self.rewards not in (None, run.rewards):
            raise _LogChanged
        self.rewards = run.rewards
        return _Part(run, proof, options.bad_lines.count)

    def _new_files(self, log: LogFiles) -> AuditReport:
        """Settle all files but the last, and report on them together with that one."""
        *done, last = log.files
        names = [file.name for file in log.files]
        if names[: len(self.closed)] != list(self.closed) or self.place:
            raise _LogChanged  # batches would get other numbers
        new = done[len(self.closed) :]
        if new and self.last is not None and self.last[:2] == (new[0], self.marks[new[0].name]):
            self._settle(self.last[2], new[:1], self.of_last)
            new = new[1:]
        if new:
            self._settle(self._part(new, log), new)
        if self.last is None or self.last[:2] != (last, self.marks[last.name]):
            self.last = last, self.marks[last.name], self._part([last], log)
        return self._report(self.last[2])

    def _new_lines(self, file: LogFile) -> tuple[bytes, bytes]:
        """The names of columns, if a line holds them, and the whole lines that are not settled."""
        assert file.path is not None, "archives are refused"
        with file.path.open("rb") as opened:
            header = b"" if format_of(file) == "jsonl" else opened.readline()
            start = max(self.place, len(header))
            opened.seek(start - len(self.before_place))
            same = opened.read(len(self.before_place)) == self.before_place
            expect(same, file.name, "a file that grows", "one that was rewritten")
            content = opened.read()
        return header, content[: content.rfind(b"\n") + 1]

    def _with_lines(self, log: LogFiles, header: bytes, content: bytes) -> _Part:
        """Settle all steps of a file of lines but the last one; the part that holds this one."""
        [file] = log.files

        def part_of(lines: bytes) -> _Part:
            return self._part([LogFile(file.name, load=partial(bytes, header + lines))], log)

        part = part_of(content)
        end = _last_step(content, part)
        if not end:
            return part
        self._settle(part_of(content[:end]), [])
        self.place = max(self.place, len(header)) + end
        self.before_place = (self.before_place + content[:end])[-_CHECKED:]
        return part_of(content[end:])

    # --- sums ---

    def _settle(self, part: _Part, files: Sequence[LogFile], read: Iterable[pl.DataFrame] = ()) -> None:
        """Add the part to the sums; its numbers of batches go on from the last one. read: its tables, if known."""
        proof = self._with(part)
        for table in read or self._tables(part, self._regroup(part, proof)):
            self.sample.add(table)
            if sum(map(len, self.first)) < SAMPLE:
                self.first.append(table)
                continue
            if self.rest is None:
                plan = self._plan(part.run, sample_of(self.first))
                self.of_first = plan, len(self.first), merge([summarise(one, plan) for one in self.first])
            assert self.of_first is not None, "the plan is set"
            new = summarise(table, self.of_first[0])
            self.rest = new if self.rest is None else merge([self.rest, new])
        self.groups = int(table["group"][-1]) + 1
        self.batches += part.batches
        self.proof = proof
        self.closed |= {file.name: self.marks[file.name] for file in files}
        self.files += len(files)
        self.skipped += part.skipped
        self.left_out = tuple(dict.fromkeys((*self.left_out, *part.run.left_out)))

    def _with(self, part: _Part) -> GroupingProof:
        """The proof so far and that of the next part."""
        new, step = part.proof, pl.col("step") + self.files * part.run._numbered_by_file
        sizes = new.sizes.with_columns(pl.col("batch") + self.batches, pl.col("_file") + self.files, step)
        prompts = None if new.prompts is None else new.prompts.with_columns(pl.col("batch") + self.batches)
        old = self.proof
        if old is None:
            return GroupingProof(sizes, new.advantages, prompts)
        if old.prompts is not None and prompts is not None:
            prompts = pl.concat([old.prompts.select(prompts.columns), prompts]).head(PROMPTS)
        return GroupingProof(pl.concat([old.sizes, sizes]), (*old.advantages, *new.advantages)[:BATCHES], prompts)

    def _regroup(self, part: _Part, proof: GroupingProof) -> Run:
        """The run of a part with its groups, told apart by the proof of all parts."""
        run = with_groups(replace(part.run, files=tuple(self.marks)), proof, self._options())
        if self.grouped_by not in (None, run.grouped_by) or len(run._blocks) > 1:
            raise _LogChanged
        self.grouped_by = run.grouped_by
        return run

    def _tables(self, part: _Part, run: Run) -> Iterator[pl.DataFrame]:
        """The tables of a part, whose steps, batches and groups go on from what is settled."""
        for table in run.tables():
            self.responses_read += len(table)
            step = pl.col("step") + self.files * part.run._numbered_by_file
            table = table.with_columns(step, pl.col("batch") + self.batches, pl.col("group") + self.groups)
            table = table.with_columns(pl.col("_place") + self._settled_place)
            self._expect_later(run, table)
            yield table

    @property
    def _settled_place(self) -> int:
        """Where the places of unsettled rows start: the number of settled files, or of rows of the only file."""
        rows = 0 if self.proof is None or self.closed else int(self.proof.sizes["rows"].sum())
        return self.files * ROWS_OF_A_FILE + rows

    def _texts(self, places: Collection[int]) -> Mapping[int, PromptAndCompletion]:
        """The texts of the whole log, as it is now."""
        try:
            return read_rows(find_files(self.path), self.known, self._options())[0].texts(places)
        except InputError:
            return {}

    def _expect_later(self, run: Run, table: pl.DataFrame) -> None:
        """Some logs are read in the order of their steps, so a part must not hold steps of those before."""
        if run.framework not in ("generic", "verifiers") or self.proof is None:
            return
        if table["step"][0] <= self.proof.sizes["step"][-1]:
            raise _LogChanged

    def _plan(self, run: Run, sample: list[pl.DataFrame]) -> Plan:
        given, intended = check_arguments(run, self.weights, self.primary, self.asked)
        recipe = solve_recipe(run, sample if run.has_advantage else [], given, intended)
        if recipe is None and run.other_sizes:
            raise _LogChanged  # another group size may explain the advantages
        return plan_of(run, given, self.primary, recipe, intended)

    def _report(self, part: _Part) -> AuditReport:
        """The report of what is settled and of the part that is not."""
        proof = self._with(part)
        run = self._regroup(part, proof)
        self.of_last = tables = list(self._tables(part, run))
        left_out = tuple(dict.fromkeys((*self.left_out, *part.run.left_out)))
        run = replace(run, left_out=left_out, skipped_lines=self.skipped + part.skipped)
        full = self.rest is not None
        plan = self.of_first[0] if full and self.of_first else self._plan(run, sample_of([*self.first, *tables]))
        summaries = [summarise(table, plan) for table in tables]
        if self.first:
            summaries.append(self._summary_of_first(plan))
        if self.rest is not None:
            summaries.append(self.rest)
        given, intended = check_arguments(run, self.weights, self.primary, self.asked)
        sample = Sample(list(self.sample.tables), self.sample.every)
        for table in tables:
            sample.add(table)
        summary = replace(merge(summaries), sample=tuple(sample.tables))
        self.facts = facts_of(run, summary, given, intended, read_again=False)
        self.recent = over_time(plan, take(self.facts.batches, slice(-RECENT, None)))
        return replace(report_of(self.facts, findings(self.facts)), _texts=self._texts)

    def _summary_of_first(self, plan: Plan) -> Summary:
        """The summary of the first tables, of which only those are computed that are new under this plan."""
        done: Sequence[Summary] = ()
        count = 0
        if self.of_first is not None and self.of_first[0] == plan:
            _, count, summary = self.of_first
            done = (summary,)
        if count < len(self.first) or not done:
            summary = merge([*done, *(summarise(table, plan) for table in self.first[count:])])
            self.of_first = plan, len(self.first), summary
        return summary


def _mark(file: LogFile) -> _Mark:
    assert file.path is not None, "archives are refused"
    try:
        states = [file.path.stat()]
    except OSError as error:
        raise InputError(f"{file.name}: expected a file that can be read, got {error.strerror}") from None
    with suppress(OSError):
        states.append(Path(f"{file.path}-wal").stat())  # where SQLite writes what is new
    return _Mark(sum(state.st_size for state in states), max(state.st_mtime_ns for state in states))


def _last_step(content: bytes, part: _Part) -> int:
    """The byte at which the lines of the last batch begin; 0 where lines do not show that."""
    sizes = part.proof.sizes
    rows, last = int(sizes["rows"].sum()), int(sizes.filter(pl.col("batch") == pl.col("batch").max())["rows"].sum())
    lines = content.count(b"\n")
    if part.batches < 2 or lines not in (rows, part.batches):
        return 0
    place = len(content)
    for _ in range((last if lines == rows else 1) + 1):
        place = content.rfind(b"\n", 0, place)
    return place + 1
