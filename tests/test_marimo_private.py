"""marimo_private.py names what we lean on of marimo's insides; these fail, and say so, where marimo has renamed one."""

import ast
import base64
import gc
import inspect
import random
import re
import sys
import threading
import time
import tomllib
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace

import marimo
import pytest

import marimo_private as private

ROOT = Path(__file__).resolve().parent.parent
MARIMO = Path(marimo.__file__).parent
SERVER = (
    private.SOCKET,
    private.EVENTS,
    private.ASSETS,
    private.PUBLIC,
    private.FILES,
    private.FILE_KEY,
    private.NEW,
    *(path.removeprefix("/api/kernel") for path in (private.SET_MODEL_VALUE, private.SET_VALUE, private.CALL_FUNCTION)),
    private.SESSION_HEADER,
    private.TOKEN_HEADER,
    private.MODEL_MESSAGE,
    private.RUN_ENDED,
    private.TOKEN_KEY,
)


@cache
def text_of(folder: str, *kinds: str) -> str:
    """Every file of these kinds in a folder of the installed marimo."""
    files = [path for kind in kinds for path in sorted((MARIMO / folder).rglob(f"*.{kind}"))]
    return "\n".join(path.read_text(encoding="utf-8", errors="ignore") for path in files)


def gone(what: str, name: str) -> str:
    return (
        f"marimo {metadata.version('marimo')} no longer has the {what} {name!r}: mend marimo_private.py and its users"
    )


def test_marimo_looks_plug_ins_up_where_we_make_it_remember(monkeypatch):
    from marimo._entrypoints import registry

    assert hasattr(registry, "get_entry_points"), gone("function", "_entrypoints.registry.get_entry_points")
    asked = []
    monkeypatch.setattr(registry, "get_entry_points", lambda group: asked.append(group) or ())
    private.cache_entry_points()
    for _ in range(3):
        assert registry.EntryPointRegistry("some.group").names() == [], gone("method", "EntryPointRegistry.names")
    assert asked == ["some.group"], gone("use of", "registry.get_entry_points in EntryPointRegistry")


def test_marimo_reads_the_text_of_a_cell_once(monkeypatch):
    from marimo._ast import compiler, load, parse

    asked = {}
    for module, name in ((parse, "fixed_dedent"), (compiler, "ends_with_semicolon")):
        assert hasattr(module, name), gone("function", f"{module.__name__}.{name}")

        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda text, n=name, f=real: asked.setdefault(n, []).append(text) or f(text))
    private.cache_cell_texts()
    codes = []
    for _ in range(2):
        app = load.load_app(ROOT / "app.py")
        codes.append(list(app._cell_manager.codes()))
    assert codes[0] == codes[1] and codes[0]
    for name in ("fixed_dedent", "ends_with_semicolon"):
        texts = asked.get(name, [])
        assert texts and len(texts) == len(set(texts)), gone("use of", name)


def test_sessions_share_the_syntax_trees_of_their_cells(monkeypatch):
    from marimo._ast import compiler, load

    assert hasattr(compiler, "CellImpl") and hasattr(compiler, "module_compile"), gone("function", "CellImpl")
    before = load.load_app(ROOT / "app.py")
    monkeypatch.setattr(compiler, "CellImpl", compiler.CellImpl)
    private.share_cell_trees()
    one, other = (load.load_app(ROOT / "app.py") for _ in range(2))

    def trees(app):
        return [cell._cell.mod for _, cell in app._cell_manager.valid_cells()]

    assert trees(one) and all(a is b for a, b in zip(trees(one), trees(other), strict=True)), gone("use of", "CellImpl")
    assert [ast.dump(tree) for tree in trees(one)] == [ast.dump(tree) for tree in trees(before)]


@pytest.fixture
def trees_in_turn(monkeypatch):
    """Our way of making syntax trees, for this test alone."""
    for module, name in private.TREES:
        holder = import_module(module)
        assert hasattr(holder, name), gone("function", f"{module}.{name}")
        monkeypatch.setattr(holder, name, getattr(holder, name))  # put back at the end
    private.make_trees_in_turn()


