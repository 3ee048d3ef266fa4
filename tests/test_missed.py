"""Faults that a log shows although no method looks at them: impossible advantages, no right answer, a falling
reward.
"""

import numpy as np
import pytest
import torch
from test_audit import advantages, ids, made_run, one, with_id

import gdpo_core as gc
from gdpo_audit import audit
from gdpo_core.shared.words import number

STEPS, PROMPTS, ROLLOUTS = 12, 8, 8


def coins(p, seed=0, steps=STEPS):
    """Return random rewards of 0 and 1, (steps, prompts, rollouts). p: the probability of a 1, one number or one per
    step or group.
    """
    draw = np.random.default_rng(seed).random((steps, PROMPTS, ROLLOUTS))
    return (draw < np.asarray(p, dtype=float).reshape(*np.shape(p), *[1] * (3 - np.ndim(p)))).astype(float)


# --- advantages that no rewards make ----------------------------------------------------------------------------------


def z(x, eps=1e-6):
    std = x.std(-1, ddof=1, keepdims=True)
    return np.where(std > 0, (x - x.mean(-1, keepdims=True)) / (std + eps), 0)


SOUND = {
    "rounded": lambda r: z(r.sum(-1)).round(2),
    "bfloat16": lambda r: torch.tensor(z(r.sum(-1))).bfloat16().double().numpy(),
    "a factor per group": lambda r: z(r.sum(-1)) * (1 + 4 * (np.arange(r.shape[1]) % 7 == 0)[:, None]),
    "large rewards": lambda r: 5000 * (r[..., 0] - r[..., 0].mean(-1, keepdims=True)),
}


@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_sound_advantages_are_not_impossible(make):
    rewards = np.stack([coins(np.linspace(0.05, 0.95, 12)), coins(0.9, seed=1)], -1)
    report = audit(made_run(rewards, framework="generic", advantage=make(rewards)))
    assert "advantage-impossible" not in ids(report)


def test_a_division_by_the_round_off_of_equal_rewards_is_said_once():
    r = np.stack([coins(0.5), coins(0.5, seed=1)], -1)
    a = z(r.sum(-1))
    r[3, 2] = r[3, 2, 1]
    r[3, 2, 0] = (0.0, 0.25)
    a[3, 2] = 7**-0.5
    a[3, 2, 0] = -2075.39
    (finding,) = with_id(audit(made_run(r, framework="nemo_rl", advantage=a)), "advantage-impossible")
    assert finding.message.startswith(f"1 of {a.size} logged advantages is impossible. For −2075.39 (step 4, ")
    assert finding.message.count("leave-one-out divided by the round-off of their std") == 1
    assert finding.message.endswith("issues 1518, 4158 and 4161.")


# --- groups in which no response is right -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", gc.METHODS)
@pytest.mark.parametrize(("values", "p"), [((0, 1), 0.1), ((-1, 2), 0.1), ((0, 1), 0.9), ((1, 2), 0.1), ((-1, 0), 0.1)])
def test_the_share_of_the_update_without_a_right_answer(method, values, p):
    right, brief = coins(p), coins(0.5, seed=1)
    rewards = np.stack([np.where(right, values[1], values[0]), brief], -1)
    report = audit(made_run(rewards, method, names=("correct", "brief")), primary="correct")
    a, none = advantages(rewards, method), ~right.any(-1)
    share = (a[none] ** 2).sum() / (a**2).sum()
    if share < 0.2 or values in ((1, 2), (-1, 0)):  # With other values nothing says which answers are right.
        assert "no-right-answer" not in ids(report)
        return
    finding = one(report, "no-right-answer")
    assert finding.evidence["update_share"] == pytest.approx(share, abs=1e-5)
    assert finding.evidence["groups"] == none.sum() and finding.evidence["update_share_there"] == {"brief": 1}
    assert finding.severity == ("warning" if share >= 0.5 else "info") and "brief" in finding.to_do
    assert "no-right-answer" not in ids(audit(made_run(rewards, method, names=("correct", "brief"))))


