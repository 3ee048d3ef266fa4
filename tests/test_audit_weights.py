"""Weights that an audit computes with: given by the caller, solved, told by the log or by a configuration beside it, or
1 each.
"""

import copy
import json
import pickle

import numpy as np
import polars as pl
import pytest
from fake_logs import WEIGHTS, write_lines, write_ms_swift, write_trl, write_verl
from helpers import crossed
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_audit import audit
from gdpo_audit.logs.numbers.weighted_sums import weights_of
from gdpo_audit.logs.read import read_run

NAMES = ("accuracy", "format", "length_penalty")
BY_NAME = dict(zip(NAMES, WEIGHTS, strict=True))


def rewritten(folder, change):
    """Change every line of verl's dumps in a folder in place. change: returns a line anew."""
    for path in folder.glob("*.jsonl"):
        write_lines(path, [change(json.loads(line)) for line in path.read_text().splitlines()])


def findings(report, which):
    return [finding for finding in report.findings if finding.id == which]


# --- verl: the score -------------------------------------------------------------------------------------------------


def test_verls_score_tells_the_weights_and_with_them_the_shares_of_the_update(tmp_path):
    steps = write_verl(tmp_path)
    run = read_run(tmp_path)
    assert (run.weights, run.weights_by, run.issues) == (BY_NAME, "score", ())
    report = audit(run)
    assert report.run["weights_used"] == BY_NAME and report.run["weights_from"] == "score"
    r = np.concatenate([step.rewards for step in steps])  # (prompts, rollouts, rewards)
    expected = gc.collapse(r, "grpo", weights=WEIGHTS, convention=gc.VERL).update_share
    shares = [reward["update_share"]["grpo"] for reward in report.rewards]
    assert shares == pytest.approx(list(expected), abs=2e-3)


def test_a_flag_that_says_the_same_as_a_reward_is_none_unless_it_is_named(tmp_path):
    write_verl(tmp_path)
    rewritten(tmp_path, lambda row: row | {"right": row["accuracy"] > 0, "tokens": len(row["output"])})
    run = read_run(tmp_path)
    assert run.rewards == NAMES and run.weights == BY_NAME
    alone = "The score is a weighted sum of accuracy, format and length_penalty alone"
    assert audit(run).notes == (f"{alone}, so right and tokens do not count.",)
    named = read_run(tmp_path, rewards=[*NAMES, "tokens"])
    assert named.rewards == (*NAMES, "tokens") and named.weights == BY_NAME | {"tokens": 0.0}


def test_dapos_flag_is_no_reward_and_its_penalty_is_one_that_the_logged_score_may_lack(tmp_path):
    def dapo(row, in_score):
        penalty = min(0.0, row["length_penalty"] + 0.9)
        right = row.pop("accuracy") > 0
        for name in ("format", "length_penalty"):
            row.pop(name)
        score = 2.0 * right - 1 + penalty * in_score
        return row | {"score": score, "acc": right, "overlong_reward": penalty, "overlong": penalty < 0}

    for in_score in (True, False):
        write_verl(tmp_path)
        rewritten(tmp_path, lambda row, in_score=in_score: dapo(row, in_score))
        run = read_run(tmp_path)
        assert run.rewards == ("acc", "overlong_reward") and run.weights == {"acc": 2.0, "overlong_reward": 1.0}


@given(
    weights=st.lists(st.sampled_from([-2, -0.05, 0, 0.1, 0.5, 1, 3, 1 / 3, 20]), min_size=1, max_size=5),
    constant=st.sampled_from([0, -1, 7.5]),
    seed=st.integers(0, 10**6),
)
def test_weights_come_back_from_a_score_in_float32(weights, constant, seed):
    draw, names = np.random.default_rng(seed), [f"r{k}" for k in range(len(weights))]
    x = draw.random((400, len(weights)))
    x[:, ::2] = draw.integers(0, 3, x[:, ::2].shape)
    score = (x @ weights + constant).astype(np.float32)
    table = pl.DataFrame(dict(zip(names, x.T, strict=True)) | {"score": score})
    solved = weights_of(table, names)
    if not any(weights):
        assert solved is None
        return
    assert solved.exact and list(solved.weights) == names
    assert list(solved.weights.values()) == pytest.approx(weights, rel=1e-4, abs=0)


