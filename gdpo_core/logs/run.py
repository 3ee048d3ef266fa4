"""The log of a run, in the same form for every framework."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from gdpo_core.errors import InputError


@dataclass(frozen=True)
class Trap:
    """A property of the files that may mislead a reader: the id of the finding that reports it, and its evidence."""

    id: str
    evidence: Mapping[str, object]


def _no_other_size(size: int) -> "Run":
    raise InputError(f"size: expected a run whose group size was inferred, got {size} for another")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's log: facts about it, and its responses as tables that are read on demand.

    Every table has the columns batch, step and group (Int64), one Float64 column per reward (NaN = missing), and
    `advantage` (Float64) and `length` (Int64, tokens) if the log holds them. A batch is the responses of one training
    step, over which GDPO's last step runs. A table holds whole batches, and the rows of a batch and of a group stand
    together. The numbers of batches and of groups are unique over the run.
    """

    path: str  # as the caller gave it
    framework: str  # trl, verl, ms_swift, nemo_rl or generic
    files: tuple[str, ...]  # their names, in reading order
    rewards: tuple[str, ...]
    group_size: int | None  # None: groups differ in size
    grouped_by: str  # in words: "blocks of 8 rows", "the column uid"
    grouped_by_column: bool = False  # else by blocks of rows
    total_only: bool  # the log holds one total per response, not the rewards it was made of
    has_advantage: bool
    has_length: bool
    traps: tuple[Trap, ...] = ()  # found by the reader
    skipped_lines: int = 0
    left_out: tuple[str, ...] = ()  # columns that are neither used nor texts that such logs are known to hold
    asked: str | None = None  # the method that a configuration file beside the log asks for
    weights: Mapping[str, float] | None = None  # per reward, if the log or a configuration file beside it holds them
    weights_by: str | None = None  # their origin: score (a logged total is the weighted sum) or config
    other_sizes: tuple[int, ...] = ()  # group sizes that the prompts and advantages fit as well
    _regrouped: Callable[[int], "Run"] = field(default=_no_other_size, repr=False)
    _tables: Callable[[], Iterator[pl.DataFrame]] = field(repr=False)

    def tables(self) -> Iterator[pl.DataFrame]:
        """The responses, some ten thousand to a few hundred thousand at a time; each call reads the files anew."""
        return self._tables()

    def regrouped(self, size: int) -> "Run":
        """The same log in groups of another size."""
        return self._regrouped(size)

    @cached_property
    def table(self) -> pl.DataFrame:
        """All responses: step, group, the rewards, advantage if logged, length if known."""
        return pl.concat(list(self.tables())).drop("batch")
