"""The bar at the top of the page. It leads to the five chapters and keeps the state of all controls in the address. For
each chapter it offers a program to copy that prints the numbers of the chapter.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from gdpo_core.shared.markup import Html, tag
from views.widgets import address
from views.widgets.address import CHAPTERS, DEEDS

_HERE = Path(__file__).parent


class Nav(anywidget.AnyWidget):
    """The bar at the top of the page, which also keeps the address. The browser sets the traits `at` and `asked`.

    at: the chapter that is shown.
    asked: what the link by which the reader came asks for: the values in its query, as texts by their keys, without the
        key "at".
    params: the query of the address with which the page was opened.
    editing: whether the page runs in `marimo edit`.
    """

    _esm = (_HERE / "nav.js").read_text(encoding="utf-8")
    _css = (_HERE / "nav.css").read_text(encoding="utf-8")
    chapters = traitlets.List(list(map(list, CHAPTERS.items()))).tag(sync=True)  # (name, title)
    at = traitlets.Unicode().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    editing = traitlets.Bool().tag(sync=True)  # in `marimo edit` all chapters are there, and open once they are seen
    unread = traitlets.Bool().tag(sync=True)  # whether a part of the link was not understood
    controls = traitlets.Dict().tag(sync=True)  # by control: its value in the address as text, "" where untouched
    headline = traitlets.Unicode().tag(sync=True)  # the sentence on what the Lab's board shows
    finished: Any = traitlets.List().tag(sync=True)  # the sentences in DEEDS of what was tried in this visit, in order
    programs = traitlets.Dict().tag(sync=True)  # by chapter: a program that prints its numbers

    def __init__(self, params: Mapping[str, str | list[str]], editing: bool) -> None:
        self._given, unread = address.read_address(params)
        at = params.get("at")
        self._done = set(self._given.get("done", ()))
        super().__init__(at=at if at in CHAPTERS else "lab", editing=editing, unread=unread)

    @traitlets.validate("at")
    def _chapter(self, proposal: Any) -> str:
        if proposal["value"] not in CHAPTERS:
            raise traitlets.TraitError(f"at: expected one of {', '.join(CHAPTERS)}, got {proposal['value']!r:.80}")
        return proposal["value"]

    @traitlets.validate("asked")
    def _texts(self, proposal: Any) -> dict:
        if not all(isinstance(value, str) for value in proposal["value"].values()):
            raise traitlets.TraitError(f"asked: expected texts, got {proposal['value']!r:.80}")
        return proposal["value"]

    def restore(
        self, key: str, options: Collection[Any] | None = None, default: Any = None, many: int | None = None
    ) -> Any:
        """Restore a control: return the value that the address held for it when the page was opened, or its default.

        If that value does not fit, the page says in `unread` that a part of the link was not understood.

        key: the key of the control in CONTROLS.
        options: the values that fit, by default all.
        default: None for the default of the control in CONTROLS.
        many: how many numbers the value has to have, by default any.
        """
        value = self._given.get(key)
        if value is not None:
            if address.fits(value, options, many):
                return value
            self.unread = True
        return address.CONTROLS[key].default if default is None else default

    def write(
        self, chapter: str, values: Mapping[str, Any], untouched: Mapping[str, Any] | None = None, program: str = ""
    ) -> None:
        """Put the values of a chapter's controls into the address, and keep the program that prints the chapter's
        numbers.

        chapter: the key of the chapter.
        values: the values by control, a key of CONTROLS. The address leaves out a value that the reader has not moved.
        untouched: by control, the value before the reader moves it, where that is not the default in CONTROLS.
        program: the text of the program.
        """
        with self.hold_sync():
            self.controls = self.controls | address.write_address(values, untouched or {})
            self.programs = self.programs | {chapter: program}

    def deed(self, name: str, done: bool) -> Html:
        """Return the line that says what a reader may try, with a tick once that has been done.

        A deed that was done once stays done, and the address remembers it. When it is done for the first time, its
        sentence in DEEDS is appended to `finished`, and nav.js shows it.

        name: a key of DEEDS, what may be tried.
        done: whether the reader has done it now.
        """
        if done and name not in self._done:
            self._done.add(name)
            self.finished = [*self.finished, DEEDS[name]]
        self.write("deeds", {"done": tuple(deed for deed in DEEDS if deed in self._done)})
        state = tag("b", "✓ Done:" if name in self._done else "Try:")
        return tag("p", state, f" {DEEDS[name]}", kind="deed done" if name in self._done else "deed")
