"""`--watch`: each report is that of a fresh audit of what is there, and a log that cannot be read yet is waited for."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import fake_logs
import polars as pl
import pytest
from helpers import nearly
from logs import audit_cli

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.command import watch

GDPO = re.sub("python[^/]*$", "gdpo", sys.executable)
ROOT = Path(__file__).parent.parent


class Clock:
    """A clock that moves only while the watcher sleeps. Before each sleep ends, the next of some steps is run; after
    the last one comes Ctrl-C.
    """

    def __init__(self, monkeypatch, *steps):
        self.now, self.slept, self.steps = 0.0, [], list(steps)
        monkeypatch.setattr(watch.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(watch.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if not self.steps:
            raise KeyboardInterrupt
        self.steps.pop(0)()


def looks(path, **named):
    """Return the reports that `watch.reports` yields until the clock runs out of steps."""
    found = []
    with suppress(KeyboardInterrupt):
        for report in watch.reports(str(path), {}, **named):
            found.append(report)
    return found


def same(report, path, **named) -> bool:
    fresh = ga.audit(ga.read_run(path, **named)).to_dict(groups=True)
    assert report.to_dict(groups=True) == nearly(fresh)
    return True


def nothing():
    """Do nothing: a step in which the log does not change."""


def test_a_log_is_audited_again_whenever_a_file_came_changed_or_was_cut(tmp_path, monkeypatch):
    fake_logs.write_trl(tmp_path / "made", steps=4)
    files, folder = sorted((tmp_path / "made/completions").iterdir()), tmp_path / "seen/completions"

    def copy(k):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(files[k], folder)

    def again():  # A resumed run writes its first file again in this way.
        first = folder / files[0].name
        pl.read_parquet(first).with_columns(pl.col("accuracy") * 0.0).write_parquet(first)

    def cut():
        (folder / files[3].name).write_bytes(files[3].read_bytes()[:2000])

    Clock(monkeypatch, *(lambda k=k: copy(k) for k in range(4)), nothing, again, cut, lambda: shutil.rmtree(folder))
    found = looks(tmp_path / "seen")
    steps = [getattr(report, "source", {}).get("steps") for report in found]
    # The file that was cut, the last one, is left out like one that is still being written.
    assert steps == [None, 1, 2, 3, 4, 4, 3, None]
    assert "nothing of that name" in str(found[0]) and isinstance(found[-1], gc.InputError)
    assert found[5].rewards[0]["mean"] < found[4].rewards[0]["mean"]


@pytest.mark.parametrize("named", [{}, {"last": 2}])
def test_what_a_look_finds_is_what_a_fresh_audit_finds(tmp_path, monkeypatch, named):
    rows = [f"{i // 16},{i // 8},{i * i % 3},{i % 5 / 4}" for i in range(96)]
    path = tmp_path / "run.csv"
    path.write_text("step,prompt,right,short\n" + "\n".join(rows[32:]) + "\n")
    Clock(monkeypatch, nothing, lambda: path.open("a").write("\n".join(rows[:32]) + "\n"))
    before, after = looks(path, **named)
    assert before.source["responses"] in (32, 64) and same(after, path, **named)


def test_looks_take_at_most_a_tenth_of_the_time(tmp_path, monkeypatch):
    took = iter([0.01, 4.0, 0.2])
    clock = Clock(monkeypatch, nothing, nothing)

    def changed(_):
        clock.now += next(took)
        return {}

    monkeypatch.setattr(watch, "changed_files", changed)
    looks(tmp_path)
    assert clock.slept == [1, pytest.approx(36), pytest.approx(1.8)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "b"], "--watch: expected one directory or file, got 2"),
        (["a", "--what-if", "method=grpo"], "--watch: expected no --what-if beside it, got one"),
        (["a", "--engine", "ray"], "--watch: expected the engine local, got ray"),
        (["a", "--group-size", "0"], "group-size: expected a whole number from 1, got '0'"),
    ],
)
def test_what_cannot_be_watched_is_one_line(capsys, arguments, said):
    assert audit_cli(capsys, *arguments, "--watch") == (2, "", f"gdpo: {said}\n")


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_per_change_and_ctrl_c_the_last_report(tmp_path, monkeypatch):
    made, out = tmp_path / "late", StringIO()
    Clock(monkeypatch, nothing, lambda: fake_logs.write_trl(made, steps=2), lambda: shutil.rmtree(made))
    report = watch.follow(str(made), out, {"primary": "accuracy"})
    first, second, third = out.getvalue().splitlines()
    ids = ", ".join(f"{finding.id} ({finding.severity})" for finding in report.findings)
    assert first.startswith(f"waiting: {made}: expected") and third.startswith("waiting: ")
    assert second == f"2 steps, 64 responses; {ids}" and report.run["primary"] == "accuracy"


def test_ctrl_c_right_after_a_line_still_gets_the_report_of_that_line(tmp_path, monkeypatch):
    class Interrupted(StringIO):
        def flush(self):
            if "3 steps" in self.getvalue():
                raise KeyboardInterrupt

    out = Interrupted()
    Clock(monkeypatch, *(lambda k=k: fake_logs.write_trl(tmp_path / "run", steps=k) for k in (2, 3, 4)))
    report = watch.follow(str(tmp_path / "run"), out, {})
    assert report.source["steps"] == 3 and len(out.getvalue().splitlines()) == 3


@pytest.mark.slow
def test_beside_a_writer_every_step_is_seen(tmp_path):
    fake_logs.write_trl(tmp_path / "made", steps=3)
    folder = tmp_path / "seen/completions"
    folder.mkdir(parents=True)
    started = subprocess.Popen(
        [GDPO, "audit", tmp_path / "seen", "--watch", "--json", tmp_path / "report.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    said = [started.stdout.readline()]
    for file in sorted((tmp_path / "made/completions").iterdir()):
        file.rename(folder / file.name)  # at once and whole, so that no look sees a part of it
        said.append(started.stdout.readline())
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, "") and said[0].startswith("waiting: ")
    assert [re.match(r"(\d) steps?, \d+ responses; ", line)[1] for line in said[1:]] == list("123")
    assert "\nThe logged advantages are GDPO" in out and "all 96 rows in " in out and "  3 steps, " in out
    fresh = ga.audit(ga.read_run(tmp_path / "seen")).to_dict()
    assert json.loads((tmp_path / "report.json").read_text()) == nearly(fresh)


def test_a_change_that_leaves_the_size_as_it_is_is_seen(tmp_path):
    log = tmp_path / "a.csv"
    log.write_text("1")
    before = watch.changed_files(str(log))
    os.utime(log, ns=(0, 10**9))
    assert watch.changed_files(str(log)) != before
