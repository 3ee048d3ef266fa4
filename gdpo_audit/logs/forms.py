"""What each framework writes, as one row per response: nearly all that is known of the forms of logs.

A form is a function from the tables of a log to a `Form`, which names the columns whose names a framework fixes.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

import polars as pl

from gdpo_audit.logs.columns import Columns, ReadOptions, expect_columns, first_values, place
from gdpo_audit.logs.files import LogFile
from gdpo_audit.logs.json_values import expect_names
from gdpo_audit.logs.names import EVENT, FILE, MADE, MADE_PROMPT, MADE_STEP, ROW, reward_options
from gdpo_audit.logs.objects import is_called_reward, is_numbers
from gdpo_audit.logs.roles import ADVANTAGES
from gdpo_audit.logs.run import LogIssue
from gdpo_audit.logs.tables import Table, is_number_type, one_of_each
from gdpo_core._errors import InputError, expect
from gdpo_core._words import count, listing
from gdpo_core.frameworks import FRAMEWORKS, READABLE

STEPS = ("step", "global_step", "gen_step", "training_step", "iteration", "iter")
GROUPS = (
    *("group", "group_id", "uid", "prompt_id", "group_index", "group_idx", "prompt_idx", "prompt_index"),
    *("_ng_task_index",),  # of NeMo-Gym
    *("prompt", "input", "question"),
)
LENGTHS = (
    *("length", "completion_length", "response_length", "num_tokens", "tokens"),
    *("completion_tokens", "response_tokens"),
)
# Numbers that are logged beside the rewards: in tables of own code, and by each trainer.
NOT_REWARDS = {
    *("epoch", "index", "idx", "id", "row", "seed", "rank", "timestamp", "time", "sample_id", "request_id", "rollout"),
    *("rollout_id", "completion_id", "response_id", "sample", "batch", "unnamed: 0", "", "task_id", "worker"),
    *("sample_idx", "traj_idx", "sample_index", "_ng_rollout_index", "seqlen", "head_version", "tail_version"),
    *("answer", "target", "label", "labels", "ground_truth", "gts", "gold", "solution", "reference", "expected"),
}
# Where a row stands, as any program may log it; a caller may name such a column as a reward all the same.
PLACES = {"batch", "step", "group", "_file", "_row", "_event", "_key", "_by", "_pass", "_place", "_open", "_prompt_key"}
NOT_TRLS = {"step", "advantage", "advantages", "epoch", "global_step", "index", "idx", "id", "seed"}
NOT_VERLS = {"input", "output", "gts", "score", "step", "request_id", "uid", "index", "num_turns", "__num_turns__"}
NOT_SWIFTS = {"step", "gen_step", "prompt", "completion", "solution", "advantages", "advantage", "entropy", "num_turns"}
TOKENS = {"content", "token_loss_mask", "sample_loss_mask", "generation_logprobs", "prev_logprobs", "input_lengths"}
NOT_NEMOS = TOKENS | {"prompt_ids", "token_ids", "step", "idx", "reference_logprobs", "reference_policy_logprobs"}
SWIFTS_METHODS = {"gdpo": "gdpo", "group": "grpo", "none": "grpo_no_std", "batch": "grpo_batch_std"}
WANDB_ROWS = 10_000  # wandb.Table.MAX_ROWS; an artifact takes more

Schema: TypeAlias = Mapping[str, pl.DataType]


def _as_it_is(table: pl.LazyFrame) -> pl.LazyFrame:
    return table


@dataclass(frozen=True, kw_only=True)
class Form(Columns):
    """What a framework's log holds: how a table becomes one row per response, and which column holds what.

    rewards: those that the log names, until they are chosen.
    """

    tables: Sequence[Table]
    of: Callable[[pl.LazyFrame], pl.LazyFrame] = _as_it_is
    several: bool = False  # a row of a table may hold several responses
    keyed_by: str = ""  # in words
    keyed_by_text: bool = False  # by a prompt's text, though the caller did not name it
    prompt: str | None = None  # whose changes show where a group ends
    batch: tuple[str, ...] = ("_file", "step")  # a batch ends where one of these columns of the run changes
    sorts: bool = False  # the rows of a batch may stand apart
    equal_groups: bool = False  # a keyed group smaller than the others has lost rows
    not_rewards: frozenset[str] = frozenset()  # columns that such logs hold beside the rewards, in small letters
    asks: bool = False  # which columns are rewards: no framework says it
    examines: bool = False  # columns of text for numbers, which may be rewards
    total: str | None = None  # a total that is the only reward where no other is logged
    score: str | None = None  # a total that is logged beside the rewards
    logged: tuple[str, ...] | None = None  # all columns, where the log's own names are others
    left_out: tuple[str, ...] = ()  # others, in words
    weights: Mapping[str, float] | None = None  # that the log holds
    group_size: int | None = None  # from the configuration
    settings: Mapping = field(default_factory=dict)  # of the run
    method: str | None = None  # that the trainer has, where the log says none
    issues: tuple[LogIssue, ...] = ()

    def responses(self, number: int, start: int = 0, rows: int | None = None) -> pl.LazyFrame:
        """The responses in a table, or in some of its rows."""
        return self.of(numbered(self.tables[number], number, start, rows))


# --- the forms -------------------------------------------------------------------------------------------------------


def _trl(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    step = options.named("step") or "step"
    fits = step in names and bool({"advantage", "completion", "prompt"} & {*names})
    expect(fits, tables[0].name, f"TRL's columns {step}, prompt, completion, rewards, advantage", ", ".join(names))
    tables, evaluations = _of_training(tables, step)
    others = _others(names, options)
    cut = sum(table.height == WANDB_ROWS for table in tables if table.kind == "wandb")
    details = {"tables": cut, "of": len(tables), "threshold": WANDB_ROWS}
    return Form(
        tables=tables,
        step=step,
        advantage=_advantage(names, options),
        length=options.named("length") or next((n for n in LENGTHS if n in others and others[n].is_integer()), None),
        key=options.key,
        prompt="prompt" if "prompt" in others else None,
        sorts=options.key is not None,
        not_rewards=frozenset(NOT_TRLS),
        examines=True,
        issues=(*evaluations, *[LogIssue("groups-sampled", details)] * (cut > 0)),
    )


def _of_training(tables: Sequence[Table], step: str) -> tuple[list[Table], list[LogIssue]]:
    """The tables of a tracker without those of evaluations, and an issue that says so.

    TRL logs an evaluation under the step of the batch before: its responses, after some of that batch where there is
    room. So a table that directly follows another of its step is an evaluation's if it holds other prompts.
    """
    kept, steps = list[Table](), list[int]()
    first: pl.DataFrame | None = None  # the first table of the step
    before: pl.DataFrame | None = None  # the evaluation's, if it was the last
    for table in tables:
        rows = _one_step(table, step) if table.kind in ("wandb", "trackio", "table") else None
        if rows is None or first is None or rows[step][0] != first[step][0]:
            first, before = rows, None
        elif "prompt" in rows.columns and not rows["prompt"].is_in(first["prompt"].implode()).all():
            if before is None or not rows.equals(before):  # at the end of training the last table is logged again
                steps.append(int(float(rows[step][0])))
            before = rows
            continue
        kept.append(table)
    return kept, [LogIssue("eval-logged", {"eval_steps": steps})] if steps else []


def _one_step(table: Table, step: str) -> pl.DataFrame | None:
    """The table of one step of a tracker; None if it holds several."""
    rows = table.frame.collect()
    whole = step in rows.columns and len(rows) > 0 and rows[step].n_unique() == 1 and rows[step].null_count() == 0
    if not whole or not rows[step].cast(pl.Float64, strict=False).is_finite().all():
        return None
    nested = [name for name, kind in rows.schema.items() if kind.is_nested()]
    return rows.with_columns(pl.col(name).hash() for name in nested)


def _verl(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """A line per response; uid is prompt_rollout_output."""
    fits = {"input", "output", "score"} <= {*names}
    expect(fits, tables[0].name, "verl's columns input, output, score", ", ".join(names))
    key = options.key or ("uid" if "uid" in names else "input")
    prompt = pl.col("uid").cast(pl.String).str.replace("(_[^_]*){1,2}$", "").alias("uid")
    return Form(
        tables=tables,
        of=(lambda table: table.with_columns(prompt)) if key == "uid" else _as_it_is,
        step=options.named("step") or ("step" if "step" in names else None),
        advantage=_advantage(names, options),
        length=options.named("length"),
        key=key,
        keyed_by="the column uid, without its last two parts" if key == "uid" else "",
        equal_groups=True,
        total="score",
        score="score" if is_number_type(names["score"]) else None,
        not_rewards=frozenset(NOT_VERLS),
    )


def _ms_swift(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """An event per line, with lists as columns; a trainer on Ray writes one response per line, without lists."""
    step = options.named("step") or next((name for name in ("step", "gen_step") if name in names), None)
    if step is None or not {"prompt", "completion"} <= {*names}:
        wanted = "ms-swift's columns step or gen_step, prompt, completion"
        raise InputError(f"{tables[0].name}: expected {wanted}, got {', '.join(names)}")
    event = any(isinstance(names.get(name), pl.List) for name in (step, "completion"))
    lists = [n for n, kind in names.items() if isinstance(kind, pl.List) and n != "messages"] if event else []
    for table in tables if event else ():
        empty = f"lists that are empty in {table.height} log events"
        lists_of_steps = isinstance(table.schema.get(step), pl.List)
        expect(lists_of_steps, table.name, f"lists of one length, also in {step!r}", "1 value")
        expect(_sizes(table, [step])[step].sum() > 0, table.name, "at least one response", empty)
        _expect_one_length(table, [name for name in lists if name in table.schema], step)
    size = args.get("num_generations")
    return Form(
        tables=tables,
        of=(lambda table: _exploded(table.with_columns(pl.col(ROW).alias(EVENT)), lists, step)) if event else _as_it_is,
        several=event,
        step=step,
        advantage=_advantage(names, options),
        length=options.named("length"),
        key=options.key,
        prompt="prompt",
        batch=("_file", "_event", "step") if event else ("_file", "step"),
        total=None if event else "reward",
        not_rewards=frozenset(NOT_SWIFTS),
        settings=args,
        group_size=size if type(size) is int and size > 0 else None,
    )


def _nemo_rl(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Lists as columns, or a line per response, whose values may stand in lists of one; an advantage per token."""
    rewards = options.rewards or ("rewards",)
    fits = "rewards" in names or bool(options.rewards)
    expect(fits, tables[0].name, "NeMo-RL's column rewards", ", ".join(names))
    expect_columns(rewards, list(names), tables[0].name)
    lists = []
    if isinstance(names[rewards[0]], pl.List):
        every = [name for name, kind in names.items() if isinstance(kind, pl.List)]
        lists = [n for n in every if all(_same_length(table, n, rewards) for table in tables if n in table.schema)]
    responses = [table.name for table in tables]
    digits = [re.findall(r"\d+", name.rpartition("/")[2]) for name in responses]
    in_name = pl.Series([int(found[-1]) if found else n for n, found in enumerate(digits, start=1)], dtype=pl.Int64)

    def of(table: pl.LazyFrame) -> pl.LazyFrame:
        table = _exploded(table, lists, rewards[0]) if lists else table
        kinds = table.collect_schema()
        step = pl.lit(in_name).gather(pl.col(FILE))
        own = {MADE_STEP: pl.coalesce("step", step) if kinds.get("step", pl.Null()).is_integer() else step}
        if isinstance(kinds.get("advantages"), pl.List):
            value, kind = pl.col("advantages"), kinds["advantages"]
            while isinstance(kind, pl.List) and isinstance(kind.inner, pl.List):
                value, kind = value.list.first(), kind.inner
            own["advantages"] = value.list.eval(pl.element().filter(pl.element() != 0)).list.last().fill_null(0.0)
        if isinstance(kinds.get("token_loss_mask"), pl.List):
            own["token_loss_mask"] = pl.col("token_loss_mask").list.eval(pl.element() != 0).list.sum()
        return table.with_columns(**own)

    kinds = of(pl.LazyFrame(schema={ROW: pl.Int64(), FILE: pl.Int64(), **names})).collect_schema()
    prompt = None if options.key or options.group_size else _prompt_of(kinds, tables, of)
    with_prompt = (lambda table: of(table).with_columns(prompt.alias(MADE_PROMPT))) if prompt is not None else of
    return Form(
        tables=tables,
        of=with_prompt,
        several=bool(lists),
        step=options.named("step") or MADE_STEP,
        advantage=_advantage(names, options),
        length=options.named("length") or ("token_loss_mask" if "token_loss_mask" in names else None),
        key=options.key or (None if prompt is None else MADE_PROMPT),
        keyed_by="" if prompt is None else "the prompt part of content",
        rewards=("rewards",),
        total="rewards",
        not_rewards=frozenset(NOT_NEMOS | {MADE_STEP, MADE_PROMPT}),
    )


