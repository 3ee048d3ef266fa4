"""`--watch`: each report is that of a fresh audit of what is there, without what is still being written."""

import gzip
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from io import StringIO
from pathlib import Path

import audited
import fake_logs
import polars as pl
import pytest
from helpers import nearly
from test_trackers import write_trackio

import gdpo_core as gc
from gdpo_core import cli
from gdpo_core.report import live
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.watch import Follower

GDPO = re.sub("python[^/]*$", "gdpo", sys.executable)
ROOT = Path(__file__).parent.parent


def same(report, path, **named) -> bool:
    fresh = gc.audit(gc.read_run(path, **named)).to_dict(groups=True)
    assert report.to_dict(groups=True) == nearly(fresh)
    return True


def copied(files, folder: Path, follower: Follower, path: Path) -> list[int]:
    """The files copied one by one, with a look after each; the number of steps that each look showed."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = []
    for file in files:
        shutil.copy(file, folder)
        report = follower.look()
        assert follower.fault is None and same(report, str(path))
        assert follower.look() is None  # nothing is new
        steps.append(report.source["steps"])
    return steps


# --- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_of_trl_come_one_by_one(tmp_path):
    fake_logs.write_trl(tmp_path / "made", steps=12, evaluated=(7,), drop_rows={9: 3}, same_prompts="pairs")
    follower = Follower(str(tmp_path / "seen"))
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen/trainer_state.json").write_text("{}")
    assert follower.look() is None  # the trainer has not written yet
    assert "expected a log" in str(follower.fault)
    files = sorted((tmp_path / "made/completions").iterdir())
    assert copied(files, tmp_path / "seen/completions", follower, tmp_path / "seen") == list(range(1, 13))


@pytest.mark.slow
def test_files_that_were_there_before_are_read_too(tmp_path):
    fake_logs.write_trl(tmp_path, steps=6)
    last = tmp_path / "completions/completions_00006.parquet"
    last.rename(tmp_path / "later")
    follower = Follower(str(tmp_path))
    assert follower.look().source["steps"] == 5
    (tmp_path / "later").rename(last)
    assert same(follower.look(), str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("writer", [fake_logs.write_verl, fake_logs.write_nemo_rl])
def test_directories_of_lines(tmp_path, writer):
    writer(tmp_path / "made", steps=5)
    files = sorted((path for path in (tmp_path / "made").rglob("*.jsonl")), key=lambda path: (len(path.name), path))
    follower = Follower(str(tmp_path / "seen"))
    assert copied(files, tmp_path / "seen", follower, tmp_path / "seen") == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_file_of_log_events_grows(tmp_path):
    fake_logs.write_ms_swift(tmp_path, steps=8)
    [path] = tmp_path.rglob("completions.jsonl")
    content = path.read_bytes()
    path.write_bytes(b"")
    follower, seen = Follower(str(path)), []
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for start, end in zip([0, *ends], ends, strict=False):
        with path.open("ab") as file:
            file.write(content[start : end - 20])
        if (half := follower.look()) is not None:  # the line is not whole: nothing new
            assert half.source["steps"] == len(seen)
        with path.open("ab") as file:
            file.write(content[end - 20 : end])
        report = follower.look()
        assert same(report, str(path))
        seen.append(report.source["steps"])
    assert seen == list(range(1, 9))


@pytest.mark.slow
def test_a_table_of_lines_grows_in_pieces_that_split_steps(tmp_path):
    rows = [f"{i // 16},{i // 8},{i * i % 3},{i % 5 / 4}" for i in range(160)]
    path = tmp_path / "run.csv"
    path.write_text("step,prompt,right,short\n" + "\n".join(rows[:40]) + "\n")
    follower = Follower(str(path))
    assert same(follower.look(), str(path))
    for start in range(40, 160, 24):
        with path.open("a") as file:
            file.write("\n".join(rows[start : start + 24]) + "\n")
        assert same(follower.look(), str(path))
    with path.open("a") as file:
        file.write("99,9,1,0.5")  # a line without its end
    before = follower.facts.batches.responses.sum()
    assert follower.look().source["responses"] == before
    assert follower.whole().source["responses"] == before + 1


@pytest.mark.slow
def test_a_database_is_watched_through_its_write_ahead_log(tmp_path):
    fake_logs.write_trl(tmp_path / "made", steps=4)
    frames = [pl.read_parquet(path) for path in sorted((tmp_path / "made/completions").iterdir())]
    path = write_trackio(tmp_path / "p.db", {"a": frames[:1]})
    follower, database = Follower(f"{path}::a"), sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    steps = [follower.look().source["steps"]]
    for number, frame in enumerate(frames[1:], start=1):
        table = json.dumps({"completions": {"_type": "trackio.table", "_value": frame.to_dicts()}})
        row = ("id0", "", "a", number, table)
        database.execute("INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)", row)
        database.commit()
        steps.append(follower.look().source["steps"])
        assert follower.look() is None
    database.close()
    assert steps == [1, 2, 3, 4]
    assert same(follower.whole(), f"{path}::a")


@pytest.mark.slow
def test_the_last_steps_alone_can_be_watched(tmp_path):
    fake_logs.write_trl(tmp_path, steps=4)
    follower = Follower(str(tmp_path), last=2)
    assert follower.look().source["window"] == [3, 4] and same(follower.whole(), str(tmp_path), last=2)


def test_steps_may_come_out_of_order(tmp_path):
    rows = [f"{i // 16},{i // 8},{i * i % 3},{i % 5 / 4}" for i in range(96)]
    path = tmp_path / "run.csv"
    path.write_text("step,prompt,right,short\n" + "\n".join(rows[32:]) + "\n")
    follower = Follower(str(path))
    assert same(follower.look(), str(path))
    with path.open("a") as file:
        file.write("\n".join(rows[:32]) + "\n")
    assert same(follower.look(), str(path))


@pytest.mark.slow
def test_the_last_file_may_be_half_written_or_written_again(tmp_path):
    fake_logs.write_trl(tmp_path, steps=3)
    last = tmp_path / "completions/completions_00003.parquet"
    content = last.read_bytes()
    last.write_bytes(content[:2000])
    follower = Follower(str(tmp_path))
    assert follower.look() is None and "cut or damaged" in str(follower.fault)
    last.write_bytes(content)
    assert same(follower.look(), str(tmp_path)) and follower.fault is None
    pl.read_parquet(last).with_columns(pl.col("accuracy") * 0).write_parquet(last)  # as an evaluation does
    assert same(follower.look(), str(tmp_path))


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_file_that_shrinks_or_goes_is_an_error(tmp_path):
    fake_logs.write_trl(tmp_path, steps=3)
    follower = Follower(str(tmp_path))
    follower.look()
    first = tmp_path / "completions/completions_00001.parquet"
    content = first.read_bytes()
    first.write_bytes(content[:100])
    with pytest.raises(gc.InputError, match=r"00001.parquet: expected a file that grows, got one that was truncated"):
        follower.look()
    first.unlink()
    with pytest.raises(gc.InputError, match=r"00001.parquet: expected a file that stays .*removed"):
        follower.look()
    shutil.rmtree(tmp_path / "completions")
    with pytest.raises(gc.InputError, match="expected a log that stays where it is, got none: it was removed"):
        follower.look()


@pytest.mark.slow
def test_a_file_that_is_written_again_is_audited_again(tmp_path):
    fake_logs.write_trl(tmp_path, steps=3)
    follower = Follower(str(tmp_path))
    follower.look()
    first = tmp_path / "completions/completions_00001.parquet"
    again = pl.read_parquet(first).with_columns((1 - pl.col("accuracy")).alias("accuracy"))
    again.write_parquet(first, compression="uncompressed")
    assert same(follower.look(), str(tmp_path))


def test_a_file_of_lines_that_shrinks_is_an_error(tmp_path):
    fake_logs.write_ms_swift(tmp_path, steps=4)
    [path] = tmp_path.rglob("completions.jsonl")
    follower = Follower(str(path))
    follower.look()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    wanted = "completions.jsonl: expected a file that grows, got one that was truncated"
    with pytest.raises(gc.InputError, match=wanted):
        follower.look()


def test_looks_take_at_most_a_tenth_of_the_time(tmp_path, monkeypatch):
    fake_logs.write_trl(tmp_path, steps=2)
    follower, clock, slept = Follower(str(tmp_path)), [0.0], []

    def audit_of(seconds):
        clock[0] += seconds
        return None

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    looks = iter([0.01, 4.0, 0.2])
    monkeypatch.setattr(follower, "look", lambda: audit_of(next(looks)))
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(live.time, "sleep", sleep)
    live.follow(follower, StringIO(), every=1)
    assert slept == [1, pytest.approx(36), pytest.approx(1.8)]


def test_a_packed_file_that_is_cut_is_waited_for(tmp_path):
    path, rows = tmp_path / "log.jsonl.gz", b'{"group": 0, "a": 1}\n{"group": 0, "a": 0}\n'
    path.write_bytes(gzip.compress(rows))
    follower = Follower(str(path))
    assert follower.look().source["responses"] == 2
    path.write_bytes(gzip.compress(rows * 3)[:30])
    assert follower.look() is None and "log.jsonl.gz" in str(follower.fault)
    path.write_bytes(gzip.compress(rows * 3))
    assert follower.look().source["responses"] == 6 and follower.fault is None


def test_a_path_that_is_not_there_yet_is_waited_for(tmp_path):
    follower = Follower(str(tmp_path / "out/completions"))
    assert follower.look() is None and "nothing of that name" in str(follower.fault)
    fake_logs.write_trl(tmp_path / "out", steps=2)
    assert follower.look().source["steps"] == 2 and follower.fault is None
    file = Follower(str(tmp_path / "run.jsonl"))
    assert file.look() is None
    (tmp_path / "run.jsonl").write_text("".join(f'{{"group": {i // 4}, "a": {i % 2}}}\n' for i in range(16)))
    assert file.look().source["responses"] == 16


def test_a_watch_says_once_that_it_waits(tmp_path, monkeypatch):
    out, looks = StringIO(), []

    def tick(_):
        looks.append(out.getvalue())
        if len(looks) == 3:
            fake_logs.write_trl(tmp_path / "late", steps=6)
        if len(looks) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(live.time, "sleep", tick)
    report = live.follow(Follower(str(tmp_path / "late")), out)
    waiting = f"{tmp_path / 'late'}: waiting for it: there is nothing of that name yet\n"
    assert looks[:3] == [waiting] * 3 and report.source["steps"] == 6
    assert out.getvalue().removeprefix(waiting).startswith("step 6: 6 new steps, 192 responses")
    with pytest.raises(gc.InputError, match="nothing of that name"):  # interrupted before there was anything
        monkeypatch.setattr(live.time, "sleep", lambda _: signal.raise_signal(signal.SIGINT))
        live.follow(Follower(str(tmp_path / "never")), StringIO())


def test_what_the_caller_of_a_watch_gives_wrong_is_refused_at_once(tmp_path):
    with pytest.raises(gc.InputError, match="group_size"):
        Follower(str(tmp_path), group_size=0)
    with pytest.raises(
        gc.InputError, match="--watch: expected a directory or file on this machine, got the URL s3://b"
    ):
        Follower("s3://b/run")


def test_a_log_that_stays_unreadable_is_an_error(tmp_path):
    (tmp_path / "run.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(gc.InputError, match=r"run.csv, line 2: expected 2 values"):
        live.follow(Follower(str(tmp_path)), StringIO(), every=0.01, patience=0.05)


def test_one_run_is_watched(capsys, tmp_path):
    for name in ("a", "b"):
        fake_logs.write_trl(tmp_path / name, steps=1)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", str(tmp_path / "a"), str(tmp_path / "b"), "--watch"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "gdpo: --watch: expected one directory or file, got 2\n"


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_a_change_names_the_findings_that_came_and_went(tmp_path):
    fake_logs.write_trl(tmp_path, steps=2)
    before = gc.audit(gc.read_run(tmp_path))
    dead = ("format", lambda draw, groups, size: draw.random((groups, size)) * 0)
    fake_logs.write_trl(tmp_path / "dead", steps=5, rewards=(fake_logs.ACCURACY, dead, fake_logs.LENGTH))
    now = gc.audit(gc.read_run(tmp_path / "dead"))
    assert "reward-dead" in {f.id for f in now.findings} - {f.id for f in before.findings}
    assert re.match(
        r"step 5: 3 new steps, 96 responses; new: .*reward-dead \((warning|error)\)", live.new_rows(before, now)
    )
    assert re.search(r"gone: .*reward-dead", live.new_rows(now, before))


def looked(*findings, steps=1):
    """What a look shows: these findings, as (id, severity)."""
    found = [Finding(severity, "So.", {}, id=id_, title="So") for id_, severity in findings]
    return audited.report(steps=steps, findings=found)


def shown(looks) -> list[dict[str, str]]:
    steady = live.Steady()
    return [{f.id: f.severity for f in steady.of(look).findings} for look in looks]


def test_a_finding_that_flaps_is_announced_once_it_lasts():
    on, off, worse = looked(("conflict", "warning")), looked(), looked(("conflict", "error"))
    assert shown([on, off, on, on, off, off, on] * 5) == [{}] * 35
    assert shown([off, *[on] * 5, off, off, off, on]) == [{}] * 5 + [{"conflict": "warning"}] * 5
    gone = shown([off, *[on] * 5, *[off] * 4, on, *[off] * 5])
    assert gone[5:] == [{"conflict": "warning"}] * 10 + [{}]
    moved = shown([off, *[on] * 5, *[worse] * 5])
    assert moved[5:] == [{"conflict": "warning"}] * 5 + [{"conflict": "error"}]


def test_a_log_of_many_steps_has_its_findings_at_the_first_look():
    assert shown([looked(("conflict", "warning"), steps=5)]) == [{"conflict": "warning"}]
    assert shown([looked(("conflict", "warning"), steps=4), looked(("conflict", "warning"), steps=6)])[-1] == {
        "conflict": "warning"
    }


def test_a_screen_holds_findings_and_the_last_steps(tmp_path):
    fake_logs.write_trl(tmp_path, steps=11)
    follower, out = Follower(str(tmp_path)), StringIO()
    report = follower.look()
    console = live.Console(file=out, width=140)
    console.print(live._screen(follower, None, ""))
    console.print(live._screen(follower, report, "step 11"))
    text = out.getvalue()
    assert "waiting for the first step" in text and "11 steps, 352 responses, 44 groups" in text
    assert all(finding.id in text for finding in report.findings)
    assert re.findall(r"^ +(\d+) .* %", text, re.M) == [str(step) for step in range(4, 12)]
    means = pl.read_parquet(tmp_path / "completions/completions_00011.parquet")["accuracy"].mean()
    assert f"{means:.4g}" in re.search(r"^ +11 .*", text, re.M)[0]


def lines_of(process) -> list[str]:
    return [line for line in process.stdout.read().splitlines() if line.startswith("step ")]


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_beside_a_writer_every_step_is_seen(tmp_path, ended_by):
    fake_logs.write_trl(tmp_path / "made", steps=6)
    folder = tmp_path / "seen/completions"
    folder.mkdir(parents=True)
    started = subprocess.Popen(
        [GDPO, "audit", tmp_path / "seen", "--watch", "--json", tmp_path / "report.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    said = []
    for file in sorted((tmp_path / "made/completions").iterdir()):
        shutil.copy(file, folder / f".{file.name}")
        (folder / f".{file.name}").rename(folder / file.name)
        said.append(started.stdout.readline())
    started.send_signal(ended_by)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, "")
    assert [re.match(r"step (\d+): 1 new step, 32 responses", line)[1] for line in said] == list("123456")
    assert "\nThe logged advantages are GDPO" in out and "6 files, 6 steps, 192 responses" in out
    fresh = gc.audit(gc.read_run(tmp_path / "seen")).to_dict()
    assert json.loads((tmp_path / "report.json").read_text()) == nearly(fresh)


@pytest.mark.slow
def test_a_log_that_vanishes_ends_the_watch_with_one_line(tmp_path):
    fake_logs.write_trl(tmp_path / "run", steps=2)
    started = subprocess.Popen(
        [GDPO, "audit", tmp_path / "run", "--watch", "--html", tmp_path / "report.html"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    started.stdout.readline()
    shutil.rmtree(tmp_path / "run")
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out) == (2, "")
    assert err.startswith("gdpo: ") and err.endswith("it was removed\n") and err.count("\n") == 1
    assert not (tmp_path / "report.html").exists()
