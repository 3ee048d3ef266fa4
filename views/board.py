"""The board of section 1: answers with their toggles, and what GRPO and GDPO make of them, as one widget."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import anywidget
import traitlets

import gdpo_core as gc
from gdpo_core import _theme
from gdpo_core._words import count
from gdpo_core.bfcl import REWARDS, Task, grade_all
from views.html import Html, join, prose, tag
from views.marks import Passed, frozen, told_apart

HERE = Path(__file__).parent
WHY_GDPO_TIES = (
    "It cannot tell two marks apart when as many answers pass the one as pass the other, or as many pass the one as "
    "fail the other."
)


class Board(anywidget.AnyWidget):
    """Toggles in the browser, arithmetic here: a flip asks with a message, and `drawing` comes back.

    The trait `passed`, on which other cells depend, follows when the reader pauses.
    """

    _esm = HERE / "board.js"
    _css = _theme.css(".board") + (HERE / "board.css").read_text(encoding="utf-8")
    tasks = traitlets.List().tag(sync=True)
    task = traitlets.Int().tag(sync=True)  # index of the task that is shown
    passed = traitlets.List().tag(sync=True)  # (answers, rewards) of 0 or 1, as toggled
    drawing = traitlets.Dict().tag(sync=True)

    def __init__(self, tasks: Sequence[Task]):
        sheets = [sheet(task) for task in tasks]
        super().__init__(tasks=sheets, task=0, passed=sheets[0]["graded"], drawing=draw(frozen(sheets[0]["graded"])))
        self.on_msg(lambda _, message, __: self._draw(self._checked(dict(message).get("passed"))))

    @traitlets.validate("passed")
    def _validate(self, proposal):
        return self._checked(proposal["value"])

    @traitlets.observe("passed")
    def _follow(self, _change):
        self._draw(self.passed)

    def _draw(self, passed):
        self.drawing = draw(frozen(passed))

    def _checked(self, passed):
        rows = passed if isinstance(passed, list) else []
        fits = all(isinstance(row, list) and len(row) == len(REWARDS) and all(x in (0, 1) for x in row) for row in rows)
        if not fits or len(rows) not in {len(task["answers"]) for task in self.tasks}:
            raise traitlets.TraitError("passed: expected a 0 or 1 for each reward of each answer")
        return rows


def sheet(task: Task) -> dict:
    """What the browser shows of a task: its answers from GDPO's highest to its lowest, with what the graders say."""
    grades = grade_all(task)
    order = draw(tuple(g.vector for g in grades))["order"]
    return {
        "title": task.title,
        "request": task.request,
        "answers": [task.answers[i] for i in order],
        "graded": [list(grades[i].vector) for i in order],
        "reasons": [[getattr(grades[i], name).reason for name in REWARDS] for i in order],
    }


@lru_cache(maxsize=1024)
def draw(passed: Passed) -> dict:
    """Everything the board draws for these rewards: bars, their one order, ties, and the verdict."""
    advantages = {m: gc.advantages(passed, m).tolist() for m in ("grpo", "gdpo")}
    collapsed = {m: told_apart(passed, m) for m in ("grpo", "gdpo")}
    order = sorted(range(len(passed)), key=lambda i: (-collapsed["gdpo"].level[i], -collapsed["grpo"].level[i], i))
    ties = {m: _ties(passed, collapsed[m]) for m in collapsed}
    return {
        **advantages,
        "order": order,
        "limit": largest_advantage(len(passed)),
        "ties": ties,
        "levels": {m: len(set(c.level.tolist())) for m, c in collapsed.items()},
        "verdict": verdict(passed, collapsed),
        "example": ties["grpo"][0]["answers"][-1] if ties["grpo"] else 0,
    }


@lru_cache(maxsize=8)
def largest_advantage(rollouts: int) -> float:
    """The largest advantage a group of this size can hold: one answer passes and all others fail."""
    return gc.grpo([[1]] + [[0]] * (rollouts - 1)).max().item()


def _ties(passed: Passed, c: gc.Collapse) -> list[dict]:
    """The advantages that answers with different rewards share, highest first."""
    sets: dict[int, list[int]] = {}
    for answer, level in enumerate(c.level.tolist()):
        sets.setdefault(level, []).append(answer)
    found = []
    for level in sorted(sets, reverse=True):
        mixes = len({passed[i] for i in sets[level]})
        if mixes > 1:
            found.append({"answers": sets[level], "mixes": mixes})
    return found


def verdict(passed: Passed, collapsed: dict[str, gc.Collapse]) -> list[str]:
    """What these rewards show, as one or two sentences of HTML."""
    return [str(sentence) for sentence in _sentences(passed, collapsed)]


def _sentences(passed: Passed, collapsed: dict[str, gc.Collapse]) -> list[Html]:
    grpo, gdpo = collapsed["grpo"], collapsed["gdpo"]
    mixes = len(set(passed))
    if mixes == 1:
        return [
            prose(
                f"All {len(passed)} answers have the same rewards, so every advantage is 0: "
                "**nothing can be learnt from this prompt** under either method."
            )
        ]
    levels = {m: len(set(c.level.tolist())) for m, c in collapsed.items()}
    if not grpo.tied_pair_count:
        first = (
            f"No tie here: GRPO gives each of the {mixes} reward mixes **an advantage of its own**, and so does GDPO."
            if not gdpo.tied_pair_count
            else f"GRPO tells all {mixes} reward mixes apart; GDPO keeps **{levels['gdpo']}**."
        )
    else:
        first = (
            f"The answers show {mixes} different mixes of marks. GRPO gives them only "
            f"**{count(levels['grpo'], 'advantage')}**, GDPO **{levels['gdpo']}**: under GRPO "
            f"**{count(grpo.tied_pair_count, 'pair')}** of answers with different marks {_are(grpo)} tied."
        )
    return [prose(first), *_second_sentence(passed, collapsed)]


def _second_sentence(passed: Passed, collapsed: dict[str, gc.Collapse]) -> list[Html]:
    """What breaking the ties does to right and wrong calls, if there are such ties."""
    grpo, gdpo = collapsed["grpo"], collapsed["gdpo"]
    if not grpo.tied_pair_count:
        return []
    if gdpo.tied_pair_count == grpo.tied_pair_count:
        return [prose(f"GDPO ties them too. {WHY_GDPO_TIES}")]
    left = f" GDPO still ties {count(gdpo.tied_pair_count, 'pair')}. {WHY_GDPO_TIES}" if gdpo.tied_pair_count else ""
    broken = gc.broken_ties(grpo, gdpo)
    wrong_first = broken.inverted.nonzero().flatten().tolist()
    if wrong_first:
        gap = max(wrong_first, key=lambda n: int(gdpo.level[broken.lower[n]] - gdpo.level[broken.higher[n]]))
        wrong, right = int(broken.lower[gap]) + 1, int(broken.higher[gap]) + 1
        said = prose(
            f"But look at answers {wrong} and {right}: GDPO puts the **wrong call above the right one**, as in "
            f"{len(wrong_first)} of {count(len(broken.inverted), 'such pair')}. It tells answers apart; it does not "
            f"know which mark matters most.{left} "
        )
        return [join(said, tag("a", "Which weights would change that?", href="#the-same-with-rewards"))]
    if len(broken.inverted):
        return [prose(f"Where GDPO splits a right call from a wrong one here, the right one ends up higher.{left}")]
    return [prose(left.strip())] if left else []


def _are(c: gc.Collapse) -> str:
    return "is" if c.tied_pair_count == 1 else "are"
