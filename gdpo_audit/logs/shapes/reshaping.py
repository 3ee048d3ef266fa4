"""Tables of any shape as one row per answer with a number per reward, before a form reads them.

Objects become columns, lists become rows, and the steps in the names of folders become a column. A table that needs
none of this stays as it is.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import polars as pl

from gdpo_audit.logs.files.directories import step_in
from gdpo_audit.logs.forms.options import TYPED_ROWS, ReadOptions, first_values, is_numeric_text, union_schema
from gdpo_audit.logs.forms.roles import GROUPS, STEPS, role
from gdpo_audit.logs.shapes import lists, objects, parts_of_totals, rollouts
from gdpo_audit.logs.shapes.rank_files import without_rank_copies
from gdpo_audit.logs.shapes.shape import RESERVED, Reading, Shape, changed
from gdpo_audit.logs.shapes.wide import with_a_row_per_response
from gdpo_audit.logs.tables.formats import Schema, Table, is_number_type
from gdpo_audit.logs.trainers import episodes
from gdpo_audit.logs.trainers.trainer_forms import TOKENS, framework_of
from gdpo_core.shared.words import count

_PROMPTS = ("prompt", "prompts", "input", "question")
FUNCTIONS = range(2, 17)  # the numbers of rewards that a list per answer may hold


def shape_of(tables: Sequence[Table], known: str | None, options: ReadOptions, where: str) -> Shape:
    """Return the tables of a log with a row per answer and a number per reward, which the form of its framework can
    read.

    Where the log has any, objects become columns, lists become rows, and episodes become answers. A log whose form
    reads it as it is comes back unchanged.
    tables: the tables of the log.
    known: the framework, if the caller named it.
    options: the caller's options.
    where: the name of the log.

    Raises InputError if `known` is None and the tables are not all of one framework. Raises it, too, for lists and
    texts that cannot become rows and columns, such as lists of different lengths in a row.
    """
    framework = known or framework_of(tables, where)
    shape = Shape(tables, options, framework)
    if framework == "generic":
        shape = with_a_row_per_response(without_rank_copies(shape))
    schema = union_schema(shape.tables)
    if not _takes_a_shape(framework, schema, known):
        return shape
    trainer = episodes.trainer_of(shape.tables)
    if trainer is not None:
        shape = _of_episodes(shape, trainer)
    elif any(kind.is_nested() or kind == pl.String for kind in schema.values()):
        shape = _with_columns_and_rows(shape, schema)
    shape = _with_steps(shape) if framework == "generic" else shape
    shape = _without_copies(shape)
    changed = known is None and shape.tables is not tables
    return replace(shape, framework=framework_of(shape.tables, where)) if changed else shape


def _takes_a_shape(framework: str, schema: Schema, known: str | None) -> bool:
    """Return whether tables may have to be reshaped, as where objects become columns, before they can be read.

    Tables of "generic" and "trl" always may. Tables of ms_swift and nemo_rl may if the caller did not name the
    framework and the columns differ from what the framework itself logs. Tables of other frameworks never have to.
    framework: the framework whose way of logging the tables have.
    schema: the columns of all tables.
    known: the framework that the caller named, None if the caller named none.
    """
    if framework == "ms_swift":  # its own events have a list of steps, too
        single_step = any(is_number_type(schema.get(name)) for name in STEPS)
        return known is None and single_step and isinstance(schema.get("completion"), pl.List)
    if framework == "nemo_rl":
        return known is None and not TOKENS & {*schema}
    return framework in ("generic", "trl")


# --- objects and lists -----------------------------------------------------------------------------------------------


def _with_columns_and_rows(shape: Shape, schema: Schema) -> Shape:
    """Return a log's `Shape`, changed so that its tables have a column per reward and a row per answer.

    An object of rewards becomes a column for each of its members. Lists with a value per answer become rows, except in
    a log of TRL. A list with a value per reward function becomes a column for each function. Nothing changes if the
    caller names rewards and all of them are columns of numbers.
    shape: the tables and the options.
    schema: the columns of all tables.
    """
    named = shape.options.rewards or ()
    if named and all(is_number_type(schema.get(name)) for name in named):
        return shape
    holders = parts_of_totals.holders(shape.tables, schema, named, _alone(schema))
    shape = rollouts.with_lines_of_groups(_with_texts_read(shape, holders))
    members = rollouts.members_in(shape.tables)
    shape = _unnested(rollouts.with_lists(shape, members), holders)
    shape = _exploded(shape, told=bool(members)) if shape.framework != "trl" else shape
    return _with_functions(_unnested(shape))


def _with_texts_read(shape: Shape, holders: Sequence[str]) -> Shape:
    """Return the shape with columns of objects in place of columns of text that hold rewards.

    A column of text is replaced if its texts spell objects, as '{"correct": 1}' does.
    shape: the tables and the options.
    holders: columns that hold rewards though they are not called so.
    """
    texts = [objects.texts_of_objects(table, holders) for table in shape.tables]
    if not any(texts):
        return shape
    columns = [objects.read_texts(table, names) for table, names in zip(shape.tables, texts, strict=True)]

    def read(reading: Reading) -> pl.LazyFrame:
        """Return the rows of a table with the objects in place of the texts that spell them.

        `columns` of the outer function holds the columns of objects of each table.
        """
        return reading.frame.with_columns(columns[reading.number])

    return replace(shape, tables=changed(shape.tables, read))


def _unnested(shape: Shape, holders: Sequence[str] = ()) -> Shape:
    """Return the shape with each object that holds rewards replaced by columns for its members.

    Rewards that the caller named get the names of these columns. If the caller named an object as a reward, the columns
    of all its numbers take its place.
    shape: the tables and the options.
    holders: columns that hold rewards though they are not called so.
    """
    schema, named = union_schema(shape.tables), shape.options.rewards or ()
    chosen = objects.objects_in(schema, named, _alone(schema), holders)
    if not chosen:
        return shape
    members = objects.without_copies(shape.tables, objects.member_columns(chosen, schema, RESERVED))

    def change(reading: Reading) -> pl.LazyFrame:
        """Return the rows of a table with columns in place of the objects that hold rewards.

        There is a column for each member in `members` of the outer function.
        """
        return objects.unnested(reading.frame, members)

    tables = changed(shape.tables, change)
    options = replace(shape.options, rewards=_renamed(named, members, union_schema(tables)) or None)
    return replace(shape, tables=tables, options=options)


def _renamed(named: Sequence[str], members: Sequence[objects.Member], schema: Schema) -> tuple[str, ...]:
    """Return the names of the columns that hold the rewards which the caller names.

    The name of a column stands for this column. The name of an object stands for the columns of all numbers in the
    object. The name of a member of an object stands for the column of this member. Any other name is returned as it is.
    named: the rewards that the caller names.
    members: the members of objects that became columns.
    schema: the columns that there are now.
    """
    columns = dict[str, None]()
    for name in named:
        of_object = [m.column for m in members if m.object == name and objects.is_numbers(schema.get(m.column))]
        alike = [m.column for m in members if name in (m.name, f"{m.object}.{m.name}")]
        columns |= dict.fromkeys([name] if name in schema else of_object or alike or [name])
    return tuple(columns)


def _exploded(shape: Shape, told: bool) -> Shape:
    """Return the shape with a row per answer, if lists hold a value per answer; otherwise the same shape.

    told: whether the lists were lists of rollouts, so that no name and no length has to say what they hold.
    """
    tables = [_with_lists(table) for table in shape.tables]
    schema, options = union_schema(tables), shape.options
    by_lower = {name.lower(): name for name in reversed([*schema])}
    ids = [by_lower[name] for name in GROUPS if name in by_lower and name not in _PROMPTS]
    prompts = [by_lower[name] for name in _PROMPTS if name in by_lower]
    step = options.named("step") or next((by_lower[name] for name in STEPS if name in by_lower), None)
    which = [name for name in (step, *prompts[:1]) if name]
    told_by = which if prompts else []
    answer_lists = lists.lists_of_answers(tables, schema, options.rewards or (), _alone(schema), told, told_by)
    if answer_lists is None:
        return shape

    def change(reading: Reading) -> pl.LazyFrame:
        """Return a row per answer in place of each row of a table.

        `answer_lists` of the outer function says which columns hold lists with a value per answer.
        """
        return lists.rows_of_lists(reading.table, reading.frame, answer_lists, reading.number, reading.texts)

    lines = lists.lines_are_groups(tables, answer_lists, step, ids, prompts)
    tables = changed(tables, change)
    texts = [n for n in answer_lists.names if schema[n] == pl.List(pl.String) and not objects.is_called_reward(n)]
    numbers = [n for n in texts if any(_are_numbers(table, n) for table in tables[:1] if n in table.schema)]
    of_texts = frozenset(name.lower() for name in numbers)
    return replace(shape, tables=tables, several=answer_lists.several, lines=lines, texts=of_texts)


def _are_numbers(table: Table, name: str) -> bool:
    """Return whether the first values of a column of texts all spell numbers; True if the column has no values."""
    return all(map(is_numeric_text, first_values(table, [name], TYPED_ROWS)[name]))


def _with_lists(table: Table) -> Table:
    """Return the table with lists in the place of polars' one-dimensional arrays, which have one fixed length."""
    arrays = [name for name, kind in table.schema.items() if isinstance(kind, pl.Array) and len(kind.shape) == 1]
    if not arrays:
        return table
    return changed([table], lambda reading: reading.frame.with_columns(pl.col(arrays).arr.to_list()))[0]


