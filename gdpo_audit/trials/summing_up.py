"""The summing up of a run: the recipe of its advantages is sought, and its batches are added up under it into facts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np
import polars as pl

from gdpo_audit.facts.facts import Facts
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.numbers.sizes import divisors
from gdpo_audit.recipe.changes import most_common, recipe_of_one_batch, recipes_by_batch
from gdpo_audit.recipe.recipe import Recipe
from gdpo_audit.recipe.solve import solve
from gdpo_audit.sums.summarise import Mapped, Summary, summarise_all
from gdpo_audit.sums.sums import Array, Basis, Made, Sums, scaled_share, select_batches
from gdpo_audit.sums.wanted import directions
from gdpo_audit.thresholds import SCALE_ONLY
from gdpo_audit.trials.trials import sample_of
from gdpo_audit.unexplained.changing_total import in_steps_of_total, made_by_total
from gdpo_audit.unexplained.edited import recipes_of_column
from gdpo_audit.unexplained.readings import added
from gdpo_audit.unexplained.residual import residual
from gdpo_audit.unexplained.shown import shown
from gdpo_audit.unexplained.solving import Wanted, recipe_of_all, reproduces, solved
from gdpo_core.conventions import COMPARED
from gdpo_core.frameworks import FRAMEWORKS

# The most responses, of batches that the recipe does not explain, from which another recipe is solved.
_SAMPLE_OF_THE_REST = 20_000

# Small batches can be equal by chance. A batch counts as repeated if it holds at least so many pairs of responses that
# differ, or if at least this share of the run's batches equals the batch before.
_PAIRS, _SHARE = 24, 0.4


def facts_of_run(run: Run, wanted: Wanted, engine: Mapped) -> Facts:
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
    facts = _under_its_recipe(run, wanted, engine)
    for add in AFTER_SUMMING:
        facts = add(facts, wanted, engine)
    return facts


def _under_its_recipe(run: Run, wanted: Wanted, engine: Mapped) -> Facts:
    """Return the facts of a run that is summed up under the recipe of its advantages, or of each batch's advantages.

    wanted: what the caller asks for.
    engine: applies a function to each part of the log, as `map` does.
    """
    run, sample, recipe = solved(run, wanted)

    def under(basis: Basis) -> Facts:
        return _facts_of_summary(run, summarise_all(run.tables(), basis, engine), basis, wanted, sample)

    # Where the weights change at every step, no recipe explains many steps: the search begins with that of one batch.
    start = recipe or (recipe_of_one_batch(run, sample) if run.has_advantage else None)
    facts = under(_basis_of(run, wanted, start))
    by_column = recipes_of_column(run)
    if recipes := by_column or _recipes_of(facts):
        basis = _basis_of(run, wanted, most_common([*recipes.values()]))
        changes = {batch: Made(recipe.weights, recipe) for batch, recipe in recipes.items() if recipe != basis.recipe}
        in_turn = [recipe.known for _, recipe in sorted(recipes.items())]
        return under(_in_phases(replace(basis, changes=changes), run, wanted, in_turn, not by_column))
    begun_with_one_batch = recipe is None and start is not None
    return under(_basis_of(run, wanted, None)) if begun_with_one_batch else facts


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
    in_turn = [of_batch.weights for _, of_batch in sorted(made.items())]
    basis = _in_phases(replace(basis, changes=changes), run, wanted, in_turn)
    facts = _facts_of_summary(run, summarise_all(run.tables(), basis, engine), basis, wanted, run.sample)
    return _without_foreign_batches(facts, wanted, engine)


def _with_what_shows(f: Facts, wanted: Wanted, engine: Mapped) -> Facts:
    """Return the facts of a run whose advantages no known method makes, with what the log shows of the advantages all
    the same. The facts of any other run stay as they are.

    The facts get up to three members. `by_themselves` is what the advantages show without any recipe. If that includes
    no weights, `added` is the column of which a multiple was added to the advantages of a method, or None. If there is
    no column of this kind, `pattern` is any other regularity, or None.

    wanted: what the caller asks for.
    engine: not used.
    """
    if not f.contradicted:
        return f
    by_themselves = shown(sample_of(f), f.rewards)
    if by_themselves.weights is not None:
        return replace(f, by_themselves=by_themselves)
    column_added = added(f.run, partial(recipe_of_all, wanted))
    pattern = residual(sample_of(f), f.rewards, _known_weights(f)) if column_added is None else None
    return replace(f, by_themselves=by_themselves, added=column_added, pattern=pattern)


def _known_weights(f: Facts) -> tuple[float, ...] | None:
    """Return the weights of the run if the log, a configuration or the caller tells them; None if they are assumed."""
    return None if f.weights_from == "assumed" or not any(f.basis.weights) else f.basis.weights


def _under_weights_that_show(f: Facts, wanted: Wanted, engine: Mapped) -> Facts:
    """Return the facts of a run that is summed up anew under the weights that its advantages show without a recipe.

    Where no weights show so, the facts stay as they are.

    wanted: what the caller asks for; weights that the caller gave replace those that show.
    engine: applies a function to each part of the log, as `map` does.
    """
    if f.nearest_weights is None:
        return f
    basis = f.basis.with_weights(dict(zip(f.rewards, f.nearest_weights, strict=True)))
    basis = _in_phases(basis, f.run, wanted, [f.nearest_weights])
    facts = _facts_of_summary(f.run, summarise_all(f.run.tables(), basis, engine), basis, wanted, f.tables)
    return replace(facts, by_themselves=f.by_themselves, added=f.added, pattern=f.pattern)


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
    # A reading that leaves the primary reward out has none.
    ordered = wanted.primary in run.rewards and not wanted.claims_only
    basis = Basis(
        rewards=run.rewards,
        weights=tuple(wanted.weights.get(name, made.get(name, 1.0)) for name in run.rewards),
        convention=FRAMEWORKS[run.framework].convention if recipe is None else recipe.convention,
        primary=run.rewards.index(wanted.primary) if ordered else None,
        recipe=recipe,
        examples_of=None if wanted.claims_only else (method if recipe is None else recipe.method),
    )
    return _in_phases(basis, run, wanted, [basis.weights if recipe is None else recipe.known])


def _in_phases(
    basis: Basis, run: Run, wanted: Wanted, in_turn: Sequence[Sequence[float | None]], in_order: bool = True
) -> Basis:
    """Return a basis with the weights that the caller gave in place of others, and with what the run wants of each
    reward by the weights of all its phases.

    in_turn: the weights of each phase, one per reward, None where a weight does not show.
    in_order: whether the phases follow each other.
    """
    asked = {**(run.weights or {}), **wanted.weights}
    given = {name: w for name, w in wanted.weights.items() if name in run.rewards}
    phases = *dict.fromkeys(map(tuple, in_turn)), tuple(in_turn[-1])  # each once, and the last one at the end
    weights = [{**dict(zip(run.rewards, phase, strict=True)), **given} for phase in phases]
    return replace(basis.with_weights(wanted.weights), signs=directions(weights, asked, in_order))


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
    """Return (batches,) whether each batch repeats the rows of the batch before it, in their order or, if it is of the
    same step, in any.

    A batch in which no two responses differ never counts as repeated. A batch with few pairs of different responses
    counts as repeated only where many batches are.
    """
    # Batches in which nothing differs are equal even if neither of them repeats the other.
    differs = batches.different_pairs > 0
    again = batches.fingerprint[1:] == batches.fingerprint[:-1]
    of_one_step = (batches.step[1:] == batches.step[:-1]) & (batches.step_last[1:] == batches.step_last[:-1])
    again |= of_one_step & (batches.content[1:] == batches.content[:-1])
    same = np.append(False, again) & differs
    often = len(same) >= 4 and same.sum() >= _SHARE * max(differs.sum() - 1, 1)
    return same if often else same & (batches.different_pairs >= _PAIRS)


def _without_foreign_batches(f: Facts, wanted: Wanted, engine: Mapped) -> Facts:
    """Return the facts without the batches that an evaluation wrote over, or that another recipe made.

    These batches become `overwritten_batches`. The facts stay as they are in four cases:

    - there is no recipe;
    - the log lacks a reward;
    - the recipe makes every batch of which all rows are logged;
    - no cause is found for the batches that the recipe does not make, and no file beside the log says that the run was
      evaluated at their steps.

    wanted, engine: not used.
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
    if (size := _size_of_evaluations(f, tables)) is not None:
        return replace(kept, size_of_evaluations=size)
    if f.framework.evaluation_overwrites and {*bad.step.tolist()} <= {*f.run.evaluated}:
        return kept
    recipe = solve(sample, f.rewards, f.run.framework)
    if recipe is None or not reproduces(recipe, (table for table in tables if len(table)), f.rewards):
        return f
    return replace(kept, recipe_of_the_rest=recipe)


