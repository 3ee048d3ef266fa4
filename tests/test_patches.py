"""views/patches.py: each name of marimo is there, each change does what it says, and one that is gone harms nothing."""

import json
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from conftest import ROOT

from views import patches

NAMES = {
    "forget_sessions": ("marimo._runtime.kernel_lifecycle.teardown_kernel", "ipywidgets.widgets.widget._instances"),
    "cache_entry_points": ("marimo._entrypoints.registry.get_entry_points",),
    "decode_once": (
        "marimo._session.state.session_view.deserialize_kernel_message",
        "marimo._messaging.notification.NotificationMessage",
    ),
    "cache_cell_texts": ("marimo._ast.parse.fixed_dedent", "marimo._ast.compiler.ends_with_semicolon"),
}


def found(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


@pytest.fixture
def restored(monkeypatch):
    """Whatever a test changes is as it was afterwards."""
    for names in NAMES.values():
        for name in names:
            module, _, attribute = name.rpartition(".")
            monkeypatch.setattr(import_module(module), attribute, found(name))


@pytest.mark.parametrize("change", NAMES)
def test_each_change_replaces_the_names_that_it_is_about(restored, change):
    before = {name: found(name) for name in NAMES[change]}
    getattr(patches, change)()
    kept = {name for name, was in before.items() if found(name) is was}
    assert kept <= {"marimo._messaging.notification.NotificationMessage"}


def test_messages_are_decoded_as_marimo_decodes_them(restored):
    notification = import_module("marimo._messaging.notification")
    plain = found("marimo._session.state.session_view.deserialize_kernel_message")
    patches.decode_once()
    fast = found("marimo._session.state.session_view.deserialize_kernel_message")
    encode = import_module("marimo._messaging.serde").serialize_kernel_message
    for message in (notification.CompletedRunNotification(), notification.InterruptedNotification()):
        assert fast(encode(message)) == plain(encode(message)) == message


def test_texts_of_cells_are_read_as_marimo_reads_them(restored):
    texts = ["x = 1", "    x = 1\n    y;", "mo.md('''\n  a\n''')", "x;", ""]
    names = NAMES["cache_cell_texts"]
    expected = [[found(name)(text) for name in names] for text in texts]
    patches.cache_cell_texts()
    assert [[found(name)(text) for name in names] for text in texts] == expected


def test_what_a_session_holds_is_disposed_of_when_it_ends(restored, monkeypatch):
    done = []
    monkeypatch.setattr("marimo._runtime.kernel_lifecycle.teardown_kernel", lambda kernel, context: done.append("end"))
    patches.forget_sessions()
    items = SimpleNamespace(registry={"a": 1, "b": 2}, dispose=lambda cell, deletion: done.append((cell, deletion)))
    found("marimo._runtime.kernel_lifecycle.teardown_kernel")(None, SimpleNamespace(cell_lifecycle_registry=items))
    assert done == [("a", True), ("b", True), "end"]


def test_a_marimo_without_the_names_serves_all_the_same():
    gone = [name for names in NAMES.values() for name in names if name.startswith("marimo")]
    program = f"import json, sys\nfrom importlib import import_module\nfor name in {gone!r}:\n"
    program += "    module, _, attribute = name.rpartition('.')\n    delattr(import_module(module), attribute)\n"
    program += "from views import patches\npatches.apply()\nprint(json.dumps('whole'))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0 and json.loads(ran.stdout) == "whole", ran.stderr
