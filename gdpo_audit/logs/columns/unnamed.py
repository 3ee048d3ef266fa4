"""Columns of a table of no known trainer that no usual name tells: its advantages and its steps, by what they hold.

Advantages add up to 0 in every group, and the rewards explain most of them. A step is a whole number that rises along
the log, and its groups are whole.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import polars as pl

from gdpo_audit.logs.columns.constants import says_reward
from gdpo_audit.logs.columns.totals import NEARLY
from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.options import ReadOptions
from gdpo_audit.logs.forms.roles import GROUPS, role, words_of
from gdpo_audit.logs.forms.scans import frames_of
from gdpo_audit.logs.forms.standard_rows import hash_column
from gdpo_audit.logs.names import EVENT, FILE, ROW
from gdpo_audit.logs.numbers.clues import NEARLY_ALL, balanced_share, groupings_of, in_words, key_names, member_numbers
from gdpo_audit.logs.numbers.weighted_sums import RANGE, weights_of
from gdpo_audit.logs.tables.formats import is_number_type
from gdpo_audit.records import Clues, LogIssue

_ROWS = 20_000  # the rows in which advantages are looked for
STEP_ROWS = 300_000  # the rows in which steps are looked for
_CENTRED = 0.02  # the largest mean of advantages, as a share of their mean size
_FOLLOWS = 0.95  # the least correlation of a step with the place of its rows
_FALLS = 0.2  # the largest share of its changes in which a number of steps falls, as where a run begins again
_EVEN = 0.8  # the share of the distances of steps, and of the sizes of groups, that have to be equal
_WHOLE = 0.95  # the share of the groups that have to lie in one step
_EXACT = 2**53  # the largest whole numbers that a float holds exactly
_Answer = TypeVar("_Answer")
_OF_STEPS = {"step", "update"}  # the last word of a name of steps


def with_unnamed(form: Form, kinds: Mapping[str, pl.DataType], options: ReadOptions) -> Form:
    """Return the form of a table of no known trainer with the advantages and the steps that only their numbers tell.

    An issue names each column that is taken so. Any other form comes back as it is, and so does one that knows both.
    form: says which column of the log holds what, as far as names tell.
    kinds: the types of all columns.
    options: the caller's options. What they name is what the caller says.
    """
    if not form.asks:
        return form
    used = {form.step, form.advantage, form.length, form.key, FILE, ROW, EVENT, *options.names}
    numbers = [
        name
        for name, kind in kinds.items()
        if is_number_type(kind) and kind != pl.Boolean and name not in used and name.lower() not in form.not_rewards
    ]
    if not form.advantage:
        named = [name for name in options.rewards or () if name in kinds and name not in numbers]
        if told := _once(_advantage_of, form, kinds, [*numbers, *named]):
            issue, beside = told
            no_rewards, issues = form.not_rewards | beside, (*form.issues, issue)
            form = replace(form, advantage=issue.details["column"], not_rewards=no_rewards, issues=issues)
    if form.step:
        return form
    steps = _once(_steps_of, form, kinds, [name for name in numbers if name != form.advantage])
    if steps is None:
        return form
    return replace(form, step=steps.details["column"], batch=("step",), sorts=True, issues=(*form.issues, steps))


def _once(
    find: Callable[..., _Answer], form: Form, kinds: Mapping[str, pl.DataType], numbers: Sequence[str]
) -> _Answer:
    """Return what `find` returns for these arguments. It is called once for all that it depends on, and the table keeps
    the result.

    While an explanation of its advantages is looked for, a log is read many times with other options, most of which
    change nothing that such a column depends on.
    """
    tables = tuple(form.tables)
    asked = (form.to_responses, form.batch, form.step, form.key, form.advantage, *kinds.items(), *numbers)
    memory = tables[0].memory
    if (key := (find, *map(id, tables), asked)) not in memory:
        memory[key] = tables[1:], find(form, kinds, numbers)  # while these tables live, no other has their ids
    return memory[key][1]


# --- advantages ------------------------------------------------------------------------------------------------------


def _advantage_of(
    form: Form, kinds: Mapping[str, pl.DataType], numbers: Sequence[str]
) -> tuple[LogIssue, frozenset[str]] | None:
    """Return two things on the column that holds the advantages, or None if none does: an issue that names it, and the
    other columns that are no rewards, in small letters.

    Such a column adds up to 0 in the groups of the log, rewards explain most of what it does there, and it is in no
    total. If there are several, as where each reward has an advantage, the one counts that is the sum of the others.
    form: says which column of the log holds what.
    kinds: the types of all columns.
    numbers: the columns that may hold advantages or rewards.
    """
    floats = [name for name in numbers if kinds[name].is_float() and not says_reward(name)]
    if not floats:
        return None
    keys = key_names([name for name, kind in kinds.items() if _names_groups(kind) and name not in (ROW, FILE)], GROUPS)
    rows = _head(form, [*numbers, *keys, *([form.step] if form.step else [])], _ROWS)
    table = rows.select(pl.col(name).cast(pl.Float64, strict=False) for name in numbers)
    zero = [name for name in floats if _is_centred(table[name])]
    rewards = table.drop(zero)
    explained = {name: _explained(rows, rewards.with_columns(table[name]), name, form, keys) for name in zero}
    centred = [name for name, (share, _) in explained.items() if share >= NEARLY]
    chosen = _sum_of(table, centred) if len(centred) > 1 else next(iter(centred), None)
    if chosen is None:
        return None
    details = {"column": chosen, "explained": explained[chosen][0], "grouped_by": explained[chosen][1]}
    beside = frozenset(name.lower() for name in centred if name != chosen)
    return LogIssue("advantage-found", details), beside


def _names_groups(kind: pl.DataType) -> bool:
    """Return whether a column of this type can name groups: whole numbers and texts can."""
    return kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum)


def _head(form: Form, names: Sequence[str], most: int) -> pl.DataFrame:
    """Return these columns of the first rows of the log, with FILE and ROW.

    form: says how the log is read.
    names: the columns.
    most: the most rows.
    """
    frames, rows = list[pl.DataFrame](), 0
    for frame in frames_of(form, [*dict.fromkeys(names)], most):
        frames.append(frame)
        rows += len(frame)
        if rows >= most:
            break
    return pl.concat(frames, how="vertical_relaxed").head(most)


def _is_centred(values: pl.Series) -> bool:
    """Return whether a column has a number in every row, some of them below 0, and a mean of next to 0."""
    x = values.to_numpy()
    in_range = len(x) > 0 and bool(np.isfinite(x).all()) and RANGE[0] <= np.abs(x).max() <= RANGE[1]
    size = float(np.abs(x).mean()) if in_range else 0.0
    return size > 0 and bool(x.min() < 0 < x.max()) and abs(float(x.mean())) <= _CENTRED * size


def _explained(
    rows: pl.DataFrame, table: pl.DataFrame, name: str, form: Form, keys: Sequence[str]
) -> tuple[float, str]:
    """Return which share of a column the rewards explain inside the groups in which it adds up to 0, and in words how
    these groups are told apart; 0 if there are no such groups, or if the column is part of a total.

    rows: the first rows of the log.
    table: the columns of numbers in these rows.
    name: the column.
    form: says which column holds the steps.
    keys: the columns that may name groups.
    """
    batch = rows[form.step if form.step else FILE].rank("dense").cast(pl.Int64)
    order = batch.arg_sort()
    hashes = rows.select(hash_column(rows, key).fill_null(0).alias(key) for key in keys)[order] if keys else rows
    columns = {key: hashes[key].reinterpret(signed=True).to_numpy() for key in keys if key not in (name, form.step)}
    clues = Clues(batch[order].to_numpy(), table[name][order].to_numpy(), columns)
    groupings = groupings_of(clues)
    parts = [n for n in table.columns if n != name and role(n) != "metric" and _varies(table[n]) and n != form.step]
    if not groupings or not parts or _in_a_total(table, name, parts):
        return 0.0, ""
    group = np.unique(member_numbers(clues, groupings[0]), return_inverse=True)[1]
    filled = table.select(pl.col(parts).fill_null(0.0).fill_nan(0.0))  # a reward that only some tasks have
    y, x = _centre(clues.advantage, group), np.stack([_centre(filled[n][order].to_numpy(), group) for n in parts], 1)
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return 1 - float(rest @ rest / (y @ y)), in_words(groupings[0])


def _varies(values: pl.Series) -> bool:
    """Return whether a column has two different numbers, all of them finite."""
    x = values.drop_nulls().drop_nans().to_numpy()
    return bool(len(x) and np.isfinite(x).all() and RANGE[0] <= np.abs(x).max() <= RANGE[1] and np.ptp(x) > 0)


def _centre(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the values minus the mean of their group; both arguments have an item per row."""
    return values - (np.bincount(group, values) / np.bincount(group))[group]


