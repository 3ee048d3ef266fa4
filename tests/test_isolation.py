"""Visitors who mean harm: what others upload and set stays with them, and nothing of marimo's editor answers."""

import base64
import contextlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest
from guests import Guest, answer, guest
from helpers import arrived
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from benchmarks.visitors import CALL_FUNCTION, MODEL_MESSAGE, SET_MODEL_VALUE, SET_VALUE

DATA = Path(__file__).resolve().parent.parent / "data"
FILE = re.compile(r"@file/(\d+-\d+-\w+)\.(\w+)")


def uploaded(secret: str, more: int = 1) -> list[list[str]]:
    """Return a log as the page hands over a file, with a reward that is named by the secret. more: how often its rows
    are repeated.
    """
    log = pl.read_parquet(DATA / "samples" / "trl_gdpo" / "completions_00001.parquet")
    written = pl.concat([log.rename({"correctness_reward": secret})] * more).write_csv()
    return [["completions_00001.csv", base64.b64encode(written.encode()).decode()]]


def downloads(visitor: Guest) -> list[bytes]:
    """Return the files that the last report offers for download."""
    files = []
    for element in visitor.controls("marimo-download")[-3:]:
        call = {"functionCallId": element, "args": {}, "namespace": element, "functionName": "load"}
        assert visitor.post(CALL_FUNCTION, call)[0] == 200
        address = visitor.receive(lambda told: told["op"] == "function-call-result")["return_value"]["data"]
        assert address.startswith("data:")  # The address is the file itself, and this session alone is told it.
        files.append(base64.b64decode(address.partition(",")[2]))
    return files


def open_chapter(visitor: Guest, chapter: str) -> None:
    """Go to a chapter, as a click in the bar does."""
    visitor.set(visitor.having("chapters"), at=chapter)
    visitor.rest()


def weighs(visitor: Guest, weight: float) -> None:
    """Set a weight of the board, and wait for its drawing and for the cells that depend on it."""
    assert visitor.set(visitor.having("drawing"), weights=[weight, 1, 1]) == 200
    visitor.receive(lambda told: drawing(told).get("state", {}).get("weights") == [weight, 1, 1])
    visitor.rest()


def drawing(told: dict) -> dict:
    found = told.get("message", {}).get("state", {}).get("drawing") if told["op"] == MODEL_MESSAGE else None
    return found if isinstance(found, dict) else {}


def test_what_one_visitor_uploads_no_other_is_told(page_url):
    secrets = ("first_secret", "second_secret")
    with guest(page_url) as first, guest(page_url) as second:
        both = (first, second)
        for visitor in both:
            open_chapter(visitor, "run")
        for visitor, secret in zip(both, secrets, strict=True):
            visitor.choose(visitor.controls("marimo-file")[-1], uploaded(secret))
            # The report has then arrived.
            visitor.receive(lambda _, secret=secret, visitor=visitor: secret in visitor.messages[-1])
            visitor.rest()
        files = [downloads(visitor) for visitor in both]
        for mine, others in ((0, 1), (1, 0)):
            told = "".join(both[mine].messages)
            assert secrets[mine] in told and secrets[others] not in told
            assert len(files[mine]) == 3
            for body in files[mine]:
                assert secrets[mine].encode() in body and secrets[others].encode() not in body
            address = both[mine].models[both[mine].having("chapters")]["controls"]
            assert not [text for key, text in address.items() if key.startswith("run-") and text]
            # Others might guess an address. What has one is the same for all: the scripts of the widgets.
            assert {kind for _, kind in FILE.findall(told)} == {"js"}


def test_who_knows_no_name_reaches_no_session(page_url):
    with guest(page_url) as owner, guest(page_url) as stranger:
        board, switch = owner.having("drawing"), owner.controls("marimo-switch")[0]
        heard = len(owner.messages)
        for name in ("s_none", " ", owner.name[:-1], owner.name + "0", "../" + owner.name, "*"):
            assert stranger.set(board, session=name, weights=[2.875, 1, 1]) >= 400
            assert stranger.choose(switch, True, session=name) >= 400
        weighs(owner, 2)
        assert "2.875" not in "".join(owner.messages[heard:])
        # In marimo the id of a widget is a key to it from any session, so nobody else may learn it or guess it.
        assert not owner.models.keys() & stranger.models.keys()
        assert all(re.fullmatch("[0-9a-f]{32}", id) for id in owner.models)


# --- hostile messages ------------------------------------------------------------------------------------------------

DEEP: list = []
for _ in range(200):
    DEEP = [DEEP]
