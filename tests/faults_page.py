"""A page whose server goes away, a port that is taken, and what is left on the disk; `make faults`, at night."""

import base64
import io
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

from conftest import ROOT, served
from guests import guest
from helpers import arrived
from test_chapters_browser import GRADED, computed, drawn, toggle
from test_isolation import open_chapter, uploaded


def test_a_page_whose_server_is_started_anew_goes_on_by_itself(browser):
    flipped = [[1 - GRADED[0][0], *GRADED[0][1:]], *GRADED[1:]]
    page = browser.new_page(reduced_motion="reduce")
    with served("app.py") as url:
        page.goto(url)
        arrived(page, ".board .bar")
        toggle(page, 0, 0).click()
        page.wait_for_url("**lab-marks=**")
    page.locator(".lost", has_text="The server does not answer.").wait_for()
    assert page.locator("#root").get_attribute("inert") is not None  # What would not be computed cannot be set.
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


def zipped(name: str, content: str) -> list[list[str]]:
    """Return an upload of one zip that holds this file; content: in base64."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, base64.b64decode(content))
    return [["log.zip", base64.b64encode(packed.getvalue()).decode()]]


def test_no_file_of_a_visitor_is_written_and_no_temporary_one_remains(tmp_path_factory):
    # The name has to be short, because the path of a socket may not be long.
    with tempfile.TemporaryDirectory() as temporary:
        places = {"TMPDIR": Path(temporary), "HOME": tmp_path_factory.mktemp("home")}
        upload_three(places)
        assert not list(places["TMPDIR"].iterdir())
    assert not [path for path in places["HOME"].rglob("*") if path.is_file() and b"secret_" in path.read_bytes()]


def upload_three(places: dict[str, Path]) -> None:
    """Start a server with these folders in its environment, and let a visitor upload a small file, a zip and a large
    file.
    """
    large = uploaded("secret_3", more=1000)
    uploads = {"secret_1": uploaded("secret_1"), "secret_2": zipped(*uploaded("secret_2")[0]), "secret_3": large}
    with (
        served("app.py", **{name: str(place) for name, place in places.items()}) as url,
        guest(url) as visitor,
    ):
        open_chapter(visitor, "run")
        for secret, files in uploads.items():
            visitor.choose(visitor.controls("marimo-file")[-1], files)
            # The last message is then the audit.
            visitor.receive(lambda _, secret=secret: secret in visitor.messages[-1])
        assert not [path for path in places["TMPDIR"].rglob("*") if path.is_file()]
