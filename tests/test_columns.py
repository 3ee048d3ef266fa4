"""Which columns are rewards: totals, copies, metrics, settings, nested objects, and what is asked about."""

import json

import fake_logs
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.runs.roles import role

STEPS, GROUPS, SIZE = 12, 4, 8
ROWS = STEPS * GROUPS * SIZE
WEIGHTS = {"correct": 1.0, "fmt": 0.5, "brief": 2.0}


def drawn(seed=0):
    """Columns step and group, and three rewards."""
    draw = np.random.default_rng(seed)
    where = {
        "step": np.repeat(np.arange(1, STEPS + 1), GROUPS * SIZE),
        "group": np.repeat(np.arange(STEPS * GROUPS), SIZE),
    }
    rewards = {"correct": (draw.random(ROWS) < 0.5) * 1.0, "fmt": (draw.random(ROWS) < 0.8) * 1.0}
    return where, rewards | {"brief": draw.random(ROWS).round(3)}


WHERE, REWARDS = drawn()
TOTAL = sum(w * REWARDS[name] for name, w in WEIGHTS.items())


def table(**columns):
    return pl.DataFrame(WHERE | {name: np.broadcast_to(column, ROWS) for name, column in columns.items()})


def advantages(names, weights, method="grpo"):
    """(responses,) as own code with the paper's formulas logs them."""
    rewards = np.stack([REWARDS[name] for name in names], -1).reshape(STEPS, GROUPS, SIZE, -1)
    made = [gc.advantages(step, method, weights=weights, convention=gc.PAPER).numpy() for step in rewards]
    return np.concatenate(made).ravel().astype(np.float32).astype(float)


def found(report):
    return {finding.id: finding for finding in report.findings}


def as_files(rows, folder):
    """Rows in every form that a log of dicts can have."""
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "b.json").write_text(json.dumps(rows))
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.write_parquet(folder / "c.parquet")
    return [folder / "a.jsonl", folder / "b.json", folder / "c.parquet", frame, rows]


# --- totals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reward", "total_reward", "score", "Total", "final_score", "mark"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_a_total_is_the_score_with_its_weights_and_no_reward(name, kind):
    report = gc.audit(gc.read_run(table(**REWARDS, **{name: TOTAL.astype(kind)})))
    assert report.source["rewards"] == ["correct", "fmt", "brief"]
    assert (report.run["weights_used"], report.run["weights_from"]) == (WEIGHTS, "score")
    assert report.source["left_out"] == [] and "rewards-collinear" not in found(report)


def test_beside_a_total_the_advantages_tell_the_weights_of_the_parts():
    logged = advantages(WEIGHTS, list(WEIGHTS.values()))
    report = gc.audit(gc.read_run(table(**REWARDS, reward=TOTAL, advantage=logged)))
    assert report.run["method"] == "grpo" and report.run["reproduced"]
    assert report.run["weights"] == pytest.approx(WEIGHTS)


def test_a_total_is_known_in_the_tables_of_trainers(tmp_path):
    for write, read in ((fake_logs.write_trl, "trl"), (fake_logs.write_ms_swift, "ms_swift")):
        steps = write(tmp_path / read)
        for path in (tmp_path / read).rglob("*.*"):
            if path.suffix == ".parquet":
                frame = pl.read_parquet(path)
                total = pl.col("accuracy") + 0.5 * pl.col("format") + 2 * pl.col("length_penalty")
                frame.with_columns(reward=total).write_parquet(path)
            elif path.suffix == ".jsonl":
                events = [json.loads(line) for line in path.read_text().splitlines()]
                for event, step in zip(events, steps, strict=True):
                    event["reward"] = (step.flat()[0] @ fake_logs.WEIGHTS).tolist()
                fake_logs.write_lines(path, events)
        run = gc.read_run(tmp_path / read)
        assert run.framework == read and run.rewards == ("accuracy", "format", "length_penalty")
        assert list(run.weights.values()) == pytest.approx(fake_logs.WEIGHTS) and run.weights_by == "score"
        assert gc.audit(run).run["reproduced"]


