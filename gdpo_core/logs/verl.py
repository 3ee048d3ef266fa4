"""verl's rollout dumps: a JSON line a response, `{step}.jsonl`, from the legacy trainer and from v1."""

import polars as pl

from gdpo_core.errors import InputError, expect
from gdpo_core.logs import jsonl
from gdpo_core.logs.draft import Asked, Draft
from gdpo_core.logs.files import Found
from gdpo_core.logs.flat import Columns, batches, check_rewards, normalised, present, remembered
from gdpo_core.logs.run import Trap

EXPECTED = ("input", "output", "score")
# Numbers that are dumped beside what the reward function returned.
NOT_REWARDS = {"input", "output", "gts", "score", "step", "request_id", "uid", "index", "num_turns", "__num_turns__"}


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
    components = [name for name in jsonl.number_columns(items) if name not in NOT_REWARDS and name not in others]
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
    )


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
