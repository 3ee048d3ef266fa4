"""What visitors do beside flipping marks: they come and go, train, look at the Evidence, audit logs."""

import asyncio
import base64
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.audit import written
from benchmarks.visitors import Visitor

LONG = 600  # seconds for an answer of what is known to take long


@dataclass
class Deeds:
    """What visitors of one kind did: how long each answer took, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def log(steps: int) -> str:
    """A run's log in base64, a Parquet file with texts; 50 steps have 50,000 responses and about 10 MB."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = written(Path(folder) / "log", steps=steps, steps_a_file=steps)
        (file,) = path.rglob("*.parquet")
        return base64.b64encode(file.read_bytes()).decode()


def training(visitor: Visitor, rng: random.Random) -> dict:
    """Controls of Train that nobody has asked for before."""
    state = visitor.drawings[visitor.models["train"]]["state"]
    return {**state, "start": [round(rng.uniform(0.1, 0.8), 6) for _ in state["start"]]}


def choosing(rng: random.Random) -> dict:
    """Controls of the Evidence."""
    marks = ["correctness", "style", "conciseness"]
    return {"group": rng.randint(2, 24), "draw": rng.randint(0, 99), "graders": marks, "weight": 1, "open": []}


async def arrivals(port: int, until: float, rng: random.Random, deeds: Deeds, log: str) -> None:
    """One visitor per second, who leaves after three."""

    async def one() -> None:
        async with _timed(deeds):
            visitor = Visitor(port)
            await visitor.arrive()
        await asyncio.sleep(3)
        await visitor.leave()

    async with asyncio.TaskGroup() as group:
        while time.time() < until:
            group.create_task(one())
            await asyncio.sleep(1)


async def trainers(port: int, until: float, rng: random.Random, deeds: Deeds, log: str, count: int = 4) -> None:
    """Four visitors who train new settings one after the other."""

    async def one(rng: random.Random) -> None:
        async with _inside(port, "train") as visitor:
            while time.time() < until:
                async with _timed(deeds):
                    await visitor.ask("train", training(visitor, rng))

    await asyncio.gather(*(one(random.Random(rng.random())) for _ in range(count)))


async def uploaders(port: int, until: float, rng: random.Random, deeds: Deeds, log: str, count: int = 2) -> None:
    """Two visitors who upload a log and audit it, again and again."""

    async def one() -> None:
        async with _inside(port, "run") as visitor:
            while time.time() < until:
                async with _timed(deeds):
                    await visitor.upload("completions_00001.parquet", log, LONG)

    await asyncio.gather(*(one() for _ in range(count)))


async def readers(port: int, until: float, rng: random.Random, deeds: Deeds, log: str, count: int = 4) -> None:
    """Four visitors who choose new prompts in the Evidence each second."""

    async def one(rng: random.Random) -> None:
        async with _inside(port, "evidence") as visitor:
            while time.time() < until:
                async with _timed(deeds):
                    await visitor.ask("evidence", choosing(rng))
                await asyncio.sleep(1)

    await asyncio.gather(*(one(random.Random(rng.random())) for _ in range(count)))


KINDS: dict[str, Callable[..., Awaitable[None]]] = {
    "one arrives per second": arrivals,
    "four train": trainers,
    "four read the Evidence": readers,
    "two upload and audit": uploaders,
}


@contextmanager
def beside(port: int, kinds: list[str], seconds: float, seed: int, log: str) -> Iterator[dict[str, Deeds]]:
    """Visitors of these kinds, from a process of their own at low priority: on the day they have other computers."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_crowd, args=(theirs, port, kinds, seconds, seed, log))
    process.start()
    found: dict[str, Deeds] = {}
    ours.recv()  # they are inside
    try:
        yield found
        found |= ours.recv() if ours.poll(LONG) else {}
    finally:
        process.join(10)
        process.kill()


def _crowd(told, port: int, kinds: list[str], seconds: float, seed: int, log: str) -> None:
    os.nice(5)
    deeds = {kind: Deeds() for kind in kinds}
    told.send("inside")

    async def all_of_them() -> None:
        until, rng = time.time() + seconds, random.Random(seed)
        tasks = (KINDS[kind](port, until, random.Random(rng.random()), deeds[kind], log) for kind in kinds)
        for kind, outcome in zip(kinds, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
            if isinstance(outcome, BaseException):
                deeds[kind].errors.append(repr(outcome))

    asyncio.run(all_of_them())
    told.send(deeds)


@asynccontextmanager
async def _inside(port: int, chapter: str) -> AsyncIterator[Visitor]:
    visitor = Visitor(port)
    await visitor.arrive()
    try:
        await visitor.open(chapter)
        yield visitor
    finally:
        await visitor.leave()


@asynccontextmanager
async def _timed(deeds: Deeds) -> AsyncIterator[None]:
    start = time.perf_counter()
    try:
        yield
        deeds.seconds.append(time.perf_counter() - start)
    except Exception as error:
        deeds.errors.append(repr(error))
        await asyncio.sleep(1)
