"""The Lab's board: a task's answers with their marks, the state in the address, and the program for its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import marimo as mo
import traitlets

import gdpo_core as gc
from gdpo_core.board import Board
from gdpo_core.board.drawing import draw
from gdpo_core.board.state import BASE, PAYS, State
from gdpo_core.shared.markup import Html, tag
from gdpo_core.shared.words import listing
from views.bfcl import REWARDS, Task, grade_all
from views.widgets.first_words import CHOOSE, what_methods_do
from views.widgets.html import element
from views.widgets.nav import Nav

_LABELS = ("correct", "style", "concise")  # over the columns of marks
ONES = (1.0,) * len(REWARDS)


@dataclass(frozen=True)
class GradedAnswers:
    """The answers to a task, in the order of GDPO's advantages, the highest first.

    marks: (answers, rewards), the mark that each grader gave each answer.
    reasons: (answers, rewards), the grader's reason for each mark.
    """

    answers: tuple[str, ...]
    marks: tuple[tuple[float, ...], ...]
    reasons: tuple[tuple[str, ...], ...]

    @property
    def state(self) -> State:
        """The state of the board of these answers before a reader touches it. The length of an answer is its number of
        characters.
        """
        return State(self.marks, ONES, ONES, lengths=tuple(map(len, self.answers)), names=REWARDS)


@lru_cache(maxsize=16)
def grade_answers(task: Task) -> GradedAnswers:
    """Grade the answers to a task, and return them with their marks and reasons.

    They stand in the order of GDPO's advantages at equal weights, the highest first. GRPO's advantages decide between
    answers that GDPO ties. The last 16 results are kept.
    """
    grades = grade_all(task)
    marks = tuple(grade.vector for grade in grades)
    order = draw(State(marks, ONES, ONES))["order"]
    return GradedAnswers(
        tuple(task.answers[i] for i in order),
        tuple(marks[i] for i in order),
        tuple(tuple(getattr(grades[i], name).reason for name in REWARDS) for i in order),
    )


def task_board(task: Task, first: Task, page: Nav) -> Board:
    """Return the board of a task's answers. If the address of the page is of this task, the board is in the state that
    the address describes; otherwise it is untouched.

    A part of the address that does not fit the board is ignored, and `page.unread` is set, so that the page says so.

    first: the task that is meant by an address without a task.
    page: the bar that keeps the address.
    """
    sheet = grade_answers(task)
    made = Board(
        sheet.marks,
        answers=sheet.answers,
        names=REWARDS,
        labels=_LABELS,
        reasons=sheet.reasons,
        primary=REWARDS[0],
        drop=True,
    )
    if task.id != page.restore("lab-task", default=first.id):
        return made
    made.why = bool(page.restore("lab-why"))
    for name in ("marks", "pays", "weights", "method", "convention"):
        value = page.restore(f"lab-{name}", set(product(PAYS, repeat=len(REWARDS))) if name == "pays" else None)
        try:
            if value is not None:
                setattr(made, name, value)
        except traitlets.TraitError:
            page.unread = True
    return made


def controls(task: Task, state: State, why: bool = False) -> dict[str, Any]:
    """Return the values of the Lab's controls, by their keys in the address.

    why: whether each bar of the board shows what each reward adds to the answer's advantage.
    """
    return {"lab-task": task.id, "lab-why": "yes" if why else ""} | {
        f"lab-{name}": getattr(state, name) for name in ("marks", "pays", "weights", "convention", "method")
    }


def defaults(first: Task, task: Task) -> Mapping[str, Any]:
    """Return the values of the controls that the address leaves out while the board shows the answers to `task`.

    They are the values of the untouched board of `task`, with one exception. The control that chooses the task has the
    value of `first`, because an address without a task means that task.
    """
    return controls(task, grade_answers(task).state) | {"lab-task": first.id}


def link(board: Board, task: Task, first: Task) -> tuple[dict[str, Any], Mapping[str, Any], str]:
    """Return a tuple of what `Nav.write` needs: the values of the Lab's controls, the values that the address leaves
    out, and a program.

    The first two are mappings by the control's key in the address. The program is Python and prints the numbers of the
    board.

    task: the task whose answers the board shows.
    first: the task that is meant by an address without a task.
    """
    return controls(task, board.state, board.why), defaults(first, task), lab_program(board.state)


def deeds(board: Board, task: Task) -> set[str]:
    """Return which of two deeds, things that the Lab asks a reader to try, are done on the board: "tie" and "order".

    "tie" is done if GDPO ties answers with different marks on the board, but ties none while all marks are as graded.
    "order" is done if the weight of correctness is not 1, there are right and wrong answers, and GDPO puts no wrong
    answer above a right one. Neither is done if the board shows another method than GDPO.

    The ties and the order on the board are read off its drawing, so that a flip of a mark waits for no further
    computation.
    """
    if board.method != "gdpo":
        return set()
    wrong, pairs = board.drawing["wrong_first"]
    # The deed counts only where GDPO ties nothing as long as the marks are as graded.
    tied = board.drawing["ties"][1] and not draw(grade_answers(task).state)["ties"][1]
    ordered = board.weights[0] != 1 and pairs > 0 == wrong
    return {name for name, done in {"tie": tied, "order": ordered}.items() if done}


def lab_program(state: State) -> str:
    """Return a Python program that prints the advantages and the shares of the update for a state of the board.

    It prints them under GRPO and under the method beside it on the board, and has 15 lines for twelve answers.
    """
    options = "" if state.convention == "paper" else f', convention=gc.CONVENTIONS["{state.convention}"]'
    if gc.CONVENTIONS[state.convention].last_step == "tokens":
        options += f", lengths={list(state.lengths)}"
    marks = ",\n    ".join(
        ", ".join(str(list(row)) for row in state.marks[i : i + 4]) for i in range(0, len(state.marks), 4)
    )
    lines = [
        "import torch",
        "",
        "import gdpo_core as gc",
        "",
        f"marks = torch.tensor([\n    {marks},\n], dtype=torch.float64)  # (answers, rewards): {listing(REWARDS)}",
        f"rewards = marks * torch.tensor({list(state.pays)}, dtype=torch.float64)",
        f"options = dict(weights={list(state.weights)}{options})",
        f"for method in ({BASE!r}, {state.method!r}):",
        "    print(method, *(f'{a + 0:+.2f}' for a in gc.advantages(rewards, method, **options).tolist()))",
        "    shares = gc.collapse(rewards, method, **options).update_share",
        "    print('share of the update', *(f'{100 * share:.2f} %' for share in shares))",
    ]
    return "\n".join(lines) + "\n"


def task_choice(tasks: tuple[Task, ...], page: Nav) -> mo.ui.radio:
    """Return the control that chooses a task. At first it is at the task that the address names, or at the first task
    if the address names none.

    page: holds the values of the address.
    """
    titles = {task.id: task.title for task in tasks}
    linked = titles[page.restore("lab-task", titles, next(iter(titles)))]
    label = tag("span", CHOOSE, kind="segments large")
    return mo.ui.radio({task.title: task for task in tasks}, linked, inline=True, label=label)


def claim(headline: str, task: Task) -> str:
    """Return the Lab's headline above the sentence that says what the methods do with rewards, as Markdown.

    headline: its text, from the board of `task`.
    """
    return f"# {headline}\n\n{what_methods_do(bool(task.longest))}"


def request(task: Task, choice: object) -> Html:
    """Return the request of a task beside the control that chooses another task."""
    return tag("div", tag("p", f"“{task.request}”"), element(choice), kind="request")
