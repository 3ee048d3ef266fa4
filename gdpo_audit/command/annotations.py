"""The traps of a configuration as the commands by which GitHub's workflows mark a line of a file."""

from collections.abc import Iterator
from pathlib import Path

from gdpo_core.checking.check import ConfigCheck
from gdpo_core.checking.traps import FoundTrap
from gdpo_core.shared.words import listing, one_line

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}  # by the severity of a trap


def annotations(check: ConfigCheck) -> Iterator[str]:
    """Yield the lines that say in a workflow what a configuration will run: a sentence, and a command for each trap."""
    yield _harmless(f"{check.headline} ({one_line(listing(check.files, most=4))})")
    for trap in check.traps:
        where = _where(check, trap)
        beside = f" ({trap.place})" * bool(trap.place and "line" not in where)
        write = f"\nWrite: {trap.line}" * bool(trap.line)
        yield _command(_COMMANDS[trap.severity], f"{trap.says}{beside}{write}", where | {"title": f"gdpo {trap.id}"})


def refusal_command(text: str) -> str:
    """Return the command that marks a run of a workflow, as the configuration cannot be read.

    text: the sentence that says so.
    """
    return _command("error", text, {"title": "gdpo check"})


def _where(check: ConfigCheck, trap: FoundTrap) -> dict[str, str]:
    """Return the file and the line of a trap, as properties of a command; a property that is not told is left out.

    A notebook has no lines that a reader of the file could count. A trap without a place stands in the one file, if
    there is one alone.
    """
    given = {one_line(name): name for name in check.files}
    file, _, line = trap.place.rpartition(":")
    notebook = any(name.endswith(".ipynb") for name in given)
    if file in given or (not notebook and file and Path(file).is_file()):
        return {"file": file} if file.endswith(".ipynb") else {"file": file, "line": line}
    return {"file": next(iter(given))} if len(given) == 1 else {}


def _command(name: str, message: str, properties: dict[str, str]) -> str:
    """Return a command of GitHub's workflows in one line.

    >>> _command("error", "100 %\\nof it", {"file": "a,b.sh", "line": "3"})
    '::error file=a%2Cb.sh,line=3::100 %25%0Aof it'
    """
    given = ",".join(f"{key}={_escaped(value, of_property=True)}" for key, value in properties.items())
    return f"::{name} {given}::{_escaped(message)}"


def _escaped(text: str, of_property: bool = False) -> str:
    """Return a text as the value of a command, in which %, line breaks and, in a property, : and , have other names."""
    named = _harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return named.replace(":", "%3A").replace(",", "%2C") if of_property else named


def _harmless(text: str) -> str:
    """Return a text in which the runner of a workflow finds no command of the older form ##[NAME].

    >>> _harmless("a ##[error] of yours")
    'a ## [error] of yours'
    """
    return text.replace("##[", "## [")
