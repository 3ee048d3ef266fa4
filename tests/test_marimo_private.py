"""marimo_private.py names what we lean on of marimo's insides; these fail, and say so, where marimo has renamed one."""

import ast
import re
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

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


@pytest.mark.parametrize("name", (*private.ELEMENTS, *private.PROPERTIES))
def test_the_front_end_has_the_elements_and_properties_that_we_style(name):
    assert re.search(rf"{re.escape(name)}(?![\w-])", text_of("_static", "js", "css", "html")), gone("name", name)


@pytest.mark.parametrize("name", private.CLASSES)
def test_the_front_end_has_the_classes_that_we_style(name):
    assert re.search(rf"\.{name}(?![\w-])", text_of("_static", "css")), gone("class", name)


def test_the_front_end_has_the_element_that_the_page_stands_in():
    assert re.search(rf'id="{private.PAGE_ID}"', text_of("_static", "html")), gone("id", private.PAGE_ID)


def tracked(*kinds: str) -> list[Path]:
    folders = ("views", "serving", "tests", "benchmarks", "gdpo_core", "scripts", "parity")
    files = [path for folder in folders for kind in kinds for path in (ROOT / folder).rglob(f"*.{kind}")]
    return [*files, ROOT / "app.py"]


def test_no_other_file_reaches_into_marimo():
    own = {ROOT / "tests" / "test_marimo_private.py"}
    reach = re.compile(r"\bmarimo\._|\bmo\._|from marimo import _")
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
