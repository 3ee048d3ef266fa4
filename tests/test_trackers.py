"""Tables of W&B and of trackio are read like the Parquet files that TRL writes of the same steps."""

import json
import shutil
import sqlite3
from functools import cache

import fake_logs
import pytest
from logs import LOGS, figures, frames_of, refused, write_trackio, write_wandb

import gdpo_audit as ga
from gdpo_audit.logs.tables import trackers

WANDB, TRACKIO = LOGS / "wandb/gdpo/table", LOGS / "trackio/project.db"
PARQUET = LOGS / "trl/gdpo/completions/completions_00001.parquet"
GDPO = frames_of(LOGS / "trl/gdpo")


@cache
def expected(run="gdpo"):
    return figures(LOGS / "trl" / run)


def in_database(path, *statements) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(*((statement,) if isinstance(statement, str) else statement))
    database.close()


# --- the same report -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [WANDB, WANDB.parent, TRACKIO, TRACKIO.parent, f"{TRACKIO}::gdpo"], ids=str)
def test_a_recorded_table_has_the_report_of_the_parquet_files_of_the_same_run(source):
    assert figures(source) == expected()


def test_a_table_is_read_from_where_wandb_leaves_it(tmp_path):
    project, inside = tmp_path / "wandb", "files/media/table"
    tables = write_wandb(project / "run-20261122-abc" / inside, GDPO)
    (tables / "samples_1_0f.table.json").write_text("{}")
    (tables.parents[1] / "wandb-summary.json").write_text("{}")
    assert figures(project) == expected()
    for n, table in enumerate(sorted(tables.glob("completions*"))):
        (tmp_path / f"artifacts/run-abc-completions-v{n}").mkdir(parents=True)
        shutil.copy(table, tmp_path / f"artifacts/run-abc-completions-v{n}/completions.table.json")
    assert figures(tmp_path / "artifacts") == expected()
    write_wandb(project / "run-20261123-def" / inside, GDPO)
    refused(project, "expected the log of one run, got several.*run-20261122.*run-20261123")


@pytest.mark.parametrize("framework", ["verl", "nemo_rl", "ms_swift"])
def test_the_tables_of_other_frameworks_are_read_as_their_files(tmp_path, framework):
    getattr(fake_logs, f"write_{framework}")(tmp_path / "files")
    frames = []
    for path in sorted((tmp_path / "files").rglob("*.jsonl")):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        if framework == "ms_swift":  # The tables of ms-swift have one row per response.
            events = [dict(zip(e, row, strict=True)) for e in events for row in zip(*e.values(), strict=True)]
        frames.append(events)
    of_tables = figures(write_trackio(tmp_path / "a.db", {"a": frames}, False, "train/completions"), "files")
    assert of_tables == figures(tmp_path / "files", "files") and of_tables["source"]["framework"] == framework


# --- tables that hold a sample ---------------------------------------------------------------------------------------


def test_a_table_of_unique_prompts_shows_no_groups(tmp_path):
    write_wandb(tmp_path, [frame.unique("prompt", keep="first", maintain_order=True) for frame in GDPO])
    setting = r"GRPOConfig\(log_unique_prompts=False, num_completions_to_print=None\)"
    refused(tmp_path, rf"a sample or shuffled; log all rows, with {setting}")
    for options in ({"group_size": 4}, {"group": "prompt"}):
        first = ga.audit(ga.read_run(tmp_path, **options)).findings[0]
        assert (first.id, first.severity) == ("groups-sampled", "error")
        assert "wandb_log_unique_prompts=True" in first.message
        assert first.fix.startswith("GRPOConfig(log_unique_prompts=False")


def test_a_table_of_some_rows_of_each_group_shows_no_groups(tmp_path):
    write_wandb(tmp_path, [frame.sample(7, seed=3) for frame in GDPO])
    refused(tmp_path, "a sample or shuffled; .*log_unique")


