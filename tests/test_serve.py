"""The server: compressed answers from memory, headers, and what it refuses."""

import asyncio
import contextlib
import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import marimo
import pytest
import uvicorn
from conftest import ROOT, served
from guests import answer, guest
from helpers import apart
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route, WebSocketRoute

import serve as server
from benchmarks.servers import serve
from benchmarks.visitors import SESSION_HEADER, TOKEN_HEADER, greet
from views.server import assets, guard, heads, memory, sessions


def ask(app, path="/", method="GET", client="10.0.0.1", chunks=(b"",), **headers):
    """Return the status, the headers and the body of an app's answer to a request, or, with the method "socket", to the
    opening of a websocket.
    """
    path, _, query = path.partition("?")
    raw = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": raw}
    if method == "socket":
        scope |= {"type": "websocket", "subprotocols": [], "extensions": {"websocket.http.response": {}}}
    last = len(chunks) - 1
    bodies = [{"type": "http.request", "body": one, "more_body": n < last} for n, one in enumerate(chunks)]
    messages, answers = iter([{"type": "websocket.connect"}] if method == "socket" else bodies), []

    async def receive():
        return next(messages, {"type": "http.disconnect"})

    async def send(message):
        answers.append(message)

    apart(app(scope | {"client": (client, 1)}, receive, send))
    start = next((one for one in answers if "status" in one), {"status": 101, "headers": []})
    return start["status"], dict(start["headers"]), b"".join(one.get("body", b"") for one in answers)


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.status, answer.headers, answer.read()


def script_of(page_url):
    return page_url + "/" + re.search(rb'src="\./(assets/index-[^"]+\.js)"', get(page_url)[2])[1].decode()


def test_files_come_compressed_and_unchanged_and_stay_in_the_browser(page_url):
    script = script_of(page_url)
    plain = get(script)[2]
    for _ in range(2):  # The second answer comes from memory.
        status, headers, body = get(script, **{"Accept-Encoding": "gzip"})
        assert (status, headers["content-encoding"]) == (200, "gzip") and len(body) < len(plain) / 2
        assert "immutable" in headers["cache-control"] and gzip.decompress(body) == plain
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{page_url}/assets/none-here-abcdefg1.js", **{"Accept-Encoding": "gzip"})


def test_every_answer_has_the_headers(page_url):
    for path in ("/", "/health", "/favicon.ico", "/none"):
        try:
            headers, body = get(page_url + path)[1:]
        except urllib.error.HTTPError as refused:
            headers, body = refused.headers, b""
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["permissions-policy"] and headers["cross-origin-opener-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        hosts = {host for name, rule in policy.items() if name != "frame-ancestors" for host in rule.split()}
        assert not any("eval" in host or ":/" in host or "*" in host for host in hosts)
        scripts = re.findall(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", body, re.DOTALL)
        hashes = [f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in scripts]
        assert policy["script-src"].split() == ["'self'", *hashes] and bool(hashes) == (path == "/")


def test_a_session_begins_once_its_imports_are_there_and_its_socket_is_open_before(monkeypatch):
    monkeypatch.setattr(sessions, "may_begin", threading.Event())
    sent, told = [], []

    async def page(scope, receive, send):
        told.append((await receive())["type"])
        assert sessions.may_begin.is_set()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "a"})
        told.append((await receive())["type"])

    async def visit():
        messages = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect"}])

        async def receive():
            return next(messages)

        async def send(message):
            sent.append(message["type"])

        visiting = asyncio.create_task(sessions.awaited(page)({"type": "websocket"}, receive, send))
        while not sent:
            await asyncio.sleep(0)
        assert (sent, told) == (["websocket.accept"], [])
        sessions.may_begin.set()
        await visiting

    apart(visit())
    assert sent == ["websocket.accept", "websocket.send"] and told == ["websocket.connect", "websocket.disconnect"]


# --- what is refused -------------------------------------------------------------------------------------------------


