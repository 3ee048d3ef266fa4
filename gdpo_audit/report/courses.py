"""Pictures of a run: how each reward went, as small multiples on shared axes, and what a forecast says of one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from gdpo_audit.findings.forecast import Forecast, RewardForecast
from gdpo_audit.findings.over_time import MEAN, PUSH, SHARE, STD, Series, column, noise, present, series_of
from gdpo_audit.findings.words import weights_in_words
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.controls import reward_look, table
from gdpo_audit.report.summary import comparable, shown_method
from gdpo_core._html import Html, fold, join, tag
from gdpo_core._words import count, number, percent, signed
from gdpo_core.conventions import NAMES

DRAWN = 12  # rewards; of more the first are drawn
POINTS = 200  # of a curve of a forecast, whose steps may be 100,000
_ALIKE = 10  # times the size of the smallest reward: so large may the largest be where their means share an axis
_LEFT, _TOP, _BOTTOM = 36, 18, 16  # around the area of a picture: numbers, a heading, numbers


@dataclass(frozen=True)
class Axes:
    """Where steps and values stand in a picture of this width and height, whose text is 12 high."""

    steps: tuple[float, float]
    values: tuple[float, float]
    width: int = 200
    height: int = 88
    right: int = 6  # beside the area

    def x(self, step: float) -> float:
        """Where a step stands, from the left."""
        first, last = self.steps
        return _LEFT + (self.width - _LEFT - self.right) * (step - first) / max(last - first, 1e-300)

    def y(self, value: float) -> float:
        """Where a value stands, from the top."""
        low, high = self.values
        return _TOP + (self.height - _TOP - _BOTTOM) * (high - value) / (high - low)

    def point(self, step: float, value: float) -> str:
        """Return a point as paths have it."""
        return f"{self.x(step):.1f},{self.y(value):.1f}"

    def line(self, steps: Sequence[float], series: Series) -> Html:
        """Return the course of a series, parted where it has no number."""
        parts = ("L".join(self.point(*pair) for pair in part) for part in _parts(steps, series))
        return tag("path", kind="course", d="".join(f"M{part}h0" for part in parts))  # h0: a point alone is a dot

    def band(self, steps: Sequence[float], series: Series, spread: float) -> Html:
        """Return the band around a series."""
        drawn = []
        for part in _parts(steps, series):
            above = [self.point(step, value + spread) for step, value in part]
            drawn.append(f"M{'L'.join([*above, *(self.point(step, value - spread) for step, value in part[::-1])])}Z")
        return tag("path", kind="band", d="".join(drawn))

    def frame(self) -> Html:
        """Return the axes with the numbers at their ends, and a line at 0 where it lies between them."""
        (first, last), (low, high) = self.steps, self.values
        left, right, bottom = _LEFT, self.width - self.right, self.height - _BOTTOM
        lines = [tag("path", kind="axis", d=f"M{left},{_TOP}V{bottom}H{right}")]
        if low < 0 < high:
            lines.append(tag("path", kind="axis zero", d=f"M{left},{self.y(0):.1f}H{right}"))
        ends = [(high, _TOP + 8), (low, bottom)]
        values = (tag("text", number(x), x=left - 4, y=y, text_anchor="end") for x, y in ends)
        under = {"y": self.height - 3}
        from_step = tag("text", number(first), x=left, **under)
        return join(*lines, *values, from_step, tag("text", number(last), x=right, text_anchor="end", **under))


def round_ends(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around these, as the ends of an axis.

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


def _parts(steps: Sequence[float], series: Series) -> Iterator[list[tuple[float, float]]]:
    """Yield the steps and numbers that stand one beside the other."""
    part: list[tuple[float, float]] = []
    for step, value in zip(steps, series, strict=True):
        if value is not None:
            part.append((step, value))
        elif part:
            yield part
            part = []
    if part:
        yield part


# --- the courses of a run ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """How a figure of a reward went: its name and heading, its numbers and their noise, since when it is another."""

    figure: str
    heading: str
    series: Series
    spread: float = 0.0
    since: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number that is drawn."""
        numbers = present(self.series) or [0.0]
        return min(numbers) - self.spread, max(numbers) + self.spread


