"""A benchmark of the time from a click that flips a mark to the redrawn bars. It is measured on the whole page and on
two toys with the same bars, one in idiomatic marimo and one in Dash. The three take turns, first on the machine of the
servers, and then through a slow network.
"""

import random
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser

import gdpo_core as gc
from benchmarks.browser import PAGE, STATED, browser
from benchmarks.delay import delayed
from benchmarks.servers import ROOT, serve
from benchmarks.table import judge, quantile, record, show
from views import bfcl
from views.chapters.lab.answers import grade_answers as sheet_of

READERS = {"this page": "lab", "idiomatic marimo": "vega", "Dash": "plotly"}
RATIOS = {"idiomatic marimo": 5, "Dash": 3.5}
FAR = 0.15  # seconds that the network of the second pass takes, each way
# Where the toys' axes end: the advantage of an answer that passes while all others fail.
LARGEST = gc.grpo([[1]] + [[0]] * 11).max().item()
WARM_UP = 8
PAUSE = 0.15  # seconds between two toggles, after which all work of the first has ended
SETTLED = 3.0  # seconds to wait once the charts are there, until fonts, late scripts and garbage collection are done


def run(rounds: int = 60, far_rounds: int = 20, seed: int = 0) -> None:
    """Measure on each page of READERS the times from a click to the new bars, and print them: first the times on this
    machine, then those over a slow network.

    rounds: how many toggles of each page are timed on this machine, after WARM_UP toggles that are not counted.
    far_rounds: how many toggles of each page are timed over the slow network, after WARM_UP more that are not counted.
    seed: the seed of the random choice of the marks to flip.

    Raises RuntimeError if the bars of a page are not the library's advantages, before the first toggle or after any.
    """
    task = bfcl.load_tasks(ROOT / "data" / "tasks")[0]
    graded = tuple(g.vector for g in bfcl.grade_all(task))
    orders = {name: list(range(len(graded))) for name in READERS} | {"this page": listed_order(task)}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serve(name)) for name in READERS}
        running = stack.enter_context(browser())
        ports = {name: server.port for name, server in servers.items()}
        cpu = {name: server.cpu for name, server in servers.items()}
        here, used = _measure(running, ports, cpu, graded, orders, rounds, seed)
        ports = {name: stack.enter_context(delayed(port, FAR)) for name, port in ports.items()}
        far, _ = _measure(running, ports, cpu, graded, orders, far_rounds, seed + 1)
    _print(here, far, used, seed)


def _measure(
    running: Browser, ports: dict[str, int], cpu: dict, graded: tuple, orders: dict, rounds: int, seed: int
) -> tuple[dict[str, list[dict[str, float]]], dict[str, float | None]]:
    """Flip the same marks on all pages in turn, and return two dicts by the name of the page.

    The first dict has the times of each toggle, as `flip` returns them. The second has the milliseconds of CPU that the
    page's server took per toggle, None where they are not known. The first WARM_UP toggles are not counted.

    running: a browser.
    ports: by page, the port of its server.
    cpu: by page, a function that returns the seconds of CPU of its server.
    graded: the marks at the beginning.
    orders: by page, the order in which it lists the answers.
    rounds: how many toggles of each page are counted.
    seed: the seed of the random choice of the marks.

    Raises RuntimeError if a page does not show the library's advantages, or if a bar of this page is more than 2 px
    longer or shorter than its number says.
    """
    flips, states = walk(graded, WARM_UP + rounds, seed)
    pages = {name: open_page(running, f"http://127.0.0.1:{port}/", READERS[name]) for name, port in ports.items()}
    for name, page in pages.items():
        wait_until_shown(page, expected(graded, orders[name]), name)
    off = pages["this page"].evaluate("watch.off()")
    if off > 2:
        raise RuntimeError(f"this page: a bar is {off:.0f} px longer or shorter than its number says")
    time.sleep(SETTLED)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in pages}
    before: dict[str, float | None] = {}
    for n, ((answer, reward), passed) in enumerate(zip(flips, states, strict=True)):
        if n == WARM_UP:
            before = {name: read() for name, read in cpu.items()}
        for name, page in pages.items():
            toggle = 3 * orders[name].index(answer) + reward
            times[name].append(flip(page, toggle, expected(passed, orders[name]), name))
            time.sleep(PAUSE)
    for name, page in pages.items():
        wait_until_shown(page, expected(states[-1], orders[name]), name)
    used = {name: _per_toggle(read(), before[name], rounds) for name, read in cpu.items()}
    for page in pages.values():
        page.context.close()
    return {name: measured[WARM_UP:] for name, measured in times.items()}, used


def listed_order(task: bfcl.Task) -> list[int]:
    """Return the indices of the task's answers in the order in which the Lab lists them."""
    return [task.answers.index(answer) for answer in sheet_of(task).answers]


def walk(graded, length: int, seed: int) -> tuple[list[tuple[int, int]], list[tuple]]:
    """Return a random walk of `length` flips as two lists: the mark that each flip turns, as (answer, reward), and the
    marks of all answers after that flip.

    Only flips are taken that move some advantage by more than 0.1 under GRPO and under GDPO.

    graded: the marks before the first flip.
    seed: the seed of the random choice.
    """
    rng = random.Random(seed)
    passed, flips, states = graded, [], []
    while len(flips) < length:
        answer, reward = rng.randrange(len(graded)), rng.randrange(3)
        flipped = [list(row) for row in passed]
        flipped[answer][reward] ^= 1
        changes = [(f(flipped) - f(passed)).abs().max().item() for f in (gc.grpo, gc.gdpo)]
        if min(changes) > 0.1:
            passed = tuple(map(tuple, flipped))
            flips.append((answer, reward))
            states.append(passed)
    return flips, states


