"""`--steps` and `--last`: the audit of some steps is that of a log which holds only these steps."""

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


def assert_same(path, alone, **named) -> None:
    assert figures(path, "files", "window", **named) == nearly(figures(alone, "files", "window"))


WRITERS = {
    "trl": partial(fake_logs.write_trl, drop_rows={2: 3}),
    "verl": fake_logs.write_verl,
    "verl v1": partial(fake_logs.write_verl, v1=True),
    "nemo_rl": fake_logs.write_nemo_rl,
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
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


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--steps", "9:12"], "expected steps of 9 to 12 in the log, got 4 steps from 1 to 4"),
        (["--steps", ":0"], "expected steps of the first to 0 in the log, got 4 steps from 1 to 4"),
        (["--steps", "5:"], "expected steps of 5 to the last in the log, got 4 steps from 1 to 4"),
        (["--steps", "4:2"], "steps: expected a first step that is not after the last, got 4 and 2"),
        *[
            (["--steps", steps], f"steps: expected FIRST:LAST, such as 100:150, 100: or :50, got '{steps}'")
            for steps in ("4", ":", "1:2:3", "a:b", "1.5:3", "1:" + "9" * 40, "１:３")
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
