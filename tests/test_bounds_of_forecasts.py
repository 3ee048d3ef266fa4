"""Bounds and numbers of forecasts, group sizes, restarts, steps and ties, by hand on both sides of each."""

from types import SimpleNamespace as Holds

import numpy as np
import polars as pl
import pytest
import torch

from gdpo_audit.logs.groups import leads, restarts
from gdpo_audit.logs.numbers import sizes
from gdpo_audit.trials import run_forecast
from gdpo_audit.trials.forecast_backtest import LogTest
from gdpo_core import forecasting
from gdpo_core.numerics.pairs import ranks_despite_eps

pytestmark = pytest.mark.every_case


# --- forecasts --------------------------------------------------------------------------------------------------------


def said_of(speeds, errors):
    """Return what a log's own test says against a reward with these speeds in its halves."""
    held = Holds(held=[True], first=(1, 9), rest=(10, 20), off_by=lambda k: 0.0)
    held.speeds, held.errors = np.array([speeds]).T, np.array([errors]).T
    return LogTest.objection(held, 0, "a")


@pytest.mark.parametrize(("second", "objects"), [(2.49, False), (2.51, True)])
def test_halves_disagree_from_three_standard_errors_on(second, objects):
    """The standard errors 0.3 and 0.4 make 0.5 together, and the first speed is 1."""
    assert ("at another speed" in said_of([1, second], [0.3, 0.4])) == objects


@pytest.mark.parametrize(("speed", "against"), [(-0.61, True), (-0.59, False)])
def test_a_half_is_against_a_push_from_two_standard_errors_below_0_on(speed, against):
    assert ("against" in said_of([speed, speed], [0.3, 0.3])) == against


@pytest.mark.parametrize(
    ("error", "spread", "why"), [(0.9e6, 0.99, ""), (1.1e6, 0.99, "never pushed"), (1.0, 1.01, "hardly moved")]
)
def test_a_speed_is_not_known_whose_error_or_spread_is_too_large(monkeypatch, error, spread, why):
    monkeypatch.setattr(run_forecast, "objection_of_run", lambda *_: "")
    log = Holds(facts=Holds(rewards=["a"]), course=Holds(time=range(5)), range=[1.0])
    speeds = Holds(error=[error], fitted=[1.0], log_spread=[spread])
    says = run_forecast._why_open(log, speeds, None, 0)
    assert why in says if why else not says


def test_an_interval_is_made_of_the_errors_of_the_model(monkeypatch):
    """All draws agree on a difference of 0.1. Eight of ten errors of the model lie within the factor e^(1.2816 × 0.6) =
    2.15757, and the least error is 1.2816 × 0.012 = 0.0153792. So the ends lie √((0.1 × (1 − 1/2.15757))² +
    0.0153792²) = 0.055815 below and √(0.115757² + 0.0153792²) = 0.116774 above.
    """
    monkeypatch.setattr(run_forecast, "_why_open", lambda *_: "")
    log, speeds = Holds(range=np.array([1.0]), low=np.array([0.0])), Holds(speed=[1.0], spread=[0.1])
    course = np.zeros((2, 1, 1))
    compared = Holds(differences=np.full((101, 1), 0.1), as_it_ran=course, forecast=course)
    compared.at_every_step = lambda course, k: course[:, 0, k]
    pushes = Holds(measured=[0.5])
    run = Holds(log=log, speeds=speeds, test=None, before=pushes)
    made = run_forecast._reward_forecast(run, compared, pushes, 0, "")
    assert (made.low, made.high) == pytest.approx((0.1 - 0.055815, 0.1 + 0.116774), abs=1e-5)


def test_a_hundred_draws_are_made_and_seven_tenths_of_a_difference_carry_over(monkeypatch):
    monkeypatch.setattr(run_forecast, "integrate", lambda pushes, starts, drawn, times: np.full(drawn.shape, pushes))
    speeds = Holds(start=np.zeros(2), speed=np.zeros(2), quantile=lambda p: p, starts=lambda drawn: drawn)
    compared = run_forecast._compare(speeds, 0.0, 1.0, 3)
    assert compared.forecast.shape == (101, 2) and (compared.forecast == 0.7).all()


def test_a_course_is_computed_at_every_step_up_to_200_and_then_at_gaps_that_grow_by_two_percent():
    assert forecasting.times_of(1000)[198:204].tolist() == [198, 199, 200, 204, 208, 212]


