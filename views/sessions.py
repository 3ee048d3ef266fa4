"""What one visitor of the server may take: bytes of files, its memory, names of sessions.

marimo gives a session a name of six letters; anyone who guesses it sees what its visitor has set.
"""

import time

import psutil
from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST = 64 * 10**6  # bytes of a visitor's files
TOO_LARGE = f"upload: expected at most {LARGEST / 1e6:.0f} MB in all, got more"
NO_ROOM = "upload: expected room in this server's memory, got none: try again in a moment"
NAMES, MINUTE, HOUR, CLIENTS = 100, 60, 3600, 10_000


def full(share: float = 0.5) -> bool:
    """Whether this process holds that share of the machine's memory, so that it takes no more files."""
    return psutil.Process().memory_info().rss > share * psutil.virtual_memory().total


def limited(app: ASGIApp) -> ASGIApp:
    """The app, closed for an hour to a client that names a hundred sessions in a minute."""
    clients: dict[str, tuple[float, frozenset[str]]] = {}  # since when, which names

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        client, now = (scope.get("client") or ("",))[0], time.monotonic()
        since, names = clients.get(client, (now, frozenset()))
        if now > since + (MINUTE if len(names) < NAMES else HOUR):
            since, names = now, frozenset()
        query = QueryParams(scope.get("query_string", b"")).get("session_id")
        if name := query or (scope["type"] == "http" and Headers(scope=scope).get("marimo-session-id")):
            names |= {name[:40]} if len(names) < NAMES else set()
            clients[client] = since, names
            if len(clients) > CLIENTS:
                clients.pop(next(iter(clients)))
        refusal = JSONResponse({"detail": "Too many sessions from one address: try again in an hour"}, 429)
        await (app if len(names) < NAMES else refusal)(scope, receive, send)

    return call
