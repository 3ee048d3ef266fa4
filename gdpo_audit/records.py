"""Records that pass between the rooms: issues of a log, claims, groups, masks and texts. None of them reads a log."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from msgspec import Meta, Struct

# The first batch of each stretch of batches with one group size, and this size.
Blocks: TypeAlias = tuple[tuple[int, int], ...]
# Functions that yield the start of each prompt (text), or the length of each completion (length).
Extracts: TypeAlias = Mapping[str, Callable[[], Iterator[pl.DataFrame]]]
ROUNDED_SUM = 6e-3  # how far bfloat16 may keep a group's sum of advantages from 0, as a share of the sum of their sizes
CLUE_ROWS = 20_000  # the most rows of `Clues`
FEW_VALUES = 12  # the most values of a column that may tell rows of the training from others


# --- what reading says of a log ---


@dataclass(frozen=True)
class LogIssue:
    """A property of the log that may mislead a reader: the id of the finding that reports it, and its details."""

    id: str
    details: Mapping[str, Any]


@dataclass(frozen=True)
class Uncounted:
    """A column that looks like a reward but does not count, and why.

    name: the name of the column.
    function: whether it is a reward function of the trainer, so that it has a place among the weights.
    """

    name: str
    why: str  # in words: "weight 0", or of which reward it is a copy
    function: bool = False


# What stands behind a claim, the surest first.
PROVED, AGREES, ASSUMED = "proved", "agrees", "assumed"


class Claim(Struct, frozen=True, kw_only=True):
    """One decision of reading a log, with what stands behind it.

    what: the name of the decision, such as "weights".
    taken: what was taken, in words.
    evidence: "proved", "agrees" or "assumed".
    because: the sentence that says why.
    otherwise: the option that says otherwise; empty if there is none.
    """

    what: Annotated[
        str, Meta(description="responses, steps, groups, rewards (or reward), total, weights, method or missing.")
    ]
    taken: Annotated[str, Meta(description="What was taken, in words.")]
    evidence: Annotated[
        str, Meta(description="What stands behind it.", extra_json_schema={"enum": ["proved", "agrees", "assumed"]})
    ]
    because: Annotated[str, Meta(description="The sentence that says why.")]
    otherwise: Annotated[str, Meta(description="The option that says otherwise; empty: there is none.")] = ""


# --- groups and masks ---


class Mask(NamedTuple):
    """The rows that a mask leaves out: those in which `column` has the value `value`, all rows of advantage 0, or all
    rows without an advantage.

    column: the name of the column; None if the rows of advantage 0, or those without one, are meant.
    value: the value of the rows that are left out, a number or a text. If `column` is None, it is the advantage of
        these rows: 0, or None for rows without one.
    counts: whether the rows that are left out still count in the statistics of their group, so that only their
        advantage is left out.
    """

    column: str | None
    value: float | str | None
    counts: bool


@dataclass(frozen=True)
class Grouping:
    """A way to tell the groups of a batch apart: by columns, by blocks of rows, or by rows that are `places` apart.

    columns: the columns whose values together name a group.
    group_size: the number of rows in a block.
    places: the distance between neighbouring rows of a group.
    once: a column that marks copies. Of the rows of a batch with one value in it only the last one counts.
    follows: whether advantages tell these groups that follow the rewards in each of them, without adding up to 0.
    """

    columns: tuple[str, ...] = ()
    group_size: int | None = None
    places: int | None = None
    once: str | None = None
    follows: bool = False

    @property
    def options(self) -> dict[str, object]:
        """The options for reading the log in these groups: fields of `ReadOptions`, by name."""
        given = {"group": self.columns, "group_size": self.group_size, "places": self.places}
        named: dict[str, object] = {name: value for name, value in given.items() if value}
        if named:  # one way to tell groups apart takes the place of another
            named = {"group": None, "group_size": None, "places": None, "unkeyed": not self.columns} | named
        return named | {"once": self.once}


@dataclass(frozen=True)
class Clues:
    """Some rows of a log, sorted by batch, with columns that may tell groups apart, and columns that may be masks.

    batch: the number of each row's batch.
    advantage: the advantage of each row.
    keys: the columns that may tell groups apart, by name. Their values are numbers, which are equal where the values in
        the log are equal.
    flags: the columns of few values, numbers or texts, which may be masks, by name. A reward of more values is among
        them if its smallest or largest value may mark rows that were left out; its other values are NaN then.
    rewards: (rows, rewards) the values of the rewards, NaN where one is missing.
    unjudged: the mask of the rows without an advantage, which are no rows of the clues. It names the column and the
        value that all of them have, and no other row, if there are such; None if all rows have an advantage.
    """

    batch: np.ndarray
    advantage: np.ndarray
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    flags: dict[str, np.ndarray] = field(default_factory=dict)
    rewards: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    unjudged: Mask | None = None

    def at_rows(self, rows: np.ndarray) -> "Clues":
        """Return some of the rows.

        rows: their numbers, from 0.
        """
        return Clues(
            self.batch[rows],
            self.advantage[rows],
            {name: key[rows] for name, key in self.keys.items()},
            {name: flag[rows] for name, flag in self.flags.items()},
            self.rewards[rows] if len(self.rewards) else self.rewards,
        )


# --- texts ---


class PromptAndCompletion(NamedTuple):
    """The prompt and the completion of a response, each cut if it is long; None for one that the log does not have."""

    prompt: str | None
    completion: str | None


# Returns the prompts and completions of the responses at these places, by place.
Texts: TypeAlias = Callable[[Collection[int]], Mapping[int, PromptAndCompletion]]


def no_texts(places: Collection[int]) -> Mapping[int, PromptAndCompletion]:
    """Return an empty mapping, for a log without texts.

    places: the responses whose texts are asked for.
    """
    return {}
