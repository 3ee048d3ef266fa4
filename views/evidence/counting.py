"""How many groups each method still tells apart of all that can occur, listed once and then counted."""

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase

import gdpo_core as gc
from gdpo_core._words import count, listing, signed
from gdpo_core.conventions import COMPARED
from gdpo_core.conventions import NAMES as ALL_NAMES
from views import charts, html
from views.html import Cell, Html, callout, join, table, tag

NAMES = {method: ALL_NAMES[method] for method in COMPARED}
LISTED = (2, 2)  # rollouts, rewards of the groups that are listed, as in the paper's Fig. 2
REWARDS, ROLLOUTS = 2, 4  # what stays while the other grows, as in its Fig. 3
TO_ROLLOUTS, TO_REWARDS = 16, 8
PAPER_ROLLOUTS, PAPER_REWARDS = 11, 6  # where GDPO's curves end in its Fig. 3; GRPO's go on
BY_ROLLOUTS = tuple((rollouts, REWARDS) for rollouts in range(2, TO_ROLLOUTS + 1))
BY_REWARDS = tuple((ROLLOUTS, rewards) for rewards in range(1, TO_REWARDS + 1))
Size = tuple[int, int]  # rollouts, rewards


@lru_cache(maxsize=64)
def count_groups(size: Size) -> dict[str, int]:
    """How many groups each method tells apart."""
    return {method: gc.count_distinct(method, *size) for method in NAMES}


@lru_cache(maxsize=1)
def part() -> Html:
    """Both charts, with what they show at their right ends."""
    marks, answers = ({size[k]: count_groups(size) for size in of} for k, of in ((1, BY_REWARDS), (0, BY_ROLLOUTS)))
    drawn = (
        charts.counts(marks, f"{ROLLOUTS} answers, more marks", "marks", PAPER_REWARDS, 3000),
        charts.counts(answers, f"{REWARDS} marks, more answers", "answers", PAPER_ROLLOUTS, 500),
    )
    most = count_groups(BY_REWARDS[-1])
    title = (
        f"How much can survive: of the groups of {ROLLOUTS} answers with {TO_REWARDS} marks GRPO tells "
        f"{count(most['grpo'])} apart, GDPO {count(most['gdpo'])}"
    )
    return join(tag("h2", title, kind="part"), tag("div", callout(_ends()), html.charts(drawn), kind="aside"))


def _ends() -> str:
    return (
        "Two groups look the same to a method if their answers get the same advantages: what differed between them is "
        f"lost. {' '.join(map(_at, (BY_REWARDS[-1], BY_ROLLOUTS[-1])))} More resolution does not put the right answer "
        "first. Counted exactly, without eps, in any order of the answers, and for GDPO before its last step."
    )


def _at(size: Size) -> str:
    found = count_groups(size)
    tells = (f"{NAMES[m]}{'' if i else ' tells'} **{count(n)}**" for i, (m, n) in enumerate(found.items()))
    rollouts, rewards = size
    groups = f"{count(gc.count_groups(*size))} groups of {rollouts} answers with {rewards} marks"
    return f"Of {groups}, {listing(tells)} apart."


@lru_cache(maxsize=1)
def small_groups() -> Html:
    """All small groups with the advantages that each method gives, and what they share."""
    groups = gc.enumerate_groups(*LISTED)
    vectors = {method: _vectors(groups, method) for method in NAMES}
    letters = {
        method: dict(zip(sorted(set(v), key=_size), ascii_uppercase, strict=False)) for method, v in vectors.items()
    }
    rows = [
        [
            join(*map(_pattern, groups[g].int().tolist())),
            *(_cell(m, vectors[m], letters[m], vectors["gdpo"], g) for m in NAMES),
        ]
        for g in sorted(range(len(groups)), key=lambda g: _size(vectors["gdpo"][g]))
    ]
    caption = (
        f"{len(groups)} groups (order of the two answers ignored); ● passed, ○ failed. Equal letters in a column are "
        "equal advantages. Hatched: shared by groups that GDPO tells apart"
    )
    head = ["Two answers", *(Cell(name, method) for method, name in NAMES.items())]
    foot = [Cell(join(tag("b", len(found)), " different"), method) for method, found in letters.items()]
    shown = table(head, rows, "listed", caption, foot=[f"{len(groups)} groups", *foot])
    return join(shown, callout(*_shared_vectors(vectors, letters)))


def _vectors(groups, method: str) -> list[tuple[float, ...]]:
    """The advantages of each group, ascending."""
    return [tuple(a) for a in (gc.group_advantages(groups, method).sort().values.round(decimals=9) + 0.0).tolist()]


def _size(vector: Sequence[float]) -> float:
    return max(map(abs, vector))


def _pattern(marks: Sequence[int]) -> Html:
    words = " and ".join("passed" if mark else "failed" for mark in marks)
    drawn = "".join("○●"[mark] for mark in marks)
    return tag("span", drawn, kind="pattern", role="img", aria_label=f"{words};")


def _cell(method: str, vectors: Sequence[tuple], letters: dict, gdpo: Sequence[tuple], group: int) -> Cell:
    shared = len({other for vector, other in zip(vectors, gdpo, strict=True) if vector == vectors[group]}) > 1
    numbers = (part for a in vectors[group] for part in (tag("span", signed(a)), " "))
    return Cell(join(*numbers, tag("b", letters[vectors[group]])), f"{method}{' shared' if shared else ''}")


def _shared_vectors(vectors: dict, letters: dict) -> list[str]:
    """What GRPO's most shared vector holds that GDPO keeps apart."""

    def splits(vector: tuple[float, ...]) -> list[tuple[float, ...]]:
        return sorted({g for v, g in zip(vectors["grpo"], vectors["gdpo"], strict=True) if v == vector}, key=_size)

    most = max(letters["grpo"], key=lambda vector: len(splits(vector)))
    split = [f"{vectors['gdpo'].count(g)} with ±{_size(g):.2f}" for g in splits(most)]
    return [
        f"GRPO gives **±{_size(most):.2f}** to {vectors['grpo'].count(most)} groups, whether the answers differ in one "
        f"mark or in both. GDPO splits them into {listing(split)}, before its last step, which scales the whole batch. "
        "So does GRPO without std; within one group it ties exactly what GRPO ties.",
    ]


def tables() -> Html:
    """Every number of the charts."""
    return tag(
        "div",
        _table(BY_REWARDS, [k for _, k in BY_REWARDS], "marks", f"{ROLLOUTS} answers"),
        _table(BY_ROLLOUTS, [g for g, _ in BY_ROLLOUTS], "answers", f"{REWARDS} marks"),
        kind="pair",
    )


def _table(sizes: Sequence[Size], column: Sequence[int], label: str, fixed: str) -> Html:
    rows = [
        [n, *map(count, count_groups(size).values()), count(gc.count_groups(*size))]
        for n, size in zip(column, sizes, strict=True)
    ]
    return table([label, *NAMES.values(), "different groups"], rows, "figures", f"{fixed}; exact")
