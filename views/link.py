"""What a link can carry: every control of every chapter, typed, so that a link restores the page it was copied from.

A control that is as it was stays out of the link. What a link holds beyond its range is brought into it; what cannot
be read is left out, with a note for the reader.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gdpo_core.frameworks import READABLE

VERSION = "1"
CHAPTERS = {"lab": "Lab", "train": "Train", "evidence": "Evidence", "run": "Your run", "use": "Use it"}
LONGEST = 600  # characters of one value; a link that holds more was not made here
# marimo's own keys, and those a Space's frame adds.
FOREIGN = {"theme", "session_id", "access_token", "refresh_token", "file", "show-chrome", "logs"}


@dataclass(frozen=True)
class Control:
    """One control: its key in the link, and how its value is read from text and written as text.

    `read` raises ValueError with what it expected. `default` None: the chapter decides, from its task or scenario.
    """

    key: str
    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str

    @property
    def chapter(self) -> str:
        return self.key.split("-")[0]


def choice(key: str, options: tuple[str, ...], default: str | None = None) -> Control:
    """One of several words; the first by default."""

    def read(text: str) -> str:
        if text not in options:
            raise ValueError(f"one of {', '.join(options)}")
        return text

    return Control(key, options[0] if default is None else default, read)


def word(key: str) -> Control:
    """A short word that only its chapter can judge, such as the name of a task."""
    return Control(key, None, lambda text: text)


def number(key: str, low: float, high: float, default: float | None) -> Control:
    """A number, brought into its range."""
    return Control(key, default, lambda text: _number(text, low, high), _short)


def whole(key: str, low: int, high: int, default: int | None) -> Control:
    """A whole number, brought into its range."""
    return Control(key, default, lambda text: round(_number(text, low, high)), str)


def numbers(key: str, low: float, high: float) -> Control:
    """Several numbers, each brought into the range; how many there must be is up to the chapter."""
    return Control(
        key,
        None,
        lambda text: tuple(_number(part, low, high) for part in text.split("_")),
        lambda values: "_".join(map(_short, values)),
    )


def marks(key: str) -> Control:
    """Rows of 0 and 1, one row per answer, joined by dots."""

    def read(text: str) -> tuple[tuple[int, ...], ...]:
        rows = tuple(tuple(map(int, row)) for row in text.split(".") if row and set(row) <= {"0", "1"})
        if ".".join("".join(map(str, row)) for row in rows) != text:
            raise ValueError("rows of 0 and 1, joined by dots")
        return rows

    return Control(key, None, read, lambda rows: ".".join("".join(map(str, row)) for row in rows))


def switch(key: str) -> Control:
    """Off by default."""
    return choice(key, ("0", "1"))


def _number(text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"a number from {low:g} to {high:g}") from None
    if value != value:
        raise ValueError(f"a number from {low:g} to {high:g}")
    return min(max(value, low), high)


def _short(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


CONTROLS = {
    control.key: control
    for control in (
        word("lab-task"),
        marks("lab-marks"),
        numbers("lab-pays", 0.1, 100),
        numbers("lab-weights", 0, 5),
        word("lab-convention"),
        word("lab-method"),
        numbers("lab-books", 1, 10),
        word("train-scenario"),
        choice("train-compare", ("equal", "published", "neither")),
        numbers("train-start", 0.001, 0.99),
        numbers("train-pays", 0.1, 100),
        numbers("train-weights", 0, 10),
        word("train-method"),
        numbers("train-more", 0, 1000),
        word("train-gate"),
        whole("evidence-group", 2, 71, 12),
        whole("evidence-draw", 0, 99, 0),
        word("evidence-kind"),
        word("evidence-graders"),
        number("evidence-weight", 1, 5, 1),
        word("evidence-prompt"),
        word("run-sample"),
        word("run-primary"),
        choice("run-framework", ("", *READABLE)),
        *(Control(f"run-{key}", "", str) for key in ("group_size", "rewards", "group", "weights")),
        word("use-framework"),
        word("use-gate"),
        word("use-source"),
    )
}


def parse(params: Mapping[str, str | list[str]]) -> tuple[dict[str, Any], list[str]]:
    """The values that a link's query holds, and a note for each part that was left out.

    >>> parse({"lab-pays": "1_10_1000", "evidence-draw": "7", "at": "lab"})
    ({'lab-pays': (1.0, 10.0, 100), 'evidence-draw': 7}, [])
    >>> parse({"evidence-draw": "many", "lab-colour": "red"})[1]
    ['evidence-draw: expected a number from 0 to 99, got “many”', 'lab-colour is not known here']
    """
    values: dict[str, Any] = {}
    notes: list[str] = []
    for key, given in params.items():
        text = given[-1] if isinstance(given, list) and given else str(given)
        if key in FOREIGN or key.startswith("__") or key in ("at", "embed"):
            continue
        if key == "v":
            if text != VERSION:
                notes.append(f"This link was made by version {_clipped(text)} of the page, this is version {VERSION}")
        elif key not in CONTROLS:
            notes.append(f"{_clipped(key)} is not known here")
        elif len(text) > LONGEST:
            notes.append(f"{key} is longer than {LONGEST} characters")
        else:
            try:
                values[key] = CONTROLS[key].read(text)
            except ValueError as error:
                notes.append(f"{key}: expected {error}, got “{_clipped(text)}”")
    return values, notes


def _clipped(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


@dataclass
class Session:
    """One visitor's page: what the link brought, and where each chapter's controls stand now.

    A chapter asks `start` for the value to begin with, and hands what holds the current value to `keep`. Other chapters
    ask `now`. That is a plain call and no dependency between cells, so that no chapter reruns another.
    """

    brought: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    current: dict[str, Callable[[], Any]] = field(default_factory=dict)
    defaults: dict[str, Callable[[], Any]] = field(default_factory=dict)
    programs: dict[str, Callable[[], str]] = field(default_factory=dict)
    charts: dict[str, Callable[[], str]] = field(default_factory=dict)  # by a chart's name, its numbers as CSV
    lab: Any = None  # the Lab's widget, whose `state` other chapters read
    sample: Any = None  # what Your run showed before the reader did anything there
    audited: Any = None  # the report of Your run, once there is one
    heard: Callable[[], None] = lambda: None  # what to do when there is a new note

    @classmethod
    def of(cls, params: Mapping[str, str | list[str]]) -> "Session":
        """The session of a visitor who came by this link."""
        return cls(*parse(params))

    def start(self, key: str, default: Any = None) -> Any:
        """The value that the link brought, once; afterwards, and without a link, the default."""
        fallback = CONTROLS[key].default if default is None else default
        return self.brought.pop(key, fallback)

    def refuse(self, key: str, expected: str) -> None:
        """A note that the link's value was of no use to its chapter."""
        self.notes.append(f"{key}: expected {expected}")
        self.heard()

    def keep(self, key: str, value: Callable[[], Any], default: Any = None) -> None:
        """From now on `value()` is where this control stands, and `default` where it stands untouched."""
        fallback = CONTROLS[key].default if default is None else default
        self.current[key] = value
        self.defaults[key] = fallback if callable(fallback) else lambda: fallback

    def now(self, key: str) -> Any:
        """Where a control stands: its chapter's word for it, else what the link says, else the default."""
        if key in self.current:
            return self.current[key]()
        return self.brought.get(key, CONTROLS[key].default)

    def query(self, chapter: str) -> str:
        """The query of a link to this chapter with all that is not as it was, there and in the Lab."""
        pairs = [("v", VERSION), ("at", chapter)]
        for key, control in CONTROLS.items():
            if control.chapter not in ("lab", chapter):
                continue
            if key in self.current:
                value = self.current[key]()
                if value is None or value == self.defaults[key]():
                    continue
            elif key in self.brought:
                value = self.brought[key]
            else:
                continue
            pairs.append((key, control.write(value)))
        return "&".join(f"{key}={quote(text, safe='._-')}" for key, text in pairs)
