"""The names of columns that reading adds to the columns of a log, and of the rewards in the tables of a run.

A reward may have any name, so two things keep names apart. While a table still has the columns of its log, the columns
that reading adds have names that no log may use. Once it has the columns of `Run`, rewards have a prefix of their own.
"""

from collections.abc import Iterable
from shlex import quote

import polars as pl

# The columns that hold the number of a row's table in the log, its own number in the table, and that of its log event.
FILE, ROW, EVENT = "gdpo::file", "gdpo::row", "gdpo::event"
# The columns that a form makes of others: the step in the name of a file, and the prompt in a text.
MADE_STEP, MADE_PROMPT = "gdpo::step", "gdpo::prompt"
# The column that holds the number of each row's group, where a sample of the rows is looked at.
GROUP_OF_ROW = "gdpo::group"
# The column that holds a number for the step of each row there.
STEP_OF_ROW = "gdpo::at"
MADE = "gdpo::"  # the start of the name of every column that reading adds, with which no column of a log may begin
_REWARD = "reward:"
# The place of a row in a log is the number of its file times this, plus its own number in the file; no file has so many
# rows.
ROWS_OF_A_FILE = 1 << 32


def reward_column(name: str) -> str:
    """Return the name of a reward's column in the tables of a run, which no other column there has.

    >>> reward_column("length")
    'reward:length'
    """
    return _REWARD + name


def reward_columns(names: Iterable[str]) -> list[str]:
    """Return the names of the columns of these rewards in the tables of a run."""
    return [_REWARD + name for name in names]


def with_bare_names(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table of a run for people to read, in which rewards have their bare names, without the prefix.

    A reward keeps the prefix if another column has its bare name, or if its bare name begins with `reward:` as well.

    >>> with_bare_names(pl.DataFrame({"length": [5], "reward:length": [0.5], "reward:acc": [1.0]})).columns
    ['length', 'reward:length', 'acc']
    """
    bare = {name: name.removeprefix(_REWARD) for name in table.columns if name.startswith(_REWARD)}
    # A reward whose own name begins with reward: keeps the prefix, because the rest may be another's name.
    ambiguous = {name for name in bare.values() if name in table.columns or name.startswith(_REWARD)}
    return table.rename({column: name for column, name in bare.items() if name not in ambiguous})


def reward_options(names: Iterable[str]) -> str:
    """Return the options of the command line that name these rewards, as a shell takes them.

    >>> print(reward_options(["acc", "two words", "-x"]))
    --reward acc --reward 'two words' --reward=-x
    """
    return " ".join(f"--reward{'=' if name.startswith('-') else ' '}{quote(name)}" for name in names)
