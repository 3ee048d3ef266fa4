"""All the ways by which a stranger's bytes come in, as functions. Each returns or raises InputError; anything else that
it raises is a finding.

There is none for Parquet files: on one that is damaged on purpose polars ends the whole process, which is why
views/server/worker.py reads in a process of its own.
"""

import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs

import polars as pl

from gdpo_audit import audit, report
from gdpo_audit.command.annotations import annotations
from gdpo_audit.command.check_command import show_check
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.printing import terminal
from gdpo_core.checking.check import check_config
from gdpo_core.shared.errors import InputError
from views.widgets.address import read_address, write_address

ROOT = Path(__file__).resolve().parents[2]
SAMPLES, TRACES = ROOT / "data" / "samples", ROOT / "tests/goldens/logs/verifiers/traces.jsonl"
NAMES = ("pasted", "a.yaml", "a.json", "a.sh", "a.py", "a.ipynb")
TEXTS = ("a.csv", "a.tsv", "a.json", "a.jsonl", "a.table.json", "a")  # chosen by the first byte


def audit_bytes(files: dict[str, bytes]) -> None:
    """Read and audit a log as the page and the command line do, with every form of report. files: content by name."""
    run = read_run(files)
    found = audit(run)
    json.dumps(found.to_dict(), allow_nan=False)
    report.document(found)
    terminal.print_reports([found], io.StringIO())


def text(data: bytes) -> None:
    """Audit a text file: CSV, TSV, JSON, JSON lines, a table of W&B, or a file whose name says nothing. The first byte
    says which.
    """
    audit_bytes({TEXTS[data[0] % len(TEXTS)]: data[1:]})


def sqlite(data: bytes) -> None:
    """Audit a damaged database of trackio."""
    audit_bytes({"project.db": data})


def trackio(data: bytes) -> None:
    """Audit a sound database of trackio in which the bytes are what a run logged."""
    audit_bytes({"project.db": database(data.decode("utf-8", "replace"))})


def archive(data: bytes) -> None:
    """Audit a damaged zip."""
    audit_bytes({"run.zip": data})


def link(data: bytes) -> None:
    """Read the query string of a link. What was read has to be read again unchanged once it is written to a link."""
    values, _ = read_address(parse_qs(data.decode("utf-8", "replace"), keep_blank_values=True))
    again, refused = read_address({key: text for key, text in write_address(values, {}).items() if text})
    assert not refused and all(again[key] == values[key] for key in again), refused


def configuration(data: bytes) -> None:
    """Check a configuration, pasted or in a file; the first byte says which."""
    check = check_config({NAMES[data[0] % len(NAMES)]: data[1:].decode("utf-8", "replace")})
    json.dumps(check.to_dict(), allow_nan=False)
    show_check(check, None, io.StringIO())
    assert all(len(line.splitlines()) == 1 for line in annotations(check))


DOORS = (text, sqlite, trackio, archive, link, configuration)
TARGETS: dict[str, Callable[[bytes], None]] = {f.__name__: f for f in DOORS}


def expect_refusal(target: Callable[[bytes], None], data: bytes) -> bool:
    """Return whether the target refused the bytes, in one line."""
    try:
        target(data)
    except InputError as error:
        assert "\n" not in str(error) and 0 < len(str(error)) < 5000, f"no line: {str(error)[:200]!r}"
        return True
    return False


# --- what the fuzzers begin with -------------------------------------------------------------------------------------


def seeds(name: str) -> Iterator[bytes]:
    """Yield real samples for the fuzzer to begin with, in the form that a target takes. name: of the target."""
    frames = [pl.read_parquet(path).head(16) for path in sorted(SAMPLES.rglob("*.parquet"))]
    if name == "archive":
        yield (SAMPLES / "published_answers.zip").read_bytes()
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w", method) as packed:
                packed.writestr("run/completions/completions_00001.parquet", write_file(frames[0]))
                packed.writestr("run/args.json", '{"num_generations": 8}')
            yield content.getvalue()
    elif name == "text":
        for path in SAMPLES.rglob("*.jsonl"):
            yield b"\x03" + path.read_bytes()
        for frame in frames:
            plain = frame.select(pl.exclude(pl.List, pl.Struct))
            rows = plain.rows()
            table = {"columns": plain.columns, "data": rows}
            texts = (plain.write_csv(), plain.write_csv(separator="\t"), json.dumps(plain.rows(named=True)))
            texts += (plain.write_ndjson(), json.dumps(table, default=str), plain.write_ndjson())
            yield from (bytes([kind]) + text.encode() for kind, text in enumerate(texts))
            yield b"\x00" + plain.write_csv(separator=";").replace(".", ",").encode()
            yield b"\x05" + gzip.compress(plain.write_ndjson().encode())
        yield b"\x03" + b"".join(TRACES.read_bytes().splitlines(keepends=True)[:8])
    elif name == "configuration":
        places = {Path(name).suffix: k for k, name in enumerate(NAMES)}
        for path in sorted((ROOT / "tests/configs").glob("*/*.[psy]*")):
            yield bytes([places.get(path.suffix, 0)]) + path.read_bytes()
            yield b"\x00" + path.read_bytes()
    elif name in ("trackio", "sqlite"):
        for frame in frames:
            rows = [dict(row, step=i) for i, row in enumerate(frame.rows(named=True))]
            logged = json.dumps({"completions": {"_type": "trackio.table", "_value": rows}}, default=str)
            yield logged.encode() if name == "trackio" else database(logged)
    else:
        yield b"v=1&at=lab&lab-pays=1_10_1000&lab-weights=1_0.5_2&lab-marks=101.011.111"
        yield b"&".join(f"{key}=1".encode() for key in ("lab-task", "train-start", "evidence-draw", "run-weights"))


def write_file(frame: pl.DataFrame) -> bytes:
    """Return a table as an uncompressed Parquet file, in which a fuzzer can reach the values."""
    content = io.BytesIO()
    frame.write_parquet(content, compression="uncompressed")
    return content.getvalue()


METRICS = "id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, metrics TEXT"


def database(logged: str, columns: str = METRICS) -> bytes:
    """Return a database of trackio with one run that logged this text; with other columns than `METRICS`, of a run that
    logged nothing.
    """
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute(f"CREATE TABLE metrics ({columns})")
        if columns == METRICS:
            made.execute("INSERT INTO metrics VALUES (1, 'run', 0, ?)", (logged,))
        else:
            made.execute("INSERT INTO metrics VALUES (1, 'run', 0)")
        made.commit()
        return made.serialize()
