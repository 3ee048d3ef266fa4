"""What travels: compressed files that are the same files, and scripts that say no when they should."""

import gzip
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from starlette.datastructures import Headers

from serving import SMALLEST, prepare


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.status, answer.headers, answer.read()


def test_files_come_compressed_and_unchanged(page_url):
    _, _, html = get(page_url)
    script = re.search(rb'src="\./(assets/index-[^"]+\.js)"', html)[1].decode()
    _, plain_headers, plain = get(f"{page_url}/{script}")
    assert "content-encoding" not in plain_headers
    for _ in range(2):  # read from disk, then from memory
        status, headers, body = get(f"{page_url}/{script}", **{"Accept-Encoding": "gzip"})
        assert status == 200
        assert headers["content-encoding"] == "gzip"
        assert int(headers["content-length"]) == len(body) < len(plain) / 2
        assert "immutable" in headers["cache-control"]
        assert gzip.decompress(body) == plain


def test_the_page_asks_for_no_font_it_does_not_use(page_url):
    _, _, html = get(page_url)
    assert b"<marimo-filename" in html
    assert not re.search(rb'rel="preload"[^>]+\.woff2', html)


def test_what_is_not_there_is_not_there_twice(page_url):
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{page_url}/assets/none-here.js")


def test_small_and_compressed_answers_stay_as_they_are():
    small = prepare({"status": 200, "headers": [(b"content-type", b"text/plain")]}, b"x" * (SMALLEST - 1), True, False)
    assert small[1] == b"x" * (SMALLEST - 1)
    ready = {"status": 200, "headers": [(b"content-type", b"text/plain"), (b"content-encoding", b"br")]}
    start, body = prepare(ready, b"y" * 5000, True, False)
    assert body == b"y" * 5000
    assert Headers(raw=start["headers"])["content-encoding"] == "br"


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
