"""Tables in odd files: a header that stands again, decimal commas, copies of ranks, objects in a .pt, wide tables. Each
is read as the plain table with the same numbers is, and the report says what was done.
"""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from logs import issues, lines

import gdpo_audit as ga
import gdpo_core as gc

STEPS, PROMPTS, SIZE = 10, 4, 4
AUDIT_DOCUMENT = Path(__file__).parent.parent / "docs" / "audit.md"


def plain(seed=5, weights=(1.0, 0.5), std=True) -> pl.DataFrame:
    """Return a log of GRPO with two rewards and advantages by plain numpy, a row per response."""
    draw = np.random.default_rng(seed)
    made = []
    for step in range(1, STEPS + 1):
        for prompt in range(PROMPTS):
            rewards = np.stack([draw.random(SIZE) < 0.5, draw.random(SIZE).round(2)], 1).astype(float)
            total = rewards @ weights
            advantage = (total - total.mean()) / ((total.std(ddof=1) + 1e-4) if std else 1)
            made += [
                {"step": step, "prompt": f"s{step}p{prompt}", "right": r[0], "short": r[1], "advantage": a}
                for r, a in zip(rewards, advantage, strict=True)
            ]
    return pl.DataFrame(made)


def shows(source, **options) -> tuple:
    """Return what an audit finds: the number of responses and groups, the method, the weights, the pushes."""
    report = ga.audit(ga.read_run(source, **options))
    run = report.run
    pushes = {x["name"]: round(x["push"]["grpo"], 6) for x in report.rewards}
    ratio = {name: round(w / run["weights"]["right"], 6) for name, w in run["weights"].items()}
    return report.source["responses"], report.source["groups"], run["method"], run["reproduced"], ratio, pushes


# --- CSV -------------------------------------------------------------------------------------------------------------


def csv(frame: pl.DataFrame, **options) -> str:
    return frame.write_csv(**options)


def with_commas(frame: pl.DataFrame, separator=";", quote="") -> bytes:
    """Return a CSV as a spreadsheet writes it where the comma is the decimal sign: with a BOM, and empty rows."""
    text = [separator.join(frame.columns)]
    for number, row in enumerate(frame.iter_rows()):
        cells = [f"{x:.6f}".replace(".", ",") if isinstance(x, float) else str(x) for x in row]
        text.append(separator.join(f"{quote}{cell}{quote}" for cell in cells))
        text += [separator * (len(row) - 1)] * (number % 16 == 15)
    return ("\ufeff" + "\r\n".join(text) + "\r\n").encode()


@pytest.mark.parametrize(("separator", "quote"), [(";", ""), ("\t", ""), (",", '"')])
def test_a_decimal_comma_is_read_as_a_point(separator, quote):
    source = {"a.csv": with_commas(plain(), separator, quote)}
    assert shows(source) == shows(plain().with_columns(pl.col("advantage").round(6)))
    told = issues(ga.read_run(source))
    assert told["decimal-comma"]["columns"] == ["right", "short", "advantage"]
    assert told["empty-rows"]["rows"] == STEPS * PROMPTS * SIZE // 16


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0,5", "1,25", "3"], [0.5, 1.25, 3.0]),
        (["1.234,5", "-2,5", "1e3"], [1234.5, -2.5, 1000.0]),
        (["1,234", "2,345", "3"], None),  # commas between thousands, or three digits: nothing tells
        (["1,234", "0,345", "3"], [1.234, 0.345, 3.0]),
        (["0,5", "0.5", "1"], None),
        (["0,5", "half", "1"], None),
    ],
)
def test_only_a_comma_that_cannot_stand_between_thousands_is_a_decimal_sign(cells, values):
    text = "group;acc;x\n" + "".join(f"a;{k};{cell}\n" for k, cell in enumerate(cells))
    if values is None:
        with pytest.raises(gc.InputError):
            ga.read_run({"a.csv": text.encode()}, rewards=["x"])
    else:
        assert ga.read_run({"a.csv": text.encode()}, rewards=["x"]).table["x"].to_list() == values


def test_a_header_in_the_middle_is_skipped_and_its_new_column_is_missing_before():
    whole = plain()
    first, second = whole.filter(pl.col("step") <= 4), whole.filter(pl.col("step") > 4)
    second = second.with_columns(safe=pl.int_range(pl.len()) % 3 / 2.0)
    advantage = second["advantage"]
    second = second.drop("advantage").with_columns(advantage)  # the new column stands before the last one
    source = {"a.csv": (csv(first) + csv(second)).encode()}
    run = ga.read_run(source)
    assert run.rewards == ("right", "short", "safe") and len(run.table) == len(whole)
    assert run.table["safe"].is_nan().sum() == len(first)
    assert run.table["advantage"].to_list() == whole["advantage"].to_list()
    assert issues(run)["header-again"] == {
        "tables": 1, "file": "a.csv", "lines": [len(first) + 2], "later": {"safe": len(first)}, "gone": []
    }  # fmt: skip
    assert any("header stands again in line 66" in note for note in ga.audit(run).notes)


