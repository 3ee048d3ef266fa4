"""Section 4, the other side: where GDPO breaks a tie of a right and a wrong answer, which one comes first."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, nan

import gdpo_core as gc
from gdpo_core.bfcl import Published
from views.prompts import Choice, fine, fold, groups, says
from views.text import percent

WEIGHTS = tuple(round(1 + n / 10, 1) for n in range(41))  # of correctness, 1 to 5
IN_THE_TABLE = (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0)


@dataclass(frozen=True)
class Broken:
    """The right-against-wrong pairs that GRPO ties and GDPO does not, both with equal weights."""

    pairs: int
    prompts: int  # in which they are
    wrong_first: tuple[float, ...]  # share of the pairs in which GDPO puts the wrong answer first, at each of WEIGHTS
    needed: float  # from this weight on it does so in none; NaN without pairs
    worst: str  # the prompt with most pairs that have the wrong answer first
    grpo_ties: int  # right-against-wrong pairs that GRPO ties with equal weights
    grpo_right_first: int  # of these, how many have the right answer first under GRPO at the second of WEIGHTS


@lru_cache(maxsize=4)
def collapsed(data: Published, choice: Choice, group_size: int, method: str) -> gc.Collapse:
    """What a method ties, kept for a moment because the sentences below ask repeatedly; 4 MB at most."""
    return gc.collapse(groups(data, choice, group_size), method, weights=choice.weights)


def broken(data: Published, choice: Choice, group_size: int) -> Broken:
    """The same whatever weight was chosen: the pairs are those of equal weights."""
    return _broken(data, replace(choice, weight=1.0), group_size)


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
    count = len(needed)
    return Broken(
        pairs=count,
        prompts=len(prompt.unique()),
        wrong_first=tuple((needed > w).double().mean().item() for w in WEIGHTS),
        needed=needed.max().item() if count else nan,
        worst=tasks[int(prompt[pairs.inverted].bincount(minlength=len(tasks)).argmax())],
        grpo_ties=len(split.inverted),
        grpo_right_first=int((~split.inverted).sum()),
    )


@lru_cache(maxsize=256)
def wrong_above_right(data: Published, choice: Choice, group_size: int) -> dict[str, float]:
    """Of all pairs of a right and a wrong answer to a prompt, the share with the wrong one first."""
    return {m: collapsed(data, choice, group_size, m).inversions() for m in ("grpo", "gdpo")}


def order(data: Published, choice: Choice, group_size: int) -> str:
    """HTML of what GDPO makes of GRPO's ties of right and wrong, and what the weight changes."""
    found = broken(data, choice, group_size)
    if not found.pairs:
        return says(
            f"<p>In these groups of {group_size} GDPO breaks <b>none</b> of the {found.grpo_ties} ties that GRPO has "
            "between a right and a wrong answer.</p>"
        )
    now = found.wrong_first[WEIGHTS.index(choice.weight)]
    enough = ceil(100 * max(found.needed, 1)) / 100
    all_pairs = wrong_above_right(data, choice, group_size)
    return says(
        f"<p>GDPO breaks {found.pairs} of the {found.grpo_ties} ties of a right and a wrong answer that GRPO has with "
        f"equal weights, in {found.prompts} prompts. It puts the <b>wrong answer first in "
        f"{percent(found.wrong_first[0])}</b> of them. {_weighed(choice.weight, now)} From a weight of "
        f"<b>{enough:.2f}</b> on, the wrong answer is first in none.</p>"
        f"<p>GRPO gets there without normalising: with correctness at {WEIGHTS[1]:g} it puts the right answer first in "
        f"{_out_of(found.grpo_right_first, found.grpo_ties)} of its own ties.</p>"
        f"<p>Of <em>all</em> pairs of a right and a wrong answer, tied or not, the wrong one is first in "
        f"{fine(all_pairs['grpo'])} under GRPO and in {fine(all_pairs['gdpo'])} under GDPO, both with correctness at "
        f"{choice.weight:g}.</p>"
    )


def _weighed(weight: float, share: float) -> str:
    return f"With correctness at {weight:g} it is {percent(share)}." if weight != 1 else ""


def _out_of(count: int, total: int) -> str:
    return f"all {total}" if count == total else f"{count} of {total}"


def weight_charts(data: Published, choice: Choice, group_size: int) -> list:
    """One chart: the share of these pairs with the wrong answer first, as correctness weighs more."""
    from views.charts import wrong_first  # here, because Altair is half of what the first visitor would wait for

    found = broken(data, choice, group_size)
    return [wrong_first(dict(zip(WEIGHTS, found.wrong_first, strict=True)))] if found.pairs else []


def weight_table(data: Published, choice: Choice, group_size: int) -> str:
    """The curve as HTML, folded."""
    share = dict(zip(WEIGHTS, broken(data, choice, group_size).wrong_first, strict=True))
    rows = "".join(f'<tr><th scope="row">{w:g}</th><td>{fine(share[w])}</td></tr>' for w in IN_THE_TABLE)
    return fold(
        "The curve as a table",
        '<table class="figures"><thead><tr><th scope="col">weight on correctness</th>'
        f'<th scope="col">wrong answer first</th></tr></thead><tbody>{rows}</tbody></table>',
    )
