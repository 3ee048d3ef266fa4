"""A finding, one thing that the owner of a run should know, and how severe it may be."""

from collections.abc import Mapping
from dataclasses import dataclass

SEVERITIES = ("error", "warning", "info")
LISTED = 100  # steps in a report or in the evidence of a finding


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that the owner of a run should know."""

    id: str = ""  # `findings` gives it the name of the function that looks for it
    severity: str = "warning"  # or info, or error
    title: str  # the fact in a few words
    message: str  # what it is and what it means
    to_do: str = ""  # a sentence; empty where nothing has to be done
    evidence: Mapping[str, object]  # the numbers, and the thresholds they were held against
    fix: str | None = None  # lines that mend the log, or the configuration, for the framework of the run
    row: int | None = None  # of the plan, that answers it
    extent: float = 0.0  # how much of the run it is about, from 0 to 1
    read_more: str = ""  # the chapter of the page, or section of docs/audit.md, about it
