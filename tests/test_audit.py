"""Runs that are made to have one finding each, and others that just fail to have it; and the report's numbers, compared
with those of the library.
"""

import dataclasses
import json
import sys
from inspect import isgeneratorfunction

import numpy as np
import polars as pl
import pytest
import torch
from helpers import nearly
from test_schema import VALID

import gdpo_core as gc
from gdpo_audit import auditing
from gdpo_audit import thresholds as t
from gdpo_audit.auditing import audit, findings
from gdpo_audit.findings.findings import KINDS
from gdpo_audit.logs.groups.run import Rows, Run
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.report import summary
from gdpo_audit.report.meanings import COMPARED_WITH
from gdpo_audit.report.parts import report_of
from gdpo_audit.report.verdict import NAME_PRIMARY
from gdpo_core.conventions import NAMES as ALL_CONVENTIONS

PROMPTS, ROLLOUTS, STEPS = 8, 8, 4
NAMES = ("correct", "format", "brief")


def varied(rewards=3, steps=STEPS, seed=0, prompts=PROMPTS, rollouts=ROLLOUTS):
    """Return random rewards, (steps, prompts, rollouts, rewards), of one scale and without equal values, about which
    there is nothing to say.
    """
    generator = np.random.default_rng(seed)
    return generator.normal(size=(steps, prompts, rollouts, rewards)).astype(np.float32).astype(np.float64)


def binary(rewards=3, steps=STEPS, seed=0, p=0.5):
    return (np.random.default_rng(seed).random((steps, PROMPTS, ROLLOUTS, rewards)) < p).astype(float)


def advantages(rewards, method, weights=None, convention=gc.TRL):
    """Return a method's advantages, (steps, prompts, rollouts), in float32 as a trainer logs them."""
    made = [gc.advantages(step, method, weights=weights, convention=convention) for step in torch.tensor(rewards)]
    return torch.stack(made).float().double().numpy()


def made_run(rewards, method=None, *, weights=None, steps=None, names=None, lengths=None, advantage=None, **about):
    """Return a run as the reader hands it over, by default of TRL and with the advantages of a method. rewards: (steps,
    prompts, rollouts, rewards); about: further attributes of the run.
    """
    count, prompts, rollouts, k = rewards.shape
    names = names or NAMES[:k]
    batch = np.repeat(np.arange(count), prompts * rollouts)
    steps = np.arange(1, count + 1) if steps is None else np.asarray(steps)
    columns = {"batch": batch, "step": steps[batch], "group": np.repeat(np.arange(count * prompts), rollouts)}
    columns |= {name: rewards[..., i].ravel() for i, name in enumerate(reward_columns(names))}
    if advantage is None and method is not None:
        advantage = advantages(rewards, method, weights)
    if advantage is not None:
        columns["advantage"] = np.asarray(advantage, dtype=float).ravel()
    if lengths is not None:
        columns["length"] = np.asarray(lengths).ravel()
    whole = {"batch": pl.Int64, "step": pl.Int64, "group": pl.Int64, "length": pl.Int64}
    table = pl.DataFrame(columns).cast({name: kind for name, kind in whole.items() if name in columns})
    given = {
        "path": "made",
        "framework": "trl",
        "files": tuple(f"completions_{step:05d}.parquet" for step in steps),
        "rewards": names,
        "group_size": rollouts,
        "grouped_by": f"blocks of {rollouts} rows",
        "total_only": False,
        "has_advantage": advantage is not None,
        "has_length": lengths is not None,
    }
    return Run(**given | about, _rows=rows_of(table))


def rows_of(table):
    """Return the reader's rows of a table that already has its groups."""
    rows = table.with_columns(pl.col("group").alias("_key"), pl.int_range(pl.len()).alias("_place")).drop("group")
    return Rows(read=lambda: iter([rows]), keyed_by="the column group")


def with_id(report, which):
    return [finding for finding in report.findings if finding.id == which]


