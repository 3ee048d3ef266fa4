"""Which number columns of a log are rewards, which is the total of others, and which are metrics beside them.

The names decide, and then the numbers: a total is a weighted sum of others. What can be either is asked about.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gdpo_audit.logs.columns import REWARDS
from gdpo_audit.logs.names import reward_options
from gdpo_audit.logs.run import LogIssue
from gdpo_audit.logs.score import Score, weights_of
from gdpo_audit.logs.tables import is_number_type
from gdpo_core._errors import InputError
from gdpo_core._words import listing

ADVANTAGES = ("advantage", "advantages", "adv")
OVERLONG = "overlong_reward"  # of verl
_REWARD = {"reward", "rewards", "score", "scores", "penalty", "penalties", "bonus", "correct", "correctness"}
_REWARD |= {"accuracy", "acc", "format", "quality"}
# Words of metrics: anywhere in a name, at its end, or as a whole.
_ANYWHERE = {"kl", "entropy", "logprob", "logprobs", "logp", "logps", "perplexity", "temperature"}
_LAST = {"len", "length", "lengths", "tokens", "turns", "truncated", "completed"}
_TIME = {"time", "ms", "sec", "secs", "seconds", "duration", "latency", "elapsed", "std", "var"}
# How a response ended, or what it is for, in a name such as is_truncated; others, such as is_valid, are judgements.
_STATES = {"finished", "done", "eos", "stopped", "aborted", "clipped", "padded", "masked", "cached", "last", "first"}
_STATES |= {"train", "training", "eval", "validation", "test", "terminal", "greedy"}
_WHOLE = {"lr", "learning_rate", "top_p", "top_k", "min_p", "grad_norm", "duration", "latency", "turn", "ppl", "std"}
# Settings of a run, as far as they have one value in the whole log.
_SETTINGS = {"alpha", "beta", "gamma", "epsilon", "eps", "num_generations", "group_size", "batch_size", "n", "version"}
_SETTINGS |= {
    "max_turns",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "num_iterations",
    "world_size",
}
_EITHER = {"num", "count", "n", "level", "difficulty", "confidence", "value", "loss", "baseline", "mean", "avg"}
# Totals by their names, the surest first.
_TOTALS = (
    {"total", "combined", "aggregate", "aggregated", "composite", "sum", "summed"},
    {"overall", "final", "weighted", "return"},
    {"reward", "rewards", "r"},
    {"score", "scores"},
)
_FILLING = {"reward", "rewards", "score", "scores", "of", "the", "raw"}  # words that a total's name may have besides
_SURE = 1  # how many of these sets hold names that nothing but a total has
LARGEST = 100  # of a reward in whole numbers; more look like a count
GRADES = 8  # different values that a reward in whole numbers may have though some are larger
NEARLY = 0.5  # explained by the others: less is a reward of its own, more may be a total that was clipped or gated
_NOTHING, _FAINT = 1e-11, 1e-6  # of the variance that is float32's round-off; of a weight, beside the largest
ROWS = 30  # from which a column of any other name can be the total


@dataclass(frozen=True)
class RewardChoice:
    """The rewards of a log, and what a total beside them tells."""

    rewards: tuple[str, ...]
    weights: Mapping[str, float] | None = None  # with which they add up to the total
    total: str | None = None  # the column that is their total
    issues: tuple[LogIssue, ...] = ()

    @property
    def total_only(self) -> bool:
        """Whether the only reward is a total by its name."""
        return len(self.rewards) == 1 and _rank(self.rewards[0]) is not None


def role(name: str) -> str:
    """reward, metric or either, as far as the name of a column says; a name that says nothing is a reward's.

    >>> [role(name) for name in ("has_digit", "responseLen", "kl_reward", "is_completed", "is_valid", "num_sources")]
    ['reward', 'metric', 'reward', 'metric', 'either', 'either']
    """
    words = _words(name)
    if not words:
        return "reward"
    whole, last = "_".join(words), words[-1]
    says_reward = bool(_REWARD & {words[0], last})
    if whole in _WHOLE or (len(words) > 1 and last in _TIME):
        return "metric"
    if words[0] == "is":
        return "metric" if last in _LAST | _STATES else "either"
    if says_reward:
        return "either" if {"mean", "avg"} & {*words} else "reward"
    if _ANYWHERE & {*words} or "log_prob" in whole or (last in _LAST and (len(words) > 1 or last == "turns")):
        return "metric"
    return "either" if _EITHER & {words[0], last} and not _REWARD & {*words} else "reward"


def choose(
    numbers: Sequence[str],
    sample: Callable[[Sequence[str]], pl.DataFrame],
    *,
    where: str,
    named: Sequence[str] | None = None,
    flags: Collection[str] = (),
    asks: bool = False,
) -> RewardChoice:
    """The rewards among the number columns of a log.

    sample: reads some rows of columns, spread over the run. named: the rewards that the caller names, which stand.
    flags: columns of true and false. asks: raise InputError for columns that may be rewards or metrics.
    """
    clear = [name for name in numbers if role(name) != "metric"]
    metrics = [name for name in numbers if name not in clear]
    if metrics and not clear and named is None:
        got = f"columns that look like metrics: {listing(metrics, most=8)}"
        wanted = "at least one column of numbers that is a reward"
        raise InputError(f"{where}: expected {wanted}, got {got}; name those that are, of {reward_options(metrics)}")
    clear = _without_settings(clear, sample)
    totals = sorted((name for name in clear if _rank(name) is not None), key=lambda name: _rank(name) or 0)
    if named is not None:
        table = sample([*dict.fromkeys((*named, *totals))]) if totals and len(named) > 1 else pl.DataFrame()
        for total in totals if len(table) else ():
            score = None if total in named else weights_of(table, named, flags, total)
            if score is not None and score.exact and score.weights:
                return RewardChoice(tuple(named), score.weights, total)
        return RewardChoice(tuple(named))
    if len(clear) + len(metrics) * bool(totals) < 2 or len(clear) > REWARDS:
        return RewardChoice(tuple(clear))
    table = sample([*clear, *metrics])
    found = _total(table, clear, metrics, totals, flags)
    if found is not None:
        return _of_total(numbers, *found)
    issues: tuple[LogIssue, ...] = ()
    others = [name for name in clear if name not in totals]
    for total in totals if others else ():
        score = weights_of(table, others, flags, total)
        if score is None or score.exact:
            continue
        details = {"score": total, "columns": others, "error": score.error}
        if len(others) == 1:
            if score.explained >= NEARLY and len(table) >= ROWS:
                issues = (LogIssue("score-not-a-sum", details | {"explained": score.explained}),)
        elif _rank(total) < _SURE:  # type: ignore[operator]  # totals have ranks
            clear.remove(total)
            issues = (LogIssue("score-not-a-sum", details),)
        elif asks and score.explained >= NEARLY:
            parts = listing(others, most=8)
            _ask(where, [total], f"the total of {parts}, after a clip or with something else, or a reward", clear)
    if asks:
        open_ones = [name for name in clear if _is_open(name, table[name])]
        if open_ones:
            _ask(where, open_ones, "a reward or a metric", clear)
    return RewardChoice(tuple(clear), issues=issues)


def beside_score(
    table: pl.DataFrame, rewards: Sequence[str], score: str, flags: Collection[str], named: bool
) -> RewardChoice:
    """The rewards that a framework logs beside their total, as the total counts them.

    table: rows of the rewards and the total. named: the caller names the rewards, which stand.
    """
    found = weights_of(table, rewards, flags, score)
    issues: tuple[LogIssue, ...] = ()
    if found is None or found.weights is None:
        if found is not None and not found.exact:
            details = {"columns": list(rewards), "error": found.error, "responses": len(table)}
            more = {"explained": found.explained} if len(rewards) == 1 and found.explained >= NEARLY else {}
            issues = (LogIssue("score-not-a-sum", details | more),)
        # The names alone tell metrics from rewards.
        plain = tuple(rewards) if named else tuple(name for name in rewards if role(name) != "metric")
        return RewardChoice(plain or tuple(rewards), None, score, issues)
    weights = dict(found.weights)
    if weights.get(OVERLONG) == 0:  # a score in a dict is logged before the penalty for length is added to it
        weights[OVERLONG] = 1.0
    beside = [] if named else [name for name, w in weights.items() if not w]
    if not beside or len(beside) == len(rewards):
        return RewardChoice(tuple(rewards), weights, score)
    kept = tuple(name for name in rewards if name not in beside)
    details = {"columns": beside, "rewards": list(kept)}
    of_kept = {name: w for name, w in weights.items() if name in kept}
    return RewardChoice(kept, of_kept, score, (LogIssue("not-in-score", details),))


def lost(kinds: Mapping[str, pl.DataType], left_out: Iterable[str], named: Collection[str] | None) -> tuple[str, ...]:
    """The columns left out that may have been rewards or advantages, but hold text, or nothing at all.

    named: the rewards that the caller names; then the others are left out on purpose.

    >>> lost({"style": pl.Null(), "accuracy": pl.String(), "tool": pl.String()}, ["style", "accuracy", "tool"], None)
    ('style', 'accuracy')
    """
    open_ones = [name for name in left_out if not is_number_type(kinds[name])]
    advantages = [name for name in open_ones if name.lower() in ADVANTAGES]
    called = [name for name in open_ones if (_words(name) or [""])[-1] in _REWARD]
    empty = [name for name in open_ones if kinds[name] == pl.Null and role(name) == "reward"]
    return tuple(name for name in open_ones if name in (advantages if named else [*advantages, *called, *empty]))


# --- names ------------------------------------------------------------------------------------------------------------


def _words(name: str) -> list[str]:
    """The words of a name, also of one in camel case, in lower case."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition("/")[2])
    return [word for word in re.split(r"[^a-z0-9]+", parts.lower()) if word]


