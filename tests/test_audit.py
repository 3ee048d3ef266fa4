"""Runs made for one finding each, and their near misses; the report's numbers against the library's own."""

import dataclasses
import json
import sys
from math import isnan
from pathlib import Path

import fake_logs
import numpy as np
import polars as pl
import pytest
import torch
from helpers import nearly

import gdpo_core as gc
from gdpo_core.conventions import NAMES as ALL_CONVENTIONS
from gdpo_core.runs import thresholds as t
from gdpo_core.runs.audit import audit, findings
from gdpo_core.runs.audit_report import NAME_PRIMARY
from gdpo_core.runs.columns import Columns
from gdpo_core.runs.read import read_run
from gdpo_core.runs.run import LogIssue, Rows, Run

PROMPTS, ROLLOUTS, STEPS = 8, 8, 4
NAMES = ("correct", "format", "brief")
IDS = {
    *("advantage-impossible", "no-right-answer", "reward-falls"),
    *(
        "reward-dominates",
        "reward-dead",
        "reward-starved",
        "reward-dead-in-part",
        "reward-fades",
        "reward-noise",
        "ties-hide-signal",
        "silent-groups",
        "priority-inversion",
    ),
    *("conflict", "blind-zero-std-metric", "filter-drops-signal", "batch-step-amplifies", "length-coupled"),
    *("steps-missing", "steps-repeated", "eval-overwrote", "reward-columns-merged", "prompts-merged"),
    *(
        "ragged-batches",
        "groups-sampled",
        "no-components",
        "advantages-not-reproduced",
        "method-not-as-asked",
        "weights-not-as-given",
        "missing-rewards",
    ),
}
FINDING = {"id", "title", "severity", "message", "evidence", "fix", "to_do", "read_more", "links"}
FINDING |= {"effect", "tried_on", "extent"}


def varied(rewards=3, steps=STEPS, seed=0, prompts=PROMPTS, rollouts=ROLLOUTS):
    """(steps, prompts, rollouts, rewards) of one size, that all differ: there is nothing to say about them."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(steps, prompts, rollouts, rewards)).astype(np.float32).astype(np.float64)


def binary(rewards=3, steps=STEPS, seed=0, p=0.5):
    return (np.random.default_rng(seed).random((steps, PROMPTS, ROLLOUTS, rewards)) < p).astype(float)


def advantages(rewards, method, weights=None, convention=gc.TRL):
    """(steps, prompts, rollouts) as a trainer logs them, in float32."""
    made = [gc.advantages(step, method, weights=weights, convention=convention) for step in torch.tensor(rewards)]
    return torch.stack(made).float().double().numpy()


def made_run(rewards, method=None, *, weights=None, steps=None, names=None, lengths=None, advantage=None, **about):
    """A run as a reader hands it over; by default TRL's, with the advantages of a method."""
    count, prompts, rollouts, k = rewards.shape
    names = names or NAMES[:k]
    batch = np.repeat(np.arange(count), prompts * rollouts)
    steps = np.arange(1, count + 1) if steps is None else np.asarray(steps)
    columns = {"batch": batch, "step": steps[batch], "group": np.repeat(np.arange(count * prompts), rollouts)}
    columns |= {name: rewards[..., i].ravel() for i, name in enumerate(names)}
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
    """The rows of a table that has its groups."""
    rows = table.with_columns(pl.col("group").alias("_key"), pl.int_range(pl.len()).alias("_place")).drop("group")
    names = tuple(
        name for name in rows.columns if name not in ("batch", "step", "advantage", "length", "_key", "_place")
    )
    return Rows(columns=Columns(rewards=names), read=lambda: iter([rows]), keyed_by="the column group")


def with_id(report, which):
    return [finding for finding in report.findings if finding.id == which]


def one(report, which):
    (finding,) = with_id(report, which)
    return finding


def ids(report):
    return [finding.id for finding in report.findings]


def silenced(rewards, share, k=slice(None)):
    """The same with the first groups of each step constant in the rewards k."""
    rewards = rewards.copy()
    groups = round(share * rewards.shape[1])
    rewards[:, :groups, :, k] = rewards[:, :groups, :1, k]
    return rewards


# --- nothing to say ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "grpo_no_std", "gdpo"])
def test_a_run_with_nothing_wrong_gets_no_finding(method):
    report = audit(made_run(varied(), method, weights=[1, 0.5, 2]), primary=None)
    assert report.run["method"] == method and report.run["reproduced"] is True
    assert [f.id for f in report.findings if f.severity != "info"] == []
    assert report.verdict.endswith(f" No finding yet. {NAME_PRIMARY}")


def test_the_verdict_says_where_there_is_too_little_to_judge_and_where_nothing_asks_for_a_change():
    few = audit(made_run(varied(steps=2), "gdpo"))
    assert few.verdict.endswith(
        f" Too few to judge (128 responses in 16 groups). So far: no finding yet. {NAME_PRIMARY}"
    )
    dead_in_some = audit(made_run(silenced(varied(), 0.5, 1), "gdpo"))
    assert {f.severity for f in dead_in_some.findings} == {"info"}
    assert dead_in_some.verdict.endswith(f" No finding asks for a change yet. {NAME_PRIMARY}")
    correct_alone = audit(made_run(varied(), "gdpo", weights=[1, 0.01, 0.01]), primary="correct")
    assert correct_alone.verdict.endswith(" Nothing to change: no finding.")
    one_reward = audit(made_run(varied(1), "gdpo"))  # whose order every method keeps
    assert one_reward.verdict.endswith(" Nothing to change: no finding.")


def test_the_verdict_names_the_method_the_weights_and_what_to_look_at_first():
    rewards = varied()
    rewards[..., 2] *= 50
    report = audit(made_run(rewards, "grpo_no_std", weights=[1, 0.5, 0.25]))
    made = "GRPO without std as TRL computes it with weights correct 1, format 0.5, brief 0.25: all "
    assert report.verdict.startswith(f"The logged advantages are {made}")
    assert "Look first at reward-dominates: brief makes 99.5 % of the update. Use GDPO, if brief" in report.verdict


