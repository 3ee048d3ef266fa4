"""The audit of a run: its tables in, findings out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import isfinite, isnan, sqrt
from numbers import Real
from typing import Any, TypedDict

import polars as pl

from gdpo_core import reproduce
from gdpo_core._types import ArrayLike
from gdpo_core._words import count, listing, number
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.errors import InputError, expect
from gdpo_core.logs.run import Run
from gdpo_core.reproduce.recipe import Recipe
from gdpo_core.runs.facts import NAMES, SEVERITIES, Facts, Finding, real, sums
from gdpo_core.runs.findings_log import (
    advantages_not_reproduced,
    eval_overwrote,
    method_not_as_asked,
    missing_rewards,
    no_components,
    prompts_merged,
    ragged_batches,
    reward_columns_merged,
    score_and_rewards,
    steps_missing,
    steps_repeated,
    weights_not_as_given,
    without_overwritten,
)
from gdpo_core.runs.findings_methods import (
    batch_step_amplifies,
    blind_zero_std_metric,
    filter_drops_signal,
    priority_inversion,
    silent_groups,
    ties_hide_signal,
)
from gdpo_core.runs.findings_rewards import (
    conflict,
    length_coupled,
    reward_dead,
    reward_dominates,
    reward_fades,
    reward_noise,
    weight_zero,
)
from gdpo_core.runs.sums import Plan, Summary, merge, over_time, repeated_batches, summarise
from gdpo_core.runs.thresholds import FEW_GROUPS

_SAMPLE = 50_000  # responses from which method and weights are solved; all responses then check the result
_CONVENTIONS = {"trl": "trl", "verl": "verl", "ms_swift": "ms_swift", "nemo_rl": "nemo_rl", "generic": "paper"}


class SourcePart(TypedDict):
    """What the log holds."""

    path: str
    framework: str
    files: int
    steps: int
    responses: int
    groups: int
    group_size: int | None  # None: groups of different sizes
    rewards: list[str]
    grouped_by: str  # in words
    skipped_lines: int
    left_out: list[str]  # columns that were not read


class RunPart(TypedDict):
    """What made the logged advantages, and what the figures were computed with."""

    method: str | None  # None: the log does not show it
    convention: str | None
    weights: dict[str, float | None] | None  # None for a weight: the log cannot tell it
    weights_up_to_scale: bool | None
    logged: int
    reproduced: bool | None  # None: nothing to compare with
    max_error: float | None
    weights_used: dict[str, float]
    weights_from: str  # given, solved, score, config or assumed
    convention_used: str
    asked: str | None
    primary: str | None
    steps_off: list[int]


class RewardPart(TypedDict):
    """One reward: its spread, where it is missing or constant, and its part of the update under each method."""

    name: str
    mean: float | None
    std: float | None
    missing: int  # responses
    dead_groups: float
    update_share: dict[str, float]


@dataclass(frozen=True)
class AuditReport:
    """What happened in a run; `to_dict` gives all of it as plain values.

    source: counts of the responses, groups and steps in the log.
    run: how the run computed its advantages; `weights_used` are the weights behind `methods`.
    rewards: `missing` counts responses; `dead_groups` is the share of groups in which the reward is constant, among the
    groups that hold it, or 1 if none does.
    methods: shares and means as in `collapse`, over the whole run, for every method on these rewards.
    steps: one row per step.
    """

    source: SourcePart
    run: RunPart
    rewards: tuple[RewardPart, ...]
    methods: Mapping[str, Mapping[str, float | None]]
    findings: tuple[Finding, ...]
    steps: pl.DataFrame
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """The report as plain lists, numbers and text, ready for JSON; NaN and infinity become None."""
        parts = {
            "schema": 1,
            "verdict": self.verdict,
            "source": self.source,
            "run": self.run,
            "rewards": self.rewards,
            "methods": self.methods,
            "findings": [asdict(finding) for finding in self.findings],
            "steps": self.steps.to_dicts(),
        }
        return {name: _plain(part) for name, part in parts.items()}


def audit(
    run: Run,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    *,
    asked: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """What the log of a run shows about its rewards.

    weights: {reward: weight}, or one number per reward. By default the weights that made the logged advantages, else
    those in the log or in a configuration file beside it, else 1 each.
    primary: the reward that matters most.
    asked: the method that was meant to run: grpo, grpo_no_std, grpo_batch_std or gdpo.
    progress: called after each table with its number of responses.
    Raises InputError.
    """
    expect(isinstance(run, Run), "run", "what gdpo_core.read_run returns", type(run).__name__)
    given = _given(weights, run.rewards)
    expect(primary is None or primary in run.rewards, "primary", f"one of {', '.join(run.rewards)}", repr(primary))
    asked = run.asked if asked is None else asked
    expect(asked is None or asked in NAMES, "asked", f"one of {', '.join(NAMES)}", repr(asked))

    tables = run.tables()
    first = _first(tables)
    sample = _sample(first) if run.has_advantage else []
    recipe = _solved(run, sample, given, asked)
    if recipe is None and (other := _regrouped(run, given, asked)):
        return audit(other, given or None, primary, asked=asked, progress=progress)
    summary = _summary(chain(first, tables), run, _plan(run, given, primary, recipe), progress)
    if chosen := _untold(summary, run, sample):
        sample += [part for table in run.tables() if len(part := table.filter(pl.col("batch").is_in(chosen)))]
        better = _solved(run, sample, given, asked)
        if better is not None and better != recipe:
            summary = _summary(run.tables(), run, _plan(run, given, primary, better))
    plan = summary.plan
    there = sum(summary.batches[f"there_{k}"].sum() for k in range(len(run.rewards)))
    expect(there > 0, run.path, f"numbers in {', '.join(run.rewards)}", "missing values only")

    again = repeated_batches(summary.batches)
    once = Summary(plan, summary.batches.filter(~again))
    facts = Facts(
        run=run,
        plan=plan,
        totals=sums(once),
        batches=once.batches,
        repeated=summary.batches.filter(again),
        overwritten=summary.batches.clear(),
        steps=sorted(set(summary.batches["step"]) | set(summary.batches["step_last"])),
        given=given,
        asked=asked,
    )
    facts = without_overwritten(facts)
    found = findings(facts)
    return AuditReport(
        source=_source(facts, summary.batches),
        run=_run(facts),
        rewards=tuple(_reward(facts, k) for k in range(len(run.rewards))),
        methods={m: _method(facts, m) for m in facts.methods},
        findings=found,
        steps=over_time(Summary(plan, facts.batches)),
        verdict=_verdict(facts, found),
    )


def _solved(run: Run, sample: list[pl.DataFrame], given: Mapping[str, float], asked: str | None) -> Recipe | None:
    """The recipe of the sample's advantages; with the method asked for, if several make the same ones."""
    if not sample:
        return None
    told = {**(run.weights or {}), **given}
    hint = [told.get(name, 1.0) for name in run.rewards] if told else None
    recipe = reproduce.solve(sample, run.rewards, run.framework, hint)
    if recipe is None or asked in (None, recipe.method):
        return recipe
    other = replace(recipe, method=asked)
    try:
        compared = [reproduce.compare(table, run.rewards, other) for table in sample]
    except InputError:  # the method needs lengths that are not logged
        return recipe
    return recipe if any(bool((off > allowed).any()) for off, allowed in compared) else other


