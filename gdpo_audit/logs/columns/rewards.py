"""The choice of rewards: which number columns of a log are rewards, and which is the total of others.

Names say what a column may be, and the numbers decide. A column that is a weighted sum of others is their total. A
column that numbers the responses, rises along the log or looks like a measurement is no reward. Of two columns that
order every group alike only one can be meant. Where it stays open whether a column is a reward, an InputError asks the
caller to name the rewards. If advantages are logged, they can judge the column later, and no error is raised.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import polars as pl

from gdpo_audit.logs.columns.behaviour import not_rewards, same_order
from gdpo_audit.logs.columns.totals import (
    NEAR,
    NEARLY,
    RewardChoice,
    changing_total,
    holds_one,
    issue_of_unused,
    near_total,
    not_a_sum,
    of_total,
    refuse_open_columns,
    total_by_step,
    total_in,
    totals_among,
    with_own_reasons,
)
from gdpo_audit.logs.forms.options import MOST_REWARDS
from gdpo_audit.logs.forms.roles import HYPERPARAMETERS, REWARD_WORDS, role, total_rank, words_of
from gdpo_audit.logs.names import reward_options
from gdpo_audit.logs.numbers.weighted_sums import weights_of
from gdpo_audit.logs.refusals import Lacking, refuse
from gdpo_audit.records import LogIssue
from gdpo_core.shared.words import listing

_LARGEST = 100  # the largest reward in whole numbers; larger ones look like a count
GRADES = 8  # the most different values of a reward in whole numbers if some of them are larger than `_LARGEST`

# Reads some rows of these columns, spread over the run.
Sampler = Callable[[Sequence[str]], pl.DataFrame]


def choose_among(
    numbers: Sequence[str],
    sample: Sampler,
    *,
    where: str,
    named: Sequence[str] | None = None,
    flags: Collection[str] = (),
    asks: bool = False,
    judged: bool = False,
    length: str | None = None,
) -> RewardChoice:
    """Choose the rewards among the number columns of a log, and return the choice.

    Rewards that the caller names stay. Without them, the numbers in the columns are examined, except in two cases where
    the names alone decide. The first is that more than MOST_REWARDS columns may be rewards. The second is that just one
    may be, unless it is named like a total and metrics stand beside it. Columns named like hyperparameters are examined
    in any case, and left out if they have one value alone. A column stays open if it may be a metric, a total or a copy
    of another column as well as a reward. Without `asks`, open columns stay rewards. With `asks`, it depends on
    `judged`. If `judged` is false, an open column raises InputError. If it is true, columns that may be metrics are
    left out, unless no column would be left, and all others stay.
    numbers: the names of the number columns, in the order of the log.
    sample: reads some rows of columns, spread over the run, with the group of each in GROUP_OF_ROW where it is known.
    where: a file, for errors.
    named: the rewards that the caller names; None if the caller names none.
    flags: columns of true and false.
    asks: whether open columns matter, because no framework says what the columns of the log are.
    judged: whether advantages are logged, which can show later what the open columns are.
    length: the column of lengths. It is a reward only if a total counts it, as a total that pays for brevity does.

    Raises InputError if the log has number columns, but none of them can be a reward. Raises it for open columns, too,
    as said above.
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
    if len(clear) + len(metrics) * bool(totals_among(clear)) < 2 or len(clear) > MOST_REWARDS:
        return RewardChoice(tuple(clear))
    beside = [metrics, [*metrics, length]] if length else [metrics]
    table = sample([*clear, *beside[-1]])
    reasons = not_rewards(table, clear, labels=asks)
    exact = _exact_total([*numbers, *([length] if length else [])], table, clear, reasons, beside, flags)
    if exact is not None:
        return exact
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
    return replace(choice, issues=(*choice.issues, *issue_of_unused(reasons)))


def _exact_total(
    numbers: Sequence[str],
    table: pl.DataFrame,
    clear: Sequence[str],
    reasons: Mapping[str, str],
    beside: Sequence[Sequence[str]],
    flags: Collection[str],
) -> RewardChoice | None:
    """Return the rewards of which a column is exactly the weighted sum, over the whole log or in every step; None if no
    column is. A sum is looked for without columns that cannot be rewards first: large numbers, as those of a clock,
    hide how far a sum is off.

    numbers: all number columns, whose order the rewards keep.
    table: a sample of the rows.
    clear: the columns that may be rewards, totals among them.
    reasons: those of them that cannot be rewards by their numbers, each with the reason.
    beside: lists of more columns that a total may count, the likeliest list first.
    flags: columns of true and false.
    """
    fewer = [name for name in clear if name not in reasons]
    for columns in (fewer, clear) if reasons else (clear,):
        total_and_parts = total_in(table, columns, beside, totals_among(columns), flags)
        if total_and_parts is not None:
            return with_own_reasons(of_total(numbers, *total_and_parts), reasons)
        if (changing := changing_total(table, columns, beside)) is not None:
            return with_own_reasons(changing, reasons)
    return None


