"""The traps that a configuration holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from gdpo_core.checking.evaluate import in_force
from gdpo_core.checking.filling import Filled
from gdpo_core.checking.recognise import Recognised
from gdpo_core.checking.rules import Ends, Severity, Trap
from gdpo_core.shared.words import listing, one_line, printable

TRAP_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True)
class FoundTrap:
    """A trap that a configuration holds: what happens, and the line of configuration to write instead.

    id: the name of the trap.
    severity: one of "error", "warning" and "info".
    says: what happens.
    line: the line of configuration to write instead.
    place: where the key that makes the trap stands in the configuration, as file:line; "" where it stands nowhere.
    read_in: the place in the trainer's code or documents where the trap was read.
    ends: "start" if the trainer then refuses to start, "update" if an error ends the run before its first update, and
        "" if the run goes on.
    versions: where the trainer's version is not known and only some versions have the trap, which these are, as in
        "from 0.9 on"; else "".
    """

    id: str
    severity: Severity
    says: str
    line: str
    place: str
    read_in: str
    ends: Ends = ""
    versions: str = ""


def lines_of(trap: FoundTrap) -> list[str]:
    """Return what happens under a trap, and what to write instead, each in a line."""
    return [f"{trap.severity}: {trap.says} [{trap.id}]", f"  write: {trap.line}"]


def traps_of(recognised: Recognised, fill: Filled) -> Iterator[FoundTrap]:
    """Yield the traps that the configuration holds, the worst first.

    A trap may exist in some versions of the trainer only. If the version is not known, such a trap is yielded only if
    its `if_open` is true. Its severity is then info if the newest version no longer has it.

    fill: a function that puts values of the configuration into a sentence.
    """
    held = []
    for trap in recognised.rules.traps:
        force = in_force(trap.since, trap.until, recognised.version)
        if recognised.known.holds(trap.when) and (force or (force is None and trap.if_open)):
            open_end = force is None
            # Without a version the newest one is the likeliest, and it no longer has a trap with an `until`.
            severity: Severity = "info" if open_end and trap.until else trap.severity
            versions = _versions(trap) if open_end else ""
            says = f"{fill(trap.says, trap.when)}{f' This holds {versions}; no version is given.' * open_end}"
            keys = [c.key for c in reversed(trap.when) if c.key in recognised.known.entries and c.key != "program"]
            place = recognised.known.entries[keys[0]].place if keys else ""
            line = printable(fill(trap.line, trap.when).strip())
            held.append(
                FoundTrap(trap.id, severity, one_line(says), line, one_line(place), trap.read_in, trap.ends, versions)
            )
    yield from sorted(held, key=lambda trap: TRAP_SEVERITIES.index(trap.severity))


def looked_for(recognised: Recognised) -> str:
    """Return the sentence that no known trap was found, with the number of those that could be looked for."""
    traps = [t for t in recognised.rules.traps if in_force(t.since, t.until, recognised.version) is not False]
    told = [trap for trap in traps if recognised.known.holds(trap.when) is not None]
    rest = len(traps) - len(told)
    left = f"; {rest} depend{'s' * (rest == 1)} on what was not read" * bool(rest)
    hidden = "; what is named above as not looked into may hold more" * bool(recognised.hidden)
    looked = f"{len(told)} of {recognised.framework.title} could be looked for{left}{hidden}"
    return f"None of the known traps was found: {looked}."


def _versions(trap: Trap) -> str:
    """Return which versions have a trap, as in "from 0.9 on and before 0.10"."""
    return listing([f"from {trap.since} on"] * bool(trap.since) + [f"before {trap.until}"] * bool(trap.until))
