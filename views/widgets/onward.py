"""Links that lead the reader on to another chapter, or to a scenario of Train, in which something can be seen."""

from gdpo_core.shared.markup import Html, tag

SEEN = {
    "lab": "See it in the Lab",
    "evidence": "See it in Evidence",
    "run": "See the report",
    "train": "See it trained",
    "use": "See the lines for your trainer",
}


def onward(chapter: str, about: str, scenario: str = "") -> Html:
    """Return a link to a chapter, or to a scenario of the chapter Train.

    chapter: the key of the chapter.
    about: what can be seen there, which a screen reader says.
    scenario: the id of the scenario, "" for none.

    >>> onward("lab", "ties")
    Markup('<a class="onward" href="?at=lab" aria-label="See it in the Lab: ties">See it in the Lab</a>')
    """
    query = f"?at={chapter}" + (f"&train-scenario={scenario}" if scenario else "")
    return tag("a", SEEN[chapter], kind="onward", href=query, aria_label=f"{SEEN[chapter]}: {about}")
