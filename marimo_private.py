"""Every name of marimo's insides that this project leans on; tests/test_marimo_private.py says which one is gone.

marimo promises none of them, so pyproject.toml also bounds its version from above. At run time a missing name costs
speed or looks, never the page.
"""

import functools
import re
import sys
import threading
import weakref
from binascii import a2b_base64
from collections.abc import Callable, Container, MutableMapping
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
# Around the cells, by which views/page.css and views/bar.js tell chapters apart and set them out.
CELL_CLASSES, CELL_NAME, APP_ID = ("marimo-cell", "output-area"), "data-cell-name", "App"
CONTENTS = "top-[25vh]"  # of the class of the list of headings that marimo puts beside the page
TEST_IDS = "data-testid"
# Where it says whether the server is there, and what views/page.css hides because views/away.js says it.
LOST = ("data-connection-state", "disconnected-indicator", "disconnected-gradient", "Notifications")
MOUNT = "__MARIMO_MOUNT_CONFIG__"  # what the page was loaded with, TOKEN_KEY in it


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


# What makes syntax trees.
TREES = (("ast", "parse"), ("marimo._ast.compiler", "ast_compile"), ("marimo._ast.transformers", "compiled_ast"))


def make_trees_in_turn() -> None:
    """On Python 3.11 let one thread at a time make a syntax tree: two at once raise SystemError there, now and then.

    It counts how deep a tree is in one place for all threads, and marimo makes one of each cell
    for each visitor, so one of two who arrive together might find no page.
    """
    if sys.version_info >= (3, 12):
        return
    one_at_a_time = threading.RLock()  # a tree may be made while another is, in the same thread

    def in_turn(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            with one_at_a_time:
                return make(*args, **kwargs)

        return made

    for module, name in TREES:
        try:
            holder = import_module(module)
            setattr(holder, name, in_turn(getattr(holder, name)))
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


def sessions_of(app: object) -> Container[str]:
    """The ids of the sessions that a server of marimo has; none where it does not say."""
    try:
        return app.state.session_manager.sessions  # type: ignore[attr-defined]
    except AttributeError:
        return ()


def forget_sessions(ended: Callable[[], None] = lambda: None) -> None:
    """Let what a session held go when it ends, and its threads know: marimo leaves its widgets in two registries.

    They are of the whole process. A widget of ours knows the visitor's session, and that the log that was uploaded.
    ended: called after each.
    """
    try:
        lifecycle = import_module("marimo._runtime.kernel_lifecycle")
        widgets, end = import_module("ipywidgets.widgets.widget"), lifecycle.teardown_kernel
        widgets._instances = weakref.WeakValueDictionary(widgets._instances)
    except (ImportError, AttributeError):
        return

    def end_all(kernel: Any, context: Any) -> None:
        try:
            items = context.cell_lifecycle_registry
            for cell in list(items.registry):
                items.dispose(cell, deletion=True)
        finally:
            end(kernel, context)
            ended()

    lifecycle.teardown_kernel = end_all


def register_formatters_once() -> None:
    """Let marimo teach other packages how their objects look in a page once instead of for every visitor.

    It wraps IPython's `display` in a new function and a new class each time, and none of them ever goes: few bytes, but
    they lie in between all others, so that the memory of those who left cannot go back to the machine.
    """
    try:
        kernels = import_module("marimo._session.managers.kernel")
        kernels.register_formatters = functools.cache(kernels.register_formatters)
    except (ImportError, AttributeError):
        return


TEXT = 64 * 1024  # letters of a value, from which on it can only be files
PIECE = 2**20  # letters of base64, a multiple of four: what is decoded in one go holds every thread up


def decoded(text: str) -> bytes:
    """What stands in base64, in pieces between which other threads have their turn."""
    pieces = (a2b_base64(text[start : start + PIECE]) for start in range(0, len(text), PIECE))
    return b"".join(pieces)


def forget_texts() -> None:
    """Let the base64 in which files came go once they are bytes: marimo keeps it twice until the session ends.

    It would send the text back to a browser that connects again, which still has the files.
    """
    try:
        view = import_module("marimo._session.state.session_view").SessionView
        controls = import_module("marimo._plugins.ui._impl.input")
        files, result, keep = controls.file, controls.FileUploadResults, view._add_ui_value
        files._convert_value  # noqa: B018
    except (ImportError, AttributeError):
        return

    def keep_short(self: Any, name: str, value: Any) -> None:
        entries = [entry for entry in value if isinstance(entry, list)] if isinstance(value, list) else []
        if sum(len(part) for entry in entries for part in entry if isinstance(part, str)) < TEXT:
            keep(self, name, value)

    def convert(self: Any, value: Any) -> Any:
        made = tuple(result(name=name, contents=decoded(text)) for name, text in value)
        if made:
            value.clear()  # it is the request's own, which lives until the next one comes
        return made

    view._add_ui_value, files._convert_value = keep_short, convert
