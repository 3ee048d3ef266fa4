"""The values that expressions of a Python program spell out, with what its names stand for."""

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdpo_core.checking.readers.shell_variables import LOST
from gdpo_core.checking.readers.sources import Unread

_CHANGES = ("append", "extend", "insert", "pop", "remove", "clear")  # the methods that change a list
_UPDATES = ("update", "setdefault", "pop", "popitem", "clear", "merge_with")  # the methods that change a mapping
_KEEPS = ("print", "dict", "len", "str", "dumps", "dump", "info", "pprint")  # functions that change no argument
_LOADS = ("safe_load", "full_load", "load", "loads")  # functions of yaml, json and OmegaConf that read a file of values
_DEEPEST = 10  # how many names that stand for names, or lists inside lists, are followed
_MOST_STEPS = 200_000  # how many expressions of a program are worked out
_LONGEST = 60  # the most characters of an expression that is shown


@dataclass(frozen=True)
class Names:
    """The names of a program, with what they stand for.

    values: the expression of each name that is assigned once and not changed.
    functions: the names of the program's own functions and classes, and of what it imports.
    origins: for each imported name, the package that it comes from.
    changed: the names of mappings that the program changes or hands to a function that may change them.
    files: the content of the files of values that were given, by their names without folders.
    loads: the names of the files of values that the program loads, as far as they were asked for.
    steps: how many expressions were worked out so far.
    """

    values: dict[str, ast.expr]
    functions: frozenset[str]
    origins: dict[str, str]
    changed: frozenset[str] = frozenset()
    files: Mapping[str, Any] = field(default_factory=dict)
    loads: set[str] = field(default_factory=set)
    steps: Counter[str] = field(default_factory=Counter)


def names_in(nodes: list[ast.AST], files: Mapping[str, Any]) -> Names:
    """Return what the names of a program stand for.

    nodes: all nodes of its syntax tree.
    files: the content of files of values by their names without folders.
    """
    functions = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    origins: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            functions |= set(names)
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                origins |= dict.fromkeys(names, node.module.partition(".")[0])
    values: dict[str, ast.expr | None] = {}
    for node in nodes:
        for name, value in _assigned(node):
            values[name] = None if name in values else value
    known = {name: value for name, value in values.items() if value}
    return Names(known, frozenset(functions), origins, _changed(nodes), files)


