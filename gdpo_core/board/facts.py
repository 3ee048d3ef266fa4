"""The facts of a state: what either method ties, orders and raises. All that is said of a state is made of them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from gdpo_core._words import count
from gdpo_core.board.result import Result
from gdpo_core.board.state import BASE, CHOSEN_METHODS, State
from gdpo_core.conventions import NAMES

ZERO = 1e-9  # of an advantage: what is smaller is round-off
PROPORTIONAL = 1e-4  # of the largest advantage: how far off a multiple it may be, which is what an ε does
Pairs = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Side:
    """The advantages of one method, with the ties, the order and the push that follow from them."""

    name: str
    advantages: tuple[float, ...]
    level: tuple[int, ...]  # per answer, the number of its advantage, 0 = lowest
    ties: tuple[tuple[int, ...], ...]  # the answers that share an advantage though their marks differ, highest first
    tied: Pairs  # the same as pairs of answers whose marks differ
    by_eps: int  # how many of these pairs only an ε parts
    wrong_order: Pairs  # (wrong answer, right answer): the wrong one has the larger advantage
    push: float | None  # on the primary reward; None where no reward is primary
    shares: tuple[float, ...] | None  # of the rewards in the update
    left_out: int  # how many answers it drops, as GD²PO does where their rewards disagree

    @cached_property
    def silent(self) -> bool:
        """Return whether every advantage is 0."""
        return all(abs(a) <= ZERO for a in self.advantages)


@dataclass(frozen=True)
class Facts:
    """The facts of a state, of the method on the left (`base`) and the one on the right (`other`)."""

    state: State
    base: Side
    chosen: Side
    right: tuple[bool, ...] | None  # whether each answer is right; None where no reward says so
    pairs: Pairs  # all pairs (wrong answer, right answer)
    mixes: int  # how many combinations of marks there are
    side: int  # the method whose largest tie is outlined: 0 for the one on the left, 1 for the other
    pile: tuple[int, ...]  # the answers of that tie; none where neither method ties any

    @cached_property
    def silent(self) -> bool:
        """Return whether nothing is learnt under either method."""
        return self.base.silent and self.chosen.silent

    @cached_property
    def difference(self) -> float:
        """Return the largest difference between the two advantages of an answer."""
        return max(abs(x - y) for x, y in zip(self.base.advantages, self.chosen.advantages, strict=True))

    @cached_property
    def same_order(self) -> bool:
        """Return whether both put the answers in the same order, ties included."""
        return self.base.level == self.chosen.level

    @cached_property
    def factor(self) -> float | None:
        """Return the factor from the left method's advantages to the other's; None where they are not proportional."""
        x, y = self.base.advantages, self.chosen.advantages
        if self.base.silent or self.chosen.silent:
            return None
        times = sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)
        off = max(abs(b - times * a) for a, b in zip(x, y, strict=True))
        return times if off <= PROPORTIONAL * max(map(abs, y)) else None

    @cached_property
    def new_ties(self) -> Pairs:
        """Return the pairs that the other method ties and the left one tells apart."""
        return self.chosen.tied - self.base.tied

    @cached_property
    def open_pairs(self) -> Pairs:
        """Return the pairs of a wrong and a right answer that the left method ties."""
        return frozenset(pair for pair in self.pairs if tied(self.base, pair))

    @cached_property
    def well_broken(self) -> Pairs:
        """Return the ties of a wrong and a right answer in which the other method puts the right one above."""
        return frozenset((i, j) for i, j in self.open_pairs if self.chosen.level[i] < self.chosen.level[j])

    @cached_property
    def badly_broken(self) -> Pairs:
        """Return the ties of a wrong and a right answer in which the other method puts the wrong one above."""
        return self.open_pairs & self.chosen.wrong_order

    @cached_property
    def weight(self) -> float | None:
        """Return the weight of the primary reward; None where no reward is primary."""
        return None if self.state.primary is None else self.state.weights[self.state.primary]

    @cached_property
    def mostly_wrong(self) -> bool:
        """Return whether more than half of the right–wrong pairs are in the wrong order under both methods."""
        return min(len(self.base.wrong_order), len(self.chosen.wrong_order)) * 2 > len(self.pairs)


def facts_of(state: State, left: Result, right: Result) -> Facts:
    """Return the facts of a state from what the two methods make of it."""
    passed = state.right
    pairs = frozenset(
        (i, j) for i, low in enumerate(passed or ()) if not low for j, high in enumerate(passed or ()) if high
    )
    base = _side(NAMES[BASE], state, left, pairs)
    chosen = _side(CHOSEN_METHODS[state.method], state, right, pairs)
    at = 0 if base.ties else 1
    ties = (base, chosen)[at].ties
    pile = max(ties, key=lambda tie: (_mixed(tie, passed), len(tie)), default=())
    return Facts(state, base, chosen, passed, pairs, len(set(state.marks)), at, pile)


def tied(side: Side, pair: tuple[int, int]) -> bool:
    """Return whether a method gives both answers of a pair one advantage."""
    return side.level[pair[0]] == side.level[pair[1]]


def of_all(some: int, whole: int, noun: str) -> str:
    """Return words for some or all of the things that `noun` names, some of whole.

    >>> of_all(1, 1, "pair"), of_all(2, 2, "pair"), of_all(3, 3, "pair"), of_all(2, 5, "pair")
    ('the only pair', 'both pairs', 'all 3 pairs', '2 of 5 pairs')
    """
    if some < whole:
        return f"{some} of {count(whole, noun)}"
    return f"the only {noun}" if whole == 1 else f"both {noun}s" if whole == 2 else f"all {count(whole, noun)}"


def _side(name: str, state: State, result: Result, pairs: Pairs) -> Side:
    level, marks, collapsed = tuple(result.level), state.marks, result.collapsed
    several = [pair for tie in result.ties for pair in combinations(tie["answers"], 2)]
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
        None if state.primary is None else collapsed.push[state.primary],
        None if result.shares is None else tuple(result.shares),
        result.factors.count(0),
    )


def _mixed(answers: tuple[int, ...], right: tuple[bool, ...] | None) -> bool:
    """Return whether right and wrong answers are among these; False where no reward says which are right."""
    return right is not None and len({right[i] for i in answers}) > 1
