"""The tables of W&B and of trackio are read as the Parquet files that TRL writes of the same steps."""

import json
import shutil
import sqlite3
import time
from pathlib import Path

import fake_logs
import numpy as np
import polars as pl
import pytest
from fake_logs import write_trl

import gdpo_core as gc
from gdpo_core import cli
from gdpo_core.runs import trackers

LOGS = Path(__file__).parent / "goldens" / "logs"
WANDB, TRACKIO = LOGS / "wandb/gdpo/table", LOGS / "trackio/project.db"


def figures(source, **options) -> dict:
    """A report without the path of its log."""
    report = gc.audit(gc.read_run(source, **options)).to_dict()
    del report["source"]["path"]
    return report


def write_wandb(folder: Path, frames: list[pl.DataFrame], key: str = "completions") -> Path:
    """Tables as TRL logs them through W&B: `step` is text, and a missing number is NaN."""
    folder.mkdir(parents=True, exist_ok=True)
    for n, frame in enumerate(frames):
        frame = frame.with_columns(pl.selectors.float().fill_null(float("nan"))).with_columns(
            step=pl.col("step").cast(pl.String)
        )
        content = {"columns": frame.columns, "data": [list(row) for row in frame.iter_rows()]}
        (folder / f"{key}_{n * 3}_{n:020x}.table.json").write_text(json.dumps(content))
    return folder


def write_trackio(path: Path, runs: dict[str, list[pl.DataFrame]], ids: bool = True) -> Path:
    """A database as trackio writes it; without ids, as before it had them."""
    with sqlite3.connect(path) as database:
        columns = ("run_id TEXT, " if ids else "") + "timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT"
        database.execute(f"CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
        for number, (name, frames) in enumerate(runs.items()):
            for step, frame in enumerate(frames):
                rows = [
                    {k: "NaN" if isinstance(v, float) and v != v else v for k, v in row.items()}
                    for row in frame.to_dicts()
                ]
                logged = json.dumps({"completions": {"_type": "trackio.table", "_value": rows}})
                row = ([f"id{number}"] if ids else []) + ["", name, step]
                marks = ", ".join("?" for _ in row)
                names = ("run_id, " if ids else "") + "timestamp, run_name, step, metrics"
                database.execute(f"INSERT INTO metrics ({names}) VALUES ({marks}, ?)", (*row, logged))
                database.execute(f"INSERT INTO metrics ({names}) VALUES ({marks}, ?)", (*row, '{"loss": 0.5}'))
    database.close()
    return path


def frames_of(folder: Path) -> list[pl.DataFrame]:
    return [pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))]


# --- the same report -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [WANDB, WANDB.parent, TRACKIO, TRACKIO.parent, f"{TRACKIO}::gdpo"], ids=str)
def test_a_recorded_table_has_the_report_of_the_parquet_files_of_the_same_run(source):
    assert figures(source) == figures(LOGS / "trl/gdpo")


@pytest.mark.parametrize(
    "run", ["gdpo_none", "grpo", "grpo_none", "edge_conv", "edge_dupprompts", "edge_dupnames", "edge_logging2"]
)
def test_a_table_has_the_report_of_the_parquet_files_whatever_the_run_is_like(tmp_path, run):
    frames = frames_of(LOGS / "trl" / run)
    expected = figures(LOGS / "trl" / run)
    assert figures(write_wandb(tmp_path / "run-1/files/media/table", frames)) == expected
    assert figures(write_trackio(tmp_path / "a.db", {run: frames})) == expected


@pytest.mark.parametrize(
    "made",
    [
        {"chat": True, "same_prompts": "pairs"},
        {"missing": 0.3, "steps": 12},
        {"method": "grpo", "evaluated": (2,), "steps": 8},
        {"iterations": 2},
        {"group_size": 4, "drop_rows": {3: 2}, "steps": 9},
        {"drop": ("advantage",)},
    ],
    ids=str,
)
def test_a_made_run_has_the_report_of_its_parquet_files(tmp_path, made):
    write_trl(tmp_path / "out", **made)
    frames, expected = frames_of(tmp_path / "out"), figures(tmp_path / "out")
    assert figures(write_wandb(tmp_path / "w", frames)) == expected
    assert figures(write_trackio(tmp_path / "a.db", {"a": frames})) == expected