# --- the numbers ------------------------------------------------------------------------------------------------------


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


def test_each_reward_is_described_by_its_own_numbers():
    rewards = silenced(varied(), 0.25, 1)
    rewards[0, :2, :3, 0] = np.nan
    report = audit(made_run(rewards, "gdpo"))
    for k, reward in enumerate(report.rewards):
        values = rewards[..., k][~np.isnan(rewards[..., k])]
        assert reward["name"] == NAMES[k]
        assert reward["mean"] == pytest.approx(values.mean(), abs=1e-9)
        assert reward["std"] == pytest.approx(values.std(ddof=1), abs=1e-9)
        assert reward["missing"] == (6 if k == 0 else 0)
        assert reward["dead_groups"] == (0.25 if k == 1 else 0)


def test_the_source_counts_what_the_log_holds():
    report = audit(made_run(varied(), "gdpo", skipped_lines=3, left_out=("grade",)))
    assert report.source == {
        "path": "made",
        "framework": "trl",
        "files": STEPS,
        "steps": STEPS,
        "responses": STEPS * PROMPTS * ROLLOUTS,
        "groups": STEPS * PROMPTS,
        "group_size": ROLLOUTS,
        "rewards": list(NAMES),
        "grouped_by": f"blocks of {ROLLOUTS} rows",
        "skipped_lines": 3,
        "skipped_files": [],
        "left_out": ["grade"],
        "window": None,
        "notes": [],
    }


def test_the_steps_show_drift():
    rewards = varied()
    rewards[..., 0] += np.arange(STEPS)[:, None, None]
    rewards[3, ..., 1] = 0.5
    steps = audit(made_run(rewards, "gdpo")).steps
    assert steps["step"].to_list() == [1, 2, 3, 4]
    assert steps["mean:correct"].to_list() == pytest.approx(rewards[..., 0].mean((1, 2)).tolist())
    assert steps["dead:format"].to_list() == [0, 0, 0, 1]
    assert steps["share:gdpo:format"][3] == 0
    expected = np.corrcoef(*(rewards[0, ..., k].ravel() for k in (0, 2)))[0, 1]
    centred = rewards - rewards.mean(2, keepdims=True)
    expected = np.corrcoef(centred[0, ..., 0].ravel(), centred[0, ..., 2].ravel())[0, 1]
    assert steps["correlation:correct:brief"][0] == pytest.approx(expected, abs=1e-9)
    assert steps["correlation:correct:format"][3] is None


def test_a_long_run_is_shown_in_few_rows_with_the_means_of_what_they_hold():
    rewards = varied(1, steps=250, prompts=2, rollouts=4)
    steps = audit(made_run(rewards, "gdpo")).steps
    assert len(steps) == 200 and steps["step"][0] == 1 and steps["step_last"][-1] == 250
    assert steps["responses"].sum() == rewards.size and set(steps["responses"]) == {8, 16}
    for first, last, mean in steps.select("step", "step_last", "mean:correct").rows():
        assert mean == pytest.approx(rewards[first - 1 : last].mean())


def test_progress_is_told_each_table():
    done = []
    run = made_run(varied(), "gdpo")
    audit(run, progress=done.append)
    assert done == [STEPS * PROMPTS * ROLLOUTS]


# --- weights ----------------------------------------------------------------------------------------------------------


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


def test_a_weight_that_the_log_cannot_tell_is_null():
    rewards = varied()
    rewards[..., 1] = 1.0
    report = audit(made_run(rewards, "gdpo", weights=[1, 0.5, 2]))
    assert report.run["weights"]["format"] is None
    assert report.run["weights_used"]["format"] == 1


def test_a_weight_that_only_a_later_part_of_the_run_tells_is_found(monkeypatch):
    monkeypatch.setattr(sys.modules["gdpo_core.runs.audit"], "SAMPLE", 2 * PROMPTS * ROLLOUTS)
    rewards = varied(steps=8)
    rewards[:4, ..., 1] = 1.0  # constant in all that the sample from the start holds
    report = audit(made_run(rewards, "gdpo", weights=[1, 0.5, 2]))
    assert report.run["reproduced"] is True and report.run["weights"]["format"] == pytest.approx(0.5, rel=1e-3)
    rewards[:4] = 1.0
    report = audit(made_run(rewards, "gdpo", weights=[1, 0.5, 2]))
    assert report.run["reproduced"] is True and report.run["method"] == "gdpo"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"weights": {"right": 1}}, "weights: expected names of rewards: correct, format, brief, got 'right'"),
        ({"weights": [1, 2]}, "weights: expected 3 numbers, one per reward, got 2"),
        ({"weights": {"brief": float("nan")}}, "weights, brief: expected a finite number, got nan"),
        ({"weights": "1,2,3"}, "weights: expected numbers, got '1,2,3'"),
        ({"weights": 3}, "weights: expected numbers, got 3"),
        ({"primary": "right"}, "primary: expected one of correct, format, brief, got 'right'"),
        ({"asked": "ppo"}, f"asked: expected one of {', '.join(ALL_CONVENTIONS)}, got 'ppo'"),
    ],
)
def test_bad_arguments_are_named(arguments, text):
    with pytest.raises(gc.InputError) as error:
        audit(made_run(varied(), "gdpo"), **arguments)
    assert str(error.value) == text


def test_rewards_that_are_all_missing_are_refused():
    with pytest.raises(gc.InputError, match="made: expected a value in correct, format, brief, got every one missing"):
        audit(made_run(np.full((1, 2, 4, 3), np.nan)))


def test_findings_read_facts_alone(monkeypatch):
    """None opens the log again: what takes that, the audit computes before."""

    def findings_of_a_closed_log(facts):
        return findings(dataclasses.replace(facts, run=dataclasses.replace(facts.run, _rows=None)))

    monkeypatch.setattr(sys.modules["gdpo_core.runs.audit"], "findings", findings_of_a_closed_log)
    rewards, advantage = mixed_with_an_evaluation()
    assert "eval-overwrote" in ids(audit(made_run(rewards, advantage=advantage)))
    advantage[2] = advantages(rewards, "grpo_no_std", [1, 0.5, 2])[2]
    other = one(audit(made_run(rewards, advantage=advantage)), "advantages-not-reproduced")
    assert other.evidence["method_there"] == "grpo_no_std"


