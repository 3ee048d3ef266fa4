"""Toggle → repaint: the whole page beside the same toy in idiomatic marimo and in Dash, interleaved in one run."""

import random
import time
from contextlib import ExitStack
from pathlib import Path

import gdpo_core as gc
from benchmarks.browser import PAGE, STATED, browser
from benchmarks.servers import ROOT, serve
from benchmarks.table import judge, quantile, record, show
from gdpo_core import bfcl
from views.lab.answers import grade_answers as sheet_of

READERS = {"this page": "lab", "idiomatic marimo": "vega", "Dash": "plotly"}
RATIOS = {"idiomatic marimo": 2.5, "Dash": 1.8}
LARGEST = gc.grpo([[1]] + [[0]] * 11).max().item()  # where the toys' axes end: one answer passes and all others fail
WARM_UP = 8
PAUSE = 0.15  # seconds, in which all work of the toggle before has ended
SETTLED = 3.0  # seconds without a look after the charts are there: fonts, lazy chunks, the garbage of the start


def run(rounds: int = 60, seed: int = 0) -> None:
    """Measure, check that the bars are gc's advantages after every toggle, print."""
    task = bfcl.load_tasks(ROOT / "data" / "tasks")[0]
    graded = tuple(g.vector for g in bfcl.grade_all(task))
    orders = {name: list(range(len(graded))) for name in READERS} | {"this page": listed_order(task, graded)}
    flips, states = walk(graded, WARM_UP + rounds, seed)
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serve(name)) for name in READERS}
        running = stack.enter_context(browser())
        pages = {name: open_page(running, servers[name].url, READERS[name]) for name in READERS}
        for name, page in pages.items():
            wait_until_shown(page, expected(graded, orders[name]), name)
        off = pages["this page"].evaluate("watch.off()")
        if off > 2:
            raise RuntimeError(f"this page: a bar is {off:.0f} px longer or shorter than its number says")
        time.sleep(SETTLED)
        times = {name: [] for name in pages}
        for n, ((answer, reward), passed) in enumerate(zip(flips, states, strict=True)):
            if n == WARM_UP:
                cpu = {name: server.cpu() for name, server in servers.items()}
            for name, page in pages.items():
                toggle = 3 * orders[name].index(answer) + reward
                times[name].append(flip(page, toggle, expected(passed, orders[name]), name))
                time.sleep(PAUSE)
        for name, page in pages.items():
            wait_until_shown(page, expected(states[-1], orders[name]), name)
        used = {name: _difference(server.cpu(), cpu[name]) for name, server in servers.items()}
    _print({name: t[WARM_UP:] for name, t in times.items()}, used, rounds, seed)


def listed_order(task: bfcl.Task, graded: tuple) -> list[int]:
    """The task's answers in the order in which the Lab numbers them."""
    return [task.answers.index(answer) for answer in sheet_of(task).answers]


def walk(graded, length: int, seed: int) -> tuple[list[tuple[int, int]], list[tuple]]:
    """Flips, one after the other, each of which clearly changes both charts, and the rewards after each."""
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
    """GRPO's and GDPO's advantages, in the order in which a page lists its answers."""
    return [[f(passed)[i].item() for i in order] for f in (gc.grpo, gc.gdpo)]


def open_page(running, url: str, reader: str):
    """A page of its own context, watched from its first line of script on."""
    page = running.new_context(**PAGE).new_page()
    page.add_init_script(path=Path(__file__).parent / "watch.js")
    page.goto(url)
    page.evaluate("([r, l]) => { watch.reader = r; watch.limit = l }", [reader, LARGEST])
    return page


def wait_until_shown(page, advantages, name: str, patience: float = 30) -> None:
    """Until both charts show these advantages; an error if they never do."""
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
    """Click one toggle; milliseconds until both charts have changed and until they are painted."""
    page.evaluate("expected => watch.arm(expected)", advantages)
    x, y = page.evaluate("watch.toggles()")[toggle]
    page.mouse.click(x, y)
    got = page.evaluate("Promise.race([watch.result, new Promise(r => setTimeout(r, 10000, null))])")
    if got is None:
        raise RuntimeError(f"{name}: no repaint within 10 s of a toggle; it shows {page.evaluate('watch.shown()')}")
    return got


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None else after - before


def _print(times, used, rounds: int, seed: int) -> None:
    results = {}
    for name, measured in times.items():
        painted = [t["painted"] for t in measured]
        results[name] = {
            "median": quantile(painted, 0.5),
            "p95": quantile(painted, 0.95),
            "changed": quantile([t["changed"] for t in measured], 0.5),
            "cpu": None if used[name] is None else 1000 * used[name] / rounds,
        }
    show(
        f"toggle → bars repainted, ms; {rounds} toggles each, interleaved; seed {seed}; reduced motion, {STATED}",
        ("", "median", "p95", "both charts changed", "server CPU per toggle"),
        [
            (name, f"{r['median']:.1f}", f"{r['p95']:.1f}", f"{r['changed']:.1f}", _ms(r["cpu"]))
            for name, r in results.items()
        ],
    )
    ours = results["this page"]
    ratios = {name: results[name]["median"] / ours["median"] for name in RATIOS}
    show(
        "against the targets",
        ("", "measured", "target", ""),
        [
            ("median", *judge(ours["median"], 45, "ms")),
            ("p95", *judge(ours["p95"], 70, "ms")),
            ("server CPU per toggle", *judge(ours["cpu"], 12, "ms")),
            *(
                (f"faster than {name}", *judge(ratios[name], target, "×", at_least=True))
                for name, target in RATIOS.items()
            ),
        ],
    )
    record("toggle", rounds=rounds, seed=seed, ms=results, times_faster=ratios)


def _ms(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1f}"


if __name__ == "__main__":
    run()
