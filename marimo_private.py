"""Every name of marimo's insides that this project leans on; tests/test_marimo_private.py says which one is gone.

marimo promises none of them, so pyproject.toml also bounds its version from above. At run time a missing name costs
speed or looks, never the page.
"""

import functools
import re
from collections.abc import MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent / "app.py"

# Over the wire, for benchmarks/visitors.py, which speaks as marimo's front end does.
SOCKET = "/ws"  # of a session, which it names as ?session_id=
SET_MODEL_VALUE = "/api/kernel/set_model_value"  # where an anywidget's messages go
SET_VALUE = "/api/kernel/set_ui_element_value"  # where those of marimo's own controls go
CALL_FUNCTION = "/api/kernel/function_call"  # by which a control asks Python, such as a part of the page that is late
SESSION_HEADER, TOKEN_HEADER = "Marimo-Session-Id", "Marimo-Server-Token"
MODEL_MESSAGE, RUN_ENDED = "model-lifecycle", "completed-run"  # what the server tells a session
TOKEN_KEY = "serverToken"  # in the page's HTML
EVENTS = "/sse"  # the session's other way, with server.transport = "sse"; serving/ lets it wait as it does SOCKET
ASSETS, PUBLIC = "/assets/", "/public/"  # files of the front end; files beside a notebook, which may change
FILES = "/@file/"  # what a session made: downloads, its widgets' scripts
FILE_KEY, NEW = "file", "__new__"  # in a query: which notebook; one that is empty
FILENAME = "marimo-filename"  # the element of the page that holds the notebook's path on the server

# In the front end, for views/page.css and the tests in a browser: elements, custom properties, classes and an id.
ELEMENTS = ("marimo-anywidget", "marimo-download", "marimo-file", "marimo-filename", "marimo-lazy")
PROPERTIES = (
    "--marimo-heading-font",
    "--marimo-text-font",
    "--marimo-monospace-font",
    "--foreground",
    "--muted-foreground",
    "--border",
    "--red-9",
    "--red-11",
)
CLASSES = ("markdown", "paragraph", "dark")
PAGE_ID = "root"


# How the front end makes a session's name, of six letters: who tries names at random would meet another visitor's
# session in a day. With 24 none ever will. The edited text is as long as the old one, so that the file stays as long.
SHORT_ID = re.compile(rb"\(0,(\w)\.init\)\(\{length:6\}\)")


def long_id(found: re.Match[bytes]) -> bytes:
    """What stands instead, and asks for 24 letters."""
    return (rb"%b.init({length:24})" % found[1]).ljust(len(found[0]))


def shows_page(scope: MutableMapping[str, Any]) -> bool:
    """Whether `marimo run` shows the page to visitors here; of a marimo that does not say so, it is assumed.

    The editor, and another notebook that is run in the same environment, are not the page.
    """
    manager = getattr(getattr(scope.get("app"), "state", None), "session_manager", None)
    if getattr(getattr(manager, "mode", None), "value", None) == "edit":
        return False
    try:
        notebook = manager.workspace.get_unique_file_key()
    except AttributeError:
        return True
    return notebook is None or _is_page(notebook)


@functools.cache
def _is_page(notebook: str) -> bool:
    return Path(notebook).resolve() == PAGE


def base_of(scope: MutableMapping[str, Any]) -> str:
    """What stands before each of marimo's paths, of a server with --base-url or one that mounts it."""
    app = scope.get("app")
    return scope.get("root_path", "") + getattr(getattr(app, "state", None), "base_url", "")


def cache_entry_points() -> None:
    """Let marimo read the metadata of all installed packages once instead of at every run of a cell.

    It looks for plug-ins each time, some 5 ms; what is installed does not change while a server runs.
    """
    try:
        from marimo._entrypoints import registry

        registry.get_entry_points = functools.cache(registry.get_entry_points)
    except (ImportError, AttributeError):
        return  # slower, and all else as before


# Of text alone, and asked anew of every cell for every visitor: a quarter of what one costs who arrives.
OF_TEXT = (("marimo._ast.parse", "fixed_dedent"), ("marimo._ast.compiler", "ends_with_semicolon"))


def cache_cell_texts() -> None:
    """Let marimo split the text of each cell into tokens once instead of for every visitor."""
    for module, name in OF_TEXT:
        try:
            holder = import_module(module)
            setattr(holder, name, functools.lru_cache(1024)(getattr(holder, name)))
        except (ImportError, AttributeError):
            continue


def share_cell_trees() -> None:
    """Let the sessions of a page keep one syntax tree per cell between them, which marimo only reads.

    Each session has two of each cell, a fifth of what it costs in memory.
    """
    try:
        compiler = import_module("marimo._ast.compiler")
        cell, tree_of = compiler.CellImpl, functools.lru_cache(1024)(compiler.module_compile)
        compiler.CellImpl = lambda **fields: cell(**{**fields, "mod": tree_of(fields["code"])})
    except (ImportError, AttributeError):
        return
