"""The transformations of the metamorphic test: those that must change no figure of a report, and those that a report
has to tell.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl

from tests.metamorphic_logs import PART, SIZE, Log, total_of

FLAT = ("trl", "verl", "table")  # trainers whose files are tables with a row per response
ADVANTAGES = ("trl", "ms_swift", "nemo_rl", "verifiers", "table")
LISTED = ("trl", "verl", "ms_swift", "table")  # those whose log may name its columns as it likes


@dataclass(frozen=True)
class Change:
    """A transformation of a log.

    make: returns the transformed log, given the log and a generator of random numbers.
    stage: where it stands among transformations that are made together.
    slot: what only one transformation can change; "" for one that can stand beside any.
    trainers: those to whose logs it can be done.
    told: whether the report has to tell it; otherwise it must change no figure.
    tells: a pattern of ids or words, one of which a report holds that tells the transformation.
    rounds: how far figures may be off.
    """

    make: Callable[[Log, np.random.Generator], Log]
    stage: int
    slot: str
    trainers: tuple[str, ...]
    told: bool
    tells: str
    rounds: float


CHANGES: dict[str, Change] = {}


def change(stage: int, trainers=(*ADVANTAGES, "verl"), *, slot="", told=False, tells="", rounds=1e-6):
    """Return a decorator that lists a function as a transformation under its name."""

    def listed(make):
        name = make.__name__.strip("_").replace("_", " ")
        CHANGES[name] = Change(make, stage, slot, tuple(trainers), told, tells, rounds)
        return make

    return listed


# --- what must be told: the rows and their advantages ----------------------------------------------------------------

LACKS = r"groups-sampled|rows-missing|ragged-batches|\black|lost rows|not all (in the log|logged)|not in the log"


def groups_of(log: Log) -> pl.Expr:
    """Return the number of the group of each row, as an expression."""
    return pl.struct(PART, log.names["step"], log.names["group"]).rank("dense").cast(pl.Int64)


@change(1, told=True, tells=LACKS)
def rows_dropped(log: Log, draw) -> Log:
    """Leave out 15 % of the rows at random."""
    return log.with_frame(log.frame.filter(pl.Series(draw.random(len(log.frame)) > 0.15)))


@change(1, ADVANTAGES, slot="rows", told=True, tells=LACKS)
def best_and_worst_kept(log: Log, draw) -> Log:
    """Keep the row with the largest and the row with the smallest advantage of each group."""
    place = pl.int_range(pl.len())
    a, keys = pl.col(log.advantage), [log.names["step"], log.names["group"]]
    kept = log.frame.filter(((place == a.arg_max()) | (place == a.arg_min())).over(keys))
    return log.with_frame(kept)


@change(2, ADVANTAGES, told=True, tells=r"clip")
def advantages_clipped(log: Log, draw) -> Log:
    """Clip the advantages where about a fifth of the largest are."""
    bound = round(float(log.frame[log.advantage].abs().quantile(0.85)), 1)
    return log.with_frame(log.frame.with_columns(pl.col(log.advantage).clip(-bound, bound)))


@change(3, ADVANTAGES, told=True, tells=r"\bmask")
def rows_masked(log: Log, draw) -> Log:
    """Set the advantages of 15 % of the rows to 0, without a word why."""
    masked = pl.Series(draw.random(len(log.frame)) < 0.15)
    return log.with_frame(
        log.frame.with_columns(pl.when(~masked).then(log.advantage).otherwise(0.0).alias(log.advantage))
    )


@change(3, ADVANTAGES, told=True, tells=r"\bmask")
def long_rows_masked(log: Log, draw) -> Log:
    """Set the advantages of 15 % of the rows to 0, which a column of booleans marks."""
    masked = pl.Series(draw.random(len(log.frame)) < 0.15)
    zero = pl.when(~masked).then(log.advantage).otherwise(0.0).alias(log.advantage)
    return log.with_frame(log.frame.with_columns(zero, too_long=masked))


@change(4, ADVANTAGES, told=True, tells=r"2 decimals|round", rounds=5e-3)
def advantages_rounded(log: Log, draw) -> Log:
    """Round the advantages to 2 decimals."""
    return log.with_frame(log.frame.with_columns(pl.col(log.advantage).round(2)))


@change(5, ADVANTAGES, told=True, tells=r"groups-mix-prompts|prompts-merged|were grouped by")
def prompts_mixed(log: Log, draw) -> Log:
    """Move the prompts by three rows in each step, so that a group has answers to two."""
    earlier = pl.col(log.names["group"]).gather((pl.int_range(pl.len()) - 3) % pl.len())
    return log.with_frame(log.frame.with_columns(earlier.over(log.names["step"])))


# --- what must change no figure: more rows ---------------------------------------------------------------------------

EVALUATION = r"evaluat|eval-overwrote|validation|no advantage|without an advantage|left out"


def evaluated(log: Log, draw, size: int, **marks: tuple) -> pl.DataFrame:
    """Return the rows of a log with an evaluation after every second step. size: the answers to a prompt; marks: by
    column, the values of training and of evaluation.
    """

    def mark(rows: pl.DataFrame, n: int) -> pl.DataFrame:
        return rows.with_columns(**{column: pl.lit(values[n]) for column, values in marks.items()})

    frames, step, group = [], log.names["step"], log.names["group"]
    for (part, number), rows in log.frame.group_by([PART, step], maintain_order=True):
        frames.append(mark(rows, 0))
        if number % 2 == 0 and not part:
            some = rows.sample(4 * size, seed=int(draw.integers(1 << 30)), with_replacement=True)
            keys = pl.Series(np.arange(4).repeat(size))
            text = rows[group].dtype == pl.String
            key = "evaluation " + keys.cast(pl.String) + "?" if text else keys.cast(rows[group].dtype) + 5000
            some = some.with_columns(key.alias(group))
            if log.advantage:
                some = some.with_columns(pl.lit(None, rows[log.advantage].dtype).alias(log.advantage))
            frames.append(mark(some, 1))
    return pl.concat(frames)


@change(6, ("trl", "ms_swift", "table"), slot="more", tells=EVALUATION)
def evaluation_added(log: Log, draw) -> Log:
    """Add rows of an evaluation without an advantage, in groups as large as those of training."""
    return log.with_frame(evaluated(log, draw, SIZE))


@change(6, ("trl", "ms_swift", "table"), slot="more", tells=EVALUATION)
def single_answers_added(log: Log, draw) -> Log:
    """Add rows of an evaluation without an advantage, with one answer to a prompt."""
    return log.with_frame(evaluated(log, draw, 1))


@change(6, ("trl", "verl", "ms_swift", "table"), slot="more", tells=EVALUATION)
def split_added(log: Log, draw) -> Log:
    """Add rows of an evaluation with 3 answers to a prompt, which the column split tells apart."""
    return log.with_frame(evaluated(log, draw, 3, split=("train", "val")))


@change(6, ("verifiers",), slot="more", tells=EVALUATION)
def evaluation_episodes_added(log: Log, draw) -> Log:
    """Add episodes of an evaluation as verifiers marks them."""
    return log.with_frame(evaluated(log, draw, 3, work=("train", "eval")))


@change(6, slot="more", tells=r"repeat|twice|again|restart|resumed|steps-repeated|files-left-out")
def restart_repeated(log: Log, draw) -> Log:
    """Let the run stop after step 4 and go on from step 3, whose rows and those of step 4 it writes again."""
    step = pl.col(log.names["step"])
    again = log.frame.filter(step >= 3).with_columns(pl.lit(1, pl.Int64).alias(PART))
    return log.with_frame(pl.concat([log.frame.filter(step <= 4), again]))


# --- what must change no figure: more columns ------------------------------------------------------------------------

NO_REWARD = r"no-reward|not read as rewards?|does not count|do not count"


def constant(column: str, value, title: str) -> Callable[[Log, np.random.Generator], Log]:
    """Return a transformation that adds a column with one value. title: its name among the transformations."""

    def make(log: Log, draw) -> Log:
        return log.with_frame(log.frame.with_columns(pl.lit(value).alias(column)))

    make.__name__ = title
    return make


for _name, *_added in (
    ("whole number", "lora_rank", 16),
    ("fraction", "threshold", 0.35),
    ("text", "schema", "v2"),
    ("foreign number", "格式版本", 3),
):
    change(7, tells=NO_REWARD)(constant(*_added, f"constant {_name}"))


@change(7, tells=NO_REWARD)
def clock(log: Log, draw) -> Log:
    """Add the seconds since the start, in a column with a foreign name."""
    seconds = np.sort(draw.random(len(log.frame)) * 3600).round(3)
    return log.with_frame(log.frame.with_columns(uhr=pl.Series(seconds)))


@change(7, tells=NO_REWARD)
def timestamp(log: Log, draw) -> Log:
    """Add the time in milliseconds."""
    at = 1_764_300_000_000 + np.sort(draw.integers(0, 3_600_000, len(log.frame)))
    return log.with_frame(log.frame.with_columns(logged_at=pl.Series(at)))


@change(7, ("trl", "ms_swift", "table"), tells=r"total-of-parts|score-not-a-sum")
def total(log: Log, draw) -> Log:
    """Add the weighted total of the rewards."""
    return replace(log, frame=log.frame.with_columns(reward=total_of(log)), names={**log.names, "total": "reward"})


COPY = r"say the same|rewards-collinear|copy|follows from"


@change(7, slot="copy", tells=COPY)
def copy(log: Log, draw) -> Log:
    """Add a copy of the first reward under another name."""
    first = next(iter(log.rewards.values()))
    return log.with_frame(log.frame.with_columns(pl.col(first).alias("exact")))


@change(7, slot="copy", tells=COPY)
def copy_in_percent(log: Log, draw) -> Log:
    """Add a hundred times the first reward under another name."""
    first = next(iter(log.rewards.values()))
    return log.with_frame(log.frame.with_columns((100 * pl.col(first)).alias("exact_pct")))


# --- what must change no figure: another order, other names, another form ---------------------------------------------


@change(8, slot="order", tells="shuffled")
def rows_shuffled(log: Log, draw) -> Log:
    """Put the rows into a random order."""
    return log.with_frame(log.frame[draw.permutation(len(log.frame))])


FOREIGN = {
    "step": "ronda",
    "group": "pregunta",
    "advantage": "ventaja",
    "total": "puntos",
    "completion": "respuesta",
    "correct": "acierto",
    "style": "estilo",
    "brevity": "brevedad",
}


def renamed(log: Log, names: Mapping[str, str]) -> Log:
    """Return a log with other names of columns. names: old and new names."""
    roles = {role: names.get(name, name) for role, name in log.names.items()}
    rewards = {name: names.get(now, now) for name, now in log.rewards.items()}
    return replace(log, frame=log.frame.rename(names, strict=False), names=roles, rewards=rewards)


@change(9, (*LISTED, "verifiers"), slot="names", tells="")
def rewards_renamed(log: Log, draw) -> Log:
    """Give the rewards names in Spanish."""
    return renamed(log, {now: FOREIGN[name] for name, now in log.rewards.items()})


@change(9, LISTED, slot="names", tells=r"taken for the number of the step|were grouped by")
def all_renamed(log: Log, draw) -> Log:
    """Give all columns names in Spanish."""
    names = {now: FOREIGN[role] for role, now in log.names.items()}
    names |= {now: FOREIGN[name] for name, now in log.rewards.items()}
    return renamed(log, names | {"completion": FOREIGN["completion"], "output": FOREIGN["completion"]})


@change(10, LISTED, slot="nest")
def object_of_rewards(log: Log, draw) -> Log:
    """Put the rewards into an object."""
    names = [*log.rewards.values()]
    return log.with_frame(log.frame.with_columns(rewards=pl.struct(names)).drop(names))


@change(10, LISTED, slot="nest")
def list_of_rewards(log: Log, draw) -> Log:
    """Put the rewards into a list, which has no names."""
    names = [*log.rewards.values()]
    frame = log.frame.with_columns(rewards=pl.concat_list(names)).drop(names)
    return replace(log, frame=frame, positional=True)


@change(10, LISTED, slot="nest")
def json_of_rewards(log: Log, draw) -> Log:
    """Put the rewards into an object, as JSON in a text."""
    names = [*log.rewards.values()]
    return log.with_frame(log.frame.with_columns(rewards=pl.struct(names).struct.json_encode()).drop(names))


def of_ranks(log: Log, rank: pl.Expr) -> Log:
    """Return a log that two ranks write, each to files of its own. rank: 0 or 1 for each row."""
    write = log.write

    def written(log: Log) -> dict[str, bytes]:
        parts = [log.with_frame(log.frame.filter(rank == n)) for n in (0, 1)]
        return {f"rank{n}_{name}": content for n, part in enumerate(parts) for name, content in write(part).items()}

    return replace(log, write=written)


@change(11, FLAT, slot="files", tells="steps-repeated")
def ranks(log: Log, draw) -> Log:
    """Let two ranks write the log, each whole groups."""
    return of_ranks(log, groups_of(log) % 2)


@change(11, FLAT, slot="files", tells="steps-repeated")
def groups_over_ranks(log: Log, draw) -> Log:
    """Let two ranks write the log, each half of every group."""
    return of_ranks(log, pl.int_range(pl.len()) % 2)


def as_csv(frame: pl.DataFrame, **options) -> str:
    """Return a table as CSV, with objects and lists as JSON. options: those of polars."""
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    texts = [
        pl.struct(pl.col(name).alias("v")).struct.json_encode().str.slice(5).str.head(-1).alias(name) for name in nested
    ]
    return frame.with_columns(texts).write_csv(**options)


@change(11, FLAT, slot="files")
def decimal_comma(log: Log, draw) -> Log:
    """Write the log as a spreadsheet of Europe does: semicolons, and commas in numbers."""

    def written(log: Log) -> dict[str, bytes]:
        return {"rollouts.csv": as_csv(log.shown, separator=";", decimal_comma=True).encode()}

    return replace(log, write=written)


@change(11, FLAT, slot="files")
def header_again(log: Log, draw) -> Log:
    """Write the log as CSV, whose header stands again in the middle."""

    def written(log: Log) -> dict[str, bytes]:
        half = len(log.frame) // 2
        return {"rollouts.csv": (as_csv(log.shown.head(half)) + as_csv(log.shown.tail(-half))).encode()}

    return replace(log, write=written)


@change(11, FLAT, slot="files")
def wide(log: Log, draw) -> Log:
    """Write a row per group, with a column per response and value."""

    def written(log: Log) -> dict[str, bytes]:
        keys = [log.names["step"], log.names["group"]]
        shown = log.frame.drop(PART)
        flat = [name for name, kind in shown.schema.items() if not kind.is_nested() and name not in keys]
        several = log.frame.group_by(PART, *keys).agg(pl.col(flat).n_unique() > 1)
        each = [name for name in shown.columns if name not in keys and (name not in flat or several[name].any())]
        rows = []
        for _, group in log.frame.group_by([PART, *keys], maintain_order=True):
            first = group.drop(PART, *each).row(0, named=True)
            rows.append(first | {f"{name}_{i}": v for name in each for i, v in enumerate(group[name].to_list())})
        names = dict.fromkeys(chain.from_iterable(rows))
        content = io.BytesIO()
        pl.DataFrame(rows, schema=[*names], infer_schema_length=None).write_parquet(content)
        return {"rollouts.parquet": content.getvalue()}

    return replace(log, write=written)
