"""Logs are read as they were written: real ones are compared with what the trainer held, and made ones with what was
drawn.
"""

import csv
import io
import json
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fake_logs import (
    ACCURACY,
    LENGTH,
    WEIGHTS,
    generic_frame,
    make_steps,
    write_ms_swift,
    write_nemo_rl,
    write_trl,
    write_verl,
)
from helpers import crossed
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import (
    EVENT,
    LOGS,
    NAMES,
    VERL,
    assert_reads,
    episode,
    episodes,
    found,
    in_form,
    issues,
    lines,
    parquet,
    refused,
    reward,
    rows,
    table,
    trace,
    trl,
    zip_of_folder,
)

import gdpo_audit as ga
from gdpo_audit.logs.forms.standard_rows import batches
from gdpo_audit.logs.numbers.sizes import infer

read_run = ga.read_run
NAN = float("nan")
LOGGED_METHODS = ("grpo", "grpo_no_std", "grpo_batch_std", "gdpo")

# --- every reader: what it says of a log -----------------------------------------------------------------------------


def yes(log, expected: dict, **options):
    """Return a case of a log and of what reading it gives: attributes of the run and columns of its table. options:
    those of `read_run`.
    """
    return pytest.param(log, expected, options, id=", ".join(map(str, [*expected.values()]))[:60])


def no_components(framework: str, name: str, **more) -> dict:
    return {"no-components": {"framework": framework, "has": [name], **more}}


def jsonl(*items, name: str = "a.jsonl") -> dict[str, bytes]:
    return {name: lines(*items)}


