"""JSON files of the project, read as the type that each must have."""

from pathlib import Path
from typing import TypeVar

import msgspec

from gdpo_core.shared.errors import InputError

T = TypeVar("T")


def read_json(path: str | Path, kind: type[T]) -> T:
    """Return the content of a JSON file as a value of the type `kind`.

    Raises InputError for a file that cannot be read, is no JSON, or holds another type. The error names the file, the
    fault, and the entry with the fault, if there is one.

    >>> read_json("data/tasks/1_interest.json", list[int])
    Traceback (most recent call last):
    gdpo_core.InputError: data/tasks/1_interest.json: expected `array`, got `object`
    """
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=kind)
    except msgspec.ValidationError as error:
        entry, fault = _entry_and_fault(error)
        raise InputError(f"{path}: {entry.lstrip('.')}{': ' if entry else ''}{fault}") from error
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: expected a readable file with JSON in UTF-8, got: {error}") from error


def as_type(value: object, kind: type[T], name: str) -> T:
    """Return a value that was read from JSON as a value of the type `kind`.

    name: what the value is called in an error.

    Raises InputError that begins with this name and the path to the faulty entry.

    >>> as_type({"p0": [0.5, "half"]}, dict[str, list[float]], "train")
    Traceback (most recent call last):
    gdpo_core.InputError: train[...][1]: expected `float`, got `str`
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        entry, fault = _entry_and_fault(error)
        raise InputError(f"{name}{entry}: {fault}") from error


def _entry_and_fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return two texts: the path to the entry at which msgspec failed, such as ".train[1]", and what is wrong with it.

    The path is empty where the whole value is at fault. The second text is msgspec's own sentence, without the path and
    with its first letter in lower case.
    """
    fault, _, entry = str(error).partition(" - at `$")
    return entry.rstrip("`"), fault[0].lower() + fault[1:]
