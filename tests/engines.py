"""The page in Firefox and in WebKit, each controlled by its own protocol; `make engines`, at night.

Neither needs a driver from elsewhere: Firefox speaks WebDriver BiDi itself, and WebKitGTK comes with a WebDriver.
"""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_chapters_browser import GRADED, computed
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from benchmarks.servers import end, until_listening, unused_port
from views.widgets.address import CHAPTERS

WIDTH, HEIGHT, SECONDS = 1440, 960, 60
PICTURES = os.environ.get("PICTURES")  # the folder for a picture of each chapter in each engine, where one is named
FIREFOX = ("firefox-esr", "firefox")
# Each of these is a function in the page. What lies in a widget or in one of marimo's elements is found through its
# shadow root.
FIND = """(selector, root = document) => [...root.querySelectorAll(selector),
  ...[...root.querySelectorAll("*")].flatMap(e => e.shadowRoot ? find(selector, e.shadowRoot) : [])]"""
SHOWN = """[...document.querySelectorAll(`[data-cell-name^="${at}_"]`)].some(c => c.checkVisibility() &&
  c.getBoundingClientRect().height > 100)"""
NUMBERS = """find(".board .row").map(r => [+r.querySelector(".number").textContent - 1,
  ...[...r.querySelectorAll(".value")].map(v => v.textContent.replace(/^\\S /, ""))])"""
TOGGLE = """[find(".board .row")[0].querySelector(".toggle").getBoundingClientRect()]
  .map(b => [b.x + b.width / 2, b.y + b.height / 2])[0]"""

MENUS = "find('select').filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"
LINES = """find(".term, .tip").map(e => getComputedStyle(e))
  .map(s => `${s.textDecorationLine} ${s.textDecorationStyle}`)"""


class Page:
    """A page in an engine, with what a test does to it, whichever protocol carries that."""

    name: str

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page, in which `find` looks into shadow roots too."""
        script = f"(() => {{ const find = {FIND}; return JSON.stringify({expression} ?? null) }})()"
        return json.loads(self.evaluate(script))

    def becomes(self, expression: str, expected: Any) -> None:
        """Wait until a JavaScript expression on the page has this value."""
        deadline = time.monotonic() + SECONDS
        while (came := self.run(expression)) != expected:
            assert time.monotonic() < deadline, f"{self.name}: expected {expected!r:.300}, got {came!r:.300}"
            time.sleep(0.05)

    def at_rest(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page, once it has stayed the same for half a second."""
        value = self.run(expression)
        while time.sleep(0.5) or value != (value := self.run(expression)):
            pass
        return value

    def evaluate(self, script: str) -> Any:
        raise NotImplementedError

    def open(self, url: str) -> None:
        raise NotImplementedError

    def click(self, x: float, y: float) -> None:
        raise NotImplementedError

    def picture(self) -> bytes:
        raise NotImplementedError

    def errors(self) -> list[str]:
        """Return the messages of the engine about scripts that failed."""
        raise NotImplementedError


