"""Visitors without a browser: what marimo's front end says over its websocket and its HTTP interface, and no more."""

import asyncio
import json
import re
import secrets
import time
from urllib.request import urlopen

from websockets.asyncio.client import ClientConnection, connect

SETTLED = 0.3  # seconds, as in views/board.js


class Visitor:
    """One session: its websocket, and one HTTP connection that stays open for its flips."""

    def __init__(self, port: int, token: str):
        self.port, self.token = port, token
        self.id = f"s_{secrets.token_hex(3)}"
        self.model_id = ""
        self.passed: list[list[int]] = []

    async def arrive(self) -> None:
        """Open the session and read until the page has run once."""
        url = f"ws://127.0.0.1:{self.port}/ws?session_id={self.id}"
        self.socket: ClientConnection = await connect(url, max_size=None, compression=None, proxy=None)
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        while True:
            told = json.loads(await self.socket.recv())
            data = told.get("data", told)
            if told["op"] == "model-lifecycle" and "passed" in data["message"].get("state", {}):
                self.model_id = data["model_id"]
                self.passed = data["message"]["state"]["passed"]
            if told["op"] == "completed-run":
                return

    async def flip(self, answer: int, reward: int) -> float:
        """Flip one mark as the page does: ask for the drawing, and tell the other cells a little later."""
        self.passed[answer][reward] ^= 1
        drawn = asyncio.create_task(self._until_drawn())
        sent = time.perf_counter()
        await self._post({"method": "custom", "content": {"passed": self.passed}})
        await asyncio.wait_for(drawn, 60)
        seconds = time.perf_counter() - sent
        await asyncio.sleep(SETTLED)
        await self._post({"method": "update", "state": {"passed": self.passed}, "bufferPaths": []})
        return seconds

    async def _post(self, message: dict) -> None:
        body = json.dumps({"modelId": self.model_id, "message": message, "buffers": []}).encode()
        head = (
            f"POST /api/kernel/set_model_value HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Marimo-Session-Id: {self.id}\r\nMarimo-Server-Token: {self.token}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        await self._until_answered()

    async def _until_drawn(self) -> None:
        while '"drawing"' not in str(await self.socket.recv()):
            pass

    async def _until_answered(self) -> None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.split("\r\n", 1)[0]:
            raise RuntimeError(f"the server answered a flip with {head.splitlines()[0]}")
        length = re.search(r"(?i)content-length: (\d+)", head)
        await self.reader.readexactly(int(length.group(1)) if length else 0)

    async def leave(self) -> None:
        self.writer.close()
        await self.socket.close()


def token_of(port: int) -> str:
    """The token that the page's HTML hands to its front end."""
    page = urlopen(f"http://127.0.0.1:{port}/").read().decode()
    found = re.search(r'"serverToken": ?"([^"]+)"', page)
    if not found:
        raise RuntimeError("marimo's page no longer names its server token where it did")
    return found.group(1)
