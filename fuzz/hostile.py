"""Hostile logs by name, and what each must get: one clear line, or a report. `python -m fuzz.hostile` measures them."""

import argparse
import bz2
import contextlib
import gzip
import io
import json
import pickle
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import psutil

REPORT = "report"
Files = dict[str, bytes]
TRL = "completions_00001.parquet"


@dataclass(frozen=True)
class Hostile:
    """A log that someone made to hurt; wanted: a pattern of the line it gets, or "report"; heavy: of many megabytes."""

    make: Callable[[], Files]
    wanted: str
    heavy: bool = False


def rows(n: int = 8, **more: object) -> pl.DataFrame:
    """A good table, with further columns of one value each."""
    frame = pl.DataFrame({"group": [i // 4 for i in range(n)], "acc": [float(i % 3) for i in range(n)]})
    return frame.with_columns(pl.lit(value).alias(name) for name, value in more.items())


def parquet(frame: pl.DataFrame, **options: object) -> bytes:
    content = io.BytesIO()
    frame.write_parquet(content, **options)
    return content.getvalue()


def in_footer(content: bytes, old: int, new: int) -> bytes:
    """A Parquet file whose footer says another number wherever it said this one."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8].replace(b"\x16" + varint(old), b"\x16" + varint(new))
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def varint(n: int) -> bytes:
    n, out = 2 * n, bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def repeat(frame: pl.DataFrame, times: int) -> bytes:
    """A small Parquet file of very many rows: the table over and over."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    table = pa.table({name: frame[name].to_list() for name in frame.columns})
    with pq.ParquetWriter(content, table.schema, compression="zstd") as writer:
        for _ in range(times):
            writer.write_table(table)
    return content.getvalue()


def long_texts(columns: int, size: int) -> bytes:
    """A small Parquet file whose zstd pages unpack to columns of a few texts of so many bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    table = {"group": pa.array([0, 0, 1, 1]), "acc": pa.array([0.0, 1.0, 1.0, 0.0])}
    texts = pa.array(["x" * size] * 4)
    table |= {f"text{i}": texts for i in range(columns)}
    pq.write_table(pa.table(table), content, compression="zstd", use_dictionary=False, write_statistics=False)
    return content.getvalue()


def zstd(size: int, times: int) -> bytes:
    import pyarrow as pa

    return pa.Codec("zstd").compress(bytes(size), asbytes=True) * times


def zip64() -> bytes:
    """A good zip whose member has its sizes as eight bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed, packed.open("a.csv", "w", force_zip64=True) as member:
        member.write(CSV)
    return content.getvalue()


def zip64_lying() -> bytes:
    """A zip whose directory says, in the eight bytes of zip64, that its member unpacks to 2⁶⁰ bytes."""
    content = zip_files(("a.csv", CSV))
    at, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entry, tail = bytearray(content[at:end]), bytearray(content[end:])
    entry[24:28] = b"\xff" * 4
    entry[30:32] = (12).to_bytes(2, "little")
    entry += b"\x01\x00\x08\x00" + (2**60).to_bytes(8, "little")
    tail[12:16] = len(entry).to_bytes(4, "little")
    return content[:at] + bytes(entry) + bytes(tail)


def long_prompt() -> bytes:
    """A small Parquet file of TRL's, whose one prompt of 1 MB stands in every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 200_000
    prompt = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array(["p" * 10**6]))
    reward = pa.array([float(i % 3) for i in range(n)])
    table = {
        "step": pa.array([1] * n),
        "prompt": prompt,
        "completion": pa.array([""] * n),
        "acc": reward,
        "advantage": reward,
    }
    content = io.BytesIO()
    pq.write_table(pa.table(table), content, compression="zstd", store_schema=False)
    return content.getvalue()


def zip_files(*members: tuple[str | zipfile.ZipInfo, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", packing) as packed:
        for name, data in members:
            packed.writestr(name, data, packing if isinstance(name, str) else None)
    return content.getvalue()


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info, target.encode()


def encrypted_zip() -> bytes:
    content = bytearray(zip_files(("a.csv", CSV)))
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + at] |= 1
    return bytes(content)


def lying_size(size: int) -> bytes:
    """A zip whose directory says another size than its member unpacks to."""
    content = bytearray(zip_files(("a.csv", CSV + b"0,1\n" * 10**6)))
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = size.to_bytes(4, "little")
    return bytes(content)


def overlapping() -> bytes:
    """A zip of which many names share the one deflated member."""
    content = zip_files(("a.csv", CSV + bytes(10**6 * 3)))
    at, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entry, tail = content[at:end], bytearray(content[end:])
    entries = b"".join(entry.replace(b"a.csv", b"%05d" % i) for i in range(2000))
    tail[8:12] = (2000).to_bytes(2, "little") * 2
    tail[12:16] = len(entries).to_bytes(4, "little")
    return content[:at] + entries + bytes(tail)


def database(*statements: str, logged: str | None = None) -> bytes:
    with closing(sqlite3.connect(":memory:")) as made:
        for statement in statements or (METRICS,):
            made.execute(statement)
        if logged is not None:
            made.execute("INSERT INTO metrics VALUES (1, 'run', 0, ?)", (logged,))
        made.commit()
        return made.serialize()


def trackio(table: Iterable[dict]) -> str:
    return json.dumps({"completions": {"_type": "trackio.table", "_value": list(table)}})


CSV = b"group,acc\n0,1\n0,0\n1,1\n1,0\n"
GOOD = [{"group": i // 4, "acc": i % 3} for i in range(8)]
METRICS = "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, metrics TEXT)"
COUNT = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, 'run' AS run_name, x AS step, "


def lines(*items: object) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in items).encode()


def csv(header: bytes, *values: bytes) -> Files:
    return {"a.csv": b"\n".join((header, *values)) + b"\n"}


def one(name: str, make: Callable[[], bytes], wanted: str, heavy: bool = False) -> Hostile:
    return Hostile(lambda: {name: make()}, wanted, heavy)


LINE = ".*expected .*, got "  # at least
HOSTILE: dict[str, Hostile] = {
    # Parquet
    "parquet: more rows than there are": one(
        "a.parquet", lambda: in_footer(parquet(rows(1000)), 1000, 8000), LINE, True
    ),
    "parquet: 2⁴⁰ rows": one("a.parquet", lambda: in_footer(parquet(rows(1000)), 1000, 2**40), LINE),
    "parquet: fewer rows than there are": one(
        "a.parquet", lambda: in_footer(parquet(rows(1000)), 1000, 40), f"{REPORT}|{LINE}"
    ),
    "parquet: a footer longer than the file": one(
        "a.parquet", lambda: parquet(rows())[:-8] + b"\xff\xff\xff\x7fPAR1", LINE
    ),
    "parquet: the footer alone": one("a.parquet", lambda: b"PAR1" + parquet(rows())[-400:], LINE),
    "parquet: cut in the middle": one("a.parquet", lambda: parquet(rows(9000))[:3000], LINE),
    "parquet: 50,000,000 equal rows in few bytes": one("a.parquet", lambda: repeat(rows(1_000_000), 50), LINE, True),
    "parquet: a prompt of 1 MB in 200,000 rows": one(TRL, long_prompt, REPORT, True),
    "parquet: zstd pages of 2 GB": one("a.parquet", lambda: long_texts(1, 500_000_000), LINE, True),
    "parquet: zstd pages of 1.6 GB in 40 columns": one("a.parquet", lambda: long_texts(40, 10_000_000), LINE, True),
    "parquet: a footer of one endless number": one(
        "a.parquet", lambda: b"PAR1" + b"\x16" + b"\x80" * 4_000_000 + (4_000_001).to_bytes(4, "little") + b"PAR1", LINE
    ),
    "parquet: 100,000 columns": one(
        "a.parquet", lambda: parquet(pl.DataFrame({f"c{i}": [1.0, 2.0] for i in range(100_000)})), LINE, True
    ),
    "parquet: 20,000 rewards": one(
        "a.parquet",
        lambda: parquet(rows(8).with_columns(pl.lit(1.0).alias(f"reward_{i}") for i in range(20_000))),
        LINE,
        True,
    ),
    "parquet: a column named with 1 MB": one("a.parquet", lambda: parquet(rows(8, **{"r" * 10**6: 1.0})), LINE),
    "parquet: dates, bytes, lists, structs": one(
        "a.parquet",
        lambda: parquet(
            rows().with_columns(
                pl.lit(0).cast(pl.Date).alias("date"),
                pl.lit(b"\xff").alias("bytes"),
                pl.concat_list("acc").alias("list"),
                pl.struct("acc", "group").alias("reward"),
                pl.col("acc").cast(pl.Decimal(38, 2)).alias("decimal"),
                pl.lit("x").cast(pl.Categorical).alias("category"),
            )
        ),
        REPORT,
    ),
    "parquet: a list in a list in a list, 60 deep": one(
        "a.parquet", lambda: parquet(rows().with_columns(deep(60).alias("reward"))), REPORT
    ),
    # CSV
    "csv: 1,000,000 columns": Hostile(
        lambda: csv(b",".join(b"c%d" % i for i in range(10**6)), b"1," * (10**6 - 1) + b"1"), LINE, True
    ),
    "csv: one line of 60 MB": Hostile(
        lambda: csv(b"group,acc,text", b"0,1," + b"x" * 60_000_000, b"0,0,y"), LINE, True
    ),
    "csv: a name of 1 MB": Hostile(lambda: csv(b"group,acc," + b"r" * 10**6, b"0,1,1", b"0,0,1"), REPORT + "|" + LINE),
    "csv: 15,000,000 lines": Hostile(lambda: csv(b"a,b", b"1,0\n" * 15_000_000), LINE, True),
    "csv: 30,000,000 empty lines": Hostile(lambda: {"a.csv": CSV + b"\n" * 60_000_000}, LINE + "|" + REPORT, True),
    "csv: NUL bytes": Hostile(lambda: csv(b"group,acc", b"0,\x001"), LINE),
    "csv: UTF-16": Hostile(lambda: {"a.csv": CSV.decode().encode("utf-16")}, LINE),
    "csv: UTF-16 without a mark": Hostile(lambda: {"a.csv": CSV.decode().encode("utf-16-be")}, LINE),
    "csv: commas that may be decimal or of thousands": Hostile(
        lambda: {"a.csv": b"group;acc\n" + b"1;1,000\n1;2,000\n" * 20}, LINE
    ),
    "csv: invalid UTF-8": Hostile(lambda: csv(b"group,acc,t", b"0,1,\xff\xfe", b"0,0,\xc3"), LINE),
    "csv: a byte-order mark": Hostile(lambda: {"a.csv": b"\xef\xbb\xbf" + CSV}, REPORT),
    "csv: 1e999 and integers of 10,000 digits": Hostile(
        lambda: csv(b"group,acc", b"0,1e999", b"0," + b"9" * 10_000, b"0,-1e999", b"0,1"), REPORT + "|" + LINE
    ),
    "csv: a quote that never ends": Hostile(lambda: csv(b"group,acc", b'0,"1', *[b"0,1"] * 200_000), LINE),
    "csv: two columns of one name": Hostile(lambda: csv(b"group,acc,acc", b"0,1,1"), LINE),
    "csv: bytes of a picture": Hostile(lambda: {"a.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 99}, LINE),
    # JSON
    "json: 100,000 brackets": one("a.json", lambda: b"[" * 100_000, LINE),
    "json: 100,000 brackets that close": one("a.json", lambda: b"[" * 100_000 + b"]" * 100_000, LINE),
    "json lines: 100,000 brackets": one("a.jsonl", lambda: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", LINE),
    "json: 20,000,000 empty lists": one("a.json", lambda: b"[" + b"[]," * 20_000_000 + b"[]]", LINE, True),
    "json: 20,000,000 empty objects": one("a.json", lambda: b"[" + b"{}," * 20_000_000 + b"{}]", LINE, True),
    "json lines: 20,000,000 empty objects": one("a.jsonl", lambda: b"{}\n" * 20_000_000, LINE, True),
    "json lines: one line of 60 MB": one(
        "a.jsonl",
        lambda: lines(*({"group": i // 2, "acc": i, "t": "x" * (60_000_000 * (i == 3))} for i in range(4))),
        REPORT + "|" + LINE,
        True,
    ),
    "json lines: a new key in each of 20,000 lines": one(
        "a.jsonl", lambda: lines(*({"group": i // 4, f"reward_{i}": 1} for i in range(20_000))), LINE, True
    ),
    "json: an integer of 10,000 digits": one(
        "a.jsonl", lambda: b'{"group":0,"acc":' + b"9" * 10_000 + b"}\n" * 4, LINE
    ),
    "json: 1e999, NaN and Infinity": one(
        "a.json",
        lambda: b'[{"group":0,"acc":1e999},{"group":0,"acc":NaN},{"group":0,"acc":-Infinity}]',
        REPORT + "|" + LINE,
    ),
    "json: half characters as names and values": one(
        "a.json", lambda: b'[{"group":"\\ud800","\\udfff":1},{"group":"\\ud800","\\udfff":0}]', REPORT + "|" + LINE
    ),
    "w&b: 100,000 brackets in a cell": one(
        "a.table.json", lambda: b'{"columns":["group","acc"],"data":[[0,' + b"[" * 100_000 + b"]]}", LINE
    ),
    "w&b: 2,000,000 columns": one(
        "a.table.json",
        lambda: json.dumps({"columns": [str(i) for i in range(2_000_000)], "data": []}).encode(),
        LINE,
        True,
    ),
    # other formats
    "a pickle": one("a.csv", lambda: pickle.dumps(Evil()), LINE),
    "a pickle named .parquet": one(TRL, lambda: pickle.dumps(Evil()), LINE),
    "numpy's npz": one("a.npz", lambda: npz(), LINE),
    "gzip of 1 GB": one("a.csv", lambda: gzip.compress(bytes(10**7)) * 100, LINE),
    "gzip, cut": one("a.csv.gz", lambda: gzip.compress(CSV * 100)[:-9], LINE),
    "gzip of a gzip": one("a.csv.gz", lambda: gzip.compress(gzip.compress(CSV * 100)), LINE),
    "gzip, its end overwritten": one("a.csv.gz", lambda: gzip.compress(CSV)[:-8] + b"12345678", LINE),
    "zstd of nothing": one("a.csv.zst", lambda: b"(\xb5/\xfd" + bytes(100), LINE),
    "bzip2 of 1 GB": one("a.csv", lambda: bz2.compress(bytes(10**7)) * 100, LINE),
    "zstd of 1 GB": one("a.jsonl.zst", lambda: zstd(10**7, 100), LINE, True),
    "zstd of 1 GB, named .csv": one("a.csv", lambda: zstd(10**7, 100), LINE, True),
    "zstd of 1 GB, named .parquet": one("a.parquet", lambda: zstd(10**7, 100), LINE, True),
    "an empty file": one("a.csv", lambda: b"", LINE),
    # zip
    "zip: 42 MB of nothing in 40 kB": one("a.zip", lambda: zip_files(("a.csv", bytes(42_000_000))), LINE),
    "zip: 900 MB of 4 members": one(
        "a.zip", lambda: zip_files(*((f"{i}.csv", noise(225_000_000)) for i in range(4))), LINE, True
    ),
    "zip: a member that says it is small": one("a.zip", lambda: lying_size(10), LINE),
    "zip: a member that says it is 4 GB": one("a.zip", lambda: lying_size(2**32 - 2), LINE),
    "zip: 2,000 names of one member": one("a.zip", overlapping, LINE),
    "zip: 30,000 members": one("a.zip", lambda: zip_files(*((f"{i}.csv", b"") for i in range(30_000))), LINE, True),
    "zip: a zip inside": one("a.zip", lambda: zip_files(("b.zip", zip_files(("a.csv", CSV)))), LINE),
    "zip: ../": one("a.zip", lambda: zip_files(("../../etc/cron.d/a.csv", CSV)), LINE),
    "zip: an absolute path": one("a.zip", lambda: zip_files(("/etc/a.csv", CSV)), LINE),
    "zip: a drive letter": one("a.zip", lambda: zip_files(("C:\\a.csv", CSV)), LINE),
    "zip: a symbolic link": one("a.zip", lambda: zip_files(link("a.csv", "/etc/passwd")), LINE),
    "zip: two of one name": one(
        "a.zip", lambda: zip_files(("a.csv", CSV), ("b.csv", CSV)).replace(b"b.csv", b"a.csv"), LINE
    ),
    "zip: encrypted": one("a.zip", encrypted_zip, LINE),
    "zip: packed with bzip2": one("a.zip", lambda: zip_files(("a.csv", CSV), packing=zipfile.ZIP_BZIP2), LINE),
    "zip: packed with lzma": one("a.zip", lambda: zip_files(("a.csv", CSV), packing=zipfile.ZIP_LZMA), LINE),
    "zip: a name of 60,000 characters": one("a.zip", lambda: zip_files((f"{'n' * 60_000}.csv", CSV)), REPORT),
    "zip: cut in the middle": one("a.zip", lambda: zip_files(("a.csv", CSV * 999))[:-40], LINE),
    "zip: zip64 where none is needed": one("a.zip", zip64, REPORT),
    "zip: a member that says, in zip64, that it is 2⁶⁰ bytes": one("a.zip", zip64_lying, LINE),
    "zip: zstd inside": one("a.zip", lambda: zip_files(("a.jsonl", zstd(10**7, 100))), LINE, True),
    # SQLite
    "sqlite: a view in place of the table": one(
        "a.db", lambda: database(f"CREATE VIEW metrics AS {COUNT} '' AS metrics FROM n"), LINE
    ),
    "sqlite: a column that is computed for ever": one("a.db", lambda: generated(), LINE),
    "sqlite: triggers": one(
        "a.db",
        lambda: database(METRICS, "CREATE TRIGGER t AFTER INSERT ON metrics BEGIN SELECT load_extension('x'); END"),
        LINE,
    ),
    "sqlite: brackets, 100,000 deep": one(
        "a.db", lambda: database(logged='{"completions":' + "[" * 100_000 + "]" * 100_000 + "}"), LINE
    ),
    "sqlite: a damaged header": one(
        "a.db", lambda: database(logged=trackio(GOOD))[:16] + b"\xff" * 84 + b"\0" * 4000, LINE
    ),
    "sqlite: 2,000,000 rows without a table": one("a.db", lambda: many_rows(2_000_000), LINE, True),
}


class Evil:
    """What must never be unpickled."""

    def __reduce__(self) -> tuple:
        return (exec, ("raise SystemExit('unpickled')",))


def npz() -> bytes:
    content = io.BytesIO()
    np.savez(content, a=np.array([Evil()], dtype=object), allow_pickle=True)
    return content.getvalue()


def noise(size: int) -> bytes:
    """Text that packs to less than a tenth."""
    lines = np.full((size // 100, 100), ord("0"), np.uint8)
    lines[:, 0] += np.random.default_rng(0).integers(0, 9, len(lines), dtype=np.uint8)
    lines[:, 1], lines[:, -1] = ord(","), ord("\n")
    return b"a,b\n" + lines.tobytes()


def deep(levels: int) -> pl.Series:
    values: object = 1.0
    for _ in range(levels):
        values = [values]
    return pl.Series("reward", [values] * 8)


def generated() -> bytes:
    """A table whose column `metrics` is an expression over a blob."""
    return database(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, "
        "metrics TEXT GENERATED ALWAYS AS (hex(zeroblob(4000))) VIRTUAL)",
        "INSERT INTO metrics VALUES (1, 'run', 0)",
    )


def many_rows(n: int) -> bytes:
    return database(
        METRICS,
        f"INSERT INTO metrics WITH RECURSIVE k(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM k WHERE x < {n}) "
        "SELECT x, 'run' || x, x, '{}' FROM k",
    )


def outcome(files: Files) -> str:
    """The line that a log gets, or "report"; any other exception goes on."""
    from gdpo_core import report
    from gdpo_core._errors import InputError
    from views.run.downloads import downloads
    from views.run.log import audit_log, read
    from views.run.samples import SAMPLES

    uploads = [type("File", (), {"name": name, "contents": content}) for name, content in files.items()]
    try:
        log = read(SAMPLES[0], uploads)
        audit = audit_log(log, None, "")
        report.front(audit)
        for _, _, content in downloads(log, audit):
            content()
    except InputError as error:
        return str(error)
    return REPORT


def fits(got: str, wanted: str) -> bool:
    """Whether a log got what it should: one line of at most 2,000 characters, or a report."""
    return re.match(wanted, got) is not None and "\n" not in got and len(got) <= 2000


def measure_hostile(name: str) -> dict:
    """What a log gets in a process that only reads it, with the seconds and megabytes that this takes."""
    with tempfile.TemporaryDirectory() as folder:
        made = _alone(f"hostile.write({name!r}, {folder!r})", 300)
        return made if "got" in made else made | _alone(f"hostile.measure({folder!r})", 300)


def _alone(call: str, most: float) -> dict:
    """What a call prints as JSON, in a process of its own."""
    try:
        command = [sys.executable, "-c", f"from fuzz import hostile; {call}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=most)
    except subprocess.TimeoutExpired:
        return {"got": "TIMEOUT", "seconds": most}
    if done.returncode or not done.stdout.strip():
        return {"got": f"EXIT {done.returncode} {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def write(name: str, folder: str) -> None:
    """Write the files of a hostile log into a folder, under numbers, and their names beside them."""
    files = HOSTILE[name].make()
    for number, content in enumerate(files.values()):
        Path(folder, str(number)).write_bytes(content)
    Path(folder, "names.json").write_text(json.dumps(list(files)))
    print(json.dumps({"size": sum(map(len, files.values())) / 1e6}))


def measure(folder: str) -> None:
    """Print what reading the files in a folder gives and takes."""
    import views.run  # noqa: F401  what a server has loaded by then
    from gdpo_core import report  # noqa: F401

    names = json.loads(Path(folder, "names.json").read_text())
    files = {name: Path(folder, str(number)).read_bytes() for number, name in enumerate(names)}
    outcome({"a.csv": b"group,acc\n0,1\n0,0\n"})  # starts the process that workers are forked from
    done, peak = threading.Event(), [0]

    def watch() -> None:
        while not done.wait(0.01):
            workers = psutil.Process().children(recursive=True)
            with contextlib.suppress(psutil.Error):
                peak.append(max((one.memory_info().rss for one in workers), default=0))

    watching, began = threading.Thread(target=watch), time.monotonic()
    watching.start()
    before = psutil.Process().memory_info().rss
    got = outcome(files)
    own = psutil.Process().memory_info().rss - before
    done.set()
    watching.join()
    seconds = time.monotonic() - began
    print(json.dumps({"got": got, "seconds": seconds, "worker": max(peak) / 1e6, "server": own / 1e6}))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; by default the heavy ones, not in `make test`")
    names = parser.parse_args().names
    bad = 0
    print("| log | MB | s | MB of its process | more MB of the server | what it gets |\n|---|--:|--:|--:|--:|---|")
    for name, hostile in HOSTILE.items():
        if not (any(part in name for part in names) if names else hostile.heavy):
            continue
        m = {"size": 0.0, "seconds": 0.0, "worker": 0.0, "server": 0.0} | measure_hostile(name)
        good = fits(m["got"], hostile.wanted)
        bad += not good
        got = f"{'' if good else '**BAD** '}{m['got'][:150]}"
        figures = f"{m['size']:.1f} | {m['seconds']:.2f} | {m['worker']:.0f} | {m['server']:.0f}"
        print(f"| {name} | {figures} | {got} |", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