# --- findings about rewards -------------------------------------------------------------------------------------------


def test_a_reward_of_a_large_scale_dominates_grpo_and_gdpo_is_the_cure():
    rewards = varied()
    rewards[..., 2] *= 10
    finding = one(audit(made_run(rewards, "grpo")), "reward-dominates")
    assert finding.severity == "warning" and finding.evidence["reward"] == "brief"
    assert finding.evidence["update_share"] > 0.9 and finding.evidence["weight_share"] == pytest.approx(1 / 3)
    assert finding.evidence["update_share_gdpo"] == pytest.approx(1 / 3, abs=0.1)
    assert finding.evidence["threshold"] == t.DOMINATES
    assert 'multi_objective_aggregation="normalize_then_sum"' in finding.fix
    assert "reward-dominates" not in ids(audit(made_run(rewards, "gdpo")))


def test_a_reward_that_was_meant_to_dominate_does_not_count_as_such():
    report = audit(made_run(varied(), "grpo", weights=[8, 1, 1]))
    assert report.rewards[0]["update_share"]["grpo"] > t.DOMINATES
    assert "reward-dominates" not in ids(report)


def test_under_gdpo_the_only_reward_that_differs_dominates_and_no_line_is_offered():
    rewards = silenced(silenced(varied(), 0.9, 1), 0.9, 2)
    finding = one(audit(made_run(rewards, "gdpo")), "reward-dominates")
    assert finding.fix is None and "format in 88 %" in finding.message


def test_without_advantages_the_sentence_says_that_the_method_is_assumed():
    rewards = varied()
    rewards[..., 2] *= 10
    assert "the log does not show the method" in one(audit(made_run(rewards)), "reward-dominates").message
    intended = one(audit(made_run(rewards), asked="grpo_no_std"), "reward-dominates")
    assert intended.message.startswith("Under GRPO without std (which was asked for: the log does not show the method)")


def test_a_reward_that_hardly_ever_differs_is_dead():
    rewards = varied(prompts=20)
    assert one(audit(made_run(silenced(rewards, 0.95, 1), "gdpo")), "reward-dead").evidence["dead_groups"] == 0.95
    assert "reward-dead" not in ids(audit(made_run(silenced(rewards, 0.9, 1), "gdpo")))
    always = one(audit(made_run(silenced(rewards, 1, 1), "gdpo")), "reward-dead")
    assert "constant in every group" in always.message
    rewards[..., 1] = np.nan
    assert "missing in every response" in one(audit(made_run(rewards, "gdpo")), "reward-dead").message


def test_gdpo_is_no_cure_where_the_others_are_constant():
    rewards = silenced(silenced(varied(), 0.9, 1), 0.9, 2)
    finding = one(audit(made_run(rewards, "grpo")), "reward-dominates")
    assert finding.fix is None and "scale is not the reason" in finding.message


def test_a_nearly_constant_reward_is_noise_under_gdpo():
    rewards = varied()
    rewards[..., 2] = 0.5 - 1e-3 * rewards[..., 2]
    finding = one(audit(made_run(rewards, "gdpo")), "reward-noise")
    assert finding.severity == "warning" and finding.evidence["reward"] == "brief"
    assert finding.evidence["update_share_gdpo"] > 0.1 > finding.evidence["update_share_grpo"]
    assert "reward_weights=" in finding.fix
    assert one(audit(made_run(rewards, "grpo")), "reward-noise").severity == "info"
    assert "reward-noise" not in ids(audit(made_run(varied(), "gdpo")))


def test_rewards_that_oppose_each_other_conflict():
    rewards = varied()
    rewards[..., 1] = -0.9 * rewards[..., 0] + 0.6 * rewards[..., 1]
    finding = one(audit(made_run(rewards, "gdpo"), primary="correct"), "conflict")
    assert finding.evidence["rewards"] == ["correct", "format"] and finding.evidence["correlation"] < t.CONFLICT
    assert "format_gated" in finding.fix
    assert one(audit(made_run(rewards, "gdpo")), "conflict").fix is None
    rewards = varied()
    rewards[..., 1] = -0.3 * rewards[..., 0] + rewards[..., 1]
    assert "conflict" not in ids(audit(made_run(rewards, "gdpo")))


def test_a_reward_that_follows_the_length_is_coupled_to_it():
    rewards = varied()
    lengths = (200 + 60 * rewards[..., 1]).round().clip(1)
    finding = one(audit(made_run(rewards, "gdpo", lengths=lengths)), "length-coupled")
    assert finding.severity == "info" and finding.evidence["reward"] == "format"
    lengths = np.random.default_rng(1).integers(100, 300, lengths.shape)
    assert "length-coupled" not in ids(audit(made_run(rewards, "gdpo", lengths=lengths)))


def test_verls_token_weights_push_groups_without_signal():
    rewards = silenced(varied(), 0.5)
    lengths = (200 - 90 * rewards[..., 0]).round().clip(1)
    run = made_run(rewards, lengths=lengths, framework="verl")
    finding = one(audit(run, asked="gdpo"), "length-coupled")
    assert finding.severity == "warning" and finding.evidence["responses_without_signal"] == STEPS * 4 * ROLLOUTS
    a = [
        gc.gdpo(step, lengths=torch.tensor(tokens), convention=gc.VERL)[:4].abs().mean().item()
        for step, tokens in zip(torch.tensor(rewards), lengths, strict=True)
    ]
    assert finding.evidence["mean_size_of_advantage_without_signal"] == pytest.approx(np.mean(a), abs=1e-9)
    assert one(audit(run, asked="grpo"), "length-coupled").severity == "info"


@pytest.mark.parametrize(("framework", "fires"), [("verl", True), ("nemo_rl", True), ("trl", False)])
def test_a_missing_reward_spreads_where_nothing_skips_it(framework, fires):
    rewards = varied()
    rewards[1, 2, 3, 0] = np.nan
    report = audit(made_run(rewards, framework=framework, lengths=np.ones(rewards.shape[:-1])))
    assert ("missing-rewards" in ids(report)) is fires
    if fires:
        assert one(report, "missing-rewards").evidence["missing"] == {"correct": 1}


