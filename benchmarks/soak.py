"""Twenty minutes of ten visitors who do everything, and two hundred who come and go: errors, p95, memory per minute."""

import asyncio
import random
import time
from pathlib import Path
from statistics import linear_regression

from benchmarks import crowd
from benchmarks.crowd import Deeds
from benchmarks.load import ELSEWHERE, first_visit
from benchmarks.servers import Server, serve
from benchmarks.table import judged, quantile, record, show
from benchmarks.visitors import Visitor

SESSIONS = 10
MINUTE = 60  # seconds
STAY = (20, 90)  # seconds that a visitor stays
STEPS = 8  # of the log that is uploaded: 2.3 MB, which is audited in a process of its own
GROWS = 0.5  # MB per minute, over the second half
TTL = 120  # seconds after which marimo forgets a session whose visitor has left
TIDY = 40  # seconds after which the memory of those is back
LEFT = 30  # MB that two hundred visitors may leave behind
MANY = 200


def run(minutes: int = 20, seed: int = 0) -> None:
    """Measure and print."""
    with serve("this page") as server:
        per_minute, ms, deeds = asyncio.run(_soaked(server, minutes, seed))
    show(
        f"{SESSIONS} visitors who come, flip, open chapters, train, upload and leave, {minutes} minutes; seed {seed}",
        ("minute", "MB, server", "MB, all processes", "threads", "flips", "p95, ms", "errors"),
        per_minute,
    )
    second_half = [float(row[1]) for row in per_minute[len(per_minute) // 2 :]]
    # Of the line through all: at the end of a minute now more, now fewer of those who left are still inside.
    slope = linear_regression(range(len(second_half)), second_half).slope if minutes > 3 else 0.0
    for error in sorted(set(deeds.errors))[:10]:
        print(f"  {deeds.errors.count(error)} times {error}", flush=True)
    with serve("this page") as server:
        stages = asyncio.run(_come_and_gone(server, MANY))
    show(f"{MANY} sessions opened and left", ("", "MB, server"), [(name, f"{mb:.0f}") for name, mb in stages.items()])
    values = list(stages.values())
    show(
        "against the targets",
        ("", "measured", "target", ""),
        [
            ("MB per minute, second half", *judged(slope, GROWS, "MB")),
            ("errors", *judged(float(len(deeds.errors)), 0, "")),
            (f"MB left by {MANY} sessions", *judged(values[-1] - values[0], LEFT, "MB")),
        ],
    )
    record("soak", minutes=per_minute, slope_mb=slope, errors=len(deeds.errors), p95_ms=quantile(ms, 0.95), many=stages)


async def _soaked(server: Server, minutes: int, seed: int) -> tuple[list[tuple[str, ...]], list[float], Deeds]:
    await first_visit(server)
    rng, until = random.Random(seed), time.time() + MINUTE * minutes
    log, deeds = crowd.log(STEPS), Deeds()
    ms: list[float] = []
    places = asyncio.gather(
        *(_place(server, until, random.Random(rng.random()), deeds, ms, log) for _ in range(SESSIONS))
    )
    rows, seen, wrong = [], 0, 0
    for minute in range(1, minutes + 1):
        await asyncio.sleep(MINUTE)
        new, errors = ms[seen:], len(deeds.errors) - wrong
        seen, wrong = len(ms), len(deeds.errors)
        p95 = f"{quantile(new, 0.95):.1f}" if new else ""
        rows.append(
            (
                str(minute),
                f"{server.memory() or 0:.0f}",
                f"{_family(server):.0f}",
                _threads(server),
                str(len(new)),
                p95,
                str(errors),
            )
        )
        print("  " + "  ".join(rows[-1]), flush=True)
    await places
    return rows, ms, deeds


async def _place(server: Server, until: float, rng: random.Random, deeds: Deeds, ms: list[float], log: str) -> None:
    """One visitor after the other: half of a stay in the Lab, then some of the chapters."""
    while time.time() < until:
        visitor, leaves = Visitor(server.port), min(until, time.time() + rng.uniform(*STAY))
        try:
            await visitor.arrive()
            while time.time() < leaves - STAY[0] / 2:
                await asyncio.sleep(rng.uniform(0.5, 1.5))
                ms.append(1000 * await visitor.flip(rng.randrange(12), rng.randrange(3)))
            await rng.choice(ELSEWHERE)(visitor, leaves, rng, deeds, log)
        except Exception as error:
            deeds.errors.append(repr(error))
            await asyncio.sleep(1)
        finally:
            await visitor.leave()


async def _come_and_gone(server: Server, count: int) -> dict[str, float]:
    """Memory before, with all of them inside, and after marimo has forgotten them."""
    await first_visit(server)
    await asyncio.sleep(TTL + TIDY)
    stages = {"before": server.memory() or 0.0}
    for name in ("at once", "at once, again"):
        visitors = [Visitor(server.port) for _ in range(count)]
        for some in range(0, count, 10):
            await asyncio.gather(*(visitor.arrive() for visitor in visitors[some : some + 10]))
        stages[f"{count} {name}"] = server.memory() or 0.0
        await asyncio.gather(*(visitor.leave() for visitor in visitors))
        await asyncio.sleep(TTL + TIDY)
        stages[f"after {name}"] = server.memory() or 0.0
    return stages


def _family(server: Server) -> float:
    """MB of the server and its processes, what they share once; 0 where there is no /proc."""
    pids, total = [server.process.pid], 0.0
    for pid in pids:
        try:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                pids += [int(p) for p in (thread / "children").read_text().split() if int(p) not in pids]
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1000
        except (OSError, StopIteration):
            continue
    return total


def _threads(server: Server) -> str:
    try:
        return str(len(list(Path(f"/proc/{server.process.pid}/task").iterdir())))
    except OSError:
        return ""


if __name__ == "__main__":
    run()
