"""Functions that read what somebody types on the command line or on the page: numbers, steps, settings and weights."""

import re
from collections.abc import Iterable
from math import isfinite
from typing import Any

from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.words import clip

_NUMBER = re.compile(r" *[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf) *", re.ASCII | re.IGNORECASE)
_DIGITS, _STEP_DIGITS = 9, 18  # the most digits of a whole number, and of a step, which is one of 64 bits
_LARGEST = 1e30  # the largest weight: its square times the square of a reward stays finite


def parse_number(text: str) -> float | None:
    """Return the number in a text, which may also be nan or inf; None if the text holds anything else.

    >>> parse_number("-1.5e3"), parse_number("1_000"), parse_number("")
    (-1500.0, None, None)
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def parse_count(text: str, argument: str) -> int:
    """Return the whole number in a text, which must be 1 or more and have at most nine digits.

    argument: the name of the argument, with which InputError begins where the text holds anything else.

    >>> parse_count(" 8", "group-size")
    8
    """
    fits = re.fullmatch(" *0*([1-9][0-9]*) *", text)
    if fits is None or len(fits[1]) > _DIGITS:
        wanted = "a whole number from 1" + f" with at most {_DIGITS} digits" * (fits is not None)
        raise InputError(f"{argument}: expected {wanted}, got {clip(text)!r}")
    return int(fits[1])


def parse_steps(text: str, argument: str) -> tuple[tuple[int | None, int | None], ...]:
    """Return the first and the last step of each piece of a text, with commas between several pieces.

    A piece is FIRST:LAST or FIRST-LAST, or one step alone. Of FIRST:LAST one end may be left out and is then None.

    argument: the name of the argument, with which InputError begins where the text holds anything else.

    >>> parse_steps("100:150", "steps"), parse_steps("100:", "steps"), parse_steps("1-20, 41-60,70,:-5", "steps")
    (((100, 150),), ((100, None),), ((1, 20), (41, 60), (70, 70), (None, -5)))
    """
    step = f"(-?[0-9]{{1,{_STEP_DIGITS}}})"
    ranges = list[tuple[int | None, int | None]]()
    for piece in text.split(","):
        fits = re.fullmatch(f"{step}?:{step}?", piece.strip()) or re.fullmatch(f"{step}(?:-{step})?", piece.strip())
        if fits is None or not (fits[1] or fits[2]):
            raise InputError(f"{argument}: expected steps, such as 10,20 or 1-20,41-60 or 100:, got {clip(text)!r}")
        first, last = (int(end) if end else None for end in fits.groups())
        last = last if ":" in piece or last is not None else first
        in_order = first is None or last is None or first <= last
        expect(in_order, argument, "a first step that is not after the last", f"{first} and {last}")
        ranges.append((first, last))
    return tuple(ranges)


def parse_setting(text: str, argument: str) -> dict[str, Any]:
    """Return the setting that a text describes, as a dict with the keys "method", "convention" and "weights".

    A key that the text does not give is left out; "weights" is a dict from reward to number. The text is method=NAME,
    convention=NAME and weights.REWARD=NUMBER, in any order, with commas between them.
    The name of a reward may itself hold dots, spaces, commas and "=". So a number is what follows the last "=" before a
    comma. A piece between commas that has no "=" belongs to the next piece, as the beginning of its name.

    argument: the name of the argument, with which InputError begins.

    >>> parse_setting("method=gdpo, weights.length=0.2, weights.a, b=1", "what-if")
    {'method': 'gdpo', 'weights': {'length': 0.2, 'a, b': 1.0}}
    """
    wanted = "method=NAME, convention=NAME or weights.REWARD=NUMBER, with commas between several"
    setting: dict[str, Any] = {}
    weights: list[str] = []
    *pieces, rest = re.split(r"(?<==)([^=,]*)(?:,|$)", text)
    for named, value in zip(pieces[::2], map(str.strip, pieces[1::2]), strict=True):
        key = named[:-1].strip()
        if key.startswith("weights."):
            weights.append(f"{key.removeprefix('weights.')}={value}")
            continue
        expect(key in ("method", "convention") and value != "", argument, wanted, repr(clip(f"{named}{value}")))
        expect(key not in setting, argument, "each part once", f"{key!r} twice")
        setting[key] = value
    expect(rest == "" and len(pieces) > 0, argument, wanted, repr(clip(rest or text)))
    by_name = parse_weights(weights, argument, "weights.REWARD=NUMBER")
    return setting | ({"weights": by_name} if by_name else {})


def parse_named(text: str, argument: str, wanted: str = "NAME=NUMBER") -> dict[str, float]:
    """Return a dict from name to number out of one text, NAME=NUMBER with commas between several.

    argument: the name of the argument, for errors.
    wanted: how each pair should be written, for errors.

    Raises InputError for a pair that `parse_weights` refuses.

    >>> parse_named("correct = 1, format=0.5", "parts")
    {'correct': 1.0, 'format': 0.5}
    """
    pairs = [re.sub(r"\s*=\s*", "=", pair.strip()) for pair in text.split(",")]
    return parse_weights(pairs, argument, f"{wanted}, with commas between several")


def parse_weights(texts: Iterable[str], argument: str, wanted: str = "NAME=NUMBER") -> dict[str, float]:
    """Return a dict from the name of a reward to its weight out of several texts, each NAME=NUMBER.

    A name may hold "=".

    argument: the name of the argument, for errors.
    wanted: how a text should be written, for errors.

    Raises InputError for a text that is not written so, for a weight that is not finite or beyond ±1e30, and for a
    reward that comes twice.

    >>> parse_weights(["correct=1", "a=b=0.5"], "weight")
    {'correct': 1.0, 'a=b': 0.5}
    """
    weights: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        weight = parse_number(number)
        if name == "" or weight is None or not isfinite(weight):
            raise InputError(f"{argument}: expected {wanted}, got {text!r}")
        expect(abs(weight) <= _LARGEST, argument, f"a number of at most {_LARGEST:g}", repr(text))
        expect(name not in weights, argument, "each reward once", f"{name!r} twice")
        weights[name] = weight
    return weights
