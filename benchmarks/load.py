"""A class on one server: visitors spread over the chapters, ever faster flips, and flips beside those who do more."""

import asyncio
import itertools
import random
import time
from dataclasses import dataclass

from benchmarks import crowd
from benchmarks.crowd import Deeds
from benchmarks.servers import Server, serve
from benchmarks.table import judge, quantile, record, show
from benchmarks.visitors import Visitor

SESSIONS = (1, 10, 25, 50)  # of which three quarters flip a mark a second each
ELSEWHERE = (crowd.trains, crowd.chooses, crowd.audits, crowd.reads)  # what one does in the other chapters
RISE = 10  # flips per second, by which the rate goes up until the server falls behind
PATIENCE = 30  # ms, within which 95 of 100 drawings come
CLASS = {25: 60, 50: 100}  # ms, the same of so many visitors in all chapters
LARGEST = 500  # ms, the longest that anybody waits
ANSWERED_LATE = 0.9  # of the rate that is asked for; below it the visitors wait for the server, not for their turn
STEPS = 70  # of the log that is uploaded: 20 MB
ALONE = "nothing beside"


@dataclass(frozen=True)
class Load:
    """What some visitors saw while they flipped marks, and what it cost the server."""

    sessions: int
    rate: float  # flips per second, of all together
    wanted_rate: float  # the same, had every answer come in time
    ms: list[float]  # of every flip
    errors: int
    cpu: float | None  # seconds of the server's CPU

    @property
    def p95(self) -> float:
        return quantile(self.ms, 0.95) if self.ms else float("inf")

    @property
    def keeps_up(self) -> bool:
        return not self.errors and self.p95 <= PATIENCE and self.rate >= ANSWERED_LATE * self.wanted_rate


@dataclass(frozen=True)
class Spread:
    """A load of visitors in all chapters: what those did who did not flip, and memory."""

    load: Load
    others: Deeds
    megabytes: float | None  # of the server, with all of them inside


def run(seconds: int = 60, shorter: int = 10, seed: int = 0) -> None:
    """Measure and print, in some seven minutes; fewer sessions flip for half the seconds."""
    with serve("this page") as server:
        loads = asyncio.run(_spread(server, seconds, seed))
    show(
        f"visitors, three quarters in the Lab with a flip per second each, the others elsewhere, {seconds} s, "
        f"fewer than {SESSIONS[-1]} for half as long; ms from request to drawing; seed {seed}",
        ("sessions", "flips", "p50", "p95", "largest", "errors", "CPU, %", "MB", "MB per session"),
        [_spread_row(name, one, loads) for name, one in loads.items()],
    )
    with serve("this page") as server:
        rising, arrival = asyncio.run(_rising_loads(server, shorter, seed))
    show(
        f"{SESSIONS[-1]} visitors who flip ever faster, {shorter} s each",
        ("flips per second", "flips", "p50", "p95", "largest", "errors", "CPU per flip, ms"),
        [(f"{load.wanted_rate:.0f}", *_numbers_of(load), _cpu(load)) for load in rising],
    )
    log = crowd.log(STEPS)
    with serve("this page") as server:
        beside = asyncio.run(_loads_beside(server, shorter, seed, log))
    show(
        f"flips of {SESSIONS[-1]} visitors, one per second each, {shorter} s, while others",
        ("", "flips", "p50", "p95", "largest", "errors", "done by them", "their p50, s", "their errors"),
        [(name, *_numbers_of(load), *_done(deeds)) for name, (load, deeds) in beside.items()],
    )
    most, highest = loads[SESSIONS[-1]], max((load.wanted_rate for load in rising if load.keeps_up), default=0)
    per_flip = None if rising[0].cpu is None else 1000 * rising[0].cpu / max(1, len(rising[0].ms))
    show(
        "against the targets",
        ("", "measured", "target", ""),
        [
            *((f"p95 of {n} sessions", *judge(loads[n].load.p95, within, "ms")) for n, within in CLASS.items()),
            (f"largest of {SESSIONS[-1]} sessions", *judge(max(most.load.ms), LARGEST, "ms")),
            ("visitors with an error", *judge(float(most.load.errors + len(most.others.errors)), 0, "")),
            (f"highest rate with p95 ≤ {PATIENCE} ms", *judge(highest, 80, "/s", at_least=True)),
            *((f"p95 while others: {name}", *judge(load.p95, PATIENCE, "ms")) for name, (load, _) in beside.items()),
            ("server CPU per flip", *judge(per_flip, 12, "ms")),
            ("server CPU per visitor who arrives", *judge(arrival, 110, "ms")),
        ],
    )
    record(
        "load",
        seed=seed,
        sessions={n: _numbers(one.load) | {"mb": one.megabytes} for n, one in loads.items()},
        rates={load.wanted_rate: _numbers(load) for load in rising},
        beside={name: _numbers(load) for name, (load, _) in beside.items()},
        highest_rate=highest,
        cpu_ms_a_toggle=per_flip,
        cpu_ms_an_arrival=arrival,
    )


async def _spread(server: Server, seconds: int, seed: int) -> dict[int, Spread]:
    """Every fourth visitor is in another chapter."""
    rng = random.Random(seed)
    await first_visit(server)
    log = crowd.log(2)
    found = {}
    for count in SESSIONS:
        visitors = await _inside(server, count)
        deeds = Deeds()
        span = seconds if count == SESSIONS[-1] else seconds / 2
        until = time.time() + span
        others = visitors[3::4]
        doing = asyncio.gather(
            *(
                ELSEWHERE[n % len(ELSEWHERE)](visitor, until, random.Random(rng.random()), deeds, log)
                for n, visitor in enumerate(others)
            )
        )
        flippers = [visitor for visitor in visitors if visitor not in others]
        load = await flip_marks(server, flippers, len(flippers), span, rng)
        await doing
        found[count] = Spread(load, deeds, server.memory())
        for visitor in visitors:
            await visitor.leave()
    return found


