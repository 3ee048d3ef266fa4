"""Numbers, names and the look of the methods, as the whole page prints them."""

from collections.abc import Sequence
from math import isnan, log10

from gdpo_core.rules import NAMES as NAMES

COLOURS = {"GRPO": "#c8641e", "GRPO without std": "#8a8a8a", "GDPO": "#3b82d0"}
SHAPES = {  # SVG paths of size 2
    "GRPO": "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z",
    "GRPO without std": "M-.9,-.9H.9V.9H-.9Z",
    "GDPO": "M0,-1.1L1.1,.9H-1.1Z",
}
DASHES = {"GRPO": [1, 0], "GRPO without std": [2, 3], "GDPO": [8, 4]}

BAND = (0.05, 0.95)  # quantiles over seeds between which a band is drawn


def number(x: float, digits: int = 3) -> str:
    """A number without needless decimals, with a real minus sign and no negative zero.

    >>> number(-0.5), number(-0.00001), number(2.0)
    ('−0.500', '0', '2')
    """
    text = f"{x:.{digits}f}"
    if float(text) == 0:
        return "0"
    return (text[: -digits - 1] if x == int(x) else text).replace("-", "−")


def signed(x: float) -> str:
    """An advantage: two decimals and its sign.

    >>> signed(0.875), signed(-1.2), signed(-0.001)
    ('+0.88', '−1.20', '0.00')
    """
    text = f"{x:+.2f}".replace("-", "−")
    return text[1:] if text[1:] == "0.00" else text


def percent(share: float) -> str:
    """A share in whole percent.

    >>> percent(0.305), percent(-0.07), percent(-0.001), percent(float("nan"))
    ('30 %', '−7 %', '0 %', '–')
    """
    return "–" if isnan(share) else f"{round(100 * share)} %".replace("-", "−")


def tiny(x: float) -> str:
    """A small number that is added somewhere: a power of ten as one, anything else as it is.

    >>> tiny(0.0001), tiny(1e-8), tiny(0.5), tiny(0)
    ('10⁻⁴', '10⁻⁸', '0.5', '0')
    """
    power = round(log10(x)) if x > 0 else 0
    return "10" + str(power).translate(_RAISED) if power < 0 and x == float(f"1e{power}") else f"{x:g}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(n: int) -> str:
    """A count, with a comma after thousands.

    >>> count(963), count(68373)
    ('963', '68,373')
    """
    return f"{n:,}"


def word(n: int) -> str:
    """A small number in words.

    >>> word(3), word(12), word(71)
    ('three', 'twelve', '71')
    """
    return _WORDS[n] if n < len(_WORDS) else count(n)


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def listing(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listing(["a"]), listing(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