def _with_functions(shape: Shape) -> Shape:
    """Return the shape with each list of rewards in a column per reward function: `rewards[0]`, `rewards[1]` and so on.

    This is done only if each row is one answer. A column of lists has to be named like rewards and to hold numbers. All
    of its lists must have the same length, a number in `FUNCTIONS`. If the caller names such a list as a reward, the
    name stands for all of its columns.
    """
    schema = union_schema(shape.tables)
    sizes: dict[str, int] = {}
    for name, kind in schema.items():
        numbers = isinstance(kind, pl.List) and is_number_type(kind.inner) and objects.is_called_reward(name)
        if numbers and (shape.several or lists.rows_are_answers(schema)):
            each = pl.col(name).list.len().drop_nulls().unique()
            lengths = {n for t in shape.tables if name in t.schema for n in t.collected(t.fresh.select(each))[name]}
            if len(lengths) == 1 and min(lengths) in FUNCTIONS:
                sizes[name] = min(lengths)
    if not sizes:
        return shape

    def change(reading: Reading) -> pl.LazyFrame:
        """Return the rows of a table with a column per item of the lists of rewards, in place of these lists.

        `sizes` of the outer function holds the length of the lists, by column.
        """
        there = [name for name in sizes if isinstance(reading.frame.collect_schema().get(name), pl.List)]
        each = [pl.col(n).list.get(k, null_on_oob=True).alias(f"{n}[{k}]") for n in there for k in range(sizes[n])]
        return reading.frame.with_columns(each).drop(there)

    options = shape.options
    if options.rewards:
        columns = [[f"{n}[{k}]" for k in range(sizes[n])] if n in sizes else [n] for n in options.rewards]
        options = replace(options, rewards=tuple(chain(*columns)))
    return replace(shape, tables=changed(shape.tables, change), options=options)


