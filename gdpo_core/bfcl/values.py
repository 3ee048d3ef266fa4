"""What a value in a call says: its documented type, its spelling, and its meaning however it is written."""

import math
import re
from datetime import datetime
from typing import NotRequired, TypedDict

from gdpo_core._words import clip


class Schema(TypedDict):
    """How BFCL documents one parameter of a function."""

    type: str  # one of TYPES
    description: str
    format: NotRequired[str]
    enum: NotRequired[list[object]]
    default: NotRequired[object]


# documented type: (in words, the Python types that are exactly it)
TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "float": ("a number", (int, float)),  # JSON has one kind of number: 5000 is exact here, as it is in BFCL
    "boolean": ("True or False", (bool,)),
}
KINDS = {str: "text", int: "a whole number", float: "a decimal", bool: "a truth value", type(None): "nothing"}

# only with the month in words or the year first: 03/06/2026 is June in Lyon and March in New York
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%B %d %Y", "%d %B %Y", "%b %d %Y", "%d %b %Y")


def mistyped(value: object, schema: Schema) -> str | None:
    """How a value misses its documented type, as the end of a sentence, or None."""
    words, exact = TYPES[schema["type"]]
    if type(value) not in exact:
        return f"is {KINDS.get(type(value), 'several values')}, but {words} is documented"
    return None


def misspelt(value: object, schema: Schema) -> str | None:
    """How a value misses the documented spelling, or None."""
    if "enum" in schema and value not in schema["enum"]:
        return f"is not spelled like {' or '.join(map(show, schema['enum']))}"
    if schema.get("format") == "date" and not (isinstance(value, str) and _iso_date(value) == value):
        return "is not written as YYYY-MM-DD"
    return None


def meaning(value: object, schema: Schema) -> str | bool | float | None:
    """The value read as its documented type, comparable by ==; None if it cannot be read so."""
    kind = schema["type"]
    if kind == "boolean":
        word = str(value).strip().lower() if isinstance(value, bool | str) else ""
        return {"true": True, "false": False}.get(word)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind == "string":
        if schema.get("format") == "date":
            return _iso_date(str(value))
        # BFCL ignores case, spaces and these marks too
        return re.sub(r"[\s,./_*^-]", "", str(value)).casefold()
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if math.isfinite(number) and (kind == "float" or number == int(number)) else None


def _iso_date(text: str) -> str | None:
    words = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", " ".join(text.replace(",", " ").split()))
    for spelling in DATES:
        try:
            return datetime.strptime(words, spelling).date().isoformat()
        except ValueError:
            continue
    return None


def show(value: object) -> str:
    """A value as a reason quotes it."""
    return clip(repr(value))  # repr escapes line breaks, and lone surrogates that no page can encode


def is_name(name: object) -> bool:
    """Whether this can name a function or a parameter."""
    return isinstance(name, str) and len(name) <= 64 and all(part.isidentifier() for part in name.split("."))
