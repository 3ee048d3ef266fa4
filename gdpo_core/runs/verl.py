"""Reads verl's rollout dumps, `{step}.jsonl` with one JSON line per response, of the legacy trainer and of v1."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

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
from gdpo_core.runs.files import LogFiles
from gdpo_core.runs.roles import ADVANTAGES, NEARLY, lost, role
from gdpo_core.runs.run import LogIssue, Rows, Run, run_of
from gdpo_core.runs.score import weights_of
from gdpo_core.runs.tables import first_objects, kinds_of, number_columns, read_json_lines
from gdpo_core.runs.texts import texts_of

EXPECTED = ("input", "output", "score")
# Columns of a dump that the reward function did not return.
NOT_REWARDS = {"input", "output", "gts", "score", "step", "request_id", "uid", "index", "num_turns", "__num_turns__"}
LINES = 10  # per file, from which columns are inferred; more in the first file
FILES, SAMPLE = 16, 20_000  # files spread over the run, and their rows, from which the score's weights are solved
OVERLONG = "overlong_reward"


def matches(columns: Collection[str]) -> bool:
    """Whether these are the keys of a line of a rollout dump."""
    return set(EXPECTED) <= set(columns)


def read(log: LogFiles, options: ReadOptions) -> Run:
    """The rewards of a verl dump: every number that the reward function returned, else the score alone."""
    first = log.files[0]
    items = first_objects(first, options.bad_lines)
    expect(bool(items), first.name, "at least one response", "0 rows")
    logged = list(dict.fromkeys(key for item in items for key in item))
    expect(matches(logged), first.name, f"verl's columns {', '.join(EXPECTED)}", ", ".join(logged))
    expect_columns(options.names, logged, first.name)
    columns = validate_columns(_columns(log, items, logged, options), logged, first.name)
    total_only = columns.rewards == ("score",)
    weights, issues = None, []
    if total_only:
        v1 = {"trainer": "v1"} if columns.key == "uid" else {}
        issues.append(LogIssue("no-components", {"framework": "verl", "has": ["score"], **v1}))
    elif "score" not in columns.rewards and "score" in number_columns(items):
        weights, issues = _weights(log, columns.rewards, items, options)
        if weights is None and not options.rewards:  # the names alone tell metrics from rewards
            rewards = tuple(name for name in columns.rewards if role(name) != "metric")
            columns = replace(columns, rewards=rewards or columns.rewards)
        columns, weights, beside = _without_weight_zero(columns, weights, options)
        if beside:
            issues.append(LogIssue("not-in-score", {"columns": beside, "rewards": list(columns.rewards)}))
    unread = tuple(name for name in logged if name not in {*columns.names, *NOT_REWARDS, *TEXTS})
    return run_of(
        log,
        "verl",
        Rows(
            columns=columns,
            read=partial(_rows, log, columns, options),
            keyed_by=f"the column {columns.key}" + ", without its last two parts" * (columns.key == "uid"),
            equal_groups=True,
            texts=texts_of(log.files, options.bad_lines),
        ),
        total_only=total_only,
        issues=tuple(issues),
        left_out=unread,
        lost=lost(kinds_of(items), unread, options.rewards),
        weights=weights,
        weights_by="score" if weights else None,
    )


def _columns(log: LogFiles, items: list[dict], logged: Sequence[str], options: ReadOptions) -> Columns:
    """Which column holds what."""
    advantage = options.advantage or next((name for name in ADVANTAGES if name in logged), None)
    others = {*NOT_REWARDS, advantage, options.length, options.group, options.step, options.by}
    components = () if options.rewards else [name for name in _numbers(log, items, options) if name not in others]
    if OVERLONG in components:  # beside it verl logs a flag: whether the penalty is below 0
        components = [name for name in components if name != "overlong"]
    return Columns(
        rewards=options.rewards or tuple(components) or ("score",),
        step=options.step or ("step" if "step" in logged else None),
        advantage=advantage,
        length=options.length,
        key=options.group or ("uid" if "uid" in logged else "input"),
        by=options.by,
        per_token=advantage is not None and holds_lists(None, [item.get(advantage) for item in items]),
    )


def _numbers(log: LogFiles, items: list[dict], options: ReadOptions) -> list[str]:
    """The keys that hold numbers in any file; in others a key may hold null or text, while a task has no responses.

    Raises InputError if the first file lacks one.
    """
    first, logged = log.files[0], {key for item in items for key in item}
    numbers = dict.fromkeys(number_columns(items))
    for file in log.files[1:]:
        more = number_columns(first_objects(file, options.bad_lines, LINES))
        more = [name for name in more if name not in NOT_REWARDS]
        new = [name for name in more if name not in logged]
        if new:
            raise InputError(
                f"{file.name}: expected the columns of {first.name}, got others: {', '.join(new)} only in {file.name}; "
                "name the rewards"
            )
        numbers |= dict.fromkeys(more)
    return list(numbers)


def _rows(log: LogFiles, columns: Columns, options: ReadOptions) -> Iterator[pl.DataFrame]:
    def frames() -> Iterator[pl.DataFrame]:
        # The step is a number here, so that a value of another kind names its line.
        numbers = [*columns.numbers, *([columns.step] if columns.step else [])]
        for number, file in enumerate(log.files):
            texts = [name for name in columns.texts if name not in numbers]
            frame = read_json_lines(file, numbers, texts, options.bad_lines)
            empty = [name for name in columns.rewards if number and len(frame) and not frame[name].count()]
            if empty:
                logged = dict.fromkeys(key for item in first_objects(file, options.bad_lines) for key in item)
                missing = next((name for name in empty if name not in logged), None)
                got = f"none named {missing!r}: {', '.join(logged)}"
                expect(missing is None, file.name, f"the columns of {log.files[0].name}", got)
            if columns.key == "uid":
                # uid is prompt_rollout_output
                frame = frame.with_columns(pl.col("uid").cast(pl.String).str.replace("(_[^_]*){1,2}$", ""))
            yield standard_rows(frame.with_columns(pl.lit(number, pl.Int64).alias("_file")), columns, log.files)

    return batches(frames(), ["_file", "step"])


# --- the score, which verl's GRPO sees -------------------------------------------------------------------------------


def _weights(
    log: LogFiles, rewards: Sequence[str], items: list[dict], options: ReadOptions
) -> tuple[dict[str, float] | None, list[LogIssue]]:
    """The weights with which the rewards add up to the score; an issue if they do not."""
    samples, rows = [], 0
    for file in log.files[:: -(-len(log.files) // FILES)]:
        samples.append(read_json_lines(file, ["score", *rewards], [], options.bad_lines))
        rows += len(samples[-1])
        if rows >= SAMPLE:
            break
    flags = [name for name in rewards if all(isinstance(item.get(name), bool | None) for item in items)]
    score = weights_of(pl.concat(samples), rewards, flags)
    if score is not None and not score.exact:
        details = {"columns": list(rewards), "error": score.error, "responses": rows}
        if len(rewards) == 1 and score.explained >= NEARLY:
            details |= {"explained": score.explained}
        return None, [LogIssue("score-not-a-sum", details)]
    if score is None or score.weights is None:
        return None, []
    weights = dict(score.weights)
    # A score that compute_score returns in a dict is logged before the penalty for length is added to it.
    return (weights | {OVERLONG: 1.0} if weights.get(OVERLONG) == 0 else weights), []


def _without_weight_zero(
    columns: Columns, weights: dict[str, float] | None, options: ReadOptions
) -> tuple[Columns, dict[str, float] | None, list[str]]:
    """The columns and weights of the rewards that the score counts, and the columns beside them."""
    beside = [name for name, w in (weights or {}).items() if not w and not options.rewards]
    if not weights or not beside or len(beside) == len(columns.rewards):
        return columns, weights, []
    kept = tuple(name for name in columns.rewards if name not in beside)
    return replace(columns, rewards=kept), {n: w for n, w in weights.items() if n not in beside}, beside
