"""Charts as inline SVG: bars in groups, and lines over steps. Their colours are those of the classes in the CSS."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

from gdpo_core.report.words import plain

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
    bars: Sequence[
        tuple[str, str, float | None, str, bool]
    ]  # name, class, value, value in words, whether it stands out
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


def grouped_bars(groups: Sequence[Bars], said: str, low: float = 0.0, high: float = 1.0) -> str:
    """Horizontal bars from zero between fixed ends, the values in words on the right."""
    longest = max((len(bar.name) for group in groups for bar in group.bars), default=0)
    left, right, row, head = min(12 + 6.4 * longest, 170), 52, 16, 24
    inner = WIDTH - left - right
    y, parts = 2.0, []

    def x(v: float) -> float:
        return left + inner * (min(max(v, low), high) - low) / (high - low)

    for group in groups:
        if group.look:
            parts.append(f'<circle class="{group.look} mark" cx="5" cy="{_n(y + 10)}" r="5"/>')
        parts.append(_text(14 if group.look else 0, y + 14, _cut(group.title, 50), kind="head"))
        top = y = y + head
        for bar in group.bars:
            middle, kind = y + row / 2, "strong" if bar.strong else ""
            parts.append(_text(left - 6, middle + 4, _cut(bar.name, 25), "end", kind))
            parts.append(f'<path class="track" d="M{_n(x(low))},{_n(middle)}H{_n(x(high))}"/>')
            if bar.value:
                start, end = sorted((x(0), x(bar.value)))
                parts.append(
                    f'<rect class="{bar.look} mark" x="{_n(start)}" y="{_n(y + 3)}" width="{_n(max(end - start, 1))}" '
                    f'height="{row - 6}"/>'
                )
            parts.append(_text(WIDTH, middle + 4, bar.words, "end", kind))
            y += row
        if low < 0:
            parts.append(f'<path class="zero" d="M{_n(x(0))},{_n(top)}V{_n(y)}"/>')
        if group.mark is not None:
            parts.append(f'<path class="asked" d="M{_n(x(group.mark))},{_n(top - 2)}V{_n(y + 2)}"/>')
        y += 6
    return _svg(parts, said, ceil(y))


def lines(series: Sequence[Line], steps: Sequence[int], said: str, low: float, high: float, share=False) -> str:
    """Lines over steps between fixed ends."""
    first, last = min(steps), max(steps)
    width = WIDTH - _LEFT - _RIGHT

    def x(step: int) -> float:
        return _LEFT + (width * (step - first) / (last - first) if last > first else width / 2)

    def y(v: float) -> float:
        return _TOP + _HEIGHT * (1 - (min(max(v, low), high) - low) / (high - low))

    parts = []
    for tick in ticks(low, high):
        label = f"{100 * tick:.0f} %" if share else f"{tick:g}"
        parts.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="M{_LEFT},{_n(y(tick))}H{WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, y(tick) + 4, label.replace("-", "−"), "end"))
    bottom = _TOP + _HEIGHT
    for step, anchor in {first: "start", last: "end"}.items():
        parts.append(_text(x(step), bottom + 18, f"{step:,}", anchor if last > first else "middle"))
    parts.append(_text(_LEFT + width / 2, bottom + 18, "step", "middle"))
    for line in series:
        parts += _drawn(line, [x(step) for step in steps], y)
    return _svg(parts, said, bottom + 24)


def _drawn(line: Line, xs: Sequence[float], y) -> list[str]:
    """One path, broken where values are missing; a value alone is a point."""
    runs: list[list[str]] = [[]]
    for at, v in zip(xs, line.values, strict=True):
        if v is None or not isfinite(v):
            runs.append([])
        else:
            runs[-1].append(f"{_n(at)},{_n(y(v))}")
    points = [run[0].split(",") for run in runs if len(run) == 1]
    path = "".join(f"M{run[0]}L{' '.join(run[1:])}" for run in runs if len(run) > 1)
    dashes = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    drawn = [f'<path class="{line.look} line" d="{path}"{dashes}/>'] if path else []
    return drawn + [f'<circle class="{line.look} mark" cx="{cx}" cy="{cy}" r="2.5"/>' for cx, cy in points]


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


def _svg(parts: Sequence[str], said: str, height: float) -> str:
    name = escape(plain(said).replace("\n", " "))
    return f'<svg role="img" aria-label="{name}" viewBox="0 0 {WIDTH} {_n(height)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    look = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{where}{look}>{escape(text)}</text>'


def _cut(text: str, longest: int) -> str:
    text = plain(text).replace("\n", " ")
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _n(x: float) -> str:
    return f"{x:.1f}".removesuffix(".0")
