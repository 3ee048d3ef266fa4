"""Changes of the advantages or the batches of a run that is read in another way: each is a function of a table.

They are applied whenever the tables of the run are read. An advantage that becomes NaN is not compared with any recipe.
"""

from dataclasses import dataclass

import polars as pl

_ROUNDED = 1e-3  # the sum of a group's advantages counts as 0 if it is at most this part of the sum of their sizes
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


Edit = Centred | Whole | Clipped | Split


def adds_up() -> pl.Expr:
    """Return an expression for whether the advantages of each row's group add up to 0, but for rounding."""
    return _A.sum().over("group").abs() <= _ROUNDED * _A.abs().sum().over("group")
