"""A benchmark of a whole class on one server: ten to fifty visitors who flip marks. First they are alone; then one more
visitor flips marks in a browser; at last others train and upload logs meanwhile.
"""

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
from views import bfcl

SESSIONS = (10, 25, 50)  # visitors, each of whom flips a mark a second
PAINTED = 30  # ms: the target for drawing a flip in a browser, to be met by 95 of 100 flips
PATIENCE = 150  # ms: the target for the words that follow a flip, to be met by 95 of 100 flips
CHAPTERS = ("lab", "train", "evidence", "run", "use")  # one for each visitor in turn, who opens it before the flips
LARGEST = 500  # ms: the target for the longest wait of all
TRAINERS, UPLOADERS, STEPS = 4, 2, 70  # those who train, those who upload, and the steps of their log, which has 20 MB
READY = 60  # seconds that a browser may take until it shows the board
BETWEEN = 4  # seconds between two uploads of one visitor


@dataclass(frozen=True)
class Load:
    """The delays that some visitors saw while they flipped marks, and what their flips cost the server.

    ms: the delay of every flip in milliseconds.
    errors: how many of the visitors were stopped by an error.
    cpu: the seconds of the server's CPU, None where they are not known.
    """

    ms: list[float]
    errors: int
    cpu: float | None

    @property
    def p95(self) -> float:
        """The delay in milliseconds that 95 of 100 flips of a mark did not exceed; infinity if no mark was flipped."""
        return quantile(self.ms, 0.95) if self.ms else float("inf")

    def cells(self) -> list[str]:
        """Return the cells of a table's row as texts.

        First comes the number of flips, which are clicks that flip a mark. Then come the median, the 95th percentile
        and the largest of their delays in milliseconds, "nan" without flips. The last two are the number of visitors
        who met an error, and the CPU per flip in milliseconds. The CPU is "n/a" without flips or where it is not known.
        """
        times = [quantile(self.ms, 0.5), self.p95, max(self.ms)] if self.ms else []
        cpu = "n/a" if self.cpu is None or not self.ms else f"{1000 * self.cpu / len(self.ms):.1f}"
        return [str(len(self.ms)), *(f"{ms:.1f}" for ms in times or [float("nan")] * 3), str(self.errors), cpu]


def run(seconds: int = 20, seed: int = 0) -> None:
    """Start a server, put all loads on it, and print two tables and a line of JSON, which takes some four minutes.

    seconds: how long each load lasts.
    seed: the seed of the random draws: of the marks to flip, of the time at which each visitor begins, and of the
        learning rates.
    """
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
    """Put all loads on the server, one after the other, each for `seconds`. Return five things, in this order:

    - the loads by name;
    - a list of the milliseconds until each flip in the browser was drawn;
    - the server's memory in MB with all visitors;
    - the milliseconds of CPU per visitor who arrives;
    - how often, in all, the visitors who train or upload were answered.

    Memory and CPU are None where they cannot be measured.
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
            board = visitor.model_id  # kept, because the chapter Evidence brings a board of its own
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
    """Open the page in a browser, set `ready`, and flip as many marks as `seconds` says, with a pause of a second after
    each. Return the milliseconds from each click to the frame in which the new bars are drawn.
    """
    task = bfcl.load_tasks(ROOT / "data" / "tasks")[0]
    graded = tuple(g.vector for g in bfcl.grade_all(task))
    order = toggle.listed_order(task)
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
    """Yield a visitor who has opened the page, and who leaves at the end of the `with` block."""
    visitor = Visitor(server.port)
    await visitor.arrive()
    try:
        yield visitor
    finally:
        await visitor.leave()


async def _first_visit(server: Server) -> None:
    """Let a visitor open the page and its chapters Train and Your run, and then leave. The first visitor of a server
    waits for imports, which the measured visitors should not.
    """
    async with _arrived(server) as visitor:
        for chapter in ("train", "run"):
            await visitor.open(chapter)


async def flip_marks(server: Server, visitors: list[Visitor], seconds: float, rng: random.Random) -> Load:
    """Let each of the visitors flip one mark a second, for so many seconds.

    Return the delays that they saw, how many of them were stopped by an error, and the seconds of the server's CPU.

    visitors: visitors who have opened the page of the server.
    seconds: how long they flip.
    rng: draws the marks to flip and when each visitor begins.
    """
    ms: list[float] = []
    start, before = time.perf_counter(), server.cpu()
    end = start + seconds

    async def flips(visitor: Visitor, first: float) -> None:
        """Let one visitor flip marks, one a second, from the time `first` until the load ends. The delays go into `ms`
        of the outer function.
        """
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
    """Let a visitor train until the time `until`, and return how often that was done.

    Each training has a new learning rate drawn from `rng`, because the server keeps what it has trained once.
    """
    async with _arrived(server) as visitor:
        await visitor.open("train")
        done = 0
        while time.monotonic() < until:
            await visitor.choose({"Learning rate": rng.uniform(0.1, 1)})
            done += 1
        return done


async def _uploads(server: Server, until: float, log: str) -> int:
    """Let a visitor upload a log again and again until the time `until`. After each upload wait for the audit, and then
    for BETWEEN seconds.

    Return how often the log was audited.

    log: the file in base64.
    """
    async with _arrived(server) as visitor:
        await visitor.open("run")
        done = 0
        while time.monotonic() < until:
            await visitor.upload("completions_00001.parquet", log)
            done += 1
            await asyncio.sleep(BETWEEN)
        return done


def encoded_log() -> str:
    """Return the log of a run in base64: a Parquet file with texts, of about 20 MB."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_log(Path(folder) / "log", steps=STEPS, steps_a_file=STEPS)
        (file,) = path.rglob("*.parquet")
        return base64.b64encode(file.read_bytes()).decode()


if __name__ == "__main__":
    run()
