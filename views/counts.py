"""Section 5: how many advantage vectors are left of all groups that can occur, listed once and then counted."""

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase

import gdpo_core as gc
from gdpo_core._words import count, listing, power_of_ten, signed
from views import html
from views.html import Cell, Html, bold, fold, join, methods, says, table, tag
from views.text import NAMES

EPS, DIGITS = gc.TRL.group_eps, 4
LISTED = (2, 2)  # rollouts, rewards of the groups that are listed, as in the paper's Fig. 2
REWARDS, ROLLOUTS = 2, 4  # what stays while the other grows, as in its Fig. 3
TO_ROLLOUTS, TO_REWARDS = 16, 8
PAPER_ROLLOUTS, PAPER_REWARDS = 11, 6  # where its Fig. 3 ends
BY_ROLLOUTS = tuple((rollouts, REWARDS) for rollouts in range(2, TO_ROLLOUTS + 1))
BY_REWARDS = tuple((ROLLOUTS, rewards) for rewards in range(1, TO_REWARDS + 1))

Size = tuple[int, int]  # rollouts, rewards


@lru_cache(maxsize=256)
def counted(size: Size, rounded: bool = False) -> dict[str, int]:
    """How many advantage vectors each method has, exactly or as rounded floats show it."""
    if rounded:
        return {method: gc.count_rounded(method, *size, eps=EPS, digits=DIGITS) for method in NAMES}
    return {method: gc.count_distinct(method, *size) for method in NAMES}


def heading() -> str:
    """The claim of the section."""
    found = counted(BY_REWARDS[-1])
    return (
        f"How much survives: {ROLLOUTS} answers with {TO_REWARDS} marks leave GRPO {count(found['grpo'])} different "
        f"lists of advantages, GDPO {count(found['gdpo'])}"
    )


@lru_cache(maxsize=1)
def listed() -> Html:
    """HTML of all small groups with the advantages that each method gives, and what they share."""
    groups = gc.enumerate_groups(*LISTED)
    vectors = {method: _vectors(groups, method) for method in NAMES}
    letters = {
        method: dict(zip(sorted(set(v), key=_size), ascii_uppercase, strict=False)) for method, v in vectors.items()
    }
    order = sorted(range(len(groups)), key=lambda g: _size(vectors["gdpo"][g]))
    rows = [
        [
            join(*map(_pattern, groups[g].int().tolist())),
            *(_cell(m, vectors[m], letters[m], vectors["gdpo"], g) for m in NAMES),
        ]
        for g in order
    ]
    caption = (
        f"{len(groups)} groups (order of the two answers ignored); ● passed, ○ failed. Equal letters in a column are "
        "equal advantages. Hatched: shared by groups that GDPO tells apart"
    )
    head = ["Two answers", *(Cell(name, method) for method, name in NAMES.items())]
    foot = [Cell(join(bold(len(found)), " different"), method) for method, found in letters.items()]
    shown = table(head, rows, "listed", caption, foot=[f"{len(groups)} groups", *foot])
    return join(shown, says(*_merged(vectors, letters)))


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
    return Cell(join(*numbers, bold(letters[vectors[group]])), f"{method}{' shared' if shared else ''}")


def _merged(vectors: dict, letters: dict) -> list[str]:
    """What GRPO's most shared vector holds that GDPO keeps apart, and where GDPO adds nothing."""
    inside = {
        vector: sorted({g for v, g in zip(vectors["grpo"], vectors["gdpo"], strict=True) if v == vector}, key=_size)
        for vector in letters["grpo"]
    }
    most = max(inside, key=lambda vector: len(inside[vector]))
    split = [f"{vectors['gdpo'].count(g)} with ±{_size(g):.2f}" for g in inside[most]]
    alike = [g for g, k in BY_ROLLOUTS if counted((g, k))["gdpo"] == counted((g, k))["grpo_no_std"]]
    return [
        "Within one group, GRPO without std ties exactly what GRPO ties, as the real prompts above show. Here groups "
        "are compared with each other, so the size of the advantages counts too.",
        f"GRPO gives **±{_size(most):.2f}** to {vectors['grpo'].count(most)} groups, whether the answers differ in one "
        f"mark or in both. GDPO splits them into {listing(split)}. So does GRPO without std: with "
        f"{listing(alike, 'or')} answers GDPO keeps no more apart than that.",
        "GDPO's numbers are those before its last step, which scales the whole batch; if this one prompt were the "
        f"batch, {listing(f'±{_size(g):.2f}' for g in inside[most])} would become one number again.",
    ]


