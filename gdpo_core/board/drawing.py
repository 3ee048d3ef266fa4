"""The drawing of a state of the board: its bars, sums, ties, shares and pushes, and the words beside them."""

from functools import lru_cache

from gdpo_core.board.arithmetic import arithmetic
from gdpo_core.board.facts import BoardFacts, board_facts
from gdpo_core.board.headline import headline
from gdpo_core.board.notes import notes
from gdpo_core.board.result import compute
from gdpo_core.board.state import BASE, State
from gdpo_core.board.verdict import verdict
from gdpo_core.shared.words import listing, number, percent, signed

SET_BY_READERS = ("marks", "pays", "weights", "convention", "method")
SHOWN = 0.005  # how far below 0, or above the whole, a share of the update is put in words


@lru_cache(maxsize=512)
def draw(state: State) -> dict:
    """Return everything that the board draws of a state, by the names under which the browser's script knows it.

    Lists of two are for the method on the left and the method on the right. The dict is kept for the next call with the
    same state, so it must not be changed.
    """
    both = left, right = compute(state, BASE), compute(state, state.method)
    facts = board_facts(state, left, right)
    return {
        "state": {name: getattr(state, name) for name in SET_BY_READERS},
        "a": [side.advantages for side in both],
        "said": [[signed(a) for a in side.advantages] for side in both],
        "sums_said": [number(x, 4) for x in left.sums],
        "order": sorted(range(len(state.marks)), key=lambda i: (-right.level[i], -left.level[i], i)),
        "right": state.right,
        "parts": [[[round(x, 4) for x in row] for row in side.parts] for side in both],
        # What the method on the right adds, before the weights: None where it adds the rewards as they were paid.
        "z": None if right.explained.z is None else [[round(x, 4) for x in row] for row in right.terms],
        "ties": [left.ties, right.ties],
        # Under the method on the right: how many pairs of a wrong and a right answer are in the wrong order, and how
        # many such pairs there are.
        "wrong_first": [len(facts.chosen.wrong_order), len(facts.pairs)],
        "claim": headline(facts),
        "notes": notes(facts),
        "verdict": [str(sentence) for sentence in verdict(facts)],
        "shares": [side.shares for side in both],
        "percents": [[_share(x) for x in side.shares or ()] for side in both],
        "share_notes": share_notes(facts),
        "pushes": [[signed(x) for x in side.pushes] for side in (facts.base, facts.chosen)],
        "lines": [list(both) for both in zip(arithmetic(left), arithmetic(right), strict=True)],
    }


def share_notes(facts: BoardFacts) -> list[str]:
    """Return phrases on odd shares of the update, and one for each method under which every advantage is 0.

    A share is odd if it is visibly below 0, or visibly above 100 %. A method under which every advantage is 0 makes no
    update. Without odd shares and such methods the list is empty.
    """
    both = (facts.base, facts.chosen)
    named = [(facts.state.name_of(k), x, side) for side in both for k, x in enumerate(side.shares or ())]
    against = [f"{name} {_share(x)} ({side.name})" for name, x, side in named if x <= -SHOWN]
    beyond = [f"{name} {_share(x)} ({side.name})" for name, x, side in named if x >= 1 + SHOWN]
    sentences = [f"works against the update: {listing(against)}"] if against else []
    sentences += [f"more than the whole, as others work against it: {listing(beyond)}"] if beyond else []
    return sentences + [f"no update under {side.name}" for side in both if side.shares is None]


def _share(x: float) -> str:
    """Return a share of the update as text, in percent; a share of more than the whole has no decimals."""
    return f"{100 * x:.0f} %" if x >= 1 + SHOWN else percent(x)
