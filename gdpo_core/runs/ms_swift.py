"""Reads ms-swift's completions.jsonl: one JSON object per log event, with lists as columns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core.runs.columns import (
    TEXTS,
    Columns,
    ReadOptions,
    batches,
    expect_columns,
    holds_lists,
    standard_rows,
    validate_columns,
)
from gdpo_core.runs.files import LogFile, LogFiles
from gdpo_core.runs.roles import ADVANTAGES, RewardChoice, choose, lost, role
from gdpo_core.runs.run import PROMPTS, LogIssue, Rows, Run, run_of
from gdpo_core.runs.tables import as_float, as_text, expect_one_length, first_objects, is_number, kinds_of, objects
from gdpo_core.runs.texts import texts_of

# Lists of numbers that are logged beside the rewards.
NOT_REWARDS = {"step", "gen_step", "prompt", "completion", "solution"}
NOT_REWARDS |= {"advantages", "advantage", "entropy", "num_turns"}
METHODS = {"gdpo": "gdpo", "group": "grpo", "none": "grpo_no_std", "batch": "grpo_batch_std"}


def matches(columns: Mapping[str, object]) -> bool:
    """Whether this is a log event, or a row of the table that trackers get of one, without lists.

    Lists as prompts do not tell: a chat is a list of messages. The reader refuses a step that is no list.
    """
    event = isinstance(columns.get("step"), list) or "advantages" in columns
    return {"prompt", "completion"} <= columns.keys() and ("gen_step" in columns or ("step" in columns and event))


def read(log: LogFiles, options: ReadOptions) -> Run:
    """The rewards of an ms-swift log: every list of numbers that is not known to hold something else."""
    first = log.files[0]
    items = first_objects(first, options.bad_lines)
    expect(bool(items), first.name, "at least one log event", "0 rows")
    filled = any(value != [] for item in items for value in item.values())
    expect(filled, first.name, "at least one response", f"lists that are empty in {len(items)} log events")
    logged = list(dict.fromkeys(key for item in items for key in item))
    columns, chosen, numbers = _columns(first, items, logged, options)
    total_only = columns.rewards == ("reward",) and not isinstance(items[0]["reward"], list)
    settings = _settings(log.args)
    weights = None if total_only else _weights(settings, numbers, columns.rewards)
    by = "config" if weights else "score" if chosen.weights else None
    beside = tuple(n for n in logged if n not in {*columns.names, *NOT_REWARDS, *TEXTS, chosen.total})
    return run_of(
        log,
        "ms_swift",
        Rows(
            columns=columns,
            read=partial(_rows, log, columns, options),
            keyed_by=options.group and f"the column {options.group}",
            prompts=lambda: _prompts(_events(log, columns, options), f"{columns.step}") if "prompt" in logged else None,
            group_size=_positive(settings.get("num_generations")),
            texts=texts_of(log.files, options.bad_lines, partial(_responses, step=f"{columns.step}")),
        ),
        total_only=total_only,
        issues=(LogIssue("no-components", {"framework": "ms_swift", "has": ["reward"]}),)
        if total_only
        else chosen.issues,
        left_out=beside,
        lost=lost(_kinds(items), beside, options.rewards),
        configured_method=METHODS.get(str(settings.get("scale_rewards"))),
        weights=weights or chosen.weights,
        weights_by=by,
    )


def _columns(
    file: LogFile, items: list[dict], logged: Sequence[str], options: ReadOptions
) -> tuple[Columns, RewardChoice, list[str]]:
    """Which column holds what, which are rewards, and all columns of the reward functions."""
    step = options.step or next((name for name in ("step", "gen_step") if name in logged), None)
    if step is None or not {"prompt", "completion"} <= set(logged):
        wanted = "ms-swift's columns step or gen_step, prompt, completion"
        raise InputError(f"{file.name}: expected {wanted}, got {', '.join(logged)}")
    expect_columns(options.names, logged, file.name)
    others = {*NOT_REWARDS, step, options.advantage, options.length, options.group, options.by}
    numbers = [name for name in logged if name not in others and _holds_numbers(items, name)]
    chosen = choose(numbers, lambda names: _table(items, names), where=file.name, named=options.rewards)
    advantage = options.advantage or next((name for name in ADVANTAGES if name in logged), None)
    columns = Columns(
        rewards=chosen.rewards,
        step=step,
        advantage=advantage,
        per_token=holds_lists(None, [value for item in items for value in _as_lists(item).get(f"{advantage}", ())]),
        length=options.length,
        key=options.group,
        by=options.by,
    )
    functions = [name for name in numbers if name != chosen.total and role(name) != "metric"]
    return validate_columns(columns, logged, file.name), chosen, functions


def _table(items: list[dict], names: Sequence[str]) -> pl.DataFrame:
    """The numbers in these columns of some events; null where there is none."""
    events = (_as_lists(item) for item in items)
    whole = [event for event in events if len({len(event.get(name, ())) for name in names}) == 1]
    values = {name: [x if is_number(x) else None for event in whole for x in event[name]] for name in names}
    floats = {name: [as_float(x, name, "") for x in column] for name, column in values.items()}
    return pl.DataFrame(floats, schema=dict.fromkeys(names, pl.Float64))


def _holds_numbers(items: list[dict], name: str) -> bool:
    values = [value for item in items if name in item for value in _as_lists(item)[name] if value is not None]
    return 2 * sum(map(is_number, values)) > len(values)


def _kinds(items: list[dict]) -> dict[str, pl.DataType]:
    """The type of each column in some events."""
    rows = ({name: value} for item in items for name, values in _as_lists(item).items() for value in values)
    return kinds_of(list(rows))


def _as_lists(item: dict) -> dict[str, list]:
    """An event's columns as lists; a trainer on Ray writes one response per line, whose lists are no columns."""
    row = not any(isinstance(item.get(name), list) for name in ("step", "gen_step", "completion"))
    return {
        n: value if isinstance(value, list) and n != "messages" and not row else [value] for n, value in item.items()
    }


