"""A run wants a reward higher or lower, as the sign of its weight says: with a weight below 0 it wants less. Figures
and first lines are compared with plain numpy, and logs with what they become when a reward changes its sign.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from helpers import some_at_night
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.auditing import gather
from gdpo_audit.report.group_tables import punished_tables
from gdpo_audit.report.tables import plan_table, rewards_table
from gdpo_audit.sums.wanted import directions
from gdpo_audit.thresholds import push_noise
from gdpo_audit.trials import recommending
from gdpo_audit.trials.forecast_backtest import AGAINST
from gdpo_core import config_lines
from gdpo_core.pushing import OTHER_STEPS
from gdpo_core.shared.words import signed

GROUPS, SIZE = 8, 6
PENALTY = Path(__file__).parent / "goldens" / "penalty.parquet"


def z(x, axis):
    """Return x minus its mean, divided by its standard deviation, 0 where that is 0."""
    x = x - x.mean(axis, keepdims=True)
    std = x.std(axis, ddof=1, keepdims=True)
    return np.divide(x, std, out=np.zeros_like(x), where=std > 1e-12)


def advantages(r, method, weights) -> np.ndarray:
    """Return (steps, groups, size) what a method makes of rewards, (steps, groups, size, rewards), without any eps."""
    s = r @ weights
    if method == "grpo_no_std":
        return s - s.mean(2, keepdims=True)
    if method == "grpo":
        return z(s, 2)
    sums = z(r, 2) @ weights
    return np.stack([step / step.std(ddof=1) if step.std() > 1e-12 else step for step in sums])


def push(r, a) -> np.ndarray:
    d = r - r.mean(2, keepdims=True)
    size = np.sqrt((a**2).sum() * (d**2).sum((0, 1, 2)))
    return np.divide((a[..., None] * d).sum((0, 1, 2)), size, out=np.zeros(len(size)), where=size > 0)


def punished(r, a, signs) -> np.ndarray:
    """Return of each reward the share of the answers that are better than their group's mean and get 0 or less."""
    better = signs * (r - r.mean(2, keepdims=True)) > 1e-9
    low = (a <= 1e-7)[..., None]
    return (better & low).sum((0, 1, 2)) / better.sum((0, 1, 2))


def wrong_order(x, a) -> float:
    """Return the share of pairs that differ in x in which the answer with less of x gets the larger advantage."""
    more, gets = x[..., :, None] - x[..., None, :], a[..., :, None] - a[..., None, :]
    differ = more > 1e-9
    return (differ & (gets < -1e-5)).sum() / differ.sum()


def random_run(seed, steps=12):
    """Return rewards, (steps, groups, size, rewards), their weights, of which some are below 0, and a method."""
    rng = np.random.default_rng(seed)
    k, shape = int(rng.integers(2, 5)), (steps, GROUPS, SIZE)
    rate = np.linspace(0.3, 0.6, steps)[:, None, None]
    columns = []
    for _ in range(k):
        kinds = [rng.random(shape) < rate, rng.integers(0, 5, shape) / 4, rng.integers(1, 13, shape)]
        columns.append(kinds[rng.integers(3)] + 0.0)
    for i in range(1, k):  # rewards go along with each other, or oppose each other
        if rng.random() < 0.6:
            columns[i] = columns[i] + rng.choice([-2, -1, 1, 2]) * columns[i - 1]
    weights = rng.choice([0.25, 0.5, 1, 2], k) * rng.choice([-1, 1], k)
    weights[rng.integers(k)] = 1.0
    return np.stack(columns, -1), weights, ("grpo", "gdpo", "grpo_no_std")[seed % 3]


