"""The direction in which a run wants each reward: higher, lower, or neither. The sign of its weight says it."""

from collections.abc import Mapping, Sequence
from typing import Literal

HIGHER, LOWER, _NEITHER = 1, -1, 0
WORDS: Mapping[int, Literal["higher", "lower"] | None] = {HIGHER: "higher", LOWER: "lower", _NEITHER: None}
DIRECTIONS = {word: direction for direction, word in WORDS.items()}  # by what stands in a report


def directions(
    in_turn: Sequence[Mapping[str, float | None]], asked: Mapping[str, float], in_order: bool = True
) -> tuple[int, ...]:
    """Return what a run wants of each reward: `HIGHER` (1), `LOWER` (-1) or `_NEITHER` (0).

    It is the sign of the reward's weight. Where weights change during the run, the sign in the last phase holds; where
    a reward has weights above 0 and weights below 0, the run wants neither. Signs that are only turned round by mistake
    (see `upside_down`) count as they should be. A reward whose weight never shows is wanted higher.

    in_turn: by reward, the weights of each phase, None where a weight does not show.
    asked: by reward, the weights that were asked for.
    in_order: whether the phases follow each other; if not, as where weights depend on a column, any phase may hold.

    >>> directions([{"right": 1.0, "tokens": -0.1, "seen": 0.0}], {})
    (1, -1, 0)
    >>> directions([{"a": 1.0, "b": 1.0, "c": 0.0}, {"a": 1.0, "b": -1.0, "c": 2.0}], {})
    (1, 0, 1)
    """
    signs: dict[str, list[int]] = {name: [] for name in in_turn[-1]}
    for weights in in_turn:
        turned = upside_down(weights, asked)
        for name, weight in weights.items():
            if weight is not None:
                signs[name].append(sign_of(weight) * (-1 if name in turned else 1))
    return tuple(_common(of_reward, in_order) for of_reward in signs.values())


def _common(signs: Sequence[int], in_order: bool) -> int:
    """Return the direction that the signs of a reward's weights agree on, `_NEITHER` where they contradict each other.

    signs: of the weights that show, phase by phase.
    in_order: whether the last of them is the one that holds at the end.
    """
    if not signs:
        return HIGHER
    if HIGHER in signs and LOWER in signs:
        return _NEITHER
    return signs[-1] if in_order else sum(set(signs))


def sign_of(weight: float) -> int:
    """Return 1 for a weight above 0, -1 for one below 0, and 0 for 0."""
    return int(weight > 0) - int(weight < 0)


def named(name: str, direction: int) -> str:
    """Return the name of a reward as it stands where it is named first: with words if less of it is wanted.

    >>> named("right", 1), named("tokens", -1)
    ('right', 'tokens, to be lowered')
    """
    return f"{name}, to be lowered" if direction == LOWER else name


def upside_down(weights: Mapping[str, float | None], asked: Mapping[str, float]) -> list[str]:
    """Return the names of the rewards whose weights below 0 show that the advantages are upside down; [] if none do.

    If some of the rewards whose weight is below 0 were asked to have a weight above 0, they are returned. Otherwise all
    rewards with a weight below 0 are returned, but none in these cases:
    - A reward has a weight above 0.
    - A weight below 0 was asked for a reward whose weight is below 0.
    - Only one of several rewards has a weight other than 0, as it may be a penalty.

    weights: by reward, the weight that the log shows, None where it shows none.
    asked: by reward, the weight that was asked for.
    """
    below = [name for name, w in weights.items() if w is not None and w < 0]
    if contradicted := [name for name in below if asked.get(name, 0) > 0]:
        return contradicted
    known = [name for name, w in weights.items() if w]
    penalty = len(known) < min(len(weights), 2)  # a single reward with a weight, beside others that have none
    meant = any(asked.get(name, 0) < 0 for name in below)
    return below if below == known and not penalty and not meant else []
