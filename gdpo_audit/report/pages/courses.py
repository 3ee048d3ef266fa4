"""Pictures of the course of each reward over a run, on shared axes, and of the forecast of one reward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from gdpo_audit.phrases import gate_opens, weights_in_words
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.pages.axes import BOTTOM, TOP, Axes, round_ends, svg
from gdpo_audit.report.pages.sliders import depth, reward_look, scrolling_table
from gdpo_audit.report.summary import comparable, shown_method
from gdpo_audit.sums.over_time import MEAN, PUSH, STD, UPDATE_SHARE, Series, column_name, noise_std, present, series_of
from gdpo_audit.trials.run_forecast import Forecast, RewardForecast
from gdpo_core.conventions import NAMES
from gdpo_core.shared.markup import Html, fold, join, tag
from gdpo_core.shared.words import count, number, percent, signed

DRAWN = 12  # the most rewards that are drawn
_POINTS = 200  # the points at which the curve of a forecast is drawn, whose steps may be 100,000
_ALIKE = 3  # how many times as large as the smallest the largest reward may be where their means share an axis
_BAND = (
    "The band shows the random variation of the mean of a single step, estimated from how neighbouring steps differ."
)
_SHIFT = "A dotted line marks the step at which the mean moved to a new level."


# --- the courses of a run ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Course:
    """The course of one figure of a reward over the steps of a run, and what its picture shows beside it.

    figure: what the numbers are: mean, push or share.
    heading: what stands above the picture.
    series: the numbers, None for a step without one.
    spread: the std of the noise in a number. The picture draws a band that reaches this far above and below the course,
        and none for 0.
    since: the step at which the numbers move to a new level, None if they do not.
    """

    figure: str
    heading: str
    series: Series
    spread: float = 0.0
    since: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number that the picture has to hold, the band around the course included."""
        numbers = present(self.series) or [0.0]
        return min(numbers) - self.spread, max(numbers) + self.spread


def courses(report: AuditReport) -> Html:
    """Draw each reward's mean over the steps, and its push and share where `courses_of` has them, with a table of the
    numbers.

    Empty for a report on a single step.
    """
    steps, rewards = report.steps["step"].to_list(), courses_of(report)
    if len(steps) < 2 or not rewards:
        return Html()
    sizes = _alike([max(map(abs, present(of_reward[0].series)), default=0.0) for of_reward in rewards.values()])
    axes = _axes((steps[0], steps[-1]), list(rewards.values()), sizes)
    columns = []
    for k, (name, of_reward) in enumerate(rewards.items()):
        pictures = (_picture(name, drawn, axes[k, drawn.figure], steps) for drawn in of_reward)
        columns.append(tag("figure", tag("figcaption", name, title=name), *pictures, kind=reward_look(k)))
    drawn = depth(
        "How each reward went",
        tag("div", *columns, kind="courses"),
        tag("p", _legend(report, len(set(sizes)) == 1), kind="more"),
        fold("The numbers behind the pictures", _numbers(report, rewards)),
    )
    return tag("section", drawn, kind="pictures")


def courses_of(report: AuditReport) -> dict[str, list[_Course]]:
    """Return the courses to draw of each of the first `DRAWN` rewards, by the name of the reward.

    A course is one figure of the reward by step. The first is the course of the reward's mean. The courses of its push
    and of its share of the update follow, if a method is shown and the report is `comparable`.
    """
    method, drawn = shown_method(report)[0], {}
    for reward in report.rewards[:DRAWN]:
        name, since = reward["name"], reward["changed_at"]
        means = series_of(report.steps, column_name(MEAN, name))
        went = f"{number(reward['first_quarter'], 3)} → {number(reward['last_quarter'], 3)}"
        drawn[name] = [_Course("mean", went, means, noise_std(present(means)), since)]
        if method and comparable(report):
            pushes, shares = (series_of(report.steps, column_name(what, method, name)) for what in (PUSH, UPDATE_SHARE))
            drawn[name].append(_Course("push", signed(reward["push"].get(method)), pushes))
            drawn[name].append(_Course("share", percent(reward["update_share"].get(method)), shares))
    return drawn


