"""The form of verifiers: an episode per line, whose traces of trained agents are the responses."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite

import polars as pl

from gdpo_audit.logs.columns import ReadOptions
from gdpo_audit.logs.form import Form, numbered, renumbered
from gdpo_audit.logs.json_values import expect_names
from gdpo_audit.logs.names import FILE, MADE, ROW
from gdpo_audit.logs.run import LogIssue
from gdpo_audit.logs.standard_rows import place
from gdpo_audit.logs.tables import Schema, Table, fields_of, is_number_type
from gdpo_core._errors import expect
from gdpo_core._words import count

# Where a trace has what every log has. No reward or metric can have these names, or the names of columns made here.
STEP, GROUP, ADVANTAGE, LENGTH = "run.work.step", "group.id", "nodes.advantages", "num_output_tokens"
_EVALUATES, _ID, _ENV, _WEIGHT = f"{MADE}evaluates", f"{MADE}id", f"{MADE}env", f"{MADE}weight "
_EPISODE_ID = f"{MADE}episode"
_IDS = (("group", "id"), ("task", "key"), ("task", "hash"), ("task", "data", "id"), ("task", "data", "idx"))
_PRIME_RL = re.compile(r"(^|/)step_\d+/train/(all|effective)/traces\.jsonl")
_EPISODE = "an episode of verifiers in every row"


def verifiers(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return the form of verifiers' episodes: each trace of an agent that is trained is a response.

    Of a training run the episodes of evaluations are left out. Rewards have names and weights; where its weight changes
    during the run, a reward is what it adds to the total.
    """
    where = tables[0].name
    trace = getattr(names.get("traces"), "inner", pl.Null())
    kinds = fields_of(trace)
    scored, measured = list(fields_of(kinds.get("rewards"))), list(fields_of(kinds.get("metrics")))
    rewards = kinds.get("rewards", pl.Null())
    fits = bool(kinds) and (isinstance(rewards, pl.Struct) or rewards == pl.Null)
    expect(fits, where, f"{_EPISODE}, with traces and their rewards by name", f"{rewards if kinds else trace}")
    for name in scored:
        kind = fields_of(rewards)[name]
        expect(
            isinstance(kind, pl.Struct) or kind == pl.Null, where, f"{_EPISODE}, with a score in {name!r}", f"{kind}"
        )
    logged = list(dict.fromkeys((*scored, *measured)))
    expect(bool(scored), where, "at least one column of numbers that is a reward", ", ".join(logged) or "no columns")
    expect_names(logged, where)
    taken = next((name for name in logged if name in (STEP, GROUP, ADVANTAGE, LENGTH)), None)
    expect(taken is None, where, "rewards and metrics of other names", f"one called {taken!r}")

    def value(*path: str, numbers: bool = False) -> pl.Expr:
        """Return the value at this path of an episode or a trace."""
        return _field(pl.Struct({**names, "traces": trace}), path, where, numbers)

    def number(*path: str) -> pl.Expr:
        """Return the number at this path of a trace."""
        return value("traces", *path, numbers=True)

    columns = {
        GROUP: pl.concat_str(
            _ENV, value("traces", "agent", "name").cast(pl.String).fill_null("agent"), _ID, separator="/"
        ),
        LENGTH: number("num_output_tokens").cast(pl.Float64),
        **{name: number("metrics", name) for name in measured},
        **{name: number("rewards", name, "score") for name in scored},
        **{_WEIGHT + n: _weight(value("traces", "rewards", n), number("rewards", n, "weight")) for n in scored},
    }
    of_nodes = fields_of(getattr(kinds.get("nodes"), "inner", None))
    if isinstance(of_nodes.get("advantages"), pl.List):
        each = pl.element().struct.field("advantages").explode().drop_nulls()
        values = value("traces", "nodes").list.eval(each).cast(pl.List(pl.Float64)).list
        columns[ADVANTAGE] = pl.when(values.min() == values.max()).then(values.first()).otherwise(values.mean())
    if "message" in of_nodes and "messages" not in logged:
        columns["messages"] = value("traces", "nodes").list.eval(pl.element().struct.field("message"))

    runs = value("run", "work", "type"), value("run", "type")

    def responses(table: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per trace of a trained agent."""
        table = table.with_columns(
            value("run", "work", "step", numbers=True).alias(STEP),
            pl.any_horizontal(kind.cast(pl.String) == "eval" for kind in runs).alias(_EVALUATES),
            value("id").cast(pl.String).alias(_EPISODE_ID),
            pl.coalesce(value(*path).cast(pl.String) for path in _IDS).alias(_ID),
            pl.concat_str(value("env", name).cast(pl.String).fill_null("") for name in ("id", "name")).alias(_ENV),
        )
        table = table.filter(pl.col("traces").list.len().fill_null(0) > 0).explode("traces")
        table = table.filter(value("traces", "agent", "trainable").cast(pl.Boolean).fill_null(True))
        return table.select(FILE, ROW, STEP, _ID, _EPISODE_ID, pl.col(_EVALUATES).fill_null(False), **columns)

    parts = [responses(numbered(table, n)).drop("messages", strict=False) for n, table in enumerate(tables)]
    seen = pl.concat(parts, how="vertical_relaxed").collect()
    expect(len(seen) > 0, where, "a trace of an agent that is trained", "none")
    training = not seen[_EVALUATES].all()
    partly = training and bool(seen[_EVALUATES].any())
    seen = seen.filter(~pl.col(_EVALUATES)) if training else seen
    again = _repeated_episodes(seen, scored)
    seen = seen.filter(~place().is_in(again.implode())) if len(again) else seen
    scored = _as_logged(seen, scored)
    steps, advantages = seen[STEP].count() > 0, ADVANTAGE in columns and seen[ADVANTAGE].count() > 0
    weights = {name: seen[_WEIGHT + name].drop_nulls().unique(maintain_order=True).to_list() for name in scored}
    odd = [name for name, values in weights.items() if not all(map(isfinite, values))]
    expect(not odd, where, f"finite numbers in the weights of {', '.join(odd)}", "others")
    counted = tuple(name for name in scored if any(weights[name])) or tuple(scored)
    changing = [name for name in options.rewards or counted if len(weights.get(name, ())) > 1]

    def to_responses(table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the responses of the run, without evaluations and episodes that come twice."""
        table = responses(table).with_columns(pl.col(name) * pl.col(_WEIGHT + name) for name in changing)
        table = table.filter(~place().is_in(again.implode())) if len(again) else table
        return renumbered(table.filter(~pl.col(_EVALUATES)) if training else table)

    return Form(
        tables=tables,
        to_responses=to_responses,
        several=True,
        step=options.named("step") or (STEP if steps else None),
        advantage=options.named("advantage") or (ADVANTAGE if advantages else None),
        length=options.named("length") or (LENGTH if (seen[LENGTH] != 0).any() else None),
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


def _repeated_episodes(rows: pl.DataFrame, rewards: Sequence[str]) -> pl.Series:
    """Return the places of episodes that another file holds too, as prime-rl writes them.

    The episode with advantages, or else the first one, is read. An id that comes again in one file tells no episode.
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
    """Return, in words, that so many episodes stand in a second file."""
    return f"{count(episodes, 'episode')} in a second file, which {'counts' if episodes == 1 else 'count'} once"


def _method_of(tables: Sequence[Table]) -> str | None:
    """Return the method of the trainer that lays its logs out like this: prime-rl's, which only centres; else None."""
    return "grpo_no_std" if all(_PRIME_RL.search(table.name) for table in tables) else None


def _field(kind: object, path: Sequence[str], where: str, numbers: bool = False) -> pl.Expr:
    """Return a value in nested objects; null where the log has none. Raises InputError for one that is no number."""
    value = None
    for name in path:
        if name not in fields_of(kind):
            return pl.lit(None, pl.Float64 if numbers else pl.Null)
        value, kind = pl.col(name) if value is None else value.struct.field(name), fields_of(kind)[name]
    fits = not numbers or is_number_type(kind) or kind == pl.Null
    expect(fits, where, f"{_EPISODE}, with numbers in {'.'.join(path)}", f"{kind}")
    return pl.lit(None) if value is None else value


def _as_logged(rows: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the names of columns in the order in which rows hold their first values.

    polars merges objects in any order.
    """
    first = {name: rows[name].is_not_null().arg_max() if rows[name].count() else len(rows) for name in names}
    return sorted(names, key=lambda name: first[name] or 0)


def _weight(reward: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """Return the weight of a reward that was scored, which is 1 where the log does not say it."""
    return pl.when(reward.is_not_null()).then(weight.cast(pl.Float64, strict=False).fill_null(1.0))
