"""Reads ms-swift's completions.jsonl: one JSON object per log event, with lists as columns."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from math import isfinite

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import jsonl
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.run import Trap
from gdpo_core.logs.unused import TEXTS

# Lists of numbers that are logged beside the rewards.
NOT_REWARDS = {
    "step",
    "gen_step",
    "prompt",
    "completion",
    "advantages",
    "advantage",
    "entropy",
    "num_turns",
    "solution",
}
METHODS = {"gdpo": "gdpo", "group": "grpo", "none": "grpo_no_std", "batch": "grpo_batch_std"}
SAMPLE = 10_000  # rows whose prompts are examined


def read(found: Found, asked: Asked) -> Draft:
    """The rewards of an ms-swift log: every list of numbers that is not known to hold something else."""
    first = found.files[0]
    items = jsonl.head(first, asked.skip_bad_lines)
    expect(bool(items), first.name, "at least one log event", "0 rows")
    filled = any(value != [] for item in items for value in item.values())
    expect(filled, first.name, "at least one response", f"lists that are empty in {len(items)} log events")
    there = list(dict.fromkeys(key for item in items for key in item))
    step = asked.step or next((name for name in ("step", "gen_step") if name in there), None)
    if step is None or not {"prompt", "completion"} <= set(there):
        raise InputError(
            f"{first.name}: expected ms-swift's columns step or gen_step, prompt, completion, got {', '.join(there)}"
        )
    present([*(asked.rewards or ()), step, asked.advantage, asked.length, asked.group], there, first.name)
    others = {step, asked.advantage, asked.length, asked.group}
    numbers = [name for name in there if _numbers(items, name) and name not in NOT_REWARDS | others]
    columns = Columns(
        rewards=asked.rewards or tuple(numbers),
        step=step,
        advantage=asked.advantage or next((name for name in ("advantages", "advantage") if name in there), None),
        length=asked.length,
        key=asked.group,
    )
    columns = check_rewards(columns, there, first.name)
    settings = _settings(found.args)
    total_only = columns.rewards == ("reward",) and not isinstance(items[0]["reward"], list)
    weights = None if total_only else _weights(settings, numbers, columns.rewards)
    skipped = jsonl.Skipped()
    events = partial(_events, found, columns, skipped if asked.skip_bad_lines else None)

    def rows() -> Iterator[pl.DataFrame]:
        return batches((normalised(frame, columns, found.files) for frame in events()), ["_file", "_event", "step"])

    return Draft(
        rewards=columns.rewards,
        rows=remembered(rows),
        keyed=asked.group and f"the column {asked.group}",
        has_advantage=columns.advantage is not None,
        has_length=columns.length is not None,
        total_only=total_only,
        traps=(Trap("no-components", {"framework": "ms_swift", "has": ["reward"]}),) if total_only else (),
        prompts=lambda: _prompts(events(), step) if "prompt" in there else None,
        skipped=skipped,
        left_out=tuple(name for name in there if name not in {*columns.names, *NOT_REWARDS, *TEXTS}),
        asked=METHODS.get(str(settings.get("scale_rewards"))),
        weights=weights,
        weights_by="config" if weights else None,
        group_size=_positive(settings.get("num_generations")),
    )


def _as_lists(item: dict) -> dict:
    """An event's columns as lists; a trainer on Ray writes one response per line, without lists."""
    return {name: value if isinstance(value, list) and name != "messages" else [value] for name, value in item.items()}


def _numbers(items: list[dict], name: str) -> bool:
    values = [value for item in items if name in item for value in _as_lists(item)[name] if value is not None]
    return 2 * sum(map(jsonl.is_number, values)) > len(values)


def _events(found: Found, columns: Columns, skipped: jsonl.Skipped | None) -> Iterator[pl.DataFrame]:
    for number, file in enumerate(found.files):
        event = 0
        for line, item in jsonl.objects(file, skipped):
            listed = isinstance(item.get(columns.step), list)
            event += listed
            lists, where = _as_lists(item), f"{file.name}, line {line}"
            present(columns.names, list(lists), where)
            sizes = {name: len(lists[name]) for name in (*columns.names, "prompt") if name in lists}
            same = len(set(sizes.values())) == 1
            expect(same, where, "lists of one length", ", ".join(f"{n} in {name!r}" for name, n in sizes.items()))
            yield _frame(lists, columns, where).with_columns(
                pl.lit(number, pl.Int64).alias("_file"), pl.lit(event, pl.Int64).alias("_event")
            )


def _frame(lists: dict[str, list], columns: Columns, where: str) -> pl.DataFrame:
    data = {}
    for name in columns.numbers:
        wrong = next((v for v in lists[name] if v is not None and not jsonl.is_number(v)), None)
        expect(wrong is None, where, f"numbers in {name!r}", f"{str(wrong)[:60]!r}")
        data[name] = pl.Series(name, [None if v is None else jsonl.as_float(v) for v in lists[name]], pl.Float64)
    texts = [name for name in (columns.step, columns.key) if name] + ["prompt"] * ("prompt" in lists)
    for name in texts:
        values = [v if isinstance(v, str | None) else json.dumps(v) for v in lists[name]]
        data[name] = pl.Series(name, values, pl.String)
    return pl.DataFrame(data)


def _prompts(frames: Iterator[pl.DataFrame], step: str) -> pl.DataFrame:
    taken, rows = [], 0
    for frame in frames:
        prompt = pl.col("prompt") if "prompt" in frame.columns else pl.lit("")
        step_number = pl.col(step).cast(pl.Int64, strict=False).alias("step")
        taken.append(
            frame.select(
                "_file", "_event", step_number, prompt.hash().alias("_key"), prompt.str.slice(0, 60).alias("text")
            )
        )
        rows += len(frame)
        if rows >= SAMPLE:
            break
    return pl.concat(taken).with_columns(pl.struct("_file", "_event", "step").rle_id().cast(pl.Int64).alias("batch"))


def _settings(file: LogFile | None) -> dict:
    """The configuration of the run, from its args.json; empty if that cannot be read."""
    try:
        found = json.loads(file.content()) if file else {}
    except (ValueError, InputError):
        return {}
    return found if isinstance(found, dict) else {}


def _weights(settings: dict, logged: Sequence[str], rewards: Sequence[str]) -> dict[str, float] | None:
    """The weights in the configuration of the run: one per reward function, in the order of the logged columns.

    >>> _weights({"reward_weights": [1, 0.5]}, ["MathAccuracy", "Format"], ["Format"])
    {'Format': 0.5}
    """
    if "reward_weights" not in settings:
        return None
    weights = [1] * len(logged) if settings["reward_weights"] is None else settings["reward_weights"]
    fits = isinstance(weights, list) and len(weights) == len(logged) and set(rewards) <= set(logged)
    if not fits or not all(jsonl.is_number(w) and isfinite(jsonl.as_float(w)) for w in weights):
        return None
    by_name = dict(zip(logged, weights, strict=True))
    return {name: float(by_name[name]) for name in rewards}


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
