"""`read_run`: the log of a run in the same form for every framework."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from gdpo_core._errors import InputError, expect
from gdpo_core.frameworks import FRAMEWORKS, READABLE, framework_named
from gdpo_core.runs import frames, tables
from gdpo_core.runs.columns import ReadOptions, reward_names
from gdpo_core.runs.files import LogFile, LogFiles, Source, find_files, format_of
from gdpo_core.runs.grouping import with_clues, with_groups
from gdpo_core.runs.nested import as_columns, refuse_nested_rewards
from gdpo_core.runs.run import LogIssue, Run, one_error
from gdpo_core.runs.tables import BadLines
from gdpo_core.runs.trackers import as_tables
from gdpo_core.runs.window import Steps

_ENDED = ("parquet", "jsonl", "json", "wandb")  # formats that show that their end is missing


def read_run(
    path: Source | Any,
    framework: str | None = None,
    group_size: int | None = None,
    rewards: Sequence[str] | str | None = None,
    group: str | None = None,
    *,
    advantage: str | None = None,
    length: str | None = None,
    step: str | None = None,
    skip_bad_lines: bool = False,
    by: str | None = None,
    steps: Steps | None = None,
    last: int | None = None,
    skip_bad_files: bool = False,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
) -> Run:
    """The log of a run, as a training framework wrote it.

    path: a file, directory, glob or zip, several of them, or {name: bytes}; DATABASE::RUN for a run in a database of
        trackio; a URL, hf://, s3:// or gs://; or a table: a DataFrame of polars, pandas or Arrow, or a list of dicts.
    framework: trl (axolotl writes the same), verl, ms_swift, nemo_rl, verifiers or generic; inferred from the content
        by default.
    group_size: responses per group, if groups are blocks of rows; inferred from advantages and prompts by default.
    rewards, group, advantage, length, step: names of columns.
    skip_bad_lines: leave out and count broken lines of JSON.
    skip_bad_files: leave out and name files that cannot be read.
    by: a column, such as the task, whose values an audit looks at one by one; it has one value in a group.
    steps, last: of these steps alone: the first and the last, such as (100, 150) or (100, None), or so many at the end.
    columns: names of columns by what they hold: step, advantage, length.
    skip_bad: leave out and count broken lines, and name files that cannot be read.
    Raises InputError, naming the file, and the column and row or line, if the log cannot be read.
    """
    named = columns or {}
    unknown = [repr(key) for key in named if key not in ("step", "advantage", "length")]
    expect(not unknown, "columns", "step, advantage or length", ", ".join(unknown))
    step, advantage, length = named.get("step", step), named.get("advantage", advantage), named.get("length", length)
    skip_bad_lines, skip_bad_files = skip_bad_lines or skip_bad, skip_bad_files or skip_bad
    options = ReadOptions(
        rewards=reward_names(rewards),
        group=group,
        advantage=advantage,
        length=length,
        step=step,
        group_size=group_size,
        skip_bad_lines=skip_bad_lines,
        by=by,
        steps=steps,
        last=last,
        skip_bad_files=skip_bad_files,
    )
    known = None if framework is None else framework_named(framework)
    files = frames.log_of(path) or find_files(path)
    if skip_bad_files:
        return read_files(*without_bad_files(files, options), known, options)
    return read_files(without_unfinished(files, skip_bad_lines), (), known, options)


def read_files(files: LogFiles, skipped: tuple[str, ...], known: str | None, options: ReadOptions) -> Run:
    """The log of a run from its files, besides those that were left out. Raises InputError.

    known: the id of its framework, if the caller named it.
    """
    again = partial(_read_with, files, skipped, known, options)
    try:
        files = files if files.files[0].frame is not None else as_tables(files)
        run = read_rows(files, known, options)
    except InputError as error:
        raise _with_advice(error, files, options) from None
    with one_error(files.name):
        run = with_groups(run, options)
    next(run.tables())  # a fault in the first rows is reported now
    return replace(run, skipped_files=skipped, _read_with=again)


def _read_with(
    files: LogFiles, skipped: tuple[str, ...], known: str | None, options: ReadOptions, rewards: tuple[str, ...]
) -> Run:
    return read_files(files, skipped, known, replace(options, rewards=rewards))


def without_bad_files(log: LogFiles, options: ReadOptions) -> tuple[LogFiles, tuple[str, ...]]:
    """The log without the files that cannot be read, and their names; InputError, of the first, if none can."""
    faults = {file.name: fault for file in log.files if (fault := fault_of(file, log, options)) is not None}
    good = tuple(file for file in log.files if file.name not in faults)
    if not good:
        raise next(iter(faults.values()))
    return replace(log, files=good), tuple(faults)


def fault_of(file: LogFile, log: LogFiles, options: ReadOptions) -> InputError | None:
    """Why a file of a log cannot be read, by itself; None if it can."""
    try:
        with one_error(file.name):
            for table in as_tables(replace(log, files=(file,))).files:
                tables.read_through(table, options.bad_lines)
    except InputError as error:
        return error
    return None


def _with_advice(error: InputError, log: LogFiles, options: ReadOptions) -> InputError:
    """The error; where it is one file of several that cannot be read, with the option that leaves it out."""
    file = next((file for file in log.files if str(error).startswith(file.name)), None)
    if len(log.files) == 1 or options.skip_bad_files or file is None or fault_of(file, log, options) is None:
        return error
    return InputError(f"{error}; with skip_bad_files (--skip-bad-files) it is left out")


def read_rows(files: LogFiles, framework: str | None, options: ReadOptions) -> Run:
    """The run with what shows its groups, before they are known."""
    with one_error(files.name):
        files = _as_its_framework_writes(as_columns(files, options.bad_lines), framework)
        run = _reader(framework or detect(files, options)).read(files, options)
        if files.left_out:
            details = {"files": [f"{name} {why}" for name, why in files.left_out]}
            run = replace(run, issues=(*run.issues, LogIssue("files-left-out", details)))
        return with_clues(run)


def detect(files: LogFiles, options: ReadOptions) -> str:
    """The framework whose columns the files have, whatever their names; "generic" if that is none of the known ones.

    Raises InputError if different frameworks wrote the files.
    """
    first, *rest = files.files
    framework, kind = _framework_of(first, options), format_of(first)
    for file in rest:
        same = kind == "parquet" == format_of(file)  # the reader compares the columns of all files
        other = framework if same else _framework_of(file, options)
        if other != framework or format_of(file) != kind:
            raise InputError(
                f"{files.name}: expected the log of one run, got {framework} in {first.name} "
                f"and {other} in {file.name}; name one of them"
            )
    return framework


def _framework_of(file: LogFile, options: ReadOptions) -> str:
    kind, columns = format_of(file), None
    if kind == "parquet":
        columns = tables.parquet_schema(file)
    elif kind == "jsonl":
        columns = next(iter(tables.first_objects(file, options.bad_lines, 1)), None)
    for key in READABLE:
        if columns and FRAMEWORKS[key].log_format == kind and _reader(key).matches(columns):
            return key
    return "generic"


def _as_its_framework_writes(files: LogFiles, known: str | None) -> LogFiles:
    """The log, with tables that are no files as the lines of JSON that their framework would have written."""
    first, tables = files.files[0], [file.frame for file in files.files if file.frame is not None]
    if first.frame is None or len(tables) < len(files.files):
        return files
    row = next(iter(first.frame.head(1).collect().to_dicts()), {})
    for key in READABLE:
        fits = known == key if known else bool(row) and _reader(key).matches(row)
        if fits and key != "generic" and FRAMEWORKS[key].log_format == "jsonl":
            lines = [table.collect().write_ndjson().encode() for table in tables]
            named = zip(files.files, lines, strict=True)
            written = (LogFile(file.name, load=partial(bytes, content), kind="jsonl") for file, content in named)
            return replace(files, files=tuple(written))
    refuse_nested_rewards(first, BadLines())
    return files


def _reader(framework: str) -> ModuleType:
    return import_module(f"gdpo_core.runs.{framework}")


# --- a log that is still written -------------------------------------------------------------------------------------


def without_unfinished(log: LogFiles, skips_lines: bool = False) -> LogFiles:
    """The log without its last file, if that is empty or cut and the one before is not: a run is still writing it.

    skips_lines: broken lines are left out anyway. A broken file among the others stays, for the reader to name.
    """
    *before, last = log.files
    if not before or last.frame is not None or before[-1].frame is not None:
        return log
    try:
        kind = format_of(before[-1])
    except InputError:
        return log
    if not _is_whole(before[-1], kind) or _is_whole(last, kind) or (kind == "jsonl" and skips_lines):
        return log
    why = "ends in the middle, as while it is written" if last.start(1) else "is empty, as before it is written"
    return replace(log, files=tuple(before), left_out=(*log.left_out, (last.name, why)))


def _is_whole(file: LogFile, kind: str) -> bool:
    """Whether a file of this format has its end, as far as that can be seen."""
    if not file.start(1):
        return False
    try:
        if kind == "parquet":
            return bool(tables.parquet_schema(file))
        if kind in _ENDED:
            content = file.content().rstrip()
            json.loads((content.rpartition(b"\n")[2] if kind == "jsonl" else content).decode("utf-8-sig"))
    except (InputError, ValueError, RecursionError):
        return False
    return True
