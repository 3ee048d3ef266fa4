"""Files of values: YAML, and JSON, which is read by the parser of YAML too, because that parser knows the lines."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from gdpo_core.checking.readers.sources import MOST_VALUES, Entry, Source, Unread, collect, flatten
from gdpo_core.shared.errors import InputError, reason

_TEMPLATE = re.compile(r"\$\{|\{\{|<%")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
_MERGE = "tag:yaml.org,2002:merge"  # the tag of the key <<
_COMPACT = re.compile(r"([{,]\s*[\w.]+):(?=[^\s:])")  # a key of a mapping with its value directly behind the colon
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_DEEPEST = 60  # how many mappings or lists may be inside one another
_HOPS = 20  # how many references are followed from one key to the next


def read_yaml(text: str, file: str) -> Source:
    """Return the source with the entries of a YAML text.

    file: the name of the file, for errors and places.

    Raises InputError where the text cannot be parsed, is no mapping, or has too many values or too many inside one
    another. The error names the file, and for most faults of parsing the line.
    """
    _expect_shallow(text, file)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        got = " ".join(filter(None, (error.context, error.problem))) or reason(error)
        raise InputError(f"{where}: expected YAML, got: {got}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{file}: expected YAML, got: {reason(error)}") from None
    if not isinstance(root, yaml.MappingNode):
        got = "nothing" if root is None else "a list" if root.id == "sequence" else "one value"
        raise InputError(f"{file}: expected keys and values, got {got}")
    entries = collect(_Reader(file).entries(root), file)
    parents = _parents(entries)
    return Source(file, _resolved(entries), parents=parents)


def read_json_entries(text: str, file: str) -> Source:
    """Return the entries of a JSON text as a `Source`.

    The lines of entries come from a parser of YAML. If it refuses the text, the place of an entry is the file alone.

    file: the name of the file, with which errors and the places of entries begin.

    Raises InputError where the text cannot be parsed, is no object, or has too many values. The error names the file,
    and for most faults of parsing the line.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}: expected JSON, got: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{file}: expected JSON, got: {reason(error)}") from None
    if not isinstance(value, dict):
        raise InputError(f"{file}: expected an object with arguments, got {type(value).__name__}")
    try:  # The text is read once more as YAML, whose parser knows the lines; YAML has no tabs and no \/.
        return read_yaml(text.replace("\t", " ").replace("\\/", "/"), file)
    except InputError:
        return Source(file, collect(flatten(value, file), file))


def mapping_of(text: str, file: str) -> dict[str, Any]:
    """Return the mapping that a YAML or JSON text without aliases spells out, as a program gets it that loads the file.

    Raises InputError where the text is something else.
    """
    _expect_shallow(text, file)
    try:
        value = yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{file}: expected YAML, got: {reason(error)}") from None
    if not isinstance(value, dict):
        raise InputError(f"{file}: expected keys and values, got {type(value).__name__}")
    return value


