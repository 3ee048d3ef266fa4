"""What the board draws of a state: bars, sums, ties, shares, pushes, and the words beside them."""

from dataclasses import asdict
from functools import lru_cache

from gdpo_core._words import number, percent, signed
from gdpo_core.board.arithmetic import arithmetic
from gdpo_core.board.result import compute
from gdpo_core.board.state import BASE, State
from gdpo_core.board.verdict import claim, notes, verdict, wrong_first


@lru_cache(maxsize=512)
def draw(state: State) -> dict:
    """Everything that the board draws of a state."""
    both = left, right = compute(state, BASE), compute(state, state.method)
    wrong, of = wrong_first(state, right.level)
    return {
        "state": {name: x for name, x in asdict(state).items() if name not in ("lengths", "primary")},
        "a": [one.advantages for one in both],
        "said": [[signed(a) for a in one.advantages] for one in both],
        "sums_said": [number(x, 2 if state.binary else 3) for x in left.sums],
        "order": sorted(range(len(state.marks)), key=lambda i: (-right.level[i], -left.level[i], i)),
        "right": state.right,
        "parts": [[[round(x, 4) for x in row] for row in one.parts] for one in both],
        "ties": [left.ties, right.ties],
        "wrong_first": [len(wrong), of],  # of the pairs of a wrong and a right answer, under the method on the right
        "claim": claim(state, left, right),
        "notes": notes(state, left, right),
        "verdict": [str(sentence) for sentence in verdict(state, left, right)],
        "shares": [one.shares for one in both],
        "percents": [[percent(x) for x in one.shares or ()] for one in both],
        "pushes": [[signed(x) for x in one.collapsed.push] for one in both],
        "lines": [list(both) for both in zip(arithmetic(left), arithmetic(right), strict=True)],
    }