def table_of(r, a) -> pl.DataFrame:
    steps, groups, size, k = r.shape
    places = np.arange(steps * groups * size)
    columns = {"step": places // (groups * size) + 1, "group": places // size}
    columns |= dict(zip("abcd", r.reshape(-1, k).T, strict=False)) | {"advantage": a.ravel()}
    return pl.DataFrame(columns)


def audited(r, weights, method, primary=None, **options):
    run = ga.read_run(table_of(r, advantages(r, method, weights)), rewards=[*"abcd"[: r.shape[-1]]], group="group")
    given = dict(zip("abcd", map(float, weights), strict=False))
    return ga.audit(run, weights=given, primary=primary, **options)


def gains(report, r, weights, k) -> list:
    """Return by numpy, for each row of a plan without a gate but the first: the row, how much more it pushes the reward
    of index k as wanted, that push, and by how much it pushes each reward more as wanted.
    """
    signs = np.sign(weights)
    before = signs * push(r, advantages(r, report.plan[0].method, np.array(list(report.plan[0].weights.values()))))
    rows = []
    for row in report.plan[1:]:
        if row.gate is None:
            after = signs * push(r, advantages(r, row.method, np.array(list(row.weights.values()))))
            assert [*row.push.values()] == pytest.approx(signs * after, abs=2e-3)
            rows.append((row, after[k] - before[k], after[k], after - before, after))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_at_night(60))
def test_random_logs_with_weights_below_0_are_judged_by_what_they_want(seed):
    r, weights, method = random_run(seed)
    k = seed % len(weights)
    report = audited(r, weights, method, "abcd"[k])
    signs, noise = np.sign(weights), max(0.02, r[..., 0].size ** -0.5)
    assert [x["wanted"] for x in report.rewards] == ["higher" if s > 0 else "lower" for s in signs]
    for m in ("grpo", "gdpo", "grpo_no_std"):
        a = advantages(r, m, weights)
        assert [*report.push[m].values()] == pytest.approx(push(r, a), abs=2e-3)
        assert [*report.punished[m].values()] == pytest.approx(punished(r, a, signs), abs=1e-3)
        assert report.methods[m]["inversions"] == pytest.approx(wrong_order(signs[k] * r[..., k], a), abs=2e-3)
    rows, best = gains(report, r, weights, k), next((row for row in report.plan if row.recommended), None)
    good = [x for x in rows if x[1] > noise and x[2] > 0]
    alike = [x for x in good if (x[0].method == "grpo_no_std") == (method == "grpo_no_std")]
    held_back = any(row.held_back for row in report.plan)
    assert held_back == bool(good and not alike)
    good = alike
    net = [more + sum(min(d, 0) for i, d in enumerate(moved) if i != k) for _, more, _, moved, _ in good]
    assert (best is None) == (not good)
    if best is None:
        assert "Use" not in report.first_step
        return
    row, _, _, moved, after = good[int(np.argmax(net))]
    assert row is best
    others = [i for i in range(len(weights)) if i != k]
    costs = ["abcd"[i] for i in others if moved[i] < -noise]
    printed = [
        (round(after[i] - moved[i], 2), round(after[i], 2)) for i in range(len(weights))
    ]  # push before and after
    stops = ["abcd"[i] for i in others if printed[i][1] < 0.05 and printed[i][0] - max(printed[i][1], 0) > 0.099]
    assert best.only_if == f"only if {' and '.join(stops)} may stop improving" * bool(stops) or len(stops) > 2
    assert report.what_first.endswith(best.cost) or best.cost in report.what_first
    assert f"{best.do}{' ' * bool(stops)}{best.only_if}: " in report.what_first
    for i in others:
        name = "abcd"[i] + ", to be lowered," * int(signs[i] < 0)
        there = f" {name} would be pushed" in best.cost or f"the push on {name} " in best.cost
        assert there == ("abcd"[i] in costs)
        arrow = [f"{x + 0:+.2f}".replace("-", "−") for x in (report.plan[0].push["abcd"[i]], best.push["abcd"[i]])]
        assert not there or f"{arrow[0]} → {arrow[1]}" in best.cost or f"from {arrow[0]} to {arrow[1]}" in best.cost


# --- a reward becomes its negative, and its weight too ----------------------------------------------------------------


