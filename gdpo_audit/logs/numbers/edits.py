"""Changes of the advantages or the batches of a run that is read in another way: each is a function of a table.

They are applied whenever the tables of the run are read. An advantage that becomes NaN is not compared with any recipe.
"""

from dataclasses import dataclass
from itertools import combinations

import polars as pl

_ROUNDED = 1e-3  # the sum of a group's advantages counts as 0 if it is at most this part of the sum of their sizes
_AGAIN, _AT_MOST = 3, 12  # the most rows that a group has too many, and of the rows that may be these
VALUES = 1 << 10  # more than a column has values by which batches are split

_A = pl.col("advantage").fill_nan(None)


@dataclass(frozen=True)
class Centred:
    """Subtracts from each advantage the mean of the advantages that are logged in its group.

    Of a method that subtracts a mean over rows that are not all logged, this leaves what it would have made with the
    mean over the logged rows.
    """

    def __call__(self, table: pl.DataFrame) -> pl.DataFrame:
        return table.with_columns(advantage=(_A - _A.mean().over("group")).fill_null(float("nan")))


@dataclass(frozen=True)
class Whole:
    """Leaves out the advantages of the groups in which they do not add up to 0, or that have another size.

    size: the number of rows of a group that counts; None for any. A group also adds up to 0 if a row that it lacks had
        the advantage 0, but then it is smaller.
    """

    size: int | None

    def __call__(self, table: pl.DataFrame) -> pl.DataFrame:
        whole = adds_up() if self.size is None else adds_up() & (pl.len().over("group") == self.size)
        advantage = pl.when(whole).then(_A).fill_null(float("nan"))
        return table.with_columns(advantage=advantage)


@dataclass(frozen=True)
class Clipped:
    """Leaves out the advantages that lie on a bound at which advantages were clipped.

    low, high: the bounds; infinite where there is none.
    """

    low: float
    high: float

    def __call__(self, table: pl.DataFrame) -> pl.DataFrame:
        inside = (pl.col("advantage") > self.low) & (pl.col("advantage") < self.high)
        return table.with_columns(advantage=pl.when(inside).then(_A).fill_null(float("nan")))


@dataclass(frozen=True)
class Once:
    """Leaves out rows that repeat a row of their group, where a group has more rows than usual and its advantages add
    up to 0 without them.

    size: the usual number of rows of a group.
    """

    size: int

    def __call__(self, table: pl.DataFrame) -> pl.DataFrame:
        table = table.with_row_index("_at")
        more = pl.len().over("group") - self.size
        larger = table.filter((more > 0) & (more <= _AGAIN))
        same = ["advantage", *(name for name in table.columns if name.startswith("reward:"))]
        larger = larger.with_columns(again=pl.int_range(pl.len()).over("group", *same) > 0)
        left_out = [at for rows in larger.partition_by("group") for at in self._of_group(rows)]
        return table.filter(~pl.col("_at").is_in(left_out)).drop("_at")

    def _of_group(self, rows: pl.DataFrame) -> list[int]:
        """Return the places of the rows of one group that are left out; [] where no rows of it are such repetitions."""
        sums, size = rows["advantage"].fill_nan(0.0), float(rows["advantage"].fill_nan(0.0).abs().sum())
        again = rows.filter("again").select("_at", "advantage").rows()[:_AT_MOST]
        for some in combinations(again, len(rows) - self.size):
            if abs(float(sums.sum()) - sum(a for _, a in some)) <= _ROUNDED * size:
                return [at for at, _ in some]
        return []


@dataclass(frozen=True)
class Split:
    """Makes the rows of a batch with one value of the column `by` of the run a batch of their own.

    values: the values, of which the rows of each batch keep the order.
    """

    values: tuple[str, ...]

    def __call__(self, table: pl.DataFrame) -> pl.DataFrame:
        numbers = {value: number for number, value in enumerate(self.values)}
        at = pl.col("_by").replace_strict(numbers, default=len(numbers), return_dtype=pl.Int64)
        batch = pl.col("batch") * VALUES + at
        return table.with_columns(batch).sort("batch", maintain_order=True)


Edit = Centred | Whole | Clipped | Once | Split


def adds_up() -> pl.Expr:
    """Return an expression for whether the advantages of each row's group add up to 0, but for rounding."""
    return _A.sum().over("group").abs() <= _ROUNDED * _A.abs().sum().over("group")