async def size(request):
    return JSONResponse(len(await request.body()))


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_body_that_is_too_large_is_413_and_one_sentence(monkeypatch, chunked, full):
    monkeypatch.setattr(guard, "BODY", 3000)
    monkeypatch.setattr(guard, "SMALL", 2000)
    monkeypatch.setattr(memory, "memory_limit", lambda: (0 if full else 2**40, None, 0))
    app = guard.guarded(Starlette(routes=[Route("/", size, methods=["POST"])]))
    most = 2000 if full else 3000

    def send(length):
        declared = {"transfer_encoding": "chunked"} if chunked else {"content_length": str(length)}
        return ask(app, method="POST", chunks=[b"x" * 100] * (length // 100), **declared)

    assert send(most)[::2] == (200, str(most).encode())
    status, headers, body = send(most + 100)
    assert status == 413 and b"permissions-policy" in headers
    assert json.loads(body) == {"detail": sessions.NO_ROOM if full else sessions.TOO_LARGE}


@pytest.mark.parametrize(("headers", "read"), [({"transfer-encoding": "chunked"}, 4), ({"content-length": "900"}, 9)])
def test_of_a_refused_body_no_more_is_read_than_the_largest_may_have(monkeypatch, headers, read):
    """A body without end is dropped up to its 300 bytes and not further; one of a declared length is read to its end.

    The first two of its parts of 100 bytes lead to the refusal, because there is room for 100 bytes only.
    """
    monkeypatch.setattr(guard, "BODY", 900 if "content-length" in headers else 300)
    parts = 0

    async def receive():
        nonlocal parts
        parts += 1
        assert parts < 20, "the body is read without end"
        last = "content-length" in headers and parts == 9
        return {"type": "http.request", "body": b"x" * 100, "more_body": not last}

    async def dropped():
        scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
        body = guard.Body(scope, receive)
        body.most = 100
        while (await body.next())["type"] != "http.disconnect":
            pass
        await body.drop()
        return body

    body = apart(dropped())
    assert parts == read and body.refusal == (413, sessions.TOO_LARGE)


@pytest.fixture
def running(monkeypatch, caplog):
    """Yield the port of a small server behind the same guards, which waits for a third of a second, and a function that
    returns its log.
    """
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    pages = [Route("/", size, methods=["GET", "POST"]), Route("/@file/{name:path}", size), WebSocketRoute("/ws", heard)]
    options = {"http": heads.BoundedHeads, "timeout_keep_alive": 1, "log_config": None, "lifespan": "off"}
    app = guard.guarded(Starlette(routes=pages))
    live = uvicorn.Server(uvicorn.Config(app, log_level="warning", **options))
    live.install_signal_handlers = lambda: None
    with socket.socket() as listening, ThreadPoolExecutor(1) as thread:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        ends = thread.submit(live.run, [listening])
        yield listening.getsockname()[1], lambda: [r.getMessage() for r in caplog.records if r.name == "uvicorn.error"]
        live.should_exit = True
        ends.result(10)


def said(port, *parts):
    """Return the first line of what a server answers to these bytes; "" if it only closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                line.sendall(part)
        try:
            return line.recv(4096).split(b"\r\n")[0].decode()
        except ConnectionError:
            return ""


ENDLESS = [b"a" * 2**16] * 400  # 26 MB
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
OPEN = b"GET /ws?session_id=%s HTTP/1.1\r\nHost: here\r\n%sSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n"
REFUSED = {  # what is sent: how it is answered, and what the one line of the log says
    "a header without end": ([b"GET / HTTP/1.1\r\nX: ", *ENDLESS], ("431", ""), "a head of 65536 bytes"),
    "an address without end": ([b"GET /?", *ENDLESS], ("431", ""), "a head of 65536 bytes"),
    "many headers": ([b"GET / HTTP/1.1\r\n", b"X: a\r\n" * 20_000, b"\r\n"], ("431", "400", ""), ""),
    "a head that stops": ([b"GET / HTTP/1.1\r\nX: a"], ("408",), "a head within"),
    "nothing": ([], ("",), None),
    "a body that never comes": ([b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"], ("408",), "'/': 408"),
    "a body that stops": ([b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"], ("408",), "'/': 408"),
    "a method nobody has": ([b"BREW / HTTP/1.1\r\n\r\n"], ("400",), "Invalid HTTP request"),
    "another method": ([b"DELETE / HTTP/1.1\r\n\r\n"], ("405",), "DELETE '/': 405"),
    "a path outside": ([b"GET /@file/5-%2fetc%2fpasswd HTTP/1.1\r\n\r\n"], ("404",), "'/@file/5-/etc/passwd': 404"),
    "a long address": ([OPEN % (b"s_abcdef&x=" + b"a" * 8000, UPGRADE, b"")], ("414",), "100 lines of 8000 bytes"),
    "another page's socket": ([OPEN % (b"s_abcdef", UPGRADE, b"Origin: http://evil\r\n")], ("403",), "'http://evil'"),
    "a page without origin": ([OPEN % (b"s_abcdef", UPGRADE, b"Origin: null\r\n")], ("403",), "got one of 'null'"),
    "no name": ([OPEN % (b"", UPGRADE, b"")], ("403",), "the name of a session"),
    "a name that is none": ([OPEN % (b"%3Cscript%3E", UPGRADE, b"")], ("403",), "the name of a session"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_browser_sends_is_refused_in_one_line_and_nobody_waits(running, what):
    port, log = running
    sent, statuses, line = REFUSED[what]
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(said, port, *sent)
        slowest = 0.0
        while not answer.done():
            start = time.perf_counter()
            assert said(port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n") == "HTTP/1.1 200 OK"
            slowest = max(slowest, time.perf_counter() - start)
    assert answer.result()[9:12] in statuses and slowest < 1, answer.result()
    if line is None:
        assert not log()
    else:
        (only,) = log()
        assert line in only


@pytest.mark.parametrize("origin", [b"", b"Origin: http://here\r\n", b"Origin: https://HERE:443\r\n"])
def test_a_socket_of_the_page_itself_opens(running, origin):
    assert said(running[0], OPEN % (b"s_abcdef", UPGRADE, origin))[9:12] == "101" and not running[1]()


def test_an_invented_address_is_believed_from_the_operators_proxies_alone():
    space = {"SPACE_ID": "a/b"}
    assert (server.proxies({}), server.proxies(space)) == ("127.0.0.1", "10.0.0.0/8")
    assert server.proxies(space | {"FORWARDED_ALLOW_IPS": "::1"}) == "::1"
    assert "FORWARDED" not in (ROOT / "Dockerfile").read_text()


def test_a_fault_of_the_page_keeps_its_traceback_in_the_log(caplog):
    def fails(request):
        raise RuntimeError("a fault")

    app = guard.guarded(Starlette(routes=[Route("/", fails)]))
    status, headers, body = ask(app)
    assert status == 500 and b"permissions-policy" in headers and b"fault" not in body and "a fault" in caplog.text


async def heard(socket):
    await socket.accept()
    await socket.close()


def clock_of(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now[0])
    app = Starlette(routes=[Route("/", lambda _: JSONResponse(1)), WebSocketRoute("/ws", heard)])
    return now, sessions.limited(app)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["socket", "query", "header"])
def test_who_tries_names_of_sessions_is_refused_for_an_hour(monkeypatch, way):
    now, app = clock_of(monkeypatch)

    def name(one, client="10.0.0.1"):
        if way == "header":
            return ask(app, client=client, marimo_session_id=one)[0]
        path, method = ("/ws", "socket") if way == "socket" else ("/", "GET")
        return ask(app, f"{path}?session_id={one}", method, client)[0]

    open = {101 if way == "socket" else 200}
    # A visitor may always come back under a name of their own.
    assert {name("s_mine00") for _ in range(3 * sessions.SESSION_NAMES)} == open
    assert {name(f"s_{n:06}") for n in range(sessions.SESSION_NAMES - 2)} == open
    assert name("s_last00") == 429 and name("s_mine00") == 429 and ask(app)[0] == 429
    assert {name("s_mine00", "10.0.0.2")} == open
    now[0] += 3590
    assert name("s_mine00") == 429
    now[0] += 20
    assert {name("s_mine00")} == open


# --- how it starts and ends ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_marimo_stumbles_over_is_one_line_each_and_a_signal_ends_the_server_although_a_visitor_is_there():
    stumbles = [
        ("/@file/5-gone.txt", None, 404),  # This file belongs to a session that has ended.
        ("/@file/5-..", None, 404),
        ("/api/kernel/set_model_value", b"abc", 400),
        ("/api/kernel/set_model_value", b"{}", 400),
    ]
    with serve("this page", stderr=subprocess.PIPE) as alone, guest(alone.url.rstrip("/")) as visitor:
        headers = {TOKEN_HEADER: greet(alone.port)[0], SESSION_HEADER: "s_none00", "Content-Type": "application/json"}
        for path, body, status in stumbles:
            assert answer(urllib.request.Request(f"{alone.url.rstrip('/')}{path}", body, headers))[0] == status
        # marimo itself would answer 500, with a traceback and the names of all open sessions.
        widget = visitor.having("chapters")
        assert visitor.set(widget, session="s_none00", at="train") == 404
        assert visitor.set(widget, at="train") == 200
        alone.process.send_signal(signal.SIGTERM)
        told = alone.process.communicate(timeout=10)[1].decode()
    assert alone.process.returncode == 0 and visitor.name not in told
    lines = [*(f"{path!r}: {status}" for path, _, status in stumbles), "set_model_value': 404"]
    assert len(told.splitlines()) == len(lines) and all(map(lambda one, said: one in said, lines, told.splitlines()))


@pytest.mark.slow
def test_the_page_under_a_path():
    with served("app.py", base_url="/rewards") as url:
        assert b"<marimo-filename" in get(f"{url}/")[2] and get(f"{url}/health")[0] == 200
        assert get(script_of(url))[0] == 200


def test_a_client_that_leaves_in_the_middle_harms_nothing():
    """The first client that asks for a file leaves before the answer is there; the next one gets the file whole."""
    path = "/assets/index-abcdefg1.js"
    app = assets.compressed(guard.guarded(Starlette(routes=[Route(path, lambda _: HTMLResponse("x" * 5000))])))
    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"accept-encoding", b"gzip")]}

    async def gone():
        return {"type": "http.disconnect"}

    async def closed(message):
        raise OSError

    with pytest.raises(OSError):
        apart(app(scope, gone, closed))
    assert gzip.decompress(ask(app, path, accept_encoding="gzip")[2]) == b"x" * 5000


def test_an_answer_that_broke_off_is_not_kept():
    """A file whose answer ends in its middle, as it does when its client leaves, comes whole for the next client."""
    path, halves = "/assets/index-abcdefg1.js", [b"x" * 5000, b"y" * 5000]
    whole: list[bool] = []

    async def sent(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": halves[0], "more_body": True})
        if whole:
            await send({"type": "http.response.body", "body": halves[1], "more_body": False})
        whole.append(True)

    app = assets.compressed(sent)
    ask(app, path, accept_encoding="gzip")
    assert gzip.decompress(ask(app, path, accept_encoding="gzip")[2]) == b"".join(halves)


def test_what_was_loaded_is_shown_without_a_pause(page_url, tmp_path):
    """marimo's file with React is served without the pause and unchanged otherwise. A front end without it is served
    as it is.
    """
    folder = Path(marimo.__file__).parent / "_static" / "assets"
    (file,) = folder.glob("cells-*.js")
    sent = get(f"{page_url}/assets/{file.name}")[2]
    (pause,) = re.finditer(rb"\+300-\w+\(\),10<\w", file.read_bytes())
    assert sent == file.read_bytes()[: pause.start()] + b"+0" + file.read_bytes()[pause.start() + 4 :]

    async def page(scope, receive, send):
        await HTMLResponse("as it is")(scope, receive, send)

    shown = assets.shown_at_once(page, folder)
    answers = [ask(shown, f"/base/assets/{name}")[2] for name in (file.name, "cells-abcdefg1.js")]
    assert answers == [sent, b"as it is"] and ask(shown, f"/assets/{file.name}", "POST")[2] == b"as it is"
    for content in ("a=b+300-c()", "a=b+300-c(),10<a;a=b+300-c(),10<a", ""):
        (tmp_path / "cells-abcdefg1.js").write_text(content)
        assert assets.shown_at_once(page, tmp_path) is page


@pytest.mark.slow
def test_a_visitor_of_the_lab_waits_for_nothing_that_only_other_chapters_need():
    program = """import sys
from app import app
shut = dict.fromkeys(("train_open", "evidence_open", "run_open", "use_open"), lambda: False)
app.run(defs={"doors": {}, "ask_scenario": None, "requested_scenario": None, **shut})
print("lab", *{"polars", "altair", "gdpo_audit"} & sys.modules.keys())"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "lab", ran.stderr


@pytest.mark.slow
def test_an_export_of_the_page_prints_nothing_but_what_its_cells_print(tmp_path):
    # marimo tells of each variable of a cell, and stumbles over one that is a text of another type, such as Markup.
    command = [sys.executable, "-m", "marimo", "export", "html", "app.py", "--no-sandbox", "-o", tmp_path / "page.html"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    printed = [line for line in (ran.stdout + ran.stderr).splitlines() if line]
    assert ran.returncode == 0 and [line.split()[0] for line in printed] == ["grpo", "gdpo"], printed
    assert "GRPO cannot tell" in (tmp_path / "page.html").read_text("utf-8")