def _rank(name: str) -> int | None:
    """How surely the name is that of a total, 0 the surest; None if it is not."""
    words = _words(name)
    for rank, totals in enumerate(_TOTALS):
        if totals & {*words} and {*words} <= totals | _FILLING:
            return rank
    return None


def _ask(where: str, columns: Sequence[str], what: str, clear: Sequence[str]) -> None:
    """Raise InputError for columns that may be rewards; it names all that may be, as the command line takes them."""
    each = f"{listing(map(repr, columns), most=8)}, {'each ' * (len(columns) > 1)}of which may be"
    if len(columns) == 1:
        each = f"{columns[0]!r}, which may be"
    raise InputError(
        f"{where}: expected columns that are clearly rewards, got {each} {what}: name all rewards, out of "
        f"{reward_options(clear)}"
    )


# --- numbers ----------------------------------------------------------------------------------------------------------


def _without_settings(names: Sequence[str], sample: Callable[[Sequence[str]], pl.DataFrame]) -> list[str]:
    """The names without settings of the run: those that have one value where other columns vary."""
    settings = [name for name in names if "_".join(_words(name)) in _SETTINGS]
    if not settings or len(settings) == len(names):
        return list(names)
    table = sample(settings)
    return [name for name in names if name not in settings or table[name].n_unique() > 1]


