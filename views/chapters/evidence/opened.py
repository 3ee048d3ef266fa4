"""One prompt that the reader opened: its request, its ties in words, its kinds of answers in a table, and its answers
as a board.
"""

from collections.abc import Mapping

from torch import Tensor

import gdpo_core as gc
from gdpo_core.board import Board
from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import count, listing, signed
from views.bfcl import REWARDS, Published, draw_models
from views.bfcl.prompts import BOTH_METHODS, Choice
from views.chapters.evidence import requests
from views.chapters.evidence.squares import CATEGORIES
from views.widgets.html import Cell, Html, join, prose, table, tag

SHORT = ("correct", "style", "concise")


def find(data: Published, asked: str) -> list[str]:
    """Return the names of the prompts that a reader may mean: the one with this name, or those whose request has all of
    these words. It is empty for a blank text.
    """
    if asked in data.tasks or not asked.strip():
        return [asked] if asked in data.tasks else []
    words, by_name = asked.lower().split(), requests.texts()
    return [name for name in data.tasks if all(word in by_name[name][0].lower() for word in words)]


def search_note(data: Published, asked: str) -> Html | str:
    """Return a note on what was found for `asked`; empty for a name of a prompt and for a blank text."""
    matching = find(data, asked)
    if not asked.strip() or asked in data.tasks:
        return ""
    if matching:
        note = f"{count(len(matching), 'request has', 'requests have')} these words: {listing(matching, most=3)}."
    else:
        like = [name for name in data.tasks if name.startswith(asked)]
        known = f"Names that begin so: {listing(like, most=3)}." if like else f"A name here is {data.tasks[0]}."
        note = f"No prompt has the name “{asked}”, and no request has these words. {known}"
    return tag("p", note, kind="note", role="status")


def prompt(data: Published, choice: Choice, marks: Tensor, ties: Mapping[str, gc.Collapse], name: str) -> Html:
    """Return one prompt as HTML: its name, its request with a right answer, sentences on its ties, and a table of its
    kinds of answers, where answers with the same marks are one kind.

    choice: how answers are drawn, graded and weighed.
    marks: (prompts, answers, rewards) of the drawn answers to all prompts.
    ties: by method, the `Collapse` of these marks.
    name: the name of the prompt.
    """
    number, size = data.tasks.index(name), choice.group_size
    of_one = marks[number]  # (answers, rewards)
    level = {m: ties[m].level.view(-1, size)[number].tolist() for m in BOTH_METHODS}
    category = CATEGORIES.get(data.categories[number], data.categories[number])
    title = tag("h3", name, tag("small", f" {category}", kind="note"))
    return join(title, requests.section(name), tag("p", prose(_says(choice, of_one, level))), _kinds(choice, of_one))


def _kinds(choice: Choice, marks: Tensor) -> Html:
    """Return a table with a row per kind of answer. Answers with the same marks are one kind; the kinds that pass
    correctness come first.

    A row says how many answers there are of this kind, their marks, and their advantage under GRPO and GDPO. The
    advantages are computed as if the prompt were a batch of its own.

    choice: holds the weights.
    marks: (answers, rewards) of one prompt.
    """
    kinds, kind_of_answer = marks.unique(dim=0, return_inverse=True)
    given = {m: gc.advantages(marks, m, weights=choice.weights) for m in BOTH_METHODS}
    rows = [
        [
            count(int((kind_of_answer == k).sum()), "answer"),
            *("✓" if mark else "✗" for mark in kind),
            *(Cell(signed(given[m][kind_of_answer == k][0].item()), m) for m in BOTH_METHODS),
        ]
        for k, kind in reversed(list(enumerate(kinds.tolist())))
    ]
    return table(["", *SHORT, *(Cell(NAMES[m], m) for m in BOTH_METHODS)], rows, "figures")


def prompt_board(data: Published, choice: Choice, marks: Tensor, name: str) -> Board:
    """Return a board of the drawn answers to one prompt. Each answer is named after the model's configuration that gave
    it.

    choice: how answers are drawn, graded and weighed.
    marks: (prompts, answers, rewards) of the drawn answers to all prompts.
    name: the name of the prompt.
    """
    number = data.tasks.index(name)
    models = [data.models[m] for m in draw_models(data, choice.group_size, choice.seed)[number].tolist()]
    return Board(marks[number], answers=models, names=REWARDS, labels=SHORT, weights=choice.weights, primary=REWARDS[0])


def _says(choice: Choice, marks: Tensor, level: Mapping[str, list[int]]) -> str:
    """Return the sentences on the ties of one prompt.

    choice: holds the weights.
    marks: (answers, rewards) of the prompt.
    level: by method, the rank of each answer's advantage; tied answers have one rank.
    """
    mixes = len(marks.unique(dim=0))
    if mixes == 1:
        return f"All {len(marks)} answers have the same marks, so every advantage is 0."
    grpo, gdpo = (len(set(level[m])) for m in BOTH_METHODS)
    text = f"The {len(marks)} answers have **{mixes} combinations of marks**. GRPO gives them "
    text += f"{count(grpo, 'different advantage')}, GDPO {count(gdpo)}."
    collapses = [gc.collapse(marks, m, weights=choice.weights) for m in BOTH_METHODS]
    broken = gc.broken_ties(*collapses)
    if not len(broken.lower):
        tied = collapses[0].order().tied
        return f"{text} {_none_broken(tied)}"
    wrong, ties = int(broken.inverted.sum()), len(broken.lower)
    if ties == 1:
        order = "in the wrong order" if wrong else "not in the wrong order"
        return f"{text} GDPO breaks one tie of a right and a wrong answer, **{order}**."
    which = "all" if wrong == ties else f"{count(wrong)} of them" if wrong else "none"
    return f"{text} GDPO breaks {count(ties)} ties of a right and a wrong answer, **{which} in the wrong order**."


def _none_broken(tied: int) -> str:
    """Return a sentence on why GDPO breaks no tie of a right and a wrong answer: GRPO ties none of these pairs, or GDPO
    keeps all ties.

    tied: how many pairs of a right and a wrong answer GRPO ties.
    """
    if not tied:
        return "GRPO ties no right answer with a wrong one."
    kept = "the only tie" if tied == 1 else f"all {count(tied)} ties"
    return f"GDPO keeps {kept} of a right and a wrong answer."
