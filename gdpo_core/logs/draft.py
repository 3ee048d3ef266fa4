"""The result of one framework's reader: rows in whole batches, whose groups are still to be found."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from gdpo_core.logs.jsonl import Skipped
from gdpo_core.logs.run import Trap


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the caller of `read_run` asked for."""

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

    rows: returns the log as frames of whole batches, read anew by each call. The columns are `_file`, batch and step
        (Int64), one per reward (Float64, NaN = missing), `advantage` (Float64) and `length` (Int64) if logged, and
        `_key` (UInt64) if a column identifies the groups of a batch.
    outline: `rows` without rewards and lengths, if that is faster to read.
    prompts: returns batch, step, `_key` and `text` of the prompts of some first rows, if the log has prompts and they
        do not identify the groups.
    """

    rewards: tuple[str, ...]
    rows: Callable[[], Iterator[pl.DataFrame]]
    outline: Callable[[], Iterator[pl.DataFrame]] | None = None
    keyed: str | None = None  # in words, what identifies a group; None: groups are blocks of rows
    one_size: bool = False  # True: a keyed group smaller than the others has lost rows
    has_advantage: bool = False
    has_length: bool = False
    total_only: bool = False
    traps: tuple[Trap, ...] = ()
    prompts: Callable[[], pl.DataFrame | None] = lambda: None
    skipped: Skipped = field(default_factory=Skipped)
    asked: str | None = None
    weights: Mapping[str, float] | None = None
    weights_by: str | None = None
    left_out: tuple[str, ...] = ()  # columns that are neither used nor known to hold texts
    group_size: int | None = None  # from a configuration file beside the log