@pytest.mark.parametrize(
    ("framework", "asked", "severity"),
    [("verl", "gdpo", "error"), ("verl", None, "warning"), ("verl", "grpo", "info"), ("nemo_rl", "grpo", "error")],
)
def test_a_missing_component_harms_verls_gdpo_alone(framework, asked, severity):
    rewards = varied()
    rewards[1, 2, 3, 0] = np.nan
    run = made_run(rewards, framework=framework, lengths=np.ones(rewards.shape[:-1]))
    assert one(audit(run, asked=asked), "missing-rewards").severity == severity


def test_a_column_that_is_not_among_the_rewards_has_weight_0():
    rewards = varied()
    assert audit(made_run(rewards, "grpo", weights=[1, 1, 0])).notes == ("Not counted: brief (weight 0).",)
    assert audit(made_run(rewards, "grpo", weights=[1, 1, 0.1])).notes == ()


# --- findings about groups --------------------------------------------------------------------------------------------


def by_primary(primary, advantage):
    """Pairs of a group with different primary reward: right way round, wrong way, tied; (prompts, rollouts) each."""
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
        counted = [finding.evidence[f"{kind}_{method}"] for kind in ("right", "inverted", "tied_primary_pairs")]
        assert counted == [right, inverted, tied]
        assert f"has {right} the right way round, {inverted} the wrong way and {tied} tied" in finding.message
    assert (finding.fix is None) is (finding.evidence["inverted_gdpo"] > finding.evidence["inverted_grpo"])
    unjudged = one(audit(made_run(rewards, "grpo")), "ties-hide-signal")  # whether broken ties help, nobody knows here
    assert unjudged.fix is None and unjudged.to_do.startswith("Name the reward that matters most")


def test_gdpo_is_no_cure_for_ties_that_it_breaks_the_wrong_way_round():
    rewards = np.zeros((1, PROMPTS, ROLLOUTS, 3))
    rewards[..., :5, 0] = 1  # five of eight are right, and each misses what two wrong ones have
    rewards[..., 5:7, 1] = 1
    finding = one(audit(made_run(rewards, "grpo"), primary="correct"), "ties-hide-signal")
    assert finding.evidence["tied_primary_pairs_grpo"] == finding.evidence["inverted_gdpo"] == PROMPTS * 10
    assert finding.evidence["inverted_grpo"] == 0 and finding.evidence["right_gdpo"] == PROMPTS * 5
    assert finding.fix.startswith("GRPOConfig(reward_weights=[2.0, 1.0, 1.0])") and "Use GDPO" not in finding.to_do
    assert finding.effect["inversions"] == (0.0, 0.0) and finding.effect["tied_pairs"][1] < 0.1


def test_rewards_that_all_differ_have_no_ties():
    assert "ties-hide-signal" not in ids(audit(made_run(varied(), "grpo")))


def test_few_tied_pairs_are_no_warning():
    rewards = varied()
    rewards[..., 1] = -rewards[..., 1]
    rewards[:, :, 1] = rewards[:, :, 0, ::-1]  # in each group one pair has the same sum
    finding = one(audit(made_run(rewards, "grpo_no_std")), "ties-hide-signal")
    assert finding.severity == "info" and finding.evidence["tied_pairs"] == pytest.approx(1 / 28)


@pytest.mark.parametrize("opposed", [0, 2, 6, 8])
def test_silent_groups_whose_rewards_cancel_are_not_too_easy(opposed):
    rewards = binary(rewards=2)
    rewards[:, :opposed, :, 0] = np.arange(ROLLOUTS) % 2
    rewards[:, :opposed, :, 1] = 1 - rewards[:, :opposed, :, 0]
    rewards[:, opposed:] = 1
    report = audit(made_run(rewards, advantage=np.zeros(rewards.shape[:3])))
    finding = one(report, "silent-groups")
    assert finding.evidence["silent_groups"] == 1 and finding.evidence["rewards_differ_in"] == opposed / PROMPTS
    assert ("cancel in the sum" in finding.message) is (opposed > 0)
    assert ("too easy or too hard" not in finding.message) is (opposed > 4)


def test_rewards_that_cancel_everywhere_are_no_error():
    rewards = binary(rewards=2)
    rewards[..., 1] = 1 - rewards[..., 0]
    report = audit(made_run(rewards, advantage=np.zeros(rewards.shape[:3])))
    assert report.run["reproduced"] is None and "advantages-not-reproduced" not in ids(report)
    assert "as under every method here: the rewards cancel in each group" in report.verdict
    assert "Look first at conflict" in report.verdict


@pytest.mark.parametrize(("share", "severity"), [(0.05, None), (0.15, "info"), (0.3, "warning")])
def test_silent_groups(share, severity):
    report = audit(made_run(silenced(varied(prompts=20), share), "grpo"))
    assert [f.severity for f in with_id(report, "silent-groups")] == ([severity] if severity else [])
    if severity:
        finding = one(report, "silent-groups")
        assert finding.evidence["silent_groups"] == pytest.approx(share)
        assert finding.evidence["threshold_warning"] == t.SILENT_WARNING
        assert finding.fix is None  # what larger groups do, this log cannot show


@pytest.mark.parametrize(
    ("share", "method", "severity"),
    [(0.25, "gdpo", None), (0.5, "gdpo", None), (0.75, "gdpo", "warning"), (0.75, "grpo", None)],
)
def test_the_batch_step_amplifies_what_is_left(share, method, severity):
    report = audit(made_run(silenced(varied(), share), method))
    assert [f.severity for f in with_id(report, "batch-step-amplifies")] == ([severity] if severity else [])
    if severity:
        assert one(report, "batch-step-amplifies").evidence["factor"] == pytest.approx((1 - share) ** -0.5)