def test_a_header_that_only_repeats_changes_nothing():
    whole = plain()
    halves = csv(whole.head(80)) + csv(whole.tail(80))
    assert shows({"a.csv": halves.encode()}) == shows({"a.csv": csv(whole).encode()})
    values = "group,name\na,acc\na,acc\n"  # texts that are no names of columns stay values
    frame = pl.DataFrame({"group": ["a", "a"], "acc": [0.0, 1.0], "name": ["acc", "group"]})
    assert len(ga.read_run({"a.csv": csv(frame).encode()}).table) == 2 and values


@pytest.mark.parametrize("title", ["Results of run 7\n\n", ";;;;\nResults;;;;\n"])
def test_a_title_above_the_header_is_skipped(title):
    separator = ";" if ";" in title else ","
    source = {"a.csv": (title + csv(plain(), separator=separator)).encode()}
    assert shows(source) == shows({"a.csv": csv(plain()).encode()})
    assert any("was skipped: Results" in note for note in ga.audit(ga.read_run(source)).notes)
    broken = {"a.csv": (title + csv(plain().head(4), separator=separator) + "1\n").encode()}
    with pytest.raises(gc.InputError, match="line 8: expected 5 values"):
        ga.read_run(broken)


def test_records_with_too_few_values_are_left_out_where_the_caller_says_so():
    text = csv(plain()) + "11,s11p0,1.0\n"
    with pytest.raises(gc.InputError, match=r"line 162: expected 5 values, .* got 3; with skip_bad .* left out"):
        ga.read_run({"a.csv": text.encode()})
    run = ga.read_run({"a.csv": text.encode()}, skip_bad=True)
    assert run.skipped_lines == 1 and len(run.table) == 160
    longer = csv(plain().head(80)) + "".join(f"11,s11p{k},1.0,0.5,0.1,0.9\n" for k in range(80))
    with pytest.raises(gc.InputError, match=r"line 82: expected 5 values, .* got 6, as in 80 lines; write"):
        ga.read_run({"a.csv": longer.encode()})
    with pytest.raises(gc.InputError) as refusal:  # leaving out the only record would leave nothing
        ga.read_run({"a.csv": b"group,acc\na\n"})
    assert "skip_bad" not in str(refusal.value)


# --- torch -----------------------------------------------------------------------------------------------------------


def of_ranks(folder: Path, copies: int, stages: bool) -> Path:
    """Write the log as each rank of a trainer holds it: two shards per step, each from several ranks; without the
    advantages where a stage of the model does not compute them.
    """
    for (step,), rows in plain(std=False).with_row_index("sample").group_by("step", maintain_order=True):
        for rank in range(2 * copies):
            part = rows[rank % 2 * 8 : rank % 2 * 8 + 8]
            data = {"raw_reward": part["right"].to_list(), "short": part["short"].to_list()}
            data |= {"sample_indices": part["sample"].to_list(), "rewards": part["advantage"].to_list()}
            if not stages or rank >= copies:
                data["advantages"] = [torch.full((3,), a, dtype=torch.float64) for a in part["advantage"]]
            torch.save({"rollout_id": step, "rank": rank, "rollout_data": data}, folder / f"{step}_{rank}.pt")
    return folder


@pytest.mark.parametrize("stages", [False, True])
def test_shards_that_several_ranks_wrote_count_once(tmp_path, stages):
    run = ga.read_run(of_ranks(tmp_path, 4, stages))
    report = ga.audit(run)
    assert len(run.table) == 160 and report.source["groups"] == 40
    assert issues(run)["copies"]["files"] == 60 and issues(run)["read-inside"]["members"] == ["rollout_data"]
    assert set(run.rewards) == {"raw_reward", "short"}  # the column rewards repeats the advantages
    assert report.run["method"] == "grpo_no_std" and report.run["reproduced"]
    assert report.run["weights"]["short"] == pytest.approx(0.5)


def test_equal_rewards_without_ids_are_no_copies():
    rows = [{"prompt": f"p{k // 2}", "acc": float(k % 2), "place": k} for k in range(8)]
    run = ga.read_run({f"step_{k}.jsonl": lines(*rows) for k in range(3)})
    assert len(run.table) == 24 and "copies" not in issues(run)


# --- wide tables -----------------------------------------------------------------------------------------------------

