"""Number columns of a log that have one value alone: settings, such as the rank of an adapter or the version of a form.

A setting teaches nothing, so its weight cannot be known, and no figure may depend on it. Only a name, or a trainer that
writes a column for each reward function, says that such a column is a reward that never varied.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.roles import REWARD_WORDS, words_of
from gdpo_audit.logs.forms.scans import frames_of, value_of

ONE_VALUE = "it has one value in the whole log, as a setting has"
_LEAST = 30  # the fewest rows of one value that are taken for a setting; with fewer a reward is constant by chance
# Words at the end of a name that say what a number is for, also behind the word reward.
_OF_SETTINGS = {"version", "weight", "weights", "scale", "coef", "coefficient", "factor", "threshold", "rank", "type"}
_OF_WEIGHTS = {"w", "weight", "coef", "coefficient", "lambda", "alpha", "beta"}  # words before the name of a reward
_OF_SETTINGS |= {"id", "config", "schema", "max", "min", "clip", "temperature", "kind", "mode", "size", "seed"}


def settings_in(form: Form, names: Sequence[str], kinds: Mapping[str, pl.DataType], rows: pl.DataFrame) -> list[str]:
    """Return the columns that have one value in every row of the log, and that nothing says to be a reward.

    The list is empty if every column has one value, or if the log has fewer than `_LEAST` rows. A column with a missing
    value beside others counts as varying, because a bonus may be logged only where it was paid.
    form: says how the log is read.
    names: the columns that may be rewards.
    kinds: the types of all columns, in the order of the log.
    rows: a sample of these columns. Only what is constant there is looked for in the whole log.
    """
    if len(rows) < _LEAST:
        return []
    constant = [name for name in names if _is_constant(rows[name])]
    kept = {name for name in constant if says_reward(name) or _is_function(form, name, kinds, rows[name])}
    suspects = [name for name in constant if name not in kept]
    constant_ones = _constant_everywhere(form, suspects) if suspects else []
    return constant_ones if len(constant_ones) < len(names) else []


def says_reward(name: str) -> bool:
    """Return whether a name says that a column is a reward: its last word does, or its first, unless the last word
    names a setting or the first one a weight.

    >>> [says_reward(name) for name in ("formatReward", "acc", "reward_fluency", "format_version", "rewards/polite")]
    [True, True, True, False, True]
    >>> says_reward("w_acc")
    False
    """
    words = words_of(name)
    if not words or words[-1] in _OF_SETTINGS or (len(words) > 1 and words[0] in _OF_WEIGHTS):
        return False
    folder = words_of(name.rpartition("/")[0])[-1:]
    return bool(REWARD_WORDS & {words[0], words[-1], *folder})


def _is_constant(values: pl.Series) -> bool:
    """Return whether a column has a value in all rows or in none, and no two different ones."""
    there = values.drop_nulls().drop_nans()
    return len(there) in (0, len(values)) and there.n_unique() <= 1


def _is_function(form: Form, name: str, kinds: Mapping[str, pl.DataType], values: pl.Series) -> bool:
    """Return whether a constant column is a reward function of a trainer that writes one column for each.

    Such a trainer writes its functions before the advantages, as floats. A function that never passes, or always does,
    pays no more than 1.
    form: says how the log is read.
    name: the column.
    kinds: the types of all columns, in the order of the log.
    values: the values of the column in a sample of the rows.
    """
    if form.asks or form.score is not None or not kinds[name].is_float():
        return False
    order = [*kinds]
    before = form.advantage is None or order.index(name) < order.index(form.advantage)
    return before and bool((values.drop_nulls().drop_nans().abs() <= 1).all())


def _constant_everywhere(form: Form, names: Sequence[str]) -> list[str]:
    """Return those of the columns that are constant in the whole log, and not only in a sample of it.

    form: says how the log is read.
    names: columns that are constant in a sample.
    """
    low, high = dict[str, float](), dict[str, float]()
    left = list(names)
    for frame in frames_of(form, names):
        schema = frame.schema
        numbers = frame.select(value_of(name, schema).cast(pl.Float64, strict=False).alias(name) for name in left)
        for name in [*left]:
            values = numbers[name].drop_nulls().drop_nans()
            if not len(values):
                continue
            low[name] = min(low.get(name, float("inf")), float(values.min()))  # type: ignore[arg-type]
            high[name] = max(high.get(name, -float("inf")), float(values.max()))  # type: ignore[arg-type]
            if low[name] < high[name] or len(values) < len(frame):
                left.remove(name)
    return left
