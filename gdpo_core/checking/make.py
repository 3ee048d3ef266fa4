"""A Makefile, read and not run: the commands of its rules, in which variables have the values that it gives them."""

import re
from collections.abc import Mapping

from gdpo_core.checking.shell import read_shell
from gdpo_core.checking.shell_variables import LOST
from gdpo_core.checking.sources import Source

MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_ASSIGNS = re.compile(r"(?:export[ ]+|override[ ]+)*([\w.-]+)[ \t]*(\?|\+|::?|!)?=[ \t]*(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\)|\{([^{}]*)\}|.)")
_CONDITION = re.compile(r"[ ]*(if(?:n?eq|n?def)\b|endif\b|define\b|endef\b)")
_DEEPEST = 10  # how many variables inside one another are followed
_LONGEST = 10_000  # the most characters of a value


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
    return sources


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
            variables[match[1]] = LOST if unknown else value
    return variables


def _filled(text: str, variables: Mapping[str, str], depth: int = 0) -> str:
    """Return a text in which each reference to a variable is replaced by its value, and $$ by $.

    A reference to a function of make, or to a variable that the Makefile does not set, becomes `LOST`.

    depth: how many variables led to this text.
    """

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        known = variables.get(match[1] or match[2] or "", LOST)
        return LOST if depth >= _DEEPEST or len(known) > _LONGEST else _filled(known, variables, depth + 1)

    return _REFERENCE.sub(value, text)[: 100 * _LONGEST]