CONTENTS = [None, 5, "x", [], {}, DEEP, {"n": DEEP}, {"ask": []}, {"at": "../../etc/passwd"}, {"visits": 10**40}]
STATES = [
    {"marks": "x"}, {"marks": []}, {"marks": [[]]}, {"marks": [[1, 1, 1]] * 100_000}, {"marks": [[2, True, 0.5]] * 12},
    {"marks": DEEP}, {"weights": [1e308] * 3}, {"weights": [-1, 1, 1]}, {"weights": {}}, {"pays": [None] * 3},
    {"pays": [0, 1, 1]}, {"method": ["gdpo"], "convention": {}}, {"method": "none"}, {"convention": "../x"},
    {"active": "zz"}, {"active": 10**9}, {"active": -1}, {"drawing": 5}, {"drawing": {}},
    {"answers": []}, {"names": None}, {"labels": DEEP}, {"reasons": {}}, {"given": [[5]]}, {"choices": []},
    {"at": 5}, {"at": "../../etc/passwd"}, {"asked": DEEP}, {"asked": {"train-scenario": ["x"]}},
    {"asked": {"train-scenario": "none"}}, {"chapters": None}, {"editing": True}, {"unread": [1] * 100_000},
    {"controls": []}, {"programs": {"lab": DEEP}}, {"html": "<script>alert(1)</script>"}, {"html": 5},
    {"chosen": "<b>"}, {"chosen": {}}, {"chosen": "x" * 100_000},
    {"_esm": "alert(1)", "_css": "*{}"}, {"_model_id": "x", "comm": 1, "__class__": 1}, {},
]  # fmt: skip
BODIES = [
    b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"modelId":' + b"[" * 100_000, b"[" * 5000 + b"]" * 5000,
    b'{"modelId":"x","message":{"method":"custom","content":NaN},"buffers":[]}',
    b'{"modelId":"x","message":{"method":"custom","content":' + b"[" * 3000 + b"]" * 3000 + b'},"buffers":[]}',
    b'{"modelId":"x","message":{"method":"open","state":{}},"buffers":[]}',
    b'{"modelId":"x","message":{"method":"update","state":{},"bufferPaths":[["a"]]},"buffers":["!"]}',
    b'{"objectIds":["a","b"],"values":[1]}', b'{"functionCallId":"1","args":5,"namespace":"x","functionName":"y"}',
]  # fmt: skip


def test_a_hostile_message_harms_nobody(page_url):
    with guest(page_url) as bystander, guest(page_url) as hostile:
        for chapter in ("train", "evidence", "run", "use"):
            open_chapter(hostile, chapter)
        widgets = [id for id, state in hostile.models.items() if "_anywidget_id" in state]
        # These are the bar, three boards, button and cards of Train, legend, squares and differences of Evidence, and
        # the controls of Your run.
        assert len(widgets) == 11
        for widget in widgets:
            for content in CONTENTS:
                assert hostile.say(widget, content) == 200
            for state in STATES:
                assert hostile.set(widget, **state) == 200
        for path in (SET_VALUE, SET_MODEL_VALUE, CALL_FUNCTION):
            for body in BODIES:
                status, said = hostile.post(path, body)
                assert status in (200, 400, 422, 500) and b"Traceback" not in said, (status, said)
        for element in ("none", "__class__", "../x", "Hbol-0"):
            for value in (None, "x", 5, {"opened": 1}, [["a", "not base64"]]):
                assert hostile.choose(element, value) == 200
            call = {"functionCallId": "1", "args": {}, "namespace": element, "functionName": "__class__"}
            assert hostile.post(CALL_FUNCTION, call)[0] == 200
        for visitor in (hostile, bystander):
            weighs(visitor, 2)
        told = "".join(hostile.messages)
        assert "Traceback" not in told and "site-packages" not in told and str(DATA.parent) not in told


# --- what is open ----------------------------------------------------------------------------------------------------

