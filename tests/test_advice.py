"""Every setting that a report plans is tried on the log. Its figures are compared here with those of logs written anew,
and with slow loops.
"""

import re

import numpy as np
import polars as pl
import pytest
from fake_logs import Step, generic_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.advice import advice
from gdpo_audit.auditing import gather
from gdpo_audit.report import body
from gdpo_audit.report.tables import plan_table
from gdpo_audit.trials import recommending, trials
from gdpo_audit.trials.shares import weights_for
from gdpo_audit.trials.trials import Trials, at_most

PROMPTS, ROLLOUTS, STEPS = 8, 8, 12


def log_of(rewards, names, method="grpo", weights=None, convention=gc.TRL):
    """Return rows as TRL logs them, with the advantages of a method. rewards: (steps, prompts, rollouts, rewards)."""
    steps = []
    for number, batch in enumerate(np.asarray(rewards, dtype=np.float32), start=1):
        a = gc.advantages(batch, method, weights=weights, convention=convention).numpy()
        steps.append(Step(number, batch, a, tuple(f"p{prompt}" for prompt in range(len(batch)))))
    return generic_frame(steps, names).rename({"group": "prompt"}).with_columns(completion=pl.lit(""))


def audited(table, **options):
    return ga.audit(ga.read_run(table, group_size=ROLLOUTS), **options)


def found(report, which):
    return [f for f in report.findings if f.id == which]


# --- a reward that makes next to nothing -----------------------------------------------------------------------------

LOUD = ("has_digit", "short", "vowels")


def loud(seed=0, steps=STEPS):
    """Return rewards like those of a real run, (steps, prompts, rollouts, 3): one is 0 or 1, one lies between 0 and 1,
    and one goes from 0 to 10 and is opposed a little by the second.
    """
    rng = np.random.default_rng(seed)
    vowels = rng.integers(0, 11, (steps, PROMPTS, ROLLOUTS))
    digit = rng.random(vowels.shape) < 0.5
    short = np.clip(0.6 - 0.03 * vowels + 0.1 * rng.normal(size=vowels.shape), 0, 1)
    return np.stack([digit, short, vowels], -1)


def test_rewards_with_weight_that_make_nothing_of_the_update_are_found():
    report = audited(log_of(loud(), LOUD, weights=[1, 0.5, 2]))
    [dominates], starved = found(report, "reward-dominates"), found(report, "reward-starved")
    assert dominates.evidence["reward"] == "vowels" and report.findings[0] == dominates
    assert dominates.evidence["update_share"] > 0.95 and dominates.evidence["weight_asks_for"] > 0.5
    assert {f.evidence["reward"] for f in starved} == {"has_digit", "short"}
    (against,) = [f for f in starved if f.evidence["reward"] == "short"]
    assert against.evidence["update_share"] < 0 and "works against short" in against.message
    assert all("from the first step on" in f.message and f.evidence["since_step"] == 1 for f in starved)
    # Within a severity, the finding that concerns most of the run comes first.
    extents = [f.extent for f in report.findings if f.severity == "warning"]
    assert extents == sorted(extents, reverse=True)


@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 0.5, 2], [8, 1, 1], [1, 0, 1]])
def test_rewards_that_get_what_their_weights_ask_for_are_not_starved(weights):
    rewards = np.random.default_rng(2).normal(size=(STEPS, PROMPTS, ROLLOUTS, 3))
    for method in ("grpo", "gdpo"):
        ids = {f.id for f in audited(log_of(rewards, "abc", method, weights)).findings}
        assert not ids & {"reward-starved", "reward-dominates"}


# --- the plan, compared with logs that are written anew ---------------------------------------------------------------


def written_anew(table, names, setting):
    """Return the audit of the log that a setting would have made. table: the log; names: of the rewards; setting: as a
    report has it.
    """
    rewards = table.select(names).to_numpy().reshape(-1, PROMPTS, ROLLOUTS, len(names)).copy()
    if gate := setting["gate"]:
        open_gate = rewards[..., names.index(gate["on"])] >= gate["threshold"]
        gated = names.index(gate["reward"])
        rewards[..., gated] = np.where(open_gate, rewards[..., gated], gate["otherwise"])
    weights = [setting["weights"][name] for name in names]
    # A gate may leave a reward with one value, which is read as a setting where nobody names it.
    run = ga.read_run(log_of(rewards, names, setting["method"], weights), rewards=names)
    return ga.audit(run, weights=setting["weights"], primary=names[0])


