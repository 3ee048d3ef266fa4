"""The files of a report that a reader can download: HTML, JSON, and a table of the responses."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping

import polars as pl

from gdpo_audit import report as reports
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.audit_report import AuditReport
from views.chapters.run.log import Log
from views.server import worker

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")  # the start of a text that a spreadsheet takes for a formula


def downloads(log: Log, report: AuditReport) -> list[tuple[str, str, Callable[[], bytes]]]:
    """Return a tuple for each file to download: its label, its name, and a function that returns its content."""
    # The file of a sample says where the sample comes from; the reader knows that of an upload.
    note = log.sample.source_note.replace("**", "") if log.sample else ""

    def as_json() -> bytes:
        content = report.to_dict() | ({"note": note} if note else {})
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode()

    def table() -> bytes:
        return worker.call(of_log, log.files, dict(log.how)) if log.files else to_csv(log.run.table)

    return [
        ("Report (HTML)", "audit.html", lambda: reports.document(report, note).encode()),
        ("Report (JSON)", "audit.json", as_json),
        ("Table (CSV)", "responses.csv", table),
    ]


def of_log(files: Mapping[str, bytes], how: Mapping) -> bytes:
    """Return the responses of a log as CSV.

    files: contents by name.
    how: further arguments of `read_run`.
    """
    return to_csv(read_run(files, **how).table)


def to_csv(numbers: pl.DataFrame) -> bytes:
    """Return a table of numbers as CSV; column names that a spreadsheet would run as formulas begin with an apostrophe.

    >>> to_csv(pl.DataFrame({"=a": [-1.5]}))
    b"'=a\\n-1.5\\n"
    """
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(neutral(numbers.columns))
    return (head.getvalue() + numbers.write_csv(include_header=False)).encode()


def neutral(cells: Iterable[object]) -> list[object]:
    """Return the cells with an apostrophe before each text that a spreadsheet would run as a formula.

    Numbers stay as they are, also those with a sign. Source: OWASP's "CSV Injection".

    >>> neutral(["=1+1", "@SUM(A1)", "-length", "a=b", -1.5, None])
    ["'=1+1", "'@SUM(A1)", "'-length", 'a=b', -1.5, None]
    """
    return [f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell for cell in cells]
