"""The address is the state: what each control writes into it, and how it is read back, typed and clamped.

A control that is as it was stays out of the address. A value beyond its range is brought into it; what cannot be read
is left out, with a note for the reader.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gdpo_core.frameworks import READABLE

VERSION = "1"
CHAPTERS = {"lab": "Lab", "train": "Train", "evidence": "Evidence", "run": "Your run", "use": "Use it"}
LONGEST = 600  # characters of one value; an address that holds more was not made here
# marimo's own keys, and those a Space's frame adds.
FOREIGN = {"theme", "session_id", "access_token", "refresh_token", "file", "show-chrome", "logs", "at", "embed"}


@dataclass(frozen=True)
class Control:
    """How one control's value is read from text and written as text; `read` raises ValueError with what it expected.

    `default` None: the chapter decides, from its task or scenario.
    """

    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


def number(low: float, high: float, default: float | None, kind: Callable[[float], Any] = float) -> Control:
    """A number, brought into its range."""

    def read(text: str) -> Any:
        return kind(_number(text, low, high))

    return Control(default, read, _short)


def numbers(low: float, high: float) -> Control:
    """Several numbers, each brought into the range; how many there must be is up to the chapter."""
    return Control(
        None,
        lambda text: tuple(_number(part, low, high) for part in text.split("_")),
        lambda values: "_".join(map(_short, values)),
    )


def choice(*options: str) -> Control:
    """One of several words; the first by default."""

    def read(text: str) -> str:
        if text not in options:
            raise ValueError(f"one of {', '.join(options)}")
        return text

    return Control(options[0], read)


def word(default: str | None = None) -> Control:
    """A short word that only its chapter can judge, such as the name of a task."""
    return Control(default, str)


def _marks(text: str) -> tuple[tuple[int, ...], ...]:
    rows = tuple(tuple(map(int, row)) for row in text.split(".") if row and set(row) <= {"0", "1"})
    if write_marks(rows) != text:
        raise ValueError("rows of 0 and 1, joined by dots")
    return rows


def write_marks(rows: tuple[tuple[int, ...], ...]) -> str:
    """Rows of 0 and 1, joined by dots."""
    return ".".join("".join(map(str, row)) for row in rows)


def _number(text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value:
        raise ValueError(f"a number from {low:g} to {high:g}")
    return min(max(value, low), high)


def _short(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


CONTROLS = {
    "lab-task": word(),
    "lab-marks": Control(None, _marks, write_marks),
    "lab-pays": numbers(0.1, 100),
    "lab-weights": numbers(0, 5),
    "lab-convention": word("paper"),
    "lab-method": word("gdpo"),
    "lab-books": numbers(1, 10),
    "train-scenario": word(),
    "train-compare": choice("equal", "published", "neither"),
    "train-start": numbers(0.001, 0.99),
    "train-pays": numbers(0.1, 100),
    "train-weights": numbers(0, 10),
    "train-method": word(""),
    "train-more": numbers(0, 1000),
    "train-gate": word(),
    "evidence-group": number(2, 71, 12, round),
    "evidence-draw": number(0, 99, 0, round),
    "evidence-kind": word(""),
    "evidence-graders": word(),
    "evidence-weight": number(1, 5, 1.0),
    "evidence-prompt": word(""),
    "run-sample": word(),
    "run-primary": word(),
    "run-framework": choice("", *READABLE),
    **{f"run-{key}": word("") for key in ("group_size", "rewards", "group", "weights", "if_method", "if_weights")},
    "use-framework": word(),
    "use-gate": word(),
    "use-source": word(),
}


def read(params: Mapping[str, str | list[str]]) -> tuple[dict[str, Any], list[str]]:
    """The values that an address holds, by control, and a note for each part that was left out.

    >>> read({"lab-pays": "1_10_1000", "evidence-draw": "7", "at": "lab"})
    ({'lab-pays': (1.0, 10.0, 100), 'evidence-draw': 7}, [])
    >>> read({"evidence-draw": "many", "lab-colour": "red"})[1]
    ['evidence-draw: expected a number from 0 to 99, got “many”', 'lab-colour is not known here']
    """
    values: dict[str, Any] = {}
    notes: list[str] = []
    for key, given in params.items():
        text = given[-1] if isinstance(given, list) and given else str(given)
        if key in FOREIGN or key.startswith("__"):
            continue
        if key == "v":
            if text != VERSION:
                notes.append(f"This link was made by version {clipped(text)} of the page, this is version {VERSION}")
        elif key not in CONTROLS:
            notes.append(f"{clipped(key)} is not known here")
        elif len(text) > LONGEST:
            notes.append(f"{key} is longer than {LONGEST} characters")
        else:
            try:
                values[key] = CONTROLS[key].read(text)
            except ValueError as error:
                notes.append(f"{key}: expected {error}, got “{clipped(text)}”")
    return values, notes


def write(values: Mapping[str, Any], untouched: Mapping[str, Any]) -> dict[str, str]:
    """The values as text, by control; "" for one that is None or as it was untouched.

    >>> write({"evidence-draw": 7, "evidence-group": 12, "lab-weights": (1.0, 2.5, 1.0)}, {})
    {'evidence-draw': '7', 'evidence-group': '', 'lab-weights': '1_2.5_1'}
    """
    moved = {key: value not in (None, untouched.get(key, CONTROLS[key].default)) for key, value in values.items()}
    return {key: CONTROLS[key].write(value) if moved[key] else "" for key, value in values.items()}


def clipped(text: str) -> str:
    """At most 40 characters."""
    return text if len(text) <= 40 else text[:39] + "…"