def scaled_by_the_batch(rewards):
    s = rewards.sum(-1)
    return (s - s.mean(2, keepdims=True)) / (s.std((1, 2), ddof=1, keepdims=True) + 1e-4)


def test_scaling_by_the_batchs_std_amplifies_too():
    rewards = varied()
    rewards[:, :6] = 0
    advantage = scaled_by_the_batch(rewards)
    report = audit(made_run(rewards, advantage=advantage))
    assert report.run["method"] == "grpo_batch_std" and report.run["reproduced"] is True
    finding = one(report, "batch-step-amplifies")
    size = np.sqrt((advantage[:, 6:] ** 2).mean((1, 2)))
    assert finding.severity == "warning" and finding.evidence["factor"] == pytest.approx(size.mean(), rel=1e-3)
    rewards += np.arange(PROMPTS)[:, None, None]  # what differs between prompts makes the std large
    apart = audit(made_run(rewards, advantage=scaled_by_the_batch(rewards)))
    assert apart.run["method"] == "grpo_batch_std" and "batch-step-amplifies" not in ids(apart)


def test_a_break_even_weight_that_leaves_the_others_nothing_to_say_is_none():
    rewards = varied()
    rewards[..., 0] = 1e-6 * np.arange(ROLLOUTS)
    finding = one(audit(made_run(rewards, "grpo"), primary="correct"), "priority-inversion")
    assert finding.evidence["break_even_grpo"] > t.BREAK_EVEN
    assert "No usable weight on correct does either" in finding.message and finding.to_do.startswith("Let ")


def test_where_no_weight_at_all_turns_every_pair_it_says_so():
    rng = np.random.default_rng(0)
    rows = [
        {"step": 1, "prompt": i // 8, "correct": 5e-324 * (i % 2), "short": 1e3 * float(rng.random())}
        for i in range(64)
    ]
    report = gc.audit(gc.read_run(rows, rewards=["correct", "short"], group="prompt", step="step"), primary="correct")
    (finding,) = [f for f in report.findings if f.id == "priority-inversion"]
    assert "No usable weight on correct does either (now 1): some pair never turns." in finding.message
    assert finding.to_do.startswith("Let ") and "break_even_grpo" not in finding.evidence


@pytest.mark.slow
def test_priorities_are_inverted_by_a_louder_reward():
    rewards = varied()
    rewards[..., 0] = rewards[..., 0] > 0
    rewards[..., 1] = 3 * rewards[..., 1] - rewards[..., 0]
    report = audit(made_run(rewards, "grpo"), primary="correct")
    finding = one(report, "priority-inversion")
    assert finding.severity == "warning"
    assert finding.evidence["inversions"] == report.methods["grpo"]["inversions"] >= t.INVERTED_WARNING
    assert {f"inversions_{m}" for m in report.methods} <= set(finding.evidence)
    assert "format_gated" in finding.fix
    for method in ("grpo", "gdpo"):
        at = finding.evidence[f"break_even_{method}"]
        below, above = (audit(made_run(rewards, "grpo"), {"correct": f * at}, "correct").methods for f in (0.99, 1.01))
        assert below[method]["inversions"] > above[method]["inversions"] == 0
    assert "With a weight on correct above" in finding.message
    assert finding.to_do == "Let format count only where correct reaches 1."
    assert finding.effect == {"inversions": (pytest.approx(finding.evidence["inversions"]), 0.0)}
    assert "priority-inversion" not in ids(audit(made_run(rewards, "grpo")))
    rewards[..., 0] *= 100
    assert "priority-inversion" not in ids(audit(made_run(rewards, "grpo"), primary="correct"))


@pytest.mark.slow
def test_trls_metric_does_not_see_dead_rewards_under_gdpo():
    finding = one(audit(made_run(silenced(varied(), 0.5, 1), "gdpo")), "blind-zero-std-metric")
    assert finding.severity == "info" and finding.evidence["dead_groups"] == 0.5
    assert "it looks at the whole batch" in finding.message
    grpo = one(audit(made_run(silenced(varied(), 0.5, 1), "grpo")), "blind-zero-std-metric")
    assert "it looks at the summed reward, which is constant in 0 %" in grpo.message
    for method in ("gdpo", "grpo"):
        assert "blind-zero-std-metric" not in ids(audit(made_run(silenced(varied(), 0.4, 1), method)))
    scaled = audit(made_run(silenced(varied(), 0.5, 1), advantage=scaled_by_the_batch(silenced(varied(), 0.5, 1))))
    assert "the whole batch" in one(scaled, "blind-zero-std-metric").message
    dead_together = audit(made_run(silenced(varied(), 0.5), "grpo"))
    assert "blind-zero-std-metric" not in ids(dead_together)  # the sum is constant there too


@pytest.mark.parametrize(
    ("framework", "fix"), [("ms_swift", "--dynamic_sample false"), ("nemo_rl", "grpo: {use_dynamic_sampling: false}")]
)
def test_a_filter_on_the_sum_drops_groups_that_gdpo_uses(framework, fix):
    rewards = varied()
    rewards[:, 0, :, 0] = np.arange(ROLLOUTS) % 4
    rewards[:, 0, :, 1] = [0, 1, 1, 0] * 2
    rewards[:, 0, :, 2] = 3 - rewards[:, 0, :, 0] - rewards[:, 0, :, 1]
    report = audit(made_run(rewards, framework=framework), asked="gdpo")
    finding = one(report, "filter-drops-signal")
    assert finding.evidence["groups"] == STEPS and finding.fix == fix
    assert finding.severity == "warning"
    rewards[0, 0] = varied()[0, 0]  # in under a tenth of the groups
    for less in (audit(made_run(rewards, framework=framework), asked="gdpo"), audit(made_run(varied(), "gdpo"))):
        assert "filter-drops-signal" not in ids(less)
    without = audit(made_run(rewards, framework="trl"), asked="gdpo")  # TRL has no such filter
    assert "filter-drops-signal" not in ids(without)


# --- findings about the log -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "missing", "fix"),
    [
        ([2, 4, 6, 8], 4, "GRPOConfig(log_completions=True, logging_steps=1)"),
        ([1, 2, 5, 6], 2, None),
        ([1, 10, 20, 30], 26, None),
        ([3, 4, 5, 6], None, None),
    ],
)
def test_steps_that_are_missing(steps, missing, fix):
    report = audit(made_run(varied(), "gdpo", steps=steps))
    if missing is None:
        assert "steps-missing" not in ids(report)
        return
    finding = one(report, "steps-missing")
    assert finding.evidence["missing"] == missing and finding.fix == fix