def random_log(seed):
    """Return a log of three rewards of random kinds and scales, under a random method and random weights."""
    rng = np.random.default_rng(seed)
    shape = STEPS, PROMPTS, ROLLOUTS
    kinds = [rng.random(shape) < rng.uniform(0.2, 0.9), rng.normal(size=shape), rng.integers(0, 11, shape)]
    rewards = np.stack([kinds[k] * rng.choice([0.1, 1, 5]) for k in rng.permutation(3)], -1)
    rewards[..., 1] -= rng.choice([0, 1]) * rewards[..., 0]
    return log_of(rewards, "abc", rng.choice(["grpo", "gdpo", "grpo_no_std"]), rng.choice([0.5, 1, 2], 3))


@pytest.mark.slow
@pytest.mark.parametrize("table", [log_of(loud(), LOUD), *map(random_log, range(4))], ids=range(5))
def test_what_a_plan_promises_is_what_the_log_written_anew_shows(table):
    names = [name for name in table.columns if name not in ("step", "prompt", "completion", "advantage")]
    report = audited(table, primary=names[0])
    plan = report.to_dict()["plan"]
    own, *others = plan
    assert others and not own["recommended"] and sum(row["recommended"] for row in plan) <= 1
    assert own["update_share"] == {
        r["name"]: pytest.approx(r["update_share"][own["setting"]["method"]]) for r in report.rewards
    }
    for row in plan:
        assert row["tried_on"] == len(table) and (row is own or row["lines"])
        after, method = written_anew(table, names, row["setting"]), row["setting"]["method"]
        for figure in ("inversions", "groups_with_ties", "tied_pairs", "silent_groups"):
            assert row[figure] == pytest.approx(after.methods[method][figure], abs=1e-6), (row["title"], figure)
        for reward in after.rewards:
            # TRL has these rewards in float32, so their shares agree to few digits.
            share = reward["update_share"][method]
            assert row["update_share"][reward["name"]] == pytest.approx(share, rel=1e-3, abs=1e-5)
            assert row["dead_groups"][reward["name"]] == pytest.approx(reward["dead_groups"])
        if row["recommended"]:
            assert report.what_first.startswith(row["do"]) and row["cost"] in report.what_first
            first = report.run["primary"]
            assert row["push"][first] > own["push"][first] + 0.02 and not row["setting"]["gate"]


def test_a_recommendation_says_what_it_raises_and_what_that_costs():
    """A push that falls by less than noise does not count as a cost."""
    row = audited(log_of(loud(), LOUD), primary="has_digit").plan[1]
    ran, row = (replace(row, push=dict(zip(LOUD, p, strict=True))) for p in ((0.2, 0.5, 0.8), (0.6, 0.495, 0.4)))
    facts = gather(ga.read_run(log_of(loud(), LOUD), group_size=ROLLOUTS), primary="has_digit")
    best = recommending._marked(facts, row, ran, "has_digit", "")
    assert best.recommended and not best.only_if
    assert best.why == "the push on has_digit goes from +0.20 to +0.60"
    assert best.cost == f"It has a cost: the push on {LOUD[2]} falls from +0.80 to +0.40."


def test_without_a_primary_reward_a_plan_asks_for_it_and_a_gate_without_a_conflict_is_no_question():
    open_ = audited(log_of(loud(), LOUD))
    assert open_.what_first.startswith(
        "Open: name the reward that matters most (--primary): has_digit, short or vowels."
    )
    assert not any(row.recommended or row.gate for row in open_.plan)
    digit = (np.random.default_rng(1).random((STEPS, PROMPTS, ROLLOUTS)) < 0.5).astype(float)
    style = np.random.default_rng(2).normal(size=digit.shape)
    report = audited(log_of(np.stack([digit, style / 2], -1), ("digit", "style"), "gdpo"), primary="digit")
    assert report.plan[-1].gate and not any(row.recommended for row in report.plan)
    assert report.what_first == (
        "No change is called for: no other setting without a gate pushes digit more by more than noise (the push is "
        f"{report.plan[0].push['digit']:+.2f})."
    )
    none = "No setting is recommended, because none without a gate clearly raises the push on digit."
    assert none in plan_table(report).note


