"""The error `InputError` that bad input raises, functions that check input, and sentences on any other error."""

from math import isfinite
from numbers import Integral, Real
from typing import TypeGuard

from gdpo_core.shared.words import clip, printable

_REPORT = "please report it as an issue of the repository that you have gdpo from (--debug prints the traceback)"
_LARGEST_COUNT = 999_999_999  # the most things of one kind that an argument may count; no run has as many
_LONGEST = 2000  # the most characters of an error; a name or a value in a log can have millions


class InputError(ValueError):
    """An error for input that cannot be used: its text names the argument or file, what was expected and what came.

    The text is one line, in which control characters are spelled out. A text of more than 2,000 characters loses its
    middle.

    >>> len(str(InputError("x" * 10**6))), str(InputError("expected 'a', got 'a\\nb'"))
    (2000, "expected 'a', got 'a\\\\nb'")
    """

    def __init__(self, text: str) -> None:
        super().__init__(_short(printable(_short(text)).replace("\n", r"\n")))


def _short(text: str) -> str:
    """Return a text, with "…" in place of its middle if it has more than 2,000 characters."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[: half - 1]}…{text[-half:]}"


InputError.__module__ = "gdpo_core"  # the module where callers find the class, which a traceback then shows


def expect(condition: bool, name: str, expected: str, got: object) -> None:
    """Raise InputError with the text "NAME: expected EXPECTED, got GOT" unless `condition` is true.

    >>> expect(False, "weights", "3 numbers, one per reward", "2")
    Traceback (most recent call last):
    gdpo_core.InputError: weights: expected 3 numbers, one per reward, got 2
    """
    if not condition:
        raise InputError(f"{name}: expected {expected}, got {got}")


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer of Python or of numpy; True and False are no integers here."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number in the range of float64; NaN, True and False are none here.

    >>> is_finite(2), is_finite(float("inf")), is_finite(10**400), is_finite("2")
    (True, False, False, False)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return isfinite(float(value))
    except OverflowError:  # a larger integer or fraction than float64 can hold
        return False


def expect_count(value: object, name: str, most: int = _LARGEST_COUNT) -> None:
    """Raise InputError unless `value` is a whole number from 1 to `most`.

    name: the name of the argument.

    >>> expect_count(2.5, "group_size")
    Traceback (most recent call last):
    gdpo_core.InputError: group_size: expected a whole number from 1 to 999,999,999, got 2.5
    """
    expect(is_whole(value) and 1 <= value <= most, name, f"a whole number from 1 to {most:,}", repr(value))


def expect_index(value: object, count: int, name: str, things: str) -> None:
    """Raise InputError unless `value` is an index of `count` things; negative indices count from the end.

    name: the name of the argument, for the error.
    things: the plural of what is counted, such as "rewards", for the error.

    >>> expect_index(3, 3, "primary", "rewards")
    Traceback (most recent call last):
    gdpo_core.InputError: primary: expected an index of 3 rewards, got 3
    """
    expect(is_whole(value) and -count <= value < count, name, f"an index of {count} {things}", repr(value))


def reason(error: BaseException) -> str:
    """Return the message of a library's error on one line, or the error's type where it has no message.

    >>> reason(ValueError("two\\n  lines")), reason(ValueError())
    ('two lines', 'ValueError')
    """
    return " ".join(str(error).split()) or type(error).__name__


def is_fault(error: BaseException) -> bool:
    """Return True for every error but an order to end the program, such as KeyboardInterrupt or SystemExit.

    True is returned for all errors that inherit from Exception, and for polars' PanicException, which does not.

    >>> is_fault(KeyError()), is_fault(KeyboardInterrupt())
    (True, False)
    """
    # Where its own code fails, polars raises a PanicException, which does not inherit from Exception.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def fault_of(error: BaseException) -> str:
    """Return one line that reports an error which no check foresaw, and says that the fault is gdpo's.

    The message of the error is cut after 300 characters.

    >>> print(fault_of(KeyError("x")))  # doctest: +ELLIPSIS
    a fault of gdpo, not of your input: KeyError: 'x'; please report it as an issue of the repository that you have ...
    """
    message = f": {clip(reason(error), 300)}" * bool(str(error).strip())
    return f"a fault of gdpo, not of your input: {type(error).__name__}{message}; {_REPORT}"
