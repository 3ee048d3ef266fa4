"""The axes of a picture in a report: where a step and a number stand in it, as SVG."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from gdpo_audit.sums.over_time import Series
from gdpo_core.shared.markup import Html, join, tag
from gdpo_core.shared.words import number

_LEFT, TOP, BOTTOM = 36, 18, 16  # the room around the plot for the numbers, the heading, and the numbers below it


@dataclass(frozen=True)
class Axes:
    """The axes of a picture: where a step and a value stand in it, in pixels.

    steps: the two ends of the axis of steps.
    values: the two ends of the axis of values.
    width, height: the size of the whole picture.
    right: how much is left free on the right side of the picture.
    """

    steps: tuple[float, float]
    values: tuple[float, float]
    width: int = 200
    height: int = 88
    right: int = 6

    def x(self, step: float) -> float:
        """Return how far a step stands from the left of the picture, in pixels."""
        first, last = self.steps
        return _LEFT + (self.width - _LEFT - self.right) * (step - first) / max(last - first, 1e-300)

    def y(self, value: float) -> float:
        """Return how far a value stands from the top of the picture, in pixels."""
        low, high = self.values
        return TOP + (self.height - TOP - BOTTOM) * (high - value) / (high - low)

    def point(self, step: float, value: float) -> str:
        """Return the place of a step and a value in the picture as the text "x,y", as the paths of SVG name points."""
        return f"{self.x(step):.1f},{self.y(value):.1f}"

    def line(self, steps: Sequence[float], series: Series) -> Html:
        """Draw the course of a series, which has one number for each of some steps, as a line; it breaks off where a
        number is missing.
        """
        lines = ("L".join(self.point(*pair) for pair in stretch) for stretch in _stretches(steps, series))
        # h0 draws a point that stands alone as a dot.
        return tag("path", kind="course", d="".join(f"M{stretch}h0" for stretch in lines))

    def band(self, steps: Sequence[float], series: Series, spread: float) -> Html:
        """Draw a band around the course of a series.

        spread: how far the band reaches above and below each number.
        """
        drawn = []
        for stretch in _stretches(steps, series):
            above = [self.point(step, value + spread) for step, value in stretch]
            below = [self.point(step, value - spread) for step, value in stretch[::-1]]
            drawn.append(f"M{'L'.join([*above, *below])}Z")
        return tag("path", kind="band", d="".join(drawn))

    def frame(self) -> Html:
        """Draw the axes with the numbers at their ends, and a line at the value 0 if that lies between the ends."""
        (first, last), (low, high) = self.steps, self.values
        left, right, bottom = _LEFT, self.width - self.right, self.height - BOTTOM
        lines = [tag("path", kind="axis", d=f"M{left},{TOP}V{bottom}H{right}")]
        if low < 0 < high:
            lines.append(tag("path", kind="axis zero", d=f"M{left},{self.y(0):.1f}H{right}"))
        ends = [(high, TOP + 8), (low, bottom)]
        values = (tag("text", number(x), x=left - 4, y=y, text_anchor="end") for x, y in ends)
        sides = ((first, left, "start"), (last, right, "end"))
        steps = (tag("text", number(x), x=at, y=self.height - 3, text_anchor=side) for x, at, side in sides)
        return join(*lines, *values, *steps)

    def below(self, words: str) -> Html:
        """Write words below the axis of steps, in the middle between the numbers of its two ends."""
        first, last = (6 * len(number(step)) for step in self.steps)  # a character is about 6 pixels wide
        middle = (_LEFT + first + self.width - self.right - last) / 2
        return tag("text", words, x=middle, y=self.height - 3, text_anchor="middle")


def round_ends(low: float, high: float) -> tuple[float, float]:
    """Return the two ends of an axis, which always differ: round numbers at or beyond the lowest and highest value.

    >>> round_ends(-0.13, 0.62), round_ends(0, 1), round_ends(1, 1), round_ends(118, 1240)
    ((-0.2, 0.7), (0.0, 1.0), (0.9, 1.1), (0.0, 1400.0))
    """
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        around = abs(low) / 10 or 1.0
        low, high = low - around, high + around
    unit = 10.0 ** floor(log10(high - low))
    unit /= 5 if high - low < 2 * unit else 2 if high - low < 5 * unit else 1
    ends = floor(low / unit + 1e-9) * unit, ceil(high / unit - 1e-9) * unit
    return float(f"{ends[0]:.9g}"), float(f"{ends[1]:.9g}")


def _stretches(steps: Sequence[float], series: Series) -> Iterator[list[tuple[float, float]]]:
    """Yield the parts of a series between its missing numbers, each as a list of pairs of a step and its number."""
    stretch: list[tuple[float, float]] = []
    for step, value in zip(steps, series, strict=True):
        if value is not None:
            stretch.append((step, value))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def svg(axes: Axes, aria_label: str, *content: Html) -> Html:
    """Return a picture with this content, in the size of its axes.

    aria_label: what a screen reader says of it.
    """
    return tag(
        "svg", *content, kind="plot", viewBox=f"0 0 {axes.width} {axes.height}", role="img", aria_label=aria_label
    )
