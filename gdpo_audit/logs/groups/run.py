"""A run: facts about its log, and its responses as tables, which are read on demand with their groups numbered."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce

import numpy as np
import polars as pl

from gdpo_audit.logs.forms.window import Window, select_steps
from gdpo_audit.logs.names import reward_columns, with_bare_names
from gdpo_audit.logs.numbers.edits import Edit
from gdpo_audit.logs.refusals import refuse, refuse_unless
from gdpo_audit.logs.tables.formats import DAMAGED
from gdpo_audit.records import Blocks, Clues, Extracts, LogIssue, Texts, Uncounted, no_texts
from gdpo_core.shared.errors import reason

IN_MEMORY = 300_000_000  # the bytes that frames may take in memory, as four million responses with three rewards do
PROMPTS_EXAMINED = 10_000  # the rows whose prompts are examined
SOLVED_RESPONSES = 50_000  # the responses from which method and weights are solved; all responses then check the result
_GOLDEN = (5**0.5 - 1) / 2
_LEFT_OUT = pl.col("_open").any().over("group")  # true in groups with a total whose parts cannot be told


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of a log before its groups are known, and the readers of all else that an audit may want of it.

    read: yields the numbers of the log in frames of whole batches. There are always `_file`, batch and step (Int64),
        and one column per reward (Float64, NaN = missing) under the name of `reward_column`. If the log has them, there
        are `advantage` (Float64) and `length` (Int64). If a column identifies the groups of a batch, `_key` (UInt64)
        does so as a number. If the log has prompts, `_prompt_key` (UInt64) is equal where the prompt is. The columns
        `_place`, `_by` and `_masked` are as in `Run`. In `_open`, true stands where several choices of passes make a
        total (`--parts`).
    prompts: a table of rows from the start of the log with the columns batch, step and `_key`, here a number that is
        equal where the prompt is. It is None if the log has no prompts, or if a column identifies the groups. It is
        also None if some rows are left out as copies or by a mask.
    sizes: a table with a row per batch, or per group if a column identifies groups. It says how many rows the batch or
        group has (`rows`), and its step and file.
    advantages: the logged advantages of the first batches, one array per batch.
    sample: frames of some batches from all over the run, with the columns that `read` yields.
    texts: returns prompts and completions by their `_place`, if the log has any.
    extracts: the functions that read the starts of prompts and the lengths of completions, as in `Run.extracts`.
    clues: returns some first rows with what may tell groups apart.
    """

    read: Callable[[], Iterator[pl.DataFrame]]
    keyed_by: str | None = None  # in words, what identifies a group; None: groups are blocks of rows
    keyed_by_text: bool = False  # whether that is a prompt's text, which a batch may have drawn twice
    equal_groups: bool = False  # whether groups have one size, so that a smaller one has lost rows
    prompt_column: str | None = None  # the column that says which prompt a response answers
    prompts: pl.DataFrame | None = None
    sizes: pl.DataFrame = field(default_factory=pl.DataFrame)
    advantages: tuple[np.ndarray, ...] = ()
    sample: tuple[pl.DataFrame, ...] = ()
    group_size: int | None = None  # the group size in a configuration file beside the log
    texts: Texts = no_texts
    extracts: Extracts = field(default_factory=dict)
    clues: Callable[[], Clues] | None = None

    @property
    def batches(self) -> pl.DataFrame:
        """A table with a row per batch: its number (`batch`), how many responses it has (`rows`) and its step (`step`).

        The column `_file` has the number of the file in which the batch begins.
        """
        of_batch = pl.col("rows").sum(), pl.col("step").first(), pl.col("_file").first()
        return self.sizes.group_by("batch", maintain_order=True).agg(*of_batch)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The log of a run: facts about it, and its responses as tables.

    Every table has the columns batch, step and group (Int64), and `_place` (Int64), which says where in the files a row
    stands. It has one Float64 column per reward (NaN = missing) under the name of `reward_column`. If the log holds
    them, it has `advantage` (Float64) and `length` (Int64, in tokens). If `by` is not None, `_by` (String) holds the
    values of that column. If the log has prompts, `_prompt_key` (UInt64) is equal where the prompt is. If a mask leaves
    out rows that still count in their group, `_masked` (Boolean) marks them.
    A batch is the responses of one training step, over which GDPO's batch step runs. A table holds whole batches, and
    the rows of a batch and of a group stand together. The numbers of batches and of groups are unique over the run.
    """

    path: str  # the path of the log, as the caller gave it
    framework: str  # the id of a framework
    files: tuple[str, ...]  # the names of its files, in reading order
    rewards: tuple[str, ...]
    group_size: int | None = None  # the responses per group; None if groups differ in size
    grouped_by: str = ""  # in words, what tells groups apart: "blocks of 8 rows", "the column uid"
    grouped_by_column: bool = False  # whether a column tells groups apart, and not the place of a row
    as_written: bool = True  # whether its columns are those that the framework writes, with nothing else among them
    total_only: bool = False  # whether the log holds a total per response, not the rewards that it is made of
    has_advantage: bool
    has_length: bool
    issues: tuple[LogIssue, ...] = ()  # what reading the log found that may mislead
    skipped_lines: int = 0  # how many broken lines were left out
    skipped_files: tuple[str, ...] = ()  # the files that cannot be read
    left_out: tuple[str, ...] = ()  # the columns that are not used, without texts that such logs usually hold
    lost: tuple[str, ...] = ()  # those of them that may have been rewards or advantages, but do not hold numbers
    configured_method: str | None = None  # the method in a configuration beside the log, or the trainer's only one
    weights: Mapping[str, float] | None = None  # by reward, if the log or a configuration file beside it tells them
    by: str | None = None  # the column whose values are looked at one by one
    by_default: bool = False  # whether the reader chose `by`, as nobody asked for a column
    window: Window | None = None  # the stretches of steps that are read, where only some were asked for
    weights_by: str | None = None  # their origin: log, config, parts, or a total (score if it is exact, else fitted)
    uncounted: tuple[Uncounted, ...] = ()  # columns that are not in `rewards` because they do not count
    in_order: tuple[str, ...] = ()  # rewards and uncounted columns in the log's order; empty if every one counts
    rewards_named: bool = False  # whether the caller named the rewards, so that no audit changes them
    has_steps: bool = True  # whether a column numbers the steps; else each file is one step
    evaluated: tuple[int, ...] = ()  # the steps at which it was evaluated, where a file beside the log names them
    prompt_column: str | None = None  # the column of prompts, whose changes may show where a group ends
    step_column: str | None = None  # the column that numbers the steps
    length_column: str | None = None  # the column that is read as the length, though it may be a reward as well
    total: str | None = None  # the column that the rewards add up to, or nearly
    other_sizes: tuple[int, ...] = ()  # other group sizes that the prompts or advantages fit as well
    _rows: Rows | None = field(default=None, repr=False)
    _blocks: Blocks = field(default=(), repr=False)  # sizes of the groups, where these are blocks of rows
    _places: int | None = field(default=None, repr=False)  # how many rows apart the rows of a group stand, if they do
    _edits: tuple[Edit, ...] = field(default=(), repr=False)  # changes of each table, where it is read in another way
    # Reads the same log again with other options, such as other rewards; None where it cannot be read again.
    _read_with: "Callable[..., Run] | None" = field(default=None, repr=False, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all reward columns in the order of the log: the rewards, and the columns in `uncounted`."""
        return self.in_order or self.rewards

    @property
    def without_weight(self) -> tuple[str, ...]:
        """The names of the columns in `uncounted` whose weight is 0."""
        return tuple(x.name for x in self.uncounted if x.why == "weight 0")

    @property
    def _source(self) -> Rows:
        """The readers of the log. Raises AssertionError for a run that was sent to another process and has none."""
        assert self._rows is not None, "a run that was sent to another process has none"
        return self._rows

    def tables(self) -> Iterator[pl.DataFrame]:
        """Yield the responses in tables, each of some ten thousand to a few hundred thousand rows in a large log.

        Raises InputError where the log cannot be read. Raises it, too, after the last table, if there was no row, or no
        value of any reward.
        """
        responses, values = 0, 0
        for table in self._tables_of(self._source.read()):
            responses += len(table)
            if values == 0:
                values = sum(int(table[name].is_not_nan().sum()) for name in reward_columns(self.rewards))
            yield table
        clear = " of a group whose totals are sums of the pays in one way alone" * (self.weights_by == "parts")
        refuse_unless(responses > 0, self.path, f"at least one response{clear}", "0 rows")
        refuse_unless(values > 0, self.path, f"a value in {', '.join(self.rewards)}", "every one missing")

    @property
    def sample(self) -> list[pl.DataFrame]:
        """Whole batches from all over the run: at most `SOLVED_RESPONSES` responses, or one or a few batches that have
        more.

        The numbers of their groups may differ from the numbers in the whole run.
        """
        if self.window is not None or not self._source.sample:
            return batches_from_all_over(self.tables(), SOLVED_RESPONSES)
        return list(self._tables_of(iter(self._source.sample)))

    def _tables_of(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the tables of the run that these frames of the log make, and leave out empty ones.

        Groups with a total whose parts cannot be told (`--parts`) are left out, too.
        frames: parts of the log, one after the other, as `Rows.read` yields them.
        """
        columns = ["batch", "step", "group", "_place", *reward_columns(self.rewards)]
        columns += ["advantage"] * self.has_advantage + ["length"] * self.has_length + ["_by"] * (self.by is not None)
        for table in self._numbered(frames):
            table = table if "_open" not in table.columns else table.filter(~_LEFT_OUT)
            if len(table):
                table = table.select(*columns, "^(_prompt_key|_masked)$")
                yield reduce(lambda edited, edit: edit(edited), self._edits, table)

    def _numbered(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the responses of the chosen steps with the numbers of their groups, a table for each of the frames.

        A group whose total could come from different passes of its parts (`--parts`) is not left out here; `tables`
        leaves it out.
        frames: parts of the log, one after the other, as `Rows.read` yields them.
        """
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

    def count_undecided(self) -> tuple[int, int]:
        """Return how many groups, and how many rows in them, are left out because a total has several explanations.

        A total has several if different choices of parts that pass can make it. This occurs only in a log of totals for
        which the caller says what each part pays (`--parts`). The log is then read once to count. For any other log
        both numbers are 0.
        """
        if self.weights_by != "parts":
            return 0, 0
        left = [table.filter(_LEFT_OUT)["group"] for table in self._numbered(self._source.read())]
        return sum(groups.n_unique() for groups in left), sum(map(len, left))

    @property
    def texts(self) -> Texts:
        """The function that reads the prompts and completions of some responses, by their `_place`."""
        return no_texts if self._rows is None else self._rows.texts

    @property
    def extracts(self) -> Extracts:
        """The functions that read the starts of prompts, under "text", and the lengths of completions, under "length".

        Each takes nothing and yields tables with a row per response. A table has `_place`, a number that says where the
        response stands in the files. Its other column is `text`, the start of the prompt, or `length`, in characters.
        The key "text" is missing if the log has no prompts, and "length" if it has no completions. Both keys are
        missing if this run cannot read its files again, as in another process.
        """
        return {} if self._rows is None else self._rows.extracts

    @cached_property
    def table(self) -> pl.DataFrame:
        """All responses in one table: the columns of `tables`, except batch, `_place` and `_prompt_key`.

        A reward has its own name here, or reward:NAME where another of these columns has that name.
        """
        whole = pl.concat(list(self.tables())).drop("batch", "_place", "_prompt_key", strict=False)
        return with_bare_names(whole)


@contextmanager
def one_error(where: str) -> Iterator[None]:
    """Turn polars' error in a `with` block, for a file that is damaged or behind a URL, into an InputError.

    where: the words with which the error begins.
    """
    try:
        yield
    except DAMAGED as error:
        refuse(where, "a log that can be read as a table", reason(error)[:200])


# --- tables ---


def batches_from_all_over(tables: Iterable[pl.DataFrame], most: int) -> list[pl.DataFrame]:
    """Return whole batches spread over a run: all of them if they hold at most `most` responses, else half of them, a
    quarter and so on until they do. More responses come back if one batch is left, or if halving would leave none.

    tables: the tables of the run, each of whole batches.
    most: the most responses that are wanted.

    >>> [batches["batch"].to_list() for batches in batches_from_all_over([pl.DataFrame({"batch": [0, 1, 2, 3, 3]})], 3)]
    [[0, 2]]
    """
    share, sample = 1.0, list[pl.DataFrame]()
    for table in tables:
        sample += _some(table, share)
        while sum(map(len, sample)) > most:
            fewer = [batches for held in sample for batches in _some(held, share / 2)]
            if not fewer or sum(batches["batch"].n_unique() for batches in sample) == 1:
                break
            share, sample = share / 2, fewer
    return sample


def _some(table: pl.DataFrame, share: float) -> list[pl.DataFrame]:
    """Return a list of one table with about this share of a table's batches; an empty list if no batch is in the share.

    table: rows of whole batches.
    share: the share of the batches to take.
    """
    # Multiples of the golden ratio spread evenly, and are in step with nothing that comes every few batches.
    kept = table if share == 1 else table.filter(pl.col("batch") * _GOLDEN % 1 < share)
    return [kept] * (len(kept) > 0)


class KeptFrames:
    """The frames of a log, which are kept in memory after a first full pass if they take at most `IN_MEMORY` bytes."""

    def __init__(self, read: Callable[[], Iterator[pl.DataFrame]]) -> None:
        self._read = read
        self._kept: list[pl.DataFrame] | None = None
        self._room = IN_MEMORY

    def __call__(self) -> Iterator[pl.DataFrame]:
        """Yield the frames of the log, from memory if they are kept there, and else read anew."""
        if self._kept is not None:
            yield from self._kept
            return
        passed: list[pl.DataFrame] = []
        size = 0.0
        for frame in self._read():
            size += frame.estimated_size()
            passed = [*passed, frame] if size <= self._room else []
            yield frame
        self._kept, self._room = (passed, self._room) if size <= self._room else (None, 0)


def size_at(blocks: Blocks) -> pl.Expr:
    """Return an expression for the size of the groups in the batch of each row; the column `batch` has its number.

    blocks: a pair for each stretch of batches with groups of one size, in order: its first batch, and this size.
    """
    size = pl.lit(blocks[0][1])
    for batch, later in blocks[1:]:
        size = pl.when(pl.col("batch") >= batch).then(pl.lit(later)).otherwise(size)
    return size


def _number_blocks(table: pl.DataFrame, first: int, blocks: Blocks) -> pl.DataFrame:
    """Return the table with a column `group`, the numbers of the groups from `first` on.

    The groups of a batch are blocks of its rows, of which the last one may be shorter.
    table: rows of whole batches.
    blocks: the first batch of each stretch of batches, and the group size there.
    """
    block = pl.int_range(pl.len()).over("batch") // size_at(blocks)
    return table.with_columns(pl.struct("batch", block).rle_id().cast(pl.Int64).alias("group") + first)


def _number_places(table: pl.DataFrame, first: int, places: int) -> pl.DataFrame:
    """Return the table with a column `group`, the numbers of the groups from `first` on.

    Rows of a batch that stand `places` apart, or a multiple of it, are a group. The rows are sorted so that the rows of
    a group stand together.
    table: rows of whole batches.
    places: how many rows apart the rows of a group stand.
    """
    place = pl.int_range(pl.len()).over("batch") % places
    table = table.with_columns(place.alias("_at")).sort("batch", "_at", maintain_order=True)
    return table.with_columns(pl.struct("batch", "_at").rle_id().cast(pl.Int64).alias("group") + first).drop("_at")


def _number_keys(table: pl.DataFrame, first: int) -> pl.DataFrame:
    """Return the table with a column `group`, the numbers of the groups from `first` on.

    The rows of a batch that share `_key` are a group. The rows are sorted so that the rows of a group stand together.
    The groups of a batch keep the order of their first rows.
    """
    table = table.with_row_index("group").with_columns(pl.col("group").first().over("batch", "_key"))
    return table.sort("group", maintain_order=True).with_columns(pl.col("group").rle_id().cast(pl.Int64) + first)
