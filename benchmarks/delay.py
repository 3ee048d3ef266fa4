"""A slow network between a browser and a server: all that they send each other arrives later, in both directions."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

HOST = "127.0.0.1"


@contextmanager
def delayed(port: int, seconds: float) -> Iterator[int]:
    """Yield a new port of this machine that forwards to `port` and back, and delivers every byte `seconds` late. At the
    end of the `with` block it closes.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    starting = asyncio.start_server(lambda *ends: _join(ends, port, seconds), HOST, 0)
    listening = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(listening), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


async def _end(listening: asyncio.Server) -> None:
    """Accept no more connections on `listening`, and cut all that are open."""
    listening.close()
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    for task in connections:
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _join(browser: tuple[asyncio.StreamReader, asyncio.StreamWriter], port: int, seconds: float) -> None:
    """Connect a browser to the server at `port`, and carry what they send each other until both have ended.

    browser: the reader and the writer of its connection.
    seconds: by how much each piece is delayed.
    """
    server = await asyncio.open_connection(HOST, port)
    with suppress(asyncio.CancelledError):  # at the end, which is no fault
        await asyncio.gather(_carry(browser[0], server[1], seconds), _carry(server[0], browser[1], seconds))


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float) -> None:
    """Write to the target what the source sends, in order, each piece `seconds` after it came. Close the target when
    the source has ended or one of the two connections has broken.
    """
    clock = asyncio.get_running_loop().time
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        """Put each piece that comes from the outer function's `source` into its queue `waiting`, with the time at which
        it is due; b"" marks the end.
        """
        data = b"?"
        while data:
            try:
                data = await source.read(65536)
            except ConnectionError:
                data = b""
            waiting.put_nowait((clock() + seconds, data))

    reading = asyncio.ensure_future(read())
    with suppress(ConnectionError):
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not data:
                break
            target.write(data)
            await target.drain()
    reading.cancel()
    target.close()
