"""The forecast, compared with coins that follow its own model and with settings that change nothing; and bad input."""

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.comparing.compare import changes
from gdpo_audit.comparing.speeds import pooled_speeds
from gdpo_audit.report.comparison import speeds_table
from gdpo_audit.report.pages.html import document
from gdpo_audit.report.printing.terminal import print_reports
from gdpo_audit.trials.logged_groups import LoggedGroups
from gdpo_core.forecasting import Course, fit_speeds, pool, times_of

ROOT = Path(__file__).parent.parent
SAMPLES = [ROOT / "data/samples" / name for name in ("pays_5_grpo", "arithmetic")]
SPEEDS = {"a": 0.03, "b": 0.09}
PROMPTS, ROLLOUTS = 8, 12


def push_of(marks, method, weights):
    """Return (rewards,) the correlation of advantage and reward inside groups, computed from its definition."""
    a = gc.advantages(torch.tensor(marks), method, weights=weights, convention=gc.TRL).numpy()
    d = marks - marks.mean(1, keepdims=True)
    return (a[..., None] * d).sum((0, 1)) / np.sqrt((a**2).sum() * (d**2).sum((0, 1)))


def simulate(method, weights, steps, seed, speeds=(0.03, 0.09), start=(0.0, -0.5), later=(1, 1)):
    """Return the rows of a run of two coins, and their rates, (steps, 2). The logit of each coin follows its push at
    its own speed. later: by which factor each speed is multiplied in the second half.

    The push is measured on 300 groups, of which the log holds eight.
    """
    generator, logits, rows, rates = np.random.default_rng(seed), np.array(start), [], []
    for step in range(steps):
        p = 1 / (1 + np.exp(-logits))
        rates.append(p)
        marks = (generator.random((300, ROLLOUTS, 2)) < p).astype(float)
        rows += [
            {"step": step, "prompt": f"{step} {g}", "a": a, "b": b}
            for g, group in enumerate(marks[:PROMPTS])
            for a, b in group.tolist()
        ]
        factor = np.array(later if 2 * step >= steps else (1, 1))
        logits = logits + factor * np.array(speeds) * push_of(marks, method, weights) * 4 * p * (1 - p)
    return rows, np.array(rates)


def report_of(rows, **options):
    return ga.audit(ga.read_run(pl.DataFrame(rows), group="prompt", rewards=["a", "b"]), **options)


@pytest.fixture(scope="module")
def simulated():
    """Return the reports on runs of four seeds, with 50 steps under GRPO and the weights 1 and 3."""
    runs = [simulate("grpo", [1, 3], 50, seed)[0] for seed in range(4)]
    return [report_of(rows, weights={"a": 1, "b": 3}) for rows in runs]


def test_it_recovers_the_speeds_of_coins_that_follow_its_model(simulated):
    off = [
        (report.forecast().rewards[name].speed - speed) / report.forecast().rewards[name].speed_error
        for report in simulated
        for name, speed in SPEEDS.items()
    ]
    assert np.abs(off).max() < 3 and np.sqrt(np.mean(np.square(off))) < 1.6


def test_its_intervals_hold_what_another_setting_does_to_such_coins(simulated):
    mean = {m: simulate(m, w, 150, 9)[1].mean(0) for m, w in (("grpo", [1, 3]), ("gdpo", [3, 1]))}
    came = dict(zip(SPEEDS, mean["gdpo"] - mean["grpo"], strict=True))
    made = [report.forecast("gdpo", {"a": 3, "b": 1}, steps=150).rewards for report in simulated]
    held = [f[name].low <= x <= f[name].high for f in made for name, x in came.items()]
    assert came["a"] > 0.05 and came["b"] < -0.03
    assert all(f[name].difference * x > 0 for f in made for name, x in came.items())
    assert sum(held) >= 7


