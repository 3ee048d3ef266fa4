"""A request's head has at most 64 kB and is there within ten seconds; uvicorn bounds neither.

uvicorn's fast parser joins an endless head in quadratic time, so that one client could keep the server from all others.
"""

import logging
from asyncio import BaseTransport, TimerHandle
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD, SECONDS = 2**16, 10  # bytes and time of a head
LINE, LINES = 8000, 100  # bytes of a line and lines: no more than the library of the WebSockets takes
LOG = logging.getLogger("uvicorn.error")


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on a head that is too long or too slow."""

    _timer: TimerHandle | None = None  # runs while a head is awaited
    _bytes = _last = 0  # of that head so far, and of what came last

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._await_head(self.timeout_keep_alive)  # a browser opens connections that it may not need

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_of_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._last = len(data)
        self._bytes += self._last
        super().data_received(data)
        if self._timer and self._bytes > HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"expected a head of {HEAD} bytes at most")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._bytes = self._last
        self._await_head(SECONDS)

    def on_headers_complete(self) -> None:
        self._end_of_head()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD:
            raise ValueError  # uvicorn answers 400
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        longest = max(len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if longest <= LINE and len(self.headers) <= LINES:
            return super().handle_websocket_upgrade()
        self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, f"expected at most {LINES} lines of {LINE} bytes for a WebSocket")

    def _await_head(self, seconds: float) -> None:
        self._end_of_head()
        why = f"expected a head within {SECONDS} s"
        self._timer = self.loop.call_later(seconds, self._refuse, HTTPStatus.REQUEST_TIMEOUT, why)

    def _end_of_head(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._end_of_head()
        if self.transport.is_closing():
            return
        if self._bytes:
            LOG.warning("%s: %s, got more", self.client and self.client[0], why)
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: {len(why)}\r\n\r\n"
            self.transport.write((head + why).encode())
        self.transport.close()