@pytest.mark.parametrize("steps", [1, STEPS])
def test_the_first_thing_to_do_is_bold_whole_and_alone_whatever_the_names(steps):
    names = ("Dr. acc", "short", "vowels")
    report = audited(log_of(loud(steps=steps), names))
    assert bool(report.caution) == (steps == 1) and report.further
    assert report.first_step == "Open: name the reward that matters most (--primary): Dr. acc, short or vowels."
    drawn = f"{report.caution}<b>{report.first_step}</b> {report.further}"
    assert f'<p class="verdict-line">{drawn}</p>' in body(report)
    assert report.verdict == f"{report.what_ran} {re.sub('</?b>', '', drawn)}"


# --- weights for wanted shares ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std", "grpo_batch_std"])
def test_weights_that_give_the_wanted_shares(method):
    rewards, wanted = np.random.default_rng(5).normal(size=(4, PROMPTS, ROLLOUTS, 3)) * [1, 0.1, 10], (0.2, 0.5, 0.3)
    facts = gather(ga.read_run(log_of(rewards, LOUD, method), group_size=ROLLOUTS))
    weights = weights_for(Trials(facts), method, dict(enumerate(wanted)))
    anew = audited(log_of(rewards, LOUD, method, weights))
    assert [r["update_share"][method] for r in anew.rewards] == pytest.approx(wanted, abs=0.01)


# --- the sample ------------------------------------------------------------------------------------------------------


