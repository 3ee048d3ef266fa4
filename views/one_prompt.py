"""Section 4: one prompt opened, its different mixes of marks and what GRPO and GDPO make of each."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from string import ascii_uppercase

import gdpo_core as gc
from gdpo_core._words import count, decimal, signed
from gdpo_core.bfcl import REWARDS, Published, draw
from views.broken import broken
from views.html import Cell, Html, fold, join, legend, says, table, tag
from views.prompts import Choice, groups
from views.text import NAMES

METHODS = ("grpo", "gdpo")
MOST = "most ties broken the wrong way"
Vector = tuple[int, ...]


def tasks(data: Published) -> dict[str, str]:
    """The choice of a prompt; the first leaves it to the data, "" here."""
    return {MOST: "", **{task: task for task in data.tasks}}


@lru_cache(maxsize=128)  # of some kB each
def opened(data: Published, choice: Choice, group_size: int, task: str | None) -> Html:
    """HTML of one prompt's drawn answers, a row per mix of marks, GDPO's highest first."""
    chosen, task = "" if task else _chosen(data, choice, group_size), task or broken(data, choice, group_size).worst
    prompt = data.tasks.index(task)
    marks = groups(data, replace(choice, category=None), group_size)  # (prompts, group_size, rewards)
    rows = [tuple(row) for row in marks[prompt].tolist()]
    models = [data.models[m] for m in draw(data, group_size, choice.seed)[prompt].tolist()]
    level = {m: gc.collapse(marks[prompt], m, weights=choice.weights).level.tolist() for m in METHODS}
    computed = {m: gc.explain(marks, m, weights=choice.weights) for m in METHODS}
    advantages = {m: e.advantages[prompt].tolist() for m, e in computed.items()}
    vectors = sorted(set(rows), key=lambda v: (-level["gdpo"][rows.index(v)], -level["grpo"][rows.index(v)], v))
    letters = {m: _letters(vectors, [level[m][rows.index(v)] for v in vectors]) for m in METHODS}
    body = [
        [
            dots(v),
            _answers([m for m, r in zip(models, rows, strict=True) if r == v]),
            *(_advantage(advantages[m][rows.index(v)], letters[m].get(v), m) for m in METHODS),
        ]
        for v in vectors
    ]
    caption = (
        f"GDPO's last step divides by the spread over all {count(len(marks))} prompts drawn, here "
        f"{decimal(float(computed['gdpo'].batch_std))}. The texts of the answers are not in our data."
    )
    head = ["marks", "answers", *(Cell(NAMES[m], m) for m in METHODS)]
    told = says(chosen, *_says(task, marks[prompt], vectors, level, choice.weight))
    return join(told, _key(), table(head, body, "vectors", caption))


def _chosen(data: Published, choice: Choice, group_size: int) -> str:
    """Why this prompt is shown if there is none that is called for."""
    found = broken(data, choice, group_size)
    if found.wrong:
        return ""
    instead = (
        "the prompt with the most ties of a right and a wrong answer under GRPO" if found.grpo_ties else "the first"
    )
    return f"With equal weights no tie is broken the wrong way in these groups. Shown instead: {instead}."


def dots(vector: Vector) -> Html:
    """HTML of a mix of marks as a pattern, filled for a pass, with the same in words.

    >>> dots((1, 0, 1)).count('class="dot on')
    2
    """
    said = ", ".join(f"{name} {'passed' if mark else 'failed'}" for name, mark in zip(REWARDS, vector, strict=True))
    marks = (_dot(k, mark) for k, mark in enumerate(vector))
    return tag("span", *marks, kind="dots", role="img", aria_label=said)


def _dot(reward: int, passed: int = 1) -> Html:
    return tag("i", kind=f"dot {'on ' if passed else ''}r{reward}")


def _key() -> Html:
    names = [(_dot(k), name) for k, name in enumerate(REWARDS)]
    return legend([*names, (Html(""), "filled: passed, empty: failed")], aria_hidden="true")


def _letters(vectors: Sequence[Vector], levels: Sequence[int]) -> dict[Vector, str]:
    """A letter for each advantage that several mixes share, to each of them."""
    shared = [level for level in dict.fromkeys(levels) if levels.count(level) > 1]
    return {v: ascii_uppercase[shared.index(x)] for v, x in zip(vectors, levels, strict=True) if x in shared}


def _answers(models: Sequence[str]) -> Html:
    s = "" if len(models) == 1 else "s"
    title = join(len(models), tag("span", f" answer{s} (show model{s})"))
    return fold(title, tag("ul", *(tag("li", name) for name in models)))


def _advantage(a: float, letter: str | None, method: str) -> Cell:
    if not letter:
        return Cell(signed(a), method)
    return Cell(join(signed(a), " ", tag("b", f"= tie {letter}", kind="tie")), f"{method} tied")


def _says(task: str, marks, vectors: Sequence[Vector], level: dict[str, list[int]], weight: float) -> list[str]:
    mixes, kept = len(vectors), {m: len(set(level[m])) for m in METHODS}
    text = f"**{task}**: {len(marks)} answers with "
    if mixes == 1:
        return [f"{text}the same marks, so every advantage is 0."]
    text += f"{mixes} different mixes of marks. GRPO has {count(kept['grpo'], 'advantage')} for them, GDPO "
    text += f"{kept['gdpo']}."
    needed = gc.break_even_weights(marks, gc.broken_ties(gc.collapse(marks, "grpo"), gc.collapse(marks, "gdpo")))
    if not len(needed):
        return [text, "GDPO breaks no tie of a right and a wrong answer here."]
    wrong = int((needed > weight).sum())
    many = "all of them" if wrong == len(needed) else wrong
    first = f"the **wrong answer first in {many}**" if wrong else "the right answer first in all of them"
    return [
        text,
        f"Of the {len(needed)} pairs of a right and a wrong answer that GRPO ties with equal weights and GDPO does "
        f"not, GDPO with correctness at {weight:g} puts {first}.",
    ]