def test_a_reward_may_be_missing_in_a_whole_step(tmp_path):
    frames = frames_of(LOGS / "trl/grpo_none")
    frames[0] = frames[0].with_columns(format_reward=pl.lit(None, pl.Float64))
    (tmp_path / "out").mkdir()
    for n, frame in enumerate(frames):
        frame.write_parquet(tmp_path / f"out/completions_{n:05}.parquet")
    expected = figures(tmp_path / "out")
    assert figures(write_wandb(tmp_path / "w", frames)) == expected
    assert figures(write_trackio(tmp_path / "a.db", {"a": frames})) == expected
    nulls = [frame.with_columns(pl.selectors.float().fill_nan(None)) for frame in frames]
    assert figures(write_trackio(tmp_path / "b.db", {"a": nulls})) == expected


def test_files_come_in_the_order_of_the_numbers_in_their_names(tmp_path):
    write_trl(tmp_path / "out", steps=12)
    frames = frames_of(tmp_path / "out")
    run = gc.read_run(write_wandb(tmp_path / "w", frames))
    assert run.table["step"].unique(maintain_order=True).to_list() == list(range(1, 13))
    assert figures(tmp_path / "w") == figures(tmp_path / "out")


def test_a_table_is_read_from_where_wandb_leaves_it(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    expected = figures(LOGS / "trl/gdpo")
    project = tmp_path / "wandb"
    write_wandb(project / "run-20261122-abc/files/media/table", frames)
    (project / "run-20261122-abc/files/wandb-summary.json").write_text("{}")
    (project / "run-20261122-abc/files/media/table/samples_1_0f.table.json").write_text("{}")
    assert figures(project) == expected
    artifacts = tmp_path / "artifacts"
    for n, table in enumerate(sorted((project / "run-20261122-abc/files/media/table").glob("completions*"))):
        (artifacts / f"run-abc-completions-v{n}").mkdir(parents=True)
        shutil.copy(table, artifacts / f"run-abc-completions-v{n}/completions.table.json")
    assert figures(artifacts) == expected
    write_wandb(project / "run-20261123-def/files/media/table", frames)
    with pytest.raises(gc.InputError, match=r"expected the log of one run, got several.*run-20261122.*run-20261123"):
        gc.read_run(project)


def test_a_table_may_be_handed_over_as_bytes():
    expected = figures(LOGS / "trl/gdpo")
    assert figures({path.name: path.read_bytes() for path in WANDB.iterdir()}) == expected
    assert figures({"project.db": TRACKIO.read_bytes()}) == expected
    assert figures({"project.db::gdpo": TRACKIO.read_bytes()}) == expected
    parquet = (LOGS / "trl/gdpo/completions/completions_00001.parquet").read_bytes()
    assert gc.read_run({"a::b.parquet": parquet}).framework == "trl"


def test_other_databases_beside_a_log_do_not_matter(tmp_path):
    write_trl(tmp_path, steps=2)
    write_trackio(tmp_path / "mlflow.db", {})
    assert gc.read_run(tmp_path).framework == "trl"


def test_the_oldest_tables_hold_the_total_alone(tmp_path):
    frames = [f.select("step", "prompt", "completion", reward="format_reward") for f in frames_of(LOGS / "trl/gdpo")]
    report = gc.audit(gc.read_run(write_wandb(tmp_path, frames), group_size=8))
    assert [finding.id for finding in report.findings if finding.severity == "error"] == ["no-components"]


# --- tables that hold a sample ---------------------------------------------------------------------------------------


def test_a_table_of_unique_prompts_shows_no_groups(tmp_path):
    frames = [frame.unique("prompt", keep="first", maintain_order=True) for frame in frames_of(LOGS / "trl/gdpo")]
    write_wandb(tmp_path, frames)
    setting = r"GRPOConfig\(log_unique_prompts=False, num_completions_to_print=None\)"
    with pytest.raises(gc.InputError, match=rf"got one response per prompt in step 1: .* log all rows with {setting}"):
        gc.read_run(tmp_path)
    for options in ({"group_size": 4}, {"group": "prompt"}):
        first = gc.audit(gc.read_run(tmp_path, **options)).findings[0]
        assert (first.id, first.severity) == ("groups-sampled", "error")
        assert "wandb_log_unique_prompts=True" in first.message
        assert first.fix.startswith("GRPOConfig(log_unique_prompts=False")


def test_a_table_of_some_rows_of_each_group_shows_no_groups(tmp_path):
    write_wandb(tmp_path, [frame.sample(7, seed=3) for frame in frames_of(LOGS / "trl/gdpo")])
    with pytest.raises(gc.InputError, match=r"got different numbers of rows: a log that holds a sample .*log_unique"):
        gc.read_run(tmp_path)


@pytest.mark.parametrize(("rows", "cut"), [(10_000, 1), (9_992, 0)])
def test_a_table_as_long_as_wandb_takes_is_probably_cut(tmp_path, rows, cut):
    write_trl(tmp_path / "out", steps=1, groups=1_252, text=1)
    [frame] = frames_of(tmp_path / "out")
    findings = gc.audit(gc.read_run(write_wandb(tmp_path / "w", [frame.head(rows)]))).findings
    sampled = [finding for finding in findings if finding.id == "groups-sampled"]
    assert [finding.evidence["tables"] for finding in sampled] == [1] * cut
    assert all("1 table of W&B has 10,000 rows" in finding.message for finding in sampled)


def test_whole_groups_are_no_sample():
    for run in ("gdpo", "edge_dupprompts", "edge_logging2", "grpo_none"):
        report = gc.audit(gc.read_run(LOGS / "trl" / run))
        assert "groups-sampled" not in [finding.id for finding in report.findings]


# --- several runs in a database --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [True, False])
def test_a_run_of_several_is_named_behind_two_colons(tmp_path, ids):
    path = tmp_path / "p.db"
    write_trackio(path, {"first": frames_of(LOGS / "trl/grpo"), "second": frames_of(LOGS / "trl/gdpo")}, ids)
    assert figures(f"{path}::second") == figures(LOGS / "trl/gdpo")
    assert figures(f"{path}::first") == figures(LOGS / "trl/grpo")
    with pytest.raises(
        gc.InputError, match=r"p\.db: expected one run, got 2, name one, as '.*p\.db::first': first and se"
    ):
        gc.read_run(path)
    with pytest.raises(gc.InputError, match=r"p\.db: expected one of the runs first and second, got 'third'"):
        gc.read_run(f"{path}::third")
    with pytest.raises(gc.InputError, match=r"expected a trackio database before ::, got another file"):
        gc.read_run(f"{LOGS / 'trl/gdpo/completions/completions_00001.parquet'}::second")


def test_runs_of_one_name_are_told_apart_by_their_ids(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    path = write_trackio(tmp_path / "p.db", {"a": frames, "b": frames})
    with sqlite3.connect(path) as database:
        database.execute("UPDATE metrics SET run_name = 'a'")
    database.close()
    with pytest.raises(gc.InputError, match=r"got 2, name one, as '.*::id0': id0 and id1"):
        gc.read_run(f"{path}::a")
    assert figures(f"{path}::id1") == figures(LOGS / "trl/gdpo")


@pytest.mark.parametrize("name", ["p.db", "p.db::run", ""])
def test_a_report_is_not_written_over_the_database_that_it_is_of(tmp_path, capsys, name):
    write_trackio(tmp_path / "p.db", {"run": frames_of(LOGS / "trl/gdpo")})
    before = (tmp_path / "p.db").read_bytes()
    with pytest.raises(SystemExit) as end:
        cli.main(["audit", str(tmp_path / name), "--json", str(tmp_path / "p.db")])
    assert end.value.code == 2
    assert "expected another file than the log" in capsys.readouterr().err
    assert (tmp_path / "p.db").read_bytes() == before


# --- bad input -------------------------------------------------------------------------------------------------------

BAD_TABLES = {
    "not a table": ("[1, 2]", r"x\.table\.json: expected a table of W&B, .* got JSON of another form \(list\)"),
    "other keys": ('{"rows": []}', r"expected a table of W&B, .* got an object with rows"),
    "cut": ('{"columns": ["step"], "data": [[1], [2', r"expected a table of W&B, .* got broken JSON"),
    "a short row": (
        '{"columns": ["step", "acc"], "data": [[1, 2], [1]]}',
        r"x\.table\.json, row 2: expected 2 values, got 1",
    ),
    "a row of another kind": ('{"columns": ["step"], "data": [1]}', r"row 1: expected 1 value, got int"),
    "columns twice": ('{"columns": ["a", "a"], "data": []}', r"columns of different names, got 'a' more than once"),
    "an odd value": (
        '{"columns": ["step", "prompt", "completion", "acc"], "data": [[1, "p", "c", 1.0], [1, "p", "c", 0],'
        ' [1, "p", "c", "bad"]]}',
        r"x\.table\.json, row 3: expected a number in 'acc', got 'bad'",
    ),
    "no rows": ('{"columns": ["step", "prompt", "completion", "acc"], "data": []}', r"expected at least one"),
    "no numbers": (
        '{"columns": ["step", "prompt", "completion"], "data": [["1", "p", "c"]]}',
        r"at least one column of numbers that is a reward, got step, prompt, completion",
    ),
    "infinite": (
        '{"columns": ["step", "prompt", "completion", "acc"], "data": [["1", "p", "c", Infinity], ["1", "p", "c", 1]]}',
        r"row 1, step 1: expected finite numbers in 'acc'",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "x.table.json").write_text(content)
    with pytest.raises(gc.InputError, match=message) as refusal:
        gc.audit(gc.read_run(tmp_path / "x.table.json", group_size=2))
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_a_table_of_200_000_rows_is_read_as_fast_as_its_json_is_parsed(tmp_path):
    draw = np.random.default_rng(0)
    rows = [
        [str(i // 4000 + 1), f"p{i // 8}", "x", float(a), float(b)]
        for i, (a, b) in enumerate(draw.integers(0, 2, (200_000, 2)))
    ]
    path = tmp_path / "x.table.json"
    path.write_text(json.dumps({"columns": ["step", "prompt", "completion", "a", "b"], "data": rows}))
    started = time.perf_counter()
    json.loads(path.read_text())
    parsed = time.perf_counter()
    run = gc.read_run(path)
    assert (run.table.height, run.group_size) == (200_000, 8)
    assert time.perf_counter() - parsed < 20 * (parsed - started)


def test_a_database_that_is_no_log_is_refused_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "p.db"

    def refused(message: str) -> None:
        with pytest.raises(gc.InputError, match=message) as refusal:
            gc.read_run(path)
        assert "\n" not in str(refusal.value)

    path.write_bytes(b"hello, this is no database")
    refused(r"p\.db: expected a trackio database, got one that cannot be read: file is not a database")
    path.write_bytes(TRACKIO.read_bytes()[:100_000])
    refused(r"p\.db: expected a trackio database, got one that cannot be read: database disk image is malformed")
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (id INTEGER)")
    refused(r"with the columns id, run_name, step, metrics in a table metrics, got the tables runs")
    database.execute("CREATE TABLE metrics (name TEXT, value REAL)")
    database.commit()
    refused(r"in a table metrics, got the columns name, value")
    database.close()
    path.unlink()
    write_trackio(path, {})
    refused(r"expected a run that logged completions, got a database without runs")
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO metrics (run_id, run_name, step, metrics) VALUES ('1', 'a', 0, '{\"loss\": 1}')")
        database.commit()
        refused(r"p\.db: expected a run that logged completions \(log_completions=True\), got one without such a table")
        database.execute("UPDATE metrics SET metrics = '{\"completions\": 1'")
        database.commit()
        refused(r"p\.db::a: expected metrics in JSON, got")
        database.execute("""UPDATE metrics SET metrics = '{"completions": {"_type": "trackio.table", "_size": 9}}'""")
        database.commit()
        refused(r"p\.db::a, table 1: expected a table of trackio, .* got an object with _type and _size")
        rows = '[{"step": 1, "a": 1}, {"step": 1}]'
        database.execute(
            f"""UPDATE metrics SET metrics = '{{"completions": {{"_type": "trackio.table", "_value": {rows}}}}}'"""
        )
        database.commit()
        refused(r"p\.db::a, table 1, row 2: expected step, a, got step")
        monkeypatch.setattr(trackers, "PATIENCE", 0.01)
        database.execute("BEGIN EXCLUSIVE")
        refused(r"p\.db: expected a trackio database, got one that another program keeps locked")
        database.rollback()
    database.close()


def test_reading_leaves_nothing_behind(tmp_path):
    shutil.copy(TRACKIO, tmp_path)
    gc.read_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["project.db"]


def test_a_database_is_read_while_its_writer_has_it_open(tmp_path):
    path = write_trackio(tmp_path / "p.db", {"run": frames_of(LOGS / "trl/gdpo")})
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("INSERT INTO metrics (run_id, run_name, step, metrics) VALUES ('id0', 'run', 9, '{}')")
        database.commit()
        assert figures(path) == figures(LOGS / "trl/gdpo")
    database.close()


def test_half_a_character_in_a_table_is_written_as_an_escape(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    expected = figures(LOGS / "trl/gdpo")
    for folder, escape in (("value", ["prompt"]), ("name", [])):
        write_wandb(tmp_path / folder, frames)
        for path in (tmp_path / folder).iterdir():
            table = json.loads(path.read_text())
            for row in table["data"]:
                for name in escape:
                    row[table["columns"].index(name)] += "\ud800"
            if not escape:
                table["columns"] = [*table["columns"], "note\ud800"]
                table["data"] = [[*row, "x"] for row in table["data"]]
            path.write_text(json.dumps(table))
    assert figures(tmp_path / "value") == expected
    assert r"note\ud800" in gc.read_run(tmp_path / "name").left_out


def test_other_bytes_than_text_in_a_database_are_refused(tmp_path):
    path = write_trackio(tmp_path / "a.db", {"a": frames_of(LOGS / "trl/gdpo")[:1]})
    with sqlite3.connect(path) as database:
        database.execute("UPDATE metrics SET metrics = ?", (b"\xffcompletions",))
    database.close()
    with pytest.raises(gc.InputError, match=r"a\.db::a: expected metrics in JSON"):
        gc.read_run(path)


def test_a_view_that_never_ends_is_no_table_of_trackio(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as database:
        endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)"
        columns = "id, 'a' AS run_name, 1 AS step, '{}' AS metrics"
        database.execute(f"CREATE VIEW metrics AS {endless} SELECT {columns} FROM n")
    database.close()
    with pytest.raises(gc.InputError, match=r"expected a trackio database, .* got metrics as a view$"):
        gc.read_run(path)


def test_a_table_of_a_framework_that_writes_lines_of_json_is_read_as_these_lines(tmp_path):
    rows = [{"input": "ab"[i // 4], "output": "x", "score": i % 2, "step": 1, "fmt": i % 3} for i in range(8)]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
    (tmp_path / "w").mkdir()
    (tmp_path / "w/completions_1_ab.table.json").write_text(json.dumps(table))
    assert gc.read_run(tmp_path / "w").framework == "verl"
    assert figures(tmp_path / "w") == figures(tmp_path / "1.jsonl")


@pytest.mark.parametrize(
    "writer",
    [fake_logs.write_verl, fake_logs.write_nemo_rl, fake_logs.write_ms_swift],
    ids=lambda writer: writer.__name__,
)
def test_the_tables_of_other_frameworks_are_read_as_their_files(tmp_path, writer):
    writer(tmp_path / "files")
    frames = []
    for path in sorted((tmp_path / "files").rglob("*.jsonl")):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        if writer is fake_logs.write_ms_swift:  # its tables have one row per response
            events = [dict(zip(e, row, strict=True)) for e in events for row in zip(*e.values(), strict=True)]
        frames.append(events)
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, metrics TEXT)")
        for step, rows in enumerate(frames):
            logged = json.dumps({"train/completions": {"_type": "trackio.table", "_value": rows}})
            database.execute("INSERT INTO metrics (run_name, step, metrics) VALUES ('a', ?, ?)", (step, logged))
    database.close()
    of_tables, of_files = figures(tmp_path / "a.db"), figures(tmp_path / "files")
    assert of_files["source"]["framework"] == writer.__name__.removeprefix("write_")
    for report in (of_tables, of_files):  # ms-swift writes one file
        del report["source"]["files"]
    assert of_tables == of_files


def test_a_step_may_be_text_of_a_float(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    floats = [frame.with_columns(pl.col("step").cast(pl.Float64)) for frame in frames]
    assert figures(write_wandb(tmp_path / "w", floats)) == figures(LOGS / "trl/gdpo")


def test_advantages_may_have_their_name_in_ms_swift(tmp_path):
    frames = [frame.rename({"advantage": "advantages"}) for frame in frames_of(LOGS / "trl/gdpo")]
    frames[0].write_parquet(tmp_path / "completions_00001.parquet")
    assert gc.audit(gc.read_run(tmp_path)).run["logged"] == len(frames[0])


# --- which tables are one run ----------------------------------------------------------------------------------------


def test_tables_of_two_runs_in_one_folder_are_refused_with_the_list(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    write_wandb(tmp_path / "w", frames)
    for n, path in enumerate(sorted((tmp_path / "w").iterdir())):
        shutil.copy(path, tmp_path / "w" / path.name.replace(f"{n:020x}", f"{n + 77:020x}"))
    message = (
        r"expected the tables of one run.*, got several of one number, .*: completions_0_0+\.table\.json, completi"
    )
    for source in (tmp_path / "w", {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()}):
        with pytest.raises(gc.InputError, match=message) as refusal:
            gc.read_run(source)
        assert "and 2 more" in str(refusal.value) and "\n" not in str(refusal.value)
    assert figures(str(tmp_path / "w/*_00000000000000000000.table.json"))["source"]["files"] == 1


def test_the_artifacts_of_two_runs_are_told_apart(tmp_path):
    [frame, *_] = frames_of(LOGS / "trl/gdpo")
    table = next(write_wandb(tmp_path / "w", [frame]).iterdir())
    for folder in ("run-abc-completions-v0", "run-abc-completions-v1", "run-def-completions-v0"):
        (tmp_path / "artifacts" / folder).mkdir(parents=True)
        shutil.copy(table, tmp_path / "artifacts" / folder / "completions.table.json")
    with pytest.raises(gc.InputError, match=r"got several, .*completions of W&B in run-abc .*; .* in run-def "):
        gc.read_run(tmp_path / "artifacts")
    assert len(gc.read_run(str(tmp_path / "artifacts/run-abc-*/*.json")).files) == 2


def test_an_evaluations_tables_are_read_where_there_are_no_others(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    write_wandb(tmp_path, frames, "completions_eval")
    assert gc.read_run(tmp_path).table["step"].n_unique() == len(frames)
    expected = figures(LOGS / "trl/gdpo")
    assert figures(write_wandb(tmp_path, frames)) == expected
    with pytest.raises(gc.InputError, match="under one key, got those of completions and completions_eval"):
        gc.read_run(sorted(tmp_path.iterdir()))


@pytest.mark.parametrize("ids", [True, False])
def test_a_run_without_a_name_can_be_chosen(tmp_path, ids):
    frames = frames_of(LOGS / "trl/gdpo")
    path = write_trackio(tmp_path / "p.db", {"": frames, "b": frames[:1]}, ids)
    with pytest.raises(gc.InputError, match=r"p.db::id0': id0 and b" if ids else r"p.db::': '' and b"):
        gc.read_run(path)
    assert figures(f"{path}::") == figures({"p.db::": path.read_bytes()}) == figures(LOGS / "trl/gdpo")


def test_a_run_can_be_named_in_the_folder_of_its_database(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    write_trackio(tmp_path / "p.db", {"a": frames, "b": frames[:1]})
    assert figures(f"{tmp_path}::a") == figures(LOGS / "trl/gdpo")
    with pytest.raises(gc.InputError, match="expected a trackio database before ::, got another file"):
        gc.read_run(f"{LOGS / 'trl/gdpo'}::a")


def test_runs_without_completions_do_not_have_to_be_told_apart(tmp_path):
    frames = frames_of(LOGS / "trl/gdpo")
    path = write_trackio(tmp_path / "p.db", {"a": frames, "b": frames})
    with sqlite3.connect(path) as database:
        database.execute("UPDATE metrics SET metrics = '{}' WHERE run_name = 'b'")
        empty = {"completions": {"_type": "trackio.table", "_value": []}}
        database.execute("UPDATE metrics SET metrics = ? WHERE metrics = '{\"loss\": 0.5}'", (json.dumps(empty),))
        database.execute("UPDATE metrics SET run_id = NULL")  # as those that were logged before there were ids
        database.commit()
    database.close()
    assert figures(path) == figures(LOGS / "trl/gdpo")
    with pytest.raises(gc.InputError, match="a run that logged completions"):
        gc.read_run(f"{path}::b")
