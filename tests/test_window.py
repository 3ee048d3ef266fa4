"""`--steps` and `--last`: the audit of some steps is that of a log which holds only these steps."""

import json
import re
import shutil
from functools import partial

import fake_logs
import numpy as np
import polars as pl
import pytest
from helpers import nearly
from logs import audit_cli, figures

import gdpo_audit as ga
import gdpo_core as gc

UNLIKE = ("files", "window", "stretches")


def assert_same(path, alone, **named) -> None:
    assert figures(path, *UNLIKE, **named) == nearly(figures(alone, *UNLIKE))


# The window is cut after the form, so two are enough by day: files of tables, and of lines.
WRITERS = [
    pytest.param(partial(fake_logs.write_trl, drop_rows={2: 3}), id="trl"),
    pytest.param(fake_logs.write_verl, id="verl"),
    pytest.param(partial(fake_logs.write_verl, v1=True), id="verl v1", marks=pytest.mark.night),
    pytest.param(fake_logs.write_nemo_rl, id="nemo_rl", marks=pytest.mark.night),
]


@pytest.mark.parametrize("writer", WRITERS)
def test_steps_of_a_directory_are_audited_as_if_there_were_no_others(tmp_path, writer):
    writer(tmp_path / "all", steps=8)
    shutil.copytree(tmp_path / "all", tmp_path / "alone")
    for file in (tmp_path / "alone").rglob("*.*"):
        if int("".join(c for c in file.stem if c.isdigit())) not in (3, 4, 5):
            file.unlink()
    assert_same(tmp_path / "all", tmp_path / "alone", steps=(3, 5))