SWIFT = {"prompt": list("aabbccdd"), "completion": ["x"] * 8, "acc": [1, 0] * 4, "advantages": [1.0, -1.0] * 4}
ON_RAY = [{"gen_step": 3, "prompt": "ab"[i // 2], "completion": "x", "reward": float(i)} for i in range(4)]
TASKS = [episode([trace({"right": reward(float(i % 2))})], task=f"t{g}") for i in range(4) for g in range(3)]
AGENTS = [("proposer", {"won": 1.0}, True), ("solver", {"solved": 0.5}, True), ("judge", {}, False)]
TEAM = [trace({n: reward(v) for n, v in r.items()}, agent=name, trainable=trained) for name, r, trained in AGENTS]
MERGED = {"step": 7, "steps": 1, "groups": 1, "group_size": 3, "rows": 6, "looked_at_groups": 1}
LINE = lines(VERL)[:-1]
SWIFTS = (LOGS / "ms_swift" / "completions.jsonl").read_bytes()
OF_TOKENS = [[0.5, 0.5], [-0.5], [0.0, 1.0], None]
LATE = rows(400) + rows(4, late=lambda i: i)
USUAL = {"a.csv": b"group,acc,num_tokens,epoch\n1,0,5,0\n1,1,9,0\n"}
KINDS = {
    "category": pl.Series(["0", "1"] * 4, dtype=pl.Categorical),
    "enum": pl.Series(["0", "1"] * 4, dtype=pl.Enum(["0", "1"])),
    "list": pl.Series([[1.0]] * 8),
    "struct": pl.Series([{"score": 1.0}] * 8),
    "note": pl.Series(["good"] * 8),
    "nothing": pl.Series([None] * 8),
    "epoch": pl.Series([0.5] * 8),
}


def oddly(number: int, one: dict) -> None:
    """Change an episode of verifiers: scores are missing in three ways, a weight changes, and there are metrics.
    number, one: the episode's number and itself.
    """
    rewards = one["traces"][0]["rewards"]
    one["traces"][0]["metrics"] = {"tests": number % 3, "words": 10 + number}
    rewards["short"] |= {"score": NAN} if number == 2 else {"weight": 2.0} if number >= 8 else {}
    if number < 2:
        one["traces"][0]["rewards"] = [{"right": None}, {}][number]


OF_TRAINERS = [
    yes(
        LOGS / "verl_legacy",
        dict(framework="verl", rewards=("accuracy_reward", "format_reward"), total_only=False, has_advantage=False)
        | dict(grouped_by="the column input", accuracy_reward=[1.0, 0.0], format_reward=[0.5, 0.0], step=[7, 7]),
    ),
    yes(  # 5f3a_0_0 and 5f3a_1_0
        LOGS / "verl_v1",
        dict(framework="verl", rewards=("score",), total_only=True, group_size=2, group=[0, 0])
        | dict(issues=no_components("verl", "score", trainer="v1")),
    ),
    yes(jsonl(*[VERL | {"acc": x, "fmt": y} for x, y in ((True, 1), (False, None), (None, 0))], VERL | {"acc": 1}),
        dict(rewards=("acc", "fmt"), acc=[1, 0, NAN, 1], fmt=[1, NAN, 0, NAN])),
    yes({"1.jsonl": lines(*[VERL | {"tool": None}] * 4), "2.jsonl": lines(*[VERL | {"tool": 0.5}] * 4)},
        dict(rewards=("acc", "tool"), tool=[NAN] * 4 + [0.5] * 4)),
    yes(jsonl(*[VERL | {"uid": f"07_{i // 4}_{i % 4}_0"} for i in range(8)]), dict(group=[i // 4 for i in range(8)])),
    yes(jsonl(VERL, VERL), dict(rewards=("score",), issues=no_components("verl", "score")), rewards="score"),
    yes(jsonl(*[VERL | {"fmt": 0.5}] * 2), dict(rewards=("fmt", "acc"), total_only=False), rewards=["fmt", "acc"]),
    yes(jsonl(*[VERL] * 6), dict(group_size=6, issues={}), group_size=6),
    # Each prompt stands in two groups.
    yes(jsonl(*[VERL] * 6), dict(group_size=6, issues={"prompts-merged": MERGED}), group_size=3),
    yes({"a.parquet": trl(prompt=None, advantage=None)}, dict(group=[i // 4 for i in range(32)], has_advantage=False),
        group_size=4),
    yes(jsonl(EVENT | {"advantages": [1, True]}), dict(framework="ms_swift", advantage=[1, 1]), group_size=2),
    yes(jsonl(*[{"step": ["1"] * 4 + ["2"] * 4, **SWIFT}] * 2, name="completions.jsonl"),
        dict(batch=[i // 4 for i in range(16)], step=([1] * 4 + [2] * 4) * 2, group=[i // 2 for i in range(16)])),
    yes(
        jsonl(*ON_RAY),
        dict(framework="ms_swift", rewards=("reward",), total_only=True, group_size=2, reward=[0, 1, 2, 3])
        | dict(step=[3] * 4, group=[0, 0, 1, 1], issues=no_components("ms_swift", "reward")),
    ),
    yes(  # all begin with one system message
        jsonl(
            *[{"content": [["be brief", f"question {i // 3}", f"answer {i}"]], "rewards": [1.0]} for i in range(6)],
            name="train_data_step12.jsonl",
        ),
        dict(framework="nemo_rl", group=[0, 0, 0, 1, 1, 1], step=[12] * 6),
    ),
    *[
        yes(jsonl(*[{name: wrap(value) for name, value in of(i).items()} for i in range(6)]),
            dict(framework="nemo_rl", step=[1] * 6, group=[i // size for i in range(6)], rewards=("rewards",)))
        for wrap in (lambda value: value, lambda value: [value])
        for size, of in (
            (2, lambda i: {"prompt_ids": [5, i // 2], "input_lengths": 9, "rewards": i / 4}),
            (3, lambda i: {"content": [f"question {i // 3}", f"answer {i}"], "rewards": i / 4}),
        )
    ],
    yes({"a.jsonl": episodes()["traces.jsonl"]}, dict(framework="verifiers", weights={"right": 1.0, "short": 0.5})),
    yes(episodes(seen=reward(1.0, 0.0)), dict(rewards=("right", "short"), left_out=("seen",)), framework="Verifiers"),
    yes(episodes(seen=reward(1.0, 0.0)), dict(weights={"right": 1.0, "seen": 0.0}), rewards=["right", "seen"]),
    yes(episodes(right=reward(1.0, 0.0), short=reward(0.5, 0.0)), dict(rewards=("right", "short"))),
    # Where its weight changes, a reward is what it adds to the total.
    yes(
        episodes(oddly),
        dict(rewards=("right", "short"), weights={"right": 1.0, "short": 1.0}, left_out=("tests", "words"))
        | dict(right=[NAN, NAN, *[i % 2 for i in range(2, 16)]])
        | dict(short=[NAN] * 3 + [i % 4 / 4 * (0.5 if i < 8 else 2) for i in range(3, 16)]),
    ),
    yes(
        episodes(oddly),
        dict(tests=[n % 3 for n in range(16)], length=[10 + n for n in range(16)], weights=None)
        | dict(left_out=("right", "short")),
        rewards=["tests"],
        columns={"length": "words"},
    ),
    # Agents that are trained have groups of their own.
    yes(jsonl(*[episode(TEAM, step=1, group="g")] * 4),
        dict(rewards=("won", "solved"), group_size=4, group=[0] * 4 + [1] * 4, won=[1] * 4 + [NAN] * 4)),
    *[yes(jsonl(*items), dict(group_size=4, step=[1] * 12, left_out=(), group=[i // 4 for i in range(12)]))
      for items in (TASKS, [one | {"run": {"type": "eval", "id": "x"}} for one in TASKS])],
    yes(jsonl(*[episode([trace({"right": reward(i)}, advantages=v)], 1, "g") for i, v in enumerate(OF_TOKENS)]),
        dict(advantage=[0.5, -0.5, 0.5, NAN])),
    yes(jsonl(episodes()["traces.jsonl"].decode().replace('"short"', '"short\\ud800"')),
        dict(rewards=("right", "short\\ud800"))),
    yes(jsonl(episodes()["traces.jsonl"].decode() + '{"cut": '), dict(skipped_lines=1), skip_bad=True),
]  # fmt: skip
OF_ANY_TABLE = [
    # A framework can be named in any spelling, and content decides over the name of the file.
    *[yes(LOGS / "trl/gdpo", dict(framework="trl"), framework=name) for name in ("trl", "TRL", "axolotl", " Axolotl ")],
    yes(LOGS / "trl/gdpo", dict(framework="generic"), framework="generic"),
    *[yes({"7.jsonl": SWIFTS}, dict(framework="ms_swift"), framework=name) for name in (None, "ms-swift", "Swift")],
    yes({"completions.jsonl": lines(VERL, VERL)}, dict(framework="verl")),
    yes({"log": trl()}, dict(framework="trl")),
    # Byte order marks, the ends of lines, and blank lines do not matter.
    *[yes({"7.jsonl": mark + LINE + b"\r\n\r\n" + LINE + b"  \n" + LINE}, dict(acc=[1.0] * 3))
      for mark in (b"\xef\xbb\xbf", b"")],
    # A file without steps is a batch.
    yes({f"part{n}.csv": b"group,acc\na,1\na,0\n" for n in range(3)}, dict(batch=[0, 0, 1, 1, 2, 2])),
    yes({"a.csv": b"t,q,good,tokens,a,n\n5,a,1,0.5,-1,3\n5,a,0,2,1,4\n"},
        dict(rewards=("tokens", "good"), tokens=[0.5, 2], good=[1, 0], advantage=[-1, 1], step=[5, 5], length=[3, 4]),
        rewards=["tokens", "good"], group="q", columns={"advantage": "a", "step": "t", "length": "n"}),
    yes(USUAL, dict(rewards=("acc",), length=[5, 9])),
    yes(USUAL, dict(rewards=("num_tokens", "acc"), has_length=False), rewards=["num_tokens", "acc"]),
    yes(USUAL, dict(has_length=False), rewards=["num_tokens", "acc"], columns={"length": "num_tokens"}),
    yes({"a.csv": "\ufeffgroup,acc,fmt\r\na,True,1\r\na,False,NaN\r\na,,0.5\r\n".encode()},
        dict(acc=[1, 0, NAN], fmt=[1, NAN, 0.5])),
    yes({"a.csv": b'group,"a""c","f,t"\na,1,0\na,0,1\n'}, dict(rewards=('a"c', "f,t"))),
    yes({"a.csv": b"acc\n" + b"1\n0\n" * 8}, dict(rewards=("acc",), group=[i // 4 for i in range(16)]), group_size=4),
    yes({"a.csv": b"step;group;acc;grade\n" + b"1;a;0;yes, 1\n1;a;1;yes, 2\n" * 4}, dict(rewards=("acc",))),
    yes({"a.csv": table(20_000, late=lambda i: None if i < 15_000 else i % 2).write_csv().encode()},
        dict(rewards=("acc", "late"), late=[NAN] * 15_000 + [0, 1] * 2_500)),
    *[yes(jsonl(*[row | early for row in LATE[:400]], *LATE[400:403], LATE[403] | {"late": last}),
        dict(rewards=("acc", "late"), late=[*[NAN] * 4, 0, 1, 2, last, *[NAN] * 396], group_size=None))
      for early in ({}, {"late": None}) for last in (3, NAN)],
    yes(jsonl(*rows(300, flag=lambda i: [True, 0, 0.5, None][i % 4])), dict(flag=[1, 0, 0.5, NAN] * 75)),
    *[yes({f"a.{kind}": in_form(kind, table(16, step=lambda i: str(1 + i // 8)))}, dict(step=[1] * 8 + [2] * 8))
      for kind in ("jsonl", "json", "parquet")],
    *[yes({f"a.{kind}": in_form(kind, table(8, prompt=lambda i: "12", answer=str, sample_id=str))},
        dict(rewards=("acc",))) for kind in ("parquet", "jsonl", "json", "csv")],
    # The advantages are logged at each token, and padding of 0 or nothing follows them.
    *[yes(log, dict(advantage=[0.5, -0.5, 0.5, 0, NAN, NAN, 0.25, -0.25] * 2, has_advantage=True, left_out=()))
      for of in [[[0.5] * 3, [-0.5], [0.5, 0.0], [0.0, 0.0], [], None, [0.25], [-0.25, -0.25]] * 2]
      for items in [rows(16, advantages=lambda i, of=of: of[i])]
      for log in (jsonl(*items), {"a.json": json.dumps(items).encode()}, {"a.parquet": parquet(pl.DataFrame(items))},
        pl.DataFrame(items), items,
        jsonl(*[VERL | {"advantages": one} for one in of]))],
    *[yes(jsonl(*items), dict(framework="ms_swift", advantage=[1.0, -1.0] * 2))
      for items in ([EVENT | {"advantages": [[1.0, 1.0], [-1.0]]}] * 2,
        [row | {"advantages": [1.0 - i % 2 * 2] * 2} for i, row in enumerate(ON_RAY)])],
    yes({"a.parquet": trl(advantage=None, advantages=pl.concat_list([pl.int_range(pl.len()) % 2 * 2 - 1.0] * 2))},
        dict(framework="trl", advantage=[-1.0, 1.0] * 16)),
    yes(jsonl(*rows(8, advantages=lambda i: [])), dict(advantage=[NAN] * 8, rewards=("acc",))),
    yes(rows(8, fmt=lambda i: Decimal(i % 2) / 2), dict(fmt=[0, 0.5] * 4, rewards=("acc", "fmt"))),
    # Some columns are called as those that reading adds, and a number stands in quotes among others.
    *[yes({f"a.{kind}": in_form(kind, table(8, **dict.fromkeys(("_file", "_row", "_event", "_key"), lambda i: 7 - i)))},
        dict(rewards=("acc",), left_out=())) for kind in ("parquet", "csv", "jsonl")],
    yes(jsonl(*rows(8, fmt=lambda i: "0.5" if i == 3 else i)), dict(fmt=[0, 1, 2, 0.5, 4, 5, 6, 7])),
    # numpy 2 spelled out the numbers of this reward.
    *[yes({"a.csv": in_form("csv", table(4, fmt=lambda i, t=texts: t[i]))}, dict(fmt=[1, 0, 1, 1]))
      for texts in (["np.float64(1.0)", "np.float64(0.0)", "1", "np.int64(1)"],
        ["np.True_", "np.False_", "np.True_", "np.True_"], ["np.float32(1e0)", "np.float32(-0)", "1", " np.int8(1)"])],
    # The report names what is left out, except what every log holds, such as the epoch.
    yes({"a.parquet": parquet(table(8, prompt=lambda i: "p").with_columns(**KINDS))},
        dict(rewards=("acc",), left_out=tuple(KINDS)[:-1])),
    yes({"completions_1.parquet": trl(note=pl.lit("good"), l=pl.concat_list("step"))}, dict(left_out=("note", "l"))),
    yes({"a.csv": b"group,acc,fmt\na,1,no\na,0,yes\n"}, dict(left_out=("fmt",))),
    yes(jsonl(*rows(8, grade=lambda i: [1.0], prompt=lambda i: [{"role": "user"}])), dict(left_out=("grade",))),
    yes({"a.csv": b"group,acc,fmt\na,1,0\na,0,1\n"}, dict(left_out=())),
    yes(jsonl(*rows(8, fmt=str)), dict(rewards=("acc",), left_out=("fmt",)), rewards="acc"),
]  # fmt: skip


@pytest.mark.parametrize("log, expected, options", [*OF_TRAINERS, *OF_ANY_TABLE])
def test_a_log_holds_what_its_files_say(log, expected, options):
    assert_reads(read_run(log, **options), expected)


# --- real logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.name for path in (LOGS / "trl").iterdir()))
def test_a_trl_log_holds_what_the_trainer_held(name):
    run = read_run(LOGS / "trl" / name)
    truth = np.load(LOGS / "trl" / name / "capture.npz")
    assert (run.framework, run.has_advantage, run.total_only) == ("trl", True, False)
    assert run.group_size == truth["num_generations"] == 8 and run.grouped_by == "blocks of 8 rows"
    once = name == "edge_dupnames"  # Of two columns with this name the log keeps the one that was computed last.
    assert run.rewards == (("reward",) if once else tuple(truth["reward_names"].tolist()))
    for (step,), batch in run.table.group_by("step", maintain_order=True):
        number = truth["steps"].tolist().index(step - 1)
        got = batch.select(run.rewards).to_numpy().astype(np.float32)
        np.testing.assert_array_equal(got, truth[f"rewards_{number}"][:, int(once) :])
        np.testing.assert_array_equal(batch["advantage"].to_numpy().astype(np.float32), truth[f"adv_{number}"])
        assert batch["group"].rle().struct.field("len").to_list() == [8] * (len(batch) // 8)
    expected = {"edge_logging2": [2, 4], "edge_conv": [1, 2], "edge_dupnames": [1, 2], "edge_dupprompts": [1, 2, 3]}
    assert run.table["step"].unique(maintain_order=True).to_list() == expected.get(name, [1, 2, 3, 4])
    kinds = [run.table.schema[column] for column in ("step", "group", run.rewards[0], "advantage")]
    assert kinds == [pl.Int64, pl.Int64, pl.Float64, pl.Float64]
    merged = issues(run).get("prompts-merged")
    assert (merged is not None) == (name == "edge_dupprompts")
    if merged:  # The note says which groups the prompts would merge.
        assert merged["groups"] == 4 and merged["prompts"] == 2 and merged["looked_at_groups"] == 12
        assert merged["step"] in (1, 2, 3)


# --- logs that are drawn and read back -------------------------------------------------------------------------------


def drawn(steps) -> tuple[np.ndarray, np.ndarray]:
    """Return the rewards, (responses, rewards), and the advantages, (responses,), of all steps in order."""
    flat = [step.flat() for step in steps]
    return np.concatenate([r for r, _, _ in flat]), np.concatenate([a for _, a, _ in flat])


def assert_read(run: ga.Run, steps, rewards=NAMES) -> None:
    """Assert that a run's table holds what was drawn, in the same order and the same groups."""
    r, a = drawn(steps)
    size = steps[0].advantages.shape[1]
    assert (run.rewards, run.group_size, run.has_advantage) == (rewards, size, True)
    np.testing.assert_array_equal(run.table.select(rewards).to_numpy(), r)
    np.testing.assert_array_equal(run.table["advantage"].to_numpy(), a)
    assert run.table["step"].to_list() == [step.number for step in steps for _ in range(step.advantages.size)]
    assert run.table["group"].to_list() == [i // size for i in range(len(r))]


OPTIONS = ({}, {"chat": True}, {"missing": 0.2}, {"one_file": True}, {"iterations": 2})
WRITTEN = [(write_trl, options) for options in OPTIONS]
WRITTEN += [(write_ms_swift, {"gen_step": gen, "missing": share}) for gen in (False, True) for share in (0.0, 0.2)]
# In these logs little shows the groups: a batch is one group, there are no prompts, or an evaluation overwrote half a
# step.
WRITTEN += [(write_trl, {"groups": 1, "group_size": 16}), (write_trl, {"drop": ("prompt",)})]
WRITTEN += [(write_trl, {"evaluated": (2, 3)})]


@pytest.mark.parametrize("write, options", WRITTEN)
def test_what_a_trainer_wrote_comes_back(tmp_path, write, options):
    steps = write(tmp_path, **options)
    run = read_run(tmp_path)
    assert_read(run, steps)
    assert run.framework == write.__name__.removeprefix("write_") and not run.issues and run.configured_method is None


@pytest.mark.parametrize("method", LOGGED_METHODS)
def test_ms_swifts_args_say_which_method_was_asked_for(tmp_path, method):
    write_ms_swift(tmp_path / "run" / "v0-1", method=method, args=True)
    # In the last of these places the log is found in a folder below, with its arguments.
    for place in ("run/v0-1", "run/v0-1/completions.jsonl", "run"):
        assert read_run(tmp_path / place).configured_method == method


@pytest.mark.parametrize("content, as_lists", crossed(["parts", "messages", "text"], [False, True]))
def test_nemo_rl_round_trip(tmp_path, content, as_lists):
    r, a = drawn(write_nemo_rl(tmp_path, content=content, as_lists=as_lists, group_size=4))
    run = read_run(tmp_path)
    assert_reads(
        run,
        dict(framework="nemo_rl", rewards=("rewards",), total_only=True, group_size=4)
        | dict(step=[1 + i // 16 for i in range(64)], group=[i // 4 for i in range(64)])
        | dict(length=[3 + i % 16 % 5 for i in range(64)], issues=no_components("nemo_rl", "rewards")),
    )
    np.testing.assert_allclose(run.table["rewards"].to_numpy(), r @ WEIGHTS, rtol=1e-12)
    np.testing.assert_array_equal(run.table["advantage"].to_numpy(), a)


def test_shuffled_rows_of_verl_are_brought_together_by_their_prompt(tmp_path):
    steps = write_verl(tmp_path, steps=11)
    run = read_run(tmp_path)
    assert (run.framework, run.rewards, run.group_size) == ("verl", NAMES, 8)
    assert [Path(name).name for name in run.files] == [f"{i}.jsonl" for i in range(1, 12)]
    assert read_run(sorted(map(str, tmp_path.iterdir()))).files == run.files
    assert run.table["step"].is_sorted() and run.table["group"].rle().struct.field("len").to_list() == [8] * 44
    for step in steps:
        batch = run.table.filter(pl.col("step") == step.number)
        read = sorted(sorted(group.select(NAMES).rows()) for _, group in batch.group_by("group"))
        assert read == sorted(sorted(map(tuple, group.tolist())) for group in step.rewards)


@pytest.mark.parametrize("kind, missing", crossed(["parquet", "csv", "tsv", "jsonl", "ndjson", "json"], [0.0, 0.2]))
def test_generic_round_trip(kind, missing):
    steps = make_steps(missing=missing)
    run = read_run({f"log.{kind}": in_form(kind, generic_frame(steps, NAMES))})
    assert_read(run, steps)
    assert run.framework == "generic" and run.grouped_by == "the column group"


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_of_a_generic_log_in_any_order_come_back_by_step_and_group(tmp_path, kind):
    frame = generic_frame(make_steps(steps=5), NAMES)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=3)
    for part in range(3):  # The rows of a step are spread over the files.
        (tmp_path / f"log{part}.{kind}").write_bytes(in_form(kind, shuffled[part::3]))
    run = read_run(str(tmp_path / f"log*.{kind}"))
    assert run.group_size == 8 and len(run.files) == 3
    [read] = run.tables()
    assert read["batch"].to_list() == [i // 32 for i in range(160)] == [s - 1 for s in read["step"].to_list()]
    for _, group in read.group_by("group"):
        prompt = frame.filter(pl.col("advantage") == group["advantage"][0])
        assert len(group) == 8 and prompt["step"][0] == group["step"][0]
    key = ["step", *NAMES, "advantage"]
    assert run.table.select(key).sort(key).equals(frame.select(key).sort(key))


IN_ORDER = generic_frame(make_steps(12), NAMES).with_columns(group=pl.int_range(pl.len()) % 32 // 8)
AGAIN = generic_frame(make_steps(12, seed=5), NAMES).with_columns(group=IN_ORDER["group"])[160:]  # from step 6 on
WORKER = pl.int_range(pl.len()) % 8 // 2
COPIED = pl.concat([IN_ORDER[:96], IN_ORDER])
TWICE = [1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 10, 11, 12]
ONCE, BOTH = list(range(1, 13)), [step for step in range(1, 13) for _ in range(2)]


@pytest.mark.parametrize(
    "frame, steps, options",
    [
        (pl.concat([IN_ORDER[:256], AGAIN]), TWICE, {}),
        (pl.concat([IN_ORDER[:243], AGAIN]), TWICE, {}),  # cut by the crash
        (pl.concat([IN_ORDER[:256], AGAIN]).drop("group"), TWICE, {"group_size": 8}),
        (COPIED, [1, 1, 2, 2, 3, 3, *ONCE[3:]], {}),  # from the start
        (pl.concat([IN_ORDER, IN_ORDER.with_columns(accuracy=1 - pl.col("accuracy"))]), BOTH, {}),
        # Rows in another order, and the logs of workers one after the other, are no restart.
        (IN_ORDER.sample(fraction=1, shuffle=True, seed=1), ONCE, {}),
        (IN_ORDER.sort("group", maintain_order=True), ONCE, {}),
        (pl.concat([IN_ORDER.filter(WORKER.eq(n)) for n in range(4)]), ONCE, {}),
    ],
)
def test_steps_that_fall_are_a_restart_where_whole_batches_come_again(frame, steps, options):
    run = read_run({"a.csv": in_form("csv", frame)}, **options)
    of_batch = next(run.tables()).group_by("batch", maintain_order=True).agg(pl.col("step").first())
    assert of_batch["step"].to_list() == steps and {*sizes_of(run)} <= {8, 3}
    key = ["step", *NAMES, "advantage"]
    assert run.table.select(key).sort(key).equals(frame.select(key).sort(key))
    twice = found(ga.audit(run)).get("steps-repeated")
    assert (twice is not None) == (len(steps) > 12 and frame is not COPIED)  # Steps that are mere copies are left out.


def test_parts_of_groups_in_the_files_of_workers_are_joined_where_the_advantages_show_it():
    parts = {f"rank{n}.csv": in_form("csv", IN_ORDER.filter(WORKER.eq(n))) for n in range(4)}
    assert_read(read_run(parts), make_steps(12))
    refused(
        {name: in_form("csv", pl.read_csv(log).drop("advantage")) for name, log in parts.items()}, "of 2 rows as in"
    )


def test_blocks_are_tried_where_prompts_alone_show_groups_and_one_was_drawn_twice():
    drawn = pl.int_range(pl.len()) % 32 // 8
    # The first two groups of a step have one prompt.
    prompt = pl.format("question {}", pl.when(drawn < 2).then(0).otherwise(drawn))
    run = read_run({"a.csv": in_form("csv", IN_ORDER.drop("group").with_columns(prompt=prompt))})
    assert run.grouped_by == "the column prompt" and sizes_of(run) == {16: 12, 8: 24} and run.other_sizes == (8,)
    report = ga.audit(run)
    assert report.run["reproduced"] and report.source["grouped_by"] == "blocks of 8 rows"


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("end", [0, -9])
def test_a_last_file_that_is_being_written_is_left_out_and_named(kind, end):
    content = in_form(kind, IN_ORDER)
    log = {f"a1.{kind}": content, f"a2.{kind}": content[:end] if end else b""}
    run = read_run(log)
    assert run.files == (f"a1.{kind}",) and f"a2.{kind} (empty or" in issues(run)["files-left-out"]["files"][0]
    refused({f"a0.{kind}": log[f"a2.{kind}"], f"a1.{kind}": content}, rf"a0\.{kind}.*expected .*--skip-bad")


@pytest.mark.parametrize("most", [3, 10])
def test_responses_of_events_and_their_texts_are_whole_where_a_frame_is_full(monkeypatch, most):
    monkeypatch.setattr("gdpo_audit.logs.tables.formats.ROWS_AT_ONCE", most)
    events = [EVENT | {"step": [n] * 2, "completion": [f"{n} a", f"{n} b"]} for n in range(8)]
    run = read_run(jsonl(*events))
    assert run.table["step"].to_list() == [n for n in range(8) for _ in range(2)]
    places = [place for table in run.tables() for place in table["_place"]]
    assert [run.texts(places)[place].completion for place in places] == [f"{n} {x}" for n in range(8) for x in "ab"]


CELLS = st.one_of(st.sampled_from(["0", "1", "0.5", ""]), st.text("a1,\n\"' ", max_size=4))


@pytest.mark.slow
@settings(max_examples=150)  # a few records each: cheap, and the faults are rare
@given(st.lists(st.tuples(st.sampled_from(["p", "q"]), st.sampled_from("01"), CELLS), min_size=1, max_size=8))
def test_every_record_of_a_csv_is_a_row(records):
    text = io.StringIO()
    csv.writer(text).writerows([("group", "acc", "text"), *records])
    run = read_run({"a.csv": text.getvalue().encode()}, rewards=["acc"], group="group")
    wanted = {g: sorted(float(a) for k, a, _ in records if k == g) for g, _, _ in records}
    groups = [sorted(part["acc"].to_list()) for part in run.table.partition_by("group")]
    assert sorted(groups) == sorted(wanted.values())


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ['{"input":', "[1, 2]", "5", "null", "not JSON", '{"a": 1} {"b": 2}'])
def test_a_broken_line_is_named_or_skipped_and_counted(broken):
    good = json.dumps(VERL)
    log = {"7.jsonl": f"{good}\n\n{good}\n{broken}\n{good}\n{broken}\n".encode()}
    refused(log, r"7\.jsonl, line 4: expected a JSON object, got")
    run = read_run(log, skip_bad=True)
    assert run.skipped_lines == 2 and len(run.table) == 3
    assert sum(map(len, run.tables())) == 3 and run.skipped_lines == 2


TEXT = "group,acc,fmt\na,1,0\na,0,1\nb,1,1\nb,0,0\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", [TEXT, TEXT.replace("a,", '"a, ""x""\n",')])
def test_empty_lines_of_csv_are_nothing(text, end):
    whole = read_run({"a.csv": text.encode()}).table
    empty = text.replace("0\n", "0\n\n").replace("1\n", "1\n\n\n") + "\n\n"
    for same in (("\n" + empty).replace("\n", end), text.rstrip("\n")):
        assert read_run({"a.csv": same.encode()}).table.equals(whole)


# --- the size of a group ---------------------------------------------------------------------------------------------


@given(
    size=st.sampled_from([2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17]),
    groups=st.integers(2, 6),
    method=st.sampled_from(LOGGED_METHODS),
    same=st.sampled_from(["", "pairs", "all"]),
    seed=st.integers(0, 10**6),
)
def test_the_size_is_found_for_any_size_and_however_prompts_repeat(size, groups, method, same, seed):
    options = dict(method=method, same_prompts=same, seed=seed, rewards=(ACCURACY, LENGTH), weights=None)
    steps = make_steps(6, groups, size, **options)
    prompts = [np.unique(step.flat()[2], return_inverse=True)[1] for step in steps]
    inferred = infer([size * groups] * 6, [step.advantages.ravel() for step in steps], prompts)
    assert inferred is not None and inferred.size == size


def test_the_size_where_advantages_show_little():
    # In groups of four with two right answers each, half of the groups look by chance like two groups of two.
    a = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0])
    assert infer([8], [a], [np.repeat([0, 1], 4)]).size == 4
    assert infer([8], [a], []) is None
    assert infer([24], [np.zeros(24)], [np.repeat([0, 1, 1, 2], 6)]).size == 6  # The prompts tell the group size here.


def sizes_of(run) -> dict[int, int]:
    return dict(run.table.group_by("group").len(name="rows").group_by("rows").len().rows())


# --- whole batches ---------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12), st.integers(1, 30))
def test_batches_are_whole_however_the_rows_arrive(sizes, chunk, rows):
    steps = [i for i, n in enumerate(sizes) for _ in range(n)]
    frame = pl.DataFrame({"step": steps, "row": range(len(steps))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdpo_audit.logs.tables.formats.ROWS_AT_ONCE", rows)
        parts = list(batches((frame[i : i + chunk] for i in range(0, len(frame), chunk)), ["step"]))
    together = pl.concat(parts)
    assert together["row"].to_list() == list(range(len(steps))) and together["batch"].to_list() == steps
    assert all(not set(a["step"]) & set(b["step"]) for i, a in enumerate(parts) for b in parts[:i])


# --- where the files are ---------------------------------------------------------------------------------------------


def test_a_log_is_found_from_wherever_one_points_at_it(tmp_path):
    """The output folder of a run looks as on disk, with other things in it."""
    out = tmp_path / "out"
    steps = write_trl(out, steps=11)
    (out / "trainer_state.json").write_text("{}")
    (out / "checkpoint-5").mkdir()
    (out / "checkpoint-5" / "config.json").write_text("{}")
    (out / "completions" / ".completions_00001.parquet.crc").write_bytes(b"x")
    files = sorted((out / "completions").glob("*.parquet"))
    packed = zip_of_folder(out, within="runs/one/")
    (tmp_path / "run.zip").write_bytes(packed)
    places = [out, str(out), out / "completions", str(out / "completions" / "*.parquet"), files, files[::-1]]
    places += [tmp_path / "run.zip", {"run.zip": packed}, {path.name: path.read_bytes() for path in files[::-1]}]
    for place in places:
        assert_read(read_run(place), steps)


@pytest.mark.parametrize("write", [write_verl, write_trl])
def test_a_directory_is_read_as_it_is_named(tmp_path, write):
    """One directory has a name like a pattern, and one a name in other bytes than UTF-8."""
    write(tmp_path / "r1", steps=2, seed=1)
    write(tmp_path / "r[1]", steps=2, seed=2)
    write(tmp_path / "plain", steps=2, seed=2)
    expected = read_run(tmp_path / "plain").table
    assert read_run(tmp_path / "r[1]").table.equals(expected) and not read_run(tmp_path / "r1").table.equals(expected)
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    try:
        (tmp_path / "plain").rename(folder)
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    run = read_run(folder)
    assert run.table.equals(expected) and all(r"bad\xff" in name for name in (run.path, *run.files))


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_file_named_like_a_pattern_is_not_read_as_one(tmp_path, kind):
    for name, column in (("a1", "style"), ("a[1]", "acc")):
        (tmp_path / f"{name}.{kind}").write_bytes(in_form(kind, table(8).rename({"acc": column})))
    assert read_run(tmp_path / f"a[1].{kind}").rewards == ("acc",)


def test_a_file_is_read_once_however_often_and_however_it_is_spelt(tmp_path):
    write_trl(tmp_path / "o", steps=2)
    (tmp_path / "link").symlink_to(tmp_path / "o")
    again = read_run([tmp_path / "o", tmp_path / "o" / ".." / "o", tmp_path / "link"])
    assert again.table.equals(read_run(tmp_path / "o").table) and len(again.files) == 2


@pytest.mark.parametrize("name", ["completions_00003.parquet", "b.csv"])
def test_pipes_are_not_waited_for(tmp_path, name):
    frame = generic_frame(make_steps(1), NAMES)
    (tmp_path / name.replace("3", "1").replace("b", "a")).write_bytes(trl() if "_" in name else in_form("csv", frame))
    os.mkfifo(tmp_path / name)
    assert len(read_run(tmp_path).table) == 32


def test_a_csv_holds_completions_of_any_length():
    assert len(read_run({"a.csv": f"group,a,completion\n1,1,{'x' * 200_000}\n1,0,y\n".encode()}).table) == 2
