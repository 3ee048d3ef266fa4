"""`read_run`: the log of a run in the same form for every framework, and its groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from gdpo_core import config_lines
from gdpo_core._errors import InputError, expect, is_whole, reason
from gdpo_core.frameworks import FRAMEWORKS, READABLE, framework_named
from gdpo_core.runs import frames, tables
from gdpo_core.runs.columns import Columns, Options, reward_names
from gdpo_core.runs.files import LogFile, LogFiles, Source, find_files, format_of
from gdpo_core.runs.nested import as_columns, refuse_nested_rewards
from gdpo_core.runs.sizes import WHOLE, infer, runs_of, stretches
from gdpo_core.runs.tables import BadLines
from gdpo_core.runs.texts import Texts, no_texts
from gdpo_core.runs.trackers import as_tables
from gdpo_core.runs.unfinished import without_unfinished
from gdpo_core.runs.window import Steps, select_steps, validate_window, window_of

BATCHES = 200  # whose advantages are examined
PROMPTS = 10_000  # rows whose prompts are examined
MANY = 0.5  # share of groups of an unusual size; where it is larger, groups have not lost rows but differ in size


# The first batch of each stretch of batches, and the rows per group there.
Blocks: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LogIssue:
    """A property of the files that may mislead a reader: the id of the finding that reports it, and its details."""

    id: str
    details: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a log, whose groups are still to be found.

    read: yields these columns of the log in frames of whole batches, anew at each call: `_file`, batch and step
        (Int64), one column per reward (Float64, NaN = missing), `advantage` (Float64) and `length` (Int64) if the
        columns name them, and `_key` (UInt64) if a column identifies the groups of a batch.
    prompts: returns batch, step, `_key` and `text` of the prompts of some first rows, if the log has prompts and they
        do not identify the groups.
    texts: returns prompts and completions by their `_place`, if the log has any.
    """

    columns: Columns
    read: Callable[[Columns], Iterator[pl.DataFrame]]
    keyed_by: str | None = None  # in words, what identifies a group; None: groups are blocks of rows
    equal_groups: bool = False  # a keyed group smaller than the others has lost rows
    prompts: Callable[[], pl.DataFrame | None] = lambda: None
    group_size: int | None = None  # from a configuration file beside the log
    texts: Texts = no_texts


def _no_tables() -> Iterator[pl.DataFrame]:
    raise AssertionError("a run has tables once its groups are known")


def _no_other_size(size: int) -> "Run":
    raise InputError(f"size: expected a run whose groups are blocks of rows, got {size} for another")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's log: facts about it, and its responses as tables that are read on demand.

    Every table has the columns batch, step and group (Int64), one Float64 column per reward (NaN = missing), and
    `advantage` (Float64) and `length` (Int64, tokens) if the log holds them, and `_by` (String) if `by` is named;
    `_place` (Int64) says where in the files each row stands. A
    batch is the responses of one training step, over which GDPO's last step runs. A table holds whole batches, and the
    rows of a batch and of a group stand together. The numbers of batches and of groups are unique over the run.
    """

    path: str  # as the caller gave it
    framework: str  # the id of a framework
    files: tuple[str, ...]  # their names, in reading order
    rewards: tuple[str, ...]
    group_size: int | None = None  # None: groups differ in size
    grouped_by: str = ""  # in words: "blocks of 8 rows", "the column uid"
    grouped_by_column: bool = False  # else by blocks of rows
    total_only: bool = False  # the log holds one total per response, not the rewards it was made of
    has_advantage: bool
    has_length: bool
    issues: tuple[LogIssue, ...] = ()  # found by the reader
    skipped_lines: int = 0
    skipped_files: tuple[str, ...] = ()  # that cannot be read
    left_out: tuple[str, ...] = ()  # columns that are neither used nor texts that such logs are known to hold
    configured_method: str | None = None  # that a configuration file beside the log asks for
    weights: Mapping[str, float] | None = None  # per reward, if the log or a configuration file beside it holds them
    by: str | None = None  # the column whose values are looked at one by one
    window: tuple[int, int] | None = None  # the first and the last step, where only some were asked for
    weights_by: str | None = None  # their origin: log, score (a logged total is the weighted sum) or config
    other_sizes: tuple[int, ...] = ()  # group sizes that the prompts and advantages fit as well
    _rows: Rows | None = field(default=None, repr=False)
    _blocks: Blocks = field(default=(), repr=False)  # where groups are blocks of rows
    _regroup: Callable[[int], "Run"] = field(default=_no_other_size, repr=False)
    _tables: Callable[[], Iterator[pl.DataFrame]] = field(default=_no_tables, repr=False)

    @property
    def _numbered_by_file(self) -> bool:
        """Whether the number of a file stands in for the step."""
        return _rows_of(self).columns.step is None

    def tables(self) -> Iterator[pl.DataFrame]:
        """The responses, some ten thousand to a few hundred thousand at a time; each call reads the files anew."""
        return self._tables()

    @property
    def texts(self) -> Texts:
        """What reads the prompts and completions of some responses, by their `_place`."""
        return no_texts if self._rows is None else self._rows.texts

    def regroup(self, size: int) -> "Run":
        """The same log in groups of another size."""
        return self._regroup(size)

    @cached_property
    def table(self) -> pl.DataFrame:
        """All responses: step, group, the rewards, advantage if logged, length if known."""
        return pl.concat(list(self.tables())).drop("batch", "_place", strict=False)


def _rows_of(run: Run) -> Rows:
    """The rows that the run's reader gave it."""
    assert run._rows is not None, "readers return rows"
    return run._rows


