"""Columns that do not count, rewards that follow from others, and advantages that nothing known makes."""

from math import isnan

import numpy as np
import pytest
from test_audit import advantages, made_run, one, with_id

from gdpo_audit import audit
from gdpo_audit.report import summary
from gdpo_core.config_lines import switch_to_gdpo

SHAPE = (12, 8, 8)
OF_SHARES = {"reward-dominates", "reward-starved", "reward-noise"}


def three(seed=0):
    """Return three rewards by name: one is 0 or 1, one is nearly constant, and one goes from 0 to 10 and is opposed by
    the second.
    """
    rng = np.random.default_rng(seed)
    digit, vowels = (rng.random(SHAPE) < 0.5).astype(float), rng.integers(0, 11, SHAPE).astype(float)
    short = np.clip(0.6 - 0.03 * vowels + 0.1 * rng.normal(size=SHAPE), 0, 1)
    return {"digit": digit, "short": short, "vowels": vowels}


def metrics(seed=1):
    """Return two metrics by name: a count that nearly follows the second reward, and a number of no relation to any."""
    rng = np.random.default_rng(seed)
    return {"n_words": (200 - 300 * three()["short"] + rng.normal(size=SHAPE)).round(), "judge": rng.random(SHAPE)}


def of(columns, advantage=None, **options):
    run = made_run(np.stack(list(columns.values()), -1), names=tuple(columns), advantage=advantage)
    return audit(run, **options)


def made(columns, method="grpo", weights=None):
    return advantages(np.stack(list(columns.values()), -1), method, weights)


def same_figures(a, b):
    assert a.methods == b.methods and a.rewards == b.rewards and a.steps.equals(b.steps)
    ids = [[(f.id, f.severity, f.message, f.fix) for f in r.findings] for r in (a, b)]
    assert ids[0] == ids[1]


# --- weight 0 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_metrics_beside_the_rewards_change_no_figure_and_no_line(method):
    rewards, extra = three(), metrics()
    advantage = made(rewards, method, [1, 0.5, 2])
    alone, beside = (of(x, advantage, primary="digit") for x in (rewards, rewards | extra))
    same_figures(alone, beside)
    assert beside.run["not_counted"] == dict.fromkeys(extra, "weight 0")
    assert (
        summary.source_facts(beside)["notes"] == "n_words (weight 0) and judge (weight 0) do not count as rewards here."
    )
    assert beside.run["weights"] == alone.run["weights"] | dict.fromkeys(extra, 0.0)


def test_a_reward_function_of_weight_0_keeps_its_place():
    columns = {**{"digit": three()["digit"]}, **metrics(), **{"vowels": three()["vowels"]}}
    names, weights = list(columns), [1, 0, 0, 2]
    for report in (of(columns, made(columns, "grpo", weights)), of(columns, weights=weights)):
        lines = report.plan[1].lines
        assert lines == switch_to_gdpo("trl", names, weights)
        assert [reward["name"] for reward in report.rewards] == ["digit", "vowels"]
    # At the end of the log the column may be a metric as well, but the caller knows better.
    last = {"digit": columns["digit"], "vowels": columns["vowels"], "judge": columns["judge"]}
    assert of(last, made(last, "grpo", [1, 2, 0])).plan[1].lines == switch_to_gdpo("trl", ["a", "b"], [1, 2])


# --- rewards that follow from others ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_weighted_copy_says_the_weight_and_counts_for_nothing():
    rewards, weights = three(), {"digit": 1, "short": 0.5, "vowels": 0.2}
    copies = {f"{name}_weighted": weights[name] * column for name, column in rewards.items()}
    for advantage in (None, made(rewards, "grpo", list(weights.values()))):
        report = of(rewards | copies, advantage)
        assert report.run["weights_used"] == weights
        assert report.run["weights_from"] == ("log" if advantage is None else "solved")
        assert report.run["not_counted"]["short_weighted"] == "0.5 × short"
        assert not with_id(report, "rewards-collinear")
        assert report.methods == of(rewards, advantage, weights=weights).methods
    # The column stands before its reward, and no other column is like it.
    first = of({"weighted/short": 0.5 * rewards["short"]} | rewards)
    assert first.run["weights_used"] == {"digit": 1, "short": 0.5, "vowels": 1}
    assert first.run["weights_from"] == "assumed"


@pytest.mark.parametrize("method", [None, "grpo"])
def test_no_share_and_no_fix_is_told_of_rewards_that_follow_from_others(method):
    rewards = three()
    total = {**rewards, "sum": rewards["digit"] + rewards["short"]}
    report = of(total, method and made(rewards, method, [1, 0.5, 2]), primary="digit")
    told = {r["name"]: not isnan(r["update_share"]["grpo"]) for r in report.rewards}
    assert told == {"digit": False, "short": False, "vowels": True, "sum": False}
    assert report.steps["share:gdpo:digit"].null_count() == len(report.steps)
    assert one(report, "rewards-collinear") and report.findings[0].id == "rewards-collinear"
    assert not OF_SHARES & {f.id for f in report.findings} and not report.plan
    # GDPO divides each column by its own std, which tells a total from its parts.
    same_figures(*(of(x, made(rewards, "gdpo", [1, 0.5, 2]), primary="digit") for x in (rewards, total)))


# --- one unit of weights ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_weights_that_are_known_up_to_scale_have_one_unit_everywhere():
    rng = np.random.default_rng(1)
    columns = {"acc": rng.random(SHAPE) < 0.5, "fmt": rng.random(SHAPE) < 0.93, "tone": rng.random(SHAPE)}
    rewards = {name: column.astype(float) for name, column in columns.items()}
    report = of(rewards, made(rewards, "grpo", [1, 0.5, 2]).round(4), primary="acc")
    assert report.run["weights_up_to_scale"] and report.run["weights"] == {"acc": 2, "fmt": 1, "tone": 4}
    assert "acc : fmt : tone = 2 : 1 : 4" in report.what_ran
    found = one(report, "priority-inversion")
    assert "(it is 2 now)" in found.message
    for method in ("grpo", "gdpo"):  # Above this weight, in this unit, no pair is in the wrong order.
        enough = found.evidence[f"break_even_{method}"]
        least = [of(rewards, weights=[enough * x, 1, 4], primary="acc") for x in (0.99, 1.01)]
        assert least[0].methods[method]["inversions"] > 0 == least[1].methods[method]["inversions"]
        assert report.what_if(method, {"acc": 1.01 * enough}).after["inversions"] == 0