def test_every_second_step_says_what_logging_steps_drops():
    finding = one(audit(made_run(varied(), "gdpo", steps=[2, 4, 6, 8])), "steps-missing")
    assert "only every second step, 4 of the 8 steps up to step 8" in finding.message
    assert "logging_steps=2 writes the last batch of each 2" in finding.message
    finding = one(audit(made_run(varied(), "gdpo", steps=[5, 10, 12, 13])), "steps-missing")
    assert "only every 5th step, 4 of the 13 steps" in finding.message
    finding = one(audit(made_run(varied(), "gdpo", steps=[102, 104, 106, 108])), "steps-missing")
    assert "4 of the 8 steps from 101 to 108" in finding.message and finding.evidence["missing"] == 4


def test_batches_that_come_twice_count_once():
    rewards = varied(steps=3)
    twice = np.repeat(rewards, 2, axis=0)
    report = audit(made_run(twice, "gdpo"))
    repeat = "Rows that repeat those of the batch before count once: 3 batches, of steps 2, 4 and 6."
    assert report.notes == (repeat,) and "steps-repeated" not in ids(report)
    assert report.source["responses"] == twice[..., 0].size
    once = audit(made_run(rewards, "gdpo"))
    assert report.rewards == nearly(once.rewards) and report.methods == nearly(once.methods)
    assert once.notes == ()


def test_small_batches_that_are_equal_by_chance_are_not_repeated():
    rewards = np.zeros((6, 1, 4, 1))
    rewards[:, 0, 0] = 1
    rewards[[2, 4], 0, :2, 0] = [0, 1]
    assert audit(made_run(rewards)).notes == ()
    assert audit(made_run(np.ones((6, 4, 4, 1)))).notes == ()  # nothing differs anywhere


def test_a_step_number_that_comes_twice():
    finding = one(audit(made_run(varied(), "gdpo", steps=[1, 2, 2, 3])), "steps-repeated")
    assert finding.severity == "warning" and finding.evidence["steps"] == [2] and "was resumed" in finding.message


def mixed_with_an_evaluation():
    rewards = varied(steps=6)
    advantage = advantages(rewards, "gdpo")
    evaluation = silenced(varied(steps=1, seed=9), 0.5)[0]
    scored = advantages(evaluation[None, :4], "gdpo")[0]
    rewards[2, :4], advantage[2, :4] = evaluation[:4], scored
    return rewards, advantage


def test_an_evaluation_in_the_file_of_a_step():
    rewards, advantage = mixed_with_an_evaluation()
    report = audit(made_run(rewards, advantage=advantage))
    finding = one(report, "eval-overwrote")
    assert finding.evidence["steps"] == [3]
    assert finding.fix.startswith('GRPOConfig(eval_strategy="no")  # or leave step 3 out')
    assert report.run["reproduced"] is False and report.run["method"] == "gdpo" and report.run["steps_off"] == [3]
    assert "advantages-not-reproduced" not in ids(report)
    assert "eval-overwrote" not in ids(audit(made_run(varied(), "gdpo")))


def test_what_an_evaluation_wrote_is_not_in_the_figures():
    rewards, advantage = mixed_with_an_evaluation()
    report = audit(made_run(rewards, advantage=advantage))
    kept = [0, 1, 3, 4, 5]
    without = audit(made_run(rewards[kept], advantage=advantage[kept], steps=[1, 2, 4, 5, 6]))
    assert report.rewards == nearly(without.rewards) and report.methods == nearly(without.methods)
    assert report.steps.to_dicts() == nearly(without.steps.to_dicts())
    assert report.source["steps"] == 6 and report.source["responses"] == rewards[..., 0].size
    assert report.run["logged"] == advantage.size and report.run["max_error"] > 1e-3
    wrong = int(report.verdict.split("but for ")[1].split()[0])
    assert 0 < wrong <= PROMPTS * ROLLOUTS and f"but for {wrong} of {advantage.size}." in report.verdict


def test_steps_of_another_run_are_named_with_its_method():
    rewards = varied(steps=6)
    advantage = advantages(rewards, "grpo")
    advantage[:2] = advantages(rewards[:2], "gdpo", [1, 0.5, 2])
    finding = one(audit(made_run(rewards, advantage=advantage)), "advantages-not-reproduced")
    assert finding.evidence["steps"] == [1, 2] and finding.evidence["method_there"] == "gdpo"
    assert "There they are GDPO with weights correct 1, format 0.5, brief 2" in finding.message


def test_a_step_with_other_advantages_is_no_evaluation():
    rewards = varied(steps=6)
    advantage = advantages(rewards, "gdpo")
    advantage[2] = np.random.default_rng(3).normal(size=advantage[2].shape)
    report = audit(made_run(rewards, advantage=advantage))
    assert "eval-overwrote" not in ids(report)
    finding = one(report, "advantages-not-reproduced")
    assert finding.evidence["steps"] == [3] and "step 3" in finding.message


def test_two_reward_functions_of_one_name():
    rewards = binary(rewards=2)
    report = audit(made_run(rewards[..., 1:], advantage=advantages(rewards, "gdpo"), names=("reward",)))
    finding = one(report, "reward-columns-merged")
    assert finding.severity == "error" and finding.evidence["hidden_groups"] > 0
    assert "advantages-not-reproduced" not in ids(report) and report.run["method"] is None
    assert "reward-columns-merged" not in ids(audit(made_run(rewards, "gdpo")))


