"""The log of verifiers: rewards and weights by name, groups, steps and advantages, against what the file says."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import nearly

import gdpo_core as gc
from gdpo_core import cli
from gdpo_core.runs.watch import Follower

read_run = gc.read_run
RECORDED = Path(__file__).parent / "goldens/logs/verifiers/traces.jsonl"
WEIGHTS = {"correct": 1.0, "format": 0.5, "brief": 0.25}


def reward(score, weight=1.0):
    return {"score": score, "weight": weight}


def trace(rewards, metrics=None, advantages=None, agent="solver", trainable=True, **more):
    nodes = [{"message": {"role": "user"}}, {"message": {"role": "assistant"}, "advantages": advantages}]
    agent = {"name": agent, "trainable": trainable, "config": {}}
    return {"agent": agent, "nodes": nodes, "rewards": rewards, "metrics": metrics or {}, **more}


def episode(traces, step=None, group=None, work="train", task="t"):
    run = {} if step is None else {"run": {"type": "train", "id": "r", "work": {"type": work, "step": step}}}
    group = {} if group is None else {"group": {"id": group}}
    return {"id": "e", "task": {"type": "T", "data": {"idx": 0}, "key": task}, "traces": traces, **run, **group}


def log_of(*episodes):
    return {"traces.jsonl": "".join(json.dumps(one) + "\n" for one in episodes).encode()}


def simple(**changes):
    """Two groups of four in each of two steps."""
    return [
        episode([trace({"right": reward(float(i % 2)), "short": reward(i / 4, 0.5)} | changes)], step, f"{step}{g}")
        for step in (1, 2)
        for g in "ab"
        for i in range(4)
    ]


# --- the recorded log ------------------------------------------------------------------------------------------------


def naive():
    """Step, group, rewards, advantage and length of each response, as the file has them, by step."""
    rows = []
    for line in RECORDED.read_text().splitlines():
        one = json.loads(line)
        if one["run"]["work"]["type"] == "train":
            [solver] = [t for t in one["traces"] if t["agent"]["name"] == "solver"]
            scores = [np.nan if r is None else r["score"] for r in solver["rewards"].values()]
            advantage = solver["nodes"][1].get("advantages", [np.nan])[0]
            rows.append(
                (one["run"]["work"]["step"], one["group"]["id"], *scores, advantage, solver["num_output_tokens"])
            )
    return sorted(rows, key=lambda row: row[0])


def test_the_recorded_log_holds_what_its_file_says():
    run = read_run(RECORDED.parent)
    assert (run.framework, run.rewards, run.group_size) == ("verifiers", tuple(WEIGHTS), 4)
    assert (run.weights, run.weights_by) == (WEIGHTS, "log")
    assert run.left_out == ("num_turns", "words", "the episodes of evaluations")
    rows = naive()
    groups = list(dict.fromkeys(row[1] for row in rows))
    wanted = sorted(rows, key=lambda row: groups.index(row[1]))  # a table has the rows of a group together
    table = run.table
    assert table["step"].to_list() == [row[0] for row in wanted]
    assert table["group"].to_list() == [groups.index(row[1]) for row in wanted]
    got = table.select(*WEIGHTS, "advantage", "length").cast(float).rows()
    assert got == [nearly(row[2:5] + row[5:6] + (float(row[6]),)) for row in wanted]


def test_the_report_has_the_weights_of_the_log_and_no_doubt_of_them(capsys):
    report = gc.audit(read_run(RECORDED, rewards=["correct", "format", "brief"]), weights=None)
    assert report.run["weights_used"] == nearly(WEIGHTS)
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", str(RECORDED)])
    assert ended.value.code == 0 and "not read" in capsys.readouterr().out


def test_the_weights_are_said_to_be_of_the_log_where_no_advantage_shows_them(capsys, tmp_path):
    (tmp_path / "traces.jsonl").write_bytes(log_of(*simple())["traces.jsonl"])
    report = gc.audit(read_run(tmp_path))
    assert report.run["weights_from"] == "log" and report.run["weights_used"] == {"right": 1.0, "short": 0.5}
    with pytest.raises(SystemExit):
        cli.main(["audit", str(tmp_path)])
    assert "from the log" in capsys.readouterr().out


# --- what logs may hold ----------------------------------------------------------------------------------------------


def test_a_log_of_any_name_is_known_by_its_content():
    [content] = log_of(*simple()).values()
    assert read_run({"steps.jsonl": content}).framework == "verifiers"
    assert read_run({"steps.jsonl": content}, "Verifiers").table.height == 16


def test_a_reward_of_weight_0_is_a_metric_unless_it_is_named():
    log = log_of(*simple(seen=reward(1.0, 0.0)))
    run = read_run(log)
    assert run.rewards == ("right", "short") and run.left_out == ("seen",)
    named = read_run(log, rewards=["right", "seen"])
    assert named.rewards == ("right", "seen") and named.weights == {"right": 1.0, "seen": 0.0}
    only = read_run(log_of(*simple(right=reward(1.0, 0.0), short=reward(0.5, 0.0))))
    assert only.rewards == ("right", "short")


def test_a_reward_whose_weight_changes_is_what_it_adds_to_the_total():
    episodes = simple()
    for one in episodes[8:]:
        one["traces"][0]["rewards"]["short"]["weight"] = 2.0
    run = read_run(log_of(*episodes))
    assert run.weights == {"right": 1.0, "short": 1.0}
    assert run.table["short"].to_list() == [i / 4 * w for w in (0.5, 0.5, 2.0, 2.0) for i in range(4)]


def test_a_metric_can_be_named_as_a_reward_and_as_a_length():
    episodes = simple()
    for number, one in enumerate(episodes):
        one["traces"][0]["metrics"] = {"tests": number % 3, "words": 10 + number}
    run = read_run(log_of(*episodes), rewards=["tests"], length="words")
    assert run.table["tests"].to_list() == [n % 3 for n in range(16)]
    assert run.table["length"].to_list() == [10 + n for n in range(16)]
    assert run.weights is None and run.left_out == ("right", "short")
    with pytest.raises(gc.InputError, match="expected a column 'no', got right, short, tests, words"):
        read_run(log_of(*episodes), rewards="no")


def test_traces_of_several_trained_agents_are_groups_of_their_own():
    both = [
        episode(
            [
                trace({"won": reward(float(i % 2))}, agent="proposer"),
                trace({"solved": reward(i / 4)}, agent="solver"),
                trace({}, agent="judge", trainable=False),
            ],
            step=1,
            group="g",
        )
        for i in range(4)
    ]
    run = read_run(log_of(*both))
    assert run.rewards == ("won", "solved") and run.group_size == 4
    table = run.table
    assert table["group"].to_list() == [0] * 4 + [1] * 4
    assert table["won"].to_list() == nearly([0.0, 1.0, 0.0, 1.0] + [np.nan] * 4)


def test_an_evaluation_alone_is_read_as_one_batch_by_its_tasks():
    one = [episode([trace({"right": reward(float(i % 2))})], task=f"t{g}") for i in range(4) for g in range(3)]
    for run in (read_run(log_of(*one)), read_run(log_of(*({**e, "run": {"type": "eval", "id": "x"}} for e in one)))):
        assert run.group_size == 4 and run.table["step"].unique().to_list() == [1] and run.left_out == ()
        assert run.table["group"].to_list() == [g for g in range(3) for _ in range(4)]


def test_the_advantage_of_a_response_is_that_of_its_tokens():
    values = [[0.5, 0.5], [-0.5], [0.0, 1.0], None]
    one = [episode([trace({"right": reward(i)}, advantages=v)], 1, "g") for i, v in enumerate(values)]
    assert read_run(log_of(*one)).table["advantage"].to_list() == nearly([0.5, -0.5, 0.5, np.nan])


def test_scores_that_are_missing_are_missing():
    episodes = simple()
    episodes[0]["traces"][0]["rewards"] = {"right": None}
    episodes[1]["traces"][0]["rewards"] = {}
    episodes[2]["traces"][0]["rewards"]["short"]["score"] = float("nan")
    table = read_run(log_of(*episodes)).table
    assert table["right"].is_nan().sum() == 2 and table["short"].is_nan().sum() == 3


def test_half_characters_in_names_are_escapes():
    [content] = log_of(*simple()).values()
    assert "short\\ud800" in read_run({"a.jsonl": content.replace(b'"short"', b'"short\\ud800"')}).rewards


def with_change(change):
    episodes = simple()
    change(episodes[3])
    return log_of(*episodes)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda e: e.update(traces=5), "line 4: expected an episode of verifiers, got another form: .*traces"),
        (lambda e: e["traces"][0].update(rewards=[1]), "line 4: expected an episode of verifiers, .*rewards"),
        (lambda e: e["traces"][0]["rewards"].update(right=1.0), "line 4: expected an episode of verifiers, .*rewards"),
        (lambda e: e["traces"][0]["rewards"]["right"].update(score="x"), "line 4: expected an episode .*`str`"),
        (
            lambda e: e["traces"][0]["rewards"]["right"].update(score=1e999),
            "line 4: expected finite .*'right', got inf",
        ),
        (lambda e: e["traces"][0]["rewards"]["right"].update(weight=1e999), "line 4: expected finite numbers"),
        (lambda e: e["traces"][0]["rewards"]["right"].update(weight=float("nan")), "line 4: expected finite numbers"),
        (lambda e: e["run"]["work"].update(step=2**63), "line 4: expected an episode of verifiers"),
        (lambda e: e["task"].update({"\ud800": 1}), "line 4: expected an episode of verifiers"),
        (lambda e: e.pop("run"), r"line 4: expected run\.work\.step, as in other lines, got none"),
        (lambda e: (e.pop("group"), e.update(task={})), "line 4: expected what tells groups apart"),
        (lambda e: e["traces"][0]["rewards"].update({"group.id": reward(1)}), "expected rewards and metrics of other"),
        (lambda e: e["traces"][0]["nodes"][1].update(advantages=[float("inf")]), "expected finite numbers in"),
    ],
)
def test_what_is_no_such_log_is_one_sentence(change, named):
    with pytest.raises(gc.InputError, match=rf"^traces\.jsonl.*{named}"):
        read_run(with_change(change))


def test_a_log_without_a_trained_agent_or_a_reward_is_refused():
    with pytest.raises(gc.InputError, match="expected a trace of an agent that is trained, got none"):
        read_run(log_of(episode([trace({"a": reward(1)}, trainable=False)], 1, "g")))
    with pytest.raises(gc.InputError, match="expected at least one column of numbers that is a reward"):
        read_run(log_of(episode([trace({})], 1, "g")))


def test_broken_lines_can_be_left_out():
    [content] = log_of(*simple()).values()
    run = read_run({"traces.jsonl": content + b'{"cut": '}, skip_bad_lines=True)
    assert run.skipped_lines == 1 and run.table.height == 16


def test_a_log_that_grows_is_watched(tmp_path):
    path, lines = tmp_path / "traces.jsonl", RECORDED.read_text().splitlines(keepends=True)
    follower = Follower(str(path))
    for end in (10, 11, 17, 20, 28):  # line 16 is of an earlier step than those before it
        path.write_text("".join(lines[:end]))
        report = follower.look()
    assert report is not None and report.source == follower.whole().source
    assert report.rewards == nearly(follower.whole().rewards)
