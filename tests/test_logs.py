"""Logs are read as they were written: real ones against what the trainer held, made ones against what was drawn."""

import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fake_logs import (
    ACCURACY,
    FORMAT,
    LENGTH,
    advantages_of,
    generic_frame,
    make_steps,
    write_lines,
    write_ms_swift,
    write_nemo_rl,
    write_trl,
    write_verl,
)
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.runs import files as log_files
from gdpo_core.runs.columns import batches
from gdpo_core.runs.read import read_run
from gdpo_core.runs.run import Run
from gdpo_core.runs.sizes import infer

GOLDENS = Path(__file__).parent / "goldens" / "logs"
TRL_LOGS = sorted(path.name for path in (GOLDENS / "trl").iterdir())
NAMES = ("accuracy", "format", "length_penalty")


def issues(run: Run) -> dict:
    return {issue.id: issue.details for issue in run.issues}


def drawn(steps) -> tuple[np.ndarray, np.ndarray]:
    """Rewards (responses, rewards) and advantages (responses,) of all steps, in their order."""
    flat = [step.flat() for step in steps]
    return np.concatenate([r for r, _, _ in flat]), np.concatenate([a for _, a, _ in flat])


def assert_read(run: Run, steps, rewards=NAMES) -> None:
    """The table holds what was drawn, in order, in groups as drawn."""
    r, a = drawn(steps)
    size = steps[0].advantages.shape[1]
    assert run.rewards == rewards
    np.testing.assert_array_equal(run.table.select(rewards).to_numpy(), r)
    assert run.has_advantage
    np.testing.assert_array_equal(run.table["advantage"].to_numpy(), a)
    assert run.table["step"].to_list() == [step.number for step in steps for _ in range(step.advantages.size)]
    assert run.group_size == size
    assert run.table["group"].to_list() == [i // size for i in range(len(r))]


# --- real logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRL_LOGS)
def test_a_trl_log_holds_what_the_trainer_held(name):
    run = read_run(GOLDENS / "trl" / name)
    truth = np.load(GOLDENS / "trl" / name / "capture.npz")
    assert run.framework == "trl" and run.has_advantage and not run.total_only
    assert run.group_size == truth["num_generations"] == 8
    assert run.grouped_by == "blocks of 8 rows"
    for (step,), rows in run.table.group_by("step", maintain_order=True):
        batch = truth["steps"].tolist().index(step - 1)
        rewards = truth[f"rewards_{batch}"]
        if name == "edge_dupnames":  # one column is left of two, the one computed last
            assert run.rewards == ("reward",)
            rewards = rewards[:, 1:]
        else:
            assert run.rewards == tuple(truth["reward_names"].tolist())
        np.testing.assert_array_equal(rows.select(run.rewards).to_numpy().astype(np.float32), rewards)
        np.testing.assert_array_equal(rows["advantage"].to_numpy().astype(np.float32), truth[f"adv_{batch}"])
        assert rows["group"].rle().struct.field("len").to_list() == [8] * (len(rows) // 8)
    expected = {"edge_logging2": [2, 4], "edge_conv": [1, 2], "edge_dupnames": [1, 2], "edge_dupprompts": [1, 2, 3]}
    assert run.table["step"].unique(maintain_order=True).to_list() == expected.get(name, [1, 2, 3, 4])
    assert ("prompts-merged" in issues(run)) == (name == "edge_dupprompts")
    schema = run.table.schema
    assert [schema[c] for c in ("step", "group", run.rewards[0], "advantage")] == [
        pl.Int64,
        pl.Int64,
        pl.Float64,
        pl.Float64,
    ]


def test_prompts_that_repeat_in_a_batch_are_named_with_the_groups_they_would_merge():
    evidence = issues(read_run(GOLDENS / "trl" / "edge_dupprompts"))["prompts-merged"]
    assert evidence["groups"] == 4 and evidence["prompts"] == 2 and evidence["looked_at_groups"] == 12
    assert evidence["step"] in (1, 2, 3) and 0 < len(evidence["excerpt"]) <= 60


def test_verls_legacy_dump_has_the_keys_that_the_reward_function_returned():
    run = read_run(GOLDENS / "verl_legacy")
    assert (run.framework, run.rewards, run.total_only) == ("verl", ("accuracy_reward", "format_reward"), False)
    assert run.table.rows() == [(7, 0, 1.0, 0.5), (7, 0, 0.0, 0.0)]
    assert not run.has_advantage and run.grouped_by == "the column input"


def test_verls_v1_dump_says_that_it_has_no_components():
    run = read_run(GOLDENS / "verl_v1")
    assert (run.framework, run.rewards, run.total_only, run.group_size) == ("verl", ("score",), True, 2)
    assert issues(run)["no-components"] == {"framework": "verl", "has": ["score"], "trainer": "v1"}
    assert run.table["group"].to_list() == [0, 0]  # 5f3a_0_0 and 5f3a_1_0


def test_ms_swifts_log_with_nan_is_read():
    run = read_run(GOLDENS / "ms_swift")
    assert (run.framework, run.rewards, run.group_size) == ("ms_swift", ("MathAccuracy", "Format"), 4)
    table = run.table
    assert len(table) == 32 and table["step"].to_list() == [1] * 16 + [2] * 16
    assert table["MathAccuracy"].sum() == 9.0
    assert [i for i, x in enumerate(table["Format"].to_list()) if x != x] == [5, 21]
    assert (table["advantage"] == 0).all()


# --- what was drawn comes back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "grpo_no_std", "grpo_batch_std", "gdpo"])
@pytest.mark.parametrize("options", [{}, {"chat": True}, {"missing": 0.2}, {"one_file": True}, {"iterations": 2}])
def test_trl_round_trip(tmp_path, method, options):
    steps = write_trl(tmp_path, method=method, **options)
    run = read_run(tmp_path)
    assert_read(run, steps)
    assert run.framework == "trl" and not run.issues


@pytest.mark.parametrize("gen_step", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_ms_swift_round_trip(tmp_path, gen_step, missing):
    steps = write_ms_swift(tmp_path, gen_step=gen_step, missing=missing)
    run = read_run(tmp_path)
    assert_read(run, steps)
    assert run.framework == "ms_swift" and run.configured_method is None


@pytest.mark.parametrize("method", ["grpo", "grpo_no_std", "grpo_batch_std", "gdpo"])
def test_ms_swifts_args_say_which_method_was_asked_for(tmp_path, method):
    write_ms_swift(tmp_path / "run" / "v0-1", method=method, args=True)
    assert read_run(tmp_path / "run" / "v0-1").configured_method == method
    assert read_run(tmp_path / "run" / "v0-1" / "completions.jsonl").configured_method == method
    assert read_run(tmp_path / "run").configured_method == method  # found below, with its args


def test_an_event_of_ms_swift_may_hold_several_steps(tmp_path):
    event = {"step": ["1"] * 4 + ["2"] * 4, "prompt": list("aabbccdd"), "completion": ["x"] * 8}
    write_lines(tmp_path / "completions.jsonl", [event | {"acc": [1, 0] * 4, "advantages": [1.0, -1.0] * 4}] * 2)
    [table] = read_run(tmp_path).tables()
    assert table["batch"].to_list() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert table["step"].to_list() == ([1] * 4 + [2] * 4) * 2
    assert table["group"].to_list() == [i // 2 for i in range(16)]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"step": 1}, "line 1: expected lists of one length, got 1 in 'step'"), ([], "are empty in 1")],
)
def test_an_odd_first_event_of_ms_swift_is_named(tmp_path, change, message):
    event = {"step": ["1"] * 8, "prompt": ["q"] * 8, "completion": ["a"] * 8, "acc": [1.0, 0.0] * 4}
    event |= {"advantages": [1.0, -1.0] * 4}
    write_lines(tmp_path / "completions.jsonl", [event | change if change else {key: [] for key in event}])
    with pytest.raises(gc.InputError, match=message):
        read_run(tmp_path)


def test_rows_of_ms_swift_on_ray_hold_the_total_alone(tmp_path):
    rows = [{"gen_step": 3, "prompt": "ab"[i // 2], "completion": "x", "reward": float(i)} for i in range(4)]
    write_lines(tmp_path / "completions.jsonl", rows)
    run = read_run(tmp_path)
    assert (run.framework, run.rewards, run.total_only, run.group_size) == ("ms_swift", ("reward",), True, 2)
    assert run.table.rows() == [(3, 0, 0.0), (3, 0, 1.0), (3, 1, 2.0), (3, 1, 3.0)]


@pytest.mark.parametrize("content", ["parts", "messages", "text"])
@pytest.mark.parametrize("as_lists", [False, True])
def test_nemo_rl_round_trip(tmp_path, content, as_lists):
    steps = write_nemo_rl(tmp_path, content=content, as_lists=as_lists, group_size=4)
    run = read_run(tmp_path)
    r, a = drawn(steps)
    assert (run.framework, run.rewards, run.total_only, run.group_size) == ("nemo_rl", ("rewards",), True, 4)
    np.testing.assert_allclose(run.table["rewards"].to_numpy(), r @ [1.0, 0.5, 2.0], rtol=1e-12)
    np.testing.assert_array_equal(run.table["advantage"].to_numpy(), a)
    assert run.table["step"].to_list() == [step.number for step in steps for _ in range(16)]
    assert run.table["group"].to_list() == [i // 4 for i in range(64)]
    assert run.table["length"].to_list() == [3 + i % 5 for i in range(16)] * 4
    assert issues(run)["no-components"] == {"framework": "nemo_rl", "has": ["rewards"]}


def test_nemo_rl_groups_by_prompt_also_where_all_begin_with_one_system_message(tmp_path):
    rows = [
        {"content": [["be brief", f"question {i // 3}", f"answer {i}"]], "rewards": [1.0], "idx": i} for i in range(6)
    ]
    write_lines(tmp_path / "train_data_step12.jsonl", rows)
    run = read_run(tmp_path)
    assert run.table["group"].to_list() == [0, 0, 0, 1, 1, 1] and run.table["step"].to_list() == [12] * 6


@pytest.mark.parametrize("wrapped", [False, True])
def test_nemo_rl_groups_by_the_prompts_ids_or_its_texts(tmp_path, wrapped):
    wrap = (lambda value: [value]) if wrapped else (lambda value: value)
    rows = [{"prompt_ids": wrap([5, i // 2]), "input_lengths": wrap(9), "rewards": wrap(i / 4)} for i in range(6)]
    write_lines(tmp_path / "train_data_step1.jsonl", rows)
    assert read_run(tmp_path).table.rows() == [(1, i // 2, i / 4) for i in range(6)]
    rows = [{"content": [f"question {i // 3}", f"answer {i}"], "rewards": wrap(i / 4)} for i in range(6)]
    write_lines(tmp_path / "train_data_step1.jsonl", rows)
    assert read_run(tmp_path).table.rows() == [(1, i // 3, i / 4) for i in range(6)]


def test_shuffled_rows_of_verl_are_brought_together_by_their_prompt(tmp_path):
    steps = write_verl(tmp_path)
    run = read_run(tmp_path)
    assert (run.framework, run.rewards, run.group_size) == ("verl", NAMES, 8)
    table = run.table
    assert table["group"].rle().struct.field("len").to_list() == [8] * 16  # contiguous
    for step in steps:
        rows = table.filter(pl.col("step") == step.number)
        read = sorted(sorted(group.select(NAMES).rows()) for _, group in rows.group_by("group"))
        assert read == sorted(sorted(map(tuple, group.tolist())) for group in step.rewards)


def test_a_prompt_that_stands_in_two_groups_of_verl_is_reported(tmp_path):
    steps = write_verl(tmp_path, groups=6)
    rows = [json.loads(line) for line in (tmp_path / "2.jsonl").read_text().splitlines()]
    for row in rows:
        row["input"] = row["input"].replace("question 5", "question 4")
    write_lines(tmp_path / "2.jsonl", rows)
    run = read_run(tmp_path)
    evidence = issues(run)["prompts-merged"]
    assert (evidence["step"], evidence["groups"], evidence["rows"], evidence["group_size"]) == (2, 1, 16, 8)
    assert run.group_size is None and len(run.table) == 6 * 8 * len(steps)


def test_a_group_size_is_checked_where_a_column_tells_the_groups(tmp_path):
    write_verl(tmp_path, groups=3, group_size=6)
    assert read_run(tmp_path, group_size=6).group_size == 6
    merged = issues(read_run(tmp_path, group_size=3))["prompts-merged"]  # says that each prompt stands in two groups
    assert (merged["group_size"], merged["rows"], merged["groups"]) == (3, 6, 12)
    with pytest.raises(
        gc.InputError, match=r"1\.jsonl: expected groups of 4 rows by the column input, got 6 in step 1"
    ):
        read_run(tmp_path, group_size=4)


def test_rewards_of_verl_can_be_named(tmp_path):
    write_verl(tmp_path)
    run = read_run(tmp_path, rewards=["format", "accuracy"])
    assert run.rewards == ("format", "accuracy") and not run.total_only
    only = read_run(tmp_path, rewards="score")
    assert only.total_only and issues(only)["no-components"] == {"framework": "verl", "has": ["score"]}


def test_verl_v1_groups_by_its_uid(tmp_path):
    write_verl(tmp_path, v1=True, groups=3, group_size=4)
    run = read_run(tmp_path)
    assert run.group_size == 4 and run.table["group"].to_list() == [i // 4 for i in range(48)]


def test_groups_of_verl_that_lost_rows_are_reported(tmp_path):
    write_verl(tmp_path, steps=3)
    path = tmp_path / "2.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:21]))
    run = read_run(tmp_path)
    evidence = issues(run)["ragged-batches"]
    cut = run.table.group_by("group").len().filter(pl.col("len") != 8)
    assert run.group_size is None and evidence["groups"] == len(cut) > 0
    assert (evidence["group_size"], evidence["batches"], evidence["of"], evidence["step"]) == (8, 1, 3, 2)
    (finding,) = [found for found in gc.audit(run).findings if found.id == "ragged-batches"]
    assert "rows were lost" in finding.message


def test_a_key_of_verl_that_is_null_in_the_first_file_is_a_reward_and_one_that_it_lacks_is_refused(tmp_path):
    row = {"input": "q", "output": "a", "gts": "4", "score": 1.0, "acc": 1.0}
    for number, tool in (1, None), (2, 0.5):
        write_lines(tmp_path / f"{number}.jsonl", [row | {"step": number, "tool": tool}] * 4)
    assert read_run(tmp_path).rewards == ("acc", "tool")
    write_lines(tmp_path / "1.jsonl", [row | {"step": 1, "tool": "none"}] * 4)
    with pytest.raises(gc.InputError, match=r"1.jsonl, line 1: expected a number in 'tool', got 'none'"):
        read_run(tmp_path)
    write_lines(tmp_path / "1.jsonl", [row | {"step": 1}] * 4)
    with pytest.raises(gc.InputError, match=r"2.jsonl: expected the columns of .*: tool only in"):
        read_run(tmp_path)
    assert read_run(tmp_path, rewards="acc").rewards == ("acc",)


def test_booleans_and_missing_keys_of_verl_are_rewards(tmp_path):
    base = {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 1, "request_id": 7}
    write_lines(
        tmp_path / "1.jsonl", [base | {"acc": True, "fmt": 1}, base | {"acc": False}, base | {"acc": None, "fmt": 0}]
    )
    table = read_run(tmp_path).table
    np.testing.assert_array_equal(table["acc"].to_numpy(), [1, 0, np.nan])
    np.testing.assert_array_equal(table["fmt"].to_numpy(), [1, np.nan, 0])


# --- generic logs ----------------------------------------------------------------------------------------------------


def write_generic(path: Path, frame: pl.DataFrame) -> None:
    rows = [{k: v for k, v in row.items() if v == v} for row in frame.to_dicts()]
    kind = path.suffix
    if kind == ".parquet":
        frame.write_parquet(path)
    elif kind in (".csv", ".tsv"):
        frame.fill_nan(None).write_csv(path, separator="\t" if kind == ".tsv" else ",")
    elif kind == ".json":
        path.write_text(json.dumps(rows))
    else:
        write_lines(path, rows)


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_generic_round_trip(tmp_path, kind, missing):
    steps = make_steps(missing=missing)
    write_generic(tmp_path / f"log{kind}", generic_frame(steps, NAMES))
    run = read_run(tmp_path / f"log{kind}")
    assert_read(run, steps)
    assert run.framework == "generic" and run.grouped_by == "the column group"


def test_an_object_of_lists_is_a_table(tmp_path):
    (tmp_path / "log.json").write_text('{"acc": [1, 0, 1, NaN], "group": [0, 0, 1, 1], "name": "run"}')
    np.testing.assert_array_equal(read_run(tmp_path / "log.json").table["acc"].to_numpy(), [1, 0, 1, np.nan])


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
def test_rows_of_a_generic_log_in_any_order_come_back_by_step_and_group(tmp_path, kind):
    steps = make_steps(steps=5)
    frame = generic_frame(steps, NAMES)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=3)
    for part in range(3):  # a step is spread over the files
        write_generic(tmp_path / f"log{part}{kind}", shuffled[part::3])
    run = read_run(str(tmp_path / f"log*{kind}"))
    assert run.group_size == 8 and len(run.files) == 3
    [table] = run.tables()
    assert table["batch"].to_list() == [i // 32 for i in range(160)] == [s - 1 for s in table["step"].to_list()]
    for _, rows in table.group_by("group"):
        prompt = frame.filter(pl.col("advantage") == rows["advantage"][0])
        assert len(rows) == 8 and prompt["step"][0] == rows["step"][0]
    key = ["step", *NAMES, "advantage"]
    assert run.table.select(key).sort(key).equals(frame.select(key).sort(key))


def test_files_without_steps_are_a_batch_each(tmp_path):
    steps = make_steps(steps=3)
    for step in steps:
        generic_frame([step], NAMES, step=False).write_csv(tmp_path / f"part{step.number}.csv")
    [table] = read_run(tmp_path).tables()
    assert table["batch"].to_list() == [i // 32 for i in range(96)]


def test_columns_can_be_named(tmp_path):
    steps = make_steps(rewards=(ACCURACY, FORMAT), weights=None)
    frame = generic_frame(steps, ("right", "tokens")).rename({"group": "q", "advantage": "a", "step": "t"})
    frame.with_columns(pl.lit(3).alias("n")).write_csv(tmp_path / "log.csv")
    run = read_run(tmp_path / "log.csv", rewards=["tokens", "right"], group="q", advantage="a", step="t", length="n")
    assert run.rewards == ("tokens", "right") and run.has_advantage and run.has_length
    np.testing.assert_array_equal(run.table.select("right", "tokens").to_numpy(), drawn(steps)[0])
    assert run.table["step"].to_list() == frame["t"].to_list() and set(run.table["length"]) == {3}


def test_usual_names_are_lengths_unless_they_are_rewards(tmp_path):
    pl.DataFrame({"group": [1, 1], "acc": [0, 1], "num_tokens": [5, 9], "epoch": [0, 0]}).write_csv(tmp_path / "a.csv")
    run = read_run(tmp_path / "a.csv")
    assert run.rewards == ("acc",) and run.table["length"].to_list() == [5, 9]
    run = read_run(tmp_path / "a.csv", rewards=["num_tokens", "acc"])
    assert run.rewards == ("num_tokens", "acc") and not run.has_length


def test_pandas_booleans_and_missing_marks_in_csv(tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffgroup,acc,fmt\r\na,True,1\r\na,False,NaN\r\na,,0.5\r\n", encoding="utf-8")
    table = read_run(tmp_path / "a.csv").table
    np.testing.assert_array_equal(table["acc"].to_numpy(), [1, 0, np.nan])
    np.testing.assert_array_equal(table["fmt"].to_numpy(), [1, np.nan, 0.5])


# --- the size of a group ---------------------------------------------------------------------------------------------


@given(
    size=st.sampled_from([2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17]),
    groups=st.integers(2, 6),
    method=st.sampled_from(["grpo", "grpo_no_std", "grpo_batch_std", "gdpo"]),
    same=st.sampled_from(["", "pairs", "all"]),
    seed=st.integers(0, 10**6),
)
def test_the_size_is_found_for_any_size_and_however_prompts_repeat(size, groups, method, same, seed):
    steps = make_steps(
        6, groups, size, method=method, same_prompts=same, seed=seed, rewards=(ACCURACY, LENGTH), weights=None
    )
    prompts = [np.unique(step.flat()[2], return_inverse=True)[1] for step in steps]
    found = infer([size * groups] * 6, [step.advantages.ravel() for step in steps], prompts)
    assert found is not None and found.size == size


@given(size=st.sampled_from([2, 3, 4, 5, 7, 8, 16]), groups=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_advantages_alone_tell_the_size(size, groups, seed):
    steps = make_steps(12, groups, size, seed=seed, rewards=(LENGTH, ACCURACY), weights=None)
    found = infer([size * groups] * 12, [step.advantages.ravel() for step in steps], [])
    assert found is not None and (found.size, found.shown_by) == (size, "advantages")


def test_prompts_tell_the_size_where_every_advantage_is_zero():
    prompts = np.repeat([0, 1, 1, 2], 6)
    assert infer([24], [np.zeros(24)], [prompts]).size == 6


def test_binary_rewards_do_not_pass_for_pairs_by_chance():
    # groups of four with two right answers each: half of them by chance look like two groups of two
    a = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0])
    assert infer([8], [a], [np.repeat([0, 1], 4)]).size == 4
    assert infer([8], [a], []) is None


def test_one_group_a_batch(tmp_path):
    steps = write_trl(tmp_path, groups=1, group_size=16)
    assert_read(read_run(tmp_path), steps)


def test_a_damaged_batch_does_not_hide_the_size(tmp_path):
    write_trl(tmp_path, steps=12, drop_rows={3: 4, 7: 1})
    run = read_run(tmp_path)
    assert run.grouped_by == "blocks of 8 rows" and run.group_size is None
    assert issues(run)["ragged-batches"] == {"group_size": 8, "batches": 2, "of": 12, "step": 3, "rows": 28}
    sizes = run.table.group_by("group").len(name="rows").group_by("rows").len().rows()
    assert dict(sizes) == {8: 46, 4: 1, 7: 1}


def test_without_a_hint_the_size_is_asked_for(tmp_path):
    write_trl(tmp_path, drop=("prompt", "advantage"))
    with pytest.raises(gc.InputError, match="give group_size"):
        read_run(tmp_path)
    run = read_run(tmp_path, group_size=4)
    assert run.group_size == 4 and run.table["group"].max() == 31 and not run.has_advantage


def test_rows_that_every_batch_lost_at_its_end_do_not_hide_the_size(tmp_path):
    write_trl(tmp_path, drop_rows=dict.fromkeys(range(1, 5), 2))
    run = read_run(tmp_path)
    assert run.grouped_by == "blocks of 8 rows" and list(issues(run)) == ["ragged-batches"]


def test_a_log_without_prompts_is_grouped_by_its_advantages(tmp_path):
    steps = write_trl(tmp_path, drop=("prompt",))
    assert_read(read_run(tmp_path), steps)


def test_an_evaluation_that_overwrote_half_a_step_leaves_the_groups(tmp_path):
    steps = write_trl(tmp_path, evaluated=(2, 3))
    assert_read(read_run(tmp_path), steps)
    r, a = drawn([steps[1]])
    again = advantages_of(r.reshape(4, 8, 3), "gdpo", (1.0, 0.5, 2.0)).ravel()
    assert np.abs(again - a).max() > 1e-3  # the fixture is what it says


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_an_evaluation_with_smaller_groups_in_some_files_leaves_the_groups(tmp_path, method):
    write_trl(tmp_path, steps=12, method=method)
    half = make_steps(12, 8, 4, seed=99)
    for number in (4, 8, 12):
        path = tmp_path / "completions" / f"completions_{number:05d}.parquet"
        kept, new = pl.read_parquet(path), half[number - 1]
        prompts = pl.Series("prompt", new.flat()[2][12:]).cast(kept["prompt"].dtype)
        written = kept.tail(20).with_columns(prompts, pl.Series("advantage", new.advantages.ravel()[12:]))
        pl.concat([kept.head(12), written.cast(dict(kept.schema))]).write_parquet(path)
    run = read_run(tmp_path)
    assert run.group_size == 8 and run.grouped_by == "blocks of 8 rows"
    assert gc.audit(run).run["method"] == method and gc.audit(run).run["steps_off"] == [4, 8, 12]


# --- whole batches ---------------------------------------------------------------------------------------------------


def test_tables_split_no_batch_and_number_batches_and_groups_once(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpo_core.runs.tables.ROWS", 50)
    for one_file in (False, True):
        steps = write_trl(tmp_path / str(one_file), steps=9, one_file=one_file)
        run = read_run(tmp_path / str(one_file))
        tables = list(run.tables())
        assert len(tables) > 3
        seen = [set(table["batch"]) for table in tables]
        assert all(not a & b for i, a in enumerate(seen) for b in seen[:i])
        assert pl.concat(tables)["batch"].to_list() == [i // 32 for i in range(288)]
        assert_read(run, steps)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12), st.integers(1, 30))
def test_batches_are_whole_however_the_rows_arrive(sizes, chunk, rows):
    steps = [i for i, n in enumerate(sizes) for _ in range(n)]
    frame = pl.DataFrame({"step": steps, "row": range(len(steps))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdpo_core.runs.tables.ROWS", rows)
        parts = list(batches((frame[i : i + chunk] for i in range(0, len(frame), chunk)), ["step"]))
    together = pl.concat(parts)
    assert together["row"].to_list() == list(range(len(steps))) and together["batch"].to_list() == steps
    assert all(not set(a["step"]) & set(b["step"]) for i, a in enumerate(parts) for b in parts[:i])


def test_a_step_that_occurs_in_two_files_is_two_batches(tmp_path):
    steps = write_trl(tmp_path / "a", steps=1)
    again = write_trl(tmp_path / "b", steps=1, seed=5)
    files = [tmp_path / name / "completions" / "completions_00001.parquet" for name in "ab"]
    run = read_run(files)
    assert_read(run, [*steps, *again])
    [table] = run.tables()
    assert table["batch"].to_list() == [0] * 32 + [1] * 32


def test_the_completions_are_not_read(tmp_path):
    steps = write_trl(tmp_path, steps=1)
    path = tmp_path / "completions" / "completions_00001.parquet"
    texts = [f"answer {i}" + "x" * 1000 for i in range(32)]
    pl.read_parquet(path).with_columns(completion=pl.Series(texts)).write_parquet(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    at = content.find(b"answer 0")
    content[at : at + 1008] = b"\xff" * 1008
    path.write_bytes(content)
    with pytest.raises(pl.exceptions.PolarsError, match=r"(?i)utf"):
        pl.read_parquet(path, columns=["completion"])
    assert_read(read_run(path), steps)


# --- where the files are ---------------------------------------------------------------------------------------------


@pytest.fixture
def trl(tmp_path):
    """A run's output folder as it looks on disk, with other things in it, and the steps it logs."""
    steps = write_trl(tmp_path / "out", steps=11)
    (tmp_path / "out" / "trainer_state.json").write_text("{}")
    (tmp_path / "out" / "checkpoint-5").mkdir()
    (tmp_path / "out" / "checkpoint-5" / "config.json").write_text("{}")
    (tmp_path / "out" / "completions" / ".completions_00001.parquet.crc").write_bytes(b"x")
    return tmp_path / "out", steps


def zipped(folder: Path, *, within: str = "") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.rglob("*"):
            archive.write(path, within + path.relative_to(folder).as_posix())
    return content.getvalue()


def test_a_log_is_found_from_wherever_one_points_at_it(trl):
    out, steps = trl
    files = sorted((out / "completions").glob("*.parquet"))
    (out.parent / "run.zip").write_bytes(zipped(out, within="runs/one/"))
    uploads = {path.name: path.read_bytes() for path in reversed(files)}
    places = [out, str(out), out / "completions", out.parent, out / "completions" / "*.parquet", files, files[::-1]]
    places = [str(p) if "*" in str(p) else p for p in places]
    places += [out.parent / "run.zip", {"run.zip": (out.parent / "run.zip").read_bytes()}, uploads]
    places[3:4] = []  # the folder above holds the zip too
    for place in places:
        assert_read(read_run(place), steps)


def test_steps_are_read_in_their_order(tmp_path):
    write_verl(tmp_path, steps=11)
    run = read_run(tmp_path)
    assert [Path(name).name for name in run.files] == [f"{i}.jsonl" for i in range(1, 12)]
    assert run.table["step"].is_sorted()


def test_the_framework_can_be_named_in_any_spelling(trl):
    out, _ = trl
    assert {read_run(out, name).framework for name in ("trl", "TRL", "axolotl", " Axolotl ")} == {"trl"}
    assert read_run(out, "generic").framework == "generic"
    assert read_run(GOLDENS / "ms_swift", "ms-swift").framework == read_run(GOLDENS / "ms_swift", "Swift").framework


def test_content_decides_over_the_name_of_the_file(tmp_path):
    write_verl(tmp_path / "v", steps=1)
    shutil.copy(tmp_path / "v" / "1.jsonl", tmp_path / "completions.jsonl")
    assert read_run(tmp_path / "completions.jsonl").framework == "verl"
    shutil.copy(GOLDENS / "ms_swift" / "completions.jsonl", tmp_path / "7.jsonl")
    assert read_run(tmp_path / "7.jsonl").framework == "ms_swift"
    shutil.copy(GOLDENS / "trl" / "gdpo" / "completions" / "completions_00001.parquet", tmp_path / "log")
    assert read_run(tmp_path / "log").framework == "trl"


# --- lines of JSON ---------------------------------------------------------------------------------------------------

LINE = {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 7, "acc": 1.0}


@pytest.mark.parametrize("broken", ['{"input":', "[1, 2]", "5", "null", "not JSON", '{"a": 1} {"b": 2}'])
def test_a_broken_line_is_named_or_skipped_and_counted(tmp_path, broken):
    good = json.dumps(LINE)
    (tmp_path / "7.jsonl").write_text(f"{good}\n\n{good}\n{broken}\n{good}\n{broken}\n")
    with pytest.raises(gc.InputError, match=r"7\.jsonl, line 4: expected a JSON object, got"):
        read_run(tmp_path / "7.jsonl")
    run = read_run(tmp_path / "7.jsonl", skip_bad_lines=True)
    assert run.skipped_lines == 2 and len(run.table) == 3
    assert sum(map(len, run.tables())) == 3 and run.skipped_lines == 2


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_marks_line_ends_and_blank_lines_do_not_matter(tmp_path, mark):
    good = json.dumps(LINE).encode()
    (tmp_path / "7.jsonl").write_bytes(mark + good + b"\r\n\r\n" + good + b"\r\n  \n" + good)
    assert read_run(tmp_path / "7.jsonl").table["acc"].to_list() == [1.0] * 3


# --- bad input -------------------------------------------------------------------------------------------------------


def a_batch(**columns) -> bytes:
    """One step of TRL's Parquet with some columns replaced, or taken out where None."""
    frame = generic_frame(make_steps(1), NAMES).rename({"group": "prompt"}).with_columns(completion=pl.lit("x"))
    frame = frame.with_columns(**{name: value for name, value in columns.items() if value is not None})
    content = io.BytesIO()
    frame.drop(name for name, value in columns.items() if value is None).write_parquet(content)
    return content.getvalue()


def lines(*items) -> bytes:
    return "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items).encode()


EVENT = {
    "step": ["1", "1"],
    "prompt": ["a", "a"],
    "completion": ["x", "y"],
    "acc": [1.0, 0.0],
    "advantages": [1.0, -1.0],
}
EMPTY = pl.lit(None, pl.Float64)
BAD = {
    "an empty Parquet file": ({"a.parquet": b""}, {}, "a.parquet: expected .* got an empty file"),
    "a cut one": ({"a.parquet": a_batch()[:900]}, {}, "a.parquet: expected a whole Parquet file"),
    "its start missing": ({"a.parquet": a_batch()[9:]}, {}, "a.parquet: expected a (whole )?Parquet file, got "),
    "random bytes": ({"a.csv": bytes(range(256)) * 9}, {}, "a.csv, line"),
    "four bytes": ({"a.parquet": b"PAR1"}, {}, "a.parquet: expected a whole Parquet file"),
    "text as a reward": (
        {"a.parquet": a_batch(format=pl.lit("good"))},
        {"rewards": ["format"]},
        "row 1: .*'format'.*'good'",
    ),
    "infinite rewards": (
        {"a.parquet": a_batch(format=pl.lit(np.inf))},
        {},
        "step 1: expected finite .* 'format'.* got inf",
    ),
    "no value at all": (
        {"a.parquet": a_batch(**dict.fromkeys(NAMES, EMPTY))},
        {},
        "accuracy, format, .* every one missing",
    ),
    "no reward": ({"a.parquet": a_batch(**dict.fromkeys(NAMES))}, {}, "column of numbers that is a reward"),
    "a reward not there": ({"a.parquet": a_batch()}, {"rewards": ["acc"]}, "expected a column 'acc', got step, prompt"),
    "a size that does not divide": (
        {"a.parquet": a_batch()},
        {"group_size": 5},
        "a.parquet: .* groups of 5 divide, got 32",
    ),
    "size 0": ({"a.parquet": a_batch()}, {"group_size": 0}, "group_size: expected a positive whole number, got 0"),
    "an unknown framework": ({"a.parquet": a_batch()}, {"framework": "trlx"}, "one of trl .*generic, got 'trlx'"),
    "another framework's": (
        {"a.jsonl": lines(LINE)},
        {"framework": "ms_swift"},
        "a.jsonl: expected ms-swift's columns",
    ),
    "not TRL's": ({"a.parquet": a_batch(step=None)}, {"framework": "trl"}, "a.parquet: expected TRL's columns step"),
    "not verl's": ({"a.jsonl": lines(EVENT)}, {"framework": "verl"}, "a.jsonl: expected verl's columns input, output"),
    "not NeMo-RL's": (
        {"a.jsonl": lines(EVENT)},
        {"framework": "nemo_rl"},
        "a.jsonl: expected NeMo-RL's column rewards",
    ),
    "a file less a column": (
        {"completions_1.parquet": a_batch(), "completions_2.parquet": a_batch(format=None)},
        {},
        "completions_2.parquet: expected the columns of completions_1.parquet.*format only in completions_1",
    ),
    "a file with a reward more": (
        {"completions_1.parquet": a_batch(), "completions_2.parquet": a_batch(style=pl.lit(1.0))},
        {},
        "style only in completions_2.parquet",
    ),
    "text in one file": (
        {"completions_1.parquet": a_batch(), "completions_2.parquet": a_batch(format=pl.lit("x"))},
        {},
        "completions_2.parquet, row 1: expected a number in 'format', got 'x'",
    ),
    "a CSV of text": ({"a.csv": b"a,b\nx,y\n"}, {}, "a.csv: expected at least one column of numbers"),
    "a CSV of two equal names": ({"a.csv": b"a,a\n1,2\n"}, {}, "a.csv: expected columns of different names, got 'a'"),
    "a CSV row too long": ({"a.csv": b"acc,group\n1,2\n3,4,5\n"}, {}, "a.csv, line 3: expected 2 values"),
    "a CSV cell of text": ({"a.csv": b"acc,group\n1,0\noops,0\n1,0\n"}, {}, "a.csv, row 2: .*'acc', got 'oops'"),
    "a CSV in Latin 1": ({"a.csv": b"acc,group\n1,\xe9\n"}, {}, "a.csv, line 2: expected UTF-8"),
    "no groups": ({"a.csv": b"acc\n1\n0\n"}, {}, "give group_size"),
    "a missing group": (
        {"a.csv": b"acc,group\n1,a\n0,\n"},
        {},
        "a.csv, row 2: expected a value in every row of 'group'",
    ),
    "a step of lists": ({"a.parquet": a_batch(t=pl.concat_list("step"))}, {"step": "t"}, "a.parquet: expected"),
    "steps in words": (
        {"a.csv": b"acc,group,t\n1,a,one\n"},
        {"step": "t"},
        "a.csv, row 1: expected whole numbers .* got 'one'",
    ),
    "bytes not UTF-8": ({"a.jsonl": lines(LINE) + b'{"a": "\xff"}\n'}, {}, "a.jsonl, line 2: .* not UTF-8"),
    "text among numbers": (
        {"a.jsonl": lines(LINE, LINE, LINE | {"acc": "x"})},
        {},
        "a.jsonl, line 3: .*'acc', got 'x'",
    ),
    "infinity in JSON": (
        {"a.jsonl": lines(LINE, LINE | {"acc": float("inf")})},
        {},
        "expected finite .*'acc'.* got inf",
    ),
    "only broken lines": ({"a.jsonl": b"x\ny\n"}, {"skip_bad_lines": True}, "a.jsonl: expected at least one response"),
    "a key that goes missing": (
        {"1.jsonl": lines(LINE, LINE), "2.jsonl": lines({k: v for k, v in LINE.items() if k != "acc"})},
        {},
        "2.jsonl: expected the columns of 1.jsonl, got none named 'acc'",
    ),
    "lists that differ": (
        {"a.jsonl": lines(EVENT, EVENT | {"acc": [1.0]})},
        {},
        "a.jsonl, line 2: expected lists of one length, got 2 in 'step', 1 in 'acc'",
    ),
    "text in a list": (
        {"a.jsonl": lines(EVENT, EVENT | {"acc": [1, "x"]})},
        {},
        "line 2: expected numbers in 'acc', got 'x'",
    ),
    "JSON that is a number": ({"a.json": b"5"}, {}, "a.json: expected an array of objects"),
    "JSON lists that differ": (
        {"a.json": b'{"acc": [1], "group": [0, 0]}'},
        {},
        "a.json: expected lists of one length",
    ),
    "a file of no kind": ({"notes.txt": b"hello"}, {}, "notes.txt: expected a file that ends in"),
    "two logs": (
        {"1.jsonl": lines(LINE), "completions_1.parquet": a_batch()},
        {},
        "expected the log of one run, got several.*TRL.*verl",
    ),
    "a reward called group": ({"a.parquet": a_batch(group=pl.lit(1.0))}, {}, "not named batch, step, group"),
    "nothing": ({}, {}, "path: expected at least one file"),
}


@pytest.mark.parametrize("files, options, message", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_clear_line(files, options, message, tmp_path):
    def read(place):
        with pytest.raises(gc.InputError, match=message) as caught:
            next(iter([sum(map(len, read_run(place, **options).tables()))]))
        assert "\n" not in str(caught.value)

    read(files)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    if len(files) == 1:
        read(tmp_path / next(iter(files)))


@pytest.mark.parametrize(
    "path", [None, 3, "", "a\0b", [], b"x", "no/such/file", "nothing*.parquet", {"a": "text"}, [3]]
)
def test_paths_that_are_none(path):
    with pytest.raises(gc.InputError):
        read_run(path)


def test_an_empty_folder_and_a_folder_of_other_things(tmp_path):
    with pytest.raises(gc.InputError, match=r"expected a log.*got no files"):
        read_run(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(gc.InputError, match=r"got notes\.txt"):
        read_run(tmp_path)


def test_no_rows(tmp_path):
    write_trl(tmp_path, steps=1)
    path = tmp_path / "completions" / "completions_00001.parquet"
    pl.read_parquet(path).head(0).write_parquet(path)
    with pytest.raises(gc.InputError, match="at least one response, got 0 rows"):
        read_run(tmp_path)


@given(data=st.data(), kind=st.sampled_from(["trl", "verl", "ms_swift", "csv", "zip"]))
def test_damage_anywhere_is_read_or_refused_in_one_line(data, kind):
    content = {
        "trl": a_batch(),
        "verl": lines(LINE, LINE | {"input": "p"}),
        "ms_swift": lines(EVENT, EVENT),
        "csv": generic_frame(make_steps(1), NAMES).write_csv().encode(),
        "zip": zip_of({"7.jsonl": lines(LINE, LINE)}),
    }[kind]
    at = data.draw(st.integers(0, len(content) - 1))
    damage = data.draw(st.binary(max_size=8))
    damaged = content[:at] + damage + content[at + data.draw(st.integers(0, 60)) :]
    name = {"trl": "a.parquet", "csv": "a.csv", "zip": "a.zip"}.get(kind, "a.jsonl")
    try:
        assert sum(map(len, read_run({name: damaged}).tables())) > 0
    except gc.InputError as error:
        assert "\n" not in str(error)


# --- zips ------------------------------------------------------------------------------------------------------------


def zip_of(members, **changes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in changes.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return content.getvalue()


BATCH = a_batch()
ZIPS = {
    "a name above": (zip_of({"../completions_1.parquet": BATCH}), "'../completions_1.parquet': .* leads elsewhere"),
    "above in the middle": (zip_of({"a/../../b.parquet": BATCH}), "leads elsewhere"),
    "an absolute name": (zip_of({"/tmp/a.parquet": BATCH}), "'/tmp/a.parquet': .* leads elsewhere"),
    "a drive": (zip_of({"C:/a.parquet": BATCH}), "leads elsewhere"),
    "backslashes": (zip_of({"a\\..\\..\\b.parquet": BATCH}), "leads elsewhere"),
    "a link": (zip_of({"a.parquet": b"/etc/hosts"}, external_attr=0o120777 << 16), "symbolic link"),
    "a zip": (zip_of({"a.zip": zip_of({"a.parquet": BATCH})}), "'a.zip': .* zip inside the zip"),
    "a bomb": (zip_of({"1.jsonl": b"0" * 30_000_000}), "'1.jsonl': expected at most 200 times .* 30,000,000"),
    "nothing": (zip_of({}), "an empty one"),
    "half": (zip_of({"a.parquet": BATCH})[:500], "expected a zip"),
    "no log": (zip_of({"notes.txt": b"x"}), "expected a log"),
}


@pytest.mark.parametrize("content, message", ZIPS.values(), ids=ZIPS.keys())
def test_zips_that_no_log_comes_in(content, message, tmp_path):
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(gc.InputError, match=rf"up\.zip.*{message}"):
        read_run({"up.zip": content})
    assert sorted(os.listdir(tmp_path)) == before
    (tmp_path / "up.zip").write_bytes(content)
    with pytest.raises(gc.InputError, match=rf"up\.zip.*{message}"):
        read_run(tmp_path / "up.zip")


def test_an_encrypted_member_is_refused():
    content = bytearray(zip_of({"a.parquet": BATCH}))
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(gc.InputError, match=r"'a\.parquet': expected a file that is not encrypted"):
        read_run({"up.zip": bytes(content)})


def test_bytes_are_counted_as_they_unpack_since_headers_lie(monkeypatch):
    monkeypatch.setattr(log_files, "FREE", 1000)
    member = lines(*[LINE | {"output": str(i)} for i in range(2000)])
    content = bytearray(zip_of({"7.jsonl": member}))
    monkeypatch.setattr(log_files, "MAX_RATIO", 3)
    directory = content.find(b"PK\x01\x02")
    for at in (22, directory + 24):
        content[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(gc.InputError, match=r"'7\.jsonl': expected"):
        read_run({"up.zip": bytes(content)})


def test_too_many_files_and_too_many_bytes_in_a_zip(monkeypatch):
    content = zip_of({f"{i}.jsonl": lines(LINE) for i in range(5)})
    monkeypatch.setattr(log_files, "MAX_FILES", 4)
    with pytest.raises(gc.InputError, match=r"up\.zip: expected a zip of at most 4 files, got 5"):
        read_run({"up.zip": content})
    monkeypatch.setattr(log_files, "MAX_FILES", 5)
    monkeypatch.setattr(log_files, "MAX_IN_MEMORY", 100)
    with pytest.raises(gc.InputError, match=r"up\.zip: expected at most 100 bytes unpacked"):
        read_run({"up.zip": content})
