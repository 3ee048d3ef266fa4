"""Reading a log of any framework into a run, by `read_run`.

The files of the log become tables. A `Form` says which of their columns holds what. Their rows then become a run in
groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from gdpo_audit.logs.columns.assignment import columns_of, trained_on
from gdpo_audit.logs.columns.candidates import known_weights
from gdpo_audit.logs.columns.totals import RewardChoice
from gdpo_audit.logs.files.configuration import SWIFTS_METHODS, evaluated_steps
from gdpo_audit.logs.files.files import LogFiles, LogSource, find_files
from gdpo_audit.logs.files.trying import attempt
from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.options import ReadOptions, union_schema
from gdpo_audit.logs.forms.window import StepRange
from gdpo_audit.logs.groups.grouping import NoGroups, refuse_groups, regrouped, with_clues, with_groups
from gdpo_audit.logs.groups.labels import without_labels
from gdpo_audit.logs.groups.leads import led_on
from gdpo_audit.logs.groups.pays import with_parts
from gdpo_audit.logs.groups.rows import rows_of
from gdpo_audit.logs.groups.run import Run, one_error
from gdpo_audit.logs.numbers.clues import equal_groups, following_of, groupings_of, ids_of
from gdpo_audit.logs.refusals import refuse, refuse_unless
from gdpo_audit.logs.shapes.reshaping import shape_of
from gdpo_audit.logs.shapes.shape import Shape
from gdpo_audit.logs.tables import formats as tables
from gdpo_audit.logs.tables import frames
from gdpo_audit.logs.tables.formats import Table, tables_of
from gdpo_audit.logs.tables.repairs import together
from gdpo_audit.logs.tables.trackers import expect_one_run
from gdpo_audit.logs.trainers.mean_logs import refuse_means
from gdpo_audit.records import Grouping, LogIssue
from gdpo_core.frameworks import framework_named
from gdpo_core.shared.errors import InputError

_ENDS = (b"\n", b"}", b"]", b"PAR1")  # the last bytes of a file that is whole
MOST_BROKEN = 0.1  # the most broken lines, as a share of the rows, of which it is proposed to leave them out
MOST_BYTES = 50_000_000  # the largest log of which it is tried whether it can be read without what is bad
LEAVES_OUT = "; with skip_bad (--skip-bad) it is left out"


def read_run(
    path: LogSource | Any,
    framework: str | None = None,
    group_size: int | None = None,
    rewards: Sequence[str] | str | None = None,
    group: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    by: str | None = None,
    steps: StepRange | Sequence[StepRange] | None = None,
    last: int | None = None,
    not_steps: Sequence[int | StepRange] | None = None,
    parts: Mapping[str, float] | None = None,
) -> Run:
    """Read the log of a run, as a training framework wrote it, and return the run.

    path: a file, directory, glob or zip, several of them, or {name: bytes}. It may also be DATABASE::RUN for a run in a
        database of trackio, or a URL of hf://, s3:// or gs://. A table does as well: a DataFrame of polars, pandas or
        Arrow, or a list of dicts.
    framework: trl (axolotl writes the same), verl, ms_swift, nemo_rl, verifiers or generic. By default the content
        tells it.
    group_size: the responses per group, if groups are blocks of rows. By default advantages and prompts tell it.
    rewards: the columns of the rewards. By default their names and numbers tell them.
    group: the column that names a group, or several that name it together, such as ("prompt_id", "turn").
    columns: names of the columns that hold the step, the advantage and the length, such as {"step": "iter"}.
    skip_bad: whether to leave out broken lines of JSON, which are counted, and files that cannot be read, which are
        named.
    by: a column, such as the task, whose values an audit looks at one by one; it has one value in a group. "" asks for
        none. By default it is a column of 2 to 12 different texts, such as task or data_source, if the log has at most
        500,000 responses.
    steps: the first and the last step to read, such as (100, 150) or (100, None), or several such pairs; all by
        default.
    last: how many steps at the end of the log to read; given in place of `steps`.
    not_steps: steps to leave out, and pairs of a first and a last step, such as [10, 20, (30, 40)]; none by default.
    parts: what each reward pays if it is passed, such as {"correct": 1, "format": 0.5}. It is for a log that holds only
        the total of the rewards.

    Raises InputError, naming the file, and the column and row or line, if the log cannot be read.
    """
    options = ReadOptions(
        group_size=group_size,
        rewards=rewards,  # type: ignore[arg-type]
        group=group,  # type: ignore[arg-type]
        columns=columns,
        skip_bad=skip_bad,
        by=by,
        steps=steps,  # type: ignore[arg-type]
        last=last,
        not_steps=not_steps,  # type: ignore[arg-type]
        parts=parts,
    )
    known = None if framework is None else framework_named(framework)
    return _read_files(frames.log_of(path) or find_files(path), known, options)


def _read_files(files: LogFiles, known: str | None, options: ReadOptions) -> Run:
    """Read the log of a run from its files, and return the run.

    files: the files of the log.
    known: the id of the framework, if the caller named it.
    options: the arguments of `read_run` besides the log.

    Raises InputError if the log cannot be read or is empty.
    """
    try:
        return _read_one(files, known, options)
    except InputError:
        if files.several:
            raise InputError(files.several) from None
        raise


def _read_one(files: LogFiles, known: str | None, options: ReadOptions) -> Run:
    """Return the run in files that are the log of one run; the arguments and errors are those of `_read_files`."""
    with one_error(files.name):
        try:
            log = _tables(files, options)
        except InputError as error:
            raise _with_skip_bad(error, files, known, options) from None
        refuse_unless(any(table.height for table in log.tables), log.tables[0].name, "at least one response", "0 rows")
    reading = _Reading(files, log, known, options)
    try:
        return reading.run()
    except InputError as error:
        raise led_on(error, log.tables, options, reading.run_with) from None


def _with_skip_bad(error: InputError, files: LogFiles, known: str | None, options: ReadOptions) -> InputError:
    """Return the error of a file, which names the option to leave out what is bad if the log is read with it.

    The option is not named if it leaves out more lines of a single file than the share `MOST_BROKEN` of its rows. A log
    of more than `MOST_BYTES` is not tried; the option is then named if there are several files.
    error: the error.
    files: the files of the log.
    known: the id of the framework, if the caller named it.
    options: the options with which reading failed.
    """
    paths = [file.path for file in files.files if file.path is not None]
    leads = len(files.files) > 1
    if options.skip_bad:
        return error
    if sum(path.stat().st_size for path in paths if path.exists()) <= MOST_BYTES:
        leads = False
        with attempt():
            skipping = replace(options, skip_bad=True)
            log = _tables(files, skipping)
            leads = len(files.files) > 1  # what else is wrong with the log is then said of files that can be read
            _Reading(files, log, known, skipping).run()
            leads = leads or log.broken_lines <= MOST_BROKEN * sum(table.height for table in log.tables)
    return type(error)(f"{error}{LEAVES_OUT}") if leads else error


@dataclass(frozen=True)
class _Reading:
    """A log with the options that it is read with.

    files: the files of the log.
    log: the tables in them.
    known: the id of the framework, if the caller named it.
    options: the arguments of `read_run` besides the log.
    """

    files: LogFiles
    log: "_Log"
    known: str | None
    options: ReadOptions

    def run(self) -> Run:
        """Return the run that the tables hold, in groups.

        The run's `_read_with` is `run_with`, which reads the same tables again with other options.

        Raises InputError if the tables hold no run that can be read.
        """
        with one_error(self.files.name):
            run = with_clues(_with_columns(self.files, self.log, self.known, self.options))
            run = replace(run, _read_with=self.run_with)
            try:
                run = with_groups(run, self.options)
            except NoGroups:
                run = _grouped_by_clues(run)
            if self.options.rewards is None and run.framework == "generic":
                run = without_labels(run, self.run_with)
        next(run.tables())  # a fault in the first rows is then reported now, and not by whoever uses the run
        return run

    def run_with(self, **changes: Any) -> Run:
        """Return the run that the same tables hold if some options are changed.

        changes: fields of `ReadOptions`.
        """
        return replace(self, options=replace(self.options, **changes)).run()


def _grouped_by_clues(run: Run) -> Run:
    """Return the run in the finest groups in which its advantages add up to 0, or in groups by its prompts or ids.

    Prompts count only if no advantages are logged, and if the rows of each prompt stand together. Without advantages a
    column that cuts each batch into groups of one size counts as well. Where none of these shows groups, a column
    counts whose values repeat inside a step as ids of prompts do, although the groups differ in size.

    Raises NoGroups if nothing shows groups.
    """
    assert run._read_with is not None and run._source.clues is not None, "a run that was read can be read again"
    clues = run._source.clues()
    groupings = groupings_of(clues) or following_of(clues) if clues.advantage.any() else []
    if not groupings and not run.has_advantage and run.prompt_column and _in_whole_runs(run._source.prompts):
        groupings = [Grouping(columns=(run.prompt_column,))]
    if not groupings and not run.has_advantage and (equal := equal_groups(clues)) is not None:
        groupings = [equal]
    if groupings:
        return regrouped(run, groupings[0], "")
    ids = [] if run.has_advantage else ids_of(clues, run.prompt_column, run.rewards)
    if not ids:
        refuse_groups(run)
    return regrouped(run, ids[0], "", ids=True)


def _in_whole_runs(prompts: pl.DataFrame | None) -> bool:
    """Return whether the rows of each prompt of a batch stand together, and prompts have two or more rows on average.

    prompts: the batch and `_key`, the prompt, of some rows. For a table without rows, or for None, the result is False.
    """
    if prompts is None or not len(prompts):
        return False
    runs = prompts.select(pl.struct("batch", "_key").rle_id().max()).item() + 1
    return bool(runs == prompts.select(pl.struct("batch", "_key").n_unique()).item() <= len(prompts) / 2)


# --- files -> tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Log:
    """The tables of a log, and what of its files they do not hold.

    skipped: the names of files that cannot be read.
    unfinished: in words, a last file that is still being written.
    broken_lines: how many lines of JSON were left out.
    """

    tables: Sequence[Table]
    skipped: tuple[str, ...]
    unfinished: tuple[str, ...]
    broken_lines: int


def _tables(files: LogFiles, options: ReadOptions) -> _Log:
    """Return the tables of all files.

    If the options skip what is bad, files that cannot be read and broken lines are left out; otherwise they raise
    InputError. There is an exception for the last of several files. If it cannot be read because it is empty or lacks
    its end, it is left out in any case: a run is still writing it.
    files: the files of the log.
    options: the arguments of `read_run` besides the log.

    Raises InputError, too, if the files come from several runs, or if none can be read.
    """
    expect_one_run(files.name, [file.name for file in files.files if file.name.endswith(".table.json")])
    kept: list[Table] = []
    databases: list[str] = []
    bad: dict[str, InputError] = {}
    broken: dict[str, int] = {}
    unfinished: tuple[str, ...] = ()
    for file in files.files:
        try:
            in_file = tables_of(file, broken if options.skip_bad else None)
            if broken.get(file.name) and not any(table.height for table in in_file):
                del broken[file.name]
                tables_of(file, None)  # nothing is left of it, so that it is a bad file, and the error says why
            for table in in_file if options.skip_bad else ():
                _read_through(table)
            databases += [file.name] * (in_file[0].kind == "trackio")
            kept += in_file
        except InputError as error:
            bad[file.name] = error
            last = kept and file is files.files[-1] and file.frame is None
            if not options.skip_bad and last and not file.content().endswith(_ENDS):
                unfinished, bad = (f"{file.name} (empty or without its end)",), {}
            elif not options.skip_bad:
                raise
    if not kept:
        raise next(iter(bad.values()))
    if len(databases) > 1:
        refuse(files.name, "the database of one project", ", ".join(databases[:5]))
    return _Log(kept, tuple(bad), unfinished, sum(broken.values()))


def _read_through(table: Table) -> None:
    """Read every column of a table that may be wanted, so that a damaged table raises its InputError now."""
    names = [name for name in table.schema if name.lower() not in tables.UNREAD]
    for start in range(0, table.height, tables.ROWS_AT_ONCE):
        table.collected(table.frame.select(names).slice(start, tables.ROWS_AT_ONCE))


# --- tables -> form -> columns ----------------------------------------------------------------------------------------


def _with_columns(files: LogFiles, log: _Log, known: str | None, options: ReadOptions) -> Run:
    """Return the run that a log holds: its rewards and other columns are chosen, but its groups are not yet found.

    If the options give `parts`, which are parts of a logged total, the rewards of the run say how often each part
    passed.
    files: the files of the log.
    log: the tables in the files.
    known: the id of the framework, None if the caller did not name it.
    options: the arguments of `read_run` besides the log.

    Raises InputError if the log holds means of rewards in place of responses, or if its columns cannot be chosen.
    """
    refuse_means(log.tables, options.group_size)
    shape, untrained = trained_on(shape_of(log.tables, known, options, files.name), files)
    columns, options = columns_of(shape, files), shape.options
    form, chosen, alone = replace(columns.form, parts=bool(files.several)), columns.chosen, columns.total_alone
    weights, weights_by = known_weights(form, chosen, columns.candidates, alone)
    of_total = chosen.total_only and form.examines and (form.asks or form.advantage is None)
    of_total &= not any(issue.id == "total-of-parts" for issue in chosen.issues)
    left_out = [*log.unfinished, *files.left_out, *shape.left_out]
    run = Run(
        path=files.name,
        framework=shape.framework,
        as_written=known is not None or _as_written(shape, log.tables, chosen.total),
        files=tuple(table.name for table in form.tables),
        rewards=form.rewards,
        total_only=alone or of_total,
        has_advantage=form.advantage is not None,
        has_length=form.length is not None,
        length_column=form.length,
        by=form.by,
        by_default=options.by is None,
        issues=(*_issues(shape.framework, form, left_out, chosen, alone), *_repairs(log), *shape.issues, *untrained),
        skipped_lines=log.broken_lines,
        skipped_files=log.skipped,
        left_out=(*columns.beside, *form.left_out),
        lost=columns.lost,
        configured_method=SWIFTS_METHODS.get(str(form.arguments.get("scale_rewards"))) or form.method,
        total=chosen.total,
        rewards_named=options.rewards is not None,
        has_steps=form.step is not None,
        step_column=form.step,
        evaluated=evaluated_steps(files.files[0]) if files.files else (),
        prompt_column=form.prompt,
        weights=weights,
        weights_by=weights_by,
        _rows=rows_of(form),
    )
    return run if options.parts is None else with_parts(run, options.parts, chosen.total)


def _repairs(log: _Log) -> list[LogIssue]:
    """Return the issues that say what was read otherwise than it stands in the files of a log."""
    return [LogIssue(issue, details) for issue, details in together(table.repairs for table in log.tables).items()]


def _as_written(shape: Shape, tables: Sequence[Table], total: str | None) -> bool:
    """Return whether a log has the columns that its framework itself writes; only TRL's are looked at.

    TRL writes a step, a prompt, a completion and one column of numbers for each reward function, and never a total.
    Any table with a step, prompts and advantages is read as TRL's are.
    shape: the tables with a row per answer.
    tables: the tables as they are in the files.
    total: the column of the total, if there is one.
    """
    if shape.framework != "trl":
        return True
    return shape.tables is tables and total is None and {"step", "prompt", "completion"} <= {*union_schema(tables)}


def _issues(
    framework: str, form: Form, left_out: Sequence[str], chosen: RewardChoice, alone: bool
) -> tuple[LogIssue, ...]:
    """Return the issues of the log that may mislead a reader of the report.

    framework: the id of the framework.
    form: which column of the log holds what.
    left_out: in words, files and rows that were left out.
    chosen: how the rewards were chosen.
    alone: whether the only reward is the total that the framework logs.
    """
    issues = [*chosen.issues, *form.issues]
    if alone or (form.asks and len(chosen.rewards) == 1 and chosen.total is None):
        v1 = {"trainer": "v1"} if framework == "verl" and form.key == "uid" else {}
        issues.append(LogIssue("no-components", {"framework": framework, "has": list(chosen.rewards), **v1}))
    if left_out:
        issues.append(LogIssue("files-left-out", {"files": list(left_out)}))
    return tuple(issues)
