"""`read_run`: the log of a run in the same form for every framework: files, tables, form, columns, groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from gdpo_audit.logs import columns as cols
from gdpo_audit.logs import frames, tables
from gdpo_audit.logs.choice import RewardChoice, beside_score, choose
from gdpo_audit.logs.clues import Grouping, groupings_of
from gdpo_audit.logs.columns import ReadOptions, union_schema
from gdpo_audit.logs.files import LogFiles, Source, find_files
from gdpo_audit.logs.form import Form
from gdpo_audit.logs.forms import FORMS, LENGTHS, PLACES, SWIFTS_METHODS, configured_weights, settings_in
from gdpo_audit.logs.grouping import NoGroups, no_groups, regrouped, with_clues, with_groups
from gdpo_audit.logs.identity import identity_of
from gdpo_audit.logs.names import EVENT, FILE, GROUP_OF_ROW, MADE, ROW, reward_options
from gdpo_audit.logs.parts import with_parts
from gdpo_audit.logs.roles import ADVANTAGES, lost, role
from gdpo_audit.logs.rows import in_batches, kinds_of, rows_of
from gdpo_audit.logs.run import LogIssue, Run, one_error
from gdpo_audit.logs.scalars import refuse_means
from gdpo_audit.logs.scans import rows_in, value_of
from gdpo_audit.logs.shapes import shape_of
from gdpo_audit.logs.tables import Table, is_number_type, tables_of
from gdpo_audit.logs.trackers import expect_one_run
from gdpo_audit.logs.window import Steps
from gdpo_core._errors import InputError, expect
from gdpo_core._words import listing
from gdpo_core.frameworks import framework_named

SPREAD = 16  # tables over a log that are looked at first
SAMPLE = 20_000  # rows that tell rewards from totals and metrics
ENDS = (b"\n", b"}", b"]", b"PAR1")  # of whole files
TASKS = ("task", "source", "data_source", "dataset", "domain", "category", "subset", "env")
FEW_VALUES, BY_RESPONSES = 12, 500_000  # of a column to go by that nobody named; in larger logs it costs too much time
LEAVES_OUT = "; with skip_bad (--skip-bad) it is left out"


def read_run(
    path: Source | Any,
    framework: str | None = None,
    group_size: int | None = None,
    rewards: Sequence[str] | str | None = None,
    group: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    by: str | None = None,
    steps: Steps | None = None,
    last: int | None = None,
    parts: Mapping[str, float] | None = None,
) -> Run:
    """The log of a run, as a training framework wrote it.

    path: a file, directory, glob or zip, several of them, or {name: bytes}; DATABASE::RUN for a run in a database of
        trackio; a URL, hf://, s3:// or gs://; or a table: a DataFrame of polars, pandas or Arrow, or a list of dicts.
    framework: trl (axolotl writes the same), verl, ms_swift, nemo_rl, verifiers or generic; inferred from the content
        by default.
    group_size: responses per group, if groups are blocks of rows; inferred from advantages and prompts by default.
    rewards, group: names of columns; of `group` several that name a group together, such as ("prompt_id", "turn").
    columns: names of the columns that hold the step, the advantage and the length, such as {"step": "iter"}.
    skip_bad: leave out broken lines of JSON, which are counted, and files that cannot be read, which are named.
    by: a column, such as the task, whose values an audit looks at one by one; it has one value in a group. By default
        a column of 2 to 12 texts, such as task or data_source, of a log of up to 500,000 responses; "" for none.
    steps, last: of these steps alone: the first and the last, such as (100, 150) or (100, None), or so many at the end.
    parts: what a pass of each reward pays, such as {"correct": 1, "format": 0.5}, for a log of their totals alone.
    Raises InputError, naming the file, and the column and row or line, if the log cannot be read.
    """
    options = ReadOptions(
        group_size=group_size,
        rewards=rewards,  # type: ignore[arg-type]
        group=group,  # type: ignore[arg-type]
        columns=columns,
        skip_bad=skip_bad,
        by=by,
        steps=steps,
        last=last,
        parts=parts,
    )
    known = None if framework is None else framework_named(framework)
    return read_files(frames.log_of(path) or find_files(path), known, options)


def read_files(files: LogFiles, known: str | None, options: ReadOptions) -> Run:
    """Read the log of a run from its files. known: the id of its framework, if the caller named it; InputError."""
    with one_error(files.name):
        log = _tables(files, options)
        expect(any(table.height for table in log.tables), log.tables[0].name, "at least one response", "0 rows")
    return _run_of(files, log, known, options)


def _run_of(files: LogFiles, log: "_Log", known: str | None, options: ReadOptions) -> Run:
    """Return the run in these tables, which can be read once more with other options. Raises InputError."""

    def read_with(**changes: Any) -> Run:
        return _run_of(files, log, known, replace(options, **changes))

    with one_error(files.name):
        run = replace(with_clues(_with_columns(files, log, known, options)), _read_with=read_with)
        try:
            run = with_groups(run, options)
        except NoGroups:
            run = _grouped_by_clues(run)
    next(run.tables())  # a fault in the first rows is reported now
    return run


def _grouped_by_clues(run: Run) -> Run:
    """Return the run in the finest groups in which its advantages add up to 0, or by its prompts; NoGroups for none."""
    assert run._read_with is not None and run._source.clues is not None, "a run that was read can be read again"
    clues = run._source.clues()
    groupings = groupings_of(clues) if clues.advantage.any() else []
    if not groupings and not run.has_advantage and run.prompt_column and _in_whole_runs(run._source.prompts):
        groupings = [Grouping(columns=(run.prompt_column,))]
    if not groupings:
        raise no_groups(run)
    return regrouped(run, groupings[0], "")


def _in_whole_runs(prompts: pl.DataFrame | None) -> bool:
    """Whether the rows of each prompt of a batch stand together, and prompts have two or more on average."""
    if prompts is None or not len(prompts):
        return False
    runs = prompts.select(pl.struct("batch", "_key").rle_id().max()).item() + 1
    return bool(runs == prompts.select(pl.struct("batch", "_key").n_unique()).item() <= len(prompts) / 2)


# --- files -> tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Log:
    """The tables of a log, and the names of the files and the number of lines that are not among them."""

    tables: Sequence[Table]
    skipped: tuple[str, ...]
    unfinished: tuple[str, ...]
    broken_lines: int


def _tables(files: LogFiles, options: ReadOptions) -> _Log:
    """The tables of all files, without those that cannot be read if these are to be skipped. Raises InputError.

    A last file that is empty or lacks its end is left out in any case: a run is still writing it.
    """
    expect_one_run(files.name, [file.name for file in files.files if file.name.endswith(".table.json")])
    found: list[Table] = []
    databases: list[str] = []
    bad: dict[str, InputError] = {}
    broken: dict[str, int] = {}
    unfinished: tuple[str, ...] = ()
    for file in files.files:
        try:
            own = tables_of(file, broken if options.skip_bad else None)
            for table in own if options.skip_bad else ():
                _read_through(table)
            databases += [file.name] * (own[0].kind == "trackio")
            found += own
        except InputError as error:
            bad[file.name] = error
            last = found and file is files.files[-1] and file.frame is None
            if not options.skip_bad and last and not file.content().endswith(ENDS):
                unfinished, bad = (f"{file.name} (empty or without its end)",), {}
            elif not options.skip_bad:
                raise InputError(f"{error}{LEAVES_OUT * (len(files.files) > 1)}") from None
    if not found:
        raise next(iter(bad.values()))
    expect(len(databases) < 2, files.name, "the database of one project", ", ".join(databases[:5]))
    return _Log(found, tuple(bad), unfinished, sum(broken.values()))


def _read_through(table: Table) -> None:
    """Read all that may be wanted of a table, for the InputError where it is damaged."""
    names = [name for name in table.schema if name.lower() not in tables.UNREAD]
    for start in range(0, table.height, tables.ROWS):
        table.collected(table.frame.select(names).slice(start, tables.ROWS))


# --- tables -> form -> columns ----------------------------------------------------------------------------------------


def _with_columns(files: LogFiles, log: _Log, known: str | None, options: ReadOptions) -> Run:
    """The run whose groups are still to be found."""
    refuse_means(log.tables, options.group_size)
    shape = shape_of(log.tables, known, options, files.name)
    framework, options = shape.framework, shape.options
    schema = union_schema(shape.tables)
    form = shape.of(FORMS[framework](shape.tables, schema, options, settings_in(files.args)))
    form = replace(form, not_rewards=form.not_rewards | PLACES)
    where = form.tables[0].name
    schema = {name: kind for name, kind in kinds_of(form).items() if name not in (FILE, ROW, EVENT)}
    logged = form.logged or [*union_schema(form.tables)]
    candidates = _candidates(form, schema, options)
    cols.expect_columns([name for name in options.names if name not in schema], logged, where)
    form = _with_grouping(form, options)
    chosen = _rewards(form, candidates, schema, options)
    by_log = bool(form.rewards)
    others = [name for name in schema if name not in chosen.rewards]
    identity = identity_of({name: schema[name] for name in others}, partial(in_batches, form))
    form = replace(form, rewards=chosen.rewards, by=options.by or None, identity=identity)
    form = cols.validate_columns(form, logged, where)
    nameless = options.rewards is None and "" in form.rewards
    wanted = f"columns of other names, or the rewards named: {reward_options(form.rewards)}"
    expect(not nameless, where, wanted, "one called ''")
    cols.expect_in_every_table(form.tables, form)
    used = [*form.names, *([chosen.total] if chosen.total else [])]
    if form.examines:
        nameable, clear = () if options.rewards else form.rewards, _not_examined(form, schema, options)
        cols.refuse_numeric_texts(form.tables, [*used, *clear], nameable, _examined_always(form))
    of_log = {name: schema[name] for name in logged if name in schema}
    beside = [name for name in cols.left_out(of_log, used) if name.lower() not in form.not_rewards]
    gone = () if by_log else lost(schema, beside, options.rewards)
    if options.by is None and (by := _few_texts(form, schema, [n for n in beside if n not in gone])):
        form, beside = replace(form, by=by), [name for name in beside if name != by]
    alone = form.total is not None and chosen.rewards == (form.total,)
    functions = [name for name in candidates if name != chosen.total and role(name) != "metric"]
    configured = None if alone else configured_weights(form.settings, functions, form.rewards)
    in_log = {n: w for n, w in (form.weights or {}).items() if n in form.rewards}
    weights = configured or in_log or chosen.weights or None
    of_total = chosen.total_only and form.examines and (form.asks or form.advantage is None)
    of_total &= not any(issue.id == "total-of-parts" for issue in chosen.issues)
    run = Run(
        path=files.name,
        framework=framework,
        files=tuple(table.name for table in form.tables),
        rewards=form.rewards,
        total_only=alone or of_total,
        has_advantage=form.advantage is not None,
        has_length=form.length is not None,
        length_column=form.length,
        by=form.by,
        by_default=options.by is None,
        issues=_issues(framework, form, [*log.unfinished, *files.left_out, *shape.left_out], chosen, alone),
        skipped_lines=log.broken_lines,
        skipped_files=log.skipped,
        left_out=(*beside, *form.left_out),
        lost=gone,
        configured_method=SWIFTS_METHODS.get(str(form.settings.get("scale_rewards"))) or form.method,
        total=chosen.total,
        rewards_named=options.rewards is not None,
        has_steps=form.step is not None,
        prompt_column=form.prompt,
        weights=weights,
        weights_by=None if not weights else "config" if configured else "log" if in_log else chosen.weights_by,
        _rows=rows_of(form),
    )
    return run if options.parts is None else with_parts(run, options.parts, chosen.total)


def _with_grouping(form: Form, options: ReadOptions) -> Form:
    """Return the form with the groups that the options name: several columns together, or none at all."""
    form = replace(form, once=options.once, mask=options.mask)
    if options.unkeyed or options.places:
        return replace(form, key=None)
    if len(options.groups) < 2 or form.key is None:
        return form
    responses, key, names = form.of, form.key, options.groups

    def of(table: pl.LazyFrame) -> pl.LazyFrame:
        table = responses(table)
        kinds = table.collect_schema()
        parts = [cols.as_text(name, kinds[name]) for name in names if name in kinds]
        return table.with_columns(pl.concat_str(parts, separator="\x1f").alias(key))

    return replace(form, of=of, keyed_by=f"the columns {listing(names)}")


def _few_texts(form: Form, schema: Mapping[str, pl.DataType], beside: Sequence[str]) -> str | None:
    """A column of few texts, such as the task, with one value for each prompt, as some rows show; None: there is none.

    beside: columns that are not read otherwise.
    """
    texts = [n for n in beside if schema[n] in (pl.String, pl.Categorical, pl.Enum) and n[-2:].lower() != "id"]
    names = sorted((n for n in texts if n.lower() not in form.not_rewards), key=lambda n: n.lower() not in TASKS)
    if not names or rows_in(form.tables) > BY_RESPONSES:
        return None
    keys = [n for n in (form.step, form.prompt or form.key) if n and not schema.get(n, pl.Null()).is_nested()]
    rows = _sample(form, [*dict.fromkeys([*names, *keys])], pl.String)
    for name in names:
        values = rows[name].drop_nulls().unique(maintain_order=True).head(FEW_VALUES + 1).to_list()
        few = 2 <= len(values) <= FEW_VALUES and not any(map(cols.is_numeric_text, values))
        if few and (not keys or rows.group_by(keys).agg(pl.col(name).n_unique())[name].max() == 1):
            return name
    return None


def _candidates(form: Form, schema: Mapping[str, pl.DataType], options: ReadOptions) -> list[str]:
    """The columns that may be rewards: numbers, and text that is numbers but for a few values, which are errors."""
    odd = {name for table in form.tables for name in table.odd if name.lower() not in cols.TEXTS}
    others = {form.step, form.advantage, form.length, form.key, form.total, *options.names} - {*(options.rewards or ())}
    return [
        name
        for name, kind in schema.items()
        if (is_number_type(kind) or (name in odd and name in schema))
        and name not in others
        and name.lower() not in form.not_rewards
        and not name.startswith("__")
        and not (name == "overlong" and "overlong_reward" in schema and form.score)  # verl's flag: below 0
    ]


def _rewards(
    form: Form, candidates: Sequence[str], schema: Mapping[str, pl.DataType], options: ReadOptions
) -> RewardChoice:
    """Which columns are rewards, and what a total beside them tells."""
    sample, flags = partial(_sample, form), [name for name in candidates if schema[name] == pl.Boolean]
    if form.rewards:
        return RewardChoice(options.rewards or form.rewards)
    if form.score and options.rewards != (form.score,) and (options.rewards or candidates):
        rewards = tuple(options.rewards or candidates)
        if form.score in rewards:
            return RewardChoice(rewards)
        rows = sample([form.score, *rewards])
        return beside_score(rows, rewards, form.score, flags, options.rewards is not None)
    if form.total and not (options.rewards or candidates):
        return RewardChoice((form.total,))
    where = form.tables[0].name
    judged = form.advantage is not None
    known = partial(choose, where=where, flags=flags, length=form.length)
    return known(candidates, sample, named=options.rewards, asks=form.asks, judged=judged)


def _sample(form: Form, names: Sequence[str], kind: Any = pl.Float64) -> pl.DataFrame:
    """Return the first values of these columns, as this type, in some tables spread over a log; null where it has none.

    GROUP_OF_ROW is equal where the step and the column that names the group, or the prompt, are.
    """
    some = range(0, len(form.tables), -(-len(form.tables) // SPREAD))
    grouped_by = form.key or form.prompt
    keys = [FILE, *[name for name in (form.step, grouped_by) if name]] if grouped_by else []
    parts = list[pl.DataFrame]()
    for number in some:
        table = form.responses(number)
        there = table.collect_schema()
        values = [value_of(name, there).cast(kind, strict=False) for name in names]
        wanted = table.select(*values, *[value_of(name, there).alias(f"{MADE}{name}") for name in keys])
        rows = form.tables[number].collected(wanted.head(-(-SAMPLE // len(some))))
        hashes = [cols.hash_column(rows, f"{MADE}{name}") for name in keys]
        group = [pl.struct(hashes).hash().alias(GROUP_OF_ROW)] if hashes else []
        parts.append(rows.select(*names, *group))
    return pl.concat(parts)


def _not_examined(form: Form, schema: Mapping[str, pl.DataType], options: ReadOptions) -> list[str]:
    """The columns that may hold numbers as text; where the caller names the rewards, all but advantages and lengths."""
    never = _examined_always(form)
    if options.rewards is None:
        known = form.not_rewards - never
        return [name for name in schema if name.lower() in known or role(name) == "metric"]
    return [name for name in schema if name.lower() not in never]


def _examined_always(form: Form) -> set[str]:
    """Return the names of columns in which text is looked at for numbers, whatever rewards the caller names."""
    return {*ADVANTAGES, *LENGTHS} if form.asks else set()


def _issues(
    framework: str, form: Form, left_out: Sequence[str], chosen: RewardChoice, alone: bool
) -> tuple[LogIssue, ...]:
    """What may mislead a reader of the files. left_out: files, and rows of them, in words."""
    issues = [*chosen.issues, *form.issues]
    if alone or (form.asks and len(chosen.rewards) == 1 and chosen.total is None):
        v1 = {"trainer": "v1"} if framework == "verl" and form.key == "uid" else {}
        issues.append(LogIssue("no-components", {"framework": framework, "has": list(chosen.rewards), **v1}))
    if left_out:
        issues.append(LogIssue("files-left-out", {"files": list(left_out)}))
    return tuple(issues)
