"""The bar that is always there: five chapters, the address that holds the state of all controls, and the program."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from views import address
from views.address import CHAPTERS

HERE = Path(__file__).parent


class Nav(anywidget.AnyWidget):
    """`at` and `asked` come from the browser: the chapter that is shown, and the query of the link that led to it."""

    _esm = (HERE / "nav.js").read_text(encoding="utf-8")
    _css = (HERE / "nav.css").read_text(encoding="utf-8")
    chapters = traitlets.List(list(map(list, CHAPTERS.items()))).tag(sync=True)  # (name, title)
    at = traitlets.Unicode().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    editing = traitlets.Bool().tag(sync=True)  # in `marimo edit` all chapters are there, below each other
    notes = traitlets.List().tag(sync=True)
    controls = traitlets.Dict().tag(sync=True)  # what each writes into the address, "" where untouched
    programs = traitlets.Dict().tag(sync=True)  # by chapter: a program that prints its numbers

    def __init__(self, params: Mapping[str, str | list[str]], editing: bool) -> None:
        self._given, notes = address.read(params)
        at = params.get("at")
        super().__init__(at=at if at in CHAPTERS else "lab", editing=editing, notes=notes)

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

    def given(self, key: str, options: Collection[Any] | None = None, default: Any = None) -> Any:
        """What the address says of a control; the default where it says nothing, or, with a note, no option."""
        fallback = address.CONTROLS[key].default if default is None else default
        value = self._given.get(key)
        if value is None or options is None or value in options:
            return fallback if value is None else value
        listed = ", ".join(str(option) for option in options if option != "")
        self.refuse(key, f"one of {listed}" if len(listed) < 250 else "a name that is known here", str(value))
        return fallback

    def refuse(self, key: str, expected: str, got: str) -> None:
        """A note that a part of the address was of no use to its chapter."""
        note = f"{key}: expected {expected}, got “{address.clipped(got)}”"
        self.notes = [*self.notes, *([] if note in self.notes else [note])]

    def write(
        self, chapter: str, values: Mapping[str, Any], untouched: Mapping[str, Any] | None = None, program: str = ""
    ) -> None:
        """Where a chapter's controls stand, and where they stand untouched; the program that prints its numbers."""
        with self.hold_sync():
            self.controls = self.controls | address.write(values, untouched or {})
            self.programs = self.programs | {chapter: program}
