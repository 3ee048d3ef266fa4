"""A benchmark of how fast the page opens, beside an empty marimo app: for the first visitor after a start of the
server, and for later ones. It also measures how much a first visit to the page loads, and how much memory the page's
server takes.
"""

import asyncio
import time
import zlib

from benchmarks.browser import PAGE, STATED, browser
from benchmarks.servers import Server, serve
from benchmarks.table import judge, quantile, record, show
from benchmarks.visitors import Visitor

OURS, EMPTY = "this page", "empty marimo app"
# A selector and the number of elements that are there once a page shows what it has to: its bars, or one sentence.
SHOWN = {OURS: (".board .row .bar.other .value", 12), EMPTY: (".shown", 1)}
REPEATS = 5
SETTLED = 12.0  # seconds between two looks at the memory, which has to stop growing; some workers start after 10 s
QUIET = 2.0  # seconds without a request, after which a visit has loaded everything


def run(repeats: int = REPEATS) -> None:
    """Measure the page and an empty marimo app in turn, then print and record the results.

    repeats: how often each of the two servers is started and timed; the medians of these times are reported.
    """
    first: dict[str, list[float]] = {name: [] for name in SHOWN}
    following: dict[str, list[float]] = {name: [] for name in SHOWN}
    with browser() as running:
        for _ in range(repeats):
            for name in SHOWN:
                with serve(name) as server:
                    first[name].append(open_until_shown(running, server, name) - server.started)
                    following[name] += [_time(running, server, name) for _ in range(2)]
        with serve(OURS) as server:
            wire = visit(running, server)
    with serve(OURS) as server:
        one, eleven = asyncio.run(_memory(server))
    each = None if one is None else (eleven - one) / 10
    start, opening = ({name: quantile(of[name], 0.5) for name in SHOWN} for of in (first, following))
    show(
        f"the page; medians of {repeats} server starts, interleaved, disk cache warm, new context per visit, {STATED}",
        ("", "measured", "target", ""),
        [
            ("server start → first chart", f"{start[OURS]:.2f} s", "", ""),
            ("an empty marimo app", f"{start[EMPTY]:.2f} s", "", ""),
            ("ratio", *judge(start[OURS] / start[EMPTY], 1.7, "×")),
            ("page open → chart, the next visitor", f"{opening[OURS]:.2f} s", "", ""),
            ("an empty marimo app", f"{opening[EMPTY]:.2f} s", "", ""),
            ("ratio", *judge(opening[OURS] / opening[EMPTY], 1.2, "×")),
            ("over the wire on a first visit", *judge(wire["mb"], 2.0, "MB")),
            ("of it the websocket", f"{wire['websocket_mb']:.2f} MB", "", ""),
            ("requests", str(wire["requests"]), "", ""),
            ("memory with one session", *judge(one, 340, "MB")),
            ("memory for each further one", *judge(each, 1, "MB")),
        ],
    )
    record("page", start_s=start, open_s=opening, **wire, memory_mb=one, memory_a_session_mb=each)


def open_until_shown(running, server: Server, name: str) -> float:
    """Open a page with an empty cache, and wait until it shows what it has to show. Return the time at which it did, as
    time.perf_counter() tells it.

    The page has to show the bars of the Lab, and the empty app its sentence.

    running: a browser.
    server: the server of the page.
    name: a key of SHOWN.
    """
    context = running.new_context(**PAGE)
    page = context.new_page()
    page.goto(server.url, wait_until="commit")
    _until_shown(page, name)
    shown = time.perf_counter()
    page.wait_for_load_state("networkidle")
    context.close()
    return shown