def test_a_part_that_the_total_leaves_out_is_no_reward():
    report = gc.audit(gc.read_run(table(**REWARDS, style=REWARDS["brief"] ** 2, reward=TOTAL)))
    assert report.source["rewards"] == ["correct", "fmt", "brief"] and report.source["left_out"] == ["style"]
    finding = found(report)["not-in-score"]
    assert finding.evidence["columns"] == ["style"] and "gdpo_reward_keys" not in finding.message


def test_a_metric_that_the_total_counts_is_a_reward():
    length = np.random.default_rng(1).integers(1, 50, ROWS)
    total = REWARDS["correct"] - 0.01 * length
    report = gc.audit(gc.read_run(table(correct=REWARDS["correct"], response_len=length, reward=total)))
    assert report.run["weights_used"] == {"correct": 1.0, "response_len": -0.01}


def test_rewards_of_different_tasks_add_up_to_their_total_without_those_that_are_missing():
    task = np.arange(ROWS) // SIZE % 2 == 0
    math, code = np.where(task, REWARDS["correct"], np.nan), np.where(task, np.nan, REWARDS["brief"])
    total = np.where(task, REWARDS["correct"], 2 * REWARDS["brief"])
    run = gc.read_run(table(math=math, code=code, reward=total))
    assert run.rewards == ("math", "code") and run.weights == {"math": 1.0, "code": 2.0}


def test_named_rewards_stand_and_the_total_beside_them_tells_their_weights():
    log = table(**REWARDS, reward=TOTAL)
    assert gc.read_run(log, rewards=[*REWARDS]).weights == WEIGHTS
    report = gc.audit(gc.read_run(log, rewards=[*REWARDS, "reward"]))
    assert report.source["rewards"] == [*REWARDS, "reward"]
    assert found(report)["rewards-collinear"].evidence["relation"] == "reward = correct + 0.5 × fmt + 2 × brief"


@pytest.mark.parametrize(
    ("columns", "rewards"),
    [
        # Equal to one other: a copy, or all that there is.
        (dict(correct=REWARDS["correct"], fmt=REWARDS["fmt"], reward=REWARDS["correct"]), ["correct", "fmt", "reward"]),
        # The others are constant.
        (dict(correct=1.0, fmt=0.0, reward=REWARDS["brief"]), ["correct", "fmt", "reward"]),
        # Another reward that has such a name.
        (dict(correct=REWARDS["correct"], fmt=REWARDS["fmt"], reward=REWARDS["brief"]), ["correct", "fmt", "reward"]),
        # correct = mark + 0.3 pen as well as mark = correct − 0.3 pen.
        (
            dict(correct=REWARDS["correct"], pen=REWARDS["brief"], mark=REWARDS["correct"] - 0.3 * REWARDS["brief"]),
            ["correct", "pen", "mark"],
        ),
        # A subtotal.
        (
            dict(a=REWARDS["correct"], b=REWARDS["fmt"], sub=REWARDS["correct"] + REWARDS["fmt"], c=REWARDS["brief"]),
            ["a", "b", "sub", "c"],
        ),
    ],
)
def test_what_may_be_something_else_is_not_taken_for_the_total(columns, rewards):
    assert list(gc.read_run(table(**columns)).rewards) == rewards


def test_a_few_rows_tell_no_total():
    few = table(correct=REWARDS["correct"], fmt=REWARDS["fmt"], reward=REWARDS["correct"] + REWARDS["fmt"])
    assert gc.read_run(few.head(3)).rewards == ("correct", "fmt", "reward")


@given(
    weights=st.lists(st.sampled_from([0.1, 0.5, 1, 2, 3, -1, -0.2]), min_size=2, max_size=4),
    seed=st.integers(0, 10**6),
    place=st.integers(0, 4),
)
def test_a_total_is_found_whatever_its_weights_and_place(weights, seed, place):
    draw, names = np.random.default_rng(seed), [f"part_{k}" for k in range(len(weights))]
    values = draw.random((ROWS, len(weights))).round(2)
    columns = [*zip(names, values.T, strict=True)]
    columns.insert(min(place, len(columns)), ("reward", values @ weights))
    run = gc.read_run(table(**dict(columns)))
    assert run.rewards == tuple(names)
    assert [run.weights[name] for name in names] == pytest.approx(weights)