def turned(report, name) -> dict:
    """Return all that must be the same in a report where a reward and its weight change their signs: the pushes on that
    reward, its mean and its forecast have their signs changed back.
    """
    k = [reward["name"] for reward in report.rewards].index(name)
    sign = -1 if report.rewards[k]["wanted"] == "lower" else 1

    def back(figures):
        return {n: x if x is None or n != name else sign * x for n, x in figures.items()}

    def foretold(row):
        ends = {n: [x[e] for e in ("low", "difference", "high")] for n, x in (row.forecast or {}).items()}
        ends = {n: [] if None in x else x for n, x in ends.items()}
        return {n: sorted(sign * e for e in x) if n == name else x for n, x in ends.items()}

    rows = [
        (
            *(row.method, row.recommended, bool(row.held_back), row.only_if, row.gate and row.gate["on"]),
            *(row.update_share, back(row.push), row.punished, row.inversions, row.tied_pairs, row.dead_groups),
            *(back(row.weights), foretold(row), row.off),
        )
        for row in report.plan
    ]
    return {
        "findings": [(x.id, x.severity, x.row, round(x.extent, 6)) for x in report.findings],
        "plan": rows,
        "methods": report.methods,
        "punished": report.punished,
        "push": {m: back(pushes) for m, pushes in report.push.items()},
        "means": [(sign if x["name"] == name else 1) * x["mean"] for x in report.rewards],
        "advice": [(answer.title, answer.effect) for answer in ga.advise(report)],
        "first": report.first_step.split()[0],
    }


def near(x):
    """Return nested values in which each number is compared up to round-off."""
    if isinstance(x, dict):
        return {key: near(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(map(near, x))
    return pytest.approx(x, abs=1e-6, rel=1e-5, nan_ok=True) if isinstance(x, float) else x


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_at_night(18))
def test_a_reward_and_its_weight_may_both_change_their_signs(seed):
    r, weights, method = random_run(seed, steps=24)
    weights = np.abs(weights)
    other = seed % len(weights)
    straight = audited(r, weights, method, "abcd"[other])
    for k in range(len(weights)):
        if len(weights) > 2 or k == other:  # weights that are all below 0 are another matter
            turn = np.where(np.arange(len(weights)) == k, -1.0, 1.0)
            backwards = audited(r * turn, weights * turn, method, "abcd"[other])
            assert turned(backwards, "abcd"[k]) == near(turned(straight, "abcd"[k]))


# --- the run with the penalty of length -------------------------------------------------------------------------------


def test_a_run_with_a_penalty_is_told_that_gdpo_would_push_the_length_up():
    """GDPO was trained on this task with three seeds: the mean of n_tokens rose from 5.9 to 11.8, of at most 12."""
    report = ga.audit(ga.read_run(PENALTY), primary="has_target")
    assert report.run["weights"] == pytest.approx({"has_target": 1, "has_dot": 1, "n_tokens": -0.1})
    assert not any(row.recommended for row in report.plan)
    gdpo = next(row for row in report.plan if row.method == "gdpo")
    ran = report.plan[0]
    assert ran.push["n_tokens"] < -0.05 and gdpo.push["n_tokens"] > 0.4
    assert "Use GDPO" not in report.what_first
    assert f"No setting is recommended: has_target {AGAINST}" in report.what_first
    assert gdpo.forecast["n_tokens"]["low"] is None  # as has_target fails its test on the log, nothing is foretold
    words = "n_tokens, to be lowered, would be pushed up (push −0.08 → +0.48)"
    assert report.what_first.endswith(f"It has a cost: {words}.")
    effects = {answer.title: answer.effect for answer in ga.advise(report)}
    assert effects["Push on other rewards"] == "mixed"  # has_dot is pushed more, and n_tokens is no longer lowered
    heads = plan_table(report).head[1], [row[0] for row in rewards_table(report).rows][2]
    assert heads == ("push: has_target / has_dot / n_tokens, to be lowered", "n_tokens, to be lowered")
    falls = next(x for x in report.findings if x.id == "reward-falls")
    assert "while the mean of n_tokens, to be lowered, goes from 9.26 to 4.83" in falls.message


def test_a_penalty_that_rises_is_the_warning_and_its_order_is_the_other_way_round():
    report = ga.audit(ga.read_run(PENALTY, rewards=["has_target", "has_dot", "n_tokens"]), primary="n_tokens")
    assert not any(x.id == "reward-falls" for x in report.findings)
    table = pl.read_parquet(PENALTY)
    x, a = (table[name].to_numpy().reshape(60, 8, 8) for name in ("n_tokens", "advantage"))
    assert report.methods["grpo"]["inversions"] == pytest.approx(wrong_order(-x, a), abs=1e-6)
    shown = punished_tables(report)[0]
    assert "below the mean of n_tokens" in shown.title
    backwards = table.with_columns(n_tokens=pl.col("n_tokens").reverse()).select("step", "prompt", "n_tokens")
    rows = ga.read_run(
        pl.concat([backwards, table.select("completion", "has_target", "has_dot")], how="horizontal"),
        rewards=["has_target", "has_dot", "n_tokens"],
    )
    rising = ga.audit(rows, weights={"n_tokens": -0.1}, primary="n_tokens")
    (falls,) = [x for x in rising.findings if x.id == "reward-falls"]
    assert "The mean of n_tokens rises against its weight of −0.1, from 4.83 to 9.26" in falls.title


# --- which direction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phases, asked, expected",
    [
        ([{"a": 1, "b": -0.1}], {}, (1, -1)),
        ([{"a": 1, "b": 0}], {}, (1, 0)),
        ([{"a": 1, "b": 0}, {"a": 1, "b": -2}], {}, (1, -1)),
        ([{"a": 1, "b": -2}, {"a": 1, "b": 0}], {}, (1, 0)),
        ([{"a": 1, "b": 2}, {"a": 1, "b": -2}], {}, (1, 0)),
        ([{"a": 1, "b": None}, {"a": 1, "b": -2}, {"a": 1, "b": None}], {}, (1, -1)),
        ([{"a": 1, "b": None}], {}, (1, 1)),
        ([{"a": -1, "b": -2}], {}, (1, 1)),  # upside down
        ([{"a": -1, "b": -2}], {"a": -1}, (-1, -1)),  # meant
        ([{"a": 1, "b": 2}, {"a": -1, "b": -2}], {}, (1, 1)),  # upside down since the second phase
        ([{"a": 0, "b": -2}], {}, (0, -1)),  # a penalty alone
    ],
)
def test_the_sign_of_the_last_phase_holds_and_signs_that_contradict_each_other_are_none(phases, asked, expected):
    assert directions(phases, asked) == expected


