"""Links to the chapter, and the scenario of Train, in which something can be seen."""

from functools import lru_cache
from pathlib import Path

from gdpo_core._errors import InputError
from gdpo_core._html import Html, tag
from gdpo_core.scenarios import load_scenarios

SCENARIOS = Path(__file__).resolve().parent.parent / "data" / "scenarios.json"
SEEN = {
    "lab": "See it in the Lab",
    "evidence": "See it on real prompts",
    "run": "See the report",
    "train": "See it trained",
    "use": "See the lines for your trainer",
}


@lru_cache(maxsize=1)
def titles() -> dict[str, str]:
    """The scenarios' titles by id; none where their file cannot be read, which Train then says."""
    try:
        return {scenario.id: scenario.title for scenario in load_scenarios(SCENARIOS)}
    except InputError:
        return {}


def onward(chapter: str, about: str, scenario: str = "") -> Html:
    """A link to a chapter, or to a scenario of Train; about: what of, for a screen reader.

    >>> onward("lab", "ties")
    Markup('<a class="onward" href="?at=lab" aria-label="See it in the Lab: ties">See it in the Lab</a>')
    """
    known = scenario if scenario in titles() else ""
    shown = f"Train: {titles()[known]}" if known else SEEN[chapter]
    query = f"?at={chapter}" + (f"&train-scenario={known}" if known else "")
    return tag("a", shown, kind="onward", href=query, aria_label=f"{shown}: {about}")