def one(report, which):
    (finding,) = with_id(report, which)
    return finding


def ids(report):
    return [finding.id for finding in report.findings]


def silenced(rewards, share, k=slice(None)):
    """Return rewards in which the first groups of each step are constant. share: how many of the groups; k: the rewards
    concerned.
    """
    rewards = rewards.copy()
    groups = round(share * rewards.shape[1])
    rewards[:, :groups, :, k] = rewards[:, :groups, :1, k]
    return rewards


# --- runs without findings, and the numbers ---------------------------------------------------------------------------


def test_the_verdict_says_what_ran_and_what_to_look_at_first():
    few = audit(made_run(varied(steps=2), "gdpo"))
    short = "This log is too short to judge: it holds 128 responses in 16 groups. Take what follows as a first hint."
    assert few.verdict.endswith(f" {short} There is no finding yet. {NAME_PRIMARY}")
    dead_in_some = audit(made_run(silenced(varied(), 0.5, 1), "gdpo"))
    assert {f.severity for f in dead_in_some.findings} == {"info"}
    assert dead_in_some.verdict.endswith(f" No finding asks for a change yet. {NAME_PRIMARY}")
    correct_alone = audit(made_run(varied(), "gdpo", weights=[1, 0.01, 0.01]), primary="correct")
    push = correct_alone.plan[0].push["correct"]
    assert correct_alone.verdict.endswith(
        " No change is called for: no other setting that was tried pushes correct more by more than noise (the push is "
        f"{push:+.2f})."
    )
    rewards = varied()
    rewards[..., 2] *= 50
    report = audit(made_run(rewards, "grpo_no_std", weights=[1, 0.5, 0.25]))
    made = "GRPO without std as TRL computes it with weights correct 1, format 0.5, brief 0.25: all "
    assert report.verdict.startswith(f"The logged advantages are {made}")
    opened = (
        "Open: name the reward that matters most (--primary): correct, format or brief. If you use GDPO, the push on"
    )
    assert opened in report.verdict
    report = audit(made_run(rewards, "grpo_no_std", weights=[1, 0.5, 0.25]), primary="correct")
    best = next(row for row in report.plan if row.recommended)
    pushes = [
        f"from {row.push[name]:+.2f} to {best.push[name]:+.2f}"
        for row in report.plan[:1]
        for name in ("correct", "brief")
    ]
    assert f": the push on correct goes {pushes[0]}." in report.verdict
    assert report.verdict.endswith(f"It has a cost: the push on brief falls {pushes[1]}.")


@pytest.mark.parametrize("method", gc.METHODS)
def test_on_one_batch_the_report_says_what_collapse_says(method):
    rewards, weights = binary(steps=1), [1.0, 0.5, 2.0]
    report = audit(made_run(rewards, "gdpo", weights=weights), primary="correct")
    c = gc.collapse(rewards[0], method, weights=weights, convention=gc.TRL)
    figures = report.methods[method]
    for name in ("groups_with_ties", "tied_pairs", "levels", "silent_groups"):
        assert figures[name] == pytest.approx(getattr(c, name), abs=1e-12), name
    assert figures["inversions"] == pytest.approx(c.inversions(0), abs=1e-12)
    shares = [reward["update_share"][method] for reward in report.rewards]
    assert shares == pytest.approx(c.update_share, abs=1e-9)


