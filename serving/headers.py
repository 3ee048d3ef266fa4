"""What browsers are told about every answer: where its parts may come from, who may frame it, what it may ask for.

The page runs no script but marimo's files and those that stand in its own HTML, which the policy names by their hashes.
In `marimo edit` none of this applies: its editor compiles code, and whoever has it may run anything anyway. Nor does it
to another notebook that is run in this environment.
"""

import base64
import hashlib
import re
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marimo_private import FILENAME, shows_page
from serving.first import with_first_drawing

# A Space stands in a frame of the Hub. Who shows `?embed=lab` on a page of their own runs the server themselves, and
# adds the address of that page here.
FRAMED_BY = ("'self'", "https://huggingface.co", "https://*.huggingface.co", "https://*.hf.space")
SOURCES = {
    "default-src": ("'none'",),
    "script-src": ("'self'",),  # and the hashes; Vega's expressions are interpreted (views/charts.py), not compiled
    "style-src": ("'self'", "'unsafe-inline'"),  # marimo and Vega set styles in attributes
    "img-src": ("'self'", "data:", "blob:"),  # a chart on its way to a PNG is a data: address
    "font-src": ("'self'", "data:"),  # those of marimo's formulas
    "connect-src": ("'self'",),  # the websocket too
    "worker-src": ("'self'",),
    "manifest-src": ("'self'",),
    "base-uri": ("'self'",),  # marimo's front end names the page's own address
    "form-action": ("'none'",),
    "frame-ancestors": FRAMED_BY,
}
UNUSED = ("camera", "display-capture", "geolocation", "microphone", "midi", "payment", "usb")
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": ", ".join(f"{feature}=()" for feature in UNUSED),
    "cross-origin-opener-policy": "same-origin",  # says nothing to a page in a frame
}
NOTEBOOK = re.compile(rb"<%b[^>]*>(.+)[/\\][^/\\]+</%b>" % (FILENAME.encode(), FILENAME.encode()))
INLINE = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)


def policy(html: bytes = b"") -> str:
    """The content-security policy of an answer, with the hashes of the scripts in its HTML.

    >>> policy(b"<script>1</script>").split("; ")[1]
    "script-src 'self' 'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"
    """
    hashes = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in INLINE.findall(html))
    sources = SOURCES | {"script-src": (*SOURCES["script-src"], *(f"'sha256-{hash}'" for hash in hashes))}
    return "; ".join(f"{directive} {' '.join(allowed)}" for directive, allowed in sources.items())


def placeless(html: bytes) -> bytes:
    """The page without the directory on the server in which its notebook lies.

    >>> placeless(b'<marimo-filename hidden>/a/b/app.py</marimo-filename>{"cwd": "/a/b"}"%2Fa%2Fb%2Fapp.py"./a/bc')
    b'<marimo-filename hidden>app.py</marimo-filename>{"cwd": ""}"app.py"./a/bc'
    """
    found = NOTEBOOK.search(html)
    if not found:
        return html
    place = found[1]
    places = b"|".join(re.escape(spelled) for spelled in (place, quote(place, safe="").encode()))
    return re.sub(rb"(?<![\w.])(?:%b)(?:/|%%2F|(?![\w.-]))" % places, b"", html)


class Headed:
    """Adds the headers to every answer; the page waits until it is whole, names no directory, is drawn and hashed."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not shows_page(scope):
            return await self.app(scope, receive, send)
        page: Message = {}  # its start, until the rest is there
        parts: list[bytes] = []

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if scope["path"].endswith("/") and message["status"] == 200:
                    return page.update(message)
                if message["status"] != 304:  # whose page the browser has, under that page's policy
                    headers["content-security-policy"] = policy()
            elif page:
                parts.append(message.get("body", b""))
                if message.get("more_body", False):
                    return
                html = await with_first_drawing(placeless(b"".join(parts)), scope)
                own = {"content-security-policy": policy(html), "content-length": str(len(html))}
                MutableHeaders(scope=page).update(own)
                await send(page)
                message = {"type": "http.response.body", "body": html}
            await send(message)

        await self.app(scope, receive, headed)
