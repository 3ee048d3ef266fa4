"""Claims on how a log was read: what is proved, what agrees and what is assumed, and what a verdict may rest on."""

import json
import re
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from logs import audit_cli as run_cli

import gdpo_audit as ga
from gdpo_audit.auditing import gather, reading
from gdpo_audit.facts.claims import claims_of
from gdpo_audit.report.pages import html

STEPS, PROMPTS, SIZE = 6, 5, 4
REWARDS = ("correct", "form")


def rewards(seed=0, steps=STEPS):
    """Return (steps, prompts, answers, rewards) of 0 and 1."""
    return np.random.default_rng(seed).integers(0, 2, (steps, PROMPTS, SIZE, 2)).astype(float)


def rows(r, advantage=None, **more):
    """Return the rows of a log that no trainer of ours writes."""
    where = [(s, p, i) for s in range(r.shape[0]) for p in range(PROMPTS) for i in range(SIZE)]
    for s, p, i in where:
        row = {"step": s, "prompt": f"q{s}.{p}", **dict(zip(REWARDS, r[s, p, i].tolist(), strict=True))}
        row |= {} if advantage is None else {"advantage": float(advantage[s, p, i])}
        yield row | {name: values(s, p, i) for name, values in more.items()}


def grpo(r, weights=(1.0, 0.5)):
    """Return GRPO's advantages by its equation alone."""
    total = r @ np.array(weights)
    return (total - total.mean(2, keepdims=True)) / (total.std(2, ddof=1, keepdims=True) + 1e-4)


def audited(log, **options):
    given = {name: options.pop(name) for name in ("weights", "primary") if name in options}
    report = ga.audit(ga.read_run(list(log), **options), **given)
    return report, {claim.what: claim for claim in report.reading}


def evidence(claims):
    return {what: claim.evidence for what, claim in claims.items()}


def test_advantages_prove_groups_rewards_weights_and_method():
    r = rewards()
    report, claims = audited(rows(r, grpo(r)))
    assert evidence(claims) == {
        "responses": "proved",
        "steps": "agrees",  # GRPO has no step over the batch that would prove the steps
        "groups": "proved",
        "rewards": "proved",
        "weights": "proved",
        "method": "proved",
    }
    assert claims["weights"].taken == "correct 1 and form 0.5"
    assert "Taken for granted" not in report.what_first


def test_without_advantages_rewards_and_weights_are_assumed_and_the_first_line_says_so():
    report, claims = audited(rows(rewards()), primary="correct")
    wanted = {
        "responses": "agrees",
        "groups": "agrees",
        "rewards": "assumed",
        "weights": "assumed",
        "method": "assumed",
    }
    assert evidence(claims).items() >= wanted.items()
    assert report.what_first.startswith(
        "Taken for granted: the rewards are correct and form and the weights are 1 each. "
        "If not: --reward NAME or --weight correct=W. If so: "
    )
    assert "Nothing has to be changed" not in report.verdict
    assert "push (rewards and weights assumed)" in html.body(report) and "How the log was read" in html.body(report)


def test_what_is_given_is_not_taken_for_granted():
    report, claims = audited(rows(rewards()), weights={"correct": 1, "form": 2}, rewards=["correct", "form"])
    assert {claims[what].evidence for what in ("rewards", "weights", "groups")} == {"agrees"}
    assert "Taken for granted" not in report.what_first


def test_a_total_in_every_row_gives_the_weights_and_one_row_off_takes_that_away():
    r = rewards()
    sums = r @ np.array([1.0, 0.25])
    _, claims = audited(rows(r, reward=lambda s, p, i: float(sums[s, p, i])))
    assert {claims[what].evidence for what in ("rewards", "weights", "total")} == {"agrees"}
    assert claims["weights"].because == "with them the rewards give reward in every row"
    sums[2, 3, 1] += 0.5
    _, claims = audited(rows(r, reward=lambda s, p, i: float(sums[s, p, i])))
    assert {claims[what].evidence for what in ("weights", "total")} == {"assumed"}


