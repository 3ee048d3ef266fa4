"""The forecasts for rows of plans: what was written down before the runs, and how it is judged, worked by hand."""

import json
import re

import polars as pl
import pytest

from experiments.forecasts import EARLIER, FORECASTS, FROM_STEPS, RUNS
from experiments.requests import answer, task_of
from experiments.setups import NEW_SETUPS, PLANS, Setup, planned_rows, setup_named
from experiments.train import grades, pay, prompts
from gdpo_audit.comparing.judging import CLEAR, judge, what_came
from views.chapters.evidence import forecasts_and_outcomes
from views.widgets import charts

OPEN = {"difference": None, "low": None, "high": None}


def said(difference, half):
    return {"difference": difference, "low": difference - half, "high": difference + half}


def test_forecasts_are_judged_as_by_hand():
    came = [0.05, -0.05, 0.01, -0.03, 0.029]
    forecasts = [said(0.04, 0.03), OPEN, said(-0.01, 0.015), said(0.01, 0.02), said(0.02, 0.01)]
    # Clear are 0.05, −0.05 and −0.03. The first has the right sign, and the first and the last lie in their intervals.
    assert judge(came, forecasts) == {
        "forecasts": 5,
        "open": 1,
        "clear": 3,
        "signs": 1,
        "intervals": 4,
        "held": 2,
        "error": pytest.approx((0.01 + 0.05 + 0.02 + 0.04 + 0.009) / 5, abs=1e-4),
        "of_no_change": pytest.approx((0.05 + 0.05 + 0.01 + 0.03 + 0.029) / 5, abs=1e-4),
    }
    assert CLEAR == 0.03


def test_each_row_has_a_forecast_of_each_reward_from_25_and_from_50_steps():
    stored = {(x["setup"], x["row"], x["from_steps"], x["reward"]) for x in json.loads(FORECASTS.read_text("utf-8"))}
    rows = [row for row in planned_rows() if row.name != "as it ran"]
    rewards = [(row, name) for row in rows for name in setup_named(row.setup).graded]
    assert stored == {(row.setup, row.name, n, name) for row, name in rewards for n in FROM_STEPS}
    assert {row.setup for row in planned_rows() if row.name == "as it ran"} >= {setup.name for setup in NEW_SETUPS}
    assert len({(row.setup, row.name) for row in planned_rows()}) == len(planned_rows())


def test_a_row_is_trained_with_its_own_weights_and_gate():
    row = next(row for row in planned_rows() if row.name == "gate" and row.setup == "pays_5")
    assert row.trained.gate == ("conciseness", "correctness") and row.trained.pays == (1, 1, 5)
    marks = {"correctness": 0, "style": 1, "conciseness": 1}
    assert [pay(row.trained, k, marks) for k in range(3)] == [0, 1, 0]
    assert [pay(setup_named("pays_5"), k, marks) for k in range(3)] == [0, 1, 5]
    noisy = next(row for row in planned_rows() if row.setup == "noise")
    assert noisy.trained.reward_weights == [3, 1, 1, 1]


def test_the_new_setups_grade_and_pay_what_they_say():
    request = prompts()[0]
    right = "".join(answer(request))
    good, bad = grades(task_of(request), right), grades(task_of(request), "")
    assert good == {"correctness": 1, "style": 1, "conciseness": 1, "strict": 1, "closeness": 1}
    assert bad["closeness"] == 0 and bad["strict"] == 0
    assert 0.5 < grades(task_of(request), right[:-3])["closeness"] < 1
    scale: Setup = setup_named("scale")
    assert (pay(scale, 0, good), pay(scale, 0, bad)) == (2, -2)


# --- the results: means by plain loops, and what the README says of them ----------------------------------------------


def test_what_came_is_that_of_a_plain_loop():
    means = {}
    for row in pl.read_parquet(RUNS).filter(setup="scale").iter_rows(named=True):
        means.setdefault((row["row"], row["reward"]), []).append(row["mean"])
    assert {len(values) for values in means.values()} == {5 * 150}
    mean = {key: sum(values) / len(values) for key, values in means.items()}
    came = what_came(pl.read_parquet(RUNS), pl.read_parquet(EARLIER))
    for reward in ("correctness", "style", "conciseness"):
        expected = mean["GDPO", reward] - mean["as it ran", reward]
        assert came["scale", "GDPO", reward] == pytest.approx(expected, abs=1e-6)


