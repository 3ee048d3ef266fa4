"""The commands that a Python program hands to a shell or to the system, as a text or as a list of words."""

import ast
import shlex
from collections.abc import Iterator

from gdpo_core.checking.readers.expressions import Names, constant_of, dotted, text_of
from gdpo_core.checking.readers.shell import COMMAND, read_shell
from gdpo_core.checking.readers.sources import Source

_STARTS = ("run", "call", "check_call", "check_output", "Popen", "execv", "execvp")  # functions that start a program
_MORE = "$(…)"  # in a script: words that only a run would tell


def commands_of(nodes: list[ast.AST], names: Names, file: str) -> Iterator[Source]:
    """Yield a `Source`, the settings of one command, for each command of a trainer that stands in a program: in its
    texts, f-strings among them, and its lists.

    A text or a list of words counts if `COMMAND` finds in it a command that runs a trainer. A list that is handed to a
    function such as subprocess.run counts too. In an f-string, `LOST` stands for what only a run would tell.

    nodes: all nodes of the program's syntax tree.
    names: what the names of the program stand for.
    file: the name of the program's file, for errors and places.
    """
    inside = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
    lists = dict(_lists(nodes, names))
    inside |= {id(item) for node in lists for item in node.elts}
    for node, text in lists.items():
        yield from read_shell(text, file, first=node.lineno)
    texts = (n for n in nodes if isinstance(n, ast.JoinedStr | ast.Constant) and id(n) not in inside)
    for written in texts:
        if COMMAND.search(text := text_of(written, names)):
            yield from read_shell(text, file, first=written.lineno)


def _lists(nodes: list[ast.AST], names: Names) -> Iterator[tuple[ast.List, str]]:
    """Yield each list that is a command, with the same command as a script."""
    started = [node.args[0] for node in nodes if isinstance(node, ast.Call) and node.args and _starts(node)]
    run = {id(names.values.get(arg.id)) if isinstance(arg, ast.Name) else id(arg) for arg in started}
    added = {id(item) for node in nodes if isinstance(node, ast.BinOp) for item in (node.left, node.right)}
    changes = _Changes(nodes)
    for node in nodes:
        if not isinstance(node, ast.List) or id(node) in changes.pieces:
            continue
        text = " ".join(text_of(item, names) for item in node.elts)
        if COMMAND.search(text) or id(node) in run:
            more = f" {_MORE}" if id(node) in added else ""
            words = f"A=({_words(node, names, node.lineno)}{more})"
            yield node, f'{words}; {changes.after(node, names)} "${{A[@]}}"'


def _starts(call: ast.Call) -> bool:
    return (dotted(call.func) or "").rpartition(".")[2] in _STARTS


def _words(node: ast.expr, names: Names, line: int) -> str:
    """Return the items of a list as words of a script, with as many line ends before each as the program has.

    line: the line on which the script's line begins.
    """
    if not isinstance(node, ast.List | ast.Tuple):
        return _MORE
    words = []
    for item in node.elts:
        lines, line = "\n" * (item.lineno - line), max(item.lineno, line)
        values = constant_of(item.value, names, False) if isinstance(item, ast.Starred) else None
        if isinstance(values, list):
            word = " ".join(shlex.quote(str(value)) for value in values)
        else:
            word = _MORE if isinstance(item, ast.Starred) else shlex.quote(text_of(item, names))
        words.append(lines + word)
    return " ".join(words)


class _Changes:
    """The changes that a program makes to its lists after it has made them.

    nodes: all nodes of the program's syntax tree.
    """

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.growths: dict[str, list[tuple[ast.AST, ast.expr, str]]] = {}  # by the names of lists
        self.assigned: dict[str, list[ast.Assign]] = {}
        self.blocks = {id(s): id(body) for n in nodes for body in bodies_of(n) for s in body}
        for node in nodes:
            for name, piece, how in _growths(node):
                self.growths.setdefault(name, []).append((node, piece, how))
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(node, ast.Assign) and isinstance(target, ast.Name):
                    self.assigned.setdefault(target.id, []).append(node)
        self.pieces = {id(piece) for growths in self.growths.values() for _, piece, _ in growths}
        self.names = {id(node.value): name for name, those in self.assigned.items() for node in those}

    def after(self, made: ast.List, names: Names) -> str:
        """Return the piece of a script that adds to the array A what the program adds to a list after it has made it.

        A word that is added in another block, such as an if, may be missing.

        made: the list.
        names: what the names of the program stand for.
        """
        name = self.names.get(id(made), "")
        growths, assigned = self.growths.get(name, []), self.assigned.get(name, [])
        if len(assigned) > 1 and (growths or not all(isinstance(node.value, ast.List) for node in assigned)):
            return f"A+=({_MORE});"
        script = ""
        for node, piece, how in growths:
            items = ast.List([piece], ast.Load(), lineno=piece.lineno) if how == "append" else piece
            adds = f"A+=({_words(items, names, piece.lineno) if how in ('append', 'extend') else _MORE})"
            same = self.blocks.get(id(node)) == self.blocks.get(id(assigned[0]))
            script += f"{adds}; " if same else f"if :; then {adds}; fi; "
        return script


def bodies_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements that a statement or a program has, such as both branches of an if."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        if isinstance(body := getattr(node, name, None), list):
            yield body


def _growths(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield the name of a list that a statement changes, what it adds, and how, such as "append" or "extend"."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value, "extend" if isinstance(node.op, ast.Add) else "other"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call, function = node.value, node.value.func
        if isinstance(function.value, ast.Name) and function.attr in ("append", "extend", "insert", "remove", "pop"):
            piece = call.args[0] if call.args else call
            yield function.value.id, piece, function.attr
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                yield target.value.id, node.value, "item"
