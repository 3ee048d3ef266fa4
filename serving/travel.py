"""How the page travels: compressed, with the hashed files of marimo's front end in memory.

marimo sends its front end uncompressed, some 7 MB in 300 files, each read from disk anew for every visitor. Here every
answer passes through Starlette's GZipMiddleware, chunk by chunk. Files whose names hold a hash are compressed once and
then answered from memory.
"""

import asyncio
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marimo_private import ASSETS, PUBLIC, SHORT_ID, long_id, shows_page

SMALLEST = 600  # bytes; below this compression only adds
LEVEL = 6  # of gzip; 9 takes twice as long for 0.5 % less
IN_A_THREAD = 8 * 1024  # bytes of one chunk; files come in chunks of 64 KiB, which would stall the others for 4 ms each
# One segment below /assets/, so that a file has one spelling and no more is kept than there are files.
HASHED = re.compile(re.escape(ASSETS) + r"[\w.-]+-[\w-]{8}\.\w+$")
# These make a browser ask anew even for what never changes, or for a part of it.
CONDITIONS = ("range", "if-range", "if-none-match", "if-modified-since")
# The page uses the reader's own fonts, and the two pictures are shown only when the server is gone: half a megabyte.
# What the page is about says views/head.html; marimo's own description says of every page that it is a marimo app.
UNWANTED = re.compile(
    rb'<link rel="preload" href="[^"]+\.(?:woff2|png)"[^>]*>|<meta name="description" content="a marimo app"[^>]*>'
)

# Crawlers take the address of a link's picture only with the host, which marimo leaves out.
PICTURE = re.compile(rb'(<meta property="og:image" content=")(/)')
HOST = re.compile(r"[\w.:\[\]-]+")


class Edited:
    """Marks hashed files as lasting, and edits the page: without what is unwanted, its picture's address whole.

    A visitor's front end names its session as nobody guesses it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        lasting, page = hashed(scope["path"]), scope["path"].endswith("/")
        origin, shown = origin_of(scope), shows_page(scope)

        async def edited(message: Message) -> None:
            if lasting and message["type"] == "http.response.start" and message["status"] in (200, 206, 304):
                MutableHeaders(scope=message)["cache-control"] = "public, max-age=31536000, immutable"
            if page and message["type"] == "http.response.start":
                del MutableHeaders(scope=message)["content-length"]
            if page and message.get("body"):
                message["body"] = PICTURE.sub(rb"\1%b\2" % origin, UNWANTED.sub(b"", message["body"]))
            if lasting and shown and message.get("body"):
                message["body"] = SHORT_ID.sub(long_id, message["body"])
            await send(message)

        await self.app(scope, receive, edited)


class Kept:
    """Answers for hashed files from memory; visitors who ask for a file at the same time share the first answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.answers: dict[str, asyncio.Future[tuple[Message, bytes]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" and scope["method"] == "GET" else {}
        zipped = "gzip" in headers.get("accept-encoding", "")
        if not zipped or not hashed(scope["path"]) or any(name in headers for name in CONDITIONS):
            return await self.app(scope, receive, send)
        path = scope["path"]
        if path not in self.answers:
            self.answers[path] = asyncio.ensure_future(self._answer(scope))
        start, body = await asyncio.shield(self.answers[path])  # who leaves first takes it from no one
        # A copy: the layers outside add headers of one visitor, such as a cookie.
        await send({**start, "headers": list(start["headers"])})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope) -> tuple[Message, bytes]:
        start: Message = {}
        parts: list[bytes] = []

        async def collect(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        whole = False
        try:  # as nobody in particular asks for it
            await self.app({**scope, "headers": [(b"accept-encoding", b"gzip")]}, nobody(), collect)
            whole = start["status"] == 200
        finally:
            if not whole:
                del self.answers[scope["path"]]
        body = b"".join(parts)
        headers = MutableHeaders(raw=list(start["headers"]))
        headers["content-length"] = str(len(body))
        return {**start, "headers": headers.raw}, body


def hashed(path: str) -> bool:
    """Whether the path names a file of marimo's front end by its content, so that it never changes."""
    return HASHED.search(path) is not None and PUBLIC not in path


def origin_of(scope: Scope) -> bytes:
    """Scheme and host by which the visitor reached us, also through a proxy; empty where the request names no host."""
    headers = Headers(scope=scope)
    scheme = "https" if "https" in (headers.get("x-forwarded-proto"), scope.get("scheme")) else "http"
    host = headers.get("x-forwarded-host") or headers.get("host", "")
    return f"{scheme}://{host}".encode() if HOST.fullmatch(host) else b""


def nobody() -> Receive:
    """A client who asks, says no more and never leaves."""
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        return next(messages, None) or await asyncio.get_running_loop().create_future()

    return receive


def compressed(app: ASGIApp) -> ASGIApp:
    """The app whose answers travel compressed, with its hashed files in memory."""
    zipped = GZipMiddleware(Edited(app), minimum_size=SMALLEST, compresslevel=LEVEL, thread_minimum_size=IN_A_THREAD)
    return Kept(zipped)
