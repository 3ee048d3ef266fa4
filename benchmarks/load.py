"""A class on one server: visitors who flip marks, one of them in a browser, and beside others who train and upload."""

import asyncio
import base64
import itertools
import random
import tempfile
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import toggle
from benchmarks.audit import write_log
from benchmarks.browser import STATED, browser
from benchmarks.servers import ROOT, Server, serve
from benchmarks.table import judge, quantile, record, show
from benchmarks.visitors import Visitor
from gdpo_core import bfcl

SESSIONS = (10, 25, 50)  # each flips a mark a second
PAINTED = 30  # ms, within which 95 of 100 flips are drawn in a browser
PATIENCE = 150  # ms, within which their words come, of 95 of 100
CHAPTERS = ("lab", "train", "evidence", "run", "use")  # which visitors open in turn before they flip
LARGEST = 500  # ms, the longest that anybody waits
TRAINERS, UPLOADERS, STEPS = 4, 2, 70  # the others; 70 steps of a log are 20 MB
READY = 60  # seconds, within which a browser shows the board
BETWEEN = 4  # seconds between two uploads of one visitor


@dataclass(frozen=True)
class Load:
    """Delays that some visitors saw while they flipped marks, and what the flips cost the server."""

    ms: list[float]  # of every flip
    errors: int
    cpu: float | None  # seconds of the server's CPU

    @property
    def p95(self) -> float:
        return quantile(self.ms, 0.95) if self.ms else float("inf")

    def cells(self) -> list[str]:
        """Return the flips, median, p95, largest, errors and CPU per flip."""
        times = [quantile(self.ms, 0.5), self.p95, max(self.ms)] if self.ms else []
        cpu = "n/a" if self.cpu is None or not self.ms else f"{1000 * self.cpu / len(self.ms):.1f}"
        return [str(len(self.ms)), *(f"{ms:.1f}" for ms in times or [float("nan")] * 3), str(self.errors), cpu]


def run(seconds: int = 20, seed: int = 0) -> None:
    """Measure and print, in some four minutes."""
    with serve("this page") as server:
        loads, painted, memory, arrival, done = asyncio.run(_loads(server, seconds, seed))
    most = loads[f"{SESSIONS[-1]} visitors"]
    show(
        f"visitors who came from all chapters, {seconds} s each, one flip a second; ms from a flip to its words; "
        f"seed {seed}; the others finished {done}",
        ("", "flips", "p50", "p95", "largest", "errors", "CPU per flip"),
        [(name, *load.cells()) for name, load in loads.items()],
    )
    per_flip = None if most.cpu is None else 1000 * most.cpu / max(1, len(most.ms))
    show(
        "against the targets",
        ("", "measured", "target", ""),
        [
            *((f"p95 of {name}", *judge(load.p95, PATIENCE, "ms")) for name, load in loads.items()),
            (f"p95 of a flip drawn beside {SESSIONS[-1]}, {STATED}", *judge(quantile(painted, 0.95), PAINTED, "ms")),
            ("median of it", f"{quantile(painted, 0.5):.1f} ms", "", ""),
            (f"largest of {SESSIONS[-1]} visitors", *judge(max(most.ms, default=float("inf")), LARGEST, "ms")),
            ("visitors with an error", *judge(float(sum(load.errors for load in loads.values())), 0, "")),
            ("server CPU per flip", *judge(per_flip, 12, "ms")),
            ("server CPU per visitor who arrives", *judge(arrival, 110, "ms")),
            (f"memory with {SESSIONS[-1]} visitors", "n/a" if memory is None else f"{memory:.0f} MB", "", ""),
        ],
    )
    p95 = {name: load.p95 for name, load in loads.items()}
    record("load", seed=seed, p95_ms=p95, painted_ms=painted, cpu_ms_a_toggle=per_flip, cpu_ms_an_arrival=arrival)


