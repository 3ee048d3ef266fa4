"""A window of steps in a run: the options `--steps 100:150` and `--last 50`."""

from collections.abc import Sequence

import polars as pl

from gdpo_audit.logs.refusals import refuse, refuse_unless
from gdpo_core._errors import expect_count, is_whole
from gdpo_core._words import count

Steps = tuple[int | None, int | None]  # the first and the last step; None: as far as the log goes


def validate_window(steps: object, last: object) -> tuple[Steps | None, int | None]:
    """Return the arguments `steps` and `last` of `read_run`, in whole numbers; one that is None stays None.

    steps: a first and a last step of at most 64 bits, in this order, of which one may be None.
    last: a number of steps from 1 to 999,999,999.

    Raises InputError for anything else, and if both are given.
    """
    if last is not None:
        expect_count(last, "last")
        refuse_unless(steps is None, "last", "none beside steps", repr(last))
    if steps is None:
        return None, None if last is None else int(last)  # type: ignore[call-overload]
    wanted = "the first and the last step, (100, 150), of which one may be None"
    pair = steps if isinstance(steps, Sequence) and not isinstance(steps, str) and len(steps) == 2 else (None, None)
    whole = all(end is None or is_whole(end) for end in pair) and any(end is not None for end in pair)
    refuse_unless(whole, "steps", wanted, repr(steps))
    low, high = (None if end is None else int(end) for end in pair)
    in_64_bits = all(end is None or abs(end) < 2**63 for end in (low, high))
    refuse_unless(in_64_bits, "steps", "steps of at most 64 bits", repr(steps))
    in_order = low is None or high is None or low <= high
    refuse_unless(in_order, "steps", "a first step that is not after the last", f"{low} and {high}")
    return (low, high), None


def window_of(logged: pl.Series, where: str, steps: Steps | None, last: int | None) -> tuple[int, int] | None:
    """Return the first and the last logged step that are asked for; None if no steps are asked for.

    A step has to fit both `steps` and `last`, if both are given.
    logged: the steps of the log, in any order.
    where: the name of the log.
    steps: the first and the last step that are wanted; a None in the pair leaves that end open.
    last: how many steps at the end of the log are wanted.

    Raises InputError, which says what the log holds, if it has none of these steps.

    >>> window_of(pl.Series([5, 1, 2, 1, 9]), "run", None, 3), window_of(pl.Series([5, 1, 2, 9]), "run", (2, 8), None)
    ((2, 9), (2, 5))
    """
    if steps is None and last is None:
        return None
    there = logged.unique().sort()
    low, high = steps or (None, None)
    chosen = there if last is None else there.tail(last)
    chosen = chosen.filter(
        (chosen >= (chosen[0] if low is None else low)) & (chosen <= (there[-1] if high is None else high))
    )
    if not len(chosen):
        asked = f"{'the first' if low is None else low} to {'the last' if high is None else high}"
        got = (
            f"step {there[0]} alone"
            if len(there) == 1
            else f"{count(len(there), 'step')} from {there[0]} to {there[-1]}"
        )
        refuse(where, f"steps of {asked} in the log", got)
    return chosen[0], chosen[-1]


def select_steps(table: pl.DataFrame, window: tuple[int, int] | None) -> pl.DataFrame:
    """Return the rows of the steps in a window; all rows if it is None.

    table: the rows, with the column `step`.
    window: the first and the last step, as `window_of` returns them.
    """
    return table if window is None else table.filter(pl.col("step").is_between(*window))