def test_where_weights_depend_on_a_column_no_phase_is_the_last():
    phases = [{"a": 1, "b": -2, "c": 1}, {"a": 1, "b": 0, "c": -1}]
    assert directions(phases, {}, in_order=False) == (1, -1, 0)


def test_a_reward_of_weight_0_is_neither_gain_nor_cost_and_never_punished():
    r, _, _ = random_run(3)
    weights = np.array([1.0, 0.0, *[0.5] * (r.shape[-1] - 2)])
    report = audited(r, weights, "grpo", "b")
    assert report.rewards[1]["wanted"] is None and np.isnan(report.punished["grpo"]["b"])
    assert np.isnan(report.methods["grpo"]["inversions"]) and not any(row.recommended for row in report.plan)
    assert "the run wants b neither higher nor lower" in plan_table(report).note
    assert ga.advise(report)[0].headline.startswith("**Not as it stands:** b matters most and has the weight 0")
    beside = audited(r, weights, "grpo", "a")
    assert all(" b " not in row.cost for row in beside.plan)


# --- what it costs, and when nothing is recommended -------------------------------------------------------------------


def facts(signs, primary=0, correlation=0.0, steps=24):
    """Return what the choice of a setting reads of a run, with rewards between 0 and 1."""
    names = tuple("abcd"[: len(signs)])
    low = np.zeros(len(signs))
    return SimpleNamespace(
        rewards=names,
        wanted=tuple(signs),
        basis=SimpleNamespace(primary=primary),
        recipe=True,
        reproduced=True,
        width=lambda k: 1.0 - low[k],
        correlation=lambda i, j: correlation,
        by_chance=lambda *k: 0.1,
        step_of="grpo",
        totals=SimpleNamespace(rewards=SimpleNamespace(low=low)),
    )