def _is_open(name: str, column: pl.Series) -> bool:
    """Whether a column may be a reward or a metric: by its name, unless that asks a question and the values answer it;
    or as it counts, in many different whole numbers that are too large for marks or never fall, as steps do."""
    values, words = column.drop_nulls().drop_nans(), _words(name)
    if role(name) == "either":
        return words[0] != "is" or not values.is_in([0.0, 1.0]).all()
    if _REWARD & {*words} or not len(values):
        return False
    whole = bool((values.floor() == values).all() and (values >= 0).all())
    return whole and values.n_unique() > GRADES and bool((values > LARGEST).any() or values.is_sorted())


def _total(
    table: pl.DataFrame, clear: Sequence[str], metrics: Sequence[str], totals: Sequence[str], flags: Collection[str]
) -> tuple[str, Sequence[str], Score] | None:
    """The column that is a weighted sum of several others, those others, and how it is."""
    plain = [name for name in clear if name not in totals]
    for total in totals:
        beside = [name for name in clear if name != total]
        for parts in (plain, beside, [*plain, *metrics]):
            score = weights_of(table, parts, flags, total) if len(parts) > 1 else None
            if score is not None and score.exact and score.parts > 1 and score.spare > 0:
                return total, parts, score
    odd = _odd_one(table, clear)
    if odd is None:
        return None
    parts = [name for name in clear if name != odd]
    score = weights_of(table, parts, flags, odd)
    fits = score is not None and score.exact and score.parts > 1 and score.spare > 0 and bool(score.weights)
    return (odd, parts, score) if score is not None and fits else None


def _odd_one(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    """The column that all the others add up to with weights above 0; None where there is none, or another relation."""
    values = table.select(names).to_numpy() if len(names) > 2 else np.empty((0, 0))
    values = values[np.isfinite(values).all(1)]
    if len(values) < ROWS or (np.ptp(values, 0) == 0).any():
        return None
    size, vector = np.linalg.eigh(np.corrcoef(values.T))
    relation = vector[:, 0] / np.abs(vector[:, 0]).max()
    if size[0] > _NOTHING or size[1] <= _NOTHING or (np.abs(relation) < _FAINT).any():
        return None
    below = relation < 0
    alone = [k for k, less in enumerate(below) if less == (below.sum() == 1)]
    # A sum of rewards that go their own ways spreads more than each of them: a = b + c may be b = a − c as well.
    most = bool((np.abs(relation[alone[0]]) >= np.abs(relation)).all())
    return names[alone[0]] if len(alone) == 1 and most else None


def _of_total(numbers: Iterable[str], total: str, parts: Sequence[str], score: Score) -> RewardChoice:
    """The parts that the total counts, in the order of the log."""
    weights = score.weights
    if weights is None:  # several fit, as where two parts are equal
        return RewardChoice(tuple(name for name in numbers if name in parts and role(name) != "metric"), None, total)
    counted = [name for name in numbers if name in parts and weights.get(name, role(name) != "metric")]
    beside = [name for name in parts if name not in counted and role(name) != "metric"]
    issues: tuple[LogIssue, ...] = ()
    if beside:
        issues = (LogIssue("not-in-score", {"score": total, "columns": beside, "rewards": counted}),)
    return RewardChoice(tuple(counted), {name: weights[name] for name in counted if name in weights}, total, issues)
