"""What strangers send: every hostile log gets one line or a report, and no more is taken than there is room for."""

import asyncio
import io
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pickle import PickleBuffer
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from fuzz import targets
from fuzz.hostile import HOSTILE, fits, outcome
from gdpo_core._errors import InputError
from gdpo_core.report import terminal
from gdpo_core.report.github import annotations
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.pages import unpacked_bytes
from marimo_private import SESSION_HEADER, SET_VALUE
from serving import limits
from serving.limits import Limited
from views import save, work

# --- logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, hostile in HOSTILE.items() if not hostile.heavy])
def test_a_hostile_log_gets_one_line_or_a_report(name):
    hostile = HOSTILE[name]
    got = outcome(hostile.make())
    assert fits(got, hostile.wanted), got


def test_nothing_is_unpacked_to_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    written = []
    monkeypatch.setattr(os, "mkdir", lambda *a, **k: written.append(a))
    for name in ("zip: a name of 60,000 characters", "zip: ../", "sqlite: triggers"):
        outcome(HOSTILE[name].make())
    assert not written and not list(tmp_path.iterdir())


def page_of_fewer_than_no_values() -> bytes:
    """A Parquet file, in which the header of a column's page says -17 where it said 16; polars ends the process."""
    content = io.BytesIO()
    marks = pl.DataFrame({"group": [i // 4 for i in range(16)], "a": [i / 7 for i in range(16)]})
    marks.write_parquet(content, compression="uncompressed")
    found = b"\x2c\x15\x20"  # a struct, in it field 1: a number, 16
    assert found in content.getvalue()
    return content.getvalue().replace(found, b"\x2c\x15\x21")


# What the fuzzers found, smallest form: an uncaught error, no end, or the end of the process before it was mended.
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
    if target == "huge":
        frame = pl.DataFrame({"group": [i // 4 for i in range(16)], "acc": [float(i % 3) for i in range(16)]})
        frame = frame.with_columns(advantage=pl.Series([7.6e247, -1.8e230, 1e-313, 0.5] * 4))
        gc.audit(gc.read_run(frame))
    else:
        targets.refused(targets.TARGETS[target], data)


@given(st.binary(max_size=400))
def test_any_query_string_is_a_state_or_refusals(data):
    targets.link(data)


def test_an_error_is_short_whatever_it_names():
    assert len(str(InputError("x" * 10**7))) <= 2000
    assert str(InputError("a" * 1500 + "b" * 1500)).startswith("aaa")


def test_what_is_one_value_in_parquet_counts_as_often_as_it_stands_there():
    got = outcome(
        {
            "completions_00001.parquet": HOSTILE["parquet: a prompt of 1 MB in 200,000 rows"].make()[
                "completions_00001.parquet"
            ]
        }
    )
    assert "200,000,000,000" in got and "bytes of text" in got


@pytest.mark.parametrize("packing", ["uncompressed", "snappy", "zstd", "gzip", "lz4"])
def test_the_headers_of_pages_tell_what_a_parquet_file_unpacks_to(packing):
    frame = pl.DataFrame({"a": [i / 7 for i in range(4000)], "t": [f"text {i % 50}" for i in range(4000)]})
    content = io.BytesIO()
    frame.write_parquet(content, compression=packing, row_group_size=1000)
    sizes = list(unpacked_bytes(content.getvalue(), ("t",)))
    assert len(sizes) in (4, 8) and 4000 * 8 <= sum(sizes) < 4000 * 8 * 1.2  # the values, and numbers of a dictionary
    assert sum(unpacked_bytes(content.getvalue(), ())) > sum(sizes)


def test_json_lines_have_few_keys_and_short_lines():
    for lines, got in (
        ("".join(f'{{"reward_{i}": NaN}}\n' for i in range(5001)), "got 5,001"),
        ('{"a": "%s"}\n' % ("x" * 2**24), "bytes in a line"),
    ):
        with pytest.raises(InputError, match=f"a.jsonl: .*{got}"):
            gc.read_run({"a.jsonl": lines.encode()})


def test_a_large_upload_is_read_where_there_is_no_other_process():
    content = PickleBuffer(b"group,acc\n0,1\n0,0\n1,1\n1,0\n")
    _, report = work.audited(lambda share: None, {"a.csv": content}, {})
    assert isinstance(report, AuditReport)


# --- what goes out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "＝"])
def test_no_text_in_a_csv_is_a_formula(start):
    name = f"{start}cmd|' /C calc'!A0"
    for text in (save.table([{name: name, "n": -1.5}]), save.of_frame(pl.DataFrame({name: [-1.5], "n": [2.0]}))):
        read = pl.read_csv(io.BytesIO(text.encode()), infer_schema=False)
        assert read.columns[0].startswith("'") and "-1.5" in read.row(0)


ESCAPES = "\x1b[2J\x1b]52;c;aGFjaw==\x07\x1b]8;;http://x\x07\r\n::set-output name=a::b\u202e\x9b31m"


def test_no_string_of_a_log_speaks_to_a_terminal_or_to_github():
    names = [f"acc{ESCAPES}", f"b{ESCAPES}"]
    rewards = {name: [float(i % 3) * k for i in range(32)] for k, name in enumerate(names)}
    frame = pl.DataFrame({"group": [i // 4 for i in range(32)]} | rewards)
    content = io.BytesIO()
    frame.write_parquet(content)
    report = gc.audit(gc.read_run({f"a{ESCAPES}.parquet": content.getvalue()}))
    out = io.StringIO()
    terminal.show([report], out)
    said = out.getvalue() + annotations([report])
    assert not {c for c in said if not c.isprintable()} - {"\n"}
    commands = [line for line in annotations([report]).splitlines()]
    assert all(line.startswith(("::notice", "::warning", "::error")) for line in commands)


# --- how much comes in -----------------------------------------------------------------------------------------------


class Page:
    """An app that answers 200 and remembers the bodies that it read; its server has these sessions."""

    def __init__(self, *sessions: str) -> None:
        self.state = SimpleNamespace(session_manager=SimpleNamespace(sessions=set(sessions)))
        self.bodies = []

    async def __call__(self, scope, receive, send):
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message["body"])
            more = message.get("more_body", False)
        self.bodies.append(b"".join(parts))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def value(size: int, control: str = "Hbol-0") -> bytes:
    head = b'{"objectIds":["%s"],"values":[[["a.csv","' % control.encode()
    return head + b"A" * size + b'"]]]}' if size else b'{"objectIds":["%s"],"values":[[]]}' % control.encode()


def send(limited, body, session="s1", path=SET_VALUE, length="true", chunk=60_000, ends=True):
    """The status and the text of the answer to this body; length: true, a number, or none for chunks."""
    headers = [(SESSION_HEADER.lower().encode(), session.encode())]
    headers += [] if length is None else [(b"content-length", str(len(body) if length == "true" else length).encode())]
    headers += [(b"transfer-encoding", b"chunked")] if length is None else []
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "app": limited.app}
    parts = iter([body[at : at + chunk] for at in range(0, len(body), chunk)])
    left, answers = [len(body)], []

    async def receive():
        part = next(parts, None)
        if part is None:
            return {"type": "http.disconnect"}
        left[0] -= len(part)
        return {"type": "http.request", "body": part, "more_body": left[0] > 0 or not ends}

    async def answer(message):
        answers.append(message)

    with ThreadPoolExecutor(1) as apart:  # the browser's loop may run in this thread
        apart.submit(asyncio.run, limited(scope, receive, answer)).result()
    return answers[0]["status"], b"".join(m.get("body", b"") for m in answers[1:]).decode()


@pytest.fixture
def small(monkeypatch):
    """Limits of a thousandth, so that the tests need no memory."""
    monkeypatch.setattr(limits, "SMALL", 1000)
    monkeypatch.setattr(limits, "BODY", 86_000)
    monkeypatch.setattr(limits, "AT_ONCE", 150_000)
    return Limited(Page("s1", "s2", "s3"))


@pytest.mark.parametrize("length", ["true", None, 10])
def test_a_body_that_is_too_large_is_refused_and_the_page_gets_the_sentence(small, length):
    if length == 10:
        length = None  # a server reads no further than Content-Length says
    status, text = send(small, value(90_000), length=length, chunk=8_000)
    assert (status, json.loads(text)["detail"]) == (413, limits.TOO_LARGE)
    [told] = map(json.loads, small.app.bodies)
    assert told["objectIds"] == ["Hbol-0"] and told["values"][0][0][0] == limits.REFUSED
    assert small.total == 0


def test_all_visitors_files_together_have_a_limit_and_what_is_cleared_is_given_back(small):
    assert [send(small, value(80_000), s, chunk=9_000)[0] for s in ("s1", "s2", "s3")] == [200, 200, 413]
    assert "try again in a moment" in json.loads(send(small, value(80_000), "s3", chunk=9_000)[1])["detail"]
    assert send(small, value(80_000), "s3", chunk=9_000)[0] == 413
    assert send(small, value(0), "s1")[0] == 200  # cleared
    assert send(small, value(80_000), "s3", chunk=9_000)[0] == 200
    assert send(small, value(20_000), "s3")[0] == 200  # replaced
    assert send(small, value(80_000), "s1", chunk=9_000)[0] == 200
    assert small.total == sum(small.kept.values())


def test_what_an_ended_session_kept_is_given_back(small):
    assert [send(small, value(80_000), s)[0] for s in ("s1", "s2", "s3")] == [200, 200, 413]
    small.app.state.session_manager.sessions.remove("s2")
    assert send(small, value(80_000), "s3")[0] == 200


def test_who_leaves_in_the_middle_holds_nothing(small):
    send(small, value(70_000), chunk=10_000, ends=False)
    assert small.total == 0 and not small.kept and not small.app.bodies


def test_other_requests_have_a_limit_and_small_ones_pass(small, monkeypatch):
    monkeypatch.setattr(limits, "OTHERS", 5_000)
    assert send(small, b"x" * 6_000, path="/api/kernel/function_call")[0] == 413
    assert send(small, b"x" * 4_000, path="/api/kernel/function_call")[0] == 200
    assert send(small, b"x" * 900)[0] == 200
    assert small.total == 0 and small.app.bodies == [b"x" * 4_000, b"x" * 900]


def test_a_body_that_passes_arrives_as_it_was_sent(small):
    body = value(70_000)
    assert send(small, body, chunk=7_001)[0] == 200
    assert small.app.bodies == [body]
