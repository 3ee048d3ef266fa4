"""The cells of the tutorial inside TRL's own trainer, with less training; `make parity-trainer` runs them."""

import pytest
from test_tutorial import CELLS, code

import gdpo_audit as ga

pytest.importorskip("trl")


def test_the_cells_train_twice_and_the_audit_proves_both_methods(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = "\n".join(map(code, CELLS)).replace("range(2500)", "range(40)").replace("max_steps=200", "max_steps=5")
    assert "range(40)" in program and "max_steps=5" in program
    exec(compile(program, "tutorial", "exec"), {})
    for folder, method in (("as_it_was", "grpo"), ("one_line_later", "gdpo")):
        report = ga.audit(ga.read_run(tmp_path / "runs" / folder), primary="correctness")
        assert report.run["method"] == method and report.run["reproduced"] and report.source["steps"] == 5
