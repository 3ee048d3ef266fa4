"""The rows of a log in whole batches, and the readers of its texts, its lengths and the clues to its groups."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from gdpo_audit.logs.columns.texts import COMPLETIONS, TextReader
from gdpo_audit.logs.forms.form import Form, kinds_of, with_numbers
from gdpo_audit.logs.forms.options import Columns
from gdpo_audit.logs.forms.roles import GROUPS
from gdpo_audit.logs.forms.scans import frames_of
from gdpo_audit.logs.forms.standard_rows import batches, hash_column, is_ordered, place, standard_rows
from gdpo_audit.logs.groups.restarts import in_order
from gdpo_audit.logs.groups.run import PROMPTS_EXAMINED, KeptFrames, Rows
from gdpo_audit.logs.names import EVENT, FILE, MADE_PROMPT, ROW
from gdpo_audit.logs.numbers.clues import key_names
from gdpo_audit.logs.refusals import refuse
from gdpo_audit.logs.tables import formats as tables
from gdpo_audit.logs.tables.formats import is_number_type
from gdpo_audit.records import CLUE_ROWS, FEW_VALUES, Clues, Extracts, Mask

START = 60  # the characters at the start of a prompt that are read, to name it in a report
FEWEST_MARKED = 8  # the fewest rows with one extreme value of a reward that may be no responses of the training


def first_of(names: Sequence[str], columns: Iterable[str]) -> str | None:
    """Return the column whose name comes first in `names`, whatever its case; None if no column is among them.

    names: names in small letters, the first wanted one first.
    columns: the columns that there are.
    """
    by_lower = {name.lower(): name for name in reversed([*columns])}
    return next((by_lower[name] for name in names if name in by_lower), None)


def rows_of(form: Form) -> Rows:
    """Return the readers of a log: of its rows in whole batches, its prompts, texts and lengths, and the clues to its
    groups.

    form: says what the columns of the log hold, and how its tables are read.
    """
    reader = _RowReader(form, ordered=True)
    if form.sorts and not is_ordered(reader.frames(Columns(step=form.step))):
        reader = _RowReader(form, ordered=False)
    elif form.parts and not form.sorts:
        refuse(form.tables[0].name, "steps that tell whether folders are parts of one run", "none")
    told = form.key or form.prompt is None or form.once or form.mask
    return Rows(
        read=KeptFrames(reader.read),
        keyed_by=form.key and (form.keyed_by or f"the column {form.key}"),
        keyed_by_text=form.keyed_by_text,
        equal_groups=form.equal_groups,
        prompt_column=None if form.identity == MADE_PROMPT else form.identity,
        prompts=None if told or form.prompt is None else _prompts(form, form.prompt, reader.by),
        group_size=form.group_size,
        texts=TextReader(form.tables, reader.responses),
        extracts=_extracts(form),
        clues=partial(_clues, form),
    )


@dataclass(frozen=True)
class _RowReader:
    """The reader of a log's rows.

    form: says which column of the log holds what, and how its tables become responses.
    ordered: whether the rows are read in the order of the log. If it is false, they are sorted first: the form asks for
        sorting (`form.sorts`), and steps fall, or one step stands in several files.
    """

    form: Form
    ordered: bool

    @property
    def by(self) -> list[str]:
        """The standard columns that tell batches apart: where one of them changes, a batch ends.

        In a log without steps they have "_file" in place of "step", so that a batch does not go on in another file.
        """
        return ["_file" if name == "step" and self.form.step is None else name for name in self.form.batch]

    @property
    def files(self) -> list[str]:
        """The names of the tables of the log, for errors."""
        return [table.name for table in self.form.tables]

    def responses(self, table: pl.LazyFrame, number: int) -> pl.LazyFrame:
        """Return the responses that a table holds.

        table: all of its rows.
        number: which of the log's tables it is, from 0.
        """
        return self.form.to_responses(with_numbers(table, number))

    def frames(self, wanted: Columns) -> Iterator[pl.DataFrame]:
        """Yield the responses of the log in frames, as `standard_rows` gives them, in the order of the log.

        wanted: the columns of the log to read, by what they hold.
        """
        return (standard_rows(frame, wanted, self.files) for frame in frames_of(self.form, wanted.read))

    def in_batches(self) -> Iterator[pl.DataFrame]:
        """Yield the standard rows in frames of whole batches.

        If the rows have to be sorted (`ordered` is false), the rows of the whole log are first taken into memory. If no
        framework of the log is known (`form.asks`), rows that a restarted run wrote again then make batches of their
        own.
        """
        if self.ordered:
            return batches(self.frames(self.form), self.by)
        rows = pl.concat(self.frames(self.form))
        if self.form.asks or self.form.parts:
            return batches(_slices(in_order(rows, self.files, self.form.parts)), [*self.by, "_pass"])
        return batches(_slices(rows.sort(self.by, maintain_order=True)), self.by)

    def read(self) -> Iterator[pl.DataFrame]:
        """Yield the rows in frames of whole batches, without copies, and with masked rows left out or marked.

        Where the form has a column `once`, rows of a batch with the same value there are copies; only the last stays.
        Where the form has a mask, the rows that it masks are left out. If the mask says that they still count in their
        groups, they stay and are marked in the column `_masked`.
        """
        for rows in self.in_batches():
            if self.form.once is not None:
                rows = rows.unique(["batch", "_once"], keep="last", maintain_order=True).drop("_once")
            yield rows if self.form.mask is None else _unmasked(rows, self.form.mask)


def _unmasked(rows: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    """Return whole batches without the rows that a mask leaves out.

    If masked rows still count in their groups (`mask.counts`), they stay instead. They are then marked in `_masked`,
    and their advantage is NaN.
    """
    masked = pl.col("advantage").is_nan() if mask.value is None else pl.col("advantage") == 0
    masked = masked if mask.column is None else pl.col("_masked")
    if mask.counts:
        advantage = pl.when(masked).then(float("nan")).otherwise(pl.col("advantage"))
        return rows.with_columns(masked.fill_null(False).alias("_masked"), advantage=advantage)
    return rows.filter(~masked).drop("_masked", strict=False)


def _clues(form: Form) -> Clues:
    """Return clues to the groups and the masks of a log: the batch and the advantage of some of its first rows.

    The clues also hold, for the same rows, the columns that may tell groups apart, and the columns of few values, which
    may be masks. Rows without a finite advantage are left out. If no advantages are logged, all are 0.
    form: says which column of the log holds what.
    """
    kinds = kinds_of(form)
    assigned = {form.advantage, form.length, form.step} | {
        name for name in kinds if name.lower() in (*tables.UNREAD, *COMPLETIONS)
    }
    free = {name: kind for name, kind in kinds.items() if name not in assigned and name not in (FILE, ROW, EVENT)}
    keys = key_names([name for name, kind in free.items() if _may_be_a_key(kind)], GROUPS)
    beside = (form.step, form.advantage, FILE, ROW, EVENT)
    flags = [name for name, kind in kinds.items() if is_number_type(kind) and name not in beside]
    texts = [name for name, kind in free.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    wanted, frames = Columns(step=form.step, advantage=form.advantage), list[pl.DataFrame]()
    for frame in frames_of(form, [*dict.fromkeys([*wanted.names, *keys, *flags, *texts])], CLUE_ROWS):
        rows = standard_rows(frame, wanted, [table.name for table in form.tables])
        hashes = [hash_column(frame, name).fill_null(0).alias(f"key {name}") for name in keys]
        numbers = [pl.col(name).cast(pl.Float64, strict=False).alias(f"flag {name}") for name in flags]
        labels = [pl.col(name).cast(pl.String).alias(f"flag {name}") for name in texts]
        frames.append(rows.hstack(frame.select(*hashes, *numbers, *labels)))
        if sum(map(len, frames)) >= CLUE_ROWS:
            break
    rows = pl.concat(frames).head(CLUE_ROWS)
    few = [name for name in (*flags, *texts) if 1 < rows[f"flag {name}"].n_unique() <= FEW_VALUES]
    unjudged = _unjudged(rows, few) if form.advantage else None
    by = [name for name in ("_file", "step") if name in form.batch and (name == "_file" or form.step)] or ["_file"]
    rows = rows.with_columns(pl.struct(by).rank("dense").alias("batch")).sort("batch", maintain_order=True)
    rows = rows.filter(pl.col("advantage").is_finite()) if form.advantage else rows
    rewards = [name for name in form.rewards if name in flags]
    values = [rows[f"flag {name}"].fill_null(float("nan")).to_numpy() for name in rewards]
    advantage = rows["advantage"].to_numpy() if form.advantage else np.zeros(len(rows))
    more = ((name, end_without_advantage(x, advantage)) for name, x in zip(rewards, values, strict=True))
    return Clues(
        rows["batch"].cast(pl.Int64).to_numpy(),
        advantage,
        {name: rows[f"key {name}"].reinterpret(signed=True).to_numpy() for name in keys},
        {name: rows[f"flag {name}"].to_numpy() for name in few}
        | {name: end for name, end in more if name not in few and end is not None},
        np.stack(values, 1) if values and len(rewards) == len(form.rewards) else np.empty((0, 0)),
        unjudged,
    )


def end_without_advantage(values: np.ndarray, advantage: np.ndarray) -> np.ndarray | None:
    """Return the rows in which a reward has its smallest or its largest value, with that value there and NaN elsewhere,
    if their advantages are all 0, as those of responses that a judge could not read; None if there are no such rows.

    There have to be at least `FEWEST_MARKED` such rows: fewer have advantages of 0 by chance.
    """
    for end in (np.nanmin(values), np.nanmax(values)) if np.isfinite(values).any() else ():
        at_end = values == end
        if at_end.sum() >= FEWEST_MARKED and not advantage[at_end].any():
            return np.where(at_end, end, np.nan)
    return None


def _unjudged(rows: pl.DataFrame, few: Sequence[str]) -> Mask | None:
    """Return the mask of the rows without an advantage, as in `Clues.unjudged`.

    rows: some rows of the log, with their advantages and, as `flag NAME`, columns of few values.
    few: the names of these columns.
    """
    without = ~rows["advantage"].is_finite()
    if not without.any() or without.all():
        return None
    for name in few:
        values = rows[f"flag {name}"].filter(without).unique()
        if (
            len(values) == 1
            and values[0] is not None
            and not (rows[f"flag {name}"].filter(~without) == values[0]).any()
        ):
            return Mask(name, values[0], False)
    return Mask(None, None, False)


def _may_be_a_key(kind: pl.DataType) -> bool:
    """Return whether a column of this type can name groups: whole numbers, texts, objects or lists of these."""
    inner = getattr(kind, "inner", kind)
    return inner.is_integer() or inner in (pl.String, pl.Categorical, pl.Enum) or isinstance(inner, pl.Struct)


def _prompts(form: Form, prompt: str, by: Sequence[str]) -> pl.DataFrame:
    """Return the first `PROMPTS_EXAMINED` rows of the log with their file, step and batch, and with the column `_key`.

    This column holds a number that is equal for equal prompts.
    form: says how rows are read.
    prompt: the column of prompts.
    by: columns of the standard rows; where the value of one of them changes, a new batch begins.
    """
    wanted, frames = Columns(step=form.step), list[pl.DataFrame]()
    for frame in frames_of(form, [*wanted.names, prompt], PROMPTS_EXAMINED):
        rows = standard_rows(frame, wanted, [table.name for table in form.tables])
        frames.append(rows.hstack(frame.select(hash_column(frame, prompt).alias("_key"))))
        if sum(map(len, frames)) >= PROMPTS_EXAMINED:
            break
    return pl.concat(frames).head(PROMPTS_EXAMINED).with_columns(pl.struct(by).rle_id().cast(pl.Int64).alias("batch"))


def _slices(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield a table in frames of `tables.ROWS` rows; the last frame may have fewer."""
    return (rows.slice(start, tables.ROWS_AT_ONCE) for start in range(0, len(rows), tables.ROWS_AT_ONCE))


