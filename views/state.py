"""Where the Lab's controls stand, and what they may be."""

from collections.abc import Sequence
from dataclasses import dataclass

import gdpo_core as gc
from gdpo_core.bfcl import REWARDS

PAYS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
HEAVIEST = 5.0
BASE = "grpo"  # the method on the left
Marks = tuple[tuple[int, ...], ...]  # (answers, rewards) of 0 or 1


@dataclass(frozen=True)
class State:
    """Where the Lab's controls stand."""

    task: int
    marks: Marks
    pays: tuple[float, ...] = (1.0,) * len(REWARDS)
    weights: tuple[float, ...] = (1.0,) * len(REWARDS)
    convention: str = "paper"
    method: str = "gdpo"  # on the right

    @property
    def rewards(self) -> list[list[float]]:
        """(answers, rewards) what each answer is paid."""
        return [[mark * pay for mark, pay in zip(row, self.pays, strict=True)] for row in self.marks]

    @property
    def equal(self) -> bool:
        """Whether a pass of each mark counts the same in GRPO's sum."""
        return len({round(pay * weight, 9) for pay, weight in zip(self.pays, self.weights, strict=True)}) == 1


def methods() -> dict[str, str]:
    """The methods to compare, by key: their titles."""
    return {"grpo": "GRPO", "gdpo": "GDPO", "grpo_no_std": "GRPO without std"} | {
        key: successor.name for key, successor in getattr(gc, "SUCCESSORS", {}).items()
    }


def _undefined() -> list[list[str]]:
    """(method, convention) where the convention does not define the method."""
    return [["corr_grpo", key] for key, c in gc.CONVENTIONS.items() if c.leave_one_out]


UNDEFINED = _undefined()


def checked(controls: dict, answers: Sequence[int]) -> State:
    """The state that the browser names; ValueError where it is none."""
    state = State(
        task=int(controls["task"]),
        marks=frozen(controls["marks"]),
        pays=tuple(map(float, controls["pays"])),
        weights=tuple(map(float, controls["weights"])),
        convention=str(controls["convention"]),
        method=str(controls["method"]),
    )
    fits = (
        0 <= state.task < len(answers)
        and len(state.marks) == answers[state.task]
        and all(len(row) == len(REWARDS) and set(row) <= {0, 1} for row in state.marks)
        and len(state.pays) == len(state.weights) == len(REWARDS)
        and all(0 < pay <= PAYS[-1] for pay in state.pays)
        and all(0 <= weight <= HEAVIEST for weight in state.weights)
        and state.convention in gc.CONVENTIONS
        and state.method in methods()
        and [state.method, state.convention] not in UNDEFINED
    )
    if not fits:
        raise ValueError("out of range")
    return state


def frozen(marks: Sequence[Sequence[int]]) -> Marks:
    """Marks as a key for a cache."""
    return tuple(tuple(int(mark) for mark in row) for row in marks)
