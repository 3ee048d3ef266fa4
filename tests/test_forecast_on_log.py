"""The test that a forecast does on its own log, compared with coins whose speeds are known."""

from dataclasses import replace

import numpy as np
import pytest
from test_forecast import report_of, simulate

from gdpo_audit.trials import trials
from gdpo_audit.trials.forecast_backtest import BELOW, DISAGREE, LogTest

STEPS = 50


def forecast_of(seed=0, **options):
    rows, rates = simulate("grpo", [1, 3], STEPS, seed, **options)
    return report_of(rows, weights={"a": 1, "b": 3}).forecast(method="gdpo"), rates


@pytest.mark.parametrize("seed", range(4))
def test_coins_that_follow_the_model_pass_it(seed):
    forecast, _ = forecast_of(seed)
    for told in forecast.rewards.values():
        assert told.difference is not None and not told.why
        assert (told.tested.fitted_to, told.tested.foretold) == ((0, 24), (25, 49))
        assert abs(told.tested.error) < 0.1
        assert str(told.tested).startswith("tested on this log: steps 25 to 49 foretold from 0 to 24, off by 0.")


def test_a_reward_that_turns_against_its_push_is_open():
    forecast, _ = forecast_of(later=(1, -1.5))
    b = forecast.rewards["b"]
    assert b.difference is None and b.why.startswith("b moved against its push")


def test_a_reward_that_stops_half_way_is_open():
    forecast, rates = forecast_of(speeds=(0.03, 0.3), later=(1, 0))
    b = forecast.rewards["b"]
    assert b.difference is None and "b followed its push at another speed in the second half" in b.why
    assert b.tested.speeds[0] > 3 * b.tested.speeds[1]
    # It was foretold to go on, so that less came than was foretold.
    assert b.tested.error < 0 and rates[-1, 1] == pytest.approx(rates[25, 1], abs=0.01)


LOG_TEST = LogTest(
    first=(0, 24),
    rest=(25, 49),
    error=np.array([0.02]),
    noise=np.array([0.01]),
    moved=np.array([0.1]),
    speeds=np.array([[0.05], [0.05]]),
    errors=np.array([[0.01], [0.01]]),
    held=np.array([True]),
)


def test_what_it_was_off_by_is_a_part_of_the_foretold_move_beyond_the_noise():
    assert LOG_TEST.off_by(0) == pytest.approx(0.1)
    assert replace(LOG_TEST, error=np.array([-0.02])).off_by(0) == pytest.approx(0.1)
    assert replace(LOG_TEST, error=np.array([0.009])).off_by(0) == 0
    assert LOG_TEST.objection(0, "x") == ""


@pytest.mark.parametrize(("error", "open_"), [(0.1099, False), (0.1101, True)])
def test_it_objects_where_the_error_is_larger_than_the_move(error, open_):
    said = replace(LOG_TEST, error=np.array([error])).objection(0, "x")
    assert said == (
        "x went in steps 25 to 49 further from what steps 0 to 24 foretold than it was foretold to move" * open_
    )


@pytest.mark.parametrize(("by", "open_"), [(0.99, False), (1.01, True)])
def test_it_objects_where_the_halves_disagree(by, open_):
    apart = by * DISAGREE * float(np.hypot(0.01, 0.01))
    said = replace(LOG_TEST, speeds=np.array([[0.05], [0.05 + apart]])).objection(0, "x")
    assert said.startswith("x followed its push at another speed") == open_


@pytest.mark.parametrize(("by", "open_"), [(0.99, False), (1.01, True)])
@pytest.mark.parametrize(("half", "steps"), [(0, "0 to 24"), (1, "25 to 49")])
def test_it_objects_where_a_half_moved_against_the_push(half, steps, by, open_):
    speeds = LOG_TEST.speeds.copy()
    speeds[half] = -by * BELOW * 0.01
    said = replace(LOG_TEST, speeds=speeds, errors=np.array([[0.01], [0.01]]) * 1.0).objection(0, "x")
    assert (said == f"x moved against its push in steps {steps}") == open_


def test_a_half_in_which_the_reward_was_not_pushed_says_nothing():
    unpushed = replace(LOG_TEST, speeds=np.array([[0.05], [0.0]]), errors=np.array([[0.01], [np.inf]]))
    assert unpushed.objection(0, "x") == ""


def test_a_setting_whose_steps_have_another_length_is_not_forecast():
    rows, _ = simulate("grpo", [1, 3], STEPS, 0)
    report = report_of(rows, weights={"a": 1, "b": 3})
    assert all(f.difference is not None for f in report.forecast(method="gdpo").rewards.values())
    for told in report.forecast(method="grpo_no_std").rewards.values():
        assert told.difference is None and told.why.startswith("GRPO without std takes steps of another length")


# --- logs on which it cannot be done ----------------------------------------------------------------------------------


@pytest.mark.parametrize("half", ["first", "second", "all but one step"])
def test_a_reward_that_a_half_lacks_is_open(half):
    rows, _ = simulate("grpo", [1, 3], STEPS, 0)
    lacks = {"first": lambda s: s < 25, "second": lambda s: s >= 25, "all but one step": lambda s: s != 30}[half]
    gone = [row | {"b": float("nan")} if lacks(row["step"]) else row for row in rows]
    b = report_of(gone, weights={"a": 1, "b": 3}).forecast(method="gdpo").rewards["b"]
    assert b.difference is None and b.tested is None and "b is missing in one half of the log" in b.why


def test_a_log_whose_sample_holds_one_half_alone_is_open(monkeypatch):
    """A step that holds more responses than are tried makes the sample a part of one step."""
    monkeypatch.setattr(trials, "TRIAL_RESPONSES", 64)
    rows, _ = simulate("grpo", [1, 3], STEPS, 0)
    report = report_of(rows, weights={"a": 1, "b": 3})
    for told in report.forecast(method="gdpo").rewards.values():
        assert told.difference is None and told.tested is None and "groups of one half of the steps alone" in told.why
