"""The pictures of a report: they have a point for each step inside their axes and the report's numbers, and names in
them are text.
"""

import re
from dataclasses import replace
from types import SimpleNamespace

import audited
import polars as pl
import pytest
from test_report import NASTY, Page

from gdpo_audit import report as drawn
from gdpo_audit.report.pages.axes import Axes
from gdpo_audit.report.pages.courses import DRAWN, courses, courses_of, forecast_band, forecast_picture
from gdpo_audit.report.pages.opening import opening
from gdpo_audit.sums.over_time import sparkline
from gdpo_audit.trials.run_forecast import Forecast, RewardForecast

POINT = re.compile(r"(-?[\d.]+),(-?[\d.]+)")


def plots(html, kind="course"):
    """Return three things for each picture: its label, its numbers, and the points of its paths of this kind."""
    found = []
    for svg in re.findall(r'<svg class="plot".*?</svg>', str(html)):
        paths = re.findall(rf'<path class="{kind}" d="([^"]*)"', svg)
        points = [(float(x), float(y)) for d in paths for x, y in POINT.findall(d)]
        found.append(
            (re.search(r'aria-label="([^"]*)"', svg)[1], re.findall(r"<text[^>]*>([^<]*)</text>", svg), points)
        )
    return found


def number(text):
    return float(text.replace("−", "-").replace(",", ""))


def test_each_figure_has_a_point_per_step_at_its_number():
    report = audited.report()
    pictures = iter(plots(courses(report)))
    for reward in report.rewards:
        name = reward["name"]
        for column in (f"mean:{name}", f"push:gdpo:{name}", f"share:gdpo:{name}"):
            said, (high, low, first, last, *_), points = next(pictures)
            assert said.startswith(f"{name}, {column.partition(':')[0]}, steps 1 to 40: ")
            assert (first, last) == ("1", "40")
            axes = Axes((1, 40), (number(low), number(high)))
            numbers = report.steps[column].to_list()
            expected = [(axes.x(step), axes.y(x)) for step, x in zip(report.steps["step"], numbers, strict=True)]
            assert len(points) == 40 and points == [pytest.approx(point, abs=0.051) for point in expected]
            assert all(36 <= x <= 194 and 18 <= y <= 72 for x, y in points)
    assert not list(pictures)


def test_pushes_and_shares_have_one_axis_and_means_where_rewards_are_of_one_size():
    def ends(report, figure):
        return [tuple(texts[:2]) for said, texts, _ in plots(courses(report)) if f", {figure}, " in said]

    report = audited.report()
    assert all(len(set(ends(report, figure))) == 1 for figure in ("push", "share"))
    correctness, form, length = ends(report, "mean")
    assert correctness == length != form
    assert "of about the same size" in courses(report)
    alike = replace(report, steps=report.steps.with_columns(pl.col("mean:format") - 3))
    assert len(set(ends(alike, "mean"))) == 1 and "of about the same size" not in courses(alike)
    long = pl.col("mean:length") * 1000
    report = replace(report, steps=report.steps.with_columns(long))
    assert len(set(ends(report, "mean"))) == 3 and len(set(ends(report, "push"))) == 1


def test_the_step_since_when_a_mean_is_another_is_marked():
    report = audited.report()
    marks = re.findall(r'<path class="since" d="M([\d.]+),', courses(report))
    assert marks == [f"{Axes((1, 40), (0, 1)).x(7):.1f}"] * 3
    # The step stands below the axis, and in what a screen reader says.
    assert courses(report).count(">new level at step 7<") == courses(report).count(', new level at step 7"') == 3
    report = replace(report, rewards=tuple({**reward, "changed_at": None} for reward in report.rewards))
    assert "step 7" not in courses(report) and "dotted" not in courses(report)


def test_a_step_without_a_number_parts_the_course():
    report = audited.report(steps=4)
    means = pl.Series("mean:format", [None, 1.0, None, 2.0])
    report = replace(report, steps=report.steps.with_columns(means))
    _, _, points = plots(courses(report))[3]
    assert len(points) == 2
    assert len(re.findall("M[^M]*h0", courses(report))) == 9 + 1


def test_the_numbers_behind_the_pictures_are_those_of_the_steps():
    report = audited.report(steps=3)
    page = Page(courses(report))
    assert len(page.all("tr")) == 1 + 3
    assert "correctness: std" in page.text and "0.4" in page.texts
    assert [drawn.figure for drawn in courses_of(report)["format"]] == ["mean", "push", "share"]


def test_blocks_stay_in_the_terminal():
    report = audited.report()
    blocks = set(sparkline([float(x) for x in range(8)]))
    assert not blocks & set(drawn.body(report)) and not blocks & set(drawn.front(report))


def test_of_one_step_nothing_is_drawn_and_of_many_rewards_the_first():
    assert courses(audited.report(steps=1)) == ""
    made = courses(audited.report([f"r{k}" for k in range(DRAWN + 3)], steps=5))
    assert len(plots(made)) == 3 * DRAWN and f"The first {DRAWN} of {DRAWN + 3} rewards are drawn" in made


def forecast(name="a", **changes):
    told = {"difference": 0.1, "low": 0.05, "high": 0.2, "speed": 1.0, "speed_error": 0.1, "push": 0.5}
    told |= {"push_as_it_ran": 0.1, "as_it_ran": (0.2,) * 51, "forecast": (0.2, *(0.3,) * 50)}
    rewards = {name: RewardForecast(**told | changes)}
    return Forecast(method="gdpo", weights={name: 1.0}, gate=None, steps=50, from_steps=50, rewards=rewards)


