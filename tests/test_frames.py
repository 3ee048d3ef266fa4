"""A run in a DataFrame has the report of its files, whichever library holds it; URLs are handed to polars."""

import runpy
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from conftest import served
from fake_logs import write_trl, write_verl

import gdpo_core as gc
from gdpo_core import cli

ROOT = Path(__file__).parents[1]
LOGS = Path(__file__).parent / "goldens" / "logs"


def figures(source, **options) -> dict:
    """A report without what tells a table from files: the path and the number of files."""
    report = gc.audit(gc.read_run(source, **options)).to_dict()
    del report["source"]["path"], report["source"]["files"]
    return report


def trl(run: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted((LOGS / "trl" / run).rglob("*.parquet"))])


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


@pytest.mark.parametrize("run", ["gdpo", "gdpo_none", "edge_conv", "grpo"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_report_of_the_files_that_it_was_read_from(kind, run):
    assert figures(KINDS[kind](trl(run))) == figures(LOGS / "trl" / run)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_another_framework_is_read_as_its_own(tmp_path, kind):
    write_verl(tmp_path, steps=3)
    table = pl.concat([pl.read_ndjson(path) for path in sorted(tmp_path.rglob("*.jsonl"))])
    expected = figures(tmp_path)
    assert expected["source"]["framework"] == "verl"
    assert figures(KINDS[kind](table)) == expected
    assert figures(KINDS[kind](table), framework="verl") == expected


@pytest.mark.parametrize("kind", KINDS)
def test_any_table_is_read_with_the_columns_that_are_named(kind):
    table = pl.DataFrame({"who": [i // 4 for i in range(16)], "good": [i % 2 for i in range(16)], "more": [0.5] * 16})
    run = gc.read_run(KINDS[kind](table), rewards=["good"], group="who")
    assert (run.framework, run.group_size, run.rewards) == ("generic", 4, ("good",))
    assert run.table["good"].to_list() == [float(i % 2) for i in range(16)]


def test_dicts_may_hold_numbers_of_numpy_and_torch_and_lack_some():
    rows = [{"group": i // 4, "a": np.float32(i % 3), "b": torch.tensor(i % 2), "c": np.int64(i)} for i in range(8)]
    del rows[5]["c"]
    table = gc.read_run(rows).table
    assert table["a"].to_list() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert table["b"].to_list() == [0, 1] * 4
    assert np.isnan(table["c"].to_numpy()).tolist() == [i == 5 for i in range(8)]


def test_a_table_of_pandas_does_without_pyarrow(monkeypatch):
    table = in_pandas(trl("gdpo"))
    expected = figures(LOGS / "trl/gdpo")

    def refuse(*_, **__):
        raise ModuleNotFoundError("pyarrow is required")

    monkeypatch.setattr(pl, "from_pandas", refuse)
    assert figures(table) == expected


def test_dicts_may_hold_values_of_any_kind_beside_rewards():
    rows = [
        {"group": i // 4, "a": i % 3, "when": datetime(2026, 1, 1), "what": object(), "ids": [1, 2]} for i in range(8)
    ]
    assert gc.read_run(rows).rewards == ("a",)


# --- bad input -------------------------------------------------------------------------------------------------------

GROUPS = {"group": [1, 1, 2, 2]}
NESTED = [{"accuracy": [1.0], "format": [0.0]}] * 4
BAD = {
    "no table": (3, r"path: expected a path, several paths, .*or a table \(polars, pandas, Arrow or a list of dicts\)"),
    "a column": (pl.Series([1.0]), r"path: expected .* got Series"),
    "a mixed list": ([{"a": 1}, 3], r"path: expected .* got list"),
    "nothing": ([], r"path: expected at least one file, got none"),
    "no columns": (pl.DataFrame(), r"table: expected at least one column of numbers"),
    "no rows": (pl.DataFrame({"group": [], "a": []}), r"table: expected at least one"),
    "no numbers": (pl.DataFrame({**GROUPS, "a": list("wxyz")}), r"at least one column of numbers that is a reward"),
    "nested rewards": (
        pl.DataFrame({**GROUPS, "rewards": NESTED}),
        r"table, column 'rewards': expected one column of numbers per reward, got nested values of accuracy and format",
    ),
    "lists of rewards": (pl.DataFrame({**GROUPS, "rewards": [[1.0, 0.0]] * 4}), r"'rewards': .* got nested values"),
    "an odd value": (
        [{"group": 1, "a": 1}, {"group": 1, "a": "bad"}, {"group": 1, "a": 0}],
        r"table, row 2: expected a number in 'a', got 'bad'",
    ),
    "names that are numbers": ([{1: 2}], r"table: expected texts as names of columns, got 1"),
    "a plan that fails": (pl.LazyFrame({"a": [1]}).select("b"), r"table: expected a table whose columns polars can"),
}


@pytest.mark.parametrize(("table", "message"), BAD.values(), ids=BAD)
def test_a_table_that_holds_no_run_is_refused_in_one_line(table, message):
    with pytest.raises(gc.InputError, match=message) as refusal:
        gc.audit(gc.read_run(table))
    assert "\n" not in str(refusal.value)


def test_nested_rewards_that_are_named_are_refused_too():
    with pytest.raises(gc.InputError, match="nested values of accuracy and format"):
        gc.read_run(pl.DataFrame({**GROUPS, "rewards": NESTED}), rewards="rewards")


@pytest.mark.parametrize("kind", KINDS)
def test_nested_rewards_are_columns(kind):
    rows = [{"accuracy": i % 2, "format": i % 3 == 0} for i in range(8)]
    table = pl.DataFrame({"group": [i // 4 for i in range(8)], "rewards": rows})
    run = gc.read_run(KINDS[kind](table))
    assert run.rewards == ("accuracy", "format")
    assert run.table["format"].to_list() == [float(row["format"]) for row in rows]


@pytest.mark.parametrize("form", ["table", "csv"])
def test_more_columns_of_numbers_than_any_run_has_are_refused_at_once(tmp_path, form):
    table = pl.DataFrame({"group": [1] * 8} | {f"c{k}": [float(k % 7)] * 8 for k in range(3_000)})
    if form == "csv":
        table.write_csv(tmp_path / "a.csv")
    wanted = "expected at most 100 rewards; name those that are, got 3000 columns of numbers: c0, c1, c2, …"
    with pytest.raises(gc.InputError, match=wanted):
        gc.read_run(table if form == "table" else tmp_path / "a.csv")
    assert gc.read_run(table, rewards=["c1", "c2"]).rewards == ("c1", "c2")


def test_an_index_with_a_name_is_a_column():
    pytest.importorskip("pandas")
    table = pl.DataFrame(
        {"step": [1] * 4 + [2] * 4, **{name: [1.0, 0.0] * 4 for name in "ab"}, "group": [1, 1, 2, 2] * 2}
    )
    assert figures(table.to_pandas().set_index(["step", "group"])) == figures(table)


def test_parts_and_readers_of_arrow_are_tables():
    pytest.importorskip("pyarrow")
    table = pl.DataFrame({**GROUPS, "a": [1.0, 0.0, 1.0, 1.0]})
    [batch] = table.to_arrow().to_batches()
    assert figures(batch) == figures(table.to_arrow().to_reader()) == figures(table)


@pytest.mark.parametrize("url", ["https://x.y/z.parquet", "az://x/y.parquet", "file:///tmp/x.parquet"])
def test_urls_that_polars_is_not_asked_for_are_told_from_paths(url):
    with pytest.raises(gc.InputError, match=r"or a URL of hf://, s3:// or gs://, got one of \w+://$"):
        gc.read_run(url)


def test_columns_of_one_name_are_refused():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for table in (pandas.DataFrame([[1, 2]], columns=["a", "a"]), pyarrow.table([[1], [2]], names=["a", "a"])):
        with pytest.raises(gc.InputError, match="columns of different names, got 'a' more than once"):
            gc.read_run(table)


def test_an_odd_value_in_a_table_of_pandas_is_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(gc.InputError, match="table, row 2: expected a number in 'a', got 'bad'"):
        gc.read_run(pandas.DataFrame({**GROUPS, "a": [1, "bad", 2, 3]}))


# --- URLs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("hf://datasets/me/run", "hf://datasets/me/run/**/*.parquet"),
        ("hf://datasets/me/run/completions", "hf://datasets/me/run/completions/**/*.parquet"),
        ("S3://Bucket/run/completions/", "s3://Bucket/run/completions/**/*.parquet"),
        ("s3://bucket/run/completions/", "s3://bucket/run/completions/**/*.parquet"),
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
    run = gc.read_run(url)
    monkeypatch.undo()
    assert urls == [asked]
    assert (run.path, run.framework) == (url, "trl")
    report = gc.audit(run).to_dict()
    expected = gc.audit(gc.read_run(tmp_path)).to_dict()
    assert {**report, "source": 0} == {**expected, "source": 0}


def test_lines_of_json_behind_a_url_are_read_as_their_frameworks(monkeypatch, tmp_path):
    write_verl(tmp_path, steps=1)
    [path] = tmp_path.rglob("*.jsonl")
    scan = pl.scan_ndjson
    monkeypatch.setattr(pl, "scan_ndjson", lambda source, **options: scan(path, **options))
    assert figures("s3://bucket/1.jsonl") == figures(path)


def test_what_polars_says_of_a_url_is_one_line(monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError("no such host\n\nThis error occurred with the following context stack:\n 'parquet scan'")

    monkeypatch.setattr(pl, "scan_parquet", refuse)
    with pytest.raises(SystemExit) as end:
        cli.main(["audit", "hf://datasets/me/run"])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("gdpo: hf://datasets/me/run: expected a table that polars can read, got no such host This")
    assert error.count("\n") == 1


# --- in a notebook ---------------------------------------------------------------------------------------------------


def test_a_report_shows_itself_in_a_notebook():
    report = gc.audit(gc.read_run(trl("gdpo")))
    kind, html = report._mime_()
    assert (kind, html) == ("text/html", report._repr_html_())
    assert report.verdict.split(".")[0] in html
    assert all(finding.id in html for finding in report.findings)
    assert "<html" not in html


def test_the_findings_are_a_table():
    report = gc.audit(gc.read_run(trl("grpo_none")))
    table = report.findings_table()
    assert table.columns == ["id", "severity", "message", "fix"]
    assert table["id"].to_list() == [finding.id for finding in report.findings]
    assert gc.audit(gc.read_run(trl("gdpo"))).findings_table().schema == table.schema


def test_reading_files_takes_neither_narwhals_nor_a_notebook():
    code = (
        "import sys, gdpo_core as gc; gc.audit(gc.read_run(sys.argv[1]))._repr_html_(); "
        "print(sorted({'narwhals', 'marimo', 'altair', 'pandas', 'pyarrow'} & {*sys.modules}))"
    )
    run = [sys.executable, "-c", code, str(LOGS / "trl/gdpo")]
    assert subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.slow
def test_the_example_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    outputs, definitions = runpy.run_path("examples/audit.py")["app"].run()
    report = definitions["report"]
    assert report is outputs[0]
    assert outputs[1].equals(report.findings_table())
    assert report.source["framework"] == "trl"


@pytest.mark.slow
def test_the_example_shows_the_report_in_a_browser(browser):
    with served("examples/audit.py") as url:
        page = browser.new_page()
        errors = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(url)
        page.locator(".audit .verdict-line").wait_for()
        assert "GDPO as TRL computes it" in page.locator(".audit").first.inner_text()
        assert page.locator(".audit figure svg").count() > 0
        page.get_by_text("blind-zero-std-metric").last.wait_for()
        page.close()
        assert not errors
