"""Sentences on what each reward does, in runs for which a plausible sentence would be wrong."""

import fake_logs
import numpy as np
import polars as pl
import pytest
from test_audit import ids, made_run, one, silenced, varied

import gdpo_audit as ga
from gdpo_audit import audit
from gdpo_audit import thresholds as t
from gdpo_audit.report import document


def coin(shape, p=0.5, seed=1):
    return (np.random.default_rng(seed).random(shape) < p).astype(float)


def two(first, second, names=("correct", "other"), method="gdpo", **options):
    return made_run(np.stack([first, second], axis=-1), method, names=names, **options)


SHAPE = (12, 8, 8)  # steps, prompts, rollouts


# --- the gate ---------------------------------------------------------------------------------------------------------


def penalised():
    """Return marks and a penalty: right answers are longer, and the penalty varies more than what they earn."""
    correct = coin(SHAPE)
    return correct, (-1 - 2 * correct + np.random.default_rng(2).normal(0, 0.3, SHAPE)).clip(-3.2, -0.1)


def inverted(correct, total):
    """Return the share of pairs in which the wrong answer has the larger total. correct: 0 or 1."""
    worse = (correct[..., :, None] < correct[..., None, :]) & (total[..., :, None] > total[..., None, :])
    return worse.sum() / (correct[..., :, None] < correct[..., None, :]).sum()


def test_the_gate_that_is_printed_puts_no_wrong_answer_before_a_right_one():
    correct, penalty = penalised()
    report = audit(two(correct, penalty, method="grpo"), primary="correct")
    assert report.plan[-1].gate and all(one(report, id).row for id in ("conflict", "priority-inversion"))
    scope = {"other": lambda completions, **_: penalty.ravel(), "correct": lambda completions, **_: correct.ravel()}
    exec(report.plan[-1].lines, scope)
    gated = np.reshape(scope["other_gated"]([]), SHAPE)
    assert inverted(correct, correct + penalty) > 0.5
    # Outside the gate the penalty becomes 0, which is the best penalty there is.
    assert inverted(correct, correct + np.where(correct >= 1, penalty, 0.0)) > 0.5
    assert inverted(correct, correct + gated) == 0


# --- noise ------------------------------------------------------------------------------------------------------------


def test_right_or_wrong_with_a_constant_added_is_no_noise():
    characters = np.random.default_rng(3).normal(-300, 120, SHAPE)
    assert "reward-noise" not in ids(audit(two(100 + coin(SHAPE), characters)))
    graded = 100 + np.random.default_rng(4).integers(0, 3, SHAPE) / 2
    assert "reward-noise" not in ids(audit(two(graded, characters)))


# --- a missing reward is not constant ---------------------------------------------------------------------------------


def tasks(every=2):
    """Return the rewards of two tasks in one run; in the groups of one task the reward of the other is missing."""
    of_first = (np.arange(SHAPE[1]) % every == 0)[:, None]
    both = coin((*SHAPE, 2), seed=6)
    return np.where(of_first, both[..., 0], np.nan), np.where(of_first, np.nan, both[..., 1])


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_a_reward_of_another_task_is_not_constant(method):
    maths, code = tasks()
    report = audit(two(maths, code, names=("maths", "code"), method=method))
    for reward, values in zip(report.rewards, (maths, code), strict=True):
        held = values[~np.isnan(values).all(-1)]
        assert reward["dead_groups"] == (held.std(-1) == 0).mean() < 0.05
        assert reward["missing"] == np.isnan(values).sum()
        assert report.steps[f"dead:{reward['name']}"].max() < 0.5
    assert not {"reward-dead", "reward-dominates", "blind-zero-std-metric"} & set(ids(report))


def test_the_table_of_steps_counts_what_is_missing_and_the_silent_groups_of_each_step():
    maths, _ = tasks()
    silent = coin(SHAPE, seed=7)
    silent[3:, :2] = 1  # in two of eight groups neither of the rewards differs
    maths[3:, :2] = 1
    steps = audit(two(maths, silent, method="grpo")).steps
    constant = (np.nan_to_num(maths) + silent).std(-1) < 1e-12
    assert steps["missing:correct"].to_list() == np.isnan(maths).sum((1, 2)).tolist()
    assert steps["silent:grpo"].to_list() == constant.mean(1).tolist() and constant[3:].mean() >= 1 / 4


# --- a reward fades ---------------------------------------------------------------------------------------------------


