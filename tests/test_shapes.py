"""Logs of any shape are read as a row per answer: objects, lists, folders, keys that hold the step, and files of
torch.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from logs import episode, in_form, issues, lines, refused, reward, trace

import gdpo_audit as ga
from gdpo_audit.logs.files.conversions import conversion
from gdpo_audit.logs.files.directories import choose_files

STEPS, GROUPS, SIZE = 6, 4, 8
DRAW = np.random.default_rng(7)
CORRECT = (DRAW.random((STEPS, GROUPS, SIZE)) < 0.5).astype(float)
STYLE = DRAW.random((STEPS, GROUPS, SIZE)).round(3)
TOTAL = CORRECT + 0.5 * STYLE
ADVANTAGE = (TOTAL - TOTAL.mean(-1, keepdims=True)) / (TOTAL.std(-1, ddof=1, keepdims=True) + 1e-4)
# In plain numpy, a share is the sum of A times each reward's part of it, over the sum of A².
PARTS = np.stack([CORRECT, 0.5 * STYLE], -1)
PARTS = (PARTS - PARTS.mean(-2, keepdims=True)) / (TOTAL.std(-1, ddof=1)[..., None, None] + 1e-4)
SHARES = (ADVANTAGE[..., None] * PARTS).sum((0, 1, 2)) / (ADVANTAGE**2).sum()
PLACES = [(s, g, i) for s in range(STEPS) for g in range(GROUPS) for i in range(SIZE)]
GROUP_LINES = [(s, g) for s in range(STEPS) for g in range(GROUPS)]


def per_answer(make) -> list[dict]:
    """Return a row for each answer. make: returns what the row holds besides its step and prompt, for the place of the
    answer.
    """
    return [{"step": p[0] + 1, "prompt": f"s{p[0]} q{p[1]}", **make(p)} for p in PLACES]


def per_group(make, **more) -> list[dict]:
    return [{"step": p[0] + 1, "prompt": f"s{p[0]} q{p[1]}", **make(p), **more} for p in GROUP_LINES]


def expect_truth(log, names=("correct", "style"), **options) -> ga.Run:
    """Read a log, assert that its rewards, groups and shares are those of plain numpy, and return the run."""
    run = ga.read_run(log, **options)
    assert run.rewards == tuple(names)
    table = run.table
    assert table[names[0]].to_list() == CORRECT.ravel().tolist()
    assert table[names[1]].to_list() == STYLE.ravel().tolist()
    assert table["group"].to_list() == np.arange(STEPS * GROUPS).repeat(SIZE).tolist()
    assert table["step"].to_list() == (1 + np.arange(STEPS).repeat(GROUPS * SIZE)).tolist()
    if run.has_advantage:
        assert np.allclose(table["advantage"], ADVANTAGE.ravel())
        report = ga.audit(run).to_dict()
        assert report["run"]["method"] == "grpo"
        shares = {part["name"]: part["update_share"]["grpo"] for part in report["rewards"]}
        assert np.allclose([shares[name] for name in names], SHARES, atol=1e-3)
    return run


# --- objects ---------------------------------------------------------------------------------------------------------


def parts(p, **more) -> dict:
    return {"correct": CORRECT[p], "style": STYLE[p], **more}


OBJECTS = {
    "reward_components": (lambda p: {"reward_components": parts(p)}, ("correct", "style")),
    "rewards, with their total": (lambda p: {"rewards": parts(p, total=TOTAL[p])}, ("correct", "style")),
    "rewards_per_func": (lambda p: {"rewards_per_func": parts(p)}, ("correct", "style")),
    "the only numbers": (lambda p: {"judgement": parts(p)}, ("correct", "style")),
    "text beside numbers": (lambda p: {"scores": parts(p, reason="fine")}, ("correct", "style")),
    "a name that is taken": (
        lambda p: {"rewards": {"correct": CORRECT[p], "step": STYLE[p]}},
        ("correct", "rewards.step"),
    ),
    "a name that means something else": (
        lambda p: {"rewards": {"correct": CORRECT[p], "length": STYLE[p]}},
        ("correct", "rewards.length"),
    ),
    "a column that says it again": (
        lambda p: {"correct": CORRECT[p], "reward_components": parts(p)},
        ("correct", "style"),
    ),
    "JSON in a cell": (lambda p: {"rewards": json.dumps(parts(p))}, ("correct", "style")),
    "Python in a cell": (lambda p: {"rewards": str({k: float(v) for k, v in parts(p).items()})}, ("correct", "style")),
    "a list per answer": (lambda p: {"rewards": [CORRECT[p], STYLE[p]]}, ("rewards[0]", "rewards[1]")),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_object_of_rewards_is_a_column_per_member(name, kind):
    make, names = OBJECTS[name]
    rows = per_answer(lambda p: make(p) | {"advantage": ADVANTAGE[p]})
    content = lines(*rows) if kind == "jsonl" else in_form(kind, pl.DataFrame(rows))
    expect_truth({f"rows.{kind}": content}, names)


def test_the_members_of_an_object_can_be_named():
    rows = per_answer(lambda p: {"rewards": parts(p, other=0.5), "metrics": {"turns": 3.0, "style": STYLE[p]}})
    for named in (["correct", "style"], ["rewards.correct", "rewards.style"]):
        run = ga.read_run({"a.jsonl": lines(*rows)}, rewards=named)
        assert [run.table[name].to_list() for name in run.rewards] == [c.ravel().tolist() for c in (CORRECT, STYLE)]
    assert ga.read_run({"a.jsonl": lines(*rows)}, rewards="rewards").rewards == ("correct", "style", "other")
    refused({"a.jsonl": lines(*rows)}, "expected a column 'nope', got step, prompt", rewards="nope")


def test_metrics_are_no_rewards_where_the_log_has_some():
    rows = per_answer(lambda p: parts(p) | {"metrics": {"turns": 3.0, "tool": STYLE[p]}})
    run = expect_truth({"a.jsonl": lines(*rows)})
    assert "metrics" in run.left_out


def test_a_csv_with_objects_in_its_cells():
    rows = per_answer(lambda p: {"rewards": json.dumps(parts(p))})
    expect_truth({"a.csv": pl.DataFrame(rows).write_csv().encode()})
    rows[100]["rewards"] = "none given"
    rows[101:] = [row | {"rewards": "{}"} for row in rows[101:]]
    refused({"a.csv": pl.DataFrame(rows).write_csv().encode()}, "row 101: expected an object in 'rewards', got 'none")


# --- lists -----------------------------------------------------------------------------------------------------------


def answers(p) -> list[str]:
    return [f"answer {i}" for i in range(SIZE)]


def columns(p) -> dict:
    return {"correct": CORRECT[p].tolist(), "style": STYLE[p].tolist()}


LISTS = {
    "a list per reward": lambda p: columns(p) | {"completions": answers(p)},
    "an object of lists": lambda p: {"rewards": columns(p), "responses": answers(p)},
    "a list of objects": lambda p: {
        "rewards": [{"correct": c, "style": s} for c, s in zip(CORRECT[p], STYLE[p], strict=True)],
        "responses": answers(p),
    },
    "tokens per answer": lambda p: columns(p) | {"tokens": [[1] * (2 + i) for i in range(SIZE)]},
    "an answer's rewards": lambda p: columns(p) | {"completion_ids": [[5, 6]] * SIZE, "masks": [[1, 0]] * SIZE},
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "table"])
def test_a_line_per_group_is_a_row_per_answer(name, kind):
    rows = per_group(lambda p: LISTS[name](p) | {"advantages": ADVANTAGE[p].tolist()})
    log = {"jsonl": lambda: {"a.jsonl": lines(*rows)}, "table": lambda: pl.DataFrame(rows)}
    log["parquet"] = lambda: {"a.parquet": in_form("parquet", pl.DataFrame(rows))}
    run = expect_truth(log[kind]())
    assert run.grouped_by == "the lines of the log" and run.group_size == SIZE


def test_texts_of_a_line_per_group_are_those_of_the_answer():
    rows = per_group(lambda p: columns(p) | {"completions": [f"s{p[0]} q{p[1]} a{i}" for i in range(SIZE)]})
    run = ga.read_run({"a.jsonl": lines(*rows)})
    places = pl.concat(run.tables())["_place"]
    texts = run.texts(places.to_list()[9:11])
    assert [text.completion for text in texts.values()] == ["s0 q1 a1", "s0 q1 a2"]
    lengths = pl.concat([*run.extracts["length"]()])["length"]
    assert lengths.to_list() == [8] * (STEPS * GROUPS * SIZE)


def test_a_line_per_step_with_ids():
    rows = [
        {"global_step": [s + 1] * GROUPS * SIZE, "id": [f"{s}-{g}" for g in range(GROUPS) for _ in range(SIZE)]}
        | {"prompt": [f"s{s} q{g}" for g in range(GROUPS) for _ in range(SIZE)], "difficulty": ["0"] * GROUPS * SIZE}
        | {"responses": ["a"] * GROUPS * SIZE, "scores": TOTAL[s].ravel().tolist()}
        for s in range(STEPS)
    ]
    log = {f"rollout_dump_data.step_{s}.jsonl": lines(row) for s, row in enumerate(rows)}
    run = ga.read_run(log)
    assert run.rewards == ("scores",) and run.table["scores"].to_list() == TOTAL.ravel().tolist()
    assert run.group_size == SIZE and run.table["group"].n_unique() == STEPS * GROUPS


def test_a_line_per_step_without_a_prompt_is_no_group():
    flat = {"correct": CORRECT, "style": STYLE, "advantages": ADVANTAGE}
    rows = [{"step": s + 1} | {name: of[s].ravel().tolist() for name, of in flat.items()} for s in range(STEPS)]
    run = expect_truth({"a.jsonl": lines(*rows)})
    assert run.grouped_by == f"blocks of {SIZE} rows"


def test_groups_without_steps_of_different_sizes_and_empty_ones():
    sizes = [3, 0, 5, 4, 0, 6]
    rows = [{"scores": STYLE[0, 0, :n].tolist(), "tokens": [[1, 2]] * n, "advantages": None} for n in sizes]
    run = ga.read_run({"groups.jsonl": lines(*rows)})
    assert np.bincount(run.table["group"]).tolist() == [3, 5, 4, 6]
    refused({"a.jsonl": lines(*[{"scores": [], "tokens": []}] * 3)}, "expected ")


def test_a_value_in_a_list_is_the_value():
    rows = per_answer(lambda p: {"correct": [CORRECT[p]], "style": [STYLE[p]], "advantage": [ADVANTAGE[p]]})
    expect_truth({"a.jsonl": lines(*rows)})


WRONG = per_group(lambda p: columns(p) | {"completions": answers(p)})
WRONG[5] = WRONG[5] | {"completions": ["a"] * 7}
TOKENS = per_answer(
    lambda p: {"rewards": [0.0] * (3 + p[2]), "tokens": [1] * (3 + p[2]), "logprobs": [-1.0] * (3 + p[2])}
)
VALUES = [
    {"prompt": f"q{n}", "rewards": [0.1 * k for k in range(20 + n * 7)], "values": [0.5] * (20 + n * 7)}
    for n in range(40)
]
TURNS = per_answer(lambda p: {"turn_rewards": [0.5, 1.0], "turn_names": ["a", "b"], "acc": CORRECT[p]})


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (WRONG, r"row 6: expected lists of one length, got 8 in 'correct', 7 in 'completions'"),
        (VALUES, "column 'rewards': expected one column of numbers per reward, got nested values"),
        (TOKENS, "column 'rewards': expected one column of numbers per reward, got nested values"),
        (TURNS, "column 'turn_rewards': .*or name the rewards: --reward acc$"),
        (per_answer(lambda p: {"rewards": {"a": {"b": 1.0}}}), "nested values of a; write each number in a column"),
    ],
)
def test_lists_that_cannot_be_told_are_refused(log, message):
    said = refused({"a.jsonl": lines(*log)}, message)
    assert "answer 0" not in said
    if named := re.findall(r"--reward (\w+)", said):
        assert ga.read_run({"a.jsonl": lines(*log)}, rewards=named).rewards == tuple(named)


def test_a_list_of_another_length_is_named_by_its_file_and_its_row_there():
    refused(
        {"a.jsonl": lines(*WRONG[:3]), "b.jsonl": lines(*WRONG[3:])}, "b.jsonl, row 3: expected lists of one length"
    )


# --- files -----------------------------------------------------------------------------------------------------------


def write(folder: Path, name: str, rows) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*rows))


def of_step(s, **more) -> list[dict]:
    return [{"prompt": f"s{s} q{p[1]}", **parts(p)} | more for p in PLACES if p[0] == s]


@pytest.mark.parametrize("folder", ["step_{}", "global_step_{}", "iteration_{:06d}", "epoch-{}", "rollout/{}"])
def test_a_folder_per_step_is_one_run(tmp_path, folder):
    for s in range(STEPS):
        for half in range(2):
            rows = of_step(s)[half * 16 : half * 16 + 16]
            write(tmp_path, f"{folder.format(s + 1)}/{half}.jsonl", rows)
    expect_truth(tmp_path)
    if "/" not in folder:
        expect_truth(str(tmp_path / f"{folder.partition('{')[0]}*"))


def test_folders_that_are_no_steps_are_several_runs(tmp_path):
    for seed in range(2):
        write(tmp_path, f"seed_{seed}/a.jsonl", of_step(0))
    refused(tmp_path, r"expected the log of one run, got several, name one of them: \S+/seed_0; \S+/seed_1$")


EVALUATIONS = [
    (["train_a.jsonl", "eval_gsm8k_a.jsonl", "test_a.jsonl"], ["train_a.jsonl"]),
    (["rollouts.jsonl", "eval_rollouts.jsonl"], ["rollouts.jsonl"]),
    (["rollout/1/1.jsonl", "eval-rollout/1/1.jsonl"], ["rollout/1/1.jsonl"]),
    (["train_step_1_epoch_0/a.json", "val_step_1_epoch_0/a.json"], ["train_step_1_epoch_0/a.json"]),
    (["eval_only.jsonl"], ["eval_only.jsonl"]),
    (["iteration_000001/train_rollout_summaries.jsonl", "checkpoints.jsonl", "timing_spans.jsonl"],
        ["iteration_000001/train_rollout_summaries.jsonl"]),
    (["x_rollouts_000000.jsonl", "x_metadata.jsonl"], ["x_rollouts_000000.jsonl"]),
    (["rollouts.jsonl", "rollouts_materialized_inputs.jsonl", "rollouts_failures.jsonl"], ["rollouts.jsonl"]),
    (["log.jsonl", "model.pt", "0.pt"], ["log.jsonl"]),
    (["1.pt", "0.pt", "eval_0.pt", "optimizer.pt"], ["0.pt", "1.pt"]),
    (["step_1/train/all/traces.jsonl", "step_1/train/effective/traces.jsonl", "step_1/eval/all/traces.jsonl"],
        ["step_1/train/effective/traces.jsonl"]),
]  # fmt: skip


@pytest.mark.parametrize(("names", "files"), EVALUATIONS)
def test_evaluations_beside_training_are_left_out(names, files):
    assert choose_files(names, "run").files == files


def test_a_key_of_wandb_per_step_is_one_run(tmp_path):
    folder = tmp_path / "wandb" / "run-20260801_000000-qq" / "files" / "media" / "table"
    folder.mkdir(parents=True)
    for s in range(STEPS):
        rows = [[s + 1, f"s{s} q{p[1]}", "c", CORRECT[p], STYLE[p], ADVANTAGE[p]] for p in PLACES if p[0] == s]
        content = {"columns": ["step", "prompt", "completion", "correct", "style", "advantage"], "data": rows}
        (folder / f"completions_step={s + 1}_{s + 1}_{s:020x}.table.json").write_text(json.dumps(content))
    expect_truth(tmp_path)


# --- trainers --------------------------------------------------------------------------------------------------------


def test_tinkers_parts_stand_in_the_steps_of_a_trajectory(tmp_path):
    for s in range(STEPS):
        rows = []
        for p in (place for place in PLACES if place[0] == s):
            turns = [{"format": 0.25, "correct": None}, {"format": 0.75, "correct": CORRECT[p]}]
            steps = [{"ac_len": 10 + k, "reward": 0.0, "metrics": turn, "logs": {}} for k, turn in enumerate(turns)]
            where = {"split": "train", "iteration": s + 1, "group_idx": p[1], "traj_idx": p[2], "tags": ["math"]}
            sizes = {"sampling_client_step": s, "final_ob_len": 9, "schema_version": 1}
            total = {"total_reward": CORRECT[p] + 0.5 * STYLE[p], "final_reward": 0.0}
            rows.append(where | sizes | total | {"trajectory_metrics": {"style": STYLE[p]}, "steps": steps})
        write(tmp_path, f"iteration_{s + 1:06d}/train_rollout_summaries.jsonl", rows)
        write(tmp_path, f"iteration_{s + 1:06d}/eval_gsm8k_rollout_summaries.jsonl", rows[:3])
    write(tmp_path, "checkpoints.jsonl", [{"name": "a", "batch": 1}])
    run = ga.read_run(tmp_path)
    assert {"correct", "style"} <= {*run.rewards} and run.configured_method == "grpo_no_std"
    assert run.table["correct"].to_list() == CORRECT.ravel().tolist()
    assert run.table["length"].to_list() == [21] * len(PLACES) and run.group_size == SIZE
    assert "6 files of evaluations" in issues(run)["files-left-out"]["files"][0]


def test_rllm_writes_an_episode_per_file(tmp_path):
    for n, p in enumerate(PLACES):
        trajectory = {"name": "solver", "uid": str(n), "reward": TOTAL[p], "num_steps": 1, "steps": []}
        content = {"training_step": p[0] + 1, "epoch": 0, "episode_id": f"{p[1]}:{p[2]}", "task": {"q": p[1]}}
        content |= {"task_hash": f"{p[0]}{p[1]}", "is_correct": True, "metrics": {}, "trajectories": [trajectory]}
        path = tmp_path / f"train_step_{p[0] + 1}_epoch_0" / f"episode_hash{p[0]}{p[1]}_id{p[1]}_{p[2]}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2))
    run = ga.read_run(tmp_path)
    assert run.rewards == ("reward",) and run.group_size == SIZE and run.table["group"].n_unique() == STEPS * GROUPS
    assert sorted(run.table["reward"].to_list()) == sorted(TOTAL.ravel().tolist())


def test_rllms_episodes_without_a_task_are_groups_of_their_own(tmp_path):
    rows = []
    for s in range(STEPS):
        for g in range(GROUPS):
            trajectories = [{"name": "solver", "reward": TOTAL[s, g, i]} for i in range(SIZE)]
            row = {"training_step": s + 1, "episode_id": f"{s}:{g}", "task_hash": f"{s}-{g}" if g else None}
            rows.append(row | {"trajectories": trajectories})
    write(tmp_path, "episodes.jsonl", rows)
    run = ga.read_run(tmp_path)
    assert run.group_size == SIZE and run.table["group"].n_unique() == STEPS * GROUPS


def episodes_of(s) -> list[dict]:
    made = []
    for p in (place for place in PLACES if place[0] == s):
        rewards = {"correct": reward(CORRECT[p]), "style": reward(STYLE[p], 0.5)}
        made.append(episode([trace(rewards)], s + 1, f"{s}{p[1]}") | {"id": f"{s}-{p[1]}-{p[2]}"})
    return made


def test_prime_rls_run_folder(tmp_path):
    for s in range(STEPS):
        every = episodes_of(s)
        for name, rows in (("train/all", every), ("train/effective", every[:16]), ("eval/all", every[:3])):
            write(tmp_path, f"rollouts/step_{s + 1}/{name}/traces.jsonl", rows)
    run = ga.read_run(tmp_path)
    assert len(run.table) == STEPS * 16 and run.configured_method == "grpo_no_std"
    run = ga.read_run(str(tmp_path / "rollouts/step_*/train/*/traces.jsonl"))
    assert len(run.table) == STEPS * GROUPS * SIZE
    assert issues(run)["files-left-out"]["files"] == ["96 episodes in a second file, which count once"]
    assert run.table["correct"].to_list() == CORRECT.ravel().tolist()


def test_rows_in_two_files_count_once_where_an_id_says_so(tmp_path):
    def rows(p):
        return parts(p) | {"id": f"{p}", "notes": {"a": [1, 2]}}

    every = per_answer(rows)
    write(tmp_path, "a.jsonl", every[:96])
    write(tmp_path, "b.jsonl", every[80:])
    run = expect_truth(tmp_path)
    assert issues(run)["files-left-out"]["files"] == ["16 rows that another file holds too"]
    # Ten rows come twice in this file, so its ids cannot be those of rows.
    write(tmp_path, "b.jsonl", [*every[80:90], *every[80:]])
    assert len(ga.read_run(tmp_path).table) == len(every) + 26


# --- torch -----------------------------------------------------------------------------------------------------------


def test_tensors_are_read(tmp_path):
    for s in range(STEPS):
        rewards = torch.tensor(np.stack([CORRECT[s].ravel(), STYLE[s].ravel()], -1))
        prompts = [f"s{s} q{g}" for g in range(GROUPS) for _ in range(SIZE)]
        content = {"rewards": rewards, "advantages": torch.tensor(ADVANTAGE[s].ravel()), "prompt": prompts}
        torch.save(content | {"step": s + 1}, tmp_path / f"rollout_{s + 1}.pt")
    (tmp_path / "optimizer.pt").write_bytes(b"not read")
    expect_truth(tmp_path, ("rewards[0]", "rewards[1]"))


def samples(s, number=float) -> dict:
    made = [
        {"group_index": s * GROUPS + p[1], "index": n, "prompt": "q", "response": "a", "status": "completed"}
        | {"reward": {"correct": number(CORRECT[p]), "style": number(STYLE[p])}, "rollout_id": None, "tokens": [1, 2]}
        for n, p in enumerate(place for place in PLACES if place[0] == s)
    ]
    return {"rollout_id": s + 1, "samples": made}


@pytest.mark.filterwarnings("ignore:.*quantize|.*TypedStorage")
def test_tensors_of_any_kind_of_number_are_read(tmp_path):
    table = {"reward": torch.tensor([1, 0, 0, 1.0]), "prompt": [*"aabb"], "step": torch.tensor(3)}
    table["mask"] = torch.eye(4).to_sparse()
    table["style"] = torch.quantize_per_tensor(
        torch.tensor([0, 0.5, 1, 1]), scale=0.5, zero_point=0, dtype=torch.quint8
    )
    table["brief"] = torch.tensor([0, 1, 1, 1]).to_sparse()
    torch.save(table, tmp_path / "1.pt")
    run = ga.read_run(tmp_path / "1.pt", rewards=["reward", "style", "brief"])
    assert run.table["style"].to_list() == [0, 0.5, 1, 1] and run.table["brief"].to_list() == [0, 1, 1, 1]
    assert run.has_steps and run.table["step"].unique().to_list() == [3]


def test_slimes_samples_are_read(tmp_path):
    for s in range(STEPS):
        torch.save(samples(s), tmp_path / f"{s + 1}.pt")
    torch.save(samples(0), tmp_path / "eval_0.pt")
    run = expect_truth(tmp_path)
    assert run.grouped_by == "the column group_index"


@pytest.mark.parametrize("kind", [pytest.param("pt", marks=pytest.mark.slow), "pkl"])
def test_the_line_that_converts_what_is_not_read_leads_on(tmp_path, kind):
    import pickle

    if kind == "pt":
        torch.save(samples(0, np.float64), tmp_path / "1.pt")
    else:
        (tmp_path / "1.pkl").write_bytes(pickle.dumps(samples(0)["samples"]))
    said = refused(tmp_path / f"1.{kind}", "if you trust it, this makes a log of it: python -c ")
    refused(tmp_path, "this makes a log of it: python -c ")
    assert conversion(str(tmp_path / f"1.{kind}")) in said
    command = conversion(str(tmp_path / f"1.{kind}")).replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)
    run = ga.read_run(tmp_path / f"1.{kind}.jsonl")
    assert run.rewards == ("correct", "style") and run.group_size == SIZE
    assert run.table["style"].to_list() == STYLE[0].ravel().tolist()


def test_nothing_of_a_file_is_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    torch.save({"samples": [{"reward": Evil()}]}, tmp_path / "1.pt")
    refused(tmp_path, "expected tensors and plain values that torch.load reads with weights_only=True")
    refused({"1.pt": (tmp_path / "1.pt").read_bytes()}, "expected a file on this machine")
    torch.save({"reward": torch.zeros(8)}, tmp_path / "2.pt")
    (tmp_path / "2.pt").write_bytes((tmp_path / "2.pt").read_bytes()[:-300])
    assert "python -c" not in refused(tmp_path / "2.pt", "expected a whole file of torch.save, got one without its end")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": "b"}, "expected rows in a list, or tensors and lists with a value per response, got an object of a"),
        ([], "got list"),
        (torch.zeros(3), "got Tensor"),
        ({}, "got an object of nothing"),
        ({"reward": torch.zeros(8, device="meta")}, "expected tensors with values, got one on the device meta"),
        (
            {"reward": torch.zeros(8), "style": torch.zeros(7)},
            "8 values in 'style', as many as there are responses, got 7",
        ),
        ({"samples": [{"reward": torch.zeros(1).expand(10**9)}]}, "at most 50,000,000 values, got more"),
    ],
)
def test_files_of_torch_that_hold_no_responses_are_refused(tmp_path, content, message):
    torch.save(content, tmp_path / "1.pt")
    refused(tmp_path, message)
