"""The result of one method on a state of the board: the library's numbers, and the answers that the method ties."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import gdpo_core as gc
from gdpo_core.board.state import State
from gdpo_core.steps import Explanation
from gdpo_core.ties import explain_and_collapse


@dataclass(frozen=True)
class Result:
    """The numbers of one method on one state, and the answers with different marks that it ties.

    explained: each step of the computation.
    collapsed: what the advantages keep of the differences between rewards.
    advantages: per answer, its advantage.
    parts: (answers, rewards) what each reward adds to the advantage.
    terms: (answers, rewards) what the method adds up, before the weights.
    sums: per answer, the weighted sum of these terms.
    factors: per answer, the number by which GD²PO multiplies this sum, 1 under the other methods.
    level: per answer, the rank of its advantage, 0 = lowest.
    ties: a dict for each advantage that answers with different marks share, the highest advantage first. Its "answers"
        are the numbers of these answers; its "mixes" says how many combinations of marks they have.
    """

    explained: Explanation
    collapsed: gc.Collapse
    advantages: list[float]
    parts: list[list[float]]
    terms: list[list[float]]
    sums: list[float]
    factors: list[float]
    level: list[int]
    ties: list[dict]

    @property
    def shares(self) -> list[float] | None:
        """Each reward's share of the update; None in place of the whole list where every advantage is 0."""
        share = self.collapsed.update_share
        return list(share) if all(part == part for part in share) else None


@lru_cache(maxsize=512)
def compute(state: State, method: str) -> Result:
    """Return the numbers of a method, from the marks to the advantages and ties, for a state of the board.

    Results are kept for later calls. Raises InputError where the convention does not define the method.
    """
    convention = gc.CONVENTIONS[state.convention]
    given: dict[str, Any] = {"weights": state.weights, "convention": convention}
    if convention.last_step == "tokens":
        given["lengths"] = state.lengths
    explained, collapsed, parts = explain_and_collapse(state.rewards, method, **given)
    levels = collapsed.level.tolist()
    terms = explained.rewards if explained.z is None else explained.z
    return Result(
        explained,
        collapsed,
        explained.advantages.tolist(),
        parts.nan_to_num().tolist(),  # an answer that GD²PO leaves out has no parts, which are NaN
        terms.tolist(),
        explained.weighted_sums.tolist(),
        [1.0] * len(levels) if explained.factors is None else explained.factors.tolist(),
        levels,
        _ties(state.marks, levels),
    )


def _ties(marks: tuple, levels: list[int]) -> list[dict]:
    sets: dict[int, list[int]] = {}
    for answer, level in enumerate(levels):
        sets.setdefault(level, []).append(answer)
    tied = [(sets[level], len({marks[i] for i in sets[level]})) for level in sorted(sets, reverse=True)]
    return [{"answers": answers, "mixes": mixes} for answers, mixes in tied if mixes > 1]