def test_prompts_that_became_one_group():
    evidence = {"step": 2, "steps": 1, "groups": 2, "group_size": 8, "rows": 16, "looked_at_groups": 32}
    issues = (LogIssue("prompts-merged", evidence),)
    run = made_run(varied(), grouped_by="the column input", grouped_by_column=True, issues=issues)
    finding = one(audit(run), "prompts-merged")
    assert finding.severity == "warning" and finding.evidence == evidence
    assert "told apart by the column input, and 2 groups in 1 step" in finding.message
    assert "prompts-merged" not in ids(audit(made_run(varied())))


def test_prompts_that_repeat_beside_blocks_do_no_harm():
    evidence = {"step": 2, "steps": 1, "groups": 2, "prompts": 1, "looked_at_groups": 32, "excerpt": "2 + 2"}
    finding = one(audit(made_run(varied(), issues=(LogIssue("prompts-merged", evidence),))), "prompts-merged")
    assert finding.severity == "info" and "blocks of 8 rows" in finding.message


def test_batches_that_the_group_size_does_not_divide():
    evidence = {"group_size": 8, "batches": 1, "of": 4, "step": 3, "rows": 63}
    finding = one(audit(made_run(varied(), issues=(LogIssue("ragged-batches", evidence),))), "ragged-batches")
    assert "In 1 of 4 batches" in finding.message and "step 3: 63 rows" in finding.message


@pytest.mark.parametrize(
    ("framework", "line"),
    [("verl", "trainer.use_v1=False"), ("nemo_rl", "write_parquet"), ("generic", "write_parquet")],
)
def test_a_log_of_totals_says_how_to_log_the_rewards(framework, line):
    lengths = np.ones((STEPS, PROMPTS, ROLLOUTS))
    run = made_run(varied(1), framework=framework, names=("score",), total_only=True, lengths=lengths)
    finding = one(audit(run), "no-components")
    assert finding.severity == "error" and line in finding.fix
    assert "no-components" not in ids(audit(made_run(varied(1), framework=framework, lengths=lengths)))


def test_advantages_that_nothing_makes():
    advantage = np.random.default_rng(5).normal(size=(STEPS, PROMPTS, ROLLOUTS))
    report = audit(made_run(varied(), advantage=advantage))
    assert one(report, "advantages-not-reproduced").evidence["logged"] == advantage.size
    assert report.run["method"] is None and report.run["reproduced"] is False
    assert "not what any method computed here makes" in report.verdict


def test_a_total_that_does_not_make_the_advantages_is_no_second_error():
    rewards = varied()
    total = made_run(rewards.sum(-1, keepdims=True), advantage=advantages(rewards, "gdpo"), framework="nemo_rl")
    report = audit(dataclasses.replace(total, total_only=True))
    assert [f.id for f in report.findings if f.severity == "error"] == ["no-components"]
    assert one(report, "advantages-not-reproduced").severity == "info"
    assert "makes of the logged total" in report.verdict


def test_advantages_that_are_all_0():
    finding = one(
        audit(made_run(varied(), advantage=np.zeros((STEPS, PROMPTS, ROLLOUTS)))), "advantages-not-reproduced"
    )
    assert finding.message.startswith("The log says 0 for the advantage of every response")


@pytest.mark.parametrize(("asked", "fires"), [("gdpo", True), ("grpo", False), (None, False)])
def test_another_method_than_was_asked_for(asked, fires):
    report = audit(made_run(varied(), "grpo", configured_method=asked))
    assert ("method-not-as-asked" in ids(report)) is fires
    if fires:
        finding = report.findings[0]
        assert finding.severity == "error" and finding.evidence == {"asked": "gdpo", "found": "grpo"}
        assert "normalize_then_sum" in finding.fix


def test_ms_swift_has_two_ways_to_leave_gdpo_out():
    logged = advantages(varied(), "grpo_no_std", convention=gc.MS_SWIFT)
    run = made_run(varied(), advantage=logged, framework="ms_swift")
    assert "reinforce_plus_plus" in one(audit(run, asked="gdpo"), "method-not-as-asked").message


@pytest.mark.slow
def test_where_two_methods_are_the_same_the_one_asked_for_ran():
    rewards = varied(1, prompts=1, rollouts=32)  # one reward, one group per batch: GDPO's last step changes nothing
    run = made_run(rewards, advantage=advantages(rewards, "grpo", convention=gc.PAPER), framework="generic")
    assert audit(run).run["method"] == "grpo"
    report = audit(run, asked="gdpo")
    assert report.run["method"] == "gdpo" and "method-not-as-asked" not in ids(report)


def test_other_weights_than_were_given():
    run = made_run(varied(), "grpo_no_std", weights=[1, 0.5, 2])
    finding = one(audit(run, weights={"format": 2}), "weights-not-as-given")
    assert finding.evidence["given"] == {"format": 2} and finding.evidence["logged"]["format"] == pytest.approx(0.5)
    assert "weights-not-as-given" not in ids(audit(run, weights={"format": 0.5}))
    scaled = made_run(varied(), "gdpo", weights=[1, 0.5, 2])
    assert "weights-not-as-given" not in ids(audit(scaled, weights=[2, 1, 4]))  # the batch step takes the factor out


# --- the report as JSON -----------------------------------------------------------------------------------------------