R, W, METHOD = random_run(0)
ROW = audited(R, W, METHOD, "a").plan[0]


def row_of(push, forecast=None, gate=None, title="GDPO, same weights", responses=10_000):
    """Return a row of a plan with these pushes. forecast: low, difference and high of each reward, or a sentence."""
    from msgspec.structs import replace

    told = None
    if forecast is not None:
        keys = ("low", "difference", "high")
        told = {
            n: {**dict.fromkeys(keys), "why": x, "off_by": 0.004}
            if isinstance(x, str)
            else {**dict(zip(keys, x, strict=True)), "why": "", "off_by": 0.004}
            for n, x in zip("abcd", forecast, strict=False)
        }
    setting = replace(ROW.setting, gate=gate)
    pushes = dict(zip("abcd", push, strict=False))
    return replace(
        ROW,
        push=pushes,
        forecast=told,
        setting=setting,
        title=title,
        do="Use GDPO",
        tried_on=responses,
        recommended=False,
    )


def marked(signs, before, after, forecast=None, **more):
    rows = recommending.marked(facts(signs, **more), [row_of(before), row_of(after, forecast)])
    return rows[1]


@given(
    st.tuples(*[st.sampled_from([-1, 0, 1])] * 3),
    *[st.tuples(*[st.floats(-1, 1)] * 4)] * 2,
    st.lists(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3).map(sorted), min_size=4, max_size=4),
)
def test_what_gets_better_is_never_a_cost(signs, before, after, ends):
    f, ran, row = facts((1, *signs)), row_of(before), row_of(after, ends)
    cost = recommending.cost_of(f, row, ran)
    costs = cost.split("It may have a cost")[0].split("It pushes less")[0]
    for k, name in enumerate("bcd", start=1):
        sign = (1, *signs)[k]
        shown = [name, f"{name}, to be lowered,"]
        named = any(f"{words} {says}" in costs for words in shown for says in ("would be", "may rise"))
        better = sign * row.forecast[name]["difference"] > 0
        assert not (named and better), cost
        loses = sign * (before[k] - after[k]) > 0.02
        worse = sign and max(sign * ends[k][0], sign * ends[k][2]) < 0
        told = any(f"{words} {says}" in cost for words in shown for says in ("would", "may"))
        assert told == bool(worse or (loses and sign))
        open_ = min(ends[k][0], ends[k][2]) <= 0 <= max(ends[k][0], ends[k][2])
        assert not (open_ and any(f"{words} would be" in cost for words in shown)), cost
    assert ("higher" in costs) <= (-1 in signs) and ("lower (" in costs) <= (1 in signs)


def test_a_cost_names_both_figures_in_points_of_the_range():
    tested = "a forecast of this log's second half missed by 0.4"
    row = marked((1, 1), (0.3, 0.88), (0.6, 0.57), [(0.02, 0.05, 0.08), (-0.17, -0.12, -0.07)])
    assert row.why == f"a would be 5 points higher (80 % interval 2 to 8; {tested}; push +0.30 → +0.60)"
    assert (
        row.cost == f"It has a cost: b would be 12 points lower (80 % interval 7 to 17; {tested}; push +0.88 → +0.57)."
    )
    # A forecast that lies wholly on the bad side is a cost though the push hardly falls; one that reaches 0 is none.
    held = marked((1, -1), (0.3, -0.5), (0.6, -0.49), [(0.02, 0.05, 0.08), (0.01, 0.03, 0.05)])
    told = f"b, to be lowered, would be 3 points higher (80 % interval 1 to 5; {tested}; push −0.50 → −0.49)"
    assert held.cost == f"It has a cost: {told}."
    near = marked((1, -1), (0.3, -0.5), (0.6, -0.49), [(0.02, 0.05, 0.08), (0.0, 0.03, 0.05)])
    assert near.cost == "The push on no other reward falls in the direction that the run wants by more than noise."


