"""The beginnings and ends of sentences in findings and reports, as the facts of a run require them."""

from gdpo_audit.findings.facts import Facts
from gdpo_core._words import number
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS

WEIGHTS_FROM = {  # by `Facts.weights_from`: the end of a sentence about the weights of the figures
    "given": "as given",
    "solved": "solved from the advantages",
    "score": "from the logged score",
    "config": "from args.json",
    "log": "from the log",
    "parts": "what a pass pays, as given",
    "fitted": "fitted to the logged score",
    "nearest": "as the advantages show them",
    "assumed": "assumed",
}


def whose(convention: str) -> str:
    """Return whose computation a convention is, in words that can be the subject of a sentence.

    >>> whose("trl"), whose("paper")
    ('TRL', 'the paper')
    """
    name = ALL_CONVENTIONS[convention].name
    return "the paper" if name == "paper" else name


def lead_in(f: Facts) -> str:
    """Return the beginning of a sentence about the run's method, such as “Under GDPO”; where the log does not show the
    method, it says why that method is taken.
    """
    name = f"Under {NAMES[f.method]}"
    if f.recipe is not None:
        return name
    asked = "which is the trainer's own" if f.trainers_own else "which was asked for"
    why = asked if f.intended_method == f.method else "taken as the default"
    shows = "no known method made what the log holds" if f.contradicted else "the log does not show the method"
    return f"{name} ({why}: {shows})"


def but_residue(f: Facts) -> str:
    """Return words to put behind “every advantage is 0” if the log holds round-off in place of some zeros, else ""."""
    if f.recipe is None or not f.totals.logged.residue_groups:
        return ""
    return f" but for round-off (up to {number(f.totals.logged.largest_silent, 2)} is logged there)"
