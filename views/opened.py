"""One prompt opened: its different mixes of marks and what GRPO and GDPO make of each."""

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase

from torch import Tensor

import gdpo_core as gc
from gdpo_core._html import Cell, Html, Row, fold, join, prose, table, tag
from gdpo_core._words import count, decimal, listing, signed
from gdpo_core.bfcl import REWARDS, Published, draw
from views.prompts import METHODS, Choice, collapsed, marks_of, priorities

SHORT = ("correct", "style", "concise")
Vector = tuple[int, ...]


@lru_cache(maxsize=16)
def advantages(data: Published, choice: Choice) -> dict[str, Tensor]:
    """By method, (prompts, group_size); GDPO's last step looks at all prompts that were drawn."""
    return {method: gc.advantages(marks_of(data, choice), method, weights=choice.weights) for method in METHODS}


@lru_cache(maxsize=256)  # of some kB each
def prompt(data: Published, choice: Choice, number: int, called: bool) -> Html:
    """HTML of one prompt's answers, a row per mix of marks, GDPO's highest first; called: the reader asked for it."""
    marks = marks_of(data, choice)[number]  # (group_size, rewards)
    rows = [tuple(row) for row in marks.tolist()]
    size = choice.group_size
    level = {m: collapsed(data, choice, m).level[number * size : (number + 1) * size].tolist() for m in METHODS}
    a = {m: values[number].tolist() for m, values in advantages(data, choice).items()}
    order = sorted(set(rows), key=lambda v: (-level["gdpo"][rows.index(v)], -level["grpo"][rows.index(v)], v))
    ties = {m: _letters(order, [level[m][rows.index(v)] for v in order]) for m in METHODS}
    body = [
        Row(
            [
                join(*map(_mark, range(len(v)), v)),
                count(rows.count(v)),
                *(_advantage(a[m][rows.index(v)], ties[m].get(v), m) for m in METHODS),
            ],
            "right" if v[0] else "",
        )
        for v in order
    ]
    head = [join(*(tag("span", name, kind=f"r{k}") for k, name in enumerate(SHORT))), "answers"]
    names = [data.models[m] for m in draw(data, size, choice.seed)[number].tolist()]
    whose = [
        tag("p", tag("b", _said(v)), ": ", listing(n for n, row in zip(names, rows, strict=True) if row == v))
        for v in order
    ]
    why = "" if called else f" {_chosen(priorities(data, choice).wrong)}"
    std = float(gc.explain(marks_of(data, choice), "gdpo", weights=choice.weights).batch_std)
    last = (
        f"GDPO's last step divides by the spread over all {count(len(data.tasks))} prompts drawn, here {decimal(std)}."
    )
    return join(
        tag("p", prose(f"{_says(choice, marks, order, level)}{why}")),
        table([*head, *(Cell(name, m) for m, name in zip(METHODS, ("GRPO", "GDPO"), strict=True))], body, "mixes"),
        fold("Whose answers", *whose, tag("p", f"Their texts are not in our data. {last}")),
    )


def _chosen(wrong: int) -> str:
    """Why this prompt is shown though none was called for."""
    if wrong:
        return "It is the prompt with the most ties broken the wrong way at equal weights."
    return "No tie is broken the wrong way at equal weights; shown is the prompt with the most ties under GRPO."


def _mark(reward: int, passed: int) -> Html:
    caption = f"{REWARDS[reward]} {'passed' if passed else 'failed'};"
    return tag("span", kind=f"mark r{reward} {'on' if passed else ''}".strip(), role="img", aria_label=caption)


def _said(vector: Vector) -> str:
    return f"passed {listing(name for name, mark in zip(REWARDS, vector, strict=True) if mark)}"


def _letters(vectors: Sequence[Vector], levels: Sequence[int]) -> dict[Vector, str]:
    """A letter for each advantage that several mixes share, to each of them."""
    shared = [level for level in dict.fromkeys(levels) if levels.count(level) > 1]
    return {v: ascii_uppercase[shared.index(x)] for v, x in zip(vectors, levels, strict=True) if x in shared}


def _advantage(a: float, letter: str | None, method: str) -> Cell:
    if not letter:
        return Cell(signed(a), method)
    return Cell(join(signed(a), " ", tag("b", f"tie {letter}")), f"{method} tied")


def _says(choice: Choice, marks: Tensor, mixes: Sequence[Vector], level: dict[str, list[int]]) -> str:
    if len(mixes) == 1:
        return f"All {len(marks)} answers have the same marks, so every advantage is 0."
    grpo, gdpo = (len(set(level[m])) for m in METHODS)
    text = f"{len(marks)} answers, **{len(mixes)} mixes** of marks: GRPO has {count(grpo, 'advantage')} for them, "
    text += f"GDPO {count(gdpo)}."
    pairs = gc.broken_ties(*(gc.collapse(marks, m, weights=choice.weights) for m in METHODS))
    if not len(pairs.lower):
        return f"{text} GDPO breaks no tie of a right and a wrong answer."
    wrong = int(pairs.inverted.sum())
    ties = count(len(pairs.lower), "tie")
    return f"{text} GDPO breaks {ties} of a right and a wrong answer, **{wrong or 'none'} the wrong way**."
