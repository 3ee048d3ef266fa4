"""The choice of the columns of a log that hold the rewards, the step, the advantage, the groups and so on
(`columns_of`), and the record of this choice (`ChosenColumns`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from gdpo_audit.logs.columns.candidates import (
    candidates_of,
    choose_rewards,
    examined_always,
    few_texts,
    nameable_rewards,
    not_examined,
)
from gdpo_audit.logs.columns.identity import identity_of, in_batches
from gdpo_audit.logs.columns.totals import RewardChoice
from gdpo_audit.logs.columns.unnamed import with_unnamed
from gdpo_audit.logs.files.configuration import arguments_in
from gdpo_audit.logs.files.files import LogFiles
from gdpo_audit.logs.forms import options as cols
from gdpo_audit.logs.forms.form import Form, kinds_of
from gdpo_audit.logs.forms.options import ReadOptions, union_schema
from gdpo_audit.logs.forms.roles import lost
from gdpo_audit.logs.forms.standard_rows import as_text
from gdpo_audit.logs.names import EVENT, FILE, ROW, reward_options
from gdpo_audit.logs.refusals import location, refuse
from gdpo_audit.logs.shapes.shape import Shape
from gdpo_audit.logs.shapes.trained_rows import of_training
from gdpo_audit.logs.trainers.trainer_forms import FORMS, PLACES
from gdpo_audit.records import LogIssue
from gdpo_core.shared.words import listing


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a log as they were chosen.

    form: says which column holds what.
    candidates: the columns that may be rewards.
    chosen: which of these are rewards.
    beside: the columns that are not used.
    lost: the columns in `beside` that may have been rewards or advantages, but hold text or no value.
    """

    form: Form
    candidates: Sequence[str]
    chosen: RewardChoice
    beside: Sequence[str]
    lost: tuple[str, ...]

    @property
    def total_alone(self) -> bool:
        """Whether the only reward is the total that the framework logs."""
        return self.form.total is not None and self.chosen.rewards == (self.form.total,)


def columns_of(shape: Shape, files: LogFiles) -> ChosenColumns:
    """Return which column of a log holds what: the rewards, the step, the advantage, the groups and so on.

    shape: the tables of the log, reshaped if the framework's `Form` needs that, and the options.
    files: the files of the log, beside which an args.json may lie.

    Raises InputError if the options name columns that the log lacks, or if no column is a reward. Raises it, too, if a
    column cannot be what it is chosen for.
    """
    options = shape.options
    form = FORMS[shape.framework](shape.tables, union_schema(shape.tables), options, arguments_in(files.args))
    form = shape.applied_to(form)
    form = replace(form, not_rewards=form.not_rewards | PLACES)
    schema = {name: kind for name, kind in kinds_of(form).items() if name not in (FILE, ROW, EVENT)}
    logged = form.logged or [*union_schema(form.tables)]
    form = with_unnamed(form, schema, options)
    candidates = candidates_of(form, schema, options)
    cols.expect_columns([name for name in options.names if name not in schema], logged, form.tables[0].name)
    nested = next((name for name in options.rewards or () if schema[name].is_nested()), None)
    if nested is not None:
        refuse(location(form.tables[0].name, row=0), f"a number in {nested!r}", f"{schema[nested]}")
    by_log = bool(form.rewards)
    form, chosen = _with_rewards(_with_grouping(form, options), candidates, schema, options)
    beside = _beside(form, chosen, {name: schema[name] for name in logged if name in schema}, options)
    gone = () if by_log else lost(schema, beside, options.rewards)
    if options.by is None and (by := few_texts(form, schema, [n for n in beside if n not in gone])):
        form, beside = replace(form, by=by), [name for name in beside if name != by]
    return ChosenColumns(form, candidates, chosen, beside, gone)