def _regrouped(run: Run, given: Mapping[str, float], asked: str | None) -> Run | None:
    """The run with another group size that fits its prompts, if the advantages can be reproduced with it."""
    for size in run.other_sizes:
        other = run.regrouped(size)
        sample = _sample(_first(other.tables())) if other.has_advantage else []
        if _solved(other, sample, given, asked) is not None:
            return other
    return None


def _plan(run: Run, given: Mapping[str, float], primary: str | None, recipe: Recipe | None) -> Plan:
    made = run.weights or {}
    if recipe is not None:
        made = dict(zip(run.rewards, recipe.weights, strict=True))
    return Plan(
        rewards=run.rewards,
        weights=tuple(given.get(name, made.get(name, 1.0)) for name in run.rewards),
        convention=_CONVENTIONS[run.framework] if recipe is None else recipe.convention,
        primary=None if primary is None else run.rewards.index(primary),
        recipe=recipe,
    )


def _summary(
    tables: Iterable[pl.DataFrame], run: Run, plan: Plan, progress: Callable[[int], None] | None = None
) -> Summary:
    summaries = []
    for table in tables:
        summaries.append(summarise(table, plan))
        if progress is not None:
            progress(len(table))
    expect(len(summaries) > 0, run.path, "at least one response", "none")
    return merge(summaries)


