"""`--by COLUMN`: each value's figures are those of its rows, with advantages of whole batches."""

import json
from math import isnan

import fake_logs
import numpy as np
import polars as pl
import pytest
from helpers import nearly

import gdpo_core as gc
from gdpo_core import cli, report
from gdpo_core.runs import by as by_module
from gdpo_core.runs.audit import gather

NAMES = ("a", "b", "c")


def run(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", *map(str, arguments)])
    printed = capsys.readouterr()
    return stopped.value.code, printed.out, printed.err


def log(steps=6, groups=8, size=6, seed=0, tasks=("code", "math", None, "chat"), dead=()) -> pl.DataFrame:
    """Rewards of groups of tasks in turn; dead: pairs (task, reward) in which the reward is 1 for all."""
    draw, rows = np.random.default_rng(seed), []
    for step in range(steps):
        for group in range(groups):
            task = tasks[int(draw.integers(len(tasks)))]
            for _ in range(size):
                values = {"a": draw.random() < 0.5, "b": round(draw.normal(), 3), "c": 3 * draw.random()}
                values |= {name: 1 for name in NAMES if (task, name) in dead}
                rows.append(
                    {"step": step, "id": f"{step}.{group}", "task": task} | {k: float(v) for k, v in values.items()}
                )
    return pl.DataFrame(rows)


def audited(table, **named):
    return gc.audit(gc.read_run(table, group="id", rewards=list(NAMES), by="task", **named), primary="a")


def parts(found):
    return {part["value"]: part for part in found.by}


# --- figures ----------------------------------------------------------------------------------------------------------


def test_every_figure_is_that_of_the_rows_of_the_value():
    table = log()
    found = audited(table)
    assert [part["value"] for part in found.by] == ["chat", "code", "math", None]
    for value, part in parts(found).items():
        rows = table.filter(pl.col("task").eq_missing(value))
        assert (part["column"], part["values"], part["method"]) == ("task", 1, "grpo")
        assert part["responses"] == len(rows) and part["groups"] == rows["id"].n_unique()
        alone = gc.audit(gc.read_run(rows.drop("task"), group="id"), primary="a")  # GRPO has no step over the batch
        for mine, its in zip(part["rewards"], alone.rewards, strict=True):
            assert mine["name"] == its["name"] and mine["mean"] == nearly(its["mean"])
            assert mine["dead_groups"] == nearly(its["dead_groups"])
            assert mine["update_share"] == nearly(its["update_share"]["grpo"])
        for name in ("groups_with_ties", "silent_groups", "inversions"):
            assert part[name] == nearly(alone.methods["grpo"][name])
    whole = gc.audit(gc.read_run(table.drop("task"), group="id"), primary="a").to_dict()
    assert {**found.to_dict(), "by": [], "source": 0} == {**whole, "source": 0}


def test_the_shares_under_gdpo_are_of_advantages_of_the_whole_batch():
    table = log(steps=1, groups=12, seed=3)
    found = parts(gc.audit(gc.read_run(table, group="id", rewards=list(NAMES), by="task"), asked="gdpo"))
    r = table.select(NAMES).to_numpy().reshape(12, 6, 3)
    std = r.std(1, ddof=1, keepdims=True)
    z = (r - r.mean(1, keepdims=True)) / np.where(std > 0, std, 1)
    s = z.sum(-1)
    advantage = (s - s.mean()) / s.std(ddof=1)
    task = table["task"].to_numpy().reshape(12, 6)[:, 0]
    for value, part in found.items():
        mine = np.array([t == value or (t is None and value is None) for t in task])
        shares = (z[mine] * advantage[mine][..., None]).sum((0, 1))
        assert part["method"] == "gdpo"
        assert [x["update_share"] for x in part["rewards"]] == pytest.approx((shares / shares.sum()).tolist(), rel=1e-3)


@pytest.mark.parametrize("method", ["gdpo", "grpo_batch_std", "grpo"])
def test_the_parts_of_all_values_add_up_to_the_run(tmp_path, method):
    """What comes from a step over the batch too, in steps whose spreads differ."""
    task = {"task": lambda n: [f"t{i // 8 % 3}" for i in range(n)]}
    fake_logs.write_trl(tmp_path, steps=6, groups=8, method=method, extra=task)
    facts = gather(gc.read_run(tmp_path, by="task"), primary="accuracy")
    assert facts.method == method and len(facts.by) == 3
    whole, values = facts.method_sums, [of.facts.totals.methods[method] for of in facts.by]
    assert sum(of.update for of in values) == pytest.approx(whole.update)
    for name in ("squares", "silent_groups", "tied_pairs", "inverted", "primary_pairs", "levels"):
        assert sum(getattr(of, name) for of in values) == pytest.approx(getattr(whole, name))
    assert sum(of.facts.totals.logged.wrong for of in facts.by) == 0
    assert sum(of.facts.totals.logged.count for of in facts.by) == 6 * 64


def test_values_of_all_rows_together_are_the_run():
    table = log(tasks=("one",))
    found = audited(table)
    [part] = found.by
    assert part["responses"] == found.source["responses"] and part["groups"] == found.source["groups"]
    for mine, its in zip(part["rewards"], found.rewards, strict=True):
        assert mine["mean"] == nearly(its["mean"]) and mine["dead_groups"] == nearly(its["dead_groups"])
        assert mine["update_share"] == nearly(its["update_share"]["grpo"])


@pytest.mark.parametrize("method", ["gdpo", "grpo", "grpo_batch_std", "grpo_no_std"])
def test_groups_of_a_batch_in_several_tables_and_tasks(tmp_path, method, monkeypatch):
    """A trainer's log with advantages: the figures by task come to the run's, group by group."""
    fake_logs.write_trl(
        tmp_path, steps=6, groups=8, method=method, extra={"task": lambda n: [f"t{i // 8 % 3}" for i in range(n)]}
    )
    found = gc.audit(gc.read_run(tmp_path, by="task"), primary="accuracy")
    assert found.run["method"] == method and [part["value"] for part in found.by] == ["t0", "t1", "t2"]
    groups = sum(part["groups"] for part in found.by)
    assert groups == found.source["groups"] == 48
    of = found.methods[method]
    assert sum(p["silent_groups"] * p["groups"] for p in found.by) / groups == pytest.approx(of["silent_groups"])
    for k, reward in enumerate(found.rewards):
        dead = sum(part["rewards"][k]["dead_groups"] * part["groups"] for part in found.by) / groups
        assert dead == pytest.approx(reward["dead_groups"])


def test_batches_that_are_counted_once_are_counted_once_by_value(tmp_path):
    fake_logs.write_trl(tmp_path, steps=4, iterations=2, extra={"task": lambda n: [f"t{i // 8 % 2}" for i in range(n)]})
    found = gc.audit(gc.read_run(tmp_path, by="task"))
    assert [part["groups"] for part in found.by] == [8, 8] and found.source["groups"] == 32


def test_many_values_are_bounded(monkeypatch):
    table = log(steps=12, tasks=tuple(f"t{i}" for i in range(9)))
    monkeypatch.setattr(by_module, "VALUES", 4)
    found = audited(table)
    usual = table.group_by("task").agg(pl.col("id").n_unique().alias("groups")).sort("groups", descending=True)
    *single, others = found.by
    assert len(single) == 4 and sorted(p["groups"] for p in single) == sorted(usual["groups"].head(4))
    assert (others["value"], others["values"]) == ("5 others", 5)
    rows = table.filter(~pl.col("task").is_in([p["value"] for p in single]))
    assert others["responses"] == len(rows) and others["rewards"][1]["mean"] == pytest.approx(rows["b"].mean())


def test_numbers_are_values_in_their_order():
    table = log().with_columns(
        pl.col("task").replace_strict({"code": 10.0, "math": 2.0, "chat": 2.5, None: float("nan")})
    )
    assert [part["value"] for part in audited(table).by] == ["2", "2.5", "10", None]
    flags = log().with_columns(pl.col("task").is_null())
    assert [part["value"] for part in audited(flags).by] == ["false", "true"]


# --- every reader -----------------------------------------------------------------------------------------------------


def test_every_reader_knows_the_column(tmp_path):
    task = {"task": lambda n: [f"t{i // 8 % 2}" for i in range(n)]}
    fake_logs.write_trl(tmp_path / "trl", steps=4, extra=task)
    for name, writer in (("verl", fake_logs.write_verl), ("nemo_rl", fake_logs.write_nemo_rl)):
        writer(tmp_path / name, steps=4)
        for file in (tmp_path / name).rglob("*.jsonl"):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            key = "input" if name == "verl" else "content"
            known: dict[str, int] = {}
            for row in rows:
                first = row[key] if name == "verl" else row[key][0][0]
                row["task"] = f"t{known.setdefault(json.dumps(first), len(known)) % 2}"
            fake_logs.write_lines(file, rows)
    fake_logs.write_ms_swift(tmp_path / "ms_swift", steps=4)
    file = tmp_path / "ms_swift/completions.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    fake_logs.write_lines(file, [event | {"task": task["task"](32)} for event in events])
    for name in ("trl", "verl", "nemo_rl", "ms_swift"):
        found = gc.audit(gc.read_run(tmp_path / name, by="task"))
        assert found.source["framework"] == name and "task" not in found.source["left_out"]
        assert [(part["value"], part["groups"]) for part in found.by] == [("t0", 8), ("t1", 8)]
        assert found.run == gc.audit(gc.read_run(tmp_path / name, rewards=found.source["rewards"])).run
    table = pl.concat([pl.read_parquet(f) for f in sorted((tmp_path / "trl/completions").iterdir())])
    for ending, write in {"csv": table.write_csv, "jsonl": table.write_ndjson, "parquet": table.write_parquet}.items():
        write(tmp_path / f"run.{ending}")
        found = gc.audit(gc.read_run(tmp_path / f"run.{ending}", framework="generic", by="task", group_size=8))
        assert [(part["value"], part["groups"]) for part in found.by] == [("t0", 8), ("t1", 8)]


def test_a_column_of_numbers_is_no_reward_where_it_is_named(tmp_path):
    fake_logs.write_trl(tmp_path, steps=2, extra={"level": lambda n: [i // 8 for i in range(n)]})
    assert "level" in gc.read_run(tmp_path).rewards
    found = gc.audit(gc.read_run(tmp_path, by="level"))
    assert "level" not in found.source["rewards"] and found.run["reproduced"] is True
    assert [part["value"] for part in found.by] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("kind", "expected a column 'kind', got step, prompt, completion"),
        ("accuracy", "expected one value of the column 'accuracy' in all responses of a group, got '"),
        ("completion", "expected one value of the column 'completion' in all responses of a group, got 'answer 0"),
        ("", "by: expected the name of a column, got ''"),
        ("nested", "column 'nested': expected texts or numbers, got List(Int64)"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, tmp_path, column, named):
    fake_logs.write_trl(tmp_path, steps=2, extra={"nested": lambda n: [[1]] * n})
    code, out, err = run(capsys, tmp_path, "--by", column)
    assert (code, out) == (2, "") and err.count("\n") == 1 and named in err


def test_a_missing_value_among_others_varies_too():
    table = log().with_columns(pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.lit("x")).alias("task"))
    with pytest.raises(
        gc.InputError, match="in all responses of a group, got 'x' and a missing one in a group of step 0"
    ):
        audited(table)


# --- the finding ------------------------------------------------------------------------------------------------------


def ids(found):
    return {f.id: f for f in found.findings}


def test_a_reward_that_is_dead_in_one_task_alone_is_found():
    found = audited(log(steps=20, dead=[("code", "b")]))
    assert "reward-dead" not in ids(found)
    finding = ids(found)["reward-dead-in-part"]
    assert finding.title == "b does nothing in task code" and finding.severity == "warning"
    assert finding.evidence["dead_groups"] == {"code": 1.0} and finding.evidence["dead_groups_of_others"] == 0
    both = ids(audited(log(steps=20, dead=[("code", "b"), (None, "b")])))["reward-dead-in-part"]
    assert both.title == "b does nothing in 2 values of task" and both.evidence["values"] == ["code", "missing"]


def test_what_is_near_is_not():
    assert "reward-dead-in-part" not in ids(audited(log(steps=20)))
    everywhere = [(task, "b") for task in ("code", "math", None, "chat")]
    dead = ids(audited(log(steps=20, dead=everywhere)))
    assert "reward-dead" in dead and "reward-dead-in-part" not in dead
    few = ids(audited(log(steps=4, dead=[("code", "b")])))  # about eight groups
    assert "reward-dead-in-part" not in few
    rare = log(steps=20, dead=[("code", "b")])  # elsewhere it is constant in four of five groups
    often = pl.col("id").str.ends_with("0") | pl.col("id").str.ends_with("4")
    rare = rare.with_columns(pl.when(often).then("b").otherwise(1.0).alias("b"))
    assert "reward-dead-in-part" not in ids(audited(rare))
    table = log(steps=20)  # a reward that other tasks do not have at all
    table = table.with_columns(pl.when(pl.col("task") == "math").then("b"))
    assert "reward-dead-in-part" not in ids(audited(table))


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_table_is_in_every_output(capsys, tmp_path):
    log(steps=10, dead=[("<b>&", "b")], tasks=("<b>&", "math")).write_parquet(tmp_path / "run.parquet")
    arguments = [tmp_path / "run.parquet", "--group", "id", "--by", "task", "--primary", "a"]
    code, out, err = run(capsys, *arguments, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json")
    made, page = json.loads((tmp_path / "a.json").read_text()), (tmp_path / "a.html").read_text()
    assert (code, err) == (0, "") and "By task" in out and "<b>&" in out
    assert "<b>&" not in page.replace("&lt;b&gt;&amp;", "") and "By task" in page
    assert [part["value"] for part in made["by"]] == ["<b>&", "math"]
    assert made["by"][0]["rewards"][1]["dead_groups"] == 1 and "reward-dead-in-part" in out
    assert run(capsys, *arguments, "--fail-on", "reward-dead-in-part")[0] == 1
    plain = json.loads(run(capsys, *arguments[:3], "--json", "-")[1])
    assert plain["by"] == []


def test_one_reward_has_neither_ties_nor_shares():
    rows = log().drop("b", "c")
    found = gc.audit(gc.read_run(rows, group="id", by="task"))
    table = report.summary.by_table(found)
    assert table.head == ["task", "groups", "silent", "reward", "mean", "constant"]
    assert len(table.rows) == 4 and all(isnan(p["inversions"]) for p in found.by)


def test_with_a_window(tmp_path):
    table = log(steps=10)
    found = audited(table, last=3)
    alone = audited(table.filter(pl.col("step") >= 7))
    assert found.to_dict()["by"] == nearly(alone.to_dict()["by"])
