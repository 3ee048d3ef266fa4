"""A benchmark of the early board: how long after opening the page its first flip is drawn, and then its words, beside
the first text of an empty marimo app and the first charts of a Dash app. It is measured for the first visitor after a
start of the server, for later ones, and for a visitor with 400 kB per second and a delay of 100 ms.
"""

from benchmarks.browser import PAGE, STATED, browser
from benchmarks.page import EMPTY, OURS
from benchmarks.servers import Server, serve
from benchmarks.table import judge, quantile, record, show

DASH = "Dash"
REPEATS, LATER = 5, 2  # how often each server is started, and how many visits without delay follow the first one
SLOW = {"offline": False, "latency": 100, "downloadThroughput": 400_000, "uploadThroughput": 400_000}
TARGETS = {"the first visitor": 0.8, "the next visitor": 0.5, "400 kB/s, 100 ms": 0.18}
WORDS = "this page, until the words of that flip"
# What is waited for, as a function that gives the milliseconds since the navigation began: the frame after a mark of
# the board was flipped by a click as soon as it is there, and later the headline of that state with its address,
# the text of the empty app, and both charts of the Dash app.
DONE = {
    OURS: """() => new Promise((done) => {
      const look = () => {
        const board = document.querySelector(".board-root")?.shadowRoot;
        const mark = board?.querySelector("li.row input[type=checkbox]");
        if (!mark) return requestAnimationFrame(look);
        mark.click();
        requestAnimationFrame(() => requestAnimationFrame(() => words(performance.now())));
      };
      const words = (flipped) => {
        const title = document.querySelector("[data-cell-name=lab_claim] h1");
        const said = title?.style.visibility === "" && location.search.includes("lab-marks");
        if (said && !document.getElementById("early")) return done([flipped, performance.now()]);
        requestAnimationFrame(() => words(flipped));
      };
      look();
    })""",
    EMPTY: """() => new Promise((done) => {
      const look = () => (document.querySelector(".shown") ? done([performance.now()]) : requestAnimationFrame(look));
      look();
    })""",
    DASH: """() => new Promise((done) => {
      const look = () => {
        const drawn = document.querySelectorAll(".js-plotly-plot .barlayer .point path").length === 24;
        return drawn ? done([performance.now()]) : requestAnimationFrame(look);
      };
      look();
    })""",
}


def run(repeats: int = REPEATS) -> None:
    """Measure the page, an empty marimo app and a Dash app in turn, then print and record the results.

    repeats: how often each of the three servers is started.
    """
    times: dict[str, dict[str, list[float]]] = {when: {name: [] for name in (*DONE, WORDS)} for when in TARGETS}
    with browser() as running:
        for _ in range(repeats):
            for name in DONE:
                with serve(name) as server:
                    for when in ("the first visitor", *["the next visitor"] * LATER, "400 kB/s, 100 ms"):
                        first, *words = _visit(running, server, name, when == "400 kB/s, 100 ms")
                        times[when][name].append(first)
                        times[when][WORDS] += words
    middle = {when: {name: quantile(of[name], 0.5) for name in of} for when, of in times.items()}
    rows = []
    for when, target in TARGETS.items():
        rows += [(f"{name}, {when}", f"{milliseconds:.0f} ms", "", "") for name, milliseconds in middle[when].items()]
        rows.append(("flip beside the empty app", *judge(middle[when][OURS] / middle[when][EMPTY], target, "×")))
    head = "navigation → first flip drawn, beside an empty app's text and a Dash app's charts"
    show(f"{head}; medians of {repeats} server starts, {STATED}", ("", "measured", "target", ""), rows)
    record("flip", first_flip_ms=middle)


def _visit(running, server: Server, name: str, slow: bool) -> list[float]:
    """Return the milliseconds from the navigation until the page has done each thing that `DONE` waits for.

    running: a browser.
    server: the server of the page.
    name: a key of DONE.
    slow: whether the network is slow.
    """
    context = running.new_context(**PAGE)
    page = context.new_page()
    if slow:
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.emulateNetworkConditions", SLOW)
    page.goto(server.url, wait_until="commit", timeout=120_000)
    passed = page.evaluate(DONE[name])
    context.close()
    return passed


if __name__ == "__main__":
    run()
