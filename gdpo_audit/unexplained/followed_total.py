"""Totals that neither their names nor the other columns tell, but the advantages do, because they follow them alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from gdpo_audit.logs.columns.totals import NEARLY, RewardChoice, of_total, total_by_step
from gdpo_audit.logs.files.trying import attempt
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.names import STEP_OF_ROW, reward_columns
from gdpo_audit.logs.numbers.clues import half_of_last_decimal
from gdpo_audit.logs.numbers.weighted_sums import RANGE, weights_of
from gdpo_audit.unexplained.readings import JUDGED_RESPONSES, of_total_alone

_ROUND_OFF = 1e-5  # the share of the largest number of a column up to which a difference is round-off
_SHOWN = 20  # the fewest groups with a signal in which the advantages have to follow the total


def with_followed_parts(run: Run, sample: Sequence[pl.DataFrame]) -> Run | None:
    """Return the run read with the parts of its total as its rewards, if the advantages tell which column is the total.

    In every group the advantages then are a multiple of this column, less its mean there, which holds for GRPO with any
    divisor and for no other column. And a weighted sum of other columns makes it, in the whole log or in every step
    with weights that change. Where such a sum only comes near it, it is the only reward, as its parts do not tell it.

    None if no column or several are so, if the caller names the rewards, or if the log tells its total by itself.

    sample: tables of the run.
    """
    closed = run.rewards_named or run._read_with is None or run.total is not None
    if closed or not run.has_advantage or len(run.rewards) < 3:
        return None
    table = pl.concat(sample).head(JUDGED_RESPONSES)
    table = table.filter(pl.all_horizontal(pl.col("advantage", *reward_columns(run.rewards)).is_finite()))
    followed = [name for name in run.rewards if _follow(table, reward_columns([name])[0])]
    if len(followed) != 1:
        return None
    [total] = followed
    terms = [name for name in run.rewards if name != total]
    columns = dict(zip(reward_columns(run.rewards), run.rewards, strict=True))
    named = table.select(pl.col("step" if run.has_steps else "batch").alias(STEP_OF_ROW), *columns).rename(columns)
    with attempt():
        return _of_parts(run, named, total, terms)
    return None


def _of_parts(run: Run, table: pl.DataFrame, total: str, terms: Sequence[str]) -> Run | None:
    """Return the run read with the rewards that a total counts, or with the total alone where they only come near it;
    None where they do not.

    table: the rewards of some rows, with the step of each.
    total: the column of the total.
    terms: the columns that it may add up.
    """
    score = weights_of(table, terms, (), total)
    if score is None:
        return None
    if score.exact and score.counted > 1 and score.spare > 0:
        choice: RewardChoice | None = of_total(run.rewards, total, terms, score)
    else:
        choice = total_by_step(table, total, [terms])
    if choice is None:
        return of_total_alone(run, total, terms, score.explained) if score.explained >= NEARLY else None
    assert run._read_with is not None, "a run that was read can be read again"
    reread = run._read_with(rewards=choice.rewards)
    left_out = tuple(name for name in reread.left_out if name != total)
    issues = (*(issue for issue in reread.issues if issue.id != "score-not-a-sum"), *choice.issues)
    weights = {} if choice.weights is None else {"weights": choice.weights, "weights_by": "score"}
    return replace(reread, total=total, left_out=left_out, issues=issues, rewards_named=False, **weights)  # type: ignore[arg-type]


def _follow(table: pl.DataFrame, column: str) -> bool:
    """Return whether in every group the advantages are a multiple of a column, less its mean in the group. The multiple
    is positive, and may be another one in each group.

    table: rows with their group, advantage, and that column, all of them finite.
    column: the column.
    """
    a, x = table["advantage"].to_numpy().astype(float), table[column].to_numpy().astype(float)
    if not len(table) or not RANGE[0] <= np.abs(x).max() <= RANGE[1]:
        return False
    group = np.unique(table["group"].to_numpy(), return_inverse=True)[1]
    centred = x - (np.bincount(group, x) / np.bincount(group))[group]
    square = np.bincount(group, centred**2)
    live = square > (_ROUND_OFF * max(np.abs(x).max(), 1e-300)) ** 2
    if live.sum() < _SHOWN:
        return False
    slope = np.bincount(group, centred * a) / np.where(live, square, 1.0)
    slope[~live] = 0.0
    allowed = _rounding(a) + np.abs(slope)[group] * _rounding(x)
    return bool((np.abs(a - slope[group] * centred) <= allowed).all() and (slope[live] > 0).all())


def _rounding(values: np.ndarray) -> float:
    """Return how far numbers less their mean may be from what they were before they were rounded: by the last decimal,
    as the mean moves too, or by round-off.
    """
    return max(_ROUND_OFF * float(np.abs(values).max()), 2 * half_of_last_decimal(values))