def test_the_source_the_rewards_and_the_steps():
    rewards = silenced(varied(), 0.25, 1)
    rewards[0, :2, :3, 0] = np.nan
    rewards[..., 0] += np.arange(STEPS)[:, None, None]
    rewards[3, ..., 1] = 0.5
    report = audit(made_run(rewards, "gdpo", skipped_lines=3, left_out=("grade",)))
    source = {"path": "made", "framework": "trl", "files": STEPS, "steps": STEPS, "rewards": list(NAMES)}
    source |= {"as_written": True}
    source |= {"responses": STEPS * PROMPTS * ROLLOUTS, "groups": STEPS * PROMPTS, "group_size": ROLLOUTS}
    source |= {"grouped_by": f"blocks of {ROLLOUTS} rows", "skipped_lines": 3, "skipped_files": []}
    assert report.source == source | {"left_out": ["grade"], "window": None, "stretches": None, "notes": []}
    for k, reward in enumerate(report.rewards):
        values = rewards[..., k][~np.isnan(rewards[..., k])]
        assert reward["name"] == NAMES[k] and reward["missing"] == (6 if k == 0 else 0)
        assert (reward["mean"], reward["std"]) == nearly((values.mean(), values.std(ddof=1)))
        assert reward["dead_groups"] == ((3 * 0.25 + 1) / 4 if k == 1 else 0)
    steps = report.steps
    assert steps["step"].to_list() == [1, 2, 3, 4] and steps["dead:format"].to_list() == [0.25, 0.25, 0.25, 1]
    assert steps["mean:correct"].to_list() == nearly(np.nanmean(rewards[..., 0], (1, 2)).tolist())
    assert steps["share:gdpo:format"][3] == 0 and steps["correlation:correct:format"][3] is None
    centred = rewards - rewards.mean(2, keepdims=True)
    expected = np.corrcoef(centred[1, ..., 0].ravel(), centred[1, ..., 2].ravel())[0, 1]
    assert steps["correlation:correct:brief"][1] == pytest.approx(expected, abs=1e-9)


def test_a_long_run_is_shown_in_few_rows_with_the_means_of_what_they_hold():
    rewards = varied(1, steps=250, prompts=2, rollouts=4)
    steps = audit(made_run(rewards, "gdpo")).steps
    assert len(steps) == 200 and steps["step"][0] == 1 and steps["step_last"][-1] == 250
    assert steps["responses"].sum() == rewards.size and set(steps["responses"]) == {8, 16}
    for first, last, mean in steps.select("step", "step_last", "mean:correct").rows():
        assert mean == pytest.approx(rewards[first - 1 : last].mean())


def test_the_weights_come_from_the_log_unless_they_are_given():
    run = made_run(varied(), "gdpo", weights=[1, 0.5, 2])
    solved = audit(run).run
    assert solved["weights_from"] == "solved"
    assert list(solved["weights"].values()) == pytest.approx([1, 0.5, 2], rel=1e-3)
    given = audit(run, weights={"brief": 4}).run
    assert given["weights_from"] == "given" and given["weights_used"]["brief"] == 4
    assert given["weights_used"]["format"] == pytest.approx(solved["weights_used"]["format"])
    assumed = audit(made_run(varied())).run
    assert assumed["weights_from"] == "assumed" and assumed["weights"] is None and assumed["reproduced"] is None
    assert assumed["weights_used"] == {"correct": 1, "format": 1, "brief": 1}


def test_a_weight_is_solved_from_batches_all_over_the_run(monkeypatch):
    rewards = varied(steps=8)
    rewards[..., 1] = 1.0
    report = audit(made_run(rewards, "gdpo", weights=[1, 0.5, 2]))
    assert report.run["weights"]["format"] is None and report.run["weights_used"]["format"] == 1
    monkeypatch.setattr(sys.modules["gdpo_audit.logs.groups.run"], "SOLVED_RESPONSES", 2 * PROMPTS * ROLLOUTS)
    rewards = varied(steps=8)
    rewards[:4, ..., 1] = 1.0  # This reward is constant at first.
    report = audit(made_run(rewards, "gdpo", weights=[1, 0.5, 2]))
    assert report.run["reproduced"] is True and report.run["weights"]["format"] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"weights": {"right": 1}}, "weights: expected names of rewards: correct, format, brief, got 'right'"),
        ({"weights": [1, 2]}, "weights: expected 3 numbers, one per reward, got 2"),
        ({"weights": {"brief": float("nan")}}, "weights, brief: expected a finite number, got nan"),
        ({"weights": "1,2,3"}, "weights: expected numbers, got '1,2,3'"),
        ({"primary": "right"}, "primary: expected one of correct, format, brief, got 'right'"),
        ({"asked": "ppo"}, f"asked: expected one of {', '.join(ALL_CONVENTIONS)}, got 'ppo'"),
    ],
)
def test_bad_arguments_are_named(arguments, text):
    with pytest.raises(gc.InputError) as error:
        audit(made_run(varied(), "gdpo"), **arguments)
    assert str(error.value) == text