def _extracts(form: Form) -> Extracts:
    """Return the readers of prompts' starts, under the key "text", and of completions' lengths, under the key "length".

    A reader is a function without arguments. It yields tables with a row per response and two columns. One column is
    `_place`, where in the files the response stands. The other is `text` or `length`. `text` has the first characters
    of what names the prompt: its text, its tokens or its id. `length` has the number of characters of the completion.
    Of a chat, only the last message counts. A key is missing if the log has no such column.
    form: says which column of the log holds what.
    """
    completions = first_of(COMPLETIONS, [name for name in kinds_of(form) if name not in form.rewards])
    extracts: dict[str, Callable[[], Iterator[pl.DataFrame]]] = {}
    if form.identity:
        extracts["text"] = partial(_starts, form, form.identity)
    if completions:
        extracts["length"] = partial(_lengths, form, completions)
    return extracts


def _starts(form: Form, prompts: str) -> Iterator[pl.DataFrame]:
    """Yield tables with a row per response and two columns: `_place`, where in the files it stands, and `text`.

    The column `text` holds the first `START` characters of what names the prompt; of a chat, those of its last message.
    form: says how rows are read.
    prompts: the column that names the prompt by its text, its tokens or its id.
    """
    for frame in frames_of(form, [prompts]):
        yield frame.select(place(), _text(frame, prompts).str.slice(0, START).alias("text"))


