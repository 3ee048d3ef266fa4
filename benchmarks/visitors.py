"""Visitors without a browser: they send a server what marimo's front end sends over its websocket and over HTTP, and
nothing else.
"""

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

SOCKET = "/ws"  # the websocket of a session, which is named as ?session_id=
SET_MODEL_VALUE = "/api/kernel/set_model_value"  # where the messages of an anywidget go
SET_VALUE = "/api/kernel/set_ui_element_value"  # where the values of marimo's own controls go
CALL_FUNCTION = "/api/kernel/function_call"  # where a control calls Python, as a part of the page does that loads late
SESSION_HEADER, TOKEN_HEADER = "Marimo-Session-Id", "Marimo-Server-Token"
MODEL_MESSAGE, RUN_ENDED = "model-lifecycle", "completed-run"  # kinds of messages from the server to a session
TOKEN_KEY = "serverToken"  # its name in the page's HTML
PATIENCE = 60  # seconds after which an answer counts as lost
CONTROL = re.compile(r"<marimo-ui-element object-id='([^']+)'[^>]*><marimo-[a-z-]+[^>]*? data-label='([^']+)'")
TAG = re.compile(r"<[^>]+>")
FILES = "Drop the files of your run here"  # how the label of the area for files begins


class Visitor:
    """A visitor with one session: a websocket, and one HTTP connection that stays open for requests."""

    def __init__(self, port: int):
        self.port = port
        self.token = ""
        self.id = f"s_{secrets.token_hex(3)}"
        # Each visitor has an address of its own, because a hundred sessions a minute from one address are refused.
        self.address = f"10.{'.'.join(str(byte) for byte in secrets.token_bytes(3))}"
        self.models: dict[str, str] = {}  # the id of each widget's model, by the name of the widget
        self.controls: dict[str, str] = {}  # the id of each control, by its label
        self.drawings: dict[str, dict] = {}  # the last drawing of each widget, by the id of its model
        self.state: dict = {}  # the state of the Lab's board, with its marks
        self.runs = 0  # how many runs of cells have ended
        self.messages: list[str] = []  # what the server sent until the page had run once
        self.arrival = asyncio.Condition()  # notified with every message that changes something
        self.listening: asyncio.Task | None = None
        self.lost = ""  # why the session ended; "" while it lives
        self.socket: ClientConnection | None = None
        self.writer: asyncio.StreamWriter | None = None

    @property
    def model_id(self) -> str:
        """The id of the board's widget model."""
        return self.models["board"]

    async def arrive(self) -> None:
        """Ask for the page, open the session, and read messages until the page's cells have run once."""
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
        """Flip one mark on the board as the page does, and return the seconds until the new drawing has come.

        answer, reward: the indices of the mark.
        """
        self.state["marks"][answer][reward] ^= 1
        marks, sent = json.loads(json.dumps(self.state["marks"])), time.perf_counter()
        await self.set("board", {"marks": marks, "active": answer})
        await self._until(lambda: self.drawings[self.model_id]["state"]["marks"] == marks)
        return time.perf_counter() - sent

    async def set(self, widget: str, state: dict) -> None:
        """Set traits of a widget, as the widget's half in the browser does.

        widget: the name of its class in lower case.
        state: the values by trait.
        """
        await self._to_model(self.models[widget], {"method": "update", "state": state, "bufferPaths": []})

    async def open(self, chapter: str) -> float:
        """Go to a chapter, and return the seconds until its cells have run."""
        runs, sent = self.runs, time.perf_counter()
        await self.set("nav", {"at": chapter, "asked": {}})
        await self._until(lambda: self.runs > runs)
        return time.perf_counter() - sent

    async def choose(self, values: Mapping[str, Any]) -> float:
        """Set controls of marimo, and return the seconds until the cells have run.

        values: from the beginning of a control's label to the control's new value.
        """
        runs, sent = self.runs, time.perf_counter()
        ids = [next(id for said, id in self.controls.items() if said.startswith(label)) for label in values]
        await self._post(SET_VALUE, json.dumps({"objectIds": ids, "values": list(values.values())}).encode())
        await self._until(lambda: self.runs > runs)
        return time.perf_counter() - sent

    async def upload(self, name: str, encoded: str) -> float:
        """Give the chapter Your run a file, and return the seconds until its audit is there.

        name: the name of the file.
        encoded: its content in base64, as the browser sends it.
        """
        return await self.choose({FILES: [[name, encoded]]})

    async def leave(self) -> None:
        if self.listening:
            self.listening.cancel()
        if self.writer:
            self.writer.close()
        if self.socket:
            await self.socket.close()

    async def _to_model(self, model_id: str, message: dict) -> None:
        """Send a message to the widget model with this id."""
        await self._post(SET_MODEL_VALUE, json.dumps({"modelId": model_id, "message": message, "buffers": []}).encode())

    async def _post(self, path: str, body: bytes) -> None:
        """Send a POST request over the open connection, and wait for the answer. Raises RuntimeError if the answer is
        not 200.
        """
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"{SESSION_HEADER}: {self.id}\r\n{TOKEN_HEADER}: {self.token}\r\n"
            f"Cookie: {self.cookie}\r\nX-Forwarded-For: {self.address}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        await asyncio.wait_for(self._until_answered(), PATIENCE)

    async def _until(self, there: Callable[[], bool]) -> None:
        """Wait until `there()` is true; it is called again whenever a message changes something. Raises ConnectionError
        if the session is lost, and TimeoutError after PATIENCE seconds.
        """
        async with self.arrival:
            await asyncio.wait_for(self.arrival.wait_for(lambda: self.lost or there()), PATIENCE)
        if self.lost:
            raise ConnectionError(f"a session was lost: {self.lost}")

    async def _listen(self) -> None:
        """Read messages as they come until the session ends. As in a browser, pings are answered meanwhile, and an old
        drawing is never taken for a new one. At the end `lost` says why the session ended.
        """
        try:
            async for message in self.socket:
                if self._record(str(message)):
                    await self._tell()
            self.lost = "the server closed it"
        except Exception as error:
            self.lost = repr(error)
        await self._tell()

    async def _tell(self) -> None:
        """Wake all who wait in `_until`, so that they ask again whether their condition holds."""
        async with self.arrival:
            self.arrival.notify_all()

    def _record(self, message: str) -> bool:
        """Keep what a message says of controls, widgets and drawings, and count it if it says that a run of the cells
        has ended. Return whether the message was the end of a run or a new drawing.
        """
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
        """Read one answer from the HTTP connection. Raises RuntimeError if its status is not 200."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.split("\r\n", 1)[0]:
            raise RuntimeError(f"the server answered a visitor with {head.splitlines()[0]}")
        length = re.search(r"(?i)content-length: (\d+)", head)
        await self.reader.readexactly(int(length.group(1)) if length else 0)


def label_of(attribute: str) -> str:
    """Return the text of a control's label, or "" if it has none.

    attribute: the value of `data-label` in the HTML of the page. It is a text in JSON, with escapes as in HTML; the
        tags in this text are dropped.
    """
    label = json.loads(unescape(attribute))
    return TAG.sub("", label) if label else ""


def greet(port: int) -> tuple[str, str]:
    """Return the token that the page's HTML gives to its front end, and the cookie by which a proxy knows this
    visitor. Raises RuntimeError if the HTML has no token.
    """
    with urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
        page, cookie = answer.read().decode(), answer.headers.get("set-cookie", "").split(";")[0]
    found = re.search(rf'"{TOKEN_KEY}": ?"([^"]+)"', page)
    if not found:
        raise RuntimeError("marimo's page no longer names its server token where it did")
    return found.group(1), cookie
