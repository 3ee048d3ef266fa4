"""Forecasts beside what training gave: how large the differences between settings were, and how good the forecasts of
them were. The page shows this for the runs of the small language model, and `experiments/` prints it.

The rules, written before any of those runs was started:

- What came of a setting is a difference: the mean of a reward over all steps of the setting's runs, less its mean in
  the runs as they ran.
- A difference is clear from `CLEAR` on, in parts of the reward's range. A forecast has its sign right if both are above
  or both below 0. An open forecast, which names no difference, does not have it right.
- The error is the mean distance from what came, over all rewards and settings. It stands beside the error of the guess
  "nothing changes", and an open forecast counts as that guess.
- An interval holds if what came is within it. Open forecasts have no interval and are counted apart.
"""

from collections.abc import Mapping, Sequence

import polars as pl

CLEAR = 0.03
AS_IT_RAN = "as it ran"
GRADED_REWARDS = (
    "correctness",
    "style",
    "conciseness",
)  # the graded rewards of most set-ups of the small language model
FIRST_SEEDS = tuple(range(5))  # the seeds with which every setting was trained


def judge(came: Sequence[float], forecasts: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """Return a dict that says how good forecasts are, by the rules in the docstring of this module.

    Six of its values are counts:

    - "forecasts": all forecasts;
    - "open": the forecasts without an interval;
    - "clear": the forecasts where the difference that came is at least CLEAR in size;
    - "signs": the clear forecasts that have the sign right;
    - "intervals": the forecasts with an interval;
    - "held": the forecasts whose interval holds what came.

    Two are mean errors: "error" is the error of the forecasts, and "of_no_change" the error of the guess "nothing
    changes".

    came: the difference that came after each forecast.
    forecasts: each with difference, low and high, which are None if it is open.

    >>> told, left_open = {"difference": 0.04, "low": 0.0, "high": 0.1}, dict.fromkeys(("difference", "low", "high"))
    >>> found = judge([0.05, 0.01], [told, left_open])
    >>> found["signs"], found["held"], found["open"], found["error"]
    (1, 1, 1, 0.01)
    """
    pairs = list(zip(came, forecasts, strict=True))
    shut = [(x, f["low"], f["high"]) for x, f in pairs if f["low"] is not None and f["high"] is not None]
    clear = [(x, f["difference"] or 0.0) for x, f in pairs if abs(x) >= CLEAR]
    errors = [[abs(x - (f["difference"] or 0.0) * use) for x, f in pairs] for use in (1, 0)]
    error, nothing = (sum(each) / len(pairs) for each in errors)
    return {
        "forecasts": len(pairs),
        "open": len(pairs) - len(shut),
        "clear": len(clear),
        "signs": sum(x * forecast > 0 for x, forecast in clear),
        "intervals": len(shut),
        "held": sum(low <= x <= high for x, low, high in shut),
        "error": round(error, 4),
        "of_no_change": round(nothing, 4),
    }


def what_came(runs: pl.DataFrame, earlier: pl.DataFrame) -> dict[tuple[str, str, str], float]:
    """Return what came of each setting other than "as it ran", by set-up, setting and reward.

    It is the mean of the reward over all runs and steps of the setting, less its mean over the runs of the set-up as it
    ran. These runs are the rows "as it ran" of `runs`. If a set-up has no such rows, they are its runs under GRPO with
    `FIRST_SEEDS` in `earlier`.

    runs: a table with the columns setup, row (the setting), seed, step, reward and mean.
    earlier: a table with the columns setup, method, seed, and one column for each of `GRADED_REWARDS`.
    """
    key = ("setup", "row", "reward")
    means = {(a, b, c): x for a, b, c, x in runs.group_by(*key).agg(pl.col("mean").mean()).iter_rows()}
    grpo = earlier.filter(pl.col("seed").is_in(FIRST_SEEDS), method="grpo").with_columns(
        pl.col("setup").cast(pl.String)
    )
    of_earlier = grpo.group_by("setup").agg(pl.col(GRADED_REWARDS).mean())
    base = {(row["setup"], name): row[name] for row in of_earlier.iter_rows(named=True) for name in GRADED_REWARDS}
    base |= {(a, c): x for (a, b, c), x in means.items() if b == AS_IT_RAN}
    return {(a, b, c): x - base[a, c] for (a, b, c), x in means.items() if b != AS_IT_RAN}
