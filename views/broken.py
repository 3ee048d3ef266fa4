"""Section 4, the other side: where GDPO breaks a tie of a right and a wrong answer, which one comes first."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, nan

import gdpo_core as gc
from gdpo_core._words import count, percent
from gdpo_core.bfcl import Published
from gdpo_core.break_even import most_needed
from views.html import Html, Row, charts, fold, join, says, small, table
from views.prompts import Choice, groups
from views.text import NAMES

WEIGHTS = tuple(round(1 + n / 10, 1) for n in range(41))  # of correctness, 1 to 5
IN_THE_TABLE = (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0)


@dataclass(frozen=True)
class Broken:
    """The right-against-wrong pairs that GRPO ties and GDPO does not, both with equal weights."""

    pairs: int
    prompts: int  # in which they are
    wrong_first: tuple[float, ...]  # share of the pairs in which GDPO puts the wrong answer first, at each of WEIGHTS
    needed: float  # from this weight on it does so in none; NaN without pairs
    wrong: int  # pairs that have the wrong answer first with equal weights
    worst: str  # the prompt with most of these; without any, with most ties of right and wrong under GRPO
    grpo_ties: int  # right-against-wrong pairs that GRPO ties with equal weights
    grpo_right_first: int  # of these, how many have the right answer first under GRPO at the second of WEIGHTS


@lru_cache(maxsize=8)
def collapsed(data: Published, choice: Choice, group_size: int, method: str) -> gc.Collapse:
    """What a method ties, kept for a moment because the sentences below ask repeatedly; 8 MB at most."""
    return gc.collapse(groups(data, choice, group_size), method, weights=choice.weights)


def broken(data: Published, choice: Choice, group_size: int) -> Broken:
    """The same whatever weight was chosen: the pairs are those of equal weights."""
    return _broken(data, replace(choice, weight=1.0), group_size)


def any_pairs(data: Published, choice: Choice, group_size: int) -> bool:
    """Whether GDPO breaks a tie of a right and a wrong answer at all."""
    return broken(data, choice, group_size).pairs > 0


@lru_cache(maxsize=256)
def _broken(data: Published, choice: Choice, group_size: int) -> Broken:
    marks = groups(data, choice, group_size)
    coarse, fine_grained = (collapsed(data, choice, group_size, method) for method in ("grpo", "gdpo"))
    pairs = gc.broken_ties(coarse, fine_grained)
    needed = gc.break_even_weights(marks, pairs)
    heavier = gc.collapse(marks, "grpo", weights=replace(choice, weight=WEIGHTS[1]).weights)
    split = gc.broken_ties(coarse, heavier)
    prompt = pairs.lower // group_size
    tasks = [t for t, c in zip(data.tasks, data.categories, strict=True) if choice.category in (None, c)]
    per_prompt = (prompt[pairs.inverted] if pairs.inverted.any() else split.lower // group_size).bincount(
        minlength=len(tasks)
    )
    return Broken(
        pairs=len(needed),
        prompts=len(prompt.unique()),
        wrong_first=tuple((needed > w).double().mean().item() for w in WEIGHTS),
        needed=needed.max().item() if len(needed) else nan,
        wrong=int(pairs.inverted.sum()),
        worst=tasks[int(per_prompt.argmax())],
        grpo_ties=len(split.inverted),
        grpo_right_first=int((~split.inverted).sum()),
    )


@lru_cache(maxsize=256)
def pairs_first(data: Published, choice: Choice, group_size: int) -> dict[str, tuple[int, int, int]]:
    """Of all pairs of a right and a wrong answer to a prompt, how many have the right first, tied and wrong first."""
    found = {method: collapsed(data, choice, group_size, method).order() for method in NAMES}
    return {method: (order.right, order.tied, order.wrong) for method, order in found.items()}


def all_pairs(data: Published, choice: Choice, group_size: int) -> Html:
    """HTML table: of all pairs of a right and a wrong answer, which one each method puts first."""
    found = pairs_first(data, choice, group_size)
    total = sum(found["grpo"])
    if not total:
        return Html("")
    both = found["grpo_no_std"] == found["grpo"]
    rows = [
        Row(
            [
                f"{NAMES[m]}{', also without std' if both and m == 'grpo' else ''}",
                *(join(count(n), small(percent(n / total, 1))) for n in numbers),
            ],
            m,
        )
        for m, numbers in found.items()
        if not (both and m == "grpo_no_std")
    ]
    caption = (
        f"All {count(total)} pairs of a right and a wrong answer to one prompt, with correctness at {choice.weight:g}"
    )
    return table(["", "right first", "tied", "wrong first"], rows, "firsts", caption)


def order(data: Published, choice: Choice, group_size: int) -> Html:
    """HTML of what GDPO makes of GRPO's ties of right and wrong, and what the weight changes."""
    found = broken(data, choice, group_size)
    if not found.pairs:
        equal = replace(choice, weight=1.0)
        levels = [collapsed(data, equal, group_size, m).level for m in ("grpo", "gdpo")]
        same = "GDPO ties exactly what GRPO ties" if levels[0].equal(levels[1]) else "GDPO breaks none of these ties"
        told = says(
            f"With {group_size} answers {same}: GRPO ties {count(found.grpo_ties)} pairs of a right and a wrong "
            "answer with equal weights, and GDPO breaks **none** of them."
        )
        return join(told, all_pairs(data, choice, group_size))
    now = found.wrong_first[WEIGHTS.index(choice.weight)]
    enough = ceil(100 * max(found.needed, 1)) / 100
    told = [
        f"GDPO breaks {count(found.pairs)} of the {count(found.grpo_ties)} ties of a right and a wrong answer that "
        f"GRPO has with equal weights, in {count(found.prompts)} prompts. It puts the **wrong answer first in "
        f"{percent(found.wrong_first[0])}** of them. {_weighed(choice.weight, now)} From a weight of "
        f"**{enough:.2f}** on, the wrong answer is first in none. {_never_more(found.needed, group_size)}"
    ]
    if found.grpo_right_first == found.grpo_ties:
        told.append(
            "GRPO needs no normalisation of each mark for this: any weight above 1 on correctness puts the right "
            f"answer first in all {count(found.grpo_ties)} of its own ties."
        )
    return join(says(*told), all_pairs(data, choice, group_size))


