"""Responses of the training among the rows of a log. Rows of an evaluation, and groups that nothing trained on, are
left out.

The advantages tell it first: where no row of a group has one, beside groups that have, nothing trained on that group.
Then columns tell it that are called split, is_validation and the like, or that set groups of one row apart.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.options import ReadOptions, union_schema
from gdpo_audit.logs.forms.roles import role, words_of
from gdpo_audit.logs.forms.scans import frames_of
from gdpo_audit.logs.forms.standard_rows import hash_column
from gdpo_audit.logs.names import FILE, ROW
from gdpo_audit.logs.shapes.shape import RESERVED, Reading, Shape, changed
from gdpo_audit.logs.tables.formats import UNREAD, Schema, Table, is_number_type
from gdpo_audit.logs.trainers.episodes import without_rows
from gdpo_audit.records import LogIssue

EVALUATIONS = {"val", "valid", "validation", "eval", "evaluation", "evaluate", "test", "testing", "dev", "heldout"}
EVALUATIONS |= {"held_out", "held-out", "holdout", "evals", "validate"}
TRAININGS = {"train", "training", "trained", "trn", "rollout", "rollouts"}
SPLITS = {"split", "phase", "partition", "fold"}  # words in names of columns that tell evaluations from the training
BESIDE = {"is", "for", "in", "mode", "set", "phase", "step", "rollout", "row", "sample", "flag", "held", "out"}
YES, NO = {"true", "1", "yes"}, {"false", "0", "no"}
FEW = 12  # the most values of a column that may tell evaluations from the training
_FIRST = 5_000  # the first rows of a log, in which such a column has few values
_LEAST = 3  # groups of one row that a column sets apart; fewer may be an accident
# Rows without an advantage stand together where their stretches are so many times as long as chance would make them.
LONGER = 3


@dataclass(frozen=True)
class _Rows:
    """The rows of a log, with what may tell which of them were trained on.

    frame: a row per response with FILE, ROW, and the columns in `names` as texts. `_none` says whether the advantage is
        missing, `_lacks` whether some reward is, `_empty` whether every reward is. `_group` is a number for each group,
        or for each step if the log does not show groups. The rewards stand in columns of their own.
    names: the columns of few values that may tell evaluations from the training.
    rewards: the columns that may be rewards.
    flags: those of `names` that hold only yes and no, and whose type is one of numbers, so that they may be rewards.
    grouped: whether the log shows the groups.
    judged: whether advantages are logged.
    """

    frame: pl.DataFrame
    names: Sequence[str]
    rewards: Sequence[str]
    flags: frozenset[str]
    grouped: bool
    judged: bool


def of_training(shape: Shape, form: Form) -> tuple[Shape, tuple[LogIssue, ...]]:
    """Return two things: the log without the rows that no training was made of, and an issue for each kind of them.

    The log comes back unchanged where every row may be a response of the training.
    shape: the tables and the options.
    form: says which of their columns holds the advantage, the step and the group.
    """
    single = shape.framework in ("generic", "trl", "verl")  # in other logs a row may hold several responses
    rows = _rows(shape.tables, form, shape.options) if single else None
    if rows is None:
        return shape, ()
    issues, dropped = list[LogIssue](), pl.repeat(False, len(rows.frame), eager=True)
    for why, rule in _RULES.items():
        which = rule(rows, ~dropped) & ~dropped
        if which.any() and not (which | dropped).all():
            issues.append(_issue(rows.frame, rows.names, which, dropped, why))
            dropped |= which
    if not issues:
        return shape, ()
    return replace(shape, tables=_without(shape.tables, rows.frame.filter(dropped))), tuple(issues)


def _issue(rows: pl.DataFrame, names: Sequence[str], which: pl.Series, before: pl.Series, why: str) -> LogIssue:
    """Return an issue about rows that no training was made of.

    Its details name the first column, if there is one, that has a single value in these rows and another in all rows of
    the training.
    rows: the rows of the log.
    names: the columns that may tell these rows from the others.
    which: whether a row is one of them.
    before: whether a row was left out before.
    why: the name of the rule that tells them.
    """
    out, kept = rows.filter(which), rows.filter(~which & ~before)
    told: dict[str, object] = {}
    for name in names if why != "empty" else ():
        values = out[name].unique().to_list()
        if len(values) == 1 and values[0] is not None and not (kept[name] == values[0]).any():
            told = {"column": name, "value": values[0]}
            break
    details = {"rows": len(out), "groups": out["_group"].n_unique(), "of": len(kept), "why": why}
    return LogIssue("not-trained", details | told)


def _without(tables: Sequence[Table], rows: pl.DataFrame) -> list[Table]:
    """Return the tables of a log without some rows, and without the tables that hold no other row.

    rows: the rows to leave out, each by the number of its table (FILE) and its place there (ROW).
    """
    places = {file: part[ROW].to_list() for (file,), part in rows.partition_by(FILE, as_dict=True).items()}

    def change(reading: Reading) -> pl.LazyFrame:
        """Return the rows of a table without the rows in `places` of the outer function."""
        there = places.get(reading.number)
        return reading.frame if there is None else without_rows(reading.frame, there)

    after = changed(tables, change)
    fewer = [after[number] if number in places else table for number, table in enumerate(tables)]
    return [table for number, table in enumerate(fewer) if number not in places or table.height]


# --- the rows of a log ------------------------------------------------------------------------------------------------


def _rows(tables: Sequence[Table], form: Form, options: ReadOptions) -> _Rows | None:
    """Return the rows of a log with what may tell which of them were trained on; None if nothing in it may.

    tables: the tables of the log.
    form: says which of their columns holds the advantage, the step and the group.
    options: the caller's options.
    """
    form = replace(form, tables=tables)
    schema = union_schema(tables)
    advantage = form.advantage if form.advantage in schema else None
    keys = [name for name in (options.groups or (form.key, form.prompt)) if name and name in schema]
    keys = keys if options.groups else keys[:1]
    rewards = [name for name in schema if _may_be_a_reward(name, schema, options, {advantage, form.length, *keys})]
    names = _of_few_values(form, schema, {*keys, advantage, form.step, options.by, *(options.rewards or ())})
    lacks = _lacks_values(form, [*([advantage] if advantage else []), *rewards])
    if advantage and not lacks:  # only names and values can then tell evaluations, which takes no groups
        names = [name for name in names if _says_evaluation(name) is not None or _holds_evaluations(form, name)]
    if not names and not lacks:
        return None
    step = [form.step] if form.step in schema else []
    wanted = dict.fromkeys([*([advantage] if advantage else []), *keys, *step, *names, *rewards])
    frame = pl.concat(frames_of(form, [*wanted]), how="vertical_relaxed")
    rewards = [name for name in rewards if frame[name].drop_nulls().n_unique() > 1]
    group = frame.select(FILE if not step else hash_column(frame, step[0]).alias("step"))
    group = group.hstack([frame.select(hash_column(frame, name)).to_series().alias(f"key {name}") for name in keys])
    missing = [_missing(name, frame[name].dtype) for name in rewards]
    never = pl.lit(False)
    rows = frame.with_columns(
        (_missing(advantage, frame[advantage].dtype) if advantage else never).alias("_none"),
        (pl.any_horizontal(missing) if missing else never).alias("_lacks"),
        (pl.all_horizontal(missing) if missing else never).alias("_empty"),
        group.hash_rows().alias("_group"),
    )
    flags = frozenset(name for name in names if is_number_type(schema[name]))
    texts = [pl.col(name).cast(pl.String).str.to_lowercase().str.strip_chars().str.strip_suffix(".0") for name in names]
    columns = [FILE, ROW, "_none", "_lacks", "_empty", "_group", *(n for n in rewards if n not in names)]
    return _Rows(
        rows.select(*columns, *texts),
        names,
        [n for n in rewards if n not in names],
        flags,
        bool(keys),
        advantage is not None,
    )


def _missing(name: str, kind: pl.DataType) -> pl.Expr:
    """Return an expression for whether a value of a column is missing: null, or NaN.

    kind: its type.
    """
    return pl.col(name).is_null() | (pl.col(name).is_nan().fill_null(True) if kind.is_float() else pl.lit(False))


def _lacks_values(form: Form, names: Sequence[str]) -> bool:
    """Return whether one of these columns has a null or a NaN in some row.

    form: holds the tables of the log.
    names: the columns.
    """
    return any(
        frame.select(pl.any_horizontal(_missing(n, frame[n].dtype).any() for n in names)).item()
        for frame in (frames_of(form, names) if names else ())
    )


def _may_be_a_reward(name: str, schema: Schema, options: ReadOptions, barred: set[str | None]) -> bool:
    """Return whether a column may be a reward: numbers whose name does not say that they are something else.

    name: the column.
    schema: all columns with their types.
    options: the caller's options, which may name the rewards.
    barred: columns that are known to hold something else.
    """
    if options.rewards:
        return name in options.rewards and is_number_type(schema[name])
    known = name in barred or name.lower() in RESERVED or name.startswith("__")
    return is_number_type(schema[name]) and not known and role(name) == "reward"


def _of_few_values(form: Form, schema: Schema, barred: set[str | None]) -> list[str]:
    """Return the columns that may tell an evaluation from the training: they have few values, and texts or yes and no.

    form: holds the tables of the log.
    schema: all columns with their types.
    barred: columns that are known to hold something else.
    """
    kinds = (pl.String, pl.Boolean, pl.Categorical, pl.Enum)
    names = [n for n, kind in schema.items() if n not in barred and n.lower() not in UNREAD]
    names = [n for n in names if schema[n] in kinds or (is_number_type(schema[n]) and _says_evaluation(n) is not None)]
    if not names:
        return []
    first = next(frames_of(form, names, _FIRST)).head(_FIRST)
    return [name for name in names if first[name].n_unique() <= FEW]


def _holds_evaluations(form: Form, name: str) -> bool:
    """Return whether a column has a value that means an evaluation, such as val.

    form: holds the tables of the log.
    """
    values = (frame[name].unique().cast(pl.String).str.to_lowercase() for frame in frames_of(form, [name]))
    return any(not EVALUATIONS.isdisjoint(some.to_list()) for some in values)


def _says_evaluation(name: str) -> bool | None:
    """Return what a yes in a column means by its name: an evaluation (True), a training (False), or neither (None).

    >>> [_says_evaluation(name) for name in ("is_validation", "isTrain", "test_passed", "split")]
    [True, False, None, None]
    """
    words = {*words_of(name)} if name.lower() not in ("heldout", "held_out") else {"val"}
    said_by = words - BESIDE
    if len(said_by) != 1:
        return None
    return True if said_by <= EVALUATIONS else False if said_by <= TRAININGS else None


# --- the rules --------------------------------------------------------------------------------------------------------


def _by_column(rows: _Rows, kept: pl.Series) -> pl.Series:
    """Return whether a column says of each row that an evaluation made it.

    The column has a value such as val or eval beside train, or beside any value if it is called split or the like; or
    it says yes and no, and is called is_validation, is_train or the like. If its type is one of numbers, it also has to
    be constant in each group, which a reward is not.
    rows: the rows of the log.
    kept: whether a row was not left out before.
    """
    which = pl.repeat(False, len(rows.frame), eager=True)
    for name in rows.names:
        values = {value for value in rows.frame[name].unique() if value is not None}
        yes = _says_evaluation(name)
        if values <= YES | NO:
            wanted = set() if yes is None else (YES if yes else NO)
        else:
            evaluations = {value for value in values if value in EVALUATIONS}
            called = yes is not None or bool(SPLITS & {*words_of(name)})
            wanted = evaluations if called or values - evaluations <= TRAININGS else set()
        told = rows.frame[name].is_in([*wanted]).fill_null(False)
        if told.any() and not told.all() and (name not in rows.flags or _is_of_groups(rows, name)):
            which |= told
    return which


def _is_of_groups(rows: _Rows, name: str) -> bool:
    """Return whether the log shows its groups, and a column is constant in each group, not all of one row."""
    values = rows.frame.group_by("_group").agg(pl.col(name).n_unique().alias("values"), pl.len().alias("rows"))
    return rows.grouped and bool((values["values"] == 1).all()) and bool((values["rows"] > 1).any())


def _without_reward(rows: _Rows, kept: pl.Series) -> pl.Series:
    """Return whether each row belongs to a group in which no row has any reward, beside groups that have some.

    In a log with advantages, no row of the group may have one either.
    rows: the rows of the log.
    kept: whether a row was not left out before.
    """
    empty = pl.col("_empty").all().over("_group")
    if rows.judged:  # a logged advantage shows that the training used the group
        empty &= pl.col("_none").all().over("_group")
    # A file without any reward is no part of this log at all, and is refused as one of another log.
    whole_file = pl.col("_empty").all().over(FILE)
    return rows.frame.select(empty & ~whole_file).to_series() & rows.grouped


def _without_advantage(rows: _Rows, kept: pl.Series) -> pl.Series:
    """Return whether each row belongs to a group in which no row has an advantage, for which nothing else is the cause.

    A missing reward in each of these groups may be the cause, or a filter that takes out groups of the usual size in
    which no reward differs. Where rows lack an advantage beside rows of their group that have one, a mask is the cause;
    groups without any advantage are then left out only if none of them has the usual size. In a log that does not show
    its groups, the rows of whole steps count, and rows that stand together in long stretches.
    rows: the rows of the log.
    kept: whether a row was not left out before.
    """
    frame = rows.frame.filter(kept)
    nothing = pl.repeat(False, len(rows.frame), eager=True)
    if not frame["_none"].any() or frame["_none"].all():
        return nothing
    differ = [pl.col(name).drop_nulls().drop_nans().n_unique() > 1 for name in rows.rewards]
    groups = frame.group_by("_group").agg(
        pl.col("_none").all().alias("none"),
        (pl.col("_none").any() & ~pl.col("_none").all()).alias("mixed"),
        pl.col("_lacks").any().alias("lacks"),
        pl.len().alias("rows"),
        pl.any_horizontal(differ).alias("differs") if differ else pl.lit(True).alias("differs"),
    )
    none, rest = groups.filter("none"), groups.filter(~pl.col("none"))
    which = rows.frame["_group"].is_in(none["_group"].implode())
    if not rows.grouped:
        return rows.frame["_none"] & (which | _stand_together(rows.frame["_none"]))
    usual = (none["rows"] == min(rest["rows"].mode())) if len(rest) else none["none"]
    explained = none["lacks"].all() or (usual & ~none["differs"]).all() or (rest["mixed"].any() and usual.any())
    return nothing if not len(none) or explained else which


def _stand_together(none: pl.Series) -> bool:
    """Return whether the rows without an advantage stand in stretches that are far longer than chance makes them.

    none: whether each row lacks an advantage, in the order of the log.
    """
    stretches = int((none & ~none.shift(1, fill_value=False)).sum())
    rows = int(none.sum())
    return stretches > 0 and rows / stretches >= LONGER / (1 - rows / len(none))


def _alone(rows: _Rows, kept: pl.Series) -> pl.Series:
    """Return whether each row is a group of its own, and a column sets these groups apart from groups of several rows.

    All rows with one value of the column are such groups, at least `_LEAST` of them, and they are less than half of the
    log.
    rows: the rows of the log.
    kept: whether a row was not left out before.
    """
    frame, nothing = rows.frame, pl.repeat(False, len(rows.frame), eager=True)
    if not rows.grouped:
        return nothing
    size = frame.select(pl.len().over("_group")).to_series()
    for name in rows.names:
        values = frame.filter(kept & (size == 1))[name].drop_nulls().unique()
        told = frame[name].is_in(values.implode()).fill_null(False) & kept
        if len(values) == 1 and (size.filter(told) == 1).all() and _LEAST <= told.sum() < kept.sum() / 2:
            return told
    return nothing


_RULES: Mapping[str, Callable[[_Rows, pl.Series], pl.Series]] = {
    "empty": _without_reward,
    "evaluation": _by_column,
    "advantage": _without_advantage,
    "alone": _alone,
}
