"""verl's rollout dumps: a JSON line a response, `{step}.jsonl`, from the legacy trainer and from v1."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import jsonl, score
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.run import Trap
from gdpo_core.logs.unused import TEXTS

EXPECTED = ("input", "output", "score")
# Numbers that are dumped beside what the reward function returned.
NOT_REWARDS = {"input", "output", "gts", "score", "step", "request_id", "uid", "index", "num_turns", "__num_turns__"}
LINES = 10  # of every file, from which columns are learnt, beside more of the first
FILES, SAMPLE = 16, 20_000  # files spread over the run, and rows of them, in which the score is taken apart
OVERLONG = "overlong_reward"


def read(found: Found, asked: Asked) -> Draft:
    """The rewards of a verl dump: every key with numbers that the reward function returned, else the score alone."""
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
        components.remove("overlong")  # verl's flag for a penalty below 0
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
    version = {"trainer": "v1"} if key == "uid" else {}
    traps = [Trap("no-components", {"framework": "verl", "has": ["score"]} | version)] if total_only else []
    weights = None
    if "score" not in columns.rewards and "score" in jsonl.number_columns(items):
        weights, traps = _weights(found, columns.rewards, items, asked)
        beside = [name for name, w in (weights or {}).items() if not w and not asked.rewards]
        if beside and len(beside) < len(columns.rewards):
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
    """The keys that hold numbers in any file: one may be null, or text, as long as some task does not come.

    Raises InputError where the first file lacks one, unless the caller names the rewards.
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
    """The weights with which the rewards make the score, on which verl's GRPO runs; a trap where they do not."""
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
    if made is None or made.exact:
        weights = made and made.weights
        # A score that compute_score returns in a dict is logged as it was before the penalty for length came to it.
        return (weights | {OVERLONG: 1.0} if weights and weights.get(OVERLONG) == 0 else weights), []
    return None, [Trap("score-not-a-sum", {"columns": list(rewards), "error": made.error, "responses": rows})]


def _rows(found: Found, columns: Columns, skipped: jsonl.Skipped, skip: bool):
    def frames():
        numbers = [*columns.numbers, *([columns.step] if columns.step else [])]
        for number, file in enumerate(found.files):
            frame = jsonl.read(file, numbers, [columns.key], skipped if skip else None)
            for name in columns.rewards:
                if len(frame) and not frame[name].count() and number:
                    _expect_column(file, found.files[0], name, skip)
            if columns.key == "uid":
                # uid is prompt_rollout_output
                frame = frame.with_columns(pl.col("uid").cast(pl.String).str.replace("(_[^_]*){1,2}$", ""))
            frame = frame.with_columns(pl.lit(number, pl.Int64).alias("_file"))
            yield normalised(frame, columns, found.files)

    return batches(frames(), ["_file", "step"])


def _expect_column(file, first, name: str, skip: bool) -> None:
    there = {key for item in jsonl.head(file, skip) for key in item}
    if name not in there:
        raise InputError(
            f"{file.name}: expected the columns of {first.name}, got none named {name!r}: {', '.join(there)}"
        )
