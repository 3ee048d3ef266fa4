"""Visitors without a browser: what marimo's front end says over its websocket and its HTTP interface, and no more."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any
from urllib.request import urlopen

from websockets.asyncio.client import ClientConnection, connect

SOCKET = "/ws"  # of a session, which it names as ?session_id=
SET_MODEL_VALUE = "/api/kernel/set_model_value"  # where an anywidget's messages go
SET_VALUE = "/api/kernel/set_ui_element_value"  # where those of marimo's own controls go
CALL_FUNCTION = "/api/kernel/function_call"  # by which a control asks Python, such as a part of the page that is late
SESSION_HEADER, TOKEN_HEADER = "Marimo-Session-Id", "Marimo-Server-Token"
MODEL_MESSAGE, RUN_ENDED = "model-lifecycle", "completed-run"  # what the server tells a session
TOKEN_KEY = "serverToken"  # in the page's HTML
PATIENCE = 60  # seconds, after which an answer counts as lost
CONTROL = re.compile(r"<marimo-ui-element object-id='([^']+)'[^>]*><marimo-[a-z-]+[^>]*? data-label='([^']+)'")
TAG = re.compile(r"<[^>]+>")
FILES = "Drop the files of your run here"  # how the label of the area for files begins


class Visitor:
    """One session: its websocket, and one HTTP connection that stays open for what it asks."""

    def __init__(self, port: int):
        self.port = port
        self.token = ""
        self.id = f"s_{secrets.token_hex(3)}"
        # Of an address of its own: from one, a hundred sessions in a minute are refused.
        self.address = f"10.{'.'.join(str(byte) for byte in secrets.token_bytes(3))}"
        self.models: dict[str, str] = {}  # by a widget's name its id
        self.controls: dict[str, str] = {}  # by the label of a control its id
        self.drawings: dict[str, dict] = {}  # by widget's id, its last drawing
        self.state: dict = {}  # where the Lab's controls stand
        self.runs = 0  # of cells, which have ended
        self.messages: list[str] = []  # while it arrives
        self.arrival = asyncio.Condition()
        self.listening: asyncio.Task | None = None
        self.lost = ""  # why nothing more is heard
        self.socket: ClientConnection | None = None
        self.writer: asyncio.StreamWriter | None = None

    @property
    def model_id(self) -> str:
        """The board's."""
        return self.models["board"]

    async def arrive(self) -> None:
        """Ask for the page, open the session and read until the page has run once."""
        self.token, self.cookie = await asyncio.to_thread(greet, self.port)
        url = f"ws://127.0.0.1:{self.port}{SOCKET}?session_id={self.id}"
        self.socket = await connect(
            url,
            max_size=None,
            compression=None,
            proxy=None,
            additional_headers={"Cookie": self.cookie, "X-Forwarded-For": self.address},
        )
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        while not self.runs:
            self.messages.append(str(await asyncio.wait_for(self.socket.recv(), PATIENCE)))
            self._record(self.messages[-1])
        self.state = self.drawings[self.model_id]["state"]
        self.listening = asyncio.create_task(self._listen())

    async def flip(self, answer: int, reward: int) -> float:
        """Flip one mark as the page does; the seconds until its drawing is there."""
        self.state["marks"][answer][reward] ^= 1
        marks, sent = json.loads(json.dumps(self.state["marks"])), time.perf_counter()
        await self.set("board", {"marks": marks, "active": answer})
        await self._until(lambda: self.drawings[self.model_id]["state"]["marks"] == marks)
        return time.perf_counter() - sent

    async def set(self, widget: str, state: dict) -> None:
        """Set traits of a widget, as its browser's half does."""
        await self._to_model(self.models[widget], {"method": "update", "state": state, "bufferPaths": []})

    async def open(self, chapter: str) -> float:
        """Come to a chapter; the seconds until its cells have run."""
        runs, sent = self.runs, time.perf_counter()
        await self.set("nav", {"at": chapter, "asked": {}})
        await self._until(lambda: self.runs > runs)
        return time.perf_counter() - sent

    async def choose(self, values: Mapping[str, Any]) -> float:
        """Set marimo's controls, each by the beginning of its label; the seconds until the cells have run."""
        runs, sent = self.runs, time.perf_counter()
        ids = [next(id for said, id in self.controls.items() if said.startswith(label)) for label in values]
        await self._post(SET_VALUE, json.dumps({"objectIds": ids, "values": list(values.values())}).encode())
        await self._until(lambda: self.runs > runs)
        return time.perf_counter() - sent

    async def upload(self, name: str, encoded: str) -> float:
        """Give Your run a file, in base64 as the browser sends it; the seconds until the audit is there."""
        return await self.choose({FILES: [[name, encoded]]})

    async def leave(self) -> None:
        if self.listening:
            self.listening.cancel()
        if self.writer:
            self.writer.close()
        if self.socket:
            await self.socket.close()

    async def _to_model(self, model_id: str, message: dict) -> None:
        await self._post(SET_MODEL_VALUE, json.dumps({"modelId": model_id, "message": message, "buffers": []}).encode())

    async def _post(self, path: str, body: bytes) -> None:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"{SESSION_HEADER}: {self.id}\r\n{TOKEN_HEADER}: {self.token}\r\n"
            f"Cookie: {self.cookie}\r\nX-Forwarded-For: {self.address}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        await asyncio.wait_for(self._until_answered(), PATIENCE)

    async def _until(self, there: Callable[[], bool]) -> None:
        async with self.arrival:
            await asyncio.wait_for(self.arrival.wait_for(lambda: self.lost or there()), PATIENCE)
        if self.lost:
            raise ConnectionError(f"a session was lost: {self.lost}")

    async def _listen(self) -> None:
        """Read all the time, as a browser does: pings are answered, and no old drawing passes for a new one."""
        try:
            async for message in self.socket:
                if self._record(str(message)):
                    await self._tell()
            self.lost = "the server closed it"
        except Exception as error:
            self.lost = repr(error)
        await self._tell()

    async def _tell(self) -> None:
        async with self.arrival:
            self.arrival.notify_all()

    def _record(self, message: str) -> bool:
        """Keep what the page would keep; whether there was anything."""
        if RUN_ENDED in message[:60]:
            self.runs += 1
            return True
        if "<marimo-ui-element" in message:
            self.controls |= {label_of(label): control for control, label in CONTROL.findall(message)}
        if MODEL_MESSAGE not in message[:60]:
            return False
        content = json.loads(message)
        content = content.get("data", content)
        state = content["message"].get("state", {})
        if content["message"]["method"] == "open" and "_anywidget_id" in state:
            kind = state["_anywidget_id"].rsplit(".", 1)[1].lower()
            self.models[kind] = content["model_id"]
        if "drawing" in state:
            self.drawings[content["model_id"]] = state["drawing"]
        return "drawing" in state

    async def _until_answered(self) -> None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.split("\r\n", 1)[0]:
            raise RuntimeError(f"the server answered a visitor with {head.splitlines()[0]}")
        length = re.search(r"(?i)content-length: (\d+)", head)
        await self.reader.readexactly(int(length.group(1)) if length else 0)


def label_of(attribute: str) -> str:
    """Return the text of a control's label: JSON of HTML, in an attribute."""
    label = json.loads(unescape(attribute))
    return TAG.sub("", label) if label else ""


def greet(port: int) -> tuple[str, str]:
    """Return the token that the page's HTML hands to its front end, and the cookie by which a proxy knows a visitor."""
    with urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
        page, cookie = answer.read().decode(), answer.headers.get("set-cookie", "").split(";")[0]
    found = re.search(rf'"{TOKEN_KEY}": ?"([^"]+)"', page)
    if not found:
        raise RuntimeError("marimo's page no longer names its server token where it did")
    return found.group(1), cookie
