"""A run in a DataFrame has the same report as its files, whichever library the DataFrame is of; and URLs are handed to
polars.
"""

import runpy
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from fake_logs import write_trl
from logs import LOGS, NAMES, assert_reads, figures, frames_of, refused

import gdpo_audit as ga

ROOT = Path(__file__).parents[1]


def trl(run: str) -> pl.DataFrame:
    return pl.concat(frames_of(LOGS / "trl" / run))


def in_pandas(table: pl.DataFrame):
    pytest.importorskip("pyarrow")
    return pytest.importorskip("pandas").DataFrame(table.to_dicts())


def in_arrow(table: pl.DataFrame):
    pytest.importorskip("pyarrow")
    return table.to_arrow()


KINDS = {
    "polars": lambda table: table,
    "lazy": pl.DataFrame.lazy,
    "pandas": in_pandas,
    "arrow": in_arrow,
    "dicts": pl.DataFrame.to_dicts,
}
OF_EACH_KIND = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("run", ["edge_conv"])
@OF_EACH_KIND
def test_a_table_has_the_report_of_the_files_that_it_was_read_from(kind, run):
    assert figures(KINDS[kind](trl(run)), "files") == figures(LOGS / "trl" / run, "files")


def test_dicts_may_hold_numbers_of_numpy_and_torch_lack_some_and_have_values_of_any_kind():
    of_any_kind = {
        "when": datetime(2026, 1, 1),
        "what": object(),
        "ids": [1, 2],
        "prompt": "half \ud800",
        "\ud800": "x",
    }
    rows = [{"group": i // 4, "a": np.float32(i % 3), "b": torch.tensor(i % 2), "c": np.int64(i)} for i in range(8)]
    del rows[5]["c"]
    run = ga.read_run([row | of_any_kind for row in rows])
    c = [0, 1, 2, 3, 4, np.nan, 6, 7]
    assert_reads(run, dict(rewards=("a", "b", "c"), a=[0, 1, 2, 0, 1, 2, 0, 1], b=[0, 1] * 4, c=c))
    assert r"\ud800" in run.left_out


def test_a_table_of_pandas_does_without_pyarrow(monkeypatch):
    table = in_pandas(trl("gdpo"))

    def refuse(*_, **__):
        raise ModuleNotFoundError("pyarrow is required")

    monkeypatch.setattr(pl, "from_pandas", refuse)
    assert figures(table, "files") == figures(LOGS / "trl/gdpo", "files")


def test_an_index_with_a_name_is_a_column():
    pytest.importorskip("pandas")
    rewards = {name: [1.0, 0.0] * 4 for name in "ab"}
    table = pl.DataFrame({"step": [1] * 4 + [2] * 4, **rewards, "group": [1, 1, 2, 2] * 2})
    assert figures(table.to_pandas().set_index(["step", "group"])) == figures(table)


def test_columns_of_one_name_are_refused():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for table in (pandas.DataFrame([[1, 2]], columns=["a", "a"]), pyarrow.table([[1], [2]], names=["a", "a"])):
        refused(table, "columns of different names, got 'a' more than once")


# --- URLs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("hf://datasets/me/run", "hf://datasets/me/run/**/*.parquet"),
        ("hf://datasets/me/run/completions", "hf://datasets/me/run/completions/**/*.parquet"),
        ("S3://Bucket/run/completions/", "s3://Bucket/run/completions/**/*.parquet"),
        ("gs://bucket/run/completions_*.parquet", "gs://bucket/run/completions_*.parquet"),
    ],
)
def test_a_url_reaches_polars(monkeypatch, tmp_path, url, asked):
    write_trl(tmp_path, steps=3)
    scan, urls = pl.scan_parquet, []

    def recorded(source, **options):
        urls.append(source)
        return scan(tmp_path / "completions")

    monkeypatch.setattr(pl, "scan_parquet", recorded)
    run = ga.read_run(url)
    monkeypatch.undo()
    assert urls == [asked]
    assert (run.path, run.framework, run.rewards) == (url, "trl", NAMES)
    assert ga.audit(run).to_dict() | {"source": 0} == figures(tmp_path) | {"source": 0}


def test_what_polars_says_of_a_url_is_one_line(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no such host\n\nThis error occurred with the following context stack:\n 'parquet scan'")

    monkeypatch.setattr(pl, "scan_parquet", refuse)
    refused(
        "hf://datasets/me/run", "^hf://datasets/me/run: expected a table that polars can read, got no such host This"
    )


# --- in a notebook ---------------------------------------------------------------------------------------------------


def test_a_report_shows_itself_in_a_notebook_and_its_findings_are_a_table():
    report = ga.audit(ga.read_run(trl("gdpo")))
    kind, html = report._mime_()
    assert (kind, html) == ("text/html", report._repr_html_()) and "<html" not in html
    assert report.verdict.split(".")[0] in html and all(finding.id in html for finding in report.findings)
    other = ga.audit(ga.read_run(trl("grpo_none")))
    table = other.findings_table()
    assert table.columns == ["id", "severity", "message", "fix"] and table.schema == report.findings_table().schema
    assert table["id"].to_list() == [finding.id for finding in other.findings]


@pytest.mark.slow
def test_reading_files_takes_neither_narwhals_nor_a_notebook():
    code = (
        "import sys, gdpo_audit as ga; ga.audit(ga.read_run(sys.argv[1]))._repr_html_(); "
        "print(sorted({'narwhals', 'marimo', 'altair', 'pandas', 'pyarrow'} & {*sys.modules}))"
    )
    run = [sys.executable, "-c", code, str(LOGS / "trl/gdpo")]
    assert subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.slow
def test_the_example_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    outputs, definitions = runpy.run_path("examples/audit.py")["app"].run()
    report = definitions["report"]
    assert any(shown is report for shown in outputs) and report.source["framework"] == "trl"
    assert definitions["plan"].height == len(report.plan) and "normalize_then_sum" in definitions["lines"]
