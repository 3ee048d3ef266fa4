"""The forms of logs, one function per framework: nearly all that is known of what each framework writes.

Each function takes four arguments: the tables of a log, the types of all their columns by name, the caller's options,
and a mapping. The mapping holds the arguments of the run in an args.json beside the log. The function returns a `Form`,
which says which column holds what and how the tables become a row per response. It raises InputError if the columns of
the framework are missing. The functions for NeMo-RL and verifiers stand in modules of their own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import polars as pl

from gdpo_audit.logs.forms.form import Form, advantage_in, as_it_is, expect_one_length, exploded, others_in, sizes_of
from gdpo_audit.logs.forms.options import ReadOptions, first_values
from gdpo_audit.logs.forms.roles import ADVANTAGES, GROUPS, LENGTHS, NOT_REWARDS, STEPS, is_called_reward, is_numbers
from gdpo_audit.logs.names import EVENT, ROW, reward_options
from gdpo_audit.logs.refusals import Lacking, location, refuse, refuse_unless
from gdpo_audit.logs.tables.formats import Schema, Table, is_number_type, one_of_each
from gdpo_audit.logs.trainers.nemo_rl import TOKENS, nemo_rl
from gdpo_audit.logs.trainers.verifiers import verifiers
from gdpo_audit.records import LogIssue
from gdpo_core.frameworks import FRAMEWORKS, READABLE
from gdpo_core.shared.words import listing

# The names of columns that say where a row stands. A caller may name such a column as a reward nevertheless.
PLACES = {"batch", "step", "group", "_file", "_row", "_event", "_key", "_by", "_pass", "_place", "_open", "_prompt_key"}
# The names of columns beside the rewards in the log of each framework.
NOT_TRLS = {"step", "advantage", "advantages", "epoch", "global_step", "index", "idx", "id", "seed"}
NOT_VERLS = {"input", "output", "gts", "score", "step", "request_id", "uid", "index", "num_turns", "__num_turns__"}
NOT_SWIFTS = {"step", "gen_step", "prompt", "completion", "solution", "advantages", "advantage", "entropy", "num_turns"}
WANDB_ROWS = 10_000  # wandb.Table.MAX_ROWS; only an artifact takes more


# --- the forms -------------------------------------------------------------------------------------------------------


def _trl(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return how to read TRL's tables of completions: a table per logged step, a row per response, no evaluations.

    tables: the tables of the log.
    names: all columns with their types.
    options: the caller's options.
    args: the arguments of the run in an args.json beside the log, which are not used.

    Raises InputError if the column of steps is missing, or if none of the columns prompt, completion and advantage is
    there.
    """
    step = options.named("step") or "step"
    fits = step in names and bool({"advantage", "completion", "prompt"} & {*names})
    refuse_unless(
        fits, tables[0].name, f"TRL's columns {step}, prompt, completion, rewards, advantage", ", ".join(names)
    )
    tables, evaluations = _of_training(tables, step)
    columns = others_in(names, options)
    cut = sum(table.height == WANDB_ROWS for table in tables if table.kind == "wandb")
    details = {"tables": cut, "of": len(tables), "threshold": WANDB_ROWS}
    return Form(
        tables=tables,
        step=step,
        advantage=advantage_in(names, options),
        length=options.named("length") or next((n for n in LENGTHS if n in columns and columns[n].is_integer()), None),
        key=options.key,
        prompt="prompt" if "prompt" in columns else None,
        sorts=options.key is not None,
        not_rewards=frozenset(NOT_TRLS),
        examines=True,
        issues=(*evaluations, *[LogIssue("groups-sampled", details)] * (cut > 0)),
    )


def _of_training(tables: Sequence[Table], step: str) -> tuple[list[Table], list[LogIssue]]:
    """Return two lists: the tables of training alone, without evaluations in a tracker, and an issue about these.

    The second list is empty if nothing was left out. Otherwise its issue names the steps of the evaluations.
    TRL logs an evaluation under the step of the batch before it, and rows of that batch may come first in its table. So
    only the prompts tell. Of several tables of one step, a later one is an evaluation's if it holds a prompt that the
    first one lacks.
    tables: the tables of the log.
    step: the name of the column with the step.
    """
    kept, steps = list[Table](), list[int]()
    first: pl.DataFrame | None = None  # the first table of the step
    before: pl.DataFrame | None = None  # the table before, if it was an evaluation's
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
    """Return the rows of a table, nested values hashed, if all have the same finite number in the column `step`; None
    otherwise, and for a table without rows.
    """
    rows = table.frame.collect()
    whole = step in rows.columns and len(rows) > 0 and rows[step].n_unique() == 1 and rows[step].null_count() == 0
    if not whole or not rows[step].cast(pl.Float64, strict=False).is_finite().all():
        return None
    nested = [name for name, kind in rows.schema.items() if kind.is_nested()]
    return rows.with_columns(pl.col(name).hash() for name in nested)


