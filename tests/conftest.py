"""Fixtures that several files share: a running page and a browser; with STRICT=1 a skipped test fails the run."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("STRICT") == "1" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = 1


@pytest.fixture(scope="session")
def page_url():
    """The address of the page, served as `make run` does, for as long as the tests run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "run", "app.py", "--headless", "--no-token", "--no-sandbox"]
    server = subprocess.Popen([*command, "--port", str(port)], cwd=ROOT, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1)
            break
        except OSError:
            time.sleep(0.1)
    else:
        server.kill()
        raise RuntimeError(f"no answer from {url}/health in 30 s")
    yield url
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="session")
def browser():
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on this machine")
    from benchmarks.browser import browser

    with browser() as running:
        yield running


@pytest.fixture
def visit(browser, page_url):
    """Opens the page as a new visitor; afterwards there must be no console error and no request to another host."""
    contexts, errors, hosts = [], [], set()

    def open_page(width=1440, height=960, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        page.goto(page_url)
        page.wait_for_selector(".board .bar")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors
    assert hosts <= {"127.0.0.1", None}