def test_what_is_no_run_is_refused():
    with pytest.raises(gc.InputError, match=r"run: expected what gdpo_audit\.read_run returns, got str"):
        audit("completions")
    with pytest.raises(gc.InputError, match=r"run: expected what gdpo_audit\.read_run returns, got str"):
        audit("completions", what_if={"method": "gdpo"})


@pytest.mark.slow
def test_findings_and_report_read_facts_alone(monkeypatch):
    """None of them opens the log again: the audit reads beforehand what they need of it."""

    def findings_of_a_closed_log(facts, plan):
        return findings(closed(facts), plan)

    def report_of_a_closed_log(facts, *parts):
        return report_of(closed(facts), *parts)

    def closed(facts):
        return dataclasses.replace(facts, run=dataclasses.replace(facts.run, _rows=None))

    monkeypatch.setattr(auditing, "findings", findings_of_a_closed_log)
    monkeypatch.setattr(auditing, "report_of", report_of_a_closed_log)
    rewards, advantage = mixed_with_an_evaluation()
    assert "eval-overwrote" in ids(audit(made_run(rewards, advantage=advantage)))
    advantage[2] = advantages(rewards, "grpo_no_std", [1, 0.5, 2])[2]
    other = one(audit(made_run(rewards, advantage=advantage)), "advantages-not-reproduced")
    assert other.evidence["method_there"] == "grpo_no_std"


def test_a_report_knows_by_itself_that_all_advantages_are_0():
    """A sentence on what made the advantages does not depend on which findings the report has."""
    noise = np.random.default_rng(0).normal(size=ONES.shape)
    for advantage, all_zero, said in ((ZEROS, True, ""), (noise, False, "no known method made the logged advantages")):
        report = audit(made_run(varied(), advantage=advantage))
        one(report, "advantages-not-reproduced")
        assert report.run["all_zero"] is all_zero and report.run["reproduced"] is False
        for told in (report, dataclasses.replace(report, findings=())):
            assert summary.none_made_it(told) == said
    assert not audit(made_run(varied())).run["all_zero"]


# --- each finding, in a run that has it and in one that nearly has it -------------------------------------------------


def scaled(factor=10, k=2):
    rewards = varied()
    rewards[..., k] *= factor
    return rewards


def following(factor, other=0.6):
    """Return rewards of which the second is so many times the first, plus noise."""
    rewards = varied()
    rewards[..., 1] = factor * rewards[..., 0] + other * rewards[..., 1]
    return rewards


def nearly_constant():
    rewards = varied()
    rewards[..., 2] = 0.5 - 1e-3 * rewards[..., 2]
    return rewards


def without_one():
    rewards = varied()
    rewards[1, 2, 3, 0] = np.nan
    return rewards


def cancelling(opposed):
    """Return two rewards that are opposites in the first `opposed` groups of each step, and both 1 in the others."""
    rewards = binary(rewards=2)
    rewards[:, :opposed, :, 0] = np.arange(ROLLOUTS) % 2
    rewards[:, :opposed, :, 1] = 1 - rewards[:, :opposed, :, 0]
    rewards[:, opposed:] = 1
    return rewards


