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

from views.server import assets, memory, sessions

_LOG = logging.getLogger("uvicorn.error")
# The most bytes of a body, whose files travel as base64, and the most bytes that are taken where memory is scarce.
BODY, SMALL = sessions.LARGEST_UPLOAD * 4 // 3 + 65536, 2**20
BODY_SECONDS = 30  # so long without a byte of its body, a request is refused
INLINE = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)  # marimo's, which the policy names
POLICY = (
    "default-src 'self'; script-src 'self'{}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co https://*.hf.space"
)
_FILE = re.compile(r"[\w-]+\.\w+", re.ASCII)  # as marimo names one; by other names it opens any shared memory
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
    """Return the start of an answer, which is its status and headers, with our headers set and unwanted ones removed.
    `start` itself is changed.

    An answer gets a content security policy, which in a page allows the scripts that marimo wrote into it. Two kinds of
    answers get no policy: answers with status 304, and files with a hash in their name that are sent with status 200.
    Browsers are told to keep these files for a year.

    path: the path of the request.
    body: the first bytes of the answer's body, which in a page hold marimo's scripts.
    """
    headers = MutableHeaders(scope=start)
    headers.update(HEADERS)
    del headers["access-control-allow-origin"]  # marimo sets it, for every origin
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
    """The body of a request as it arrives. It is refused if it is larger than uploads may be, or if no byte comes for
    `BODY_SECONDS`.

    size: how many bytes the header content-length declares; without that header, how many have come so far.
    coming: for how many bytes room is kept. This is `size`, or the largest body, BODY, if a header transfer-encoding
        leaves the size open.
    most: the largest size that is not refused.
    late: whether no byte came for too long.
    whole: whether all of the body has come.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        self.receive, self.declared = receive, length.isdecimal()
        self.size = int(length) if self.declared else 0
        self.coming = (
            BODY if "transfer-encoding" in headers else self.size
        )  # a body of unknown length may be the largest
        self.most, self.too_large = BODY, sessions.TOO_LARGE
        self.late = self.whole = False

    @property
    def refusal(self) -> tuple[int, str] | None:
        """The status and the reason with which the body is refused; None as long as it is not refused."""
        if self.late:
            return 408, f"expected the next bytes of the body within {BODY_SECONDS} s"
        return (413, self.too_large) if self.size > self.most else None

    @contextlib.contextmanager
    def room(self) -> Iterator[bool]:
        """Reserve memory for the body until the `with` ends, if `coming` is more than `SMALL` and at most `BODY`. The
        `with` gets whether the body may be read: False where it is refused already, or where too little memory is left,
        in which case `refusal` says so.
        """
        with memory.reserved(self.coming) if SMALL < self.coming <= BODY else contextlib.nullcontext(True) as fits:
            if not fits:
                self.most, self.too_large = SMALL, sessions.NO_ROOM
            yield self.refusal is None

    async def next(self) -> Message:
        """Return the next message with bytes of the body, or `http.disconnect` once the body is refused."""
        message = await self._receive()
        return {"type": "http.disconnect"} if self.refusal else message

    async def drop(self) -> None:
        """Read and drop the rest of a refused body, so that the browser gets the refusal and does not report a broken
        connection.

        The rest is read only as long as the body has at most BODY bytes.
        """
        while not self.whole and self.size <= BODY:
            await self._receive()

    async def _receive(self) -> Message:
        """Return the next message of the client, and count its bytes; return `http.disconnect` if none comes within
        `BODY_SECONDS`.
        """
        try:
            async with asyncio.timeout(None if self.whole else BODY_SECONDS):
                message = await self.receive()
        except TimeoutError:
            self.late, message = True, {"type": "http.disconnect"}
        self.whole = not message.get("more_body")
        self.size += 0 if self.declared else len(message.get("body", b""))
        return message


def refused(scope: Scope) -> tuple[int, str] | None:
    """Return the status and the reason with which a request is refused before marimo sees it; None if it may pass.

    WebSockets other than marimo's own, requests for new notebooks, and requests for files by a name that marimo does
    not give are refused with 404. WebSockets that come from another page or name no session are refused with 403.
    """
    path, query = scope["path"], QueryParams(scope.get("query_string", b""))
    socket = scope["type"] == "websocket"
    another_socket = socket and not path.endswith("/ws")  # two visitors could talk by it
    _, file, name = path.partition("/@file/")
    if another_socket or query.get("file", "").startswith("__new__") or (file and not _FILE.fullmatch(name)):
        return 404, "Not found"
    why = sessions.forbids(scope) if socket else ""
    return (403, why) if why else None


def blamed(error: BaseException | None) -> int:
    """Return the status with which to answer a request in which marimo raised an error.

    It is 400 if marimo could not decode the body, and the error's own status if that is 4xx. If the error says neither,
    the error that caused it is looked at, and so on. If none of these says one, the status is 500.
    """
    while error:
        if isinstance(error, msgspec.MsgspecError):
            return 400
        if 400 <= getattr(error, "status_code", 0) < 500:
            return error.status_code  # type: ignore[attr-defined]
        error = error.__cause__ or error.__context__
    return 500


class Exchange:
    """One request and its answer. The answer is the app's, with our headers, or a refusal, which gives the reason in
    one sentence.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        self.body = Body(scope, receive)
        self.start: Message | None = None  # of the app's answer; it waits for the body, whose scripts the policy names
        self.begun = False  # whether the answer has begun to be sent
        client = (scope.get("client") or ("",))[0]
        self.who = f"{client}: {scope.get('method', 'WebSocket')} {scope['path']!r:.80}"

    async def refuse(self, status: int, why: str) -> None:
        """Answer the request with a status and a reason, or close it if it is a WebSocket; log the status and the
        reason.
        """
        _LOG.warning("%s: %d %s", self.who, status, why)
        if self.scope["type"] == "websocket":
            return await self.send({"type": "websocket.close"})  # is answered 403
        headers = HEADERS | ({"connection": "close"} if status == 408 else {})
        await JSONResponse({"detail": why}, status, headers)(self.scope, self.receive, self.send)

    async def pass_on(self, message: Message) -> None:
        """Send a message of the app's answer to the client, with exceptions.

        The start of the answer is kept until the first bytes of its body are there. Nothing is sent if the body of the
        request is refused, or if the app answers with 500 or more. In these two cases `ask` refuses the request.
        """
        if message["type"] == "http.response.start":
            self.start = message
        elif self.start and not self.body.refusal and (self.begun or self.start["status"] < 500):
            if not self.begun:
                await self._send_start(message.get("body", b""))
            self.begun = True
            await self.send(message)

    async def _send_start(self, first: bytes) -> None:
        """Send the start of the answer with our headers, and log its status from 400 on.

        first: the first bytes of the answer's body.
        """
        assert self.start is not None, "an answer has a start before it has a body"
        if self.start["status"] >= 400:
            _LOG.warning("%s: %d", self.who, self.start["status"])
        await self.send(dressed(self.scope["path"], self.start, first))

    async def ask(self, app: ASGIApp) -> None:
        """Let the app answer the request, and refuse the request in three cases.

        It is refused if its body is refused, and if the app began an answer with a status of 500 or more. It is also
        refused if the app failed after the start of its answer and before the answer's body. An error of the app's own,
        with status 500, is logged.
        """
        status = 500
        try:
            with self.body.room() as admitted, contextlib.suppress(ClientDisconnect):
                if admitted:
                    await app(self.scope, self.body.next, self.pass_on)
        except Exception as error:
            status = blamed(error)
            if status == 500:
                _LOG.exception(self.who)
        if self.body.refusal:
            await self.body.drop()
            await self.refuse(*self.body.refusal)
        elif self.start and not self.begun:
            await self.refuse(status, HTTPStatus(status).phrase)


class Guard:
    """An app that stands in front of another app: it sets headers on that app's answers, and refuses some requests
    itself.

    Each answer with a status of 400 or more is one line in the log, whether the guard refused the request or the app
    behind it did. The log has no line where that app refuses a WebSocket.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request or WebSocket; any other event, such as the start of the server, goes to the app
        behind as it is.
        """
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        exchange = Exchange(scope, receive, send)
        if refusal := refused(scope):
            return await exchange.refuse(*refusal)
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        await exchange.ask(self.app)


def guarded(app: ASGIApp) -> ASGIApp:
    """Return the app behind a `Guard`, which sets headers on the app's answers and refuses some requests itself."""
    return Guard(app)
