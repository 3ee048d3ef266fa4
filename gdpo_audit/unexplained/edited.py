"""Explanations of logged advantages that leave the rows of a log as they are: clipped advantages, groups of which rows
are missing, and weights that depend on a column.

Each is looked for where the numbers speak for it, and counts if a known method makes all that is left to compare.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from gdpo_audit.logs.files.trying import attempt
from gdpo_audit.logs.groups.run import Run, batches_from_all_over
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.logs.numbers.edits import VALUES, Centred, Clipped, Edit, Once, Split, Whole, adds_up
from gdpo_audit.recipe.recipe import Recipe, compare, tensors_of
from gdpo_audit.recipe.solve import same_weights, solve_weights
from gdpo_audit.records import LogIssue
from gdpo_audit.unexplained.readings import JUDGED_RESPONSES

_EQUAL = 5  # the fewest advantages on a bound: fewer equal extremes are chance
_SIZES = 20  # the fewest different advantages of which equal extremes say something
_CLIPPED = 0.5  # the largest share of the advantages that may lie on the bounds
_OFF = 0.01  # the share of the groups from which on those whose advantages do not add up to 0 need a reason
_LEAST = 8  # the fewest groups that show what is usual
_WHOLE = 1 / 3  # the smallest share of whole groups that prove a method which divides by a std
_INSIDE = 0.95  # the share of the groups whose mean has to be one that responses can have
# A group's factor of this many times the usual one is no std of rewards: it comes from a division by round-off.
_ROUND_OFF = 1000
_NEAR = 1e-4  # relative: numbers that are nearer are equal
_FEW = 8  # the most values of a column on which weights may depend
_COLUMNS = 4  # the most such columns that are tried

_Reading = tuple[Run, list[pl.DataFrame], Recipe]
_Solve = Callable[[Run, list[pl.DataFrame]], Recipe | None]


def edits_of(run: Run, sample: Sequence[pl.DataFrame], solve: _Solve) -> Iterator[_Reading]:
    """Yield the readings of a run with other advantages or batches in which a known method makes all advantages.

    A reading is the run so read, with an issue that tells of it, the sample so read, and the recipe.

    sample: tables of the run.
    solve: returns the recipe that makes every advantage of a sample of a run, or None.
    """
    for kind in (_clipped, _written_again, _incomplete, _by_column):
        with attempt():
            yield from kind(run, sample, solve)


def edited_reading(run: Run, sample: Sequence[pl.DataFrame], solve: _Solve) -> _Reading | None:
    """Return the reading of a run in which advantages were clipped, or in which groups lack rows, as `edits_of` yields
    it; None if there is none.
    """
    for kind in (_clipped, _written_again, _incomplete):
        with attempt():
            if (reading := next(kind(run, sample, solve), None)) is not None:
                return reading
    return None


def _edited(run: Run, edit: Edit, issue: LogIssue) -> Run:
    """Return the run with one more edit, and with the issue that tells of it."""
    return replace(run, _edits=(*run._edits, edit), issues=(*run.issues, issue))


def _advantages(sample: Sequence[pl.DataFrame]) -> np.ndarray:
    """Return the advantages that a sample holds, without missing ones."""
    a = pl.concat([table.select("advantage") for table in sample])["advantage"].fill_null(float("nan")).to_numpy()
    return a[np.isfinite(a)]


# --- clipped ---------------------------------------------------------------------------------------------------------


def _clipped(run: Run, sample: Sequence[pl.DataFrame], solve: _Solve) -> Iterator[_Reading]:
    """Yield the reading in which advantages were clipped: those on a bound are not compared, but have to be beyond it
    under the recipe. Arguments as in `edits_of`.
    """
    a = _advantages(sample)
    if len(np.unique(a)) < _SIZES:
        return
    low, high = float(a.min()), float(a.max())
    low = low if (a == low).sum() >= _EQUAL else -np.inf
    high = high if (a == high).sum() >= _EQUAL else np.inf
    bounds = [(low, high), *([(low, np.inf), (-np.inf, high)] if np.isfinite(low) and np.isfinite(high) else [])]
    for edit in (Clipped(*pair) for pair in bounds if np.isfinite(pair).any()):
        if ((a <= edit.low) | (a >= edit.high)).mean() > _CLIPPED:
            continue
        tables = [edit(table) for table in sample]
        recipe = solve(run, tables)
        if recipe is not None and _beyond(sample, run.rewards, recipe, edit):
            rows, count = _counted(run, edit)
            bound = {"low": edit.low, "high": edit.high}
            yield _edited(run, edit, LogIssue("clipped", bound | {"rows": rows, "of": count})), tables, recipe


def _beyond(sample: Sequence[pl.DataFrame], rewards: Sequence[str], recipe: Recipe, edit: Clipped) -> bool:
    """Return whether a recipe makes of every clipped advantage a number on its bound or beyond it, and of some of them
    one beyond it.

    sample: tables with the advantages as logged.
    """
    beyond = 0
    for log in (tensors_of(table, rewards) for table in sample):
        made = compare(log, recipe)
        for at, over in (
            (log.advantages >= edit.high, made.computed - edit.high),
            (log.advantages <= edit.low, edit.low - made.computed),
        ):
            if bool((over[at] < -made.allowed[at]).any()):
                return False
            beyond += int((over[at] > made.allowed[at]).sum())
    return beyond > 0


def _counted(run: Run, edit: Clipped) -> tuple[int, int]:
    """Return how many advantages of a run were clipped, and how many it has."""
    there = pl.col("advantage").is_not_nan().fill_null(False)
    bound = (pl.col("advantage") <= edit.low) | (pl.col("advantage") >= edit.high)
    sums = [table.select((bound & there).sum().alias("some"), there.sum().alias("all")) for table in run.tables()]
    some, count = pl.concat(sums).sum().row(0)
    return int(some), int(count)


# --- rows that were written again ------------------------------------------------------------------------------------


def _written_again(run: Run, sample: Sequence[pl.DataFrame], solve: _Solve) -> Iterator[_Reading]:
    """Yield the reading in which some groups hold rows twice, as where a writer tried again. Arguments as in
    `edits_of`.

    Such groups are larger than the others, and all groups add up to 0 once the rows count once.
    """
    off, live = _groups(sample)
    if not off or live - off < _LEAST:
        return
    edit = Once(_usual_size(sample))
    tables = [edit(table) for table in sample]
    recipe = solve(run, tables) if not _groups(tables)[0] else None
    if recipe is not None:
        counts = [(len(table), len(edit(table))) for table in run.tables()]
        rows, kept = (sum(column) for column in zip(*counts, strict=True))
        yield _edited(run, edit, LogIssue("rows-again", {"rows": rows - kept, "of": rows})), tables, recipe


# --- groups of which rows are missing --------------------------------------------------------------------------------


def _incomplete(run: Run, sample: Sequence[pl.DataFrame], solve: _Solve) -> Iterator[_Reading]:
    """Yield the reading in which the log does not hold all rows over which the mean of a group was taken, nor its std.
    Arguments as in `edits_of`.

    The advantages are then the score less a number of each group, which is not the mean of its logged rows, and perhaps
    times another number of the group. A method is proved by the groups that are whole. Where there are too few of them,
    the groups that lack rows show the weights up to a factor: that of leave-one-out depends on the rows that there
    were.
    """
    off, live = _groups(sample)
    if off <= _OFF * live or live < _LEAST:
        return
    whole = [Whole(size) for size in (_usual_size(sample), None)] if live - off >= _LEAST else []
    edits: list[Edit] = [*whole, Centred()]
    for edit in edits:
        tables = [edit(table) for table in sample]
        recipe = solve(run, tables)
        if recipe is None or not _explains_the_rest(sample, run.rewards, recipe, edit, (live - off) / live):
            continue
        recipe = replace(recipe, up_to_scale=True) if isinstance(edit, Centred) else recipe
        counts = [_groups([table]) for table in run.tables()]
        details = {"groups": sum(x for x, _ in counts), "of": sum(x for _, x in counts), "whole": edit != Centred()}
        details["divided"] = recipe.method == "grpo"
        yield _edited(run, edit, LogIssue("groups-incomplete", details)), tables, recipe
        return


def _usual_size(sample: Sequence[pl.DataFrame]) -> int:
    """Return the size that most groups have in which the advantages add up to 0, and not all are 0."""
    live = (pl.col("advantage").fill_nan(None).abs().max().over("group") > 0).fill_null(False)
    whole = pl.concat([table.filter(adds_up() & live).select("group") for table in sample])
    return int(max(whole.group_by("group").len()["len"].mode().to_list(), default=0))


def _explains_the_rest(
    sample: Sequence[pl.DataFrame], rewards: Sequence[str], recipe: Recipe, edit: Edit, whole: float
) -> bool:
    """Return whether the recipe of advantages after an edit also explains those of the groups that lack rows.

    In all groups the advantages have to follow the weighted sum of the rewards. If the method divides by nothing, they
    are one multiple of that sum, less what may be a mean. A method that divides by a std needs more whole groups.

    edit: `Centred`, or the one that leaves out the groups that lack rows.
    whole: the share of the groups that are whole.
    """
    if isinstance(edit, Centred):
        return recipe.method == "grpo_no_std" and _has_means(sample, rewards, recipe)
    factors = _factors(sample, rewards, recipe)
    if factors is None or recipe.method not in ("grpo", "grpo_no_std"):
        return False
    if recipe.method == "grpo_no_std" and float(np.ptp(factors)) <= _NEAR * float(factors.max()):
        scaled = replace(recipe, weights=tuple(w * float(np.median(factors)) for w in recipe.weights))
        return _has_means(sample, rewards, scaled)
    return whole >= _WHOLE


def _groups(sample: Sequence[pl.DataFrame]) -> tuple[int, int]:
    """Return in how many groups of some tables the advantages do not add up to 0, and how many groups have an advantage
    other than 0.
    """
    off = live = 0
    for table in sample:
        moved = (pl.col("advantage").fill_nan(None).abs().max().over("group") > 0).fill_null(False)
        firsts = table.with_columns(off=~adds_up() & moved, live=moved).unique("group", keep="first")
        off, live = off + int(firsts["off"].sum()), live + int(firsts["live"].sum())
    return off, live


def _scores(table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe) -> pl.DataFrame:
    """Return batch and group of a table's rows, the advantages as `a`, and the weighted sums of the rewards as `s`."""
    terms = [pl.col(name) * w for name, w in zip(reward_columns(rewards), recipe.weights, strict=True)]
    a = pl.col("advantage").fill_nan(None).alias("a")
    return table.select("batch", "group", a, pl.sum_horizontal(terms).alias("s")).drop_nulls()


