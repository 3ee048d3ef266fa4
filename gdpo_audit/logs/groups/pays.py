"""Parts told from their total: how often each reward passed, if the caller knows what a pass of each pays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import polars as pl

from gdpo_audit.logs.forms.options import Columns, reward_names, validate_columns
from gdpo_audit.logs.groups.run import Rows, Run
from gdpo_audit.logs.names import ROWS_OF_A_FILE, reward_column, reward_columns
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_audit.logs.tables.json_values import expect_names
from gdpo_core.shared.errors import is_finite
from gdpo_core.shared.words import listing, number

_MOST = 12  # the most parts, whose passes have 4,096 sums
# How much rounding may change a total: to four decimals, and in float32, as a share of the sum of all pays.
DECIMALS, _FLOAT32 = 5e-5, 1e-6
SUMS = 32  # the most totals for which pays are guessed: the sums of five parts


def validate_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """Return how much each part adds to a total where a response passes it, by the part's name, as floats.

    Raises InputError unless `parts` is a mapping of 1 to 12 names to pays above 0, each at most 1e30.

    >>> validate_parts({"correct": 1, "format": 0.5})
    {'correct': 1.0, 'format': 0.5}
    """
    named = isinstance(parts, Mapping) and 0 < len(parts) <= _MOST
    refuse_unless(named, "parts", f"pays of 1 to {_MOST} parts, such as correct=1,format=0.5", repr(parts))
    for name, pay in parts.items():
        if name == "":
            refuse("parts", "a name for each part", "one called ''")
        fits = isinstance(name, str) and is_finite(pay) and 0 < pay <= 1e30
        refuse_unless(fits, f"parts, {name!r}", "a pay above 0, at most 1e30", repr(pay))
    return {name: float(pay) for name, pay in parts.items()}


def passes_of(totals: np.ndarray, pays: Sequence[float], most: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each total, how often each part passed, and in how many ways passes can make the total.

    The first array, (totals, parts), is NaN unless there is exactly one way. The second, (totals,), counts the ways. A
    way may differ from the total by rounding to four decimals, or in float32.
    totals: (totals,) the totals.
    pays: what a pass of each part pays.
    most: how often each part can pass at most.

    >>> passes_of(np.array([1.5, 0.4]), [1, 0.5], [1, 1])
    (array([[ 1.,  1.],
           [nan, nan]]), array([1, 0]))
    """
    combinations = np.array([*product(*(range(times + 1) for times in most))], dtype=float)
    combinations = combinations[np.argsort(combinations @ pays)]
    sums = combinations @ pays
    allowed = DECIMALS + _FLOAT32 * sums[-1]
    first = np.searchsorted(sums, totals - allowed)
    ways = np.searchsorted(sums, totals + allowed, "right") - first
    passes = combinations[np.minimum(first, len(sums) - 1)]
    passes[ways != 1] = np.nan
    return passes, ways


def with_parts(run: Run, parts: Mapping[str, float], total: str | None) -> Run:
    """Return a run of totals as a run whose rewards say how often each part passed; parts of equal pay are one reward.

    The weights of the new run are the pays.
    run: the run of totals.
    parts: what a pass of each part pays, by name.
    total: the column that is the total of the run's rewards, if known.

    Raises InputError for parts that cannot be used, and if the log holds more rewards than one total. Reading the rows
    of the new run also raises InputError, for the first total that no passes make.
    """
    by_name = validate_parts(parts)
    pays = [*dict.fromkeys(by_name.values())]
    alike = [[name for name in by_name if by_name[name] == pay] for pay in pays]
    rewards, most = reward_names([*map(" + ".join, alike)]) or (), [*map(len, alike)]
    expect_names(rewards, "parts")
    validate_columns(Columns(rewards=rewards), rewards, "parts")
    total_column, rows = run.rewards[0], run._source
    got = f"the rewards {listing(run.rewards, most=8)}" + f" and their total {total}" * (total is not None)
    alone = len(run.rewards) == 1 and total in (None, total_column)
    refuse_unless(alone, run.path, "one column of totals where --parts is given", got)
    return replace(
        run,
        rewards=rewards,
        total_only=False,
        issues=tuple(issue for issue in run.issues if issue.id != "no-components"),
        weights=dict(zip(rewards, pays, strict=True)),
        weights_by="parts",
        _rows=replace(rows, read=_PassReader(rows, run.files, total_column, pays, most, rewards)),
    )


@dataclass(frozen=True)
class _PassReader:
    """The reader of a log of totals. It yields how often each part of a total passed, in place of the total.

    rows: the rows of the log, with their totals.
    files: the names of the files, for errors.
    pays: what a pass of each part pays.
    rewards: the names of the parts, in the order of `pays`.
    """

    rows: Rows
    files: Sequence[str]
    total: str  # the name of the reward that holds the totals
    pays: Sequence[float]
    most: Sequence[int]  # how often each part can pass at most
    rewards: Sequence[str]

    def __call__(self) -> Iterator[pl.DataFrame]:
        """Yield the rows with a column per part in place of the total, and with a column `_open`.

        The column of a part says how often the response passed it. It is NaN where the total is missing, and where
        passing different parts could make this total. Only in the second case is `_open` true.

        Raises InputError for the first total that the pays of the parts cannot make.
        """
        totals = reward_column(self.total)
        for table in self.rows.read():
            passes, ways = passes_of(table[totals].to_numpy(), self.pays, self.most)
            unexplained = (ways == 0) & table[totals].is_not_nan().to_numpy()
            if unexplained.any():
                first = int(unexplained.argmax())
                file, row = divmod(table["_place"][first], ROWS_OF_A_FILE)
                pays = listing(map(number, self.pays), most=8)
                wanted = f"a sum of some of the pays {pays} (--parts) in {self.total!r}"
                got = table[totals][first]
                refuse(location(self.files[file], row=row), wanted, got)
            without_total = table.drop(totals).with_columns(_open=pl.Series(ways > 1))
            yield without_total.hstack(pl.DataFrame(passes, schema=reward_columns(self.rewards)))


def possible_pays(totals: Iterable[np.ndarray]) -> list[float]:
    """Return pays of two to five parts, the largest first, whose sums are all of the totals that occur, and no others.

    This is a guess, to four decimals. The pays are above 0, and each part passes once or not. The list is empty if no
    such pays fit, or if one total would be several sums.
    totals: arrays of totals. Totals that are not finite are passed over.

    >>> possible_pays([np.array([0, 0.5, 1.5, 1])]), possible_pays([np.array([0, 0.5, 1])])
    ([1.0, 0.5], [])
    """
    distinct: set[float] = set()
    for some in totals:
        distinct |= {round(x, 4) for x in np.unique(some[np.isfinite(some)]).tolist()}
        if len(distinct) > SUMS:
            return []
    pays, sums = list[float](), {0.0}
    for total in sorted(distinct):
        if total not in sums and len(sums) < len(distinct):
            pays.append(total)
            sums |= {round(total + x, 4) for x in sums}
    return pays[::-1] if sums == distinct and len(sums) == 2 ** len(pays) > 2 else []
