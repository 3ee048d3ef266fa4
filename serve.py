"""The page for others: marimo's own ASGI app behind ordinary middleware. `python serve.py --host --port --base-url`."""

import contextlib
import os
import re
import shutil
import signal
from base64 import b64encode
from hashlib import sha256
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Annotated

import typer
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A worker's process imports this file too: what is large is imported where it is used.
from views import assets, sessions

BODY, SMALL = sessions.LARGEST * 4 // 3 + 65536, 2**20  # bytes: files travel as base64; taken where memory is scarce
INLINE = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)  # marimo's, which the policy names
POLICY = (
    "default-src 'self'; script-src 'self'{}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co https://*.hf.space"
)
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
Port = Annotated[int, typer.Option(min=1, max=65535)]


def dressed(path: str, start: Message, body: bytes) -> Message:
    """The start of an answer with its headers; the policy of the page names the scripts that marimo put into it."""
    headers = MutableHeaders(scope=start)
    headers.update(HEADERS)
    del headers["access-control-allow-origin"]  # the builder's, for every origin
    if assets.HASHED.fullmatch(path) and start["status"] == 200:
        headers["cache-control"] = "public, max-age=31536000, immutable"
    elif start["status"] != 304:  # whose page the browser has, with its policy
        scripts = INLINE.findall(body) if path.endswith("/") else ()
        hashes = "".join(f" 'sha256-{b64encode(sha256(one).digest()).decode()}'" for one in scripts)
        headers["content-security-policy"] = POLICY.format(hashes)
    return start


def guarded(app: ASGIApp) -> ASGIApp:
    """The app with the headers, and 413 for a body that is larger than a visitor's files may be."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        socket = scope["type"] == "websocket" and not scope["path"].endswith("/ws")  # two visitors could talk by it
        if socket or QueryParams(scope.get("query_string", b"")).get("file", "").startswith("__new__"):
            return await JSONResponse({"detail": "Not found"}, 404, HEADERS)(scope, receive, send)
        if scope["type"] != "http":
            return await app(scope, receive, send)
        most, length = SMALL if sessions.full(0.75) else BODY, Headers(scope=scope).get("content-length", "")
        size, start = int(length) if length.isdecimal() else 0, None

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += 0 if length else len(message.get("body", b""))
            return {"type": "http.disconnect"} if size > most else message

        async def headed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # waits for the body, whose scripts the policy names
            elif size <= most:
                if start:
                    await send(dressed(scope["path"], start, message.get("body", b"")))
                start = None
                await send(message)

        if size <= most:
            with contextlib.suppress(ClientDisconnect):
                await app(scope, counted, headed)
        if size > most:
            why = sessions.TOO_LARGE if most == BODY else sessions.NO_ROOM
            await JSONResponse({"detail": why}, 413, HEADERS)(scope, receive, send)

    return call


def main(host: str = "127.0.0.1", port: Port = 7860, base_url: str = "/") -> None:
    """Serve the page until the process is ended; base-url: the path under which a proxy shows it."""
    import marimo
    import uvicorn

    from gdpo_core import board  # noqa: F401 (torch is there before the port opens)
    from views import patches, worker

    patches.apply()
    worker.start_soon()
    path = f"/{base_url.strip('/')}".rstrip("/")
    builder = marimo.create_asgi_app(quiet=True, skew_protection=True)
    page = builder.with_app(path=path, root=str(Path(__file__).with_name("app.py"))).build()
    times = {"ws_ping_interval": 1, "ws_ping_timeout": 60, "timeout_keep_alive": 300, "timeout_graceful_shutdown": 1}
    app = assets.compressed(sessions.limited(guarded(page)))
    config = uvicorn.Config(app, host, port, log_level="warning", **times)
    socket = config.bind_socket()
    print(f"The page is on http://{host}:{port}{path}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([socket])
    shutil.rmtree(get_temp_dir(), ignore_errors=True)  # of the workers, which Python's own end would remove,
    os._exit(0)  # but that waits for the threads of all sessions


if __name__ == "__main__":
    typer.run(main)
