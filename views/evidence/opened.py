"""One prompt opened: its different mixes of marks and what GRPO and GDPO make of each."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from torch import Tensor

import gdpo_core as gc
from gdpo_core._words import count, decimal, listing, signed
from gdpo_core.bfcl import REWARDS, Published, draw
from gdpo_core.bfcl.prompts import METHODS, Choice, Pairs
from views.evidence.squares import CATEGORIES
from views.html import Cell, Html, Row, join, prose, table, tag

SHORT = ("correct", "style", "concise")
Vector = tuple[int, ...]


def unknown(data: Published, asked: str) -> Html | str:
    """A sentence where no prompt has the name that was asked for."""
    if not asked or asked in data.tasks:
        return ""
    like = [name for name in data.tasks if name.startswith(asked)]
    known = f"Names that begin so: {listing(like, most=3)}." if like else f"A name here is {data.tasks[0]}."
    return tag("p", f"No prompt has the name “{asked}”. {known}", kind="note", role="status")


def prompt(
    data: Published,
    choice: Choice,
    marks: Tensor,
    ties: Mapping[str, gc.Collapse],
    first: Pairs,
    name: str,
    called: bool,
) -> Html:
    """One prompt's answers, a row per mix of marks, GDPO's highest first; called: the reader asked for it."""
    number, size = data.tasks.index(name), choice.group_size
    of_one = marks[number]  # (answers, rewards)
    rows = [tuple(row) for row in of_one.tolist()]
    level = {m: ties[m].level.view(-1, size)[number].tolist() for m in METHODS}
    a = {m: gc.advantages(marks, m, weights=choice.weights)[number].tolist() for m in METHODS}
    mixes = sorted(set(rows), key=lambda v: (-level["gdpo"][rows.index(v)], -level["grpo"][rows.index(v)], v))
    letters = {m: _letters(mixes, [level[m][rows.index(v)] for v in mixes]) for m in METHODS}
    body = [
        Row(
            [
                join(*map(_mark, range(len(v)), v)),
                count(rows.count(v)),
                *(_advantage(a[m][rows.index(v)], letters[m].get(v), m) for m in METHODS),
            ],
            "right" if v[0] else "",
        )
        for v in mixes
    ]
    head = [join(*(tag("span", short, kind=f"r{k}") for k, short in enumerate(SHORT))), "answers"]
    why = "" if called else f" {_chosen(first)}"
    category = CATEGORIES.get(data.categories[number], data.categories[number])
    text = f"A BFCL prompt with {category}. Its request is not in our data, which hold verdicts alone."
    return join(
        tag("h2", name, kind="part"),
        tag("p", text, kind="note"),
        tag("p", prose(f"{_says(choice, of_one, mixes, level)}{why}")),
        table([*head, *(Cell(m.upper(), m) for m in METHODS)], body, "mixes"),
    )


def whose(data: Published, choice: Choice, marks: Tensor, name: str) -> Html:
    """The configurations that gave each mix of marks, and what GDPO's last step divides by."""
    number = data.tasks.index(name)
    names = [data.models[m] for m in draw(data, choice.group_size, choice.seed)[number].tolist()]
    rows = [tuple(row) for row in marks[number].tolist()]
    std = float(gc.explain(marks, "gdpo", weights=choice.weights).batch_std)
    return join(
        *(
            tag("p", tag("b", _said(v)), ": ", listing(n for n, row in zip(names, rows, strict=True) if row == v))
            for v in sorted(set(rows), reverse=True)
        ),
        tag(
            "p",
            "The texts of the answers are not in our data. GDPO's last step divides by the spread over all "
            f"{count(len(data.tasks))} prompts drawn, here {decimal(std)}.",
        ),
    )


def _chosen(first: Pairs) -> str:
    """Why this prompt is shown though none was called for."""
    if first.order("gdpo", 1, first.broken).wrong:
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


def _says(choice: Choice, marks: Tensor, mixes: Sequence[Vector], level: Mapping[str, list[int]]) -> str:
    if len(mixes) == 1:
        return f"All {len(marks)} answers have the same marks, so every advantage is 0."
    grpo, gdpo = (len(set(level[m])) for m in METHODS)
    text = (
        f"{len(marks)} answers, **{len(mixes)} kinds** by their marks: GRPO has {count(grpo, 'advantage')} for them, "
    )
    text += f"GDPO {count(gdpo)}."
    pairs = gc.broken_ties(*(gc.collapse(marks, m, weights=choice.weights) for m in METHODS))
    if not len(pairs.lower):
        return f"{text} GDPO breaks no tie of a right and a wrong answer."
    wrong = int(pairs.inverted.sum()) or "none"
    ties = count(len(pairs.lower), "tie")
    return f"{text} GDPO breaks {ties} of a right and a wrong answer, **{wrong} the wrong way**."
