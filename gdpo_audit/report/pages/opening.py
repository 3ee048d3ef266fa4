"""The picture that opens a report: the push on each reward, each reward's share of the update, and the forecast of the
primary reward.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.pages.courses import DRAWN, course_picture, forecast_picture, no_forecast
from gdpo_audit.report.pages.sliders import reward_look
from gdpo_audit.report.summary import comparable, shown_method
from gdpo_audit.report.tables import if_assumed
from gdpo_core.conventions import NAMES
from gdpo_core.pushing import PUSH_EXPLAINED
from gdpo_core.shared import markup
from gdpo_core.shared.markup import Html, join, tag
from gdpo_core.shared.words import count, number, percent, signed


@dataclass(frozen=True)
class Bars:
    """The push and the share of each reward under one setting, with the name of the setting and the look of
    its bars.
    """

    name: str
    look: str  # the CSS class of its bars
    push: Sequence[float | None]
    share: Sequence[float | None]


def opening(report: AuditReport) -> Html:
    """Draw bars of the push on each reward and of its share of the update, for the first `DRAWN` rewards, and beside
    them the forecast of the primary reward under the recommended setting. Without a forecast, draw in its place how the
    mean of that reward went over the steps.

    Empty where there are neither bars nor a picture of the primary reward.
    """
    figures = [figure for figure in (_bars(report), _primary(report)) if figure]
    return tag("div", *figures, kind="opening") if figures else Html()


def meanings(report: AuditReport) -> list[str]:
    """Return the sentences that stand below the bars of the opening picture; [] if it has no bars.

    They explain columns of the tables of the report too.
    """
    return [PUSH_EXPLAINED] if bars_of(report) else []


def _primary(report: AuditReport) -> Html:
    """Draw the forecast of the primary reward under the recommended setting. Without a forecast, draw the course of its
    mean, and write below it why there is no forecast.

    Empty without a primary reward, and where a log of a single step leaves nothing to draw.
    """
    primary, forecast = report.run["primary"], report.recommended_forecast
    if primary is None:
        return Html()
    if forecast is None:
        lacking = report.forecast_note
        return course_picture(report, primary, tag("p", lacking) if lacking else "")
    if why := no_forecast(forecast, primary):
        return course_picture(report, primary, why) or forecast_picture(forecast, primary)
    return forecast_picture(forecast, primary, report.steps)


def bars_of(report: AuditReport) -> list[Bars]:
    """Return the pushes and shares that are drawn as bars, for one setting or two.

    Where the plan recommends a setting, two settings are drawn: the run as it was and the recommended setting, both as
    tried on the same responses. Else the pushes and shares of the whole run are drawn. Empty where shares and pushes
    mean nothing, as with a single reward.
    """
    method, why = shown_method(report)
    if method is None or not comparable(report):
        return []
    best = next((row for row in report.plan if row.recommended), None)
    if best is None:
        pushes, shares = zip(
            *((r["push"].get(method), r["update_share"].get(method)) for r in report.rewards), strict=True
        )
        return [Bars(f"{NAMES[method]}, {why}", "after", pushes, shares)]
    names, ran = [r["name"] for r in report.rewards], report.plan[0]
    rows = ((f"as it ran ({NAMES[ran.method]})", "before", ran), (f"recommended: {best.title}", "after", best))
    return [
        Bars(name, look, [row.push.get(x) for x in names], [row.update_share.get(x) for x in names])
        for name, look, row in rows
    ]


def _bars(report: AuditReport) -> Html:
    """Draw a table with a row for each of the first `DRAWN` rewards. A row has the bars of the reward's push in one
    cell, and the bars of its share of the update in another.

    Empty where `bars_of` returns nothing.
    """
    drawn = bars_of(report)
    if not drawn:
        return Html()
    least = -1.0 if any((x or 0.0) < 0 for bars in drawn for x in (*bars.push, *bars.share)) else 0.0
    rows = []
    for k, reward in enumerate(report.rewards[:DRAWN]):
        pushes = (_bar(bars.look, bars.push[k], signed(bars.push[k]), least) for bars in drawn)
        shares = (_bar(bars.look, bars.share[k], percent(bars.share[k]), least) for bars in drawn)
        cells = (tag("div", *of_figure, kind=reward_look(k)) for of_figure in (pushes, shares))
        rows.append([reward["name"], *cells])
    key = (join(tag("i", kind=f"{bars.look} swatch"), bars.name) for bars in drawn)
    says = meanings(report)
    if len(report.rewards) > DRAWN:
        says.append(f"The first {DRAWN} of {count(len(report.rewards), 'reward')} are drawn.")
    title = f"How hard the update pushes each reward, and each reward’s share of the update{if_assumed(report)}"
    return tag(
        "figure",
        tag("figcaption", tag("b", title)),
        tag("p", *(tag("span", entry) for entry in key), kind="key"),
        markup.table(["reward", f"push (axis {number(least)} to 1)", "share of the update"], rows, "bars"),
        tag("p", " ".join(says)),
        kind="pushes",
    )


def _bar(look: str, value: float | None, words: str, least: float) -> Html:
    """Draw a bar from 0 to a value, on an axis from `least` to 1, and write the value beside it.

    Without a value, or for NaN, only the axis is drawn.

    look: the CSS class of the bar.
    words: the value in words.
    """
    unit = 100 / (1 - least)
    zero = -least * unit
    drawn = [tag("path", kind="axis", d=f"M0,12H100M{zero:.4g},0V12")]
    if value is not None and value == value:
        left, right = sorted((zero, zero + unit * min(max(value, least), 1.0)))
        drawn.append(tag("rect", x=f"{left:.4g}", y=1, width=f"{right - left:.4g}", height=10))
    axis = tag("svg", *drawn, viewBox="0 0 100 12", preserveAspectRatio="none", aria_hidden="true")
    return tag("span", axis, words, kind=f"bar {look}")
