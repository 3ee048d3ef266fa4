"""Every remedy that a report prints is tried on the log: held here to logs written anew, and to slow loops."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit import advice
from gdpo_audit.audit import gather
from gdpo_audit.findings import trials
from gdpo_audit.findings.shares import weights_for
from gdpo_audit.findings.trials import sample_of
from gdpo_audit.report import summary

PROMPTS, ROLLOUTS, STEPS = 8, 8, 12


def log_of(rewards, names, method="grpo", weights=None, convention=gc.TRL):
    """Rows as TRL logs them; rewards: (steps, prompts, rollouts, rewards)."""
    rows = []
    for step, batch in enumerate(np.asarray(rewards, dtype=np.float32), start=1):
        a = gc.advantages(batch, method, weights=weights, convention=convention).numpy()
        for prompt, group in enumerate(batch):
            for j, row in enumerate(group):
                values = {name: float(x) for name, x in zip(names, row, strict=True)}
                text = {"step": step, "prompt": f"p{prompt}", "completion": ""}
                rows.append(text | values | {"advantage": float(a[prompt, j])})
    return pl.DataFrame(rows)


def audited(table, **options):
    return ga.audit(ga.read_run(table, group_size=ROLLOUTS), **options)


def found(report, which):
    return [f for f in report.findings if f.id == which]


# --- a reward that makes next to nothing -----------------------------------------------------------------------------

LOUD = ("has_digit", "short", "vowels")


def loud(seed=0, steps=STEPS):
    """Rewards as of a real run: 0 or 1, between 0 and 1, and from 0 to 10, which the second opposes a little."""
    rng = np.random.default_rng(seed)
    vowels = rng.integers(0, 11, (steps, PROMPTS, ROLLOUTS))
    digit = rng.random(vowels.shape) < 0.5
    short = np.clip(0.6 - 0.03 * vowels + 0.1 * rng.normal(size=vowels.shape), 0, 1)
    return np.stack([digit, short, vowels], -1)


def test_rewards_with_weight_that_make_nothing_of_the_update_are_found():
    report = audited(log_of(loud(), LOUD, weights=[1, 0.5, 2]))
    [dominates], starved = found(report, "reward-dominates"), found(report, "reward-starved")
    assert dominates.evidence["reward"] == "vowels" and report.first == dominates
    assert dominates.evidence["update_share"] > 0.95 and dominates.evidence["weight_share"] > 0.5
    assert {f.evidence["reward"] for f in starved} == {"has_digit", "short"}
    (against,) = [f for f in starved if f.evidence["reward"] == "short"]
    assert against.evidence["update_share"] < 0 and "works against short" in against.message
    assert all("from the first step on" in f.message and f.evidence["since_step"] == 1 for f in starved)
    # Within a severity, what is about most of the run comes first.
    extents = [f.extent for f in report.findings if f.severity == "warning"]
    assert extents == sorted(extents, reverse=True)


def test_the_step_since_when_a_reward_is_starved():
    rng = np.random.default_rng(1)
    rewards = rng.normal(size=(STEPS, 32, ROLLOUTS, 2))
    rewards[STEPS // 2 :, ..., 1] *= 40
    (starved,) = found(audited(log_of(rewards, ("a", "b"))), "reward-starved")
    assert starved.evidence["reward"] == "a" and starved.evidence["since_step"] == STEPS // 2 + 1
    assert f"since step {STEPS // 2 + 1}" in starved.message


@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 0.5, 2], [8, 1, 1], [1, 0, 1]])
def test_rewards_that_get_what_their_weights_ask_for_are_not_starved(weights):
    rewards = np.random.default_rng(2).normal(size=(STEPS, PROMPTS, ROLLOUTS, 3))
    for method in ("grpo", "gdpo"):
        ids = {f.id for f in audited(log_of(rewards, "abc", method, weights)).findings}
        assert not ids & {"reward-starved", "reward-dominates"}


def test_a_reward_that_seldom_differs_is_not_starved_where_it_does_its_part():
    rewards = np.random.default_rng(3).normal(size=(STEPS, 20, ROLLOUTS, 2))
    rewards[:, 2:, :, 0] = 0  # constant in nine of ten groups
    report = audited(log_of(rewards, "ab", "gdpo"))
    assert report.rewards[0]["update_share"]["gdpo"] < 0.15 and not found(report, "reward-starved")


def test_scale_is_the_reason_where_gdpo_gives_what_the_weights_ask_for():
    report = audited(log_of(loud(), LOUD, weights=[1, 0.5, 2]), primary="has_digit")
    said = [f.message for f in report.findings if f.id in ("reward-dominates", "reward-starved")]
    (dominates,) = found(report, "reward-dominates")
    share, gdpo, asks = (dominates.evidence[x] for x in ("update_share", "update_share_gdpo", "weight_asks_for"))
    assert gdpo > 0.6 and (share - gdpo) / (share - asks) > 1 / 3
    assert "scale is not the reason" not in dominates.message
    # The reason is said once, in what is shown first, and the cause before what it does.
    assert ["adds raw rewards up" in message for message in said] == [True] + [False] * (len(said) - 1)
    shown = [f.id for f in report.findings if f.severity == "warning"]
    assert shown.index("reward-dominates") < shown.index("priority-inversion")


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
@pytest.mark.parametrize(("last", "starved"), [(1.0, False), (0.0, True)])
def test_a_reward_that_has_become_as_good_as_it_can_is_not_starved(method, last, starved):
    rewards = (np.random.default_rng(4).random((60, PROMPTS, ROLLOUTS, 3)) < 0.5).astype(float)
    rewards[14:, ..., 2] = last
    report = audited(log_of(rewards, ("correct", "style", "fmt"), method, [1, 1, 0.7]))
    assert bool(found(report, "reward-starved")) is starved
    assert all(f.fix is None for f in found(report, "reward-starved"))  # a weight does nothing where it is constant
    assert found(report, "reward-fades")[0].severity == ("warning" if starved else "info")


def test_ties_are_a_warning_where_gdpo_would_break_most_of_them():
    three = (np.random.default_rng(5).random((STEPS, PROMPTS, ROLLOUTS, 3)) < 0.5).astype(float)
    balanced = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 2, dtype=float)  # equal spreads: GDPO ties what GRPO ties
    same = np.broadcast_to(balanced, (STEPS, PROMPTS, *balanced.shape))
    for rewards, method, severity in ((three, "grpo", "warning"), (three, "gdpo", "info"), (same, "grpo", "info")):
        report = audited(log_of(rewards, "abc"[: rewards.shape[-1]], method))
        (ties,) = found(report, "ties-hide-signal")
        assert ties.severity == severity and ties.evidence["tied_pairs"] > 0.05
        assert (report.first is ties) == (severity == "warning")
        if severity == "info":  # the first line is not about the ties
            assert summary.to_do(report) == report.what_first


# --- advice is what the log, written anew, shows ---------------------------------------------------------------------


def written_anew(table, finding, names):
    """The log as the lines of a finding would have made it, audited; and its method."""
    rewards = table.select(names).to_numpy().reshape(-1, PROMPTS, ROLLOUTS, len(names)).copy()
    for name, on, reached, otherwise in re.findall(
        r"def (\w+)_gated.*?zip\(\w+\(\*\*given\), (\w+)\(\*\*given\)\).*?g >= (\S+) else (\S+) for", finding.fix, re.S
    ):
        gated, gate = names.index(name), rewards[..., names.index(on)]
        rewards[..., gated] = np.where(gate >= float(reached), rewards[..., gated], float(otherwise))
    given = re.search(r"reward_weights=\[(.*?)\]", finding.fix)
    weights = [float(w) for w in given[1].split(",")] if given else None
    method = "gdpo" if "normalize_then_sum" in finding.fix else "grpo"
    return audited(log_of(rewards, names, method, weights), primary="has_digit"), method


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_a_report_promises_is_what_the_log_written_anew_shows(seed):
    names = list(LOUD)
    table = log_of(loud(seed), names)
    report = audited(table, primary="has_digit")
    tried = [f for f in report.findings if f.effect]
    assert {"reward-dominates", "reward-starved", "priority-inversion"} <= {f.id for f in tried}
    for finding in tried:
        assert finding.tried_on == len(table)
        after, method = written_anew(table, finding, names)
        for figure, promised in finding.effect.items():
            if figure == "update_share":
                k = names.index(finding.evidence["reward"])
                shares = report.rewards[k]["update_share"]["grpo"], after.rewards[k]["update_share"][method]
            else:
                shares = report.methods["grpo"][figure], after.methods[method][figure]
            assert promised == pytest.approx(shares, abs=1e-6), (finding.id, figure)


def test_the_gate_is_on_the_reward_that_makes_the_inversions():
    """Not on the one that is most opposed to the primary reward, which makes none of them."""
    rng = np.random.default_rng(4)
    digit = rng.random((STEPS, PROMPTS, ROLLOUTS)) < 0.5
    short = -0.001 * digit + 0.0001 * rng.normal(size=digit.shape)  # correlation near −1, and small
    vowels = 10 * rng.random(digit.shape)
    report = audited(log_of(np.stack([digit, short, vowels], -1), LOUD), primary="has_digit")
    (finding,) = found(report, "priority-inversion")
    now, then = finding.effect["inversions"]
    assert now == pytest.approx(report.methods["grpo"]["inversions"]) and now > 0.3 and then < 0.01
    assert "vowels_gated" in finding.fix and "Let vowels count only where has_digit reaches 1" in finding.to_do
    (opposed,) = found(report, "conflict")
    assert opposed.fix is None and opposed.effect == {}  # a gate on short would change nothing


# --- weights for wanted shares ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std", "grpo_batch_std"])
def test_weights_that_give_the_wanted_shares(method):
    rewards, wanted = np.random.default_rng(5).normal(size=(4, PROMPTS, ROLLOUTS, 3)) * [1, 0.1, 10], (0.2, 0.5, 0.3)
    facts = gather(ga.read_run(log_of(rewards, LOUD, method), group_size=ROLLOUTS))
    weights = weights_for(facts, method, dict(enumerate(wanted)))
    anew = audited(log_of(rewards, LOUD, method, weights))
    assert [r["update_share"][method] for r in anew.rewards] == pytest.approx(wanted, abs=0.01)


# --- the sample ------------------------------------------------------------------------------------------------------


def tables(sizes, batch_size, group=4):
    """Tables of whole batches."""
    at = 0
    for batches in sizes:
        rows = batches * batch_size
        number = np.arange(rows)
        yield pl.DataFrame({"batch": at + number // batch_size, "group": at * batch_size + number // group})
        at += batches


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.sampled_from([4, 40, 400]))
def test_the_sample_is_whole_batches_from_all_over_the_run(sizes, batch_size):
    trials.MOST, most = 1000, trials.MOST
    try:
        sample = pl.concat(sample_of(tables(sizes, batch_size)))
    finally:
        trials.MOST = most
    batches = sum(sizes)
    there = sample["batch"].unique().sort().to_list()
    assert len(sample) == len(there) * batch_size  # whole
    assert len(sample) <= 1000 and (len(there) == batches or 2 * len(sample) + 4 * batch_size > 1000)


def test_of_one_large_batch_the_sample_has_whole_groups(monkeypatch):
    monkeypatch.setattr(trials, "MOST", 1001)
    sample = pl.concat(sample_of(tables([1], 4000)))
    assert len(sample) == 1000 and (sample["group"].value_counts()["count"] == 4).all()


def test_of_a_large_log_the_report_says_on_how_many_responses_it_was_tried(monkeypatch):
    monkeypatch.setattr(trials, "MOST", 300)
    table = log_of(loud(), LOUD)
    report = audited(table)
    finding = found(report, "reward-dominates")[0]
    assert 150 < finding.tried_on <= 300 < len(table)
    assert f"Tried on {finding.tried_on} of 768 responses: vowels’s share" in summary.effect(report, finding)


# --- verdicts that know what they don't know -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 5, 1000])
def test_of_two_proportional_updates_none_is_recommended(scale):
    """In half of the groups only the first reward varies, in the others only the second."""
    rows = [
        {"group": g, "correct": float(g < 50 and j < 4), "brief": scale * float(g >= 50 and j < 4)}
        for g in range(100)
        for j in range(8)
    ]
    report = ga.audit(ga.read_run(rows))
    for reward in report.rewards:
        assert [reward["update_share"][m] for m in ("grpo", "gdpo")] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert report.first is None and "Use GDPO" not in report.verdict


def test_eight_responses_without_a_primary_reward_are_no_reason_to_use_gdpo():
    acc, style = [1, 0, 1, 0, 1, 1, 0, 0], [0, 1, 1, 0, 0, 1, 1, 0]
    rows = [{"prompt": i // 4, "acc": acc[i], "style": style[i]} for i in range(8)]
    report = ga.audit(ga.read_run(rows, rewards=["acc", "style"], group="prompt"))
    first = summary.to_do(report)
    assert first.startswith("Too few to judge (8 responses in 2 groups). So far: ") and "Use GDPO" not in first
    assert found(report, "ties-hide-signal")[0].to_do.startswith("Name the reward that matters most")


def test_below_thirty_groups_every_first_line_says_so():
    few, enough = (audited(log_of(loud(steps=steps), LOUD)) for steps in (3, 4))
    assert few.source["groups"] == 24 and enough.source["groups"] == 32
    assert few.what_first.startswith("Too few to judge (192 responses in 24 groups). So far: ")
    assert "Too few" not in enough.verdict


def test_what_is_no_report_is_refused():
    for other in (5, None, {}):
        with pytest.raises(gc.InputError, match=r"report: expected what gdpo_audit\.audit returns, got"):
            ga.advise(other)


# --- should I? order first -------------------------------------------------------------------------------------------


def judged(seed):
    """A report on random rewards, with logged advantages of a random method or none."""
    rng = np.random.default_rng(seed)
    shape, k = (rng.integers(2, 12), rng.integers(2, 9)), rng.integers(2, 4)
    rewards = np.empty((*shape, k))
    for i in range(k):
        kinds = (rng.random(shape), rng.normal(size=shape), rng.integers(0, 3, shape), rng.random(shape) < 0.9)
        rewards[..., i] = kinds[rng.integers(4)] * rng.choice([1, 1, 5, 0.1])
    weights = rng.choice([1, 1, 0.5, 2, 4], k)
    method = rng.choice(["", "grpo", "grpo_no_std", "gdpo"])
    logged = gc.advantages(rewards, method, weights=weights, convention=gc.TRL).numpy() if method else rewards[..., 0]
    names = list("abc"[:k])
    rows = [
        {"group": int(g)} | dict(zip(names, rewards[g, j].tolist(), strict=True)) | {"advantage": float(logged[g, j])}
        for g, j in np.ndindex(*shape)
    ]
    run = ga.read_run([row if method else row | {"advantage": None} for row in rows], rewards=names, group="group")
    return ga.audit(run, weights=dict(zip(names, weights.tolist(), strict=True)), primary="a")


def holds_order_first(report, more=None):
    """That nothing praises a method which puts more pairs the wrong way round; whether it does.

    more: how many more, instead of those that it puts.
    """
    before = {"grpo", report.run["method"] or "grpo"} - {"gdpo"}
    least = min(report.methods[m]["inversions"] for m in before)
    if more is not None:
        gdpo = dict(report.methods["gdpo"]) | {"inversions": least + more}
        report = replace(report, methods=dict(report.methods) | {"gdpo": gdpo})
    more = report.methods["gdpo"]["inversions"] - least
    answers = ga.advise(report)
    said = " ".join([advice.verdict(answers), *(a.sentence for a in answers)])
    assert not more > 0 or not re.search("Yes|none speaks against|None of these checks|helps with the ties", said), said
    effects = {a.title: a.effect for a in answers}
    assert effects["Order by a"] == ("hurts" if more >= 0.01 else "helps" if more <= -0.01 else "nothing")
    share = report.rewards[0]["update_share"]
    if any(share["gdpo"] < share[m] for m in before):
        assert effects["Shares of the update"] != "helps"
    return more > 0


def test_no_advice_praises_what_puts_more_pairs_the_wrong_way_round():
    reports = [report for report in map(judged, range(60)) if not np.isnan(report.methods["gdpo"]["inversions"])]
    assert sum(map(holds_order_first, reports)) > 15
    assert all(holds_order_first(report, more) for report in reports for more in (1e-6, 1e-4, 0.02))


def test_no_share_is_mended_by_what_turns_the_order_round():
    """A reward that matters most may make most: GDPO would lift the length's share and turn pairs the wrong way."""
    rng = np.random.default_rng(3)
    right = rng.random((STEPS, PROMPTS, ROLLOUTS)) < 0.5
    rewards = np.stack([right, -0.3 * rng.random(right.shape)], -1)
    table = log_of(rewards, ("right", "length"))
    report = audited(table, primary="right")
    assert report.methods["grpo"]["inversions"] == 0 and report.methods["gdpo"]["inversions"] > 0.05
    assert {f.id: f.severity for f in report.findings} == {"reward-starved": "warning", "reward-dominates": "info"}
    assert all(f.fix is None for f in report.findings) and "Use GDPO" not in report.verdict
    assert all("Use GDPO" in f.to_do for f in audited(table).findings)  # nobody said what matters most


def test_no_method_helps_with_the_order_of_a_run_that_is_upside_down():
    """GDPO turns a few pairs of such a run the right way round again, which is no praise."""
    draw = np.random.default_rng(0).random((STEPS, PROMPTS, ROLLOUTS, 2))
    report = audited(log_of(draw, ("right", "short"), weights=[-1, -0.3]), primary="right")
    assert report.methods["gdpo"]["inversions"] > 0.8
    assert advice.verdict(ga.advise(report)).startswith("**Not yet:** the advantages are upside down.")


def test_without_a_primary_reward_the_verdict_is_open_and_says_what_to_name():
    for report in map(judged, range(10)):
        open_one = replace(report, run=report.run | {"primary": None})
        answers = ga.advise(open_one)
        names = " or ".join(", ".join(r["name"] for r in report.rewards).rsplit(", ", 1))
        assert advice.verdict(answers).startswith(f"**Open:** name the reward that matters most ({names}).")
        assert "helps" not in {a.effect for a in answers}
