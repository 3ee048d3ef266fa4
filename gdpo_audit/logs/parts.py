"""Rewards of 0 or 1 told from their logged total, where the caller knows what a pass of each pays: `--parts`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from numbers import Real
from typing import TypeAlias

import numpy as np
import polars as pl

from gdpo_audit.logs.columns import ROWS_OF_A_FILE, Columns, reward_names, validate_columns
from gdpo_audit.logs.json_values import expect_names
from gdpo_audit.logs.run import LogIssue, Run
from gdpo_core._errors import InputError, expect
from gdpo_core._words import listing, number

Array: TypeAlias = np.ndarray

MOST = 12  # parts: their passes have 4,096 sums
LARGEST = 1e30  # of a pay: its square stays finite
DECIMALS, FLOAT32 = 5e-5, 1e-6  # what rounding may do to a total: to four decimals, and per unit of all pays
LEVELS = (4, 8, 16, 32)  # how many sums the passes of two to five parts have
DIFFERENT = 1000  # totals, more of which are no sums of a few pays that were rounded


def validate_parts(parts: object) -> dict[str, float]:
    """What a pass of each part pays, by name, from a mapping or pairs. Raises InputError.

    >>> validate_parts({"correct": 1, "format": 0.5})
    {'correct': 1.0, 'format': 0.5}
    """
    try:
        pays = dict(parts)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise InputError(f"parts: expected pays by name, such as correct=1,format=0.5, got {parts!r}") from None
    expect(0 < len(pays) <= MOST, "parts", f"1 to {MOST} parts", f"{len(pays)}")
    for name, pay in pays.items():
        fits = isinstance(name, str) and isinstance(pay, Real) and not isinstance(pay, bool)
        expect(fits and 0 < float(pay) <= LARGEST, f"parts, {name!r}", f"a pay above 0, at most {LARGEST:g}", repr(pay))
    return {name: float(pay) for name, pay in pays.items()}


def passes_of(totals: Array, pays: Sequence[float], most: Sequence[int]) -> tuple[Array, Array]:
    """(totals, parts) how often each part passed, NaN where not in exactly one way; (totals,) the number of ways.

    most: how often each part can pass at most.

    >>> passes_of(np.array([1.5, 0.4]), [1, 0.5], [1, 1])
    (array([[ 1.,  1.],
           [nan, nan]]), array([1, 0]))
    """
    passes = np.array([*product(*(range(times + 1) for times in most))], dtype=float)
    sums = passes @ np.asarray(pays, float)
    in_order = np.argsort(sums)
    passes, sums = passes[in_order], sums[in_order]
    allowed = _allowed(sums[-1])
    first = np.searchsorted(sums, totals - allowed)
    ways = np.searchsorted(sums, totals + allowed, "right") - first
    found = passes[np.minimum(first, len(sums) - 1)]
    found[ways != 1] = np.nan
    return found, ways


def _allowed(largest: float) -> float:
    """How far a logged total may be from the sum of what was paid. largest: the sum of all pays."""
    return DECIMALS + FLOAT32 * float(largest)


def with_parts(run: Run, parts: object, total: str | None) -> Run:
    """The run with the passes of its parts as rewards, in place of their total; parts of equal pay are one reward.

    total: the column that is known to be the total of the rewards. Raises InputError for a log that has its parts; so
    does reading the rows for the first total that no passes explain.
    """
    by_pay: dict[float, list[str]] = {}
    for name, pay in validate_parts(parts).items():
        by_pay.setdefault(pay, []).append(name)
    pays, most = [*by_pay], [len(names) for names in by_pay.values()]
    rewards = reward_names([" + ".join(names) for names in by_pay.values()]) or ()
    expect_names(rewards, "parts")
    validate_columns(Columns(rewards=rewards), rewards, "parts")
    of, rows = run.rewards[0], run._source
    got = f"the rewards {listing(run.rewards, most=8)}" + f" and their total {total}" * (total is not None)
    alone = len(run.rewards) == 1 and total in (None, of)
    expect(alone, run.path, "one column of totals, whose parts --parts tells apart", got)

    def read() -> Iterator[pl.DataFrame]:
        for table in rows.read():
            passes, ways = passes_of(table[of].to_numpy(), pays, most)
            unexplained = (ways == 0) & table[of].is_not_nan().to_numpy()
            if unexplained.any():
                first = int(unexplained.argmax())
                file, row = divmod(table["_place"][first], ROWS_OF_A_FILE)
                wanted = f"a sum of some of the pays {listing(map(number, pays), most=8)} (--parts) in {of!r}"
                raise InputError(f"{run.files[file]}, row {row + 1}: expected {wanted}, got {table[of][first]}")
            others = table.drop(of, *rewards, strict=False).with_columns(_open=pl.Series(ways > 1))
            yield others.hstack(pl.DataFrame(passes, schema=list(rewards)))

    weights = dict(zip(rewards, pays, strict=True))
    counted = [name for name, times in zip(rewards, most, strict=True) if times > 1]
    note = LogIssue("parts", {"total": of, "pays": weights, "counted": counted})
    return replace(
        run,
        rewards=rewards,
        total_only=False,
        has_length=run.has_length and "length" not in rewards,
        issues=(*(issue for issue in run.issues if issue.id != "no-components"), note),
        weights=weights,
        weights_by="parts",
        _rows=replace(rows, read=read),
    )


def possible_pays(totals: Iterable[Array]) -> list[float]:
    """Pays, the largest first, of two to five parts, each sum of which occurs among the totals, and nothing else.

    They are a guess: empty if there are none, or if some totals are sums in several ways.

    >>> possible_pays([np.array([0, 0.5, 1.5, 1])]), possible_pays([np.array([0, 0.5, 1])])
    ([1.0, 0.5], [])
    """
    different = np.empty(0)
    for some in totals:
        different = np.union1d(different, some[np.isfinite(some)])
        if len(different) > DIFFERENT:
            return []
    allowed = _allowed(different.max(initial=0))
    levels = different[np.diff(different, prepend=-np.inf) > allowed]
    if len(levels) not in LEVELS or abs(levels[0]) > allowed:
        return []
    pays, sums = list[float](), np.zeros(1)
    for level in levels[1:]:
        if np.abs(sums - level).min() > allowed and len(sums) < len(levels):
            pays.append(float(f"{level:.6g}"))
            sums = np.append(sums, sums + level)
    _, ways = passes_of(different, pays, [1] * len(pays))
    return pays[::-1] if len(sums) == len(levels) and (ways == 1).all() else []
