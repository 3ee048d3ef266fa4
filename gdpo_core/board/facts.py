"""The facts of a state of the board: what each method ties, orders and raises.

Every text about a state is made of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from gdpo_core.board.result import Result
from gdpo_core.board.state import BASE, CHOSEN_METHODS, State
from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import count

ZERO = 1e-9  # an advantage of at most this size is round-off
# How far off a common multiple an advantage may be, as a part of the largest one: an ε moves it as far.
PROPORTIONAL = 1e-4
# Digits of a push that round-off leaves alone: 0.125 is printed alike under every method, whatever its last bit is.
PUSH_DIGITS = 9
_Pairs = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Side:
    """The advantages of one method, with the ties, the order and the push that follow from them.

    level: per answer, the rank of its advantage, 0 = lowest.
    ties: sets of answers that share an advantage though their marks differ, the highest advantage first.
    tied: the pairs of answers that share an advantage though their marks differ.
    by_eps: how many of these pairs would tie exactly but for an ε.
    wrong_order: the pairs (wrong answer, right answer) in which the wrong answer has the larger advantage.
    push: how much the update raises the primary reward, None where no reward is primary.
    pushes: how much the update raises each reward.
    shares: each reward's share of the update, None where every advantage is 0.
    left_out: how many answers the method drops, as GD²PO does where their rewards disagree.
    """

    name: str
    advantages: tuple[float, ...]
    level: tuple[int, ...]
    ties: tuple[tuple[int, ...], ...]
    tied: _Pairs
    by_eps: int
    wrong_order: _Pairs
    push: float | None
    pushes: tuple[float, ...]
    shares: tuple[float, ...] | None
    left_out: int

    @cached_property
    def silent(self) -> bool:
        """Whether every advantage is 0."""
        return all(abs(a) <= ZERO for a in self.advantages)


@dataclass(frozen=True)
class BoardFacts:
    """The facts of a state, under the method on the left (`base`) and the one on the right (`chosen`).

    A pair is of two answers, given by their numbers.

    right: whether each answer is right, None where no reward says so.
    pairs: all pairs (wrong answer, right answer).
    mixes: how many different combinations of marks the answers have.
    side: the method whose tie the board outlines: 0 for the left-hand method, or 1 for the right-hand method if the
        left-hand method ties nothing.
    pile: the answers of this tie; none if neither method ties any.
    """

    state: State
    base: Side
    chosen: Side
    right: tuple[bool, ...] | None
    pairs: _Pairs
    mixes: int
    side: int
    pile: tuple[int, ...]

    @cached_property
    def silent(self) -> bool:
        """Whether every advantage is 0 under both methods, so that nothing is learnt."""
        return self.base.silent and self.chosen.silent

    @cached_property
    def difference(self) -> float:
        """The largest difference between the two advantages that an answer gets from the two methods."""
        return max(abs(x - y) for x, y in zip(self.base.advantages, self.chosen.advantages, strict=True))

    @cached_property
    def same_order(self) -> bool:
        """Whether both methods put the answers in the same order, ties included."""
        return self.base.level == self.chosen.level

    @cached_property
    def factor(self) -> float | None:
        """The number by which the left-hand method's advantages are multiplied to give the right-hand method's.

        None where they are not proportional, and where a method gives every answer 0.
        """
        x, y = self.base.advantages, self.chosen.advantages
        if self.base.silent or self.chosen.silent:
            return None
        times = sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)
        off = max(abs(b - times * a) for a, b in zip(x, y, strict=True))
        return times if off <= PROPORTIONAL * max(map(abs, y)) else None

    @cached_property
    def new_ties(self) -> _Pairs:
        """The pairs of answers that the method on the right ties and the one on the left tells apart."""
        return self.chosen.tied - self.base.tied

    @cached_property
    def open_pairs(self) -> _Pairs:
        """The pairs of a wrong and a right answer that the method on the left ties."""
        return frozenset(pair for pair in self.pairs if tied(self.base, pair))

    @cached_property
    def well_broken(self) -> _Pairs:
        """The pairs (wrong, right answer) that the left-hand method ties and the right-hand method puts in the correct
        order.
        """
        return frozenset((i, j) for i, j in self.open_pairs if self.chosen.level[i] < self.chosen.level[j])

    @cached_property
    def badly_broken(self) -> _Pairs:
        """The pairs (wrong, right answer) that the left-hand method ties and the right-hand method puts in the wrong
        order.
        """
        return self.open_pairs & self.chosen.wrong_order

    @cached_property
    def weight(self) -> float | None:
        """The weight of the primary reward; None where no reward is primary."""
        return None if self.state.primary is None else self.state.weights[self.state.primary]

    def raises(self, rewards: Iterable[int]) -> str:
        """Return the verb for what the weights ask of some rewards: “raise”, “lower”, or “serve” where they differ."""
        wishes = {self.state.wish(k) for k in rewards}
        return "serve" if len(wishes) > 1 else "lower" if -1 in wishes else "raise"

    def wished(self, side: Side) -> float:
        """Return the push of a method on the primary reward as it is printed, in the direction that the weight asks
        for; 0 where no reward is primary.
        """
        return 0.0 if self.state.primary is None else self.state.wish(self.state.primary) * round(side.push or 0.0, 2)

    @cached_property
    def mostly_wrong(self) -> bool:
        """Whether each method has more than half of the pairs of a wrong and a right answer in the wrong order."""
        return min(len(self.base.wrong_order), len(self.chosen.wrong_order)) * 2 > len(self.pairs)


def board_facts(state: State, left: Result, right: Result) -> BoardFacts:
    """Return what each method ties, orders and raises in a state of the board.

    left: the result of the method on the left of the board.
    right: the result of the method on the right.
    """
    passed = state.right
    pairs = frozenset(
        (i, j) for i, low in enumerate(passed or ()) if not low for j, high in enumerate(passed or ()) if high
    )
    base = _side(NAMES[BASE], state, left, pairs)
    chosen = _side(CHOSEN_METHODS[state.method], state, right, pairs)
    at = 0 if base.ties else 1
    ties = (base, chosen)[at].ties
    pile = max(ties, key=lambda tie: (_mixed(tie, passed), len(tie)), default=())
    return BoardFacts(state, base, chosen, passed, pairs, len(set(state.marks)), at, pile)


def tied(side: Side, pair: tuple[int, int]) -> bool:
    """Return whether a method gives the two answers of a pair the same advantage.

    pair: the numbers of the answers.
    """
    return side.level[pair[0]] == side.level[pair[1]]


def of_all(some: int, whole: int, noun: str) -> str:
    """Return words for `some` of the `whole` things that `noun` names, such as “2 of 5 pairs” or “both pairs”.

    >>> of_all(1, 1, "pair"), of_all(2, 2, "pair"), of_all(3, 3, "pair"), of_all(2, 5, "pair")
    ('the only pair', 'both pairs', 'all 3 pairs', '2 of 5 pairs')
    """
    if some < whole:
        return f"{some} of {count(whole, noun)}"
    return f"the only {noun}" if whole == 1 else f"both {noun}s" if whole == 2 else f"all {count(whole, noun)}"


def _side(name: str, state: State, result: Result, pairs: _Pairs) -> Side:
    level, marks, collapsed = tuple(result.level), state.marks, result.collapsed
    several = [pair for tie in result.ties for pair in combinations(tie["answers"], 2)]
    pushes = tuple(round(x, PUSH_DIGITS) for x in collapsed.push)
    pairs_tied = frozenset((i, j) for i, j in several if marks[i] != marks[j])
    return Side(
        name,
        tuple(result.advantages),
        level,
        tuple(tuple(tie["answers"]) for tie in result.ties),
        pairs_tied,
        # Marks that differ by round-off may pay the same, and then the core counts no pair of them.
        round(collapsed.pairs_by_eps / collapsed.tied_pairs * len(pairs_tied)) if collapsed.tied_pairs > 0 else 0,
        frozenset((i, j) for i, j in pairs if level[i] > level[j]),
        None if state.primary is None else pushes[state.primary],
        pushes,
        None if result.shares is None else tuple(result.shares),
        result.factors.count(0),
    )


def _mixed(answers: tuple[int, ...], right: tuple[bool, ...] | None) -> bool:
    """Return whether both right and wrong answers are among `answers`; False where no reward says which are right.

    right: for every answer of the group, whether it is right.
    """
    return right is not None and len({right[i] for i in answers}) > 1
