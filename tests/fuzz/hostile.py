"""Hostile logs, each a file, by a name that says what is wrong with them. A log of `LINES` has to get a single clear
line in return, one of `REPORTS` a report, and one of `EITHER` one of the two.

Files that are made to fill the memory are bounded by the limits of views/server/worker.py; three of that kind are here.
"""

import bz2
import gzip
import io
import pickle
import re
import zipfile
from collections.abc import Callable

import polars as pl

from tests.fuzz.targets import METRICS, database

REPORT = "report"
CSV = b"group,acc\n0,1\n0,0\n1,1\n1,0\n"
GOOD = pl.DataFrame({"group": [0, 0, 1, 1], "acc": [1.0, 0.0, 1.0, 0.0]})
COMPUTED = METRICS + " GENERATED ALWAYS AS (hex(zeroblob(4000))) VIRTUAL"


class Evil:
    """An object that must never be unpickled."""

    def __reduce__(self) -> tuple:
        return (exec, ("raise SystemExit('unpickled')",))


def parquet(frame: pl.DataFrame = GOOD) -> bytes:
    """Return a table as a Parquet file."""
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def packed(*members: tuple[str | zipfile.ZipInfo, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of these files, each given by its name and content."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", packing) as made:
        for name, data in members:
            made.writestr(name, data, packing if isinstance(name, str) else None)
    return content.getvalue()


def in_directory(offset: int, value: bytes, content: bytes = CSV + b"0,1\n" * 10**6) -> bytes:
    """Return a zip whose directory says something untrue about the one file in it. offset, value: the bytes of the
    directory's entry that are replaced.
    """
    made = bytearray(packed(("a.csv", content)))
    at = made.index(b"PK\x01\x02") + offset
    made[at : at + len(value)] = value
    return bytes(made)


def link() -> bytes:
    """Return a zip with a symbolic link in it."""
    info = zipfile.ZipInfo("a.csv")
    info.external_attr = 0o120777 << 16
    return packed((info, b"/etc/passwd"))


def brackets(before: bytes, after: bytes = b"", n: int = 100_000) -> bytes:
    """Return n opening and n closing brackets, with bytes before and after them."""
    return before + b"[" * n + b"]" * n + after


def deep(depth: int = 60) -> bytes:
    """Return a Parquet file in which a reward is a number inside so many lists."""
    values: object = 1.0
    for _ in range(depth):
        values = [values]
    return parquet(GOOD.with_columns(pl.Series("reward", [values] * 4)))


# The file's name and what makes it.
Case = tuple[str, Callable[[], bytes]]
LINES: dict[str, Case] = {
    "parquet: a footer longer than the file": ("a.parquet", lambda: parquet()[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "parquet: cut in the middle": ("a.parquet", lambda: parquet()[:300]),
    "csv: NUL bytes": ("a.csv", lambda: b"group,acc\n0,\x001\n"),
    "csv: UTF-16 without a mark": ("a.csv", lambda: CSV.decode().encode("utf-16-be")),
    "csv: invalid UTF-8": ("a.csv", lambda: b"group,acc,t\n0,1,\xff\xfe\n0,0,\xc3\n"),
    "csv: a quote that never ends": ("a.csv", lambda: b'group,acc\n0,"1\n' + b"0,1\n" * 200_000),
    "csv: two columns of one name": ("a.csv", lambda: b"group,acc,acc\n0,1,1\n"),
    "csv: bytes of a picture": ("a.csv", lambda: b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 99),
    "csv: nothing": ("a.csv", lambda: b""),
    "json: brackets": ("a.json", lambda: brackets(b"")),
    "json lines: brackets": ("a.jsonl", lambda: brackets(b'{"a":', b"}\n")),
    "json: an integer of 10,000 digits": ("a.jsonl", lambda: b'{"group":0,"acc":' + b"9" * 10_000 + b"}\n" * 4),
    "w&b: brackets in a cell": ("a.table.json", lambda: brackets(b'{"columns":["group","acc"],"data":[[0,', b"]]}")),
    "a pickle": ("completions_00001.parquet", lambda: pickle.dumps(Evil())),
    "gzip of 1 GB": ("a.csv", lambda: gzip.compress(bytes(10**7)) * 100),
    "gzip, cut": ("a.csv.gz", lambda: gzip.compress(CSV * 100)[:-9]),
    "gzip of a gzip": ("a.csv.gz", lambda: gzip.compress(gzip.compress(CSV * 100))),
    "bzip2 of 1 GB": ("a.csv", lambda: bz2.compress(bytes(10**7)) * 100),
    "zip: 42 MB of nothing in 40 kB": ("a.zip", lambda: packed(("a.csv", bytes(42_000_000)))),
    "zip: a member that says it is small": ("a.zip", lambda: in_directory(24, (10).to_bytes(4, "little"))),
    "zip: a member that says it is 4 GB": ("a.zip", lambda: in_directory(24, b"\xfe\xff\xff\xff")),
    "zip: encrypted": ("a.zip", lambda: in_directory(8, b"\x01", CSV)),
    "zip: a zip inside": ("a.zip", lambda: packed(("b.zip", packed(("a.csv", CSV))))),
    "zip: ../": ("a.zip", lambda: packed(("../../etc/cron.d/a.csv", CSV))),
    "zip: an absolute path": ("a.zip", lambda: packed(("/etc/a.csv", CSV))),
    "zip: a symbolic link": ("a.zip", link),
    "zip: two of one name": ("a.zip", lambda: packed(("a.csv", CSV), ("b.csv", CSV)).replace(b"b.csv", b"a.csv")),
    "zip: packed with lzma": ("a.zip", lambda: packed(("a.csv", CSV), packing=zipfile.ZIP_LZMA)),
    "zip: cut in the middle": ("a.zip", lambda: packed(("a.csv", CSV * 999))[:-40]),
    "sqlite: a column that is computed": ("a.db", lambda: database("{}", COMPUTED)),
    "sqlite: brackets": ("a.db", lambda: database(brackets(b'{"completions":', b"}").decode())),
    "sqlite: a damaged header": ("a.db", lambda: database("{}")[:16] + b"\xff" * 84 + b"\0" * 4000),
}
REPORTS: dict[str, Case] = {
    "parquet: a list in a list in a list": ("a.parquet", deep),
    "csv: a byte-order mark": ("a.csv", lambda: b"\xef\xbb\xbf" + CSV),
    "zip: a name of 60,000 characters": ("a.zip", lambda: packed((f"{'n' * 60_000}.csv", CSV))),
}
EITHER: dict[str, Case] = {
    "csv: 1e999 and integers of 10,000 digits": (
        "a.csv",
        lambda: b"group,acc\n0,1e999\n0," + b"9" * 10_000 + b"\n0,1\n",
    ),
    "json: 1e999, NaN and Infinity": ("a.json", lambda: b'[{"group":0,"acc":1e999},{"group":0,"acc":NaN}]'),
    "json: half characters": ("a.json", lambda: b'[{"group":"\\ud800","\\udfff":1},{"group":"\\ud800","\\udfff":0}]'),
}


def outcome(files: dict[str, bytes]) -> str:
    """Return the line with which the page refuses a log, or `REPORT` if it makes one. Any other exception is raised."""
    from gdpo_audit import report
    from gdpo_core.shared.errors import InputError
    from views.chapters.run.downloads import downloads
    from views.chapters.run.log import audit_log, read_log

    uploads = [type("File", (), {"name": name, "contents": content}) for name, content in files.items()]
    try:
        log = read_log(None, uploads)
        audit = audit_log(log, None, "")
        report.front(audit)
        for _, _, content in downloads(log, audit):
            content()
    except InputError as error:
        return str(error)
    return REPORT


def is_line(got: str) -> bool:
    """Return whether a refusal is one line of at most 2,000 characters that says what was expected."""
    return re.match(".*expected .*, got ", got) is not None and "\n" not in got and len(got) <= 2000
