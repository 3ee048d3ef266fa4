"""Small logs of any form, in memory and on disk, and helpers that compare what the reader and the command line make of
them.
"""

import io
import json
import sqlite3
import zipfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from fake_logs import generic_frame, make_steps
from helpers import nearly

import gdpo_audit as ga
import gdpo_cli
import gdpo_core as gc
from gdpo_audit.logs.names import with_bare_names

LOGS = Path(__file__).parent / "goldens" / "logs"
NAMES = ("accuracy", "format", "length_penalty")
VERL = {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 7, "acc": 1.0}  # a line of its dump
# This is an event of ms-swift's log.
EVENT = {"step": ["1"] * 2, "prompt": ["a"] * 2, "completion": ["x", "y"], "acc": [1.0, 0.0], "advantages": [1.0, -1.0]}

# --- forms of files --------------------------------------------------------------------------------------------------


def lines(*items) -> bytes:
    """Return lines of JSON as bytes; an item that is text becomes a line as it stands."""
    return "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items).encode()


def parquet(frame: pl.DataFrame) -> bytes:
    """Return a table as a Parquet file."""
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def in_form(kind: str, frame: pl.DataFrame) -> bytes:
    """Return a table as the bytes of a file of this kind. NaN is empty in CSV, and is left out of JSON. kind: parquet,
    csv, tsv, json, or anything else for lines of JSON.
    """
    if kind == "parquet":
        return parquet(frame)
    if kind in ("csv", "tsv"):
        return frame.write_csv(separator="\t" if kind == "tsv" else ",").replace("NaN", "").encode()
    items = [{name: value for name, value in row.items() if value == value} for row in frame.to_dicts()]
    return json.dumps(items).encode() if kind == "json" else lines(*items)


def zip_of(members: Mapping[str, bytes], **changes) -> bytes:
    """Return a zip of these files, by name. changes: attributes to set on the entry of each."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            for key, value in {"compress_type": zipfile.ZIP_DEFLATED, **changes}.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return content.getvalue()


def zip_of_folder(folder: Path, within: str = "") -> bytes:
    """Return a zip of all files in a folder. within: what stands before their names."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return zip_of({within + path.relative_to(folder).as_posix(): path.read_bytes() for path in files})


# --- rows ------------------------------------------------------------------------------------------------------------


def rows(n: int, **columns) -> list[dict]:
    """Return n rows in groups of 4, each with a reward. columns: further ones, each as a function of the row's
    index.
    """
    return [
        {"group": i // 4, "acc": float(i % 3)} | {name: value(i) for name, value in columns.items()} for i in range(n)
    ]


def table(n: int, **columns) -> pl.DataFrame:
    """Return n rows in groups of 4 as a table, each with a reward. columns: further ones, each as a function of the
    row's index.
    """
    return pl.DataFrame(rows(n, **columns), infer_schema_length=None)


def trl(**columns) -> bytes:
    """Return a Parquet file of one step of TRL. columns: values of columns to replace or add; None for one to leave
    out.
    """
    frame = generic_frame(make_steps(1), NAMES).rename({"group": "prompt"}).with_columns(completion=pl.lit("x"))
    frame = frame.with_columns(**{name: value for name, value in columns.items() if value is not None})
    return parquet(frame.drop(name for name, value in columns.items() if value is None))


def frames_of(folder: Path) -> list[pl.DataFrame]:
    """Return the tables in all Parquet files of a folder."""
    return [pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))]


# --- tables of trackers ----------------------------------------------------------------------------------------------


