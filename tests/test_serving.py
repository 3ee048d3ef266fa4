"""What travels: compressed files that are the same files, streams that stay streams, and scripts that say no."""

import asyncio
import base64
import gc
import gzip
import hashlib
import importlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import weakref
import zlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

import serving
from benchmarks.servers import serve
from serving import endpoints, start, tidy, travel
from views import elsewhere

ASSET = "/assets/index-abcdefg1.js"
TEXT = b"one line of a file that gzip makes smaller\n" * 5000
NOISE = random.Random(0).randbytes(100_000).hex().encode()  # half of it stays under gzip


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return answer.status, answer.headers, answer.read()


def request(path, method="GET", **headers):
    listed = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "headers": listed}


async def said(app, scope):
    """All that an app sends for one request."""
    messages = []

    async def send(message):
        messages.append(message)

    await app(scope, travel.nobody(), send)
    return messages


def finished(coroutine):
    """What it returns; in a thread of its own, for Playwright keeps a loop running in the one of the tests."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, coroutine).result()


def whole(messages):
    return messages[0]["status"], Headers(raw=messages[0]["headers"]), b"".join(m["body"] for m in messages[1:])


def ask(app, path, **headers):
    return whole(finished(said(app, request(path, **headers))))


def file(body=TEXT, kind="text/javascript", status=200, headers=(), size=64 * 1024):
    """An app that sends one file in chunks and counts how often it is asked."""

    async def app(scope, receive, send):
        app.asked += 1
        app.thread = threading.get_ident()
        listed = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *headers]
        await send({"type": "http.response.start", "status": status, "headers": listed})
        for at in range(0, len(body), size):
            await asyncio.sleep(0)
            more = at + size < len(body)
            await send({"type": "http.response.body", "body": body[at : at + size], "more_body": more})

    app.asked = 0
    return app


# The middleware, beside apps of a few lines


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("path", ["/@file/run.csv", ASSET.replace("assets", "public/assets")])
def test_a_large_answer_arrives_while_it_is_still_made(path, encoding):
    arrived = asyncio.Event()

    async def made_slowly(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/csv")]})
        await send({"type": "http.response.body", "body": NOISE, "more_body": True})
        await asyncio.wait_for(arrived.wait(), 10)  # a middleware that collects the whole never gets further
        await send({"type": "http.response.body", "body": NOISE, "more_body": False})

    parts = []

    async def send(message):
        parts.append(message.get("body", b""))
        if len(parts[-1]) > 1000:
            arrived.set()

    finished(travel.compressed(made_slowly)(request(path, accept_encoding=encoding), travel.nobody(), send))
    body = b"".join(parts)
    assert (gzip.decompress(body) if encoding == "gzip" else body) == 2 * NOISE


def test_events_pass_at_once_and_as_they_are():
    async def run():
        events = asyncio.Queue()

        async def app(scope, receive, send):
            start = {"type": "http.response.start", "status": 200}
            await send({**start, "headers": [(b"content-type", b"text/event-stream; charset=utf-8")]})
            for n in range(3):
                await send({"type": "http.response.body", "body": b"data: %d\n\n" % n, "more_body": True})
                await asyncio.wait_for(events.get(), 10)  # the client has the last one

        async def send(message):
            sent.append(message)
            if message["type"] == "http.response.body":
                events.put_nowait(message)

        await travel.compressed(app)(request("/sse", accept_encoding="gzip"), travel.nobody(), send)

    sent = []
    finished(run())
    assert [m["body"] for m in sent[1:]] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]
    assert "content-encoding" not in Headers(raw=sent[0]["headers"])


def test_chunks_of_a_download_are_compressed_beside_the_event_loop(monkeypatch):
    used = set()
    made = zlib.compressobj

    class Watched:
        def __init__(self, *arguments):
            self.made = made(*arguments)

        def compress(self, body):
            used.add(threading.get_ident())
            return self.made.compress(body)

        def flush(self, *arguments):
            return self.made.flush(*arguments)

    monkeypatch.setattr(zlib, "compressobj", Watched)
    body = TEXT[: 2 * 64 * 1024]
    app = file(body)
    assert gzip.decompress(ask(travel.compressed(app), "/@file/run.csv", accept_encoding="gzip")[2]) == body
    assert used and app.thread not in used


def test_a_hashed_file_is_compressed_once_for_all_who_ask_at_once():
    app = file()
    served = travel.compressed(app)

    async def run():
        scope = request(ASSET, accept_encoding="gzip, br")
        leaves = asyncio.create_task(said(served, scope))  # the first to ask, and gone before the answer
        others = [asyncio.create_task(said(served, scope)) for _ in range(20)]
        await asyncio.sleep(0)
        leaves.cancel()
        return [*await asyncio.gather(*others), await said(served, scope)]

    answers = [whole(messages) for messages in finished(run())]
    assert app.asked == 1
    for status, headers, body in answers:
        assert (status, gzip.decompress(body)) == (200, TEXT)
        assert headers["content-encoding"] == "gzip" and int(headers["content-length"]) == len(body)
        assert "accept-encoding" in headers["vary"].lower() and "immutable" in headers["cache-control"]


def test_files_on_disk_are_read_as_marimo_reads_them(tmp_path):
    (tmp_path / "index-abcdefg1.js").write_bytes(TEXT)
    app = Starlette(routes=[Mount("/assets", StaticFiles(directory=tmp_path))])
    # uvicorn's version, for which Starlette listens all the while whether the client has left
    scope = request(ASSET, accept_encoding="gzip") | {"asgi": {"spec_version": "2.3"}, "root_path": ""}

    async def run():
        served = travel.compressed(app)
        return [whole(await asyncio.wait_for(said(served, dict(scope)), 10)) for _ in range(2)]

    first, again = finished(run())
    assert first == again and gzip.decompress(first[2]) == TEXT


def test_what_one_visitor_gets_beside_a_file_no_other_gets():
    served = travel.compressed(file())

    async def with_a_cookie():
        messages = await said(served, request(ASSET, accept_encoding="gzip"))
        messages[0]["headers"].append((b"set-cookie", b"one visitor's"))  # as a layer outside does
        return await said(served, request(ASSET, accept_encoding="gzip"))

    assert "set-cookie" not in whole(finished(with_a_cookie()))[1]


@pytest.mark.parametrize(
    "path",
    [
        "/assets/plain.js",
        "/assets/x/../index-abcdefg1.js",
        "/assets//index-abcdefg1.js",
        "/public/assets/index-abcdefg1.js",
        "/",
        "/@file/1-abcdefg1.js",
    ],
)
def test_nothing_is_kept_but_files_named_by_their_content(path):
    app = file()
    served = travel.compressed(app)
    for _ in range(2):
        _, headers, body = ask(served, path, accept_encoding="gzip")
        assert gzip.decompress(body) == TEXT
        assert "cache-control" not in headers
    assert app.asked == 2


@pytest.mark.parametrize("name", travel.CONDITIONS)
def test_a_conditional_request_is_the_servers_to_answer(name):
    app = file()
    served = travel.compressed(app)
    for _ in range(2):
        ask(served, ASSET, accept_encoding="gzip", **{name.replace("-", "_"): "x"})
    assert app.asked == 2


def test_a_part_stays_the_part_that_was_asked_for():
    served = travel.compressed(file(TEXT[:5000], status=206))
    status, headers, body = ask(served, ASSET, accept_encoding="gzip", range="bytes=0-4999")
    assert (status, body) == (206, TEXT[:5000])
    assert "content-encoding" not in headers


def test_small_and_compressed_answers_stay_as_they_are():
    small = TEXT[: travel.SMALLEST - 1]
    for path in ("/x", ASSET):
        assert ask(travel.compressed(file(small)), path, accept_encoding="gzip")[2] == small
        ready = travel.compressed(file(headers=[(b"content-encoding", b"br")]))
        _, headers, body = ask(ready, path, accept_encoding="gzip")
        assert (headers["content-encoding"], body) == ("br", TEXT)


@pytest.mark.parametrize("status", [404, 500])
def test_a_refusal_is_not_kept(status):
    app = file(status=status)
    served = travel.compressed(app)
    for _ in range(2):
        assert ask(served, ASSET, accept_encoding="gzip")[0] == status
    assert app.asked == 2


@pytest.mark.parametrize("path", [ASSET, "/@file/run.csv"])
def test_an_error_in_the_middle_is_told_and_not_kept(path):
    good, failed = file(), []

    async def fails_once(scope, receive, send):
        if failed:
            return await good(scope, receive, send)
        failed.append(True)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/csv")]})
        await send({"type": "http.response.body", "body": NOISE, "more_body": True})
        raise OSError("the disk is gone")

    served = travel.compressed(fails_once)
    with pytest.raises(OSError, match="the disk is gone"):
        ask(served, path, accept_encoding="gzip")
    assert gzip.decompress(ask(served, path, accept_encoding="gzip")[2]) == TEXT


def test_only_the_page_loses_preloads():
    html = b'<link rel="preload" href="./assets/a.woff2" as="font" />' + b"<p>text</p>" * 100
    _, headers, body = ask(travel.compressed(file(html, "text/html")), "/", accept_encoding="identity")
    assert body == b"<p>text</p>" * 100 and "content-length" not in headers
    assert ask(travel.compressed(file(html, "text/html")), "/@file/1-report.html")[2] == html


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({"host": "127.0.0.1:7860"}, b"http://127.0.0.1:7860/og"),
        (
            {"host": "inside:1", "x_forwarded_host": "a-b.example", "x_forwarded_proto": "https"},
            b"https://a-b.example/og",
        ),
        ({"host": '"><script>alert(1)</script>'}, b"/og"),
        ({}, b"/og"),
    ],
)
def test_the_picture_of_a_link_has_a_whole_address(headers, address):
    html = b'<meta property="og:image" content="/og" />'
    body = ask(travel.compressed(file(html, "text/html")), "/", **headers)[2]
    assert body == b'<meta property="og:image" content="%b" />' % address


@pytest.mark.parametrize("broken", [False, True])
def test_a_session_waits_until_all_is_imported_even_if_that_fails(monkeypatch, broken):
    order, frozen, imported = [], [], threading.Event()

    def slowly(name):
        imported.wait(10)
        order.append(name)
        if broken:
            raise ImportError("a module that fails to load")

    async def app(scope, receive, send):
        order.append(scope["type"] + scope["path"])

    async def run():
        served = serving.served(app)
        async with start.warm(None):
            sessions = [
                asyncio.create_task(said(served, scope))
                for scope in ({"type": "websocket", "path": "/ws", "headers": []}, request("/sse"))
            ]
            await said(served, request("/health"))
            imported.set()
            await asyncio.wait_for(asyncio.gather(*sessions), 10)

    monkeypatch.setattr(importlib, "import_module", slowly)
    monkeypatch.setattr(threading, "excepthook", lambda told: None)
    monkeypatch.setattr(elsewhere, "serve_many", lambda: None)
    texts = ("cache_cell_texts", "share_cell_trees", "make_trees_in_turn")
    for name in ("cache_entry_points", *texts, "forget_sessions", "forget_texts", "register_formatters_once"):
        monkeypatch.setattr(start, name, lambda *_: None)
    monkeypatch.setattr(start.gc, "freeze", lambda: frozen.append(len(order)))
    monkeypatch.setattr(start.gc, "set_threshold", lambda *numbers: frozen.append(numbers))
    finished(run())
    assert order[:2] == ["http/health", "views.lab"]
    assert sorted(order[2:]) == ["http/sse", "websocket/ws"]
    assert frozen == [2, start.RARELY] and gc.isenabled()  # before any session, which must stay collectable


def test_a_server_that_never_warms_up_keeps_no_session_waiting():
    assert start.warmed.is_set()


def test_memory_is_given_back_once_for_all_who_leave_together(monkeypatch):
    tidied = []
    waiting = [SimpleNamespace(start=lambda: None) for _ in range(3)]
    monkeypatch.setattr(tidy.threading, "Timer", lambda seconds, run: tidied.append(run) or waiting[len(tidied)])
    monkeypatch.setattr(tidy, "_pending", threading.Lock())
    for _ in range(50):
        tidy.tidy_soon()
    assert len(tidied) == 1
    circle = type("Circle", (), {})()
    circle.itself, gone = circle, weakref.ref(circle)
    del circle
    tidied[0]()
    assert gone() is None
    tidy.tidy_soon()
    assert len(tidied) == 2


# What is open, and under which headers


PAGE = b"""<marimo-filename hidden>/srv/app/app.py</marimo-filename><link href="./apple.png">
<script data-marimo="true">let a = "/srv/app/app.py", b = "%2Fsrv%2Fapp%2Fapp.py"</script>
<script type="module" src="./assets/index.js"></script><script>2</script>"""


def editing(scope):
    """The same request, to `marimo edit`."""
    app = Starlette()
    app.state.session_manager = SimpleNamespace(mode=SimpleNamespace(value="edit"))
    return scope | {"app": app}


def sources(policy, directive):
    return dict(part.split(" ", 1) for part in policy.split("; "))[directive].split()


def test_the_policy_names_the_scripts_of_the_page_as_it_is_sent():
    _, headers, body = ask(serving.served(file(PAGE, "text/html", size=50)), "/")
    assert body == PAGE.replace(b"/srv/app/", b"").replace(b"%2Fsrv%2Fapp%2F", b"")
    scripts = (b'let a = "app.py", b = "app.py"', b"2")
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
    assert sources(headers["content-security-policy"], "script-src") == ["'self'", *hashes]


def test_no_source_is_another_host_and_no_code_is_made_of_text():
    _, headers, _ = ask(serving.served(file(b"{}", "application/json")), "/health")
    policy = headers["content-security-policy"]
    allowed = {source for part in policy.split("; ") for source in part.split()[1:] if "frame-ancestors" not in part}
    assert allowed == {"'none'", "'self'", "'unsafe-inline'", "data:", "blob:"}
    assert sources(policy, "script-src") == ["'self'"] and sources(policy, "default-src") == ["'none'"]
    hub = ["https://huggingface.co", "https://*.huggingface.co", "https://*.hf.space"]
    assert sources(policy, "frame-ancestors") == ["'self'", *hub]
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert "camera=()" in headers["permissions-policy"] and headers["cross-origin-opener-policy"] == "same-origin"


def test_a_page_that_the_browser_has_keeps_the_policy_it_came_with():
    _, headers, body = ask(serving.served(file(b"-", "text/html", status=304)), "/")
    assert body == b"-" and "content-security-policy" not in headers and headers["referrer-policy"] == "no-referrer"


def test_the_editor_is_left_alone():
    app = file(PAGE, "text/html")
    for scope in (request("/"), request("/api/kernel/run", "POST"), request("/terminal/ws") | {"type": "websocket"}):
        messages = finished(said(serving.served(app), editing(scope)))
        assert whole(messages)[2] == PAGE and "content-security-policy" not in whole(messages)[1]
    assert app.asked == 3


@pytest.mark.parametrize(
    ("base", "path", "open"),
    [("", "/health", True), ("/base", "/base/health", True), ("/base", "/health/x", False), ("", "/x/health", False)],
)
def test_what_is_open_is_open_below_the_servers_base(base, path, open):
    app = Starlette()
    app.state.base_url = base
    inner = file()
    status = whole(finished(said(endpoints.Closed(inner), request(path) | {"app": app})))[0]
    assert (status, inner.asked) == ((200, 1) if open else (404, 0))


@pytest.mark.parametrize(
    ("path", "method", "error", "status"),
    [
        ("/api/kernel/set_model_value", "POST", ValueError("Invalid session id"), 400),
        ("/@file/5-1-a.js", "GET", RuntimeError("response already started"), 404),
        ("/", "GET", OSError("the disk is gone"), None),
    ],
)
def test_what_marimo_fails_on_is_refused_and_what_fails_by_itself_is_told(path, method, error, status):
    async def fails(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    asked = said(endpoints.Closed(fails), request(path, method))
    if status is None:
        with pytest.raises(OSError, match="the disk is gone"):
            finished(asked)
    else:
        found, _, body = whole(finished(asked))
        assert found == status and str(error).encode() not in body


# The page, as `make run` serves it


def script_of(page_url):
    return page_url + "/" + re.search(rb'src="\./(assets/index-[^"]+\.js)"', get(page_url)[2])[1].decode()


def test_files_come_compressed_and_unchanged(page_url):
    script = script_of(page_url)
    _, plain_headers, plain = get(script)
    assert "content-encoding" not in plain_headers
    for _ in range(2):  # read from disk, then from memory
        status, headers, body = get(script, **{"Accept-Encoding": "gzip"})
        assert status == 200
        assert headers["content-encoding"] == "gzip"
        assert int(headers["content-length"]) == len(body) < len(plain) / 2
        assert "immutable" in headers["cache-control"]
        assert gzip.decompress(body) == plain


def test_parts_and_what_is_known_already_are_answered_as_marimo_does(page_url):
    script = script_of(page_url)
    _, headers, plain = get(script)
    for _ in range(2):
        status, _, body = get(script, **{"Accept-Encoding": "gzip", "Range": "bytes=100-199"})
        assert (status, body) == (206, plain[100:200])
        with pytest.raises(urllib.error.HTTPError, match="304") as known:
            get(script, **{"Accept-Encoding": "gzip", "If-None-Match": headers["etag"]})
        assert "immutable" in known.value.headers["cache-control"]
        get(script, **{"Accept-Encoding": "gzip"})
    head = urllib.request.Request(script, method="HEAD", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(head) as answer:
        assert (answer.status, answer.read()) == (200, b"")


def test_the_page_asks_for_no_font_it_does_not_use(page_url):
    _, _, html = get(page_url)
    assert b"<marimo-filename" in html
    assert not re.search(rb'rel="preload"[^>]+\.woff2', html)


def test_the_page_is_described_once_in_its_own_words(page_url):
    html = get(page_url)[2].decode()
    (description,) = re.findall(r'<meta name="description" content="([^"]+)"', html)
    assert "GRPO" in description and "GDPO" in description
    assert re.findall(r'<meta property="og:description" content="([^"]+)"', html) == [description]
    assert "og:title" in html and "og:image" in html


def test_every_answer_has_the_headers(page_url):
    for path in ("/", "/health", "/favicon.ico", "/none", script_of(page_url).removeprefix(page_url)):
        try:
            headers = get(page_url + path)[1]
        except urllib.error.HTTPError as refused:
            headers = refused.headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'"), path
        assert headers["x-content-type-options"] == "nosniff" and headers["permissions-policy"], path


def test_what_is_not_there_is_not_there_twice(page_url):
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{page_url}/assets/none-here-abcdefg1.js", **{"Accept-Encoding": "gzip"})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no Ctrl-C for one process there")
def test_ctrl_c_ends_the_server_without_a_traceback():
    with serve("the page with a download", stderr=subprocess.PIPE) as server:
        get(server.url)
        server.process.send_signal(signal.SIGINT)
        _, told = server.process.communicate(timeout=30)
    assert server.process.returncode == 0
    assert b"Traceback" not in told and b"Exception" not in told


# Scripts


@pytest.mark.parametrize("port", ["abc", "0", "70000", "", "80x"])
def test_a_port_that_is_none_is_one_clear_line(port):
    ran = subprocess.run(
        [sys.executable, "scripts/check_port.py", "127.0.0.1", port], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == f"PORT must be a whole number from 1 to 65535, not {port!r}\n"


def test_a_port_in_use_is_one_clear_line():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        ran = subprocess.run(
            [sys.executable, "scripts/check_port.py", "127.0.0.1", port], capture_output=True, text=True, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"port {port} is in use")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(("fault", "status"), [("OSError(24, 'Too many open files')", 1), ("ImportError('torch')", 0)])
def test_a_server_whose_page_cannot_be_imported_ends_with_one_line(fault, status):
    program = f"""
import importlib
from serving import start
def refused(name):
    raise {fault}
importlib.import_module = refused
start._import_page()
assert start.warmed.is_set()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = done.stderr.splitlines()
    assert (done.returncode, len(said)) == (status, status), done.stderr
    assert all("Too many open files" in line for line in said)
