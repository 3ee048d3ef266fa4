"""Logs that strangers send: each hostile one gets one line or a report, and none takes more memory than there is room
for.
"""

import io
import os
import tempfile

import polars as pl
import pytest

import gdpo_audit as ga
from gdpo_audit.comparing.compare import changes
from gdpo_audit.report import comparison_document, details, document, front
from gdpo_audit.report.printing import terminal
from gdpo_core.shared.errors import InputError
from tests.fuzz import targets
from tests.fuzz.hostile import CSV, EITHER, LINES, REPORT, REPORTS, is_line, outcome
from views.chapters.run.downloads import neutral, to_csv

# --- logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for cases in (LINES, REPORTS, EITHER) for name, file in cases.items()]
)
def test_a_hostile_log_gets_one_line_or_a_report(name, file):
    got = outcome({file[0]: file[1]()})
    assert is_line(got) if name in LINES else got == REPORT or (name in EITHER and is_line(got)), got


@pytest.mark.slow
def test_nothing_is_unpacked_to_disk(monkeypatch, tmp_path):
    outcome({"a.csv": CSV})  # This call starts the process from which workers are forked.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    written = []
    monkeypatch.setattr(os, "mkdir", lambda *a, **k: written.append(a))
    for name, make in (REPORTS["zip: a name of 60,000 characters"], LINES["zip: ../"], LINES["sqlite: brackets"]):
        outcome({name: make()})
    assert not written and not list(tmp_path.iterdir())


def page_of_fewer_than_no_values() -> bytes:
    """Return a Parquet file in which the header of a column's page says −17 values where it said 16, on which polars
    ends the process.
    """
    content = io.BytesIO()
    marks = pl.DataFrame({"group": [i // 4 for i in range(16)], "a": [i / 7 for i in range(16)]})
    marks.write_parquet(content, compression="uncompressed")
    found = b"\x2c\x15\x20"  # These bytes are a struct whose field 1 is the number 16.
    assert found in content.getvalue()
    return content.getvalue().replace(found, b"\x2c\x15\x21")


# The fuzzers found these inputs, here in their smallest form. Before the mends they led to an uncaught error, ran
# without end, or ended the process.
FOUND = {
    "half a character as a name in JSON": ("text", b'\x02[{"\\ud800":1,"group":1}]'),
    "half a character as a name in JSON lines": ("text", b'\x03{"group":1,"\\ud800":1}\n{"group":1,"\\ud800":NaN}'),
    "a footer of endlessly many numbers": (
        "parquet",
        b"PAR1\x19\xf7" + b"\xff" * 8 + b"\x7f" + (11).to_bytes(4, "little") + b"PAR1",
    ),
    "a page of fewer than no values": ("parquet", page_of_fewer_than_no_values()),
    "a database whose schema is no UTF-8": ("sqlite", targets.database("{}").replace(b"run_name", b"run\xff\xfeame")),
    "a name of nothing in JSON": ("text", b'\x02[{"":1,"group":1,"a":0},{"":0,"group":1,"a":1}]'),
    "bytes that are no UTF-8 where quotes are unclear": ("text", b'\x01d\td"\n""\xff"\n2\t' + b"\xef\xbf\xbd" * 3),
    "rows of trackio with another name, of two lines": (
        "trackio",
        b'{"completions":{"_type":"trackio.table","_value":[{"step":1,"a":1},{"step":1,"a\\nb":1}]}}',
    ),
    "advantages whose squares are infinite": ("huge", b""),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_a_fuzzer_found_gets_one_line_or_a_report(name):
    target, data = FOUND[name]
    if target == "parquet":
        assert "expected" in outcome({"completions_00001.parquet": data})
    elif target == "huge":
        frame = pl.DataFrame({"group": [i // 4 for i in range(16)], "acc": [float(i % 3) for i in range(16)]})
        frame = frame.with_columns(advantage=pl.Series([7.6e247, -1.8e230, 1e-313, 0.5] * 4))
        ga.audit(ga.read_run(frame))
    else:
        targets.expect_refusal(targets.TARGETS[target], data)


def test_an_error_is_short_whatever_it_names():
    assert len(str(InputError("x" * 10**7))) <= 2000
    assert str(InputError("a" * 1500 + "b" * 1500)).startswith("aaa")


# --- hostile texts in what is written --------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "＝"])
def test_no_text_in_a_csv_is_a_formula(start):
    name = f"{start}cmd|' /C calc'!A0"
    read = pl.read_csv(to_csv(pl.DataFrame({name: [-1.5], "n": [2.0]})), infer_schema=False)
    assert read.columns[0].startswith("'") and "-1.5" in read.row(0)
    assert neutral([name, -1.5]) == [f"'{name}", -1.5]


MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)> [bold red]red[/]"
ESCAPES = "\x1b[2J\x1b]52;c;aGFjaw==\x07\x1b]8;;http://x\x07\r\n::set-output name=a::b\u202e\x9b31m"
BAD = MARKUP + ESCAPES


@pytest.fixture(scope="module")
def spoken():
    """Return a report on a log in which every name and every text holds markup and control characters of a terminal."""
    of_four = [(0, 1), (1, 0), (1, 1), (0, 0)] * 8
    rows = {BAD: [float(a) for a, _ in of_four], f"b{BAD}": [float(b) for _, b in of_four]}
    rows |= {
        name: [f"{BAD} {i // 4 if name == 'prompt' else i}" for i in range(32)] for name in ("prompt", "completion")
    }
    content = io.BytesIO()
    pl.DataFrame(rows | {"task": [f"{BAD} {i // 16}" for i in range(32)]}).write_parquet(content)
    run = ga.read_run({f"a{BAD}.parquet": content.getvalue()}, group="prompt", by="task")
    return ga.audit(run, what_if={"weights": {BAD: 0.5}})


PAGES = {
    "the document": document,
    "in a notebook": lambda report: report._repr_html_(),
    "what if": lambda report: report.alternative._repr_html_(),
    "a comparison": lambda report: comparison_document(changes(report, report)),
    "on the page": lambda report: front(report) + "".join(draw() for draw in details(report).values()),
}


@pytest.mark.parametrize("page", PAGES)
def test_no_string_of_a_log_is_markup(spoken, page):
    html = str(PAGES[page](spoken))
    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert" not in html and "<img" not in html and not {"\x1b", "\x07", "\x9b"} & {*html}


def test_no_string_of_a_log_speaks_to_a_terminal(spoken):
    out = io.StringIO()
    terminal.print_reports([spoken], out, groups=2)
    assert "[bold red]red[/]" in out.getvalue() and "\\x1b[2J" in out.getvalue()
    assert not {c for c in out.getvalue() if not c.isprintable()} - {"\n"}
