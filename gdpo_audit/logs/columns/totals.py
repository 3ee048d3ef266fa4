"""Totals among the number columns of a log: which column is the total of others, and which rewards it counts.

A total is exactly or nearly the weighted sum of rewards; nearly, for instance, if it was clipped. The framework logs it
as one, or its name or its numbers show it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import polars as pl

from gdpo_audit.logs.columns.behaviour import not_rewards
from gdpo_audit.logs.forms.roles import OVERLONG, SURE, role, total_rank
from gdpo_audit.logs.names import reward_options
from gdpo_audit.logs.numbers.score_by_step import possible_steps, total_by_steps, weights_by_step, without_weightless
from gdpo_audit.logs.numbers.weighted_sums import FEWEST_ROWS, Score, sum_of_others, weights_of
from gdpo_audit.logs.refusals import refuse
from gdpo_audit.records import LogIssue
from gdpo_core.shared.words import listing

# The share of a column's variance that the others explain. With less the column is a reward; with more it may be a
# total that was clipped or gated.
NEARLY = 0.5
NEAR = 0.9  # the share from which on a column that is named like a total is one, with something that is not logged


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


def totals_among(names: Sequence[str]) -> list[str]:
    """Return the columns that are named like totals, first the ones whose names say so most surely."""
    return sorted((name for name in names if total_rank(name) is not None), key=lambda name: total_rank(name) or 0)


def total_by_step(
    table: pl.DataFrame, total: str, tried: Sequence[Sequence[str]], named: bool = False
) -> RewardChoice | None:
    """Return the rewards of which a total is the weighted sum in every step, with weights that change between steps.
    None if the total is no such sum.

    The weights in the choice are those of the last step that shows them, and an issue tells of the change. Columns that
    have weight 0 in every step, or never differ inside one, are left out.
    table: a sample of the rows, with the step of each.
    total: the column of the total.
    tried: lists of columns that may be its parts, the likeliest list first.
    named: whether the caller names the rewards, which then all stay.
    """
    for parts in (names for names in tried if len(names) > 1):
        weights = weights_by_step(table, parts, total)
        kept = [] if weights is None else parts if named else without_weightless(parts, weights)
        if weights is not None and len(kept) > 1:
            last = dict(zip(parts, [*weights.filled.values()][-1], strict=True))
            details = {"total": total, "steps": len(weights.by_step), "rewards": [*kept]}
            issue = LogIssue("total-by-step", details)
            return RewardChoice(tuple(kept), {name: last[name] for name in kept}, total, (issue,))
    return None


def changing_total(table: pl.DataFrame, clear: Sequence[str], further: Sequence[Sequence[str]]) -> RewardChoice | None:
    """Return the rewards beside a total whose weights change from step to step; None if there is no such total.

    Columns named like totals are tried first, and then the column that is the sum of all others in the steps.
    table: a sample of the rows, with the step of each.
    clear: the columns that may be rewards, totals among them.
    further: lists of more columns that a total may count, the likeliest list first.
    """
    for step, in_steps in possible_steps(table, clear):
        columns = [name for name in clear if name != step]
        totals = totals_among(columns)
        plain = [name for name in columns if name not in totals]
        odd = total_by_steps(in_steps, columns) if len(columns) > 2 else None
        for total in dict.fromkeys([*totals, *([odd] if odd else [])]):
            beside = [name for name in columns if name != total]
            tried = [plain, beside, *([*plain, *more] for more in further)] if total in totals else [beside]
            choice = total_by_step(in_steps, total, tried)
            if choice is not None and step is not None:
                [issue] = choice.issues
                choice = replace(choice, issues=(replace(issue, details={**issue.details, "step": step}),))
            if choice is not None:
                return choice
    return None


def near_total(
    table: pl.DataFrame, clear: Sequence[str], flags: Collection[str], where: str, asks: bool
) -> RewardChoice | None:
    """Return the choice of rewards without a column that is their total, though not exactly their weighted sum.

    None if there is no such column. It has to be named like a total, and at least two columns must not be named so. If
    these columns explain much of the total, the choice holds the weights that come nearest, and leaves out columns of
    weight 0. If they explain little, a total whose name can mean nothing else still counts, without weights.
    table: a sample of the rows.
    clear: the columns that may be rewards, totals among them.
    flags: columns of true and false.
    where: a file, for errors.
    asks: whether a column that may be a total or a reward raises InputError.
    """
    totals = totals_among(clear)
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
            return RewardChoice(tuple(kept), fitted, total, (not_a_sum(parts, total, score),))
        if sure:
            return RewardChoice(
                tuple(name for name in clear if name != total), None, None, (not_a_sum(parts, total, score),)
            )
        if asks and score.explained >= NEARLY:
            words = f"the total of {listing(parts, most=8)}, after a clip or with something else, or a reward"
            refuse_open_columns(where, [total], words, parts)
    return None


def holds_one(table: pl.DataFrame, clear: Sequence[str], flags: Collection[str]) -> tuple[LogIssue, ...]:
    """Return a tuple with one issue: one reward explains much of a total beside it, and the log does not hold the rest.

    The tuple is empty if `clear` does not have just one column besides totals. This column must explain at least the
    share `NEARLY` of a total, but not all of it exactly. The tuple is also empty for fewer than `FEWEST_ROWS` rows.
    table: a sample of the rows.
    clear: the columns that may be rewards, totals among them.
    flags: columns of true and false.
    """
    issues: tuple[LogIssue, ...] = ()
    totals = totals_among(clear)
    parts = [name for name in clear if name not in totals]
    for total in totals if len(parts) == 1 and len(table) >= FEWEST_ROWS else ():
        score = weights_of(table, parts, flags, total)
        if score is not None and not score.exact and score.explained >= NEARLY:
            issues = (not_a_sum(parts, total, score, alone=True),)
    return issues


def not_a_sum(parts: Sequence[str], total: str, score: Score, alone: bool = False) -> LogIssue:
    """Return an issue that says that a total is not a weighted sum of the columns beside it.

    parts: the columns beside the total.
    total: the column of the total.
    score: how nearly the columns make the total.
    alone: whether `parts` is one column.
    """
    details = {"score": total, "columns": [*parts], "error": score.error}
    if alone:
        return LogIssue("score-not-a-sum", details | {"explained": score.explained})
    if score.fitted is not None and score.explained >= NEARLY:
        details |= {"missing": 1 - score.explained, "weights": dict(score.fitted)}
    return LogIssue("score-not-a-sum", details)


def issue_of_unused(reasons: Mapping[str, str]) -> tuple[LogIssue, ...]:
    """Return, in a tuple, the issue that says why columns are no rewards (`reasons`, by column); () for none."""
    return (LogIssue("no-reward", {"columns": dict(reasons)}),) if reasons else ()


def with_left_out(choice: RewardChoice, reasons: Mapping[str, str]) -> RewardChoice:
    """Return a choice whose issue about columns that are no rewards names some more.

    reasons: the further columns, each with the reason why it is no reward.
    """
    before = [issue.details["columns"] for issue in choice.issues if issue.id == "no-reward"]
    kept = tuple(issue for issue in choice.issues if issue.id != "no-reward")
    together = {name: why for columns in (*before, reasons) for name, why in columns.items()}
    return replace(choice, issues=(*kept, *issue_of_unused(together))) if reasons else choice


def with_own_reasons(choice: RewardChoice, reasons: Mapping[str, str]) -> RewardChoice:
    """Return a choice in which columns that a total does not count, and that cannot be rewards by their numbers, are
    left out for that reason: a column that rises along the log may still number its steps.

    reasons: columns that cannot be rewards, each with the reason.
    """
    out = {name: why for name, why in reasons.items() if name not in (*choice.rewards, choice.total)}
    issues = list[LogIssue]()
    for issue in choice.issues:
        if issue.id == "not-in-score":
            columns = [name for name in issue.details["columns"] if name not in out]
            issue = replace(issue, details={**issue.details, "columns": columns})
        if issue.details.get("columns") != []:
            issues.append(issue)
    return with_left_out(replace(choice, issues=tuple(issues)), out)


def beside_score(
    table: pl.DataFrame, rewards: Sequence[str], score: str, flags: Collection[str], named: bool
) -> RewardChoice:
    """Return the rewards that count in the total that the framework logs beside them, with their weights.

    A reward of weight 0 is left out, and an issue says so. If all have weight 0, all stay. The penalty for length of
    verl gets weight 1 in place of 0. Where the total does not tell the weights, `_beside_open_score` chooses by names
    and values.
    table: rows of the rewards and the total, with the group of each in GROUP_OF_ROW where it is known.
    rewards: the columns that may be rewards.
    score: the column of the total.
    flags: columns of true and false.
    named: whether the caller names the rewards, which then all stay.
    """
    reasons = {} if named else not_rewards(table, rewards, labels=False)
    fewer = [name for name in rewards if name not in reasons]
    if reasons and len(fewer) > 1:  # large numbers, as those of a clock, hide how far a sum is off
        fit = weights_of(table, fewer, flags, score)
        changing = None if fit is None or fit.exact else total_by_step(table, score, [fewer])
        if changing is not None:
            return with_left_out(changing, reasons)
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
    """Return which of the columns `rewards` are rewards, with their weights if these can be told. It is meant for a
    total that no weighted sum of all these columns makes, or that many such sums make.

    Columns with names like those of metrics, and columns that `not_rewards` finds, are left out, unless none would
    stay. The columns that stay are fitted alone, unless many sums of all columns are the total, or no sum can be
    fitted. Their weights are given in two cases: only one sum of these columns is the total, or two columns or more
    come near the total (`NEARLY`) with only one choice of weights. In the second case columns of weight 0 are left out
    as well. In every other case the weights are None.

    One issue says which columns `not_rewards` found. Another one says that the total is not a sum of the columns that
    stay. The second issue is missing if these columns were not fitted alone, and in the first of the two cases.
    table: rows of `rewards` and of the total.
    rewards: the columns that may be rewards.
    score: the column of the total.
    flags: columns of true and false.
    named: whether the caller named the rewards, which then all stay.
    fit: how all of `rewards` fit the total; None where no sum can be fitted. It also counts as the fit of the columns
        that stay if they cannot be fitted alone.
    """
    by_step = None if fit is None or fit.exact else total_by_step(table, score, [rewards], named)
    if by_step is not None:
        return by_step
    plain = tuple(rewards) if named else tuple(name for name in rewards if role(name) != "metric")
    reasons = {} if named else not_rewards(table, plain, labels=False)
    plain = tuple(name for name in plain if name not in reasons) or tuple(rewards)
    if fit is None or fit.exact:
        return RewardChoice(plain, None, score, issue_of_unused(reasons))
    fit = weights_of(table, plain, flags, score) or fit
    if fit.exact and fit.weights:
        return RewardChoice(plain, fit.weights, score, issue_of_unused(reasons))
    near = fit.explained >= NEARLY
    issue = not_a_sum(plain, score, fit, alone=len(plain) == 1 and near)
    fitted = fit.fitted if near and len(plain) > 1 else None
    kept = tuple(name for name in plain if named or fitted is None or fitted.get(name, 1.0))
    fitted = fitted and {name: w for name, w in fitted.items() if name in kept}
    return RewardChoice(kept or plain, fitted, score, (issue, *issue_of_unused(reasons)))


def total_in(
    table: pl.DataFrame,
    clear: Sequence[str],
    further: Sequence[Sequence[str]],
    totals: Sequence[str],
    flags: Collection[str],
) -> tuple[str, Sequence[str], Score] | None:
    """Return a column that is a weighted sum of others, the names of these others, and the fit; None if there is none.

    Columns named like totals are tried first, as sums of columns of `clear`, and then with each list of `further`
    added. After them every column of `clear` is tried.
    table: a sample of the rows.
    clear: the columns that may be rewards, `totals` among them.
    further: lists of more columns, the likeliest list first.
    totals: the columns that are named like totals.
    flags: columns of true and false.
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


def of_total(numbers: Iterable[str], total: str, parts: Sequence[str], score: Score) -> RewardChoice:
    """Return the rewards that a total counts. An issue names the parts that it does not count, except metrics.

    The weights come from the fit. Where several choices of weights make the total, there are none. The rewards are then
    all parts that are not named like metrics.
    numbers: all number columns, whose order the rewards keep.
    total: the column of the total.
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


def refuse_open_columns(where: str, columns: Sequence[str], what: str, candidates: Sequence[str]) -> NoReturn:
    """Raise InputError for columns that may be rewards or not; the error names all candidates as command-line options.

    where: a file.
    columns: the columns in question.
    what: what they may be, in words.
    candidates: all columns that may be rewards, `columns` among them.
    """
    each = f"{listing(map(repr, columns), most=8)}, {'each ' * (len(columns) > 1)}of which may be"
    if len(columns) == 1:
        each = f"{columns[0]!r}, which may be"
    got = f"{each} {what}: name all rewards, out of {reward_options(candidates)}"
    refuse(where, "columns that are clearly rewards", got)
