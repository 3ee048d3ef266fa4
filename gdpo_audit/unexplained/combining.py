"""A search for another way to read a log whose logged advantages no method makes: by single explanations at first, and
then by several together.

An explanation changes how the log is read (`readings.py`), or what is compared of its advantages (`edited.py`). A
combination counts if a known method makes all advantages of a sample that is read so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import polars as pl

from gdpo_audit.logs.files.trying import Search, attempt
from gdpo_audit.logs.groups.grouping import regrouped
from gdpo_audit.logs.groups.run import Run, batches_from_all_over
from gdpo_audit.logs.numbers.clues import groupings_of, masks_of
from gdpo_audit.recipe.recipe import Recipe
from gdpo_audit.records import Clues, Mask
from gdpo_audit.unexplained.edited import edits_of
from gdpo_audit.unexplained.readings import (
    DOING,
    JUDGED_RESPONSES,
    clocks,
    in_steps_of,
    masked,
    not_read,
    of_total_alone,
    said_of_zeros,
    with_one_more,
    without_masked_rows,
)

TOGETHER = 3  # the most explanations that are tried together
# The kinds of explanations, in the order in which they are applied, and what trying one costs; the cheapest come first.
_COST = {"steps": 1, "groups": 1, "mask": 1, "reward": 3, "total": 1}

_Reading = tuple[Run, list[pl.DataFrame], Recipe]  # a run, a sample of it, and the recipe of the sample's advantages
_Solve = Callable[[Run, list[pl.DataFrame]], Recipe | None]  # returns the recipe that makes all advantages of a sample


@dataclass(frozen=True)
class _Explanation:
    """One way in which a log may be meant other than it was read.

    kind: a key of `_COST`; no two of one kind go together.
    cost: how late it is tried.
    read: returns a run read in this way; the last of its issues tells of it.
    """

    kind: str
    cost: int
    read: Callable[[Run], Run]


def another_reading(run: Run, solve: _Solve, search: Search) -> _Reading | None:
    """Read the log of a run in another way, such that a known method makes all advantages of a sample. Return the run
    so read, the sample, and the recipe of the sample's advantages.

    A reading with several rewards does not count if its recipe shows none of their weights. None if no reading counts,
    if no advantage among the log's first rows differs from 0, or if the log cannot be read again.

    solve: a function of a run and a sample of it, which returns the recipe that makes every advantage there, or None.
    search: bounds the time; its member `cut` says afterwards whether some readings were not tried.
    """
    clues = _clues(run)
    if clues is None:
        return None
    for explanation in search.among(_explanations(run, clues), DOING):
        if (reading := _tried(run, (explanation,), clues, solve)) is not None:
            return reading
    return None


def masked_reading(run: Run, solve: _Solve, search: Search) -> _Reading | None:
    """Read the log of a run without the rows that a column, or a missing advantage, tells from those of the training,
    as `another_reading` does.

    search: bounds the time, as for `another_reading`.
    """
    clues = _clues(run)
    if clues is None:
        return None
    readings = (_tried(run, (way,), clues, solve) for way in search.among(_by_a_mask(clues), DOING))
    return next((reading for reading in readings if reading is not None), None)


def edited_in_other_groups(run: Run, solve: _Solve, search: Search) -> _Reading | None:
    """Read the log of a run in other groups, and with edits of what is compared, as `another_reading` does without.

    search: bounds the time, as for `another_reading`.
    """
    clues = _clues(run)
    if clues is None:
        return None
    ways = (way for way in _explanations(run, clues) if way.kind == "groups")
    readings = (_tried_with_edits(run, (way,), clues, solve) for way in search.among(ways, DOING))
    return next((reading for reading in readings if reading is not None), None)


def combined_reading(run: Run, solve: _Solve, search: Search) -> _Reading | None:
    """Read the log of a run in several other ways at once, as `another_reading` does in one, or with edits of what is
    compared.

    search: bounds the time, as for `another_reading`.
    """
    clues = _clues(run)
    if clues is None:
        return None
    for together in search.among(_products(list(_explanations(run, clues))), DOING):
        if (reading := _tried_with_edits(run, together, clues, solve)) is not None:
            return reading
    return None


def _clues(run: Run) -> Clues | None:
    """Return the clues to how a log may be meant; None if they hold no advantage other than 0, or if the log cannot be
    read again.
    """
    if run._read_with is None or run._source.clues is None:
        return None
    clues = run._source.clues()
    return clues if len(clues.advantage) and clues.advantage.any() else None


def _explanations(run: Run, clues: Clues) -> Iterator[_Explanation]:
    """Yield the explanations that the clues leave open, the likeliest first.

    clues: some rows of the log, with columns that may tell groups apart, and columns that may be masks.
    """
    for name in clocks(run):
        yield _Explanation("steps", 1, partial(in_steps_of, name=name))
    yield from _by_a_mask(clues)
    for grouping in groupings_of(clues):
        yield _Explanation("groups", 1, partial(regrouped, grouping=grouping, before=run.grouped_by))
    for counts in (False, True):
        yield _Explanation("mask", 2, partial(without_masked_rows, mask=Mask(None, 0.0, counts), clues=clues))
    if run.total is not None and run.total not in run.rewards:
        near = next((issue.details for issue in run.issues if issue.id == "score-not-a-sum"), {})
        explained = 1 - near.get("missing", 1.0)
        yield _Explanation("total", 1, partial(of_total_alone, total=run.total, parts=run.rewards, explained=explained))
    for name in () if run.rewards_named else not_read(run):
        yield _Explanation("reward", 3, partial(with_one_more, name=name))


def _by_a_mask(clues: Clues) -> Iterator[_Explanation]:
    """Yield the explanations by rows without an advantage, or whose advantages are 0, which a column tells from others.

    Rows without an advantage may also be told by that alone. These explanations come before other groups: a column that
    tells such rows cuts them off as groups of their own, whose advantages of 0 add up to 0 whatever they are.
    """
    if clues.unjudged is not None:
        read = masked if clues.unjudged.column else without_masked_rows
        yield _Explanation("mask", 1, partial(read, mask=clues.unjudged, clues=clues))
    for column, value in masks_of(clues):
        for counts in (False, True):
            yield _Explanation("mask", 1, partial(masked, mask=Mask(column, value, counts), clues=clues))


def _products(alone: list[_Explanation]) -> list[tuple[_Explanation, ...]]:
    """Return the combinations of explanations of different kinds, from none to `TOGETHER`, the cheapest first."""
    several = [()] + [
        product
        for number in range(1, TOGETHER + 1)
        for product in combinations(alone, number)
        if len({explanation.kind for explanation in product}) == number
        and not {"reward", "total"} <= {explanation.kind for explanation in product}
    ]
    return sorted(several, key=lambda product: sum(1 + explanation.cost for explanation in product))


def _read(run: Run, together: tuple[_Explanation, ...]) -> Run:
    """Return the run read in several ways at once, with the issues that tell of each.

    together: the ways, in any order; they are applied in the order of `_COST`.
    """
    told, reread = [], run
    for explanation in sorted(together, key=lambda explanation: [*_COST].index(explanation.kind)):
        reread = explanation.read(reread)
        told.append(reread.issues[-1])
    issues = [issue for issue in reread.issues if issue not in told]
    return replace(reread, issues=(*issues, *told))


def _tried(run: Run, together: tuple[_Explanation, ...], clues: Clues, solve: _Solve) -> _Reading | None:
    """Return the reading under some explanations, if a recipe makes all advantages of its sample; otherwise None."""
    with attempt():
        reread = _read(run, together)
        sample = batches_from_all_over(reread.sample, JUDGED_RESPONSES)
        recipe = solve(reread, sample)
        if _shows(recipe, reread):
            assert recipe is not None, "it shows something"
            return said_of_zeros(reread, clues, sample, recipe), sample, recipe
    return None


def _tried_with_edits(run: Run, together: tuple[_Explanation, ...], clues: Clues, solve: _Solve) -> _Reading | None:
    """Return the reading under some explanations, alone or with one more that edits the advantages, as `_tried` does.

    Explanations that were tried alone are not tried so again.
    """
    if len(together) > 1 and (reading := _tried(run, together, clues, solve)) is not None:
        return reading
    if len(together) >= TOGETHER:
        return None
    with attempt():
        reread = _read(run, together)
        sample = batches_from_all_over(reread.sample, JUDGED_RESPONSES)
        for edited, tables, recipe in edits_of(reread, sample, solve):
            if _shows(recipe, edited):
                return said_of_zeros(edited, clues, tables, recipe), tables, recipe
    return None


def _shows(recipe: Recipe | None, run: Run) -> bool:
    """Return whether a recipe was found that shows some weight, if the run has several rewards."""
    return recipe is not None and len(recipe.unknown) < max(len(run.rewards), 2)
