"""A finding, one thing that the owner of a run should know, and how severe it may be."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from gdpo_core.shared.errors import expect, is_whole
from gdpo_core.shared.words import listing

SEVERITIES = ("error", "warning", "info")
LISTED = 100  # steps in a report or in the evidence of a finding


class Link(Struct, frozen=True):
    """A page elsewhere that explains a finding."""

    title: str
    url: str


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that the owner of a run should know: how severe it is, what it means, what to do, and the numbers
    behind it.

    id: the name of the function that looks for it, with “-” for “_”.
    row: the index, from 0, of a setting in the report's plan, which is the list of settings tried on this run. This
        setting may be an answer to the finding.
    extent: how much of the run it concerns, from 0 to 1. It sorts the findings of one severity, after those whose kind
        is marked as `first`.
    """

    id: str = ""  # the function `findings` gives it the name of the function that looks for it
    severity: Annotated[str, Meta(extra_json_schema={"enum": list(SEVERITIES)})] = "warning"
    title: Annotated[str, Meta(description="The fact in a few words.")]
    message: Annotated[str, Meta(description="What it is, and what it means.")]
    to_do: Annotated[str, Meta(description="One sentence; empty where nothing has to be done.")] = ""
    evidence: Annotated[Mapping[str, Any], Meta(description="The numbers, and the thresholds they were held against.")]
    fix: Annotated[
        str | None, Meta(description="Lines that mend the log or the configuration, for the run's framework.")
    ] = None
    row: Annotated[int | None, Meta(description="The row of the plan that answers it; from 0.")] = None
    extent: Annotated[
        float, Meta(description="How much of the run it is about, from 0 to 1: the order of findings.")
    ] = 0.0
    read_more: Annotated[
        str, Meta(description="The chapter of the page, or the section of docs/audit.md, about it.")
    ] = ""
    links: Annotated[tuple[Link, ...], Meta(description="In the paper, and in the framework's documentation.")] = ()

    def __post_init__(self) -> None:
        """Raise InputError for a severity, evidence or row that no report could show."""
        expect(self.severity in SEVERITIES, "severity", listing(SEVERITIES, "or"), repr(self.severity))
        named = isinstance(self.evidence, Mapping)
        expect(named, "evidence", "a mapping from names to figures", type(self.evidence).__name__)
        numbered = self.row is None or (is_whole(self.row) and self.row >= 0)
        expect(numbered, "row", "a row of the plan, from 0, or None", repr(self.row))
