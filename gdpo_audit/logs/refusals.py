"""Errors of a log that cannot be used: each says where it is wrong, what was expected there, and what came instead.

The modules of this package refuse a log through `refuse` and `refuse_unless`, so that all errors read alike.
"""

from typing import NoReturn

from gdpo_core.shared.errors import InputError


class Lacking(InputError):
    """Raised where a log can be read but lacks what an audit needs: responses in rows, their groups, or rewards."""


def location(
    name: str,
    *,
    line: int | None = None,
    row: int | None = None,
    item: int | None = None,
    member: str | None = None,
    column: str | None = None,
    step: object = None,
) -> str:
    """Return words for a place in a log, with which an error begins; they name only what is given.

    name: the file or table, or the argument of `read_run`.
    line: the number of a line, which an editor shows, from 1.
    row: the number of a row of a table, from 0; the words count from 1.
    item: the number of an item of an array, from 0; the words count from 1.
    member: the name of a file inside the zip that is called `name`.
    column: the name of a column.
    step: the step of the run.

    >>> location("log.csv", line=3), location("log.csv", row=0, step=7), location("log.csv", column="acc")
    ('log.csv, line 3', 'log.csv, row 1, step 7', "log.csv, column 'acc'")
    >>> location("logs.zip", member="log.csv"), location("log.json", item=1)
    ("logs.zip: 'log.csv'", 'log.json, item 2')
    """
    words = name if member is None else f"{name}: {member!r}"
    words += "" if line is None else f", line {line}"
    words += "" if row is None else f", row {row + 1}"
    words += "" if item is None else f", item {item + 1}"
    words += "" if column is None else f", column {column!r}"
    return words if step is None else f"{words}, step {step}"


def refuse(where: str, expected: str, got: object, error: type[InputError] = InputError) -> NoReturn:
    """Raise an error that says where a log is wrong, what was expected there, and what came instead.

    where: a file or an argument, or a place inside it as `location` returns it.
    expected: what was expected, in words.
    error: the class of the error.

    >>> refuse(location("log.jsonl", line=2), "a JSON object", "'{'")
    Traceback (most recent call last):
    gdpo_core.InputError: log.jsonl, line 2: expected a JSON object, got '{'
    """
    # Where a library's error led here, `from None` hides it: it tells how the log is read, not what is wrong with it.
    raise error(f"{where}: expected {expected}, got {got}") from None


def refuse_unless(condition: bool, where: str, expected: str, got: object) -> None:
    """Raise InputError, as `refuse` does, if `condition` is false.

    The texts of the error are made in any case. So a loop over the records of a log tests its condition itself, and
    calls `refuse` only for the record that is wrong.
    condition: what has to hold.
    where: a file or an argument, or a place inside it as `location` returns it.
    expected: what was expected, in words.
    got: what came instead.

    >>> refuse_unless(2 < 1, "group", "the name of a column", "-3")
    Traceback (most recent call last):
    gdpo_core.InputError: group: expected the name of a column, got -3
    """
    if not condition:
        refuse(where, expected, got)
