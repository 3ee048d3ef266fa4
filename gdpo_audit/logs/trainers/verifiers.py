"""The reading of verifiers' logs: a line is an episode, and the traces of its trained agents are the responses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import polars as pl

from gdpo_audit.logs.forms.form import Form, numbered, renumbered
from gdpo_audit.logs.forms.options import ReadOptions
from gdpo_audit.logs.forms.standard_rows import place
from gdpo_audit.logs.names import FILE, MADE, ROW
from gdpo_audit.logs.refusals import refuse, refuse_unless
from gdpo_audit.logs.tables.formats import Schema, Table, fields_of, is_number_type
from gdpo_audit.logs.tables.json_values import expect_names
from gdpo_audit.records import LogIssue
from gdpo_core.shared.words import count

# The places in a trace of what every log has, which are names of columns here. No reward or metric may have these
# names.
STEP, GROUP, ADVANTAGE, _LENGTH = "run.work.step", "group.id", "nodes.advantages", "num_output_tokens"
_EVALUATES, _ID, _ENV, _WEIGHT = f"{MADE}evaluates", f"{MADE}id", f"{MADE}env", f"{MADE}weight "
_EPISODE_ID = f"{MADE}episode"
# The paths of names to an id of the group or task of an episode, the surest first.
_IDS = (("group", "id"), ("task", "key"), ("task", "hash"), ("task", "data", "id"), ("task", "data", "idx"))
# The names of the files that prime-rl writes in training.
_PRIME_RL = re.compile(r"(^|/)step_\d+/train/(all|effective)/traces\.jsonl")
_EPISODE = "an episode of verifiers in every row"


def verifiers(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return how to read the episodes that verifiers writes: each trace of an agent that is trained is a response.

    In the log of a training run, the episodes of evaluations are left out. An episode that stands in two files is read
    once. The log tells the names and weights of the rewards. Rewards of weight 0 do not count, unless all have weight
    0. A reward whose weight changes during the run is multiplied by its weight.
    tables: the tables of the log.
    names: all columns with their types.
    options: the caller's options.
    args: the arguments of the run in an args.json beside the log, which are not used.

    Raises InputError if the tables hold no such episodes, or no reward.
    """
    traces = _Traces(names, tables[0].name)
    logged = traces.validated_names()
    seen = traces.seen(tables)
    training = not seen[_EVALUATES].all()
    partly = training and bool(seen[_EVALUATES].any())
    seen = seen.filter(~pl.col(_EVALUATES)) if training else seen
    again = _repeated_episodes(seen, traces.scored)
    seen = seen.filter(~place().is_in(again.implode())) if len(again) else seen
    weights = _logged_weights(seen, _as_logged(seen, traces.scored), traces.where)
    counted = tuple(name for name in weights if any(weights[name])) or tuple(weights)
    changing = [name for name in options.rewards or counted if len(weights.get(name, ())) > 1]
    steps = seen[STEP].count() > 0
    advantages = ADVANTAGE in seen.columns and seen[ADVANTAGE].count() > 0
    return Form(
        tables=tables,
        to_responses=_Responses(traces, again, training, changing),
        several=True,
        step=options.named("step") or (STEP if steps else None),
        advantage=options.named("advantage") or (ADVANTAGE if advantages else None),
        length=options.named("length") or (_LENGTH if (seen[_LENGTH] != 0).any() else None),
        key=options.key or GROUP,
        keyed_by="" if options.key else "the group or task of an episode",
        batch=("step",) if steps else ("_file",),
        sorts=steps,
        equal_groups=True,
        rewards=counted,
        logged=tuple(logged),
        left_out=("the episodes of evaluations",) * partly,
        issues=tuple(LogIssue("files-left-out", {"files": [n]}) for n in [_in_two_files(len(again))] if len(again)),
        method=None if advantages else _method_of(tables),
        weights={name: 1.0 if name in changing else values[0] for name, values in weights.items() if values},
    )