def write_wandb(folder: Path, frames: list[pl.DataFrame], key: str = "completions") -> Path:
    """Write tables as TRL logs them through W&B, where `step` is text and a missing number is NaN; return the
    folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for n, frame in enumerate(frames):
        frame = frame.with_columns(pl.selectors.float().fill_null(float("nan"))).with_columns(
            step=pl.col("step").cast(pl.String)
        )
        content = {"columns": frame.columns, "data": [list(row) for row in frame.iter_rows()]}
        (folder / f"{key}_{n * 3}_{n:020x}.table.json").write_text(json.dumps(content))
    return folder


def write_trackio(path: Path, runs: Mapping[str, list], ids: bool = True, key: str = "completions") -> Path:
    """Write a database as trackio does, and return its path. runs: by name, a table or a list of rows per step; ids:
    whether runs have ids, which older versions lacked.
    """
    with sqlite3.connect(path) as database:
        columns = ("run_id TEXT, " if ids else "") + "timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT"
        database.execute(f"CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
        for number, (name, frames) in enumerate(runs.items()):
            for step, frame in enumerate(frames):
                items = frame.to_dicts() if isinstance(frame, pl.DataFrame) else frame
                items = [
                    {k: "NaN" if isinstance(v, float) and v != v else v for k, v in item.items()} for item in items
                ]
                logged = json.dumps({key: {"_type": "trackio.table", "_value": items}})
                row = [f"id{number}"] * ids + ["", name, step]
                into = f"INSERT INTO metrics ({'run_id, ' * ids}timestamp, run_name, step, metrics)"
                for metrics in (logged, '{"loss": 0.5}'):
                    database.execute(f"{into} VALUES ({', '.join('?' for _ in row)}, ?)", (*row, metrics))
    database.close()
    return path


# --- what is said of them --------------------------------------------------------------------------------------------


def issues(run: ga.Run) -> dict:
    """Return the details of the issues that reading noted, by id."""
    return {issue.id: issue.details for issue in run.issues}


def assert_reads(run: ga.Run, expected: Mapping) -> None:
    """Assert that a run has these values: each name is an attribute of the run, or else a column of its table; `issues`
    are details by id.
    """
    whole = with_bare_names(pl.concat(list(run.tables())))
    for name, value in expected.items():
        got = getattr(run, name) if hasattr(run, name) else whole[name].to_list()
        got = issues(run) if name == "issues" else got
        assert got == nearly(value), f"{name}: {got}"


def refused(source, message: str, **options) -> str:
    """Return the one line by which reading a log, or its tables, refuses it. message: a pattern that has to be in it;
    options: those of `read_run`.
    """
    with pytest.raises(gc.InputError, match=message) as refusal:
        for _ in ga.read_run(source, **options).tables():
            pass
    text = str(refusal.value)
    assert "\n" not in text and len(text) < 1000
    return text


def figures(source, *without: str, **options) -> dict:
    """Return a report as a dict, without the path of the log and without some members of its `source`. without: the
    names of these; options: those of `read_run`.
    """
    report = ga.audit(ga.read_run(source, **options)).to_dict()
    return report | {"source": {k: v for k, v in report["source"].items() if k not in ("path", *without)}}


def found(report: ga.AuditReport) -> dict:
    """Return the findings of a report by id."""
    return {finding.id: finding for finding in report.findings}


def gdpo(capsys, *arguments) -> tuple[int, str, str]:
    """Return the exit status of `gdpo` with these arguments, its output, and what it prints as errors."""
    with pytest.raises(SystemExit) as stopped:
        gdpo_cli.main([*map(str, arguments)])
    printed = capsys.readouterr()
    return stopped.value.code, printed.out, printed.err


def audit_cli(capsys, *arguments) -> tuple[int, str, str]:
    """Return the exit status of `gdpo audit` with these arguments, its output, and what it prints as errors."""
    return gdpo(capsys, "audit", *arguments)


# --- episodes of verifiers -------------------------------------------------------------------------------------------


def reward(score, weight=1.0) -> dict:
    """Return a reward as verifiers logs it."""
    return {"score": score, "weight": weight}


def trace(rewards, metrics=None, advantages=None, agent="solver", trainable=True) -> dict:
    """Return a trace of an episode as verifiers logs it. advantages: per token."""
    nodes = [{"message": {"role": "user"}}, {"message": {"role": "assistant"}, "advantages": advantages}]
    agent = {"name": agent, "trainable": trainable, "config": {}}
    return {"agent": agent, "nodes": nodes, "rewards": rewards, "metrics": metrics or {}}


def episode(traces, step=None, group=None, work="train", task="t") -> dict:
    """Return an episode as verifiers logs it, with these traces."""
    run = {} if step is None else {"run": {"type": "train", "id": "r", "work": {"type": work, "step": step}}}
    group = {} if group is None else {"group": {"id": group}}
    return {"id": "e", "task": {"type": "T", "data": {"idx": 0}, "key": task}, "traces": traces, **run, **group}


def episodes(change=lambda number, one: None, **rewards) -> dict[str, bytes]:
    """Return a log of verifiers with two groups of four episodes in each of two steps. change: changes an episode,
    given its number and itself; rewards: further ones of each episode.
    """
    made = [
        episode([trace({"right": reward(float(i % 2)), "short": reward(i / 4, 0.5)} | rewards)], step, f"{step}{g}")
        for step in (1, 2)
        for g in "ab"
        for i in range(4)
    ]
    for number, one in enumerate(made):
        change(number, one)
    return {"traces.jsonl": lines(*made)}
