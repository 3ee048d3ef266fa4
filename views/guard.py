"""The guard in front of marimo's app: it sets the headers of answers, and refuses some requests in marimo's place."""

import asyncio
import contextlib
import logging
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from views import assets, memory, sessions

LOG = logging.getLogger("uvicorn.error")
BODY, SMALL = sessions.LARGEST * 4 // 3 + 65536, 2**20  # bytes: files travel as base64; taken where memory is scarce
SECONDS = 30  # without a byte of a body, after which the request is refused
INLINE = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)  # marimo's, which the policy names
POLICY = (
    "default-src 'self'; script-src 'self'{}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co https://*.hf.space"
)
FILE = re.compile(r"[\w-]+\.\w+", re.ASCII)  # as marimo names one; by other names it opens any shared memory
# Headers that files with a hash in their name do without: they are for documents, or for asking whether a file changed.
NOT_OF_FILES = (
    *("cross-origin-opener-policy", "permissions-policy", "referrer-policy"),
    *("etag", "last-modified", "accept-ranges"),
)
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def dressed(path: str, start: Message, body: bytes) -> Message:
    """Return the start of an answer (status and headers) with our headers set and unwanted ones removed.

    The content security policy allows the scripts that marimo wrote into the page. Files with a hash in their name are
    to be kept for a year instead and get no policy, nor does an answer with status 304. path: of the request; body: the
    first bytes of the answer, in which these scripts stand.
    """
    headers = MutableHeaders(scope=start)
    headers.update(HEADERS)
    del headers["access-control-allow-origin"]  # the builder's, for every origin
    if assets.HASHED.fullmatch(path) and start["status"] == 200:
        headers["cache-control"] = "public, max-age=31536000, immutable"
        for name in NOT_OF_FILES:
            del headers[name]
    elif start["status"] != 304:  # whose page the browser has, with its policy
        scripts = INLINE.findall(body) if path.endswith("/") else ()
        hashes = "".join(f" 'sha256-{b64encode(sha256(text).digest()).decode()}'" for text in scripts)
        headers["content-security-policy"] = POLICY.format(hashes)
    return start


class Body:
    """The body of a request as it arrives, which is refused if it is larger than uploads may be, or stops for too long.

    size: the bytes that are declared, or that have come so far; coming: the most bytes that may come; most: the bytes
    above which the body is refused; late: whether it stopped for too long; whole: whether all of it has come.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        self.receive, self.declared = receive, length.isdecimal()
        self.size = int(length) if self.declared else 0
        self.coming = BODY if "transfer-encoding" in headers else self.size  # of unknown length: the most
        self.most, self.too_large = BODY, sessions.TOO_LARGE
        self.late = self.whole = False

    @property
    def refusal(self) -> tuple[int, str] | None:
        """The status and the reason with which the body is refused; None as long as it is not refused."""
        if self.late:
            return 408, f"expected the next bytes of the body within {SECONDS} s"
        return (413, self.too_large) if self.size > self.most else None

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Reserve memory for the body inside `with`; where too little is left, more than `SMALL` bytes are refused."""
        with memory.reserved(self.coming) if SMALL < self.coming <= BODY else contextlib.nullcontext(True) as fits:
            if not fits:
                self.most, self.too_large = SMALL, sessions.NO_ROOM
            yield

    async def next(self) -> Message:
        """Return the next message with bytes of the body, or `http.disconnect` once the body is refused."""
        message = await self._receive()
        return {"type": "http.disconnect"} if self.refusal else message

    async def drop(self) -> None:
        """Read and drop the rest of a refused body of at most BODY bytes, lest a browser report a broken connection."""
        while not self.whole and self.size <= BODY:
            await self._receive()

    async def _receive(self) -> Message:
        """Return the next message of the client and count its bytes; `http.disconnect` if none comes in `SECONDS`."""
        try:
            async with asyncio.timeout(None if self.whole else SECONDS):
                message = await self.receive()
        except TimeoutError:
            self.late, message = True, {"type": "http.disconnect"}
        self.whole = not message.get("more_body")
        self.size += 0 if self.declared else len(message.get("body", b""))
        return message


