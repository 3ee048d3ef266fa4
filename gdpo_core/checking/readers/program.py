"""A Python program or a notebook, read as a syntax tree and never run.

What is read are the arguments that configure its trainer, in calls and in the commands that it hands to a shell.
"""

import ast
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gdpo_core.checking.readers.commands import bodies_of, commands_of
from gdpo_core.checking.readers.expressions import Names, constant_of, dotted, names_in, written_of
from gdpo_core.checking.readers.shell_variables import LOST
from gdpo_core.checking.readers.sources import Entry, Source, Unread, collect, command_line_of, flatten, installed_by
from gdpo_core.shared.errors import InputError, reason

_CALLED = re.compile(r"\w*(?:GRPO|RLOO|GDPO|RLHF)\w*(?:Config|Trainer|Arguments)$")
_CELL = re.compile(r"\s*%%(?!time|timeit|capture|prun|python3?\b).*")  # the first line of a cell that is no Python
_WRITES = re.compile(  # a cell that is a file's text
    r"\s*%%(?:writefile|file)[ \t]+((?:-a|--append)[ \t]+)?(.*?\S)([ \t]+(?:-a|--append))?[ \t]*(?:\n|$)"
)
_INSERTED = re.compile(r"(?<![{$])\{[A-Za-z_][^{}\n:,]*\}(?!\})")  # a value that IPython inserts into a line after !
_LINE = re.compile(  # a line that is no Python: a command, a magic, a question
    r"^([ \t]*(?:[\w, ]+=[ \t]*)?)(?:%%?|!!?|\?\??(?=\w))((?:.*\\\n)*.*)$|^[\w.]+\?\??[ \t]*$", re.M
)
_FUNCTIONS = {"reward_funcs", "reward_functions"}  # arguments that hold functions, of which the names are kept
_VERSION = ".".join(map(str, sys.version_info[:2]))  # the running Python, which cannot parse newer syntax


def read_cells(cells: Sequence[str], file: str, files: Mapping[str, Any] | None = None) -> list[Source]:
    """Return the sources of entries in the code cells of a notebook, read as one program in the way of `read_python`.

    A cell that only writes a file, as after %%writefile, is left out (see `written_files`).

    cells: the texts of the code cells.
    file: the name of the notebook, for errors and places.
    files: the content of the files of values that the notebook may load, by their names without folders.

    Raises InputError if the cells are no Python.
    """
    program = "\n".join("\n" * cell.count("\n") if _WRITES.match(cell) else _as_python(cell) for cell in cells)
    return read_python(program, file, files, installed="\n".join(cells))


def written_files(cells: Sequence[str]) -> dict[str, str]:
    """Return the texts that the cells of a notebook write into files, by the names of these files.

    A cell writes a file if it begins with %%writefile NAME or %%file NAME. A later cell replaces what an earlier one
    wrote. With the option -a it appends to it.

    cells: the texts of the notebook's code cells.
    """
    written: dict[str, str] = {}
    for cell in cells:
        if begun := _WRITES.match(cell):
            name = Path(begun[2].strip("'\"")).as_posix()
            written[name] = written.get(name, "") * bool(begun[1] or begun[3]) + cell[begun.end() :].rstrip("\n") + "\n"
    return written


def code_cells(text: str, file: str) -> list[str]:
    """Return the texts of the code cells of a notebook in their order. Raises InputError if the text is no notebook."""
    try:
        cells = [cell["source"] for cell in json.loads(text)["cells"] if cell.get("cell_type") == "code"]
        return [cell if isinstance(cell, str) else "".join(cell) for cell in cells]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected a notebook, got: {reason(error)}") from None
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{file}: expected a notebook, got JSON without a list of cells that have a source") from None


def _as_python(cell: str) -> str:
    """Return a cell of a notebook as Python with the same number of lines.

    If the cell is no valid Python, each of its lines that is no Python, such as a command after !, becomes a string. A
    whole cell of another language, as after %%bash, becomes one string. A command in such a string is then read like
    one that a program hands to a shell.

    >>> [_as_python(cell) for cell in ("!trl grpo", "x = !ls", "%%bash\\ntrl grpo")]
    ["'trl grpo'", "x = 'ls'", "'\\\\ntrl grpo'\\n"]
    """

    def quoted(text: str) -> str:
        return repr(text) + "\n" * text.count("\n")

    if _CELL.match(cell):
        return quoted(_CELL.sub("", cell, count=1))
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        ast.parse(cell)
        return cell  # a cell of valid Python, in which % and ! may begin a line of an expression
    return _LINE.sub(lambda m: f"{m[1] or ''}{quoted(_INSERTED.sub(LOST, m[2]) if m[2] else m[0])}", cell)