def constant_sums():
    """Return rewards that differ in the first group of each step while their sum is constant there."""
    rewards = varied()
    rewards[:, 0, :, 0] = np.arange(ROLLOUTS) % 4
    rewards[:, 0, :, 1] = [0, 1, 1, 0] * 2
    rewards[:, 0, :, 2] = 3 - rewards[:, 0, :, 0] - rewards[:, 0, :, 1]
    return rewards


ONES = np.ones((STEPS, PROMPTS, ROLLOUTS))
ZEROS = np.zeros((STEPS, PROMPTS, ROLLOUTS))


def case(id, severity, said, rewards, method=None, asked=None, primary=None, given=None, **about):
    """Return a run, what its report is to hold, and how to audit it. severity: that of the finding `id`, None if it may
    not be there; said: a part of its message or fix.
    """
    how = {"weights": given, "primary": primary, "asked": asked}
    return id, severity, said, made_run(rewards, method, **about), how


VERL, SWIFT = {"framework": "verl", "lengths": ONES}, {"framework": "ms_swift"}
SWIFTS = advantages(varied(), "grpo_no_std", convention=gc.MS_SWIFT)
GIVEN = {"weights": [1, 0.5, 2]}
ALONE = silenced(varied(), 0.9, [1, 2])
WIDE = varied(prompts=20)
CASES = [  # beside those that tests/reports.json holds
    case(
        "reward-dominates",
        "warning",
        "Under GRPO without std (the method that was asked for",
        scaled(),
        asked="grpo_no_std",
    ),
    case("reward-dominates", "warning", "differs in more groups", ALONE, "grpo"),
    case("reward-dead", "warning", "95 %", silenced(WIDE, 0.95, 1), "gdpo"),
    case("reward-dead", None, "", silenced(WIDE, 0.9, 1), "gdpo"),
    case("reward-noise", "info", "", nearly_constant(), "grpo"),
    case("length-coupled", None, "", varied(), "gdpo", lengths=np.random.default_rng(1).integers(9, 99, ONES.shape)),
    case("missing-rewards", "info", "", without_one(), asked="grpo", **VERL),
    case("missing-rewards", "error", "", without_one(), asked="grpo", framework="nemo_rl"),
    case("silent-groups", "info", "15 %", silenced(WIDE, 0.15), "grpo"),
    case("silent-groups", "warning", "cancel in the sum", cancelling(2), advantage=ZEROS),
    case("batch-step-amplifies", None, "", silenced(varied(), 0.5), "gdpo"),
    case("blind-zero-std-metric", None, "", silenced(varied(), 0.4, 1), "gdpo"),
    case("blind-zero-std-metric", None, "", silenced(varied(), 0.5), "grpo"),  # the sum is constant there too
    case("filter-drops-signal", "warning", "--dynamic_sample false", constant_sums(), asked="gdpo", **SWIFT),
    case("filter-drops-signal", None, "", constant_sums(), asked="gdpo"),  # TRL has no such filter
    case("steps-missing", "warning", "4 of the 8 steps from 101 to 108", varied(), "gdpo", steps=[102, 104, 106, 108]),
    case("method-not-as-asked", "error", "reinforce_plus_plus", varied(), advantage=SWIFTS, asked="gdpo", **SWIFT),
    case("weights-not-as-given", None, "", varied(), "gdpo", given=[2, 1, 4], **GIVEN),  # a factor changes nothing
    # MO-GRPO divides the sum of the normalised rewards by nothing, so here a factor does change the advantages.
    case("weights-not-as-given", "error", "", varied(), "mo_grpo", given=[2, 1, 4], **GIVEN),
    case("weights-not-as-given", None, "", varied(), "mo_grpo", given=[1, 0.5, 2], **GIVEN),
]


@pytest.mark.parametrize(("id", "severity", "said", "run", "how"), CASES)
def test_a_run_that_has_a_finding_and_one_that_has_not(id, severity, said, run, how):
    found = with_id(audit(run, **how), id)
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert not severity or said in f"{found[0].message} {found[0].fix}"