def _until_shown(page, name: str) -> None:
    """Wait until a page shows what it has to show.

    name: a key of SHOWN.
    """
    # Playwright's own wait would soon look only twice a second.
    page.wait_for_function(
        """([selector, count]) => {
          const widgets = [...document.querySelectorAll("marimo-anywidget")].map((e) => e.shadowRoot);
          const boards = widgets.map((root) => root?.querySelector(".board-root")?.shadowRoot);
          const roots = [document, ...widgets, ...boards];
          const shown = (root) => [...(root?.querySelectorAll(selector) ?? [])].filter((e) => e.checkVisibility());
          return roots.some((root) => shown(root).length >= count);
        }""",
        arg=SHOWN[name],
        polling=10,
    )


def _time(running, server: Server, name: str) -> float:
    """Return the seconds from opening a page until it shows the elements of SHOWN[name].

    running: a browser.
    server: the server of the page.
    name: a key of SHOWN.
    """
    opened = time.perf_counter()
    return open_until_shown(running, server, name) - opened


def _expect_deflated(event: dict) -> None:
    """Raise AssertionError if the server did not agree to compress what it sends over the websocket, with a window of
    2^12 bytes.

    event: the browser's notice of the handshake.
    """
    headers = {name.lower(): value for name, value in event["response"]["headers"].items()}
    deflated = "permessage-deflate; server_max_window_bits=12" in headers.get("sec-websocket-extensions", "")
    assert deflated, f"expected a deflated websocket, got {headers}"


def visit(running, server: Server) -> dict:
    """Open the page in a browser with an empty cache, and return what it receives until no more is requested.

    "mb" is the MB in all, and "websocket_mb" the part of them that comes over the websocket, compressed. "requests" is
    the number of requests over HTTP.

    running: a browser.
    server: the server of the page.
    """
    context = running.new_context(**PAGE)
    page = context.new_page()
    protocol = context.new_cdp_session(page)
    sizes: dict[str, float] = {}
    asked: set[str] = set()
    frames: list[int] = []
    latest = [time.perf_counter()]

    def requested(event):
        """Note in `asked` and `latest` of the outer function that a request was sent over HTTP, and when. Ignore a
        request of any other kind.
        """
        if event["request"]["url"].startswith("http"):
            asked.add(event["requestId"])
            latest[0] = time.perf_counter()

    protocol.on("Network.requestWillBeSent", requested)
    protocol.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]}))
    # The protocol shows the messages as they are after the socket. On the way they are compressed, all in one stream,
    # so the same is done here to count the bytes.
    stream = zlib.compressobj(wbits=-12)

    def framed(event):
        """Note in `frames` of the outer function how many bytes a message from the server takes on the websocket, where
        it is compressed.
        """
        sent = stream.compress(event["response"]["payloadData"].encode()) + stream.flush(zlib.Z_SYNC_FLUSH)
        frames.append(len(sent))

    protocol.on("Network.webSocketHandshakeResponseReceived", _expect_deflated)
    protocol.on("Network.webSocketFrameReceived", framed)
    protocol.send("Network.enable")
    page.goto(server.url)
    _until_shown(page, OURS)
    while time.perf_counter() < latest[0] + QUIET:
        page.wait_for_timeout(200)
    context.close()
    fetched = [size for request, size in sizes.items() if request in asked]
    return {
        "mb": (sum(fetched) + sum(frames)) / 1e6,
        "websocket_mb": sum(frames) / 1e6,
        "requests": len(asked),
    }


async def _memory(server: Server) -> tuple[float | None, float | None]:
    """Return the server's memory in MB with one session and with eleven; None for both where there is no /proc.

    The number with one session is taken once two looks that are `SETTLED` seconds apart agree, as the server starts
    more processes after the first page.
    """
    visitors = [Visitor(server.port) for _ in range(11)]
    await visitors[0].arrive()
    one, before = server.memory(), None
    while one != before:
        await asyncio.sleep(SETTLED)
        one, before = server.memory(), one
    for visitor in visitors[1:]:
        await visitor.arrive()
    await asyncio.sleep(2)
    eleven = server.memory()
    for visitor in visitors:
        await visitor.leave()
    return one, eleven


if __name__ == "__main__":
    run()
