"""The search for the column that says which prompt a response answers: the prompt's text, its tokens, or an id.

A column that numbers the prompts of each batch anew does not say it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl

from gdpo_audit.logs.columns.texts import PROMPT_TEXTS
from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.options import Columns
from gdpo_audit.logs.forms.scans import frames_of
from gdpo_audit.logs.forms.standard_rows import standard_rows
from gdpo_audit.logs.names import MADE_PROMPT
from gdpo_audit.records import CLUE_ROWS

# The names of columns that say which prompt a response answers, the surest first.
_NAMES = (*PROMPT_TEXTS, MADE_PROMPT, "prompt_id", "prompt_idx", "prompt_index")
_TOKENS = ("prompt_tokens", "prompt_token_ids", "prompt_ids", "input_ids", "query_tokens")
_FEWEST = 2  # the fewest batches, and the fewest prompts in each, that show that an id numbers them in each batch anew


def identity_of(columns: Mapping[str, pl.DataType], rows: Callable[[str], pl.DataFrame]) -> str | None:
    """Return the column that says which prompt a response answers; None if the log has none.

    It is the first of `_NAMES` that the log has, whatever its case. Without any, it is the first of `_TOKENS`, whatever
    its case, whose column holds lists. A column whose numbers count the prompts of each batch anew, from 0 or 1, is
    passed over.
    columns: the columns among which it is looked for, with their types.
    rows: a function that takes the name of a column and returns a table of some rows. The column `value` of the table
        holds the values of the named column, and `batch` the number of each row's batch.
    """
    by_lower = {name.lower(): name for name in reversed([*columns])}
    named = [by_lower[name] for name in _NAMES if name in by_lower]
    tokens = [by_lower[name] for name in _TOKENS if name in by_lower and isinstance(columns[by_lower[name]], pl.List)]
    for name in (*named, *tokens):
        if not (columns[name].is_integer() or columns[name].is_float()) or not is_place(rows(name)):
            return name
    return None


def is_place(rows: pl.DataFrame) -> bool:
    """Return whether the values of a column number the prompts of each batch anew, in the order in which they come.

    The numbers begin at 0 or 1. Batches of one value do not count. If fewer than two batches count, the result is
    False.
    rows: the columns `batch` and `value`.

    >>> is_place(pl.DataFrame({"batch": [1, 1, 1, 2, 2, 2], "value": [0, 0, 1, 0, 1, 1]}))
    True
    >>> is_place(pl.DataFrame({"batch": [1, 1, 1, 2, 2, 2], "value": [7, 7, 3, 0, 9, 9]}))
    False
    """
    values = rows.group_by("batch").agg(pl.col("value").unique(maintain_order=True))
    batches: Sequence[Sequence[float]] = values["value"].to_list()
    whole = [batch for batch in batches if len(batch) >= _FEWEST]
    return len(whole) >= _FEWEST and all(_counts(batch) for batch in whole)


def _counts(values: Iterable[float]) -> bool:
    """Return whether these values are 0, 1, 2 … or 1, 2, 3 …, in this order."""
    held = list(values)
    return None not in held and held[0] in (0, 1) and held == [held[0] + k for k in range(len(held))]


def in_batches(form: Form, name: str) -> pl.DataFrame:
    """Return the column `name` of the log's first rows as `value`, beside the number of each row's batch as `batch`.

    There are about `CLUE_ROWS` rows, or all if the log has fewer.
    form: says how rows are read, and what a batch is.
    name: the column to read.
    """
    frame = next(frames_of(form, [*dict.fromkeys(n for n in (form.step, name) if n)], CLUE_ROWS))
    rows = standard_rows(frame, Columns(step=form.step), [table.name for table in form.tables])
    by = [pl.col(n) for n in ("_file", "step") if n in form.batch]
    return rows.select(pl.struct(by).rle_id().alias("batch")).hstack(frame.select(pl.col(name).alias("value")))
