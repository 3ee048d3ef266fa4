"""A run: facts about its log, and its responses as tables that are read on demand, group by group."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from gdpo_audit.logs.clues import Clues
from gdpo_audit.logs.names import reward_columns, with_bare_names
from gdpo_audit.logs.tables import DAMAGED
from gdpo_audit.logs.texts import Texts, no_texts
from gdpo_audit.logs.window import select_steps
from gdpo_core._errors import InputError, expect, reason

IN_MEMORY = 300_000_000  # bytes: the numbers of four million responses with three rewards
PROMPTS = 10_000  # rows whose prompts are examined
SAMPLE = 50_000  # responses from which method and weights are solved; all responses then check the result
_GOLDEN = (5**0.5 - 1) / 2
_LEFT_OUT = pl.col("_open").any().over("group")  # with a total whose parts cannot be told

# The first batch of each stretch of batches, and the rows per group there.
Blocks: TypeAlias = tuple[tuple[int, int], ...]
Extracts: TypeAlias = Mapping[str, Callable[[], Iterator[pl.DataFrame]]]


@dataclass(frozen=True)
class LogIssue:
    """A property of the files that may mislead a reader: the id of the finding that reports it, and its details."""

    id: str
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of a log, whose groups are still to be found.

    read: yields the numbers of the log in frames of whole batches: `_file`, batch and step (Int64), one column per
        reward (Float64, NaN = missing) under the name of `reward_column`, `advantage` (Float64) and `length` (Int64) if
        the log has them, and `_key` (UInt64) if a column identifies the groups of a batch, and `_prompt_key` (UInt64),
        equal where the prompt is, if the log has prompts.
    prompts: batch, step and `_key` of the prompts of some first rows, if the log has prompts and they do not identify
        the groups.
    sizes: rows, step and file of each batch, or of each group that a column identifies.
    advantages: those of the first batches.
    sample: frames of some batches from all over the run, as `read` yields them.
    texts: returns prompts and completions by their `_place`, if the log has any.
    extracts: what else the log holds, if it does: the start of each prompt's `text`; the `length` of each completion in
        characters. Each yields frames of one of these and `_place`.
    clues: reads some first rows with what may tell groups apart.
    """

    read: Callable[[], Iterator[pl.DataFrame]]
    keyed_by: str | None = None  # in words, what identifies a group; None: groups are blocks of rows
    keyed_by_text: bool = False  # by the text of prompts, of which a batch may have drawn one twice
    equal_groups: bool = False  # a keyed group smaller than the others has lost rows
    prompt_column: str | None = None  # of the log, that says which prompt a response is to
    prompts: pl.DataFrame | None = None
    sizes: pl.DataFrame = field(default_factory=pl.DataFrame)
    advantages: tuple[np.ndarray, ...] = ()
    sample: tuple[pl.DataFrame, ...] = ()
    group_size: int | None = None  # from a configuration file beside the log
    texts: Texts = no_texts
    extracts: Extracts = field(default_factory=dict)
    clues: Callable[[], Clues] | None = None

    @property
    def batches(self) -> pl.DataFrame:
        """The batch, rows, step and first file of each batch."""
        of_batch = pl.col("rows").sum(), pl.col("step").first(), pl.col("_file").first()
        return self.sizes.group_by("batch", maintain_order=True).agg(*of_batch)


