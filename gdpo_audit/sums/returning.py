"""Prompts that come again late in a run: whether a mean falls on the same prompts, or because the prompts changed."""

from collections.abc import Iterable, Sequence
from math import copysign, inf, nan, sqrt
from typing import NamedTuple

import numpy as np
import polars as pl

from gdpo_audit import thresholds as t
from gdpo_audit.logs.names import reward_column
from gdpo_audit.sums.sums import Array
from gdpo_core.shared.words import count, number


class EarlyAndLate(NamedTuple):
    """The numbers of the batches that count as early in a run and as late, with words for both that follow “that
    come”.
    """

    early: Array
    late: Array
    when: str


class Returning(NamedTuple):
    """The mean of a reward on the prompts that come both early and late in a run.

    prompts: how many prompts come both early and late.
    first: the mean of the means of these prompts early in the run.
    last: the same late in the run.
    error: the standard error of the change from first to last, by how the changes of the prompts differ.
    when: words for what early and late are, which follow “that come”.
    """

    prompts: int
    first: float
    last: float
    error: float
    when: str


def returning(tables: Sequence[pl.DataFrame], reward: str, ways: Iterable[EarlyAndLate]) -> Returning | None:
    """Return the mean of a reward on the prompts that come both early and late; None without tables.

    The first way in which `RETURNING` prompts come both early and late counts, or else the last one.

    tables: the tables of a run that has prompts.
    reward: the name of the reward.
    ways: what may count as early and as late, the best first.
    """
    name, answered = reward_column(reward), None
    for way in ways if tables else ():
        answers = pl.concat(table.select("batch", "_prompt_key", name) for table in tables)
        answered = _on_both(answers.filter(pl.col(name).is_not_nan()), name, way)
        if answered.prompts >= t.RETURNING:
            break
    return answered


def _on_both(answers: pl.DataFrame, name: str, way: EarlyAndLate) -> Returning:
    """Return the mean of a reward on the prompts that come both early and late; NaN where there are none.

    answers: the responses that have the reward, with the columns `batch` and `_prompt_key`.
    name: the column of the reward.
    way: what counts as early and as late.
    """
    first, last = (
        answers.filter(pl.col("batch").is_in(batches.tolist())).group_by("_prompt_key").agg(pl.col(name).mean())
        for batches in (way.early, way.late)
    )
    both = first.join(last, on="_prompt_key", suffix="_late").sort("_prompt_key")
    before, after = both[name].to_numpy(), both[f"{name}_late"].to_numpy()
    if not len(both):
        return Returning(0, nan, nan, inf, way.when)
    error = float(np.std(after - before, ddof=1)) / sqrt(len(both)) if len(both) > 1 else inf
    return Returning(len(both), float(before.mean()), float(after.mean()), error, way.when)


def gave_up(name: str, on_both: Returning | None, change: float) -> tuple[str, bool | None]:
    """Return the sentence that says why the mean of a reward gets worse, as far as prompts that come again show it.
    With it comes whether the policy gave the reward up (True), the prompts became harder (False), or that stays open.

    name: the name of the reward.
    on_both: its mean on the prompts that come both early and late; None where the log has no prompts.
    change: the change of its mean over all prompts, from the first quarter of the run to the last.
    """
    if on_both is None:
        either = f"Either the policy gives {name} up, or the prompts became harder: this report cannot tell which"
        return f"{either}, because the log has no prompts.", None
    which = f"whether the policy gave {name} up or the prompts became harder"
    if not on_both.prompts:
        return f"No prompt comes {on_both.when}, so this report cannot tell {which}.", None
    comes = "comes" if on_both.prompts == 1 else "come"
    says = (
        f"On the {count(on_both.prompts, 'prompt')} that {comes} {on_both.when}, the mean goes from "
        f"{number(on_both.first, 3)} to {number(on_both.last, 3)}"
    )
    same, chance = (on_both.last - on_both.first) * copysign(1.0, change), t.CHANCE * on_both.error
    if on_both.prompts >= t.RETURNING and same > chance and same >= abs(change) / 2:
        return f"{says}: the policy gave it up.", True
    if on_both.prompts >= t.RETURNING and same + chance < abs(change) / 2:
        return f"{says}, less than half of that: the prompts became harder.", False
    return f"{says}; that does not show {which}.", None
