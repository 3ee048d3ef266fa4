"""The findings about a run: one small function per finding takes the facts and yields sentences."""

from gdpo_core.findings.dominates import reward_dominates
from gdpo_core.findings.facts import NAMES, Facts, Finding
from gdpo_core.findings.fades import reward_fades
from gdpo_core.findings.groups import (
    batch_step_amplifies,
    blind_zero_std_metric,
    filter_drops_signal,
    silent_groups,
    ties_hide_signal,
)
from gdpo_core.findings.log import (
    missing_rewards,
    no_components,
    prompts_merged,
    ragged_batches,
    score_and_rewards,
    steps_missing,
    steps_repeated,
)
from gdpo_core.findings.priority import priority_inversion
from gdpo_core.findings.recipe import (
    advantages_not_reproduced,
    eval_overwrote,
    method_not_as_asked,
    reward_columns_merged,
    weights_not_as_given,
)
from gdpo_core.findings.rewards import (
    conflict,
    length_coupled,
    reward_dead,
    reward_noise,
    weight_zero,
)

__all__ = ["ALL", "NAMES", "SEVERITIES", "Facts", "Finding", "findings"]

SEVERITIES = ("error", "warning", "info")

# Within one severity, findings are shown in this order.
ALL = (
    method_not_as_asked,
    missing_rewards,
    conflict,
    reward_dominates,
    reward_dead,
    reward_fades,
    reward_noise,
    ties_hide_signal,
    silent_groups,
    priority_inversion,
    blind_zero_std_metric,
    filter_drops_signal,
    batch_step_amplifies,
    length_coupled,
    steps_missing,
    steps_repeated,
    eval_overwrote,
    reward_columns_merged,
    prompts_merged,
    ragged_batches,
    score_and_rewards,
    no_components,
    advantages_not_reproduced,
    weights_not_as_given,
    weight_zero,
)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """All findings about a run: errors first, then warnings, then the rest."""
    found = [finding for look in ALL for finding in look(facts)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))