def _lengths(form: Form, completions: str) -> Iterator[pl.DataFrame]:
    """Yield the number of characters of each completion as `length`, beside the `_place` of its response.

    If a completion is a chat, the characters of its last message are counted.
    form: says how rows are read.
    completions: the column of completions. If the log was read without its long texts, the column holds these numbers.
    """
    table = next((table for table in form.tables if completions in table.schema), None)
    counted = table is not None and tables.is_unread(completions, table.schema[completions], table.kind)
    for frame in frames_of(form, [completions]):
        text = _text(frame, completions)
        length = text.cast(pl.Int64, strict=False) if counted else text.str.len_chars().cast(pl.Int64)
        yield frame.select(place(), length.alias("length"))


def _text(frame: pl.DataFrame, name: str) -> pl.Expr:
    """Return an expression for a column as texts: of a chat its last message's text, of other nested values JSON.

    frame: the table that has the column.
    name: the column.
    """
    kind, text = frame.schema[name], pl.col(name)
    message = kind.inner if isinstance(kind, pl.List) else None
    if isinstance(message, pl.Struct) and message.to_schema().get("content", pl.Null()) == pl.String:
        text = text.list.last().struct.field("content")
    elif kind.is_nested():
        text = pl.struct(name).struct.json_encode()
    return text.cast(pl.String)
