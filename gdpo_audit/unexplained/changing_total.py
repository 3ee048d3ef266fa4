"""The weights of each batch in a log whose total is a weighted sum of the rewards with weights that change, and the
recipe that makes the advantages with them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import polars as pl

from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.names import STEP_OF_ROW, reward_columns
from gdpo_audit.logs.numbers.score_by_step import weights_by_step
from gdpo_audit.recipe.recipe import Recipe, Tensors, compare, grid_of, tensors_of
from gdpo_audit.recipe.solve import solve
from gdpo_audit.records import LogIssue
from gdpo_audit.sums.sums import Made

_TRIED = 6  # the batches from each of which a method is looked for
_MOST = 0.98  # the share of the batches that one method has to make with the weights of the total


def made_by_total(run: Run) -> dict[int, Made] | None:
    """Return the weights and the recipe of each batch, by its number, as the logged total shows them step by step.

    The recipes are None where no advantages are logged. The result is None if the total has the same weights in every
    step, or if advantages are logged that no method makes with these weights.

    run: the run, whose issue "total-by-step" says that the total is of this kind.
    """
    changing = any(issue.id == "total-by-step" for issue in run.issues)
    if not changing or run.total is None or run._read_with is None:
        return None
    weights = _weights_of_batches(run, run.total)
    if not weights:
        return None
    if not run.has_advantage:
        return {batch: Made(w, None) for batch, w in weights.items()}
    recipe = _recipe_with(run, run.sample, weights)
    if recipe is None:
        return None
    return {batch: Made(w, replace(recipe, weights=w)) for batch, w in weights.items()}


def in_steps_of_total(run: Run) -> Run:
    """Return the run in the steps in which its total is a weighted sum of the rewards, if a column that was not read as
    the step numbers them; otherwise the run as it is.
    """
    issue = next((issue for issue in run.issues if issue.id == "total-by-step" and "step" in issue.details), None)
    if issue is None or run._read_with is None or run.has_steps:
        return run
    reread = run._read_with(columns={"step": issue.details["step"]}, rewards=run.rewards)
    told = LogIssue("steps-found", {"column": issue.details["step"], "total": run.total})
    kept = [known for known in reread.issues if known.id not in ("total-by-step", "score-not-a-sum")]
    left_out = tuple(name for name in reread.left_out if name != run.total)
    by_total = {"total": run.total, "weights": run.weights, "weights_by": run.weights_by, "left_out": left_out}
    return replace(reread, issues=(*kept, issue, told), **by_total)  # type: ignore[arg-type]


def _weights_of_batches(run: Run, total: str) -> dict[int, tuple[float, ...]]:
    """Return the weights of each batch by its number, from one pass over the log with its total; {} if they show no
    change.
    """
    assert run._read_with is not None, "a run that was read can be read again"
    names = (*run.rewards, total)
    step = "step" if run.has_steps else "batch"
    columns = [pl.col("batch"), pl.col(step).alias(STEP_OF_ROW)]
    values = [pl.col(column).alias(name) for column, name in zip(reward_columns(names), names, strict=True)]
    table = pl.concat([rows.select(*columns, *values) for rows in run._read_with(rewards=names).tables()])
    by_step = weights_by_step(table.drop("batch"), run.rewards, total)
    if by_step is None:
        return {}
    filled, weights, last = by_step.filled, dict[int, tuple[float, ...]](), None
    for batch, number in table.select("batch", STEP_OF_ROW).unique("batch", maintain_order=True).rows():
        last = filled.get(number, last or next(iter(filled.values())))
        weights[batch] = last
    return weights


def _recipe_with(run: Run, sample: Sequence[pl.DataFrame], weights: dict[int, tuple[float, ...]]) -> Recipe | None:
    """Return a recipe whose method and convention make nearly all batches of a sample with the weights of each batch;
    None if there is none. The weights of the recipe are those of one batch.
    """
    tables = [rows for table in sample for rows in table.partition_by("batch", maintain_order=True)]
    logs = [(weights[rows["batch"][0]], tensors_of(rows, run.rewards)) for rows in tables]
    grid = grid_of(tensors_of(pl.concat(tables), run.rewards).advantages)
    live = (rows for rows in tables if rows["advantage"].fill_nan(0).fill_null(0).cast(bool).any())
    tried = set[tuple[str, str, str]]()
    for rows in islice(live, _TRIED):
        made = solve([rows], run.rewards, run.framework, weights[rows["batch"][0]])
        for rounded in ("", grid) if made is not None else ():
            assert made is not None, "an attempt is there"
            recipe = replace(made, grid=rounded, unknown=(), up_to_scale=False)
            key = (recipe.method, recipe.convention, rounded)
            if key in tried:
                continue
            tried.add(key)
            right = sum(_makes(replace(recipe, weights=w), log) for w, log in logs)
            if right >= _MOST * len(logs):
                return recipe
    return None


def _makes(recipe: Recipe, log: Tensors) -> bool:
    """Return whether a recipe makes every logged advantage of a batch, given as tensors."""
    comparison = compare(log, recipe)
    return not bool((comparison.error > comparison.allowed).any())
