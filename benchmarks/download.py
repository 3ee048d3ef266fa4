"""Toggles while someone else downloads 50 MB of CSV, beside the same server at rest, in turns.

Compressing takes a core. What that alone costs is measured too: a process beside the server that keeps one core busy.
"""

import asyncio
import gzip
import random
import re
import subprocess
import sys
from urllib.request import Request, urlopen

from benchmarks.load import flipping
from benchmarks.servers import Server, serve
from benchmarks.table import judged, quantile, record, show
from benchmarks.visitors import Visitor

MEGABYTES = 50
VISITORS, RATE = 5, 10  # toggles a second of all together
SLOWER = 10  # ms that a download may add to the 95th of 100 toggles
# In a process of its own, so that reading does not delay the flips: one download after the other, as a browser asks.
READER = """
import sys
from urllib.request import Request, urlopen
while True:
    with urlopen(Request(sys.argv[1], headers={"Accept-Encoding": "gzip"})) as answer:
        while answer.read(1 << 16):
            pass
    print("read", flush=True)
"""
BUSY = """
import zlib
while True:
    zlib.compress(bytes(1 << 16))
"""
AT_REST, UNDER_WAY = "at rest", "with a download under way"
BESIDE = {AT_REST: "", "beside a process on one core": BUSY, UNDER_WAY: READER}  # what runs meanwhile
LINK = re.compile(r"@file/[^\"'?&\\]+\.csv")


def run(rounds: int = 6, seconds: float = 3, seed: int = 0) -> None:
    """Measure in turns, check that all of it arrived, print."""
    with serve("the page with a download") as server:
        ms, downloads = asyncio.run(_measured(server, rounds, seconds, seed))
    medians, p95 = ({name: quantile(of, q) for name, of in ms.items()} for q in (0.5, 0.95))
    show(
        f"toggle → drawing, server side, ms; {VISITORS} visitors, {RATE} toggles a second, {rounds} turns of "
        f"{seconds:g} s each; finished downloads of {MEGABYTES} MB: {downloads}; seed {seed}",
        ("", "median", "p95", "largest"),
        [(name, *(f"{x:.1f}" for x in (medians[name], p95[name], max(of)))) for name, of in ms.items()],
    )
    show(
        "against the target",
        ("", "measured", "target", ""),
        [("p95 with a download less p95 at rest", *judged(p95[UNDER_WAY] - p95[AT_REST], SLOWER, "ms"))],
    )
    record("download", seed=seed, median_ms=medians, p95_ms=p95, downloads=downloads)


async def _measured(server: Server, rounds: int, seconds: float, seed: int) -> tuple[dict[str, list[float]], int]:
    rng = random.Random(seed)
    visitors = [Visitor(server.port) for _ in range(VISITORS)]
    for visitor in visitors:
        await visitor.arrive()
    found = LINK.search("".join(visitors[0].told))
    if not found:
        raise RuntimeError("the page with a download offers none")
    url = await asyncio.to_thread(_checked, server, found[0])
    await flipping(server, visitors, RATE, seconds, rng)  # and warm
    ms: dict[str, list[float]] = {name: [] for name in BESIDE}
    downloads = 0
    for _ in range(rounds):
        for name, of in ms.items():
            command = [sys.executable, "-c", BESIDE[name], url]
            beside = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            await asyncio.sleep(0.5)
            load = await flipping(server, visitors, RATE, seconds, rng)
            beside.terminate()
            downloads += len(beside.communicate()[0].split())
            if load.errors:
                raise RuntimeError(f"{load.errors} of {VISITORS} visitors had an error {name}")
            of += load.ms
    for visitor in visitors:
        await visitor.leave()
    return ms, downloads


def _checked(server: Server, path: str) -> str:
    """The address of the file, once its size is right and it came compressed."""
    url = server.url + path
    with urlopen(Request(url, headers={"Accept-Encoding": "gzip"})) as answer:
        encoding, body = answer.headers["content-encoding"], answer.read()
    size = len(gzip.decompress(body)) if encoding == "gzip" else -1
    if size != MEGABYTES * 1_000_000:
        raise RuntimeError(f"the download has {size:,} bytes, encoded as {encoding}")
    return url


if __name__ == "__main__":
    run()