def courses(report: AuditReport) -> Html:
    """Return a picture for each reward and figure, with the numbers behind a fold; empty for a log of one step."""
    steps, rewards = report.steps["step"].to_list(), courses_of(report)
    if len(steps) < 2 or not rewards:
        return Html()
    axes, shared = _axes((steps[0], steps[-1]), list(rewards.values()))
    columns = []
    for k, (name, of_reward) in enumerate(rewards.items()):
        pictures = (_picture(name, drawn, axes[k, drawn.figure], steps) for drawn in of_reward)
        columns.append(tag("figure", tag("figcaption", name, title=name), *pictures, kind=reward_look(k)))
    return tag(
        "section",
        tag("h3", "How each reward went"),
        tag("div", *columns, kind="courses"),
        tag("p", _legend(report, shared)),
        fold("The numbers behind the pictures", _numbers(report, rewards)),
        kind="pictures",
    )


def courses_of(report: AuditReport) -> dict[str, list[Course]]:
    """Return what is drawn of each reward: its mean, and the push on it and its share where methods are compared."""
    method, drawn = shown_method(report)[0], {}
    for reward in report.rewards[:DRAWN]:
        name, since = reward["name"], reward["changed_at"]
        means = series_of(report.steps, column(MEAN, name))
        went = f"{number(reward['first_quarter'], 3)} → {number(reward['last_quarter'], 3)}"
        went += "" if since is None else f" since {since}"
        drawn[name] = [Course("mean", went, means, noise(present(means)), since)]
        if method and comparable(report):
            pushes, shares = (series_of(report.steps, column(what, method, name)) for what in (PUSH, SHARE))
            drawn[name].append(Course("push", signed(reward["push"].get(method)), pushes))
            drawn[name].append(Course("share", percent(reward["update_share"].get(method)), shares))
    return drawn


def _axes(steps: tuple[int, int], rewards: Sequence[Sequence[Course]]) -> tuple[dict[tuple[int, str], Axes], bool]:
    """Return the axes of every picture, by reward and figure; and whether the means share theirs.

    Pushes and shares always do; means only where the rewards are of about one size.
    """
    axes = {}
    sizes = [max(map(abs, present(of_reward[0].series)), default=0.0) for of_reward in rewards]
    shared = max(sizes) <= _ALIKE * min((size for size in sizes if size), default=1.0)
    for of_figure in zip(*rewards, strict=True):
        figure = of_figure[0].figure
        every = [drawn.ends for drawn in of_figure]
        if figure != "mean":
            every.append((0.0, 1.0 if figure == "share" else 0.0))
        together = min(low for low, _ in every), max(high for _, high in every)
        for k, drawn in enumerate(of_figure):
            ends = together if shared or figure != "mean" else drawn.ends
            axes[k, figure] = Axes(steps, round_ends(*ends))
    return axes, shared


def _picture(name: str, drawn: Course, axes: Axes, steps: Sequence[int]) -> Html:
    """Return one figure of one reward over the steps."""
    heading = tag("text", f"{drawn.figure} ", tag("tspan", drawn.heading, kind="value"), x=_LEFT, y=11)
    lines = [axes.frame()]
    if drawn.since is not None:
        lines.append(tag("path", kind="since", d=f"M{axes.x(drawn.since):.1f},{_TOP}V{axes.height - _BOTTOM}"))
    if drawn.spread:
        lines.append(axes.band(steps, drawn.series, drawn.spread))
    said = f"{name}, {drawn.figure}, steps {number(steps[0])} to {number(steps[-1])}: {drawn.heading}"
    return _svg(axes, said, heading, *lines, axes.line(steps, drawn.series))


def _svg(axes: Axes, said: str, *content: Html) -> Html:
    return tag("svg", *content, kind="plot", viewBox=f"0 0 {axes.width} {axes.height}", role="img", aria_label=said)


def _legend(report: AuditReport, shared: bool) -> str:
    """Return what the pictures show, in sentences."""
    says = ["Mean: first → last quarter; its band is ± the noise of a step’s mean, from how neighbouring steps differ."]
    if any(reward["changed_at"] is not None for reward in report.rewards[:DRAWN]):
        says.append("Dashed: the step since when the mean is another.")
    method, why = shown_method(report)
    if method and comparable(report):
        says.append(f"Push and share of the update: under {NAMES[method]}, {why}; their headings are of the whole run.")
    if not shared:
        says.append("Each mean has an axis of its own, as the rewards differ in size.")
    if len(report.rewards) > DRAWN:
        says.append(f"Drawn are the first {DRAWN} of {count(len(report.rewards), 'reward')}.")
    return " ".join(says)


