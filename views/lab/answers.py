"""The answers to a task with the graders' marks; what the address says of the board, and back; the numbers' program."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import traitlets

import gdpo_core as gc
from gdpo_core._html import Html, tag
from gdpo_core._words import count, listing, number
from gdpo_core.bfcl import REWARDS, Task, grade_all, load_tasks
from gdpo_core.board import Board
from gdpo_core.board.drawing import order_at_first
from gdpo_core.board.state import BASE, METHODS, PAYS, State, frozen
from views import address
from views.html import element, reason
from views.nav import Nav

LABELS = ("correct", "style", "concise")  # over the columns of marks
ONES = (1.0,) * len(REWARDS)


@dataclass(frozen=True)
class GradedAnswers:
    """Answers from GDPO's highest to its lowest, with what the graders say; marks, reasons: (answers, rewards)."""

    answers: tuple[str, ...]
    marks: tuple[tuple[int, ...], ...]
    reasons: tuple[tuple[str, ...], ...]

    @property
    def state(self) -> State:
        """Where the board stands when nothing was touched."""
        return State(self.marks, ONES, ONES, lengths=tuple(map(len, self.answers)))


@lru_cache(maxsize=16)
def grade_answers(task: Task) -> GradedAnswers:
    """The answers to a task, graded."""
    grades = grade_all(task)
    marks = tuple(one.vector for one in grades)
    order = order_at_first(State(marks, ONES, ONES))
    return GradedAnswers(
        tuple(task.answers[i] for i in order),
        tuple(marks[i] for i in order),
        tuple(tuple(getattr(grades[i], name).reason for name in REWARDS) for i in order),
    )


def board(task: Task, first: Task, page: Nav) -> Board:
    """The board of a task's answers; of the task that the address names, as it has it, as far as that fits."""
    sheet = grade_answers(task)
    made = Board(
        sheet.marks, answers=sheet.answers, names=REWARDS, labels=LABELS, reasons=sheet.reasons, primary=REWARDS[0]
    )
    if task.id != page.given("lab-task", default=first.id):
        return made
    expected = {
        "marks": f"{count(len(sheet.answers), 'row')} of {len(REWARDS)} marks",
        "pays": f"{len(REWARDS)} of {listing(map(number, PAYS), 'or')}",
        "weights": f"{len(REWARDS)} numbers",
        "convention": f"one of {listing(gc.CONVENTIONS, 'or')}, in which the method is defined",
        "method": f"one of {listing(METHODS, 'or')}",
    }
    for name in ("marks", "pays", "weights", "method", "convention"):
        value = page.given(f"lab-{name}")
        try:
            if name == "pays" and value is not None and not set(value) <= set(PAYS):
                raise traitlets.TraitError
            if value is not None:
                setattr(made, name, [*map(list, value)] if name == "marks" else _plain(value))
        except traitlets.TraitError:
            page.refuse(f"lab-{name}", expected[name], address.CONTROLS[f"lab-{name}"].write(value))
    return made


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def controls(task: Task, state: State) -> dict[str, Any]:
    """What the address says of a state."""
    return {"lab-task": task.id} | {
        f"lab-{name}": getattr(state, name) for name in ("marks", "pays", "weights", "convention", "method")
    }


def defaults(first: Task, task: Task) -> Mapping[str, Any]:
    """What the address need not say: the first task, and the marks as they were graded."""
    return controls(task, grade_answers(task).state) | {"lab-task": first.id}


def first_state(tasks: tuple[Task, ...]) -> State:
    """What the other chapters take for the Lab's state before it has one; without a task, every mix of marks."""
    if tasks:
        return grade_answers(tasks[0]).state
    mixes = frozen([[n >> k & 1 for k in range(len(REWARDS))] for n in range(2 ** len(REWARDS))])
    return State(mixes, ONES, ONES, lengths=(1,) * len(mixes))


def program(state: State) -> str:
    """A program of at most 15 lines that prints the advantages on the screen."""
    options = "" if state.convention == "paper" else f", convention=gc.{state.convention.upper()}"
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
        f"marks = torch.tensor([\n    {marks},\n])  # (answers, rewards): {listing(REWARDS)}",
        f"rewards = marks * torch.tensor({list(state.pays)}, dtype=torch.float64)",
        f"options = dict(weights={list(state.weights)}{options})",
        f"for method in ({BASE!r}, {state.method!r}):",
        "    print(method, *(f'{a + 0:+.2f}' for a in gc.advantages(rewards, method, **options).tolist()))",
        "    shares = gc.collapse(rewards, method, **options).update_share",
        "    print('share of the update', *(f'{100 * share:.2f} %' for share in shares))",
    ]
    return "\n".join(lines) + "\n"


def load(folder: Path) -> tuple[tuple[Task, ...], str]:
    """The tasks, or none and the sentence that says which file is missing or broken."""
    try:
        return load_tasks(folder), ""
    except gc.InputError as error:
        return (), f"The Lab is closed: {reason(error)}"


def linked_title(tasks: tuple[Task, ...], page: Nav) -> str | None:
    """The title of the task that the address names, else of the first."""
    titles = {task.id: task.title for task in tasks}
    return titles[page.given("lab-task", titles, next(iter(titles)))] if titles else None


def request(task: Task, choice: object) -> Html:
    """The request beside the choice of another."""
    return tag("div", tag("p", f"“{task.request}”"), element(choice), kind="asked")