def test_what_the_readme_says_of_the_forecasts_is_what_came():
    came = what_came(pl.read_parquet(RUNS), pl.read_parquet(EARLIER))
    text = " ".join((PLANS.parent / "README.md").read_text(encoding="utf-8").split())
    for steps, words in (
        (50, "Of {clear} clear differences (3 points and more) {signs} have the right sign. Of {intervals} intervals"),
        (25, "The forecasts from 25 steps have {signs} of {clear} signs right, {held} of {intervals} intervals hold"),
    ):
        stored = [x for x in json.loads(FORECASTS.read_text("utf-8")) if x["from_steps"] == steps]
        found = judge([came[x["setup"], x["row"], x["reward"]] for x in stored], stored)
        assert words.format(**found) in text and found["open"] == 0
        assert f"{found['held']} hold what training gave" in text or steps == 25
        assert f"{100 * found['error']:.1f}" in text and f"{100 * found['of_no_change']:.1f}" in text
        assert found["signs"] >= 0.9 * found["clear"] and found["held"] >= 0.7 * found["intervals"]
        assert found["error"] <= found["of_no_change"] / 2


def test_the_picture_has_a_point_per_reward_and_row():
    rows = forecasts_and_outcomes.load_forecasts()
    points = forecasts_and_outcomes.forecast_dots(rows)
    stored = [x for x in json.loads(FORECASTS.read_text("utf-8")) if x["from_steps"] == 50]
    assert len(points) == len(rows) == len(stored)
    assert sum(not point["held"] for point in points) == sum(not row["held"] for row in rows) == 57 - 45
    drawn = forecasts_and_outcomes.picture_of_forecasts(rows)
    for held, many in (("held", 45), ("outside", 57 - 45)):
        assert len(re.findall(f'<i class="{held}" data-id="[^"]+" role="radio" aria-label="[^"]+"', drawn)) == many
    # A point is where it should be, between the ends of the axes, which are their least and greatest ticks.
    least, most = -10, 15
    (place,) = re.findall(r'data-id="pays_5~gate~correctness"[^>]* style="left: ([\d.]+)%; bottom: ([\d.]+)%', drawn)
    (row,) = [x for x in rows if (x["setup"], x["row"], x["reward"]) == ("pays_5", "gate", "correctness")]
    there = [least + float(x) / 100 * (most - least) for x in place]
    assert there == pytest.approx([100 * row["difference"], 100 * row["came"]], abs=0.01)
    assert f'class="across" style="left: 0.0%">−{-least}<' in drawn and f'left: 100.0%">+{most}<' in drawn
    said = " ".join(forecasts_and_outcomes.how_many_held(rows))
    assert "In all 27 cases where a mean changed by 3 points or more, the forecast has the right sign" in said
    assert "Of the 57 forecasts with an interval, 45 have an 80 % interval that contains" in said


def test_a_chosen_point_shows_its_setting_as_it_ran_as_forecast_and_as_it_came():
    assert len(set(forecasts_and_outcomes.names())) == 57
    misses = {
        "~".join(forecasts_and_outcomes._key(x)): abs(x["difference"] - x["came"])
        for x in forecasts_and_outcomes.load_forecasts()
    }
    assert misses[forecasts_and_outcomes.widest_miss()] == max(misses.values())
    shown = str(forecasts_and_outcomes.setup_curves("pays_5~gate~style"))
    assert "Conciseness pays 5" in shown and "the mean of 5 runs" in shown and "is for style" in shown
    (row,) = [
        x
        for x in forecasts_and_outcomes.load_forecasts()
        if (x["setup"], x["row"], x["reward"]) == ("pays_5", "gate", "style")
    ]
    lines = forecasts_and_outcomes._lines(row)
    runs = pl.read_parquet(RUNS).filter(
        pl.col("setup") == "pays_5", pl.col("row") == "gate", pl.col("reward") == "style"
    )
    first = [x["mean"] for x in runs.iter_rows(named=True) if x["step"] <= 5]
    (start,) = [x["rate"] for x in lines if (x["line"], x["step"]) == ("came", 0)]
    assert len(first) == 25 and start == pytest.approx(sum(first) / 25)
    assert [x["rate"] for x in lines if x["line"] == "as it ran"] == row["as_it_ran"]
    assert (
        charts.chart_of_speeds(forecasts_and_outcomes.speed_rows())
        .to_dict()["description"]
        .startswith("How fast each reward follows a push")
    )
