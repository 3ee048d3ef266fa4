"""A setting of the plan, and what a log shows under it."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from gdpo_audit.json_types import PUNISHED_IN_JSON, ForecastPart, GatePart, MaybeNaN
from gdpo_core.pushing import PUSH_EXPLAINED as PUSH


class TrialPart(Struct, frozen=True, kw_only=True):
    """A setting: a method, the weight of each reward by name, and a gate or null."""

    method: str
    weights: Mapping[str, float]
    gate: GatePart | None


class Setting(Struct, frozen=True, kw_only=True):
    """Hold one row of the plan: a setting (method, weights, perhaps a gate) and the figures that the log gives under
    it, such as shares, pushes and ties. The first row is the run's own setting.
    """

    setting: TrialPart
    title: Annotated[str, Meta(description="In a few words.")]
    do: Annotated[str, Meta(description="The start of a sentence; empty for the run's own.")]
    update_share: Mapping[str, MaybeNaN]
    push: Annotated[Mapping[str, float], Meta(description=f"By reward, without the gate. {PUSH}")]
    punished: Annotated[Mapping[str, MaybeNaN], Meta(description=f"By reward, without the gate. {PUNISHED_IN_JSON}")]
    inversions: Annotated[MaybeNaN, Meta(description="null without a primary reward.")]
    groups_with_ties: MaybeNaN
    tied_pairs: MaybeNaN
    silent_groups: MaybeNaN
    dead_groups: Annotated[Mapping[str, float], Meta(description="By reward, behind the gate.")]
    lines: Annotated[str | None, Meta(description="Of configuration; null: none are known.")]
    off: Annotated[
        MaybeNaN, Meta(description="How far the shares are from what the weights of the run ask for, from 0 to 1.")
    ]
    tried_on: Annotated[int, Meta(description="Responses of the log.")]
    recommended: bool = False
    forecast: Annotated[
        Mapping[str, ForecastPart] | None,
        Meta(description="By reward; null of the run's own, without a primary reward, and of fewer than 20 steps."),
    ] = None
    why: Annotated[str, Meta(description="Of the recommended one: the end of the sentence that `do` begins.")] = ""
    only_if: Annotated[
        str, Meta(description="Of the recommended one: words behind `do` on what has to be accepted; empty: nothing.")
    ] = ""
    cost: Annotated[
        str,
        Meta(
            description="What it costs against the run's own, in sentences; empty of the run's own, and without a "
            "primary reward."
        ),
    ] = ""
    held_back: Annotated[
        str, Meta(description="Of the one that would be recommended but for a reason: that reason, in sentences.")
    ] = ""

    @property
    def method(self) -> str:
        """The method of the setting."""
        return self.setting.method

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each reward in the setting, by name."""
        return self.setting.weights

    @property
    def gate(self) -> GatePart | None:
        """The gate of the setting, None without one."""
        return self.setting.gate
