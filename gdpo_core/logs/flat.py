"""Turns logs of one row per response into the columns that every table has, in whole batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from gdpo_core._words import listing
from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile
from gdpo_core.logs.parquet import ROWS
from gdpo_core.logs.unused import number_kind

KEPT = 2_000_000  # rows that are kept in memory at most
INNER = ("_file", "_row", "_event", "_key", "_path")  # columns that readers add to a log's own
TAKEN = ("batch", "step", "group", "advantage")  # columns of every table, so that no reward can have these names


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column of a log holds what."""

    rewards: tuple[str, ...]
    step: str | None = None
    advantage: str | None = None
    length: str | None = None
    key: str | None = None  # identifies the groups of a batch

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold numbers."""
        return tuple(dict.fromkeys(name for name in (*self.rewards, self.advantage, self.length) if name))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in (self.step, *self.numbers, self.key) if name))


def named(rewards: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """The reward columns that the caller named."""
    if rewards is None:
        return None
    rewards = (rewards,) if isinstance(rewards, str) else tuple(rewards)
    fits = len(rewards) > 0 and all(isinstance(name, str) for name in rewards)
    expect(fits, "rewards", "names of columns", repr(rewards))
    expect(len(set(rewards)) == len(rewards), "rewards", "each column once", repr(rewards))
    return rewards


def check_rewards(columns: Columns, there: Iterable[str], where: str) -> Columns:
    """The columns, checked: at least one reward, and no reserved name. A column that is a reward is no `length` too."""
    expect(len(columns.rewards) > 0, where, "at least one column of numbers that is a reward", _listing(there))
    # polars takes * and ^…$ for patterns.
    odd = [n for n in columns.names if n in (*INNER, "*") or (n.startswith("^") and n.endswith("$"))]
    odd += [""] * ("" in columns.rewards)
    expect(not odd, where, "columns of other names, or rewards to be named", f"one called {odd[0] if odd else ''!r}")
    taken = [name for name in columns.rewards if name in TAKEN]
    expect(not taken, where, f"reward columns not named {', '.join(TAKEN)}", f"{taken[0] if taken else ''!r}")
    return (
        replace(columns, length=None) if "length" in columns.rewards or columns.length in columns.rewards else columns
    )


def present(columns: Sequence[str | None], there: Sequence[str], where: str) -> None:
    """Raise InputError for the first of these columns that is missing."""
    for name in columns:
        if name is not None and name not in there:
            raise InputError(f"{where}: expected a column {name!r}, got {_listing(there)}")


def _listing(columns: Iterable[str]) -> str:
    names = list(columns)
    return listing(names, link="", most=30) if names else "no columns"


def normalised(frame: pl.DataFrame, columns: Columns, files: Sequence[LogFile]) -> pl.DataFrame:
    """Turn raw columns and `_file` into `_file`, step, `_key`, the rewards, advantage and length.

    Raises InputError that names the file, the column and the first value that does not fit.
    """
    for name in columns.numbers:
        _expect_numbers(frame, name, files)
    rewards = [_float(frame, name).alias(name) for name in columns.rewards]
    rest = [_float(frame, columns.advantage).alias("advantage")] if columns.advantage else []
    if columns.length:
        rest.append(_float(frame, columns.length).fill_nan(None).cast(pl.Int64, strict=False).alias("length"))
    if columns.key:
        rest.append(_key(frame, columns.key, files).alias("_key"))
    event = ["_event"] if "_event" in frame.columns else []
    found = frame.select("_file", *event, _steps(frame, columns.step, files).alias("step"), *rewards, *rest)
    for name, column in [*zip(columns.rewards, columns.rewards, strict=True), ("advantage", columns.advantage)]:
        if column and (row := _first(found[name].is_infinite())) is not None:
            at = f"{_at(frame, row, files)}, step {found['step'][row]}" if columns.step else _at(frame, row, files)
            got = found[name][row]
            raise InputError(f"{at}: expected finite numbers in {column!r}, or NaN for missing, got {got}")
    return found


def _first(flags: pl.Series) -> int | None:
    """The number of the first row that is true, from 0."""
    return flags.arg_max() if flags.any() else None


def _at(frame: pl.DataFrame, row: int, files: Sequence[LogFile]) -> str:
    """The file and the row number in it, from 1; a frame may begin in the middle of its file."""
    file = frame["_file"][row]
    if "_event" in frame.columns:
        return f"{files[file].name}, log event {frame['_event'][row]}" if frame["_event"][row] else files[file].name
    first = frame["_row"][0] if "_row" in frame.columns else 0
    return f"{files[file].name}, row {row - (_first(frame['_file'] == file) or 0) + first + 1}"


def _expect_numbers(frame: pl.DataFrame, name: str, files: Sequence[LogFile]) -> None:
    kind = frame.schema.get(name, pl.Null())
    if number_kind(kind) or kind == pl.Null:
        return
    wrong = frame[name].is_not_null()
    if kind == pl.String:
        wrong &= frame[name].cast(pl.Float64, strict=False).is_null()
    row = _first(wrong if wrong.any() else frame[name].is_not_null())
    if row is None:
        return
    value = str(frame[name].slice(row, 1).to_list()[0])[:60]
    raise InputError(f"{_at(frame, row, files)}: expected a number in {name!r}, got {value!r} ({kind})")


def _float(frame: pl.DataFrame, name: str) -> pl.Expr:
    if name not in frame.columns:
        return pl.lit(float("nan")).repeat_by(1).explode()
    return pl.col(name).cast(pl.Float64).fill_null(float("nan"))


def _steps(frame: pl.DataFrame, name: str | None, files: Sequence[LogFile]) -> pl.Expr:
    if name is None:
        return pl.col("_file") + 1
    steps = frame[name]
    fits = number_kind(steps.dtype) or steps.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    where = f"{files[frame['_file'][0]].name}" if len(frame) else ""
    expect(fits, where, f"whole numbers in the column of steps, {name!r}", f"{steps.dtype}")
    numbers = (steps if number_kind(steps.dtype) else steps.cast(pl.String)).cast(pl.Float64, strict=False)
    whole = numbers.cast(pl.Int64, strict=False)
    wrong = whole.is_null() | (whole != numbers)
    if (row := _first(wrong)) is not None:
        where, value = _at(frame, row, files), steps[row]
        raise InputError(f"{where}: expected whole numbers in the column of steps, {name!r}, got {value!r}")
    return pl.lit(whole)


def _key(frame: pl.DataFrame, name: str, files: Sequence[LogFile]) -> pl.Expr:
    missing = frame[name].is_null() if name in frame.columns else pl.repeat(True, len(frame), eager=True)
    if (row := _first(missing)) is not None:
        where = _at(frame, row, files)
        raise InputError(
            f"{where}: expected a value in every row of {name!r}, which tells groups apart, got a missing one"
        )
    kind = frame.schema.get(name, pl.Null())
    return (pl.col(name) if kind.is_nested() else pl.col(name).cast(pl.String)).hash()


def remembered(rows: Callable[[], Iterator[pl.DataFrame]]) -> Callable[[], Iterator[pl.DataFrame]]:
    """The same frames, kept in memory by the first pass unless they are large: text is slow to parse."""
    kept: list[pl.DataFrame] | None = None

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal kept
        if kept is not None:
            yield from kept
            return
        seen: list[pl.DataFrame] = []
        count = 0
        for frame in rows():
            count += len(frame)
            seen = [*seen, frame] if count <= KEPT else []
            yield frame
        kept = seen if count <= KEPT else None

    return frames


def batches(frames: Iterable[pl.DataFrame], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows in frames of about ROWS that split no batch; `batch` counts up where a column of `by` changes."""
    number = 0
    left: list[pl.DataFrame] = []
    for frame in frames:
        if not len(frame):
            continue
        left.append(frame)
        if sum(map(len, left)) < ROWS:
            continue
        rows = pl.concat(left)
        numbers = rows.select(_changes(by)).to_series()
        end = numbers.search_sorted(numbers[-1])  # the last batch may go on
        if end:
            yield rows.head(end).with_columns((numbers.head(end) + number).alias("batch"))
            number += numbers[-1]
        left = [rows.slice(end)]
    if left:
        rows = pl.concat(left)
        yield rows.with_columns((_changes(by) + number).alias("batch"))


def _changes(by: Sequence[str]) -> pl.Expr:
    """The number of rows so far at which one of the columns changed."""
    changed = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in by)
    return changed.fill_null(False).cast(pl.Int64).cum_sum()
