"""The arguments of the widget `Board`: each function checks one of them, and returns it as the widget needs it."""

from collections.abc import Iterable, Sequence
from typing import Any

import gdpo_core as gc
from gdpo_core.board.state import LARGEST, frozen
from gdpo_core.shared import inputs
from gdpo_core.shared.errors import expect
from gdpo_core.shared.inputs import ArrayLike
from gdpo_core.shared.words import count, excerpt, signed

_ANSWERS, _REWARDS = 64, 6  # the most answers and rewards
LONGEST_TEXT = 4000  # the most characters of a text


def group_of(rewards: ArrayLike) -> list[list[float]]:
    """Return the rewards of one group as plain numbers, a list per answer.

    Raises InputError where they are no table of numbers up to LARGEST in size, of 2 to _ANSWERS answers and 1 to
    _REWARDS rewards.
    """
    r = inputs.numbers(rewards, "rewards")
    expect(r.ndim == 2, "rewards", "one group, (answers, rewards)", f"shape {tuple(r.shape)}")
    many, width = r.shape
    expect(2 <= many <= _ANSWERS, "rewards", f"2 to {_ANSWERS} answers", count(many))
    expect(1 <= width <= _REWARDS, "rewards", f"1 to {_REWARDS} rewards", count(width))
    wrong = (~(r.abs() <= LARGEST)).nonzero().tolist()
    if wrong:
        answer, k = wrong[0]
        where = f"answer {answer + 1}, reward {k + 1}"
        raise gc.InputError(
            f"rewards: expected numbers up to {LARGEST:g} in size, got {r[answer, k].item()} in {where}"
        )
    return [list(row) for row in frozen(r.double().tolist())]


def texts_of(given: object, name: str, n: int, each: str, noun: str) -> list[str]:
    """Return `n` texts, of which those of more than LONGEST_TEXT characters are cut.

    In place of a text that is not given stands `noun` with a number, as in “answer 1”, or nothing if `noun` is "".

    given: the texts, or None if there are none. A text in it may be None, too.
    name: the name of the argument, for an error.
    each: the word for what there has to be one text for, such as "answer", for an error.

    Raises InputError.
    """
    texts = [None] * n if given is None else list_of(given, name, n, "texts", each)
    return [
        (noun and f"{noun} {i + 1}") if text is None else excerpt(str(text), LONGEST_TEXT)
        for i, text in enumerate(texts)
    ]


def reasons_of(given: object, many: int, width: int) -> list[list[str]]:
    """Return the reason of each mark as lists, (many, width).

    A reason that is None becomes "", and one of more than LONGEST_TEXT characters is cut.

    given: the reasons, or None, for which each reason is "".
    many: the number of answers.
    width: the number of rewards.

    Raises InputError.
    """
    rows = [[""] * width] * many if given is None else list_of(given, "reasons", many, "rows", "answer")
    return [texts_of(row, "reasons", width, "reward", "") for row in rows]


def right_or_wrong(
    primary: str | None, names: Sequence[str], pairs: Sequence[tuple[float, float] | None]
) -> int | None:
    """Return the index of the primary reward if it can tell right answers from wrong ones; else None.

    It can if it takes exactly two values. Without a primary reward the result is None, too.

    primary: its name, or None.
    pairs: the two values of each reward, None for a reward with more values.

    Raises InputError if no reward has the name `primary`.
    """
    expect(primary is None or primary in names, "primary", f"one of {', '.join(names)}", repr(primary))
    k = None if primary is None else names.index(primary)
    return None if k is None or pairs[k] is None else k


def start_of(width: int, weights: ArrayLike | None, convention: gc.Convention | str, method: str) -> dict[str, Any]:
    """Return the first values of a board's controls, by the name of the trait that holds each.

    The traits are pays, weights, convention and method.

    width: the number of rewards, each of which pays 1.
    weights: one number per reward; None for 1 each.
    convention: a key of CONVENTIONS, or the convention itself.
    method: the id of the method on the right.

    Raises InputError for an unknown convention and for weights that are no numbers.
    """
    key = next((key for key, c in gc.CONVENTIONS.items() if convention in (key, c)), None)
    expect(key is not None, "convention", f"one of {', '.join(gc.CONVENTIONS)}", f"{convention!r:.80}")
    weighing = [1.0] * width if weights is None else inputs.numbers(weights, "weights").flatten().tolist()
    return {"pays": [1.0] * width, "weights": weighing, "convention": key, "method": method}


def token_counts_of(lengths: Sequence[int] | None, answers: Sequence[str | None]) -> tuple[int, ...]:
    """Return the number of tokens of each answer; without `lengths`, the number of its characters, but at least 1.

    Raises InputError unless `lengths` has one whole number from 1 per answer.
    """
    if lengths is None:
        lengths = [max(1, len(str(text or ""))) for text in answers]
    return tuple(map(int, inputs.token_counts(lengths, (len(answers),)).tolist()))


def advantages_of(logged: object, many: int) -> list[str]:
    """Return logged advantages as texts with their signs, one per answer; [] if `logged` is None.

    The text is "–" for an advantage that is None or NaN.

    many: the number of answers.

    Raises InputError unless `logged` holds so many finite numbers, Nones or NaNs.
    """
    if logged is None:
        return []
    values = [float("nan") if a is None else a for a in list_of(logged, "logged", many, "advantages", "answer")]
    return [signed(a) for a in inputs.numbers(values, "logged").flatten().tolist()]


def list_of(given: object, name: str, n: int, things: str, each: str) -> list:
    """Return what a caller gives in any kind of sequence as a list. Raises InputError unless it holds `n` values.

    name: the name of the argument, for the error.
    things: the word for what its values should be, such as "texts", for the error.
    each: the word for what there has to be one value for, such as "answer", for the error.
    """
    values = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else None
    fits = values is not None and len(values) == n
    expect(fits, name, f"{n} {things}, one per {each}", f"{given!r:.80}" if values is None else f"{len(values)}")
    return values or []
