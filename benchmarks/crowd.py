"""What visitors do beside flipping marks: they come and go, train, look at the Evidence, audit logs."""

import asyncio
import base64
import multiprocessing.connection
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.audit import write_log
from benchmarks.visitors import Visitor

CHAPTERS = ("train", "evidence", "run", "use")
SETTLE = 3  # seconds in which they arrive and open their chapter, unless arriving is what they do
LATE = 60  # seconds after their time is up, in which they finish what they asked for; then they are sent away


@dataclass
class Deeds:
    """What visitors of one kind did: how long each answer took, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def log(steps: int) -> str:
    """A run's log in base64, a Parquet file with texts; 50 steps have 50,000 responses and about 10 MB."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_log(Path(folder) / "log", steps=steps, steps_a_file=steps)
        (file,) = path.rglob("*.parquet")
        return base64.b64encode(file.read_bytes()).decode()


def training(rng: random.Random) -> dict[str, float]:
    """A control of Train, at a value that nobody has asked for before: what was trained once is kept."""
    return {"Learning rate": rng.uniform(0.1, 1)}


def choosing(rng: random.Random) -> dict[str, int]:
    """Controls of the Evidence."""
    return {"Answers per prompt": rng.randint(2, 24), "Draw": rng.randint(0, 99)}


async def arrivals(port: int, until: float, rng: random.Random, deeds: Deeds, log: str) -> None:
    """One visitor per second, who leaves after three."""

    async def one() -> None:
        async with _time(deeds):
            visitor = Visitor(port)
            await visitor.arrive()
        await asyncio.sleep(3)
        await visitor.leave()

    async with asyncio.TaskGroup() as group:
        while time.time() < until:
            group.create_task(one())
            await asyncio.sleep(1)


async def trains(visitor: Visitor, until: float, rng: random.Random, deeds: Deeds, log: str, pause: float = 8) -> None:
    """Open Train, and train new settings one after the other."""
    await _open(visitor, "train", deeds)
    while time.time() < until:
        async with _time(deeds):
            await visitor.choose(training(rng))
        await asyncio.sleep(pause * rng.uniform(0.5, 1.5))


async def chooses(visitor: Visitor, until: float, rng: random.Random, deeds: Deeds, log: str, pause: float = 4) -> None:
    """Open the Evidence, and choose other prompts."""
    await _open(visitor, "evidence", deeds)
    while time.time() < until:
        async with _time(deeds):
            await visitor.choose(choosing(rng))
        await asyncio.sleep(pause * rng.uniform(0.5, 1.5))


async def audits(visitor: Visitor, until: float, rng: random.Random, deeds: Deeds, log: str, pause: float = 20) -> None:
    """Open Your run, and upload a log."""
    await _open(visitor, "run", deeds)
    while time.time() < until:
        async with _time(deeds):
            await visitor.upload("completions_00001.parquet", log)
        await asyncio.sleep(pause * rng.uniform(0.5, 1.5))


async def reads(visitor: Visitor, until: float, rng: random.Random, deeds: Deeds, log: str) -> None:
    """Open Use it, go back to the Lab now and then, flip a mark, and return."""
    await _open(visitor, "use", deeds)
    while time.time() < until:
        await asyncio.sleep(10 * rng.uniform(0.5, 1.5))
        await _open(visitor, "lab", deeds)
        async with _time(deeds):
            await visitor.flip(rng.randrange(12), rng.randrange(3))
        await asyncio.sleep(1)
        await _open(visitor, "use", deeds)


async def trainers(port: int, until: float, rng: random.Random, deeds: Deeds, log: str) -> None:
    """Four visitors who train without a pause."""
    await _several(4, trains, port, until, rng, deeds, log, 0)


async def uploaders(port: int, until: float, rng: random.Random, deeds: Deeds, log: str) -> None:
    """Two visitors who upload a log and audit it, each every four seconds."""
    await _several(2, audits, port, until, rng, deeds, log, 4)


async def choosers(port: int, until: float, rng: random.Random, deeds: Deeds, log: str) -> None:
    """Four visitors who choose new prompts each second."""
    await _several(4, chooses, port, until, rng, deeds, log, 1)


KINDS: dict[str, Callable[..., Awaitable[None]]] = {
    "one arrives per second": arrivals,
    "four train": trainers,
    "four choose other prompts": choosers,
    "two upload 20 MB": uploaders,
}


@contextmanager
def run_beside(port: int, kinds: list[str], seconds: float, seed: int, log: str) -> Iterator[dict[str, Deeds]]:
    """Visitors of these kinds, in a process of low priority, since real visitors have computers of their own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_crowd, args=(theirs, port, kinds, seconds, seed, log))
    process.start()
    found: dict[str, Deeds] = {}
    try:
        _receive(ours, process, LATE)  # they are inside
        yield found
        found |= _receive(ours, process, seconds + 2 * LATE)
    finally:
        process.join(10)
        process.kill()


def _receive(pipe: Connection, process: BaseProcess, seconds: float) -> Any:
    """What a process says within that time."""
    multiprocessing.connection.wait([pipe, process.sentinel], seconds)
    if not pipe.poll():
        raise RuntimeError(f"the visitors' process said nothing within {seconds:.0f} s; exit status {process.exitcode}")
    return pipe.recv()


def _crowd(pipe, port: int, kinds: list[str], seconds: float, seed: int, log: str) -> None:
    os.nice(5)
    deeds = {kind: Deeds() for kind in kinds}

    async def enter() -> None:
        await asyncio.sleep(SETTLE)
        pipe.send("inside")

    async def all_of_them() -> None:
        until, rng = time.time() + SETTLE + seconds, random.Random(seed)
        tasks = [
            asyncio.wait_for(
                KINDS[kind](port, until, random.Random(rng.random()), deeds[kind], log), LATE + SETTLE + seconds
            )
            for kind in kinds
        ]
        _, *outcomes = await asyncio.gather(enter(), *tasks, return_exceptions=True)
        for kind, outcome in zip(kinds, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                deeds[kind].errors.append(repr(outcome))

    asyncio.run(all_of_them())
    pipe.send(deeds)


async def _several(
    count: int, do: Callable[..., Awaitable[None]], port: int, until: float, rng, deeds, log, pause
) -> None:
    """So many visitors who come, do the same and leave."""

    async def one(rng: random.Random) -> None:
        visitor = Visitor(port)
        async with _time(deeds):
            await visitor.arrive()
        try:
            await do(visitor, until, rng, deeds, log, pause)
        finally:
            await visitor.leave()

    await asyncio.gather(*(one(random.Random(rng.random())) for _ in range(count)))


async def _open(visitor: Visitor, chapter: str, deeds: Deeds) -> None:
    async with _time(deeds):
        await visitor.open(chapter)


@asynccontextmanager
async def _time(deeds: Deeds) -> AsyncIterator[None]:
    start = time.perf_counter()
    try:
        yield
        deeds.seconds.append(time.perf_counter() - start)
    except Exception as error:
        deeds.errors.append(repr(error))
        await asyncio.sleep(1)