def course_picture(report: AuditReport, name: str, more: Html | str = "") -> Html:
    """Draw the mean of one reward over the steps, large; empty for a log of a single step.

    name: the name of the reward.
    more: what stands below the picture.
    """
    k = [reward["name"] for reward in report.rewards].index(name)
    steps, reward = report.steps["step"].to_list(), report.rewards[k]
    if len(steps) < 2:
        return Html()
    means = series_of(report.steps, column_name(MEAN, name))
    went = f"{number(reward['first_quarter'], 3)} → {number(reward['last_quarter'], 3)}"
    drawn = _Course("mean", went, means, noise_std(present(means)), reward["changed_at"])
    axes = Axes((steps[0], steps[-1]), round_ends(*drawn.ends), width=460, height=180)
    heading = tag(
        "figcaption", "Mean of ", tag("b", f"{name}: {went}"), ", in the first and in the last quarter of the run"
    )
    legend = f"The line is the mean of each step. {_BAND}" + f" {_SHIFT}" * (drawn.since is not None)
    picture = _picture(name, drawn, axes, steps, tag("text", "mean of a step", x=0, y=11))
    return tag("figure", heading, picture, tag("p", legend), more, kind=f"foretold {reward_look(k)}")


def _alike(sizes: Sequence[float]) -> list[int]:
    """Return for each size the number of its class; the largest size of a class is at most `_ALIKE` times its smallest.

    The means of rewards in one class are drawn on the same axes. Classes are numbered from 1, from the smallest sizes
    up; sizes of 0 are the class 0.

    >>> _alike([0.6, 4.5, 0.8, 1200.0, 0.0])
    [1, 2, 1, 3, 0]
    """
    numbers, of_size, smallest = [0] * len(sizes), 0, 0.0
    for k in sorted(range(len(sizes)), key=lambda k: sizes[k]):
        if sizes[k] > _ALIKE * smallest:
            of_size, smallest = of_size + 1, sizes[k]
        numbers[k] = of_size
    return numbers


def _axes(
    steps: tuple[int, int], rewards: Sequence[Sequence[_Course]], sizes: Sequence[int]
) -> dict[tuple[int, str], Axes]:
    """Return the axes of each picture, by the index of the reward and the name of the figure: mean, push or share.

    All pushes have the same axes, and so have all shares. Means have the same axes if their rewards are about as large.

    steps: the first and the last step.
    rewards: for each reward, its courses.
    sizes: a number per reward, equal for rewards that are about as large (see `_alike`).
    """
    axes = {}
    for of_figure in zip(*rewards, strict=True):
        figure = of_figure[0].figure
        always = {"push": [(0.0, 0.0)], "share": [(0.0, 1.0)]}.get(figure, [])
        for k, size in enumerate(sizes):
            among = [
                drawn
                for drawn, size_there in zip(of_figure, sizes, strict=True)
                if figure != "mean" or size_there == size
            ]
            lows, highs = zip(*(drawn.ends for drawn in among), *always, strict=True)
            axes[k, figure] = Axes(steps, round_ends(min(lows), max(highs)))
    return axes


def _picture(name: str, drawn: _Course, axes: Axes, steps: Sequence[int], heading: Html | None = None) -> Html:
    """Draw how one figure of a reward, such as its mean, went over the steps.

    name: the name of the reward.
    drawn: the figure with its numbers.
    axes: the axes of the picture.
    steps: the step of each number.
    heading: what stands above the picture, by default the name of the figure and the heading of `drawn`.
    """
    heading = heading or tag("text", f"{drawn.figure} ", tag("tspan", drawn.heading, kind="value"), x=0, y=11)
    lines = [axes.frame()]
    aria_label = f"{name}, {drawn.figure}, steps {number(steps[0])} to {number(steps[-1])}: {drawn.heading}"
    if drawn.since is not None:
        shift = f"new level at step {number(drawn.since)}"
        lines.append(tag("path", kind="since", d=f"M{axes.x(drawn.since):.1f},{TOP}V{axes.height - BOTTOM}"))
        lines.append(axes.below(shift))
        aria_label += f", {shift}"
    if drawn.spread:
        lines.append(axes.band(steps, drawn.series, drawn.spread))
    return svg(axes, aria_label, heading, *lines, axes.line(steps, drawn.series))


