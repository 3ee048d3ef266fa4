"""Section 7, on the real answers of section 4: what a gate on correctness does to their order, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

import gdpo_core as gc
from gdpo_core._words import count, word
from gdpo_core.bfcl import REWARDS, Published
from views.broken import collapsed
from views.html import Html, Row, join, says, small, table
from views.prompts import Choice, groups
from views.text import NAMES, each_method


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


@lru_cache(maxsize=256)
def different(data: Published, choice: Choice, group_size: int) -> tuple[int, int, int]:
    """How many pairs there are: of a right and a wrong answer, of two right ones whose marks differ, of two wrong."""
    marks, c = groups(data, choice, group_size), collapsed(data, choice, group_size, "gdpo")
    right = marks[..., 0].flatten() > 0
    return c.order().pairs, c.ties_among(right)[0], c.ties_among(~right)[0]


@lru_cache(maxsize=256)
def sorted_by(data: Published, choice: Choice, group_size: int) -> tuple[dict[str, Sorted], dict[str, Sorted]]:
    """What each method makes of the answers as graded, and of the same behind the gate."""
    marks, gated = groups(data, choice, group_size), gated_marks(data, choice, group_size)
    graded = {m: _sorted(collapsed(data, choice, group_size, m), marks) for m in NAMES}
    return graded, {m: _sorted(gc.collapse(gated, m, weights=choice.weights), marks) for m in NAMES}


def _sorted(c: gc.Collapse, marks: Tensor) -> Sorted:
    """marks: (prompts, group_size, rewards) as graded."""
    order, rows = c.order(), marks.flatten(0, 1)
    right = rows[:, 0] > 0
    silent, alike = round(c.silent_groups * c.groups), c.groups - c.mixed_groups

    def over_all(mean: float) -> float:  # of the mixed prompts; in the others all answers are alike
        return (mean * c.mixed_groups + alike) / c.groups if c.mixed_groups else 1.0

    return Sorted(
        right_first=order.right,
        tied=order.tied,
        wrong_first=order.wrong,
        two_right=c.ties_among(right, rows)[1],
        two_wrong=c.ties_among(~right, rows)[1],
        mixes=over_all(c.vectors),
        advantages=over_all(c.levels),
        silent=silent,
    )


def conditioned(data: Published, choice: Choice, group_size: int) -> Html:
    """HTML of what the gate does to the order of the real answers, and what it costs."""
    total, _, two_wrong = different(data, choice, group_size)
    if not total:
        return says("No prompt here has drawn both a right and a wrong answer, so there is no order to compare.")
    graded, gated = sorted_by(data, choice, group_size)
    return join(
        says(_order(graded, gated, total), _cost(graded, gated, two_wrong)),
        _table(
            graded,
            gated,
            f"All {count(total)} pairs of a right and a wrong answer to one prompt",
            {"right first": "right_first", "tied": "tied", "wrong first": "wrong_first"},
        ),
        _table(
            graded,
            gated,
            "What it costs: advantages left (mean per prompt), and tied pairs whose marks differ",
            {"advantages": "advantages", "two right, tied": "two_right", "two wrong, tied": "two_wrong"},
        ),
    )


def _order(graded: Mapping[str, Sorted], gated: Mapping[str, Sorted], total: int) -> str:
    told = "; ".join(
        f"{NAMES[m]} puts the wrong answer first in {count(graded[m].wrong_first)} and ties {count(graded[m].tied)}"
        for m in ("grpo", "gdpo")
    )
    told = f"As graded, of {count(total)} pairs of a right and a wrong answer {told}. "
    if all(s.right_first == total for s in gated.values()):
        return (
            f"{told}**Gated, the right answer comes first in all {count(total)} under every method.** It cannot be "
            f"otherwise: a wrong answer keeps none of the {word(len(REWARDS))} marks, a right one keeps at least "
            "correctness."
        )
    left = each_method(
        lambda m: f"{count(gated[m].tied)} tied and {count(gated[m].wrong_first)} with the wrong one first"
    )
    return f"{told}Gated, there remain {left}."


def _cost(graded: Mapping[str, Sorted], gated: Mapping[str, Sorted], two_wrong: int) -> str:
    before, after = graded["gdpo"], gated["gdpo"]
    told = (
        f"The price: wrong answers are all alike now. On average a prompt has {after.mixes:.1f} different mixes of "
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
        f"{count(after.silent)} prompts, before the gate in {count(before.silent)}."
    )


def _table(graded: Mapping[str, Sorted], gated: Mapping[str, Sorted], caption: str, columns: Mapping[str, str]) -> Html:
    """A row per method, each value as graded and gated."""
    same = graded["grpo"] == graded["grpo_no_std"] and gated["grpo"] == gated["grpo_no_std"]
    methods = {m: name for m, name in NAMES.items() if not (same and m == "grpo_no_std")}
    rows = [
        Row(
            [
                f"{name}{', also without std' if same and m == 'grpo' else ''}",
                *(
                    join(_value(getattr(graded[m], what)), small(f"gated {_value(getattr(gated[m], what))}"))
                    for what in columns.values()
                ),
            ],
            m,
        )
        for m, name in methods.items()
    ]
    return table(["", *columns], rows, "firsts gates", f"{caption}; as graded, and gated below")


def _value(x: float) -> str:
    return count(x) if isinstance(x, int) else f"{x:.2f}"
