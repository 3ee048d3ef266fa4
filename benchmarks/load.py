"""Fifty visitors who flip one mark per second each: milliseconds from the request to the new drawing, server side."""

import asyncio
import random
import time

from benchmarks.servers import Server, serve
from benchmarks.table import judged, quantile, record, show
from benchmarks.visitors import Visitor, token_of


def run(sessions: int = 50, seconds: int = 20, seed: int = 0) -> None:
    """Measure and print."""
    with serve("this page") as server:
        times, errors, cpu = asyncio.run(_load(server, sessions, seconds, seed))
    milliseconds = [1000 * t for t in times]
    median, p95 = (quantile(milliseconds, q) for q in (0.5, 0.95))
    show(
        f"{sessions} sessions, one toggle per second each, {seconds} s; seed {seed}",
        ("", "measured", "target", ""),
        [
            ("request → drawing, p95", *judged(p95, 30, "ms")),
            ("sessions with an error", str(errors), "0", "ok" if not errors else "falls short"),
            ("median", f"{median:.1f} ms", "", ""),
            ("largest", f"{max(milliseconds):.1f} ms", "", ""),
            ("server CPU per second", "n/a" if cpu is None else f"{cpu / seconds:.2f} s", "", ""),
        ],
    )
    record(
        "load",
        sessions=sessions,
        seed=seed,
        toggles=len(times),
        errors=errors,
        median_ms=median,
        p95_ms=p95,
        largest_ms=max(milliseconds),
        cpu_s_per_s=None if cpu is None else cpu / seconds,
    )


async def _load(server: Server, sessions: int, seconds: int, seed: int):
    visitors = [Visitor(server.port, token_of(server.port)) for _ in range(sessions)]
    for visitor in visitors:
        await visitor.arrive()
    await asyncio.sleep(1)
    rng = random.Random(seed)
    times: list[float] = []
    before, start = server.cpu(), time.perf_counter()
    outcomes = await asyncio.gather(
        *(_flips(visitor, rng.random(), start, seconds, random.Random(rng.random()), times) for visitor in visitors),
        return_exceptions=True,
    )
    after = server.cpu()
    for visitor in visitors:
        await visitor.leave()
    errors = sum(isinstance(outcome, Exception) for outcome in outcomes)
    return times, errors, None if after is None else after - before


async def _flips(visitor: Visitor, offset: float, start: float, seconds: int, rng: random.Random, times: list) -> None:
    for n in range(seconds):
        await asyncio.sleep(max(0, start + offset + n - time.perf_counter()))
        times.append(await visitor.flip(rng.randrange(len(visitor.passed)), rng.randrange(3)))


if __name__ == "__main__":
    run()
