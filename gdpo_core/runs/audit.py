"""The audit of a run: its tables in, findings out. The only place that knows the order of the steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._inputs import ArrayLike, weights_by_name
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.runs.audit_report import AuditReport, report_of
from gdpo_core.runs.by import by_value
from gdpo_core.runs.changes import most_common, recipe_of_one_batch, recipes_by_batch
from gdpo_core.runs.facts import Facts, scaled_share
from gdpo_core.runs.findings import findings
from gdpo_core.runs.grouping import regroup
from gdpo_core.runs.impossible import impossible
from gdpo_core.runs.recipe import Recipe, compare, tensors_of
from gdpo_core.runs.run import Run
from gdpo_core.runs.solve import solve
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Array, Made, Plan, Summary, Sums, merge, take
from gdpo_core.runs.thresholds import SCALE_ONLY
from gdpo_core.runs.trials import Sample
from gdpo_core.runs.uncounted import counted
from gdpo_core.runs.what_if import compute_what_if, validate_setting

# Responses from which method and weights are solved, and those of batches that they do not explain; all responses then
# check the result.
SAMPLE, _SAMPLE_OF_THE_REST = 50_000, 20_000
LEFT_OUT = 4  # columns that are tried as rewards where nothing makes the advantages: each is another reading

# Small batches can be equal by chance. A batch counts as repeated if it holds at least so many pairs of responses that
# differ, or if at least this share of the run's batches equals the batch before.
_PAIRS, _SHARE = 24, 0.4


def audit(
    run: Run,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    *,
    asked: str | None = None,
    what_if: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
    engine: Callable[[Run, Plan], Summary] | None = None,
) -> AuditReport:
    """What the log of a run shows about its rewards.

    weights: {reward: weight}, or one number per reward. By default the weights that made the logged advantages, else
    those in the log or in a configuration file beside it, else 1 each.
    primary: the reward that matters most.
    asked: the method that was meant to run: grpo, grpo_no_std, grpo_batch_std or gdpo.
    what_if: a setting to compute the whole run under too, as the arguments of `AuditReport.what_if`.
    progress: called after each table with its number of responses.
    engine: computes the summary of a run elsewhere; here by default.
    Raises InputError.
    """
    setting = None if what_if is None else validate_setting(run, what_if)
    facts = gather(run, weights, primary, asked, progress, engine)
    report = report_of(facts, findings(facts))
    alternative = None if setting is None else compute_what_if(facts, setting, engine)
    return replace(report, alternative=alternative, _facts=_for_a_what_if(facts))


def _for_a_what_if(facts: Facts) -> Facts:
    """The facts without what only findings need."""
    return replace(facts, tables=(), by=(), examples=None, _trials={})


def gather(
    run: Run,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    asked: str | None = None,
    progress: Callable[[int], None] | None = None,
    engine: Callable[[Run, Plan], Summary] | None = None,
) -> Facts:
    """The facts that the audit of a run stands on; arguments and errors as `audit`."""
    expect(isinstance(run, Run), "run", "what gdpo_core.read_run returns", type(run).__name__)
    given, intended = check_arguments(run, weights, primary, asked)
    tables = run.tables()
    first = _first(tables)
    sample = sample_of(first) if run.has_advantage else []
    recipe = solve_recipe(run, sample, given, intended)
    if recipe is None and (other := _regroup(run, given, intended)):
        return gather(other, given or None, primary, intended, progress, engine)
    if recipe is None:
        recipe = _recipe_but_for_large(run, sample, given, intended)
    # Where every step has weights of its own, no recipe makes many of them.
    one = recipe or recipe_of_one_batch(run, sample)
    plan = partial(plan_of, run, given, primary, intended=intended)
    summary = engine(run, plan(one)) if engine else _summary(chain(first, tables), plan(one), progress)

    def facts_again(plan: Plan) -> Facts:
        return facts_of(run, engine(run, plan) if engine else _summary(run.tables(), plan), given, intended)

    facts = facts_of(run, summary, given, intended)
    if one is recipe and (open_batches := _may_tell_more(summary, sample)):
        sample += _tables_of(run, open_batches)
        better = solve_recipe(run, sample, given, intended)
        if better is not None and better != recipe:
            facts = facts_again(plan(better))
    if recipes := recipes_by_batch(facts):
        facts = facts_again(_plan_of_each(plan(most_common([*recipes.values()])), given, recipes))
    elif one is not recipe:
        facts = facts_again(plan(None))
    facts = _without_others(facts)
    if fewer := counted(facts):
        of_these = {name: w for name, w in given.items() if name in fewer.rewards}
        of_fewer = gather(fewer, of_these, primary, intended, None, engine)
        if of_fewer.reproduced == facts.reproduced:
            return replace(of_fewer, with_all=_for_a_what_if(facts))
    left_out = _left_out_reward(run) if facts.reproduced is False and facts.recipe is None else None
    return replace(facts, by=by_value(facts), left_out_reward=left_out)


def check_arguments(
    run: Run, weights: Mapping[str, float] | ArrayLike | None, primary: str | None, asked: str | None
) -> tuple[dict[str, float], str | None]:
    """The caller's weights and the method that was meant to run. Raises InputError."""
    given = weights_by_name(weights, run.rewards)
    expect(primary is None or primary in run.rewards, "primary", f"one of {', '.join(run.rewards)}", repr(primary))
    intended = run.configured_method if asked is None else asked
    expect(intended is None or intended in tuple(NAMES), "asked", f"one of {', '.join(NAMES)}", repr(intended))
    return given, intended