def _refuse_no_reward(where: str, got: str, columns: Iterable[str]) -> NoReturn:
    """Raise InputError for a log without a reward column.

    where: a file.
    got: in words, what the log has instead.
    columns: columns that may be rewards after all; the error says how to name them.
    """
    wanted = "at least one column of numbers that is a reward"
    refuse(where, wanted, f"{got}; name those that are, of {reward_options(columns)}", Lacking)


def _beside_named(named: Sequence[str], totals: Sequence[str], sample: Sampler, flags: Collection[str]) -> RewardChoice:
    """Return the rewards that the caller names, with the weights that a total beside them shows, if one does.

    The first total that is exactly a weighted sum of the rewards shows the weights. If there is none, the first that
    nearly is shows them, and an issue says so. A single reward gets no weights.
    named: the rewards that the caller names.
    totals: columns that are named like totals.
    sample: reads a sample of columns.
    flags: columns of true and false.
    """
    table = sample([*named, *totals]) if totals else pl.DataFrame()
    near: RewardChoice | None = None
    for total in totals:
        score = weights_of(table, named, flags, total)
        if score is not None and score.exact and score.weights and len(named) > 1:
            return RewardChoice(tuple(named), score.weights, total)
        by_step = None if score is None or score.exact else total_by_step(table, total, [named], named=True)
        if by_step is not None:
            return by_step
        if score is not None and not score.exact and score.explained >= NEAR and near is None and len(named) > 1:
            near = RewardChoice(tuple(named), score.fitted, total, (not_a_sum(named, total, score),))
    return near or RewardChoice(tuple(named))


def _with_its_parts(total: str, parts: Sequence[str], sample: Sampler, flags: Collection[str]) -> RewardChoice:
    """Return a total, which the caller names, as the only reward, with an issue if `parts` explain much of it.

    total: the column of the total.
    parts: the columns that may be the parts of the total.
    sample: reads a sample of columns.
    flags: columns of true and false.
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

    If advantages are logged, rewards that may be metrics are left out, though at least one reward is kept. If none are
    logged, a reward that may be a metric raises InputError. So do two rewards that order the responses of every group
    alike, except if the name of one says that it is the second reward, weighted.
    choice: the rewards that are chosen so far.
    table: a sample of the rows.
    where: a file, for errors.
    judged: whether advantages are logged, which can judge rewards later.
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
        refuse_open_columns(where, unsure, "a reward or a metric", names)
    for first, second in same_order(table, names):
        if not _weighted(first, second):
            what = "the other one, squashed or rescaled, as the two order the responses of every group alike"
            refuse_open_columns(where, [first, second], what, names)
    return choice, {}


def _weighted(first: str, second: str) -> bool:
    """Return whether the names of two columns say that one column is the second one, weighted, as weighted_acc and acc
    do.
    """
    first, second = sorted((first.lower(), second.lower()), key=len)
    return "weighted" in second and first in second


# --- numbers ----------------------------------------------------------------------------------------------------------


def _without_hyperparameters(names: Sequence[str], sample: Sampler) -> list[str]:
    """Return the names without hyperparameters: columns that are named like one and have one value alone.

    If every column is named like a hyperparameter, all names are returned.
    names: the columns to choose from.
    sample: a function that reads some rows of columns, by which this is decided.
    """
    hyperparameters = [name for name in names if "_".join(words_of(name)) in HYPERPARAMETERS]
    if not hyperparameters or len(hyperparameters) == len(names):
        return list(names)
    table = sample(hyperparameters)
    return [name for name in names if name not in hyperparameters or table[name].n_unique() > 1]


def _is_open(name: str, column: pl.Series) -> bool:
    """Return whether a column may be a reward or a metric, so that its name and its numbers do not decide.

    There are two cases. In the first, `role` says "either" of the name. But a column whose name begins with is, as
    is_valid does, and whose values are all 0 or 1, is surely a reward.
    In the second, no word of the name is one for rewards, and the values look like counts. Counts are whole numbers
    from 0, with more than `GRADES` different ones. Some of them are above `_LARGEST`, or none is below the one before
    it.
    name: the name of the column.
    column: its values.
    """
    values, words = column.drop_nulls().drop_nans(), words_of(name)
    if role(name) == "either":
        return words[0] != "is" or not values.is_in([0.0, 1.0]).all()
    if REWARD_WORDS & {*words} or not len(values):
        return False
    whole = bool((values.floor() == values).all() and (values >= 0).all())
    return whole and values.n_unique() > GRADES and bool((values > _LARGEST).any() or values.is_sorted())
