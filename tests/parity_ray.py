"""`--engine ray` with Ray itself, in an environment of its own: `make parity-ray`."""

import os
import sys
from pathlib import Path

import fake_logs
import pytest

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.command import engine_ray
from gdpo_audit.sums import summarise


@pytest.fixture(scope="module")
def ray():
    """Yield Ray, started on two cores of this machine."""
    import ray

    root = str(Path(__file__).parent.parent)
    ray.init(
        num_cpus=2,
        log_to_driver=False,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([root, *sys.path])}},
    )
    yield ray
    ray.shutdown()


def same(path, read=None, **named) -> bool:
    """Assert that the report on a log is the same from Ray as from this process, and return True. read: options of
    `read_run`.
    """
    local = ga.audit(ga.read_run(path, **(read or {})), **named).to_dict(groups=True)
    assert engine_ray.audit_on_ray(str(path), **(read or {}), **named).to_dict(groups=True) == local
    return True


def test_the_report_is_that_of_the_local_engine(ray, tmp_path, monkeypatch):
    monkeypatch.setattr(summarise, "_AT_ONCE", 256)
    task = {"task": lambda n: [i // 8 % 2 for i in range(n)]}
    fake_logs.write_trl(tmp_path / "trl", steps=40, evaluated=(7,), drop_rows={9: 3}, missing=0.05, extra=task)
    assert same(tmp_path / "trl", primary="accuracy", what_if={"method": "grpo"})
    assert same(tmp_path / "trl", {"steps": (8, 31), "by": "task"})
    fake_logs.write_verl(tmp_path / "verl", steps=20)
    assert same(tmp_path / "verl", weights={"accuracy": 2.0})
    logs = Path(__file__).parent / "goldens/logs"
    assert same(logs / "trackio/project.db::gdpo") and same(logs / "wandb")


def test_a_worker_that_dies_is_one_line(ray, tmp_path, monkeypatch):
    fake_logs.write_trl(tmp_path, steps=4)
    monkeypatch.setattr(engine_ray, "_in_one_thread", lambda *_: os._exit(1))
    with pytest.raises(gc.InputError, match="--engine: expected ray's workers to finish, got ") as died:
        engine_ray.audit_on_ray(str(tmp_path))
    assert "\n" not in str(died.value)