# --- what made the advantages -----------------------------------------------------------------------------------------


def solve_recipe(
    run: Run, sample: list[pl.DataFrame], given: Mapping[str, float], intended: str | None
) -> Recipe | None:
    """The recipe of the sample's advantages; with the intended method, if several make the same ones."""
    if not sample:
        return None
    known = {**(run.weights or {}), **given}
    hint = [known.get(name, 1.0) for name in run.rewards] if known else None
    recipe = solve(sample, run.rewards, run.framework, hint)
    if recipe is None or intended in (None, recipe.method):
        return recipe
    other = replace(recipe, method=intended)
    try:
        return other if _reproduces(other, sample, run.rewards) else recipe
    except InputError:  # the method needs lengths that are not logged
        return recipe


def _recipe_but_for_large(
    run: Run, sample: list[pl.DataFrame], given: Mapping[str, float], intended: str | None
) -> Recipe | None:
    """The recipe that makes all advantages but some that no rewards make; it is solved without the groups of these."""
    a = pl.col("advantage").fill_nan(None)
    large = a.abs().max().over("group") > (pl.len().over("group") - 1).sqrt() * (1 + 1e-6)
    kept = [table.with_columns(pl.when(large).then(float("nan")).otherwise(a).alias("advantage")) for table in sample]
    left, all_of_them = (sum(int(t["advantage"].is_not_nan().sum()) for t in tables) for tables in (kept, sample))
    if left in (0, all_of_them) or 2 * left < all_of_them:
        return None
    recipe = solve_recipe(run, kept, given, intended)
    if recipe is None:
        return None
    for log in (tensors_of(table, run.rewards) for table in sample):
        comparison = compare(log, recipe)
        if bool(((comparison.error > comparison.allowed) & ~impossible(log, recipe, comparison)).any()):
            return None
    return recipe


def _reproduces(recipe: Recipe, tables: Iterable[pl.DataFrame], rewards: Sequence[str]) -> bool:
    compared = (compare(tensors_of(table, rewards), recipe) for table in tables)
    return not any(bool((c.error > c.allowed).any()) for c in compared)


def _regroup(run: Run, given: Mapping[str, float], intended: str | None) -> Run | None:
    """The run with another group size that fits its prompts, if the advantages can be reproduced with it."""
    for size in run.other_sizes:
        other = regroup(run, size)
        if solve_recipe(other, sample_of(_first(other.tables())), given, intended) is not None:
            return other
    return None


def _left_out_reward(run: Run) -> tuple[str, Recipe] | None:
    """A column that was not read, if it makes the advantages together with the rewards, and the recipe of all these."""
    for name in run.left_out[:LEFT_OUT] if run._read_with else ():
        with suppress(InputError):
            assert run._read_with is not None
            other = run._read_with((*run.rewards, name))
            sample = sample_of(_first(other.tables()), _SAMPLE_OF_THE_REST)
            recipe = solve_recipe(other, sample, {}, None)
            if recipe and recipe.weights[-1] and not recipe.unknown and _reproduces(recipe, sample, other.rewards):
                return name, recipe
    return None