def refused(scope: Scope) -> tuple[int, str] | None:
    """Return the status and the reason with which a request is refused before marimo sees it; None where it may pass.

    Refused are WebSockets other than marimo's own, those of other pages or without a session, new notebooks, and files
    that do not have a name that marimo gives.
    """
    path, query = scope["path"], QueryParams(scope.get("query_string", b""))
    socket = scope["type"] == "websocket"
    another_socket = socket and not path.endswith("/ws")  # two visitors could talk by it
    _, file, name = path.partition("/@file/")
    if another_socket or query.get("file", "").startswith("__new__") or (file and not FILE.fullmatch(name)):
        return 404, "Not found"
    why = sessions.forbids(scope) if socket else ""
    return (403, why) if why else None


def blamed(error: BaseException | None) -> int:
    """Return the status of the answer to an error of marimo: 4xx where a client's request caused it, else 500."""
    while error:
        if isinstance(error, msgspec.MsgspecError):
            return 400
        if 400 <= getattr(error, "status_code", 0) < 500:
            return error.status_code  # type: ignore[attr-defined]
        error = error.__cause__ or error.__context__
    return 500


class Exchange:
    """One request and its answer, which is the app's with our headers, or a refusal in one sentence."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        self.body = Body(scope, receive)
        self.start: Message | None = None  # of the app's answer; it waits for the body, whose scripts the policy names
        self.begun = False  # whether the answer has begun to be sent
        client = (scope.get("client") or ("",))[0]
        self.who = f"{client}: {scope.get('method', 'WebSocket')} {scope['path']!r:.80}"

    async def refuse(self, status: int, why: str) -> None:
        """Answer the request with a status and a reason, and log both; a WebSocket is closed instead."""
        LOG.warning("%s: %d %s", self.who, status, why)
        if self.scope["type"] == "websocket":
            return await self.send({"type": "websocket.close"})  # is answered 403
        headers = HEADERS | ({"connection": "close"} if status == 408 else {})
        await JSONResponse({"detail": why}, status, headers)(self.scope, self.receive, self.send)

    async def pass_on(self, message: Message) -> None:
        """Send a message of the app's answer, unless the body is refused or the app failed before its answer began.

        The start of the answer is kept until the first bytes of the answer's body are there.
        """
        if message["type"] == "http.response.start":
            self.start = message
        elif self.start and not self.body.refusal and (self.begun or self.start["status"] < 500):
            if not self.begun:
                await self._send_start(message.get("body", b""))
            self.begun = True
            await self.send(message)

    async def _send_start(self, first: bytes) -> None:
        """Send the start of the answer with our headers, and log its status from 400 on. first: the first bytes of the
        answer's body.
        """
        assert self.start is not None, "an answer has a start before it has a body"
        if self.start["status"] >= 400:
            LOG.warning("%s: %d", self.who, self.start["status"])
        await self.send(dressed(self.scope["path"], self.start, first))

    async def ask(self, app: ASGIApp) -> None:
        """Let the app answer the request; refuse it where the body is refused, or where the start of an answer came
        from the app but could not be sent, because the app failed.
        """
        status = 500
        try:
            with self.body.room(), contextlib.suppress(ClientDisconnect):
                if not self.body.refusal:
                    await app(self.scope, self.body.next, self.pass_on)
        except Exception as error:
            status = blamed(error)
            if status == 500:
                LOG.exception(self.who)
        if self.body.refusal:
            await self.body.drop()
            await self.refuse(*self.body.refusal)
        elif self.start and not self.begun:
            await self.refuse(status, HTTPStatus(status).phrase)


class Guard:
    """An app in front of another one: it sets headers on the other's answers, and refuses some requests itself.

    Each refusal, its own or the other app's, is one line in the log; a WebSocket that the other app refuses is not.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request or WebSocket; other events go to the app as they are."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        exchange = Exchange(scope, receive, send)
        if refusal := refused(scope):
            return await exchange.refuse(*refusal)
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        await exchange.ask(self.app)


def guarded(app: ASGIApp) -> ASGIApp:
    """Return the app with a guard in front of it."""
    return Guard(app)
