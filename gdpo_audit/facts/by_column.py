"""Separate facts for each value of a column, such as each task, beside the facts of the whole run: `--by COLUMN`."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace

import numpy as np
import polars as pl

from gdpo_audit.facts.facts import Facts, ValueFacts
from gdpo_audit.logs.files.directories import natural
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.sums.summarise import pieces, sums_of
from gdpo_audit.sums.sums import add_up, concat, select_batches
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.words import clip, count

MOST_COLUMN_VALUES = (
    50  # the most values that have facts of their own, those with the most groups; all others are counted as one
)
_LONGEST = 200  # the most characters of a value that are kept


def by_value(f: Facts) -> tuple[ValueFacts, ...]:
    """Return the facts of each value of the column `f.run.by`, in the natural order of the values; a missing value
    comes last.

    Only the `MOST_COLUMN_VALUES` values with the most groups have facts of their own. All rarer values come after them,
    taken together. The facts of a value are of the responses that have it, with advantages that were computed for their
    whole batches. The log is read twice.

    () where no column was chosen, and where a column that was chosen by default varies inside a group.

    Raises InputError where a column that the caller asked for varies inside a group.
    """
    values = None
    with suppress(InputError) if f.run.by_default else nullcontext():
        values = None if f.run.by is None else _values(f.run)
    if values is None:
        return ()
    known, remaining = values.head(MOST_COLUMN_VALUES), len(values) - MOST_COLUMN_VALUES
    basis = replace(f.basis, examples_of=None)
    by_table = [sums_of(table, basis) for table in _numbered(f, known["key"])]
    sums = add_up(together := concat(by_table), together.batch)
    names = list(enumerate(known["value"].to_list()))
    names.sort(key=lambda name: (name[1] is None, natural(name[1] or "")))
    facts = {number: replace(f, batches=select_batches(sums, sums.batch == number)) for number in sums.batch.tolist()}
    named_values = [ValueFacts(value, 1, facts[number]) for number, value in names if number in facts]
    return (
        *named_values,
        *(
            [ValueFacts(f"{count(remaining)} others", remaining, facts[MOST_COLUMN_VALUES])]
            if MOST_COLUMN_VALUES in facts
            else []
        ),
    )


def _values(run: Run) -> pl.DataFrame:
    """Return a table of the values of the column `run.by`, the values with the most groups first.

    Its columns are key (a hash of the value), value (its first `_LONGEST` characters), and len, the number of groups.
    Raises InputError where the responses of one group have several values.
    """
    counts = []
    key, value = pl.col("_by").hash().alias("key"), pl.col("_by").str.slice(0, _LONGEST).alias("value")
    goes_on = (pl.col("group") == pl.col("group").shift(1)).fill_null(False)
    for table in run.tables():
        differs = table.select(goes_on & pl.col("_by").ne_missing(pl.col("_by").shift(1))).to_series()
        if (row := differs.arg_max()) is not None and differs[row]:
            a, b = (repr(clip(x)) if x is not None else "a missing one" for x in table["_by"][row - 1 : row + 1])
            step = table["step"][row]
            raise InputError(
                f"{run.path}: expected one value of the column {run.by!r} in all responses of a group, "
                f"got {a} and {b} in a group of step {step}"
            )
        counts.append(table.filter(~goes_on).group_by(key, maintain_order=True).agg(value.first(), pl.len()))
    together = pl.concat(counts).group_by("key", maintain_order=True).agg(pl.col("value").first(), pl.col("len").sum())
    return together.sort("len", descending=True, maintain_order=True)


def _numbered(f: Facts, keys: pl.Series) -> Iterator[pl.DataFrame]:
    """Yield the responses of the batches in `f.batches`, as tables with one more column, `_value`: a number for the
    value that a response has in the column `f.run.by`.

    keys: hashes of values. The number is the index of the value's hash in `keys`; any value whose hash is not there has
        the number `MOST_COLUMN_VALUES`.
    """
    numbers = pl.DataFrame({"key": keys, "_value": np.arange(len(keys))})
    for table in pieces(f.run.tables()):
        rows = table.filter(pl.col("batch").is_in(f.batches.batch.tolist()))
        if len(rows):
            key = rows.select(pl.col("_by").hash().alias("key"))
            value = key.join(numbers, on="key", how="left", maintain_order="left")["_value"]
            yield rows.with_columns(value.fill_null(MOST_COLUMN_VALUES))
