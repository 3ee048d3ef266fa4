"""Where the controls of the board stand."""

from collections.abc import Sequence
from dataclasses import dataclass

from gdpo_core import CONVENTIONS
from gdpo_core.successors import SUCCESSORS, TITLES

PAYS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
HEAVIEST = 5.0
BASE = "grpo"  # the method on the left
METHODS = {m: TITLES[m] for m in ("gdpo", "grpo_no_std", *SUCCESSORS)}  # those on the right
UNDEFINED = [["corr_grpo", key] for key, c in CONVENTIONS.items() if c.leave_one_out]  # (method, convention)
Marks = tuple[tuple[int, ...], ...]  # (answers, rewards) of 0 or 1


@dataclass(frozen=True)
class State:
    """Marks, what a pass of each pays and weighs, the convention, the method on the right."""

    marks: Marks
    pays: tuple[float, ...]
    weights: tuple[float, ...]
    convention: str = "paper"
    method: str = "gdpo"
    lengths: tuple[int, ...] = ()  # of the answers, in characters: what a convention that weighs tokens counts

    @property
    def rewards(self) -> list[list[float]]:
        """(answers, rewards) what each answer is paid."""
        return [[mark * pay for mark, pay in zip(row, self.pays, strict=True)] for row in self.marks]

    @property
    def equal(self) -> bool:
        """Whether a pass of each mark counts the same in GRPO's sum."""
        return len({round(pay * weight, 9) for pay, weight in zip(self.pays, self.weights, strict=True)}) == 1


def frozen(marks: Sequence[Sequence[int]]) -> Marks:
    """Marks as a key for a cache."""
    return tuple(tuple(int(mark) for mark in row) for row in marks)