def run_of(files: LogFiles, framework: str, rows: Rows, **facts: Any) -> Run:
    """A run whose groups are still to be found, from its rows and other facts that its reader knows."""
    return Run(
        path=files.name,
        framework=framework,
        files=tuple(file.name for file in files.files),
        rewards=rows.columns.rewards,
        has_advantage=rows.columns.advantage is not None,
        has_length=rows.columns.length is not None,
        by=rows.columns.by,
        _rows=rows,
        **facts,
    )


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
    Raises InputError, naming the file, and the column and row or line, if the log cannot be read.
    """
    options = options_of(
        group_size, rewards, group, advantage, length, step, skip_bad_lines, by, steps, last, skip_bad_files
    )
    known = None if framework is None else framework_named(framework)
    files = frames.log_of(path) or find_files(path)
    if skip_bad_files:
        files, skipped = without_bad_files(files, options)
    else:
        files, skipped = without_unfinished(files, skip_bad_lines), ()
    try:
        files = files if files.files[0].frame is not None else as_tables(files)
        run, proof = read_rows(files, known, options)
    except InputError as error:
        raise _with_advice(error, files, options) from None
    with one_error(files.name):
        run = with_groups(run, proof, options)
    next(run.tables())  # a fault in the first rows is reported now
    return replace(run, skipped_files=skipped)


def options_of(
    group_size: int | None = None,
    rewards: Sequence[str] | str | None = None,
    group: str | None = None,
    advantage: str | None = None,
    length: str | None = None,
    step: str | None = None,
    skip_bad_lines: bool = False,
    by: str | None = None,
    steps: Steps | None = None,
    last: int | None = None,
    skip_bad_files: bool = False,
) -> Options:
    """The arguments of `read_run`, checked."""
    steps, last = validate_window(steps, last)
    for name, value in {"group": group, "advantage": advantage, "length": length, "step": step, "by": by}.items():
        expect(value is None or (isinstance(value, str) and value != ""), name, "the name of a column", repr(value))
    fits = group_size is None or (is_whole(group_size) and group_size > 0)
    expect(fits, "group_size", "a positive whole number", repr(group_size))
    return Options(
        rewards=reward_names(rewards),
        group=group,
        advantage=advantage,
        length=length,
        step=step,
        group_size=None if group_size is None else int(group_size),
        bad_lines=BadLines(bool(skip_bad_lines)),
        by=by,
        steps=steps,
        last=last,
        skip_bad_files=bool(skip_bad_files),
    )


def without_bad_files(log: LogFiles, options: Options) -> tuple[LogFiles, tuple[str, ...]]:
    """The log without the files that cannot be read, and their names; InputError, of the first, if none can."""
    faults = {file.name: fault for file in log.files if (fault := fault_of(file, log, options)) is not None}
    good = tuple(file for file in log.files if file.name not in faults)
    if not good:
        raise next(iter(faults.values()))
    return replace(log, files=good), tuple(faults)


def fault_of(file: LogFile, log: LogFiles, options: Options) -> InputError | None:
    """Why a file of a log cannot be read, by itself; None if it can."""
    try:
        with one_error(file.name):
            for table in as_tables(replace(log, files=(file,))).files:
                tables.read_through(table, options.bad_lines)
    except InputError as error:
        return error
    return None


def _with_advice(error: InputError, log: LogFiles, options: Options) -> InputError:
    """The error; where it is one file of several that cannot be read, with the option that leaves it out."""
    file = next((file for file in log.files if str(error).startswith(file.name)), None)
    if len(log.files) == 1 or options.skip_bad_files or file is None or fault_of(file, log, options) is None:
        return error
    return InputError(f"{error}; with skip_bad_files (--skip-bad-files) it is left out")


def read_rows(files: LogFiles, framework: str | None, options: Options) -> tuple[Run, "GroupingProof"]:
    """The run before its groups are known, and what shows them."""
    with one_error(files.name):
        files = _as_its_framework_writes(as_columns(files, options.bad_lines), framework)
        run = _reader(framework or detect(files, options)).read(files, options)
        if files.left_out:
            details = {"files": [f"{name} {why}" for name, why in files.left_out]}
            run = replace(run, issues=(*run.issues, LogIssue("files-left-out", details)))
        return run, _grouping_proof(run)


def detect(files: LogFiles, options: Options) -> str:
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


def _framework_of(file: LogFile, options: Options) -> str:
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


@contextmanager
def one_error(where: str) -> Iterator[None]:
    """Turn an error of polars that no check foresaw, or of a file behind a URL, into an InputError."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        why = reason(error)[:200]
        raise InputError(f"{where}: expected a log that can be read as a table, got {why}") from None