# --- a reward that falls ----------------------------------------------------------------------------------------------

LATE = np.arange(40) >= 19


def hacked(p=(0.6, 0.1), judged=(4, 9.5)):
    """Return two rewards of a run of 40 steps: whether an answer is right, which is rarer from step 20 on, and the mark
    of a judge, which is higher from there on.
    """
    judge = np.random.default_rng(2).normal(np.where(LATE, judged[1], judged[0])[:, None, None], 1, (40, 8, 8)).round()
    return np.stack([coins(np.where(LATE, p[1], p[0]), steps=40), judge], -1)


@pytest.mark.parametrize("primary", ["correct", None])
@pytest.mark.parametrize("weights", [[1, 1], [-1, 0.5]])
def test_the_reward_that_falls_since_when_and_what_rises_is_the_first_line(primary, weights):
    rewards = hacked()
    rewards[..., 0] *= weights[0]  # Where its weight is below 0, the reward is a penalty, which rises.
    run = made_run(rewards, "grpo", names=("correct", "judge"), weights=weights)
    report = audit(run, primary=primary)
    finding = report.findings[0]
    assert finding == one(report, "reward-falls") and finding.severity == "warning"
    assert report.what_first.startswith(finding.to_do) and ("--primary" in report.what_first) == (not primary)
    first, last = (rewards[part].mean((0, 1, 2)) for part in (slice(10), slice(-10, None)))
    e = finding.evidence
    assert f"from {number(first[0], 3)} to {number(last[0], 3)}" in finding.title and e["since_step"] == 20
    before, after = (number(rewards[part, ..., 0].mean(), 3) for part in (~LATE, LATE))
    assert f"at step 20 (it is {before} before that step and {after} from there on)" in finding.message
    assert e["fall_in_stds"] == pytest.approx(abs(last[0] - first[0]) / rewards[..., 0].std(ddof=1))
    assert "while the mean of judge goes from 3.94 to 9.5" in finding.to_do and "step 20" in finding.to_do
    assert ("against its weight" in finding.message) == (weights[0] < 0)


@pytest.mark.parametrize(
    ("rewards", "primary", "severity"),
    [
        (hacked((0.6, 0.6)), "correct", None),
        (hacked((0.6, 0.55)), "correct", None),  # hardly seen
        (hacked((0.1, 0.6)), "correct", None),
        (hacked((0.6, 0.4)), "correct", "warning"),
        (hacked((0.6, 0.4)), None, "info"),  # another rises; it may be what is meant
        (hacked((0.6, 0.4), (4, 4)), None, None),
        (hacked((0.6, 0.4), (4, 4)), "correct", "info"),  # the prompts may be harder
        (hacked((0.6, 0.1), (4, 4)), "correct", "warning"),
        (hacked((0.6, 0.1), (4, 4)), None, "warning"),
        (hacked()[12:26], "correct", "warning"),  # a quarter is three batches
        (hacked()[16:23], "correct", None),  # too few batches
    ],
)
def test_what_is_chance_small_or_no_priority_is_no_fall(rewards, primary, severity):
    report = audit(made_run(rewards, "grpo", names=("correct", "judge")), primary=primary)
    found = with_id(report, "reward-falls")
    assert [f.severity for f in found if f.evidence["reward"] == "correct"] == [severity] * (severity is not None)


@pytest.mark.slow
def test_prompts_that_differ_are_no_fall():
    """The responses to one prompt are alike. Counted as 480 independent ones, they would show falls by chance in most
    runs.
    """
    falls = 0
    for seed in range(8):
        p = np.random.default_rng(seed).random((STEPS, PROMPTS)) > 0.5
        rewards = np.stack([coins(p, seed), coins(0.5, seed + 1)], -1)
        falls += "reward-falls" in ids(audit(made_run(rewards, "grpo", names=("correct", "other")), primary="correct"))
    assert falls <= 1
