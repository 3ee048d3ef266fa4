"""Reads NeMo-RL's train_data_step{N}.jsonl: one total reward per response, and one advantage per token."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import jsonl
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.groups import divisors
from gdpo_core.logs.run import Trap

# Columns that hold no rewards.
KNOWN = {"content", "prompt_ids", "token_ids", "token_loss_mask", "sample_loss_mask", "input_lengths", "step", "idx"}
KNOWN |= {"generation_logprobs", "prev_logprobs", "reference_logprobs", "reference_policy_logprobs"}


def read(found: Found, asked: Asked) -> Draft:
    """The total rewards of a NeMo-RL log, which holds no components, and the advantage of each response."""
    first = found.files[0]
    found_first = next(jsonl.objects(first, jsonl.Skipped() if asked.skip_bad_lines else None), None)
    if found_first is None:
        raise InputError(f"{first.name}: expected at least one response, got 0 rows")
    line, item = found_first
    there, where = list(item), f"{first.name}, line {line}"
    expect("rewards" in there or bool(asked.rewards), first.name, "NeMo-RL's column rewards", ", ".join(there))
    present([*(asked.rewards or ()), asked.group, asked.length, asked.advantage], there, first.name)
    rewards = asked.rewards or ("rewards",)
    columns = Columns(
        rewards=rewards,
        step="_step",
        advantage=asked.advantage or ("advantages" if "advantages" in there else None),
        length=asked.length or ("token_loss_mask" if "token_loss_mask" in there else None),
        key="_prompt" if asked.group_size is None and _has_prompts(item, rewards, where) else None,
    )
    columns = replace(columns, key=asked.group) if asked.group else columns
    columns = check_rewards(columns, there, first.name)
    total_only = columns.rewards == ("rewards",)
    trap = Trap("no-components", {"framework": "nemo_rl", "has": ["rewards"]})
    skipped = jsonl.Skipped()

    def frames() -> Iterator[pl.DataFrame]:
        for number, file in enumerate(found.files):
            frame = _file(file, columns, skipped if asked.skip_bad_lines else None, number + 1)
            yield frame.with_columns(pl.lit(number, pl.Int64).alias("_file"))

    return Draft(
        rewards=columns.rewards,
        rows=remembered(lambda: batches((normalised(f, columns, found.files) for f in frames()), ["_file", "step"])),
        keyed=columns.key
        and ("the prompt part of content" if columns.key == "_prompt" else f"the column {asked.group}"),
        has_advantage=columns.advantage is not None,
        has_length=columns.length is not None,
        total_only=total_only,
        traps=(trap,) if total_only else (),
        prompts=lambda: _by_prefix(next(frames()), columns),
        skipped=skipped,
        left_out=tuple(name for name in there if name not in (*columns.names, *KNOWN)),
    )


def _responses(item: dict, columns: Columns, where: str) -> list[dict]:
    """The responses of one line: many, with lists as columns, or one, with bare values or lists of one."""
    totals = item.get(columns.rewards[0])
    if not isinstance(totals, list):
        return [item]
    n = len(totals)
    needed = [name for name in (*columns.names, "content", "prompt_ids") if name in item]
    sizes = {name: len(item[name]) if isinstance(item[name], list) else 1 for name in needed}
    if n != 1:
        same = set(sizes.values()) == {n}
        expect(same, where, "lists of one length", ", ".join(f"{size} in {name!r}" for name, size in sizes.items()))
        return [{name: item[name][i] for name in needed} | {"step": item.get("step")} for i in range(n)]
    unwrapped = {
        name: item[name][0] if sizes[name] == 1 and isinstance(item[name], list) else item[name] for name in needed
    }
    return [unwrapped | {"step": item.get("step")}]


def _file(file: LogFile, columns: Columns, skipped: jsonl.Skipped | None, number: int) -> pl.DataFrame:
    digits = re.findall(r"\d+", file.name.rpartition("/")[2])
    rows: dict[str, list] = {name: [] for name in (*columns.names, "_text")}
    contents = []
    for line, item in jsonl.objects(file, skipped):
        where = f"{file.name}, line {line}"
        present(columns.rewards, list(item), where)
        for response in _responses(item, columns, where):
            step = response.get("step")
            rows["_step"].append(step if isinstance(step, int) else int(digits[-1]) if digits else number)
            for name in columns.rewards:
                rows[name].append(_number(response.get(name), name, where))
            if columns.advantage:
                rows[columns.advantage].append(_advantage(response.get(columns.advantage), columns.advantage, where))
            if columns.length:
                rows[columns.length].append(_tokens(response.get(columns.length)))
            if columns.key and columns.key != "_prompt":
                rows[columns.key].append(json.dumps(response.get(columns.key)))
            contents.append(response)
    if columns.key == "_prompt":
        rows["_prompt"] = _prompts(contents)
    rows["_text"] = [c["content"] if isinstance(c.get("content"), str) else "" for c in contents]
    kinds = {name: pl.Float64 for name in columns.numbers} | {"_step": pl.Int64, "_text": pl.String}
    return pl.DataFrame(rows, schema=kinds | ({columns.key: pl.String} if columns.key else {}))


def _number(value: object, name: str, where: str) -> float | None:
    if value is None or isinstance(value, int | float):
        return None if value is None else jsonl.as_float(value)
    raise InputError(f"{where}: expected a number in {name!r}, got {str(value)[:60]!r}")


def _advantage(value: object, name: str, where: str) -> float | None:
    """The advantage of a response, which NeMo-RL repeats at each of its tokens; padding has 0."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    if isinstance(value, list):
        return next((_number(v, name, where) for v in reversed(value) if v), 0.0)
    return _number(value, name, where)


