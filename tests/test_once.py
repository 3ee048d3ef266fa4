"""A result is computed once for all who ask, also for those who ask at the same moment."""

import threading
import time

import pytest

from views.once import Once


class Stopped(Exception):
    """Somebody leaves."""


def together(call, count):
    """What `call(n)` returned or raised in threads that start at the same moment."""
    found, gate = [None] * count, threading.Barrier(count)

    def work(n):
        gate.wait()
        try:
            found[n] = call(n)
        except Exception as error:
            found[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return found


def test_what_many_ask_at_once_is_computed_once():
    once, calls = Once(maxsize=4), []

    def slow():
        calls.append(1)
        time.sleep(0.2)
        return object()

    found = together(lambda n: once.get("key", slow), 8)
    assert len(calls) == 1
    assert len(set(map(id, found))) == 1


def test_who_gives_up_leaves_the_others_to_compute_for_themselves():
    once, calls, lock = Once(maxsize=4), [], threading.Lock()

    def first_fails():
        with lock:
            calls.append(1)
            mine = len(calls)
        time.sleep(0.1)
        if mine == 1:
            raise Stopped
        return "done"

    found = together(lambda n: once.get("key", first_fails), 4)
    assert sorted(map(str, found)) == ["", "done", "done", "done"]
    assert len(calls) == 2


def test_who_waits_can_leave():
    once, started = Once(maxsize=4), threading.Event()

    def slow():
        started.set()
        time.sleep(0.5)
        return "done"

    def leave():
        raise Stopped

    owner = threading.Thread(target=once.get, args=("key", slow))
    owner.start()
    started.wait()
    with pytest.raises(Stopped):
        once.get("key", slow, waiting=leave)
    owner.join()
    assert once.has("key")
    assert once.get("key", leave) == "done"


def test_only_the_latest_keys_are_kept():
    once = Once(maxsize=2)
    for key in "aabca":
        once.get(key, lambda: None)
    assert [once.has(key) for key in "abc"] == [True, False, True]