@pytest.mark.parametrize(
    ("named", "held"),
    [
        ({"steps": (20, 50)}, [20, 30, 40, 50]),
        ({"steps": (11, 49)}, [20, 30, 40]),
        ({"steps": (None, 25)}, [10, 20]),
        ({"steps": (70, 70)}, [70]),
        ({"last": 2}, [70, 90]),
        ({"last": 100}, [10, 20, 30, 40, 50, 70, 90]),
        ({"steps": ((10, 20), (45, 70))}, [10, 20, 50, 70]),
        ({"steps": [(None, 10), (90, None)]}, [10, 90]),
        ({"not_steps": [10, 40]}, [20, 30, 50, 70, 90]),
        ({"not_steps": [20, (35, 60)]}, [10, 30, 70, 90]),
        ({"not_steps": ((None, 30),)}, [40, 50, 70, 90]),
        ({"steps": (20, 70), "not_steps": [30, 90]}, [20, 40, 50, 70]),
        ({"last": 4, "not_steps": [50]}, [40, 70, 90]),
    ],
)
def test_ragged_batches_out_of_order(named, held):
    """The steps of the table are out of order and have gaps, and its batches differ in size."""
    draw, rows = np.random.default_rng(0), []
    for step in (40, 10, 20, 70, 50, 30, 90):
        for group in range(1 + step // 20):
            where = {"step": step, "id": f"{step}/{group}"}
            rows += [where | {"a": int(draw.random() < 0.5), "b": draw.random()} for _ in range(4 + group)]
    table = pl.DataFrame(rows)
    alone = table.filter(pl.col("step").is_in(held))
    run = ga.read_run({"run.csv": table.write_csv().encode()}, group="id", **named)
    report = ga.audit(run)
    assert sorted(set(run.table["step"])) == held and report.source["steps"] == len(held)
    assert report.source["window"] == [held[0], held[-1]] and report.source["responses"] == len(alone)
    assert report.rewards[0]["mean"] == pytest.approx(alone["a"].mean())
    groups = alone.group_by("id").agg(pl.col("a").n_unique() == 1)["a"]
    assert report.rewards[0]["dead_groups"] == pytest.approx(groups.mean())
    assert [step["step"] for step in report.to_dict()["steps"]] == held
    logged = sorted(set(table["step"]))
    between = [step for first, last in report.source["stretches"] for step in logged if first <= step <= last]
    assert between == held and all(first in held and last in held for first, last in report.source["stretches"])


@pytest.mark.parametrize(
    ("arguments", "held"),
    [
        (["--not-steps", "2"], [1, 3, 4, 5, 6]),
        (["--not-steps", "1,3,6"], [2, 4, 5]),
        (["--not-steps", "1,3-5"], [2, 6]),
        (["--not-steps", " 2:3 , 6:"], [1, 4, 5]),
        (["--not-steps", ":4"], [5, 6]),
        (["--steps", "1-2,5-6"], [1, 2, 5, 6]),
        (["--steps", "2,4"], [2, 4]),
        (["--steps", "2-5", "--not-steps", "3"], [2, 4, 5]),
        (["--last", "3", "--not-steps", "5"], [4, 6]),
    ],
)
def test_steps_of_the_command_are_those_of_a_log_that_holds_no_others(capsys, tmp_path, arguments, held):
    draw, rows = np.random.default_rng(1), []
    for step in range(1, 7):
        rows += [
            {"step": step, "id": f"{step}/{i // 4}", "a": int(draw.integers(2)), "b": draw.random()} for i in range(24)
        ]
    table = pl.DataFrame(rows)
    table.write_csv(tmp_path / "all.csv")
    table.filter(pl.col("step").is_in(held)).write_csv(tmp_path / "alone.csv")
    code, out, _ = audit_cli(capsys, tmp_path / "all.csv", "--group", "id", *arguments, "--json", "-")
    found = json.loads(out)
    alone = json.loads(audit_cli(capsys, tmp_path / "alone.csv", "--group", "id", "--json", "-")[1])
    for report in (found, alone):
        del report["source"]["window"], report["source"]["stretches"], report["source"]["path"]
        # What is left out on purpose is not missing.
        report["findings"] = [finding for finding in report["findings"] if finding["id"] != "steps-missing"]
    assert code == 0 and found["rewards"] == alone["rewards"] and found["steps"] == alone["steps"]
    assert found["methods"] == alone["methods"] and found["source"] == alone["source"]


def test_steps_that_are_left_out_are_told_and_are_not_missing(capsys, tmp_path):
    fake_logs.write_trl(tmp_path, steps=8)
    _, out, _ = audit_cli(capsys, tmp_path, "--not-steps", "2,5-6")
    assert "This report covers only steps 1, 3 to 4 and 7 to 8." in out and "steps-missing" not in out
    _, out, _ = audit_cli(capsys, tmp_path, "--steps", "4")
    assert "This report covers only step 4." in out
    (next(file for file in tmp_path.rglob("*4.parquet"))).unlink()
    report = ga.audit(ga.read_run(tmp_path, not_steps=[2]))
    [missing] = [finding for finding in report.findings if finding.id == "steps-missing"]
    assert (missing.evidence["missing"], missing.evidence["after_steps"]) == (1, [3])


def test_the_advice_to_leave_steps_out_is_an_option_that_works_as_it_is_written(capsys, tmp_path):
    fake_logs.write_trl(tmp_path, steps=12, groups=8)
    for file in tmp_path.rglob("*.parquet"):
        frame = pl.read_parquet(file)
        if frame["step"][0] in (4, 8, 9):
            wrong = np.random.default_rng(int(frame["step"][0])).normal(size=len(frame))
            frame.with_columns(advantage=pl.Series(wrong)).write_parquet(file)
    report = ga.audit(ga.read_run(tmp_path))
    [finding] = [finding for finding in report.findings if finding.id == "advantages-not-reproduced"]
    option = re.search(r"\((--not-steps [-\d,]+)\)", finding.to_do)[1]
    assert option == "--not-steps 4,8-9"
    found = json.loads(audit_cli(capsys, tmp_path, *option.split(), "--json", "-")[1])
    assert found["run"]["reproduced"] and found["source"]["steps"] == 9


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--steps", "9:12"], "expected steps of 9 to 12 in the log, got 4 steps from 1 to 4"),
        (["--steps", ":0"], "expected steps of the first to 0 in the log, got 4 steps from 1 to 4"),
        (["--steps", "5:"], "expected steps of 5 to the last in the log, got 4 steps from 1 to 4"),
        (["--steps", "4:2"], "steps: expected a first step that is not after the last, got 4 and 2"),
        (["--steps", "1-2,9-12"], "steps: expected steps of 9 to 12 in the log, got 4 steps from 1 to 4"),
        (["--not-steps", "7"], "not-steps: expected step 7 in the log, got 4 steps from 1 to 4"),
        (["--not-steps", "2,6-9"], "not-steps: expected steps of 6 to 9 in the log, got 4 steps from 1 to 4"),
        (["--not-steps", "1-4"], "not-steps: expected at least one step that is not left out, got none"),
        (["--steps", "2", "--not-steps", "2-3"], "not-steps: expected at least one step that is not left out, got"),
        (["--not-steps", "3-2"], "not-steps: expected a first step that is not after the last, got 3 and 2"),
        *[
            ([f"--{option}", steps], f"{option}: expected steps, such as 10,20 or 1-20,41-60 or 100:, got '{steps}'")
            for steps in (":", "1:2:3", "a:b", "1.5:3", "1,", "1--", "2-", "", "1;2", "1:" + "9" * 40, "１:３")
            for option in ("steps", "not-steps")
        ],
        (["--last", "0"], "last: expected a whole number from 1"),
        (["--last", "2", "--steps", "1:2"], "last: expected none beside steps, got 2"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, tmp_path, arguments, named):
    fake_logs.write_trl(tmp_path, steps=4)
    code, out, err = audit_cli(capsys, tmp_path, *arguments)
    assert (code, out) == (2, "") and err.count("\n") == 1 and named in err


@pytest.mark.parametrize("wrong", [5, "1:2", (1,), (None, None), (1, 2, 3), (1.5, 2), (True, 2), {1: 2}, [None, "a"]])
def test_what_a_caller_gives_wrong_is_named(wrong):
    log = {"a.csv": b"step,group,acc\n1,a,1\n1,a,0\n"}
    with pytest.raises(gc.InputError, match="steps: expected the first and the last step"):
        ga.read_run(log, steps=wrong)
    with pytest.raises(gc.InputError, match="last: expected a whole number from 1"):
        ga.read_run(log, last=wrong if wrong != 5 else 0)
    if wrong != (1,):
        with pytest.raises(
            gc.InputError, match="not_steps: expected steps, and stretches by the first and the last step"
        ):
            ga.read_run(log, not_steps=wrong if wrong not in ((1, 2, 3), [None, "a"]) else [(1, 2, 3)])