def read_python(
    text: str, file: str, files: Mapping[str, Any] | None = None, installed: str | None = None
) -> list[Source]:
    """Return a source of entries for each call that configures a trainer, and for each trainer's command in a string.

    A string with such a command counts because the program may hand it to a shell. The sources are in the order of
    their lines.

    file: the name of the file, for errors and places.
    files: the content of the files of values that the program may load, by their names without folders.
    installed: the text that is searched for the versions of installed packages, by default the program itself.

    Raises InputError, with the file and mostly the line, where the text is no Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        nodes = list(ast.walk(tree))
    except SyntaxError as error:
        raise InputError(f"{file}:{error.lineno or 1}: expected Python {_VERSION}, got: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{file}: expected Python {_VERSION}, got: {reason(error)}") from None
    names = names_in(nodes, files or {})
    packages = installed_by(installed or text)
    sources = []
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        called = dotted(call.func)
        if called and _CALLED.search(called):
            origin = names.origins.get(called.partition(".")[0])
            entries = collect(_arguments(call, names, file), file)
            entries |= collect(_set_later(nodes, call, names, file), file)
            entries |= collect(_updates(nodes, call, file), file)
            opened = tuple(key for key in entries if key.startswith("**"))
            if "**" in entries:
                entries = dict.fromkeys(entries, entries["**"])
            entries = {key: entry for key, entry in entries.items() if key not in opened}
            mark = f"{origin}.{called}" if origin else called
            sources.append(Source(file, entries, mark, f"{file}:{call.lineno}", opened, packages))
    sources += _of_parsers(nodes, file)
    sources += commands_of(nodes, names, file)
    sources = [replace(source, loads=tuple(names.loads)) for source in sources]
    return sorted(sources, key=lambda source: int(source.place.rpartition(":")[2]))


def _of_parsers(nodes: list[ast.AST], file: str) -> list[Source]:
    """Return a source without entries if a parser fills the trainer's configuration from a command line, else none."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and dotted(node.func)]
    parsers = [call for call in calls if (dotted(call.func) or "").endswith(("TrlParser", "HfArgumentParser"))]
    place = f"{file}:{parsers[0].lineno}" if parsers else ""
    return [Source(file, {}, place=place, parents=(command_line_of(file),))] if parsers else []


