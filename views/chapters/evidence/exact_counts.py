"""The number of groups that each method tells apart, of all groups that can occur. A method tells two groups apart if
it gives them different advantages.
"""

from collections.abc import Sequence
from functools import lru_cache

import gdpo_core as gc
from gdpo_core.conventions import COMPARED
from gdpo_core.conventions import NAMES as ALL_NAMES
from gdpo_core.shared.words import count, listing
from views.widgets import charts, html
from views.widgets.html import Html, callout, join, table, tag

COMPARED_NAMES = {method: ALL_NAMES[method] for method in COMPARED}
_REWARDS, ROLLOUTS = 2, 4  # each stays while the other grows, as in the paper's Fig. 3
TO_ROLLOUTS, TO_REWARDS = 16, 8
PAPER_ROLLOUTS, PAPER_REWARDS = 11, 6  # where GDPO's curves end in the paper's Fig. 3; GRPO's curves go on
BY_ROLLOUTS = tuple((rollouts, _REWARDS) for rollouts in range(2, TO_ROLLOUTS + 1))
BY_REWARDS = tuple((ROLLOUTS, rewards) for rewards in range(1, TO_REWARDS + 1))
_Size = tuple[int, int]  # rollouts, rewards


@lru_cache(maxsize=64)
def count_told_apart(size: _Size) -> dict[str, int]:
    """Return how many groups of one size each method tells apart, that is, how many different advantage vectors it can
    give.

    The numbers are by method, in the order of COMPARED_NAMES. The order of the answers in a group does not count.

    size: the number of answers and the number of marks per answer.
    """
    return {method: gc.count_distinct(method, *size) for method in COMPARED_NAMES}


@lru_cache(maxsize=1)
def section() -> Html:
    """Return a paragraph and, below it, two charts of how many groups each method tells apart: by the number of marks
    and by the number of answers. The paragraph gives the last number of each curve. The result is made once and kept.
    """
    marks, answers = (
        {size[k]: count_told_apart(size) for size in counts} for k, counts in ((1, BY_REWARDS), (0, BY_ROLLOUTS))
    )
    drawn = (
        charts.chart_of_counts(marks, f"{ROLLOUTS} answers, more marks", "marks", PAPER_REWARDS, 3000),
        charts.chart_of_counts(answers, f"{_REWARDS} marks, more answers", "answers", PAPER_ROLLOUTS, 500),
    )
    return join(callout(_ends()), html.charts(drawn))


def title() -> str:
    """Return the title of the fold on how many groups a method can tell apart.

    It says how many groups ROLLOUTS answers with TO_REWARDS marks each can form, and how many sets of advantages GRPO
    and GDPO give these groups.
    """
    most = count_told_apart(BY_REWARDS[-1])
    groups = (
        f"{ROLLOUTS} answers with {TO_REWARDS} marks each form "
        f"{count(gc.count_groups(*BY_REWARDS[-1]))} different groups"
    )
    sets = f"GRPO gives them only {count(most['grpo'])} different sets of advantages, "
    sets += f"GDPO {count(most['gdpo'])} before its batch step"
    return f"How many groups can a method tell apart? {groups}; {sets}"


def _ends() -> str:
    """Return the paragraph on what it means to tell groups apart. It gives the last numbers of the curves in the two
    charts of `section`.
    """
    return (
        "Two groups look the same to a method if their answers get the same advantages: what differed between "
        f"them is lost. {' '.join(map(_at, (BY_REWARDS[-1], BY_ROLLOUTS[-1])))} A finer resolution does not "
        "put pairs in the right order. The groups are counted exactly, without eps, in any order of the "
        "answers, and for GDPO before its batch step."
    )


def _at(size: _Size) -> str:
    """Return a sentence on how many of the groups of this size each method tells apart."""
    rollouts, rewards = size
    groups = f"{rollouts} answers with {rewards} marks each can form {count(gc.count_groups(*size))} different groups"
    tells = (
        f"{COMPARED_NAMES[m]}{'' if i else ' tells'} **{count(n)}**{'' if i else ' of them'}"
        for i, (m, n) in enumerate(count_told_apart(size).items())
    )
    return f"{groups}; {listing(tells)} apart."


def tables() -> Html:
    """Return the numbers of the two charts of `section` as two tables, with the number of all different groups of each
    size.
    """
    return tag(
        "div",
        _table(BY_REWARDS, 1, "marks", f"{ROLLOUTS} answers"),
        _table(BY_ROLLOUTS, 0, "answers", f"{_REWARDS} marks"),
        kind="pair",
    )


def _table(sizes: Sequence[_Size], k: int, label: str, fixed: str) -> Html:
    """Return a table of how many groups each method tells apart, and how many there are, with a row per size.

    sizes: for each row the number of answers in a group and the number of marks per answer. One of the two numbers is
        the same in all rows.
    k: the index of the number that changes, 0 for answers or 1 for marks.
    label: the head of the column with the number that changes.
    fixed: words for the number that stays.
    """
    rows = [[size[k], *map(count, count_told_apart(size).values()), count(gc.count_groups(*size))] for size in sizes]
    return table([label, *COMPARED_NAMES.values(), "different groups"], rows, "figures", f"{fixed}; exact")