def check(report):
    """The report as design wants it; returns it as read back from JSON."""
    d = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert d["schema"] == 1
    assert {"path", "framework", "files", "steps", "responses", "groups", "group_size", "rewards"} <= d["source"].keys()
    assert {"method", "convention", "weights", "reproduced", "max_error"} <= d["run"].keys()
    assert d["run"]["method"] in (*ALL_CONVENTIONS, None)
    for name in ("steps", "responses", "groups"):
        assert type(d["source"][name]) is int and d["source"][name] > 0
    assert [reward["name"] for reward in d["rewards"]] == d["source"]["rewards"]
    for reward in d["rewards"]:
        assert {"name", "mean", "std", "missing", "dead_groups", "update_share"} <= reward.keys()
        assert {"grpo", "grpo_no_std", "gdpo"} <= reward["update_share"].keys()
        assert 0 <= reward["dead_groups"] <= 1
    for method in ("grpo", "grpo_no_std", "gdpo"):
        kinds = ("groups_with_ties", "tied_pairs", "levels", "silent_groups", "inversions")
        assert {*kinds} == d["methods"][method].keys()
        for kind in kinds:
            value = d["methods"][method][kind]
            assert value is None or 0 <= value <= (1 if kind != "levels" else d["source"]["responses"])
    for finding in d["findings"]:
        assert finding.keys() == FINDING
        assert finding["id"] in IDS and finding["severity"] in ("info", "warning", "error")
        assert finding["evidence"] and (finding["fix"] is None or finding["fix"].strip())
        assert not any(word in finding["message"] for word in ("nan", "None", "inf ", "{", "}"))
        assert finding["message"].endswith(".")
        assert finding["title"] and not finding["title"].endswith(".") and len(finding["title"]) < 100
        assert finding["to_do"].endswith(".") if finding["severity"] != "info" else finding["to_do"][-1:] in ("", ".")
        assert finding["extent"] >= 0 and bool(finding["effect"]) is (finding["tried_on"] > 0)
        assert finding["fix"] or not finding["effect"]
        assert finding["read_more"]
    ranks = [("error", "warning", "info").index(finding["severity"]) for finding in d["findings"]]
    assert ranks == sorted(ranks)
    assert 0 < len(d["steps"]) <= 200
    assert d["verdict"].endswith(".")
    return d


LOGS = Path(__file__).parent / "goldens" / "logs"


@pytest.mark.parametrize("folder", ["trl/gdpo", "trl/gdpo_none", "trl/grpo", "trl/grpo_none", "trl/edge_conv"])
def test_a_clean_log_of_a_trainer_comes_out(folder):
    report = audit(read_run(LOGS / folder))
    assert report.run["method"] == ("grpo" if "grpo" in folder else "gdpo")
    assert report.run["convention"] == "trl" and report.run["reproduced"] is True
    assert report.run["max_error"] < 2e-6
    weights = {"correctness_reward": 1, "format_reward": 0.5, "length_reward": 2, "flaky_reward": 0.25}
    assert report.run["weights"] == pytest.approx({name: weights[name] for name in report.run["weights"]})
    assert report.source["group_size"] == 8
    assert [f.id for f in report.findings if f.severity == "error"] == []
    check(report)


@pytest.mark.parametrize(
    ("folder", "id", "severity"),
    [
        ("trl/edge_logging2", "steps-missing", "warning"),
        ("trl/edge_dupnames", "reward-columns-merged", "error"),
        ("trl/edge_dupprompts", "prompts-merged", "info"),
        ("ms_swift", "advantages-not-reproduced", "error"),
        ("verl_v1", "no-components", "error"),
        ("verl_legacy", None, None),
    ],
)
def test_each_trap_of_a_real_log_is_found(folder, id, severity):
    report = audit(read_run(LOGS / folder))
    errors = [f.id for f in report.findings if f.severity == "error"]
    assert errors == ([id] if severity == "error" else [])
    if id:
        assert one(report, id).severity == severity
    check(report)


@pytest.mark.parametrize("method", ["grpo", "gdpo", None])
def test_the_report_is_plain_json(method):
    rewards = binary()
    rewards[1, :3, :, 1] = np.nan
    rewards[2] = 1
    d = check(audit(made_run(rewards, method), primary="correct"))
    assert d["run"]["method"] == method
    assert all(d["methods"][m]["inversions"] is not None for m in d["methods"])


def test_what_cannot_be_told_is_null():
    d = check(audit(made_run(np.ones((2, 2, 4, 2)), "gdpo")))
    assert d["methods"]["gdpo"]["tied_pairs"] is None and d["methods"]["gdpo"]["inversions"] is None
    assert d["rewards"][0]["update_share"]["gdpo"] is None
    report = audit(made_run(np.ones((2, 2, 4, 2)), "gdpo"))
    assert isnan(report.methods["gdpo"]["tied_pairs"])


def any_run(seed):
    """A run of any shape, framework and method, with constants, missing rewards, odd steps and ragged groups."""
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


@pytest.mark.parametrize("seed", [n if n < 6 else pytest.param(n, marks=pytest.mark.slow) for n in range(60)])
def test_whatever_the_log_the_report_is_plain_and_whole(seed):
    run, draw = any_run(seed)
    primary = run.rewards[0] if draw.random() < 0.7 else None
    asked = str(draw.choice(["gdpo", "grpo"])) if draw.random() < 0.3 else None
    weights = {run.rewards[0]: float(draw.choice([0, 2, -1]))} if draw.random() < 0.2 else None
    d = check(audit(run, weights, primary, asked=asked))
    assert d["source"]["responses"] == sum(len(table) for table in run.tables())


def test_a_reward_may_be_called_length(tmp_path):
    rewards = [("accuracy", lambda g, *shape: g.integers(0, 2, shape)), ("length", lambda g, *shape: g.random(shape))]
    fake_logs.write_trl(tmp_path, rewards=rewards, weights=(1, 0.5))
    report = audit(read_run(tmp_path))
    assert report.run["weights"] == {"accuracy": 1.0, "length": 0.5} and report.run["reproduced"]


def test_what_is_no_run_is_refused():
    with pytest.raises(gc.InputError, match=r"run: expected what gdpo_core\.read_run returns, got str"):
        audit("completions")


def test_merged_columns_name_what_was_not_read(tmp_path):
    fake_logs.write_trl(tmp_path)
    finding = one(audit(read_run(tmp_path, rewards=["accuracy"])), "reward-columns-merged")
    assert "not read: format and length_penalty." in finding.message


def test_a_method_with_as_many_pairs_right_is_not_said_to_have_more():
    run, _ = any_run(59)
    finding = one(audit(run, primary=run.rewards[0]), "priority-inversion")
    e = finding.evidence
    right = {
        m: round(e["pairs"] * (1 - e[f"inversions_{m}"] - e[f"tied_{m}"])) for m in ("grpo", "grpo_no_std", "gdpo")
    }
    assert set(right.values()) == {33} and e["pairs"] == 50  # 1 − 0.16 − 0.18 and 1 − 0.24 − 0.1 differ in the last bit
    assert "No other method has more than these 66 % the right way round" in finding.message
