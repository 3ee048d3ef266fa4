"""Reads verl's rollout dumps, `{step}.jsonl` with one JSON line per response, of the legacy trainer and of v1."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import jsonl, score
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.run import Trap
from gdpo_core.logs.unused import TEXTS

EXPECTED = ("input", "output", "score")
# Columns of a dump that the reward function did not return.
NOT_REWARDS = {"input", "output", "gts", "score", "step", "request_id", "uid", "index", "num_turns", "__num_turns__"}
LINES = 10  # per file, from which columns are inferred; more in the first file
FILES, SAMPLE = 16, 20_000  # files spread over the run, and their rows, from which the score's weights are solved
OVERLONG = "overlong_reward"


def read(found: Found, asked: Asked) -> Draft:
    """The rewards of a verl dump: every number that the reward function returned, else the score alone."""
    first = found.files[0]
    items = jsonl.head(first, asked.skip_bad_lines)
    expect(bool(items), first.name, "at least one response", "0 rows")
    there = list(dict.fromkeys(key for item in items for key in item))
    missing = [name for name in EXPECTED if name not in there]
    expect(not missing, first.name, f"verl's columns {', '.join(EXPECTED)}", ", ".join(there))
    present([*(asked.rewards or ()), asked.group, asked.advantage, asked.length, asked.step], there, first.name)

    others = (asked.advantage, asked.length, asked.group, asked.step)
    components = [name for name in _numbers(found, items, asked) if name not in NOT_REWARDS and name not in others]
    if OVERLONG in components and "overlong" in components:
        components.remove("overlong")  # verl's flag: whether the penalty is below 0
    key = asked.group or ("uid" if "uid" in there else "input")
    columns = Columns(
        rewards=asked.rewards or tuple(components) or ("score",),
        step=asked.step or ("step" if "step" in there else None),
        advantage=asked.advantage,
        length=asked.length,
        key=key,
    )
    columns = check_rewards(columns, there, first.name)
    total_only = columns.rewards == ("score",)
    evidence: dict[str, object] = {"framework": "verl", "has": ["score"]}
    evidence |= {"trainer": "v1"} if key == "uid" else {}
    traps = [Trap("no-components", evidence)] if total_only else []
    weights: dict[str, float] | None = None
    if "score" not in columns.rewards and "score" in jsonl.number_columns(items):
        weights, traps = _weights(found, columns.rewards, items, asked)
        beside = [name for name, w in (weights or {}).items() if not w and not asked.rewards]
        if weights and beside and len(beside) < len(columns.rewards):
            columns = replace(columns, rewards=tuple(name for name in columns.rewards if name not in beside))
            weights = {name: w for name, w in weights.items() if name not in beside}
            traps.append(Trap("not-in-score", {"columns": beside, "rewards": list(columns.rewards)}))
    skipped = jsonl.Skipped()
    return Draft(
        rewards=columns.rewards,
        rows=remembered(lambda: _rows(found, columns, skipped, asked.skip_bad_lines)),
        keyed="the column uid, without its last two parts" if key == "uid" else f"the column {key}",
        has_advantage=columns.advantage is not None,
        has_length=columns.length is not None,
        total_only=total_only,
        traps=tuple(traps),
        skipped=skipped,
        left_out=tuple(name for name in there if name not in {*columns.names, *NOT_REWARDS} and name not in TEXTS),
        one_size=True,
        weights=weights,
        weights_by="score" if weights else None,
    )


def _numbers(found: Found, items: list[dict], asked: Asked) -> list[str]:
    """The keys that hold numbers in any file; in others a key may hold null or text, while a task has no responses.

    Raises InputError if the first file lacks one, unless the caller names the rewards.
    """
    first, there = found.files[0], {key for item in items for key in item}
    numbers = dict.fromkeys(jsonl.number_columns(items))
    if asked.rewards:
        return list(numbers)
    for file in found.files[1:]:
        few = jsonl.head(file, asked.skip_bad_lines, LINES)
        more = [name for name in jsonl.number_columns(few) if name not in NOT_REWARDS]
        new = [name for name in more if name not in there]
        if new:
            raise InputError(
                f"{file.name}: expected the columns of {first.name}, got others: {', '.join(new)} only in {file.name}; "
                "name the rewards"
            )
        numbers |= dict.fromkeys(more)
    return list(numbers)


def _weights(
    found: Found, rewards: Sequence[str], items: list[dict], asked: Asked
) -> tuple[dict[str, float] | None, list[Trap]]:
    """The weights with which the rewards add up to the score, which verl's GRPO sees; a trap if they do not."""
    skip = jsonl.Skipped() if asked.skip_bad_lines else None
    apart = -(-len(found.files) // FILES)
    tables, rows = [], 0
    for file in found.files[::apart]:
        tables.append(jsonl.read(file, ["score", *rewards], [], skip))
        rows += len(tables[-1])
        if rows >= SAMPLE:
            break
    flags = [name for name in rewards if all(isinstance(item.get(name), bool | None) for item in items)]
    made = score.weights_of(pl.concat(tables), rewards, flags)
    if made is not None and not made.exact:
        return None, [Trap("score-not-a-sum", {"columns": list(rewards), "error": made.error, "responses": rows})]
    if made is None or made.weights is None:
        return None, []
    weights = dict(made.weights)
    # A score that compute_score returns in a dict is logged before the penalty for length is added to it.
    return (weights | {OVERLONG: 1.0} if weights.get(OVERLONG) == 0 else weights), []


def _rows(found: Found, columns: Columns, skipped: jsonl.Skipped, skip: bool) -> Iterator[pl.DataFrame]:
    def frames() -> Iterator[pl.DataFrame]:
        numbers = [*columns.numbers, *([columns.step] if columns.step else [])]
        for number, file in enumerate(found.files):
            frame = jsonl.read(file, numbers, [columns.key] if columns.key else [], skipped if skip else None)
            for name in columns.rewards:
                if len(frame) and not frame[name].count() and number:
                    _expect_column(file, found.files[0], name, skip)
            if columns.key == "uid":
                # uid is prompt_rollout_output
                frame = frame.with_columns(pl.col("uid").cast(pl.String).str.replace("(_[^_]*){1,2}$", ""))
            frame = frame.with_columns(pl.lit(number, pl.Int64).alias("_file"))
            yield normalised(frame, columns, found.files)

    return batches(frames(), ["_file", "step"])


def _expect_column(file: LogFile, first: LogFile, name: str, skip: bool) -> None:
    there = {key for item in jsonl.head(file, skip) for key in item}
    if name not in there:
        raise InputError(
            f"{file.name}: expected the columns of {first.name}, got none named {name!r}: {', '.join(there)}"
        )
