"""The files of a report that a reader can take away."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping

import polars as pl

from gdpo_audit import report as reports
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.audit_report import AuditReport
from views import worker
from views.run.log import Log

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")  # what a spreadsheet takes for one


def downloads(log: Log, report: AuditReport) -> list[tuple[str, str, Callable[[], bytes]]]:
    """Return label, file name and content of each file; the content is made when it is asked for."""
    # A file of a sample says what the page says about it; an upload is its reader's own.
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
    """Return a log's responses as CSV."""
    return to_csv(read_run(files, **how).table)


def to_csv(numbers: pl.DataFrame) -> bytes:
    """Return numbers as CSV, in which names that a spreadsheet would run as formulas are neutral.

    >>> to_csv(pl.DataFrame({"=a": [-1.5]}))
    b"'=a\\n-1.5\\n"
    """
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(neutral(numbers.columns))
    return (head.getvalue() + numbers.write_csv(include_header=False)).encode()


def neutral(cells: Iterable[object]) -> list[object]:
    """Return cells of which a spreadsheet runs none: an apostrophe stands before what it would take for a formula.

    Source: OWASP's "CSV Injection". Numbers stay as they are, signs too.

    >>> neutral(["=1+1", "@SUM(A1)", "-length", "a=b", -1.5, None])
    ["'=1+1", "'@SUM(A1)", "'-length", 'a=b', -1.5, None]
    """
    return [f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell for cell in cells]