def _legend(report: AuditReport, shared: bool) -> str:
    """Return the sentences below the pictures that say what they show.

    shared: whether all means have the same axes.
    """
    says = [
        "The two numbers above each plot of a mean are the means in the first and in the last quarter of the run.",
        _BAND,
    ]
    if any(reward["changed_at"] is not None for reward in report.rewards[:DRAWN]):
        says.append(_SHIFT)
    method, why = shown_method(report)
    if method and comparable(report):
        says.append(
            f"Push and share of the update were computed for {NAMES[method]}, {why}. The numbers above their plots are "
            "those of the whole run."
        )
    if not shared:
        says.append("The plots of two means share an axis if the two rewards are of about the same size.")
    if len(report.rewards) > DRAWN:
        says.append(f"The first {DRAWN} of {count(len(report.rewards), 'reward')} are drawn.")
    return " ".join(says)


def _numbers(report: AuditReport, rewards: Mapping[str, Sequence[_Course]]) -> Html:
    """Return a table of the numbers in the pictures of all rewards, with the std of the responses beside each mean.

    rewards: by the name of each reward, its courses over the steps, one per picture: mean, push or share.
    """
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
                columns.append([number(x, 3) for x in series_of(steps, column_name(STD, name))])
    return scrolling_table(head, list(zip(*columns, strict=True)), folds=False)


# --- a forecast -------------------------------------------------------------------------------------------------------


def forecast_picture(forecast: Forecast, name: str, logged: pl.DataFrame | None = None) -> Html:
    """Draw the course of one reward as it ran and as it is forecast under a setting, with its 80 % interval.

    Where the log tells no forecast, a sentence stands in place of the picture.

    name: the name of the reward.
    logged: the steps of the report, whose means are drawn as dots; None for no dots.
    """
    told, setting = forecast.rewards[name], _setting(forecast)
    if told.difference is None or told.low is None or told.high is None:
        return tag("figure", no_forecast(forecast, name), kind="foretold")
    interval = f"{_signed(told.low)} to {_signed(told.high)}"
    bold = tag("b", f"{name} {_signed(told.difference)}")
    heading = tag("figcaption", "Forecast: ", bold, f" (80 % interval {interval})")
    means = None if logged is None else series_of(logged, column_name(MEAN, name))
    over = f"over {count(forecast.steps, 'step')}, 80 % interval {interval}"
    drawn = _forecast_svg(forecast, told, means, f"{name} {_signed(told.difference)} {over}, under {setting}")
    dots = ", and the dots are the logged means" * (means is not None)
    legend = f"The solid line is a smooth curve, fitted to the run as it was{dots}. The dashed line is the forecast "
    legend += (
        f"under {setting}, with its 80 % band. The bar on the right shows, with its 80 % interval, by how much the "
    )
    legend += f"mean over {count(forecast.steps, 'step')} is forecast to differ from that of the run as it was."
    kind = f"foretold {reward_look(list(forecast.rewards).index(name))}"
    return tag("figure", heading, drawn, tag("p", " ".join([legend, *forecast.notes])), kind=kind)


def no_forecast(forecast: Forecast, name: str) -> Html:
    """Return the sentence that says why a reward has no forecast; empty if the reward has one."""
    told = forecast.rewards[name]
    if told.difference is not None:
        return Html()
    return tag("p", tag("b", "No forecast"), f" under {_setting(forecast)}: {told.why}", kind="open")


def _setting(forecast: Forecast) -> str:
    """Return in words the setting that was forecast: its method, its weights, and its gate if it has one."""
    setting = f"{NAMES[forecast.method]} with weights {weights_in_words(forecast.weights, False)}"
    if gate := forecast.gate:
        setting += f" and {gate['reward']} only where {gate_opens(gate)}"
    return setting