def _may_tell_more(summary: Summary, sample: list[pl.DataFrame]) -> list[int]:
    """Batches, with about as many responses as a sample, that may show what the sample from the start did not.

    A reward that is constant early in the run leaves its weight open; if all are, the method stays open too.
    """
    recipe, batches = summary.plan.recipe, summary.batches
    if not sample or (recipe is not None and not recipe.unknown):
        return []
    logged = batches.logged
    open_ones = logged.wrong > 0 if recipe is not None else logged.count > logged.zeros
    seen = pl.concat([table["batch"].unique() for table in sample]).to_numpy()
    rest = take(batches, open_ones & ~np.isin(batches.batch, seen))
    every = max(1, -(-int(rest.responses.sum()) // SAMPLE))
    return rest.batch[::every].tolist()


def plan_of(
    run: Run, given: Mapping[str, float], primary: str | None, recipe: Recipe | None, intended: str | None
) -> Plan:
    """What the run is computed with, where one recipe, or none that is known, made all of it."""
    made = run.weights or {}
    if recipe is not None:
        made = dict(zip(run.rewards, recipe.weights, strict=True))
    return Plan(
        rewards=run.rewards,
        weights=tuple(given.get(name, made.get(name, 1.0)) for name in run.rewards),
        convention=FRAMEWORKS[run.framework].convention if recipe is None else recipe.convention,
        primary=None if primary is None else run.rewards.index(primary),
        recipe=recipe,
        examples_of=recipe.method if recipe is not None else intended if intended in COMPARED else "grpo",
    )


def _plan_of_each(plan: Plan, given: Mapping[str, float], recipes: Mapping[int, Recipe]) -> Plan:
    """The plan with the recipe of each batch, and the weights that the caller gave in all of them."""
    others = {batch: Made(recipe.weights, recipe) for batch, recipe in recipes.items() if recipe != plan.recipe}
    return replace(plan, changes=others).with_weights(given)


# --- the facts --------------------------------------------------------------------------------------------------------


def _summary(tables: Iterable[pl.DataFrame], plan: Plan, progress: Callable[[int], None] | None = None) -> Summary:
    summaries, sample = [], Sample()
    for table in tables:
        summaries.append(summarise(table, plan))
        sample.add(table)
        if progress is not None:
            progress(len(table))
    return replace(merge(summaries), sample=tuple(sample.tables))


def facts_of(run: Run, summary: Summary, given: Mapping[str, float], intended: str | None) -> Facts:
    """What the findings read: each batch once."""
    batches = _without_last_again(summary.batches)
    again = _repeats_the_one_before(batches)
    return Facts(
        run=run,
        plan=summary.plan,
        batches=take(batches, ~again),
        repeated_batches=take(batches, again),
        overwritten_batches=take(batches, slice(0)),
        steps=np.union1d(batches.step, batches.step_last).tolist(),
        given_weights=given,
        intended_method=intended,
        recipe_of_the_rest=None,
        tables=summary.sample,
        examples=summary.examples,
    )


def _without_last_again(batches: Sums[Array]) -> Sums[Array]:
    """The batches without the last one if it is the one before once more, as TRL logs its last table to trackers."""
    twice = len(batches.batch) > 1 and batches.step_last[-2] == batches.step[-1]
    return take(batches, slice(-1)) if twice and batches.fingerprint[-2] == batches.fingerprint[-1] else batches


def _repeats_the_one_before(batches: Sums[Array]) -> Array:
    """(batches,) whether a batch repeats the rows of the batch before it."""
    differs = batches.different_pairs > 0  # batches in which nothing differs are equal without being repeated
    same = np.append(False, batches.fingerprint[1:] == batches.fingerprint[:-1]) & differs
    often = len(same) >= 4 and same.sum() >= _SHARE * max(differs.sum() - 1, 1)
    return same if often else same & (batches.different_pairs >= _PAIRS)


def _by_evaluations(f: Facts, wrong: Array) -> bool:
    """Whether evaluations wrote these batches, that are not reproduced: they differ by a factor, and have all rows."""
    if not f.framework.evaluation_overwrites or f.recipe is None or f.lacks_a_reward:
        return False
    if len(f.recipe.unknown) == len(f.rewards):  # guessed weights may be wrong by a factor themselves
        return False
    right = (f.batches.logged.count > 0) & (f.batches.logged.wrong == 0)
    return bool(wrong.any() and scaled_share(take(f.batches, wrong)) >= SCALE_ONLY and right.any())


def _without_others(f: Facts) -> Facts:
    """The facts without the batches that evaluations wrote, or that another method made."""
    wrong = (f.batches.logged.wrong > 0) & ~f.lack_rows
    bad = take(f.batches, wrong)
    if f.recipe is None or f.lacks_a_reward or not wrong.any():
        return f
    others = replace(f, batches=take(f.batches, ~wrong), overwritten_batches=bad)
    if _by_evaluations(f, wrong):
        return others
    few = take(bad, bad.responses.cumsum() - bad.responses < _SAMPLE_OF_THE_REST)
    recipe = solve(list(_tables_of(f.run, few.batch.tolist())), f.rewards, f.run.framework)
    if recipe is None or not _reproduces(recipe, _tables_of(f.run, bad.batch.tolist()), f.rewards):
        return f
    return replace(others, recipe_of_the_rest=recipe)


# --- tables -----------------------------------------------------------------------------------------------------------


def _first(tables: Iterator[pl.DataFrame]) -> list[pl.DataFrame]:
    """As many tables from the start as the sample needs; the rest stays unread."""
    first: list[pl.DataFrame] = []
    responses = 0
    for table in tables:
        first.append(table)
        responses += len(table)
        if responses >= SAMPLE:
            break
    return first


def sample_of(tables: Sequence[pl.DataFrame], room: int = SAMPLE) -> list[pl.DataFrame]:
    """Whole batches from the start, with about so many responses."""
    sample: list[pl.DataFrame] = []
    for table in tables:
        ends = table["batch"].rle().struct.field("len").cum_sum()
        fit = ends.filter(ends <= room)
        if len(fit) or not sample:
            sample.append(table.head(fit[-1] if len(fit) else ends[0]))
        room -= len(table)
        if room <= 0:
            break
    return sample


def _tables_of(run: Run, batches: Sequence[int]) -> Iterator[pl.DataFrame]:
    """The responses of these batches."""
    return (part for table in run.tables() if len(part := table.filter(pl.col("batch").is_in(batches))))