def tables(sizes, batch_size, group=4):
    """Yield tables of whole batches, which number their rows by batch and group. sizes: the batches in each table;
    batch_size: the rows of a batch.
    """
    at = 0
    for batches in sizes:
        rows = batches * batch_size
        number = np.arange(rows)
        yield pl.DataFrame({"batch": at + number // batch_size, "group": at * batch_size + number // group})
        at += batches


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.sampled_from([4, 40, 400]))
def test_the_sample_is_whole_batches_from_all_over_the_run(sizes, batch_size):
    trials.TRIAL_RESPONSES, most = 1000, trials.TRIAL_RESPONSES
    try:
        sample = pl.concat(at_most(tables(sizes, batch_size)))
    finally:
        trials.TRIAL_RESPONSES = most
    batches = sum(sizes)
    there = sample["batch"].unique().sort().to_list()
    assert len(sample) == len(there) * batch_size  # The sample holds whole batches.
    assert len(sample) <= 1000 and (len(there) == batches or 2 * len(sample) + 4 * batch_size > 1000)


# --- verdicts that know what they don't know -------------------------------------------------------------------------


def test_what_is_no_report_is_refused():
    for other in (5, None, {}):
        with pytest.raises(gc.InputError, match=r"report: expected what gdpo_audit\.audit returns, got"):
            ga.advise(other)


# --- whether to use GDPO: the push decides ----------------------------------------------------------------------------


def judged(seed):
    """Return a report on random rewards, whose advantages are those of a random method or are not logged; the rewards,
    (prompts, rollouts, rewards); and the weights.
    """
    rng = np.random.default_rng(seed)
    shape, k = (rng.integers(2, 12), rng.integers(2, 9)), rng.integers(2, 4)
    rewards = np.empty((*shape, k))
    for i in range(k):
        kinds = (rng.random(shape), rng.normal(size=shape), rng.integers(0, 3, shape), rng.random(shape) < 0.9)
        rewards[..., i] = kinds[rng.integers(4)] * rng.choice([1, 1, 5, 0.1])
    weights = rng.choice([1, 1, 0.5, 2, 4, 0], k)
    weights[-1] = weights[-1] or 1
    method = rng.choice(["", "grpo", "grpo_no_std", "gdpo"])
    logged = gc.advantages(rewards, method, weights=weights, convention=gc.TRL).numpy() if method else rewards[..., 0]
    names = list("abc"[:k])
    rows = [
        {"group": int(g)} | dict(zip(names, rewards[g, j].tolist(), strict=True)) | {"advantage": float(logged[g, j])}
        for g, j in np.ndindex(*shape)
    ]
    run = ga.read_run([row if method else row | {"advantage": None} for row in rows], rewards=names, group="group")
    return ga.audit(run, weights=dict(zip(names, weights.tolist(), strict=True)), primary="a"), rewards, weights


def pushed(rewards, advantages):
    """Return the push on each reward, by its formula; NaN where the reward is constant in every group or every
    advantage is 0.
    """
    apart = rewards - rewards.mean(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.array(
            [(advantages * r).sum() / np.sqrt((advantages**2).sum() * (r**2).sum()) for r in np.moveaxis(apart, -1, 0)]
        )


def compared(report, rewards, weights):
    """Return by how much GDPO's push on the primary reward exceeds that of GRPO and of what ran, and how much noise can
    make. What ran counts only if it takes steps of about the same length.
    """
    before = {"grpo", report.run["method"] or "grpo"} - {"gdpo", "grpo_no_std"}  # whose steps have another length
    push = {m: pushed(rewards, gc.advantages(rewards, m, weights=weights).numpy())[0] for m in (*before, "gdpo")}
    responses = rewards.shape[0] * rewards.shape[1]
    return push["gdpo"] - max(push[m] for m in before), max(0.02, responses**-0.5)


@pytest.mark.slow
def test_the_push_on_the_primary_reward_decides_what_is_advised():
    """No method is praised that does not push the primary reward more, whatever it does for order, ties and shares."""
    said = {-1: [], 0: [], 1: []}
    for seed in range(60):
        report, rewards, weights = judged(seed)
        more, noise = compared(report, rewards, weights)
        if np.isnan(more):
            continue
        answers = ga.advise(report)
        effects = {a.title: a.effect for a in answers}
        verdict = advice.advice_verdict(answers)
        sign = int(more > noise) - int(more < -noise)
        said[sign].append(verdict)
        sign = sign if weights[0] else 0  # a reward of weight 0 is wanted neither higher nor lower
        assert effects["Push on a"] == {1: "helps", 0: "nothing", -1: "hurts"}[sign]
        assert sign > 0 or ("GDPO helps" not in verdict and "helps" not in effects.values()), verdict
        assert sign <= 0 or "hurts" not in effects.values()
        assert weights[0] or verdict.split("**")[1] == "Not as it stands:"
        wrong = [report.methods[m]["inversions"] for m in ("gdpo", "grpo")]
        assert all(np.isnan(x) for x in wrong) or weights[0]
        worse = min(wrong) > 0.5
        assert not worse or "GDPO helps" not in verdict
    assert min(map(len, said.values())) >= 5 and any("GDPO helps with" in verdict for verdict in said[1])


def test_no_share_is_mended_by_what_turns_the_order_round():
    """The primary reward may make most of the update: GDPO would raise the share of the length and put pairs into the
    wrong order.
    """
    rng = np.random.default_rng(3)
    right = rng.random((STEPS, PROMPTS, ROLLOUTS)) < 0.5
    rewards = np.stack([right, -0.3 * rng.random(right.shape)], -1)
    table = log_of(rewards, ("right", "length"))
    report = audited(table, primary="right")
    assert report.methods["grpo"]["inversions"] == 0 and report.methods["gdpo"]["inversions"] > 0.05
    assert {f.id: f.severity for f in report.findings} == {"reward-starved": "warning", "reward-dominates": "info"}
    assert not any(row.recommended for row in report.plan) and "Use GDPO" not in report.verdict


def test_no_method_helps_with_the_order_of_a_run_that_is_upside_down():
    """GDPO puts a few pairs of such a run into the right order, which is no reason for praise."""
    draw = np.random.default_rng(0).random((STEPS, PROMPTS, ROLLOUTS, 2))
    report = audited(log_of(draw, ("right", "short"), weights=[-1, -0.3]), primary="right")
    assert report.methods["gdpo"]["inversions"] > 0.8
    assert advice.advice_verdict(ga.advise(report)).startswith("**Not yet:** the advantages are upside down.")


def test_nothing_is_learnt_is_said_as_such():
    rows = [{"group": g, "a": a, "b": b} for g in range(40) for a, b in ((1, 0), (0, 1), (1, 1), (0, 0))]
    run = ga.read_run(rows, rewards=["a", "b"], group="group")
    nothing = advice.advice_verdict(ga.advise(ga.audit(run, weights={"a": 0, "b": 0}, primary="a")))
    assert "every reward has the weight 0, so the model learns nothing" in nothing
    constant = ga.read_run([row | {"a": 1} for row in rows], rewards=["a", "b"], group="group")
    push = ga.advise(ga.audit(constant, primary="a"))[0]
    assert push.effect == "nothing" and push.sentence == "No two answers of a group differ in a." and not push.headline


def test_no_row_is_recommended_under_which_the_primary_reward_still_falls():
    draw = np.random.default_rng(0).random((STEPS, PROMPTS, ROLLOUTS, 2))
    report = audited(log_of(draw, ("a", "b"), weights=[-1, -1]), primary="a")
    assert not any(row.recommended and row.push["a"] <= 0 for row in report.plan)
