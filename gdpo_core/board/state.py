"""The state of the board: how its controls stand."""

from collections.abc import Sequence
from dataclasses import dataclass

from gdpo_core import CONVENTIONS
from gdpo_core.registry import ALL_METHODS
from gdpo_core.shared.words import clip
from gdpo_core.successors import SUCCESSORS, TITLES

PAYS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
HEAVIEST = 10.0
LARGEST = 1e9  # the largest absolute value of a reward
_LONGEST = 40  # the most characters of a reward's name in a sentence
BASE = "grpo"  # the method on the left
CHOSEN_METHODS = {  # the methods on the right; those for which the order of the rewards matters are not among them
    m: TITLES[m] for m in ("gdpo", "grpo_no_std", *SUCCESSORS) if not ALL_METHODS[m].by_order
}
SPELLED = {  # what the names at the heads of the panels stand for
    "grpo": "Group Relative Policy Optimization",
    "gdpo": "Group reward-Decoupled Normalization Policy Optimization",
    "grpo_no_std": "Group Relative Policy Optimization that only centres, as Dr. GRPO, Tinker and prime-rl do",
} | {name: method.title for name, method in SUCCESSORS.items()}
UNDEFINED = [["corr_grpo", key] for key, c in CONVENTIONS.items() if c.leave_one_out]  # (method, convention)
Marks = tuple[tuple[float, ...], ...]  # (answers, rewards)


@dataclass(frozen=True)
class State:
    """A state of the board.

    marks: (answers, rewards).
    pays: for each reward, what a mark of 1 pays.
    weights: for each reward, its weight.
    convention: the key of the convention.
    method: the id of the method on the right.
    lengths: how many tokens each answer has, for a convention that averages over tokens.
    primary: the index of the reward that tells right answers from wrong ones; None where no reward does.
    names: the names of the rewards, if they have any.
    """

    marks: Marks
    pays: tuple[float, ...]
    weights: tuple[float, ...]
    convention: str = "paper"
    method: str = "gdpo"
    lengths: tuple[int, ...] = ()
    primary: int | None = 0
    names: tuple[str, ...] = ()

    @property
    def rewards(self) -> list[list[float]]:
        """The pay of each answer by reward, (answers, rewards): its mark times the pay of the reward, without the
        weight.
        """
        return [[mark * pay for mark, pay in zip(row, self.pays, strict=True)] for row in self.marks]

    @property
    def binary(self) -> bool:
        """Whether every mark is a pass, 1, or a fail, 0."""
        return {mark for row in self.marks for mark in row} <= {0, 1}

    @property
    def numbers(self) -> tuple[int, ...]:
        """The indices of the rewards whose marks cannot be flipped between two values, as `two_values` tells."""
        return tuple(k for k, column in enumerate(zip(*self.marks, strict=True)) if two_values(column) is None)

    def name_of(self, reward: int) -> str:
        """Return the name of a reward for a sentence, cut if it is long; “reward 1” and so on without names."""
        # What stands between two ** is bold in a sentence, so two stars in a name become other signs.
        return clip(self.names[reward], _LONGEST).replace("**", "∗∗") if self.names else f"reward {reward + 1}"

    def wish(self, reward: int) -> int:
        """Return what the weight of a reward asks for: −1, less of it, where the weight is below 0, else 1, more."""
        return -1 if self.weights[reward] < 0 else 1

    @property
    def right(self) -> tuple[bool, ...] | None:
        """Whether each answer is right: its mark for the primary reward is above 0, or is not where the weight asks for
        less of this reward. None where no reward is primary.
        """
        k = self.primary
        return None if k is None else tuple((row[k] > 0) == (self.wish(k) > 0) for row in self.marks)


def frozen(marks: Sequence[Sequence[float]]) -> Marks:
    """Return marks as tuples, which can be the key of a cache; whole numbers among them become int."""
    return tuple(tuple(int(mark) if mark == int(mark) else float(mark) for mark in row) for row in marks)


def two_values(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the two values, the lower first, between which a reward can be flipped: 0 and h, or −h and h, with h > 0.

    If all values are 0, h is 1. If all are h, the lower value is 0. The result is None if the values do not fit into
    such a pair, or if all are below 0.

    values: the values that the reward has in all answers.

    >>> two_values([1, 0, 1]), two_values([-1, 1]), two_values([0, 0]), two_values([0.5, 0, 0.5])
    ((0, 1), (-1, 1), (0, 1), (0, 0.5))
    >>> two_values([0.2, 0.7])
    """
    high = max(values) or 1
    for low in (0, -high):
        if set(values) <= {low, high} and high > 0:
            return low, high
    return None