def _numbers(report: AuditReport, rewards: Mapping[str, Sequence[Course]]) -> Html:
    """Return the numbers of the pictures as a table, with the std of the responses beside each mean."""
    steps = report.steps
    words = {"mean": lambda x: number(x, 3), "push": signed, "share": percent}
    spans = zip(steps["step"].to_list(), steps["step_last"].to_list(), strict=True)
    head, columns = ["step"], [[f"{a}" if a == b else f"{a} to {b}" for a, b in spans]]
    for name, of_reward in rewards.items():
        for drawn in of_reward:
            head.append(f"{name}: {drawn.figure}")
            columns.append([words[drawn.figure](x) for x in drawn.series])
            if drawn.figure == "mean":
                head.append(f"{name}: std")
                columns.append([number(x, 3) for x in series_of(steps, column(STD, name))])
    return table(head, list(zip(*columns, strict=True)), folds=False)


# --- a forecast -------------------------------------------------------------------------------------------------------


def forecast_picture(forecast: Forecast, name: str) -> Html:
    """Return the course of one reward as it ran and under a setting, beside both means with the interval.

    A reward of which nothing can be said has a sentence in place of a picture.
    """
    told = forecast.rewards[name]
    setting = f"{NAMES[forecast.method]}, weights {weights_in_words(forecast.weights, False)}"
    if gate := forecast.gate:
        setting += f", {gate['reward']} only where {gate['on']} reaches {number(float(gate['threshold']))}"
    if told.difference is None or told.low is None or told.high is None:
        return tag(
            "figure", tag("figcaption", tag("b", "No forecast"), f" under {setting}: {told.why}"), kind="foretold"
        )
    interval = f"{_signed(told.low)} to {_signed(told.high)}"
    over = f"over {count(forecast.steps, 'step')}, 80 % interval {interval}"
    heading = tag("figcaption", "Forecast: ", tag("b", f"{name} {_signed(told.difference)}"), f" {over}")
    drawn = _forecast_svg(told, forecast.steps, f"{name} {_signed(told.difference)} {over}, under {setting}")
    legend = f"Dashed: as it ran. Solid: under {setting}. Right: the means over the steps, with the interval."
    kind = f"foretold {reward_look(list(forecast.rewards).index(name))}"
    return tag("figure", heading, drawn, tag("p", " ".join([legend, *forecast.notes])), kind=kind)


def _forecast_svg(told: RewardForecast, steps: int, said: str) -> Html:
    """Return both curves, and at their right the mean of each over the steps, on the same axis of values."""
    ran = sum(told.as_it_ran[:-1]) / (len(told.as_it_ran) - 1)  # each step as it was before its update
    low, middle, high = (ran + (x or 0.0) for x in (told.low, told.difference, told.high))
    every = [*told.as_it_ran, *told.forecast, low, high]
    axes = Axes((0, steps), round_ends(min(every), max(every)), width=300, height=130, right=56)
    points = sorted({round(i * steps / POINTS) for i in range(POINTS + 1)})
    before, after = (axes.line(points, [curve[i] for i in points]) for curve in (told.as_it_ran, told.forecast))
    at, to = axes.width - 30, axes.width - 14
    return _svg(
        axes,
        said,
        axes.frame(),
        tag("g", before, kind="before"),
        after,
        tag("path", kind="before course", d=f"M{at - 8},{axes.y(ran):.1f}H{to + 8}"),
        tag("path", kind="interval", d=f"M{(at + to) / 2},{axes.y(low):.1f}V{axes.y(high):.1f}"),
        tag("circle", kind="mean", cx=(at + to) / 2, cy=f"{axes.y(middle):.1f}", r=4),
        tag("text", "means", x=(at + to) / 2, y=axes.height - 3, text_anchor="middle"),
        tag("text", "mean of a step", x=_LEFT, y=11),
    )


def _signed(x: float) -> str:
    return f"{'+' * (x > 0)}{number(x, 2 if abs(x) < 10 else 4)}"
