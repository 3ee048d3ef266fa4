"""`--engine ray` without Ray: how the engine maps a function over the parts of a log. tests/parity_ray.py has Ray
itself.
"""

import sys
from types import SimpleNamespace

import fake_logs
import pytest
from helpers import nearly
from logs import audit_cli

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.command import engine_ray


def test_without_ray_one_line_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for engine, said in (
        ("ray", "expected ray to be installed for this engine, got none: pip install 'ray'"),
        ("spark", "expected local or ray, got 'spark'"),
    ):
        assert audit_cli(capsys, tmp_path, "--engine", engine) == (2, "", f"gdpo: --engine: {said}\n")


@pytest.fixture
def most(monkeypatch):
    """Let a stand-in for Ray compute in this process, and return a list of how many parts waited whenever one more
    came.
    """
    waiting, most = [], []

    def remote(work):
        def start(part):
            waiting.append(part)
            most.append(len(waiting))
            return lambda: (waiting.remove(part), work(part))[1]

        return SimpleNamespace(remote=start)

    stub = SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=lambda: {"CPU": 1},
        remote=lambda **_: remote,
        get=lambda started: started(),
        exceptions=SimpleNamespace(RayError=ZeroDivisionError),
    )
    monkeypatch.setattr(engine_ray, "_ray", lambda: stub)
    return most


@pytest.mark.parametrize("option", ["json", "html"])
def test_a_report_does_not_overwrite_the_log_that_it_was_made_from(capsys, tmp_path, most, option):
    fake_logs.write_trl(tmp_path, steps=2)
    log = sorted(tmp_path.rglob("*.parquet"))[0]
    before, beside = log.read_bytes(), tmp_path / "report"
    status, out, err = audit_cli(capsys, log, "--engine", "ray", f"--{option}", log)
    assert (status, out) == (2, "") and err == f"gdpo: {option}: expected another file than the log, got {str(log)!r}\n"
    assert log.read_bytes() == before
    assert audit_cli(capsys, log, "--engine", "ray", f"--{option}", beside)[0] == 0 and beside.stat().st_size and most


@pytest.mark.slow
def test_workers_map_the_parts_in_their_order(tmp_path, monkeypatch, most):
    assert list(engine_ray.map_on_ray(str, range(20))) == [str(i) for i in range(20)]
    assert max(most) == engine_ray.AHEAD + 1  # The log is read while its parts are summed up.
    with pytest.raises(gc.InputError, match="--engine: expected ray's workers to finish, got ZeroDivisionError: divi"):
        list(engine_ray.map_on_ray(lambda part: 1 / part, [1, 0]))

    fake_logs.write_trl(tmp_path, steps=20, drop_rows={5: 3}, extra={"task": lambda n: [i // 8 % 2 for i in range(n)]})
    monkeypatch.setattr("gdpo_audit.sums.summarise._AT_ONCE", 100)
    for named in ({"steps": (3, 9)}, {"last": 4, "by": "task"}):
        local = ga.audit(ga.read_run(tmp_path, **named), what_if={"method": "grpo"}).to_dict(groups=True)
        there = engine_ray.audit_on_ray(str(tmp_path), what_if={"method": "grpo"}, **named)
        assert there.to_dict(groups=True) == nearly(local)
