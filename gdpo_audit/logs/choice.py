"""The choice of rewards: which number columns of a log are rewards, and which is the total of others.

Names say what a column may be, and the numbers decide. A total is a weighted sum of others. A column that numbers the
responses, rises along the log or looks like a measurement is no reward. Of two columns that order every group alike
only one can be meant. Where it stays open whether a column is a reward, an InputError asks the caller to name the
rewards, unless logged advantages can judge the column.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

import polars as pl

from gdpo_audit.logs.behaviour import not_rewards, same_order
from gdpo_audit.logs.columns import REWARDS
from gdpo_audit.logs.names import reward_options
from gdpo_audit.logs.refusals import refuse
from gdpo_audit.logs.roles import HYPERPARAMETERS, REWARD_WORDS, role, total_rank, words_of
from gdpo_audit.logs.run import LogIssue
from gdpo_audit.logs.score import weights_of
from gdpo_audit.logs.totals import (
    NEAR,
    NEARLY,
    RewardChoice,
    ask,
    holds_one,
    left_out,
    near_total,
    not_a_sum,
    of_total,
    total_in,
    totals_among,
)
from gdpo_core._words import listing

LARGEST = 100  # the largest reward in whole numbers; larger ones look like a count
GRADES = 8  # the most different values of a reward in whole numbers if some of them are larger than `LARGEST`

# Reads some rows of these columns, spread over the run.
Sample = Callable[[Sequence[str]], pl.DataFrame]


def choose(
    numbers: Sequence[str],
    sample: Sample,
    *,
    where: str,
    named: Sequence[str] | None = None,
    flags: Collection[str] = (),
    asks: bool = False,
    judged: bool = False,
    length: str | None = None,
) -> RewardChoice:
    """Choose the rewards among the number columns of a log, and return the choice.

    Raises InputError if the log has number columns, but none of them can be a reward; with `asks` also if it stays open
    whether one is. Numbers are not examined if there are more than REWARDS candidates, or a single one that is not
    named like a total or has no metrics beside it.
    numbers: the names of the number columns, in the order of the log.
    sample: reads some rows of columns, spread over the run, with the group of each in GROUP_OF_ROW where it is known.
    where: a file, for errors. named: the rewards that the caller names, which stay. flags: columns of true and false.
    asks: whether columns that may be metrics, or copies of others, raise InputError, unless `judged` is true.
    judged: whether advantages are logged, which can later show what such columns are. With `asks`, those that may be
        metrics are then left out unless no other column is left, and copies stay.
    length: the column of lengths, which is a reward only if a total counts it, as one that pays for brevity does.
    """
    clear = [name for name in numbers if role(name) != "metric"]
    metrics = [name for name in numbers if name not in clear]
    if metrics and not clear and named is None:
        _refuse_no_reward(where, f"columns that look like metrics: {listing(metrics, most=8)}", metrics)
    clear = _without_hyperparameters(clear, sample)
    if named is not None:
        if len(named) == 1 and total_rank(named[0]) is not None:
            return _with_its_parts(named[0], [name for name in clear if total_rank(name) is None], sample, flags)
        return _beside_named(named, [name for name in totals_among(clear) if name not in named], sample, flags)
    if len(clear) + len(metrics) * bool(totals_among(clear)) < 2 or len(clear) > REWARDS:
        return RewardChoice(tuple(clear))
    beside = [metrics, [*metrics, length]] if length else [metrics]
    table = sample([*clear, *beside[-1]])
    total_and_parts = total_in(table, clear, beside, totals_among(clear), flags)
    if total_and_parts is not None:
        return of_total([*numbers, *([length] if length else [])], *total_and_parts)
    reasons = not_rewards(table, clear, labels=asks)
    clear = [name for name in clear if name not in reasons]
    if not clear:
        got = f"columns that are none: {listing((f'{name} ({why})' for name, why in reasons.items()), most=8)}"
        _refuse_no_reward(where, got, reasons)
    choice = near_total(table, clear, flags, where, asks and not judged)
    if choice is None:
        choice = RewardChoice(tuple(clear), issues=holds_one(table, clear, flags))
    if asks:
        choice, opened = _without_open_ones(choice, table, where, judged)
        reasons |= opened
    return replace(choice, issues=(*choice.issues, *left_out(reasons)))


def _refuse_no_reward(where: str, got: str, columns: Iterable[str]) -> NoReturn:
    """Raise InputError for a log without a reward column; the error says how to name `columns` as rewards after all.

    got: in words, what the log has instead.
    """
    wanted = "at least one column of numbers that is a reward"
    refuse(where, wanted, f"{got}; name those that are, of {reward_options(columns)}")


def _beside_named(named: Sequence[str], totals: Sequence[str], sample: Sample, flags: Collection[str]) -> RewardChoice:
    """Return the rewards that the caller names, with the weights that a total beside them shows, if one does.

    totals: columns that are named like totals. The first that is exactly a weighted sum of the rewards shows the
        weights, else the first that nearly is, with an issue. A single reward gets no weights.
    sample: reads a sample of columns.
    flags: boolean columns.
    """
    table = sample([*named, *totals]) if totals else pl.DataFrame()
    near: RewardChoice | None = None
    for total in totals:
        score = weights_of(table, named, flags, total)
        if score is not None and score.exact and score.weights and len(named) > 1:
            return RewardChoice(tuple(named), score.weights, total)
        if score is not None and not score.exact and score.explained >= NEAR and near is None and len(named) > 1:
            near = RewardChoice(tuple(named), score.fitted, total, (not_a_sum(named, total, score),))
    return near or RewardChoice(tuple(named))


def _with_its_parts(total: str, parts: Sequence[str], sample: Sample, flags: Collection[str]) -> RewardChoice:
    """Return a total, which the caller names, as the only reward, with an issue if `parts` explain much of it.

    parts: the columns that may be the parts of the total.
    sample: reads a sample of columns.
    flags: boolean columns.
    """
    score = weights_of(sample([total, *parts]), parts, flags, total) if parts else None
    if score is None or score.explained < NEARLY:
        return RewardChoice((total,))
    details = {"total": total, "parts": [*parts], "explained": score.explained, "named": True}
    return RewardChoice((total,), issues=(LogIssue("total-of-parts", details),))


def _without_open_ones(
    choice: RewardChoice, table: pl.DataFrame, where: str, judged: bool
) -> tuple[RewardChoice, dict[str, str]]:
    """Return two things: the choice without the rewards that may be metrics, and {reward: why it is left out}.

    With logged advantages, which can judge rewards later (`judged`), such rewards are left out, unless no other would
    be left. Without logged advantages they raise InputError. Then two rewards that order the responses of every group
    alike raise it too, unless one is named as the other one, weighted.
    table: a sample of the rows.
    where: a file, for errors.
    """
    names = choice.rewards
    unsure = [name for name in names if _is_open(name, table[name])]
    if judged:
        if not unsure or len(unsure) == len(names):
            return choice, {}
        kept = tuple(name for name in names if name not in unsure)
        weights = choice.weights and {name: w for name, w in choice.weights.items() if name in kept}
        return replace(choice, rewards=kept, weights=weights), dict.fromkeys(unsure, "it may be a reward or a metric")
    if unsure:
        ask(where, unsure, "a reward or a metric", names)
    for first, second in same_order(table, names):
        if not _weighted(first, second):
            what = "the other one, squashed or rescaled, as the two order the responses of every group alike"
            ask(where, [first, second], what, names)
    return choice, {}


def _weighted(first: str, second: str) -> bool:
    """Return whether one of two names says that its column is the other one, weighted, as in weighted_acc and acc."""
    first, second = sorted((first.lower(), second.lower()), key=len)
    return "weighted" in second and first in second


# --- numbers ----------------------------------------------------------------------------------------------------------


def _without_hyperparameters(names: Sequence[str], sample: Sample) -> list[str]:
    """Return the names except those of columns that are named like a hyperparameter and have one value alone.

    If every column is named like a hyperparameter, all names are returned.
    sample: a function that reads some rows of columns, by which this is decided.
    """
    hyperparameters = [name for name in names if "_".join(words_of(name)) in HYPERPARAMETERS]
    if not hyperparameters or len(hyperparameters) == len(names):
        return list(names)
    table = sample(hyperparameters)
    return [name for name in names if name not in hyperparameters or table[name].n_unique() > 1]


def _is_open(name: str, column: pl.Series) -> bool:
    """Return whether a column may be a reward or a metric, so that its name and its numbers do not decide.

    It may be either if `role` says "either" of its name, unless its name begins with is (as is_valid) and its values
    are all 0 or 1. It may also be either if no word of the name is one for rewards and its values look like counts:
    whole numbers from 0, over `GRADES` different ones, and some over `LARGEST` or none below the one before it.
    """
    values, words = column.drop_nulls().drop_nans(), words_of(name)
    if role(name) == "either":
        return words[0] != "is" or not values.is_in([0.0, 1.0]).all()
    if REWARD_WORDS & {*words} or not len(values):
        return False
    whole = bool((values.floor() == values).all() and (values >= 0).all())
    return whole and values.n_unique() > GRADES and bool((values > LARGEST).any() or values.is_sorted())
