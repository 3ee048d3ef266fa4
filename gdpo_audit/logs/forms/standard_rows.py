"""Standard rows: the rows of a log in whole batches, with columns whose names are the same for every log."""

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from gdpo_audit.logs.forms.options import Columns
from gdpo_audit.logs.names import EVENT, FILE, ROW, ROWS_OF_A_FILE, reward_column
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_audit.logs.tables import formats as of_files
from gdpo_audit.logs.tables.formats import is_number_type
from gdpo_core.shared.words import clip


def standard_rows(frame: pl.DataFrame, columns: Columns, files: Sequence[str]) -> pl.DataFrame:
    """Return a log's rows with columns whose names are the same for every log.

    There are always `_file` and step. If `columns` names no step, step is the number of the file, from 1. If there are
    rewards, `_place` says where in the log each row stands. In a log of events, `_event` is the number of the event.
    All other columns are there only if `columns` names what they hold. These are advantage and length, and each reward
    under the name that `reward_column` gives. `_masked` says whether a mask leaves the row out, and `_by` holds the
    values of the column `by` as texts. Three more are hashes: `_key` of the column that identifies the group,
    `_prompt_key` of the column that identifies the prompt, and `_once` of the column that marks copies.
    frame: responses, numbered in FILE and ROW.
    columns: which columns of the frame hold what.
    files: the names of the files.

    Raises InputError that names the file, the column and the first value that does not fit.
    """
    if columns.advantage and _holds_lists(frame.schema.get(columns.advantage)):
        frame = _per_response(frame, columns.advantage, files)
    for name in columns.numbers:
        _expect_numbers(frame, name, files)
    chosen = [pl.col(made).alias(name) for made, name in ((FILE, "_file"), (EVENT, "_event")) if made in frame.columns]
    chosen += [place()] * bool(columns.rewards)
    chosen.append(_steps(frame, columns.step, files).alias("step"))
    chosen += [_float(frame, name).alias(reward_column(name)) for name in columns.rewards]
    if columns.advantage:
        chosen.append(_float(frame, columns.advantage).alias("advantage"))
    if columns.length:
        chosen.append(_float(frame, columns.length).fill_nan(None).cast(pl.Int64, strict=False).alias("length"))
    if columns.key:
        chosen.append(_key(frame, columns.key, files).alias("_key"))
    if columns.identity:
        chosen.append(hash_column(frame, columns.identity).alias("_prompt_key"))
    if columns.once:
        chosen.append(hash_column(frame, columns.once).alias("_once"))
    if columns.mask and columns.mask.column:
        chosen.append(_has(frame, columns.mask.column, columns.mask.value).alias("_masked"))
    if columns.by:
        chosen.append(_value(frame, columns.by, files).alias("_by"))
    rows = frame.select(chosen)
    read_from = {reward_column(name): name for name in columns.rewards}
    if columns.advantage:
        read_from["advantage"] = columns.advantage
    for name, column in read_from.items():
        if (row := _first(rows[name].is_infinite())) is not None:
            where = _at(frame, row, files, step=rows["step"][row] if columns.step else None)
            refuse(where, f"finite numbers in {column!r}, or NaN for missing", rows[name][row])
    return rows


def place() -> pl.Expr:
    """Return an expression for the place of each row in the files, a number that is unique in the log."""
    return (pl.col(FILE) * ROWS_OF_A_FILE + pl.col(ROW)).alias("_place")


def _first(flags: pl.Series) -> int | None:
    """Return the number, from 0, of the first row that is true; None if all are false."""
    return flags.arg_max() if flags.any() else None


def _at(frame: pl.DataFrame, row: int, files: Sequence[str], step: int | None = None) -> str:
    """Return words for where a row of a frame stands: its file, its number there, and its step if it is given.

    frame: responses, numbered in FILE and ROW.
    row: the number of the row in the frame, from 0.
    files: the names of the files.
    """
    return location(files[frame[FILE][row]], row=frame[ROW][row], step=step)


