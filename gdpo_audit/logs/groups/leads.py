"""Leads: what ends a refusal. It is options with which the log is read after all, found by trying some, or where it
stands what a log has to hold.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

import polars as pl

from gdpo_audit.logs.files.trying import Search, attempt
from gdpo_audit.logs.forms.options import ReadOptions, union_schema
from gdpo_audit.logs.forms.roles import ADVANTAGES, GROUPS, STEPS
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.logs.numbers.clues import balanced_share
from gdpo_audit.logs.refusals import Lacking
from gdpo_audit.logs.tables.formats import Schema, Table, is_number_type
from gdpo_core.shared.errors import InputError

TRYING_SECONDS = 2.0  # the time of the processor that trying may take
_ROWS = 20_000  # the first rows of a log, by which columns are judged
MOST_ROWS = 300_000  # the most rows of a log that is tried, as each attempt reads all of them
_COLUMNS = 6  # the most columns that are tried as the name of a group
_LEAST = 3  # the fewest steps, and the fewest groups, that a column has to tell apart
_ADDS_UP = 0.9  # the share of groups in which the advantages add up to 0 if the groups are those of the trainer
ALWAYS_READ = "docs/audit.md begins with a table that is always read, and with ten lines of Python that write it"

Read = Callable[..., Run]  # reads the log again with other options, which it takes by name


def led_on(error: InputError, tables: Sequence[Table], options: ReadOptions, read: Read) -> InputError:
    """Return an error about a log that lacks groups or rewards, with what leads on at its end.

    These are options that were tried on this log and with which it is read, or, if no options were found, the place
    where a table is described that is always read. An error of another kind is returned unchanged, and so is one that
    says what the caller's own options lack.
    tables: the tables of the log.
    options: the options with which reading failed.
    read: reads the log with other options.
    """
    given = options.group or options.group_size or options.rewards or options.parts
    if given or sum(table.height for table in tables) > MOST_ROWS:
        return error
    for changes in Search(TRYING_SECONDS).among(_ways(tables), "Looking for options with which the log can be read …"):
        if options.columns:
            changes["columns"] = changes.get("columns", {}) | options.columns
        with attempt():
            run = read(**changes)
            if _is_grouped(run):
                return type(error)(f"{error}; this was tried and reads it: {in_options(changes)}")
    return type(error)(f"{error}; {ALWAYS_READ}") if isinstance(error, Lacking) else error


def in_options(changes: Mapping[str, Any]) -> str:
    """Return changed options of reading as the command line takes them.

    >>> in_options({"group": "task", "columns": {"step": "the step"}})
    "--group task --columns 'step=the step'"
    """
    words = [f"--group {quote(changes['group'])}"] if "group" in changes else []
    columns = ",".join(f"{what}={name}" for what, name in changes.get("columns", {}).items())
    words += [f"--columns {quote(columns)}"] if columns else []
    words += [f"--reward {quote(name)}" for name in changes.get("rewards", ())]
    return " ".join(words)


def _ways(tables: Sequence[Table]) -> Iterator[dict[str, Any]]:
    """Yield options with which a log may be read that is refused without any, the likeliest first.

    tables: the tables of the log.
    """
    schema = union_schema(tables)
    names = [name for name, kind in schema.items() if not kind.is_nested() and not name.startswith("-")]
    rows = _first_rows(tables[0], names)
    steps = [name for name in names if name.lower() not in GROUPS and _may_be_step(rows, name)][:1]
    if any(name.lower() in STEPS for name in schema):
        steps = []
    groups = [n for n in names if n not in steps and n.lower() not in STEPS and _may_be_group(rows, n, steps)]
    groups = sorted(groups, key=lambda name: _rank(name, schema, rows))[:_COLUMNS]
    for step in (*steps, None):
        for group in groups:
            advantage = _advantage(rows, [*([step] if step else []), group], schema)
            columns = {what: name for what, name in (("step", step), ("advantage", advantage)) if name}
            yield {"group": group, "columns": columns} if columns else {"group": group}
        if step is not None:
            yield {"columns": {"step": step}}
    objects = [name for name, kind in schema.items() if isinstance(kind, pl.Struct)]
    for name in objects[:_COLUMNS]:
        yield {"rewards": (name,)}


def _first_rows(table: Table, names: Sequence[str]) -> pl.DataFrame:
    """Return the first rows of a table in those of these columns that it has; no rows if polars cannot read them."""
    rows = pl.DataFrame()
    with attempt():
        rows = table.collected(table.fresh.select(name for name in names if name in table.schema).head(_ROWS))
    return rows


def _may_be_step(rows: pl.DataFrame, name: str) -> bool:
    """Return whether a column may number the steps: whole numbers that never fall, several rows with each.

    rows: the first rows of the log.
    name: the column.
    """
    values = rows.get_column(name, default=None)  # in many columns each look at all types would take long
    if values is None or not is_number_type(values.dtype) or values.dtype == pl.Boolean:
        return False
    if values.null_count() or not len(values):
        return False
    whole = bool((values.cast(pl.Float64).floor() == values).all())
    return whole and values.is_sorted() and _LEAST <= values.n_unique() <= len(values) / 4


def _may_be_group(rows: pl.DataFrame, name: str, steps: Sequence[str]) -> bool:
    """Return whether a column may name the groups: the rows of each value stand together, or values are equally often.

    There have to be at least `_LEAST` values, and two rows or more with each on average. A column of numbers that are
    not whole names no group.
    rows: the first rows of the log.
    name: the column.
    steps: the column that numbers the steps, if there is one; a value may come again in another step.
    """
    values = rows.get_column(name, default=None)
    if values is None or values.null_count() or not len(values):
        return False
    if values.n_unique() < _LEAST or values.dtype == pl.Boolean:
        return False
    if is_number_type(values.dtype) and bool((values.cast(pl.Float64) % 1 != 0).any()):
        return False
    keys = rows.select(*steps, name)
    sizes = keys.group_by(pl.all()).len()["len"]
    if not _LEAST <= len(sizes) <= len(rows) / 2:
        return False
    stand_together = keys.select(pl.struct(pl.all()).rle_id().max()).item() + 1 == len(sizes)
    return bool(stand_together or sizes.n_unique() == 1)


def _advantage(rows: pl.DataFrame, keys: Sequence[str], schema: Schema) -> str | None:
    """Return a column of an unusual name that holds the advantages, as its values add up to 0 in each group; or None.

    rows: the first rows of the log.
    keys: the columns that together name a group.
    schema: the columns of the log with their types.
    """
    if any(name.lower() in ADVANTAGES for name in schema):
        return None
    names = [name for name in rows.columns if name not in keys and rows[name].dtype.is_float()]
    return next((name for name in names if _adds_up(rows, keys, name)), None)


def _adds_up(rows: pl.DataFrame, keys: Sequence[str], name: str) -> bool:
    """Return whether the values of a column add up to 0 in nearly all groups, which the columns `keys` name."""
    group = rows.select(pl.struct(keys).rank("dense")).to_series().cast(pl.Int64).to_numpy() - 1
    return balanced_share(group, rows[name].cast(pl.Float64).fill_null(0).fill_nan(0).to_numpy()) >= _ADDS_UP


def _rank(name: str, schema: Schema, rows: pl.DataFrame) -> tuple[bool, bool, bool, int]:
    """Return a key that sorts the columns that may name groups, the likeliest first.

    First come columns in whose groups the logged advantages add up to 0, then usual names, then texts, then columns
    with more values.
    schema: the columns of the log with their types.
    """
    advantage = next((x for x in rows.columns if x.lower() in ADVANTAGES and is_number_type(rows[x].dtype)), None)
    adds_up = advantage is not None and _adds_up(rows, [name], advantage)
    return not adds_up, name.lower() not in GROUPS, schema[name] != pl.String, -rows[name].n_unique()


def _is_grouped(run: Run) -> bool:
    """Return whether a run has several groups with several responses, and a reward differs inside one of them."""
    table = next(run.tables())
    rewards = reward_columns(run.rewards)
    differs = table.group_by("group").agg((pl.col(rewards).max() > pl.col(rewards).min()).fill_null(False))
    some = differs.select(pl.any_horizontal(pl.col(rewards).any())).item()
    return bool(some and 2 * len(differs) <= len(table))