@dataclass(frozen=True)
class Uncounted:
    """A column among the rewards of a log that does not count, and why; function: it has a place among the weights."""

    name: str
    why: str  # in words: "weight 0", or of which reward it is a copy
    function: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's log: facts about it, and its responses as tables.

    Every table has the columns batch, step and group (Int64), one Float64 column per reward (NaN = missing) under
    the name of `reward_column`, `advantage` (Float64) and `length` (Int64, tokens) if the log holds them, `_by`
    (String) if `by` is named, and `_place` (Int64), which says where in the files a row stands. A batch is the
    responses of one training step, over which GDPO's last step runs. A table holds whole batches, and the rows of a
    batch and of a group stand together. The numbers of batches and of groups are unique over the run.
    """

    path: str  # as the caller gave it
    framework: str  # the id of a framework
    files: tuple[str, ...]  # their names, in reading order
    rewards: tuple[str, ...]
    group_size: int | None = None  # None: groups differ in size
    grouped_by: str = ""  # in words: "blocks of 8 rows", "the column uid"
    grouped_by_column: bool = False  # else by blocks of rows
    total_only: bool = False  # the log holds one total per response, not the rewards it was made of
    has_advantage: bool
    has_length: bool
    issues: tuple[LogIssue, ...] = ()  # found by the reader
    skipped_lines: int = 0
    skipped_files: tuple[str, ...] = ()  # that cannot be read
    left_out: tuple[str, ...] = ()  # columns that are neither used nor texts that such logs are known to hold
    lost: tuple[str, ...] = ()  # of these, those that may have been rewards or advantages, but hold no number
    configured_method: str | None = None  # that a configuration file beside the log asks for
    weights: Mapping[str, float] | None = None  # per reward, if the log or a configuration file beside it holds them
    by: str | None = None  # the column whose values are looked at one by one
    by_default: bool = False  # nobody asked for it
    window: tuple[int, int] | None = None  # the first and the last step, where only some were asked for
    weights_by: str | None = None  # their origin: log, score (a logged total is the weighted sum), config or parts
    uncounted: tuple[Uncounted, ...] = ()  # not in `rewards`
    in_order: tuple[str, ...] = ()  # where there are such: the names of all these columns, as in the log
    rewards_named: bool = False  # by the caller, so that they stand
    has_steps: bool = True  # a column numbers them; else each file is one
    prompt_column: str | None = None  # whose changes may show where a group ends
    length_column: str | None = None  # read as the length, though it may be a reward as well
    total: str | None = None  # the column that the rewards add up to, or nearly
    other_sizes: tuple[int, ...] = ()  # group sizes that the prompts and advantages fit as well
    _rows: Rows | None = field(default=None, repr=False)
    _blocks: Blocks = field(default=(), repr=False)  # where groups are blocks of rows
    _places: int | None = field(default=None, repr=False)  # where rows of a batch that are so far apart are a group
    # The same log read with other options, such as other rewards, where it can be read again.
    _read_with: "Callable[..., Run] | None" = field(default=None, repr=False, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The rewards, and the columns that do not count, in the order of the log."""
        return self.in_order or self.rewards

    @property
    def without_weight(self) -> tuple[str, ...]:
        """The columns that do not count because their weight is 0."""
        return tuple(x.name for x in self.uncounted if x.why == "weight 0")

    @property
    def _source(self) -> Rows:
        """The rows that its reader gave it."""
        assert self._rows is not None, "a run that was sent to another process has none"
        return self._rows

    def tables(self) -> Iterator[pl.DataFrame]:
        """The responses, some ten thousand to a few hundred thousand at a time.

        InputError if there is no row, or no value of any reward.
        """
        responses, values = 0, 0
        for table in self._tables_of(self._source.read()):
            responses += len(table)
            if values == 0:
                values = sum(int(table[name].is_not_nan().sum()) for name in reward_columns(self.rewards))
            yield table
        clear = " of a group whose totals are sums of the pays in one way alone" * (self.weights_by == "parts")
        expect(responses > 0, self.path, f"at least one response{clear}", "0 rows")
        expect(values > 0, self.path, f"a value in {', '.join(self.rewards)}", "every one missing")

    @property
    def sample(self) -> list[pl.DataFrame]:
        """Whole batches from all over the run, with `SAMPLE` responses or one batch; its groups have other numbers."""
        if self.window is not None or not self._source.sample:
            return spread(self.tables(), SAMPLE)
        return list(self._tables_of(iter(self._source.sample)))

    def _tables_of(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The tables that these frames of the log make, without empty ones."""
        columns = ["batch", "step", "group", "_place", *reward_columns(self.rewards)]
        columns += ["advantage"] * self.has_advantage + ["length"] * self.has_length + ["_by"] * (self.by is not None)
        for table in self._numbered(frames):
            table = table if "_open" not in table.columns else table.filter(~_LEFT_OUT)
            if len(table):
                yield table.select(*columns, "^(_prompt_key|_masked)$")

    def _numbered(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The responses of these steps in numbered groups, with those that `tables` leaves out."""
        number = partial(_number_blocks, blocks=self._blocks) if self._blocks else _number_keys
        number = number if self._places is None else partial(_number_places, places=self._places)
        first = 0
        while True:
            with one_error(self.path):
                table = next(frames, None)
                if table is None:
                    return
                table = number(table, first)
            first = table["group"][-1] + 1
            yield select_steps(table, self.window)

    @cached_property
    def undecided(self) -> tuple[int, int]:
        """The groups left out because a total in them is a sum of the pays of `parts` in several ways; their rows."""
        if self.weights_by != "parts":
            return 0, 0
        left = [table.filter(_LEFT_OUT)["group"] for table in self._numbered(self._source.read())]
        return sum(groups.n_unique() for groups in left), sum(map(len, left))

    @property
    def texts(self) -> Texts:
        """What reads the prompts and completions of some responses, by their `_place`."""
        return no_texts if self._rows is None else self._rows.texts

    @property
    def extracts(self) -> Extracts:
        """Return what reads the start of each prompt's text and the length of each completion, if the log has them."""
        return {} if self._rows is None else self._rows.extracts

    @cached_property
    def table(self) -> pl.DataFrame:
        """All responses: step, group, the rewards, advantage if logged, length if known.

        A reward has its own name here, or reward:NAME where that is the name of another of these columns.
        """
        whole = pl.concat(list(self.tables())).drop("batch", "_place", "_prompt_key", strict=False)
        return with_bare_names(whole)


@contextmanager
def one_error(where: str) -> Iterator[None]:
    """Turn an error that reading a damaged file raises, or one behind a URL, into an InputError."""
    try:
        yield
    except DAMAGED as error:
        why = reason(error)[:200]
        raise InputError(f"{where}: expected a log that can be read as a table, got {why}") from None


# --- tables ---


def spread(tables: Iterable[pl.DataFrame], most: int) -> list[pl.DataFrame]:
    """Whole batches from all over a run, with so many responses at most, or a single batch of more.

    >>> [part["batch"].to_list() for part in spread([pl.DataFrame({"batch": [0, 1, 2, 3, 3]})], 3)]
    [[0, 2]]
    """
    share, sample = 1.0, list[pl.DataFrame]()
    for table in tables:
        sample += _some(table, share)
        while sum(map(len, sample)) > most:
            fewer = [part for held in sample for part in _some(held, share / 2)]
            if not fewer or sum(part["batch"].n_unique() for part in sample) == 1:
                break
            share, sample = share / 2, fewer
    return sample


def _some(table: pl.DataFrame, share: float) -> list[pl.DataFrame]:
    """The table with this share of its batches, chosen by their numbers; none where it has none of them."""
    # The golden ratio spreads them evenly, and is in step with nothing that comes every few steps.
    part = table if share == 1 else table.filter(pl.col("batch") * _GOLDEN % 1 < share)
    return [part] * (len(part) > 0)


def read_once(read: Callable[[], Iterator[pl.DataFrame]]) -> Callable[[], Iterator[pl.DataFrame]]:
    """The same frames, which the first pass holds in memory, unless they take more than `IN_MEMORY`."""
    held: list[pl.DataFrame] | None = None
    room = IN_MEMORY

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal held, room
        if held is not None:
            yield from held
            return
        passed: list[pl.DataFrame] = []
        size = 0.0
        for frame in read():
            size += frame.estimated_size()
            passed = [*passed, frame] if size <= room else []
            yield frame
        held, room = (passed, room) if size <= room else (None, 0)

    return frames


def size_at(blocks: Blocks) -> pl.Expr:
    """The rows per group in each batch."""
    size = pl.lit(blocks[0][1])
    for batch, later in blocks[1:]:
        size = pl.when(pl.col("batch") >= batch).then(pl.lit(later)).otherwise(size)
    return size


def _number_blocks(table: pl.DataFrame, first: int, blocks: Blocks) -> pl.DataFrame:
    """Add `group`, from `first` on: blocks of rows from the start of each batch, of which the last may be shorter."""
    block = pl.int_range(pl.len()).over("batch") // size_at(blocks)
    return table.with_columns(pl.struct("batch", block).rle_id().cast(pl.Int64).alias("group") + first)


def _number_places(table: pl.DataFrame, first: int, places: int) -> pl.DataFrame:
    """Add `group`, from `first` on: the rows of a batch that are `places` apart, together."""
    place = pl.int_range(pl.len()).over("batch") % places
    table = table.with_columns(place.alias("_at")).sort("batch", "_at", maintain_order=True)
    return table.with_columns(pl.struct("batch", "_at").rle_id().cast(pl.Int64).alias("group") + first).drop("_at")


def _number_keys(table: pl.DataFrame, first: int) -> pl.DataFrame:
    """Add `group`, from `first` on: the rows of a batch that share `_key`, together, in the order of their first."""
    table = table.with_row_index("group").with_columns(pl.col("group").first().over("batch", "_key"))
    return table.sort("group", maintain_order=True).with_columns(pl.col("group").rle_id().cast(pl.Int64) + first)