def _expect_numbers(frame: pl.DataFrame, name: str, files: Sequence[str]) -> None:
    """Raise InputError if the column `name` does not hold numbers; do nothing if it is missing or has no values.

    The error shows the first text that spells no number. If all texts spell numbers, or if the values are no texts, it
    shows the first value.
    frame: the rows.
    name: the column.
    files: the names of the files, for the error.
    """
    kind = frame.schema.get(name, pl.Null())
    if is_number_type(kind) or kind == pl.Null:
        return
    wrong = frame[name].is_not_null()
    if kind == pl.String:
        wrong &= frame[name].cast(pl.Float64, strict=False).is_null()
    row = _first(wrong if wrong.any() else frame[name].is_not_null())
    if row is None:
        return
    value = str(frame[name].slice(row, 1).to_list()[0])[:60]
    refuse(_at(frame, row, files), f"a number in {name!r}", f"{value!r} ({kind})")


def _holds_lists(kind: pl.DataType | None) -> bool:
    """Return whether a column of this type holds lists of numbers; lists that are all empty or null count too."""
    return isinstance(kind, pl.List | pl.Array) and (kind.inner == pl.Null or is_number_type(kind.inner))


def _per_response(frame: pl.DataFrame, name: str, files: Sequence[str]) -> pl.DataFrame:
    """Return the frame with numbers in the column `name` in the place of lists, which hold one number and padding.

    Padding is 0, NaN or missing. A list becomes its only other number, which it may hold several times. A list of zeros
    becomes 0, an empty one null.
    frame: the rows.
    name: the column of lists.
    files: the names of the files, for errors.

    Raises InputError for a list that holds different numbers beside its padding.
    """
    lists = frame[name].cast(pl.List(pl.Float64), strict=False)
    filled = lists.list.eval(pl.element().filter((pl.element() != 0) & pl.element().is_not_nan()))
    low, high = filled.list.min(), filled.list.max()
    if (row := _first((low != high).fill_null(False))) is not None:
        shown = clip(str(frame[name].slice(row, 1).to_list()[0]), 60)
        got = f"{shown}: advantages are lists of different numbers per token"
        refuse(_at(frame, row, files), f"one number per response in {name!r}", got)
    return frame.with_columns(high.fill_null(lists.list.max()).alias(name))


def _float(frame: pl.DataFrame, name: str) -> pl.Expr:
    """Return an expression for a column as Float64, NaN where a value, or the whole column, is missing.

    frame: the rows.
    """
    if name not in frame.columns:
        return pl.lit(float("nan"))
    return pl.col(name).cast(pl.Float64).fill_null(float("nan"))


def _has(frame: pl.DataFrame, name: str, value: float | str | None) -> pl.Expr:
    """Return an expression for whether a column has a value, a number or a text, in each row; False where none is."""
    if isinstance(value, str) and name in frame.columns:
        return (pl.col(name).cast(pl.String) == value).fill_null(False)
    return _float(frame, name) == value


def _steps(frame: pl.DataFrame, name: str | None, files: Sequence[str]) -> pl.Expr:
    """Return an expression for the steps as whole numbers; without a column of steps, the number of the file from 1.

    frame: the rows.
    name: the column of steps, if there is one.
    files: the names of the files, for errors.

    Raises InputError for a value that is not a whole number.
    """
    if name is None:
        return pl.col(FILE) + 1
    steps = frame[name]
    wanted = f"whole numbers in the column of steps, {name!r}"
    fits = is_number_type(steps.dtype) or steps.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    refuse_unless(fits, files[frame[FILE][0]] if len(frame) else "", wanted, f"{steps.dtype}")
    numbers = steps
    if not steps.dtype.is_integer():
        numbers = (steps if is_number_type(steps.dtype) else steps.cast(pl.String)).cast(pl.Float64, strict=False)
    whole = numbers.cast(pl.Int64, strict=False)
    if (row := _first(whole.is_null() | (whole != numbers))) is not None:
        refuse(_at(frame, row, files), wanted, repr(steps[row]))
    return pl.lit(whole)