def test_weights_against_the_log_are_not_what_ran():
    r = rewards()
    report, claims = audited(rows(r, grpo(r)), weights={"form": 4})
    assert claims["weights"].evidence == "assumed" and "the log shows others" in claims["weights"].because
    assert report.plan[0].weights == pytest.approx({"correct": 1, "form": 0.5}, rel=1e-3)
    assert report.plan[1].weights == pytest.approx({"correct": 1, "form": 4}, rel=1e-3)


def test_a_first_line_about_the_log_also_says_what_is_assumed():
    """A prompt is drawn twice in each step, so that its groups are merged, and no group is more than assumed."""
    r = rewards(steps=8) + np.random.default_rng(1).random((8, PROMPTS, SIZE, 2)).round(3)  # no two responses tie
    log = [row | {"prompt": row["prompt"].replace(".4", ".3")} for row in rows(r)]
    report, claims = audited(log)
    assert claims["groups"].evidence == "assumed" and "share a prompt" in claims["groups"].because
    first, _, rest = report.what_first.partition(" Taken for granted: the groups are ")
    assert first == "Log an id for each group." and "the weights are 1 each" in rest and "If so" not in rest
    assert "push (groups, rewards and weights assumed)" in html.body(report)


def test_weights_that_were_given_against_the_log_name_no_way_on():
    r = rewards()
    report, _ = audited(rows(r, grpo(r)), weights={"correct": -1.0, "form": 1.0})
    first = report.what_first
    assert "Taken for granted: the weights are correct −1 and form 1." in first and "If not" not in first


def test_a_method_that_the_rewards_do_not_part_from_another_is_not_proved():
    """In groups of two whose rewards are 0 and √2 the std is 1, so that dividing by it changes nothing."""
    log = [{"step": s, "prompt": f"{s}.{p}", "reward": x, "advantage": x - 2**-0.5} for s in range(6) for p in range(4)
           for x in (0.0, 2**0.5)]  # fmt: skip
    _, claims = audited(log)
    assert claims["method"].evidence == "agrees" and "and so does" in claims["method"].because


def test_a_method_that_was_asked_for_is_not_proved_where_another_one_fits_as_well():
    log = [{"step": s, "prompt": f"{s}.{p}", "reward": x, "advantage": x - 2**-0.5} for s in range(6) for p in range(4)
           for x in (0.0, 2**0.5)]  # fmt: skip
    for asked in ("grpo", "grpo_no_std"):
        report = ga.audit(ga.read_run(log), asked=asked)
        method = next(claim for claim in report.reading if claim.what == "method")
        assert method.evidence == "agrees" and "and so does" in method.because


def test_a_recipe_beside_which_no_other_was_tried_is_not_proved():
    r = rewards()
    facts = gather(ga.read_run(list(rows(r, grpo(r)))))
    assert {claim.what: claim.evidence for claim in claims_of(facts)}["method"] == "proved"
    untried = replace(facts, basis=replace(facts.basis, recipe=replace(facts.recipe, alike=None)))
    assert {claim.what: claim.evidence for claim in claims_of(untried)}["method"] == "agrees"


@pytest.mark.parametrize(("different", "told"), [(10, False), (11, True)])
def test_rows_stand_twice_only_where_chance_does_not_make_it_so(different, told):
    """A group of d different rows has only even counts by chance about once in 2 to the power of d − 1 times."""
    log = [{"step": s, "prompt": f"{s}", "reward": float(i)} for s in range(4) for i in range(11)]
    again = [{"step": 9, "prompt": "9", "reward": float(i % different)} for i in range(11)]
    run = ga.read_run([*log, *again, *again], group="prompt")
    assert any(issue.id == "prompts-merged" for issue in run.issues)
    assert any(issue.id == "rows-twice" for issue in run.issues) == told


@pytest.mark.parametrize(("prompts", "told"), [(1, False), (2, True)])
def test_a_batch_whose_blocks_stand_twice_is_told(prompts, told):
    """Eight different rows are all there twice too easily by chance; in sixteen it is no chance."""
    r = np.random.default_rng(1).random((6, prompts, 8)).round(3)
    blocks = [[{"step": s + 1, "reward": x, "advantage": x - r[s, p].mean()} for p in range(prompts)
               for x in r[s, p].tolist()] for s in range(6)]  # fmt: skip
    log = [*chain(*(rows_of_step * (2 if s == 2 else 1) for s, rows_of_step in enumerate(blocks)))]
    run = ga.read_run(log, group_size=8)
    twice = [issue.details for issue in run.issues if issue.id == "rows-twice"]
    assert twice == ([{"groups": 2 * prompts, "steps": [3]}] if told else [])


