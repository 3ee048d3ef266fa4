"""Means and stds that a trainer logs of each step in place of its answers, and what follows from them.

TRL and ms-swift write `rewards/NAME/mean` and `/std` into trainer_state.json, W&B, TensorBoard and logging.jsonl. A
mean does not say which answers were compared with which, so no audit can be made of it. The error for such a log says
what follows all the same, by the bounds of `gdpo_core.bounds.means`, and which line of configuration logs the
completions.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from gdpo_audit.logs.refusals import refuse
from gdpo_audit.logs.tables.formats import Table, is_number_type
from gdpo_core.bounds.means import Scalars, bound_shares
from gdpo_core.conventions import COMPARED
from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.shared.words import count, listing, percent

Array = np.ndarray
# The name of a column of means or stds: what stands before it, such as train/, the reward, and which of the two it is.
_NAME = re.compile(r"(?P<of>(?:.*[/ ])?)rewards/(?P<reward>.+)/(?P<what>mean|std)")
_EVALUATION = re.compile(r"(^|[/ _])eval")
_TITLES = {"grpo": "GRPO", "grpo_no_std": "GRPO without std", "gdpo": "GDPO"}
_FITS = 2e-5  # how far a square of stds may be from the parabola of two values, as a share of their squared distance
_LARGEST = 1e100  # the largest mean that is used, whose square is still a number
_MOST = 10.0  # a bound of a share beyond this says nothing


def refuse_means(tables: Sequence[Table], size: int | None) -> None:
    """Raise InputError if tables hold means of rewards in training, one per step, and neither completions nor prompts.

    In any other case nothing is done. The error says what the means show of the rewards' shares of the update, or why
    they show nothing.
    tables: the tables of the log.
    size: the group size; None if the caller did not give it.
    """
    names = dict.fromkeys(name for table in tables for name in table.schema)
    matches = [match for name in names if (match := _NAME.fullmatch(name)) and not _EVALUATION.search(name)]
    if not matches or any(name.rpartition("/")[2].lower() in ("completion", "completions", "prompt") for name in names):
        return
    framework = "ms_swift" if "global_step/max_steps" in names else "trl"
    line = FRAMEWORKS[framework].lines.log_every_step
    rewards = listing(dict.fromkeys(match["reward"] for match in matches), most=5)
    got = (
        f"one per step of a tracker: these are means per step, not responses, of {rewards}. A mean does not say which "
        "responses were compared with which, so a log of means shows neither shares nor ties. "
        f"{_follows(tables, matches, size)} To log the completions, each with its rewards: {line}"
    )
    refuse(tables[0].name, "a row per response", got)


def _follows(tables: Sequence[Table], matches: Sequence[re.Match[str]], size: int | None) -> str:
    """Return sentences on what a log of means says of each reward's share of the update, or why it says nothing.

    tables: the tables of the log.
    matches: the matches of the regular expression `_NAME` with the names of the columns of means and stds.
    size: the group size; None if it is not known.
    """
    if len({match["of"] for match in matches}) > 1:
        return "It holds several runs: with one alone this message would say what bounds follow."
    names = [*dict.fromkeys(match["reward"] for match in matches)]
    if len(names) == 1:
        return "Its only reward makes the whole update under any method."
    columns = _columns(tables, matches)
    if any(f"{name}/mean" not in columns for name in names):
        return "Nothing more follows, as not every mean is a column of numbers."
    if any(f"{name}/std" not in columns for name in names):
        return "Without the stds nothing else follows."
    means = np.array([columns[f"{name}/mean"] for name in names]).T
    stds = np.array([columns[f"{name}/std"] for name in names]).T
    there = (np.abs(means) < _LARGEST).all(1) & (np.abs(stds) < _LARGEST).all(1)  # NaN and infinity are not smaller
    if there.sum() < 2:
        return "It holds the means of too few steps for more."
    columns = {name: values[there] for name, values in columns.items()}
    return _bounded(names, means[there], stds[there], columns, size)


def _columns(tables: Sequence[Table], matches: Sequence[re.Match[str]]) -> dict[str, Array]:
    """Return the numbers in the columns of means and stds, by short names of the columns; NaN where one is missing.

    The short names are REWARD/mean and REWARD/std for each reward. For the weighted sum of the rewards they are reward,
    reward_std and frac_reward_zero_std. A column that no table has as numbers is left out.
    tables: the tables of the log.
    matches: the matches of the regular expression `_NAME` with the names of the columns of means and stds.
    """
    wanted = {match[0]: f"{match['reward']}/{match['what']}" for match in matches}
    wanted |= {matches[0]["of"] + name: name for name in ("reward", "reward_std", "frac_reward_zero_std")}
    frames = []
    for table in tables:
        there = {name: kind for name, kind in table.schema.items() if name in wanted and is_number_type(kind)}
        frames.append(table.collected(table.frame.select(pl.col(name).cast(pl.Float64) for name in there)))
    rows = pl.concat(frames, how="diagonal")
    return {wanted[name]: rows[name].fill_null(np.nan).to_numpy() for name in rows.columns}


# --- what follows ----------------------------------------------------------------------------------------------------


def _bounded(names: Sequence[str], means: Array, stds: Array, columns: Mapping[str, Array], size: int | None) -> str:
    """Return sentences on the bounds of each reward's update share, by method, over the second half of the steps.

    If no bounds follow, the sentences say why.
    names: the rewards.
    means: (steps, rewards) the logged means.
    stds: (steps, rewards) the logged stds.
    columns: (steps,) each, by short names, as `_columns` returns them.
    size: the group size, if it is known.
    """
    marks = [binary_values(means[:, k], stds[:, k]) for k in range(len(names))]
    rows = {mark[2] for mark in marks if mark}
    if untold := [name for name, mark, std in zip(names, marks, stds.T, strict=True) if mark is None and std.any()]:
        what = "does not show" if len(untold) == 1 else "do not show"
        why = f"{listing(untold, most=5)} {what} two values alone and one batch per entry"
        return f"Nothing more follows, as {why}."
    if len(rows) != 1:
        return "Nothing more follows, as no reward shows how many responses a step has."
    [answers] = rows
    each = f"Each entry is of {count(answers, 'response')}"
    if size is None:
        return f"{each}: with group_size (--group-size) this message says what bounds follow."
    if answers % size or size < 2:
        return f"{each}, which are no groups of {size}."
    weights, known = _weights(means, columns.get("reward"))
    half = len(means) // 2
    unknown = np.full(len(means), np.nan)
    total, silent = (columns.get(name, unknown) for name in ("reward_std", "frac_reward_zero_std"))
    values = [None if mark is None else mark[:2] for mark in marks]
    bounds = {}
    for method in COMPARED:
        under = unknown if method == "gdpo" else silent
        limits = bound_shares(Scalars(size, answers // size, weights, values, means, stds, total, under), method)
        bounds[method] = limits.low[half:].mean(0), limits.high[half:].mean(0)
    steps, groups = count(len(means) - half, "step"), count(answers // size, "group")
    with_weights = f"the weights {listing(f'{w:g}' for w in weights)}" if known else "weights taken for 1"
    return f"Over the last {steps}, with {groups} of {size} and {with_weights}, {_verdict(names, bounds)}"


def _verdict(names: Sequence[str], bounds: Mapping[str, tuple[Array, Array]]) -> str:
    """Return sentences that say under which methods one reward surely had the largest share, and one method's bounds.

    Bounds are shown for the first method under which they leave open which reward had the largest share. If they leave
    it open under none, they are shown for the first method in `bounds`.
    names: the rewards.
    bounds: by method, the lowest and the highest share of each reward, (rewards,) each.
    """
    above = {
        method: next((names[k] for k in range(len(names)) if (low[k] > np.delete(high, k)).all()), None)
        for method, (low, high) in bounds.items()
    }
    sentences = [f"under {_TITLES[method]} {name} had the largest share" for method, name in above.items() if name]
    if left := [method for method, name in above.items() if not name]:
        under = listing(_TITLES[method] for method in left)
        sentences.append(f"it stays open under {under} which reward had the largest share")
    method = (left or [*bounds])[0]
    ranges = [
        f"{percent(a)} to {percent(b)} for {name}" if max(-a, b) < _MOST else f"none for {name}"
        for name, a, b in zip(names, *bounds[method], strict=True)
    ]
    return f"{listing(sentences)}. The bounds under {_TITLES[method]} are {listing(ranges, most=5)}."


def binary_values(means: Array, stds: Array) -> tuple[float, float, int] | None:
    """Return the two values of a reward that has no others, and the number of answers behind each logged entry.

    None if the entries do not prove this. Suppose that n answers have the values a and b alone, and that the std
    divides by n − 1. Then (n − 1) std² = n (mean − a) (b − mean). This is a parabola in the mean, and fitting it to the
    entries gives a, b and n. For a reward of 0 and 1 two entries are enough. Entries that average several batches do
    not lie on the parabola, or do not hold whole numbers of passes, so they prove nothing.
    means: (entries,) the mean of each entry.
    stds: (entries,) the std of each entry.

    >>> p = np.array([0.25, 0.375, 0.5, 0.75])
    >>> binary_values(5 * p, 5 * np.sqrt(p * (1 - p) * 8 / 7))
    (0.0, 5.0, 8)
    """
    squares = stds**2
    moves = (squares > 0) & (means * (1 - means) > 0)
    fits = []
    if moves.sum() > 1 and moves.sum() == (squares > 0).sum():  # 0 and 1
        fits.append((0.0, 1.0, float(np.median(squares[moves] / (means * (1 - means))[moves]))))
    if len(np.unique(np.round(means, 6))) > 3:
        third, second, first = np.linalg.lstsq(np.stack([means**0, means, means**2], 1), squares, rcond=None)[0]
        inside = second**2 + 4 * abs(first) * third
        if first < -1 and inside > 0:
            ends = [(second + sign * np.sqrt(inside)) / (-2 * first) for sign in (-1, 1)]
            span = ends[1] - ends[0]
            low, high = (float(f"{round(end / span, 4) * span:.4g}") + 0.0 for end in ends)
            fits.append((low, high, -float(first)))
    for low, high, factor in fits:
        answers = round(factor / (factor - 1)) if factor > 1 else 0
        if answers < 2:
            continue
        by = answers / (answers - 1) * (means - low) * (high - means)
        passes = (means - low) / (high - low) * answers
        whole = np.abs(passes - np.round(passes)).max() < 1e-3
        if whole and np.abs(by - squares).max() <= _FITS * (high - low) ** 2:
            return low, high, answers
    return None


def _weights(means: Array, total: Array | None) -> tuple[list[float], bool]:
    """Return the weights of a total, and whether the log shows them.

    With these weights, the means of the rewards add up to the mean of the total. Without a total, or where no weights
    or several fit, they are 1 each. The log then shows them only if the means add up to the total.
    means: (steps, rewards) the means of the rewards.
    total: (steps,) the means of the total, or None.
    """
    ones = [1.0] * means.shape[1]
    if total is None or not np.isfinite(total).all():
        return ones, False
    solution, _, rank, _ = np.linalg.lstsq(means, total, rcond=None)
    fits = np.abs(means @ solution - total).max() <= 1e-4 * max(np.abs(total).max(), 1e-9)
    if rank < means.shape[1] or not fits:
        return ones, bool(np.abs(means.sum(1) - total).max() <= 1e-5)
    return [float(f"{w:.3g}") for w in solution], True