def test_a_total_that_was_clipped_is_said_to_be_none_or_asked_about():
    parts = {name: REWARDS[name] for name in ("correct", "fmt")}
    clipped = np.minimum(REWARDS["correct"] + REWARDS["fmt"], 1.2)
    report = gc.audit(gc.read_run(table(**parts, total_reward=clipped)))
    assert report.source["rewards"] == ["correct", "fmt"]
    message = found(report)["score-not-a-sum"].message
    assert message.startswith("The total_reward is not a weighted sum of correct and fmt") and "verl" not in message
    with pytest.raises(gc.InputError, match=r"got 'reward', which may be the total of .*--reward correct --reward fmt"):
        gc.read_run(table(**parts, reward=clipped))
    assert gc.read_run(table(**parts, reward=clipped), rewards=[*parts]).rewards == ("correct", "fmt")


# --- the total alone -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reward", "score", "total_reward"])
def test_a_total_alone_has_no_components(name):
    report = gc.audit(gc.read_run(table(**{name: TOTAL, "prompt": "q", "completion": "a"}).drop("step")))
    finding = found(report)["no-components"]
    assert finding.severity == "error" and finding.evidence["has"] == [name]


def test_one_reward_of_another_name_may_be_a_total():
    finding = found(gc.audit(gc.read_run(table(accuracy=REWARDS["correct"]))))["no-components"]
    assert finding.severity == "info"
    assert "no-components" not in found(gc.audit(gc.read_run(table(**REWARDS))))


# --- copies ----------------------------------------------------------------------------------------------------------


def test_equal_rewards_cannot_be_told_apart():
    logged = advantages(["correct", "correct", "brief"], [1, 0.5, 2])
    log = table(a=REWARDS["correct"], b=REWARDS["correct"], c=REWARDS["brief"], advantage=logged)
    report = gc.audit(gc.read_run(log))
    finding = found(report)["rewards-collinear"]
    assert finding.severity == "warning" and finding.evidence["rewards"] == ["b", "a"]
    assert finding.evidence["relation"] == "b = a" and "cannot be told apart" in finding.message
    assert report.run["weights"]["a"] is report.run["weights"]["b"] is None and report.run["reproduced"]


@pytest.mark.parametrize(
    ("make", "relation"),
    [
        (lambda c, f, b: 2 * c, "last = 2 × correct"),
        (lambda c, f, b: 1 - c, "last = −correct"),
        (lambda c, f, b: c - 0.5 * b, "last = correct − 0.5 × brief"),
    ],
)
def test_what_others_determine_is_named_with_its_relation(make, relation):
    last = make(*REWARDS.values())
    finding = found(gc.audit(gc.read_run(table(**REWARDS, last=last), rewards=[*REWARDS, "last"])))["rewards-collinear"]
    assert finding.evidence["relation"] == relation


def test_rewards_that_nearly_agree_are_no_copies():
    other = REWARDS["correct"].copy()
    other[7] = 1 - other[7]
    assert "rewards-collinear" not in found(gc.audit(gc.read_run(table(a=REWARDS["correct"], b=other))))
    rare = np.zeros(ROWS)
    rare[[3, 40]] = 1  # equal in the two groups in which they differ
    assert "rewards-collinear" not in found(gc.audit(gc.read_run(table(a=rare, b=rare, c=REWARDS["brief"]))))


# --- metrics ---------------------------------------------------------------------------------------------------------

