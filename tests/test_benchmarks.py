"""The benchmarks' runner: what fails is said at the end, and everything else runs."""

from types import SimpleNamespace

import pytest

from benchmarks import __main__ as runner


def test_a_benchmark_that_fails_stops_no_other(monkeypatch, capsys):
    ran = []

    def one_of(module):
        def run():
            ran.append(module)
            if module == "benchmarks.load":
                raise RuntimeError("no visitor came\nand more")
            if module == "benchmarks.page":
                raise SystemExit("No chromium here")

        return SimpleNamespace(run=run)

    monkeypatch.setattr(runner, "import_module", one_of)
    with pytest.raises(SystemExit) as ended:
        runner.main(["page", "load", "counts"])
    assert ran == ["benchmarks.page", "benchmarks.load", "benchmarks.counts"]
    assert ended.value.code.split("\n")[1:] == [
        "2 of 3 benchmarks failed:",
        "  page: SystemExit: No chromium here",
        "  load: RuntimeError: no visitor came",
    ]
    runner.main(["counts"])  # all is well: no exit


def test_an_unknown_benchmark_is_named():
    with pytest.raises(SystemExit, match="unknown benchmark fast; there are toggle"):
        runner.main(["fast"])
