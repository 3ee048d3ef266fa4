"""Limits of the head of a request, which uvicorn does not bound: at most 64 kB, and all of it within ten seconds. A
head that opens a WebSocket may have at most 100 lines, of at most 8000 bytes each.

uvicorn's fast parser appends each piece of a header to the pieces before it, which takes quadratic time. So one client
with an endless head could keep the server from all others.
"""

import logging
from asyncio import BaseTransport, TimerHandle
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD, HEAD_SECONDS = 2**16, 10  # the most bytes of a head, and the most seconds
# The most bytes of a line and the most lines in the head of a WebSocket: its library takes no more.
_LINE, _LINES = 8000, 100
_LOG = logging.getLogger("uvicorn.error")


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol of one connection, with limits: a request whose head is too long or too slow is refused, and
    the connection closed.
    """

    _timer: TimerHandle | None = None  # runs while a head is awaited
    _bytes = _last = 0  # bytes of that head so far, and bytes that came last

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin a connection. If no byte comes for as long as uvicorn keeps an idle connection, it is closed."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._await_head(self.timeout_keep_alive)  # a browser also opens connections that it may never use

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection and its timer."""
        self._end_of_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes that came from the client. Refuse the request with 431 if more than _HEAD bytes of its head
        have come and the head is not yet complete. The head is the first line and the headers.
        """
        self._last = len(data)
        self._bytes += self._last
        super().data_received(data)
        if self._timer and self._bytes > _HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"expected a head of {_HEAD} bytes at most")

    def on_message_begin(self) -> None:
        """Begin a request; if its head is not complete within `HEAD_SECONDS`, the request is refused."""
        super().on_message_begin()
        self._bytes = self._last
        self._await_head(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """End the wait for the head of a request, its first line and headers, as all of it has come. Raises ValueError,
        which uvicorn answers with 400, if the address and the headers have more than _HEAD bytes.
        """
        self._end_of_head()
        between = len(": \r\n")  # of each header as it is sent
        if len(self.url) + sum(len(name) + len(value) + between for name, value in self.headers) > _HEAD:
            raise ValueError
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand a request for a WebSocket over to the library of WebSockets. If the head has more or longer lines than
        that library takes, refuse the request with 414.
        """
        longest = max(len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if longest <= _LINE and len(self.headers) <= _LINES:
            return super().handle_websocket_upgrade()
        self._refuse(
            HTTPStatus.REQUEST_URI_TOO_LONG, f"expected at most {_LINES} lines of {_LINE} bytes for a WebSocket"
        )

    def _await_head(self, seconds: float) -> None:
        """Wait `seconds` for the end of a head, in place of any earlier wait. If it does not come, the request is
        refused with 408; if no byte has come, the connection is only closed.
        """
        self._end_of_head()
        why = f"expected a head within {HEAD_SECONDS} s"
        self._timer = self.loop.call_later(seconds, self._refuse, HTTPStatus.REQUEST_TIMEOUT, why)

    def _end_of_head(self) -> None:
        """Stop the timer that refuses a request whose head takes too long."""
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Close the connection. If bytes of a head had come, first log the reason, and send it with the status."""
        self._end_of_head()
        if self.transport.is_closing():
            return
        if self._bytes:
            _LOG.warning("%s: %s, got more", self.client and self.client[0], why)
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: {len(why)}\r\n\r\n"
            self.transport.write((head + why).encode())
        self.transport.close()