def test_where_two_rewards_say_the_same_the_score_tells_no_weights_and_a_constant_one_has_none():
    x = np.random.default_rng(0).random((50, 2))
    table = pl.DataFrame({"a": x[:, 0], "b": 1 - x[:, 0], "c": x[:, 1], "d": 3.0, "score": x @ [2, 1] + 3})
    assert weights_of(table, ["a", "b", "c"]).weights is None and weights_of(table, ["a", "b", "c"]).exact
    assert weights_of(table, ["a", "c", "d"]).weights == {"a": 2.0, "c": 1.0}
    assert not weights_of(table, ["a", "b"]).exact
    assert weights_of(table, ["d"]) is None and weights_of(table.head(3), ["a", "c"]) is None


# --- ms-swift: args.json ---------------------------------------------------------------------------------------------


def test_args_that_the_log_refutes_are_not_followed(tmp_path):
    write_ms_swift(tmp_path, args=True)
    path = tmp_path / "args.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reward_weights": [1, 1, 1]}))
    used = audit(read_run(tmp_path)).run["weights_used"]
    assert [w / used["accuracy"] for w in used.values()] == pytest.approx(WEIGHTS)


@pytest.mark.parametrize("told", [[1, 2], "1 2 3", [1, None, 2], [1, float("nan"), 2], {}])
def test_args_that_do_not_fit_the_columns_tell_nothing(tmp_path, told):
    write_ms_swift(tmp_path)
    (tmp_path / "args.json").write_text(json.dumps({"reward_weights": told}))
    run = read_run(tmp_path)
    assert run.weights is None and run.weights_by is None


def test_no_weights_in_the_args_are_1_each_and_a_named_reward_keeps_its_own(tmp_path):
    write_ms_swift(tmp_path, args=True)
    assert read_run(tmp_path, rewards="length_penalty").weights == {"length_penalty": 2.0}
    (tmp_path / "args.json").write_text('{"reward_weights": null}')
    assert read_run(tmp_path).weights == dict.fromkeys(NAMES, 1.0)


# --- groups that the prompts leave open ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed, method", crossed(range(2), ["grpo", "gdpo"]))
def test_the_group_size_that_reproduces_is_taken_where_all_prompts_are_one(tmp_path, method, seed):
    write_trl(tmp_path, steps=1, groups=2, group_size=5, method=method, same_prompts="all", seed=seed)
    report = audit(read_run(tmp_path))
    assert report.source["group_size"] == 5 and report.run["method"] == method and report.run["reproduced"]


ROWS = [{"prompt": "p", "acc": i % 2, "style": i % 3} for i in range(4)]


@pytest.mark.parametrize("size", [1e308, 1e101, 1e-101, np.float64(1e200), 10**300])
def test_a_weight_whose_square_no_float_holds_is_refused(size):
    """Else the shares of the update are NaN, as a report divides the squares of the weights by their sum."""
    run = read_run(ROWS)
    for argument, named in (
        ("weights", {"weights": {"acc": size}}),
        ("what_if, weights", {"what_if": {"weights": {"acc": size}}}),
    ):
        with pytest.raises(gc.InputError, match=f"^{argument}, acc: expected numbers from 1e-100 to 1e\\+100 in size"):
            audit(run, **named)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("two", [np.float16(2), np.float32(2), np.int64(2), 2])
def test_a_weight_of_any_width_is_a_number(two):
    assert audit(read_run(ROWS), {"acc": two}).run["weights_used"] == {"acc": 2.0, "style": 1.0}


@pytest.mark.parametrize("engine", [None, "ray", 1])
def test_an_engine_that_cannot_be_called_is_refused(engine):
    with pytest.raises(gc.InputError, match=r"^engine: expected a function that is called as map is, got "):
        audit(read_run(ROWS), engine=engine)


def test_reports_are_equal_if_they_say_the_same():
    report = audit(read_run(ROWS))
    for same in (audit(read_run(ROWS)), copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert same == report
    assert report != audit(read_run(ROWS), {"acc": 2}) and report != "another thing"