def test_the_setting_that_ran_changes_nothing(simulated):
    f = simulated[0].forecast(steps=80)
    for reward in f.rewards.values():
        assert reward.difference == 0 and reward.low < 0 < reward.high
        assert reward.as_it_ran == reward.forecast and len(reward.forecast) == 81
        assert reward.push == pytest.approx(reward.push_as_it_ran)
    assert f.from_steps == 50 and simulated[0].forecast().steps == 50


def test_the_difference_is_that_of_the_curves_over_the_steps(simulated):
    for steps in (1, 60, 5000):
        f = simulated[0].forecast("gdpo", {"a": 3}, steps=steps).rewards["a"]
        assert len(f.forecast) == steps + 1
        assert f.difference == pytest.approx(np.mean(f.forecast[:-1]) - np.mean(f.as_it_ran[:-1]), abs=1e-9)


def test_its_unit_is_that_of_the_reward():
    rows, _ = simulate("grpo", [1, 1], 40, 5)
    scaled = [row | {"a": 10 * row["a"] - 4} for row in rows]
    one, other = (
        report_of(x, weights={"a": w, "b": 1}).forecast(weights={"a": 3 * w}).rewards["a"]
        for x, w in ((rows, 1), (scaled, 0.1))
    )
    assert other.difference == pytest.approx(10 * one.difference)
    assert other.forecast[7] == pytest.approx(10 * one.forecast[7] - 4)
    assert other.speed == pytest.approx(one.speed)


def test_a_reward_that_does_not_act_does_better_where_it_does():
    rows, _ = simulate("grpo", [1, 1], 50, 6)
    made = report_of(rows, weights={"a": 1, "b": 1}).forecast(weights={"b": 0}, steps=150)
    assert made.rewards["a"].low > 0 > made.rewards["b"].high


def test_a_gate_raises_the_push_on_what_it_goes_by():
    rows, _ = simulate("grpo", [1, 1], 50, 7)
    report = report_of(rows, weights={"a": 1, "b": 1})
    made = report.forecast(gate={"reward": "b", "on": "a"}, steps=150)
    marks = np.array([[row["a"], row["b"]] for row in rows]).reshape(-1, ROLLOUTS, 2)
    gated = marks.copy()
    gated[..., 1] *= marks[..., 0]
    a = gc.grpo(torch.tensor(gated), convention=gc.CONVENTIONS[report.run["convention_used"]]).numpy()
    d = marks - marks.mean(1, keepdims=True)
    push = (a[..., None] * d).sum((0, 1)) / np.sqrt((a**2).sum() * (d**2).sum((0, 1)))
    assert [x.push for x in made.rewards.values()] == pytest.approx(push, abs=1e-6)
    assert made.rewards["a"].difference > 0 > made.rewards["b"].difference
    assert made.gate == {"on": "a", "reward": "b", "threshold": 1.0, "otherwise": 0.0}


def test_what_does_not_move_is_open():
    rows, _ = simulate("grpo", [1, 1], 30, 8, speeds=(0, 0))
    made = report_of(rows).forecast("gdpo")
    told = [x for x in made.rewards.values() if x.difference is None]
    assert all(x.low is None and "so the 30 steps of this log do not show how fast" in x.why for x in told)
    constant = [row | {"b": 1.0} for row in simulate("grpo", [1, 1], 30, 8)[0]]
    b = report_of(constant).forecast("gdpo").rewards["b"]
    assert b.difference is None and b.why.startswith("b has one value in the whole log")
    assert set(b.forecast) == {1.0}
    for gate in ({"reward": "a", "on": "b"}, {"reward": "b", "on": "a"}):
        with pytest.raises(gc.InputError, match="gate: expected two rewards that differ in the log, got b, which has"):
            report_of(constant).forecast(gate=gate)


