"""Limits for the visitors of the server: how many bytes of files each may upload, and how many names of sessions a
client may use. WebSockets may come from this page alone. A session may begin only once everything is imported.

marimo gives a session a name of six letters; anyone who guesses the name sees what its visitor has set.
"""

import asyncio
import logging
import re
import threading
import time

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger("uvicorn.error")
LARGEST_UPLOAD = 64 * 10**6  # bytes of a visitor's files
TOO_LARGE = f"upload: expected at most {LARGEST_UPLOAD / 1e6:.0f} MB in all, got more"
NO_ROOM = "upload: expected room in this server's memory, got none: try again in a moment"
_NAME = re.compile(r"[\w-]{3,40}", re.ASCII)
# How many names of sessions a client may use in a minute, two spans in seconds, and how many clients are remembered.
SESSION_NAMES, MINUTE, HOUR, CLIENTS = 100, 60, 3600, 10_000
# Whether cells whose values nobody sees stay empty. serve.py, whose visitors see no code, sets it. Where a person runs
# the notebook, in marimo edit, in marimo run or as a script, every cell has its values.
LEAVES_OUT_UNSEEN_CELLS = False
may_begin = threading.Event()  # set once everything is imported that the cells of a session import


def forbids(scope: Scope) -> str:
    """Return why a WebSocket may not be opened, or "" if it may.

    It may if its page is of this host and it names a session. A client that names no origin counts as a page of this
    host.
    """
    headers, query = Headers(scope=scope), QueryParams(scope.get("query_string", b""))
    origin, hosts = headers.get("origin"), (headers.get(name, "") for name in ("host", "x-forwarded-host"))
    if origin is not None and _host(origin.partition("://")[2]) not in filter(None, map(_host, hosts)):
        return f"expected a page of {headers.get('host', '')!r:.80}, got one of {origin!r:.80}"
    return "" if _NAME.fullmatch(query.get("session_id", "")) else "expected the name of a session"


def _host(name: str) -> str:
    """Return the name of a host in lower case, without the port if that is 80 or 443."""
    return name.lower().removesuffix(":443").removesuffix(":80")


def awaited(app: ASGIApp) -> ASGIApp:
    """Return the app with a wait in front of it: a session begins only once `may_begin` is set.

    Until then the session's WebSocket is open and silent. It is opened at once because a browser gives up waiting for
    it after some seconds. marimo looks into torch when a session begins, and breaks if another thread has imported only
    half of torch.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket" or may_begin.is_set():
            return await app(scope, receive, send)
        asked = [await receive()]
        await send({"type": "websocket.accept"})
        while not may_begin.is_set():
            await asyncio.sleep(0.01)

        async def receive_anew() -> Message:
            return asked.pop() if asked else await receive()

        async def send_on(message: Message) -> None:
            if message["type"] != "websocket.accept":
                await send(message)

        await app(scope, receive_anew, send_on)

    return call


def limited(app: ASGIApp) -> ASGIApp:
    """Return the app with a limit: a client that names a hundred sessions in a minute gets the status 429 for an hour.

    The minute and the hour both begin with the first of these names. A client is an IP address. Once there are more
    than `CLIENTS` clients, the one that came first is forgotten.
    """
    clients: dict[str, tuple[float, frozenset[str]]] = {}  # since when, which names

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        client, now = (scope.get("client") or ("",))[0], time.monotonic()
        since, names = clients.get(client, (now, frozenset()))
        if now > since + (MINUTE if len(names) < SESSION_NAMES else HOUR):
            since, names = now, frozenset()
        query = QueryParams(scope.get("query_string", b"")).get("session_id")
        if name := query or (scope["type"] == "http" and Headers(scope=scope).get("marimo-session-id")):
            before = len(names)
            names |= {name[:40]} if before < SESSION_NAMES else set()
            clients[client] = since, names
            if before < SESSION_NAMES == len(names):
                _LOG.warning("%s: 429 for an hour, after %d names of sessions in a minute", client, SESSION_NAMES)
            if len(clients) > CLIENTS:
                clients.pop(next(iter(clients)))
        refusal = JSONResponse({"detail": "Too many sessions from one address: try again in an hour"}, 429)
        await (app if len(names) < SESSION_NAMES else refusal)(scope, receive, send)

    return call