# --- which rows are a group ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupingProof:
    """What shows which rows are a group, in a log or in a part of it."""

    sizes: pl.DataFrame  # rows, step and file of each batch, or of each group that a column identifies
    advantages: tuple[np.ndarray, ...]  # of the first batches
    prompts: pl.DataFrame | None  # as `Rows.prompts` gives them

    @property
    def batches(self) -> pl.DataFrame:
        """The batch, rows, step and first file of each batch."""
        of_batch = pl.col("rows").sum(), pl.col("step").first(), pl.col("_file").first()
        return self.sizes.group_by("batch", maintain_order=True).agg(*of_batch)


def with_groups(run: Run, proof: GroupingProof, options: Options) -> Run:
    """The run with its groups: those that a column identifies, or blocks of the size given, configured or inferred."""
    rows = _rows_of(run)
    window = window_of(proof.sizes["step"], run.path, options.steps, options.last)
    # The size of a group shows in the whole log; what may mislead a reader is said of the steps that are asked for.
    sizes = select_steps(proof.sizes, window)
    prompts = None if proof.prompts is None else select_steps(proof.prompts, window)
    run = replace(run, skipped_lines=options.bad_lines.count, window=window)
    if rows.keyed_by:
        return _by_key(run, rows, sizes, options.group_size)
    run = _note_sample(run, prompts)

    def regroup(size: int) -> Run:
        ragged = sizes.filter(pl.col("rows") % size != 0)
        _expect_none(ragged, run, f"rows that groups of {size} divide")
        return _in_blocks(run, rows, ((0, size),), sizes, prompts)

    if options.group_size:
        return regroup(options.group_size)
    size = rows.group_size
    ids = _prompt_ids(proof.prompts)
    changes = () if size else tuple(stretches(proof.sizes["rows"].to_list(), proof.advantages, ids))
    if changes:
        return _in_blocks(_note_changes(run, proof.sizes, changes), rows, changes, sizes, prompts)
    others: tuple[int, ...] = ()
    if size is None or (sizes["rows"] % size != 0).any():
        inferred = infer(proof.sizes["rows"].to_list(), proof.advantages, ids)
        if inferred is None:
            raise _no_groups(run, prompts)
        size, others = inferred.size, inferred.others
    return replace(_in_blocks(run, rows, ((0, size),), sizes, prompts), other_sizes=others, _regroup=regroup)