def test_what_is_missing_makes_a_rate_as_uncertain_as_fewer_groups_do():
    """The variance of a step's rate doubles if half of the groups lack a reward, and a missing mean does not count as
    0.
    """
    rows = simulate("grpo", [1, 1], 60, 3, speeds=(0, 0), start=(0.0, 2.0))[0]
    half = [row | ({"b": None} if int(row["prompt"][-1]) % 2 else {}) for row in rows]
    whole, lacking = (LoggedGroups(report_of(x).facts_with_sample("")).course.dispersion[1] for x in (rows, half))
    assert whole == pytest.approx(1 / (PROMPTS * ROLLOUTS), rel=0.2)
    assert lacking == pytest.approx(2 * whole, rel=0.25)


def test_a_speed_has_the_error_of_its_noise():
    """The logits lie exactly on a straight line, so that the error is that of a logistic regression, computed by
    hand.
    """
    time_, n = np.arange(60.0), 96
    rates = 1 / (1 + np.exp(-(-1 + 0.02 * time_)))
    pushes = type("", (), {"at": staticmethod(lambda logits: 1 / (4 / (2 + np.exp(logits) + np.exp(-logits))))})()
    course = Course(time=time_, rates=rates[:, None], dispersion=np.array([1 / n]))
    speeds = fit_speeds(course, pushes)
    w = rates * (1 - rates)
    error = 1 / np.sqrt(n * (w @ (time_ - (w @ time_) / w.sum()) ** 2))
    assert speeds.fitted[0] == pytest.approx(0.02, rel=1e-3)
    assert speeds.error[0] == pytest.approx(error, rel=1e-2)


def test_the_times_of_a_course_are_each_step_at_first():
    assert times_of(3).tolist() == [0, 1, 2, 3]
    long = times_of(100_000)
    assert long[200] == 200 and long[-1] == 100_000 and len(long) < 600


def test_speeds_of_several_runs_are_pooled(simulated):
    a, b = pooled_speeds(simulated)
    assert (a.reward, b.reward, len(a.by_run)) == ("a", "b", 4)
    assert abs(a.speed - SPEEDS["a"]) < 3 * a.error and abs(b.speed - SPEEDS["b"]) < 3 * b.error
    assert a.error < min(error for _, error in a.by_run)
    assert pool(np.array([0.1]), np.array([0.02]))[:2] == pytest.approx((0.1, 0.02))


def test_a_comparison_says_how_fast_each_reward_followed_its_push_in_either_run(simulated):
    one, other = simulated[:2]
    compared = changes(one, other)
    assert compared.speeds == pooled_speeds([one, other])
    table = speeds_table(compared)
    for row, pooled in zip(table.rows, compared.speeds, strict=True):
        (a, error_a), (b, error_b) = pooled.by_run
        assert row == [
            pooled.reward,
            *(f"{x:.3f} ± {e:.3f}" for x, e in ((a, error_a), (b, error_b), (pooled.speed, pooled.error))),
        ]
    assert pooled_speeds(simulated)[0].of_runs(slice(1)) == pytest.approx(pooled_speeds([one])[0].by_run[0])
    short = report_of(simulate("grpo", [1, 1], 19, 1)[0])
    assert changes(one, short).speeds == () and speeds_table(changes(one, short)) is None


def test_a_reward_that_was_never_pushed_has_no_speed():
    """The reward is constant inside every group and differs between groups."""
    rows = [row | {"a": row["step"] % 2} for row in simulate("grpo", [1, 1], 25, 1)[0]]
    report = report_of(rows)
    assert [speed.reward for speed in changes(report, report).speeds] == ["b"]
    told = report.forecast("gdpo").rewards["a"]
    assert told.difference is None and "was never pushed" in told.why