def _responses(item: dict, step: str) -> Iterator[dict]:
    """The prompt and the completion of each response of an event."""
    lists = _as_lists(item)
    for row in range(len(lists[step])):
        yield {name: lists[name][row] for name in ("prompt", "completion") if row < len(lists.get(name, ()))}


def _rows(log: LogFiles, columns: Columns, options: ReadOptions) -> Iterator[pl.DataFrame]:
    frames = (standard_rows(frame, columns, log.files) for frame in _events(log, columns, options))
    return batches(frames, ["_file", "_event", "step"])


def _events(log: LogFiles, columns: Columns, options: ReadOptions) -> Iterator[pl.DataFrame]:
    """The responses of each line, with the number of its file and of its log event."""
    for number, file in enumerate(log.files):
        event = row = 0
        for line, item in objects(file, options.bad_lines):
            event += isinstance(item.get(f"{columns.step}"), list)
            frame = _frame(_as_lists(item), columns, f"{file.name}, line {line}")
            numbers = {"_file": number, "_event": event, "_row": row}
            yield frame.with_columns(pl.lit(n, pl.Int64).alias(name) for name, n in numbers.items())
            row += len(frame)


def _frame(lists: dict[str, list], columns: Columns, where: str) -> pl.DataFrame:
    expect_columns(columns.names, list(lists), where)
    texts = [*columns.texts, *(["prompt"] if "prompt" in lists else [])]
    expect_one_length({name: len(lists[name]) for name in (*columns.names, *texts)}, where)
    for name in columns.numbers:
        odd = next((v for v in lists[name] if v is not None and not is_number(v)), None)
        expect(odd is None, where, f"numbers in {name!r}", f"{str(odd)[:60]!r}")
    floats = {name: [as_float(value, name, where) for value in lists[name]] for name in columns.numbers}
    data = floats | {name: [as_text(value) for value in lists[name]] for name in texts}
    return pl.DataFrame(data, schema=dict.fromkeys(floats, pl.Float64) | dict.fromkeys(texts, pl.String))


def _prompts(events: Iterator[pl.DataFrame], step: str) -> pl.DataFrame:
    """batch, step, `_key` and `text` of the first prompts, which show where a group ends."""
    frames, rows = [], 0
    for event in events:
        prompt = pl.col("prompt") if "prompt" in event.columns else pl.lit("")
        number = pl.col(step).cast(pl.Int64, strict=False).alias("step")
        text = prompt.str.slice(0, 60).alias("text")
        frames.append(event.select("_file", "_event", number, prompt.hash().alias("_key"), text))
        rows += len(event)
        if rows >= PROMPTS:
            break
    return pl.concat(frames).with_columns(pl.struct("_file", "_event", "step").rle_id().cast(pl.Int64).alias("batch"))


# --- the configuration of the run ------------------------------------------------------------------------------------


def _settings(file: LogFile | None) -> dict:
    """The configuration in args.json; empty if that cannot be read."""
    try:
        settings = json.loads(file.content()) if file else {}
    except (ValueError, InputError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _weights(settings: dict, logged: Sequence[str], rewards: Sequence[str]) -> dict[str, float] | None:
    """The configured weights: one per reward function, in the order of the logged columns.

    >>> _weights({"reward_weights": [1, 0.5]}, ["MathAccuracy", "Format"], ["Format"])
    {'Format': 0.5}
    """
    if "reward_weights" not in settings:
        return None
    weights = [1] * len(logged) if settings["reward_weights"] is None else settings["reward_weights"]
    fits = isinstance(weights, list) and len(weights) == len(logged) and set(rewards) <= set(logged)
    if not fits or not all(is_number(w) and isfinite(as_float(w, "reward_weights", "args.json") or 0) for w in weights):
        return None
    by_name = dict(zip(logged, weights, strict=True))
    return {name: float(by_name[name]) for name in rewards}


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
