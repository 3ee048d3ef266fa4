"""What a reader of one framework hands on: rows of whole batches, and what is left to find out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from gdpo_core.logs.jsonl import Skipped
from gdpo_core.logs.run import Trap


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the caller said about a log."""

    rewards: tuple[str, ...] | None = None
    group: str | None = None
    advantage: str | None = None
    length: str | None = None
    step: str | None = None
    group_size: int | None = None
    skip_bad_lines: bool = False


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A log before its groups are known.

    rows: what reads it anew each time, in frames of whole batches: `_file`, batch and step (Int64), each reward
        (Float64, NaN = missing), `advantage` (Float64) and `length` (Int64) where logged, and `_key` (UInt64) where a
        column tells the groups of a batch apart.
    outline: the same without rewards and lengths, where that is faster.
    prompts: for a bounded sample of the first rows batch, step, `_key` and `text` of their prompts, where the log
        has prompts that do not tell the groups apart.
    """

    rewards: tuple[str, ...]
    rows: Callable[[], Iterator[pl.DataFrame]]
    outline: Callable[[], Iterator[pl.DataFrame]] | None = None
    keyed: str | None = None  # in words, what tells the groups apart; None: rows stand in blocks
    one_size: bool = False  # whether keyed groups that differ in size have lost rows
    has_advantage: bool = False
    has_length: bool = False
    total_only: bool = False
    traps: tuple[Trap, ...] = ()
    prompts: Callable[[], pl.DataFrame | None] = lambda: None
    skipped: Skipped = field(default_factory=Skipped)
    asked: str | None = None
    weights: Mapping[str, float] | None = None
    weights_by: str | None = None
    left_out: tuple[str, ...] = ()  # columns that are neither used nor known texts
    group_size: int | None = None  # what a configuration beside the log says
