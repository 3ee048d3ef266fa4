"""The search for the recipe of the advantages that a run logged, on a sample of the run. Where no recipe makes the
advantages, the log is read in other groups or in other ways.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import polars as pl

from gdpo_audit.logs.files.trying import Search
from gdpo_audit.logs.groups.grouping import regroup
from gdpo_audit.logs.groups.run import Run, batches_from_all_over
from gdpo_audit.recipe.changes import recipe_of_one_batch
from gdpo_audit.recipe.recipe import Recipe, compare, tensors_of
from gdpo_audit.recipe.solve import solve
from gdpo_audit.records import LogIssue
from gdpo_audit.sums.impossible import impossible
from gdpo_audit.unexplained.after import solve_after
from gdpo_audit.unexplained.combining import another_reading, combined_reading, edited_in_other_groups, masked_reading
from gdpo_audit.unexplained.edited import edited_reading
from gdpo_audit.unexplained.followed_total import with_followed_parts
from gdpo_audit.unexplained.readings import (
    ADDS_UP,
    JUDGED_RESPONSES,
    SEARCH_SECONDS,
    Solve,
    share_adding_up,
    total_alone,
    with_changing_weights,
)
from gdpo_core.frameworks import ALL_CONVENTIONS, FRAMEWORKS
from gdpo_core.shared.errors import InputError

_MANY = 16  # the most rewards for which a recipe is solved on a whole sample
_FEWEST = 3_000  # the fewest responses on which it is solved for more rewards


class Wanted(NamedTuple):
    """Hold what the caller of an audit asks for.

    weights: the weights that were given, by the name of the reward.
    primary: the name of the primary reward; None for none.
    method: the method that was meant to run, as the caller says, or the run's configuration if the caller does not;
        None if it is not known.
    claims_only: whether only claims on the reading of the log are wanted, which need fewer sums than findings do.
    """

    weights: Mapping[str, float]
    primary: str | None
    method: str | None
    claims_only: bool = False


def solved(run: Run, wanted: Wanted) -> tuple[Run, list[pl.DataFrame], Recipe | None]:
    """Return three things: the run, a sample of its tables, and the recipe found for the sample, or None for no recipe.

    The recipe need not make all advantages of the sample. The run is returned in other groups, or read in another way,
    where only that gives the logged advantages.

    wanted: what the caller asks for.
    """
    run = with_followed_parts(run, run.sample) or run
    sample = run.sample
    recipe = _recipe(run, sample, wanted)
    if recipe is not None and (alone := total_alone(run, recipe, sample)) is not None:
        run, sample = alone, alone.sample
        recipe = _recipe(run, sample, wanted)
    if not run.has_advantage:
        return run, sample, recipe
    solve_all = partial(recipe_of_all, wanted)
    if recipe is not None and not _groups_are_others(run, sample, recipe):
        if reproduces(recipe, sample, run.rewards):
            return run, sample, recipe
        masked = masked_reading(run, solve_all, Search(SEARCH_SECONDS))
        return masked or edited_reading(run, sample, solve_all) or (run, sample, recipe)
    for regrouped_run in (regroup(run, size) for size in run.other_sizes if recipe is None):
        sample_regrouped = regrouped_run.sample
        if (in_blocks := _recipe(regrouped_run, sample_regrouped, wanted)) is not None:
            return regrouped_run, sample_regrouped, in_blocks

    if recipe is None and recipe_of_one_batch(run, sample) is not None:
        return run, sample, None

    search = Search(SEARCH_SECONDS)
    if (reading := another_reading(run, solve_all, search)) is not None:
        return reading
    if recipe is None and (reread := with_changing_weights(run)) is not None:
        return *reread, None
    if recipe is None or not _most_batches(recipe, sample, run.rewards):
        hint = [wanted.weights.get(name, 1.0) for name in run.rewards]
        if (
            changed := solve_after(
                _of_many(batches_from_all_over(sample, JUDGED_RESPONSES), len(run.rewards)),
                run.rewards,
                run.framework,
                hint,
            )
        ) is not None:
            return run, sample, changed
    return _combined(run, sample, recipe or _recipe_without_impossible_groups(run, sample, wanted), solve_all, search)


def _combined(
    run: Run, sample: list[pl.DataFrame], recipe: Recipe | None, solve_all: Solve, search: Search
) -> tuple[Run, list[pl.DataFrame], Recipe | None]:
    """Return what `solved` returns for a log of which no single other way to read it gives the advantages: it is read
    in several other ways together, or, beside a recipe that gives some of them, with edits of what is compared.

    search: bounds the time.
    """
    if recipe is None:
        combined = combined_reading(run, solve_all, search)
    else:
        combined = edited_reading(run, sample, solve_all) or edited_in_other_groups(run, solve_all, search)
    if combined is None and search.cut:
        details = {"seconds": search.seconds, "tried": search.tried}
        run = replace(run, issues=(*run.issues, LogIssue("search-cut-short", details)))
    return combined or (run, sample, recipe)


def recipe_of_all(wanted: Wanted, run: Run, sample: list[pl.DataFrame]) -> Recipe | None:
    """Return the recipe that makes every advantage of a sample; None where there is none that makes them all."""
    recipe = _recipe(run, sample, wanted._replace(weights=_of_rewards(wanted.weights, run)))
    return recipe if recipe is not None and reproduces(recipe, sample, run.rewards) else None


def _of_rewards(weights: Mapping[str, float], run: Run) -> dict[str, float]:
    """Return the weights whose names are rewards of the run, without all others."""
    return {name: w for name, w in weights.items() if name in run.rewards}


def _groups_are_others(run: Run, sample: list[pl.DataFrame], recipe: Recipe) -> bool:
    """Return whether the advantages of a log may have been made in other groups than the log names.

    They may if the recipe misses some advantages of the sample, and if one of two more things holds:

    - in too few groups (less than the share `ADDS_UP`) the advantages add up to 0;
    - the recipe misses some advantages in more than half of the batches.
    """
    if reproduces(recipe, sample, run.rewards):
        return False
    return share_adding_up(sample) < ADDS_UP or not _most_batches(recipe, sample, run.rewards)


def _most_batches(recipe: Recipe, sample: Sequence[pl.DataFrame], rewards: Sequence[str]) -> bool:
    """Return whether a recipe makes all advantages of at least half of the batches in a sample."""
    right = batches = 0
    for log in (tensors_of(table, rewards) for table in sample):
        comparison = compare(log, recipe)
        wrong = log.batch_of_response[comparison.error > comparison.allowed].unique()
        right, batches = right + log.batches - len(wrong), batches + log.batches
    return 2 * right >= batches


def _recipe(run: Run, sample: list[pl.DataFrame], wanted: Wanted) -> Recipe | None:
    """Return the recipe of the advantages in a sample, or None where none is found. If the method that was meant to run
    makes all of these advantages too, the recipe names that method.

    wanted: what the caller asks for; its weights are a hint for the weights of the recipe.
    """
    known = {**(run.weights or {}), **wanted.weights}
    hint = [known.get(name, 1.0) for name in run.rewards] if known.keys() & set(run.rewards) else None
    recipe = solve(_of_many(sample, len(run.rewards)), run.rewards, run.framework, hint)
    recipe = _with_weights_of_total(run, sample, recipe)
    if recipe is None or wanted.method in (None, recipe.method):
        return recipe
    alike = None if recipe.alike is None else tuple(sorted({recipe.method, *recipe.alike} - {wanted.method}))
    intended = replace(recipe, method=wanted.method, alike=alike)
    try:
        return intended if reproduces(intended, sample, run.rewards) else recipe
    except InputError:  # the method needs lengths that are not logged
        return recipe


def _of_many(sample: list[pl.DataFrame], rewards: int) -> list[pl.DataFrame]:
    """Return fewer responses of a sample if there are more than `_MANY` rewards, as solving takes the square of their
    number.
    """
    return (
        sample
        if rewards <= _MANY
        else batches_from_all_over(sample, max(_FEWEST, round(JUDGED_RESPONSES * (_MANY / rewards) ** 2)))
    )


def _with_weights_of_total(run: Run, sample: list[pl.DataFrame], recipe: Recipe | None) -> Recipe | None:
    """Return a recipe with the weights that a logged total shows, in place of a multiple of them.

    The advantages leave a common factor of the weights nearly open, and the wrong factor may stand for another eps. So
    the convention is sought under which the weights of the total make all advantages. Where none does, the convention
    stays open. The recipe comes back as it is if the total does not show all weights, or shows others than a multiple.

    recipe: the recipe of the advantages in the sample, or None.
    """
    shown = run.weights if run.weights_by == "score" else None
    if recipe is None or shown is None:
        return recipe
    known = [(recipe.weights[k], shown.get(name)) for k, name in enumerate(run.rewards) if k not in recipe.unknown]
    factors = [w / v for w, v in known if w and v]
    fits = len(factors) > 0 and all((not w) == (not v) for w, v in known) and max(factors) <= min(factors) * (1 + 1e-3)
    if not fits or min(factors) <= 0 or (not recipe.up_to_scale and abs(factors[0] - 1) <= 1e-3):
        return recipe
    weights = tuple(shown.get(name, w) for name, w in zip(run.rewards, recipe.weights, strict=True))
    exact = replace(recipe, weights=weights, up_to_scale=False)
    # Other code than the framework's own may have made the advantages, as its eps then shows.
    in_order = (recipe.convention, *FRAMEWORKS[run.framework].conventions_to_try, *FRAMEWORKS["generic"].conventions)
    errors = dict[Recipe, float]()
    for convention in dict.fromkeys((*in_order, *ALL_CONVENTIONS)):
        candidate = replace(exact, convention=convention, convention_open=False)
        with suppress(InputError):  # a convention may need lengths that are not logged
            if reproduces(candidate, sample, run.rewards):
                logs = (tensors_of(table, run.rewards) for table in sample)
                errors[candidate] = max(float(compare(log, candidate).error.nan_to_num().max()) for log in logs)
    if not errors:
        return replace(recipe, convention_open=True) if recipe.up_to_scale else recipe
    best = min(errors, key=lambda candidate: errors[candidate])
    return replace(best, convention_open=recipe.convention_open)


def _recipe_without_impossible_groups(run: Run, sample: list[pl.DataFrame], wanted: Wanted) -> Recipe | None:
    """Return the recipe solved without impossible groups: groups of n in which an advantage is larger than √(n − 1).

    None if there is no such group, if these groups hold more than half of the advantages, or if no recipe makes all
    advantages that are possible.

    wanted: what the caller asks for.
    """
    a = pl.col("advantage").fill_nan(None)
    large = a.abs().max().over("group") > (pl.len().over("group") - 1).sqrt() * (1 + 1e-6)
    kept = [table.with_columns(advantage=pl.when(~large).then(a).fill_null(float("nan"))) for table in sample]
    left, logged = (sum(int(table["advantage"].is_not_nan().sum()) for table in tables) for tables in (kept, sample))
    if not logged / 2 <= left < logged or (recipe := _recipe(run, kept, wanted)) is None:
        return None
    return recipe if reproduces(recipe, sample, run.rewards, but_impossible=True) else None


def reproduces(
    recipe: Recipe, tables: Iterable[pl.DataFrame], rewards: Sequence[str], but_impossible: bool = False
) -> bool:
    """Return whether a recipe makes all logged advantages in `tables`.

    rewards: the names of the rewards.
    but_impossible: leave out advantages that no rewards can make.
    """
    for log in (tensors_of(table, rewards) for table in tables):
        c = compare(log, recipe)
        wrong = c.error > c.allowed
        if bool((wrong & ~impossible(log, recipe, c) if but_impossible else wrong).any()):
            return False
    return True