def expected(passed, order: list[int]) -> list[list[float]]:
    """Return two lists: the advantages of GRPO, and the advantages of GDPO.

    passed: the marks of all answers.
    order: the indices of the answers in the order in which a page lists them.
    """
    return [[f(passed)[i].item() for i in order] for f in (gc.grpo, gc.gdpo)]


def open_page(running, url: str, reader: str):
    """Return a new page with its own cache, in which the script watch.js watches the charts from the start.

    reader: how this script reads the charts, one of the values of READERS.
    """
    page = running.new_context(**PAGE).new_page()
    page.add_init_script(path=Path(__file__).parent / "watch.js")
    page.goto(url)
    page.evaluate("([r, l]) => { watch.reader = r; watch.limit = l }", [reader, LARGEST])
    return page


def wait_until_shown(page, advantages, name: str, patience: float = 30) -> None:
    """Wait until the two charts of a page show these advantages, to within 0.02.

    advantages: two lists, one for GRPO and one for GDPO.
    name: the name of the page, for the error.
    patience: how many seconds to wait at most.

    Raises RuntimeError if the charts do not show them within `patience` seconds.
    """
    deadline = time.perf_counter() + patience
    while time.perf_counter() < deadline:
        charts = page.evaluate("watch.shown()")
        if [len(chart) for chart in charts] == [12, 12] and all(
            abs(a - b) < 0.02
            for one, two in zip(charts, advantages, strict=True)
            for a, b in zip(one, two, strict=True)
        ):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{name}: the bars are not gc's advantages but {charts}")


def flip(page, toggle: int, advantages, name: str) -> dict[str, float]:
    """Click the mark of index `toggle` on a page, and return three times, in milliseconds from the click.

    "changed" is when both charts show the new advantages, "painted" when the browser has painted them, and "words" when
    the words below them are there.

    advantages: the advantages that the charts have to show after the click.
    name: the name of the page, for errors.

    Raises RuntimeError if the charts, or the words after them, take more than ten seconds.
    """
    page.evaluate("expected => watch.arm(expected)", advantages)
    x, y = page.evaluate("watch.toggles()")[toggle]
    page.mouse.click(x, y)
    soon = "Promise.race([watch.{}, new Promise(r => setTimeout(r, 10000, null))])"
    times = page.evaluate(soon.format("result"))
    words = page.evaluate(soon.format("words"))
    if times is None or words is None:
        raise RuntimeError(f"{name}: no repaint within 10 s of a toggle; it shows {page.evaluate('watch.shown()')}")
    return times | {"words": words}


def _per_toggle(after: float | None, before: float | None, rounds: int) -> float | None:
    """Return the milliseconds of CPU per toggle; None if one of the two readings is None.

    after, before: the seconds of CPU used after and before the toggles.
    rounds: how many toggles there were.
    """
    return None if after is None or before is None else 1000 * (after - before) / rounds


def _summary(measured: list[dict[str, float]]) -> dict[str, float]:
    """Return a dict of four times in milliseconds, each counted from the click that flips a mark.

    "median" and "p95", the 95th percentile, are of the times until the bars are painted. "changed" is the median time
    until the charts have changed. "words" is the median time until the words below the charts are there.

    measured: for each flip, its times under "painted", "changed" and "words", as `flip` returns them.
    """
    painted = [t["painted"] for t in measured]
    medians = {key: quantile([t[key] for t in measured], 0.5) for key in ("changed", "words")}
    return {"median": quantile(painted, 0.5), "p95": quantile(painted, 0.95), **medians}


def _print(here: dict, far: dict, used: dict[str, float | None], seed: int) -> None:
    """Print the times, how they stand beside the targets, and a line of JSON.

    here: by page, what `flip` returned for each toggle on this machine.
    far: by page, what `flip` returned for each toggle over the slow network.
    used: by page, the milliseconds of CPU per toggle on this machine.
    seed: the seed of the marks, for the title and the JSON.
    """
    tables = {}
    for where, times in (("here", here), (f"{1000 * FAR:.0f} ms away, each way", far)):
        rounds = len(times["this page"])
        results = tables[where] = {name: _summary(measured) for name, measured in times.items()}
        show(
            f"toggle → bars repainted, ms; {where}; {rounds} toggles each, interleaved; seed {seed}; "
            f"reduced motion, {STATED}",
            ("", "median", "p95", "both charts changed", "words"),
            [
                (name, *(f"{r[key]:.1f}" for key in ("median", "p95", "changed", "words")))
                for name, r in results.items()
            ],
        )
    near, away = tables.values()
    ours = near["this page"]
    ratios = {name: near[name]["median"] / ours["median"] for name in RATIOS}
    show(
        "against the targets",
        ("", "measured", "target", ""),
        [
            ("median", *judge(ours["median"], 10, "ms")),
            ("p95", *judge(ours["p95"], 25, "ms")),
            ("the same far away: median", *judge(away["this page"]["median"], 10, "ms")),
            ("the same far away: p95", *judge(away["this page"]["p95"], 25, "ms")),
            ("words after the bars, median", *judge(ours["words"] - ours["changed"], 50, "ms")),
            ("server CPU per toggle", *judge(used["this page"], 12, "ms")),
            *(
                (f"faster than {name}", *judge(ratios[name], least, "×", at_least=True))
                for name, least in RATIOS.items()
            ),
        ],
    )
    record("toggle", seed=seed, ms=near, ms_far=away, cpu_ms=used, times_faster=ratios)


if __name__ == "__main__":
    run()