@pytest.mark.slow
def test_the_evidence_is_what_was_counted():
    e = one(audit(made_run(scaled(), "grpo")), "reward-dominates").evidence
    assert e["reward"] == "brief" and e["update_share"] > 0.9 and e["weight_asks_for"] == pytest.approx(1 / 3)
    assert e["update_share_gdpo"] == pytest.approx(1 / 3, abs=0.1) and e["threshold"] == t.DOMINATES
    e = one(audit(made_run(nearly_constant(), "gdpo")), "reward-noise").evidence
    assert e["reward"] == "brief" and e["update_share_gdpo"] > 0.1 > e["update_share_grpo"]
    finding = one(audit(made_run(following(-0.9), "gdpo")), "conflict")
    assert finding.evidence["rewards"] == ["correct", "format"] and finding.evidence["correlation"] < t.CONFLICT
    e = one(audit(made_run(silenced(varied(), 0.75), "gdpo")), "batch-step-amplifies").evidence
    assert e["factor"] == pytest.approx(0.25**-0.5)
    e = one(audit(made_run(constant_sums(), framework="ms_swift"), asked="gdpo"), "filter-drops-signal").evidence
    assert e["groups"] == STEPS
    e = one(audit(made_run(cancelling(2), advantage=ZEROS)), "silent-groups").evidence
    assert e["silent_groups"] == 1 and e["rewards_differ_in"] == 2 / PROMPTS
    e = one(audit(made_run(varied(), "gdpo", steps=[1, 10, 20, 30])), "steps-missing").evidence
    assert e["missing"] == 26


def by_primary(primary, advantage):
    """Return how many pairs of a group with different primary reward are in the right order, in the wrong order, and
    tied. primary, advantage: (prompts, rollouts).
    """
    pairs = [0, 0, 0]
    for r, a in zip(primary, advantage, strict=True):
        for i in range(len(r)):
            for j in range(len(r)):
                if r[i] > r[j]:
                    pairs[0 if a[i] > a[j] else 1 if a[i] < a[j] else 2] += 1
    return pairs


def test_ties_are_counted_with_what_gdpo_would_make_of_them():
    rewards = binary(steps=1)
    finding = one(audit(made_run(rewards, "grpo"), primary="correct"), "ties-hide-signal")
    coarse = gc.collapse(rewards[0], "grpo", convention=gc.TRL)
    assert finding.evidence["groups_with_ties"] == pytest.approx(coarse.groups_with_ties)
    for method in ("grpo", "gdpo"):
        made = gc.advantages(torch.tensor(rewards[0]), method, convention=gc.TRL).numpy().round(9)
        right, inverted, tied = by_primary(rewards[0, ..., 0], made)
        orders = f"{method.upper()} orders {right} correctly and {inverted} wrongly, and it ties {tied}"
        assert orders in finding.message
    unjudged = one(audit(made_run(rewards, "grpo")), "ties-hide-signal")  # Nobody knows here whether broken ties help.
    assert unjudged.row is None and unjudged.to_do.startswith("Name the reward that matters most")


@pytest.mark.slow
def test_priorities_are_inverted_by_a_louder_reward():
    rewards = varied()
    rewards[..., 0] = rewards[..., 0] > 0
    rewards[..., 1] = 3 * rewards[..., 1] - rewards[..., 0]
    report = audit(made_run(rewards, "grpo"), primary="correct")
    finding = one(report, "priority-inversion")
    assert finding.severity == "warning"
    assert finding.evidence["inversions"] == report.methods["grpo"]["inversions"] >= t.INVERTED_WARNING
    for method in ("grpo", "gdpo"):
        at = finding.evidence[f"break_even_{method}"]
        below, above = (audit(made_run(rewards, "grpo"), {"correct": f * at}, "correct").methods for f in (0.99, 1.01))
        assert below[method]["inversions"] > above[method]["inversions"] == 0
    assert (
        "With a weight on correct above" in finding.message and finding.to_do == "Decide how much correct should count."
    )
    gate = report.plan[-1]
    assert (gate.gate["reward"], gate.gate["on"], gate.inversions) == ("format", "correct", 0) and not gate.recommended


