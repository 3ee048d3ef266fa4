"""A Makefile, read and not run: the commands of its rules, in which variables have the values that it gives them."""

import re
from collections.abc import Mapping

from gdpo_core.checking.readers.shell import read_shell
from gdpo_core.checking.readers.shell_variables import LOST
from gdpo_core.checking.readers.sources import Source
from gdpo_core.shared.words import clip

MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_ASSIGNS = re.compile(r"(?:export[ ]+|override[ ]+)*([\w.-]+)[ \t]*(\?|\+|::?|!)?=[ \t]*(.*)", re.DOTALL)
_OF_TARGET = re.compile(r"[^\t#=]+:[ \t]*(?:export[ ]+)?([\w.-]+)[ \t]*[?:+!]*=")  # it holds for one target alone
_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\)|\{([^{}]*)\}|.)")
_CONDITION = re.compile(r"[ ]*(if(?:n?eq|n?def)\b|endif\b|define\b|endef\b)")
_INCLUDES = re.compile(r"-?s?include[ \t]+(\S+)")
_DEEPEST = 50  # how many variables inside one another are followed
_LONGEST = 100_000  # the most characters of a value


def read_makefile(text: str, file: str) -> list[Source]:
    """Return the sources of entries in the rules of a Makefile, whose lines are each read as a shell script.

    A variable has the value that the Makefile gives it. It is unknown if the Makefile sets it twice or inside a
    condition, or if a program works it out.

    file: the name of the file, for errors and places.

    Raises InputError as `read_shell` does.
    """
    lines = _joined(text)
    variables = _variables(lines)
    sources = []
    for number, line in lines:
        if line.startswith("\t"):
            command = _filled(line.lstrip("\t").lstrip("@-+ "), variables)
            sources += read_shell(command, file, first=number)
    included = [(number, match[1]) for number, line in lines if (match := _INCLUDES.match(line))]
    hidden = tuple(f"{file}:{number} includes {clip(name)}" for number, name in included)
    return [*sources, Source(file, {}, place=f"{file}:1", hidden=hidden)] if hidden else sources


def _joined(text: str) -> list[tuple[int, str]]:
    """Return the lines of a Makefile with their numbers, in which a backslash at the end joins a line to the next."""
    lines: list[tuple[int, str]] = []
    open_end = False
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if open_end:
            begun, before = lines[-1]
            lines[-1] = begun, f"{before}\n{line}"
        else:
            lines.append((number, line))
        open_end = line.endswith("\\")
    return lines


def _variables(lines: list[tuple[int, str]]) -> dict[str, str]:
    """Return the values of the variables, with `LOST` for a variable whose value is unknown."""
    variables: dict[str, str] = {}
    depth = 0
    for _, line in lines:
        if condition := _CONDITION.match(line):
            depth += -1 if condition[1].startswith("end") else 1
        elif not line.startswith("\t") and (match := _ASSIGNS.match(line)):
            unknown = depth > 0 or match[1] in variables or match[2] in ("!", "+")
            value = re.sub(r"[ \t]*\\\n[ \t]*", " ", match[3].partition(" #")[0].strip())
            value = _filled(value, variables) if match[2] in (":", "::") else value
            variables[match[1]] = LOST if unknown else value
        elif not line.startswith("\t") and (match := _OF_TARGET.match(line)):
            variables[match[1]] = LOST
    return _resolved(variables)


def _resolved(variables: dict[str, str]) -> dict[str, str]:
    """Return the values of variables after those that they name were filled in; a name that leads to itself is lost."""
    done: dict[str, str] = {}

    def resolve(name: str, depth: int) -> None:
        done[name] = LOST
        for match in _REFERENCE.finditer(variables[name]):
            inner = match[1] or match[2] or ""
            if inner in variables and inner not in done and depth < _DEEPEST:
                resolve(inner, depth + 1)
        done[name] = _filled(variables[name], done)

    for name in variables:
        if name not in done:
            resolve(name, 0)
    return done


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text in which each reference to a variable is replaced by its value, and $$ by $.

    A reference to a function of make, or to a variable that the Makefile does not set, becomes `LOST`. So does a text
    that gets too long.
    """

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1] or match[2] or "", LOST)

    if len(text) > _LONGEST:
        return LOST
    filled = _REFERENCE.sub(value, text)
    return filled if len(filled) <= _LONGEST else LOST