def test_the_speed_of_a_reward_that_was_never_pushed_is_as_the_others_say():
    """The other speed is 0.002 for sure, so the centre of the logarithms has the variance 1/(1/0.6² + 1/2²) = 0.33028,
    and lies 0.33028/4 of the way from log 0.002 to the prior's log 0.02. The reward itself varies by another 0.6².
    """
    grid, chance = forecasting._together(np.array([0.002, 0.0]), np.array([1e-5, np.inf]))
    logs = np.log(grid)
    mean = chance[1] @ logs
    assert mean == pytest.approx(np.log(0.002) + np.log(10) * 0.33028 / 4, abs=0.01)
    assert np.sqrt(chance[1] @ (logs - mean) ** 2) == pytest.approx(np.sqrt(0.36 + 0.33028), abs=0.01)


# --- sizes of groups --------------------------------------------------------------------------------------------------

PAIRS = np.array([1.0, -1, 1, -1])  # of its 6 orders, 4 make two pairs that add up to 0


@pytest.mark.parametrize(("batches", "size"), [(6, 2), (5, None)])
def test_a_smaller_size_is_no_chance_below_one_in_a_hundred(batches, size):
    """Groups of 4 would hold such pairs with the chance (2/3)^(2 × 6) = 0.008, and in five batches 0.017."""
    found = sizes.infer([8] * batches, [np.tile(PAIRS, 2)] * batches, [])
    assert (found and found.size) == size


def test_the_chance_of_what_no_shuffle_shows_is_half_a_shuffle_of_400():
    assert sizes._chance(2, 4, [np.array([3.0, -1, -2, 0])]) == pytest.approx(1 / 800)


def test_the_chance_is_taken_over_64_groups():
    of = {n: sizes._chance(2, 4, [PAIRS] * n, enough=1e-300) for n in (63, 64, 65)}
    assert of[63] > of[64] == of[65]


@pytest.mark.parametrize(("prompts", "chance"), [(11, (1 / 11) ** 11), (9, 1.0)])
def test_prompts_show_a_size_if_two_groups_share_one_with_less_than_a_tenth(prompts, chance):
    """Groups of 1 look like groups of 2 if each of the pairs shares a prompt, which all are equally common."""
    batch = [np.repeat(np.arange(prompts), 2)]
    assert sizes._chance_of_prompts(2, 1, batch, batch) == pytest.approx(chance)


@pytest.mark.parametrize(("whole", "found"), [(8, True), (7, False)])
def test_advantages_add_up_where_they_do_in_four_fifths_of_the_groups(whole, found):
    sums = [0.0] * whole + [1.0] * (10 - whole)
    assert restarts._add_up(pl.DataFrame({"sum": sums, "size": [1.0] * 10})) == found


# --- restarts, steps and ties -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "keys", "restart"), [(1, True, True), (1, False, False), (2, False, True)])
def test_a_pass_that_ends_where_the_first_did_decides_alone(last, keys, restart):
    """Steps 0 and 1 come, then steps 0 to `last`, each with two rows. Only groups show that the run began anew, or a
    step that is new.
    """
    steps = [0, 0, 1, 1, *np.arange(last + 1).repeat(2).tolist()]
    rows = pl.DataFrame({"step": steps, "_pass": [0] * 4 + [1] * (len(steps) - 4), "_file": 0})
    assert restarts._restarted(rows.with_columns(_key=pl.lit(0)) if keys else rows) == restart


def test_a_restart_is_one_pass_more_from_the_row_in_which_the_step_falls():
    rows = pl.DataFrame({"step": [1, 1, 2, 2, 1, 1, 2, 2, 3, 3], "_file": 0, "_key": [5, 5, 6, 6, 5, 5, 6, 6, 7, 7]})
    ordered = restarts.in_order(rows.with_row_index("row"), ["a"])
    assert ordered["row"].to_list() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9]
    assert ordered.sort("row")["_pass"].to_list() == [0] * 4 + [1] * 6


@pytest.mark.parametrize(("values", "may"), [(2, False), (3, True), (10, True), (11, False)])
def test_a_column_of_three_numbers_or_more_with_four_rows_each_may_number_the_steps(values, may):
    rows = pl.DataFrame({"a": [min(row, values - 1) for row in range(40)]})
    assert leads._may_be_step(rows, "a") == may


@pytest.mark.parametrize(("apart", "ranks"), [(0.0049, [0, 1, 1, 2]), (0.0051, [0, 1, 2, 3])])
def test_an_eps_parts_a_tie_from_half_a_hundredth_of_the_largest_advantage_on(apart, ranks):
    bare = torch.tensor([[-1, 0.5, 0.5, 0.9]], dtype=torch.float64)
    made = bare + torch.tensor([0, 0, apart, 0])
    assert ranks_despite_eps(made, bare, 1e-9).tolist() == [ranks]