def test_syntax_trees_are_made_in_turn(trees_in_turn):
    from marimo._ast import compiler, transformers

    source = (ROOT / "views" / "lab.py").read_text("utf-8")
    makers = (lambda: ast.parse(source), lambda: compiler.module_compile(source))
    makers += (lambda: transformers.compiled_ast(ast.parse(source).body[:20]),)
    faults, until = [], time.monotonic() + 0.5

    class Garbage:
        def __init__(self):
            self.own = self

        def __del__(self):
            sum(range(100))  # lets another thread in, in the middle of a tree

    def make():
        while time.monotonic() < until and not faults:
            try:
                for maker in makers:
                    [Garbage() for _ in range(20)]
                    maker()
            except SystemError as fault:
                faults.append(fault)

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50, 2, 2)
    try:
        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
    assert faults == []  # without turns Python 3.11 fails here within a few trees


def test_every_maker_of_syntax_trees_in_marimo_is_known():
    found = re.findall(r"PyCF_ONLY_AST", text_of("_ast", "py") + text_of("_runtime", "py") + text_of("_server", "py"))
    assert len(found) == 2, "marimo makes syntax trees elsewhere too: see TREES in marimo_private.py"


def test_what_a_session_held_goes_with_it(monkeypatch):
    from ipywidgets.widgets import widget
    from marimo._plugins.ui._impl.anywidget.init import CommLifecycleItem
    from marimo._runtime import kernel_lifecycle
    from marimo._runtime.cell_lifecycle_registry import CellLifecycleRegistry
    from marimo._runtime.context import types

    assert {"kernel", "ctx"} == set(inspect.signature(kernel_lifecycle.teardown_kernel).parameters), gone(
        "function", "_runtime.kernel_lifecycle.teardown_kernel"
    )
    assert "teardown_kernel(kernel, ctx)" in inspect.getsource(kernel_lifecycle.kernel_session)
    ended, asked = [], []
    monkeypatch.setattr(kernel_lifecycle, "teardown_kernel", lambda kernel, context: ended.append(kernel))
    monkeypatch.setattr(widget, "_instances", dict(widget._instances))
    private.forget_sessions()

    class One:
        """A widget, to ipywidgets."""

    widget._instances["of a visitor who left"] = One()
    gc.collect()
    assert "of a visitor who left" not in widget._instances

    context = SimpleNamespace(cell_lifecycle_registry=CellLifecycleRegistry())
    monkeypatch.setattr(types, "get_context", lambda: context)
    monkeypatch.setattr("marimo._runtime.context.get_context", lambda: context)
    for cell in "ab":
        context.cell_lifecycle_registry.inject(cell, CommLifecycleItem(SimpleNamespace(close=lambda: asked.append(1))))
    kernel_lifecycle.teardown_kernel("kernel", context)
    assert (asked, ended, context.cell_lifecycle_registry.registry) == ([1, 1], ["kernel"], {})