def _in_a_total(table: pl.DataFrame, name: str, parts: Sequence[str]) -> bool:
    """Return whether another column is exactly a weighted sum of this one and others, as a total is of its rewards.

    An advantage is never in such a sum, because the mean of each group was taken away from it.
    table: columns of numbers.
    name: the column.
    parts: the other columns.
    """
    for total in parts:
        terms = [name, *(part for part in parts if part != total)]
        score = weights_of(table, terms, score=total)
        if score is not None and score.exact and score.spare > 0 and (score.weights or {}).get(name):
            return True
    return False


def _sum_of(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    """Return the one of these columns that is exactly a sum of the others; None if there is none, or several.

    table: columns of numbers.
    names: the columns, each of which adds up to 0 in every group.
    """
    sums = []
    for name in names:
        score = weights_of(table, [term for term in names if term != name], score=name)
        if score is not None and score.exact and all(w > 0 for w in (score.weights or {"": -1.0}).values()):
            sums.append(name)
    return sums[0] if len(sums) == 1 else None


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps_of(form: Form, kinds: Mapping[str, pl.DataType], numbers: Sequence[str]) -> LogIssue | None:
    """Return an issue that names the column that numbers the steps; None if none does.

    A column that is called so comes before others, and of several the one with the most steps.
    form: says which column of the log holds what.
    kinds: the types of all columns.
    numbers: the columns that may hold steps.
    """
    few = _head(form, numbers, _ROWS) if numbers else pl.DataFrame()
    likely = [name for name in numbers if _are_whole(few[name])]
    if not likely:
        return None
    beside = [name for name in (form.key, form.advantage) if name]
    rows = _head(form, [*likely, *beside], STEP_ROWS)
    key = None if form.key is None else rows.select(hash_column(rows, form.key).alias("key"))["key"].to_numpy()
    clues = None
    if form.advantage and is_number_type(kinds[form.advantage]):
        clues = _clues(form, kinds, rows[form.advantage], likely)
    fits = [name for name in likely if _numbers_steps(name, rows[name], key, clues)]
    if not fits:
        return None
    step = max(fits, key=lambda name: (_is_called_step(name), rows[name].n_unique()))
    return LogIssue("steps-found", {"column": step, "by": "name" if _is_called_step(step) else "numbers"})


def _is_called_step(name: str) -> bool:
    """Return whether the last word of a name is one for steps, as in grpo_step and trainUpdate."""
    return bool(_OF_STEPS & {*words_of(name)[-1:]})


def _are_whole(values: pl.Series) -> bool:
    """Return whether a column holds a whole number in every row."""
    x = values.cast(pl.Float64, strict=False).to_numpy()
    return bool(len(x) and (np.abs(x) <= _EXACT).all() and (x == np.floor(x)).all())


def _clues(form: Form, kinds: Mapping[str, pl.DataType], advantage: pl.Series, likely: Collection[str]) -> Clues:
    """Return the advantages of the first rows of the log in one batch, with the columns that may name groups.

    form: says which column of the log holds what.
    kinds: the types of all columns.
    advantage: the column of the advantages, of more rows or as many.
    likely: the columns that may hold steps.
    """
    names = [name for name, kind in kinds.items() if _names_groups(kind) and name not in (ROW, FILE, *likely)]
    keys = key_names(names, GROUPS)
    rows = _head(form, keys, _ROWS)
    hashes = rows.select(hash_column(rows, key).fill_null(0).alias(key) for key in keys)
    values = advantage.head(len(rows)).cast(pl.Float64).fill_null(0.0).fill_nan(0.0).to_numpy()
    columns = {key: hashes[key].reinterpret(signed=True).to_numpy() for key in keys}
    return Clues(np.zeros(len(rows), dtype=np.int64), values, columns)


def _numbers_steps(name: str, values: pl.Series, key: np.ndarray | None, clues: Clues | None) -> bool:
    """Return whether a column numbers the steps of a log: several rows share a number, which rises along the rows, and
    the groups are whole in it.

    In shuffled rows nothing rises. Then as many rows have each number. A column that is not called a step has to go up
    by one distance, and several groups share each of its numbers. A column that is called so, goes up by one distance
    and never falls numbers them even where prompts that come again do not tell whether groups are whole.
    name: the name of the column.
    values: its values.
    key: a number for each row that tells its group, as far as a column names it; None without such a column.
    clues: the advantages of the first rows, with the columns that may name groups; None without advantages.
    """
    x, named = values.cast(pl.Float64).to_numpy(), _is_called_step(name)
    steps, number, rows = np.unique(x, return_inverse=True, return_counts=True)
    if len(steps) < (2 if named else 3) or len(x) < 2 * len(steps):
        return False
    changes = np.diff(x)[np.diff(x) != 0]
    # It falls back where a run was started again, and where the next file begins.
    rises = (changes < 0).sum() <= max(1, _FALLS * len(changes)) or np.corrcoef(x, np.arange(len(x)))[0, 1] >= _FOLLOWS
    balanced = (rows == np.median(rows)).mean() >= _EVEN
    gaps = np.diff(steps)
    even = (gaps == np.median(gaps)).mean() >= _EVEN
    if not (rises or balanced) or not (named or even):
        return False
    judged = clues if clues is not None and clues.advantage.any() else None
    if key is None:
        return named if judged is None else _splits(number[: len(judged.batch)], judged, rises)
    pair = np.unique(np.stack([number, np.unique(key, return_inverse=True)[1]], 1), axis=0, return_inverse=True)[1]
    several = pair.max() + 1 >= 2 * len(steps)
    if named and even and several and not (changes < 0).any() and _mostly_once(pair.ravel(), key):
        return True
    return (named or several) and _whole_in(pair.ravel(), key, judged)


def _mostly_once(pair: np.ndarray, key: np.ndarray) -> bool:
    """Return whether most keys stand in one step alone, as prompts do that a training draws at random.

    The arguments are those of `_whole_in`.
    """
    pairs = np.unique(np.stack([pair, np.unique(key, return_inverse=True)[1]]), axis=1)[1]
    return bool((np.bincount(pairs) == 1).mean() > 0.5)


def _splits(number: np.ndarray, clues: Clues, rises: bool) -> bool:
    """Return whether the rows that share a number hold several groups, so that the number is a step's, and neither a
    group's nor that of the steps at which the rows of a group were used one by one.

    number: the number of each row.
    clues: the advantages of these rows, and the columns that may name groups.
    rises: whether the number rises along the rows. If it does not, a column has to name the groups.
    """
    order = np.argsort(number, kind="stable")
    in_steps = Clues(number[order], clues.advantage[order], {name: key[order] for name, key in clues.keys.items()})
    groupings = groupings_of(in_steps)
    return bool(groupings) and (rises or any(grouping.columns for grouping in groupings))


def _whole_in(pair: np.ndarray, key: np.ndarray, clues: Clues | None) -> bool:
    """Return whether groups stay whole where a step ends them, too.

    They do if a key has one step, as nearly all have. If a prompt comes again, its advantages add up to 0 in each step,
    or, without advantages, as many rows of it stand in each.
    pair: the number of each row's pair of step and key.
    key: a number that tells the group of each row.
    clues: the advantages of the first rows; None without advantages.
    """
    group = np.unique(key, return_inverse=True)[1]
    if (pair.max() + 1) * _WHOLE <= group.max() + 1:
        return True
    if clues is not None:
        return balanced_share(pair[: len(clues.advantage)], clues.advantage) >= NEARLY_ALL
    sizes = np.bincount(pair)
    return bool((sizes == np.median(sizes)).mean() >= _EVEN and np.median(sizes) > 1)
