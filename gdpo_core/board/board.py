"""The board: answers, their marks, and what two methods make of them, drawn anew as soon as a mark is flipped."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import anywidget
import torch
import traitlets

import gdpo_core as gc
from gdpo_core import _theme
from gdpo_core._errors import expect
from gdpo_core.board.drawing import draw
from gdpo_core.board.seen import seen
from gdpo_core.board.state import BASE, HEAVIEST, METHODS, PAYS, UNDEFINED, State, frozen
from gdpo_core.explain import Explanation

HERE = Path(__file__).parent
# Every call of torch lets another thread in, and waits for the interpreter afterwards: of fifty visitors who flip
# once a second, 95 of 100 drawings would take 983 ms instead of 56. One drawing is made at a time.
TURN = Lock()


class Board(anywidget.AnyWidget):
    """Toggles and bars; its traits are its value, and `drawing` is sent before any cell of a notebook runs.

    rewards: (answers, rewards) of 0 or 1. Where marimo is, `mo.ui.anywidget(Board(…))` reruns the cells that name it.

    >>> board = Board([[1, 1], [1, 0], [0, 1]], names=["right", "short"])
    >>> board.marks = [[1, 1], [1, 0], [1, 1]]
    >>> board.drawing["said"][0]
    ['+0.58', '−1.15', '+0.58']
    """

    _esm = (HERE / "board.js").read_text(encoding="utf-8")
    _css = _theme.css(".board") + (HERE / "board.css").read_text(encoding="utf-8")
    # what is shown
    answers: Any = traitlets.List().tag(sync=True)
    names: Any = traitlets.List().tag(sync=True)  # of the rewards; the first is the one that matters most
    labels: Any = traitlets.List().tag(sync=True)  # short names, over the columns
    reasons: Any = traitlets.List().tag(sync=True)  # (answers, rewards) why each mark is as it was given
    given: Any = traitlets.List().tag(sync=True)  # (answers, rewards) the marks as they were given
    choices = traitlets.Dict().tag(sync=True)
    # what the reader sets
    marks: Any = traitlets.List().tag(sync=True)  # (answers, rewards)
    pays: Any = traitlets.List().tag(sync=True)
    weights: Any = traitlets.List().tag(sync=True)
    convention = traitlets.Enum(list(gc.CONVENTIONS), "paper").tag(sync=True)
    method = traitlets.Enum(list(METHODS), "gdpo").tag(sync=True)
    active = traitlets.Int(0).tag(sync=True)  # the answer that was touched last
    followed = traitlets.Bool().tag(sync=True)  # whether `active` is also the answer under the pointer
    # what comes of it
    drawing = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        rewards: Sequence[Sequence[int]],
        *,
        answers: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        reasons: Sequence[Sequence[str]] | None = None,
    ) -> None:
        marks = [list(map(int, row)) for row in rewards]
        width = len(marks[0]) if marks else 0
        expect(bool(width) and all(len(row) == width for row in marks), "rewards", "(answers, rewards)", str(rewards))
        names = [f"reward {k + 1}" for k in range(width)] if names is None else list(names)
        answers = [f"answer {i + 1}" for i in range(len(marks))] if answers is None else list(answers)
        self._lengths = tuple(map(len, answers))
        ones = [1.0] * width
        super().__init__(
            answers=answers,
            names=names,
            labels=names if labels is None else list(labels),
            reasons=[["" for _ in names] for _ in marks] if reasons is None else [list(row) for row in reasons],
            given=marks,
            marks=marks,
            pays=ones,
            weights=ones,
            choices={
                "pays": list(PAYS),
                "heaviest": HEAVIEST,
                "conventions": [[key, c.name] for key, c in gc.CONVENTIONS.items()],
                "undefined": UNDEFINED,
                "methods": list(map(list, METHODS.items())),
                "base": BASE.upper(),
            },
        )
        self._draw()

    @property
    def state(self) -> State:
        """Where the controls stand."""
        return State(
            frozen(self.marks),
            tuple(map(float, self.pays)),
            tuple(map(float, self.weights)),
            self.convention,
            self.method,
            self._lengths,
        )

    @property
    def rewards(self) -> torch.Tensor:
        """(answers, rewards) what each answer is paid now, float64."""
        return torch.tensor(self.state.rewards, dtype=torch.float64)

    def explain(self, method: str) -> Explanation:
        """`gdpo_core.explain` of what it shows; computed with the drawing."""
        return seen(self.state, method).explained

    def collapse(self, method: str) -> gc.Collapse:
        """`gdpo_core.collapse` of what it shows; computed with the drawing."""
        return seen(self.state, method).collapsed

    @traitlets.validate("marks")
    def _marks(self, proposal: Any) -> list:
        marks = proposal["value"]
        fits = len(marks) == len(self.answers) and all(
            isinstance(row, list | tuple) and len(row) == len(self.names) and set(map(repr, row)) <= {"0", "1"}
            for row in marks
        )
        return _accepted(fits, "marks", f"{len(self.answers)} rows of {len(self.names)} marks, 0 or 1", marks)

    @traitlets.validate("pays")
    def _pays(self, proposal: Any) -> list:
        pays, most = proposal["value"], PAYS[-1]
        fits = len(pays) == len(self.names) and all(_number(pay) and 0 < pay <= most for pay in pays)
        return _accepted(fits, "pays", f"{len(self.names)} numbers above 0, at most {most:g}", pays)

    @traitlets.validate("weights")
    def _weights(self, proposal: Any) -> list:
        weights = proposal["value"]
        fits = len(weights) == len(self.names) and all(_number(w) and 0 <= w <= HEAVIEST for w in weights)
        return _accepted(fits, "weights", f"{len(self.names)} numbers from 0 to {HEAVIEST:g}", weights)

    @traitlets.validate("active")
    def _active(self, proposal: Any) -> int:
        fits = 0 <= proposal["value"] < len(self.answers)
        return _accepted(fits, "active", f"an answer from 0 to {len(self.answers) - 1}", proposal["value"])

    @traitlets.validate("method", "convention")
    def _defined(self, proposal: Any) -> str:
        name, value = proposal["trait"].name, proposal["value"]
        both = {"method": self.method, "convention": self.convention, name: value}
        fits = [both["method"], both["convention"]] not in UNDEFINED
        return _accepted(fits, name, f"one that defines {both['method']} with {both['convention']}", value)

    @traitlets.observe("marks", "pays", "weights", "convention", "method")
    def _draw(self, _change: Any = None) -> None:
        if not self.names:
            return  # before it is whole
        with TURN:
            self.drawing = draw(self.state, tuple(self.names))


def _number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _accepted(fits: bool, trait: str, expected: str, got: Any) -> Any:
    if not fits:
        raise traitlets.TraitError(f"{trait}: expected {expected}, got {got!r:.80}")
    return got
