"""The classes of a report's JSON document, from which its JSON schema is made. `ReportMembers` holds the members that
a report has both in Python and in JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gdpo_audit.findings.examples import GroupPart
from gdpo_audit.findings.finding import Finding
from gdpo_audit.json_types import (
    ByPart,
    LengthsPart,
    MethodPart,
    PromptsPart,
    RewardPart,
    RunPart,
    SourcePart,
    StepPart,
)
from gdpo_audit.records import Claim
from gdpo_audit.trials.setting import Setting
from gdpo_audit.trials.what_if import WhatIf


@dataclass(frozen=True, kw_only=True)
class ReportMembers:
    """The members of a report that are the same in Python and in JSON."""

    source: SourcePart
    run: RunPart
    rewards: tuple[RewardPart, ...]
    methods: Annotated[
        Mapping[str, MethodPart],
        Meta(description="What each method makes of these rewards: grpo, grpo_no_std, gdpo, grpo_batch_std."),
    ]
    plan: Annotated[
        tuple[Setting, ...],
        Meta(description="Settings tried on the log; at most one is recommended; empty: nothing can be tried."),
    ] = ()
    findings: Annotated[
        tuple[Finding, ...], Meta(description="Errors first, then warnings; then what is about most of the run.")
    ]
    reading: Annotated[
        tuple[Claim, ...], Meta(description="How the log was read: a claim for each decision, with its evidence.")
    ] = ()
    by: Annotated[
        tuple[ByPart, ...],
        Meta(description="By the values of the column asked for, else of one that holds few texts; else empty."),
    ] = ()
    prompts: Annotated[PromptsPart | None, Meta(description="null: the log does not say which prompts return.")] = None
    lengths: Annotated[LengthsPart | None, Meta(description="null: no tokens, and no texts or too many.")] = None


@dataclass(frozen=True, kw_only=True)
class ReportPart(ReportMembers):
    """The audit of one run: what `gdpo audit --json` writes, and `AuditReport.to_dict()` gives."""

    schema: Literal[1]
    verdict: str
    steps: list[StepPart]
    groups: Annotated[list[GroupPart], Meta(description="Where they were asked for (--groups).")] | UnsetType = UNSET
    what_if: Annotated[WhatIf, Meta(description="Only where a setting was asked for.")] | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class ReportsPart:
    """The audits of several runs."""

    schema: Literal[1]
    runs: list[ReportPart]