def test_what_holds_in_a_sample_is_said_of_a_sample(monkeypatch):
    r = rewards()
    sums = r @ np.array([1.0, 0.25])
    log = list(rows(r, reward=lambda s, p, i: float(sums[s, p, i])))
    for most, says in ((len(log), "in every row"), (len(log) - 1, "in every row of a sample")):
        monkeypatch.setattr("gdpo_audit.facts.claims.SAMPLED_ROWS", most)
        _, claims = audited(log)
        assert {claims[what].because.endswith(says) for what in ("rewards", "weights", "total")} == {True}


def test_a_reward_whose_weight_stays_open_is_not_proved_to_count():
    r = rewards()
    again = {"eval_ok": lambda s, p, i: bool(r[s, p, i, 0])}
    _, claims = audited(rows(r, grpo(r), completion=lambda s, p, i: "x", **again))
    assert {claims[what].evidence for what in ("rewards", "weights")} == {"assumed"}
    assert "which of correct and eval_ok counts" in claims["rewards"].because
    still = {"bonus_reward": lambda s, p, i: p % 2 / 2}
    report, claims = audited(rows(r, grpo(r), completion=lambda s, p, i: "x", **still))
    assert claims["rewards"].evidence == "agrees" and "bonus_reward never differs" in claims["rewards"].because
    assert claims["weights"].evidence == "proved" and "of bonus_reward not known" in claims["weights"].taken
    assert "Taken for granted" not in report.what_first


def test_rows_that_a_column_alone_calls_an_evaluation_are_not_proved_to_be_none_of_the_training():
    r = rewards()
    told = rows(r, grpo(r), dataset_split=lambda s, p, i: "test" if p == 0 else "train")
    _, claims = audited(told)
    assert claims["responses"].evidence == "agrees" and claims["responses"].otherwise == "--by COLUMN"


def test_groups_that_nothing_shows_are_assumed():
    log = [row | {"prompt": "the same"} for row in rows(rewards(steps=8))]
    report, claims = audited(log, group_size=SIZE)
    assert claims["groups"].evidence == "assumed" and "the groups are groups of 4" in report.what_first


def test_finding_of_shares_says_what_it_rests_on():
    r = rewards()
    r[..., 1] *= 20
    report, _ = audited(rows(r))
    dominates = next(finding for finding in report.findings if finding.id == "reward-dominates")
    assert dominates.message.endswith("which the log does not show.")
    report, _ = audited(rows(r, grpo(r, (1, 1))))
    assert all("This holds if" not in finding.message for finding in report.findings)


def test_reading_alone_is_what_the_audit_says(tmp_path, capsys):
    r, log = rewards(), tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows(r, grpo(r))))
    run = ga.read_run(log)
    assert reading(run) == ga.audit(run).reading
    code, out, _ = run_cli(capsys, str(log), "--reading")
    lines = out.strip().splitlines()
    assert code == 0 and len(lines) == 7 and re.match(r"weights +proved +correct \d", lines[5])
    code, out, _ = run_cli(capsys, str(log), "--reading", "--json", "-")
    assert [claim["what"] for claim in json.loads(out)["reading"]] == [claim.what for claim in reading(run)]
    _, out, _ = run_cli(capsys, str(log))
    assert out.index("How the log was read") < out.index("Plan")


@pytest.mark.parametrize(("off", "evidence"), [(1, "agrees"), (2, "assumed")])
def test_groups_agree_if_advantages_add_up_to_0_in_nearly_all(off, evidence):
    """Take 120 groups without a prompt, whose advantages no method makes and of which some do not add up to 0."""
    r, draw = rewards(steps=24), np.random.default_rng(3)
    a = draw.normal(size=r.shape[:3])
    a -= a.mean(2, keepdims=True)
    a.reshape(-1, SIZE)[:off, 0] += 1
    log = [row | {"prompt": "the same"} for row in rows(r, a)]
    _, claims = audited(log, group_size=SIZE)
    assert claims["groups"].evidence == evidence
