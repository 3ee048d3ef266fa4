"""The parts of a report, each made from the facts of a run; `report_of` puts them together."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import polars as pl

from gdpo_audit.facts.claims import assumed_condition, claims_of
from gdpo_audit.facts.facts import Facts, Phase
from gdpo_audit.facts.notes import notes_on_run
from gdpo_audit.facts.prompt_counts import lengths_of, prompts_of, silent_responses
from gdpo_audit.facts.quarters import mean_of_quarters
from gdpo_audit.facts.wording import but_residue
from gdpo_audit.findings.examples import example_groups
from gdpo_audit.findings.finding import LISTED, Finding
from gdpo_audit.json_types import MethodPart, RewardPart, RunPart, SourcePart
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.by import of_value
from gdpo_audit.report.verdict import caution, logged_count, not_called_for, what_ran, what_to_do
from gdpo_audit.sums.figures import ratio
from gdpo_audit.sums.over_time import MEAN, changed_at, column_name, over_time, series_of
from gdpo_audit.sums.wanted import WORDS
from gdpo_audit.trials.setting import Setting

CORRELATED = 8  # the most rewards whose correlations a report holds


def report_of(f: Facts, findings: Sequence[Finding], plan: Sequence[Setting]) -> AuditReport:
    """Return the report that is put together from the facts of a run, its findings and its plan."""
    steps, reading = over_time(f.basis, f.batches, f.alike), claims_of(f)
    first_step, *further = what_to_do(f, findings, plan, assumed_condition(reading))
    return AuditReport(
        source=_source(f),
        run=_run(f),
        rewards=tuple(_reward(f, k, steps) for k in range(len(f.rewards))),
        methods={m: _method(f, m) for m in f.methods},
        findings=tuple(findings),
        steps=steps,
        what_ran=what_ran(f),
        first_step=first_step,
        further=" ".join(further),
        not_called_for=not_called_for(f, findings, plan),
        plan=tuple(plan),
        reading=reading,
        caution=caution(f),
        by=tuple(of_value(f, value_facts) for value_facts in f.by),
        prompts=prompts_of(f),
        lengths=lengths_of(f),
        _groups=example_groups(f, findings),
        _texts=f.run.texts,
    )


def _source(f: Facts) -> SourcePart:
    """Return the part of a report about its log: where it is, what it holds, and what was not read."""
    in_all = f.batches, f.repeated_batches, f.overwritten_batches
    return {
        "path": f.run.path,
        "framework": f.run.framework,
        "as_written": f.run.as_written,
        "files": len(f.run.files),
        "steps": len(f.steps),
        "responses": int(sum(batches.responses.sum() for batches in in_all)),
        "groups": int(sum(batches.groups.sum() for batches in in_all)),
        "group_size": f.run.group_size,
        "rewards": list(f.run.rewards),
        "grouped_by": f.run.grouped_by,
        "skipped_lines": f.run.skipped_lines,
        "skipped_files": list(f.run.skipped_files),
        "left_out": list(f.run.left_out),
        "window": None if f.run.window is None else [f.run.window[0][0], f.run.window[-1][1]],
        "stretches": None if f.run.window is None else [list(stretch) for stretch in f.run.window],
        "notes": list(notes_on_run(f)),
    }


def _run(f: Facts) -> RunPart:
    """Return the part of a report about the recipe of the logged advantages, and about the weights of its figures."""
    recipe, without = f.recipe, dict.fromkeys(f.run.without_weight, 0.0)
    error = float(max(batches.logged.max_error.max(initial=-np.inf) for batches in (f.batches, f.overwritten_batches)))
    wrong = [batches.step[batches.logged.wrong > 0] for batches in (f.batches, f.overwritten_batches)]
    weights: dict[str, float | None] | None = None
    if recipe is not None:
        printed = zip(f.rewards, f.printed(recipe.weights), strict=True)
        weights = {**{name: w if name in f.known_weights else None for name, w in printed}, **without}
    return {
        "method": None if recipe is None else recipe.method,
        "convention": None if recipe is None or recipe.convention_open else recipe.convention,
        "weights": weights,
        "weights_in_turn": [
            {"step": x.step, "weights": dict(x.weights)} for x in _listed(() if f.weights_by_column else f.phases)
        ],
        "weights_up_to_scale": None if recipe is None else recipe.up_to_scale,
        "remarks": [] if recipe is None else list(f.remarks),
        "logged": logged_count(f),
        "all_zero": f.all_zero,
        "reproduced": f.reproduced,
        "max_error": error if recipe is not None and error >= 0 else None,
        "weights_used": dict(zip(f.rewards, f.printed(f.basis.weights), strict=True)) | without,
        "weights_from": f.weights_from,
        "not_counted": {x.name: x.why for x in f.run.uncounted},
        "convention_used": f.basis.convention,
        "asked": f.intended_method,
        "trainers_own": f.trainers_own,
        "primary": None if f.basis.primary is None else f.rewards[f.basis.primary],
        "steps_off": np.unique(np.concatenate(wrong)).tolist()[:LISTED],
        "silent_responses": silent_responses(f),
        "but_residue": but_residue(f),
    }


def _listed(phases: Sequence[Phase]) -> Sequence[Phase]:
    """Return at most `LISTED` of a run's phases, which are stretches with constant weights: the first ones and the last
    one.

    [] if there are fewer than two phases, as the weights then never change.
    """
    return [*phases[: LISTED - 1], *phases[LISTED - 1 :][-1:]] if len(phases) > 1 else []


def _reward(f: Facts, k: int, steps: pl.DataFrame) -> RewardPart:
    """Return the part of a report about the reward of index k.

    steps: the report's table of steps.
    """
    sums, several = f.totals.rewards, 2 <= len(f.rewards) <= CORRELATED
    present, means = int(sums.present[k]), series_of(steps, column_name(MEAN, f.rewards[k]))
    first, last = mean_of_quarters(f.batches.rewards.total[k], f.batches.rewards.present[k])
    return {
        "name": f.rewards[k],
        "wanted": WORDS[f.wanted[k]],
        "mean": f.mean(k) if present else None,
        "std": sqrt(float(sums.scatter[k]) / (present - 1)) if present > 1 else None,
        "range": f.width(k) if present else None,
        "missing": int(f.totals.responses) - present,
        "dead_groups": f.dead(k),
        "update_share": {m: f.shares(m)[k] for m in f.methods},
        "push": {m: f.push(m)[k] for m in f.methods},
        "punished": {m: f.punished(m)[k] for m in f.methods},
        "asks_for": f.share_of_squares(k),
        "first_quarter": first,
        "last_quarter": last,
        "changed_at": changed_at(steps["step"].to_list(), means),
        "correlations": {name: f.correlation(k, i) for i, name in enumerate(f.rewards) if several and i != k},
    }


def _method(f: Facts, m: str) -> MethodPart:
    """Return the part of a report with the figures of one method, m, over the whole run."""
    return {
        "groups_with_ties": f.ties(m),
        "tied_pairs": f.tied_pairs(m),
        "levels": ratio(f.totals.methods[m].levels, f.totals.methods[m].mixed_groups),
        "silent_groups": f.silent(m),
        "inversions": f.inversions(m),
    }