# --- which tables are one run ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ids", [True, False])
def test_a_run_of_several_is_named_behind_two_colons(tmp_path, ids):
    path = write_trackio(tmp_path / "p.db", {"first": frames_of(LOGS / "trl/grpo"), "second": GDPO}, ids)
    assert figures(f"{path}::second") == figures(f"{tmp_path}::second") == expected()
    assert figures(f"{path}::first") == expected("grpo")
    refused(path, r"p\.db: expected one run, got 2, name one, as '.*p\.db::first': first and se")
    refused(f"{path}::third", r"p\.db: expected one of the runs first and second, got 'third'")
    for other in (PARQUET, LOGS / "trl/gdpo"):
        refused(f"{other}::second", "expected a trackio database before ::, got another file")


def test_tables_of_two_runs_in_one_folder_are_refused_with_the_list(tmp_path):
    for n, path in enumerate(sorted(write_wandb(tmp_path, GDPO).iterdir())):
        shutil.copy(path, tmp_path / path.name.replace(f"{n:020x}", f"{n + 77:020x}"))
    message = r"expected the tables of one run.*, got several of one number, .*: completions_0_0+\.table\.json, com"
    for source in (tmp_path, {path.name: path.read_bytes() for path in tmp_path.iterdir()}):
        assert "and 2 more" in refused(source, message)
    assert len(ga.read_run(str(tmp_path / "*_00000000000000000000.table.json")).files) == 1


# --- databases -------------------------------------------------------------------------------------------------------


def raw(content: bytes):
    return lambda path: path.write_bytes(content)


def made(*statements):
    return lambda path: in_database(path, *statements)


def logged(*metrics):
    into = "INSERT INTO metrics (run_id, run_name, step, metrics) VALUES ('1', 'a', 0, ?)"
    return lambda path: in_database(write_trackio(path, {}), *((into, (one,)) for one in metrics))


TABLE = '{"completions": {"_type": "trackio.table", %s}}'
NO_LOGS = [
    (raw(b"hello, this is no database"), "got one that cannot be read: file is not a database"),
    (raw(TRACKIO.read_bytes()[:100_000]), "got one that cannot be read: database disk image is malformed"),
    (made("CREATE TABLE runs (id INT)"), "columns id, run_name, step, metrics in a table metrics, got no such table"),
    (made("CREATE TABLE metrics (name TEXT, value REAL)"), "in a table metrics, got the columns name, value"),
    (logged(), "expected a run that logged completions, got a database without runs"),
    (logged('{"loss": 1}'), r"a run that logged completions \(log_completions=True\), got one without such a table"),
    (logged('{"completions": 1'), "::a, table 1: expected metrics in JSON, got"),
    (logged(b"\xffcompletions"), "::a, table 1: expected metrics in JSON"),
    (logged(TABLE % '"_size": 9'), "table 1: expected a table of trackio, .* got one of another form"),
    (logged(TABLE % '"_value": [{"step": 1, "a": 1}, {"step": 1}]'), "a, table 1, row 2: expected step, a, got step"),
]


def test_a_database_that_is_no_log_is_refused_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "p.db"
    for write, message in NO_LOGS:
        path.unlink(missing_ok=True)
        write(path)
        refused(path, rf"p\.db.*{message}")
    monkeypatch.setattr(trackers, "PATIENCE", 0.01)
    with sqlite3.connect(path) as database:
        database.execute("BEGIN EXCLUSIVE")
        refused(path, r"p\.db: expected a trackio database, got one that another program keeps locked")
        database.rollback()
    database.close()


def test_reading_leaves_nothing_behind(tmp_path):
    shutil.copy(TRACKIO, tmp_path)
    ga.read_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["project.db"]


def test_a_database_is_read_while_its_writer_has_it_open(tmp_path):
    path = write_trackio(tmp_path / "p.db", {"run": GDPO})
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("INSERT INTO metrics (run_id, run_name, step, metrics) VALUES ('id0', 'run', 9, '{}')")
        database.commit()
        assert figures(path) == expected()
    database.close()