def _has_means(sample: Sequence[pl.DataFrame], rewards: Sequence[str], recipe: Recipe) -> bool:
    """Return whether what was subtracted from the weighted sums may be the mean of each group.

    It may not if it is the same in all groups of a batch, as a baseline is, or if it lies outside of all sums.
    """
    rows = pl.concat([_scores(table, rewards, recipe) for table in sample])
    means = rows.group_by("batch", "group").agg((pl.col("s") - pl.col("a")).mean().alias("mean"))
    s, mean = rows["s"].to_numpy(), means["mean"].to_numpy()
    near = _NEAR * max(float(np.abs(s).max()), 1e-300)
    inside = (mean >= s.min() - near) & (mean <= s.max() + near)
    ranges = means.group_by("batch").agg((pl.col("mean").max() - pl.col("mean").min()).alias("range"), pl.len())
    varies = ranges.filter(pl.col("len") > 1)["range"].to_numpy() > near
    return bool(inside.mean() >= _INSIDE) and bool(varies.any()) and bool(varies.mean() > 1 - _INSIDE)


def _factors(sample: Sequence[pl.DataFrame], rewards: Sequence[str], recipe: Recipe) -> np.ndarray | None:
    """Return by which positive number the weighted sum of the rewards was multiplied in each group to give the
    advantages, besides a number that was subtracted; None if that is not so in every group, and where a factor is so
    large that it can only come from a division by round-off.
    """
    rows = pl.concat([_scores(table, rewards, recipe) for table in sample])
    centred = rows.with_columns((pl.col(x) - pl.col(x).mean().over("group")).alias(x) for x in ("a", "s"))
    by = centred.with_columns(factor=pl.col("a").dot("s").over("group") / pl.col("s").dot("s").over("group"))
    by = by.filter(pl.col("factor").is_finite())
    a, made, factor = (by[name].to_numpy() for name in ("a", "s", "factor"))
    near = np.abs(a - factor * made) <= _NEAR * (1 + np.abs(a))
    if not len(by) or not near.all() or not (factor > 0).all() or factor.max() > _ROUND_OFF * np.median(factor):
        return None
    return factor


