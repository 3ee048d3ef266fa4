"""Visitors without a browser: what marimo's front end says over its websocket and its HTTP interface, and no more."""

import asyncio
import json
import re
import secrets
import time
from urllib.request import urlopen

from websockets.asyncio.client import ClientConnection, connect

from marimo_private import (
    MODEL_MESSAGE,
    RUN_ENDED,
    SESSION_HEADER,
    SET_MODEL_VALUE,
    SOCKET,
    TOKEN_HEADER,
    TOKEN_KEY,
)

CONTROLS = ("task", "marks", "pays", "weights", "convention", "method")  # of the Lab, which each of its messages names


class Visitor:
    """One session: its websocket, and one HTTP connection that stays open for its flips."""

    def __init__(self, port: int):
        self.port = port
        self.token = ""
        self.id = f"s_{secrets.token_hex(3)}"
        self.model_id = ""
        self.state: dict = {}  # where the Lab's controls stand
        self.asked = 0
        self.told: list[str] = []  # while it arrives
        self.drawn = asyncio.Event()

    async def arrive(self) -> None:
        """Ask for the page, open the session and read until the page has run once."""
        self.token, self.cookie = await asyncio.to_thread(greeted, self.port)
        url = f"ws://127.0.0.1:{self.port}{SOCKET}?session_id={self.id}"
        self.socket: ClientConnection = await connect(
            url, max_size=None, compression=None, proxy=None, additional_headers={"Cookie": self.cookie}
        )
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        while True:
            self.told.append(str(await self.socket.recv()))
            told = json.loads(self.told[-1])
            data = told.get("data", told)
            if told["op"] == MODEL_MESSAGE and "drawing" in data["message"].get("state", {}):
                self.model_id = data["model_id"]
                self.state = data["message"]["state"]["drawing"]["state"]
            if told["op"] == RUN_ENDED:
                break
        self.listening = asyncio.create_task(self._listen())

    async def flip(self, answer: int, reward: int) -> float:
        """Flip one mark as the page does: a message with all controls; the seconds until its drawing is there."""
        self.state["marks"][answer][reward] ^= 1
        self.asked += 1
        self.drawn.clear()
        controls = {name: self.state[name] for name in CONTROLS}
        sent = time.perf_counter()
        await self._post({"method": "custom", "content": {**controls, "n": self.asked, "active": None, "open": []}})
        await asyncio.wait_for(self.drawn.wait(), 60)
        return time.perf_counter() - sent

    async def _post(self, message: dict) -> None:
        body = json.dumps({"modelId": self.model_id, "message": message, "buffers": []}).encode()
        head = (
            f"POST {SET_MODEL_VALUE} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"{SESSION_HEADER}: {self.id}\r\n{TOKEN_HEADER}: {self.token}\r\nCookie: {self.cookie}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        await self._until_answered()

    async def _listen(self) -> None:
        """Read all the time, as a browser does: pings are answered, and no old drawing passes for a new one."""
        async for message in self.socket:
            if '"drawing"' not in str(message):
                continue
            told = json.loads(message)
            state = told.get("data", told)["message"].get("state", {})
            if state.get("drawing", {}).get("n") == self.asked:
                self.drawn.set()

    async def _until_answered(self) -> None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.split("\r\n", 1)[0]:
            raise RuntimeError(f"the server answered a flip with {head.splitlines()[0]}")
        length = re.search(r"(?i)content-length: (\d+)", head)
        await self.reader.readexactly(int(length.group(1)) if length else 0)

    async def leave(self) -> None:
        self.writer.close()
        self.listening.cancel()
        await self.socket.close()


def greeted(port: int) -> tuple[str, str]:
    """The token that the page's HTML hands to its front end, and the cookie by which a proxy knows the visitor."""
    with urlopen(f"http://127.0.0.1:{port}/") as answer:
        page, cookie = answer.read().decode(), answer.headers.get("set-cookie", "").split(";")[0]
    found = re.search(rf'"{TOKEN_KEY}": ?"([^"]+)"', page)
    if not found:
        raise RuntimeError("marimo's page no longer names its server token where it did")
    return found.group(1), cookie
