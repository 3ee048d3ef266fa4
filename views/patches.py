"""What is changed inside marimo while it serves the page: four places, each reported in docs/upstream.md.

Seen in marimo 0.25.2, by which pyproject.toml bounds it. Figures are of two cores, 22 November 2026.
"""

import contextlib
import functools
import weakref
from importlib import import_module
from typing import Any

import msgspec


def apply() -> None:
    """Change all four; without a name that another marimo lacks the page costs more, and works."""
    for change in (forget_sessions, cache_entry_points, decode_once, cache_cell_texts):
        with contextlib.suppress(ImportError, AttributeError):
            change()


def forget_sessions() -> None:
    """What a session held goes when it ends, and its threads know: else 0.7 MB a visitor stay, and all uploads."""
    lifecycle = import_module("marimo._runtime.kernel_lifecycle")
    widgets = import_module("ipywidgets.widgets.widget")
    end, widgets._instances = lifecycle.teardown_kernel, weakref.WeakValueDictionary(widgets._instances)

    def end_all(kernel: Any, context: Any) -> None:
        try:
            items = context.cell_lifecycle_registry
            for cell in list(items.registry):
                items.dispose(cell, deletion=True)
        finally:
            end(kernel, context)

    lifecycle.teardown_kernel = end_all


def cache_entry_points() -> None:
    """The metadata of all installed packages is read once, not at every run of cells: 3 to 5 ms each."""
    registry = import_module("marimo._entrypoints.registry")
    registry.get_entry_points = functools.cache(registry.get_entry_points)


def decode_once() -> None:
    """A kernel's message is decoded by one decoder, not by one that is built for it: 0.3 µs instead of 43."""
    view = import_module("marimo._session.state.session_view")
    message = import_module("marimo._messaging.notification").NotificationMessage
    view.deserialize_kernel_message  # noqa: B018
    view.deserialize_kernel_message = msgspec.json.Decoder(message, strict=True).decode


def cache_cell_texts() -> None:
    """A cell's text is split into tokens once, not for every visitor: 20 ms of the 91 that an arrival takes."""
    for module, name in (("marimo._ast.parse", "fixed_dedent"), ("marimo._ast.compiler", "ends_with_semicolon")):
        holder = import_module(module)
        setattr(holder, name, functools.lru_cache(1024)(getattr(holder, name)))
