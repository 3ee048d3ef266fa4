"""Effects of a state of the board, the largest first: what headline and verdict speak of."""

from typing import Literal

from gdpo_core.board.facts import Facts, Side
from gdpo_core.pushing import ABOUT_0, FALL

SAME = 0.01  # advantages that differ by less than this are the same for a reader
Effect = Literal["silent", "not raised", "wrong order", "stopped", "started", "same", "ties"]


def largest(facts: Facts) -> Effect:
    """Return the largest effect in a state, of those that apply. The effects are ranked so:

    - "silent": a method gives every answer the advantage 0;
    - "not raised": a method does not raise the primary reward, and more than its ties is the cause;
    - "wrong order": the methods put a wrong answer above a right one in unequally many pairs, or one does so in more
      than half of the pairs; and in at least as many pairs as the method on the left ties;
    - "stopped": the push on a wanted reward falls to about 0 or below under the method on the right;
    - "same": both methods put the answers in the same order, ties included;
    - "started": the method on the right raises a wanted reward that the one on the left does not raise;
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


def not_raised(facts: Facts) -> list[Side]:
    """Return the methods that do not raise the primary reward; [] where no pair of answers differs in it.

    A push that is printed below 0 counts always. One that is printed as 0.00 counts unless the method ties a right
    answer with a wrong one in more pairs than it puts into the wrong order: then the ties are what there is to say.
    """
    if not facts.pairs:
        return []
    return [side for side in (facts.base, facts.chosen) if _printed(side.push or 0.0) < _enough(facts, side)]


def _enough(facts: Facts, side: Side) -> float:
    ties = sum(side.level[low] == side.level[high] for low, high in facts.pairs)
    return 0.0 if ties > len(side.wrong_order) else 0.005


def stopped(facts: Facts) -> list[int]:
    """Return the numbers of the wanted rewards whose push falls to about 0 or below under the method on the right.

    A wanted reward has a weight above 0. The primary reward is left out, as `not_raised` is about it.
    """
    return _crossing(facts, facts.base, facts.chosen)


def started(facts: Facts) -> list[int]:
    """Return the numbers of the wanted rewards that the method on the right raises and the one on the left does not, as
    `stopped` does for the opposite.
    """
    return _crossing(facts, facts.chosen, facts.base)


def _crossing(facts: Facts, more: Side, less: Side) -> list[int]:
    rewards = (k for k, weight in enumerate(facts.state.weights) if weight > 0 and k != facts.state.primary)
    high, low = ([_printed(x) for x in side.pushes] for side in (more, less))
    return [k for k in rewards if low[k] < ABOUT_0 and high[k] >= max(low[k], 0.0) + FALL - 1e-9]


def _printed(push: float) -> float:
    """Return a push as it is printed, with two decimals."""
    return round(push, 2)