NAMED = {
    "name_0": lambda name, k: f"{name}_{k}",
    "name.0": lambda name, k: f"{name}.{k}",
    "name[0]": lambda name, k: f"{name}[{k}]",
    "name-1": lambda name, k: f"{name}-{k + 1}",
    "name1": lambda name, k: f"{name}{k + 1}",
    "r1_name": lambda name, k: f"r{k + 1}_{name}",
    "0/name": lambda name, k: f"{k}/{name}",
}


def wide(named, parts=("right", "short"), beside=("step", "prompt")) -> pl.DataFrame:
    """Return the log with a row per group. named: makes the name of a column of a part and a number."""
    made = []
    for rows in plain().partition_by("step", "prompt", maintain_order=True):
        row = {name: rows[name][0] for name in beside}
        made.append(row | {named(part, k): rows[part][k] for k in range(SIZE) for part in parts})
    return pl.DataFrame(made)


@pytest.mark.parametrize("name", NAMED)
def test_a_wide_table_is_read_as_a_row_per_response(name):
    frame = wide(NAMED[name], ("right", "short", "advantage"))
    for source in ({"a.csv": csv(frame).encode()}, frame):
        run = ga.read_run(source)
        assert run.rewards == ("right", "short") and len(run.table) == 160
        assert shows(source) == shows(plain())
    assert issues(run)["wide"] == {"names": ["right", "short", "advantage"], "size": SIZE, "rows": 40}


def test_a_wide_table_needs_a_sign_that_a_row_is_a_group():
    # Advantages that add up to 0 are one, and texts of the responses are one, also without prompts.
    by_advantages = wide(NAMED["name_0"], ("right", "short", "advantage"), beside=("step",))
    assert len(ga.read_run({"a.csv": csv(by_advantages).encode()}).table) == 160
    texts = plain().with_columns(completion=pl.lit("x"))
    made = []
    for rows in texts.partition_by("step", "prompt", maintain_order=True):
        made.append({f"{part}_{k}": rows[part][k] for k in range(SIZE) for part in ("completion", "right", "short")})
    assert len(ga.read_run({"a.csv": csv(pl.DataFrame(made)).encode()}, group_size=SIZE).table) == 160
    # Two judges with two versions each, and four responses to each prompt, are no wide table.
    judges = plain().select("step", "prompt", a_1="right", a_2="short", b_1="right", b_2="short", c="short")
    run = ga.read_run({"a.csv": csv(judges.with_columns(b_2=pl.col("a_2") ** 2, b_1=1 - pl.col("a_1"))).encode()},
                      rewards=["a_1", "a_2"])  # fmt: skip
    assert len(run.table) == 160 and "wide" not in issues(run)
    run = ga.read_run(judges.select("step", "prompt", "a_1", "a_2", b_1=1 - pl.col("a_1"), b_2=pl.col("a_2") ** 3 - 0.5)
                      .with_columns(advantage=plain()["advantage"]))  # fmt: skip
    assert len(run.table) == 160 and "wide" not in issues(run)


# --- the table of the document ---------------------------------------------------------------------------------------


def test_the_lines_of_the_document_write_a_table_that_is_always_read(tmp_path, monkeypatch):
    document = AUDIT_DOCUMENT.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", document, re.DOTALL)[1]
    assert document.index(code) < document.index("## What the audit answers")
    monkeypatch.chdir(tmp_path)
    made: dict = {}
    exec(code, made)
    for (step,), rows in plain(weights=(2.0, 0.5)).group_by("step", maintain_order=True):
        rewards = {name: rows[name].to_list() for name in ("right", "short")}
        made["log"](step, rows["prompt"].to_list(), rewards, rows["advantage"].to_list())
    report = ga.audit(ga.read_run("responses.csv"))
    assert report.run["method"] == "grpo" and report.run["reproduced"] and report.source["groups"] == 40
    assert report.run["weights"]["right"] / report.run["weights"]["short"] == pytest.approx(4)


def test_answers_whose_list_of_rewards_is_empty_are_not_lost():
    """Only every second answer used a tool, and each has rewards of its own beside the list."""
    rows = plain().drop("advantage").to_dicts()
    log = [row | {"tool_rewards": [{"reward": 1.0}] * (k % 2)} for k, row in enumerate(rows)]
    with pytest.raises(gc.InputError, match="name the rewards: --reward right --reward short") as refusal:
        ga.read_run({"1.jsonl": lines(*log)})
    assert "nested values" in str(refusal.value)
    run = ga.read_run({"1.jsonl": lines(*log)}, rewards=["right", "short"])
    assert run.table.height == len(rows)
    # A list with one item in every row holds a reward of each answer.
    whole = [row | {"tool_rewards": [{"reward": float(k % 2)}]} for k, row in enumerate(rows)]
    assert ga.read_run({"1.jsonl": lines(*whole)}).table.height == len(rows)
