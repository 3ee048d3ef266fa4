"""`--by COLUMN`: the figures of each value are those of its rows, with advantages of whole batches."""

import json

import fake_logs
import numpy as np
import polars as pl
import pytest
from helpers import nearly
from logs import audit_cli, found, frames_of, in_form

import gdpo_audit as ga
from gdpo_audit.facts import by_column as by_module
from gdpo_core.shared.errors import InputError

NAMES = ("a", "b", "c")
TASKS = {"task": lambda n: [f"t{i // 8 % 3}" for i in range(n)]}


def log(steps=6, groups=8, size=6, seed=0, tasks=("code", "math", None, "chat"), dead=()) -> pl.DataFrame:
    """Return a log whose groups belong to random tasks. dead: pairs (task, reward) in which the reward is 1 for all."""
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
    return ga.audit(ga.read_run(table, group="id", rewards=list(NAMES), by="task", **named), primary="a")


def parts(audit):
    return {part["value"]: part for part in audit.by}


def groups_of(audit):
    return [(part["value"], part["groups"]) for part in audit.by]


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [("code", "math", None, "chat"), ("one",)])
def test_every_figure_is_that_of_the_rows_of_the_value(tasks):
    table = log(tasks=tasks)
    of_all = audited(table)
    assert [part["value"] for part in of_all.by] == sorted(tasks, key=lambda task: (task is None, task))
    for value, part in parts(of_all).items():
        rows = table.filter(pl.col("task").eq_missing(value))
        assert (part["column"], part["values"], part["method"]) == ("task", 1, "grpo")
        assert part["responses"] == len(rows) and part["groups"] == rows["id"].n_unique()
        # GRPO has no step over the batch, so a task by itself has the figures that it has in the whole run.
        alone = ga.audit(ga.read_run(rows.drop("task"), group="id"), primary="a")
        for mine, its in zip(part["rewards"], alone.rewards, strict=True):
            assert mine["name"] == its["name"] and mine["mean"] == nearly(its["mean"])
            assert mine["dead_groups"] == nearly(its["dead_groups"])
            assert mine["update_share"] == nearly(its["update_share"]["grpo"])
        for name in ("groups_with_ties", "silent_groups", "inversions"):
            assert part[name] == nearly(alone.methods["grpo"][name])
    whole = ga.audit(ga.read_run(table, group="id", rewards=list(NAMES), by=""), primary="a").to_dict()
    assert {**of_all.to_dict(), "by": [], "source": 0} == {**whole, "source": 0}


def test_the_shares_under_gdpo_are_of_advantages_of_whole_batches():
    table = log(steps=3, groups=12, seed=3)
    of_all = ga.audit(
        ga.read_run(table, group="id", columns={"step": "step"}, rewards=list(NAMES), by="task"), asked="gdpo"
    )
    r = table.select(NAMES).to_numpy().reshape(3, 12, 6, 3)
    std = r.std(2, ddof=1, keepdims=True)
    z = (r - r.mean(2, keepdims=True)) / np.where(std > 0, std, 1)
    each = z / z.sum(-1).std((1, 2), ddof=1)[:, None, None, None]  # This is what each reward adds to the advantage.
    advantage = each.sum(-1)
    task = table["task"].to_numpy().reshape(3, 12, 6)[..., 0]
    for value, part in parts(of_all).items():
        mine = task == value
        shares = (each[mine] * advantage[mine][..., None]).sum((0, 1))
        assert part["method"] == "gdpo"
        assert [x["update_share"] for x in part["rewards"]] == pytest.approx((shares / shares.sum()).tolist(), rel=1e-3)


def test_many_values_are_bounded(monkeypatch):
    table = log(steps=12, tasks=tuple(f"t{i}" for i in range(9)))
    monkeypatch.setattr(by_module, "MOST_COLUMN_VALUES", 4)
    usual = table.group_by("task").agg(pl.col("id").n_unique().alias("groups")).sort("groups", descending=True)
    *single, others = audited(table).by
    assert len(single) == 4 and sorted(p["groups"] for p in single) == sorted(usual["groups"].head(4))
    assert (others["value"], others["values"]) == ("5 others", 5)
    rows = table.filter(~pl.col("task").is_in([p["value"] for p in single]))
    assert others["responses"] == len(rows) and others["rewards"][1]["mean"] == pytest.approx(rows["b"].mean())


# --- every reader -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_reader_knows_the_column(tmp_path):
    for name in ("trl", "verl", "nemo_rl", "ms_swift"):
        getattr(fake_logs, f"write_{name}")(tmp_path / name, steps=4, **({"extra": TASKS} if name == "trl" else {}))
    for file in tmp_path.rglob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        known: dict[str, str] = {}  # This maps each prompt to its task.
        for row in rows:
            key = row.get("input") or row.get("content", [[None]])[0][0]
            row["task"] = TASKS["task"](32) if key is None else known.setdefault(key, f"t{len(known) % 3}")
        fake_logs.write_lines(file, rows)
    expected = [("t0", 8), ("t1", 4), ("t2", 4)]
    for name in ("trl", "verl", "nemo_rl", "ms_swift"):
        audit = ga.audit(ga.read_run(tmp_path / name, by="task"))
        assert audit.source["framework"] == name and "task" not in audit.source["left_out"]
        assert groups_of(audit) == expected
        assert audit.run == ga.audit(ga.read_run(tmp_path / name, rewards=audit.source["rewards"])).run
    for kind in ("csv", "jsonl", "parquet"):
        log = {f"run.{kind}": in_form(kind, pl.concat(frames_of(tmp_path / "trl")))}
        assert groups_of(ga.audit(ga.read_run(log, framework="generic", by="task", group_size=8))) == expected


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("kind", "expected a column 'kind', got step, prompt, completion"),
        ("accuracy", "expected one value of the column 'accuracy' in all responses of a group, got '"),
        ("nested", "column 'nested': expected texts or numbers, got List(Int64)"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, tmp_path, column, named):
    fake_logs.write_trl(tmp_path, steps=2, extra={"nested": lambda n: [[1]] * n})
    code, out, err = audit_cli(capsys, tmp_path, "--by", column)
    assert (code, out) == (2, "") and err.count("\n") == 1 and named in err


