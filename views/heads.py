"""Limits of the head of a request, which uvicorn does not bound: at most 64 kB, and all of it within ten seconds.

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
    """uvicorn's protocol of one connection, which is closed if the head of a request is too long or too slow."""

    _timer: TimerHandle | None = None  # runs while a head is awaited
    _bytes = _last = 0  # bytes of that head that have come so far, and those of the last message

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin a connection, and wait for its first head as long as an idle connection is kept."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._await_head(self.timeout_keep_alive)  # a browser also opens connections that it may never use

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection and its timer."""
        self._end_of_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes that came, and refuse the request if its head is too long by now."""
        self._last = len(data)
        self._bytes += self._last
        super().data_received(data)
        if self._timer and self._bytes > HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"expected a head of {HEAD} bytes at most")

    def on_message_begin(self) -> None:
        """Begin a request, whose head has to be there within `SECONDS`."""
        super().on_message_begin()
        self._bytes = self._last
        self._await_head(SECONDS)

    def on_headers_complete(self) -> None:
        """End the wait for a head. Raises ValueError, which uvicorn answers with 400, where the head is too long."""
        self._end_of_head()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD:
            raise ValueError
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand a request over to the library of the WebSockets, or refuse it if its head has more than that allows."""
        longest = max(len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if longest <= LINE and len(self.headers) <= LINES:
            return super().handle_websocket_upgrade()
        self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, f"expected at most {LINES} lines of {LINE} bytes for a WebSocket")

    def _await_head(self, seconds: float) -> None:
        """Refuse the request unless its head ends within so many seconds."""
        self._end_of_head()
        why = f"expected a head within {SECONDS} s"
        self._timer = self.loop.call_later(seconds, self._refuse, HTTPStatus.REQUEST_TIMEOUT, why)

    def _end_of_head(self) -> None:
        """Stop waiting for a head."""
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Close the connection; if a head had begun, log the reason and send it with the status before that."""
        self._end_of_head()
        if self.transport.is_closing():
            return
        if self._bytes:
            LOG.warning("%s: %s, got more", self.client and self.client[0], why)
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: {len(why)}\r\n\r\n"
            self.transport.write((head + why).encode())
        self.transport.close()
