"""Visitors who flip marks, 1 to 50 of them and then ever faster: milliseconds from the request to the new drawing."""

import asyncio
import random
import time
from dataclasses import dataclass

from benchmarks.servers import Server, serve
from benchmarks.table import judged, quantile, record, show
from benchmarks.visitors import Visitor

SESSIONS = (1, 10, 25, 50)  # who flip a mark a second each
RATES = (60, 70, 80, 90, 100, 110, 120)  # toggles per second of the most sessions together
PATIENCE = 30  # ms, within which 95 of 100 drawings come
ANSWERED_LATE = 0.9  # of the rate that is asked for; below it the visitors wait for the server, not for their turn


@dataclass(frozen=True)
class Load:
    """What a number of visitors saw while they flipped marks, and what it cost the server."""

    sessions: int
    rate: float  # toggles per second, of all together
    asked: float  # the same, had every answer come in time
    ms: list[float]  # of every toggle
    errors: int
    cpu: float | None  # seconds of the server's CPU, of all toggles

    @property
    def p95(self) -> float:
        return quantile(self.ms, 0.95) if self.ms else float("inf")

    @property
    def keeps_up(self) -> bool:
        return not self.errors and self.p95 <= PATIENCE and self.rate >= ANSWERED_LATE * self.asked


def run(seconds: int = 15, seed: int = 0) -> None:
    """Measure and print."""
    with serve("this page") as server:
        loads, rising, arrival = asyncio.run(_measured(server, seconds, seed))
    show(
        f"visitors, one flip per second each, {seconds} s; ms from request to drawing, server side; seed {seed}",
        ("sessions", "median", "p95", "largest", "errors", "CPU per toggle"),
        [_row(str(load.sessions), load) for load in loads],
    )
    most = loads[-1]
    show(
        f"{most.sessions} visitors who flip faster, {seconds} s each",
        ("toggles per second", "median", "p95", "largest", "errors", "CPU per toggle"),
        [_row(f"{load.asked:.0f}", load) for load in rising],
    )
    highest = max((load.asked for load in [*loads, *rising] if load.keeps_up), default=0)
    per_toggle = None if most.cpu is None else 1000 * most.cpu / len(most.ms)
    show(
        "against the targets",
        ("", "measured", "target", ""),
        [
            (f"p95 of {most.sessions} sessions", *judged(most.p95, 20, "ms")),
            ("visitors with an error", *judged(float(most.errors), 0, "")),
            (f"highest rate with p95 ≤ {PATIENCE} ms", *judged(highest, 80, "/s", at_least=True)),
            ("server CPU per toggle", *judged(per_toggle, 15, "ms")),
            ("server CPU per visitor who arrives", *judged(arrival, 70, "ms")),
        ],
    )
    record(
        "load",
        seed=seed,
        sessions={load.sessions: _numbers(load) for load in loads},
        rates={load.asked: _numbers(load) for load in rising},
        highest_rate=highest,
        cpu_ms_a_toggle=per_toggle,
        cpu_ms_an_arrival=arrival,
    )


async def _measured(server: Server, seconds: int, seed: int) -> tuple[list[Load], list[Load], float | None]:
    """The loads of a toggle a second each, those of rising rates up to the first too fast one, and ms per arrival."""
    rng = random.Random(seed)
    visitors = [Visitor(server.port)]
    await visitors[0].arrive()  # the first one pays for the imports
    await asyncio.sleep(1)
    loads, rising, arrivals = [], [], []
    for count in SESSIONS:
        before, new = server.cpu(), count - len(visitors)
        for _ in range(new):
            visitors.append(Visitor(server.port))
            await visitors[-1].arrive()
        await asyncio.sleep(1)
        if new and before is not None:
            arrivals.append(1000 * (server.cpu() - before) / new)
        loads.append(await flipping(server, visitors, len(visitors), seconds, rng))
    for rate in RATES:
        rising.append(await flipping(server, visitors, rate, seconds, rng))
        if not rising[-1].keeps_up:
            break
    for visitor in visitors:
        await visitor.leave()
    return loads, rising, quantile(arrivals, 0.5) if arrivals else None


async def flipping(server: Server, visitors: list[Visitor], rate: float, seconds: float, rng: random.Random) -> Load:
    """Each of the visitors flips marks in turn, `rate` of them a second together."""
    ms: list[float] = []
    start, before = time.perf_counter(), server.cpu()
    every = len(visitors) / rate
    outcomes = await asyncio.gather(
        *(
            _flips(
                visitor, start + every * rng.random(), every, round(seconds / every), random.Random(rng.random()), ms
            )
            for visitor in visitors
        ),
        return_exceptions=True,
    )
    took, after = time.perf_counter() - start, server.cpu()
    errors = sum(isinstance(outcome, Exception) for outcome in outcomes)
    used = None if before is None or after is None else after - before
    return Load(len(visitors), len(ms) / max(took, seconds), rate, ms, errors, used)


async def _flips(visitor: Visitor, start: float, every: float, times: int, rng: random.Random, ms: list) -> None:
    for n in range(times):
        await asyncio.sleep(max(0, start + every * n - time.perf_counter()))
        ms.append(1000 * await visitor.flip(rng.randrange(len(visitor.state["marks"])), rng.randrange(3)))


def _row(name: str, load: Load) -> tuple[str, ...]:
    if not load.ms:
        return (name, "", "", "", str(load.errors), "")
    cpu = "n/a" if load.cpu is None else f"{1000 * load.cpu / len(load.ms):.1f}"
    numbers = (quantile(load.ms, 0.5), load.p95, max(load.ms))
    return (name, *(f"{number:.1f}" for number in numbers), str(load.errors), cpu)


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
