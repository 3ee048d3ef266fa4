"""`--engine ray` without Ray: one clear line; tests/parity_ray.py has the engine itself."""

import sys
from types import SimpleNamespace

import fake_logs
import pytest
from helpers import nearly

import gdpo_cli
import gdpo_core as gc
from gdpo_core.runs import engine_ray


def refused(capsys, *arguments) -> str:
    with pytest.raises(SystemExit) as stopped:
        gdpo_cli.main(["audit", *map(str, arguments)])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_without_ray_one_line_says_what_to_install(capsys, tmp_path, monkeypatch):
    fake_logs.write_trl(tmp_path, steps=2)
    monkeypatch.setitem(sys.modules, "ray", None)
    said = refused(capsys, tmp_path, "--engine", "ray")
    assert said == "gdpo: --engine: expected ray to be installed for this engine, got none: pip install 'ray'\n"


def test_an_engine_is_local_or_ray(capsys, tmp_path):
    assert refused(capsys, tmp_path, "--engine", "spark") == "gdpo: --engine: expected local or ray, got 'spark'\n"
    said = refused(capsys, tmp_path, "--engine", "ray", "--watch")
    assert said == "gdpo: --watch: expected the engine local, got ray\n"


@pytest.fixture
def here(monkeypatch):
    """Ray whose workers compute here."""
    stub = SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=lambda: {"CPU": 1},
        remote=lambda **_: lambda work: SimpleNamespace(remote=work),
        get=list,
        exceptions=SimpleNamespace(RayError=ZeroDivisionError),
    )
    monkeypatch.setattr(engine_ray, "_ray", lambda: stub)


def same(path, **named) -> bool:
    fresh = gc.audit(gc.read_run(path, **named)).to_dict(groups=True)
    assert engine_ray.audit_on_ray(str(path), **named).to_dict(groups=True) == nearly(fresh)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("named", [{"steps": (3, 9)}, {"last": 4, "by": "task"}, {"steps": (None, 2)}, {"by": "task"}])
def test_workers_read_the_steps_that_are_asked_for(here, tmp_path, named):
    fake_logs.write_trl(tmp_path, steps=20, drop_rows={5: 3}, extra={"task": lambda n: [i // 8 % 2 for i in range(n)]})
    assert same(tmp_path, **named)


@pytest.mark.slow
def test_files_that_stand_for_steps_are_numbered_over_the_whole_log(here, tmp_path):
    for number in range(20):
        rows = [f"{i // 8},{(i * i + number) % 3},{(i + number) % 5 / 4}" for i in range(32)]
        (tmp_path / f"part{number}.csv").write_text("prompt,right,short\n" + "\n".join(rows) + "\n")
    assert same(tmp_path, steps=(3, 9)) and set(gc.read_run(tmp_path, steps=(3, 9)).table["step"]) == {*range(3, 10)}
