"""Charts as inline SVG: lines over steps. Their colours are those of the classes in the CSS."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from gdpo_core._html import Html, tag
from gdpo_core._words import count

WIDTH = 360  # units; a chart is drawn at about one pixel per unit, so that its text keeps its size on a phone
_DASHES = ("", "7 4", "2 3", "9 3 2 3")  # the first of each colour; later ones shift, so that pairs stay distinct
_LEFT, _RIGHT, _TOP, _BOTTOM = 42.0, WIDTH - 10.0, 8.0, 158.0  # where lines are drawn


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


def sample(look: str, dashes: str) -> Html:
    """A piece of a line, for a legend."""
    path = tag("path", kind=f"{look} line", d="M0,4H28", stroke_dasharray=dashes or None)
    return tag("svg", path, viewBox="0 0 28 8", aria_hidden="true")


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


def _n(x: float) -> str:
    return f"{x:.1f}".removesuffix(".0")