def fading(last, batches=20, prompts=8, k=0):
    rewards = coin((batches, prompts, 8, 2), seed=8)
    rewards[batches // 2 :, ..., k] = last
    return rewards


@pytest.mark.parametrize(("last", "severity"), [(0.0, "warning"), (1.0, "info")])
def test_a_reward_that_becomes_constant_fades(last, severity):
    rewards = fading(last)
    finding = one(audit(made_run(rewards, "gdpo")), "reward-fades")
    e = finding.evidence
    assert finding.severity == severity and e["reward"] == "correct" and finding.fix is None
    groups = rewards[:5, ..., 0].reshape(-1, 8)
    assert e["dead_groups_first_quarter"] == pytest.approx((groups.std(-1) == 0).mean())
    assert (e["dead_groups_last_quarter"], e["update_share_last_quarter"]) == (1, 0)
    assert (e["mean_first_quarter"], e["mean_last_quarter"]) == (pytest.approx(groups.mean()), last)
    assert e["groups_in_a_quarter"] == 40 and e["threshold"] == t.DEAD


@pytest.mark.slow
def test_what_does_not_fade():
    assert "reward-fades" not in ids(audit(made_run(coin((20, 8, 8, 2)), "gdpo")))
    short = audit(made_run(fading(0.0, batches=t.FADES_BATCHES - 1), "gdpo"))
    few = audit(made_run(fading(0.0, batches=12, prompts=4), "gdpo"))
    always = audit(made_run(silenced(varied(2, steps=12), 1, 0), "gdpo"))
    unused = audit(made_run(fading(0.0), "gdpo", weights=[0, 1]))
    for report in (short, few, always, unused):
        assert "reward-fades" not in ids(report)
    half = fading(0.0)
    half[10:, ::2, :, 0] = np.arange(8) % 2  # Half of the groups are left, and more than a quarter of the part.
    assert "reward-fades" not in ids(audit(made_run(half, "gdpo")))


# --- rewards that only round-off tells apart --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writer", "method"),
    [
        (fake_logs.write_trl, "gdpo"),
        (fake_logs.write_ms_swift, "gdpo"),
        (fake_logs.write_ms_swift, "grpo"),
        (fake_logs.write_ms_swift, "any"),  # its eps of 1e-8 lets everything pass
    ],
)
def test_round_off_shows_no_method(tmp_path, monkeypatch, writer, method):
    close = [(name, lambda draw, *shape: 0.7 + 1e-7 * draw.normal(size=shape)) for name in ("a", "b")]
    if method == "any":  # These are numbers that no method makes.
        drawn = np.random.default_rng(0).normal(size=(4, 8))
        monkeypatch.setattr(fake_logs, "advantages_of", lambda *_: drawn - drawn.mean(1, keepdims=True))
    writer(tmp_path, steps=6, rewards=close, weights=(1.0, 1.0), method="gdpo" if method == "any" else method)
    report = ga.audit(ga.read_run(tmp_path))
    assert (report.run["method"], report.run["reproduced"], report.run["weights"]) == (None, None, None)
    assert report.what_ran.startswith("The rewards differ by little more than float32's round-off")
    assert not {"advantages-not-reproduced", "no-components"} & {finding.id for finding in report.findings}
    assert "round-off" in str(document([report]))


def test_of_a_reward_that_is_starved_in_the_whole_run_the_step_from_which_on_is_told_beside():
    draw, places = np.random.default_rng(4), np.indices((40, 8, 8)).reshape(3, -1)
    loud, quiet = draw.normal(size=(2, 40, 8, 8)) * np.array([10, 0.3]).reshape(2, 1, 1, 1)
    quiet[:4] *= 20  # some 3 % of the update of the run, and next to nothing of that from step 5 on
    total = loud + quiet
    a = (total - total.mean(2, keepdims=True)) / total.std(2, keepdims=True, ddof=1)
    columns = {"step": places[0] + 1, "group": places[0] * 8 + places[1], "advantage": a.ravel()}
    log = pl.DataFrame(columns | {"loud": loud.ravel(), "quiet": quiet.ravel()})
    report = ga.audit(ga.read_run(log, rewards=["loud", "quiet"]))
    (found,) = [f for f in report.findings if f.id == "reward-starved"]
    assert found.evidence["since_step"] == 5 and found.message.count("step 5") == 1
    assert f"{found.title}, though by its weight it should account for 50 %" in found.message