def _untold(summary: Summary, run: Run, sample: list[pl.DataFrame]) -> list[int]:
    """Batches, with about as many responses as a sample, that may show what the sample from the start did not.

    A reward that is constant early in the run leaves its weight open; if all are, the method stays open too.
    """
    recipe, rest = summary.plan.recipe, summary.batches
    if not sample or (recipe is not None and not recipe.unknown):
        return []
    rest = rest.filter(~pl.col("batch").is_in(pl.concat([table["batch"].unique() for table in sample])))
    rest = rest.filter(pl.col("rows_off") > 0 if recipe is not None else pl.col("logged_squares") > 0)
    apart = max(1, -(-int(rest["responses"].sum()) // _SAMPLE))
    return rest.gather_every(apart)["batch"].to_list()


def _given(weights: object, rewards: Sequence[str]) -> dict[str, float]:
    """The weights that the caller gives, by reward."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        values = weights.tolist() if hasattr(weights, "tolist") else weights
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise InputError(f"weights: expected numbers, got {weights!r}")
        expect(len(values) == len(rewards), "weights", f"{len(rewards)} numbers, one per reward", f"{len(values)}")
        weights = dict(zip(rewards, values, strict=True))
    for name, w in weights.items():
        expect(name in rewards, "weights", f"names of rewards: {', '.join(rewards)}", repr(name))
        number = isinstance(w, Real) and not isinstance(w, bool) and isfinite(w)
        expect(number, f"weights, {name}", "a finite number", repr(w))
    return {name: float(w) for name, w in weights.items()}


def _first(tables: Iterator[pl.DataFrame]) -> list[pl.DataFrame]:
    """As many tables from the start as the sample needs; the rest stays unread."""
    first: list[pl.DataFrame] = []
    responses = 0
    for table in tables:
        first.append(table)
        responses += len(table)
        if responses >= _SAMPLE:
            break
    return first


def _sample(tables: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Whole batches from the start, with about _SAMPLE responses."""
    sample: list[pl.DataFrame] = []
    room = _SAMPLE
    for table in tables:
        ends = table["batch"].rle().struct.field("len").cum_sum()
        fit = ends.filter(ends <= room)
        if len(fit) or not sample:
            sample.append(table.head(fit[-1] if len(fit) else ends[0]))
        room -= len(table)
        if room <= 0:
            break
    return sample


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    raise InputError(f"report: expected plain values, got {type(value).__name__}")


_LISTED = 100  # steps in the report


def _source(f: Facts, batches: pl.DataFrame) -> SourcePart:
    """What the log holds; batches: all batches, repeated ones too."""
    return {
        "path": f.run.path,
        "framework": f.run.framework,
        "files": len(f.run.files),
        "steps": len(f.steps),
        "responses": int(batches["responses"].sum()),
        "groups": int(batches["groups"].sum()),
        "group_size": f.run.group_size,
        "rewards": list(f.run.rewards),
        "grouped_by": f.run.grouped_by,
        "skipped_lines": f.run.skipped_lines,
        "left_out": list(f.run.left_out),
    }


def _run(f: Facts) -> RunPart:
    """What made the logged advantages, and what the figures were computed with."""
    recipe = f.recipe
    compared = pl.concat([f.batches, f.overwritten])
    off = compared.filter(pl.col("rows_off") > 0)
    error = real(compared["max_error"].max())
    weights: dict[str, float | None] | None = None
    if recipe is not None:
        weights = {
            name: None if k in recipe.unknown else w
            for k, (name, w) in enumerate(zip(f.rewards, recipe.weights, strict=True))
        }
    by = f.run.weights_by if f.run.weights and f.run.weights_by else "assumed"
    if recipe is not None and (len(recipe.unknown) < len(f.rewards) or not f.run.weights):
        by = "solved"
    return {
        "method": None if recipe is None else recipe.method,
        "convention": None if recipe is None else recipe.convention,
        "weights": weights,
        "weights_up_to_scale": None if recipe is None else recipe.up_to_scale,
        "logged": int(f.totals["logged"]) + int(f.overwritten["logged"].sum()),
        "reproduced": f.reproduced,
        "max_error": None if recipe is None or isnan(error) else error,
        "weights_used": dict(zip(f.rewards, f.plan.weights, strict=True)),
        "weights_from": "given" if f.given else by,
        "convention_used": f.plan.convention,
        "asked": f.asked,
        "primary": None if f.plan.primary is None else f.rewards[f.plan.primary],
        "steps_off": off["step"].unique().sort().head(_LISTED).to_list(),
    }


def _reward(f: Facts, k: int) -> RewardPart:
    """One reward: its spread, where it is missing or constant, and its part of the update under each method."""
    there, total = int(f.totals[f"there_{k}"]), f.totals[f"total_{k}"]
    variance = (f.totals[f"squares_{k}"] - total**2 / there) / (there - 1) if there > 1 else None
    return {
        "name": f.rewards[k],
        "mean": total / there if there else None,
        "std": None if variance is None else sqrt(max(variance, 0.0)),
        "missing": int(f.totals["responses"]) - there,
        "dead_groups": f.dead(k),
        "update_share": {m: f.shares(m)[k] for m in f.methods},
    }


def _method(f: Facts, m: str) -> dict[str, float]:
    """Which of these rewards one method tells apart."""
    return {
        "groups_with_ties": f.ties(m),
        "tied_pairs": f.part(f"{m}_tied_pairs", f"{m}_different_pairs"),
        "levels": f.part(f"{m}_levels", f"{m}_mixed_groups"),
        "silent_groups": f.part(f"{m}_silent_groups", "groups"),
        "inversions": f.inversions(m),
    }


def _verdict(f: Facts, found: Sequence[Finding]) -> str:
    """What ran, whether that is certain, and what to look at first."""
    if f.recipe is not None:
        made = f"{NAMES[f.recipe.method]} as {CONVENTIONS[f.recipe.convention].name} computes it"
        pairs = zip(f.rewards, f.recipe.weights, strict=True)
        weights = [f"{name} {number(w)}" for k, (name, w) in enumerate(pairs) if k not in f.recipe.unknown]
        made += f" with weights {listing(weights, link='')}" if weights and len(f.rewards) > 1 else ""
        off, logged = (int(f.totals[what]) + int(f.overwritten[what].sum()) for what in ("rows_off", "logged"))
        if f.reproduced:
            error = number(real(f.batches["max_error"].max()), digits=1)
            ran = f"The logged advantages are {made}: all {count(logged)} are reproduced, to {error}."
        else:
            ran = f"The logged advantages are {made}, but for {count(off)} of {count(logged)}."
    elif f.all_silent and f.totals["mixed_groups"]:
        ran = "Every logged advantage is 0, as under every method here: the rewards cancel in each group."
    elif f.totals["logged"] and f.totals["logged_zero"] == f.totals["logged"]:
        ran = "Every logged advantage is 0, which does not show the method that ran."
    elif f.reproduced is False:
        known = "total" if f.run.total_only else "rewards"
        ran = f"The logged advantages are not what any known method makes of the logged {known}."
    else:
        ran = "The log holds no advantages, so it does not show which method ran."
    return f"{ran} {_headline(f, found)}"


def _headline(f: Facts, found: Sequence[Finding]) -> str:
    for finding in found:
        if finding.severity != "info":
            return f"Look first at {finding.id}: {finding.headline}"
    groups, responses = f.totals["groups"], f.totals["responses"]
    size = f"{count(responses, 'response')} in {count(groups, 'group')}"
    few = f"{size} are too few to judge; " if groups < FEW_GROUPS else ""
    sentence = f"{few}{'no finding asks for a change' if found else 'no finding'}."
    return sentence[0].upper() + sentence[1:]


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
