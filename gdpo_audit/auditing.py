"""The audit of a run: the tables of its log become facts, the facts a plan, facts and plan the findings, and all of
them a report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.by_column import by_value
from gdpo_audit.changing_total import in_steps_of_total, made_by_total
from gdpo_audit.edited import recipes_of_column
from gdpo_audit.findings.examples import best_groups
from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.findings import findings
from gdpo_audit.findings.plan import plan_of
from gdpo_audit.findings.residual import residual
from gdpo_audit.findings.shown import shown
from gdpo_audit.findings.summarise import Mapped, Summary, summarise_all
from gdpo_audit.findings.sums import Array, Basis, Made, Sums, scaled_share, select_batches
from gdpo_audit.findings.thresholds import SCALE_ONLY
from gdpo_audit.findings.trials import sample_of
from gdpo_audit.findings.uncounted import counted
from gdpo_audit.findings.what_if import compute_what_if, validate_setting, with_every_weighed_reward
from gdpo_audit.log_details import lengths_in_characters, pays_of_total, texts_of_worst_prompts
from gdpo_audit.logs.run import Run
from gdpo_audit.logs.sizes import divisors
from gdpo_audit.readings import added, left_out_reward
from gdpo_audit.recipe.changes import most_common, recipe_of_one_batch, recipes_by_batch
from gdpo_audit.recipe.recipe import Recipe
from gdpo_audit.recipe.solve import solve
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.parts import report_of
from gdpo_audit.solving import Wanted, recipe_of_all, reproduces, solved
from gdpo_core._errors import expect
from gdpo_core._inputs import ArrayLike, weights_by_name
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.frameworks import FRAMEWORKS

# The most responses, of batches that the recipe does not explain, from which another recipe is solved.
_SAMPLE_OF_THE_REST = 20_000

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


def _for_a_what_if(facts: Facts) -> Facts:
    """Return the facts without what a report needs only while it is made: tables, summary, examples and `by`."""
    return replace(facts, tables=(), by=(), examples=None, summary=None)


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
    expect(isinstance(run, Run), "run", "what gdpo_audit.read_run returns", type(run).__name__)
    expect(callable(engine), "engine", "a function that is called as map is", repr(engine))
    given = weights_by_name(weights, run.rewards)
    expect(primary is None or primary in run.rewards, "primary", f"one of {', '.join(run.rewards)}", repr(primary))
    intended = run.configured_method if asked is None else asked
    expect(intended is None or intended in tuple(NAMES), "asked", f"one of {', '.join(NAMES)}", repr(intended))
    wanted = Wanted(given, primary, intended)
    of_all = facts = _facts(run, wanted, engine)
    while fewer := counted(facts):
        of_fewer = _facts(fewer, wanted, engine)
        if of_fewer.reproduced != facts.reproduced:
            break
        facts = replace(of_fewer, with_all=_for_a_what_if(of_all))
    unknown = facts.reproduced is False and facts.recipe is None
    left_out = left_out_reward(facts.run, partial(recipe_of_all, Wanted({}, None, None))) if unknown else None
    facts = replace(facts, by=by_value(facts), left_out_reward=left_out, examples=best_groups(facts))
    return replace(
        facts,
        undecided=facts.run.count_undecided(),
        pays=pays_of_total(facts.run),
        prompt_texts=texts_of_worst_prompts(facts),
        characters=lengths_in_characters(facts),
    )


def _facts(run: Run, wanted: Wanted, engine: Mapped) -> Facts:
    """Return the facts of a run with all of its rewards.

    The recipe of the advantages is solved, and the batches are summed up under it. Where the weights change, each batch
    is summed up under the recipe of that batch. Where no known method made the advantages, the batches are summed up
    under the weights that the advantages show, if they show any. Batches that an evaluation or another recipe made are
    set apart.

    wanted: what the caller asks for.
    engine: applies a function to each part of the log, as `map` does.
    """
    run = in_steps_of_total(run)
    if (by_total := made_by_total(run)) is not None:
        return _facts_by_total(run, wanted, by_total, engine)
    run, sample, recipe = solved(run, wanted)

    def under(basis: Basis) -> Facts:
        return _facts_of_summary(run, summarise_all(run.tables(), basis, engine), basis, wanted, sample)

    # Where the weights change at every step, no recipe explains many steps: the search begins with that of one batch.
    start = recipe or (recipe_of_one_batch(run, sample) if run.has_advantage else None)
    facts = under(_basis_of(run, wanted, start))
    if recipes := recipes_of_column(run) or _recipes_of(facts):
        basis = _basis_of(run, wanted, most_common([*recipes.values()]))
        changes = {batch: Made(recipe.weights, recipe) for batch, recipe in recipes.items() if recipe != basis.recipe}
        facts = under(replace(basis, changes=changes).with_weights(wanted.weights))
    elif start is not recipe:
        facts = under(_basis_of(run, wanted, None))
    if facts.contradicted:
        facts = _with_what_shows(facts, wanted)
        if facts.nearest_weights is not None:
            basis = facts.basis.with_weights(dict(zip(facts.rewards, facts.nearest_weights, strict=True)))
            shown_by, added_to, pattern = facts.by_themselves, facts.added, facts.pattern
            facts = under(basis.with_weights(wanted.weights))
            facts = replace(facts, by_themselves=shown_by, added=added_to, pattern=pattern)
    return _without_foreign_batches(facts)


def _facts_by_total(run: Run, wanted: Wanted, made: Mapping[int, Made], engine: Mapped) -> Facts:
    """Return the facts of a run whose logged total shows other weights in different steps. Each batch is summed up with
    its own weights and recipe.

    wanted: what the caller asks for.
    made: the weights and the recipe of each batch, by its number.
    engine: applies a function to each part of the log, as `map` does.
    """
    weights, recipe = [*made.values()][-1]
    basis = replace(_basis_of(run, wanted, recipe), weights=weights)
    changes = {batch: of_batch for batch, of_batch in made.items() if of_batch != (weights, recipe)}
    basis = replace(basis, changes=changes).with_weights(wanted.weights)
    facts = _facts_of_summary(run, summarise_all(run.tables(), basis, engine), basis, wanted, run.sample)
    return _without_foreign_batches(facts)


def _with_what_shows(f: Facts, wanted: Wanted) -> Facts:
    """Return the facts of a run whose advantages no known method makes, with what the log shows of the advantages all
    the same.

    The facts get up to three members. `by_themselves` is what the advantages show without any recipe. If that includes
    no weights, `added` is the column of which a multiple was added to the advantages of a method, or None. If there is
    no column of this kind, `pattern` is any other regularity, or None.

    wanted: what the caller asks for.
    """
    by_themselves = shown(sample_of(f), f.rewards)
    if by_themselves.weights is not None:
        return replace(f, by_themselves=by_themselves)
    column_added = added(f.run, partial(recipe_of_all, wanted))
    pattern = residual(sample_of(f), f.rewards, _known_weights(f)) if column_added is None else None
    return replace(f, by_themselves=by_themselves, added=column_added, pattern=pattern)


def _known_weights(f: Facts) -> tuple[float, ...] | None:
    """Return the weights of the run if the log, a configuration or the caller tells them; None if they are assumed."""
    return None if f.weights_from == "assumed" or not any(f.basis.weights) else f.basis.weights


def _recipes_of(f: Facts) -> dict[int, Recipe]:
    """Return the recipe of each batch, by the number of the batch, if the weights change during the run; else {}.

    The weights count as changing if recipes with other weights make at least three quarters of the batches that the
    run's recipe does not make. Batches that lack rows do not count among these. {} also if the run has no recipe, or if
    the log lacks a reward.
    """
    wrong = (f.batches.logged.wrong > 0) & ~f.lack_rows
    if f.recipe is None or not wrong.any() or f.lacks_a_reward:
        return {}
    bad, whole = (set(f.batches.batch[which].tolist()) for which in (wrong, ~f.lack_rows))
    return recipes_by_batch(f.run, f.recipe, f.batches.batch.tolist(), bad, whole)


def _basis_of(run: Run, wanted: Wanted, recipe: Recipe | None) -> Basis:
    """Return what the sums of a run are computed with: weights, convention, primary reward and recipe.

    Weights that the caller asks for replace any others.

    wanted: what the caller asks for.
    recipe: the recipe of the advantages, which gives the weights and the convention. If it is None, the weights are the
        ones in the log, or 1, and the convention is the framework's.
    """
    made = run.weights or {} if recipe is None else dict(zip(run.rewards, recipe.weights, strict=True))
    method = wanted.method if wanted.method in COMPARED else "grpo"
    return Basis(
        rewards=run.rewards,
        weights=tuple(wanted.weights.get(name, made.get(name, 1.0)) for name in run.rewards),
        convention=FRAMEWORKS[run.framework].convention if recipe is None else recipe.convention,
        # A reading that leaves the primary reward out has none.
        primary=run.rewards.index(wanted.primary) if wanted.primary in run.rewards else None,
        recipe=recipe,
        examples_of=method if recipe is None else recipe.method,
    )


# --- the facts --------------------------------------------------------------------------------------------------------


def _facts_of_summary(
    run: Run, summary: Summary, basis: Basis, wanted: Wanted, sample: Sequence[pl.DataFrame]
) -> Facts:
    """Return the facts of a run, from its summary.

    A last batch that was logged twice counts once. All other batches that repeat the rows of the batch before them
    become `repeated_batches`.

    summary: the sums over the batches of the run.
    basis: what these sums were computed with.
    wanted: what the caller asks for.
    sample: becomes the `tables` of the facts.
    """
    batches = summary.batches
    # TRL logs its last table to trackers twice, so the second of the two does not count.
    twice = len(batches.batch) > 1 and batches.step_last[-2] == batches.step[-1]
    if twice and batches.fingerprint[-2] == batches.fingerprint[-1]:
        batches = select_batches(batches, slice(-1))
    again = _repeats_the_one_before(batches)
    return Facts(
        run=run,
        basis=basis,
        batches=select_batches(batches, ~again),
        repeated_batches=select_batches(batches, again),
        overwritten_batches=select_batches(batches, slice(0)),
        steps=np.union1d(batches.step, batches.step_last).tolist(),
        given_weights={name: w for name, w in wanted.weights.items() if name in run.rewards},
        intended_method=wanted.method,
        tables=sample,
        summary=summary,
    )


def _repeats_the_one_before(batches: Sums[Array]) -> Array:
    """Return (batches,) whether each batch repeats the rows of the batch before it.

    A batch in which no two responses differ never counts as repeated. A batch with few pairs of different responses
    counts as repeated only where many batches are.
    """
    # Batches in which nothing differs are equal even if neither of them repeats the other.
    differs = batches.different_pairs > 0
    same = np.append(False, batches.fingerprint[1:] == batches.fingerprint[:-1]) & differs
    often = len(same) >= 4 and same.sum() >= _SHARE * max(differs.sum() - 1, 1)
    return same if often else same & (batches.different_pairs >= _PAIRS)


def _without_foreign_batches(f: Facts) -> Facts:
    """Return the facts without the batches that an evaluation wrote over, or that another recipe made.

    These batches become `overwritten_batches`. The facts stay as they are in four cases:

    - there is no recipe;
    - the log lacks a reward;
    - the recipe makes every batch of which all rows are logged;
    - no cause is found for the batches that the recipe does not make.
    """
    wrong = (f.batches.logged.wrong > 0) & ~f.lack_rows
    if f.recipe is None or f.lacks_a_reward or not wrong.any():
        return f
    bad = select_batches(f.batches, wrong)
    kept = replace(f, batches=select_batches(f.batches, ~wrong), overwritten_batches=bad)
    # The advantages of an evaluation differ from the recipe's by a factor, and none of its rows is missing. Weights
    # that are only guessed may be off by a factor too, so they prove nothing.
    known = len(f.recipe.unknown) < len(f.rewards)
    right = (f.batches.logged.count > 0) & (f.batches.logged.wrong == 0)
    if f.framework.evaluation_overwrites and known and scaled_share(bad) >= SCALE_ONLY and right.any():
        return kept
    few = bad.batch[bad.responses.cumsum() - bad.responses < _SAMPLE_OF_THE_REST].tolist()
    tables = [table.filter(pl.col("batch").is_in(bad.batch.tolist())) for table in f.run.tables()]
    sample = [table.filter(pl.col("batch").is_in(few)) for table in tables]
    if (size := _smaller_groups(f, tables)) is not None:
        return replace(kept, size_of_evaluations=size)
    recipe = solve(sample, f.rewards, f.run.framework)
    if recipe is None or not reproduces(recipe, (table for table in tables if len(table)), f.rewards):
        return f
    return replace(kept, recipe_of_the_rest=recipe)


def _smaller_groups(f: Facts, tables: Sequence[pl.DataFrame]) -> int | None:
    """Return the largest group size below the run's own with which the recipe makes all advantages in `tables`.

    Only sizes that divide the run's own are tried. None where no size fits, and where there is no recipe. None also
    where the groups of the run have no fixed size, and where a column names them.

    tables: the rows of batches that may come from an evaluation, whose groups may be smaller than the groups of the
        run.
    """
    size, recipe = f.run.group_size, f.recipe
    if size is None or recipe is None or f.run.grouped_by_column:
        return None
    tables = [table for table in tables if len(table)]
    for smaller in divisors(size)[-2::-1]:
        block = pl.int_range(pl.len()).over("batch") // smaller
        in_blocks = [table.with_columns(pl.struct("batch", block).rle_id().alias("group")) for table in tables]
        if reproduces(recipe, in_blocks, f.rewards):
            return smaller
    return None
