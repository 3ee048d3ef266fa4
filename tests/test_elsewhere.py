"""Work in other processes: the same results, one process after another, none left behind, and a sentence for a loss."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import close, nearly

from gdpo_core._errors import InputError
from gdpo_core.scenarios import Setting
from views import elsewhere, run, trained, work

ROOT = Path(__file__).resolve().parent.parent
SETTING = Setting((0.5, 0.5), scale=(1.0, 3.0), epochs=20, seeds=2)
ROUNDED = 1e-5  # what float32 may round apart in 20 epochs, in processes with other numbers of threads
LONG = replace(SETTING, epochs=1000, seeds=64, prompts=128, rollouts=32)  # seconds


class Stopped(Exception):
    """The visitor leaves."""


@pytest.fixture(scope="module")
def workers():
    """Two processes; one test of several reuses them, since the first takes a second to start."""
    made = elsewhere.Workers(2)
    yield made
    for worker in made._free:
        worker.end()


@pytest.fixture
def serving_many(monkeypatch, workers):
    """As in the server."""
    monkeypatch.setattr(elsewhere, "_workers", workers)


def computed(workers, function, *args, hear=lambda share: None, most=60, keep=True):
    return workers.compute(function, args, hear, most, keep)


def test_training_elsewhere_is_training_here(workers):
    shares = []
    found = computed(workers, work.trained, SETTING, "gdpo", hear=shares.append)
    here = SETTING.train("gdpo")
    assert found.method == "gdpo"
    close(found.p, here.p, ROUNDED)
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] > 0.5
    close(computed(workers, work.limit, SETTING, "grpo"), SETTING.mean_field("grpo"), ROUNDED)


def test_a_process_is_asked_again_and_works_at_low_priority(workers):
    (one,) = {computed(workers, pid_of) for _ in range(3)}
    assert one != os.getpid()
    assert os.getpriority(os.PRIO_PROCESS, one) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + elsewhere.NICER)


def pid_of(tell):
    return os.getpid()


def die(tell):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(tell):
    raise InputError("p0: expected something else")


def test_a_process_that_dies_is_one_sentence_and_the_next_visitor_gets_another(workers):
    before = computed(workers, pid_of)
    with pytest.raises(elsewhere.Lost, match="ended early"):
        computed(workers, die)
    assert computed(workers, pid_of) != before
    with pytest.raises(InputError, match="p0: expected something else"):
        computed(workers, refuse)


def test_where_no_process_can_start_it_is_computed_here(tmp_path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    run = "import os, sys\nfrom views import elsewhere\nelsewhere.serve_many()\n"
    run += "print(elsewhere.compute(lambda tell: os.getpid()) == os.getpid())"
    environment = os.environ | {"TMPDIR": str(long)}  # too long a name for a socket
    ran = subprocess.run([sys.executable, "-c", run], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr


def test_one_that_dies_while_it_waits_is_not_asked(workers):
    before = computed(workers, pid_of)
    for worker in workers._free:
        worker.process.kill()
        worker.process.join()
    assert computed(workers, pid_of) != before


def test_who_leaves_ends_the_work_and_frees_its_place(workers):
    heard = []

    def hear(share):
        heard.append(share)
        if share > 0:
            raise Stopped

    started = time.monotonic()
    for _ in range(3):  # of two places
        with pytest.raises(Stopped):
            computed(workers, work.trained, LONG, "gdpo", hear=hear)
    assert computed(workers, pid_of)
    assert time.monotonic() - started < 30
    assert max(heard) < 0.5


def test_what_takes_too_long_is_one_sentence(workers):
    with pytest.raises(elsewhere.Lost, match="longer than 0 seconds"):
        computed(workers, work.trained, LONG, "gdpo", most=0.05)


def test_no_more_than_two_at_once_and_a_waiting_visitor_may_leave():
    workers, inside, gate = elsewhere.Workers(1), threading.Event(), threading.Event()

    class Slow:
        process = SimpleNamespace(is_alive=lambda: True)

        def ask(self, question, hear, most):
            inside.set()
            gate.wait(10)
            return True, "done"

    workers._free.append(Slow())
    first = threading.Thread(target=computed, args=(workers, pid_of))
    first.start()
    inside.wait(10)

    def leave(share):
        raise Stopped

    with pytest.raises(Stopped):
        computed(workers, pid_of, hear=leave)
    gate.set()
    first.join(10)
    assert computed(workers, pid_of) == "done"


def test_an_upload_is_audited_elsewhere_as_it_is_here(serving_many, monkeypatch):
    path = run.DATA / "samples" / "trl_gdpo"
    uploads = [SimpleNamespace(name=file.name, contents=file.read_bytes()) for file in sorted(path.iterdir())]
    asked = []
    real = elsewhere.compute
    monkeypatch.setattr(elsewhere, "compute", lambda *args, **given: asked.append(args[0]) or real(*args, **given))
    there = run.read(run.SAMPLES[0], uploads, run.Reading())
    here = run.read(next(sample for sample in run.SAMPLES if sample.path == path.name), (), run.Reading())
    assert asked == [work.audited] and here.files is None
    assert there.run.rewards == here.run.rewards and there.told == "Your files: completions_00001.parquet and 3 more."
    first = here.run.rewards[0]
    for primary, weights in ((None, ""), (first, ""), (None, f"{first}=3")):
        expected, found = (run.audited(log, primary, weights) for log in (here, there))
        assert found.report.to_dict() == nearly(expected.report.to_dict()) and found.given == expected.given
    tables = [run.downloads(log, found)[-1][2]() for log in (here, there)]
    assert tables[0] == tables[1] and asked[-1] is work.table
    with pytest.raises(InputError, match="groups of 1000000"):
        run.read(run.SAMPLES[0], uploads, run.Reading(group_size=10**6))
    with pytest.raises(InputError, match="weights"):
        run.audited(there, None, "none=1")


@pytest.mark.parametrize("sample", run.SAMPLES, ids=lambda sample: sample.id)
def test_what_an_audit_returns_can_be_sent(sample):
    path = run.DATA / "samples" / sample.path
    files = {f.name: f.read_bytes() for f in (sorted(path.iterdir()) if path.is_dir() else [path])}
    facts, report = pickle.loads(pickle.dumps(work.audited(lambda share: None, files, vars(run.Reading()))))
    assert report.to_dict()["source"]["rewards"] == list(facts.rewards)


def test_training_asks_elsewhere_and_joins_equal_requests(serving_many, monkeypatch):
    asked = []
    real = elsewhere.compute
    monkeypatch.setattr(elsewhere, "compute", lambda *args, **given: asked.append(args[1:]) or real(*args, **given))
    setting = replace(SETTING, lr=0.123)
    together = [threading.Thread(target=trained.runs, args=(setting, ("gdpo",))) for _ in range(6)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert asked == [(setting, "gdpo")]
    close(trained.runs(setting, ("gdpo",))["gdpo"].p, setting.train("gdpo").p, ROUNDED)
