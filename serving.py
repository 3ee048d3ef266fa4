"""How the page travels: two entry points by which marimo's server compresses what it sends and warms up early.

marimo sends its front end uncompressed, some 7 MB in 300 files, each read from disk anew for every visitor. Here each
file is read and compressed once and then answered from memory.
"""

import asyncio
import contextlib
import functools
import gzip
import importlib
import re
import threading
from collections.abc import AsyncIterator

from marimo._entrypoints import registry
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COMPRESSIBLE = re.compile(r"text/|javascript|json|svg|xml|wasm")
SMALLEST = 600  # bytes; below this compression only adds
# The page uses the reader's own fonts, and the two pictures are shown only when the server is gone.
UNUSED_PRELOAD = re.compile(rb'<link rel="preload" href="[^"]+\.(?:woff2|png)"[^>]*>\s*')


# A session waits for it: marimo itself looks into torch, which must not be half imported then.
warmed = threading.Event()


class Compressed:
    """Answers GET requests compressed; files whose name holds a hash come from memory after the first time."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.kept: dict[tuple[str, bool], tuple[Message, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await asyncio.to_thread(warmed.wait)
        if scope["type"] != "http" or scope["method"] != "GET" or Headers(scope=scope).get("range"):
            return await self.app(scope, receive, send)
        asset = "/assets/" in scope["path"]
        zipped = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        key = (scope["path"], zipped)
        if key not in self.kept:
            start, body = await self._whole_response(scope, receive)
            start, body = prepare(start, body, zipped, asset)
            if not asset or start["status"] != 200:
                return await _answer(send, start, body)
            self.kept[key] = start, body
        return await _answer(send, *self.kept[key])

    async def _whole_response(self, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
        start: Message = {}
        parts: list[bytes] = []

        async def collect(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self.app(scope, receive, collect)
        return start, b"".join(parts)


def prepare(start: Message, body: bytes, zipped: bool, asset: bool) -> tuple[Message, bytes]:
    """The response as it is sent: without unused preloads, compressed if it pays, cached for ever if it is hashed."""
    headers = MutableHeaders(raw=list(start["headers"]))
    kind = headers.get("content-type", "")
    if kind.startswith("text/html"):
        body = UNUSED_PRELOAD.sub(b"", body)
    if asset and start["status"] == 200:
        headers["cache-control"] = "public, max-age=31536000, immutable"
    if zipped and "content-encoding" not in headers and len(body) >= SMALLEST and COMPRESSIBLE.search(kind):
        body = gzip.compress(body, 6, mtime=0)
        headers["content-encoding"] = "gzip"
        headers.add_vary_header("accept-encoding")
    if start["status"] not in (204, 304):
        headers["content-length"] = str(len(body))
    return {**start, "headers": headers.raw}, body


async def _answer(send: Send, start: Message, body: bytes) -> None:
    await send(start)
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def warm(_app: Starlette) -> AsyncIterator[None]:
    """Import what the first visitor's page needs while the server is still starting."""
    threading.Thread(target=_import_page, daemon=True).start()
    # marimo looks for plug-ins at every run of a cell and reads the metadata of every installed package for it,
    # some 5 ms each time. What is installed does not change while the server runs.
    registry.get_entry_points = functools.cache(registry.get_entry_points)
    yield


def _import_page() -> None:
    with contextlib.suppress(ImportError):  # then the page says so itself
        importlib.import_module("views.board")
    warmed.set()


COMPRESS = Middleware(Compressed)
