"""`--by COLUMN`: the facts of each value of a column, such as the task, beside those of the whole run."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from gdpo_core._errors import InputError
from gdpo_core._words import clip, count
from gdpo_core.runs.facts import Facts, ValueFacts
from gdpo_core.runs.files import natural
from gdpo_core.runs.run import Run
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Summary, merge, take

VALUES = 50  # that are looked at by themselves, those with the most groups; all others together
LONGEST = 200  # characters of a value


def by_value(f: Facts) -> tuple[ValueFacts, ...]:
    """The facts of each value of the column that the run was read by, in order; the others, if any, last.

    Advantages are those of whole batches, of which the responses of one value are a part. Two passes over the log.
    Raises InputError where the column varies inside a group.
    """
    if f.run.by is None:
        return ()
    values = _values(f.run)
    known, others = values.head(VALUES), len(values) - VALUES
    summary: Summary | None = None
    plan = replace(f.plan, examples_of=None)
    for table in _in_cells(f, known["key"]):
        batches = summarise(table, plan).batches
        part = Summary(plan, replace(batches, batch=batches.batch % (VALUES + 1)))
        summary = merge([part] if summary is None else [summary, part])
    assert summary is not None, "the facts are of a batch"
    of = summary.batches
    names = list(enumerate(known["value"].to_list()))
    names.sort(key=lambda name: (name[1] is None, natural(name[1] or "")))
    facts = {number: replace(f, batches=take(of, of.batch == number)) for number in of.batch.tolist()}
    found = [ValueFacts(value, 1, facts[number]) for number, value in names if number in facts]
    return (*found, *([ValueFacts(f"{count(others)} others", others, facts[VALUES])] if VALUES in facts else []))


def _values(run: Run) -> pl.DataFrame:
    """The values of the column, those with the most groups first: key, value, groups. Raises InputError."""
    counts: list[pl.DataFrame] = []
    for table in run.tables():
        goes_on = pl.col("group") == pl.col("group").shift(1)
        other = table.select((goes_on & pl.col("_by").ne_missing(pl.col("_by").shift(1))).fill_null(False)).to_series()
        if (row := other.arg_max()) is not None and other[row]:
            a, b = (repr(clip(x)) if x is not None else "a missing one" for x in table["_by"][row - 1 : row + 1])
            step = table["step"][row]
            raise InputError(
                f"{run.path}: expected one value of the column {run.by!r} in all responses of a group, "
                f"got {a} and {b} in a group of step {step}"
            )
        first = table.filter(~goes_on.fill_null(False))
        key, value = pl.col("_by").hash().alias("key"), pl.col("_by").str.slice(0, LONGEST).alias("value")
        new = first.select(key, value, pl.lit(1, pl.Int64).alias("groups"))
        together = pl.concat([*counts, new]).group_by("key", maintain_order=True)
        counts = [together.agg(pl.col("value").first(), pl.col("groups").sum())]
    return counts[0].sort("groups", descending=True, maintain_order=True)


def _in_cells(f: Facts, keys: pl.Series) -> Iterator[pl.DataFrame]:
    """The tables of the run with a `cell` for each response: its batch and its value, batch · (VALUES + 1) + value.

    The sums over a cell are then those of a batch in which every response has that value.
    """
    numbers = pl.DataFrame({"key": keys, "number": np.arange(len(keys))})
    for table in f.run.tables():
        part = table.filter(pl.Series(np.isin(table["batch"].to_numpy(), f.batches.batch)))
        if len(part):
            of_value = part.select(pl.col("_by").hash().alias("key")).join(
                numbers, on="key", how="left", maintain_order="left"
            )
            cell = pl.col("batch") * (VALUES + 1) + of_value["number"].fill_null(VALUES)
            yield part.with_columns(cell.alias("cell")).sort("cell", maintain_order=True)
