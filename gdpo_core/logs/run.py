"""The log of a run, whoever wrote it, in one form."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl


@dataclass(frozen=True)
class Trap:
    """Something that makes the files say less, or other things, than they seem to: a finding's id and its evidence."""

    id: str
    evidence: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's log: what was learnt about it, and its responses as tables that are read when asked for.

    Every table has the columns batch, step, group (Int64), a Float64 column a reward (NaN = missing), and `advantage`
    (Float64) and `length` (Int64, tokens) where the log holds them. A table holds whole batches (a batch: the responses
    of one training step, over which the last step of GDPO runs), the rows of a batch and of a group stand together, and
    the numbers of batches and of groups are unique over the run.
    """

    path: str  # as the caller gave it
    framework: str  # trl, verl, ms_swift, nemo_rl or generic
    files: tuple[str, ...]  # their names, in the order in which they are read
    rewards: tuple[str, ...]
    group_size: int | None  # None: groups of different sizes
    grouped_by: str  # in words: "blocks of 8 rows", "the column uid"
    total_only: bool  # the log holds one total a response and not the rewards it was made of
    has_advantage: bool
    has_length: bool
    traps: tuple[Trap, ...] = ()  # what the reader noticed
    skipped_lines: int = 0
    left_out: tuple[str, ...] = ()  # columns that are neither used nor texts that such logs are known to hold
    asked: str | None = None  # the method that a configuration beside the log asks for, if there is one
    weights: Mapping[str, float] | None = None  # of rewards, where the log itself or a configuration beside it tells
    weights_by: str | None = None  # what told them: score (a logged total is their weighted sum) or config
    other_sizes: tuple[
        int, ...
    ] = ()  # of groups, that the prompts and advantages leave open: neighbours share a prompt
    _regrouped: Callable[[int], "Run"] | None = field(default=None, repr=False)
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