def test_the_text_of_an_upload_is_forgotten_once_it_is_bytes(monkeypatch):
    from marimo._plugins.ui._impl import input as controls
    from marimo._runtime.commands import UpdateUIElementCommand
    from marimo._session.state.session_view import SessionView

    assert hasattr(controls.file, "_convert_value"), gone("method", "file._convert_value")
    assert hasattr(SessionView, "_add_ui_value"), gone("method", "SessionView._add_ui_value")
    monkeypatch.setattr(controls.file, "_convert_value", controls.file._convert_value)  # put back at the end
    monkeypatch.setattr(SessionView, "_add_ui_value", SessionView._add_ui_value)
    private.forget_texts()
    contents = [random.Random(size).randbytes(size) for size in (0, 1, 2, 3, 3 * private.PIECE // 4, 2 * 10**6 + 1)]
    texts = [base64.b64encode(content).decode() for content in contents]
    value = [[f"{n}.csv", text] for n, text in enumerate(texts)]
    view, area = SessionView(), marimo.ui.file(multiple=True)
    request = UpdateUIElementCommand(object_ids=["files", "slider", "range"], values=[value, 3, [1, 5]])
    view.add_control_request(request)
    area._update(value)
    assert [(file.name, file.contents) for file in area.value] == [(f"{n}.csv", c) for n, c in enumerate(contents)]
    assert view.ui_values == {"slider": 3, "range": [1, 5]}
    assert not any(text is held for text in texts if len(text) > private.TEXT for held in reached(view, area, request))

    area._update([])
    assert area.value == ()


def test_other_packages_are_taught_once_how_they_look_in_a_page(monkeypatch):
    from marimo._session.managers import kernel

    assert "register_formatters()" in inspect.getsource(kernel.KernelManagerImpl), gone(
        "function", "register_formatters"
    )
    taught = []
    monkeypatch.setattr(kernel, "register_formatters", lambda: taught.append(1))
    private.register_formatters_once()
    for _visitor in range(3):
        kernel.register_formatters()
    assert taught == [1]


def reached(*roots):
    """All that can be reached from these in a few steps."""
    seen = {}
    for _ in range(6):
        roots = [one for one in gc.get_referents(*roots) if id(one) not in seen and not inspect.ismodule(one)]
        seen |= {id(one): one for one in roots}
    return seen.values()


def test_no_widget_watches_a_file():
    """anywidget keeps every widget whose script or style is a file, so that it can tell it when the file changes."""
    from views import bar, evidence, lab, train

    for one in (bar.Bar, bar.Door, lab.Lab, train.Train, evidence.Evidence):
        assert isinstance(one._esm, str) and isinstance(getattr(one, "_css", ""), str), one


def test_the_front_end_makes_a_sessions_name_where_we_lengthen_it():
    scripts = [path.read_bytes() for path in (MARIMO / "_static" / "assets").glob("*.js")]
    (script,) = [text for text in scripts if private.SHORT_ID.search(text)]
    longer, times = private.SHORT_ID.subn(private.long_id, script)
    assert times == 1 and len(longer) == len(script), gone("name of a session of", "six letters")
    assert re.search(rb"=\w\.init\(\{length:24\}\) +;function \w\(\)\{return`s_\$\{\w\(\)\}`\}", longer)


def test_the_page_says_where_its_notebook_lies_where_we_take_it_out():
    assert f"<{private.FILENAME} hidden>{{{{ filename }}}}</{private.FILENAME}>" in text_of("_static", "html")


@pytest.mark.parametrize(
    ("mode", "notebook", "shows"),
    [("EDIT", "app.py", False), ("RUN", "app.py", True), ("RUN", "benchmarks/toys/idiomatic.py", False)],
)
def test_a_request_tells_whether_its_server_shows_the_page(mode, notebook, shows):
    from marimo._server.api.deps import AppStateBase
    from marimo._server.workspace import infer_workspace
    from marimo._session.model import SessionMode
    from starlette.applications import Starlette

    app = Starlette()
    app.state.base_url = "/base"
    workspace = infer_workspace(str(ROOT / notebook))
    assert hasattr(workspace, "get_unique_file_key"), gone("method", "session_manager.workspace.get_unique_file_key")
    app.state.session_manager = type("Manager", (), {"mode": SessionMode[mode], "workspace": workspace})()
    assert AppStateBase(app.state).mode is SessionMode[mode], gone("attribute", "app.state.session_manager.mode")
    assert AppStateBase(app.state).base_url == "/base", gone("attribute", "app.state.base_url")
    assert private.shows_page({"app": app}) is shows
    assert private.base_of({"app": app, "root_path": "/mounted"}) == "/mounted/base"


def test_a_request_of_a_server_that_says_nothing_is_taken_for_a_visitors():
    assert private.shows_page({}) and private.base_of({}) == ""


def test_a_marimo_without_those_functions_still_starts(monkeypatch):
    from marimo._ast import compiler, parse

    monkeypatch.delattr(parse, "fixed_dedent")
    monkeypatch.delattr(compiler, "ends_with_semicolon")
    monkeypatch.delattr(compiler, "module_compile")
    private.cache_cell_texts()
    private.share_cell_trees()


def test_a_marimo_without_the_function_still_starts(monkeypatch):
    from marimo._entrypoints import registry

    monkeypatch.delattr(registry, "get_entry_points")
    private.cache_entry_points()


@pytest.mark.parametrize("name", SERVER)
def test_the_server_speaks_as_our_visitors_and_middleware_expect(name):
    source = text_of("_server", "py") + text_of("_messaging", "py") + (MARIMO / "_templates.py").read_text("utf-8")
    assert re.search(rf"[\"'/]{re.escape(name.strip('/'))}[\"'/]", source), gone("name on the wire", name)


@pytest.mark.parametrize("name", (*private.ELEMENTS, *private.PROPERTIES, *private.LOST, private.MOUNT))
def test_the_front_end_has_the_elements_and_properties_that_we_style(name):
    assert re.search(rf"{re.escape(name)}(?![\w-])", text_of("_static", "js", "css", "html")), gone("name", name)


@pytest.mark.parametrize("name", private.CLASSES)
def test_the_front_end_has_the_classes_that_we_style(name):
    assert re.search(rf"\.{name}(?![\w-])", text_of("_static", "css")), gone("class", name)


def test_the_front_end_has_the_element_that_the_page_stands_in():
    assert re.search(rf'id="{private.PAGE_ID}"', text_of("_static", "html")), gone("id", private.PAGE_ID)


@pytest.mark.parametrize(
    "name", (*private.CELL_CLASSES, private.CELL_NAME, private.APP_ID, private.CONTENTS, private.TEST_IDS)
)
def test_the_front_end_has_what_tells_our_cells_apart(name):
    assert re.search(rf"[\s\"'`]{re.escape(name)}[\s\"'`:]", text_of("_static", "js", "html")), gone("name", name)


def test_every_name_that_our_selectors_take_from_marimo_is_listed():
    """A class, id or attribute that no file of ours sets is marimo's."""
    folders = [ROOT / "views", ROOT / "gdpo_core"]
    kinds = ("py", "js", "html")
    ours = "\n".join(path.read_text("utf-8") for f in folders for k in kinds for path in f.rglob(f"*.{k}"))
    sheet = re.sub(r"/\*.*?\*/", "", (ROOT / "views" / "page.css").read_text("utf-8"), flags=re.DOTALL)
    selectors = "\n".join(re.findall(r"([^{}]+)\{", sheet))
    names = set(re.findall(r"[.#]([A-Za-z][\w-]*)|\[([a-z-]+)", selectors))
    used = {one or other for one, other in names}

    def set_by_us(name):
        made = re.match(r"[a-z]+-|[a-z]+(?=\d)", name)  # as f"claim-{verdict}" and f"r{reward}"
        plain = re.search(rf"(?<![\w.#\[-]){re.escape(name)}(?![\w-])", ours)
        return plain or f"dataset.{name.removeprefix('data-')}" in ours or (made and f"{made[0]}{{" in ours)

    listed = {
        *private.CLASSES,
        *private.CELL_CLASSES,
        private.PAGE_ID,
        private.APP_ID,
        private.CELL_NAME,
        *private.LOST,
    }
    foreign = {name for name in used if not set_by_us(name)} - {private.TEST_IDS}
    assert foreign <= listed, foreign - listed
    assert {*private.CELL_CLASSES, private.APP_ID, private.CELL_NAME} <= used


def tracked(*kinds: str) -> list[Path]:
    folders = ("views", "serving", "tests", "benchmarks", "gdpo_core", "scripts", "parity")
    files = [path for folder in folders for kind in kinds for path in (ROOT / folder).rglob(f"*.{kind}")]
    return [*files, ROOT / "app.py"]


def test_no_other_file_reaches_into_marimo():
    own = {ROOT / "tests" / "test_marimo_private.py"}
    reach = re.compile(r"\bmarimo\._(?!_file__)|\bmo\._|from marimo import _")
    assert [str(path) for path in tracked("py") if path not in own and reach.search(path.read_text("utf-8"))] == []


def test_every_element_and_property_of_marimo_in_use_is_listed():
    named = re.compile(r"--marimo-[a-z-]+[a-z]|(?<![\w./-])marimo-(?:anywidget|[a-z]+)(?![\w.-])")
    used = {name for path in tracked("css", "js", "py") for name in named.findall(path.read_text("utf-8"))}
    assert used <= {*private.ELEMENTS, *private.PROPERTIES}


def test_marimo_is_bounded_from_above():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = next(line for line in project["optional-dependencies"]["page"] if line.startswith("marimo"))
    at_least, below = re.fullmatch(r"marimo>=0\.(\d+)\.\d+,<0\.(\d+)", required).groups()
    assert int(below) == int(at_least) + 1, required


def test_a_server_tells_its_sessions_where_we_look_for_them():
    from marimo._server.session_manager import SessionManager

    assert isinstance(SessionManager.sessions, property), gone("attribute", "session_manager.sessions")
    sessions = {"s_1": object()}
    app = SimpleNamespace(state=SimpleNamespace(session_manager=SimpleNamespace(sessions=sessions)))
    assert private.sessions_of(app) is sessions and private.sessions_of(None) == ()
