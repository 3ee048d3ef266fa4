"""views/server/patches.py: each name of marimo is there, each change does what it says, and one whose name is gone does
no harm.
"""

import json
import re
import subprocess
import sys
from importlib import import_module
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest
from conftest import ROOT

from views.server import patches

NAMES = {
    "forget_sessions": ("marimo._runtime.kernel_lifecycle.teardown_kernel",),
    "cache_entry_points": ("marimo._entrypoints.registry.get_entry_points",),
    "decode_once": (
        "marimo._session.state.session_view.deserialize_kernel_message",
        "marimo._messaging.notification.NotificationMessage",
    ),
    "cache_cells": (
        "marimo._ast.parse.parse_notebook",
        "marimo._ast.compiler.compile_cell",
        "marimo._runtime.runtime.compile_cell",
        "marimo._ast.cell.CellImpl.imported_namespaces",
    ),
    "refuse_unknown": ("marimo._server.api.deps.AppState.require_current_session",),
    "tell_what_is_shown": (
        "marimo._runtime.execution.broadcast_notification",
        "marimo._runtime.runtime.broadcast_notification",
        "marimo._ast.cell.CellImpl.set_runtime_state",
        "marimo._messaging.notification_utils.CellNotificationUtils.broadcast_error",
        "marimo._messaging.notification.RemoveUIElementsNotification",
        "marimo._messaging.errors.MarimoAncestorStoppedError",
    ),
    "render_once": ("marimo._output.md._render_markdown",),
    "send_no_editor": ("marimo._server.api.endpoints.assets.notebook_page_template",),
}


found = resolve_name


@pytest.fixture
def restored(monkeypatch):
    """Restore after a test whatever it changed in marimo."""
    for names in NAMES.values():
        for name in names:
            owner, _, attribute = name.rpartition(".")
            monkeypatch.setattr(found(owner), attribute, found(name))


@pytest.mark.parametrize("change", NAMES)
def test_each_change_replaces_the_names_that_it_is_about(restored, change):
    before = {name: found(name) for name in NAMES[change]}
    getattr(patches, change)()
    kept = {name for name, was in before.items() if found(name) is was}
    assert kept <= {NAMES["decode_once"][1], *NAMES["tell_what_is_shown"][4:]}  # they are used, and stay as they are


def test_messages_are_decoded_as_marimo_decodes_them(restored):
    notification = import_module("marimo._messaging.notification")
    plain = found("marimo._session.state.session_view.deserialize_kernel_message")
    patches.decode_once()
    fast = found("marimo._session.state.session_view.deserialize_kernel_message")
    encode = import_module("marimo._messaging.serde").serialize_kernel_message
    for message in (notification.CompletedRunNotification(), notification.InterruptedNotification()):
        assert fast(encode(message)) == plain(encode(message)) == message


CELLS = ["x = 1", "import numpy as np\nimport os.path", "def f():\n    return y;", "mo.md('''\n  a\n''')", "x;", ""]


def read_of(cell) -> list:
    """Return what marimo knows of a cell, without its code objects, which are never equal in two files."""
    return [cell.defs, cell.refs, cell.imports, cell.imported_namespaces, cell.temporaries, cell.language, cell.code]


def test_cells_are_compiled_once_as_marimo_compiles_them(restored):
    plain = [found("marimo._ast.compiler.compile_cell")(text, cell_id=f"a{n}") for n, text in enumerate(CELLS)]
    patches.cache_cells()
    compile_cell = found("marimo._runtime.runtime.compile_cell")
    for n, (text, expected) in enumerate(zip(CELLS, plain, strict=True)):
        one, two = (compile_cell(text, cell_id=f"a{n}") for _ in range(2))
        assert read_of(one) == read_of(two) == read_of(expected) and one.config == expected.config
        assert one.body is two.body and one.mod is two.mod
        assert compile_cell(text, cell_id="b").cell_id == "b"


def test_markdown_is_rendered_once_and_as_marimo_renders_it(restored):
    texts = ["**a**", "# b\n\n- c\n- d", "$x_1$ <b>`c`</b>"]
    plain = [found("marimo._output.md._render_markdown")(text) for text in texts]
    patches.render_once()
    render = found("marimo._output.md._render_markdown")
    assert [render(text) for text in texts] == plain and all(render(text) is render(text) for text in texts)
    assert render("a[^1]\n\n[^1]: note") != render("a[^1]\n\n[^1]: note")  # Two notes of one page have two numbers.


def test_no_session_sees_what_another_changes_of_a_cell(restored):
    patches.cache_cells()
    compile_cell = found("marimo._runtime.runtime.compile_cell")
    one, two = (compile_cell("import numpy as np", cell_id="a") for _ in range(2))
    one.configure({"hide_code": True, "disabled": True})
    one.set_stale(True, broadcast=False)
    one.set_output(5)
    one.import_workspace.imported_defs.add("np")
    assert one.import_workspace.is_import_block and two.import_workspace.is_import_block
    assert not two.config.hide_code and not two.config.disabled and not two.stale
    assert two.output is None and not two.import_workspace.imported_defs