@pytest.mark.parametrize("sign", [1, -1])
def test_a_reward_whose_push_falls_to_about_0_is_a_reserve(sign):
    """The bound is that of the page: below 0.05 as it is printed, from at least 0.1 more."""
    inside, beyond = (marked((1, sign), (0.3, 0.5 * sign), (0.6, x * sign)) for x in (0.0451, 0.0449))
    assert inside.recommended and not inside.only_if
    assert beyond.recommended and beyond.only_if == "only if b may stop improving"
    already = marked((1, sign), (0.3, 0.02 * sign), (0.6, 0.01 * sign))
    assert already.recommended and not already.only_if  # there is nothing to stop
    against = marked((1, sign), (0.3, 0.1 * sign), (0.6, -0.3 * sign))
    way = "down" if sign > 0 else "up"
    assert f"would be pushed {way} (push {'+' if sign > 0 else '−'}0.10 →" in against.cost


def test_an_open_forecast_is_told_and_one_that_the_log_speaks_against_is_not_recommended():
    why = f"a {AGAINST}, so the 24 steps of this log do not show how fast a follows a push."
    held = marked((1, 1), (0.3, 0.5), (0.6, 0.5), [why, (0.0, 0.1, 0.2)])
    assert not held.recommended and held.held_back.startswith(f"No setting is recommended: a {AGAINST}")
    assert held.held_back.endswith("GDPO, same weights, would push it most: +0.30 → +0.60.")
    slow = marked((1, 1), (0.3, 0.5), (0.6, 0.5), ["a hardly moved, so …", (0.0, 0.1, 0.2)])
    assert slow.recommended and slow.cost.startswith("Nothing but the push speaks for it, as a has no forecast.")
    short = marked((1, 1), (0.3, 0.5), (0.6, 0.5))
    assert short.recommended and "Nothing but" not in short.cost


@pytest.mark.parametrize("sign", [1, -1])
def test_no_change_is_called_for_where_no_setting_is_better_beyond_noise(sign):
    f = facts((sign, 1))
    for after, interval, better in ((0.3201, None, True), (0.3199, None, False), (0.6, (-0.01, 0.1, 0.2), False)):
        told = None if interval is None else [tuple(sorted(sign * x for x in interval)), (0, 0, 0)]
        rows = recommending.marked(f, [row_of((0.3 * sign, 0.5)), row_of((after * sign, 0.5), told)])
        assert rows[1].recommended == better and bool(recommending.why_no_change(f, rows)) != better
    assert "may rise or fall (forecast" in recommending.why_no_change(f, rows)
    # Where the run itself does not push the reward as wanted, nothing is said.
    for before, said in ((0.0201, True), (0.0199, False)):
        rows = recommending.marked(f, [row_of((before * sign, 0.5)), row_of((before * sign, 0.5))])
        assert bool(recommending.why_no_change(f, rows)) == said
    f.reproduced = None
    assert not recommending.why_no_change(f, rows)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_a_gate_is_a_question_only_where_its_rewards_conflict_and_its_forecast_lies_above_0(signs):
    gate = {"on": "a", "reward": "b", "threshold": 1.0, "otherwise": 0.0}
    gate |= {"at_most": True} if signs[0] < 0 else {}

    def asked(correlation, low):
        ends = tuple(sorted(signs[0] * x for x in (low, 0.05, 0.1)))
        rows = [row_of((0.3, 0.5)), row_of((0.6, 0.1), [ends, (0, 0, 0)], gate)]
        f = facts(signs, correlation=correlation * signs[0] * signs[1])
        assert not any(row.recommended for row in recommending.marked(f, rows))
        return recommending.to_decide(f, rows)

    opens = "reaches 1" if signs[0] > 0 else "is at most 1"
    assert asked(-0.101, 0.001)[0] == f"One decision is open: should b count only where a {opens}?"
    assert not asked(-0.099, 0.001) and not asked(-0.101, 0.0) and not asked(0.5, 0.001)
    f = facts(signs, correlation=-0.5 * signs[0] * signs[1])
    assert not recommending.to_decide(f, [row_of((0.3, 0.5)), row_of((0.6, 0.1), None, gate)])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_push_that_is_printed_as_0_is_no_reason_to_recommend(sign):
    f = facts((sign, 1))
    for push, recommended in ((1e-17, False), (0.0049, False), (0.0051, True)):
        rows = recommending.marked(f, [row_of((-0.2 * sign, 0.5)), row_of((push * sign, 0.5))])
        assert any(row.recommended for row in rows) == recommended, push