def _verl(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return how to read verl's rollouts, which have a line per response.

    Rows of one group have the same value in the column that the caller names for groups. If the caller names none, this
    is the column uid, or the column input in a log without uid. Where uid tells the groups, the last two parts that
    begin with "_" are cut off from its values, or the last part if there is only one.
    tables: the tables of the log.
    names: all columns with their types.
    options: the caller's options.
    args: the arguments of the run in an args.json beside the log, which are not used.

    Raises InputError if the column input, output or score is missing.
    """
    fits = {"input", "output", "score"} <= {*names}
    refuse_unless(fits, tables[0].name, "verl's columns input, output, score", ", ".join(names))
    key = options.key or ("uid" if "uid" in names else "input")
    prompt = pl.col("uid").cast(pl.String).str.replace("(_[^_]*){1,2}$", "").alias("uid")
    return Form(
        tables=tables,
        to_responses=(lambda table: table.with_columns(prompt)) if key == "uid" else as_it_is,
        step=options.named("step") or ("step" if "step" in names else None),
        advantage=advantage_in(names, options),
        length=options.named("length"),
        key=key,
        keyed_by="the column uid, without its last two parts" if key == "uid" else "",
        equal_groups=True,
        total="score",
        score="score" if is_number_type(names["score"]) else None,
        not_rewards=frozenset(NOT_VERLS),
    )


def _ms_swift(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return how to read ms-swift's completions: a line is a log event, and most columns hold lists with a value per
    response.

    A trainer on Ray writes one response per line, without lists.
    tables: the tables of the log.
    names: all columns with their types.
    options: the caller's options.
    args: the arguments of the run in an args.json beside the log, by name.

    Raises InputError if there is no column of steps, or if prompt or completion is missing. For lines with lists, it
    raises InputError also if the steps of a table are no lists, if all of these lists are empty, or if lists of one
    line differ in length.
    """
    step = options.named("step") or next((name for name in ("step", "gen_step") if name in names), None)
    if step is None or not {"prompt", "completion"} <= {*names}:
        wanted = "ms-swift's columns step or gen_step, prompt, completion"
        refuse(tables[0].name, wanted, ", ".join(names))
    event = any(isinstance(names.get(name), pl.List) for name in (step, "completion"))
    lists = [n for n, kind in names.items() if isinstance(kind, pl.List) and n != "messages"] if event else []
    for table in tables if event else ():
        empty = f"lists that are empty in {table.height} log events"
        lists_of_steps = isinstance(table.schema.get(step), pl.List)
        refuse_unless(lists_of_steps, table.name, f"lists of one length, also in {step!r}", "1 value")
        refuse_unless(sizes_of(table, [step])[step].sum() > 0, table.name, "at least one response", empty)
        expect_one_length(table, [name for name in lists if name in table.schema], step)
    size = args.get("num_generations")
    return Form(
        tables=tables,
        to_responses=partial(_exploded_events, lists=lists, step=step) if event else as_it_is,
        several=event,
        step=step,
        advantage=advantage_in(names, options),
        length=options.named("length"),
        key=options.key,
        prompt="prompt",
        batch=("_file", "_event", "step") if event else ("_file", "step"),
        total=None if event else "reward",
        not_rewards=frozenset(NOT_SWIFTS),
        arguments=args,
        group_size=size if type(size) is int and size > 0 else None,
    )


def _exploded_events(events: pl.LazyFrame, lists: Sequence[str], step: str) -> pl.LazyFrame:
    """Return a row per response; `EVENT` is the number of its log event.

    lists: the columns of lists, `step` among them.
    step: the column of the step.
    """
    return exploded(events.with_columns(pl.col(ROW).alias(EVENT)), lists, step)


def _generic(tables: Sequence[Table], names: Schema, options: ReadOptions, args: Mapping) -> Form:
    """Return how to read a log of no known framework. The caller names its columns, or they have usual names.

    tables: the tables of the log.
    names: all columns with their types.
    options: the caller's options.
    args: the arguments of the run in an args.json beside the log, which are not used.

    Raises InputError if each row has a step of its own, so that rows are means and not responses. If the caller names
    no rewards, it raises InputError also for a column that is called a reward and holds lists or objects.
    """
    by_lower = {name.lower(): name for name in reversed([*others_in(names, options)])}
    numeric = {name for name, kind in names.items() if is_number_type(kind)}
    not_rewards = frozenset({*STEPS, *GROUPS, *LENGTHS, *ADVANTAGES, *NOT_REWARDS})
    if options.rewards is None:
        refuse_nested(tables, [name for name in names if name in numeric and name.lower() not in not_rewards])
    usual = {name: by_lower[name] for name in (*STEPS, *GROUPS, *LENGTHS, *ADVANTAGES) if name in by_lower}

    def column(what: str, usually: tuple[str, ...], texts: bool = True) -> str | None:
        """Return the column that holds `what`: "step", "advantage" or "length"; None if there is none.

        First comes the column that the caller names in `options` of the outer function. Then comes one with a usual
        name whose values are numbers, as the names in `numeric` say.
        usually: the usual names of columns that hold it, the likeliest first.
        texts: whether a column with a usual name will do without numbers, if there is no other.
        """
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


def refuse_nested(tables: Sequence[Table], candidates: Sequence[str]) -> None:
    """Raise InputError for a column that is called a reward, but whose values are lists of numbers, or objects.

    tables: the tables of the log.
    candidates: columns of single numbers, which the error says may be named as rewards instead.
    """
    hint = f", or name the rewards: {reward_options(candidates)}" if candidates else ""
    for table in one_of_each(tables):
        for name, kind in table.schema.items():
            inner = getattr(kind, "inner", kind)
            several = inner is not kind and is_number_type(inner)
            if is_called_reward(name) and (several or isinstance(inner, pl.Struct)):
                members = f" of {listing(kind.to_schema(), most=5)}" if isinstance(kind, pl.Struct) else ""
                wanted = "one column of numbers per reward"
                got = f"nested values{members}; write each number in a column of its own{hint}"
                refuse(location(table.name, column=name), wanted, got)


def _plain(name: str) -> str:
    """Return a column's name in small letters, without a prefix such as train/, and without underscores at its ends."""
    return name.rpartition("/")[2].strip("_").lower()


def _expect_responses(tables: Sequence[Table], steps: Sequence[str]) -> None:
    """Raise InputError if a column of steps has a new step in each row, because its rows are then no responses: they
    are means, or hold responses in nested values that were not understood.

    tables: the tables of the log.
    steps: the columns of steps.
    """
    for name in steps:
        there = [table for table in tables if name in table.schema and not table.schema[name].is_nested()]
        if _all_differ(first_values(table, [name], 5_000)[name] for table in there):
            nested = dict.fromkeys(
                column for table in there for column, kind in table.schema.items() if kind.is_nested()
            )
            got = f"one per step ({name!r}), as of a tracker: these are means per step, not responses"
            if nested:
                got = f"one per step ({name!r}), with nested values in {listing(nested, most=5)} that are no lists of "
                got += "objects with a reward or an advantage each"
            refuse(tables[0].name, "a row per response", f"{got}; log the completions, each with its rewards", Lacking)


def _all_differ(lists: Iterable[Sequence]) -> bool:
    """Return whether there are several values and none comes twice.

    lists: the values in parts. Once a part repeats a value, no further part is read.
    """
    seen = set[object]()
    for values in lists:
        before = len(seen)
        seen.update(values)
        if len(seen) < before + len(values):
            return False
    return len(seen) > 1


# --- which form ------------------------------------------------------------------------------------------------------

FORMS: Mapping[str, Callable[[Sequence[Table], Schema, ReadOptions, Mapping], Form]] = {
    "trl": _trl,
    "verl": _verl,
    "ms_swift": _ms_swift,
    "nemo_rl": nemo_rl,
    "verifiers": verifiers,
    "generic": _generic,
}


def _writes(framework: str, names: Schema) -> bool:
    """Return whether a table with these columns may be the log of a framework.

    framework: the id of the framework.
    names: the columns with their types.
    """
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
    """Return the framework whose columns the tables have, whatever the files are called; "generic" if none has them.

    tables: the tables of the log.
    where: the name of the log, for errors.

    Raises InputError if the tables are of different frameworks.
    """
    first, framework = tables[0], _framework(tables[0])
    for table in one_of_each(tables)[1:]:
        next_framework = _framework(table)
        if next_framework != framework:
            got = f"{framework} in {first.name} and {next_framework} in {table.name}; name one of them"
            refuse(where, "the log of one run", got)
    return framework


def _framework(table: Table) -> str:
    """Return the first framework that writes this table's format and columns; "generic" if there is none."""
    of_any = table.kind in ("table", "wandb", "trackio")  # a table in memory may be any trainer's
    for form in ("jsonl", "parquet") if of_any else (table.kind,):
        for key in READABLE:
            if FRAMEWORKS[key].log_format == form and _writes(key, table.schema):
                return key
    return "generic"