METRICS = (
    *("response_len", "answer_length", "num_turns", "temperature", "gen_time", "kl", "ref_kl", "logprobs_sum"),
    *("is_completed", "is_truncated", "num_tokens_total_tokens", "entropy", "responseLength", "mean_entropy"),
    *("scoring_ms", "reward_std", "log_prob_mean", "learning_rate", "top_p"),
)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_no_rewards_unless_named(name):
    values = np.random.default_rng(3).random(ROWS)
    trl = {"prompt": [f"q{g}" for g in WHERE["group"]], "completion": "x"}
    for log in (table(**REWARDS, **{name: values}), table(**trl, **REWARDS, **{name: values}).drop("group")):
        run = gc.read_run(log)
        assert run.rewards == ("correct", "fmt", "brief") and name in run.left_out
        assert gc.read_run(log, rewards=["correct", name]).rewards == ("correct", name)


@pytest.mark.parametrize(
    "name",
    [
        *("has_digit", "vowels", "style", "accuracy", "format", "kl_reward", "length_penalty", "reward_len"),
        *("clean_score", "xmlcount_reward_func", "brevity", "answer_correct", "a", "format_reward"),
    ],
)
def test_rewards_of_any_name_stay(name):
    assert role(name) == "reward"
    assert gc.read_run(table(right=REWARDS["correct"], **{name: REWARDS["brief"]})).rewards == ("right", name)


def test_settings_are_no_rewards_while_they_have_one_value():
    assert gc.read_run(table(**REWARDS, beta=0.04)).rewards == ("correct", "fmt", "brief")
    assert gc.read_run(table(alpha=REWARDS["correct"], beta=REWARDS["brief"])).rewards == ("alpha", "beta")


def test_what_is_left_out_stands_in_the_report(tmp_path, capsys):
    from gdpo_core import cli

    table(**REWARDS, response_len=np.arange(ROWS)).write_csv(tmp_path / "a.csv")
    with pytest.raises(SystemExit):
        cli.main(["audit", str(tmp_path / "a.csv")])
    assert "response_len (--reward names rewards)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {**REWARDS, "num_sources": np.arange(ROWS) % 5},
            r"got 'num_sources', which may be a reward or a metric: name",
        ),
        ({**REWARDS, "is_correct": REWARDS["fmt"]}, r"got 'is_correct', which may be .*--reward correct --reward fmt "),
        ({"right": REWARDS["fmt"], "words": np.arange(ROWS)}, r"got 'words', which .*as --reward right$"),
        ({"level": REWARDS["fmt"], "loss": REWARDS["brief"]}, r"got 'level' and 'loss', each of which may be"),
        ({"response_len": np.arange(ROWS), "kl": REWARDS["brief"]}, r"look like metrics: response_len and kl; name it"),
    ],
)
def test_what_may_be_either_is_asked_about(columns, message):
    with pytest.raises(gc.InputError, match=message) as refusal:
        gc.read_run(table(**columns))
    assert "\n" not in str(refusal.value)
    named = [name for name in columns if name not in WHERE]
    assert gc.read_run(table(**columns), rewards=named).rewards == tuple(named)


def test_verls_metrics_are_no_rewards_where_the_score_does_not_tell(tmp_path):
    draw = np.random.default_rng(0)
    rows = [
        {"input": f"q{i // 8}", "output": "x", "gts": "", "score": draw.random(), "step": 1, "acc": i % 2, "fmt": i % 3}
        for i in range(64)
    ]
    fake_logs.write_lines(tmp_path / "1.jsonl", [row | {"response_len": i} for i, row in enumerate(rows)])
    run = gc.read_run(tmp_path)
    assert run.rewards == ("acc", "fmt") and "response_len" in run.left_out


# --- nested ----------------------------------------------------------------------------------------------------------


def nested(**members):
    """Rows with these objects: {name: {member: column}}, or columns."""
    where = [{"step": int(s), "group": int(g)} for s, g in zip(WHERE["step"], WHERE["group"], strict=True)]

    def value(column, i):
        return {name: float(x[i]) for name, x in column.items()} if isinstance(column, dict) else column[i]

    return [row | {name: value(column, i) for name, column in members.items()} for i, row in enumerate(where)]


