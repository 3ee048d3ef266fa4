"""The first visit and the next: server start → chart, page open → chart, bytes and requests, memory per session."""

import asyncio
import time

from benchmarks.browser import PAGE, browser
from benchmarks.servers import Server, serve
from benchmarks.table import judged, quantile, record, show
from benchmarks.visitors import Visitor, token_of

CHART = ".panel.gdpo .bar .value"
REPEATS = 5
QUIET = 2.0  # seconds without a request, after which a visit has loaded all it will


def run(repeats: int = REPEATS) -> None:
    """Measure and print."""
    first, following = [], []
    with browser() as running:
        for _ in range(repeats):
            with serve("this page") as server:
                first.append(open_until_chart(running, server) - server.started)
                following += [_timed(running, server) for _ in range(2)]
        with serve("this page") as server:
            wire = visit(running, server)
    with serve("this page") as server:
        one, eleven = asyncio.run(_memory(server))
    each = None if one is None else (eleven - one) / 10
    start, opening = quantile(first, 0.5), quantile(following, 0.5)
    show(
        f"the page; medians of {repeats} server starts, browser and disk cache warm, new context per visit",
        ("", "measured", "target", ""),
        [
            ("server start → first chart", *judged(start, 3.5, "s")),
            ("page open → chart, the next visitor", *judged(opening, 1.5, "s")),
            ("over the wire on a first visit", *judged(wire["mb"], 2.5, "MB")),
            ("of it the websocket", f"{wire['websocket_mb']:.2f} MB", "", ""),
            ("requests", str(wire["requests"]), "", ""),
            ("memory with one session", *judged(one, 351, "MB")),
            ("memory for each further one", *judged(each, 1, "MB")),
        ],
    )
    show(
        "the largest responses of a first visit",
        ("", "kB"),
        [(name, f"{size / 1000:.0f}") for name, size in wire.pop("largest")],
    )
    record("page", start_s=start, open_s=opening, **wire, memory_mb=one, memory_a_session_mb=each)


def open_until_chart(running, server: Server) -> float:
    """Open the page with an empty cache; the time at which the board's bars are there."""
    context = running.new_context(**PAGE)
    page = context.new_page()
    page.goto(server.url, wait_until="commit")
    page.locator(CHART).nth(11).wait_for(state="visible")
    shown = time.perf_counter()
    page.wait_for_load_state("networkidle")
    context.close()
    return shown


def _timed(running, server: Server) -> float:
    opened = time.perf_counter()
    return open_until_chart(running, server) - opened


def visit(running, server: Server) -> dict:
    """What a first visit sends and fetches, until it is quiet."""
    context = running.new_context(**PAGE)
    page = context.new_page()
    protocol = context.new_cdp_session(page)
    sizes: dict[str, float] = {}
    names: dict[str, str] = {}
    frames: list[int] = []
    latest = [time.perf_counter()]

    def requested(event):
        if event["request"]["url"].startswith("http"):
            names[event["requestId"]] = event["request"]["url"].removeprefix(server.url)
            latest[0] = time.perf_counter()

    protocol.on("Network.requestWillBeSent", requested)
    protocol.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]}))
    protocol.on("Network.webSocketFrameReceived", lambda e: frames.append(len(e["response"]["payloadData"].encode())))
    protocol.send("Network.enable")
    page.goto(server.url)
    page.locator(CHART).nth(11).wait_for(state="visible")
    while time.perf_counter() < latest[0] + QUIET:
        page.wait_for_timeout(200)
    context.close()
    fetched = {names[request]: size for request, size in sizes.items() if request in names}
    largest = sorted(fetched.items(), key=lambda item: -item[1])[:8]
    return {
        "mb": (sum(fetched.values()) + sum(frames)) / 1e6,
        "websocket_mb": sum(frames) / 1e6,
        "requests": len(names),
        "largest": largest,
    }


async def _memory(server: Server) -> tuple[float | None, float | None]:
    visitors = [Visitor(server.port, token_of(server.port)) for _ in range(11)]
    await visitors[0].arrive()
    await asyncio.sleep(2)
    one = server.memory()
    for visitor in visitors[1:]:
        await visitor.arrive()
    await asyncio.sleep(2)
    eleven = server.memory()
    for visitor in visitors:
        await visitor.leave()
    return one, eleven


if __name__ == "__main__":
    run()
