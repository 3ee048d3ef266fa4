"""Visitors without a browser, who send a server whatever they like and keep all that it answers."""

import json
import re
import secrets
import urllib.error
import urllib.request
from contextlib import contextmanager

from websockets.sync.client import connect

from benchmarks.visitors import (
    MODEL_MESSAGE,
    RUN_ENDED,
    SESSION_HEADER,
    SET_MODEL_VALUE,
    SET_VALUE,
    SOCKET,
    TOKEN_HEADER,
    greet,
)


class Guest:
    """A visitor with one session. `messages` holds every message of the server, in order."""

    def __init__(self, url: str, socket, token: str, name: str):
        self.url, self.socket, self.token, self.name = url, socket, token, name
        self.messages: list[str] = []
        self.models: dict[str, dict] = {}  # This maps the id of a widget to every state that it had.

    def receive(self, until, patience: float = 120) -> dict:
        """Return the next message for which `until` is true, after waiting for it."""
        while True:
            self.messages.append(str(self.socket.recv(timeout=patience)))
            told = json.loads(self.messages[-1])
            told = {"op": told["op"], **told.get("data", told)}
            if told["op"] == MODEL_MESSAGE:
                self.models.setdefault(told["model_id"], {}).update(told["message"].get("state", {}))
            if until(told):
                return told

    def rest(self) -> None:
        """Wait until the page has run."""
        self.receive(lambda told: told["op"] == RUN_ENDED)

    def having(self, trait: str) -> str:
        """Return the id of the widget that has this trait."""
        return next(id for id, held in self.models.items() if trait in held)

    def say(self, model: str, content, session: str = "") -> int:
        """Send a message of a widget, as its JavaScript does; return the status. model: the widget's id; session: by
        default that of the visitor.
        """
        message = {"method": "custom", "content": content}
        return self.post(SET_MODEL_VALUE, {"modelId": model, "message": message, "buffers": []}, session)[0]

    def set(self, model: str, session: str = "", **state) -> int:
        """Set traits of a widget, as its JavaScript does; return the status. model: the widget's id; state: the values
        by trait.
        """
        message = {"method": "update", "state": state, "bufferPaths": []}
        return self.post(SET_MODEL_VALUE, {"modelId": model, "message": message, "buffers": []}, session)[0]

    def choose(self, element: str, value, session: str = "") -> int:
        """Set a control of marimo; return the status. element: the control's id."""
        return self.post(SET_VALUE, {"objectIds": [element], "values": [value]}, session)[0]

    def post(self, path: str, body, session: str = "") -> tuple[int, bytes]:
        """Send a POST request; return the status and the body of the answer. body: bytes, or a value to send as
        JSON.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {TOKEN_HEADER: self.token, SESSION_HEADER: session or self.name, "Content-Type": "application/json"}
        return answer(urllib.request.Request(self.url + path, raw, headers))

    def controls(self, element: str) -> list[str]:
        """Return the ids of all controls of this kind that the page has shown, the latest last. element: the name of
        the HTML element.
        """
        shown = re.compile(rf"<marimo-ui-element object-id='([^']+)'[^>]*><{element}")
        return list(dict.fromkeys(shown.findall("".join(self.messages))))


@contextmanager
def guest(url: str, name: str = "", query: str = ""):
    """Yield a visitor who has opened the page. name: of the session; query: further parameters of its address."""
    name = name or f"s_{secrets.token_hex(12)}"
    port = int(url.rsplit(":", 1)[1])
    token = greet(port)[0]
    with connect(f"ws://127.0.0.1:{port}{SOCKET}?session_id={name}{query}", max_size=None, proxy=None) as socket:
        visitor = Guest(url, socket, token, name)
        visitor.rest()
        yield visitor


def answer(request: urllib.request.Request | str) -> tuple[int, bytes]:
    """Return the status and the body of an answer, also of a refusal."""
    try:
        with urllib.request.urlopen(request, timeout=30) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()