def test_batches_that_come_twice_count_once():
    rewards = varied(steps=3)
    twice = np.repeat(rewards, 2, axis=0)
    report, once = audit(made_run(twice, "gdpo")), audit(made_run(rewards, "gdpo"))
    repeat = "3 batches (steps 2, 4 and 6) repeat the rows of the batch before; these rows count once."
    assert report.notes == (repeat,) and "steps-repeated" not in ids(report) and once.notes == ()
    assert report.source["responses"] == twice[..., 0].size
    assert report.rewards == nearly(once.rewards) and report.methods == nearly(once.methods)
    by_chance = np.zeros((6, 1, 4, 1))
    by_chance[:, 0, 0] = 1
    by_chance[[2, 4], 0, :2, 0] = [0, 1]
    assert audit(made_run(by_chance)).notes == ()
    assert audit(made_run(np.ones((6, 4, 4, 1)))).notes == ()  # Here no reward differs anywhere.


def mixed_with_an_evaluation():
    rewards = varied(steps=6)
    advantage = advantages(rewards, "gdpo")
    evaluation = silenced(varied(steps=1, seed=9), 0.5)[0]
    scored = advantages(evaluation[None, :4], "gdpo")[0]
    rewards[2, :4], advantage[2, :4] = evaluation[:4], scored
    return rewards, advantage


def test_an_evaluation_in_the_file_of_a_step_is_not_in_the_figures():
    rewards, advantage = mixed_with_an_evaluation()
    report = audit(made_run(rewards, advantage=advantage))
    finding = one(report, "eval-overwrote")
    assert finding.evidence["steps"] == [3] == report.run["steps_off"] and report.run["reproduced"] is False
    assert finding.fix.startswith('GRPOConfig(eval_strategy="no")  # or leave step 3 out')
    assert report.run["method"] == "gdpo" and "advantages-not-reproduced" not in ids(report)
    kept = [0, 1, 3, 4, 5]
    without = audit(made_run(rewards[kept], advantage=advantage[kept], steps=[1, 2, 4, 5, 6]))
    assert report.rewards == nearly(without.rewards) and report.methods == nearly(without.methods)
    assert report.steps.to_dicts() == nearly(without.steps.to_dicts())
    assert report.source["steps"] == 6 and report.source["responses"] == rewards[..., 0].size
    assert report.run["logged"] == advantage.size and report.run["max_error"] > 1e-3
    wrong = int(report.verdict.split("except for ")[1].split()[0])
    assert 0 < wrong <= PROMPTS * ROLLOUTS and f"except for {wrong} of {advantage.size}." in report.verdict


# --- the report as JSON -----------------------------------------------------------------------------------------------


def check(report):
    """Assert that a report is as the design wants it, and return it as read back from JSON."""
    d = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    VALID.validate(d)
    assert [reward["name"] for reward in d["rewards"]] == d["source"]["rewards"]
    assert all(0 <= reward["dead_groups"] <= 1 for reward in d["rewards"])
    for method in ("grpo", "grpo_no_std", "gdpo"):
        kinds = ("groups_with_ties", "tied_pairs", "levels", "silent_groups", "inversions")
        assert {*kinds} == d["methods"][method].keys()
        for kind in kinds:
            value = d["methods"][method][kind]
            assert value is None or 0 <= value <= (1 if kind != "levels" else d["source"]["responses"])
    for finding in d["findings"]:
        assert finding["id"] in KINDS
        assert ("threshold" in finding["evidence"]) <= (finding["id"] in COMPARED_WITH)
        assert finding["evidence"] and (finding["fix"] is None or finding["fix"].strip())
        assert not any(word in finding["message"] for word in ("nan", "None", "inf ", "{", "}"))
        assert finding["message"].endswith(".")
        assert finding["title"] and not finding["title"].endswith(".") and len(finding["title"]) < 100
        assert finding["to_do"].endswith(".") if finding["severity"] != "info" else finding["to_do"][-1:] in ("", ".")
        assert finding["extent"] >= 0 and (finding["row"] is None or 0 < finding["row"] < len(d["plan"]))
        assert finding["read_more"]
    ranks = [("error", "warning", "info").index(finding["severity"]) for finding in d["findings"]]
    assert ranks == sorted(ranks)
    assert 0 < len(d["steps"]) <= 200
    assert d["verdict"].endswith(".")
    return d