def trained_on(shape: Shape, files: LogFiles) -> tuple[Shape, tuple[LogIssue, ...]]:
    """Return two things: a log without the rows that no training was made of, and an issue for each kind of them.

    shape: the tables of the log, and the options.
    files: the files of the log, beside which an args.json may lie.

    Raises InputError if the tables lack columns that the framework always logs.
    """
    form = FORMS[shape.framework](shape.tables, union_schema(shape.tables), shape.options, arguments_in(files.args))
    return of_training(shape, shape.applied_to(form))


def _with_rewards(
    form: Form, candidates: Sequence[str], schema: Mapping[str, pl.DataType], options: ReadOptions
) -> tuple[Form, RewardChoice]:
    """Return two things: the form, completed by the log's rewards and two columns; and how the rewards were chosen.

    The two columns are `by`, whose values an audit looks at one by one, and the one that tells prompts apart.
    form: which column of the log holds what, as far as it is known.
    candidates: the columns that may be rewards.
    schema: all columns with their types.
    options: the caller's options.

    Raises InputError if there is no reward, or if it is open whether some columns are rewards. Raises it, too, if a
    column that is used does not hold what it should.
    """
    where, logged = form.tables[0].name, form.logged or [*union_schema(form.tables)]
    chosen = choose_rewards(form, candidates, schema, options)
    beside = {name: kind for name, kind in schema.items() if name not in chosen.rewards}
    identity = identity_of(beside, partial(in_batches, form))
    form = replace(form, rewards=chosen.rewards, by=options.by or None, identity=identity)
    form = cols.validate_columns(form, logged, where)
    if options.rewards is None and "" in form.rewards:
        wanted = f"columns of other names, or the rewards named: {reward_options(form.rewards)}"
        refuse(where, wanted, "one called ''")
    cols.expect_in_every_table(form.tables, form)
    return form, chosen


def _beside(form: Form, chosen: RewardChoice, schema: Mapping[str, pl.DataType], options: ReadOptions) -> list[str]:
    """Return the columns of the log that nothing uses.

    Texts with a name that is usual beside rewards, such as prompt, are left out, and so is what the form knows to be no
    reward.
    form: which column of the log holds what.
    chosen: how the rewards were chosen.
    schema: the columns of the log with their types.
    options: the caller's options.

    Raises InputError for a column that may be a reward written as text.
    """
    used = [*form.names, *([chosen.total] if chosen.total else [])]
    if form.examines:
        nameable, clear = () if options.rewards else nameable_rewards(form), not_examined(form, schema, options)
        cols.refuse_numeric_texts(form.tables, [*used, *clear], nameable, examined_always(form))
    return [name for name in cols.unused_columns(schema, used) if name.lower() not in form.not_rewards]


def _with_grouping(form: Form, options: ReadOptions) -> Form:
    """Return a form with what the options say about groups and about rows to leave out.

    The form gets the options' `mask`, which leaves out rows, and `once`, which leaves out copies. If the options bar
    every column from naming a group (`unkeyed` or `places`), the form has no key. If they name several columns that
    name a group only together, the responses get one more column, whose name is the form's key. It holds the values of
    these columns, joined into one text, and `keyed_by` names the columns. Otherwise the form's groups stay as they are.
    form: says how to read the log.
    options: the caller's options.
    """
    form = replace(form, once=options.once, mask=options.mask)
    if options.unkeyed or options.places:
        return replace(form, key=None)
    if len(options.groups) < 2 or form.key is None:
        return form
    responses, key, names = form.to_responses, form.key, options.groups

    def to_responses(table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the responses of a table with one more column, whose name is `key` of the outer function.

        It holds the values of the columns in `names` of the outer function, joined into one text. All responses of a
        group have the same text, and other groups have other texts.
        table: the rows of the table. The function `responses` of the outer function makes responses of them.
        """
        table = responses(table)
        kinds = table.collect_schema()
        values = [as_text(name, kinds[name]) for name in names if name in kinds]
        return table.with_columns(pl.concat_str(values, separator="\x1f").alias(key))

    return replace(form, to_responses=to_responses, keyed_by=f"the columns {listing(names)}")
