"""The address of the page: its query holds the values of the controls, and this module says how each value is written
and read back. CONTROLS has all controls, CHAPTERS the titles of the chapters, and DEEDS the tasks that the page sets
its reader.

A control that is untouched stays out of the address. A value that cannot be read is ignored, and the page says so.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from gdpo_core.board.state import HEAVIEST, LARGEST
from gdpo_core.frameworks import READABLE

CHAPTERS = {"lab": "Lab", "train": "Train", "evidence": "Evidence", "run": "Your run", "use": "Use it"}
# The deeds: what a reader may try, one after each idea.
DEEDS = {
    "tie": "make GDPO tie answers with different marks too.",
    "order": "give correctness a weight at which no wrong answer gets a larger advantage than a right one.",
    "guess": "switch on “Predict first” and predict three of them.",
    "worse": "find another prompt that GDPO makes worse.",
    "own": "open a group from your own run.",
    "judge": "let your run decide, not the Lab.",
}
LONGEST = 600  # characters of one value; an address that holds more was not made here
# Keys of the page's own version, of marimo, and of the frame of a Space.
FOREIGN = {"v", "theme", "session_id", "access_token", "refresh_token", "file", "show-chrome", "logs", "at", "embed"}


@dataclass(frozen=True)
class Control:
    """One control of the page as a parameter of its address.

    default: the value that the address leaves out; None where the chapter decides it, for example from its task or
        scenario.
    read: returns the value that a text of the address stands for; raises ValueError for a text that does not fit.
    write: returns a value as its text in the address.
    """

    default: Any
    read: Callable[[str], Any] = str  # a word that only its chapter can judge, such as the name of a task
    write: Callable[[Any], str] = str


def one_number(low: float, high: float, default: float, kind: Callable[[float], Any] = float) -> Control:
    """Return the control of one number from `low` to `high`, with its default.

    Reading any other text raises ValueError.

    kind: converts the number when it is read, for example `round`.
    """
    return Control(default, lambda text: kind(_number(text, low, high)), _short)


def some_numbers(low: float, high: float) -> Control:
    """Return the control of several numbers from `low` to `high`; in the address "_" stands between them.

    Reading a text with anything else raises ValueError. The chapter of the page that has the control decides the
    default, and checks how many numbers there are.
    """
    return Control(
        None,
        lambda text: tuple(_number(number_text, low, high) for number_text in text.split("_")),
        lambda values: "_".join(map(_short, values)),
    )


def one_choice(*options: str) -> Control:
    """Return the control of one word out of `options`. The first of them is the default; reading any other word raises
    ValueError.
    """
    return Control(options[0], lambda text: options[options.index(text)])


def word_list(*options: str) -> Control:
    """Return the control whose value is a tuple of words out of `options`, by default an empty one. In the address "_"
    stands between the words. Reading any other word raises ValueError.
    """
    return Control((), lambda text: tuple(options[options.index(word)] for word in text.split("_")), "_".join)


def _marks(text: str) -> tuple[tuple[float, ...], ...]:
    """Return the marks that a text holds, a row per answer. Raises ValueError for a text that `write_marks` does not
    write.
    """
    if "_" in text:
        return tuple(map(_NUMBERS.read, text.split("~")))
    rows = tuple(tuple(map(int, row)) for row in text.split(".") if row and set(row) <= {"0", "1"})
    if write_marks(rows) != text:
        raise ValueError
    return rows


def write_marks(rows: tuple[tuple[float, ...], ...]) -> str:
    """Return the marks of all answers as text.

    If each mark is 0 or 1, a row is written as its digits, and dots stand between the rows. If any mark is another
    number, "_" stands between the marks of a row, and "~" between the rows.

    >>> write_marks(((1, 0), (0, 1))), write_marks(((1, 0.25), (0, 1)))
    ('10.01', '1_0.25~0_1')
    """
    if any(mark not in (0, 1) for row in rows for mark in row):
        return "~".join(map(_NUMBERS.write, rows))
    return ".".join("".join(map(str, row)) for row in rows)


def _number(text: str, low: float, high: float) -> float:
    value = float(text)
    if not low <= value <= high:
        raise ValueError
    return value


def _short(value: float) -> str:
    """Return a number as text: with six significant digits if these give it exactly, and otherwise with all that it
    needs.
    """
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


_NUMBERS = some_numbers(-LARGEST, LARGEST)  # the marks of one answer
RUN_TEXTS = ("group_size", "rewards", "group", "parts", "weights")
CONTROLS = {
    "lab-task": Control(None),
    "lab-marks": Control(None, _marks, write_marks),
    "lab-pays": some_numbers(0.1, 100),
    "lab-weights": some_numbers(0, HEAVIEST),
    "lab-convention": Control("paper"),
    "lab-method": Control("gdpo"),
    "lab-why": one_choice("", "yes"),
    "lab-books": some_numbers(1, 10),
    "train-scenario": Control(None),
    "train-compare": one_choice("equal", "published", "neither"),
    "train-start": some_numbers(0.001, 0.99),
    "train-pays": some_numbers(0.1, 100),
    "train-weights": some_numbers(0, 10),
    "train-method": Control(""),
    "train-more": some_numbers(0, 1000),
    "train-gate": Control(None),
    "evidence-setup": Control(""),
    "evidence-group": one_number(2, 71, 12, round),
    "evidence-draw": one_number(0, 99, 0, round),
    "evidence-kind": Control(""),
    "evidence-graders": Control(None),
    "evidence-weight": one_number(1, 6.5, 1.0),
    "evidence-prompt": Control(""),
    "evidence-forecast": Control(""),
    "run-sample": Control(None),
    "run-primary": Control(None),
    "run-framework": one_choice("", *READABLE),
    **{f"run-{key}": Control("") for key in RUN_TEXTS},
    "use-asked": one_choice("", *map("".join, product("yn", repeat=3))),
    "use-framework": Control(None),
    "use-gate": Control(None),
    "use-source": Control(None),
    "done": word_list(*DEEDS),
}


def read_address(params: Mapping[str, str | list[str]]) -> tuple[dict[str, Any], bool]:
    """Return a tuple: the values that the query of an address holds, by control, and whether any part of it was not
    understood.

    A control is a key of CONTROLS. A part is not understood if its key is none of them, if its value cannot be read, or
    if its value has more than LONGEST characters. Such a part is left out of the values. Keys in FOREIGN, which the
    page itself (`at`, `v`) or other programs use, and keys that begin with `__` are skipped: they neither have a value
    in the result, nor count as not understood.

    params: a text or a list of texts by key; the last text of a list counts.

    >>> read_address({"lab-pays": "1_10_100", "evidence-draw": "7", "at": "lab"})
    ({'lab-pays': (1.0, 10.0, 100.0), 'evidence-draw': 7}, False)
    >>> read_address({"evidence-draw": "many", "lab-colour": "red"})
    ({}, True)
    """
    values: dict[str, Any] = {}
    unread = False
    for key, given in params.items():
        text = given[-1] if isinstance(given, list) and given else str(given)
        if key in FOREIGN or key.startswith("__"):
            continue
        try:
            if len(text) > LONGEST:
                raise ValueError
            values[key] = CONTROLS[key].read(text)
        except (KeyError, ValueError):
            unread = True
    return values, unread


def fits(value: Any, options: Collection[Any] | None = None, many: int | None = None) -> bool:
    """Return whether a value that an address held is one that its control can take.

    options: the values that fit, by default all.
    many: how many numbers the value has to have, by default any.

    >>> fits("a", ("a", "b")), fits("c", ("a", "b")), fits((1, 2), many=2), fits((1, 2), many=1)
    (True, False, True, False)
    """
    return (options is None or value in options) and (many is None or len(value) == many)


def write_address(values: Mapping[str, Any], untouched: Mapping[str, Any]) -> dict[str, str]:
    """Return each value as its text in the address, by control. The text is "" for a value that the address leaves out.

    The address leaves out None, and the value that a control has while the reader has not moved it.

    values: by control, a key of CONTROLS.
    untouched: by control, the value before the reader moves it, where that is not the default in CONTROLS.

    >>> write_address({"evidence-draw": 7, "evidence-group": 12, "lab-weights": (1.0, 2.5, 1.0)}, {})
    {'evidence-draw': '7', 'evidence-group': '', 'lab-weights': '1_2.5_1'}
    """
    moved = {key: value not in (None, untouched.get(key, CONTROLS[key].default)) for key, value in values.items()}
    return {key: CONTROLS[key].write(value) if moved[key] else "" for key, value in values.items()}
