"""Effects of a state of the board, the largest first: what headline and verdict speak of."""

from typing import Literal

from gdpo_core.board.facts import BoardFacts, Side
from gdpo_core.pushing import stops

SAME = 0.01  # advantages that differ by less than this are the same for a reader
_Effect = Literal["silent", "not raised", "wrong order", "stopped", "started", "same", "ties"]


def largest(facts: BoardFacts) -> _Effect:
    """Return the largest effect in a state, of those that apply. The effects are ranked so:

    - "silent": a method gives every answer the advantage 0;
    - "not raised": a method does not raise the primary reward, and more than its ties is the cause;
    - "wrong order": the methods put a wrong answer above a right one in unequally many pairs, or one does so in more
      than half of the pairs; and in at least as many pairs as the method on the left ties;
    - "stopped": the push on another reward falls to about 0 or below under the method on the right;
    - "same": both methods put the answers in the same order, ties included;
    - "started": the method on the right pushes another reward as its weight asks, and the one on the left does not;
    - "ties": all else.
    """
    if facts.base.silent or facts.chosen.silent:
        return "silent"
    if not_raised(facts):
        return "not raised"
    before, after, ties = len(facts.base.wrong_order), len(facts.chosen.wrong_order), len(facts.open_pairs)
    many = max(before, after)
    if many and many >= ties and (before != after or 2 * many > len(facts.pairs)):
        return "wrong order"
    if stopped(facts):
        return "stopped"
    if facts.difference < SAME or facts.same_order:
        return "same"
    return "started" if started(facts) and not facts.open_pairs else "ties"


def not_raised(facts: BoardFacts) -> list[Side]:
    """Return the methods that do not raise the primary reward, or do not lower it where its weight is below 0; [] where
    no pair of answers differs in it.

    A push is taken in the direction that the sign of the weight asks for, as everywhere in this module. One that is
    printed below 0 counts always. One that is printed as 0.00 counts unless the method ties a right answer with a wrong
    one in more pairs than it puts into the wrong order: then the ties are what there is to say.
    """
    if not facts.pairs:
        return []
    return [side for side in (facts.base, facts.chosen) if facts.wished(side) < _enough(facts, side)]


def _enough(facts: BoardFacts, side: Side) -> float:
    ties = sum(side.level[low] == side.level[high] for low, high in facts.pairs)
    return 0.0 if ties > len(side.wrong_order) else 0.005


def stopped(facts: BoardFacts) -> list[int]:
    """Return the numbers of the rewards whose push falls to about 0 or below under the method on the right.

    A reward with a weight below 0 is to be lowered, so what falls there is the push down; one without weight is left
    out. So is the primary reward, as `not_raised` is about it.
    """
    return _crossing(facts, facts.base, facts.chosen)


def started(facts: BoardFacts) -> list[int]:
    """Return the numbers of the rewards that the method on the right pushes as their weights ask, and the one on the
    left does not, as `stopped` does for the opposite.
    """
    return _crossing(facts, facts.chosen, facts.base)


def _crossing(facts: BoardFacts, more: Side, less: Side) -> list[int]:
    state = facts.state
    rewards = (k for k, weight in enumerate(state.weights) if weight and k != state.primary)
    return [k for k in rewards if stops(state.wish(k) * more.pushes[k], state.wish(k) * less.pushes[k])]
