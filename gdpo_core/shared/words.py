"""Numbers, shares, counts and lists as text: one format each, for the page, the terminal and the report.

The text is plain. A negative number has "−" before it, and "–" stands for a number that is None, NaN or infinite. Only
`raw` and `raw_column` write text for programs, with hyphens and "nan". `_html.text` turns the text into HTML, in which
a number stays on one line with its unit.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Integral

MISSING = "–"


def percent(share: float | None, decimals: int = 0) -> str:
    """Return a share, where 1 is the whole, as text in percent; "–" for None, NaN and infinity.

    Up to round-off, only a share of 0 is written "0 %" and only a share of 1 "100 %".

    decimals: how many digits stand after the point. For a share less than 1 % away from 0 or 1 it is at least one.

    >>> percent(0.305), percent(-0.07), percent(0.0654, decimals=1), percent(1), percent(None)
    ('30 %', '−7 %', '6.5 %', '100 %', '–')

    Close to 0 and to 1 there is always a decimal, and a bound where one decimal is not enough:

    >>> percent(0.004), percent(0.996), percent(0.0004), percent(0.9996), percent(-0.0004)
    ('0.4 %', '99.6 %', 'under 0.1 %', 'over 99.9 %', 'about 0 %')
    >>> percent(sum([0.1] * 10)), percent(0.1 + 0.2 - 0.3)
    ('100 %', '0 %')
    """
    if share is None or not isfinite(share):
        return MISSING
    size = abs(round(100 * share, 6))  # rounded, so that the round-off of a sum is no share
    minus = "−" if share < 0 and size else ""
    if size in (0, 100):
        return f"{minus}{size:.0f} %"
    fine = max(decimals, 1)
    least = 10.0**-fine
    if size < least:
        return "about 0 %" if minus else f"under {least:.{fine}f} %"
    beside = abs(round(100 - size, 6))
    if beside < least:
        bound = f"{100 - least:.{fine}f}" if size < 100 else "100"
        return f"{'under' if minus else 'over'} {minus}{bound} %"
    near_an_end = min(size, beside) < 1
    return f"{minus}{size:.{fine if near_an_end else decimals}f} %"


def number(x: float | None, digits: int = 4) -> str:
    """Return a number as text with `digits` significant digits; an int with all of its digits and with commas.

    None, NaN and infinity become a dash.

    >>> number(0.123456), number(-2.0), number(12345), number(1.2e-06), number(0.123456, digits=2), number(None)
    ('0.1235', '−2', '12,345', '1.2e-06', '0.12', '–')
    """
    if x is None or not isfinite(x):
        return MISSING
    return _minus(f"{int(x):,}" if isinstance(x, Integral) else f"{x + 0.0:.{digits}g}")


def decimal(x: float | None, places: int = 3) -> str:
    """Return a number as text with `places` digits after the point.

    A whole number, and a number that rounds to 0, is written without a point.

    >>> decimal(-0.5), decimal(-0.00001), decimal(2.0), decimal(2.00001), decimal(0.618, places=2)
    ('−0.500', '0', '2', '2.000', '0.62')
    """
    if x is None or not isfinite(x):
        return MISSING
    text = f"{x:.{places}f}"
    if float(text) == 0:
        return "0"
    return _minus(f"{x:.0f}" if x == int(x) else text)


def raw(x: float, digits: int = 10) -> str:
    """Return a number as text that programs read: with a hyphen for a minus, and "nan" where it is missing.

    digits: the number of significant digits.

    >>> raw(-0.5), raw(1000002.0), raw(float("nan"))
    ('-0.5', '1000002', 'nan')
    """
    return f"{x:.{digits}g}"


def raw_column(values: Sequence[float]) -> list[str]:
    """Return numbers as texts that programs read, with six decimals, or with six significant digits if all are small.

    All are small if the largest of them in size lies between 10⁻¹² and 0.001. A largest one below 10⁻¹² counts as
    round-off, and six decimals are written.

    >>> raw_column([0.70710678, -1e-16]), raw_column([2e-7])
    (['0.707107', '0.000000'], ['2e-07'])
    """
    largest = max((abs(v) for v in values if isfinite(v)), default=0.0)
    return [raw(v, 6) if 1e-12 < largest < 1e-3 else f"{round(v, 6) + 0.0:.6f}" for v in values]


def signed(x: float | None, places: int = 2) -> str:
    """Return an advantage or a correlation as text with its sign, + or −; what rounds to 0 has none.

    places: the number of digits after the point.

    >>> signed(0.875), signed(-1.2), signed(-0.001), signed(float("nan"))
    ('+0.88', '−1.20', '0.00', '–')
    """
    if x is None or not isfinite(x):
        return MISSING
    text = f"{x:+.{places}f}"
    return _minus(text if float(text) else text[1:])


def power_of_ten(x: float) -> str:
    """Return a number as text: a small one, such as an ε, by a power of ten, any other one with up to six digits.

    A number is small here if it is a power of ten below 1, or if it lies between 0 and 0.0001.

    >>> power_of_ten(0.0001), power_of_ten(1e-8), power_of_ten(3e-7), power_of_ten(0.5), power_of_ten(0)
    ('10⁻⁴', '10⁻⁸', '3 × 10⁻⁷', '0.5', '0')
    """
    digits, _, power = f"{x:e}".partition("e")
    raised = "10" + str(int(power)).translate(_RAISED)
    if 0 < x < 1 and float(digits) == 1:
        return raised
    return f"{float(digits):g} × {raised}" if 0 < x < 1e-4 else f"{x:g}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(n: float, noun: str = "", plural: str = "") -> str:
    """Return a count as text, with commas between thousands and, where a noun is given, its noun behind it.

    n: the count, whose decimals are dropped.
    noun: the noun for a count of 1.
    plural: the noun for any other count, by default the noun with an s.

    >>> count(68373), count(1, "group"), count(1200, "group"), count(2, "batch", "batches")
    ('68,373', '1 group', '1,200 groups', '2 batches')
    """
    return f"{int(n):,} {noun if n == 1 else plural or f'{noun}s'}" if noun else f"{int(n):,}"


def word(n: int) -> str:
    """Return a count up to twelve as a word, 0 as "no", and a larger count in digits.

    >>> word(3), word(12), word(71)
    ('three', 'twelve', '71')
    """
    return _WORDS[n] if n < len(_WORDS) else count(n)


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def listing(items: Iterable[object], link: str = "and", most: int | None = None) -> str:
    """Return items as a list in a sentence, with `link` before the last one, or commas alone if `link` is empty.

    Without items the list is "none".

    most: if there are more than `most` + 1 items, only the first `most` are named and the rest is counted. None to name
        all.

    >>> listing(["a"]), listing("abc"), listing("abc", "or"), listing("abc", link=""), listing([])
    ('a', 'a, b and c', 'a, b or c', 'a, b, c', 'none')

    A single item is never replaced by "1 more":

    >>> listing("abc", most=2), listing(range(20), most=3)
    ('a, b and c', '0, 1, 2 and 17 more')
    """
    texts = [str(item) for item in items]
    if most is not None and len(texts) > most + 1:
        texts = [*texts[:most], f"{count(len(texts) - most)} more"]
    if not texts:
        return "none"
    *first, last = texts
    return f"{', '.join(first)}{f' {link}' if link else ','} {last}" if first else last


def clip(text: str, longest: int = 60) -> str:
    """Return a text cut to at most `longest` characters, of which the last is then "…".

    >>> clip("short"), clip("x" * 100, longest=5)
    ('short', 'xxxx…')
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def excerpt(text: str, longest: int) -> str:
    """Return the first `longest` characters of a text and, if more follow, "…" and the length of the whole.

    Half of a surrogate pair, which no browser takes, is replaced by "�".

    >>> excerpt("short \\ud83d", 60), excerpt("x" * 1200, longest=5)
    ('short �', 'xxxxx… (1,200 characters)')
    """
    shown = text if len(text) <= longest else f"{text[:longest]}… ({count(len(text), 'character')})"
    return shown.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def printable(text: object) -> str:
    """Return a text in which characters that cannot be printed are spelled out; line breaks stay.

    Such characters could, for example, control a terminal.

    >>> printable("naïve\\x1b[2J")
    'naïve\\\\x1b[2J'
    """
    raw = str(text)
    if raw.isprintable():  # a short cut for the usual case, as the page builds many texts at every click on a mark
        return raw
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in raw)


def one_line(text: object) -> str:
    """Return a text on one line and with control characters spelled out, for a log that other programs read by line.

    >>> one_line("two\\nlines")
    'two lines'
    """
    return " ".join(printable(text).splitlines())


def _minus(text: str) -> str:
    """Return the text of a number with a real minus sign in place of a hyphen before it; exponents keep theirs."""
    return f"−{text[1:]}" if text.startswith("-") else text