def any_run(seed):
    """Return a run of any shape, framework and method, with constants, missing rewards, odd numbers of steps and groups
    of several sizes.
    """
    draw = np.random.default_rng(seed)
    shape = tuple(int(draw.integers(low, high)) for low, high in ((1, 5), (1, 6), (2, 7), (1, 5)))
    rewards = draw.choice([0.0, 1.0], shape) if draw.random() < 0.5 else draw.normal(size=shape).round(2)
    if draw.random() < 0.3:
        rewards[..., 0] *= 100
    if draw.random() < 0.3:
        rewards[..., -1] = 0.5
    if draw.random() < 0.3:
        rewards[draw.random(shape) < 0.1] = np.nan
        rewards[0, 0, 0, 0] = 1.0
    framework = str(draw.choice(["trl", "verl", "ms_swift", "nemo_rl", "generic"]))
    lengths = draw.integers(1, 200, shape[:3]) if framework == "verl" or draw.random() < 0.5 else None
    logged = str(draw.choice(["grpo", "grpo_no_std", "gdpo", "nothing", "noise", "zeros"]))
    advantage = {"nothing": None, "noise": draw.normal(size=shape[:3]), "zeros": np.zeros(shape[:3])}.get(logged)
    if logged in gc.METHODS:
        advantage = advantages(rewards, logged)
        advantage[0] *= draw.choice([1.0, 1.3])
    steps = draw.integers(0, 4, shape[0]).cumsum()
    run = made_run(
        rewards, framework=framework, names=tuple("abcd"[: shape[3]]), advantage=advantage, lengths=lengths, steps=steps
    )
    if draw.random() < 0.3:
        (table,) = run.tables()
        kept = np.append(True, draw.random(len(table) - 1) < 0.8)
        ragged = table.filter(pl.Series(kept))
        run = dataclasses.replace(run, group_size=None, _rows=rows_of(ragged))
    return run, draw


@pytest.mark.parametrize("seed", [n if n < 6 else pytest.param(n, marks=pytest.mark.slow) for n in range(16)])
def test_whatever_the_log_the_report_is_plain_and_whole(seed):
    run, draw = any_run(seed)
    primary = run.rewards[0] if draw.random() < 0.7 else None
    asked = str(draw.choice(["gdpo", "grpo"])) if draw.random() < 0.3 else None
    weights = {run.rewards[0]: float(draw.choice([0, 2, -1]))} if draw.random() < 0.2 else None
    d = check(audit(run, weights, primary, asked=asked))
    assert d["source"]["responses"] == sum(len(table) for table in run.tables())


def test_every_function_that_yields_findings_is_a_kind():
    looked = {kind.look for kind in KINDS.values()}
    modules = [m for name, m in sys.modules.items() if name.startswith("gdpo_audit.findings.findings_")]
    found = [f for m in modules for f in vars(m).values() if isgeneratorfunction(f) and f.__module__ == m.__name__]
    public = [f for f in found if not f.__name__.startswith("_")]
    assert len(modules) == 7 and not [f.__name__ for f in public if f not in looked], "each has a row in findings.py"
