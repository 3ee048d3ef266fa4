"""The audit of a run: the tables of its log become facts, the facts a plan, facts and plan the findings, and all of
them a report.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from gdpo_audit.facts.by_column import by_value
from gdpo_audit.facts.claims import claims_of
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.log_details import (
    lengths_in_characters,
    means_on_returning_prompts,
    pays_of_total,
    texts_of_worst_prompts,
)
from gdpo_audit.facts.uncounted import without_uncounted
from gdpo_audit.findings.examples import best_groups
from gdpo_audit.findings.findings import findings
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.records import Claim
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.parts import report_of
from gdpo_audit.sums.sentinels import sentinels_of
from gdpo_audit.sums.summarise import Mapped
from gdpo_audit.trials.plan import plan_of
from gdpo_audit.trials.summing_up import facts_of_run
from gdpo_audit.trials.what_if import compute_what_if, validate_setting, with_every_weighed_reward
from gdpo_audit.unexplained.readings import left_out_reward
from gdpo_audit.unexplained.solving import Wanted, recipe_of_all
from gdpo_core.conventions import NAMES
from gdpo_core.shared.errors import expect
from gdpo_core.shared.inputs import ArrayLike, weights_by_name


@torch.inference_mode()  # nothing here is differentiated, and torch's steps are then a tenth faster
def audit(
    run: Run,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    *,
    asked: str | None = None,
    what_if: Mapping[str, Any] | None = None,
    engine: Mapped = map,
) -> AuditReport:
    """Audit a run: return a report on what its log shows about the rewards.

    weights: {reward: weight}, or one number per reward. A reward without one has the weight that shows in the logged
        advantages. If none shows, it has the weight in the log or in a configuration file beside it, else 1.
    primary: the name of the reward that matters most; None if no reward does.
    asked: the method that was meant to run: a key of `gdpo_core.conventions.NAMES`, such as grpo or gdpo. By default it
        is the method of the run's configuration or of its trainer, if that is known.
    what_if: the arguments of `AuditReport.what_if`, as a dict; the whole run is then computed under this setting too.
    engine: a function that is called as `map` is, to apply another function to each part of the log.

    Raises InputError for an argument that does not fit the run, and where the log cannot be read.
    """
    setting = None if what_if is None else validate_setting(run, what_if)
    facts = gather(run, weights, primary, asked, engine)
    plan = plan_of(facts)
    report = report_of(facts, findings(facts, plan), plan)
    alternative = None
    if setting is not None:
        tables = with_every_weighed_reward(facts, setting).run.tables()
        alternative = compute_what_if(facts, setting, tables, engine)
    return replace(report, alternative=alternative, _facts=_for_a_what_if(facts))


@torch.inference_mode()
def reading(
    run: Run,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    asked: str | None = None,
) -> tuple[Claim, ...]:
    """Return how the log of a run was read: a claim for each decision, with its evidence. It has the arguments and the
    errors of `audit`, and computes only what the claims rest on.
    """
    wanted = _wanted(run, weights, primary, asked)._replace(claims_only=True)
    return claims_of(_counted(run, wanted, map))


def _for_a_what_if(facts: Facts) -> Facts:
    """Return the facts without what a report needs only while it is made: tables, summary, examples and `by`."""
    return replace(facts, tables=(), by=(), examples=None, summary=None)


@torch.inference_mode()
def gather(
    run: Run,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    asked: str | None = None,
    engine: Mapped = map,
) -> Facts:
    """Return the facts of a run, on which its findings and its report rest. It has the arguments and the errors of
    `audit`.

    The facts hold all that findings need of the log. Rewards that do not count, such as a reward of weight 0, are left
    out. They stay if leaving them out would change whether the advantages are reproduced.
    """
    expect(callable(engine), "engine", "a function that is called as map is", repr(engine))
    wanted = _wanted(run, weights, primary, asked)
    facts = _counted(run, wanted, engine)
    for add in AFTER_COUNTING:
        facts = add(facts)
    return facts


def _wanted(
    run: Run, weights: Mapping[str, float] | ArrayLike | None, primary: str | None, asked: str | None
) -> Wanted:
    """Return what the caller of an audit asks for, with the method of the run's configuration where none is asked for.

    Raises InputError for an argument that does not fit the run.
    """
    expect(isinstance(run, Run), "run", "what gdpo_audit.read_run returns", type(run).__name__)
    given = weights_by_name(weights, run.rewards)
    expect(primary is None or primary in run.rewards, "primary", f"one of {', '.join(run.rewards)}", repr(primary))
    intended = run.configured_method if asked is None else asked
    expect(intended is None or intended in tuple(NAMES), "asked", f"one of {', '.join(NAMES)}", repr(intended))
    return Wanted(given, primary, intended)


def _counted(run: Run, wanted: Wanted, engine: Mapped) -> Facts:
    """Return the facts of a run with only the rewards that count, as `gather` describes it."""
    of_all = facts = facts_of_run(run, wanted, engine)
    while fewer := without_uncounted(facts):
        of_fewer = facts_of_run(fewer, wanted, engine)
        if of_fewer.reproduced != facts.reproduced:
            break
        facts = replace(of_fewer, with_all=_for_a_what_if(of_all))
    return facts


def _with_left_out_reward(f: Facts) -> Facts:
    """Return the facts with the column that makes the advantages if it is read as a reward, where no recipe does."""
    unknown = f.reproduced is False and f.recipe is None
    left_out = left_out_reward(f.run, partial(recipe_of_all, Wanted({}, None, None))) if unknown else None
    return replace(f, left_out_reward=left_out)


def _with_values_and_examples(f: Facts) -> Facts:
    """Return the facts with those of each value of the column `by`, and with the groups that serve as examples."""
    return replace(f, by=by_value(f), examples=best_groups(f))


def _with_details_of_the_log(f: Facts) -> Facts:
    """Return the facts with what a report reads of the log besides its sums: texts, lengths, and what stays open."""
    return replace(
        f,
        undecided=f.run.count_undecided(),
        pays=pays_of_total(f.run),
        prompt_texts=texts_of_worst_prompts(f),
        characters=lengths_in_characters(f),
        returning=means_on_returning_prompts(f),
        sentinels=sentinels_of(f.tables, f.rewards),
    )


# The passes over the facts once the rewards that count are known, in order.
AFTER_COUNTING = (_with_left_out_reward, _with_values_and_examples, _with_details_of_the_log)


# --- summing up -------------------------------------------------------------------------------------------------------
