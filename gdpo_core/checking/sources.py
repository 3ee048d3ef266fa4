"""The content of a configuration's file: entries by key, each with its place; some values only a run would tell."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdpo_core._errors import InputError

_INSTALLED = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,60})(?:\[[\w,.-]{0,60}\])?==([\w.]+)")
_DIGITS = 300
MOST = 20_000  # values of a file, the words of a command


@dataclass(frozen=True)
class Unread:
    """A value that only a run would tell: a template or an expression, as it is written.

    maybe: the key itself may be missing, as what a script sets in one case alone.
    """

    text: str
    maybe: bool = False


@dataclass(frozen=True)
class Entry:
    """A value and where it stands, as file:line."""

    value: Any
    place: str

    def __post_init__(self) -> None:
        """Raise InputError for a whole number that is no float, of which Python may not even write the digits."""
        if _is_huge(self.value):
            raise InputError(f"{self.place}: expected numbers of at most {_DIGITS} digits, got one of more")


def _is_huge(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return any(map(_is_huge, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, int) and abs(value) >= 10**_DIGITS


@dataclass(frozen=True)
class Source:
    """The entries that stand together: a file of values, one command of a script, or one call of a program.

    mark: what is run with them, such as "python3 -m verl.trainer.main_ppo" or "trl.GRPOConfig"; "": nothing is said.
    parents: files and arguments that these entries build on, and which were not given.
    packages: versions that the file installs.
    """

    file: str
    entries: Mapping[str, Entry]
    mark: str = ""
    place: str = ""
    parents: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)


def installed_by(text: str) -> dict[str, str]:
    """Return the versions of packages that the lines of a text install.

    >>> installed_by("pip install -q 'trl[vllm]==1.2.0' verl==0.9.1\\n# TRL==3")
    {'trl': '1.2.0', 'verl': '0.9.1'}
    """
    lines = (line[:2000] for line in text.split("\n") if "install" in line)
    return {m[1].lower(): m[2] for line in lines for m in _INSTALLED.finditer(line)}


def flatten(value: Mapping[Any, Any], place: str, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield the values of nested mappings by their keys, joined by dots.

    >>> [(key, entry.value) for key, entry in flatten({"a": {"b": 1}, "c": [2]}, "x:1")]
    [('a.b', 1), ('c', [2])]
    """
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping) and inner:
            yield from flatten(inner, place, f"{name}.")
        else:
            yield name, Entry(inner, place)


def collect(pairs: Iterator[tuple[str, Entry]], file: str) -> dict[str, Entry]:
    """Return the entries by key, of one key the last. Raises InputError where there are too many."""
    entries: dict[str, Entry] = {}
    for number, (key, entry) in enumerate(pairs):
        if number >= MOST:
            raise InputError(f"{file}: expected at most {MOST:,} keys, got more")
        entries[key] = entry
    return entries
