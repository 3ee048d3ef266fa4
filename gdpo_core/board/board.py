"""The widget `Board`: answers, their marks, and what two methods make of them, drawn anew at each flip of a mark."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anywidget
import torch
import traitlets

import gdpo_core as gc
from gdpo_core.board.alone import DRAWN_BY_BROWSERS, page_of
from gdpo_core.board.arguments import (
    LONGEST_TEXT,
    advantages_of,
    group_of,
    list_of,
    reasons_of,
    right_or_wrong,
    start_of,
    texts_of,
    token_counts_of,
)
from gdpo_core.board.drawing import SET_BY_READERS, draw
from gdpo_core.board.result import compute
from gdpo_core.board.state import (
    BASE,
    CHOSEN_METHODS,
    HEAVIEST,
    LARGEST,
    PAYS,
    SPELLED,
    UNDEFINED,
    State,
    frozen,
    two_values,
)
from gdpo_core.pushing import PUSH_EXPLAINED, SHARE_EXPLAINED
from gdpo_core.shared.board_files import CODE, STYLE
from gdpo_core.shared.errors import expect, reason
from gdpo_core.shared.inputs import ArrayLike
from gdpo_core.shared.words import clip, listing
from gdpo_core.steps import Explanation
from gdpo_core.successors import TITLES

RULES = {  # by convention, the fields that the formulas in the browser read
    key: {name: x for name, x in asdict(c).items() if name not in ("name", "source", "grpo_eps", "missing")}
    | {"sum_eps": c.sum_eps, "skips": c.missing == "skipped"}
    for key, c in gc.CONVENTIONS.items()
}
PAY_AND_WEIGHT = (
    "What a mark pays is the reward for passing it. What it weighs is the factor by which a method multiplies this "
    "reward before it adds the rewards up. GRPO multiplies the reward as it was paid; GDPO normalises it first."
)
LATE = "The browser draws these numbers by itself. The words come from the core, which does not answer at the moment."


SET_BY_BROWSERS = {*SET_BY_READERS, "why", "active"}  # a browser may set these traits and no others


class Board(anywidget.AnyWidget):
    """A widget with answers, their rewards, and what two methods make of them, computed anew when a trait is set.

    rewards: (answers, rewards) finite numbers. A reward whose values are 0 and one other number, or a number and its
        negative, is flipped by a toggle. Any other reward is set in a field.
    answers: the texts of the answers.
    names: the names of the rewards.
    reasons: (answers, rewards) why each reward is as it is.
    weights: one per reward, 1 each by default.
    convention: one of gdpo_core.CONVENTIONS, or its key.
    method: the method on the right, beside GRPO on the left: "gdpo", "grpo_no_std" or a key of SUCCESSORS but "papo".
    editable: whether what the board shows can be changed by hand.
    labels: short names of the rewards, which stand over the columns.
    primary: the name of the reward that tells right answers from wrong ones.
    lengths: the number of tokens of each answer, by default its number of characters.
    logged: the advantages that a run logged.
    drop: whether each answer also stands above the board as a dot on each method's line.

    The traits marks, pays, weights, convention and method can be set later; `marks` are the rewards and `pays` what a
    mark of 1 pays. The trait `drawing` then holds what is drawn. With marimo, `mo.ui.anywidget(Board(…))` reruns the
    cells that name it.

    Raises InputError for arguments that do not fit; a trait that is set to what does not fit raises
    traitlets.TraitError.

    >>> board = Board([[1, 1], [1, 0], [0, 1]], names=["right", "short"])
    >>> board.marks = [[1, 1], [1, 0], [1, 1]]
    >>> board.drawing["said"][0]
    ['+0.58', '−1.15', '+0.58']
    """

    _esm = f"const STYLE = {json.dumps(STYLE)};\n{CODE}"
    # What the board shows.
    answers: Any = traitlets.List().tag(sync=True)
    names: Any = traitlets.List().tag(sync=True)
    labels: Any = traitlets.List().tag(sync=True)
    reasons: Any = traitlets.List().tag(sync=True)  # (answers, rewards) why each mark is as it was given
    given: Any = traitlets.List().tag(sync=True)  # (answers, rewards) the marks as they were given
    logged: Any = traitlets.List().tag(sync=True)  # per answer, the logged advantage as text; empty if none are given
    choices = traitlets.Dict().tag(sync=True)
    # What the reader sets.
    marks: Any = traitlets.List().tag(sync=True)  # (answers, rewards)
    pays: Any = traitlets.List().tag(sync=True)  # what a mark of 1 pays
    weights: Any = traitlets.List().tag(sync=True)
    convention = traitlets.Enum(list(gc.CONVENTIONS), "paper").tag(sync=True)
    method = traitlets.Enum(list(CHOSEN_METHODS), "gdpo").tag(sync=True)
    why = traitlets.Bool(False).tag(sync=True)  # whether every bar is drawn as the parts that the rewards add
    active = traitlets.Int(0).tag(sync=True)  # the answer that was touched last
    refused = traitlets.Unicode().tag(sync=True)  # why the last message of a browser was refused; "" if it was not
    # What is drawn of all this.
    drawing = traitlets.Dict().tag(sync=True)
    make_drawing = staticmethod(draw)  # a server may replace it by a function that draws in another process

    def __init__(
        self,
        rewards: ArrayLike,
        *,
        answers: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        reasons: Sequence[Sequence[str]] | None = None,
        weights: ArrayLike | None = None,
        convention: gc.Convention | str = gc.PAPER,
        method: str = "gdpo",
        editable: bool = True,
        labels: Sequence[str] | None = None,
        primary: str | None = None,
        lengths: Sequence[int] | None = None,
        logged: Sequence[float] | None = None,
        drop: bool = False,
    ) -> None:
        marks = group_of(rewards)
        many, width = len(marks), len(marks[0])
        names = texts_of(names, "names", width, "reward", "reward")
        given = [None] * many if answers is None else list_of(answers, "answers", many, "texts", "answer")
        self._two_values = tuple(two_values(column) for column in zip(*marks, strict=True))
        self._primary = right_or_wrong(primary, names, self._two_values)
        start = start_of(width, weights, convention, method)
        self._lengths = token_counts_of(lengths, given)
        try:
            super().__init__(
                answers=texts_of(given, "answers", many, "answer", "answer"),
                names=names,
                labels=names if labels is None else texts_of(labels, "labels", width, "reward", "reward"),
                reasons=reasons_of(reasons, many, width),
                given=marks,
                logged=advantages_of(logged, many),
                choices=self._choices(start) | {"editable": bool(editable), "drop": bool(drop)},
                marks=marks,
                **start,
            )
        except traitlets.TraitError as error:
            raise gc.InputError(reason(error)) from None
        self._draw()

    def _choices(self, start: dict[str, Any]) -> dict[str, Any]:
        """Return, by name, what the browser needs and a reader cannot change, such as the limits of the weights.

        start: the traits that a reader can set, as they are at first.
        """
        return {
            "two_values": [pair and list(pair) for pair in self._two_values],
            "pays": list(PAYS),
            "lightest": min(0.0, *start["weights"]),
            "heaviest": max(HEAVIEST, *start["weights"]),
            "largest": LARGEST,
            "conventions": [[key, c.name] for key, c in gc.CONVENTIONS.items()],
            "undefined": UNDEFINED,
            "methods": list(map(list, CHOSEN_METHODS.items())),
            "base": BASE.upper(),
            "spelled": SPELLED,
            "rules_mean": PAY_AND_WEIGHT,
            "push": f"{SHARE_EXPLAINED} {PUSH_EXPLAINED}",
            "rules": RULES,
            "primary": self._primary,
            "lengths": list(self._lengths),
            "late": LATE,
            "start": start,
        }

    @property
    def state(self) -> State:
        """The state in which the controls stand now."""
        return State(
            frozen(self.marks),
            tuple(map(float, self.pays)),
            tuple(map(float, self.weights)),
            self.convention,
            self.method,
            self._lengths,
            self._primary,
            tuple(self.names),
        )

    @property
    def rewards(self) -> torch.Tensor:
        """The pay of each answer by reward as the controls stand now, (answers, rewards), float64."""
        return torch.tensor(self.state.rewards, dtype=torch.float64)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Set the traits that a browser sends; where one does not fit, keep all as they were and set `refused`.

        `refused` then says in a sentence what was wrong. Traits that a browser may not set are passed over.
        """
        sync_data = {name: value for name, value in sync_data.items() if name in SET_BY_BROWSERS}
        before = {name: getattr(self, name) for name in sync_data}
        drawing, self.refused = self.drawing, ""
        try:
            super().set_state(sync_data)
            if self.drawing == drawing and set(SET_BY_READERS) & set(sync_data):
                self.send_state("drawing")  # the browser waits for this answer, which may have been lost before
        except (traitlets.TraitError, gc.InputError) as error:
            with self.hold_trait_notifications():
                for name, value in before.items():
                    self.set_trait(name, value)
            self.refused = clip(reason(error), LONGEST_TEXT)
            self.send_state([*before, "refused"])

    def to_html(self) -> str:
        """Return the text of an HTML page that shows this board without network: marks flip, and the drop plays.

        The page has GRPO, GRPO without std and GDPO under every convention. It shows the headline and verdict of the
        state that the board shows now, and none in any other state. Raises InputError where the board shows another
        method.

        >>> Board([[1, 1], [1, 0], [0, 1]]).to_html().startswith("<!doctype html>")
        True
        """
        known = listing((TITLES[method] for method in DRAWN_BY_BROWSERS), "or")
        expect(self.method in DRAWN_BY_BROWSERS, "method", f"{known}, which a browser computes", TITLES[self.method])
        return page_of(self.shared(), str(self._esm))

    def shared(self) -> dict[str, Any]:
        """Return what the widget shares with the browser, by the name of the trait."""
        return {name: getattr(self, name) for name in Board.class_own_traits(sync=True)}

    def explain(self, method: str) -> Explanation:
        """Return `gdpo_core.explain` of the rewards that the board shows, under the board's weights and convention.

        Raises InputError for a method that is not known, or that the convention does not define.
        """
        return compute(self.state, method).explained

    def collapse(self, method: str) -> gc.Collapse:
        """Return `gdpo_core.collapse` of the rewards that the board shows, under the board's weights and convention.

        Raises InputError for a method that is not known, or that the convention does not define.
        """
        return compute(self.state, method).collapsed

    @traitlets.validate("marks")
    def _marks(self, proposal: Any) -> list:
        marks, many, width = proposal["value"], len(self.answers), len(self.names)
        fits = len(marks) == many and all(
            isinstance(row, list | tuple) and len(row) == width and all(map(_fits, row, self._two_values))
            for row in marks
        )
        kinds = ["a finite number" if pair is None else f"{pair[0]:g} or {pair[1]:g}" for pair in self._two_values]
        each = f"marks, {kinds[0]}" if len(set(kinds)) == 1 else f"marks: {'; '.join(kinds)}"
        return _accepted(fits, "marks", f"{many} rows of {width} {each}", marks)

    @traitlets.validate("pays")
    def _pays(self, proposal: Any) -> list:
        pays, most = proposal["value"], PAYS[-1]
        fits = len(pays) == len(self.names) and all(_number(pay) and 0 < pay <= most for pay in pays)
        return _accepted(fits, "pays", f"{len(self.names)} numbers above 0, at most {most:g}", pays)

    @traitlets.validate("weights")
    def _weights(self, proposal: Any) -> list:
        weights = proposal["value"]
        low, high = self.choices["lightest"], self.choices["heaviest"]
        fits = len(weights) == len(self.names) and all(_number(w) and low <= w <= high for w in weights)
        return _accepted(fits, "weights", f"{len(self.names)} numbers from {low:g} to {high:g}", weights)

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

    @traitlets.observe("marks", "pays", "weights", "convention", "method", "why")
    def _draw(self, _change: Any = None) -> None:
        if not self.names:
            return  # the traits are still being set for the first time
        drawing = self.make_drawing(self.state)
        # The parts are a third of the message, which a flip need not carry while they are not shown.
        self.drawing = drawing if self.why else drawing | {"parts": None}


def _fits(mark: object, pair: tuple[float, float] | None) -> bool:
    return _number(mark) and (abs(mark) <= LARGEST if pair is None else mark in pair)  # type: ignore[arg-type]


def _number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _accepted(fits: bool, trait: str, expected: str, got: Any) -> Any:
    if not fits:
        raise traitlets.TraitError(f"{trait}: expected {expected}, got {got!r:.80}")
    return got
