"""Which of marimo's endpoints visitors reach: those that the page asks, and no other.

marimo keeps what edits or runs code for `marimo edit`. Of what it leaves to visitors this closes what the page has no
use for, such as the export of a session, the list of files and their paths on the server. A request that marimo fails
on is refused in one sentence, without a traceback in the server's log.
"""

import logging
import re
from collections.abc import Mapping

from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from marimo_private import (
    ASSETS,
    CALL_FUNCTION,
    EVENTS,
    FILE_KEY,
    FILES,
    NEW,
    SET_MODEL_VALUE,
    SET_VALUE,
    SOCKET,
    base_of,
    shows_page,
)

LOGGER = logging.getLogger(__name__)
WORD = r"[\w.-]+"
OPEN: Mapping[str, re.Pattern] = {
    kind: re.compile("|".join(paths), re.ASCII)
    for kind, paths in {
        "GET": (
            "/",
            f"{ASSETS}{WORD}",
            rf"{FILES}\d{{1,12}}-{WORD}",
            EVENTS,
            "/og/thumbnail",
            "/health",
            "/healthz",
            f"/{WORD}\\.(?:ico|png|json)",
            "/public-files-sw.js",
        ),
        "POST": (SET_VALUE, SET_MODEL_VALUE, CALL_FUNCTION),
        "websocket": (SOCKET,),
    }.items()
}


class Closed:
    """Answers 404 for all but what is open, and turns a failure of marimo into a refusal."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not shows_page(scope):
            return await self.app(scope, receive, send)
        kind = scope["type"] if scope["type"] == "websocket" else scope["method"].replace("HEAD", "GET")
        known = kind in OPEN and OPEN[kind].fullmatch(scope["path"].removeprefix(base_of(scope)))
        if not known or asks_for_a_new_notebook(scope):
            return await refuse(404, scope, receive, send)
        held: list[Message] = []  # that a file is gone shows after its first header
        begun = False

        async def begins(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                held.append(message)
                return
            begun = begun or not message["type"].startswith("websocket.http")  # a refusal that uvicorn cannot send
            while held:
                await send(held.pop())
            await send(message)

        try:
            await self.app(scope, receive, begins)
        except Exception as error:
            # Of a GET only this is the visitor's fault: Starlette's word for a refusal after the first header.
            if begun or (kind == "GET" and not isinstance(error, RuntimeError)):
                raise
            LOGGER.warning("%s %s was refused: %s", kind, scope["path"], str(error)[:200])
            await refuse(400 if kind == "POST" else 404, scope, receive, send)


def asks_for_a_new_notebook(scope: Scope) -> bool:
    """Whether the query names none of the server's notebooks but an empty one, which marimo would open."""
    return any(key.startswith(NEW) for key in QueryParams(scope.get("query_string", b"")).getlist(FILE_KEY))


async def refuse(status: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Say that it is not there, or not understood."""
    detail = {404: "Not found", 400: "This request could not be read"}[status]
    answer = WebSocketClose() if scope["type"] == "websocket" else JSONResponse({"detail": detail}, status)
    await answer(scope, receive, send)
