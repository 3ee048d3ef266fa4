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
from gdpo_audit import engine_ray


def test_without_ray_one_line_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for engine, said in (
        ("ray", "expected ray to be installed for this engine, got none: pip install 'ray'"),
        ("spark", "expected local or ray, got 'spark'"),
    ):
        assert audit_cli(capsys, tmp_path, "--engine", engine) == (2, "", f"gdpo: --engine: {said}\n")


@pytest.mark.slow
def test_workers_map_the_parts_in_their_order(tmp_path, monkeypatch):
    """A stand-in for Ray computes in this process."""
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
    assert list(engine_ray.map_on_ray(str, range(20))) == [str(i) for i in range(20)]
    assert max(most) == engine_ray.AHEAD + 1  # the log is read as it is summed up
    with pytest.raises(gc.InputError, match="--engine: expected ray's workers to finish, got ZeroDivisionError: divi"):
        list(engine_ray.map_on_ray(lambda part: 1 / part, [1, 0]))

    fake_logs.write_trl(tmp_path, steps=20, drop_rows={5: 3}, extra={"task": lambda n: [i // 8 % 2 for i in range(n)]})
    monkeypatch.setattr("gdpo_audit.findings.summarise._AT_ONCE", 100)
    for named in ({"steps": (3, 9)}, {"last": 4, "by": "task"}):
        local = ga.audit(ga.read_run(tmp_path, **named), what_if={"method": "grpo"}).to_dict(groups=True)
        there = engine_ray.audit_on_ray(str(tmp_path), what_if={"method": "grpo"}, **named)
        assert there.to_dict(groups=True) == nearly(local)
