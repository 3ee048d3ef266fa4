"""The headers and the bounds of the guard, each compared with what it has to be, typed here by hand."""

import contextlib
from base64 import b64encode
from hashlib import sha256

import msgspec
import pytest
from starlette.datastructures import MutableHeaders
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from views.server import guard, memory
from views.server.heads import BoundedHeads

HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'none'",
    "frame-ancestors": "'self' https://huggingface.co https://*.huggingface.co https://*.hf.space",
}
OF_MARIMO = {"access-control-allow-origin": "*", "etag": "1", "last-modified": "then", "accept-ranges": "bytes"}
FILE = "/assets/index-DkzYl_3a.js"  # has a hash in its name


def dressed(path="/", status=200, body=b"") -> dict[str, str]:
    """Return the headers of an answer that has those of marimo before."""
    headers = [(name.encode(), value.encode()) for name, value in OF_MARIMO.items()]
    start = {"type": "http.response.start", "status": status, "headers": headers}
    return dict(MutableHeaders(scope=guard.dressed(path, start, body)))


def policy_of(headers: dict[str, str]) -> dict[str, str]:
    return dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))


@pytest.mark.parametrize("path", ["/", "/none", "/assets/index.js"])
@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_has_these_headers_and_this_policy(path, status):
    headers = dressed(path, status)
    kept = {name: value for name, value in OF_MARIMO.items() if name != "access-control-allow-origin"}
    assert policy_of(headers) == POLICY
    assert {name: value for name, value in headers.items() if name != "content-security-policy"} == HEADERS | kept


def test_a_file_whose_name_holds_a_hash_is_kept_for_a_year_and_has_no_header_of_a_document():
    year = 365 * 24 * 60 * 60
    kept = {"x-content-type-options": "nosniff", "cache-control": f"public, max-age={year}, immutable"}
    assert dressed(FILE) == kept
    assert policy_of(dressed(FILE, 404)) == POLICY and "cache-control" not in dressed(FILE, 404)


def test_an_answer_that_nothing_changed_has_no_policy_for_the_browser_has_the_pages():
    assert "content-security-policy" not in dressed("/", 304)
    assert "content-security-policy" in dressed("/", 303)


def test_the_policy_of_a_page_allows_the_scripts_in_it_and_no_others():
    body = b'<script src="a.js"></script><script type="module">one()</script><script>\ntwo()</script>'
    hashes = [f"'sha256-{b64encode(sha256(text).digest()).decode()}'" for text in (b"one()", b"\ntwo()")]
    assert policy_of(dressed("/", body=body)) == POLICY | {"script-src": " ".join(["'self'", *hashes])}
    assert policy_of(dressed("/assets/a.svg", body=body)) == POLICY


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/@file/5-aB_9.png", "", None),
        ("/@file/5-a.tar.gz", "", 404),
        ("/@file/5-a", "", 404),
        ("/@file/5-ä.png", "", 404),
        ("/@file/a.png/", "", 404),
        ("/@file/", "", 404),
        ("/", "file=__new__", 404),
        ("/", "file=__new__2", 404),
        ("/", "file=_new__", None),
    ],
)
def test_files_by_other_names_than_marimos_and_new_notebooks_are_refused(path, query, status):
    refusal = guard.refused({"type": "http", "path": path, "query_string": query.encode(), "headers": []})
    assert (refusal and refusal[0]) == status


@pytest.mark.parametrize(
    ("path", "status"), [("/ws", 403), ("/page/ws", 403), ("/ws_sync", 404), ("/terminal/ws2", 404)]
)
def test_a_socket_of_another_path_is_unknown_and_one_without_a_session_forbidden(path, status):
    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": []}
    assert guard.refused(scope)[0] == status


@pytest.mark.parametrize("status", [399, 400, 499, 500])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_an_error_is_blamed_on_who_asked_from_400_to_499(status, depth):
    error = Exception()
    error.status_code = status
    for _ in range(depth):
        outer = Exception()
        outer.__cause__, error = error, outer
    assert guard.blamed(error) == (status if 400 <= status < 500 else 500)
    assert guard.blamed(msgspec.ValidationError()) == 400


def test_a_body_may_be_as_large_as_the_largest_files_in_base64_and_room_is_kept_from_a_megabyte_on(monkeypatch):
    asked = []

    @contextlib.contextmanager
    def reserved(size):
        asked.append(size)
        yield True

    monkeypatch.setattr(memory, "reserved", reserved)
    largest = guard.sessions.LARGEST_UPLOAD
    assert largest * 4 // 3 < guard.BODY < largest * 4 // 3 + 2**17 and guard.SMALL == 2**20
    for size in (2**20, 2**20 + 1, guard.BODY, guard.BODY + 1):
        body = guard.Body({"type": "http", "headers": [(b"content-length", str(size).encode())]}, None)
        with body.room():
            assert (body.refusal is None) == (size <= guard.BODY)
    assert asked == [2**20 + 1, guard.BODY]


@pytest.mark.every_case
@pytest.mark.parametrize(("headers", "refused"), [(10_000, False), (11_000, True)])
def test_a_head_is_as_long_as_it_was_sent(monkeypatch, headers, refused):
    """Each header `X: a` takes six bytes on the line, of which the limit of 65,536 counts all."""
    monkeypatch.setattr(HttpToolsProtocol, "on_headers_complete", lambda self: None)
    head = BoundedHeads.__new__(BoundedHeads)
    head.url, head.headers = b"/", [(b"x", b"a")] * headers
    with pytest.raises(ValueError) if refused else contextlib.nullcontext():
        head.on_headers_complete()
