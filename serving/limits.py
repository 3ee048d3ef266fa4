"""What a visitor may send: no body larger than 64 MB of files need, and 256 MB of files of all visitors at once.

marimo takes files as base64 in JSON, and keeps their bytes until their session ends. A body is counted while it
arrives, whatever its Content-Length says. In place of one that is too large, marimo gets a sentence, which the page
shows: of an answer with an error its front end shows nothing.
"""

import asyncio
import json
import re
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marimo_private import SESSION_HEADER, SET_VALUE, sessions_of

LARGEST = 64 * 10**6  # bytes of all files of a visitor
AT_ONCE = 256 * 10**6  # bytes of the files of all visitors
REFUSED = "\0"  # as the name of a file, which no file can have: its content says why there are no files

SMALL = 64 * 1024  # bytes of a body that passes uncounted: a flip, a slider
BODY = LARGEST * 4 // 3 + SMALL  # base64 takes four letters for three bytes; names come on top
OTHERS = 8 * 10**6  # bytes of a body that holds no files
PATIENCE = 30  # seconds without a byte
CONTROL = re.compile(rb'"objectIds"\s*:\s*\[\s*"([^"\\]+)"')  # the control that a value is for, which is named first
HEAD = 4096  # bytes in which that is looked for

TOO_LARGE = f"upload: expected at most {LARGEST / 1e6:.0f} MB in all, got more"
NO_ROOM = (
    f"upload: expected room for the files, got none: the {AT_ONCE / 1e6:.0f} MB that this server keeps for all its "
    "visitors are taken; try again in a moment"
)


@dataclass
class Body:
    """A body as it arrives, in chunks; once there is a reason to refuse it, the rest is read and forgotten."""

    longest: int
    take: Callable[[int], bool]  # whether there is room for so many bytes more, which are then taken
    chunks: deque[bytes] = field(default_factory=deque)
    size: int = 0
    head: bytes = b""
    why: str = ""  # it is refused

    async def read(self, receive: Receive) -> bool:
        """Read it to its end; False where the visitor left or sent nothing for too long."""
        while self.size <= 2 * self.longest:  # who sends still more is not heard out
            try:
                message = await asyncio.wait_for(receive(), PATIENCE)
            except TimeoutError:
                return False
            if message["type"] != "http.request":
                return False
            self._add(message.get("body", b""))
            if not message.get("more_body"):
                break
        return True

    def _add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.head += chunk[: max(0, HEAD - len(self.head))]
        if not self.why:
            self.why = TOO_LARGE if self.size > self.longest else "" if self.take(len(chunk)) else NO_ROOM
            self.chunks.append(chunk)
        if self.why:
            self.chunks.clear()

    async def again(self) -> Message:
        """Its next chunk, as the server gave it, which is then kept here no longer."""
        chunk = self.chunks.popleft() if self.chunks else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(self.chunks)}


class Limited:
    """Counts what arrives, and what is kept, by session and control; refuses what is too much."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.kept: dict[tuple[str, str], int] = {}  # bytes
        self.total = 0  # of what is kept and what is arriving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        session, files = headers.get(SESSION_HEADER, ""), scope["path"].endswith(SET_VALUE)
        length = headers.get("content-length", "") if "transfer-encoding" not in headers else ""
        if length.isdecimal() and int(length) <= SMALL and not (files and any(of == session for of, _ in self.kept)):
            return await self.app(scope, receive, send)

        taken = 0

        def take(size: int) -> bool:
            nonlocal taken
            room = self._room(scope, size)
            taken += size if room else 0
            self.total += size if room else 0
            return room

        body = Body(BODY if files else OTHERS, take)
        try:
            if not await body.read(receive):
                return await _refused("a body that ends", 408)(scope, receive, send)
            found = CONTROL.search(body.head) if files else None
            control = found[1].decode("utf-8", "replace") if found else ""
            if body.why:
                if control:
                    await self.app(*_instead(scope, control, body.why), _unheard)
                return await _refused(body.why, 413)(scope, receive, send)
            status = await _answered(self.app, scope, body.again, receive, send)
            if files and status == 200:
                self.total -= self.kept.pop((session, control), 0)
                if body.size > SMALL:
                    self.kept[session, control], taken = taken, 0
        finally:
            self.total -= taken

    def _room(self, scope: Scope, size: int) -> bool:
        """Whether there is room for so many bytes, also after what ended sessions kept is forgotten."""
        largest = AT_ONCE * 4 // 3  # as they travel
        if self.total + size > largest:
            alive = sessions_of(scope.get("app"))
            for key in [key for key in self.kept if key[0] not in alive]:
                self.total -= self.kept.pop(key)
        return self.total + size <= largest


async def _answered(app: ASGIApp, scope: Scope, body: Receive, receive: Receive, send: Send) -> int:
    """Let the app answer for a body that was read, and return the status of its answer."""
    status, sent = 0, False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()  # what the visitor does afterwards
        message = await body()
        sent = not message["more_body"]
        return message

    async def seen(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        await send(message)

    await app(scope, again, seen)
    return status


def _instead(scope: Scope, control: str, why: str) -> tuple[Scope, Receive]:
    """A request that hands the page a sentence in place of the files of this one."""
    value = [[REFUSED, b64encode(why.encode()).decode()]]
    body = json.dumps({"objectIds": [control], "values": [value]}).encode()
    headers = MutableHeaders(raw=list(scope["headers"]))
    del headers["transfer-encoding"]
    headers["content-length"] = str(len(body))

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return {**scope, "headers": headers.raw}, receive


async def _unheard(message: Message) -> None:
    """Where the answer to a request goes that nobody made."""


def _refused(why: str, status: int) -> JSONResponse:
    return JSONResponse({"detail": why}, status, {"connection": "close"})