def _never_more(needed: float, group_size: int) -> str:
    most = most_needed(group_size)
    if needed > most + 1e-9:
        return ""
    return (
        f"In a group of {group_size} it can never take more than {ceil(100 * most) / 100:.2f}, the largest ratio of "
        "the spreads of two marks; larger groups can need more."
    )


def _weighed(weight: float, share: float) -> str:
    return f"With correctness at {weight:g} it is {percent(share)}." if weight != 1 else ""


def weight_charts(data: Published, choice: Choice, group_size: int) -> list:
    """One chart: the share of these pairs with the wrong answer first, as correctness weighs more."""
    from views.charts import wrong_first  # here, because Altair is half of what the first visitor would wait for

    found = broken(data, choice, group_size)
    return [wrong_first(dict(zip(WEIGHTS, found.wrong_first, strict=True)))] if found.pairs else []


def weight_table(data: Published, choice: Choice, group_size: int) -> Html:
    """The curve as HTML, folded; nothing without pairs."""
    if not broken(data, choice, group_size).pairs:
        return Html("")
    share = dict(zip(WEIGHTS, broken(data, choice, group_size).wrong_first, strict=True))
    rows = [[f"{w:g}", percent(share[w], 1)] for w in IN_THE_TABLE]
    return fold("The curve as a table", table(["weight on correctness", "wrong answer first"], rows, "figures"))


def weight_figure(data: Published, choice: Choice, group_size: int) -> Html:
    """HTML of the curve and its numbers."""
    return join(charts(weight_charts(data, choice, group_size)), weight_table(data, choice, group_size))