def _changed(nodes: list[ast.AST]) -> frozenset[str]:
    """Return the names of mappings that a program changes, or hands to a function that may change them."""
    changed: set[str] = set()
    pairs: list[tuple[str, str]] = []  # names of parts of a mapping, each with the name of the whole
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            changed |= {_root(target) for target in targets if isinstance(target, ast.Subscript | ast.Attribute)}
            if isinstance(node, ast.Assign):
                pairs += [(_root(target), _root(node.value)) for target in targets]
        elif isinstance(node, ast.Call):
            called = (dotted(node.func) or "").rpartition(".")[2]
            if isinstance(node.func, ast.Attribute) and node.func.attr in _UPDATES:
                changed.add(_root(node.func.value))
            if called not in (*_KEEPS, *_LOADS):
                given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg)]
                changed |= {argument.id for argument in given if isinstance(argument, ast.Name)}
    for _ in range(_DEEPEST):
        changed |= {whole for inner, whole in pairs if inner in changed}
    return frozenset(changed)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each name to which a node of the tree assigns a value, with the expression of the value.

    Some values cannot be followed, such as the value of a loop's variable or of a list that a call changes. Their name
    is yielded twice with None, because a name that is yielded more than once counts as changed.
    """
    if isinstance(node, ast.Assign):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.AugAssign | ast.For) and isinstance(node.target, ast.Name):
        yield from [(node.target.id, None)] * 2
    elif isinstance(node, ast.arg):  # a function's parameter may have the same name as a variable outside
        yield from [(node.arg, None)] * 2
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                yield item.optional_vars.id, item.context_expr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        yield from [(dotted(node.func.value) or "", None)] * 2


def constant_of(node: ast.expr, names: Names, functions: bool, depth: int = 0) -> Any:
    """Return the value that an expression spells out; `Unread` where only a run would tell it.

    names: what the names of the program stand for.
    functions: whether the expression stands for reward functions, which then become a list of their names.
    depth: how many names or lists were entered on the way to this expression.
    """
    names.steps["all"] += 1
    if depth > _DEEPEST or names.steps["all"] > _MOST_STEPS:
        return Unread(written_of(node))
    if isinstance(node, ast.Name) and node.id in names.values:
        return constant_of(names.values[node.id], names, functions, depth + 1)
    if functions and not isinstance(node, ast.List | ast.Tuple):
        told = isinstance(node, ast.Lambda | ast.Constant) or (dotted(node) and _root(node) in names.functions)
        return [_function(node, names)] if told else Unread(written_of(node))
    if isinstance(node, ast.List | ast.Tuple):
        starred = any(isinstance(item, ast.Starred) for item in node.elts)
        if functions:
            return Unread(written_of(node)) if starred else [_function(item, names) for item in node.elts]
        items = [constant_of(item, names, False, depth + 1) for item in node.elts]
        return next((item for item in items if isinstance(item, Unread)), items)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        told = _worked_out(node, names, depth + 1)
        return Unread(written_of(node)) if told is None or (isinstance(told, str) and "${" in told) else told


def _worked_out(node: ast.expr, names: Names, depth: int) -> Any:
    """Return the value of an expression that looks something up or joins texts; None where only a run would tell it.

    What can be looked up are mappings that the program spells out or loads from a file that was given.
    """
    if isinstance(node, ast.JoinedStr):
        text = text_of(node, names, depth)
        return None if LOST in text else text
    if isinstance(node, ast.Subscript):
        return _looked_up(node.value, node.slice, None, names, depth)
    if isinstance(node, ast.Attribute):
        return _looked_up(node.value, ast.Constant(node.attr), None, names, depth)
    if not isinstance(node, ast.Call):
        return None
    called = (dotted(node.func) or "").rpartition(".")[2]
    if called == "get" and isinstance(node.func, ast.Attribute) and node.args:
        return _looked_up(node.func.value, node.args[0], node.args[1:], names, depth)
    if called in ("str", "dumps", "int", "float", "list") and len(node.args) == 1 and not node.keywords:
        value = constant_of(node.args[0], names, False, depth)
        kept = value if called in ("int", "float", "list") and type(value).__name__ == called else None
        return kept if isinstance(value, Unread) or called in ("int", "float", "list") else _as_text(value, called)
    if called in _LOADS and (named := _file_of(node.args[0] if node.args else None, names)):
        name = named.replace("\\", "/").rpartition("/")[2]
        names.loads.add(name)
        return names.files.get(name)
    return None


def _as_text(value: Any, called: str) -> str:
    return json.dumps(value) if called == "dumps" else str(value)


def _looked_up(owner: ast.expr, key: ast.expr, default: list[ast.expr] | None, names: Names, depth: int) -> Any:
    """Return an entry of a mapping or list; None where only a run would tell it.

    owner: the expression for the mapping or list.
    key: the expression for the key.
    default: the expressions after the key in a call of `get`, None where nothing replaces a key that is missing.
    """
    whole, at = constant_of(owner, names, False, depth), constant_of(key, names, False, depth)
    if _root(owner) in names.changed or isinstance(whole, Unread) or isinstance(at, Unread | list | dict):
        return None
    if isinstance(whole, dict) and default and at not in whole:
        return constant_of(default[0], names, False, depth)
    try:
        return whole[at] if isinstance(whole, dict | list) else None
    except (KeyError, IndexError, TypeError):
        return None


def _file_of(node: ast.expr | None, names: Names) -> str | None:
    """Return the name of the file that an expression such as open("a.yaml") or Path("a.yaml") is for, or None."""
    for _ in range(_DEEPEST):
        if isinstance(node, ast.Name):
            node = names.values.get(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value if node.func.attr in ("read", "read_text", "open") else None
        elif isinstance(node, ast.Call):
            node = node.args[0] if dotted(node.func) in ("open", "Path") and node.args else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def text_of(node: ast.expr, names: Names, depth: int = 0) -> str:
    """Return the text of an expression, in which `LOST` stands for each part that only a run would tell."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value, names, depth) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        plain = node.conversion == -1 and node.format_spec is None
        return text_of(node.value, names, depth + 1) if plain else LOST
    value = constant_of(node, names, False, depth)
    return str(value) if isinstance(value, str | int | float) else LOST


def _root(node: ast.expr) -> str:
    """Return the name with which a look-up such as a.b["c"] or a.get("b") begins, "" if it begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def written_of(node: ast.AST) -> str:
    """Return an expression as text of at most `_LONGEST` characters; a longer one is cut and ends with "…"."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError):  # ValueError: a number has too many digits to be written
        text = "…"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _function(node: ast.expr, names: Names) -> str:
    """Return the name of the reward function that an expression stands for.

    A function has its own name, without the name of its module. A reward model that is given as text has that text.
    `partial(f, …)` has the name of f. Any other call has the name of what is called. A lambda is "<lambda>".

    names: what the names of the program stand for.
    """
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name) and isinstance(names.values.get(node.id), ast.Call | ast.Constant):
        node = names.values[node.id]
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Call):
        called = (dotted(node.func) or "").rpartition(".")[2]
        inner = node.args[0] if called == "partial" and node.args else None
        return (dotted(inner) or "?").rpartition(".")[2] if inner is not None else called or "?"
    if isinstance(node, ast.Lambda):
        return "<lambda>"
    return (dotted(node) or written_of(node)).rpartition(".")[2] or written_of(node)


def dotted(node: ast.expr) -> str | None:
    """Return the name that an expression spells, with its dots, such as "trl.GRPOConfig"; None if it is no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return None