PAIR = {"correct": REWARDS["correct"], "fmt": REWARDS["fmt"]}


@pytest.mark.parametrize("name", ["rewards", "reward_components", "scores"])
def test_nested_rewards_are_read_alike_in_every_form(tmp_path, name):
    rows = nested(**{name: PAIR, "metrics": {"correct": REWARDS["correct"], "turns": REWARDS["fmt"]}})
    for log in as_files(rows, tmp_path):
        run = gc.read_run(log)
        assert run.rewards == ("correct", "fmt") and set(run.left_out) == {"metrics.correct", "metrics.turns"}
        np.testing.assert_array_equal(run.table.select("correct", "fmt").to_numpy(), np.stack([*PAIR.values()], 1))
        assert gc.read_run(log, rewards="metrics.turns").rewards == ("metrics.turns",)


def test_nested_metrics_that_make_the_total_are_its_components(tmp_path):
    total = (REWARDS["correct"] + 0.5 * REWARDS["fmt"]).tolist()
    rows = nested(reward=total, metrics=PAIR | {"num_turns": REWARDS["brief"]})
    for log in as_files(rows, tmp_path):
        run = gc.read_run(log)
        assert run.weights == {"metrics.correct": 1.0, "metrics.fmt": 0.5} and run.left_out == ("metrics.num_turns",)
        assert "no-components" not in found(gc.audit(run))


def test_nested_metrics_beside_another_total_are_none(tmp_path):
    for log in as_files(nested(reward=REWARDS["brief"].tolist(), metrics=PAIR), tmp_path):
        report = gc.audit(gc.read_run(log))
        assert report.source["rewards"] == ["reward"] and found(report)["no-components"].severity == "error"
        assert report.source["left_out"] == ["metrics.correct", "metrics.fmt"]


def test_a_member_keeps_its_objects_name_where_a_column_has_its_own(tmp_path):
    rows = nested(format=["text"] * ROWS, rewards={"correct": REWARDS["correct"], "format": REWARDS["fmt"]})
    for log in as_files(rows, tmp_path):
        assert gc.read_run(log).rewards == ("correct", "rewards.format")


def test_rows_may_lack_members_of_nested_rewards(tmp_path):
    rows = nested(rewards=PAIR)
    del rows[5]["rewards"]["fmt"]
    rows[200]["rewards"]["late"] = 1.0
    for log in as_files(rows, tmp_path):
        run = gc.read_run(log)
        assert run.rewards == ("correct", "fmt", "late")
        lacking = np.isnan(run.table.select("fmt", "late").to_numpy())
        assert lacking[:, 0].nonzero()[0].tolist() == [5] and (~lacking[:, 1]).nonzero()[0].tolist() == [200]


def test_errors_in_nested_rewards_name_the_line(tmp_path):
    lines = [json.dumps(row) for row in nested(rewards=PAIR)]
    lines[40] = lines[40][:20]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(gc.InputError, match=r"a.jsonl, line 41: expected a JSON object"):
        gc.read_run(tmp_path / "a.jsonl")
    assert gc.read_run(tmp_path / "a.jsonl", skip_bad_lines=True).skipped_lines == 1


@pytest.mark.parametrize(
    "value", [[1.0, 0.0], {"a": {"score": 1.0, "weight": 1.0}, "b": {"score": 0.0, "weight": 1.0}}]
)
def test_rewards_nested_otherwise_are_refused_in_every_form(tmp_path, value):
    rows = [row | {"rewards": value} for row in nested()]
    for log in as_files(rows, tmp_path):
        with pytest.raises(
            gc.InputError, match=r"column 'rewards': expected one column of numbers per reward, got nes"
        ):
            gc.read_run(log)


def test_other_objects_are_left_alone(tmp_path):
    rows = [row | {"acc": i % 2, "reward_model": {"ground_truth": 4.0}} for i, row in enumerate(nested())]
    for log in as_files(rows, tmp_path):
        assert gc.read_run(log).rewards == ("acc",)
