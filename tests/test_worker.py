"""A stranger's file in a process of its own: it gets the same report as in this one, and whatever happens to it is said
in one sentence.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice, product
from types import ModuleType, SimpleNamespace

import psutil
import pytest
from conftest import ROOT
from helpers import nearly

from gdpo_core.board.drawing import draw
from gdpo_core.board.state import State
from gdpo_core.shared.errors import InputError
from views.chapters.run import log as logs
from views.chapters.run.downloads import downloads
from views.chapters.run.samples import DATA_FOLDER, SAMPLES
from views.server import drawer, worker


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def swell():
    return len(bytearray(worker.MEMORY + 2**30))


def spin():
    while True:
        pass


def refuse():
    raise InputError("a.csv: expected something else")


def late():
    with pytest.raises(InputError):
        worker.call(spin)


def left_over() -> list[psutil.Process]:
    """Return the processes of workers that run now, without the one from which they are forked."""
    below = psutil.Process().children(recursive=True)
    return [one for one in below if one.pid in {p.pid for p in worker.multiprocessing.active_children()}]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "sentence"), [(die, "damaged"), (swell, "2 GB"), (refuse, "else")])
def test_whatever_happens_is_one_sentence_and_leaves_no_process(function, sentence):
    with pytest.raises(InputError, match=sentence):
        worker.call(function)
    assert worker.call(os.getpid) != os.getpid() and not left_over()


def test_what_takes_too_long_is_one_sentence(monkeypatch):
    monkeypatch.setattr(worker, "WORKER_SECONDS", 0.3)
    with pytest.raises(InputError, match="got more"):
        worker.call(spin)
    assert not left_over()


@pytest.mark.slow
def test_where_no_process_can_start_it_is_one_sentence_and_the_place_is_free_again(tmp_path):
    long = tmp_path / ("x" * 120)  # The path of a socket may not be that long.
    long.mkdir()
    program = "from views.server import worker\nfrom gdpo_core.shared.errors import InputError\n"
    program += "for _ in range(3):\n    try:\n        worker.call(abs, -3)\n    except InputError as error:\n"
    program += "        print(error)"
    environment = os.environ | {"TMPDIR": str(long)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.count("server: expected room for one more process") == 3, ran.stderr


@pytest.mark.slow
def test_who_trains_does_not_wait_for_files_that_never_end(monkeypatch):
    monkeypatch.setattr(worker, "WORKER_SECONDS", 1.0)
    worker.call(os.getpid)  # The first call starts the process from which the others are forked.
    threads = [threading.Thread(target=late) for _ in range(2)]
    for thread in threads:
        thread.start()
    while len(worker.multiprocessing.active_children()) < 2:
        time.sleep(0.01)
    assert worker.call(os.getpid) and all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_an_upload_has_the_report_that_the_same_files_have_here():
    path = DATA_FOLDER / "samples" / "trl_gdpo"
    uploads = [SimpleNamespace(name=file.name, contents=file.read_bytes()) for file in sorted(path.iterdir())]
    there = logs.read_log(None, uploads)
    here = logs.read_log(next(sample for sample in SAMPLES if sample.path == path.name))
    assert here.files is None and there.run.rewards == here.run.rewards
    assert there.named == "Your files: completions_00001.parquet and 3 more, 128 responses"
    first = here.run.rewards[0]
    for primary, weights in ((None, ""), (first, f"{first}=3")):
        expected, found = (logs.audit_log(log, primary, weights) for log in (here, there))
        assert found.to_dict() == nearly(expected.to_dict())
    assert len({downloads(log, found)[2][2]() for log in (here, there)}) == 1
    with pytest.raises(InputError, match="groups of 1000000"):
        logs.read_log(None, uploads, group_size="1000000")
    with pytest.raises(InputError, match="weights"):
        logs.audit_log(there, None, "none=1")


def test_a_worker_does_not_import_what_is_main_here(monkeypatch, tmp_path):
    """marimo makes the notebook the main module, and a worker that imported it would take a second of CPU longer."""
    (tmp_path / "notebook.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / "notebook.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert worker.call(os.getpid) != os.getpid() and not (tmp_path / "imported").exists()


# --- drawings ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def drawing():
    """Yield states of the board, none of which has been drawn yet, while the process that draws runs."""
    drawer.start_drawer()
    drawer.drawn.cache_clear()
    all_marks = product(product((0, 1), repeat=2), repeat=3)
    yield (State(marks, (1.0, 1.0), (1.0, 1.0), lengths=(5, 5, 5)) for marks in all_marks)
    drawer.stop()


@pytest.mark.slow
def test_another_process_draws_what_this_one_would(drawing):
    for state in islice(drawing, 5, 12):
        assert drawer.drawn(state) == draw(state)


@pytest.mark.slow
def test_a_process_that_was_killed_costs_no_drawing(drawing):
    first, second, third = islice(drawing, 20, 23)
    drawer.drawn(first)
    killed = drawer._process
    killed.kill()
    killed.join()
    for state in (second, third):
        assert drawer.drawn(state) == draw(state)
    assert drawer._process.is_alive()


@pytest.mark.slow
def test_where_no_process_can_be_started_the_drawing_is_made_here(drawing, monkeypatch):
    def none(_):
        raise OSError("no room")

    monkeypatch.setattr(worker, "start_process", none)
    drawer.stop()
    for state in islice(drawing, 30, 32):
        assert drawer.drawn(state) == draw(state)


def test_a_process_whose_server_has_ended_says_nothing():
    """A limited process that fails to send for another reason still says so."""
    program = """import sys
from views.server import worker
class Gone:
    def send(self, outcome):
        raise {}("of the pipe")
worker._run(Gone(), print, ("done",))"""
    for error, ends_well in (("BrokenPipeError", True), ("ValueError", False)):
        ran = subprocess.run(
            [sys.executable, "-c", program.format(error)], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert ran.stdout == "done\n" and (ran.returncode == 0 and not ran.stderr) == ends_well
