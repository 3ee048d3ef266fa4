"""JSON that ships with the project, read as the type that it must have."""

from pathlib import Path
from typing import TypeVar

import msgspec

from gdpo_core._errors import InputError

T = TypeVar("T")


def read_json(path: str | Path, kind: type[T]) -> T:
    """The content of a JSON file as this type; InputError names the file, the entry, what was expected and what came.

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
    """A value out of a JSON file as this type; InputError names the value, or the entry of it.

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
    """The path that msgspec puts last, without its root $, and the sentence before it."""
    fault, _, entry = str(error).partition(" - at `$")
    return entry.rstrip("`"), fault[0].lower() + fault[1:]