def _size_of_evaluations(f: Facts, tables: Sequence[pl.DataFrame]) -> int | None:
    """Return the group size other than the run's own with which the recipe makes all advantages in `tables`.

    An evaluation may also have normalised fewer rows at once than a training step does, so that a batch holds several
    of its batches. Sizes that divide the run's own are tried first, the largest one first. None where no size fits, and
    where there is no recipe. None also where the groups of the run have no fixed size, and where a column names them.

    tables: the rows of batches that may come from an evaluation, whose groups may have another size than those of the
        run.
    """
    size, recipe = f.run.group_size, f.recipe
    if size is None or recipe is None or f.run.grouped_by_column:
        return None
    tables = [table for table in tables if len(table)]
    rows = gcd(*(n for table in tables for n in table.group_by("batch").len()["len"]))
    smaller = divisors(size)[-2::-1]
    sizes = [*smaller, *(n for n in divisors(rows)[::-1] if n > 1 and n != size and n not in smaller)]
    whole = [(n, None) for n in sizes]
    cut = [
        (n, rows_of_one)
        for rows_of_one in divisors(rows)[-2::-1]
        for n in (*sizes, size)
        if rows_of_one % n == 0 and n > 1
    ]
    for of_group, rows_of_one in (*whole, *cut):
        if all(reproduces(recipe, [_in_blocks(table, of_group, rows_of_one)], f.rewards) for table in tables):
            return of_group
    return None


def _in_blocks(table: pl.DataFrame, size: int, in_batch: int | None) -> pl.DataFrame:
    """Return rows in groups that are blocks of `size` rows, in batches that are `in_batch` rows of those in the table.

    table: whole batches.
    size: the number of rows in a group.
    in_batch: the number of rows in a batch; None if the batches of the table stay as they are.
    """
    place = pl.int_range(pl.len()).over("batch")
    batch = pl.struct("batch", place // (in_batch or len(table))).rle_id().cast(pl.Int64)
    group = pl.struct("batch", place // size).rle_id().cast(pl.Int64)
    return table.with_columns(group.alias("group"), batch.alias("batch"))


# The passes over the facts of a run that is summed up under its recipe, in order.
AFTER_SUMMING = (_with_what_shows, _under_weights_that_show, _without_foreign_batches)