# --- weights that depend on a column ---------------------------------------------------------------------------------


def _by_column(run: Run, sample: Sequence[pl.DataFrame], solve: _Solve) -> Iterator[_Reading]:
    """Yield the reading in which the weights depend on the value of a column, such as the turn. Arguments as in
    `edits_of`.

    Each batch is then split by this column. The values have one method, and weights that are not all alike.
    """
    for name in _columns_of_few(run):
        with attempt():
            assert run._read_with is not None, "a run that was read can be read again"
            reread = run if run.by == name else run._read_with(by=name)
            kept = {"issues": run.issues, "total_only": run.total_only, "by_default": True, "_edits": run._edits}
            reread = replace(reread, **kept)  # type: ignore[arg-type]
            tables = batches_from_all_over(reread.sample, JUDGED_RESPONSES)
            values = pl.concat([table.select("_by", "group") for table in tables]).unique()
            names = values["_by"].unique().sort().to_list()
            if None in names or not 2 <= len(names) <= _FEW or len(values) != values["group"].n_unique():
                continue
            split = Split(tuple(names))
            tables = [split(table) for table in tables]
            by_value = _recipes_by_value(reread, tables, names, solve)
            if by_value is not None:
                issue = LogIssue("weights-by-column", {"column": name, "recipes": by_value, "rewards": reread.rewards})
                yield _edited(reread, split, issue), tables, by_value[names[0]]


