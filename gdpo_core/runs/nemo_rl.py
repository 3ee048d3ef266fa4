"""Reads NeMo-RL's train_data_step{N}.jsonl: one total reward per response, and one advantage per token."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core.runs.columns import Columns, ReadOptions, batches, expect_columns, standard_rows, validate_columns
from gdpo_core.runs.files import LogFile, LogFiles
from gdpo_core.runs.run import LogIssue, Rows, Run, run_of
from gdpo_core.runs.tables import as_float, as_text, expect_one_length, objects
from gdpo_core.runs.texts import texts_of

# Columns that hold no rewards.
KNOWN = {"content", "prompt_ids", "token_ids", "token_loss_mask", "sample_loss_mask", "input_lengths", "step", "idx"}
KNOWN |= {"generation_logprobs", "prev_logprobs", "reference_logprobs", "reference_policy_logprobs"}
_BESIDE = {"content", "token_loss_mask", "sample_loss_mask", "generation_logprobs", "prev_logprobs", "input_lengths"}


def matches(columns: Mapping[str, object]) -> bool:
    """Whether this is a line of a log: its rewards stand beside tokens, or beside a list of advantages."""
    return "rewards" in columns and (bool(_BESIDE & columns.keys()) or isinstance(columns.get("advantages"), list))


def read(log: LogFiles, options: ReadOptions) -> Run:
    """The total rewards of a NeMo-RL log, which holds no components, and the advantage of each response."""
    first = log.files[0]
    line, item = next(objects(first, options.bad_lines), (0, None))
    if item is None:
        raise InputError(f"{first.name}: expected at least one response, got 0 rows")
    columns = _columns(first, line, item, options)
    total_only = columns.rewards == ("rewards",)
    prompt, column = "the prompt part of content", f"the column {columns.key}"
    return run_of(
        log,
        "nemo_rl",
        Rows(
            columns=columns,
            read=partial(_rows, log, columns, options),
            keyed_by=columns.key and (prompt if columns.key == "_prompt" else column),
            texts=texts_of(log.files, options.bad_lines, partial(_responses, columns=columns, where=log.name)),
        ),
        total_only=total_only,
        issues=(LogIssue("no-components", {"framework": "nemo_rl", "has": ["rewards"]}),) if total_only else (),
        left_out=tuple(name for name in item if name not in (*columns.names, *KNOWN)),
    )


def _columns(file: LogFile, line: int, item: dict, options: ReadOptions) -> Columns:
    """Which column holds what; `_step` and `_prompt` are made from the file's name and from the content."""
    expect("rewards" in item or bool(options.rewards), file.name, "NeMo-RL's column rewards", ", ".join(item))
    expect_columns([name for name in options.names if name != options.step], list(item), file.name)
    rewards = options.rewards or ("rewards",)
    has_prompts = options.group_size is None and _has_prompts(item, rewards, f"{file.name}, line {line}")
    columns = Columns(
        rewards=rewards,
        step="_step",
        advantage=options.advantage or ("advantages" if "advantages" in item else None),
        length=options.length or ("token_loss_mask" if "token_loss_mask" in item else None),
        key=options.group or ("_prompt" if has_prompts else None),
        by=options.by,
    )
    return validate_columns(columns, item, file.name)


def _rows(log: LogFiles, columns: Columns, options: ReadOptions) -> Iterator[pl.DataFrame]:
    def frames() -> Iterator[pl.DataFrame]:
        for number, file in enumerate(log.files):
            frame = _file(file, columns, options, number + 1).with_columns(pl.lit(number, pl.Int64).alias("_file"))
            yield standard_rows(frame, columns, log.files)

    return batches(frames(), ["_file", "step"])


def _file(file: LogFile, columns: Columns, options: ReadOptions, number: int) -> pl.DataFrame:
    """The responses of a file, whose step stands in its name where its lines have none."""
    digits = re.findall(r"\d+", file.name.rpartition("/")[2])
    in_name = int(digits[-1]) if digits else number
    rows: dict[str, list] = {name: [] for name in columns.names}
    responses = []
    for line, item in objects(file, options.bad_lines):
        where = f"{file.name}, line {line}"
        expect_columns(columns.rewards, list(item), where)
        for response in _responses(item, columns, where):
            responses.append(response)
            rows["_step"].append(response["step"] if isinstance(response.get("step"), int) else in_name)
            for name in columns.rewards:
                rows[name].append(as_float(response.get(name), name, where))
            if columns.advantage:
                rows[columns.advantage].append(_advantage(response.get(columns.advantage), columns.advantage, where))
            if columns.length:
                rows[columns.length].append(_tokens(response.get(columns.length)))
            if columns.key and columns.key != "_prompt":
                rows[columns.key].append(json.dumps(response.get(columns.key)))
            if columns.by in columns.texts and columns.by != columns.key:
                rows[f"{columns.by}"].append(as_text(response.get(f"{columns.by}")))
    if columns.key == "_prompt":
        rows["_prompt"] = _prompts(responses)
    kinds = {name: pl.Float64 for name in columns.numbers} | {"_step": pl.Int64}
    return pl.DataFrame(rows, schema=kinds | {name: pl.String for name in columns.texts if name != "_step"})


def _responses(item: dict, columns: Columns, where: str) -> list[dict]:
    """The responses of one line: many, with lists as columns, or one, with bare values or lists of one."""
    totals = item.get(columns.rewards[0])
    if not isinstance(totals, list):
        return [item]
    needed = [name for name in (*columns.names, "content", "prompt_ids") if name in item]
    step = {"step": item.get("step")}
    if len(totals) == 1:
        return [{name: _unwrap(item[name]) for name in needed} | step]
    expect_one_length({name: len(item[name]) if isinstance(item[name], list) else 1 for name in needed}, where)
    return [{name: item[name][i] for name in needed} | step for i in range(len(totals))]


def _unwrap(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _advantage(value: object, name: str, where: str) -> float | None:
    """The advantage of a response, which NeMo-RL repeats at each of its tokens; padding has 0."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    if isinstance(value, list):
        return next((as_float(v, name, where) for v in reversed(value) if v), 0.0)
    return as_float(value, name, where)


def _tokens(value: object) -> float | None:
    if isinstance(value, list):
        return float(sum(map(bool, value)))
    return value if isinstance(value, int | float) else None


# --- prompts ---------------------------------------------------------------------------------------------------------


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
