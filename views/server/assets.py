"""Compression of what the server sends. The files of marimo's front end, 7.8 MB in 300 files, are compressed only once.
Their names hold a hash of their content, so that a file of one name never changes. In one of them a pause is left out.
"""

import re
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HASHED = re.compile(r".*/assets/[\w.-]+-[\w-]{8}\.\w+")
# Where React waits, in its minified file: if `(time of the last fallback)+300-(now)` is above 10 ms, it waits so long
# before it shows what came in place of that fallback. The first time is a name, the second a call.
REACT_PAUSE = re.compile(rb"\+300(?=-\w+\(\),10<)")


def shown_at_once(app: ASGIApp, folder: Path) -> ASGIApp:
    """Return the app without the pause of 300 ms that React makes before it shows what has been loaded.

    Every visit would wait for it: marimo's front end shows an empty page until its module of notebooks is there, after
    some 30 ms, and connects to the server only when React shows what that module draws. If not exactly one place of
    the front end's file makes this pause, the app is returned unchanged.

    folder: the folder of marimo's hashed files.
    """
    for file in folder.glob("cells-*.js"):
        content, times = REACT_PAUSE.subn(b"+0", file.read_bytes())
        if times == 1:
            return _with_file(app, file.name, content)
    return app


def _with_file(app: ASGIApp, name: str, content: bytes) -> ASGIApp:
    """Return the app with this content for the file of marimo's front end that has this name."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] == "GET" and scope["path"].endswith(f"/assets/{name}")
        await (Response(content, media_type="text/javascript") if asked else app)(scope, receive, send)

    return call


def compressed(app: ASGIApp) -> ASGIApp:
    """Return the app with its answers of 600 bytes or more compressed by gzip, for browsers that take gzip.

    A file with a hash in its name is compressed when it is asked for first. From then on it stays in memory in its
    compressed form, so that a new browser costs 190 ms of CPU time in place of 610. Only whole answers with status 200
    are kept: when a browser leaves while it loads a file, the rest of the answer never comes.
    """
    zipped, answers = GZipMiddleware(app, minimum_size=600, compresslevel=6), dict[str, list[Message]]()

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        wanted = scope["type"] == "http" and scope["method"] == "GET" and HASHED.fullmatch(scope["path"])
        if not wanted or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            return await zipped(scope, receive, send)
        if not (answer := answers.get(scope["path"], [])):

            async def keep(message: Message) -> None:
                answer.append(message)

            await zipped({**scope, "headers": [(b"accept-encoding", b"gzip")]}, receive, keep)
            start, *messages = answer
            body = b"".join(message.get("body", b"") for message in messages)
            MutableHeaders(scope=start)["content-length"] = str(len(body))
            answer = [start, {"type": "http.response.body", "body": body}]
            if start["status"] == 200 and not messages[-1].get("more_body"):
                answers[scope["path"]] = answer
        for message in answer:
            await send(message)

    return call
