"""Two servers behind one port: the configurations in docs/proxy, with the real nginx and HAProxy; `make faults`."""

import asyncio
import random
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults_browser import GRADED, Served, advantages, flipped, go_to, resumed, told, unused_port
from faults_browser import fresh as fresh
from helpers import apart, arrived
from test_chapters_browser import drawn, toggle

from benchmarks.visitors import Visitor

ROOT = Path(__file__).resolve().parent.parent
VISITORS, SECONDS = 50, 15


@contextmanager
def proxy(kind, tmp_path, ports, base="", tls=None):
    """The port of a proxy with its documented configuration, whose ports and path alone are changed."""
    if not shutil.which(kind):
        pytest.skip(f"no {kind} here; on Debian: apt-get install {'nginx-light' if kind == 'nginx' else kind}")
    listen = unused_port()
    name = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[kind]
    text = (ROOT / "docs" / "proxy" / name).read_text("utf-8")
    for old, new in zip((7860, 7861, 7862), (listen, *ports), strict=True):
        assert str(old) in text
        text = text.replace(str(old), str(new))
    if base:
        text = text.replace("location / {", f"location {base} {{").replace("GET /health", f"GET {base}/health")
    if tls and kind == "nginx":
        text = text.replace(
            f"listen {listen};", f"listen {listen} ssl; ssl_certificate {tls}; ssl_certificate_key {tls};"
        )
    if tls and kind == "haproxy":
        text = text.replace(f"bind :{listen}", f"bind :{listen} ssl crt {tls}")
    if kind == "nginx":  # as root it would hand its folders to another user
        temporary = " ".join(f"{use}_temp_path {use};" for use in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main = "user root; pid pid; daemon off; error_log stderr; events {}"
        text = f"{main} http {{ access_log off; {temporary} {text} }}"
    (tmp_path / name).write_text(text, "utf-8")
    command = {
        "nginx": ["nginx", "-p", str(tmp_path), "-e", "stderr", "-c", str(tmp_path / name)],
        "haproxy": ["haproxy", "-db", "-f", str(tmp_path / name)],
    }
    process = subprocess.Popen(command[kind], stdout=subprocess.DEVNULL)
    url = f"{'https' if tls else 'http'}://127.0.0.1:{listen}{base}"
    try:
        deadline = time.monotonic() + 20
        while not answers(f"{url}/health"):
            assert process.poll() is None and time.monotonic() < deadline, f"{kind} does not answer"
            time.sleep(0.1)
        yield listen, url
    finally:
        process.kill()
        process.wait()


def answers(url):
    import ssl

    try:
        urllib.request.urlopen(url, timeout=2, context=ssl._create_unverified_context())
    except OSError:
        return False
    return True


@contextmanager
def two(*options, **environment):
    servers = [Served(*options, **environment) for _ in range(2)]
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()


@pytest.fixture
def certificate(tmp_path):
    key, certificate, both = (tmp_path / name for name in ("key.pem", "cert.pem", "both.pem"))
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    return both


async def class_of(port, visitors, seconds):
    """(visitors per worker, ms of each flip) of visitors who each flip a mark a second."""
    all_of_them = [Visitor(port) for _ in range(visitors)]
    for n in range(0, visitors, 5):
        await asyncio.gather(*(visitor.arrive() for visitor in all_of_them[n : n + 5]))
    times = []

    async def flips(visitor, rng):
        await asyncio.sleep(rng.random())
        for _ in range(seconds):
            taken = await visitor.flip(rng.randrange(len(GRADED)), rng.randrange(3))
            times.append(1000 * taken)
            await asyncio.sleep(max(0, 1 - taken))

    await asyncio.gather(*(flips(visitor, random.Random(n)) for n, visitor in enumerate(all_of_them)))
    for visitor in all_of_them:
        await visitor.leave()
    return Counter(visitor.cookie for visitor in all_of_them), sorted(times)


@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_each_of_fifty_stays_with_its_server(kind, tmp_path):
    with two() as servers, proxy(kind, tmp_path, [server.port for server in servers]) as (port, _):
        per_worker, times = apart(class_of(port, VISITORS, SECONDS))
    assert len(times) == VISITORS * SECONDS
    assert set(per_worker) == {"worker=one", "worker=two"} and min(per_worker.values()) >= VISITORS // 5
    print(
        f"{kind}: {dict(per_worker)}, p50 {times[len(times) // 2]:.1f} ms, p95 {times[int(0.95 * len(times))]:.1f} ms"
    )


@pytest.mark.parametrize("seed", ["random", "0"])
def test_the_other_server_refuses_a_visitor(seed):
    """Why a cookie: it knows neither the page's token nor, where a fixed hash seed makes tokens alike, the session."""
    with two(PYTHONHASHSEED=seed) as (one, other):
        visitor = Visitor(one.port)

        async def strays():
            await visitor.arrive()
            visitor.reader, visitor.writer = await asyncio.open_connection("127.0.0.1", other.port)
            await visitor.flip(0, 0)

        with pytest.raises(RuntimeError) as refusal:
            apart(strays())
    print(f"PYTHONHASHSEED={seed}: {refusal.value}")
    assert ("401" in str(refusal.value)) == (seed == "random")


@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_the_page_in_a_browser_under_a_path_with_tls(kind, tmp_path, fresh, certificate):
    with (
        two("--base-url", "/rewards") as servers,
        proxy(kind, tmp_path, [server.port for server in servers], "/rewards", certificate) as (_, url),
    ):
        page = fresh(f"{url}/", ignore_https_errors=True)
        arrived(page, ".board .bar")
        address = page.locator('meta[property="og:image"]').get_attribute("content")
        assert address.startswith(url), "the picture of a link has the address that visitors use"
        toggle(page, 1, 1).click()
        drawn(page, advantages(flipped((1, 1))))
        go_to(page, "run")
        page.locator("input[type=file]").set_input_files(large(tmp_path))  # more than nginx takes by default
        page.wait_for_function(
            "() => document.querySelector('[data-cell-name=run_log]').innerText.includes('large')", timeout=60_000
        )
        for chapter in ("train", "lab"):
            go_to(page, chapter)
        for server in servers:
            server.kill()
        told(page, "The server does not answer.", 5000)
        for server in servers:
            server.start()
        resumed(page)
        drawn(page, advantages(flipped((1, 1))))


def large(folder):
    """A log of some 3 MB."""
    path = folder / "large.csv"
    rows = (f"{n // 8},{n % 2},{n % 3 > 0},{'x' * 60}" for n in range(40_000))
    path.write_text("prompt,correct,style,completion\n" + "\n".join(rows), "utf-8")
    return path


def test_readers_of_a_server_that_died_go_on_at_the_other(tmp_path, fresh):
    with two() as servers, proxy("haproxy", tmp_path, [server.port for server in servers]) as (_, url):
        page = fresh(f"{url}/")
        arrived(page, ".board .bar")
        toggle(page, 1, 1).click()
        drawn(page, advantages(flipped((1, 1))))
        (cookie,) = [one["value"] for one in page.context.cookies() if one["name"] == "worker"]
        servers[("one", "two").index(cookie)].kill()
        resumed(page)
        drawn(page, advantages(flipped((1, 1))))
        assert [one["value"] for one in page.context.cookies() if one["name"] == "worker"] != [cookie]