def _grouping_proof(run: Run) -> GroupingProof:
    """One pass over the log, without rewards and lengths where that is faster."""
    rows = _rows_of(run)
    by = ["batch", "_key"] if rows.keyed_by else ["batch"]
    sizes: list[pl.DataFrame] = []
    advantages: list[np.ndarray] = []
    for table in rows.read(replace(rows.columns, rewards=(), length=None, by=None)):
        counts = table.group_by(by, maintain_order=True).agg(
            pl.len().alias("rows"), pl.col("step").first(), pl.col("_file").first()
        )
        sizes.append(counts)
        if run.has_advantage and not rows.keyed_by and len(advantages) < BATCHES:
            advantages += np.split(table["advantage"].to_numpy(), counts["rows"].cum_sum().to_numpy()[:-1])
    expect(bool(sizes), run.path, "at least one response", "0 rows")
    prompts = None if rows.keyed_by else rows.prompts()
    return GroupingProof(pl.concat(sizes), tuple(advantages[:BATCHES]), prompts)


def tables_of(run: Run, blocks: Blocks, first_batch: int = 0) -> Iterator[pl.DataFrame]:
    """The tables of a part of a run, in the groups that the whole run has: blocks of rows, or by a column if none."""
    here = tuple((batch - first_batch, size) for batch, size in blocks)
    return _tables(run, _rows_of(run), partial(_number_blocks, here) if blocks else _number_keys)


def groups_before(run: Run, proof: GroupingProof, batch: int) -> int:
    """The number of the first group of a batch: how many groups the batches before it hold."""
    before = proof.sizes.filter(pl.col("batch") < batch)
    if not run._blocks:
        return len(before)
    return before.select((pl.col("rows") / _size_at(run._blocks)).ceil().sum().cast(pl.Int64)).item()


def _size_at(blocks: Blocks) -> pl.Expr:
    """The rows per group in each batch."""
    size = pl.lit(blocks[0][1])
    for batch, later in blocks[1:]:
        size = pl.when(pl.col("batch") >= batch).then(pl.lit(later)).otherwise(size)
    return size


def _note_changes(run: Run, sizes: pl.DataFrame, changes: Blocks) -> Run:
    """The run with an issue that says from which step on its groups have another size."""
    steps = [sizes.filter(pl.col("batch") >= batch)["step"][0] for batch, _ in changes]
    details = {"sizes": [size for _, size in changes], "from_steps": steps}
    return replace(run, issues=(*run.issues, LogIssue("group-size-changes", details)))


def _expect_none(ragged: pl.DataFrame, run: Run, wanted: str) -> None:
    if len(ragged):
        file, rows, step = run.files[ragged["_file"][0]], ragged["rows"][0], ragged["step"][0]
        raise InputError(f"{file}: expected {wanted}, got {rows} in step {step}")


def _in_blocks(run: Run, rows: Rows, blocks: Blocks, sizes: pl.DataFrame, prompts: pl.DataFrame | None) -> Run:
    """The run in groups of so many rows from the start of each batch."""
    size = _size_at(blocks)
    ragged = sizes.filter(pl.col("rows") % size != 0).with_columns(size.alias("size"))
    issues = list(run.issues)
    if len(ragged):
        details = {"group_size": ragged["size"][0], "batches": len(ragged), "of": len(sizes)}
        issues.append(LogIssue("ragged-batches", details | {"step": ragged["step"][0], "rows": ragged["rows"][0]}))
    merged = None if prompts is None else _merged_prompts(prompts, size)
    if merged:
        issues.append(LogIssue("prompts-merged", merged))
    return replace(
        run,
        group_size=None if len(ragged) or len(blocks) > 1 else blocks[0][1],
        grouped_by=f"blocks of {', then '.join(f'{size}' for _, size in blocks)} rows",
        issues=tuple(issues),
        _blocks=blocks,
        _tables=partial(_tables, run, rows, partial(_number_blocks, blocks)),
    )