def _tokens(value: object) -> float | None:
    if isinstance(value, list):
        return float(sum(map(bool, value)))
    return value if isinstance(value, int | float) else None


def _has_prompts(item: dict, rewards: tuple[str, ...], where: str) -> bool:
    """Whether a line holds prompts apart from answers."""
    responses = _responses(item, Columns(rewards=rewards), where)
    return any(isinstance(r.get("content"), list) or "prompt_ids" in r for r in responses)


def _prompts(responses: list[dict]) -> list[str]:
    """The prompt of each response: its token ids, its messages before the assistant's, or its first texts.

    Texts without roles are [system,] user, answer: the first is the prompt, with the next if all the first are equal.
    """
    if all("prompt_ids" in response for response in responses):
        return [json.dumps(response["prompt_ids"]) for response in responses]
    contents = [response.get("content") for response in responses]
    parts = [content if isinstance(content, list) else [content] for content in contents]
    if any(isinstance(message, dict) for part in parts for message in part):
        return [json.dumps(_until_the_assistant(part)) for part in parts]
    count = 1
    while len({json.dumps(part[:count]) for part in parts}) == 1 and all(len(part) > count + 1 for part in parts):
        count += 1
    return [json.dumps(part[:count]) for part in parts]


def _until_the_assistant(messages: list) -> list:
    ends = [i for i, message in enumerate(messages) if isinstance(message, dict) and message.get("role") == "assistant"]
    return messages[: ends[0]] if ends else messages


def _by_prefix(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame | None:
    """Blocks in which texts share a longer beginning than across blocks; their numbers stand in for prompts."""
    texts = frame["_text"].to_list()
    shared = [_common(a, b) for a, b in pairwise(texts)]
    for size in divisors(len(texts))[:-1]:
        inside = [n for i, n in enumerate(shared, start=1) if i % size]
        between = [n for i, n in enumerate(shared, start=1) if i % size == 0]
        if min(inside) > max(between):
            blocks = pl.Series([i // size for i in range(len(texts))], dtype=pl.UInt64)
            step = frame["_step"]
            return pl.DataFrame(
                {"batch": [0] * len(texts), "step": step, "_key": blocks, "text": [t[:60] for t in texts]}
            )
    return None


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
