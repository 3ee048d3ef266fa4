"""Signs in logged advantages that need no recipe: whether they add up to 0, how large they are, and which of them are
0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from gdpo_audit.logs.names import reward_columns
from gdpo_audit.phrases import is_or_are
from gdpo_audit.recipe.recipe import grid_of, half_step
from gdpo_audit.sums.impossible import largest_z
from gdpo_core.shared.words import count, listing, number, percent

_ROUNDED = 1e-3  # the sum of a group's advantages counts as 0 if it is at most this part of the sum of their sizes
_ALL, _SOME = 0.99, 0.01  # the shares of the groups that count as all of them, and as few
_EXACT = 1e-5  # a weighted sum may miss so much, relative to the largest advantage
_LIKE_Z = (0.7, 1.4)  # advantages look like z-scores if the median std of a group is between these
_BF16 = 2**-7  # the relative distance of two neighbours in bfloat16
NEVER = "The logged advantages add up to 0 in no group"
_OTHER_GROUPS = "the trainer's groups are not those that were read here"
_ROWS = 20  # the fewest rows beyond the number of columns: fewer equations fit by chance
_NEAR = 0.9  # the share of the groups that a rounded mean has to explain
_LEAST = 8  # the fewest groups with an advantage other than 0: fewer do not show what is usual


@dataclass(frozen=True)
class Shown:
    """Observations on how logged advantages were made, which the advantages show by themselves.

    title: the title of the most telling observation, "" if there is none.
    says: a sentence for each observation.
    weights: the weights of the rewards if the advantages are plain weighted sums of the rewards, from which no mean was
        subtracted; otherwise None.
    """

    title: str = ""
    says: tuple[str, ...] = ()
    weights: tuple[float, ...] | None = None


NOTHING_SHOWN = Shown()


def shown(tables: Sequence[pl.DataFrame], rewards: Sequence[str]) -> Shown:
    """Return what the advantages of some tables show by themselves: a sentence for each sign, and a title for the most
    telling one.

    Anything usual, such as advantages that add up to 0 in every group, is no sign. There are no signs at all where no
    advantage is logged or all are 0.

    tables: the responses.
    rewards: the names of the rewards.
    """
    table = pl.concat(tables)
    a = table["advantage"].fill_null(float("nan")).to_numpy()
    group = np.unique(table["group"].to_numpy(), return_inverse=True)[1]
    batch = np.unique(table["batch"].to_numpy(), return_inverse=True)[1]
    known = np.isfinite(a)
    if not known.any() or not a[known].any():
        return NOTHING_SHOWN
    x = table.select(reward_columns(rewards)).to_numpy()
    centred = _centring(a[known], group[known], batch[known], x[known], rewards)
    further = [_beyond(a[known], group[known]), _silent(a, group, x)]
    never = centred[0] == NEVER
    further += [] if never else [_signs(a[known])]
    titles = [title for title, _ in (centred, *further[1:]) if title]  # a few large ones alone say little
    says = tuple(sentence for _, sentence in (centred, *further) if sentence)
    weights = _plain_sum(a[known], x[known]) if never else None
    return Shown(titles[0] if titles else "", says, None if weights is None else tuple(weights))


Said = tuple[str, str]  # a title and a sentence; both empty where there is nothing to say


def _sums(a: np.ndarray, group: np.ndarray) -> tuple[int, int]:
    """Return two counts over the groups. The first is how many hold an advantage other than 0. The second is in how
    many of these the advantages do not add up to 0, beyond what rounding explains.

    a: (responses,) the advantages.
    group: (responses,) the group of each.
    """
    sizes, sums = np.bincount(group, np.abs(a)), np.abs(np.bincount(group, a))
    rounding = np.bincount(group, half_step(grid_of(torch.from_numpy(a)), torch.from_numpy(a)).numpy())
    live = sizes > 0
    return int(live.sum()), int((sums[live] > _ROUNDED * sizes[live] + rounding[live]).sum())


def _centring(a: np.ndarray, group: np.ndarray, batch: np.ndarray, x: np.ndarray, rewards: Sequence[str]) -> Said:
    """Return a title and a sentence about the groups whose advantages do not add up to 0, and the likely reason. Both
    are empty where only a few groups are of this kind, or where too few have an advantage other than 0.

    a: (responses,) the advantages.
    group, batch: (responses,) the group and the batch of each.
    x: (responses, rewards) the rewards.
    rewards: their names.
    """
    live, off = _sums(a, group)
    if off <= _SOME * live or live < _LEAST:
        return "", ""
    if off < _ALL * live:
        title = f"In {count(off)} of {count(int(group.max()) + 1)} groups the logged advantages do not add up to 0"
        return title, f"{title}. {_rounded_mean(a, group, x)}".strip()
    batches, off_in_batches = _sums(a, batch)
    if off_in_batches <= _SOME * batches:
        title = "The logged advantages add up to 0 in each batch, and in no group"
        return title, f"{title}: the mean of the batch was subtracted instead of that of the group, or {_OTHER_GROUPS}."
    title = NEVER
    weights = _plain_sum(a, x)
    if weights is None:
        return title, f"{title}: no mean was subtracted, rows were dropped afterwards, or {_OTHER_GROUPS}."
    terms = listing(f"{number(w)} × {name}" for name, w in zip(rewards, weights, strict=True) if w)
    return title, (
        f"{title}: each advantage is the weighted sum {terms} itself, from which no mean was subtracted, as happens "
        "where every response is a group of its own."
    )


def _plain_sum(a: np.ndarray, x: np.ndarray) -> list[float] | None:
    """Return the weights, rounded to four digits, with which the weighted sum of the rewards is the advantages, no mean
    being subtracted. None if there are no such weights, or if too few responses have every reward. A response that
    lacks a reward is not looked at.

    a: (responses,) the advantages.
    x: (responses, rewards) the rewards.
    """
    whole = np.isfinite(x).all(1)
    if whole.sum() < x.shape[1] + _ROWS:
        return None
    w = np.linalg.lstsq(x[whole], a[whole], rcond=None)[0]
    if np.abs(x[whole] @ w - a[whole]).max() > _EXACT * max(np.abs(a).max(), 1):
        return None
    return [float(f"{weight:.4g}") for weight in w]


def _rounded_mean(a: np.ndarray, group: np.ndarray, x: np.ndarray) -> str:
    """Return a sentence on why the advantages of some groups do not add up to 0.

    It blames a group mean that was rounded to bfloat16, if the advantages of nearly all groups agree with that. To test
    this, the rewards of each response are added up, and the mean of these sums in the group is rounded to bfloat16 and
    subtracted. The advantages have to be in proportion to the result. Otherwise the sentence names the usual reasons.

    a: (responses,) the advantages.
    group: (responses,) the group of each.
    x: (responses, rewards) the rewards.
    """
    total = torch.from_numpy(x.sum(1))
    size = torch.from_numpy(np.bincount(group)).double()
    index = torch.from_numpy(group)
    mean = (torch.zeros(len(size), dtype=torch.float64).index_add_(0, index, total) / size).bfloat16().double()
    left = (total - mean[index]).bfloat16().double().numpy()
    square = np.bincount(group, left * left)
    factor = np.bincount(group, left * a) / np.where(square == 0, 1, square)
    off = np.abs(a - factor[group] * left) > 2 * _BF16 * np.abs(factor[group] * left) + 1e-9
    right = np.bincount(group, off) == 0
    live = np.bincount(group, np.abs(a)) > 0
    if live.sum() < _ROWS or right[live].mean() < _NEAR:
        return "Usual causes are rounding, a running baseline, or rows that were dropped."
    return (
        "In nearly all groups the advantages are proportional to the rewards less their mean, but this mean was "
        "rounded to bfloat16, which is coarser than the differences between the rewards."
    )


def _beyond(a: np.ndarray, group: np.ndarray) -> Said:
    """Return a title and a sentence about advantages that are larger than a z-score can be; both empty if there are
    none. Both are empty too if the advantages are hardly z-scores, as their std inside groups is far from 1.

    a: (responses,) the advantages.
    group: (responses,) the number of each response's group.
    """
    sizes = np.bincount(group)
    mean = np.bincount(group, a) / np.maximum(sizes, 1)
    with np.errstate(over="ignore"):  # a square that is infinite is of no z-score
        std = np.sqrt(np.bincount(group, (a - mean[group]) ** 2) / np.maximum(sizes - 1, 1))
    live = std > 0
    if not live.any() or not _LIKE_Z[0] <= np.median(std[live]) <= _LIKE_Z[1]:
        return "", ""
    limits = np.array([largest_z(float(n), 0) if n > 1 else np.inf for n in sizes])
    plain = np.array([largest_z(float(n), 1) if n > 1 else np.inf for n in sizes])
    above, surely = int((np.abs(a) > plain[group] * 1.001).sum()), int((np.abs(a) > limits[group] * 1.001).sum())
    if not above:
        return "", ""
    limit = number(float(plain[np.bincount(group).argmax()]), 3)
    both = f"; {count(surely)} of them {is_or_are(surely)} beyond the limit of a std that divides by n, too"
    both = "" if surely in (0, above) else both
    title = f"{count(above, 'logged advantage')} {is_or_are(above)} beyond the largest possible z-score"
    of_group = f"of {'its' if above == 1 else 'their'} group"
    return title, f"{title} {of_group} ({limit} in the largest group, if the std divides by n − 1){both}."


def _silent(a: np.ndarray, group: np.ndarray, x: np.ndarray) -> Said:
    """Return a title and a sentence about groups in which every advantage is 0 or missing although the rewards differ.
    Both are empty where there are only a few.

    a: (responses,) the advantages.
    group: (responses,) the group of each.
    x: (responses, rewards) the rewards.
    """
    sizes, groups = np.bincount(group), int(group.max()) + 1
    moved = np.bincount(group, np.abs(np.nan_to_num(a))) > 0
    first = np.unique(group, return_index=True)[1]
    differs = np.bincount(group, (np.nan_to_num(x) != np.nan_to_num(x[first][group])).any(1)) > 0
    masked = int((~moved & differs & (sizes > 1)).sum())
    if masked <= _SOME * groups:
        return "", ""
    title = f"In {count(masked)} of {count(groups)} groups every advantage is 0, though the rewards differ"
    return title, f"{title} ({percent(masked / groups)} of the groups): usually a filter or a mask set them to 0."


def _signs(a: np.ndarray) -> Said:
    """Return a title and a sentence if no advantage is below 0, or if none is above 0. Both are empty otherwise, and
    for fewer than `_ROWS` advantages.
    """
    zeros = float((a == 0).mean())
    for sign, side in ((1, "below"), (-1, "above")):
        if len(a) >= _ROWS and (sign * a >= 0).all():
            title = f"No logged advantage is {side} 0"
            set_to_0 = f"either those that would be {side} it were set to 0, or no mean was subtracted"
            return title, f"{title}, and {percent(zeros)} of them are 0: {set_to_0}."
    return "", ""