def test_a_recommendation_without_a_forecast_says_what_that_would_take(capsys):
    """A log of 19 steps is one step too short. The sentence that says so stands below the verdict, and in the HTML
    report.
    """

    def paid(steps):
        rows = simulate("grpo", [1, 5], steps, 1)[0]
        return report_of([row | {"b": 5 * row["b"]} for row in rows], primary="a")

    report = paid(19)
    assert any(row.recommended for row in report.plan)
    note = "A forecast needs a log of at least 20 steps, but this log has 19 steps."
    assert report.forecast_note == note and note in document(report)
    print_reports([report], sys.stdout)
    assert note in capsys.readouterr().out
    longer = paid(60)
    told = longer.recommended_forecast.rewards["a"]
    assert told.low > 0 and longer.forecast_note == told.why == ""


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "ppo"}, "forecast, method: expected one of grpo, .* got 'ppo'"),
        ({"weights": {"c": 1}}, "forecast, weights: expected names of rewards: a, b, got 'c'"),
        ({"weights": {"a": 0, "b": 0}}, "forecast, weights: expected one that is not 0"),
        ({"weights": {"a": 1e300}}, "forecast, weights, a: expected numbers from 1e-100 to 1e.100 in size"),
        ({"weights": {"a": 1e-300}}, "forecast, weights, a: expected numbers from 1e-100 to 1e.100 in size"),
        ({"steps": 0}, "forecast, steps: expected a whole number from 1 to 100,000, got 0"),
        ({"steps": 100_001}, "from 1 to 100,000, got 100001"),
        ({"steps": 2.5}, "a whole number"),
        ({"steps": True}, "a whole number"),
        ({"gate": {"reward": "a", "on": "a"}}, "forecast, gate: expected"),
        *[
            (
                {"gate": gate},
                r"^forecast, gate: expected \{'reward': …, 'on': …\} with a reward and another one .* a, b, got",
            )
            for gate in (
                "a",
                ["a", "b"],
                1,
                {},
                {"reward": "a"},
                {"on": "a"},
                {"reward": "a", "on": None},
                {"reward": "a", "on": 1},
                {"reward": ["a"], "on": "b"},
                {"reward": np.array(["a", "b"]), "on": "b"},
                {"reward": "a", "on": "c"},
            )
        ],
        *[
            (
                {"gate": {"reward": "a", "on": "b", key: 0.5}},
                f"^forecast, gate: expected no keys but reward, on, threshold, otherwise, at_most, got {key!r}$",
            )
            for key in ("treshold", "fallback", "", 1, None)
        ],
        *[
            ({"gate": {"reward": "a", "on": "b", key: value}}, f"^forecast, gate, {key}: expected a finite number, got")
            for key in ("threshold", "otherwise")
            for value in (None, "1", [1], np.nan, np.inf, np.array([1.0]))
        ],
        ({"gate": {"reward": "a", "on": "b", "threshold": "x"}}, "forecast, gate, threshold: expected a finite number"),
        ({"gate": {"reward": "a", "on": "b", "otherwise": 10**400}}, "forecast, gate, otherwise: expected a finite"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(simulated, given, words):
    with pytest.raises(gc.InputError, match=words):
        simulated[0].forecast(**given)


def test_a_log_that_does_not_tell_is_one_sentence():
    rows, _ = simulate("grpo", [1, 1], 19, 1)
    with pytest.raises(gc.InputError, match="forecast: expected a log of at least 20 steps, got 19"):
        report_of(rows).forecast()
    with pytest.raises(gc.InputError, match="pooled_speeds: expected at least one report, got none"):
        pooled_speeds([])
    alone = [row | {"prompt": f"{i}"} for i, row in enumerate(simulate("grpo", [1, 1], 25, 1)[0])]
    with pytest.raises(gc.InputError, match="groups of several responses"):
        report_of(alone).forecast()


# --- samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_forecast_of_a_sample_takes_no_longer_than_it_may(path):
    report = ga.audit(ga.read_run(path))
    start = time.process_time()
    f = report.forecast("gdpo", steps=150)
    assert time.process_time() - start < 0.3
    table = f.table()
    assert table["reward"].to_list() == list(f.rewards) and f.to_dict()["from_steps"] == report.source["steps"]
