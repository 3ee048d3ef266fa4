"""The steps of a run that are read: the options `--steps 100-150`, `--last 50` and `--not-steps 10,20-30`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.logs.refusals import refuse, refuse_unless
from gdpo_core.shared.errors import expect_count, is_whole
from gdpo_core.shared.words import count

StepRange = tuple[int | None, int | None]  # the first and the last step; None: as far as the log goes
Window = tuple[tuple[int, int], ...]  # the first and the last step of each stretch of steps that are read


def validate_window(steps: Any, last: Any) -> tuple[tuple[StepRange, ...] | None, int | None]:
    """Return the arguments `steps` and `last` of `read_run`, in whole numbers; one that is None stays None.

    steps: a first and a last step of at most 64 bits, in this order, of which one may be None; or several such pairs.
    last: a number of steps from 1 to 999,999,999.

    Raises InputError for anything else, and if both are given.
    """
    if last is not None:
        expect_count(last, "last")
        refuse_unless(steps is None, "last", "none beside steps", repr(last))
    if steps is None:
        return None, None if last is None else int(last)
    wanted = "the first and the last step, (100, 150), of which one may be None, or several of these"
    pairs = steps if _is_listed(steps) and all(map(_is_listed, steps)) else [steps]
    refuse_unless(bool(pairs), "steps", wanted, repr(steps))
    return tuple(_validated(pair, "steps", wanted, steps) for pair in pairs), None


def validate_left_out(steps: Any) -> tuple[StepRange, ...]:
    """Return the argument `not_steps` of `read_run` as pairs of a first and a last step; () for None.

    steps: steps, and pairs of a first and a last step of which one may be None, such as [10, 20, (30, 40)].

    Raises InputError for anything else.

    >>> validate_left_out([10, (30, None)])
    ((10, 10), (30, None))
    """
    if steps is None:
        return ()
    wanted = "steps, and stretches by the first and the last step, such as [10, 20, (30, 40)]"
    refuse_unless(_is_listed(steps) and len(steps) > 0, "not_steps", wanted, repr(steps))
    pairs = ((item, item) if is_whole(item) else item for item in steps)
    return tuple(_validated(pair, "not_steps", wanted, steps) for pair in pairs)


def _is_listed(value: object) -> bool:
    """Return whether a value is a sequence, and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _validated(pair: Any, argument: str, wanted: str, given: Any) -> StepRange:
    """Return a pair of a first and a last step in whole numbers.

    pair: the pair as a caller gives it.
    argument, wanted, given: the name of the argument, what is expected and all that was given, for errors.

    Raises InputError for anything but such a pair.
    """
    ends = pair if _is_listed(pair) and len(pair) == 2 else (None, None)
    whole = all(end is None or is_whole(end) for end in ends) and any(end is not None for end in ends)
    refuse_unless(whole, argument, wanted, repr(given))
    low, high = (None if end is None else int(end) for end in ends)
    in_64_bits = all(end is None or abs(end) < 2**63 for end in (low, high))
    refuse_unless(in_64_bits, argument, "steps of at most 64 bits", repr(given))
    in_order = low is None or high is None or low <= high
    refuse_unless(in_order, argument, "a first step that is not after the last", f"{low} and {high}")
    return low, high


def window_of(
    logged: pl.Series, steps: Sequence[StepRange] | None, last: int | None, left_out: Sequence[StepRange] = ()
) -> Window | None:
    """Return the stretches of logged steps that are asked for; None if no steps are asked for and none are left out.

    logged: the steps of the log, in any order.
    steps: the first and the last step of each stretch that is wanted; a None in a pair leaves that end open.
    last: how many steps at the end of the log are wanted.
    left_out: the first and the last step of each stretch that is left out.

    Raises InputError, which says what the log holds, if a stretch has none of its steps, or if no step is left.

    >>> steps = pl.Series([5, 1, 2, 1, 9])
    >>> window_of(steps, None, 3), window_of(steps, [(2, 8)], None), window_of(steps, None, None, [(5, 5)])
    (((2, 9),), ((2, 5),), ((1, 2), (9, 9)))
    """
    if steps is None and last is None and not left_out:
        return None
    there = logged.unique().sort().to_numpy()
    kept = np.zeros(len(there), dtype=bool)
    for pair in steps if steps is not None else [(None, None)]:
        kept |= _within(there, pair, "steps")
    if last is not None:
        kept[:-last] = False
    for pair in left_out:
        kept &= ~_within(there, pair, "not-steps")
    refuse_unless(bool(kept.any()), "not-steps", "at least one step that is not left out", "none")
    positions = np.flatnonzero(kept)
    stretches = np.split(there[positions], np.flatnonzero(np.diff(positions) > 1) + 1)
    return tuple((int(stretch[0]), int(stretch[-1])) for stretch in stretches)


def _within(there: np.ndarray, pair: StepRange, argument: str) -> np.ndarray:
    """Return for each step of a log whether it is between two steps.

    there: the steps of the log, in order.
    pair: the first and the last of the steps; a None leaves that end open.
    argument: the name of the option, for errors.

    Raises InputError if no step is.
    """
    low, high = pair
    within = np.full(len(there), True) if low is None else there >= low
    within = within if high is None else within & (there <= high)
    if not within.any():
        many = f"{count(len(there), 'step')} from {there[0]} to {there[-1]}"
        asked = f"{'the first' if low is None else low} to {'the last' if high is None else high}"
        asked = f"step {low}" if low == high else f"steps of {asked}"
        refuse(argument, f"{asked} in the log", f"step {there[0]} alone" if len(there) == 1 else many)
    return within


def select_steps(table: pl.DataFrame, window: Window | None) -> pl.DataFrame:
    """Return the rows of the steps in a window; all rows if it is None.

    table: the rows, with the column `step`.
    window: the stretches of steps, as `window_of` returns them.
    """
    if window is None:
        return table
    return table.filter(pl.any_horizontal(pl.col("step").is_between(*stretch) for stretch in window))
