"""All kinds of findings, and the function that returns all findings about a run in their order.

A kind has the function that looks for it, and the places that explain it: in the page or in docs/audit.md, and in the
paper.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan

from msgspec.structs import replace

from gdpo_audit.facts.claims import claims_of, rests_on, taken_for_granted
from gdpo_audit.facts.facts import Facts
from gdpo_audit.findings import (
    findings_advantages,
    findings_log,
    findings_methods,
    findings_primary,
    findings_rewards,
    findings_shares,
    findings_weights,
)
from gdpo_audit.findings.finding import SEVERITIES, Finding, Link
from gdpo_audit.trials.setting import Setting
from gdpo_core.frameworks import FRAMEWORKS

PAPER_LINK = "https://arxiv.org/abs/2601.05242"


@dataclass(frozen=True)
class Kind:
    """Describe a kind of finding: the function that looks for it, and where it is explained.

    look: the function, which yields a run's findings of this kind from its facts.
    place: the chapter of the page, or the section of docs/audit.md, that explains it.
    paper: the place in the paper, empty for none.
    terms: the words of the glossary that it uses.
    scenario: the scenario in the chapter Train that shows it, empty for none.
    first: whether its findings come before all other findings of the same severity, however much of the run those are
        about.
    planned: whether another setting of the plan may be an answer to it.
    weighed: whether it rests on the weights of the rewards, as every share and every push does.
    """

    look: Callable[[Facts], Iterator[Finding]]
    place: str
    paper: str = ""
    terms: tuple[str, ...] = ()
    scenario: str = ""
    first: bool = False
    planned: bool = False
    weighed: bool = False


_TRAIN, _EVIDENCE, _LAB = "page, chapter Train", "page, chapter Evidence", "page, chapter Lab"
_USE, _LOG, _LIMITS = "page, chapter Use it", "docs/audit.md, Reading a log", "docs/audit.md, Limits"
_FORMULAS, _SHARE = "equations 4 to 7", ("update share", "scale", "weight")
# Findings of one severity that are about as much of the run are shown in this order.
_IN_ORDER = (
    Kind(findings_primary.reward_falls, _TRAIN, "", ("update share",), first=True, weighed=True),
    Kind(findings_advantages.advantage_impossible, _LOG, "", ("advantage",)),
    Kind(findings_log.groups_sampled, _LOG, "", ("group",)),
    Kind(findings_advantages.advantages_upside_down, _USE, _FORMULAS, ("advantage",)),
    Kind(findings_advantages.method_not_as_asked, _USE, _FORMULAS, ("convention",)),
    Kind(findings_log.missing_rewards, _LOG),
    Kind(findings_rewards.conflict, _TRAIN, scenario="conflict", planned=True, weighed=True),
    Kind(findings_shares.reward_dominates, _TRAIN, _FORMULAS, _SHARE, "scales", planned=True, weighed=True),
    Kind(findings_shares.reward_starved, _TRAIN, _FORMULAS, _SHARE, planned=True, weighed=True),
    Kind(findings_rewards.reward_dead, _TRAIN, "", ("zero-variance group",), "live"),
    Kind(findings_rewards.reward_dead_in_part, _LOG, "", ("zero-variance group",)),
    Kind(findings_rewards.reward_sentinel, _LOG, "", ("update share",)),
    Kind(findings_rewards.reward_fades, _TRAIN, "", ("zero-variance group", "update share")),
    Kind(findings_rewards.reward_noise, _TRAIN, _FORMULAS, ("normalise", "eps"), "noise"),
    Kind(
        findings_methods.ties_hide_signal, _LAB, "section 3.1 and Fig. 2", ("tie", "level"), planned=True, weighed=True
    ),
    Kind(findings_methods.silent_groups, _LAB, "", ("silent group",)),
    Kind(findings_methods.priority_inversion, _EVIDENCE, "equation 8", ("wrong order",), planned=True, weighed=True),
    Kind(findings_primary.no_right_answer, _EVIDENCE, "equation 8", ("update share", "zero-variance group")),
    Kind(findings_methods.blind_zero_std_metric, _LAB, "", ("zero-variance group",)),
    Kind(findings_methods.filter_drops_signal, _LAB, "", ("silent group", "zero-variance group")),
    Kind(findings_methods.batch_step_amplifies, _LAB, _FORMULAS, ("batch step", "silent group")),
    Kind(findings_rewards.length_coupled, _USE, "equation 8"),
    Kind(findings_log.steps_missing, _LOG),
    Kind(findings_log.steps_repeated, _LOG),
    Kind(findings_advantages.eval_overwrote, _LIMITS),
    Kind(findings_advantages.rows_missing, _LOG, "", ("batch step",)),
    Kind(findings_advantages.reward_columns_merged, _LOG),
    Kind(findings_log.rewards_collinear, _LOG, "", ("weight",)),
    Kind(findings_log.groups_mix_prompts, _LOG, "", ("group",), first=True),
    Kind(findings_log.prompts_merged, _LOG, "", ("group",)),
    Kind(findings_log.ragged_batches, _LOG, "", ("batch",)),
    Kind(findings_log.score_not_a_sum, _LOG),
    Kind(findings_log.no_components, _LIMITS),
    Kind(findings_advantages.advantages_not_reproduced, _LOG, "", ("convention",)),
    Kind(findings_weights.weights_change, _USE, _FORMULAS, ("weight",)),
    Kind(findings_weights.weights_not_as_given, _USE, _FORMULAS, ("weight",)),
)
KINDS = {kind.look.__name__.replace("_", "-"): kind for kind in _IN_ORDER}  # by the finding's id
IDS = tuple(sorted(KINDS))


def findings(facts: Facts, plan: Sequence[Setting]) -> tuple[Finding, ...]:
    """Return all findings about a run, in the order in which they are shown: errors first, then warnings, then the
    rest.

    A finding that rests on the weights, and is more than a remark, ends with what it takes for granted, if that is only
    assumed. Within a severity, findings whose kind is marked as `first` come first. After them come those that concern
    the largest part of the run. `reward-dominates` counts as concerning at least as much of the run as any
    `priority-inversion` or `reward-starved` does, since these follow from it.

    facts: the facts of the run.
    plan: the settings that were tried on the run, its own first. A finding whose kind is marked as `planned` gets as
        its `row` the index in the plan of the recommended setting. If none is recommended, `conflict` and
        `priority-inversion` get the index of the first setting with a gate. Otherwise `row` is None.
    """
    best = next((n for n, setting in enumerate(plan) if setting.recommended), None)
    gate = next((n for n, setting in enumerate(plan) if setting.gate), None)
    rows = dict.fromkeys((id_ for id_, kind in KINDS.items() if kind.planned), best)
    rows |= dict.fromkeys(("conflict", "priority-inversion"), gate if best is None else best)
    condition = rests_on(taken_for_granted(claims_of(facts)))
    results = [
        replace(
            x,
            id=id_,
            message=x.message + condition * (kind.weighed and x.severity != "info"),
            read_more=kind.place,
            row=rows.get(id_),
            extent=0.0 if isnan(x.extent) else x.extent,
            links=links(id_, facts.run.framework, x.fix is not None),
        )
        for id_, kind in KINDS.items()
        for x in kind.look(facts)
    ]
    # Where one reward makes most of the update, that is why others make little and why answers are in its order. So it
    # concerns as much of the run as those findings do, and comes before them.
    follow = max((x.extent for x in results if x.id in ("priority-inversion", "reward-starved")), default=0.0)
    results = [replace(x, extent=max(x.extent, follow)) if x.id == "reward-dominates" else x for x in results]
    return tuple(sorted(results, key=lambda x: (SEVERITIES.index(x.severity), not KINDS[x.id].first, -x.extent)))


def links(finding: str, framework: str, fixed: bool) -> tuple[Link, ...]:
    """Return links to the pages that explain a finding: to the paper if a place in it is known, and to the
    documentation of the framework.

    finding: the id of the finding.
    framework: the id of the framework.
    fixed: whether lines of the framework's configuration change what the finding says. If not, the link to the
        framework's documentation is left out.

    >>> [link.title for link in links("ties-hide-signal", "trl", True)]
    ['the GDPO paper, section 3.1 and Fig. 2', 'the documentation of TRL']
    """
    trainer, paper = FRAMEWORKS[framework], KINDS[finding].paper if finding in KINDS else ""
    in_paper = [Link(f"the GDPO paper, {paper}", PAPER_LINK)] if paper else []
    documented = fixed and trainer.documentation
    return *in_paper, *([Link(f"the documentation of {trainer.title}", trainer.documentation)] if documented else [])
