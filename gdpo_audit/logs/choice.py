"""The choice of rewards: which number columns of a log are rewards, and which is the total of others.

Names say what a column may be, and the numbers decide. A total is a weighted sum of others. A column that numbers the
responses, rises along the log or looks like a measurement is no reward. Of two columns that order every group alike
only one can be meant. Where it stays open whether a column is a reward, an InputError asks the caller to name the
rewards, unless logged advantages can judge the column.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import polars as pl

from gdpo_audit.logs.behaviour import not_rewards, same_order
from gdpo_audit.logs.columns import REWARDS
from gdpo_audit.logs.names import reward_options
from gdpo_audit.logs.refusals import refuse
from gdpo_audit.logs.roles import HYPERPARAMETERS, OVERLONG, REWARD_WORDS, SURE, role, total_rank, words_of
from gdpo_audit.logs.run import LogIssue
from gdpo_audit.logs.score import ROWS, Score, sum_of_others, weights_of
from gdpo_core._words import listing

LARGEST = 100  # the largest reward in whole numbers; larger ones look like a count
GRADES = 8  # the most different values of a reward in whole numbers if some of them are larger than `LARGEST`
# The share of a column's variance that the others explain. With less the column is a reward; with more it may be a
# total that was clipped or gated.
NEARLY = 0.5
NEAR = 0.9  # the share from which on a column that is named like a total is one, with something that is not logged

# Reads some rows of these columns, spread over the run.
Sample = Callable[[Sequence[str]], pl.DataFrame]


@dataclass(frozen=True)
class RewardChoice:
    """The rewards that were chosen in a log, and what a total beside them tells of their weights.

    issues: what the report should say of this choice.
    """

    rewards: tuple[str, ...]
    weights: Mapping[str, float] | None = None  # the weights with which they add up to the total
    total: str | None = None  # the column that is their total
    issues: tuple[LogIssue, ...] = ()

    @property
    def weights_by(self) -> str:
        """The origin of the weights: "score" if the total is exactly the weighted sum of the rewards, else "fitted"."""
        return "fitted" if any("missing" in issue.details for issue in self.issues) else "score"

    @property
    def total_only(self) -> bool:
        """Whether there is one reward alone, which is named like a total."""
        return len(self.rewards) == 1 and total_rank(self.rewards[0]) is not None


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
        return _beside_named(named, [name for name in _totals_among(clear) if name not in named], sample, flags)
    if len(clear) + len(metrics) * bool(_totals_among(clear)) < 2 or len(clear) > REWARDS:
        return RewardChoice(tuple(clear))
    beside = [metrics, [*metrics, length]] if length else [metrics]
    table = sample([*clear, *beside[-1]])
    total_and_parts = _total(table, clear, beside, _totals_among(clear), flags)
    if total_and_parts is not None:
        return _of_total([*numbers, *([length] if length else [])], *total_and_parts)
    reasons = not_rewards(table, clear, labels=asks)
    clear = [name for name in clear if name not in reasons]
    if not clear:
        got = f"columns that are none: {listing((f'{name} ({why})' for name, why in reasons.items()), most=8)}"
        _refuse_no_reward(where, got, reasons)
    choice = _near_total(table, clear, flags, where, asks and not judged)
    if choice is None:
        choice = RewardChoice(tuple(clear), issues=_holds_one(table, clear, flags))
    if asks:
        choice, opened = _without_open_ones(choice, table, where, judged)
        reasons |= opened
    return replace(choice, issues=(*choice.issues, *_left_out(reasons)))


def _refuse_no_reward(where: str, got: str, columns: Iterable[str]) -> NoReturn:
    """Raise InputError for a log without a reward column; the error says how to name `columns` as rewards after all.

    got: in words, what the log has instead.
    """
    wanted = "at least one column of numbers that is a reward"
    refuse(where, wanted, f"{got}; name those that are, of {reward_options(columns)}")


def _totals_among(names: Sequence[str]) -> list[str]:
    """Return those of the columns that are named like totals, first those whose names say so most surely."""
    return sorted((name for name in names if total_rank(name) is not None), key=lambda name: total_rank(name) or 0)


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
            near = RewardChoice(tuple(named), score.fitted, total, (_not_a_sum(named, total, score),))
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


def _near_total(
    table: pl.DataFrame, clear: Sequence[str], flags: Collection[str], where: str, asks: bool
) -> RewardChoice | None:
    """Return the choice of rewards without a column that is their total, though not exactly their weighted sum; None if
    there is no such column. It has to be named like a total, and at least two columns must be left that are not.

    If these explain much of the total, the choice holds the weights that come nearest, and leaves out columns of weight
    0. If they explain little, a total whose name can mean nothing else still counts, without weights.
    table: a sample of the rows.
    clear: the columns that may be rewards, totals among them.
    flags: boolean columns.
    where: a file, for errors.
    asks: whether a column that may be a total or a reward raises InputError.
    """
    totals = _totals_among(clear)
    parts = [name for name in clear if name not in totals]
    for total in totals if len(parts) > 1 else ():
        score = weights_of(table, parts, flags, total)
        if score is None or score.exact:
            continue
        sure = (total_rank(total) or 0) < SURE
        if score.explained >= (NEARLY if sure else NEAR):
            weights = score.fitted or {}
            kept = [name for name in clear if name != total and weights.get(name, 1.0)]
            fitted = {name: weights[name] for name in kept if name in weights} or None
            return RewardChoice(tuple(kept), fitted, total, (_not_a_sum(parts, total, score),))
        if sure:
            return RewardChoice(
                tuple(name for name in clear if name != total), None, None, (_not_a_sum(parts, total, score),)
            )
        if asks and score.explained >= NEARLY:
            words = f"the total of {listing(parts, most=8)}, after a clip or with something else, or a reward"
            _ask(where, [total], words, clear)
    return None


def _holds_one(table: pl.DataFrame, clear: Sequence[str], flags: Collection[str]) -> tuple[LogIssue, ...]:
    """Return a tuple with one issue: one reward explains much of a total beside it, and the log does not hold the rest.

    The tuple is empty unless `clear` has just one column besides totals, and this column explains at least the share
    `NEARLY` of a total, but not exactly. It is empty, too, for fewer than `ROWS` rows.
    table: a sample of the rows.
    clear: the columns that may be rewards, totals among them.
    flags: columns of true and false.
    """
    issues: tuple[LogIssue, ...] = ()
    totals = _totals_among(clear)
    parts = [name for name in clear if name not in totals]
    for total in totals if len(parts) == 1 and len(table) >= ROWS else ():
        score = weights_of(table, parts, flags, total)
        if score is not None and not score.exact and score.explained >= NEARLY:
            issues = (_not_a_sum(parts, total, score, alone=True),)
    return issues


def _not_a_sum(parts: Sequence[str], total: str, score: Score, alone: bool = False) -> LogIssue:
    """Return an issue that says that a total is not a weighted sum of the columns beside it.

    parts: the columns beside the total.
    score: how nearly they make the total.
    alone: whether `parts` is one column.
    """
    details = {"score": total, "columns": [*parts], "error": score.error}
    if alone:
        return LogIssue("score-not-a-sum", details | {"explained": score.explained})
    if score.fitted is not None and score.explained >= NEARLY:
        details |= {"missing": 1 - score.explained, "weights": dict(score.fitted)}
    return LogIssue("score-not-a-sum", details)


def _left_out(reasons: Mapping[str, str]) -> tuple[LogIssue, ...]:
    """Return, in a tuple, the issue that says why columns are no rewards (`reasons`, by column); () for none."""
    return (LogIssue("no-reward", {"columns": dict(reasons)}),) if reasons else ()


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
        _ask(where, unsure, "a reward or a metric", names)
    for first, second in same_order(table, names):
        if not _weighted(first, second):
            what = "the other one, squashed or rescaled, as the two order the responses of every group alike"
            _ask(where, [first, second], what, names)
    return choice, {}


def _weighted(first: str, second: str) -> bool:
    """Return whether one of two names says that its column is the other one, weighted, as in weighted_acc and acc."""
    first, second = sorted((first.lower(), second.lower()), key=len)
    return "weighted" in second and first in second


def beside_score(
    table: pl.DataFrame, rewards: Sequence[str], score: str, flags: Collection[str], named: bool
) -> RewardChoice:
    """Return the rewards that count in the total that the framework logs beside them, with their weights.

    A reward of weight 0 is left out, and an issue says so, unless all have weight 0. verl's penalty for length has
    weight 1 in place of 0. Where the total does not tell the weights, `_beside_open_score` chooses by names and values.
    table: rows of the rewards and the total, with the group of each in GROUP_OF_ROW where it is known.
    score: the column of the total.
    flags: columns of true and false.
    named: whether the caller names the rewards, which then all stay.
    """
    fit = weights_of(table, rewards, flags, score)
    if fit is None or fit.weights is None:
        return _beside_open_score(table, rewards, score, flags, named, fit)
    weights = dict(fit.weights)
    if weights.get(OVERLONG) == 0:  # verl logs a score in a dict before it adds the penalty for length
        weights[OVERLONG] = 1.0
    beside = [] if named else [name for name, w in weights.items() if not w]
    if not beside or len(beside) == len(rewards):
        return RewardChoice(tuple(rewards), weights, score)
    kept = tuple(name for name in rewards if name not in beside)
    details = {"columns": beside, "rewards": list(kept)}
    of_kept = {name: w for name, w in weights.items() if name in kept}
    return RewardChoice(kept, of_kept, score, (LogIssue("not-in-score", details),))


def _beside_open_score(
    table: pl.DataFrame, rewards: Sequence[str], score: str, flags: Collection[str], named: bool, fit: Score | None
) -> RewardChoice:
    """Return which of the columns `rewards` are rewards where no weighted sum of all of them is the total, or many are.

    Columns with names like those of metrics, and those that `not_rewards` finds, are left out, unless none would stay.
    The weights are None if many sums are the total or none can be fitted. Otherwise the columns that stay are fitted
    alone. A sum that is the total gives the weights; so does one of several that is nearly it, and its zeros drop out.
    table: rows of `rewards` and of the total, in the column `score`.
    flags: columns of true and false.
    named: if true, the caller named the rewards, and all stay.
    fit: how all of `rewards` fit the total; None where none can be fitted.
    """
    plain = tuple(rewards) if named else tuple(name for name in rewards if role(name) != "metric")
    reasons = {} if named else not_rewards(table, plain, labels=False)
    plain = tuple(name for name in plain if name not in reasons) or tuple(rewards)
    if fit is None or fit.exact:
        return RewardChoice(plain, None, score, _left_out(reasons))
    fit = weights_of(table, plain, flags, score) or fit
    if fit.exact and fit.weights:
        return RewardChoice(plain, fit.weights, score, _left_out(reasons))
    near = fit.explained >= NEARLY
    issue = _not_a_sum(plain, score, fit, alone=len(plain) == 1 and near)
    fitted = fit.fitted if near and len(plain) > 1 else None
    kept = tuple(name for name in plain if named or fitted is None or fitted.get(name, 1.0))
    fitted = fitted and {name: w for name, w in fitted.items() if name in kept}
    return RewardChoice(kept or plain, fitted, score, (issue, *_left_out(reasons)))


def _ask(where: str, columns: Sequence[str], what: str, candidates: Sequence[str]) -> NoReturn:
    """Raise InputError for columns that may be rewards or not; the error names all candidates as command-line options.

    columns: the columns in question.
    what: what they may be, in words.
    where: a file.
    candidates: all columns that may be rewards, `columns` among them.
    """
    each = f"{listing(map(repr, columns), most=8)}, {'each ' * (len(columns) > 1)}of which may be"
    if len(columns) == 1:
        each = f"{columns[0]!r}, which may be"
    got = f"{each} {what}: name all rewards, out of {reward_options(candidates)}"
    refuse(where, "columns that are clearly rewards", got)


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


def _total(
    table: pl.DataFrame,
    clear: Sequence[str],
    further: Sequence[Sequence[str]],
    totals: Sequence[str],
    flags: Collection[str],
) -> tuple[str, Sequence[str], Score] | None:
    """Return a column that is a weighted sum of others, the names of these others, and the fit; None if there is none.

    Columns named like totals (`totals`) are tried first, as sums of columns of `clear` and of each list of `further`,
    and then every column of `clear`.
    table: a sample of the rows.
    clear: the columns that may be rewards, `totals` among them.
    flags: columns of true and false.
    further: lists of more columns, the likeliest list first.
    """
    plain = [name for name in clear if name not in totals]
    for total in totals:
        beside = [name for name in clear if name != total]
        for parts in (plain, beside, *([*plain, *more] for more in further)):
            score = weights_of(table, parts, flags, total) if len(parts) > 1 else None
            if score is not None and score.exact and score.counted > 1 and score.spare > 0:
                return total, parts, score
    odd = sum_of_others(table, clear)
    if odd is None:
        return None
    parts = [name for name in clear if name != odd]
    score = weights_of(table, parts, flags, odd)
    fits = score is not None and score.exact and score.counted > 1 and score.spare > 0 and bool(score.weights)
    return (odd, parts, score) if score is not None and fits else None


def _of_total(numbers: Iterable[str], total: str, parts: Sequence[str], score: Score) -> RewardChoice:
    """Return the rewards that a total counts. An issue names those of its parts that it does not count, except metrics.

    If several choices of weights make the total, the rewards are all parts that are not named like metrics, without
    weights.
    numbers: all number columns, whose order the rewards keep.
    parts: the columns of which the total is a weighted sum.
    score: the fit of this sum.
    """
    weights = score.weights
    if weights is None:  # several choices of weights fit, as where two columns are equal
        return RewardChoice(tuple(name for name in numbers if name in parts and role(name) != "metric"), None, total)
    counted = [name for name in numbers if name in parts and weights.get(name, role(name) != "metric")]
    beside = [name for name in parts if name not in counted and role(name) != "metric"]
    issues: tuple[LogIssue, ...] = ()
    if beside:
        issues = (LogIssue("not-in-score", {"score": total, "columns": beside, "rewards": counted}),)
    return RewardChoice(tuple(counted), {name: weights[name] for name in counted if name in weights}, total, issues)
