"""The audit of a run: its tables in, findings out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import isfinite
from numbers import Real
from typing import Any

import polars as pl

from gdpo_core import reproduce
from gdpo_core._types import ArrayLike
from gdpo_core.errors import InputError, expect
from gdpo_core.findings import NAMES, Facts, Finding, findings, outline
from gdpo_core.findings.facts import sums
from gdpo_core.findings.recipe import without_overwritten
from gdpo_core.logs.run import Run
from gdpo_core.reproduce.recipe import Recipe
from gdpo_core.summary import Plan, Summary, merge, summarise
from gdpo_core.summary.over_time import over_time, repeated_batches

_SAMPLE = 50_000  # responses from which method and weights are solved; all responses then check the result
_CONVENTIONS = {"trl": "trl", "verl": "verl", "ms_swift": "ms_swift", "nemo_rl": "nemo_rl", "generic": "paper"}


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

    source: outline.SourcePart
    run: outline.RunPart
    rewards: tuple[outline.RewardPart, ...]
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
        source=outline.source(facts, summary.batches),
        run=outline.run(facts),
        rewards=tuple(outline.reward(facts, k) for k in range(len(run.rewards))),
        methods={m: outline.method(facts, m) for m in facts.methods},
        findings=found,
        steps=over_time(Summary(plan, facts.batches)),
        verdict=outline.verdict(facts, found),
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
