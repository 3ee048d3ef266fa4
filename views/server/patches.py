"""Changes that are made inside marimo while it serves the page. Each is described in docs/upstream.md, but not the
board of `draw_early`, which marimo does not lack.

They were written for marimo 0.25.2, and pyproject.toml admits no later version. The times and sizes in the docstrings
below were measured on two cores on 26 November 2026.
"""

import contextlib
import dataclasses
import functools
import json
import re
import sys
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from views.server.early import scripts_to_add


def apply(at_end: Callable[[], None] = lambda: None, early: str = "") -> None:
    """Make the changes of this module inside marimo, with which the page costs less.

    From then on `at_end` is called whenever a session ends, and every page has `early`, the HTML of the early board.

    If this version of marimo lacks a name or a file that a change needs, that change is left out.
    """
    ends, draws = functools.partial(forget_sessions, at_end), functools.partial(draw_early, early)
    speed = (cache_entry_points, decode_once, render_once, cache_cells, send_no_editor, draws)
    for change in (ends, refuse_unknown, tell_what_is_shown, *speed):
        with contextlib.suppress(ImportError, AttributeError, OSError):
            change()


def forget_sessions(at_end: Callable[[], None] = lambda: None) -> None:
    """Make marimo free the memory of a session when the session ends, and then call `at_end`.

    Without this change 1.3 MB per visitor stay in memory, and all uploads.
    """
    lifecycle = import_module("marimo._runtime.kernel_lifecycle")
    end = lifecycle.teardown_kernel

    def end_all(kernel: Any, context: Any) -> None:
        widgets = sys.modules.get("ipywidgets.widgets.widget")  # it is imported with the first widget
        try:
            if widgets and isinstance(widgets._instances, dict):
                widgets._instances = weakref.WeakValueDictionary(widgets._instances)
            items = context.cell_lifecycle_registry
            for cell in list(items.registry):
                items.dispose(cell, deletion=True)
        finally:
            end(kernel, context)
            at_end()

    lifecycle.teardown_kernel = end_all


def refuse_unknown() -> None:
    """Make marimo answer 404 where a request names a session that does not exist.

    Otherwise marimo answers 500, and logs the names of all open sessions and 100 lines more.
    """
    state = import_module("marimo._server.api.deps").AppState
    refusal = import_module("marimo._utils.http").HTTPException
    state.require_current_session  # noqa: B018

    def require_current_session(self: Any) -> Any:
        name = self.get_current_session_id()
        if not name or not (session := self.session_manager.get_session(name)):
            raise refusal(404, "No such session")
        return session

    state.require_current_session = require_current_session


def cache_entry_points() -> None:
    """Make marimo read the metadata of all packages once, not at each run of cells.

    Flipping a mark then takes 4 ms in place of 9.
    """
    registry = import_module("marimo._entrypoints.registry")
    registry.get_entry_points = functools.cache(registry.get_entry_points)


def decode_once() -> None:
    """Make marimo decode all messages of kernels with one decoder, not each with a new one: 0.1 µs instead of 30."""
    view = import_module("marimo._session.state.session_view")
    message = import_module("marimo._messaging.notification").NotificationMessage
    view.deserialize_kernel_message  # noqa: B018
    view.deserialize_kernel_message = msgspec.json.Decoder(message, strict=True).decode


def render_once() -> None:
    """Make marimo turn a text of Markdown into HTML once, not for each visitor and each copy of a control.

    Repeating it took 20 of the 73 ms in which the chapter Train is drawn. The last 1024 results are kept. A text with
    footnotes is still turned into HTML each time, because its footnotes get other numbers each time.
    """
    md = import_module("marimo._output.md")
    anew, once = md._render_markdown, functools.lru_cache(1024)(md._render_markdown)
    md._render_markdown = lambda text: (anew if "[^" in text else once)(text)  # each footnote has another number


