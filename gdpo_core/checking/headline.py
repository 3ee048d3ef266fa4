"""The first line of a check: whether the run starts, and if it does, which method runs with how many rewards."""

from collections.abc import Sequence

from gdpo_core.checking.filling import Filled
from gdpo_core.checking.recognise import Recognised
from gdpo_core.checking.rules import Runs
from gdpo_core.checking.traps import FoundTrap
from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import count

_ENDS = {"start": "Will not start", "update": "Will end before its first update"}
NOT_TOLD = "Not told which method runs."


def headline_of(recognised: Recognised, traps: Sequence[FoundTrap], runs: Runs | None, rewards: int) -> str:
    """Return a sentence on whether the run starts, or else on what runs. It claims no more than was read.

    A trap that ends the run decides, as long as it is an error. Else the sentence names the method, or says that it is
    not told.

    recognised: the configuration, as its trainer sees it.
    traps: the traps that it holds.
    runs: the record of the method that runs; None where that cannot be told.
    rewards: how many rewards there are; 0 where that is not told.
    """
    rules = f"by the rules of {recognised.framework.title} {recognised.rules.read_version}".rstrip()
    says = _ends(traps, rules) or _runs(recognised, runs, rewards, rules)
    again = recognised.repeated and says != NOT_TOLD
    return f"The first of several runs w{says.removeprefix('W')}" if again else says


def _ends(traps: Sequence[FoundTrap], rules: str) -> str:
    """Return the sentence that an error ends the run before its first update, or "" where no such trap is known.

    rules: words for the rules by which this is said.
    """
    fatal = [trap for trap in traps if trap.ends and trap.severity == "error"]
    for ends, says in _ENDS.items():
        if any(trap.ends == ends and not trap.versions for trap in fatal):
            return f"{says}, {rules}."
    return f"{_ENDS[fatal[0].ends]} in versions {fatal[0].versions}, {rules}; no version is given." if fatal else ""


def _runs(recognised: Recognised, runs: Runs | None, rewards: int, rules: str) -> str:
    """Return the sentence on the method that runs; the arguments are those of `headline_of` and `_ends`."""
    fill = Filled({}, recognised.known)
    name = NAMES[runs.method] if runs and runs.method else fill(runs.name, runs.when) if runs else ""
    several = f" with {count(rewards, 'reward')}" * bool(rewards)
    unless = ", unless what was not looked into says otherwise" * bool(recognised.hidden)
    return f"Will run {name}{several}, {rules}{unless}." if name else NOT_TOLD