def _alone(schema: Schema) -> bool:
    """Return whether there is no column of single numbers that may be a reward.

    schema: the columns of all tables.
    """
    return not any(
        is_number_type(kind) and name.lower() not in RESERVED and not name.startswith("__") and role(name) != "metric"
        for name, kind in schema.items()
    )


# --- episodes, steps and copies --------------------------------------------------------------------------------------


def _of_episodes(shape: Shape, trainer: str) -> Shape:
    """Return the shape with a row per trajectory of the episodes that a trainer logs.

    Two more things are done for tinker. Its method is set to GRPO without std, which is what it computes. And a column
    `final_reward` that is 0 or null in every row is left out.
    shape: the tables and the options.
    trainer: tinker or rllm.
    """

    def change(reading: Reading) -> pl.LazyFrame:
        """Return a row per trajectory in place of the rows of a table, which are episodes or trajectories.

        `trainer` of the outer function says who logged them.
        """
        frame = reading.frame
        return episodes.of_tinker(frame, RESERVED) if trainer == "tinker" else episodes.of_rllm(frame)

    tables = changed(shape.tables, change)
    if trainer == "rllm":
        return replace(shape, tables=tables, several=True)
    empty = episodes.never_differ(tables, ["final_reward"])
    if empty:
        tables = changed(tables, lambda reading: reading.frame.drop(empty, strict=False))
    return replace(shape, tables=tables, method=episodes.CENTRED)


def _with_steps(shape: Shape) -> Shape:
    """Return the shape with a column of steps if only the folders around the files tell the step, and steps differ."""
    named = {name.lower() for table in shape.tables for name in table.schema}
    steps = [step_in(table.name) for table in shape.tables]
    if named & {*STEPS} or shape.options.named("step") or None in steps or len({*steps}) < 2:
        return shape

    def change(reading: Reading) -> pl.LazyFrame:
        """Return the rows of a table with a column `step`, which holds the step that the table's folder tells.

        `steps` of the outer function holds the step of each table.
        """
        return reading.frame.with_columns(step=pl.lit(steps[reading.number], pl.Int64))

    return replace(shape, tables=changed(shape.tables, change))


def _without_copies(shape: Shape) -> Shape:
    """Return the shape without each row that repeats a row of an earlier table: its id and all else are the same.

    The first of the equal rows stays.
    """
    again = episodes.copies(shape.tables)
    if not again:
        return shape

    def change(reading: Reading) -> pl.LazyFrame:
        """Return the rows of a table without the rows that are copies of earlier ones.

        `again` of the outer function holds the numbers of these rows, by the number of the table.
        """
        there = again.get(reading.number)
        return reading.frame if there is None else episodes.without_rows(reading.frame, there)

    words = f"{count(sum(map(len, again.values())), 'row')} that another file holds too"
    return replace(shape, tables=changed(shape.tables, change), left_out=(*shape.left_out, words))
