"""`--engine ray` without Ray: one clear line; tests/parity_ray.py has the engine itself."""

import sys

import fake_logs
import pytest

from gdpo_core import cli


def refused(capsys, *arguments) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", *map(str, arguments)])
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