class _Plain(yaml.SafeLoader):
    """A loader of YAML that refuses aliases, of which a single one can stand for millions of values.

    It reads values of a command line, which have no aliases.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node of the text, as the base class does. Raises YAMLError where the node is an alias."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def plain(text: str) -> Any:
    """Return the value of a text that stands on a command line, or in YAML without quotes.

    The value may be None, a truth value, a number, or a list or mapping in brackets; a text in quotes loses them.
    Anything else stays text.

    >>> plain("True"), plain("1e-6"), plain('["a","b"]'), plain("null"), plain("none")
    (True, 1e-06, ['a', 'b'], None, 'none')
    >>> plain("{n:16,a:x}"), plain("{'a:b'}")
    ({'n': 16, 'a': 'x'}, {'a:b': None})
    """
    word = text.strip()
    if word[:1] in ("[", "{", '"', "'"):
        try:
            value = yaml.load(word, Loader=_Plain)
        except (yaml.YAMLError, RecursionError, ValueError):
            return text
        compact = isinstance(value, dict) and any(item is None and ":" in str(key) for key, item in value.items())
        if compact and (spaced := _COMPACT.sub(r"\1: ", word)) != word:
            return plain(spaced)  # Hydra needs no blank after the colon of a mapping, YAML does.
        return [_numbers(item) for item in value] if isinstance(value, list) else value
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    return _numbers(text)


def _numbers(value: Any) -> Any:
    """Return a text of at most 40 characters that spells a number as that number, and any other value unchanged.

    1e-6 counts as a number too, which YAML takes for text.
    """
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()) or len(value) > 40:
        return value
    return int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else float(value)


class _Reader:
    """A reader of the nodes of a YAML file.

    It counts them and refuses too many, since aliases let a short file stand for any number of nodes.
    """

    def __init__(self, file: str) -> None:
        self.file, self.nodes = file, 0

    def entries(self, node: yaml.Node, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Entry]]:
        """Yield the key and the entry of each value below a mapping; the key joins the keys on the way with dots.

        prefix: a text before every key.
        depth: how many mappings the node is in.
        """
        for key, value in self._pairs(node, depth).values():
            name = f"{prefix}{key.value}" if isinstance(key, yaml.ScalarNode) else f"{prefix}?"
            if isinstance(value, yaml.MappingNode) and value.value:
                yield from self.entries(value, f"{name}.", depth + 1)
            else:
                yield name, Entry(self._value(value, depth), f"{self.file}:{key.start_mark.line + 1}")

    def _pairs(self, node: yaml.MappingNode, depth: int) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the entries of a mapping: by key, the node of the key and the node of its value.

        Of equal keys the last counts. The entries that << merges into the mapping come first, and its own replace them.
        """
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        written: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            self._count(depth)
            if key.tag == _MERGE:
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(source, yaml.MappingNode):
                        merged = self._pairs(source, depth + 1) | merged  # the first that has a key gives its value
            else:
                written[str(key.value)] = key, value
        return merged | written

    def _value(self, node: yaml.Node, depth: int) -> Any:
        self._count(depth)
        if isinstance(node, yaml.ScalarNode):
            if _TEMPLATE.search(node.value):
                return Unread(node.value)
            return plain(node.value) if node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            items = [self._value(item, depth + 1) for item in node.value]
            return next((item for item in items if isinstance(item, Unread)), items)
        return {}

    def _count(self, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MOST_VALUES or depth > _DEEPEST:
            too_many = (
                f"{MOST_VALUES:,} values" if self.nodes > MOST_VALUES else f"{_DEEPEST} mappings inside one another"
            )
            raise InputError(f"{self.file}: expected at most {too_many}, got more")


def _expect_shallow(text: str, file: str) -> None:
    """Raise InputError for more than `_DEEPEST` brackets inside one another, on which the parser may spend seconds."""
    depth = 0
    for c in text:
        depth += (c in "[{") - (c in "]}")
        if depth > _DEEPEST:
            raise InputError(f"{file}: expected at most {_DEEPEST} brackets inside one another, got more")


def _parents(entries: dict[str, Entry]) -> tuple[str, ...]:
    """Return the YAML files that NeMo-RL's key `defaults` names, one or a list; () without that key.

    Entries whose names do not end as the name of a YAML file does are left out. Hydra's list of groups has such
    entries, which belong to the trainer's package.
    """
    given = entries.get("defaults")
    named = given.value if given else None
    files = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    return tuple(name for name in files if isinstance(name, str) and name.endswith((".yaml", ".yml")))


def _resolved(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Return the entries after references were followed.

    A value that is nothing but ${key} is a reference; it becomes the value of that key. A reference that leads to no
    readable value stays as it is.
    """

    def follow(entry: Entry) -> Entry:
        at = entry
        for _ in range(_HOPS):
            reference = _REFERENCE.fullmatch(at.value.text) if isinstance(at.value, Unread) else None
            if reference is None or reference[1] not in entries:
                break
            at = entries[reference[1]]
        return entry if isinstance(at.value, Unread) else Entry(at.value, entry.place)

    return {key: follow(entry) for key, entry in entries.items()}
