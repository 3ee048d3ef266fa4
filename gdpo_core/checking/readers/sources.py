"""The content of the files of a configuration: entries by key, each with the place where it stands.

An entry whose value is known only once its file or script runs has an `Unread` as its value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdpo_core.shared.errors import InputError

_INSTALLED = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,60})(?:\[[\w,.-]{0,60}\])?==([\w.]+)")
_DIGITS = 300  # the most digits of a whole number
MOST_VALUES = 20_000  # the most values of a file, and the most entries of a command or call


@dataclass(frozen=True)
class Unread:
    """A stand-in for a value that is known only once the file or script runs.

    text: the template or expression as it is written; "" for a key that may stand in a file that was not given.
    maybe: whether even the key may be missing, as for a value that a script sets in one case only.
    """

    text: str
    maybe: bool = False


@dataclass(frozen=True)
class Entry:
    """A value and the place where it stands, as file:line. The value is an `Unread` if only a run would tell it.

    Raises InputError for a whole number of more than 300 digits, also inside lists and mappings.
    """

    value: Any
    place: str

    def __post_init__(self) -> None:
        """Raise InputError for a whole number of more than 300 digits, also inside lists and mappings.

        No float holds such a number, and Python may not even be able to write its digits.
        """
        if _is_huge(self.value):
            raise InputError(f"{self.place}: expected numbers of at most {_DIGITS} digits, got one of more")


def _is_huge(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return any(map(_is_huge, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, int) and abs(value) >= 10**_DIGITS


@dataclass(frozen=True)
class Source:
    """Settings that stand together in one file of values, one command of a script, or one call of a program.

    file: the name of the file.
    entries: the entries by key.
    mark: the program or call that the entries are for, such as "python3 -m verl.trainer.main_ppo" or "trl.GRPOConfig".
        "" for a file of values.
    place: where that command or call stands, as file:line.
    parents: names of files, or words for the arguments of a function, which may hold further entries and were not read.
    packages: for each package that the file installs, its version.
    hidden: sentences without a dot on what may hold commands or values of this file and was not read.
    loads: the names of the files of values that this program loads itself.
    """

    file: str
    entries: Mapping[str, Entry]
    mark: str = ""
    place: str = ""
    parents: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()


def command_line_of(file: str) -> str:
    """Return the words by which the options that a program gets on its command line are named."""
    return f"the command line of {name_of(file)}"


def name_of(path: str) -> str:
    """Return the name of a file without its folders."""
    return path.replace("\\", "/").rpartition("/")[2]


def installed_by(text: str) -> dict[str, str]:
    """Return the versions of the packages that a text installs as NAME==VERSION, by the package's name in lower case.

    Only lines with the word "install" count.

    >>> installed_by("pip install -q 'trl[vllm]==1.2.0' verl==0.9.1\\n# TRL==3")
    {'trl': '1.2.0', 'verl': '0.9.1'}
    """
    lines = (line[:2000] for line in text.split("\n") if "install" in line)
    return {m[1].lower(): m[2] for line in lines for m in _INSTALLED.finditer(line)}


def flatten(value: Mapping[Any, Any], place: str, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield the key and the entry of each value in nested mappings; the key joins the keys on the way with dots.

    An empty mapping counts as a value.

    place: where the outermost mapping stands, which becomes the place of every entry.
    prefix: a text before every key.

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
    """Return the entries by key; where a key comes more than once, its last entry counts.

    pairs: keys with their entries.
    file: the name of the file that they are from, for the error.

    Raises InputError for more than MOST_VALUES pairs.
    """
    entries: dict[str, Entry] = {}
    for number, (key, entry) in enumerate(pairs):
        if number >= MOST_VALUES:
            raise InputError(f"{file}: expected at most {MOST_VALUES:,} keys, got more")
        entries[key] = entry
    return entries