@dataclass(frozen=True)
class _Traces:
    """The traces of a log's episodes: what they hold, and how each trace of a trained agent becomes a row.

    names: the columns of the log with their types.
    where: the name of a file, for errors.
    """

    names: Schema
    where: str

    @cached_property
    def trace(self) -> pl.DataType:
        """The type of a trace; Null if the log has none."""
        return getattr(self.names.get("traces"), "inner", pl.Null())

    @cached_property
    def kinds(self) -> Schema:
        """The members of a trace, with their types."""
        return fields_of(self.trace)

    @property
    def scored(self) -> list[str]:
        """The names of the rewards in a trace."""
        return list(fields_of(self.kinds.get("rewards")))

    @property
    def measured(self) -> list[str]:
        """The names of the metrics in a trace."""
        return list(fields_of(self.kinds.get("metrics")))

    def validated_names(self) -> list[str]:
        """Return the names of the rewards and the metrics, each once.

        Raises InputError where the log holds no episodes with rewards, or where another column needs one of the names.
        """
        rewards, where = self.kinds.get("rewards", pl.Null()), self.where
        fits = bool(self.kinds) and (isinstance(rewards, pl.Struct) or rewards == pl.Null)
        got = f"{rewards if self.kinds else self.trace}"
        refuse_unless(fits, where, f"{_EPISODE}, with traces and their rewards by name", got)
        for name in self.scored:
            kind = fields_of(rewards)[name]
            fits = isinstance(kind, pl.Struct) or kind == pl.Null
            refuse_unless(fits, where, f"{_EPISODE}, with a score in {name!r}", f"{kind}")
        logged = list(dict.fromkeys((*self.scored, *self.measured)))
        wanted = "at least one column of numbers that is a reward"
        refuse_unless(bool(self.scored), where, wanted, ", ".join(logged) or "no columns")
        expect_names(logged, where)
        reserved = next((name for name in logged if name in (STEP, GROUP, ADVANTAGE, _LENGTH)), None)
        if reserved is not None:
            refuse(where, "rewards and metrics of other names", f"one called {reserved!r}")
        return logged

    def value(self, *path: str, numbers: bool = False) -> pl.Expr:
        """Return an expression for a value in an episode or, if the path begins with "traces", in one of its traces.

        The value is null if the log does not have it.
        path: the names that lead to the value, such as "env", "name".
        numbers: whether the value has to be a number.

        Raises InputError if the value has to be a number, and the log has something else there.
        """
        return _field(pl.Struct({**self.names, "traces": self.trace}), path, self.where, numbers)

    def number(self, *path: str) -> pl.Expr:
        """Return an expression for the number at this path of names in a trace; null if the log does not have it.

        Raises InputError if the log has something else than a number there.
        """
        return self.value("traces", *path, numbers=True)

    @cached_property
    def columns(self) -> dict[str, pl.Expr]:
        """The expressions for the columns of a response, by name, without the columns that are about its episode.

        Raises InputError if the log has something else where a number has to be, such as a score.
        """
        agent = self.value("traces", "agent", "name").cast(pl.String).fill_null("agent")
        scores = {name: self.number("rewards", name, "score") for name in self.scored}
        weights = {
            _WEIGHT + name: _weight(self.value("traces", "rewards", name), self.number("rewards", name, "weight"))
            for name in self.scored
        }
        columns = {
            GROUP: pl.concat_str(_ENV, agent, _ID, separator="/"),
            _LENGTH: self.number("num_output_tokens").cast(pl.Float64),
            **{name: self.number("metrics", name) for name in self.measured},
            **scores,
            **weights,
        }
        of_nodes = fields_of(getattr(self.kinds.get("nodes"), "inner", None))
        if isinstance(of_nodes.get("advantages"), pl.List):
            each = pl.element().struct.field("advantages").explode().drop_nulls()
            values = self.value("traces", "nodes").list.eval(each).cast(pl.List(pl.Float64)).list
            columns[ADVANTAGE] = pl.when(values.min() == values.max()).then(values.first()).otherwise(values.mean())
        if "message" in of_nodes and "messages" not in (*self.scored, *self.measured):
            columns["messages"] = self.value("traces", "nodes").list.eval(pl.element().struct.field("message"))
        return columns

    def responses(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per trace of an agent that is trained, with the step and the group of its episode.

        An agent of which the log does not say whether it is trained counts too.
        table: the rows of a table of the log, with their numbers in FILE and ROW.

        Raises InputError if the log has something else where a number has to be, such as a step or a score.
        """
        runs = self.value("run", "work", "type"), self.value("run", "type")
        names = (self.value("env", name).cast(pl.String).fill_null("") for name in ("id", "name"))
        table = table.with_columns(
            self.value("run", "work", "step", numbers=True).alias(STEP),
            pl.any_horizontal(kind.cast(pl.String) == "eval" for kind in runs).alias(_EVALUATES),
            self.value("id").cast(pl.String).alias(_EPISODE_ID),
            pl.coalesce(self.value(*path).cast(pl.String) for path in _IDS).alias(_ID),
            pl.concat_str(names).alias(_ENV),
        )
        table = table.filter(pl.col("traces").list.len().fill_null(0) > 0).explode("traces")
        table = table.filter(self.value("traces", "agent", "trainable").cast(pl.Boolean).fill_null(True))
        return table.select(FILE, ROW, STEP, _ID, _EPISODE_ID, pl.col(_EVALUATES).fill_null(False), **self.columns)

    def seen(self, tables: Sequence[Table]) -> pl.DataFrame:
        """Return all responses of the log without their messages.

        tables: the tables of the log.

        Raises InputError if there are none, and where `responses` does.
        """
        frames = [self.responses(numbered(table, n)).drop("messages", strict=False) for n, table in enumerate(tables)]
        seen = pl.concat(frames, how="vertical_relaxed").collect()
        refuse_unless(len(seen) > 0, self.where, "a trace of an agent that is trained", "none")
        return seen


@dataclass(frozen=True)
class _Responses:
    """The function that turns a table of episodes into the responses of the run.

    traces: how the traces of episodes become rows.
    again: the rows of episodes that come twice, each as the number that `place` gives it; they are left out.
    training: whether evaluations are left out.
    changing: the rewards that are multiplied by their weights, because these change during the run.
    """

    traces: _Traces
    again: pl.Series
    training: bool
    changing: Sequence[str]

    def __call__(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the responses of a table; the rewards in `changing` are multiplied by their weights.

        The responses of episodes in `again` are left out. If `training` is true, the responses of evaluations are left
        out, too. The rest is numbered anew.
        table: the rows of the table, with their numbers in FILE and ROW.
        """
        table = self.traces.responses(table)
        table = table.with_columns(pl.col(name) * pl.col(_WEIGHT + name) for name in self.changing)
        table = table.filter(~place().is_in(self.again.implode())) if len(self.again) else table
        return renumbered(table.filter(~pl.col(_EVALUATES)) if self.training else table)


def _logged_weights(rows: pl.DataFrame, rewards: Sequence[str], where: str) -> dict[str, list[float]]:
    """Return the different weights that each reward has in the log, by its name, in the order in which they come.

    rows: the responses.
    rewards: the columns of the rewards.
    where: the name of a file.

    Raises InputError for a weight that is not finite.
    """
    weights = {name: rows[_WEIGHT + name].drop_nulls().unique(maintain_order=True).to_list() for name in rewards}
    odd = [name for name, values in weights.items() if not all(map(isfinite, values))]
    if odd:
        refuse(where, f"finite numbers in the weights of {', '.join(odd)}", "others")
    return weights


def _repeated_episodes(rows: pl.DataFrame, rewards: Sequence[str]) -> pl.Series:
    """Return the places of the episodes that are left out as copies; an empty series if there are none.

    Two files of prime-rl may hold one episode. The copy with advantages is kept. If no copy or each copy has them, the
    first one is. Copies have the same id, group, step and rewards. If an id comes twice in one file, ids do not tell
    episodes apart, and the series is empty.
    rows: the responses.
    rewards: the columns of the rewards.
    """
    named = rows.filter(pl.col(_EPISODE_ID).is_not_null())
    lines = named.unique([FILE, ROW])
    if rows[FILE].n_unique() < 2 or lines.select(pl.struct(FILE, _EPISODE_ID).is_duplicated().any()).item():
        return pl.Series(dtype=pl.Int64)
    order = pl.col(FILE)
    if ADVANTAGE in rows.columns:
        order = order + pl.col(ADVANTAGE).is_null().cast(pl.Int64) * (rows[FILE].max() + 1)  # type: ignore[operator]
    first = order.min().over(_EPISODE_ID, GROUP, STEP, *rewards)
    return named.filter(order != first).select(place().unique(maintain_order=True)).to_series()


def _in_two_files(episodes: int) -> str:
    """Return words which say that so many episodes stand in a second file and count once."""
    return f"{count(episodes, 'episode')} in a second file, which {'counts' if episodes == 1 else 'count'} once"


def _method_of(tables: Sequence[Table]) -> str | None:
    """Return the method of prime-rl, which only centres, if all files lie where it writes them; otherwise None."""
    return "grpo_no_std" if all(_PRIME_RL.search(table.name) for table in tables) else None


def _field(kind: object, path: Sequence[str], where: str, numbers: bool = False) -> pl.Expr:
    """Return an expression for a value in nested objects; it is null if the type has no such value.

    kind: the type of the outermost object.
    path: the names that lead to the value.
    where: the name of a file.
    numbers: whether the value has to be a number.

    Raises InputError if the value has to be a number and is not.
    """
    value = None
    for name in path:
        if name not in fields_of(kind):
            return pl.lit(None, pl.Float64 if numbers else pl.Null)
        value, kind = pl.col(name) if value is None else value.struct.field(name), fields_of(kind)[name]
    fits = not numbers or is_number_type(kind) or kind == pl.Null
    refuse_unless(fits, where, f"{_EPISODE}, with numbers in {'.'.join(path)}", f"{kind}")
    return pl.lit(None) if value is None else value


def _as_logged(rows: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the names of columns, sorted by the row in which each has its first value.

    Columns whose first values stand in the same row stay in the given order. Columns without any value come last. The
    order has to be found anew because polars merges objects with different members in no fixed order.
    rows: the responses.
    names: the columns to sort.
    """
    first = {name: rows[name].is_not_null().arg_max() if rows[name].count() else len(rows) for name in names}
    return sorted(names, key=lambda name: first[name] or 0)


def _weight(reward: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """Return an expression for the weight of a reward: 1 where no number is logged, null where nothing was scored.

    reward: an expression for the object of the reward.
    weight: an expression for the weight in this object.
    """
    return pl.when(reward.is_not_null()).then(weight.cast(pl.Float64, strict=False).fill_null(1.0))