async def _rising_loads(server: Server, seconds: int, seed: int) -> tuple[list[Load], float | None]:
    """Loads of rising rates up to the first too fast one, and ms of CPU per arrival."""
    rng = random.Random(seed)
    await first_visit(server)
    before = server.cpu()
    visitors = await _inside(server, SESSIONS[-1])
    arrival = None if before is None else 1000 * (server.cpu() - before) / len(visitors)
    rate, rising = len(visitors), []
    while not rising or rising[-1].keeps_up:
        rising.append(await flip_marks(server, visitors, rate, seconds, rng))
        rate += RISE
    for visitor in visitors:
        await visitor.leave()
    return rising, arrival


async def _loads_beside(server: Server, seconds: int, seed: int, log: str) -> dict[str, tuple[Load, Deeds]]:
    """Flips alone, beside each kind of other visitors, and beside all of them."""
    rng = random.Random(seed)
    await first_visit(server)
    visitors = await _inside(server, SESSIONS[-1])
    found = {}
    kinds = {ALONE: [], **{kind: [kind] for kind in crowd.KINDS}, "all of these": list(crowd.KINDS)}
    for name, some in kinds.items():
        with crowd.run_beside(server.port, some, seconds, seed, log) as deeds:
            load = await flip_marks(server, visitors, len(visitors), seconds, rng)
        together = Deeds([s for d in deeds.values() for s in d.seconds], [e for d in deeds.values() for e in d.errors])
        found[name] = load, together
    for visitor in visitors:
        await visitor.leave()
    return found


async def first_visit(server: Server) -> None:
    """A visitor who opens every chapter and leaves: the first one pays for the imports."""
    visitor = Visitor(server.port)
    await visitor.arrive()
    for chapter in crowd.CHAPTERS:
        await visitor.open(chapter)
    await visitor.open("train")
    await visitor.choose(crowd.training(random.Random(0)))
    await visitor.leave()
    await asyncio.sleep(1)


async def _inside(server: Server, count: int) -> list[Visitor]:
    visitors = [Visitor(server.port) for _ in range(count)]
    for visitor in visitors:
        await visitor.arrive()
    await asyncio.sleep(1)
    return visitors


async def flip_marks(server: Server, visitors: list[Visitor], rate: float, seconds: float, rng: random.Random) -> Load:
    """Each of the visitors flips marks in turn, `rate` of them a second together; none begins one after the time."""
    ms: list[float] = []
    start, before = time.perf_counter(), server.cpu()
    every = len(visitors) / rate
    outcomes = await asyncio.gather(
        *(
            _flips(
                visitor,
                start + every * rng.random(),
                start + seconds,
                every,
                random.Random(rng.random()),
                ms,
            )
            for visitor in visitors
        ),
        return_exceptions=True,
    )
    took, after = time.perf_counter() - start, server.cpu()
    errors = sum(isinstance(outcome, Exception) for outcome in outcomes)
    used = None if before is None or after is None else after - before
    return Load(len(visitors), len(ms) / max(took, seconds), rate, ms, errors, used)


async def _flips(visitor: Visitor, start: float, end: float, every: float, rng: random.Random, ms: list) -> None:
    for due in itertools.takewhile(lambda due: due < end, itertools.count(start, every)):
        await asyncio.sleep(max(0, due - time.perf_counter()))
        if time.perf_counter() > end:
            return
        ms.append(1000 * await visitor.flip(rng.randrange(len(visitor.state["marks"])), rng.randrange(3)))


def _spread_row(sessions: int, one: Spread, all_of_them: dict[int, Spread]) -> tuple[str, ...]:
    cpu = "n/a" if one.load.cpu is None else f"{100 * one.load.cpu * one.load.rate / max(1, len(one.load.ms)):.0f}"
    if one.megabytes is None:
        return (str(sessions), *_numbers_of(one.load), cpu, "n/a", "n/a")
    first = all_of_them[SESSIONS[0]].megabytes
    more = f"{(one.megabytes - first) / (sessions - SESSIONS[0]):.2f}" if sessions > SESSIONS[0] else ""
    return (str(sessions), *_numbers_of(one.load, one.others), cpu, f"{one.megabytes:.0f}", more)


def _numbers_of(load: Load, others: Deeds | None = None) -> list[str]:
    errors = load.errors + len(others.errors if others else ())
    if not load.ms:
        return ["0", "", "", "", str(errors)]
    times = (quantile(load.ms, 0.5), load.p95, max(load.ms))
    return [str(len(load.ms)), *(f"{ms:.1f}" for ms in times), str(errors)]


def _cpu(load: Load) -> str:
    return "n/a" if load.cpu is None or not load.ms else f"{1000 * load.cpu / len(load.ms):.1f}"


def _done(deeds: Deeds) -> list[str]:
    half = f"{quantile(deeds.seconds, 0.5):.2f}" if deeds.seconds else ""
    return [str(len(deeds.seconds)), half, str(len(deeds.errors))]


def _numbers(load: Load) -> dict[str, float | None]:
    return {
        "toggles": len(load.ms),
        "per_s": load.rate,
        "median_ms": quantile(load.ms, 0.5) if load.ms else None,
        "p95_ms": load.p95 if load.ms else None,
        "errors": load.errors,
        "cpu_s": load.cpu,
    }


if __name__ == "__main__":
    run()