def test_a_forecast_has_both_curves_and_its_interval_on_one_axis():
    made = forecast_picture(forecast(), "a")
    ((said, (high, low, first, last, *_), points),) = plots(made)
    assert said.startswith("a +0.1 over 50 steps, 80 % interval +0.05 to +0.2, under GDPO with weights a 1")
    axes = Axes((0, 50), (number(low), number(high)), width=460, height=180, right=116)
    assert (first, last) == ("0", "50") and len(points) == 2 * 51
    assert points[0] == pytest.approx((axes.x(0), axes.y(0.2)), abs=0.051)
    assert points[-1] == pytest.approx((axes.x(50), axes.y(0.3)), abs=0.051)
    strip = replace(axes, values=(0, 0.2))
    bar = re.search(r'class="interval" d="M[\d.]+,([\d.]+)V([\d.]+)"', made)
    assert [float(y) for y in bar.groups()] == pytest.approx([strip.y(0.05), strip.y(0.2)], abs=0.051)
    assert float(re.search(r'cy="([\d.]+)"', made)[1]) == pytest.approx(strip.y(0.1), abs=0.051)


@pytest.mark.parametrize("curve", [(0.2, *(0.3,) * 50), (0.2,) * 51], ids=["apart", "the same"])
def test_the_band_of_a_forecast_has_the_ends_of_its_interval_as_means(curve):
    told = forecast(difference=sum(curve[1:]) / 50 - 0.2, low=0.05, high=0.2, forecast=curve).rewards["a"]
    below, above = forecast_band(told)
    assert below[0] == above[0] == curve[0]
    assert [sum(side[1:]) / 50 - 0.2 for side in (below, above)] == pytest.approx([0.05, 0.2])
    assert all(low <= x <= high for low, x, high in zip(below, curve, above, strict=True)) or told.difference < 0.05


def test_the_logged_means_stand_behind_a_forecast_one_at_each_step():
    report = audited.report(steps=50)
    made = forecast_picture(forecast("format"), "format", report.steps)
    dots = re.search(r'<path class="logged" d="([^"]*)"', made)[1]
    assert len(POINT.findall(dots)) == 50 and "the dots are the logged means" in made
    ((_, (high, low, *_), _),) = plots(made)
    axes = Axes((0, 50), (number(low), number(high)), width=460, height=180, right=116)
    heights = [float(y) for _, y in POINT.findall(dots)]
    assert heights == pytest.approx([axes.y(x) for x in report.steps["mean:format"]], abs=0.051)


def bars(made):
    """Return the look, the left end and the width of each bar, in hundredths of its axis, with the words beside it."""
    drawn = re.findall(
        r'<span class="bar (\w+)"><svg.*?(?:<rect x="([\d.e-]+)" y="1" width="([\d.e-]+)".*?)?</svg>([^<]*)<', made
    )
    return [(look, *(float(x) for x in (left, width) if x), said) for look, left, width, said in drawn]


def test_a_report_opens_with_the_push_and_share_of_each_reward():
    report = audited.report()
    found = bars(opening(report))
    assert len(found) == 2 * len(report.rewards) and {look for look, *_ in found} == {"after"}
    pushes = [0.9, 0.5, 0.1]
    assert [width for _, _, width, _ in found[::2]] == pytest.approx([100 * x for x in pushes])
    assert [left for _, left, _, _ in found] == [0.0] * 6
    assert [number(said.replace("\xa0%", "")) for *_, said in found[::2]] == pytest.approx(pushes)
    # Where a push is below 0, every axis begins at −1, and the bar ends at 0, which is its middle.
    down = tuple({**r, "push": {m: -x for m, x in r["push"].items()}} for r in report.rewards)
    found = bars(opening(replace(report, rewards=down)))
    assert [(left, width) for _, left, width, _ in found[::2]] == [pytest.approx((50 - 50 * x, 50 * x)) for x in pushes]
    # A setting that is recommended stands below the run as it was.
    rows = [
        SimpleNamespace(method=m, title=m, recommended=m == "gdpo", push=p, update_share=p)
        for m, p in (
            ("grpo", dict.fromkeys(report.source["rewards"], 0.25)),
            ("gdpo", dict.fromkeys(report.source["rewards"], 0.75)),
        )
    ]
    found = bars(opening(replace(report, plan=tuple(rows))))
    assert found[:2] == [("before", 0.0, 25.0, "+0.25"), ("after", 0.0, 75.0, "+0.75")]


def test_an_open_forecast_is_its_sentence():
    made = forecast_picture(forecast(difference=None, low=None, high=None, why="a hardly moved."), "a")
    assert "<svg" not in made and "a hardly moved." in made


def test_a_report_with_a_recommended_forecast_shows_it_first():
    report = audited.report()
    assert "Forecast" not in drawn.body(report) and "Mean of <b>correctness: " in drawn.body(report)
    object.__setattr__(report, "recommended_forecast", forecast("correctness"))
    for made in (drawn.body(report), drawn.front(report)):
        assert made.index("verdict-line") < made.index("Forecast: ") < made.index("What each reward did")


def test_a_report_whose_forecast_is_open_shows_the_course_and_why():
    report = audited.report()
    object.__setattr__(
        report, "recommended_forecast", forecast("correctness", difference=None, low=None, high=None, why="It stood.")
    )
    made = str(opening(report))
    assert (
        "Mean of <b>correctness: " in made
        and "<b>No forecast</b> under GDPO with weights correctness 1: It stood." in made
    )


def test_names_are_text():
    for made in (courses(audited.report((NASTY, "b"))), forecast_picture(forecast(NASTY), NASTY)):
        assert not Page(str(made)).all("script") and 'alert("1")' in Page(str(made)).text
