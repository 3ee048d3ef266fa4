"""Names of sessions cannot be tried: marimo gives them six letters, and who knows one meets what its visitor set."""

import time

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

NAMES, MINUTE, HOUR, CLIENTS = 100, 60, 3600, 10_000


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