def cache_cells() -> None:
    """Make marimo parse and compile the page's cells once, not three times a visitor: 460 of the 536 ms of an arrival.

    The fields of a cell that a session changes are made anew for each session, the same ones as in marimo's
    `App.clone`. What a cell imports is gathered once per cell, not at each run of any cell.
    """
    parse, compiler, runtime, cells = (
        import_module(f"marimo.{name}") for name in ("_ast.parse", "_ast.compiler", "_runtime.runtime", "_ast.cell")
    )
    anew = compiler.compile_cell
    once = functools.lru_cache(512)(lambda code, cell_id, filename: anew(code, cell_id=cell_id, filename=filename))

    def compile_cell(code: str, cell_id: Any, *given: Any, filename: str | None = None, **named: Any) -> Any:
        if any(given) or any(named.values()):
            return anew(code, cell_id, *given, filename=filename, **named)
        cell = once(code, cell_id, filename)
        block = cell.import_workspace.is_import_block
        return dataclasses.replace(
            cell,
            config=cells.CellConfig(),
            import_workspace=cells.ImportWorkspace(is_import_block=block),
            _status=cells.RuntimeState(),
            _run_result_status=cells.RunResultStatus(),
            _stale=cells.CellStaleState(),
            _output=cells.CellOutput(),
        )

    # marimo gathers what all cells import twice for each cell that runs: 0.16 ms, which an arrival pays 92 times.
    imports = functools.cached_property(cells.CellImpl.imported_namespaces.fget)
    imports.__set_name__(cells.CellImpl, "imported_namespaces")
    cells.CellImpl.imported_namespaces = imports
    parse.parse_notebook = functools.lru_cache(4)(parse.parse_notebook)
    compiler.compile_cell = runtime.compile_cell = compile_cell


def tell_what_is_shown() -> None:
    """Make marimo tell a visitor nothing of cells that show nothing: 122 messages of an arrival in place of 755.

    Not told are the phases of each run, which its front end ignores, the wait of a cell that has never run, and the
    controls that are gone of such a cell. Where a cell was not run because one before it stopped, its output is told to
    be empty, if it had one. As an error of the cell, which nobody sees either, the front end would write it to the
    console of the browser.
    """
    execution, runtime, cells, utils = (
        import_module(f"marimo.{name}")
        for name in ("_runtime.execution", "_runtime.runtime", "_ast.cell", "_messaging.notification_utils")
    )
    gone = import_module("marimo._messaging.notification").RemoveUIElementsNotification
    stopped = import_module("marimo._messaging.errors").MarimoAncestorStoppedError
    context = import_module("marimo._runtime.context").get_context
    notes, tell = utils.CellNotificationUtils, cells.CellImpl.set_runtime_state
    say, fail = runtime.broadcast_notification, notes.broadcast_error
    execution.broadcast_notification  # noqa: B018

    def has_run(cell_id: Any) -> bool:
        return getattr(context().graph.cells[cell_id]._status, "has_run", False)

    def set_runtime_state(self: Any, status: str, stream: Any = None) -> None:
        state = self._status  # each session has its own, and it can hold what we add
        state.has_run = getattr(state, "has_run", False) or status == "running"
        if state.has_run or status not in ("queued", "idle"):
            tell(self, status, stream)
        else:
            state.state = status

    def broadcast_notification(notification: Any, stream: Any = None) -> None:
        if not isinstance(notification, gone) or has_run(notification.cell_id):
            say(notification, stream)

    def broadcast_error(data: Any, clear_console: bool, cell_id: Any, execution_id: str | None = None) -> None:
        if not all(isinstance(error, stopped) for error in data):
            fail(data, clear_console, cell_id, execution_id)
        elif has_run(cell_id):
            notes.broadcast_empty_output(cell_id, None)

    execution.broadcast_notification = lambda notification: None
    runtime.broadcast_notification, notes.broadcast_error = broadcast_notification, staticmethod(broadcast_error)
    cells.CellImpl.set_runtime_state = set_runtime_state


def send_no_editor() -> None:
    """Make marimo not send what the page never shows: two pictures, six fonts, and a hundred languages of its editor.

    They are 1.3 of the 3.0 MB of a first visit, and 106 of its 311 requests.
    """
    assets = import_module("marimo._server.api.endpoints.assets")
    template, folder = assets.notebook_page_template, assets.root
    # The module of all languages, which a panel of the debugger imports, and one that is loaded anyhow, with its names.
    languages, replacement = "esm-CQuf--zt.js", "cn-ldLVeaqm.js"
    used = (folder / "index.html").read_text("utf-8")
    spared = {languages, *re.findall(r'"\./([\w.-]+\.js)"', (folder / "assets" / languages).read_text("utf-8"))}
    told = {f"./assets/{name}": f"./assets/{replacement}" for name in sorted(spared) if f'/{name}"' not in used}
    places = (Path(__file__).parent / "import_map.html").read_text("utf-8").replace("PLACES", json.dumps(told))

    def page(*, html: str, **named: Any) -> str:
        start, head, rest = re.sub(r'\s*<\w+ rel="preload" [^>]*>', "", html).partition("head>")
        return template(html=f"{start}{head}{places}{rest}", **named)

    assets.notebook_page_template = page


def draw_early(early: str) -> None:
    """Make marimo send the early board with the page: this HTML, behind the element in which its front end draws."""
    assets = import_module("marimo._server.api.endpoints.assets")
    template = assets.notebook_page_template
    assets.notebook_page_template = lambda **named: scripts_to_add(template(**named), early)