@pytest.mark.parametrize("sign", [1, -1])
def test_a_setting_that_pushes_more_and_is_passed_over_is_named_with_the_reason(sign):
    gate = {"on": "a", "reward": "b", "threshold": 1.0, "otherwise": 0.0}
    noise = push_noise(10_000)
    f, good, loss = facts((sign, 1)), [(sign * 0.01, sign * 0.05, sign * 0.1), (0, 0, 0)], [(-0.1, 0.0, 0.1), (0, 0, 0)]
    good[0] = tuple(sorted(good[0]))

    def cost(a, b, forecast=None, with_gate=None, steps=None):
        rows = [row_of((sign * 0.3, 0.5)), row_of((sign * 0.6, 0.5), good), row_of((sign * a, b), forecast, with_gate)]
        rows[2] = structs.replace(rows[2], setting=structs.replace(rows[2].setting, **steps or {}))
        [best] = [row for row in recommending.marked(f, rows) if row.recommended]
        assert best.push["a"] == sign * 0.6
        return best.cost

    row = f"Row 2 pushes a{' down' * (sign < 0)} more ({signed(sign * 0.8)}), but "
    assert cost(0.8, 0.1, good).endswith(f"{row}takes more from the other rewards.")
    assert cost(0.8, 0.5, loss).endswith(f"{row}its forecast does not exclude a loss.")
    assert cost(0.8, 0.5, good, gate).endswith(
        f"{row}counts b only where a reaches 1, which changes the task: your choice."
    )
    steps = {"method": "grpo_no_std"}
    assert "Row 2" not in cost(0.8, 0.5, good, steps=steps), "steps of another length are not compared"
    assert "Row 2" in cost(0.601 + noise, 0.1, good) and "Row 2" not in cost(0.599 + noise, 0.1, good)


@pytest.mark.parametrize("changed", [-1, 0])
def test_weights_with_another_sign_are_no_row(monkeypatch, changed):
    r, weights = np.random.default_rng(0).normal(size=(12, GROUPS, SIZE, 2)) * [1, 5], np.array([1.0, 1.0])
    monkeypatch.setattr("gdpo_audit.trials.plan.MISSED", 10.0)
    for last, there in ((0.2, True), (0.2 * changed, False)):
        monkeypatch.setattr("gdpo_audit.trials.plan.weights_for", lambda *_, w=last: (1.0, w))
        titles = {row.title for row in audited(r, weights, "grpo", "a").plan}
        assert ("GRPO, other weights" in titles) == there


# --- a gate on a reward that is to be lowered -------------------------------------------------------------------------


def test_a_gate_on_a_reward_that_is_to_be_lowered_opens_at_its_lowest_values():
    rng = np.random.default_rng(1)
    errors = rng.choice([0.1 + 0.2, 0.3, 2.0, 3.0], (24, GROUPS, SIZE))
    style = np.where(rng.random(errors.shape) < 0.3 + 0.2 * (errors > 1), 1.0, 0.0)
    r, weights = np.stack([errors, style], -1), np.array([-1.0, 2.0])
    report = audited(r, weights, "grpo", "a")
    row = next(row for row in report.plan if row.gate)
    # 0.3 and 0.1 + 0.2 count as one value, and the gate opens at both.
    assert row.gate == {"on": "a", "reward": "b", "threshold": 0.1 + 0.2, "otherwise": 0.0, "at_most": True}
    gated = np.stack([errors, np.where(errors < 1, style, 0.0)], -1)
    expected = push(r, advantages(gated, "grpo", weights))
    assert [*row.push.values()] == pytest.approx(expected, abs=1e-3)
    told = report.forecast(gate={"reward": "b", "on": "a"})
    assert [x.push for x in told.rewards.values()] == pytest.approx(expected, abs=1e-3) and told.gate == row.gate
    with pytest.raises(gc.InputError, match="forecast, gate, at_most: expected True or False, got 1"):
        report.forecast(gate={"reward": "b", "on": "a", "at_most": 1})


