"""Fixtures that several files share, such as a running page and a browser; and with STRICT=1 a skipped test fails the
run.
"""

import gc
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

if "PYTEST_XDIST_WORKER" in os.environ:  # before torch and polars are loaded: a worker has one core, as has its server
    for _threads in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(_threads, "1")

import pytest
from helpers import arrived
from hypothesis import HealthCheck, settings

from benchmarks.servers import end, until_listening, unused_port

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 90_000  # milliseconds: training takes the lowest priority, and a busy machine makes it wait
# Without TRL this file cannot be imported, and its examples would be looked for in every run. `make parity-trainer` has
# what it imports.
collect_ignore = [] if find_spec("trl") else ["parity_callback.py", "parity_refusals.py", "parity_tutorial.py"]
if not find_spec("marimo"):  # without the page's extra, as in `make lowest`, the tests are those of the library
    _page = "app|benchmarks.visitors|tests.fuzz|guests|links|marimo|serve|views|websockets"
    _imports = re.compile(rf"^(from|import) ({_page})\b", re.MULTILINE)
    collect_ignore += [str(f) for f in Path(__file__).parent.rglob("*.py") if _imports.search(f.read_text("utf-8"))]

# Every run tries the same examples, so that what is green here is green everywhere, and runs at one time share nothing.
# `--hypothesis-profile=search` looks for new ones. There is no deadline, because other programs use the machine too.
settings.register_profile(
    "full", max_examples=15, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
for _name, _examples in (("dev", 8), ("night", 200)):  # for `make check`, and for the nightly workflow
    settings.register_profile(_name, settings.get_profile("full"), max_examples=_examples)
settings.register_profile("search", settings.get_profile("full"), max_examples=1000, derandomize=False)
settings.load_profile("full")


@pytest.fixture(autouse=True)
def _faults_of_attempts_are_seen(monkeypatch):
    """Let an error that polars raises in one attempt to read a log end the test, although it ends no audit."""
    if trying := sys.modules.get("gdpo_audit.logs.files.trying"):
        monkeypatch.setattr(trying, "TOLERATED", trying.TOLERATED[:1])


def pytest_addoption(parser):
    """Add the option --one-case, which runs only one case of each test."""
    parser.addoption("--one-case", action="store_true", help="of a test with many cases one, another for each commit")


def pytest_report_header(config):
    """Say by which commit the cases are chosen, with which the same ones can be run again."""
    return f"cases of the commit {_commit()}" if config.getoption("--one-case") else None


@cache
def _commit() -> str:
    """Return the name of the commit that is checked out, or what CASES_OF names in its place; "" without git."""
    if named := os.environ.get("CASES_OF"):
        return named
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return asked.stdout.strip()


def pytest_collection_finish():
    """Let garbage collection skip all that was imported and collected before the first test, which never goes."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark tests that open the page as slow, leave out what a run does not ask for, and put slow tests first, so that
    no worker begins one while the others have run out of work.

    With --one-case a test keeps one of the cases that its marks leave. The commit and the name of the test choose it,
    so that all workers choose alike, and all cases have their turn as commits go by. A test that is marked as
    every_case keeps all: of a bound, one side says nothing without the other.
    """
    for item in items:
        if _opens_the_page(item):
            item.add_marker("slow")
    yield
    out = set()
    if config.getoption("--hypothesis-profile") != "night":
        out |= {item for item in items if item.get_closest_marker("night")}
    if config.getoption("--one-case"):
        cases = {}
        for item in items:
            if item not in out and not item.get_closest_marker("every_case"):
                cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        for test, of_test in cases.items():
            chosen = of_test[crc32(f"{_commit()} {test}".encode()) % len(of_test)]
            out |= {item for item in of_test if item is not chosen}
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = sorted((item for item in items if item not in out), key=_rank)


def _rank(item) -> int:
    return 0 if _opens_the_page(item) else 1 if item.get_closest_marker("slow") else 2


def _opens_the_page(item) -> bool:
    return "page_url" in getattr(item, "fixturenames", ())


def pytest_sessionfinish(session):
    # A worker of xdist has no such reporter; the one that counts belongs to the process to which the workers report.
    """Let the run fail with STRICT=1 if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped") if reporter else None
    if os.environ.get("STRICT") == "1" and skipped:
        reporter.ensure_newline()
        reporter.write_line(f"STRICT=1: {len(skipped)} skipped, so the run fails", red=True)
        session.exitstatus = 1


@contextmanager
def served(notebook: str, base_url: str = "", port: int = 0, before=(), said=None, **environment):
    """Yield the address of the page, served as `make run` serves it; or of another notebook, as marimo runs it.

    before: words that stand before the command; said: the file that its output goes to; environment: variables to set,
    or to remove if they are None.
    """
    port = port or unused_port()
    command = [sys.executable, "serve.py", "--port", str(port), "--base-url", base_url]
    if notebook != "app.py":
        command[1:2] = ["-m", "marimo", "run", notebook, "--headless", "--no-token", "--no-sandbox"]
    kept = {name: value for name, value in (os.environ | environment).items() if value is not None}
    server = subprocess.Popen([*before, *command], cwd=ROOT, env=kept, stdout=said or subprocess.DEVNULL, stderr=said)
    try:
        until_listening(server, port)
        assert server.poll() is None, f"the server that listens at {port} is not ours"
        yield f"http://127.0.0.1:{port}{base_url}"
    finally:
        end(server)


@pytest.fixture(scope="session")
def page_url():
    """Yield the address of the page, which is served as long as the tests run."""
    with served("app.py") as url:
        yield url


@pytest.fixture(scope="session")
def browser():
    """Yield a running browser; without Chromium the test is skipped."""
    from benchmarks.browser import browser, find_chromium

    if find_chromium() is None:
        pytest.skip("no chromium on this machine")
    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def unused_pages(browser):
    """Return a dict that keeps tabs which no visitor uses now, by their options: a tab that was used before opens the
    page with half of the work.
    """
    return {}


@pytest.fixture
def visit(browser, page_url, unused_pages):
    """Yield a function that opens the page as a new visitor. At the end of the test there must be no error in the
    console, neither of the browser nor of a cell, and no request to another host.
    """
    visits, errors, hosts = [], [], set()
    heard = {
        "console": lambda told: errors.append(told.text) if told.type == "error" or "[STDERR]" in told.text else None,
        "pageerror": lambda error: errors.append(str(error)),
        "request": lambda request: hosts.add(urlsplit(request.url).hostname),
    }

    def open_page(query="", width=1440, height=960, scheme="light", permissions=(), **options):
        unused = unused_pages.setdefault(repr(sorted(options.items())), [])
        page = unused.pop() if unused else browser.new_context(**options).new_page()
        visits.append((page, unused))
        page.context.grant_permissions(list(permissions))
        page.set_default_timeout(PATIENCE)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="screen", color_scheme=scheme, reduced_motion="reduce")
        for event, listener in heard.items():
            page.on(event, listener)
        page.goto(f"{page_url}/{query}")
        arrived(page, ".board .bar")
        return page

    yield open_page
    for page, unused in visits:
        page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.goto("about:blank")
        page.context.clear_cookies()
        page.context.clear_permissions()
        for event, listener in heard.items():
            page.remove_listener(event, listener)
        unused.append(page)
    assert not errors
    assert hosts <= {"127.0.0.1", None}
