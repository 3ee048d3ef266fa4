"""Plain values: what JSON can hold, made from the values of the library."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from gdpo_core.shared.errors import InputError


def jsonable(value: object) -> Any:
    """Return a value in the form that JSON can hold: dicts with text as keys, lists, text, numbers, booleans and None.

    Tuples become lists, keys become text, a `msgspec.Struct` becomes a dict of its fields, and NaN and infinity become
    None; all this happens at every depth. Raises InputError for a value of another kind.
    """
    fields = getattr(type(value), "__struct_fields__", None)  # of a Struct; the check of a configuration has no msgspec
    if fields is not None:
        value = {name: getattr(value, name) for name in fields}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    raise InputError(f"report: expected plain values, got {type(value).__name__}")