def _by_key(run: Run, rows: Rows, sizes: pl.DataFrame, group_size: int | None) -> Run:
    """The run in the groups that a column identifies."""
    usual = group_size or min(sizes["rows"].mode())
    sizes, changes = _with_usual(sizes, usual, changes=group_size is None)
    run = _note_changes(run, sizes, changes) if changes else run
    cut = sizes.filter(pl.col("rows") % pl.col("usual") != 0)
    if group_size:
        _expect_none(cut, run, f"groups of {usual} rows by {rows.keyed_by}")
    issues = list(run.issues)
    if (sizes["rows"] == 1).all() and len(sizes) > sizes["batch"].n_unique():
        details = {"step": sizes["step"][0], "steps": sizes["step"].n_unique(), "rows": len(sizes)}
        issues.append(LogIssue("groups-sampled", details))
    several = (pl.col("rows") > pl.col("usual")) & (pl.col("rows") % pl.col("usual") == 0)
    merged = sizes.filter(several & (pl.col("usual") > 1))
    if len(merged):
        details = {"step": merged["step"][0], "steps": merged["step"].n_unique(), "groups": len(merged)}
        details |= {"group_size": merged["usual"][0], "rows": merged["rows"][0], "looked_at_groups": len(sizes)}
        issues.append(LogIssue("prompts-merged", details))
    if rows.equal_groups and 0 < len(cut) < MANY * len(sizes):
        details = {"group_size": cut["usual"][0], "batches": cut["batch"].n_unique(), "of": sizes["batch"].n_unique()}
        details |= {"step": cut["step"][0], "rows": cut["rows"][0], "groups": len(cut)}
        issues.append(LogIssue("ragged-batches", details))
    return replace(
        run,
        group_size=usual if sizes["rows"].n_unique() == 1 else None,
        grouped_by=f"{rows.keyed_by}",
        grouped_by_column=True,
        issues=tuple(issues),
        _tables=partial(_tables, run, rows, _number_keys),
    )


def _with_usual(sizes: pl.DataFrame, usual: int, changes: bool) -> tuple[pl.DataFrame, Blocks]:
    """The groups with the usual size where they stand, and where it changes during the run: () if it does not."""
    found: Blocks = ()
    if changes:
        mode = pl.col("rows").mode().min()
        alike = (pl.col("rows") == mode).mean() >= WHOLE
        of = sizes.group_by("batch", maintain_order=True).agg(pl.when(alike).then(mode).alias("size"))
        runs = [(of["batch"][first], size) for first, size in runs_of(of["size"].to_list())]
        found = tuple(runs) if len(runs) > 1 else ()
    blocks = found or ((0, usual),)
    return sizes.with_columns(_size_at(blocks).alias("usual")), found


