"""How the server starts: what the first visitor needs is imported early, and a session waits until it is there."""

import asyncio
import contextlib
import gc
import importlib
import os
import sys
import threading
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from marimo_private import (
    EVENTS,
    cache_cell_texts,
    cache_entry_points,
    forget_sessions,
    forget_texts,
    make_trees_in_turn,
    register_formatters_once,
    share_cell_trees,
)
from serving.tidy import tidy_soon

# A full search goes through all that sessions hold, and holds up everyone's flips; with Python's own numbers it comes
# often, since what is frozen does not count.
RARELY = (20_000, 20, 50)  # objects, then searches of the kind before

# A session waits for it: marimo itself looks into torch, which must not be half imported then.
warmed = threading.Event()
warmed.set()  # until `warm` starts, which a server that mounts marimo's may never let happen


class Warmed:
    """Lets a session begin only once what it needs is imported."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begins = scope["type"] == "websocket" or (scope["type"] == "http" and scope["path"].endswith(EVENTS))
        if begins and not warmed.is_set():
            await asyncio.to_thread(warmed.wait)
        await self.app(scope, receive, send)


@contextlib.asynccontextmanager
async def warm(_app: Starlette) -> AsyncIterator[None]:
    """Import what the first visitor's page needs while the server is still starting."""
    warmed.clear()
    importing = threading.Thread(target=_import_page, daemon=True)
    importing.start()
    cache_entry_points()
    cache_cell_texts()
    share_cell_trees()
    make_trees_in_turn()
    forget_sessions(tidy_soon)
    forget_texts()
    register_formatters_once()
    try:
        yield
    finally:
        importing.join()  # Python aborts where it ends while torch is being imported, as by Ctrl-C in the first second
        if elsewhere := sys.modules.get("views.elsewhere"):
            elsewhere.end()


def _import_page() -> None:
    # A quarter of a million objects that will never be garbage: to search them again and again takes a tenth of the
    # imports, and later stalls everyone for 0.1 s each time.
    gc.disable()
    try:
        with contextlib.suppress(ImportError):  # then the page says so itself
            importlib.import_module("views.lab")
            from views import elsewhere

            elsewhere.serve_many()
        gc.freeze()
        gc.set_threshold(*RARELY)
    except Exception as error:  # a half-imported page would answer for ever, and show nothing; this is started again
        print(f"The page cannot be imported, so this server ends: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    finally:
        gc.enable()
        warmed.set()