def _key(frame: pl.DataFrame, name: str, files: Sequence[str]) -> pl.Expr:
    """Return an expression for a number that is equal for rows of one group: the hash of the column that names groups.

    frame: the rows.
    name: the column that names groups.
    files: the names of the files, for errors.

    Raises InputError for a missing value, or if the column is missing.
    """
    missing = frame[name].is_null() if name in frame.columns else pl.repeat(True, len(frame), eager=True)
    if (row := _first(missing)) is not None:
        wanted = f"a value in every row of {name!r}, which tells groups apart"
        refuse(_at(frame, row, files), wanted, "a missing one")
    return hash_column(frame, name)


def hash_column(frame: pl.DataFrame, name: str) -> pl.Expr:
    """Return an expression for the hash of each value of a column, a number that is the same for equal values.

    Nested values, such as a chat, are hashed as JSON, because old versions of polars cannot hash a chat otherwise.
    frame: the rows.
    """
    return as_text(name, frame.schema.get(name, pl.Null())).hash()


def as_text(name: str, kind: pl.DataType) -> pl.Expr:
    """Return an expression for the values of a column as texts, nested ones as JSON.

    kind: the type of the column.
    """
    return pl.struct(name).struct.json_encode() if kind.is_nested() else pl.col(name).cast(pl.String)


def _value(frame: pl.DataFrame, name: str, files: Sequence[str]) -> pl.Expr:
    """Return an expression for the values of a column as texts, whole numbers without decimals; null if missing or NaN.

    frame: the rows.
    name: the column.
    files: the names of the files, for errors.

    Raises InputError for a column of lists, objects or bytes.
    """
    kind = frame.schema.get(name, pl.Null())
    where = location(files[frame[FILE][0]] if len(frame) else "", column=name)
    refuse_unless(not kind.is_nested() and kind not in (pl.Binary, pl.Object), where, "texts or numbers", f"{kind}")
    column = (pl.col(name) if name in frame.columns else pl.lit(None, pl.String)).cast(pl.String)
    return column.replace("NaN", None).str.strip_suffix(".0") if kind.is_float() else column


def is_ordered(frames: Iterator[pl.DataFrame]) -> bool:
    """Return whether steps never fall from row to row, and each step stands in one file only.

    frames: standard rows in the order of the log.
    """
    last = last_file = None
    for frame in frames:
        for (file,), rows in frame.group_by("_file", maintain_order=True):
            steps = rows["step"]
            falls = last is not None and (steps[0] < last or (steps[0] == last and file != last_file))
            if falls or not steps.is_sorted():
                return False
            last, last_file = steps[-1], file
    return True


def batches(frames: Iterable[pl.DataFrame], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of about `ROWS` that split no batch, with a column `batch` that numbers the batches.

    frames: standard rows in the order of the log.
    by: the columns at whose changes a batch ends.
    """
    number = 0
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        if not len(frame):
            continue
        waiting.append(frame)
        if sum(map(len, waiting)) < of_files.ROWS_AT_ONCE:
            continue
        rows = pl.concat(waiting)
        numbers = rows.select(_changes(by)).to_series()
        end = numbers.search_sorted(numbers[-1])  # the last batch may go on in the next frame
        if end:
            yield rows.head(end).with_columns((numbers.head(end) + number).alias("batch"))
            number += numbers[-1]
        waiting = [rows.slice(end)]
    if waiting:
        rows = pl.concat(waiting)
        yield rows.with_columns((_changes(by) + number).alias("batch"))


def _changes(by: Sequence[str]) -> pl.Expr:
    """Return an expression for how often one of these columns has changed up to each row."""
    changed = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in by)
    return changed.fill_null(False).cast(pl.Int64).cum_sum()
