"""Logs with a row a response: raw columns to the ones every table has, and rows to whole batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile
from gdpo_core.logs.parquet import ROWS

KEPT = 2_000_000  # rows
TAKEN = ("batch", "step", "group", "advantage")  # names of a table that no reward can have


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column of a log holds what."""

    rewards: tuple[str, ...]
    step: str | None = None
    advantage: str | None = None
    length: str | None = None
    key: str | None = None  # tells the groups of a batch apart

    @property
    def numbers(self) -> tuple[str, ...]:
        """Those that hold numbers."""
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
    """The columns, if there is a reward and none has a name that the table needs; a reward's own `length` wins."""
    got = ", ".join(list(there)[:30]) or "no columns"
    expect(len(columns.rewards) > 0, where, "at least one column of numbers that is a reward", got)
    taken = [name for name in columns.rewards if name in TAKEN]
    expect(not taken, where, f"reward columns not named {', '.join(TAKEN)}", f"{taken[0] if taken else ''!r}")
    return (
        replace(columns, length=None) if "length" in columns.rewards or columns.length in columns.rewards else columns
    )


def present(columns: Sequence[str | None], there: Sequence[str], where: str) -> None:
    """Raise InputError unless the columns that were named are there."""
    for name in columns:
        if name is not None and name not in there:
            shown = ", ".join(list(there)[:30]) + (", …" if len(there) > 30 else "")
            raise InputError(f"{where}: expected a column {name!r}, got {shown or 'no columns'}")


def normalised(frame: pl.DataFrame, columns: Columns, files: Sequence[LogFile]) -> pl.DataFrame:
    """A frame of raw columns and `_file` as `_file`, step, `_key`, the rewards, advantage and length.

    Raises InputError that names the file, the column and a value that does not fit.
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
    for name in columns.rewards:
        infinite = found.filter(pl.col(name).is_infinite())
        if len(infinite):
            file, step, value = infinite.row(0)[0], infinite["step"][0], infinite[name][0]
            at = f"{files[file].name}, step {step}" if columns.step else files[file].name
            raise InputError(f"{at}: expected finite numbers in {name!r}, or NaN for missing, got {value}")
    return found


def _expect_numbers(frame: pl.DataFrame, name: str, files: Sequence[LogFile]) -> None:
    kind = frame.schema.get(name, pl.Null())
    if kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        return
    rows = frame.select("_file", name).with_row_index("row")
    wrong = pl.col(name).is_not_null()
    if kind == pl.String:
        wrong &= pl.col(name).cast(pl.Float64, strict=False).is_null()
    row, file, value = (rows.filter(wrong) if len(rows.filter(wrong)) else rows).row(0)
    row -= rows["_file"].search_sorted(file)
    raise InputError(
        f"{files[file].name}, row {row + 1}: expected a number in {name!r}, got {str(value)[:60]!r} ({kind})"
    )


def _float(frame: pl.DataFrame, name: str) -> pl.Expr:
    if name not in frame.columns:
        return pl.lit(float("nan")).repeat_by(1).explode()
    return pl.col(name).cast(pl.Float64).fill_null(float("nan"))


def _steps(frame: pl.DataFrame, name: str | None, files: Sequence[LogFile]) -> pl.Expr:
    if name is None:
        return pl.col("_file") + 1
    steps = frame[name]
    whole = steps.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    wrong = frame.filter(whole.is_null() | (whole != steps.cast(pl.Float64, strict=False)))
    if len(wrong):
        file, value = wrong["_file"][0], wrong[name][0]
        raise InputError(f"{files[file].name}: expected whole numbers in the column of steps, {name!r}, got {value!r}")
    return pl.lit(whole)


def _key(frame: pl.DataFrame, name: str, files: Sequence[LogFile]) -> pl.Expr:
    missing = frame.filter(pl.col(name).is_null()) if name in frame.columns else frame
    if len(missing):
        where = files[missing["_file"][0]].name
        raise InputError(
            f"{where}: expected a value in every row of {name!r}, which tells groups apart, got a missing one"
        )
    kind = frame.schema[name]
    return (pl.col(name) if kind.is_nested() else pl.col(name).cast(pl.String)).hash()


def remembered(rows: Callable[[], Iterator[pl.DataFrame]]) -> Callable[[], Iterator[pl.DataFrame]]:
    """The same frames, kept by the first pass unless they are large: text is slow to parse, its numbers are small."""
    kept: list[pl.DataFrame] | None = None

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal kept
        if kept is not None:
            yield from kept
            return
        seen, count = [], 0
        for frame in rows():
            count += len(frame)
            seen = [*seen, frame] if count <= KEPT else []
            yield frame
        kept = seen if count <= KEPT else None

    return frames


def batches(frames: Iterable[pl.DataFrame], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows in frames of about ROWS that split no batch, with `batch`: a number, new where one of `by` changes."""
    number, left = 0, []
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
    """A number that grows by one wherever one of the columns changes."""
    changed = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in by)
    return changed.fill_null(False).cast(pl.Int64).cum_sum()
