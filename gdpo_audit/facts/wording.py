"""Parts of sentences in findings and reports that depend on the facts of a run. They say where its weights come from,
whose convention it follows, and how a sentence about its method begins.
"""

from gdpo_audit.facts.facts import Facts
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.words import number

WEIGHTS_FROM = {  # by `Facts.weights_from`: how the weights of the figures came about, after "that were"
    "given": "given to the audit",
    "solved": "worked out from the logged advantages",
    "score": "worked out from the logged score",
    "config": "read from args.json",
    "log": "read from the log",
    "parts": "given as what a pass of each reward pays",
    "fitted": "fitted to the logged score",
    "nearest": "read off the advantages as far as these show them",
    "assumed": "assumed",
}


def whose(convention: str) -> str:
    """Return the name of the framework whose convention this is, or “the paper”, in words that can be the subject of a
    sentence.

    convention: the id of a way to compute advantages.

    >>> whose("trl"), whose("paper")
    ('TRL', 'the paper')
    """
    name = ALL_CONVENTIONS[convention].name
    return "the paper" if name == "paper" else name


def lead_in(f: Facts) -> str:
    """Return the beginning of a sentence about the run's method, such as “Under GDPO”. Where the log does not show the
    method, these words also say why this method is taken.
    """
    name = f"Under {NAMES[f.method]}"
    if f.recipe is not None:
        return name
    asked = "the trainer's own method" if f.trainers_own else "the method that was asked for"
    why = asked if f.intended_method == f.method else "taken as the default"
    shows = "no known method made the logged advantages" if f.contradicted else "the log does not show which method ran"
    return f"{name} ({why}, because {shows})"


def but_residue(f: Facts) -> str:
    """Return words to put behind “every advantage is 0” if the log holds round-off in place of some zeros. "" if it
    holds none, or if no recipe of the advantages is known.
    """
    if f.recipe is None or not f.totals.logged.residue_groups:
        return ""
    return f" apart from round-off (of up to {number(f.totals.logged.largest_silent, 2)} there)"