def _arguments(call: ast.Call, names: Names, file: str) -> Iterator[tuple[str, Entry]]:
    """Yield each argument that a call gets by name: its key, and an `Entry` with its value and its place.

    If the program spells out a mapping after **, each key of the mapping that is a literal gives an argument. Otherwise
    one key that begins with ** stands for all arguments of the mapping. The second positional argument of a trainer
    counts as "reward_funcs".

    names: what the names of the program stand for.
    file: the name of the program's file, for the places.
    """
    if (dotted(call.func) or "").endswith("Trainer") and len(call.args) > 1:  # the first argument is the model
        yield "reward_funcs", Entry(constant_of(call.args[1], names, True), f"{file}:{call.args[1].lineno}")
    for keyword in call.keywords:
        place = f"{file}:{keyword.value.lineno}"
        if keyword.arg is not None:
            yield from _given(keyword.arg, keyword.value, names, file)
            continue
        value = keyword.value
        given = names.values.get(value.id) if isinstance(value, ast.Name) else value
        if isinstance(given, ast.Call) and dotted(given.func) == "dict":
            yield from _arguments(given, names, file)
        elif isinstance(given, ast.Dict):
            for key, inner in zip(given.keys, given.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield from _given(str(key.value), inner, names, file)
        else:
            yield f"**{written_of(value)}", Entry(Unread(written_of(value)), place)


def _given(key: str, node: ast.expr, names: Names, file: str) -> Iterator[tuple[str, Entry]]:
    value, place = constant_of(node, names, key in _FUNCTIONS), f"{file}:{node.lineno}"
    yield from flatten(value, place, f"{key}.") if isinstance(value, dict) and value else [(key, Entry(value, place))]


def _set_later(nodes: list[ast.AST], call: ast.Call, names: Names, file: str) -> Iterator[tuple[str, Entry]]:
    """Yield the key and the entry of each attribute that the program assigns to a configuration after making it.

    The entry is `Unread` where the assignment may not run, as one inside an if, where it changes the value that was
    there, and where another name has the configuration, as a parameter of a function that gets it. The key "**" stands
    for all keys, where nothing says which of them the program sets.

    nodes: all nodes of the program's syntax tree.
    call: the call that makes the configuration.
    names: what the names of the program stand for.
    file: the name of the program's file, for the places.
    """
    assigning = [n for n in nodes if isinstance(n, ast.Assign | ast.AnnAssign) and n.value is call]
    configs = {t.id for n in assigning for t in ast.walk(n) if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)}
    blocks = {id(s): id(body) for n in nodes if configs for body in bodies_of(n) for s in body}
    made = [blocks.get(id(node)) for node in assigning]
    trainers = [n for n in nodes if isinstance(n, ast.Call) and (dotted(n.func) or "").endswith("Trainer")]
    plain = {id(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr != "__dict__"}
    plain |= {id(value) for call in trainers for value in (*call.args, *(k.value for k in call.keywords))}
    uses = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in configs]
    handed = any(id(use) not in plain for use in uses)
    for node in nodes if configs else ():
        yield from _set_by_name(node, configs, file)
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in (inner for outer in targets for inner in getattr(outer, "elts", [outer])):
            if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
                continue
            alone = isinstance(node, ast.Assign) and target in node.targets and blocks.get(id(node)) in made
            if alone and names.values.get(target.value.id) is call and node.value is not None:
                yield from _given(target.attr, node.value, names, file)
            elif target.value.id in configs or (handed and target.value.id != "self"):
                yield target.attr, Entry(Unread(written_of(node)), f"{file}:{node.lineno}")


def _set_by_name(node: ast.AST, configs: set[str], file: str) -> Iterator[tuple[str, Entry]]:
    """Yield an `Unread` entry for each key that a node names, as in `replace(config, key=…)`.

    The key is "**" where a setattr names none, and for `vars(config)` and `config.__dict__`.

    configs: the names that the configuration has.
    """
    name = (dotted(node.func) or "").rpartition(".")[2] if isinstance(node, ast.Call) else ""
    config: ast.AST | None = node.value if isinstance(node, ast.Attribute) and node.attr == "__dict__" else None
    if isinstance(node, ast.Call) and node.args and name in ("replace", "setattr", "vars"):
        config = node.args[0]
    if not isinstance(node, ast.expr) or not isinstance(config, ast.Name) or config.id not in configs:
        return
    keys: list[str | None] = [None]
    if isinstance(node, ast.Call) and name == "replace":
        keys = [keyword.arg for keyword in node.keywords]
    elif isinstance(node, ast.Call) and name == "setattr" and isinstance(node.args[-2], ast.Constant):
        keys = [str(node.args[-2].value)]
    for key in keys:
        yield key or "**", Entry(Unread(written_of(node)), f"{file}:{node.lineno}")


def _updates(nodes: list[ast.AST], call: ast.Call, file: str) -> Iterator[tuple[str, Entry]]:
    """Yield the key and the entry of each value that the program puts into a mapping which it hands to `call` as
    **args.

    A value is put in by `args.update(…)` or by `args[key] = …`. The entries are `Unread`, since only a run would tell
    whether the values are there.

    nodes: all nodes of the program's syntax tree.
    file: the name of the program's file, for the places.
    """
    mappings = {k.value.id for k in call.keywords if k.arg is None and isinstance(k.value, ast.Name)}
    for node in nodes if mappings else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            if isinstance(node.func.value, ast.Name) and node.func.value.id in mappings:
                place = f"{file}:{node.lineno}"
                for key in [k.arg or f"**{written_of(k.value)}" for k in node.keywords]:
                    yield key, Entry(Unread(written_of(node), maybe=True), place)
                if node.args:
                    yield f"**{written_of(node.args[0])}", Entry(Unread(written_of(node)), place)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and dotted(target.value) in mappings:
                    key = (
                        str(target.slice.value) if isinstance(target.slice, ast.Constant) else f"**{written_of(target)}"
                    )
                    yield key, Entry(Unread(written_of(node), maybe=True), f"{file}:{node.lineno}")