def _prompt_of(kinds: Schema, tables: Sequence[Table], of: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.Expr | None:
    """The prompt of a response: its token ids, its messages before the assistant's, or its first texts.

    Texts without roles are [system,] user, answer: the first is the prompt, with the next if all the first are equal.
    """
    content = kinds.get("content")
    if "prompt_ids" in kinds:
        return pl.struct("prompt_ids").struct.json_encode()
    if not isinstance(content, pl.List):
        return None
    parts = pl.col("content")
    if isinstance(content.inner, pl.Struct):
        assistant = (pl.element().struct.field("role") == "assistant").fill_null(False)
        parts = parts.list.eval(pl.element().filter(assistant.cast(pl.Int64).cum_sum() == 0))
        return pl.struct(parts.alias("content")).struct.json_encode()
    texts = pl.concat([of(numbered(table, n)).select("content") for n, table in enumerate(tables)]).collect()
    first, shortest = 1, texts["content"].list.len().min() or 0
    while first + 1 < shortest and texts["content"].list.head(first).n_unique() == 1:  # type: ignore[operator]
        first += 1
    return parts.list.head(first).list.join("\n")


def _generic(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Any table: columns are those named, or have usual names."""
    by_lower = {name.lower(): name for name in reversed([*_others(names, options)])}
    numeric = {name for name, kind in names.items() if is_number_type(kind)}
    not_rewards = frozenset({*STEPS, *GROUPS, *LENGTHS, *ADVANTAGES, *NOT_REWARDS})
    if options.rewards is None:
        refuse_nested(tables, [name for name in names if name in numeric and name.lower() not in not_rewards])
    usual = {name: by_lower[name] for name in (*STEPS, *GROUPS, *LENGTHS, *ADVANTAGES) if name in by_lower}

    def column(what: str, usually: tuple[str, ...], texts: bool = True) -> str | None:
        there = [usual[name] for name in usually if name in usual]
        numbers = next((name for name in there if name in numeric), None)
        return options.named(what) or numbers or next(iter(there if texts else []), None)

    plain = next((n for wanted in STEPS for n in names if n in numeric and _plain(n) == wanted), None)
    step, advantage = column("step", STEPS) or plain, column("advantage", ADVANTAGES)
    key = options.key or next((usual[name] for name in GROUPS if name in usual and not options.group_size), None)
    _expect_responses(tables, [step] if step else [n for n in numeric if _plain(n) in STEPS])
    return Form(
        tables=tables,
        step=step,
        advantage=advantage,
        length=column("length", LENGTHS, texts=False),
        key=key,
        keyed_by_text=key is not None and not options.key and key.lower() in ("prompt", "input", "question"),
        batch=("step",) if step else ("_file",),
        sorts=step is not None,
        not_rewards=not_rewards,
        asks=True,
        examines=True,
    )


def refuse_nested(tables: Sequence[Table], others: Sequence[str]) -> None:
    """Raise InputError for a column of rewards that holds several of them in one value; others: that may be rewards."""
    hint = f", or name the rewards: {reward_options(others)}" if others else ""
    for table in one_of_each(tables):
        for name, kind in table.schema.items():
            inner = getattr(kind, "inner", kind)
            several = inner is not kind and is_number_type(inner)
            if is_called_reward(name) and (several or isinstance(inner, pl.Struct)):
                of = f" of {listing(kind.to_schema(), most=5)}" if isinstance(kind, pl.Struct) else ""
                wanted = "one column of numbers per reward"
                got = f"nested values{of}; write each number in a column of its own{hint}"
                raise InputError(f"{table.name}, column {name!r}: expected {wanted}, got {got}")


def _plain(name: str) -> str:
    """The name of a column without the part of a tracker that it belongs to, as train/global_step."""
    return name.rpartition("/")[2].strip("_").lower()


def _expect_responses(tables: Sequence[Table], steps: Sequence[str]) -> None:
    """Raise InputError if each row has a step of its own, in one of these columns of steps."""
    for name in steps:
        there = [table for table in tables if name in table.schema and not table.schema[name].is_nested()]
        if _all_differ(first_values(table, [name], 5_000)[name] for table in there):
            raise InputError(
                f"{tables[0].name}: expected a row per response, got one per step ({name!r}), as of a tracker: these "
                "are means per step, not responses; log the completions, each with its rewards"
            )


def _all_differ(lists: Iterable[Sequence]) -> bool:
    """Whether several values are given and none comes twice; what follows on the first that does is not read."""
    seen = set[object]()
    for values in lists:
        before = len(seen)
        seen.update(values)
        if len(seen) < before + len(values):
            return False
    return len(seen) > 1


# --- verifiers: an episode a line ------------------------------------------------------------------------------------

# Where a trace has what every log has; no reward or metric can have these names, or those of what is made here.
STEP, GROUP, ADVANTAGE, LENGTH = "run.work.step", "group.id", "nodes.advantages", "num_output_tokens"
_EVALUATES, _ID, _ENV, _WEIGHT = f"{MADE}evaluates", f"{MADE}id", f"{MADE}env", f"{MADE}weight "
_EPISODE_ID = f"{MADE}episode"
_IDS = (("group", "id"), ("task", "key"), ("task", "hash"), ("task", "data", "id"), ("task", "data", "idx"))
_PRIME_RL = re.compile(r"(^|/)step_\d+/train/(all|effective)/traces\.jsonl")
_EPISODE = "an episode of verifiers in every row"


def _verifiers(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Each trace of an agent that is trained is a response. Of a training run the episodes of evaluations are left out.

    Rewards have names and weights; where its weight changes during the run, a reward is what it adds to the total.
    """
    where = tables[0].name
    trace = getattr(names.get("traces"), "inner", pl.Null())
    kinds = _fields(trace)
    scored, measured = list(_fields(kinds.get("rewards"))), list(_fields(kinds.get("metrics")))
    rewards = kinds.get("rewards", pl.Null())
    fits = bool(kinds) and (isinstance(rewards, pl.Struct) or rewards == pl.Null)
    expect(fits, where, f"{_EPISODE}, with traces and their rewards by name", f"{rewards if kinds else trace}")
    for name in scored:
        kind = _fields(rewards)[name]
        expect(
            isinstance(kind, pl.Struct) or kind == pl.Null, where, f"{_EPISODE}, with a score in {name!r}", f"{kind}"
        )
    logged = list(dict.fromkeys((*scored, *measured)))
    expect(bool(scored), where, "at least one column of numbers that is a reward", ", ".join(logged) or "no columns")
    expect_names(logged, where)
    taken = next((name for name in logged if name in (STEP, GROUP, ADVANTAGE, LENGTH)), None)
    expect(taken is None, where, "rewards and metrics of other names", f"one called {taken!r}")

    def value(*path: str, numbers: bool = False) -> pl.Expr:
        return _field(pl.Struct({**names, "traces": trace}), path, where, numbers)

    def number(*path: str) -> pl.Expr:
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
    of_nodes = _fields(getattr(kinds.get("nodes"), "inner", None))
    if isinstance(of_nodes.get("advantages"), pl.List):
        each = pl.element().struct.field("advantages").explode().drop_nulls()
        values = value("traces", "nodes").list.eval(each).cast(pl.List(pl.Float64)).list
        columns[ADVANTAGE] = pl.when(values.min() == values.max()).then(values.first()).otherwise(values.mean())
    if "message" in of_nodes and "messages" not in logged:
        columns["messages"] = value("traces", "nodes").list.eval(pl.element().struct.field("message"))

    runs = value("run", "work", "type"), value("run", "type")

    def responses(table: pl.LazyFrame) -> pl.LazyFrame:
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
    odd = [name for name, found in weights.items() if not all(map(isfinite, found))]
    expect(not odd, where, f"finite numbers in the weights of {', '.join(odd)}", "others")
    counted = tuple(name for name in scored if any(weights[name])) or tuple(scored)
    changing = [name for name in options.rewards or counted if len(weights.get(name, ())) > 1]

    def of(table: pl.LazyFrame) -> pl.LazyFrame:
        table = responses(table).with_columns(pl.col(name) * pl.col(_WEIGHT + name) for name in changing)
        table = table.filter(~place().is_in(again.implode())) if len(again) else table
        return _renumbered(table.filter(~pl.col(_EVALUATES)) if training else table)

    return Form(
        tables=tables,
        of=of,
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
        weights={name: 1.0 if name in changing else found[0] for name, found in weights.items() if found},
    )


def _repeated_episodes(rows: pl.DataFrame, rewards: Sequence[str]) -> pl.Series:
    """The places of episodes that another file holds too, as prime-rl writes them: of these the one with advantages,
    or else the first, is read. An id that comes again in a file tells no episode."""
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
    return f"{count(episodes, 'episode')} in a second file, which {'counts' if episodes == 1 else 'count'} once"


def _method_of(tables: Sequence[Table]) -> str | None:
    """The method of the trainer that lays its logs out like this: prime-rl's, which only centres."""
    return "grpo_no_std" if all(_PRIME_RL.search(table.name) for table in tables) else None


def _fields(kind: object) -> Mapping[str, pl.DataType]:
    return kind.to_schema() if isinstance(kind, pl.Struct) else {}  # type: ignore[return-value]


def _field(kind: object, path: Sequence[str], where: str, numbers: bool = False) -> pl.Expr:
    """A value in nested objects; null where the log has none. Raises InputError for one that is no number."""
    value = None
    for name in path:
        if name not in _fields(kind):
            return pl.lit(None, pl.Float64 if numbers else pl.Null)
        value, kind = pl.col(name) if value is None else value.struct.field(name), _fields(kind)[name]
    fits = not numbers or is_number_type(kind) or kind == pl.Null
    expect(fits, where, f"{_EPISODE}, with numbers in {'.'.join(path)}", f"{kind}")
    return pl.lit(None) if value is None else value


def _as_logged(rows: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """The names of columns in the order in which rows hold the first value of each: polars merges objects in any."""
    first = {name: rows[name].is_not_null().arg_max() if rows[name].count() else len(rows) for name in names}
    return sorted(names, key=lambda name: first[name] or 0)


def _weight(reward: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """The weight of a reward that was scored, which is 1 where the log does not say it."""
    return pl.when(reward.is_not_null()).then(weight.cast(pl.Float64, strict=False).fill_null(1.0))


# --- what forms share ------------------------------------------------------------------------------------------------


def _advantage(names: Schema, options: ReadOptions) -> str | None:
    return options.named("advantage") or next((name for name in ADVANTAGES if name in _others(names, options)), None)


def _others(names: Schema, options: ReadOptions) -> Schema:
    """Return the columns that the caller does not name as rewards: what these hold, their names say."""
    return {name: kind for name, kind in names.items() if name not in (options.rewards or ())}


def numbered(table: Table, number: int, start: int = 0, rows: int | None = None) -> pl.LazyFrame:
    """The rows of a table, or some of them, with the number of the table and of the row in it."""
    frame = table.fresh if rows is None else table.fresh.slice(start, rows)
    return with_numbers(frame, number, start)


def with_numbers(frame: pl.LazyFrame, number: int, start: int = 0) -> pl.LazyFrame:
    """Rows with the number of their table, and their own."""
    with_rows = frame.with_row_index(ROW, start)
    return with_rows.with_columns(pl.col(ROW).cast(pl.Int64), pl.lit(number, pl.Int64).alias(FILE))


def _renumbered(table: pl.LazyFrame) -> pl.LazyFrame:
    """Responses that stood several to a row, with numbers of their own."""
    return table.with_columns(pl.int_range(pl.len()).over(FILE).alias(ROW))


def _exploded(table: pl.LazyFrame, lists: Sequence[str], by: str) -> pl.LazyFrame:
    """A row per item of the lists, which are of one length in each row."""
    there = [name for name in lists if name in table.collect_schema()]
    return _renumbered(table.filter(pl.col(by).list.len() > 0).explode(there))


def _sizes(table: Table, lists: Sequence[str]) -> pl.DataFrame:
    return table.frame.select(pl.col(name).list.len().fill_null(0) for name in lists).collect()


def _expect_one_length(table: Table, lists: Sequence[str], by: str) -> None:
    """Raise InputError for the first row of a table whose lists are not all as long as `by`."""
    sizes = _sizes(table, lists)
    for name in lists:
        if (sizes[name] != sizes[by]).any():
            row = (sizes[name] != sizes[by]).arg_max() or 0
            got = f"{sizes[by][row]} in {by!r}, {sizes[name][row]} in {name!r}"
            raise InputError(f"{table.name}, row {row + 1}: expected lists of one length, got {got}")


def _same_length(table: Table, name: str, rewards: Sequence[str]) -> bool:
    """Whether a list has an item per reward in each row; InputError where it has to, as there are several."""
    sizes = _sizes(table, [*dict.fromkeys((name, rewards[0]))])
    same = sizes[name] == sizes[rewards[0]]
    needed = name in (*rewards, "content", "prompt_ids", "advantages", "token_loss_mask")
    if needed and (~same & (sizes[rewards[0]] > 1)).any():
        _expect_one_length(table, [rewards[0], name], rewards[0])
    return bool(same.all())


# --- which form ------------------------------------------------------------------------------------------------------

FORMS: Mapping[str, Callable[[Sequence[Table], Schema, ReadOptions, Mapping], Form]] = {
    "trl": _trl,
    "verl": _verl,
    "ms_swift": _ms_swift,
    "nemo_rl": _nemo_rl,
    "verifiers": _verifiers,
    "generic": _generic,
}


def _writes(framework: str, names: Schema) -> bool:
    """Whether these may be the columns of a framework's log."""
    has = {*names}
    lists = isinstance(names.get("step"), pl.List) or "advantages" in has
    return {
        "trl": "step" in has and ("completion" in has or {"prompt", "advantage"} <= has),
        "verl": {"input", "output", "score"} <= has,
        "ms_swift": {"prompt", "completion"} <= has and ("gen_step" in has or ("step" in has and lists)),
        "nemo_rl": "rewards" in has
        and is_numbers(names["rewards"])
        and (bool(TOKENS & has) or isinstance(names.get("advantages"), pl.List)),
        "verifiers": {"task", "traces"} <= has,
        "generic": False,
    }[framework]


def framework_of(tables: Sequence[Table], where: str) -> str:
    """The framework whose columns the tables have, whatever their names; "generic" if that is none of the known ones.

    Raises InputError if different frameworks wrote the tables.
    """
    first, framework = tables[0], _framework(tables[0])
    for table in one_of_each(tables)[1:]:
        other = _framework(table)
        got = f"{framework} in {first.name} and {other} in {table.name}; name one of them"
        expect(other == framework, where, "the log of one run", got)
    return framework


def _framework(table: Table) -> str:
    of_any = table.kind in ("table", "wandb", "trackio")  # what is in memory may be of any trainer
    for form in ("jsonl", "parquet") if of_any else (table.kind,):
        for key in READABLE:
            if FRAMEWORKS[key].log_format == form and _writes(key, table.schema):
                return key
    return "generic"


# --- the configuration of the run ------------------------------------------------------------------------------------


def settings_in(file: LogFile | None) -> dict:
    """The configuration in args.json; empty if that cannot be read."""
    try:
        settings = json.loads(file.content()) if file else {}
    except (ValueError, InputError):
        return {}
    return settings if isinstance(settings, dict) else {}


def configured_weights(settings: Mapping, logged: Sequence[str], rewards: Sequence[str]) -> dict[str, float] | None:
    """ms-swift's weights: one per reward function, in the order of the logged columns.

    >>> configured_weights({"reward_weights": [1, 0.5]}, ["MathAccuracy", "Format"], ["Format"])
    {'Format': 0.5}
    """
    if "reward_weights" not in settings:
        return None
    weights = [1] * len(logged) if settings["reward_weights"] is None else settings["reward_weights"]
    fits = isinstance(weights, list) and len(weights) == len(logged) and {*rewards} <= {*logged}
    if not fits or not all(isinstance(w, int | float) and abs(w) < 1e300 for w in weights):
        return None
    by_name = dict(zip(logged, weights, strict=True))
    return {name: float(by_name[name]) for name in rewards}
