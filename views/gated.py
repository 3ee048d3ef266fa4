"""Section 7, on the real answers of section 4: what a gate on correctness does to their order, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

import gdpo_core as gc
from gdpo_core.bfcl import REWARDS, Published
from views.broken import collapsed
from views.conflict import each_method
from views.prompts import Choice, groups, says
from views.text import NAMES, count, word


def gated_marks(data: Published, choice: Choice, group_size: int) -> Tensor:
    """The marks of the drawn answers, the others only where the first one, correctness, was passed."""
    marks = groups(data, choice, group_size)
    for reward in range(1, marks.shape[-1]):
        marks = gc.condition(marks, reward, 0)
    return marks


@dataclass(frozen=True)
class Sorted:
    """What one method makes of the drawn answers; pairs are of answers to one prompt."""

    right_first: int  # of the pairs of a right and a wrong answer
    tied: int
    wrong_first: int
    two_right: int  # tied pairs of right answers whose marks, as graded, differ
    two_wrong: int  # the same of wrong answers
    mixes: float  # different mixes of marks in a prompt, mean over all prompts
    advantages: float  # different advantages in a prompt, mean over all prompts
    silent: int  # prompts in which every advantage is 0


@dataclass(frozen=True)
class Pairs:
    """Answers to a prompt by their mix of marks, which is all that any method sees of them."""

    mix: Tensor  # (prompts, group_size) number of each answer's mix as graded; odd for a right answer
    opposite: Tensor  # (prompts, mixes, mixes) pairs of a right answer with the one mix and a wrong with the other
    two_right: Tensor  # the same of right answers with different marks, each pair once
    two_wrong: Tensor


def _pairs(data: Published, choice: Choice, group_size: int) -> Pairs:
    marks = groups(data, choice, group_size).long()
    kinds = 2 ** marks.shape[-1]
    mix = (marks * 2 ** torch.arange(marks.shape[-1])).sum(-1)
    have = mix.new_zeros(len(mix), kinds).scatter_add(1, mix, torch.ones_like(mix))
    right = torch.arange(kinds) % 2 == 1
    pairs = have[:, :, None] * have[:, None, :]
    two_right, two_wrong = ((pairs * (x[:, None] & x)).triu(1) for x in (right, ~right))
    return Pairs(mix, pairs * (right[:, None] & ~right), two_right, two_wrong)


@lru_cache(maxsize=256)
def different(data: Published, choice: Choice, group_size: int) -> tuple[int, int, int]:
    """How many pairs there are: of a right and a wrong answer, of two right ones whose marks differ, of two wrong."""
    pairs = _pairs(data, choice, group_size)
    return tuple(int(x.sum()) for x in (pairs.opposite, pairs.two_right, pairs.two_wrong))


@lru_cache(maxsize=256)
def sorted_by(data: Published, choice: Choice, group_size: int) -> tuple[dict[str, Sorted], dict[str, Sorted]]:
    """What each method makes of the answers as graded, and of the same behind the gate."""
    pairs = _pairs(data, choice, group_size)
    marks = gated_marks(data, choice, group_size)
    graded = {m: _sorted(collapsed(data, choice, group_size, m), pairs) for m in NAMES}
    return graded, {m: _sorted(gc.collapse(marks, m, weights=choice.weights), pairs) for m in NAMES}


def _sorted(c: gc.Collapse, pairs: Pairs) -> Sorted:
    level = c.level.reshape(pairs.mix.shape)
    level = level.new_zeros(pairs.opposite.shape[:2]).scatter(1, pairs.mix, level)  # (prompts, mixes)
    more = (level[:, :, None] - level[:, None, :]).sign()
    right_first, tied, wrong_first = (int(pairs.opposite[more == sign].sum()) for sign in (1, 0, -1))
    two_right, two_wrong = (int(x[more == 0].sum()) for x in (pairs.two_right, pairs.two_wrong))
    silent, alike = round(c.silent_groups * c.groups), c.groups - c.mixed_groups

    def over_all(mean: float) -> float:  # of the mixed prompts; in the others all answers are alike
        return (mean * c.mixed_groups + alike) / c.groups if c.mixed_groups else 1.0

    return Sorted(
        right_first=right_first,
        tied=tied,
        wrong_first=wrong_first,
        two_right=two_right,
        two_wrong=two_wrong,
        mixes=over_all(c.vectors),
        advantages=over_all(c.levels),
        silent=silent,
    )


def conditioned(data: Published, choice: Choice, group_size: int) -> str:
    """HTML of what the gate does to the order of the real answers, and what it costs."""
    total, _, two_wrong = different(data, choice, group_size)
    if not total:
        return says("<p>No prompt here has drawn both a right and a wrong answer, so there is no order to compare.</p>")
    graded, gated = sorted_by(data, choice, group_size)
    return (
        says(_order(graded, gated, total) + _cost(graded, gated, two_wrong))
        + _table(
            graded,
            gated,
            f"All {count(total)} pairs of a right and a wrong answer to one prompt",
            {"right first": "right_first", "tied": "tied", "wrong first": "wrong_first"},
        )
        + _table(
            graded,
            gated,
            "What it costs: advantages left (mean a prompt), and tied pairs whose marks differ",
            {"advantages": "advantages", "two right, tied": "two_right", "two wrong, tied": "two_wrong"},
        )
    )


def _order(graded: Mapping[str, Sorted], gated: Mapping[str, Sorted], total: int) -> str:
    told = "; ".join(
        f"{NAMES[m]} puts the wrong answer first in {count(graded[m].wrong_first)} and ties {count(graded[m].tied)}"
        for m in ("grpo", "gdpo")
    )
    told = f"<p>As graded, of {count(total)} pairs of a right and a wrong answer {told}. "
    if all(s.right_first == total for s in gated.values()):
        return (
            f"{told}<b>Gated, the right answer comes first in all {count(total)} under every method.</b> It cannot be "
            f"otherwise: a wrong answer keeps none of the {word(len(REWARDS))} marks, a right one keeps at least "
            "correctness.</p>"
        )
    left = each_method(
        lambda m: f"{count(gated[m].tied)} tied and {count(gated[m].wrong_first)} with the wrong one first"
    )
    return f"{told}Gated, there remain {left}.</p>"


def _cost(graded: Mapping[str, Sorted], gated: Mapping[str, Sorted], two_wrong: int) -> str:
    before, after = graded["gdpo"], gated["gdpo"]
    told = (
        f"<p>The price: wrong answers are all alike now. On average a prompt has {after.mixes:.1f} different mixes of "
        f"marks left of {before.mixes:.1f}; GDPO tells {after.advantages:.1f} apart, before the gate "
        f"{before.advantages:.1f}. "
    )
    if two_wrong:
        told += (
            f"Of {count(two_wrong)} pairs of wrong answers with different marks the gate ties "
            f"{'all' if after.two_wrong == two_wrong else count(after.two_wrong)}; as graded GRPO ties "
            f"{count(graded['grpo'].two_wrong)} and GDPO {count(before.two_wrong)}. "
        )
    return (
        f"{told}A prompt without any right answer then teaches nothing: GDPO's advantages are all 0 in "
        f"{count(after.silent)} prompts, before the gate in {count(before.silent)}.</p>"
    )


def _table(graded: Mapping[str, Sorted], gated: Mapping[str, Sorted], caption: str, columns: Mapping[str, str]) -> str:
    """A row a method, each value as graded and gated."""
    same = graded["grpo"] == graded["grpo_no_std"] and gated["grpo"] == gated["grpo_no_std"]
    methods = {m: name for m, name in NAMES.items() if not (same and m == "grpo_no_std")}
    rows = "".join(
        f'<tr class="{m}"><th scope="row">{name}{", also without std" if same and m == "grpo" else ""}</th>'
        + "".join(
            f"<td>{_value(getattr(graded[m], what))}<small>gated {_value(getattr(gated[m], what))}</small></td>"
            for what in columns.values()
        )
        + "</tr>"
        for m, name in methods.items()
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    return (
        f'<table class="firsts gates"><caption>{caption}; as graded, and gated below</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _value(x: float) -> str:
    return count(x) if isinstance(x, int) else f"{x:.2f}"