@pytest.mark.parametrize(
    ("columns", "by"),
    [
        ({"task": lambda i: f"t{i // 8 % 3}"}, "task"),
        ({"topic": lambda i: f"t{i // 8 % 3}", "data_source": lambda i: f"s{i // 16 % 2}"}, "data_source"),
        ({"topic": lambda i: f"t{i // 8 % 12}"}, "topic"),
        ({"topic": lambda i: f"t{i // 8 % 13}"}, None),  # of too many values
        ({"topic": lambda i: "t"}, None),  # of one
        ({"finish_reason": lambda i: f"f{i % 2}"}, None),  # not one per prompt
        ({"finish_reason": lambda i: f"f{i % 2}", "topic": lambda i: f"t{i // 8 % 3}"}, "topic"),
        ({"request_id": lambda i: f"t{i // 8 % 3}", "answer": lambda i: f"t{i // 8 % 3}"}, None),
        ({"level": lambda i: i // 8 % 3}, None),  # numbers, which are a reward or a metric
    ],
)
def test_a_column_of_few_texts_is_gone_by_where_nobody_names_one(tmp_path, columns, by):
    rows = {name: (lambda n, of=of: [of(i) for i in range(n)]) for name, of in columns.items()}
    fake_logs.write_trl(tmp_path, steps=4, groups=13, extra=rows)
    rewards = ga.read_run(tmp_path, rewards=["accuracy", "format"]) if "level" in columns else ga.read_run(tmp_path)
    of_log, none = ga.audit(rewards), ga.audit(ga.read_run(tmp_path, rewards=list(rewards.rewards), by=""))
    assert {part["column"] for part in of_log.by} == ({by} if by else set()) and none.by == ()
    assert [f.id for f in none.findings] == [f.id for f in of_log.findings if f.id != "reward-dead-in-part"]


def test_a_column_that_turns_out_to_vary_in_a_group_is_an_error_only_where_it_was_named():
    table = log(steps=4).drop("id").with_columns(task=pl.Series([f"t{i % 5 // 3}" for i in range(192)]))
    assert ga.audit(ga.read_run(table, group_size=6)).by == ()
    with pytest.raises(InputError, match="expected one value of the column 'task' in all responses of a group"):
        ga.audit(ga.read_run(table, group_size=6, by="task"))


# --- the finding ------------------------------------------------------------------------------------------------------


def test_a_reward_that_is_dead_in_one_task_alone_is_found():
    findings = found(audited(log(steps=20, dead=[("code", "b")])))
    assert "reward-dead" not in findings
    finding = findings["reward-dead-in-part"]
    assert finding.title == "b does nothing where task is code" and finding.severity == "warning"
    assert finding.evidence["dead_groups"] == {"code": 1.0} and finding.evidence["dead_groups_of_others"] == 0
    both = found(audited(log(steps=20, dead=[("code", "b"), (None, "b")])))["reward-dead-in-part"]
    assert both.title == "b does nothing at 2 values of task" and both.evidence["values"] == ["code", "missing"]


def in_tasks(groups, constant_elsewhere):
    """Return the findings where b is constant in each group of one task, and in so many of 20 groups of the other."""
    draw, rows = np.random.default_rng(0), []
    for n, task in enumerate(["code"] * groups + ["math"] * 20):
        still = task == "code" or n - groups < constant_elsewhere
        for i in range(4):
            values = {"a": float(i % 2), "b": float(still or i > 1), "c": draw.random()}
            rows.append({"step": n % 4, "id": f"{n}", "task": task} | values)
    return found(audited(pl.DataFrame(rows)))


@pytest.mark.parametrize(("groups", "elsewhere", "in_part"), [(16, 14, 1), (16, 15, 0), (15, 14, 0)])
def test_a_value_is_why_a_reward_is_dead_from_sixteen_groups_and_a_quarter_more_of_them_on(groups, elsewhere, in_part):
    """DEAD is 95 % of the groups: elsewhere 14 of 20, or 70 %, are a quarter less."""
    assert ("reward-dead-in-part" in in_tasks(groups, elsewhere)) == bool(in_part)


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_table_is_in_every_output(capsys, tmp_path):
    log(steps=10, dead=[("code", "b")], tasks=("code", "math")).write_parquet(tmp_path / "run.parquet")
    arguments = [tmp_path / "run.parquet", "--group", "id", "--by", "task", "--primary", "a"]
    code, out, err = audit_cli(capsys, *arguments, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json")
    made, page = json.loads((tmp_path / "a.json").read_text()), (tmp_path / "a.html").read_text()
    assert (code, err) == (0, "") and all("By task" in shown and "code" in shown for shown in (out, page))
    assert [part["value"] for part in made["by"]] == ["code", "math"]
    assert made["by"][0]["rewards"][1]["dead_groups"] == 1 and "reward-dead-in-part" in out
    assert audit_cli(capsys, *arguments, "--fail-on", "reward-dead-in-part")[0] == 1
    assert json.loads(audit_cli(capsys, *arguments[:3], "--by", "none", "--json", "-")[1])["by"] == []
