"""The server: compressed answers from memory, headers, and what it refuses."""

import asyncio
import gzip
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from urllib.parse import urlsplit

import pytest
from conftest import ROOT, served
from guests import guest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route, WebSocketRoute

import serve as server
from benchmarks.servers import serve
from views import assets, sessions


def finished(coroutine):
    """What it returns or raises; in a thread of its own, as Playwright has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def ask(app, path="/", method="GET", client="10.0.0.1", chunks=(b"",), **headers):
    """(status, headers, body) of an app's answer to a request, or to a socket that is opened."""
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

    finished(app(scope | {"client": (client, 1)}, receive, send))
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
    for _ in range(2):  # the second time from memory
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


def test_no_other_origin_may_read_or_ask(page_url):
    for method, headers in (("GET", {}), ("OPTIONS", {"Access-Control-Request-Method": "POST"})):
        host = http.client.HTTPConnection("127.0.0.1", urlsplit(page_url).port)
        host.request(method, "/", headers={"Origin": "https://evil.example", **headers})
        assert host.getresponse().getheader("access-control-allow-origin") is None


def test_a_script_in_a_download_is_not_one_of_the_page():
    app = server.guarded(Starlette(routes=[Route("/@file/a.html", lambda _: HTMLResponse("<script>1</script>"))]))
    assert b"sha256" not in ask(app, "/@file/a.html")[1][b"content-security-policy"]


# --- what is refused -------------------------------------------------------------------------------------------------


async def size(request):
    return JSONResponse(len(await request.body()))


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_body_that_is_too_large_is_413_and_one_sentence(monkeypatch, chunked, full):
    monkeypatch.setattr(server, "BODY", 3000)
    monkeypatch.setattr(server, "SMALL", 2000)
    monkeypatch.setattr(server.sessions, "full", lambda share: full)
    app = server.guarded(Starlette(routes=[Route("/", size, methods=["POST"])]))
    most = 2000 if full else 3000

    def send(length):
        declared = {} if chunked else {"content_length": str(length)}
        return ask(app, method="POST", chunks=[b"x" * 100] * (length // 100), **declared)

    assert send(most)[::2] == (200, str(most).encode())
    status, headers, body = send(most + 100)
    assert status == 413 and b"permissions-policy" in headers
    assert json.loads(body) == {"detail": server.sessions.NO_ROOM if full else server.sessions.TOO_LARGE}


def test_the_page_refuses_a_body_of_no_length_too(page_url):
    """More than all files of a visitor, in chunks, while the rest of the page answers."""
    host = http.client.HTTPConnection("127.0.0.1", urlsplit(page_url).port)
    host.request("POST", "/api/kernel/set_ui_element_value", headers={"Content-Length": str(server.BODY + 1)})
    answer = host.getresponse()
    assert (answer.status, answer.read()) == (413, b'{"detail":"%b"}' % server.sessions.TOO_LARGE.encode())
    assert get(f"{page_url}/health")[0] == 200


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
    assert {name("s_mine00") for _ in range(3 * sessions.NAMES)} == open  # a visitor's own
    assert {name(f"s_{n:06}") for n in range(sessions.NAMES - 2)} == open
    assert name("s_last00") == 429 and name("s_mine00") == 429 and ask(app)[0] == 429
    assert {name("s_mine00", "10.0.0.2")} == open
    now[0] += 3590
    assert name("s_mine00") == 429
    now[0] += 20
    assert {name("s_mine00")} == open


@pytest.mark.slow
def test_a_class_that_arrives_in_minutes_is_let_in_and_memory_is_bounded(monkeypatch):
    now, app = clock_of(monkeypatch)
    for n in range(300):
        now[0] += 1
        assert ask(app, f"/?session_id=s_{n}")[0] == 200
    monkeypatch.setattr(sessions, "CLIENTS", 5)
    for n in range(20):
        assert ask(app, "/?session_id=s", client=f"10.0.0.{n}")[0] == 200
    held = next(cell.cell_contents for cell in app.__closure__ if isinstance(cell.cell_contents, dict))
    assert len(held) <= 6


# --- how it starts and ends ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_port_in_use_is_one_line():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        command = [sys.executable, "serve.py", "--port", str(busy.getsockname()[1])]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode and not ran.stdout and ran.stderr.count("\n") == 1 and "in use" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_although_a_visitor_is_there(sent):
    with serve("this page", stderr=subprocess.PIPE) as running, guest(running.url.rstrip("/")):
        running.process.send_signal(sent)
        _, told = running.process.communicate(timeout=10)
    assert running.process.returncode == 0 and b"Traceback" not in told and b"Exception" not in told


@pytest.mark.slow
def test_the_page_under_a_path():
    with served("app.py", base_url="/rewards") as url:
        assert b"<marimo-filename" in get(f"{url}/")[2] and get(f"{url}/health")[0] == 200
        assert get(script_of(url))[0] == 200


def test_a_client_that_leaves_in_the_middle_harms_nothing():
    """The first who wants a file leaves before it is there; the next gets it whole."""
    path = "/assets/index-abcdefg1.js"
    app = assets.compressed(server.guarded(Starlette(routes=[Route(path, lambda _: HTMLResponse("x" * 5000))])))
    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"accept-encoding", b"gzip")]}

    async def gone():
        return {"type": "http.disconnect"}

    async def closed(message):
        raise OSError

    with pytest.raises(OSError):
        finished(app(scope, gone, closed))
    assert gzip.decompress(ask(app, path, accept_encoding="gzip")[2]) == b"x" * 5000
