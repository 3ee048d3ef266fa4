"""Charts as inline SVG: bars in groups, and lines over steps. Their colours are those of the classes in the CSS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from gdpo_core._html import Html, tag
from gdpo_core._words import clip, count, number, percent

WIDTH = 360  # units; a chart is drawn at about one pixel a unit, so that its text keeps its size on a phone
DASHES = ("", "7 4", "2 3", "9 3 2 3")  # the first of each colour; later ones shift, so that pairs stay distinct
_LEFT, _RIGHT, _TOP, _HEIGHT = 42, 10, 8, 150


@dataclass(frozen=True)
class Bar:
    """One bar; None where there is no value."""

    name: str
    look: str  # its class
    value: float | None
    words: str  # the value as text
    strong: bool  # whether it stands out


@dataclass(frozen=True)
class Bars:
    """Bars that belong together, with a mark across them."""

    title: str
    look: str | None  # the class of the title's mark
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
    return DASHES[(k + k // len(DASHES)) % len(DASHES)]


def grouped_bars(groups: Sequence[Bars], said: str, low: float = 0.0, high: float = 1.0) -> Html:
    """Horizontal bars from zero between fixed ends, the values in words on the right."""
    longest = max((len(bar.name) for group in groups for bar in group.bars), default=0)
    left, right, row, head = min(12 + 6.4 * longest, 170), 52, 16, 24
    inner = WIDTH - left - right
    y = 2.0
    parts: list[Html] = []

    def x(v: float) -> float:
        return left + inner * (min(max(v, low), high) - low) / (high - low)

    for group in groups:
        if group.look:
            parts.append(tag("circle", kind=f"{group.look} mark", cx=5, cy=_n(y + 10), r=5))
        parts.append(_text(14 if group.look else 0, y + 14, _cut(group.title, 50), kind="head"))
        top = y = y + head
        for bar in group.bars:
            middle, kind = y + row / 2, "strong" if bar.strong else ""
            parts.append(_text(left - 6, middle + 4, _cut(bar.name, 25), "end", kind))
            parts.append(tag("path", kind="track", d=f"M{_n(x(low))},{_n(middle)}H{_n(x(high))}"))
            if bar.value:
                start, end = sorted((x(0), x(bar.value)))
                size = {"width": _n(max(end - start, 1)), "height": row - 6}
                parts.append(tag("rect", kind=f"{bar.look} mark", x=_n(start), y=_n(y + 3), **size))
            parts.append(_text(WIDTH, middle + 4, bar.words, "end", kind))
            y += row
        if low < 0:
            parts.append(tag("path", kind="zero", d=f"M{_n(x(0))},{_n(top)}V{_n(y)}"))
        if group.mark is not None:
            parts.append(tag("path", kind="asked", d=f"M{_n(x(group.mark))},{_n(top - 2)}V{_n(y + 2)}"))
        y += 6
    return _svg(parts, said, ceil(y))


def lines(
    series: Sequence[Line], steps: Sequence[int], said: str, low: float, high: float, share: bool = False
) -> Html:
    """Lines over steps between fixed ends."""
    first, last = min(steps), max(steps)
    width = WIDTH - _LEFT - _RIGHT

    def x(step: float) -> float:
        return _LEFT + (width * (step - first) / (last - first) if last > first else width / 2)

    def y(v: float) -> float:
        return _TOP + _HEIGHT * (1 - (min(max(v, low), high) - low) / (high - low))

    parts: list[Html] = []
    for tick in ticks(low, high):
        label = percent(tick) if share else number(tick, 6)
        kind = "zero" if tick == 0 else "grid"
        parts.append(tag("path", kind=kind, d=f"M{_LEFT},{_n(y(tick))}H{WIDTH - _RIGHT}"))
        parts.append(_text(_LEFT - 6, y(tick) + 4, label, "end"))
    bottom = _TOP + _HEIGHT
    for step, anchor in {first: "start", last: "end"}.items():
        parts.append(_text(x(step), bottom + 18, count(step), anchor if last > first else "middle"))
    parts.append(_text(_LEFT + width / 2, bottom + 18, "step", "middle"))
    for line in series:
        parts += _drawn(line, [x(step) for step in steps], y)
    return _svg(parts, said, bottom + 24)


def _drawn(line: Line, xs: Sequence[float], y: Callable[[float], float]) -> list[Html]:
    """One path, broken where values are missing; a value alone is a point."""
    runs: list[list[str]] = [[]]
    for at, v in zip(xs, line.values, strict=True):
        if v is None or not isfinite(v):
            runs.append([])
        else:
            runs[-1].append(f"{_n(at)},{_n(y(v))}")
    points = [run[0].split(",") for run in runs if len(run) == 1]
    path = "".join(f"M{run[0]}L{' '.join(run[1:])}" for run in runs if len(run) > 1)
    drawn = [tag("path", kind=f"{line.look} line", d=path, stroke_dasharray=line.dash or None)] if path else []
    return drawn + [tag("circle", kind=f"{line.look} mark", cx=cx, cy=cy, r=2.5) for cx, cy in points]


def sample(look: str, dashes: str) -> Html:
    """A piece of a line, for a legend."""
    drawn = tag("path", kind=f"{look} line", d="M0,4H28", stroke_dasharray=dashes or None)
    return tag("svg", drawn, viewBox="0 0 28 8", aria_hidden="true")


def yes() -> Html:
    """A tick, for what is there."""
    drawn = tag("path", kind="line", d="M2,7L6,11L12,3")
    return tag("svg", drawn, viewBox="0 0 14 14", role="img", aria_label="yes:")


def no() -> Html:
    """A cross, for what is not there."""
    drawn = tag("path", kind="line", d="M3,3L11,11M11,3L3,11")
    return tag("svg", drawn, viewBox="0 0 14 14", role="img", aria_label="no:")


def ticks(low: float, high: float) -> list[float]:
    """Up to five round numbers between two.

    >>> ticks(0, 1), ticks(-1, 1), ticks(0.2, 0.8)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [-1.0, -0.5, 0.0, 0.5, 1.0], [0.2, 0.4, 0.6, 0.8])
    """
    step = _round_step(low, high)
    # 200 fits into −500 to 250, but has no tick at either end; 250 has.
    fits = [s for s in (step, _round_step(0, 4.001 * step)) if _divides(s, low) and _divides(s, high)]
    step = fits[0] if fits else step
    return [round(k * step, 12) + 0.0 for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _divides(step: float, x: float) -> bool:
    return abs(x / step - round(x / step)) < 1e-9


def ends(values: Sequence[float]) -> tuple[float, float]:
    """Where an axis starts and ends: 0 to 1 for what lies between, else round numbers around the values.

    >>> ends([0.2, 0.3]), ends([-3.2, 10.0]), ends([7.0]), ends([2.7, 4.7])
    ((0.0, 1.0), (-5.0, 10.0), (6.0, 8.0), (2.0, 5.0))
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if high - low <= 1e-5 * max(-low, high):  # ticks have six digits
        low, high = low - (abs(low) / 10 or 1), high + (abs(high) / 10 or 1)
    step = _round_step(low, high)
    while True:
        first, last = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
        wider = _round_step(first, last)  # a tick at either end
        if wider <= step:
            return first, last
        step = wider


def _round_step(low: float, high: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, so that at most four fit in between."""
    size = 10.0 ** floor(log10((high - low) / 4))
    return next(s * size for s in (1, 2, 2.5, 5, 10) if (high - low) / (s * size) <= 4)


def _svg(parts: Sequence[Html], said: str, height: float) -> Html:
    name = said.replace("\n", " ")
    return tag("svg", *parts, role="img", aria_label=name, viewBox=f"0 0 {WIDTH} {_n(height)}")


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> Html:
    where = anchor if anchor != "start" else None
    return tag("text", words, kind=kind, x=_n(x), y=_n(y), text_anchor=where)


def _cut(name: str, longest: int) -> str:
    return clip(name.replace("\n", " "), longest)


def _n(x: float) -> str:
    return f"{x:.1f}".removesuffix(".0")
