"""Section 4, the other side: where GDPO breaks a tie of a right and a wrong answer, which one comes first."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, nan, sqrt

import gdpo_core as gc
from gdpo_core.bfcl import Published
from views.prompts import Choice, fine, fold, groups, says
from views.text import NAMES, count, percent

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


def most_needed(group_size: int) -> float:
    """The largest ratio of the spreads of two marks, each 0 or 1, on which this many answers differ.

    Two answers that an equal-weight sum of three marks ties, one right and one wrong, differ in correctness and in one
    other mark. So this ratio is also the largest weight on correctness that GDPO can need to put the right one first.

    >>> round(most_needed(12), 4), most_needed(3)
    (1.8091, 1.0)
    """
    half = group_size // 2
    return sqrt(half * (group_size - half) / (group_size - 1))


@lru_cache(maxsize=256)
def pairs_first(data: Published, choice: Choice, group_size: int) -> dict[str, tuple[int, int, int]]:
    """Of all pairs of a right and a wrong answer to a prompt, how many have the right first, tied and wrong first."""
    right = groups(data, choice, group_size)[..., 0] > 0  # (prompts, group_size)
    pairs = right[:, :, None] & ~right[:, None, :]
    found = {}
    for method in NAMES:
        level = collapsed(data, choice, group_size, method).level.reshape(right.shape)
        more = (level[:, :, None] - level[:, None, :])[pairs].sign()
        found[method] = tuple(int((more == sign).sum()) for sign in (1, 0, -1))
    return found


def all_pairs(data: Published, choice: Choice, group_size: int) -> str:
    """HTML table: of all pairs of a right and a wrong answer, which one each method puts first."""
    found = pairs_first(data, choice, group_size)
    total = sum(found["grpo"])
    if not total:
        return ""
    both = found["grpo_no_std"] == found["grpo"]
    rows = "".join(
        f'<tr class="{m}"><th scope="row">{NAMES[m]}{", also without std" if both and m == "grpo" else ""}</th>'
        + "".join(f"<td>{count(n)}<small>{_of(n, total)}</small></td>" for n in numbers)
        + "</tr>"
        for m, numbers in found.items()
        if not (both and m == "grpo_no_std")
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("right first", "tied", "wrong first"))
    return (
        f'<table class="firsts"><caption>All {count(total)} pairs of a right and a wrong answer to one prompt, with '
        f"correctness at {choice.weight:g}</caption><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _of(n: int, total: int) -> str:
    """A share with one decimal, so that three of them add up."""
    return f"{100 * n / total:.1f} %"


def order(data: Published, choice: Choice, group_size: int) -> str:
    """HTML of what GDPO makes of GRPO's ties of right and wrong, and what the weight changes."""
    found = broken(data, choice, group_size)
    if not found.pairs:
        equal = replace(choice, weight=1.0)
        levels = [collapsed(data, equal, group_size, m).level for m in ("grpo", "gdpo")]
        same = "GDPO ties exactly what GRPO ties" if levels[0].equal(levels[1]) else "GDPO breaks none of these ties"
        return says(
            f"<p>With {group_size} answers {same}: GRPO ties {count(found.grpo_ties)} pairs of a right and a wrong "
            f"answer with equal weights, and GDPO breaks <b>none</b> of them.</p>"
        ) + all_pairs(data, choice, group_size)
    now = found.wrong_first[WEIGHTS.index(choice.weight)]
    enough = ceil(100 * max(found.needed, 1)) / 100
    text = (
        f"<p>GDPO breaks {count(found.pairs)} of the {count(found.grpo_ties)} ties of a right and a wrong answer that "
        f"GRPO has with equal weights, in {count(found.prompts)} prompts. It puts the <b>wrong answer first in "
        f"{percent(found.wrong_first[0])}</b> of them. {_weighed(choice.weight, now)} From a weight of "
        f"<b>{enough:.2f}</b> on, the wrong answer is first in none. {_never_more(found.needed, group_size)}</p>"
    )
    if found.grpo_right_first == found.grpo_ties:
        text += (
            "<p>GRPO needs no normalisation of each mark for this: any weight above 1 on correctness puts the right "
            f"answer first in all {count(found.grpo_ties)} of its own ties.</p>"
        )
    return says(text) + all_pairs(data, choice, group_size)


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


def weight_table(data: Published, choice: Choice, group_size: int) -> str:
    """The curve as HTML, folded; nothing without pairs."""
    if not broken(data, choice, group_size).pairs:
        return ""
    share = dict(zip(WEIGHTS, broken(data, choice, group_size).wrong_first, strict=True))
    rows = "".join(f'<tr><th scope="row">{w:g}</th><td>{fine(share[w])}</td></tr>' for w in IN_THE_TABLE)
    return fold(
        "The curve as a table",
        '<table class="figures"><thead><tr><th scope="col">weight on correctness</th>'
        f'<th scope="col">wrong answer first</th></tr></thead><tbody>{rows}</tbody></table>',
    )