async def _loads(
    server: Server, seconds: float, seed: int
) -> tuple[dict[str, Load], list[float], float | None, float | None, int]:
    """Put all loads on the server, one after the other; return them by name, and what was measured beside them.

    Those are ms until each flip in the browser was drawn, MB with all visitors, ms of CPU per arrival, and how often
    the others were answered.
    """
    rng = random.Random(seed)
    await _first_visit(server)
    loads: dict[str, Load] = {}
    async with AsyncExitStack() as inside:
        visitors: list[Visitor] = []
        before = server.cpu()
        for count in SESSIONS:
            visitors += [await inside.enter_async_context(_arrived(server)) for _ in range(count - len(visitors))]
            after = server.cpu()
            await asyncio.sleep(1)
            loads[f"{count} visitors"] = await flip_marks(server, visitors, seconds, rng)
            if count == SESSIONS[0]:
                arrival = None if before is None or after is None else 1000 * (after - before) / count
        memory = server.memory()
        for chapter, visitor in zip(itertools.cycle(CHAPTERS), visitors, strict=False):
            board = visitor.model_id  # Evidence has another one
            if chapter != "lab":
                await visitor.open(chapter)
                await visitor.open("lab")
            visitor.models["board"] = board
        beside = threading.Event()
        drawing = asyncio.create_task(asyncio.to_thread(_flip_in_a_browser, server, seconds, seed, beside))
        await asyncio.to_thread(beside.wait, READY)
        loads[f"{count} visitors from all chapters, and a browser"] = await flip_marks(server, visitors, seconds, rng)
        painted = await drawing
        until = time.monotonic() + seconds
        others = [_trains(server, until, rng) for _ in range(TRAINERS)]
        others += [_uploads(server, until, encoded_log()) for _ in range(UPLOADERS)]
        load, *answers = await asyncio.gather(flip_marks(server, visitors, seconds, rng), *others)
        loads[f"{count} visitors, {TRAINERS} others train, {UPLOADERS} upload 20 MB"] = load
    return loads, painted, memory, arrival, sum(answers)


def _flip_in_a_browser(server: Server, seconds: float, seed: int, ready: threading.Event) -> list[float]:
    """Flip a mark a second on the page, from when `ready` is set; ms from each click to the frame with its bars."""
    task = bfcl.load_tasks(ROOT / "data" / "tasks")[0]
    graded = tuple(g.vector for g in bfcl.grade_all(task))
    order = toggle.listed_order(task, graded)
    name, ms = "this page", []
    with browser() as running:
        page = toggle.open_page(running, server.url, toggle.READERS[name])
        toggle.wait_until_shown(page, toggle.expected(graded, order), name)
        time.sleep(toggle.SETTLED)
        ready.set()
        for (answer, reward), passed in zip(*toggle.walk(graded, round(seconds), seed), strict=True):
            wanted = toggle.expected(passed, order)
            ms.append(toggle.flip(page, 3 * order.index(answer) + reward, wanted, name)["painted"])
            time.sleep(1)
    return ms


@asynccontextmanager
async def _arrived(server: Server):
    visitor = Visitor(server.port)
    await visitor.arrive()
    try:
        yield visitor
    finally:
        await visitor.leave()


async def _first_visit(server: Server) -> None:
    """Let a visitor open the chapters that the others use, and leave: the first one pays for the imports."""
    async with _arrived(server) as visitor:
        for chapter in ("train", "run"):
            await visitor.open(chapter)


async def flip_marks(server: Server, visitors: list[Visitor], seconds: float, rng: random.Random) -> Load:
    """Let each of the visitors flip a mark a second; none begins one after the time."""
    ms: list[float] = []
    start, before = time.perf_counter(), server.cpu()
    end = start + seconds

    async def flips(visitor: Visitor, first: float) -> None:
        for due in itertools.takewhile(lambda due: due < end, itertools.count(first)):
            await asyncio.sleep(max(0, due - time.perf_counter()))
            if time.perf_counter() > end:
                return
            ms.append(1000 * await visitor.flip(rng.randrange(len(visitor.state["marks"])), rng.randrange(3)))

    flipping = (flips(visitor, start + rng.random()) for visitor in visitors)
    outcomes = await asyncio.gather(*flipping, return_exceptions=True)
    after = server.cpu()
    errors = sum(isinstance(outcome, Exception) for outcome in outcomes)
    return Load(ms, errors, None if before is None else after - before)


async def _trains(server: Server, until: float, rng: random.Random) -> int:
    """Train new set-ups without a pause; how many. What was trained once is kept, so each is asked for once."""
    async with _arrived(server) as visitor:
        await visitor.open("train")
        done = 0
        while time.monotonic() < until:
            await visitor.choose({"Learning rate": rng.uniform(0.1, 1)})
            done += 1
        return done


async def _uploads(server: Server, until: float, log: str) -> int:
    """Upload a log and have it audited, again and again; how often."""
    async with _arrived(server) as visitor:
        await visitor.open("run")
        done = 0
        while time.monotonic() < until:
            await visitor.upload("completions_00001.parquet", log)
            done += 1
            await asyncio.sleep(BETWEEN)
        return done


def encoded_log() -> str:
    """Return a run's log in base64, a Parquet file with texts."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_log(Path(folder) / "log", steps=STEPS, steps_a_file=STEPS)
        (file,) = path.rglob("*.parquet")
        return base64.b64encode(file.read_bytes()).decode()


if __name__ == "__main__":
    run()