def click_at(x: float, y: float) -> list[dict]:
    """Return a click as actions of the mouse, in the form that both protocols take."""
    steps = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
    steps += [{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]
    return [{"type": "pointer", "id": "mouse", "actions": steps}]


# --- Firefox ---------------------------------------------------------------------------------------------------------


class Firefox(Page):
    """A tab of Firefox, controlled by WebDriver BiDi, whose commands and events are messages on a websocket."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.last, self.said = socket, 0, []
        about = self.call("session.new", capabilities={})["capabilities"]
        self.name = f"Firefox {about['browserVersion']}"
        self.tab = self.call("browsingContext.getTree")["contexts"][0]["context"]
        self.call("session.subscribe", events=["log.entryAdded"])
        self.call("browsingContext.setViewport", context=self.tab, viewport={"width": WIDTH, "height": HEIGHT})

    def call(self, method: str, **params: Any) -> Any:
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        while True:
            came = json.loads(self.socket.recv(timeout=SECONDS))
            if came.get("id") == self.last:
                assert came["type"] == "success", came
                return came["result"]
            self.said.append(came)

    def evaluate(self, script: str) -> Any:
        ran = self.call("script.evaluate", expression=script, target={"context": self.tab}, awaitPromise=True)
        assert ran["type"] == "success", ran
        return ran["result"].get("value")

    def open(self, url: str) -> None:
        self.call("browsingContext.navigate", context=self.tab, url=url, wait="complete")

    def click(self, x: float, y: float) -> None:
        self.call("input.performActions", context=self.tab, actions=click_at(x, y))

    def picture(self) -> bytes:
        return base64.b64decode(self.call("browsingContext.captureScreenshot", context=self.tab)["data"])

    def errors(self) -> list[str]:
        # Vega asks whether it may compile functions. It may not, and it works without that.
        said = [event["params"] for event in self.said if event["method"] == "log.entryAdded"]
        failed = [one["text"] for one in said if one["level"] == "error" and one["type"] == "javascript"]
        return [text for text in failed if not text.startswith("Content-Security-Policy:")]


@contextmanager
def firefox(folder: Path) -> Iterator[Page]:
    """Yield a page in Firefox; without Firefox the test is skipped."""
    path = next(filter(None, map(shutil.which, FIREFOX)), None)
    if path is None:
        pytest.skip("no Firefox on this machine")
    port = unused_port()
    command = [path, "--headless", "--no-remote", "--profile", folder, "--remote-debugging-port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connected(port) as socket:
            yield Firefox(socket)
    finally:
        end(process)


@contextmanager
def connected(port: int) -> Iterator[Any]:
    """Yield the websocket to Firefox, once it accepts connections."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket = connect(f"ws://127.0.0.1:{port}/session", max_size=None, proxy=None)
            break
        except (OSError, WebSocketException):
            assert time.monotonic() < deadline, "Firefox does not listen"
            time.sleep(0.1)
    with socket:
        yield socket


# --- WebKit ----------------------------------------------------------------------------------------------------------


class WebKit(Page):
    """A window of WebKitGTK's small browser, controlled by WebDriver, in which each command is a request."""

    def __init__(self, port: int, browser: str, log: Path) -> None:
        self.address, self.log = f"http://127.0.0.1:{port}/session", log
        options = {"binary": browser, "args": ["--automation", "--enable-write-console-messages-to-stdout=true"]}
        about = self.call("", capabilities={"alwaysMatch": {"webkitgtk:browserOptions": options}})
        self.name = f"WebKitGTK {about['capabilities']['browserVersion']}"
        self.address += f"/{about['sessionId']}"
        self.call("/window/rect", width=WIDTH, height=HEIGHT)

    def call(self, path: str, **values: Any) -> Any:
        request = urllib.request.Request(self.address + path, json.dumps(values).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def evaluate(self, script: str) -> Any:
        return self.call("/execute/sync", script=f"return {script}", args=[])

    def open(self, url: str) -> None:
        self.call("/url", url=url)

    def click(self, x: float, y: float) -> None:
        self.call("/actions", actions=click_at(x, y))

    def picture(self) -> bytes:
        request = urllib.request.urlopen(f"{self.address}/screenshot", timeout=SECONDS)
        return base64.b64decode(json.load(request)["value"])

    def errors(self) -> list[str]:
        return [line for line in self.log.read_text("utf-8").splitlines() if "CONSOLE JS ERROR" in line]


@contextmanager
def webkit(folder: Path) -> Iterator[Page]:
    """Yield a page in WebKitGTK's small browser; without it the test is skipped."""
    browsers = sorted(map(str, Path("/usr").glob("lib*/**/webkit*gtk-*/MiniBrowser")))
    if not (shutil.which("WebKitWebDriver") and shutil.which("Xvfb") and browsers):
        pytest.skip("no WebKitWebDriver, or no Xvfb, on this machine")
    port, log = unused_port(), folder / "said.txt"
    screen = subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-screen", "0", f"{WIDTH}x{HEIGHT}x24"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        display = f":{screen.stdout.readline().decode().strip()}"
        seen = {**os.environ, "DISPLAY": display, "GDK_BACKEND": "x11"}
        with log.open("w") as said:
            driver = subprocess.Popen(["WebKitWebDriver", f"--port={port}"], env=seen, stdout=said, stderr=said)
        try:
            until_listening(driver, port)
            yield WebKit(port, browsers[-1], log)
        finally:
            end(driver)
    finally:
        end(screen)


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [firefox, webkit], ids=["Firefox", "WebKit"])
def test_five_chapters_open_and_a_mark_is_flipped(engine, page_url, tmp_path):
    with engine(tmp_path) as page:
        for chapter in CHAPTERS:
            page.open(f"{page_url}/?at={chapter}")
            page.becomes("document.documentElement.dataset.at", chapter)
            page.becomes(SHOWN.replace("${at}", chapter), True)
            if PICTURES:
                page.at_rest("find('*').length")
                Path(PICTURES, f"{chapter}-{page.name.split()[0]}.png").write_bytes(page.picture())
            # A menu is as flat in each engine as in the others, and a term has its dotted line.
            assert all(20 <= height <= 32 for height in page.run(MENUS)), (page.name, chapter)
            assert set(page.run(LINES)) <= {"underline dotted"}, (page.name, chapter)
        page.open(f"{page_url}/")
        flipped = [[1 - GRADED[0][0], *GRADED[0][1:]], *GRADED[1:]]
        for marks in (GRADED, flipped, GRADED):
            page.becomes(NUMBERS, [[answer, *of] for answer, of in computed(marks).items()])
            page.click(*page.at_rest(TOGGLE))
        page.becomes("new URLSearchParams(location.search).has('lab-marks')", True)
        assert not page.errors()
