"""Section 4: one prompt opened, its different mixes of marks and what GRPO and GDPO make of each."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from string import ascii_uppercase

import gdpo_core as gc
from gdpo_core.bfcl import REWARDS, Published, draw
from views.broken import broken
from views.prompts import Choice, fold, groups, says
from views.text import NAMES, count, number, signed

METHODS = ("grpo", "gdpo")
MOST = "most ties broken the wrong way"
Vector = tuple[int, ...]


def tasks(data: Published) -> dict[str, str]:
    """The choice of a prompt; the first leaves it to the data, "" here."""
    return {MOST: "", **{task: task for task in data.tasks}}


@lru_cache(maxsize=128)  # of some kB each
def opened(data: Published, choice: Choice, group_size: int, task: str | None) -> str:
    """HTML of one prompt's drawn answers, a row a mix of marks, GDPO's highest first."""
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
    body = "".join(
        f'<tr><th scope="row">{dots(v)}</th><td>{_answers([m for m, r in zip(models, rows, strict=True) if r == v])}'
        "</td>" + "".join(_advantage(advantages[m][rows.index(v)], letters[m].get(v), m) for m in METHODS) + "</tr>"
        for v in vectors
    )
    head = "".join(f'<th scope="col" class="{m}">{NAMES[m]}</th>' for m in METHODS)
    return (
        f"{says(chosen + _says(task, marks[prompt], vectors, level, choice.weight))}{_key()}"
        f'<table class="vectors"><caption>GDPO\'s last step divides by the spread over all {count(len(marks))} prompts '
        f"drawn, here {number(float(computed['gdpo'].batch_std))}. The texts of the answers are not in our data."
        "</caption><thead>"
        f'<tr><th scope="col">marks</th><th scope="col">answers</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _chosen(data: Published, choice: Choice, group_size: int) -> str:
    """HTML of why this prompt is shown if there is none that is called for."""
    found = broken(data, choice, group_size)
    if found.wrong:
        return ""
    instead = (
        "the prompt with the most ties of a right and a wrong answer under GRPO" if found.grpo_ties else "the first"
    )
    return f"<p>With equal weights no tie is broken the wrong way in these groups. Shown instead: {instead}.</p>"


def dots(vector: Vector) -> str:
    """HTML of a mix of marks as a pattern, filled for a pass, with the same in words.

    >>> dots((1, 0, 1)).count('class="dot on')
    2
    """
    said = ", ".join(f"{name} {'passed' if mark else 'failed'}" for name, mark in zip(REWARDS, vector, strict=True))
    marks = "".join(f'<i class="dot {"on " if mark else ""}r{k}"></i>' for k, mark in enumerate(vector))
    return f'<span class="dots" role="img" aria-label="{said}">{marks}</span>'


def _key() -> str:
    names = "".join(f'<span><i class="dot on r{k}"></i>{name}</span>' for k, name in enumerate(REWARDS))
    return f'<p class="key" aria-hidden="true">{names}<span>filled: passed, empty: failed</span></p>'


def _letters(vectors: Sequence[Vector], levels: Sequence[int]) -> dict[Vector, str]:
    """A letter for each advantage that several mixes share, to each of them."""
    shared = [level for level in dict.fromkeys(levels) if levels.count(level) > 1]
    return {v: ascii_uppercase[shared.index(x)] for v, x in zip(vectors, levels, strict=True) if x in shared}


def _answers(models: Sequence[str]) -> str:
    names = "".join(f"<li>{escape(name)}</li>" for name in models)
    s = "" if len(models) == 1 else "s"
    return fold(f"{len(models)}<span> answer{s} (show model{s})</span>", f"<ul>{names}</ul>")


def _advantage(a: float, letter: str | None, method: str) -> str:
    tie = f' <b class="tie">= tie {letter}</b>' if letter else ""
    return f'<td class="{method}{" tied" if letter else ""}">{signed(a)}{tie}</td>'


def _says(task: str, marks, vectors: Sequence[Vector], level: dict[str, list[int]], weight: float) -> str:
    mixes, kept = len(vectors), {m: len(set(level[m])) for m in METHODS}
    text = f"<p><b>{escape(task)}</b>: {len(marks)} answers with "
    if mixes == 1:
        return text + "the same marks, so every advantage is 0.</p>"
    advantages = f"{kept['grpo']} advantage{'' if kept['grpo'] == 1 else 's'}"
    text += f"{mixes} different mixes of marks. GRPO has {advantages} for them, GDPO {kept['gdpo']}.</p>"
    needed = gc.break_even_weights(marks, gc.broken_ties(gc.collapse(marks, "grpo"), gc.collapse(marks, "gdpo")))
    if not len(needed):
        return text + "<p>GDPO breaks no tie of a right and a wrong answer here.</p>"
    wrong = int((needed > weight).sum())
    count = "all of them" if wrong == len(needed) else wrong
    first = f"the <b>wrong answer first in {count}</b>" if wrong else "the right answer first in all of them"
    return text + (
        f"<p>Of the {len(needed)} pairs of a right and a wrong answer that GRPO ties with equal weights and GDPO does "
        f"not, GDPO with correctness at {weight:g} puts {first}.</p>"
    )