# These are all endpoints of marimo's that the page does not ask, by what a visitor might want of them.
EDITOR = """
ai/completion ai/chat ai/inline_completion ai/invoke_tool ai/mcp/refresh cache/clear cache/info document/transaction
datasources/discover datasources/preview_column datasources/preview_sql_table
export/html export/script export/markdown export/ipynb export/pdf export/auto_export/html export/update_cell_outputs
files/list_files files/file_details files/create files/delete files/copy files/move files/update files/open files/search
home/recent_files home/workspace_files home/running_notebooks home/shutdown_session home/tutorial/open
kernel/code_autocomplete kernel/copy kernel/delete kernel/execute kernel/focus_cell kernel/format kernel/instantiate
kernel/install_missing_packages kernel/interrupt kernel/pdb/breakpoints kernel/pdb/pm kernel/read_code kernel/rename
kernel/restart_session kernel/run kernel/save kernel/save_app_config kernel/save_user_config kernel/scratchpad/run
kernel/set_cell_config kernel/shutdown kernel/stdin kernel/takeover lsp/restart packages/add packages/remove
packages/sandbox packages/sync secrets/keys secrets/create secrets/delete sql/validate storage/list_entries
storage/download
"""
LOOKS = """
api/status api/status/connections api/sessions api/version api/environment api/usage api/kernel/status api/files/roots
api/files/download?path=app.py api/export/availability api/packages/list api/packages/tree api/documentation/snippets
api/ai/mcp/status api/lsp/health auth/token auth/login?next=//evil.example mcp/server docs openapi.json api/openapi.json
app.py serve.py data/README.md .git/config .env pyproject.toml views/../app.py
assets/index.html assets/../index.html assets/..%2f..%2fapp.py assets/%2e%2e/%2e%2e/app.py assets/%2fetc%2fpasswd
public/app.py public/../app.py public/%2e%2e/app.py public/..%2f..%2fapp.py public//etc/passwd public/%00
@file/5-../../app.py @file/..%2f..%2fapp.py @file/99-/etc/passwd @file/9-%2e%2e%2fapp.py @file/app.py @file/ @file/-x
@file/99999999999999999999999-1-aaaaaaaa.js @file/%C2%B2-1-aaaaaaaa.js @file/5-1-aaaaaaaa.js @file/5-psm_x
og/thumbnail?file=../../etc/passwd og/thumbnail?file=data sse?session_id=s_1&file=/etc/passwd
?file=../app.py ?file=/etc/passwd ?file=__new__ ?file=__new__s_abc ?file=a&file=__new__ %3Ffile=x
//evil.example/ \\evil/
"""


def test_no_endpoint_of_the_editor_answers(page_url):
    """marimo itself refuses visitors all that edits, runs or reads code; home/workspace_files, which only names the
    notebook, is left out.
    """
    with guest(page_url) as visitor:
        for path in EDITOR.replace("export/html ", "").replace("home/workspace_files", "").split():
            status, body = visitor.post(f"/api/{path}", {"code": "1", "path": "/etc/passwd"})
            assert status in (401, 403, 404, 405), (path, status, body)


def test_no_file_of_the_server_can_be_read(page_url):
    for path in LOOKS.split():
        _, body = answer(f"{page_url}/{path}")
        assert b"import marimo" not in body and b"root:" not in body and b"@app.cell" not in body, path


@pytest.mark.parametrize(
    "path",
    [
        "/terminal/ws", "/ws_sync?session_id=s_1", "/lsp/pylsp", "/lsp/copilot", "/x/ws", "/ws/", "/ws",
        "/ws?session_id=s_1&kiosk=true", "/ws?session_id=s_1&file=/etc/passwd", "/ws?session_id=s_1&file=__new__",
    ],
)  # fmt: skip
def test_no_other_socket_opens(page_url, path):
    with pytest.raises((ConnectionClosed, InvalidStatus)), contextlib.ExitStack() as stack:
        port = urlsplit(page_url).port
        stack.enter_context(connect(f"ws://127.0.0.1:{port}{path}", proxy=None)).recv(timeout=10)


# --- in a browser ----------------------------------------------------------------------------------------------------

INTRUDERS = """() => {
  const add = (name, more) => document.body.append(Object.assign(document.createElement(name), more))
  add("script", { textContent: "window.ran = 'a script in the page'" })
  document.body.insertAdjacentHTML("beforeend", "<img src='/none.png' onerror='window.ran = 1'>")
  setTimeout("window.ran = 'a text'")
  add("script", { src: "https://example.org/a.js" })
}"""


def test_a_browser_runs_the_scripts_of_the_page_alone(browser, page_url):
    page = browser.new_page()
    told, asked = [], set()
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("requestfinished", lambda request: asked.add(urlsplit(request.url).hostname))
    page.goto(page_url)
    arrived(page, ".board .bar")
    assert told == []
    with page.expect_console_message(lambda message: "example.org" in message.text):
        page.evaluate(INTRUDERS)
    assert page.evaluate("() => new Promise(done => setTimeout(() => done(window.ran ?? 'none'), 0))") == "none"
    assert sum("Content Security Policy" in text for text in told) == 4 and asked == {"127.0.0.1"}
    page.close()