def _forecast_svg(forecast: Forecast, told: RewardForecast, means: Series | None, aria_label: str) -> Html:
    """Draw the courses of a reward as it ran and as forecast, with the band of the forecast and the logged means as
    dots. At the right, on an axis of its own, draw the forecast difference of the reward's mean with its interval.

    forecast: gives the number of steps to draw, and the number of steps that the log holds.
    told: the forecast of this reward.
    means: the logged means, which are spread evenly over the steps of the log; None for no dots. At most `_POINTS` of
        them are drawn.
    aria_label: what a screen reader says of the picture.
    """
    steps, (below, above) = forecast.steps, forecast_band(told)
    drawn = [*told.as_it_ran, *below, *above, *present(means or [])]
    axes = Axes((0, steps), round_ends(min(drawn), max(drawn)), width=460, height=180, right=116)
    points = sorted({round(i * steps / _POINTS) for i in range(_POINTS + 1)})
    before, after = (axes.line(points, [curve[i] for i in points]) for curve in (told.as_it_ran, told.forecast))
    outline = [*((i, above[i]) for i in points), *((i, below[i]) for i in points[::-1])]
    band = tag("path", kind="band", d=f"M{'L'.join(axes.point(*corner) for corner in outline)}Z")
    every = len(means or []) // _POINTS + 1
    at = ((forecast.from_steps * (i + 0.5) / len(means or []), x) for i, x in enumerate(means or []) if i % every == 0)
    dots = (f"M{axes.point(step, x)}h0" for step, x in at if x is not None and step <= steps)
    return svg(
        axes,
        aria_label,
        axes.frame(),
        tag("path", kind="logged", d="".join(dots)),
        band,
        tag("g", before, kind="before"),
        tag("g", after, kind="after"),
        tag("text", "mean of a step", x=0, y=11),
        axes.below("step"),
        _difference(told.difference or 0.0, told.low or 0.0, told.high or 0.0, axes),
    )


def forecast_band(told: RewardForecast) -> tuple[list[float], list[float]]:
    """Return the curves below and above the forecast of a reward, as two lists with a number for each step from 0 on.

    At step 0 both curves meet the forecast. After that, the distance of each curve from the forecast is in proportion
    to the distance of the forecast from the course as it ran. The band is thus narrow where these two meet. On average
    over the later steps, the curves are as far from the forecast as the ends of its interval are from its difference.
    If forecast and course are the same at every step, the band widens evenly with the steps.
    """
    apart = [abs(after - before) for after, before in zip(told.forecast[1:], told.as_it_ran[1:], strict=True)]
    mean = sum(apart) / len(apart)
    if mean <= 1e-6 * (max(map(abs, told.forecast)) or 1.0):
        apart = [float(step + 1) for step in range(len(apart))]
        mean = sum(apart) / len(apart)
    widths = [0.0, *(x / mean for x in apart)]
    ends = ((told.low or 0.0) - (told.difference or 0.0), (told.high or 0.0) - (told.difference or 0.0))
    below, above = ([x + end * width for x, width in zip(told.forecast, widths, strict=True)] for end in ends)
    return below, above


def _difference(difference: float, low: float, high: float, beside: Axes) -> Html:
    """Draw a point for the difference that a forecast tells, and a line from `low` to `high`, the ends of its interval.

    They stand on an axis of their own, at the right of the axes `beside`. This axis always includes 0.
    """
    y = Axes((0, 1), (min(low, 0.0), max(high, 0.0)), beside.width, beside.height).y
    at, (above, below) = beside.width - 62, (y(high), y(low))
    apart = max(0.0, 13 - (below - above)) / 2  # moved apart so that their numbers do not overlap
    ends = ((high, above - apart), (low, below + apart))
    return join(
        tag("text", "difference", x=at - 24, y=11),
        tag("path", kind="before course", d=f"M{at - 14},{y(0):.1f}H{at + 10}"),
        tag("text", "0", x=at - 18, y=f"{y(0) + 4:.1f}", text_anchor="end"),
        tag("path", kind="interval", d=f"M{at},{below:.1f}V{above:.1f}"),
        tag("circle", kind="mean", cx=at, cy=f"{y(difference):.1f}", r=4),
        *(tag("text", _signed(end), x=at + 14, y=f"{where + 4:.1f}") for end, where in ends),
    )


def _signed(x: float) -> str:
    """Return a number as text with its sign, and with two significant digits, or four from 10 on."""
    return f"{'+' * (x > 0)}{number(x, 2 if abs(x) < 10 else 4)}"