def test_what_a_session_holds_is_disposed_of_when_it_ends(restored, monkeypatch):
    done = []
    monkeypatch.setattr("marimo._runtime.kernel_lifecycle.teardown_kernel", lambda kernel, context: done.append("end"))
    monkeypatch.setattr("ipywidgets.widgets.widget._instances", {})
    patches.forget_sessions()
    items = SimpleNamespace(registry={"a": 1, "b": 2}, dispose=lambda cell, deletion: done.append((cell, deletion)))
    found("marimo._runtime.kernel_lifecycle.teardown_kernel")(None, SimpleNamespace(cell_lifecycle_registry=items))
    assert done == [("a", True), ("b", True), "end"]
    found("ipywidgets.widgets.widget._instances")["a"] = type("Widget", (), {})()  # Nobody else holds this widget.
    assert not found("ipywidgets.widgets.widget._instances")


def test_no_module_that_a_visitors_page_needs_is_spared(restored, monkeypatch):
    """None is left out that the page's two entries import, or that these imports import in turn. In place of the
    modules for languages stands another one that exports the same names.
    """
    assets = import_module("marimo._server.api.endpoints.assets")
    folder, whole = assets.root / "assets", (assets.root / "index.html").read_text("utf-8")
    monkeypatch.setattr(assets, "notebook_page_template", lambda html: html)
    patches.send_no_editor()
    page = assets.notebook_page_template(html=whole)
    assert 'rel="preload"' in whole and 'rel="preload"' not in page
    # A browser ignores an import map that comes later.
    assert page.index("importmap") < page.index('rel="modulepreload"')
    told = json.loads(re.search(r'<script type="importmap">(.*?)</script>', page)[1])["imports"]
    spared, (other,) = {name.removeprefix("./assets/") for name in told}, set(told.values())
    todo = {*re.findall(r"assets/([\w.-]+\.js)", whole), *(path.name for path in folder.glob("run-page-*.js"))}
    needed, met = set[str](), set[str]()
    while todo:
        needed.add(name := todo.pop())
        imported = re.findall(r'import(?:\{([^}]*)\}from)?"\./([\w.-]+\.js)"', (folder / name).read_text("utf-8"))
        met |= {one.split(" as ")[0] for names, module in imported if module in spared for one in names.split(",")}
        todo |= {module for _, module in imported} - needed - spared
    assert len(spared) > 90 and not spared & needed and other.removeprefix("./assets/") in needed
    given = re.search(r"export\{([^}]*)\}", (assets.root / other).read_text("utf-8"))[1]
    assert met and met <= {one.split(" as ")[-1] for one in given.split(",")}


def test_a_visitor_is_told_nothing_of_a_cell_that_shows_nothing(restored, monkeypatch):
    told = []
    for module in ("_messaging.notification_utils", "_runtime.runtime", "_runtime.execution"):
        monkeypatch.setattr(f"marimo.{module}.broadcast_notification", lambda note, stream=None: told.append(note))
    cell = found("marimo._ast.compiler.compile_cell")("x = 1", cell_id="a")
    cells = SimpleNamespace(graph=SimpleNamespace(cells={"a": cell}))
    monkeypatch.setattr("marimo._runtime.context.get_context", lambda: cells)
    patches.tell_what_is_shown()
    runtime, errors = import_module("marimo._runtime.runtime"), import_module("marimo._messaging.errors")
    notes = found("marimo._messaging.notification_utils.CellNotificationUtils")

    def wait(error):
        """Let the cell wait for its run, which does not come because of this error."""
        cell.set_runtime_state("queued")
        runtime.broadcast_notification(runtime.RemoveUIElementsNotification(cell_id="a"))
        cell.set_runtime_state("idle")
        notes.broadcast_error([error], clear_console=True, cell_id="a")

    stopped = errors.MarimoAncestorStoppedError(msg="stopped", raising_cell="b")
    wait(stopped)
    assert told == [] and cell.runtime_state == "idle"
    cell.set_runtime_state("running")
    cell.set_runtime_state("idle")
    assert [note.status for note in told] == ["running", "idle"]
    wait(stopped)
    assert [getattr(note, "status", note.name) for note in told[2:]] == ["queued", "remove-ui-elements", "idle", None]
    assert told[-1].output.mimetype == "text/plain" and not told[-1].output.data
    wait(errors.MarimoInterruptionError())
    assert told[-1].output.mimetype == "application/vnd.marimo+error"
    found("marimo._runtime.execution.ExecutionAttempt")("a").start()
    assert len(told) == 10


@pytest.mark.slow
def test_a_marimo_without_the_names_serves_all_the_same():
    gone = [name for names in NAMES.values() for name in names if name.startswith("marimo")]
    program = "import json\nfrom pkgutil import resolve_name\n"
    program += f"places = [(resolve_name(name.rpartition('.')[0]), name) for name in {gone!r}]\n"
    program += "for owner, name in places:\n    delattr(owner, name.rpartition('.')[2])\n"
    program += "from views.server import patches\npatches.apply()\nprint(json.dumps('whole'))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0 and json.loads(ran.stdout) == "whole", ran.stderr