def _tables(run: Run, rows: Rows, number: Callable[[pl.DataFrame], pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Tables with the columns in order; InputError if there is no row, or no value of any reward."""
    columns = ["batch", "step", "group", "_place", *run.rewards]
    columns += ["advantage"] * run.has_advantage + ["length"] * run.has_length + ["_by"] * (run.by is not None)
    first, responses, values = 0, 0, 0
    frames = rows.read(rows.columns)
    while True:
        with one_error(run.path):
            table = next(frames, None)
            if table is None:
                break
            table = number(table).with_columns(pl.col("group") + first)
        first = table["group"][-1] + 1
        table = select_steps(table, run.window)
        if not len(table):
            continue
        responses += len(table)
        values += sum(int(table[name].is_not_nan().sum()) for name in run.rewards) if values == 0 else 0
        yield table.select(columns)
    expect(responses > 0, run.path, "at least one response", "0 rows")
    expect(values > 0, run.path, f"a value in {', '.join(run.rewards)}", "every one missing")


def _number_blocks(blocks: Blocks, table: pl.DataFrame) -> pl.DataFrame:
    """Add `group`: blocks of rows from the start of each batch, of which the last may be shorter."""
    block = pl.int_range(pl.len()).over("batch") // _size_at(blocks)
    return table.with_columns(pl.struct("batch", block).rle_id().cast(pl.Int64).alias("group"))


def _number_keys(table: pl.DataFrame) -> pl.DataFrame:
    """Add `group`: the rows of a batch that share `_key`, moved together, in the order of their first rows."""
    table = table.with_row_index("group").with_columns(pl.col("group").first().over("batch", "_key"))
    return table.sort("group", maintain_order=True).with_columns(pl.col("group").rle_id().cast(pl.Int64))


# --- prompts ---------------------------------------------------------------------------------------------------------


def _prompt_ids(prompts: pl.DataFrame | None) -> list[np.ndarray]:
    """The prompts of each batch, without the last one, which the sample may have cut off."""
    if prompts is None or not len(prompts):
        return []
    parts = [part["_key"].to_numpy() for part in prompts.partition_by("batch", maintain_order=True)]
    return parts[:-1] if len(parts) > 1 else parts


def _note_sample(run: Run, prompts: pl.DataFrame | None) -> Run:
    """The run with an issue if no two rows of a batch share their prompt, as a sample of the prompts shows."""
    whole = None if prompts is None else prompts.filter(pl.len().over("batch") > 1)
    if whole is None or not len(whole) or whole.select(pl.struct("batch", "_key").is_duplicated().any()).item():
        return run
    details = {"step": whole["step"][0], "steps": whole["step"].n_unique(), "rows": len(whole)}
    return replace(run, issues=(*run.issues, LogIssue("groups-sampled", details)))


def _no_groups(run: Run, prompts: pl.DataFrame | None) -> InputError:
    """The error where nothing shows the groups; it names the setting that makes a log a sample, if there is one."""
    setting = config_lines.log_whole_groups(run.framework)
    if setting is None or prompts is None or len(prompts) < 2:
        return InputError(
            f"{run.path}: expected groups that can be told from prompts or advantages, got none; "
            f"give group_size, the responses per prompt, or the group column (rewards: {', '.join(run.rewards)})"
        )
    if size := _shuffled_group_size(prompts):
        return InputError(
            f"{run.path}: expected the rows of a group one after the other, got each prompt in {size} rows apart from "
            "each other: give --group prompt, or the column that tells groups apart"
        )
    sampled = next((issue.details["step"] for issue in run.issues if issue.id == "groups-sampled"), None)
    got = "different numbers of rows" if sampled is None else f"one response per prompt in step {sampled}"
    return InputError(
        f"{run.path}: expected the rows of whole groups, as many per prompt, got {got}: a log that holds a sample "
        f"shows no groups; log all rows with {setting.splitlines()[0]}, or give group_size or the column group"
    )


def _shuffled_group_size(prompts: pl.DataFrame) -> int | None:
    """The usual number of rows of a prompt in a step, if those are as many for most prompts and not side by side."""
    size = prompts.group_by("step", "_key", maintain_order=True).agg(pl.len().alias("rows"))["rows"]
    usual = min(size.mode())
    return usual if usual > 1 and (size == usual).mean() >= WHOLE else None


def _merged_prompts(prompts: pl.DataFrame, size: pl.Expr) -> dict[str, object] | None:
    """Details of how groups of one batch share a prompt, from a sample of the prompts; None if none do.

    prompts: batch, step, `_key` and `text` of rows in blocks of this size.
    """
    block = pl.int_range(pl.len()).over("batch") // size
    groups = prompts.with_columns(block.alias("block")).unique(["batch", "block"], keep="first", maintain_order=True)
    shared = groups.filter(pl.len().over("batch", "_key") > 1)
    if not len(shared):
        return None
    return {
        "step": shared["step"][0],
        "steps": shared["step"].n_unique(),
        "groups": len(shared),
        "prompts": len(shared.unique(["batch", "_key"])),
        "looked_at_groups": len(groups),
        "excerpt": shared["text"][0],
    }