def _columns_of_few(run: Run) -> list[str]:
    """Return the columns on which weights may depend: those with few values, which vary inside batches."""
    assert run._source.clues is not None, "a run that was read has clues"
    if run._read_with is None or (run.by is not None and not run.by_default):
        return [run.by] if run.by is not None else []
    clues = run._source.clues()
    names = []
    for name, key in clues.keys.items():
        values = np.unique(key, return_inverse=True)[1]
        batches = np.unique(clues.batch, return_inverse=True)[1]
        pairs = len(np.unique(np.stack([batches, values]), axis=1).T)
        if 2 <= values.max() + 1 <= _FEW and pairs >= 1.5 * (batches.max() + 1) and name not in run.rewards:
            names.append(name)
    return names[:_COLUMNS]


def _recipes_by_value(
    run: Run, tables: Sequence[pl.DataFrame], values: Sequence[str], solve: _Solve
) -> dict[str, Recipe] | None:
    """Return the recipe of the rows with each value of the column `by`, all of one method and convention; None if some
    value has none, or if all have the same weights.

    tables: tables of the run.
    values: the values of the column.
    solve: as in `edits_of`.
    """
    by_itself = {value: [table.filter(pl.col("_by") == value) for table in tables] for value in values}
    by_itself = {value: [table for table in some if len(table)] for value, some in by_itself.items()}
    # What the most rows do not show, fewer rows show by chance alone, and each search takes its time.
    most = max(values, key=lambda value: sum(map(len, by_itself[value])))
    alone = {most: solve(run, by_itself[most])}
    for start in values if alone[most] is not None else ():
        like = alone[start] if start in alone else solve(run, by_itself[start])
        if like is None:
            continue
        by_value = {value: like if value == start else _like(run, by_itself[value], like, solve) for value in values}
        recipes = {value: recipe for value, recipe in by_value.items() if recipe is not None}
        if len(recipes) == len(values):
            return None if all(same_weights(like, recipe) for recipe in recipes.values()) else recipes
    return None


def _like(run: Run, tables: list[pl.DataFrame], like: Recipe, solve: _Solve) -> Recipe | None:
    """Return the recipe of some tables with the method and the convention of another recipe; None if there is none."""
    recipe = solve_weights(tables, run.rewards, like)
    if recipe is None:
        recipe = solve(run, tables)
    same = recipe is not None and (recipe.method, recipe.convention) == (like.method, like.convention)
    return recipe if same else None


def recipes_of_column(run: Run) -> dict[int, Recipe]:
    """Return the recipe of each batch by its number, if the weights depend on a column by which batches were split; {}
    otherwise.
    """
    issue = next((issue for issue in run.issues if issue.id == "weights-by-column"), None)
    if issue is None:
        return {}
    recipes: list[Recipe] = [*issue.details["recipes"].values()]
    batches = pl.concat([table.select("batch").unique() for table in run.tables()])["batch"].to_list()
    return {batch: recipes[min(batch % VALUES, len(recipes) - 1)] for batch in sorted(batches)}