def verdict(rounded: bool) -> Html:
    """HTML of what the charts show at their right ends."""
    resolution = "A larger count is more resolution. It does not say that the right answer comes first."
    return says(*(_at(size, rounded) for size in (BY_ROLLOUTS[-1], BY_REWARDS[-1])), resolution)


def _at(size: Size, rounded: bool) -> str:
    found = counted(size, rounded)
    each = ", ".join(f"{NAMES[m]} **{count(n)}**" for m, n in found.items())
    rollouts, rewards = size
    groups = gc.count_groups(rollouts, rewards)
    how = f"With {DIGITS} decimals, the advantages seem to" if rounded else "The advantages"
    return (
        f"{rollouts} answers with {rewards} marks can form {count(groups)} different groups. {how} tell apart: {each}."
    )


@lru_cache(maxsize=1)
def trap() -> Html:
    """HTML of what eps and rounding do to GRPO's counts, and the two numbers that show why."""
    exact, seen = ([counted(size, rounded) for size in BY_ROLLOUTS] for rounded in (False, True))
    hidden = [s["grpo"] == e["grpo_no_std"] for e, s in zip(exact, seen, strict=True)]
    short = ", ".join(count(s["grpo"]) for s in seen[:3])
    were = ", ".join(count(e["grpo"]) for e in exact[:3])
    same = "exactly what GRPO without std has" if all(hidden) else f"what GRPO without std has in {sum(hidden)} sizes"
    pairs = [[[0, 0], [0, 1]], [[0, 0], [1, 1]]]  # two answers, one mark and two marks apart
    plain = gc.explain(pairs, "grpo")
    blurred = gc.group_advantages(pairs, "grpo", convention=gc.Convention(name="eps", source="", group_eps=EPS))
    stds = " and ".join(f"{std:.2f}" for std in plain.group_stds.flatten().tolist())
    real = sorted({f"{a:.6f}" for a in plain.advantages[:, 1].tolist()})
    two = " and ".join(f"{a:.{DIGITS}f}" for a in blurred[:, 1].tolist())
    end, end_seen = exact[-1]["gdpo"], seen[-1]["gdpo"]
    gdpo = f" GDPO's {count(end)} at {TO_ROLLOUTS} answers turn into {count(end_seen)}." if end != end_seen else ""
    return says(
        f"**The collapse seems to be gone**: with {REWARDS} marks GRPO has {short}, … instead of {were}, …, {same}. "
        "Nothing was won. Of two answers that are one mark apart, or two, the better one has the advantage "
        f"{listing(real, 'or')}. An eps of {power_of_ten(EPS)} beside stds of {stds} makes it {two}, and {DIGITS} "
        f"decimals count these as two.{gdpo}"
    )


def charts(rounded: bool, log: bool) -> list:
    """The count by answers and the count by marks."""
    from views.charts import Growth, counts  # here, because Altair is half of what the first visitor would wait for

    answers = {rollouts: counted((rollouts, rewards), rounded) for rollouts, rewards in BY_ROLLOUTS}
    marks = {rewards: counted((rollouts, rewards), rounded) for rollouts, rewards in BY_REWARDS}
    return [
        counts(Growth(answers, f"{REWARDS} marks, more answers", "answers", PAPER_ROLLOUTS, 500), log),
        counts(Growth(marks, f"{ROLLOUTS} answers, more marks", "marks", PAPER_REWARDS, 3000), log),
    ]


def figure(rounded: bool, log: bool) -> Html:
    """HTML of both charts and of every number in them, folded."""
    return join(html.charts(charts(rounded, log)), tables(rounded))


def legend() -> Html:
    """HTML legend of the methods: colour, dash and marker."""
    return html.legend(methods(NAMES, shaped=True))


def tables(rounded: bool) -> Html:
    """HTML of every number of the charts, folded."""
    by_rollouts = _table(BY_ROLLOUTS, [g for g, _ in BY_ROLLOUTS], "answers", f"{REWARDS} marks", rounded)
    by_rewards = _table(BY_REWARDS, [k for _, k in BY_REWARDS], "marks", f"{ROLLOUTS} answers", rounded)
    return fold("The counts as tables", tag("div", by_rollouts, by_rewards, kind="counts"))


def _table(sizes: Sequence[Size], column: Sequence[int], label: str, fixed: str, rounded: bool) -> Html:
    rows = [
        [n, *map(count, counted(size, rounded).values()), count(gc.count_groups(*size))]
        for n, size in zip(column, sizes, strict=True)
    ]
    how = f"eps = {power_of_ten(EPS)}, {DIGITS} decimals" if rounded else "exact"
    return table([label, *NAMES.values(), "different groups"], rows, "figures", f"{fixed}; {how}")
