"""views/server/memory.py: how much the server may hold, how much is kept for a file, and what is given back."""

import gc
import os
import weakref
from types import SimpleNamespace

import pytest

from views.server import memory

MACHINE = 8 << 30
GROUPS = {  # lines of /proc/self/cgroup, files below the groups: the limit, what is held
    "none": ("0::/\n", {}, (MACHINE // 2, None)),
    "no limit": ("0::/a/b\n", {"a/b/memory.max": "max"}, (MACHINE // 2, None)),
    "more than the machine has": ("0::/\n", {"memory.max": str(2 * MACHINE)}, (MACHINE // 2, None)),
    "one above, 2": (
        "0::/a/b\n",
        {"a/memory.max": "1000", "a/memory.current": "700", "a/memory.stat": "inactive_file 300",
         "a/b/memory.max": "max"},
        (1000, 400),
    ),
    "its own, 1": (
        "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n",
        {"memory/memory.limit_in_bytes": "2000", "memory/memory.usage_in_bytes": "900",
         "memory/memory.stat": "total_inactive_file 200\ninactive_file 1"},
        (2000, 700),
    ),
}  # fmt: skip


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Yield a function that makes the machine look like one of 8 GB with such control groups."""

    def build(lines, files):
        (tmp_path / "cgroup").write_text(lines)
        for name, text in files.items():
            (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / name).write_text(text)

    monkeypatch.setattr(memory, "WHOSE", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "CONTROL_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: type("memory", (), {"total": MACHINE}))
    memory.memory_limit.cache_clear()
    yield build
    memory.memory_limit.cache_clear()


@pytest.mark.parametrize("name", GROUPS)
def test_the_limit_is_that_of_the_control_group_or_half_of_the_machine(system, name):
    lines, files, (limit, held) = GROUPS[name]
    system(lines, files)
    assert memory.memory_limit()[0] == limit
    own = memory.psutil.Process(os.getpid()).memory_info().rss
    assert memory.memory_in_use() == held if held else abs(memory.memory_in_use() - own) < 50e6


def test_room_is_kept_while_a_file_is_worked_on(system):
    system("0::/\n", {"memory.max": "1000", "memory.current": "100", "memory.stat": ""})
    with memory.reserved(70) as first, memory.reserved(70) as second, memory.reserved(70) as third:
        assert (first, second, third) == (True, True, False)
        with memory.reserved(10) as small:
            assert small
    with memory.reserved(150) as all_of_it:
        assert all_of_it
    with pytest.raises(KeyError), memory.reserved(150):
        raise KeyError
    with memory.reserved(151) as more:
        assert not more


def test_what_a_worker_shares_with_others_counts_once(system, monkeypatch):
    system(*GROUPS["none"][:2])
    process = {1: (100, 30), 2: (50, 50), None: (1000, 900)}  # by number: all of its memory, what it shares

    def of_number(pid=None):
        if pid == 3:
            raise memory.psutil.NoSuchProcess(pid)
        return SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=process[pid][0], shared=process[pid][1]))

    monkeypatch.setattr(memory.psutil, "Process", of_number)
    workers = [SimpleNamespace(pid=pid) for pid in (1, 2, 3)]
    monkeypatch.setattr(memory.multiprocessing, "active_children", lambda: workers)
    assert memory.memory_in_use() == 1000 + 70 + 0


class Ended(Exception):
    """Raised when the time of a test is up."""


def test_memory_is_given_back_a_minute_after_a_visitor_left_and_each_ten_minutes(monkeypatch):
    now, gave, leave = [0], [], {30, 35, 200}

    def sleep(seconds):
        now[0] += seconds
        memory.left.set() if now[0] in leave else None
        if now[0] > 1000:
            raise Ended

    monkeypatch.setattr(memory.time, "sleep", sleep)
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(memory, "give_back", lambda: gave.append(now[0]))
    try:
        with pytest.raises(Ended):
            memory._tend()
    finally:
        gc.unfreeze()
    assert gave == [60, 200, 800]


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self):
        self.self = self


def test_what_was_looked_at_is_collected_all_the_same_when_memory_is_given_back():
    gone = weakref.ref(Cycle())
    gc.freeze()
    gc.collect()
    assert gone()
    memory.give_back()
    gc.unfreeze()
    assert not gone()
