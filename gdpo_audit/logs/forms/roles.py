"""The role that the name of a column tells: reward, metric, total of rewards, or hyperparameter."""

import re
from collections.abc import Collection, Iterable, Mapping

import polars as pl

from gdpo_audit.logs.tables.formats import is_number_type

# The usual names of columns of advantages, steps, names of groups, and lengths, the likeliest first.
ADVANTAGES = ("advantage", "advantages", "adv")
STEPS = ("step", "global_step", "gen_step", "training_step", "iteration", "iter")
GROUPS = (
    *("group", "group_id", "uid", "prompt_id", "group_index", "group_idx", "prompt_idx", "prompt_index"),
    *("_ng_task_index",),  # a name of NeMo-Gym
    *("prompt", "input", "question"),
)
LENGTHS = (
    *("length", "completion_length", "response_length", "num_tokens", "tokens"),
    *("completion_tokens", "response_tokens"),
)
# The names of numbers that are not rewards, in tables that no framework wrote.
NOT_REWARDS = {
    *("epoch", "index", "idx", "id", "row", "seed", "rank", "timestamp", "time", "sample_id", "request_id", "rollout"),
    *("rollout_id", "completion_id", "response_id", "sample", "batch", "unnamed: 0", "", "task_id", "worker"),
    *("sample_idx", "traj_idx", "sample_index", "_ng_rollout_index", "seqlen", "head_version", "tail_version"),
    *("answer", "target", "label", "labels", "ground_truth", "gts", "gold", "solution", "reference", "expected"),
}
OVERLONG = "overlong_reward"  # the name of verl's penalty for length
REWARD_WORDS = {"reward", "rewards", "score", "scores", "penalty", "penalties", "bonus", "correct", "correctness"}
REWARD_WORDS |= {"accuracy", "acc", "format", "quality"}
# Words that make a name a metric's wherever they stand in it, and words that do so at its end.
_ANYWHERE = {"kl", "entropy", "logprob", "logprobs", "logp", "logps", "perplexity", "temperature"}
_LAST = {"len", "length", "lengths", "tokens", "turns", "truncated", "completed"}
# Words of times and spreads, which do so at the end even of a name that is called a reward.
_TIME = {"time", "ms", "sec", "secs", "seconds", "duration", "latency", "elapsed", "std", "var"}
# Words for how a response ended, or what it is for, in a name such as is_truncated. Names such as is_valid, with
# another word, are judgements.
_STATES = {"finished", "done", "eos", "stopped", "aborted", "clipped", "padded", "masked", "cached", "last", "first"}
_STATES |= {"train", "training", "eval", "validation", "test", "terminal", "greedy"}
# Whole names that are a metric's.
_WHOLE = {"lr", "learning_rate", "top_p", "top_k", "min_p", "grad_norm", "duration", "latency", "turn", "ppl", "std"}
# Names of hyperparameters; a column holds one only if it has one value in the whole log.
HYPERPARAMETERS = {
    "alpha",
    "beta",
    "gamma",
    "epsilon",
    "eps",
    "num_generations",
    "group_size",
    "batch_size",
    "n",
    "version",
    "max_turns",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "num_iterations",
    "world_size",
}
# Words that a reward may have as well as a metric.
_EITHER = {"num", "count", "n", "level", "difficulty", "confidence", "value", "loss", "baseline", "mean", "avg"}
# Words in the names of totals, the surest first.
_TOTALS = (
    {"total", "combined", "aggregate", "aggregated", "composite", "sum", "summed"},
    {"overall", "final", "weighted", "return"},
    {"reward", "rewards", "r"},
    {"score", "scores"},
)
_FILLING = {"reward", "rewards", "score", "scores", "of", "the", "raw"}  # further words in a total's name
SURE = 1  # the first so many sets of _TOTALS hold words that only a total's name has

# The names of columns of rewards.
_REWARDS = re.compile(r"(^|_)(rewards?|scores?)($|_)|^components$", re.IGNORECASE)
# Words in the names of objects that hold no rewards although they are called so, such as verl's reward_model.
_OTHERS = re.compile(r"model|config|kwargs|prompt|spec", re.IGNORECASE)


def role(name: str) -> str:
    """Return what the name of a column says it is: "reward", "metric", or "either" where it may be both.

    A name that says nothing is a reward's. The word reward does not always decide: even a name with it is a metric's if
    it ends in a time or a spread, and may be either if it has mean or avg.

    >>> [role(name) for name in ("has_digit", "responseLen", "kl_reward", "is_completed", "is_valid", "num_sources")]
    ['reward', 'metric', 'reward', 'metric', 'either', 'either']
    >>> role("reward_std"), role("mean_reward")
    ('metric', 'either')
    """
    words = words_of(name)
    if not words:
        return "reward"
    whole, last = "_".join(words), words[-1]
    says_reward = bool(REWARD_WORDS & {words[0], last})
    if whole in _WHOLE or (len(words) > 1 and last in _TIME):
        return "metric"
    if words[0] == "is":
        return "metric" if last in _LAST | _STATES else "either"
    if says_reward:
        return "either" if {"mean", "avg"} & {*words} else "reward"
    if _ANYWHERE & {*words} or "log_prob" in whole or (last in _LAST and (len(words) > 1 or last == "turns")):
        return "metric"
    return "either" if _EITHER & {words[0], last} and not REWARD_WORDS & {*words} else "reward"


def lost(kinds: Mapping[str, pl.DataType], left_out: Iterable[str], named: Collection[str] | None) -> tuple[str, ...]:
    """Return the unused columns that may, by name, have been rewards or advantages, but are not of a type of numbers.

    A column without any value may have been a reward if `role` calls its name a reward's.
    kinds: the types of all columns.
    left_out: the columns that nothing uses.
    named: the rewards that the caller names, if any. Other columns of rewards are then left out on purpose, so that
        only columns of advantages are returned.

    >>> lost({"style": pl.Null(), "accuracy": pl.String(), "tool": pl.String()}, ["style", "accuracy", "tool"], None)
    ('style', 'accuracy')
    """
    open_ones = [name for name in left_out if not is_number_type(kinds[name])]
    advantages = [name for name in open_ones if name.lower() in ADVANTAGES]
    called = [name for name in open_ones if (words_of(name) or [""])[-1] in REWARD_WORDS]
    empty = [name for name in open_ones if kinds[name] == pl.Null and role(name) == "reward"]
    return tuple(name for name in open_ones if name in (advantages if named else [*advantages, *called, *empty]))


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters, also of one in camel case; only what follows the last / counts."""
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition("/")[2])
    return [word for word in re.split(r"[^a-z0-9]+", snake_case.lower()) if word]


def total_rank(name: str) -> int | None:
    """Return how surely a name is a total's: 0 for the surest, and larger numbers for others; None for no total's."""
    words = words_of(name)
    for rank, totals in enumerate(_TOTALS):
        if totals & {*words} and {*words} <= totals | _FILLING:
            return rank
    return None


def is_called_reward(name: str) -> bool:
    """Return whether a column is named like rewards.

    >>> [is_called_reward(name) for name in ("rewards_per_func", "score", "reward_model", "metrics")]
    [True, True, False, False]
    """
    return bool(_REWARDS.search(name) and not _OTHERS.search(name))


def is_numbers(kind: object) -> bool:
    """Return whether this is a type of numbers, or of lists of numbers; lists of nulls, or of nothing, count, too."""
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return is_number_type(inner) or (isinstance(kind, pl.List) and inner == pl.Null)
