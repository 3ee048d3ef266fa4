"""Charts as inline SVG: bars in groups, and lines over steps. Their colours are those of the classes in the CSS."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from gdpo_core._html import Html, tag
from gdpo_core._words import clip, count

WIDTH = 360  # units; a chart is drawn at about one pixel per unit, so that its text keeps its size on a phone
_DASHES = ("", "7 4", "2 3", "9 3 2 3")  # the first of each colour; later ones shift, so that pairs stay distinct
_LEFT, _RIGHT, _TOP, _BOTTOM = 42.0, WIDTH - 10.0, 8.0, 158.0  # where lines are drawn
_HEAD, _ROW, _WORDS = 24, 16, 52  # heights of a title and of a bar; width of the values in words
_EPS = 1e-9  # a round number is met in spite of round-off


@dataclass(frozen=True)
class Bar:
    """One bar; None where there is no value."""

    name: str
    look: str  # its class
    value: float | None
    words: str  # the value as text
    strong: bool = False  # whether it stands out


@dataclass(frozen=True)
class Bars:
    """Bars that belong together, with a mark across them."""

    title: str
    look: str  # the class of the title's mark
    bars: Sequence[Bar]
    mark: float | None = None


@dataclass(frozen=True)
class Line:
    """A line over steps; None where there is nothing."""

    values: Sequence[float | None]
    look: str  # its class
    dash: str


def dash(k: int) -> str:
    """The dashes of the k-th line: with four colours that repeat, no two of sixteen look the same.

    >>> [dash(k) for k in (0, 1, 4)]
    ['', '7 4', '7 4']
    """
    return _DASHES[(k + k // len(_DASHES)) % len(_DASHES)]


def grouped_bars(groups: Sequence[Bars], description: str, low: float = 0.0, high: float = 1.0) -> Html:
    """Horizontal bars from zero between fixed ends, the values in words on the right."""
    longest = max((len(bar.name) for group in groups for bar in group.bars), default=0)
    left, right = min(24 + 6.4 * longest, 170), WIDTH - _WORDS
    x = _scale((low, high), (left, right))
    parts: list[Html] = []
    y = 2.0
    for group in groups:
        parts.append(tag("circle", kind=f"{group.look} mark", cx=5, cy=_n(y + 10), r=5))
        parts.append(_text(14, y + 14, _cut(group.title, 50), kind="head"))
        top, bottom = y + _HEAD, y + _HEAD + _ROW * len(group.bars)
        for k, bar in enumerate(group.bars):
            parts += _bar(bar, x, (left, right), top + _ROW * k)
        if low < 0:
            parts.append(tag("path", kind="zero", d=f"M{_n(x(0))},{_n(top)}V{_n(bottom)}"))
        if group.mark is not None:
            parts.append(tag("path", kind="weight", d=f"M{_n(x(group.mark))},{_n(top - 2)}V{_n(bottom + 2)}"))
        y = bottom + 6
    return _svg(parts, description, ceil(y))


def lines(series: Sequence[Line], steps: Sequence[int], description: str, ticks: Mapping[float, str]) -> Html:
    """Lines over steps between the first and the last tick; ticks: their labels, by value."""
    first, last = min(steps), max(steps)
    x, y = _scale((first, last), (_LEFT, _RIGHT)), _scale((min(ticks), max(ticks)), (_BOTTOM, _TOP))
    parts: list[Html] = []
    for tick, label in ticks.items():
        parts.append(tag("path", kind="grid" if tick else "zero", d=f"M{_n(_LEFT)},{_n(y(tick))}H{_n(_RIGHT)}"))
        parts.append(_text(_LEFT - 6, y(tick) + 4, label, "end"))
    for step, anchor in {first: "start", last: "end"}.items():
        parts.append(_text(x(step), _BOTTOM + 18, count(step), anchor if last > first else "middle"))
    parts.append(_text((_LEFT + _RIGHT) / 2, _BOTTOM + 18, "step", "middle"))
    xs = [x(step) for step in steps]
    for line in series:
        parts += _line(line, xs, y)
    return _svg(parts, description, _BOTTOM + 24)


def ticks(values: Sequence[float]) -> list[float]:
    """Two to six round numbers, the first below all values and the last above; 0 to 1 for values between these.

    >>> ticks([0.2, 0.3]), ticks([-3.2, 10.0]), ticks([7.0])
    ([0.0, 0.25, 0.5, 0.75, 1.0], [-5.0, 0.0, 5.0, 10.0], [6.0, 6.5, 7.0, 7.5, 8.0])
    """
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    if high - low <= max(1e-5 * max(-low, high), 1e-300):  # labels have six digits
        low, high = low - (abs(low) / 10 or 1), high + (abs(high) / 10 or 1)
    power = 10.0 ** floor(log10((high - low) / 4))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if (high - low) / (s * power) <= 4)
    whole = range(floor(low / step + _EPS), ceil(high / step - _EPS) + 1)
    return [float(f"{k * step:.12g}") for k in whole]


def sample(look: str, dashes: str) -> Html:
    """A piece of a line, for a legend."""
    path = tag("path", kind=f"{look} line", d="M0,4H28", stroke_dasharray=dashes or None)
    return tag("svg", path, viewBox="0 0 28 8", aria_hidden="true")


def _bar(bar: Bar, x: Callable[[float], float], ends: tuple[float, float], top: float) -> list[Html]:
    """A bar on its track, with its name on the left and its value in words on the right."""
    (left, right), middle, kind = ends, top + _ROW / 2, "strong" if bar.strong else ""
    parts = [
        _text(left - 6, middle + 4, _cut(bar.name, 25), "end", kind),
        tag("path", kind="track", d=f"M{_n(left)},{_n(middle)}H{_n(right)}"),
    ]
    if bar.value:
        start, end = sorted((x(0), x(bar.value)))
        size = {"width": _n(max(end - start, 1)), "height": _ROW - 6}
        parts.append(tag("rect", kind=f"{bar.look} mark", x=_n(start), y=_n(top + 3), **size))
    return [*parts, _text(WIDTH, middle + 4, bar.words, "end", kind)]


def _line(line: Line, xs: Sequence[float], y: Callable[[float], float]) -> list[Html]:
    """One path, broken where values are missing; a value alone is a point."""
    runs: list[list[str]] = [[]]
    for x, value in zip(xs, line.values, strict=True):
        if value is None or not isfinite(value):
            runs.append([])
        else:
            runs[-1].append(f"{_n(x)},{_n(y(value))}")
    points = [run[0].split(",") for run in runs if len(run) == 1]
    path = "".join(f"M{run[0]}L{' '.join(run[1:])}" for run in runs if len(run) > 1)
    parts = [tag("path", kind=f"{line.look} line", d=path, stroke_dasharray=line.dash or None)] if path else []
    return parts + [tag("circle", kind=f"{line.look} mark", cx=cx, cy=cy, r=2.5) for cx, cy in points]


def _scale(values: tuple[float, float], places: tuple[float, float]) -> Callable[[float], float]:
    """From a value to its place; a value beyond an end stays at the end."""
    (low, high), (start, end) = values, places
    if low == high:
        return lambda v: (start + end) / 2
    return lambda v: start + (end - start) * (min(max(v, low), high) - low) / (high - low)


def _svg(parts: Sequence[Html], description: str, height: float) -> Html:
    name = description.replace("\n", " ")
    return tag("svg", *parts, role="img", aria_label=name, viewBox=f"0 0 {WIDTH} {_n(height)}")


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> Html:
    return tag("text", words, kind=kind, x=_n(x), y=_n(y), text_anchor=anchor if anchor != "start" else None)


def _cut(name: str, longest: int) -> str:
    return clip(name.replace("\n", " "), longest)


def _n(x: float) -> str:
    return f"{x:.1f}".removesuffix(".0")