@pytest.mark.parametrize("framework", ["trl", "verl", "ms_swift", "nemo_rl", "axolotl", "verifiers", "generic"])
def test_the_lines_of_such_a_gate_compare_the_other_way_round(framework):
    line = config_lines.gate(framework, ["errors", "style"], "style", "errors", 0.0, at_most=True)
    assert "errors is at most 0" in line and "<= 0" in line and ">=" not in line


def test_the_lines_of_such_a_gate_run():
    import torch

    scope = {"rewards": torch.tensor([[0.0, 1.0], [1.0, 1.0]]), "torch": torch, "gdpo_core": gc}
    exec(config_lines.gate("generic", ["errors", "style"], "style", "errors", 0.0, at_most=True), scope)
    assert scope["rewards"].tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_what_a_group_without_a_right_answer_is_goes_by_the_direction():
    rng = np.random.default_rng(0)
    right = (rng.random((12, GROUPS, SIZE)) < 0.4) * (np.arange(GROUPS) % 2)[:, None]
    r = np.stack([right, rng.random(right.shape)], -1)
    straight, backwards = (audited(r * [s, 1], np.array([s, 1.0]), "grpo", "a") for s in (1, -1))
    found = [[x for x in report.findings if x.id == "no-right-answer"] for report in (straight, backwards)]
    assert found[0] and found[0][0].evidence == found[1][0].evidence
    assert "a is 0 or less for every" in found[0][0].message and "a is 0 or more for every" in found[1][0].message


def test_facts_of_a_run_hold_the_direction():
    table = table_of(R, advantages(R, METHOD, W))
    run = ga.read_run(table, rewards=[*"abcd"[: len(W)]], group="group")
    assert gather(run, dict(zip("abcd", map(float, W), strict=False))).wanted == tuple(np.sign(W).astype(int))


# --- steps of another length ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo_no_std", "grpo"])
def test_a_push_recommends_nothing_between_methods_whose_steps_have_different_lengths(method):
    """A reward that pays a tenth is drowned by another one, so that GDPO pushes it more, whichever method runs."""
    draw = np.random.default_rng(0)
    right, style = 0.1 * draw.integers(0, 2, (10, 8, 8)), 1.0 * draw.integers(0, 2, (10, 8, 8))
    total = right + style
    a = total - total.mean(-1, keepdims=True)
    a = a if method == "grpo_no_std" else a / (total.std(-1, ddof=1, keepdims=True) + 1e-4)
    log = [
        {"step": s, "prompt": f"{s}.{p}", "right": right[s, p, i], "style": style[s, p, i], "advantage": a[s, p, i]}
        for s, p, i in np.ndindex(10, 8, 8)
    ]
    report = ga.audit(ga.read_run(log), primary="right")
    gdpo = next(row for row in report.plan if row.method == "gdpo")
    assert report.run["method"] == method and gdpo.push["right"] > report.plan[0].push["right"] + 0.3
    answer = next(answer for answer in ga.advise(report) if answer.title == "Push on right")
    if method == "grpo":
        assert OTHER_STEPS not in report.what_first + answer.sentence
        assert any(row.recommended for row in report.plan)
    else:
        assert not gdpo.recommended and OTHER_STEPS in answer.sentence
    # Where no other weights do it, GDPO is named and held back.
    rows = [structs.replace(row, recommended=False, held_back="") for row in (report.plan[0], gdpo)]
    last = recommending.marked(gather(ga.read_run(log), primary="right"), rows)[-1]
    assert last.recommended == (method == "grpo")
    assert last.held_back.startswith(f"No setting is recommended: {OTHER_STEPS}") == (method == "grpo_no_std")
