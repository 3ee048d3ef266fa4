"""A page whose server goes away, and a port that is taken; `make faults`, at night."""

import socket
import subprocess
import sys
from urllib.parse import urlsplit

from conftest import ROOT, served
from helpers import arrived
from test_chapters_browser import GRADED, computed, drawn, toggle


def test_a_page_whose_server_is_started_anew_goes_on_by_itself(browser):
    flipped = [[1 - GRADED[0][0], *GRADED[0][1:]], *GRADED[1:]]
    page = browser.new_page(reduced_motion="reduce")
    with served("app.py") as url:
        page.goto(url)
        arrived(page, ".board .bar")
        toggle(page, 0, 0).click()
        page.wait_for_url("**lab-marks=**")
    page.locator(".lost", has_text="The server does not answer.").wait_for()
    assert page.locator("#root").get_attribute("inert") is not None  # what would not be computed can't be set
    with page.expect_event("load") as loaded, served("app.py", port=urlsplit(url).port):
        loaded.value  # noqa: B018
        arrived(page, ".board .bar")
        drawn(page, computed(flipped))
        flipped[1] = [1 - flipped[1][0], *flipped[1][1:]]
        toggle(page, 1, 0).click()
        drawn(page, computed(flipped))
        assert not page.locator(".lost").is_visible() and page.get_by_text("Failed to update").count() == 0
    page.close()


def test_a_port_in_use_is_one_line():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        command = [sys.executable, "serve.py", "--port", str(busy.getsockname()[1])]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode and not ran.stdout and ran.stderr.count("\n") == 1 and "in use" in ran.stderr
